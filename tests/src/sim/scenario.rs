//! What a scenario brings to the mesh.

use super::Mesh;
use tallymesh_core::{Error, Input, Link, Output, WriterId};

/// What a replica was just handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A frame of this type.
    Frame(u8),
    /// What its own client did.
    Changed,
    /// Anything else.
    Other,
}

/// Clients, an oracle, and faults of its own. Each function is handed the whole mesh, of which the scenario
/// is the field `own`.
pub trait Scenario: Sized {
    /// What it does at times of its own choice.
    type Event;
    /// What it knows of a replica's state. It is kept with each record of the replica's disk, and comes back
    /// with it.
    type Seen: Clone + Default;

    /// Whether disks may also be empty, or a copy of another's: in a space with members, no two may go on from
    /// one disk.
    const ANY_DISK: bool = false;

    /// Something of its own is due.
    ///
    /// # Errors
    /// Says what went wrong, as all functions here.
    fn event(mesh: &mut Mesh<Self>, event: Self::Event) -> Result<(), String>;

    /// A replica is about to be handed something.
    fn before(mesh: &mut Mesh<Self>, at: usize, cause: Cause) {
        let _ = (mesh, at, cause);
    }

    /// A replica handled something, and nobody has heard of that yet: the place to check reads.
    #[allow(clippy::missing_errors_doc)]
    fn handled(mesh: &mut Mesh<Self>, at: usize, cause: Cause) -> Result<(), String> {
        let _ = (mesh, at, cause);
        Ok(())
    }

    /// Something may have changed at a replica that somebody waits for: the place to serve clients.
    #[allow(clippy::missing_errors_doc)]
    fn look(mesh: &mut Mesh<Self>, at: usize) -> Result<(), String> {
        let _ = (mesh, at);
        Ok(())
    }

    /// What changed at a replica is about to be written to its disk, and said to others after that: the place to
    /// check what all may see. Tells what it knows of the replica.
    #[allow(clippy::missing_errors_doc)]
    fn written(mesh: &mut Mesh<Self>, at: usize) -> Result<Self::Seen, String> {
        let _ = (mesh, at);
        Ok(Self::Seen::default())
    }

    /// A process begins: nothing is taken back from its disk yet.
    fn begins(mesh: &mut Mesh<Self>, at: usize) {
        let _ = (mesh, at);
    }

    /// A process begins again, and has taken back a record of its disk.
    #[allow(clippy::missing_errors_doc)]
    fn restored(mesh: &mut Mesh<Self>, at: usize, seen: &Self::Seen) -> Result<(), String> {
        let _ = (mesh, at, seen);
        Ok(())
    }

    /// Whether the disk of a replica may be put back: what most members held must not be lost with it.
    fn may_put_back(mesh: &mut Mesh<Self>, at: usize) -> bool {
        mesh.may_lose(at)
    }

    /// The disk of a process that has ended is not what it was.
    fn put_back(mesh: &mut Mesh<Self>, at: usize) {
        let _ = (mesh, at);
    }

    /// Whether a process may be ended, to begin again.
    fn may_restart(mesh: &Mesh<Self>, at: usize) -> bool {
        let _ = (mesh, at);
        true
    }

    /// A process has begun.
    #[allow(clippy::missing_errors_doc)]
    fn started(mesh: &mut Mesh<Self>, at: usize) -> Result<(), String> {
        let _ = (mesh, at);
        Ok(())
    }

    /// A process has ended without a word.
    fn ended(mesh: &mut Mesh<Self>, at: usize) {
        let _ = (mesh, at);
    }

    /// A replica writes under this id from now on.
    #[allow(clippy::missing_errors_doc)]
    fn writes_as(
        mesh: &mut Mesh<Self>,
        at: usize,
        writer: WriterId,
        nonce: [u8; 16],
    ) -> Result<(), String> {
        let _ = (mesh, at, writer, nonce);
        Ok(())
    }

    /// What a replica is told of a link that opens.
    fn opens(mesh: &Mesh<Self>, link: Link, at: usize, other: usize) -> Input<'static> {
        let _ = (mesh, at, other);
        let broadcast = false;
        Input::Connected { link, broadcast }
    }

    /// Whether a frame is sent at all.
    #[allow(clippy::missing_errors_doc)]
    fn sends(mesh: &mut Mesh<Self>, from: usize, bytes: &[u8]) -> Result<bool, String> {
        let _ = (mesh, from, bytes);
        Ok(true)
    }

    /// A replica says something else than that a frame is to be sent.
    #[allow(clippy::missing_errors_doc)]
    fn output(mesh: &mut Mesh<Self>, at: usize, output: &Output) -> Result<(), String> {
        let _ = (mesh, at, output);
        Ok(())
    }

    /// A replica refuses something. Nothing may be refused, but for hellos that datagrams lose or repeat, of
    /// which the scenario is not told.
    #[allow(clippy::missing_errors_doc)]
    fn refused(mesh: &mut Mesh<Self>, at: usize, error: &Error) -> Result<(), String> {
        let _ = mesh;
        Err(format!("{at} refuses: {error}"))
    }

    /// A fault of its own, beside those that befall each mesh.
    #[allow(clippy::missing_errors_doc)]
    fn fault(mesh: &mut Mesh<Self>) -> Result<(), String> {
        let _ = mesh;
        Ok(())
    }
}

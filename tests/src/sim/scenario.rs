//! The interface of a scenario to the mesh.

use super::Mesh;
use tallymesh_core::{Error, Input, Link, Output, WriterId};

/// The kind of input that a replica has handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A frame of this type.
    Frame(u8),
    /// A change by its own client.
    Changed,
    /// Anything else.
    Other,
}

/// Clients, an oracle, and faults of its own. Each function receives the whole mesh, and the scenario is its
/// field `own`.
pub trait Scenario: Sized {
    /// An event that the scenario schedules.
    type Event;
    /// The scenario's view of a replica's state. It is stored with each record of the replica's disk, and
    /// restored with it.
    type Seen: Clone + Default;

    /// Whether disks may also be empty, or a copy of another one's. In a space with members, no two replicas
    /// may go on from one disk.
    const ANY_DISK: bool = false;

    /// An event of the scenario is due.
    ///
    /// # Errors
    /// The failure, as text, as in all functions here.
    fn event(mesh: &mut Mesh<Self>, event: Self::Event) -> Result<(), String>;

    /// A replica is about to handle an input.
    fn before(mesh: &mut Mesh<Self>, at: usize, cause: Cause) {
        let _ = (mesh, at, cause);
    }

    /// A replica has handled an input, and has sent nothing of it yet. Scenarios check reads here.
    #[allow(clippy::missing_errors_doc)]
    fn handled(mesh: &mut Mesh<Self>, at: usize, cause: Cause) -> Result<(), String> {
        let _ = (mesh, at, cause);
        Ok(())
    }

    /// Something may have changed at a replica for which a client waits. Scenarios serve clients here.
    #[allow(clippy::missing_errors_doc)]
    fn look(mesh: &mut Mesh<Self>, at: usize) -> Result<(), String> {
        let _ = (mesh, at);
        Ok(())
    }

    /// The changes of a replica are about to be written to its disk, and sent to others after that. Scenarios
    /// check here what all replicas may see. Returns the scenario's view of the replica.
    #[allow(clippy::missing_errors_doc)]
    fn written(mesh: &mut Mesh<Self>, at: usize) -> Result<Self::Seen, String> {
        let _ = (mesh, at);
        Ok(Self::Seen::default())
    }

    /// A process starts, and has restored nothing from its disk yet.
    fn begins(mesh: &mut Mesh<Self>, at: usize) {
        let _ = (mesh, at);
    }

    /// A process starts again, and has restored a record of its disk.
    #[allow(clippy::missing_errors_doc)]
    fn restored(mesh: &mut Mesh<Self>, at: usize, seen: &Self::Seen) -> Result<(), String> {
        let _ = (mesh, at, seen);
        Ok(())
    }

    /// Whether the disk of a replica may be put back. It must not lose changes that most members had.
    fn may_put_back(mesh: &mut Mesh<Self>, at: usize) -> bool {
        mesh.may_lose(at)
    }

    /// The disk of a process that has ended was changed.
    fn put_back(mesh: &mut Mesh<Self>, at: usize) {
        let _ = (mesh, at);
    }

    /// Whether a process may be ended and started again.
    fn may_restart(mesh: &Mesh<Self>, at: usize) -> bool {
        let _ = (mesh, at);
        true
    }

    /// A process has started.
    #[allow(clippy::missing_errors_doc)]
    fn started(mesh: &mut Mesh<Self>, at: usize) -> Result<(), String> {
        let _ = (mesh, at);
        Ok(())
    }

    /// A process has ended without notice.
    fn ended(mesh: &mut Mesh<Self>, at: usize) {
        let _ = (mesh, at);
    }

    /// A replica writes under this writer id from now on.
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

    /// The input with which a replica opens a link.
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

    /// A replica has an output other than a frame to send.
    #[allow(clippy::missing_errors_doc)]
    fn output(mesh: &mut Mesh<Self>, at: usize, output: &Output) -> Result<(), String> {
        let _ = (mesh, at, output);
        Ok(())
    }

    /// A replica rejects an input. This is a failure by default. The mesh does not report hellos that
    /// datagrams lose or repeat.
    #[allow(clippy::missing_errors_doc)]
    fn refused(mesh: &mut Mesh<Self>, at: usize, error: &Error) -> Result<(), String> {
        let _ = mesh;
        Err(format!("{at} refuses: {error}"))
    }

    /// A fault of the scenario, beside those of each mesh.
    #[allow(clippy::missing_errors_doc)]
    fn fault(mesh: &mut Mesh<Self>) -> Result<(), String> {
        let _ = mesh;
        Ok(())
    }
}

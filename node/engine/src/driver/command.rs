//! Everything that the driver's queue carries: requests, the events of links, and control.
//!
//! A request is work on one space, and a method of [`Handle`](crate::driver::Handle) makes it. Its
//! kind decides what the work may touch. The driver derives from the kind whether the work needs a
//! commit, and what a panic may leave behind:
//!
//! | kind | the work gets | a commit may follow | after a panic in the work |
//! |---|---|---|---|
//! | [`Read`](Command::Read) | `&OpenSpace` | no | this request ends |
//! | [`Wait`](Command::Wait) | [`VolatileState`] | no | this request ends |
//! | [`Write`](Command::Write) | `&mut OpenSpace` | yes | the node stops |
//!
//! So a write can't be made as a read: the compiler refuses that. A read that is made as a write
//! costs time, and loses nothing. [`Status`](Command::Status) and [`Links`](Command::Links) are
//! reads of all spaces and of none.

use super::contained::HalfChanged;
use super::space::VolatileState;
use super::{OpenSpace, Permit, Release, Secured};
use crate::driver::NewLink;
use crate::metrics::Metrics;
use std::sync::Arc;
use tallymesh_core::Link;
use tallymesh_node_ground::model::{LinkRow, Refusal, SpaceId, SpaceStatus};
use tokio::sync::oneshot;

/// An entry of the driver's queue.
pub(super) struct Queued {
    pub(super) command: Command,
    /// The ticket by which a client requests it. If the ticket is no longer valid, the driver does
    /// no work and sends no answer. The permit then has the reason.
    pub(super) permit: Option<Arc<Permit>>,
}

impl From<Command> for Queued {
    /// Work that needs no ticket.
    fn from(command: Command) -> Queued {
        let permit = None;
        Queued { command, permit }
    }
}

/// One piece of work for the driver.
pub(super) enum Command {
    /// Reads a space.
    Read {
        space: SpaceId,
        work: Box<dyn ReadWork>,
        /// Whether it reads each counter or writer of the space, which takes a tenth of a second if
        /// there are many.
        is_long: bool,
    },
    /// Changes nothing that the store keeps: it waits for something in a space, or records a
    /// position.
    Wait { space: SpaceId, work: WaitWork },
    /// May change a space.
    Write { space: SpaceId, work: WriteWork },
    /// Reads the state of each open space.
    Status {
        reply: oneshot::Sender<Vec<SpaceStatus>>,
    },
    /// Lists the links.
    Links {
        reply: oneshot::Sender<Vec<LinkRow>>,
    },
    /// Lets this node take the place of the one from which its data folder was copied.
    Adopt {
        reply: oneshot::Sender<Result<bool, Refusal>>,
    },
    /// A client of a socket has completed its TLS handshake.
    Secured(Box<Secured>),
    /// A connection has begun.
    Connect(NewLink),
    /// A connection has ended.
    Disconnect { link: Link },
    /// Frames of a connection that goes on may have been lost.
    Compare { link: Link },
    /// A frame has arrived on a link.
    Frame { link: Link, bytes: Vec<u8> },
    /// A frame has arrived by broadcast.
    Broadcast { from: Option<Link>, bytes: Vec<u8> },
    /// The driver is to finish the queued work and stop.
    Stop,
}

/// Registers a wait or a position at a time, in milliseconds since the start. Returns the answer if
/// there is nothing to wait for.
pub(super) type WaitWork = Box<dyn FnOnce(VolatileState<'_>, u64) -> Option<Release> + Send>;

/// Writes. Returns the answer if there is nothing to wait for.
pub(super) type WriteWork =
    Box<dyn FnOnce(&mut OpenSpace, WriteContext<'_>) -> Option<Release> + Send>;

/// Everything beside the space that a write may need.
pub(super) struct WriteContext<'d> {
    /// The present time, in milliseconds since the start.
    pub(super) now: u64,
    pub(super) metrics: &'d Metrics,
    /// The valid ticket of the request, for a write that continues after a wait.
    pub(super) permit: Option<Arc<Permit>>,
}

/// The work of a read, and the client that waits for its answer.
pub(super) trait ReadWork: Send {
    /// Whether no client waits for the answer any more.
    fn is_abandoned(&self) -> bool;

    /// Reads the space at a time, in milliseconds since the start. Returns the answer.
    fn read(self: Box<Self>, space: &OpenSpace, now: u64) -> Release;
}

struct Reading<T, W> {
    reply: oneshot::Sender<T>,
    work: W,
}

impl<T, W> ReadWork for Reading<T, W>
where
    T: Send + 'static,
    W: FnOnce(&OpenSpace, u64) -> T + Send,
{
    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn read(self: Box<Self>, space: &OpenSpace, now: u64) -> Release {
        let Reading { reply, work } = *self;
        release(reply, work(space, now))
    }
}

/// Sends an answer, once its commit is durable.
pub(super) fn release<T: Send + 'static>(reply: oneshot::Sender<T>, answer: T) -> Release {
    Box::new(move || {
        // The client may have gone away meanwhile.
        let _ = reply.send(answer);
    })
}

impl Command {
    /// A request that only reads a space. `is_long` says whether it reads each counter or writer.
    pub(super) fn read<T: Send + 'static>(
        space: SpaceId,
        is_long: bool,
        reply: oneshot::Sender<T>,
        work: impl FnOnce(&OpenSpace, u64) -> T + Send + 'static,
    ) -> Command {
        Command::Read {
            space,
            work: Box::new(Reading { reply, work }),
            is_long,
        }
    }

    /// A request that may change a space, and whose answer waits for nothing but its commit.
    pub(super) fn write<T: Send + 'static>(
        space: SpaceId,
        reply: oneshot::Sender<T>,
        work: impl FnOnce(&mut OpenSpace, &WriteContext<'_>) -> T + Send + 'static,
    ) -> Command {
        Command::Write {
            space,
            work: Box::new(move |space, context| Some(release(reply, work(space, &context)))),
        }
    }

    /// Whether it takes long, so that the driver applies it after all shorter work.
    pub(super) fn is_long(&self) -> bool {
        matches!(self, Command::Read { is_long: true, .. })
    }

    /// Whether it only reads, and no client waits for its answer any more.
    pub(super) fn is_abandoned(&self) -> bool {
        matches!(self, Command::Read { work, .. } if work.is_abandoned())
    }

    /// The spaces that it may change. A panic may leave them half changed. If there are any, a
    /// commit has to follow.
    pub(super) fn may_change(&self) -> Option<HalfChanged> {
        match self {
            Command::Write { space, .. } => Some(HalfChanged::Space(*space)),
            // An adopted copy announces itself in each space. The sync machine of any space on a link may
            // change its replica.
            Command::Adopt { .. }
            | Command::Connect(_)
            | Command::Disconnect { .. }
            | Command::Compare { .. }
            | Command::Frame { .. }
            | Command::Broadcast { .. } => Some(HalfChanged::Any),
            Command::Read { .. }
            | Command::Wait { .. }
            | Command::Status { .. }
            | Command::Links { .. }
            | Command::Secured(_)
            | Command::Stop => None,
        }
    }
}

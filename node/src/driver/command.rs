//! Commands to the driver.

use super::{OpenSpace, Permit, Release, Request, Secured, Watch};
use crate::driver::NewLink;
use crate::identity::OwnerKey;
use crate::model::{
    AuditPage, BudgetPage, BudgetRow, ChangedPart, Counter, Keyed, LimitList, LinkRow,
    MemberChange, Membership, Operation, Page, PeriodRow, Position, Query, Refusal, Retiree,
    Retirement, SequencePage, SequenceRow, SpaceId, SpaceStatus, Sum, Transacted, Wanted,
    WriterRow,
};
use std::sync::Arc;
use tallymesh_core::{Link, Shard};
use tokio::sync::oneshot;

/// Reads a space, and returns the answer to send.
pub(super) type Look = Box<dyn FnOnce(&OpenSpace) -> Release + Send>;

/// A request to the driver. See the methods of [`Handle`](crate::driver::Handle) for what each does.
pub(crate) enum Command {
    Add {
        space: SpaceId,
        key: String,
        by: i64,
        reply: oneshot::Sender<Result<Counter, Refusal>>,
    },
    AddMany {
        space: SpaceId,
        sums: Vec<Sum>,
        reply: oneshot::Sender<Result<(), Refusal>>,
    },
    Transact {
        space: SpaceId,
        ops: Vec<Operation>,
        once: Option<Keyed>,
        reply: oneshot::Sender<Result<Transacted, Refusal>>,
    },
    /// A request with a demand, which says how far it has to reach.
    Demand {
        space: SpaceId,
        request: Request,
    },
    Read {
        space: SpaceId,
        key: String,
        reply: oneshot::Sender<Option<Counter>>,
    },
    ReadMany {
        space: SpaceId,
        keys: Vec<String>,
        reply: oneshot::Sender<Vec<Option<Counter>>>,
    },
    Shards {
        space: SpaceId,
        key: String,
        reply: oneshot::Sender<Option<Vec<Shard>>>,
    },
    List {
        space: SpaceId,
        query: Query,
        reply: oneshot::Sender<Page>,
    },
    /// Reads something from a space.
    Look {
        space: SpaceId,
        look: Look,
        /// Whether it reads each key of a kind.
        at_all: bool,
    },
    Audit {
        space: SpaceId,
        query: Query,
        reply: oneshot::Sender<AuditPage>,
    },
    Watch {
        space: SpaceId,
        wanted: Option<Wanted>,
        reply: oneshot::Sender<Watch>,
    },
    Position {
        space: SpaceId,
        reply: oneshot::Sender<Position>,
    },
    Changed {
        space: SpaceId,
        since: Position,
        from: u32,
        wanted: Wanted,
        reply: oneshot::Sender<Option<ChangedPart>>,
    },
    Writers {
        space: SpaceId,
        reply: oneshot::Sender<Vec<WriterRow>>,
    },
    Members {
        space: SpaceId,
        reply: oneshot::Sender<Membership>,
    },
    /// Whether an owner may decide on the rights of others in the space.
    Trusts {
        space: SpaceId,
        owner: OwnerKey,
        reply: oneshot::Sender<bool>,
    },
    Found {
        space: SpaceId,
        reply: oneshot::Sender<Result<Membership, Refusal>>,
    },
    ChangeMembers {
        space: SpaceId,
        change: MemberChange,
        again: bool,
        reply: oneshot::Sender<Result<Membership, Refusal>>,
    },
    ForceMembers {
        space: SpaceId,
        members: Vec<OwnerKey>,
        reply: oneshot::Sender<Result<Membership, Refusal>>,
    },
    Retire {
        space: SpaceId,
        who: Retiree,
        reply: oneshot::Sender<Result<Vec<Retirement>, Refusal>>,
    },
    Status {
        reply: oneshot::Sender<Vec<SpaceStatus>>,
    },
    Links {
        reply: oneshot::Sender<Vec<LinkRow>>,
    },
    /// Work that a client requests by a ticket. If the ticket is no longer valid, the driver does
    /// no work and sends no answer. The permit then has the reason.
    Permitted {
        permit: Arc<Permit>,
        command: Box<Command>,
    },
    /// A client of a socket has completed its TLS handshake.
    Secured(Box<Secured>),
    Connect(NewLink),
    Disconnect {
        link: Link,
    },
    Frame {
        link: Link,
        bytes: Vec<u8>,
    },
    Broadcast {
        from: Option<Link>,
        bytes: Vec<u8>,
    },
    Stop,
}

impl Command {
    fn look<T: Send + 'static>(
        space: SpaceId,
        reply: oneshot::Sender<T>,
        look: impl FnOnce(&OpenSpace) -> T + Send + 'static,
    ) -> Command {
        let look = Box::new(move |space: &OpenSpace| -> Release {
            // The client may have gone away, or may go while the answer waits.
            if reply.is_closed() {
                return Box::new(|| ());
            }
            let answer = look(space);
            Box::new(move || _ = reply.send(answer))
        });
        Command::Look {
            space,
            look,
            at_all: false,
        }
    }

    /// As [`look`](Command::look), for work that reads each key of a kind.
    fn look_at_all<T: Send + 'static>(
        space: SpaceId,
        reply: oneshot::Sender<T>,
        look: impl FnOnce(&OpenSpace) -> T + Send + 'static,
    ) -> Command {
        let mut command = Command::look(space, reply, look);
        if let Command::Look { at_all, .. } = &mut command {
            *at_all = true;
        }
        command
    }

    pub(crate) fn budget(
        space: SpaceId,
        key: String,
        reply: oneshot::Sender<Option<BudgetRow>>,
    ) -> Command {
        Command::look(space, reply, move |it| it.budget(&key))
    }

    pub(crate) fn budgets(
        space: SpaceId,
        query: Query,
        reply: oneshot::Sender<BudgetPage>,
    ) -> Command {
        Command::look_at_all(space, reply, move |it| it.budgets(&query))
    }

    pub(crate) fn sequence(
        space: SpaceId,
        key: String,
        reply: oneshot::Sender<Option<SequenceRow>>,
    ) -> Command {
        Command::look(space, reply, move |it| it.sequence(&key))
    }

    pub(crate) fn limits(space: SpaceId, reply: oneshot::Sender<LimitList>) -> Command {
        Command::look(space, reply, |it| it.limits())
    }

    pub(crate) fn period(
        space: SpaceId,
        key: String,
        reply: oneshot::Sender<Result<PeriodRow, Refusal>>,
    ) -> Command {
        Command::look(space, reply, move |it| it.period(&key))
    }

    pub(crate) fn sequences(
        space: SpaceId,
        query: Query,
        reply: oneshot::Sender<SequencePage>,
    ) -> Command {
        Command::look_at_all(space, reply, move |it| it.sequences(&query))
    }

    /// The work, and the ticket by which it is requested.
    pub(super) fn with_permit(self) -> (Command, Option<Arc<Permit>>) {
        match self {
            Command::Permitted { permit, command } => (*command, Some(permit)),
            command => (command, None),
        }
    }

    /// The space that it may change, if it is one space.
    pub(super) fn space(&self) -> Option<SpaceId> {
        match self {
            Command::Add { space, .. }
            | Command::AddMany { space, .. }
            | Command::Transact { space, .. }
            | Command::Demand { space, .. }
            | Command::Found { space, .. }
            | Command::ChangeMembers { space, .. }
            | Command::ForceMembers { space, .. }
            | Command::Retire { space, .. } => Some(*space),
            // Other commands change nothing, or change more than one space.
            _ => None,
        }
    }

    /// Whether it reads each counter or writer of a space, which takes a tenth of a second if there
    /// are many.
    pub(super) fn is_long(&self) -> bool {
        match self {
            Command::Permitted { command, .. } => command.is_long(),
            Command::Look { at_all, .. } => *at_all,
            Command::List { .. } | Command::Audit { .. } | Command::Writers { .. } => true,
            _ => false,
        }
    }

    /// Whether no client waits for the answer of a [long](Command::is_long) command any more. A
    /// look checks that itself.
    pub(super) fn is_abandoned(&self) -> bool {
        match self {
            Command::Permitted { command, .. } => command.is_abandoned(),
            Command::List { reply, .. } => reply.is_closed(),
            Command::Audit { reply, .. } => reply.is_closed(),
            Command::Writers { reply, .. } => reply.is_closed(),
            _ => false,
        }
    }

    /// Whether it may change what has to be stored.
    pub(super) fn may_change(&self) -> bool {
        !matches!(
            self,
            Command::Read { .. }
                | Command::ReadMany { .. }
                | Command::Demand {
                    request: Request::Reach { .. }
                        | Request::Check { .. }
                        | Request::ReadBack { .. }
                        | Request::Completeness { .. },
                    ..
                }
                | Command::Shards { .. }
                | Command::List { .. }
                | Command::Look { .. }
                | Command::Audit { .. }
                | Command::Watch { .. }
                | Command::Position { .. }
                | Command::Changed { .. }
                | Command::Writers { .. }
                | Command::Members { .. }
                | Command::Trusts { .. }
                | Command::Status { .. }
                | Command::Links { .. }
                | Command::Secured(_)
                | Command::Stop
        )
    }
}

//! The reasons for which the node refuses a request.

use super::{Centre, MemberName, OperationError, StuckPart, Unreached};
use crate::identity::OwnerKey;

/// The reason for which the node refused a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The replica refused; nothing was changed.
    Core(tallymesh_core::Error),
    /// One line of a bulk request was refused; nothing was changed.
    Line {
        /// The line, from 1.
        line: u64,
        /// The counter of the line.
        key: String,
        /// The reason.
        error: tallymesh_core::Error,
    },
    /// One operation of a transaction was refused; nothing was changed.
    Op {
        /// The index of the operation, from 0.
        index: usize,
        /// The kind of its target: a `counter` or a `budget`.
        on: &'static str,
        /// The counter or the budget.
        key: String,
        /// The reason.
        error: OperationError,
    },
    /// The space is not open at this node.
    SpaceNotOpen {
        /// Its name.
        space: String,
    },
    /// The space has no members, so there is nothing to change.
    NoMembers {
        /// Its name.
        space: String,
        /// Whether this node may make itself the first one.
        may_found: bool,
    },
    /// The node's state is in memory only, so the node can be no member.
    MemoryOnly,
    /// Only a member may do it. This node is about to become one: it catches up after its start.
    CatchingUp,
    /// Only a member may do it. This node runs on a copy of a member's data folder.
    FolderCopied,
    /// A member can't be declared dead.
    IsMember {
        /// Its key.
        owner: OwnerKey,
    },
    /// No writer of this owner is known.
    UnknownOwner {
        /// Its key.
        owner: OwnerKey,
    },
    /// A change of the members was proposed and is not decided yet. It may still take effect.
    Undecided {
        /// The members that have not answered, as far as this node knows.
        unanswered: Vec<MemberName>,
    },
    /// A level was not reached in time.
    LevelNotReached(Unreached),
    /// The writes on which a session depends did not arrive in time; nothing was read.
    TokenNotReached {
        /// The writers with missing writes.
        lacking: Vec<String>,
    },
    /// Only one place for the whole mesh could give this; nothing was changed.
    NeedsCentre(Centre),
    /// Another request was made under the same idempotency key.
    KeyReused,
    /// The operation was made before under its idempotency key, and had to be made again with less
    /// effect.
    MadeWeaker,
    /// The adds under an idempotency key, with the keys of the counters, take too many bytes to be
    /// stored with it. Nothing was changed.
    KeyedTooLarge {
        /// The number of bytes.
        bytes: usize,
        /// The most bytes that are allowed.
        max: usize,
    },
    /// The ticket of the request was no longer valid when the request was made; nothing was
    /// changed.
    Ticket {
        /// The stable code of the reason.
        code: &'static str,
        /// The reason.
        text: String,
    },
    /// The node stopped before it confirmed. It is not known whether a write counts.
    Stopped,
    /// A fault of the program ended the work on the request.
    Internal,
}

impl Refusal {
    /// Adds the amount that other members are asked for, if rights were missing.
    pub fn asked(self, asked: u64) -> Refusal {
        match self {
            Refusal::Op {
                index,
                on,
                key,
                error: OperationError::Core(error),
            } if asked > 0 => Refusal::Op {
                index,
                on,
                key,
                error: OperationError::Asked { error, asked },
            },
            other => other,
        }
    }

    /// Adds what members hold that are away, of what an operation lacks.
    pub fn stuck(self, parts: Vec<StuckPart>) -> Refusal {
        match self {
            Refusal::Op {
                index,
                on,
                key,
                error,
            } => Refusal::Op {
                index,
                on,
                key,
                error: error.stuck(parts),
            },
            other => other,
        }
    }

    /// The members that it names, of which something is waited for.
    pub fn members(&self) -> Vec<OwnerKey> {
        let names = match self {
            Refusal::Undecided { unanswered } => unanswered,
            Refusal::LevelNotReached(unreached) => &unreached.lacking,
            Refusal::Op { error, .. } => return error.members(),
            _ => return Vec::new(),
        };
        names.iter().map(|name| name.owner).collect()
    }

    /// A stable name of the kind of refusal.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Core(error) | Refusal::Line { error, .. } => error.code(),
            Refusal::Op { error, .. } => error.code(),
            Refusal::SpaceNotOpen { .. } => "space_not_open",
            Refusal::NoMembers { .. } => "no_members",
            Refusal::MemoryOnly => "memory_only",
            Refusal::CatchingUp => OperationError::CatchingUp(Vec::new()).code(),
            Refusal::FolderCopied => OperationError::FolderCopied.code(),
            Refusal::IsMember { .. } => "is_member",
            Refusal::UnknownOwner { .. } => "unknown_owner",
            Refusal::Undecided { .. } => "undecided",
            Refusal::LevelNotReached(_) => "level_not_reached",
            Refusal::TokenNotReached { .. } => "token_not_reached",
            Refusal::NeedsCentre(_) => "needs_centre",
            Refusal::KeyReused => "key_reused",
            Refusal::MadeWeaker => "made_weaker",
            Refusal::KeyedTooLarge { .. } => "keyed_too_large",
            Refusal::Ticket { code, .. } => code,
            Refusal::Stopped => "stopped",
            Refusal::Internal => "internal",
        }
    }
}

impl std::error::Error for Refusal {}

impl From<tallymesh_core::Error> for Refusal {
    fn from(error: tallymesh_core::Error) -> Refusal {
        Refusal::Core(error)
    }
}

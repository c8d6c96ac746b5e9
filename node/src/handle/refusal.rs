//! The reasons for which the node refuses a request.

use super::{Centre, Unreached};
use crate::driver::OperationError;
use crate::gossip::RESERVED;
use crate::identity::OwnerKey;
use crate::problems;
use std::fmt;

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
        unanswered: Vec<OwnerKey>,
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
    pub(crate) fn asked(self, asked: u64) -> Refusal {
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

    /// A stable name of the kind of refusal.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Core(error) | Refusal::Line { error, .. } => error.code(),
            Refusal::Op { error, .. } => error.code(),
            Refusal::SpaceNotOpen { .. } => "space_not_open",
            Refusal::NoMembers { .. } => "no_members",
            Refusal::MemoryOnly => "memory_only",
            Refusal::CatchingUp => OperationError::CatchingUp.code(),
            Refusal::IsMember { .. } => "is_member",
            Refusal::UnknownOwner { .. } => "unknown_owner",
            Refusal::Undecided { .. } => "undecided",
            Refusal::LevelNotReached(_) => "level_not_reached",
            Refusal::TokenNotReached { .. } => "token_not_reached",
            Refusal::NeedsCentre(_) => "needs_centre",
            Refusal::KeyReused => "key_reused",
            Refusal::KeyedTooLarge { .. } => "keyed_too_large",
            Refusal::Ticket { code, .. } => code,
            Refusal::Stopped => "stopped",
            Refusal::Internal => "internal",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Core(error) => f.write_str(&problems::text(error)),
            Refusal::CatchingUp => OperationError::CatchingUp.fmt(f),
            Refusal::Line { line, key, error } => {
                write!(f, "line {line}, counter `{key}`: {}", problems::text(error))
            }
            Refusal::Op {
                index,
                on,
                key,
                error,
            } => {
                write!(f, "operation {index} from 0, {on} `{key}`: {error}")
            }
            Refusal::SpaceNotOpen { space } if space.starts_with(RESERVED) => write!(
                f,
                "space `{space}` can't be used: names that begin with `{RESERVED}` are for the node's \
                 own spaces; choose another"
            ),
            Refusal::SpaceNotOpen { space } => write!(
                f,
                "space `{space}` is not open at this node: start it with --space {space}"
            ),
            Refusal::NoMembers {
                space,
                may_found: true,
            } => write!(
                f,
                "space `{space}` has no members yet; make this node the first one with \
                 `tallymesh members init`"
            ),
            Refusal::NoMembers { space, .. } => write!(
                f,
                "space `{space}` has no members yet, and this node, which came in with a ticket, can't be \
                 the first one: ask whoever gave you the ticket to make theirs a member"
            ),
            Refusal::MemoryOnly => f.write_str(
                "this node keeps its state in memory only, so it can be no member: what it \
                 acknowledged would be lost with the process; start it on a data folder",
            ),
            Refusal::IsMember { owner } => write!(
                f,
                "{owner} is a member; take it out first with `tallymesh members remove {owner}`, \
                 and its writers are retired by themselves"
            ),
            Refusal::UnknownOwner { owner } => write!(
                f,
                "no writer of owner {owner} is known here; `tallymesh writers` lists them"
            ),
            Refusal::Undecided { unanswered } => {
                let names: Vec<String> = unanswered.iter().map(ToString::to_string).collect();
                let who = match names.is_empty() {
                    true => "the others' answers are on their way".to_owned(),
                    false => format!("no answer yet from {}", names.join(", ")),
                };
                write!(
                    f,
                    "the change is proposed but a majority has not agreed yet ({who}); it takes \
                     effect when they do: look with `tallymesh members`. If a majority is lost for \
                     ever, see `tallymesh members force --help`"
                )
            }
            Refusal::LevelNotReached(unreached) => unreached.fmt(f),
            Refusal::TokenNotReached { lacking } => write!(
                f,
                "nothing was read: in time this node has not seen all that the token depends on, of \
                 {} writers ({}); try again, here or where the session wrote last. What a process \
                 wrote that ended before anybody heard of it is made again under another writer, and \
                 its token never comes true: begin a new session then",
                lacking.len(),
                lacking.join(", ")
            ),
            Refusal::NeedsCentre(wanted) => wanted.fmt(f),
            Refusal::KeyReused => f.write_str(
                "something else was made under this idempotency key; give each operation a key of its \
                 own, and retry it with the same",
            ),
            Refusal::KeyedTooLarge { bytes, max } => write!(
                f,
                "what is added under this idempotency key takes {bytes} bytes with the keys of the \
                 counters, over the limit of {max}; send it in several parts, each under a key of its own"
            ),
            Refusal::Ticket { text, .. } => f.write_str(text),
            Refusal::Internal => f.write_str(crate::contain::INTERNAL),
            Refusal::Stopped => f.write_str(
                "the node stopped before it could confirm; whether a write counts is not known, \
                 so read the counter when the node is back",
            ),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<tallymesh_core::Error> for Refusal {
    fn from(error: tallymesh_core::Error) -> Refusal {
        Refusal::Core(error)
    }
}

//! Why limited rights do not allow something.

use crate::bounds;
use crate::error::Detail;
use crate::writer_id::WriterId;
use core::fmt;

/// A holder of a share of the room for writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// One owner's key.
    Owner,
    /// All peers with one ticket.
    Ticket,
    /// All peers of one address.
    Address,
}

impl Share {
    /// Maximum number of its writers.
    pub fn max(self) -> usize {
        match self {
            Share::Owner => bounds::OWN_WRITERS_MAX,
            Share::Ticket => bounds::TICKET_WRITERS_MAX,
            Share::Address => bounds::ADDRESS_WRITERS_MAX,
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Share::Owner => "one owner's key",
            Share::Ticket => "the holders of one ticket together",
            Share::Address => "the guests of one address together",
        })
    }
}

/// The reason why a peer or a caller of limited rights was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScopeError {
    /// A peer with limited rights sent transactions of a writer that it has not proved to be its owner's. Or
    /// it sent a record that only members may send.
    NotYours {
        /// The writer.
        writer: Detail<WriterId>,
    },
    /// The role of the caller does not allow this.
    BeyondRole,
    /// The counter has expired, or an expiry of an earlier lifetime is left. A caller has to cancel that
    /// before it adds anything, and its role does not allow that. Or the counter has expired by the own clock of a
    /// guest, which ends nothing.
    Expired,
    /// The room for writers that peers with limited rights share is used up.
    ShareFull {
        /// The peers that share it.
        share: Share,
    },
    /// There is no room to remember more operations of a caller under idempotency keys, and all of them are
    /// new.
    KeyedFull {
        /// How many operations the callers that share the room may have.
        max: usize,
    },
}

impl fmt::Display for ScopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ScopeError::NotYours { writer } => write!(
                f,
                "writer {writer} was not proved to be the sender's own, so it must not speak for it"
            ),
            ScopeError::BeyondRole => {
                f.write_str("the role does not allow this: writers only add, and readers only read")
            }
            ScopeError::Expired => f.write_str(
                "the counter has expired, and this replica may not end it, for its role or as it knows no member's time; write through a member, or once one has ended it",
            ),
            ScopeError::ShareFull { share } => write!(
                f,
                "{share} may have {} writers in this space at this node, and has them",
                share.max()
            ),
            ScopeError::KeyedFull { max } => write!(
                f,
                "{max} operations under idempotency keys are remembered of those that this caller shares room with, which is the most, and all of them are new"
            ),
        }
    }
}

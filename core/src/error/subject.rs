//! Things that errors name.

#[cfg(feature = "members")]
use crate::bounds;
#[cfg(feature = "members")]
use core::fmt;

/// The version of the protocol that this crate implements.
pub const VERSION: u8 = 1;

/// The distribution of an amount of a budget, according to this replica.
#[cfg(feature = "budgets")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// The amount that this replica may use now.
    pub here: i128,
    /// The amount that this replica may use once all members have acknowledged it. It came in under
    /// idempotency keys, and may have come in elsewhere too.
    pub pending: i128,
    /// The amount that other writers hold.
    pub elsewhere: i128,
}

/// The kind of the thing that has a name.
#[cfg(feature = "budgets")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A plain counter.
    Counter,
    /// A budget without a cap.
    Budget,
    /// A budget with a cap.
    CappedBudget,
}

#[cfg(feature = "budgets")]
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Counter => "a counter",
            Kind::Budget => "a budget without a cap",
            Kind::CappedBudget => "a budget with a cap",
        })
    }
}

/// A holder of a share of the room for writers.
#[cfg(feature = "members")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// One owner's key.
    Owner,
    /// All peers with one ticket.
    Ticket,
    /// All peers of one address.
    Address,
}

#[cfg(feature = "members")]
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

#[cfg(feature = "members")]
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Share::Owner => "one owner's key",
            Share::Ticket => "the holders of one ticket together",
            Share::Address => "the guests of one address together",
        })
    }
}

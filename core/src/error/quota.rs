//! Why an operation on a budget, a sequence or a rate limit was rejected.

use crate::bounds;
use alloc::boxed::Box;
use core::fmt;

/// The distribution of an amount of a budget, according to this replica.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A plain counter.
    Counter,
    /// A budget without a cap.
    Budget,
    /// A budget with a cap.
    CappedBudget,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Counter => "a counter",
            Kind::Budget => "a budget without a cap",
            Kind::CappedBudget => "a budget with a cap",
        })
    }
}

/// How much of a budget is missing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// The amount that was requested.
    pub asked: u64,
    /// The amount that was available.
    pub held: Holding,
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Holding {
            here,
            pending,
            elsewhere,
        } = self.held;
        write!(f, "{here} are held here")?;
        if pending != 0 {
            write!(f, ", {pending} more once all members know of them")?;
        }
        write!(f, ", {elsewhere} elsewhere as far as is known here")
    }
}

/// The reason why an operation on a budget, a lease, a sequence or a rate limit was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaError {
    /// A key begins with the character of reserved keys.
    ReservedKey,
    /// Something of another kind has this name.
    WrongKind {
        /// The kind of the thing with this name.
        kind: Kind,
    },
    /// This replica has no budget of this name.
    NoBudget,
    /// This replica has no sequence of this name.
    NoSequence,
    /// There is a sequence of this name.
    SequenceExists,
    /// No number of a sequence can be handed out here now.
    NumbersShort,
    /// Each call hands out a new number, so it takes no idempotency key.
    NumberOnce,
    /// No sequence has a number like that.
    NumberRange {
        /// The number.
        number: u64,
    },
    /// The greatest number of watched numbers of sequences is reached.
    WatchesFull,
    /// An amount is over 2^63 - 1.
    AmountRange {
        /// The amount.
        amount: u64,
    },
    /// This writer does not have so many rights.
    RightsShort(Box<Short>),
    /// This writer does not have so much room under the cap.
    RoomShort(Box<Short>),
    /// A lease is too short or too long.
    LeaseRange {
        /// How long it would be, in milliseconds.
        ms: u64,
    },
    /// A text is no lease's id.
    LeaseId {
        /// Its length in bytes.
        bytes: usize,
    },
    /// Each lease has its own id, so a lease takes no idempotency key.
    LeaseOnce,
    /// This writer has nothing of such a lease.
    NoLease,
    /// No limit covers this key.
    NoLimit,
    /// A limit's name is empty or too long, or begins with the character of reserved keys.
    LimitName {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A limit is 0 or over 2^63 - 1.
    LimitRange {
        /// The limit.
        limit: u64,
    },
    /// A limit's period is too short or too long.
    PeriodRange {
        /// The period, in milliseconds.
        ms: u64,
    },
    /// There would be too many limits.
    LimitsFull {
        /// How many there would be.
        limits: usize,
    },
    /// A limit does not allow so much more in this period here.
    LimitReached(Box<Short>),
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            QuotaError::ReservedKey => f.write_str("a key must not begin with U+0000"),
            QuotaError::WrongKind { kind } => {
                write!(f, "{kind} goes by this name, which does not take this operation")
            }
            QuotaError::NoBudget => f.write_str("no budget of this name is known here; mint it first"),
            QuotaError::NoSequence => {
                f.write_str("no sequence of this name is known here; begin it first")
            }
            QuotaError::SequenceExists => f.write_str("there is a sequence of this name"),
            QuotaError::NumbersShort => {
                f.write_str("no number is here to be handed out now; ask again, or wait for one")
            }
            QuotaError::NumberOnce => f.write_str(
                "a number is handed out anew each time, so not under an idempotency key; ask without one",
            ),
            QuotaError::NumberRange { number } => write!(
                f,
                "numbers go from 1 to {}, and {number} is none of them",
                bounds::SEQUENCE_NUMBER_MAX
            ),
            QuotaError::WatchesFull => write!(
                f,
                "{} numbers of the sequence are watched, and no more can be; end one of these watches first",
                bounds::WATCHES_MAX
            ),
            QuotaError::AmountRange { amount } => {
                write!(f, "an amount is at most {}, not {amount}", i64::MAX)
            }
            QuotaError::RightsShort(ref short) => write!(
                f,
                "{} are asked for, and {short}",
                short.asked
            ),
            QuotaError::RoomShort(ref short) => write!(
                f,
                "room for {} is asked for under the cap, and {short}",
                short.asked
            ),
            QuotaError::LeaseRange { ms } => write!(
                f,
                "a lease is {} to {} milliseconds long, not {ms}",
                bounds::LEASE_MS_MIN,
                bounds::LEASE_MS_MAX
            ),
            QuotaError::LeaseId { bytes } => write!(
                f,
                "a lease's id has 32 hex digits in lower case, and these {bytes} bytes are none"
            ),
            QuotaError::LeaseOnce => f.write_str(
                "a lease has an id of its own, by which it is given once; ask without an idempotency key",
            ),
            QuotaError::NoLease => f.write_str(
                "nothing is left of this lease here; ask the member that gave it, or let it end by itself",
            ),
            QuotaError::NoLimit => f.write_str(
                "no limit covers this key; set one of its name, or of what stands before its first colon",
            ),
            QuotaError::LimitName { bytes } => write!(
                f,
                "a limit's name has 1 to {} bytes and does not begin with U+0000, this one of {bytes} bytes does not fit",
                bounds::LIMIT_NAME_BYTES_MAX
            ),
            QuotaError::LimitRange { limit } => {
                write!(f, "a limit is 1 to {}, not {limit}", i64::MAX)
            }
            QuotaError::PeriodRange { ms } => write!(
                f,
                "a period is {} to {} milliseconds long, not {ms}",
                bounds::PERIOD_MS_MIN,
                bounds::PERIOD_MS_MAX
            ),
            QuotaError::LimitsFull { limits } => write!(
                f,
                "{limits} limits are more than the {} that a space may have",
                bounds::LIMITS_MAX
            ),
            QuotaError::LimitReached(ref short) => write!(
                f,
                "{} are asked for in this period, and {short}",
                short.asked
            ),
        }
    }
}

//! Why a write was rejected.

use crate::bounds;
use crate::error::{Detail, Error, detail};
use core::fmt;

/// The reason why a write was rejected: a key, an amount or the room for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// A key is empty or too long.
    KeyLength {
        /// Its length in bytes.
        bytes: Detail<usize>,
    },
    /// A space's name is empty, too long, or has a character that names may not have.
    SpaceName {
        /// Its length in bytes.
        bytes: Detail<usize>,
    },
    /// The sum would leave the range of a 64-bit integer.
    Overflow {
        /// The sum of this writer's own adds that survive.
        total: Detail<i128>,
        /// The amount that was to be added.
        by: Detail<i64>,
    },
    /// A peer with limited rights sent a total that no adds of one writer can reach.
    WideTotal {
        /// The total.
        total: i128,
    },
    /// An expiry is later than any date.
    ExpiryRange {
        /// The time, in milliseconds since 1970.
        at: Detail<u64>,
    },
    /// A transaction has too many operations.
    TransactionTooLarge {
        /// How many it has.
        ops: Detail<usize>,
    },
    /// The writer's clock has reached the end of its range.
    ClockExhausted,
    /// No key has this number here.
    UnknownKeyId {
        /// The number.
        key_id: Detail<u32>,
    },
    /// There is no room for the bytes of one more key.
    CountersFull {
        /// How many counters it has.
        counters: Detail<usize>,
    },
    /// The space cannot hold one more writer.
    WritersFull {
        /// How many there would be.
        writers: Detail<usize>,
        /// How many there may be. The number depends on the source of the new writers.
        max: Detail<usize>,
    },
}

impl WriteError {
    /// The error of an add that does not fit into a total.
    pub(crate) fn overflow(total: i128, by: i64) -> Error {
        let (total, by) = (detail(total), detail(by));
        Error::from(WriteError::Overflow { total, by })
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            WriteError::KeyLength { bytes } => write!(
                f,
                "a key has 1 to {} bytes, this one has {bytes}",
                bounds::KEY_BYTES_MAX
            ),
            WriteError::SpaceName { bytes } => write!(
                f,
                "a space's name has 1 to {} of the characters A-Z a-z 0-9 . _ -, this one of {bytes} bytes does not",
                bounds::SPACE_BYTES_MAX
            ),
            WriteError::Overflow { total, by } => write!(
                f,
                "adding {by} to {total} leaves the range of a 64-bit integer ({} to {})",
                i64::MIN,
                i64::MAX
            ),
            WriteError::WideTotal { total } => write!(
                f,
                "{total} is beyond the totals of one writer, which are from {} to {}",
                i64::MIN,
                i64::MAX
            ),
            WriteError::ExpiryRange { at } => write!(
                f,
                "an expiry is at most {} milliseconds after 1970, not {at}",
                bounds::EXPIRY_MAX
            ),
            WriteError::TransactionTooLarge { ops } => write!(
                f,
                "a transaction has at most {} operations, this one {ops}",
                bounds::TRANSACTION_OPS_MAX
            ),
            WriteError::ClockExhausted => {
                f.write_str("this writer has made some 2^64 transactions; start a new writer")
            }
            WriteError::UnknownKeyId { key_id } => {
                write!(f, "no key goes by handle {key_id} here; was it released?")
            }
            WriteError::CountersFull { counters } => {
                write!(f, "the space is full: it holds {counters} counters")
            }
            WriteError::WritersFull { writers, max } => write!(
                f,
                "{writers} writers are more than the {max} that there is room for in this space"
            ),
        }
    }
}

//! What can go wrong, with a stable code for each.

use crate::limits;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use core::fmt;

/// What a message builds on and a replica does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Whose transactions are missing.
    pub writer: WriterId,
    /// The clock that the message builds on.
    pub needed: u64,
    /// The clock that is held.
    pub held: u64,
}

/// Why an operation, a message or a frame was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A key is empty or too long.
    KeyLength {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A space's name is empty, too long, or has a character that names may not have.
    SpaceName {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The sum would leave the range of a 64-bit integer.
    Overflow {
        /// What this writer's shard holds now.
        total: i64,
        /// What was to be added.
        by: i64,
    },
    /// The writer's clock has reached the end of its range.
    ClockExhausted,
    /// No key goes by this number here.
    UnknownHandle {
        /// The number.
        handle: u32,
    },
    /// The space cannot hold one more counter.
    CountersFull {
        /// How many it holds.
        counters: usize,
    },
    /// The space cannot hold one more writer.
    WritersFull {
        /// How many there would be.
        writers: usize,
    },
    /// A message needs something that is not held here yet.
    NotCovered(Box<Missing>),
    /// A message knows transactions of this replica's own writer that it never made.
    OwnClockAhead {
        /// The clock that was heard of.
        heard: u64,
        /// This replica's own clock.
        own: u64,
    },
    /// Bytes end before what they announce.
    Truncated,
    /// Bytes go on after the end of what they announce.
    TrailingBytes {
        /// How many are left over.
        bytes: usize,
    },
    /// A number is written in more bytes than it needs, or does not fit its field.
    Number,
    /// The bytes say what this format never writes.
    Malformed {
        /// Which rule is broken.
        rule: &'static str,
    },
    /// A size is over its limit.
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// The bytes are no frame of this protocol.
    NotAFrame,
    /// The peer speaks versions of the protocol that this program does not.
    Version {
        /// The lowest version that the peer speaks.
        min: u8,
        /// The highest version that the peer speaks.
        max: u8,
    },
    /// A frame of another space came on this link.
    WrongSpace,
    /// A frame came before the hello, or a second hello came.
    Handshake,
}

impl Error {
    /// The stable code of this error, the same on each surface.
    pub const fn code(&self) -> &'static str {
        match self {
            Error::KeyLength { .. } => "key_length",
            Error::SpaceName { .. } => "space_name",
            Error::Overflow { .. } => "overflow",
            Error::ClockExhausted => "clock_exhausted",
            Error::UnknownHandle { .. } => "unknown_handle",
            Error::CountersFull { .. } => "counters_full",
            Error::WritersFull { .. } => "writers_full",
            Error::NotCovered(_) => "not_covered",
            Error::OwnClockAhead { .. } => "own_clock_ahead",
            Error::Truncated => "truncated",
            Error::TrailingBytes { .. } => "trailing_bytes",
            Error::Number => "number",
            Error::Malformed { .. } => "malformed",
            Error::TooLarge { .. } => "too_large",
            Error::NotAFrame => "not_a_frame",
            Error::Version { .. } => "version",
            Error::WrongSpace => "wrong_space",
            Error::Handshake => "handshake",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::KeyLength { bytes } => write!(
                f,
                "a key has 1 to {} bytes, this one has {bytes}",
                limits::KEY_BYTES_MAX
            ),
            Error::SpaceName { bytes } => write!(
                f,
                "a space's name has 1 to {} of the characters A-Z a-z 0-9 . _ -, this one of {bytes} bytes does not",
                limits::SPACE_BYTES_MAX
            ),
            Error::Overflow { total, by } => write!(
                f,
                "adding {by} to {total} leaves the range of a 64-bit integer ({} to {})",
                i64::MIN,
                i64::MAX
            ),
            Error::ClockExhausted => {
                f.write_str("this writer has made 2^64 - 1 transactions; start a new writer")
            }
            Error::UnknownHandle { handle } => {
                write!(f, "no key goes by handle {handle} here; was it released?")
            }
            Error::CountersFull { counters } => {
                write!(f, "the space is full: it holds {counters} counters")
            }
            Error::WritersFull { writers } => write!(
                f,
                "{writers} writers are more than the {} that a space may hold",
                limits::WRITERS_MAX
            ),
            Error::NotCovered(ref missing) => write!(
                f,
                "the message builds on clock {} of writer {}, of which {} is held here",
                missing.needed, missing.writer, missing.held
            ),
            Error::OwnClockAhead { heard, own } => write!(
                f,
                "a peer knows clock {heard} of this writer, which is at {own}: another process writes under its id"
            ),
            Error::Truncated => f.write_str("the bytes end too early"),
            Error::TrailingBytes { bytes } => write!(f, "{bytes} bytes are left over at the end"),
            Error::Number => f.write_str("a number is not in its shortest form or out of range"),
            Error::Malformed { rule } => write!(f, "the bytes break a rule of the format: {rule}"),
            Error::TooLarge { what, size, max } => {
                write!(f, "{what}: {size} is over the limit of {max}")
            }
            Error::NotAFrame => f.write_str("these bytes are no Tallymesh frame"),
            Error::Version { min, max } => write!(
                f,
                "the peer speaks protocol versions {min} to {max}, this program speaks {}; upgrade the older one",
                crate::wire::VERSION
            ),
            Error::WrongSpace => f.write_str("a frame of another space came on this link"),
            Error::Handshake => f.write_str("a link opens with one hello, before anything else"),
        }
    }
}

impl core::error::Error for Error {}

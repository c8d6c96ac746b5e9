//! All errors, with a stable code for each. `display` has their texts, `detail` the details beside their codes,
//! `format` and `subject` the names in both.

mod detail;
mod display;
mod format;
mod subject;

pub use detail::Detail;
pub(crate) use detail::detail;
pub use format::{Limited, Rule};
#[cfg(feature = "members")]
pub use subject::Share;
pub use subject::VERSION;
#[cfg(feature = "budgets")]
pub use subject::{Holding, Kind};

use crate::layers::GUESTS;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
#[cfg(feature = "budgets")]
use core::fmt;

/// The transactions that a message builds on and that a replica lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The writer of the missing transactions.
    pub writer: WriterId,
    /// The clock that the message builds on.
    pub needed: u64,
    /// The clock up to which the replica has the writer's transactions.
    pub held: u64,
}

/// How much of a budget is missing here.
#[cfg(feature = "budgets")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// The amount that was requested.
    pub asked: u64,
    /// The amount that was available.
    pub held: Holding,
}

#[cfg(feature = "budgets")]
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

/// The reason why an operation, a message or a frame was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
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
    UnknownHandle {
        /// The number.
        handle: Detail<u32>,
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
    /// A message builds on something that this replica lacks.
    NotCovered(Detail<Box<Missing>>),
    /// A message has transactions of this replica's own writer that the replica never made.
    OwnClockAhead {
        /// The clock in the message.
        heard: Detail<u64>,
        /// This replica's own clock.
        own: Detail<u64>,
    },
    /// The space has members already.
    Closed,
    /// The space has members, and this program was built without them.
    MembersUnsupported,
    /// Only a member may do this.
    NotAMember,
    /// There would be too many members, or none.
    MembersFull {
        /// How many there would be.
        members: Detail<usize>,
    },
    /// No writer of this id is in the writer table here.
    UnknownWriter {
        /// The id.
        writer: Detail<WriterId>,
    },
    /// This replica's writer was declared dead or absorbed.
    Retired,
    /// The sender's writer left, was declared dead or absorbed.
    Gone {
        /// The writer.
        writer: Detail<WriterId>,
    },
    /// A writer has seen less than was acknowledged in its name.
    Behind,
    /// This replica wrote something that no member has received, and lacks transactions whose records were
    /// collected since.
    Outdated,
    /// A member's new incarnation may have begun from too old a state, and the message does not show it: a
    /// complete message is needed.
    Unsure {
        /// The incarnation's writer.
        writer: Detail<WriterId>,
    },
    /// A message brings a writer that no member has admitted.
    Stranger {
        /// The writer.
        writer: Detail<WriterId>,
    },
    /// A peer with limited rights sent transactions of a writer that it has not proved to be its owner's. Or
    /// it sent a record that only members may send.
    #[cfg(feature = "guests")]
    NotYours {
        /// The writer.
        writer: Detail<WriterId>,
    },
    /// The role of the caller does not allow this.
    #[cfg(feature = "guests")]
    BeyondRole,
    /// The room for writers that peers with limited rights share is used up.
    #[cfg(feature = "members")]
    ShareFull {
        /// The peers that share it.
        share: Share,
    },
    /// There is no room to remember more operations of a caller under idempotency keys, and all of them are
    /// new.
    #[cfg(feature = "members")]
    KeyedFull {
        /// How many operations the callers that share the room may have.
        max: usize,
    },
    /// A peer with limited rights sent a total that no adds of one writer can reach.
    #[cfg(feature = "members")]
    WideTotal {
        /// The total.
        total: i128,
    },
    /// The counter has expired, or an expiry of an earlier life is left. A caller has to cancel that before
    /// it adds anything, and its role does not allow that.
    #[cfg(feature = "guests")]
    Expired,
    /// A key begins with the character of reserved keys.
    #[cfg(feature = "budgets")]
    ReservedKey,
    /// Something of another kind has this name.
    #[cfg(feature = "budgets")]
    WrongKind {
        /// The kind of the thing with this name.
        kind: Kind,
    },
    /// This replica has no budget of this name.
    #[cfg(feature = "budgets")]
    NoBudget,
    /// This replica has no sequence of this name.
    #[cfg(feature = "budgets")]
    NoSequence,
    /// There is a sequence of this name.
    #[cfg(feature = "budgets")]
    SequenceExists,
    /// No number of a sequence can be handed out here now.
    #[cfg(feature = "budgets")]
    NumbersShort,
    /// Each call hands out a new number, so it takes no idempotency key.
    #[cfg(feature = "budgets")]
    NumberOnce,
    /// No sequence has a number like that.
    #[cfg(feature = "budgets")]
    NumberRange {
        /// The number.
        number: u64,
    },
    /// The greatest number of watched numbers of sequences is reached.
    #[cfg(feature = "budgets")]
    WatchesFull,
    /// An amount is over 2^63 - 1.
    #[cfg(feature = "budgets")]
    AmountRange {
        /// The amount.
        amount: u64,
    },
    /// This writer does not have so many rights.
    #[cfg(feature = "budgets")]
    RightsShort(Box<Short>),
    /// This writer does not have so much room under the cap.
    #[cfg(feature = "budgets")]
    RoomShort(Box<Short>),
    /// A lease is too short or too long.
    #[cfg(feature = "budgets")]
    LeaseRange {
        /// How long it would be, in milliseconds.
        ms: u64,
    },
    /// A text is no lease's id.
    #[cfg(feature = "budgets")]
    LeaseId {
        /// Its length in bytes.
        bytes: usize,
    },
    /// Each lease has its own id, so a lease takes no idempotency key.
    #[cfg(feature = "budgets")]
    LeaseOnce,
    /// This writer has nothing of such a lease.
    #[cfg(feature = "budgets")]
    NoLease,
    /// No limit covers this key.
    #[cfg(feature = "budgets")]
    NoLimit,
    /// A limit's name is empty or too long, or begins with the character of reserved keys.
    #[cfg(feature = "budgets")]
    LimitName {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A limit is 0 or over 2^63 - 1.
    #[cfg(feature = "budgets")]
    LimitRange {
        /// The limit.
        limit: u64,
    },
    /// A limit's period is too short or too long.
    #[cfg(feature = "budgets")]
    PeriodRange {
        /// The period, in milliseconds.
        ms: u64,
    },
    /// There would be too many limits.
    #[cfg(feature = "budgets")]
    LimitsFull {
        /// How many there would be.
        limits: usize,
    },
    /// A limit does not allow so much more in this period here.
    #[cfg(feature = "budgets")]
    LimitReached(Box<Short>),
    /// Bytes end before what they announce.
    Truncated,
    /// Bytes follow after the end of the encoding.
    TrailingBytes {
        /// How many are left over.
        bytes: Detail<usize>,
    },
    /// A number is written in more bytes than it needs, or does not fit its field.
    Number,
    /// The bytes break a rule of the format.
    Malformed {
        /// Which rule is broken.
        rule: Detail<Rule>,
    },
    /// A size is over its limit.
    TooLarge {
        /// The kind of the thing that is too large.
        what: Detail<Limited>,
        /// Its size.
        size: Detail<usize>,
        /// The limit.
        max: Detail<usize>,
    },
    /// The bytes are no frame of this protocol.
    NotAFrame,
    /// The peer speaks versions of the protocol that this program does not.
    Version {
        /// The lowest version that the peer speaks.
        min: Detail<u8>,
        /// The highest version that the peer speaks.
        max: Detail<u8>,
    },
    /// A frame of another space arrived on this link.
    WrongSpace,
    /// A frame arrived before the hello, or a second hello arrived.
    Handshake,
    /// A text is no token.
    #[cfg(feature = "tokens")]
    Token {
        /// Its length in bytes.
        chars: Detail<usize>,
    },
    /// A session depends on more writers than a token can name.
    #[cfg(feature = "tokens")]
    TokenFull {
        /// How many writers they are.
        writers: Detail<usize>,
    },
}

impl Error {
    /// The error of a message that builds on the clock `needed` of a writer. This replica has the writer up
    /// to `held`.
    #[inline(always)]
    pub(crate) fn not_covered(writer: WriterId, needed: u64, held: u64) -> Error {
        let missing = Missing {
            writer,
            needed,
            held,
        };
        Error::NotCovered(detail(Box::new(missing)))
    }

    /// The stable code of this error, the same on each surface.
    pub const fn code(&self) -> &'static str {
        match self {
            // A program without members does not contain the names of their errors.
            Error::Closed
            | Error::NotAMember
            | Error::MembersFull { .. }
            | Error::UnknownWriter { .. }
            | Error::Retired
            | Error::Gone { .. }
            | Error::Behind
            | Error::Outdated
            | Error::Unsure { .. }
            | Error::Stranger { .. }
                if !GUESTS =>
            {
                "members_unsupported"
            }
            Error::KeyLength { .. } => "key_length",
            Error::SpaceName { .. } => "space_name",
            Error::Overflow { .. } => "overflow",
            Error::ExpiryRange { .. } => "expiry_range",
            Error::TransactionTooLarge { .. } => "transaction_too_large",
            Error::ClockExhausted => "clock_exhausted",
            Error::UnknownHandle { .. } => "unknown_handle",
            Error::CountersFull { .. } => "counters_full",
            Error::WritersFull { .. } => "writers_full",
            Error::NotCovered(_) => "not_covered",
            Error::OwnClockAhead { .. } => "own_clock_ahead",
            Error::Closed => "closed",
            Error::MembersUnsupported => "members_unsupported",
            Error::NotAMember => "not_a_member",
            Error::MembersFull { .. } => "members_full",
            Error::UnknownWriter { .. } => "unknown_writer",
            Error::Retired => "retired",
            Error::Gone { .. } => "gone",
            Error::Behind => "behind",
            Error::Outdated => "outdated",
            Error::Unsure { .. } => "unsure",
            Error::Stranger { .. } => "stranger",
            #[cfg(feature = "guests")]
            Error::NotYours { .. } => "not_yours",
            #[cfg(feature = "guests")]
            Error::BeyondRole => "beyond_role",
            #[cfg(feature = "members")]
            Error::ShareFull { .. } => "share_full",
            #[cfg(feature = "members")]
            Error::KeyedFull { .. } => "keyed_full",
            #[cfg(feature = "members")]
            Error::WideTotal { .. } => "wide_total",
            #[cfg(feature = "guests")]
            Error::Expired => "expired",
            #[cfg(feature = "budgets")]
            Error::ReservedKey => "key_reserved",
            #[cfg(feature = "budgets")]
            Error::WrongKind { .. } => "wrong_kind",
            #[cfg(feature = "budgets")]
            Error::NoBudget => "no_budget",
            #[cfg(feature = "budgets")]
            Error::NoSequence => "no_sequence",
            #[cfg(feature = "budgets")]
            Error::SequenceExists => "sequence_exists",
            #[cfg(feature = "budgets")]
            Error::NumbersShort => "numbers_short",
            #[cfg(feature = "budgets")]
            Error::NumberOnce => "number_once",
            #[cfg(feature = "budgets")]
            Error::NumberRange { .. } => "number_range",
            #[cfg(feature = "budgets")]
            Error::WatchesFull => "watches_full",
            #[cfg(feature = "budgets")]
            Error::AmountRange { .. } => "amount_range",
            #[cfg(feature = "budgets")]
            Error::RightsShort(_) => "rights_short",
            #[cfg(feature = "budgets")]
            Error::RoomShort(_) => "room_short",
            #[cfg(feature = "budgets")]
            Error::LeaseRange { .. } => "lease_range",
            #[cfg(feature = "budgets")]
            Error::LeaseId { .. } => "lease_id",
            #[cfg(feature = "budgets")]
            Error::LeaseOnce => "lease_once",
            #[cfg(feature = "budgets")]
            Error::NoLease => "no_lease",
            #[cfg(feature = "budgets")]
            Error::NoLimit => "no_limit",
            #[cfg(feature = "budgets")]
            Error::LimitName { .. } => "limit_name",
            #[cfg(feature = "budgets")]
            Error::LimitRange { .. } => "limit_range",
            #[cfg(feature = "budgets")]
            Error::PeriodRange { .. } => "period_range",
            #[cfg(feature = "budgets")]
            Error::LimitsFull { .. } => "limits_full",
            #[cfg(feature = "budgets")]
            Error::LimitReached(_) => "limit_reached",
            Error::Truncated => "truncated",
            Error::TrailingBytes { .. } => "trailing_bytes",
            Error::Number => "number",
            Error::Malformed { .. } => "malformed",
            Error::TooLarge { .. } => "too_large",
            Error::NotAFrame => "not_a_frame",
            Error::Version { .. } => "version",
            Error::WrongSpace => "wrong_space",
            Error::Handshake => "handshake",
            #[cfg(feature = "tokens")]
            Error::Token { .. } => "token",
            #[cfg(feature = "tokens")]
            Error::TokenFull { .. } => "token_full",
        }
    }
}

impl core::error::Error for Error {}

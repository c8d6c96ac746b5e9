//! The texts of errors for people.

use super::Error;
#[cfg(feature = "members")]
use crate::bounds;
use core::fmt;

#[cfg(not(feature = "members"))]
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(feature = "members")]
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::KeyLength { bytes } => write!(
                f,
                "a key has 1 to {} bytes, this one has {bytes}",
                bounds::KEY_BYTES_MAX
            ),
            Error::SpaceName { bytes } => write!(
                f,
                "a space's name has 1 to {} of the characters A-Z a-z 0-9 . _ -, this one of {bytes} bytes does not",
                bounds::SPACE_BYTES_MAX
            ),
            Error::Overflow { total, by } => write!(
                f,
                "adding {by} to {total} leaves the range of a 64-bit integer ({} to {})",
                i64::MIN,
                i64::MAX
            ),
            Error::ExpiryRange { at } => write!(
                f,
                "an expiry is at most {} milliseconds after 1970, not {at}",
                bounds::EXPIRY_MAX
            ),
            Error::TransactionTooLarge { ops } => write!(
                f,
                "a transaction has at most {} operations, this one {ops}",
                bounds::TRANSACTION_OPS_MAX
            ),
            Error::ClockExhausted => {
                f.write_str("this writer has made some 2^64 transactions; start a new writer")
            }
            Error::UnknownHandle { handle } => {
                write!(f, "no key goes by handle {handle} here; was it released?")
            }
            Error::CountersFull { counters } => {
                write!(f, "the space is full: it holds {counters} counters")
            }
            Error::WritersFull { writers, max } => write!(
                f,
                "{writers} writers are more than the {max} that there is room for in this space"
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
            Error::Closed => f.write_str("the space has members already; add and remove them"),
            Error::MembersUnsupported => {
                f.write_str("the space has members, which this program cannot deal with")
            }
            Error::NotAMember => f.write_str("only a member of the space may do this"),
            Error::MembersFull { members } => write!(
                f,
                "a space has 1 to {} members, and this would be {members}",
                bounds::MEMBERS_MAX
            ),
            Error::UnknownWriter { writer } => write!(f, "no writer {writer} is known here"),
            Error::Gone { writer } => write!(
                f,
                "the sender's writer {writer} left or was retired; it has to come back under a new one"
            ),
            Error::Retired => {
                f.write_str("this writer was retired; go on under a new one")
            }
            Error::Behind => f.write_str(
                "the sender missed what was collected meanwhile; it has to begin again from a member's state",
            ),
            Error::Outdated => f.write_str(
                "this replica missed what was collected meanwhile; begin again from a member's state",
            ),
            Error::Unsure { writer } => write!(
                f,
                "it is not certain yet that writer {writer} began from a state that was new enough; ask for all that is missing here"
            ),
            Error::Stranger { writer } => {
                write!(f, "no member of the space has taken writer {writer} in")
            }
            Error::NotYours { writer } => write!(
                f,
                "writer {writer} was not proved to be the sender's own, so it must not speak for it"
            ),
            Error::BeyondRole => {
                f.write_str("the role does not allow this: writers only add, and readers only read")
            }
            #[cfg(feature = "members")]
            Error::ShareFull { share } => write!(
                f,
                "{share} may have {} writers in this space at this node, and has them",
                share.max()
            ),
            #[cfg(feature = "members")]
            Error::KeyedFull { max } => write!(
                f,
                "{max} operations under idempotency keys are remembered of those that this caller shares room with, which is the most, and all of them are new"
            ),
            #[cfg(feature = "members")]
            Error::WideTotal { total } => write!(
                f,
                "{total} is beyond the totals of one writer, which are from {} to {}",
                i64::MIN,
                i64::MAX
            ),
            Error::Expired => f.write_str(
                "the counter has expired, and this role may not delete it; add through a member",
            ),
            #[cfg(feature = "budgets")]
            Error::ReservedKey => f.write_str("a key must not begin with U+0000"),
            #[cfg(feature = "budgets")]
            Error::WrongKind { kind } => {
                write!(f, "{kind} goes by this name, which does not take this operation")
            }
            #[cfg(feature = "budgets")]
            Error::NoBudget => f.write_str("no budget of this name is known here; mint it first"),
            #[cfg(feature = "budgets")]
            Error::NoSequence => {
                f.write_str("no sequence of this name is known here; begin it first")
            }
            #[cfg(feature = "budgets")]
            Error::SequenceExists => f.write_str("there is a sequence of this name"),
            #[cfg(feature = "budgets")]
            Error::NumbersShort => {
                f.write_str("no number is here to be handed out now; ask again, or wait for one")
            }
            #[cfg(feature = "budgets")]
            Error::NumberOnce => f.write_str(
                "a number is handed out anew each time, so not under an idempotency key; ask without one",
            ),
            #[cfg(feature = "budgets")]
            Error::NumberRange { number } => write!(
                f,
                "numbers go from 1 to {}, and {number} is none of them",
                bounds::SEQUENCE_NUMBER_MAX
            ),
            #[cfg(feature = "budgets")]
            Error::WatchesFull => write!(
                f,
                "{} numbers of the sequence are watched, and no more can be; end one of these watches first",
                bounds::WATCHES_MAX
            ),
            #[cfg(feature = "budgets")]
            Error::AmountRange { amount } => {
                write!(f, "an amount is at most {}, not {amount}", i64::MAX)
            }
            #[cfg(feature = "budgets")]
            Error::RightsShort(ref short) => write!(
                f,
                "{} are asked for, and {short}",
                short.asked
            ),
            #[cfg(feature = "budgets")]
            Error::RoomShort(ref short) => write!(
                f,
                "room for {} is asked for under the cap, and {short}",
                short.asked
            ),
            #[cfg(feature = "budgets")]
            Error::LeaseRange { ms } => write!(
                f,
                "a lease is {} to {} milliseconds long, not {ms}",
                bounds::LEASE_MS_MIN,
                bounds::LEASE_MS_MAX
            ),
            #[cfg(feature = "budgets")]
            Error::LeaseId { bytes } => write!(
                f,
                "a lease's id has 32 hex digits in lower case, and these {bytes} bytes are none"
            ),
            #[cfg(feature = "budgets")]
            Error::LeaseOnce => f.write_str(
                "a lease has an id of its own, by which it is given once; ask without an idempotency key",
            ),
            #[cfg(feature = "budgets")]
            Error::NoLease => f.write_str(
                "nothing is left of this lease here; ask the member that gave it, or let it end by itself",
            ),
            #[cfg(feature = "budgets")]
            Error::NoLimit => f.write_str(
                "no limit covers this key; set one of its name, or of what stands before its first colon",
            ),
            #[cfg(feature = "budgets")]
            Error::LimitName { bytes } => write!(
                f,
                "a limit's name has 1 to {} bytes and does not begin with U+0000, this one of {bytes} bytes does not fit",
                bounds::LIMIT_NAME_BYTES_MAX
            ),
            #[cfg(feature = "budgets")]
            Error::LimitRange { limit } => {
                write!(f, "a limit is 1 to {}, not {limit}", i64::MAX)
            }
            #[cfg(feature = "budgets")]
            Error::PeriodRange { ms } => write!(
                f,
                "a period is {} to {} milliseconds long, not {ms}",
                bounds::PERIOD_MS_MIN,
                bounds::PERIOD_MS_MAX
            ),
            #[cfg(feature = "budgets")]
            Error::LimitsFull { limits } => write!(
                f,
                "{limits} limits are more than the {} that a space may have",
                bounds::LIMITS_MAX
            ),
            #[cfg(feature = "budgets")]
            Error::LimitReached(ref short) => write!(
                f,
                "{} are asked for in this period, and {short}",
                short.asked
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
                super::VERSION
            ),
            Error::WrongSpace => f.write_str("a frame of another space came on this link"),
            Error::Handshake => f.write_str("a link opens with one hello, before anything else"),
            #[cfg(feature = "tokens")]
            Error::Token { chars } => write!(
                f,
                "these {chars} bytes are no token; pass on unchanged what an answer gave, or leave it out"
            ),
            #[cfg(feature = "tokens")]
            Error::TokenFull { writers } => write!(
                f,
                "a token names at most {} writers, and this session depends on {writers}; go on where \
                 it wrote last, or read at level quorum instead",
                bounds::TOKEN_WRITERS_MAX
            ),
        }
    }
}

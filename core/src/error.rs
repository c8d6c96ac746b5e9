//! The errors: one enum for each boundary, [`Error`] for all of them, and one table of codes.
//!
//! | file | boundary | rejects |
//! |---|---|---|
//! | `write` | [`WriteError`] | a write: a key, an amount or the room for it |
//! | `merge` | [`MergeError`] | the state of another replica |
//! | `admission` | [`AdmissionError`] | a message, or this replica itself, by the admission rules |
//! | `member` | [`MemberError`] | an operation of members |
//! | `scope` | `ScopeError` | a peer or a caller of limited rights |
//! | `quota` | `QuotaError` | an operation on a budget, a lease, a sequence or a rate limit |
//! | `decode` | [`DecodeError`] | bytes; `format` has the names of rules and of sizes |
//! | `link` | [`LinkError`] | a frame on its link |
//! | `token` | `TokenError` | a token |
//!
//! The table in `kind` gives each error its [`ErrorKind`] and its code. A program without the feature
//! `members` shows codes only, so its [`Error`] is the kind alone: one byte. `detail` leaves out the rest
//! there.

mod admission;
mod decode;
mod detail;
mod format;
mod kind;
mod link;
mod member;
mod merge;
#[cfg(feature = "budgets")]
mod quota;
#[cfg(feature = "guests")]
mod scope;
#[cfg(feature = "tokens")]
mod token;
mod write;

pub use admission::AdmissionError;
pub use decode::DecodeError;
pub use detail::Detail;
pub(crate) use detail::detail;
pub use format::{Limited, Rule};
pub use kind::ErrorKind;
pub use link::{LinkError, VERSION};
pub use member::MemberError;
pub use merge::{MergeError, Missing};
#[cfg(feature = "budgets")]
pub use quota::{Holding, Kind, QuotaError, Short};
#[cfg(feature = "guests")]
pub use scope::ScopeError;
#[cfg(feature = "members")]
pub use scope::Share;
#[cfg(feature = "tokens")]
pub use token::TokenError;
pub use write::WriteError;

use crate::writer_id::WriterId;
use alloc::boxed::Box;

/// The reason why an operation, a message or a frame was refused. Nothing was changed.
///
/// ```
/// use tallymesh_core::{Error, Replica, Space, WriteError, WriterId};
///
/// let space = Space::new("visits")?;
/// let writer = WriterId::mint(&space, &[1; 32], &[2; 16]);
/// let refused = Replica::new(space, writer).add("", 1).expect_err("a key is not empty");
/// assert_eq!(refused, Error::Write(WriteError::KeyLength { bytes: 0 }));
/// assert_eq!(refused.code(), "key_length");
/// assert_eq!(refused.to_string(), "a key has 1 to 512 bytes, this one has 0");
/// # Ok::<(), Error>(())
/// ```
#[cfg(feature = "members")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A write was rejected.
    Write(WriteError),
    /// The state of another replica was not merged.
    Merge(MergeError),
    /// The admission rules reject a message, or this replica itself.
    Admission(AdmissionError),
    /// An operation of members was rejected.
    Member(MemberError),
    /// A peer or a caller of limited rights was rejected.
    Scope(ScopeError),
    /// An operation on a budget, a lease, a sequence or a rate limit was rejected.
    #[cfg(feature = "budgets")]
    Quota(QuotaError),
    /// Bytes were rejected.
    Decode(DecodeError),
    /// A frame was rejected on its link.
    Link(LinkError),
    /// A token was rejected.
    #[cfg(feature = "tokens")]
    Token(TokenError),
}

/// The reason why an operation, a message or a frame was refused: its kind alone, in a program that shows
/// codes only. Nothing was changed.
#[cfg(not(feature = "members"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(ErrorKind);

#[cfg(not(feature = "members"))]
impl Error {
    /// The kind of this error.
    pub const fn kind(&self) -> ErrorKind {
        self.0
    }
}

#[cfg(not(feature = "members"))]
impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.code())
    }
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
        MergeError::NotCovered(detail(Box::new(missing))).into()
    }

    /// The stable code of this error, the same on each surface.
    pub const fn code(&self) -> &'static str {
        self.kind().code()
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_needs_no_more_room_than_its_largest_boundary() {
        assert_eq!(size_of::<Error>(), size_of::<WriteError>());
    }
}

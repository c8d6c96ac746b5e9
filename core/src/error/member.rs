//! Why an operation of members was rejected.

use crate::bounds;
use crate::error::Detail;
use crate::writer_id::WriterId;
use core::fmt;

/// The reason why an operation of members was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberError {
    /// The space has members already.
    Closed,
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
}

impl fmt::Display for MemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            MemberError::Closed => {
                f.write_str("the space has members already; add and remove them")
            }
            MemberError::NotAMember => f.write_str("only a member of the space may do this"),
            MemberError::MembersFull { members } => write!(
                f,
                "a space has 1 to {} members, and this would be {members}",
                bounds::MEMBERS_MAX
            ),
            MemberError::UnknownWriter { writer } => write!(f, "no writer {writer} is known here"),
        }
    }
}

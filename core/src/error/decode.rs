//! Why bytes were rejected.

use crate::error::{Detail, Limited, Rule};
use core::fmt;

/// The reason why bytes were rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
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
    /// The space has members, and this program was built without them.
    MembersUnsupported,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            DecodeError::Truncated => f.write_str("the bytes end too early"),
            DecodeError::TrailingBytes { bytes } => {
                write!(f, "{bytes} bytes are left over at the end")
            }
            DecodeError::Number => {
                f.write_str("a number is not in its shortest form or out of range")
            }
            DecodeError::Malformed { rule } => {
                write!(f, "the bytes break a rule of the format: {rule}")
            }
            DecodeError::TooLarge { what, size, max } => {
                write!(f, "{what}: {size} is over the limit of {max}")
            }
            DecodeError::MembersUnsupported => {
                f.write_str("the space has members, which this program cannot deal with")
            }
        }
    }
}

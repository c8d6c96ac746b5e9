//! Why the admission rules reject a writer.

use crate::error::Detail;
use crate::writer_id::WriterId;
use core::fmt;

/// The reason why the admission rules reject a message, or this replica itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdmissionError {
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
    /// This replica's writer was declared dead or absorbed.
    Retired,
}

impl fmt::Display for AdmissionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            AdmissionError::Gone { writer } => write!(
                f,
                "the sender's writer {writer} left or was retired; it has to come back under a new one"
            ),
            AdmissionError::Behind => f.write_str(
                "the sender missed what was collected meanwhile; it has to begin again from a member's state",
            ),
            AdmissionError::Outdated => f.write_str(
                "this replica missed what was collected meanwhile; begin again from a member's state",
            ),
            AdmissionError::Unsure { writer } => write!(
                f,
                "it is not certain yet that writer {writer} began from a state that was new enough; ask for all that is missing here"
            ),
            AdmissionError::Stranger { writer } => {
                write!(f, "no member of the space has taken writer {writer} in")
            }
            AdmissionError::Retired => {
                f.write_str("this writer was retired; go on under a new one")
            }
        }
    }
}

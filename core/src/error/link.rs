//! Why a frame was rejected on its link.

use crate::error::Detail;
use core::fmt;

/// The version of the protocol that this crate implements.
pub const VERSION: u8 = 1;

/// The reason why a frame was rejected on its link.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkError {
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
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            LinkError::NotAFrame => f.write_str("these bytes are no Tallymesh frame"),
            LinkError::Version { min, max } => write!(
                f,
                "the peer speaks protocol versions {min} to {max}, this program speaks {}; upgrade the older one",
                VERSION
            ),
            LinkError::WrongSpace => f.write_str("a frame of another space came on this link"),
            LinkError::Handshake => {
                f.write_str("a link opens with one hello, before anything else")
            }
        }
    }
}

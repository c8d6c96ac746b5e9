//! Why a token was rejected.

use crate::bounds;
use crate::error::Detail;
use core::fmt;

/// The reason why a token was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// A text is no token.
    Token {
        /// Its length in bytes.
        chars: Detail<usize>,
    },
    /// A session depends on more writers than a token can name.
    TokenFull {
        /// How many writers they are.
        writers: Detail<usize>,
    },
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            TokenError::Token { chars } => write!(
                f,
                "these {chars} bytes are no token; pass on unchanged what an answer gave, or leave it out"
            ),
            TokenError::TokenFull { writers } => write!(
                f,
                "a token names at most {} writers, and this session depends on {writers}; go on where \
                 it wrote last, or read at level quorum instead",
                bounds::TOKEN_WRITERS_MAX
            ),
        }
    }
}

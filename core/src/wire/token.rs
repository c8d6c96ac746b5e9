//! Tokens: what a session depends on, as text that a client passes on.
//!
//! They carry the session guarantees of Terry, Demers, Petersen, Spreitzer, Theimer and Welch (1994): a
//! replica that covers the token shows what the session has read and written. One vector stands for both read
//! set and write set, because a replica's view is a causal cut. It names at most [`TOKEN_WRITERS_MAX`]
//! writers.

use super::bytes::read_all;
use super::message::{put_vector, read_vector};
use crate::bounds::TOKEN_WRITERS_MAX;
use crate::error::{Error, Rule, TokenError, detail};
use crate::state::vector::VersionVector;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The version of the format, in the first byte.
const VERSION: u8 = 1;
/// The version, the count, and for each writer its id and a clock.
const BYTES_MAX: usize = 2 + TOKEN_WRITERS_MAX * (16 + 10);
const CHARS_MAX: usize = BYTES_MAX.div_ceil(3) * 4;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The transactions on which a session depends: at most [`TOKEN_WRITERS_MAX`] writers, each with a clock.
///
/// A replica that has these transactions has everything that the session has written and read. The reason is
/// that each transaction brings everything that its writer had seen.
///
/// Its text is base64url without padding (RFC 4648) of a version and a version vector. One token has one
/// text.
///
/// ```
/// use tallymesh_core::{Replica, Space, Token, WriterId};
/// # fn main() -> Result<(), tallymesh_core::Error> {
/// let writer = |nonce| WriterId::mint(&Space::default(), &[7; 32], &[nonce; 16]);
/// let mut here = Replica::new(Space::default(), writer(1));
/// let mut there = Replica::new(Space::default(), writer(2));
/// here.add("likes", 2)?;
/// let text = here.consistency().token(&Token::default())?.to_string();
/// let token: Token = text.parse()?;
/// assert!(!there.consistency().holds(token.vector()));
/// there.merge(&here.delta(&there.vector()))?;
/// assert!(there.consistency().holds(token.vector()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Token(VersionVector);

impl Token {
    /// Makes a token of a vector.
    ///
    /// # Errors
    /// [`TokenError::TokenFull`] if the vector has more writers than a token may have.
    pub(crate) fn new(vector: VersionVector) -> Result<Token, Error> {
        match vector.len() {
            ..=TOKEN_WRITERS_MAX => Ok(Token(vector)),
            writers => Err(TokenError::TokenFull {
                writers: detail(writers),
            }
            .into()),
        }
    }

    /// The transactions on which the session depends.
    pub fn vector(&self) -> &VersionVector {
        &self.0
    }

    /// Whether it depends on nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::from([VERSION]);
        put_vector(&mut bytes, &self.0);
        f.write_str(&text(&bytes))
    }
}

impl core::str::FromStr for Token {
    type Err = Error;

    /// Reads a token's text. It accepts exactly the texts that [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Token, Error> {
        let refused = || {
            Error::from(TokenError::Token {
                chars: detail(text.len()),
            })
        };
        let bytes = bytes(text).ok_or_else(refused)?;
        let vector = read_all(&bytes, |reader| match reader.u8() {
            VERSION => read_vector(reader),
            _ => Err(reader.malformed(Rule::VersionByte)),
        });
        Token::new(vector.map_err(|_| refused())?).map_err(|_| refused())
    }
}

fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let at = |at: usize| u32::from(part.get(at).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..=part.len() {
            let digit = bits >> (18 - 6 * place) & 63;
            text.push(char::from(ALPHABET[digit as usize]));
        }
    }
    text
}

/// Returns the bytes of a text in the form that [`text`] writes. `None` for any other text.
fn bytes(encoded: &str) -> Option<Vec<u8>> {
    if encoded.len() > CHARS_MAX {
        return None;
    }
    let mut bytes = Vec::with_capacity(encoded.len() / 4 * 3 + 3);
    for part in encoded.as_bytes().chunks(4) {
        let mut bits = 0u32;
        for digit in part {
            let value = ALPHABET.iter().position(|known| known == digit)?;
            bits = bits << 6 | value as u32;
        }
        bits <<= 6 * (4 - part.len());
        let [_, high, middle, low] = bits.to_be_bytes();
        bytes.extend_from_slice(&[high, middle, low][..part.len() * 3 / 4]);
    }
    // Bits that are left over would give one token several texts.
    (text(&bytes) == encoded).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer_id::WriterId;
    use alloc::string::ToString;
    use std::format;

    fn token(writers: u8) -> Token {
        let entry = |at: u8| (WriterId::from_bytes([at; 16]), u64::MAX >> (at % 60));
        Token::new(VersionVector::from_sorted(
            (0..writers).map(entry).collect(),
        ))
        .unwrap()
    }

    #[test]
    fn a_token_is_what_its_text_says() {
        for writers in [0, 1, 2, 3, 63, 64] {
            let it = token(writers);
            let text = it.to_string();
            assert!(text.len() <= CHARS_MAX, "{writers}: {}", text.len());
            assert_eq!(text.parse(), Ok(it), "{writers}");
            let safe = |it: char| it.is_ascii_alphanumeric() || "-_".contains(it);
            assert!(text.chars().all(safe), "{text}");
        }
        assert_eq!(token(0).to_string(), "AQA");
        // base64url of 01 01, sixteen zeros, and 2^64 - 1.
        let text = "AQEAAAAAAAAAAAAAAAAAAAAA____________AQ";
        assert_eq!(token(1).to_string(), text);
    }

    #[test]
    fn nothing_else_is_a_token() {
        let text = token(3).to_string();
        let mut wrong = std::vec![
            String::new(),
            "AQ".into(),
            "AQA=".into(),
            "AQB".into(),  // a bit that is left over
            "AgA".into(),  // another version
            "AQAA".into(), // a byte too much
            "AQ+A".into(),
            "ÄQA".into(),
            format!(" {text}"),
            format!("{text}AAAA"),
            "A".repeat(CHARS_MAX + 1),
            "A".repeat(1 << 20),
        ];
        wrong.extend((0..text.len()).map(|end| String::from(&text[..end])));
        let over = (0..65).map(|at| (WriterId::from_bytes([at; 16]), 1));
        let over = Token(VersionVector::from_sorted(over.collect())).to_string();
        wrong.push(over);
        for it in wrong {
            let chars = it.len();
            assert_eq!(
                it.parse::<Token>(),
                Err(TokenError::Token { chars }.into()),
                "{it}"
            );
        }
    }
}

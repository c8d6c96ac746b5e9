//! Names: the space that counters live in, and the writers that own shards.

use crate::bounds::SPACE_BYTES_MAX;
use crate::error::{Error, WriteError, detail};
use crate::hash::sha256_half;
use alloc::boxed::Box;
use core::fmt;

/// The name of a separate set of counters: 1 to 64 of `A-Z a-z 0-9 . _ -`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Space(Box<str>);

impl Space {
    /// Checks a name.
    ///
    /// # Errors
    /// [`WriteError::SpaceName`] if it is empty, too long or has another character.
    pub fn new(name: &str) -> Result<Space, Error> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if name.is_empty() || name.len() > SPACE_BYTES_MAX || !name.bytes().all(fits) {
            return Err(WriteError::SpaceName {
                bytes: detail(name.len()),
            }
            .into());
        }
        Ok(Space(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Space {
    fn default() -> Space {
        Space("default".into())
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An identity that owns shards: 16 bytes that the library makes, never a user.
///
/// Each start of a process mints a fresh one under its owner's key. So no restored backup and no cloned
/// disk can repeat a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriterId([u8; 16]);

impl WriterId {
    /// Mints the id of one incarnation.
    ///
    /// It is the first 16 bytes of SHA-256 over `tallymesh-writer-1`, the space's name, the owner's Ed25519
    /// public key and `nonce`. The nonce is 16 random bytes, drawn at this start. A holder of the key can
    /// prove that the id is its own.
    pub fn mint(space: &Space, owner_public_key: &[u8; 32], nonce: &[u8; 16]) -> WriterId {
        let mut bytes = b"tallymesh-writer-1".to_vec();
        bytes.extend_from_slice(space.as_str().as_bytes());
        bytes.extend_from_slice(owner_public_key);
        bytes.extend_from_slice(nonce);
        WriterId(sha256_half(bytes))
    }

    /// The id made of these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> WriterId {
        WriterId(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Reads the 32 hexadecimal digits that [`Display`](fmt::Display) writes.
    pub fn parse(hex: &str) -> Option<WriterId> {
        let digits = hex.as_bytes();
        if digits.len() != 32 {
            return None;
        }
        let digit = |b: u8| match b {
            b'0'..=b'9' => Some(b - b'0'),
            b'a'..=b'f' => Some(b - b'a' + 10),
            _ => None,
        };
        let mut id = [0; 16];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(WriterId(id))
    }
}

impl fmt::Display for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

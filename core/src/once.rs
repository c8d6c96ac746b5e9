//! Idempotency keys: the name of one request, for as long as it is repeated.

use crate::hash::sha256_half;
use alloc::vec::Vec;

/// An idempotency key, with the content of its request.
///
/// It has only digests: 16 bytes of SHA-256 of the key, and 8 of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Once {
    pub(crate) key: [u8; 16],
    pub(crate) content: u64,
}

impl Once {
    /// Makes the digests of a key and a content. `content` is any encoding of the operations: the same for a
    /// retry, and another one for anything else.
    pub fn new(key: &[u8], content: &[u8]) -> Once {
        let tagged = |tag: &[u8], bytes: &[u8]| sha256_half([tag, bytes].concat());
        let content: Vec<u8> = tagged(b"tallymesh-content-1", content).into();
        Once {
            key: tagged(b"tallymesh-key-1", key),
            content: u64::from_le_bytes(core::array::from_fn(|at| content[at])),
        }
    }
}

//! Hashes: SHA-256 for names and digests, and a fast one for what stays among friends.

use alloc::vec::Vec;
use sha2::block_api::compress256;

/// What SHA-256 begins with.
const BEGIN: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// The first half of the SHA-256 of `bytes`.
///
/// All of them are at hand, so they are filled up here: a hasher that takes them piece by piece is
/// twice the code to download.
pub(crate) fn sha256_half(mut bytes: Vec<u8>) -> [u8; 16] {
    let bits = 8 * bytes.len() as u64;
    bytes.push(0x80);
    // Then zeros, so that the length ends the last block.
    bytes.resize((bytes.len() + 8).next_multiple_of(64) - 8, 0);
    bytes.extend_from_slice(&bits.to_be_bytes());
    let mut state = BEGIN;
    compress256(&mut state, bytes.as_chunks().0);
    let mut half = [0; 16];
    for (out, word) in half.as_chunks_mut().0.iter_mut().zip(state) {
        *out = word.to_be_bytes();
    }
    half
}

/// The finish of SplitMix64 (Steele, Lea, Flood 2014): spreads what differs in few bits over all.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One step of a hash over words.
#[inline]
pub(crate) fn fold(hash: u64, word: u64) -> u64 {
    mix(hash.rotate_left(32).wrapping_add(word) ^ 0x9e37_79b9_7f4a_7c15)
}

/// A hash of bytes; `seed` is 0 where others have to come to the same.
pub(crate) fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let begin = seed ^ bytes.len() as u64;
    fold(words.fold(begin, fold), u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    #[test]
    fn it_is_sha256_at_every_length() {
        for len in 0..200u8 {
            let bytes: Vec<u8> = (0..len).collect();
            assert_eq!(sha256_half(bytes.clone()), Sha256::digest(&bytes)[..16]);
        }
    }
}

//! Hashes: SHA-256 (FIPS 180-4) for names and digests, and a fast one for accidents. The fast one is built on the
//! finish of SplitMix64 (Steele, Lea, Flood 2014). `compact` has the SHA-256 of browsers, and
//! `table` their hash table.

use alloc::vec::Vec;
#[cfg(not(target_family = "wasm"))]
use sha2::block_api::compress256;

#[cfg(any(test, target_family = "wasm"))]
mod compact;
#[cfg(any(test, target_family = "wasm"))]
pub(crate) mod table;
#[cfg(target_family = "wasm")]
use compact::compress256;

/// The initial state of SHA-256.
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

/// Returns the first half of the SHA-256 of `bytes`.
///
/// All bytes are at hand, so the padding is appended to them. A hasher that takes them piece by piece is
/// twice the code to download.
pub(crate) fn sha256_half(mut bytes: Vec<u8>) -> [u8; 16] {
    // The upper bytes of the 8-byte length in bits are among the zeros.
    let bits = u32::try_from(8 * bytes.len()).expect("less than 512 MB");
    bytes.push(0x80);
    bytes.resize(((bytes.len() + 7) | 63) - 3, 0);
    bytes.extend_from_slice(&bits.to_be_bytes());
    let mut state = BEGIN;
    compress256(&mut state, bytes.as_chunks().0);
    let mut half = [0; 16];
    for (out, word) in half.as_chunks_mut().0.iter_mut().zip(state) {
        *out = word.to_be_bytes();
    }
    half
}

/// The finish of SplitMix64 (Steele, Lea, Flood 2014): it spreads a difference of few bits over all bits.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Predictable random numbers: SplitMix64 (Steele, Lea, Flood 2014), a generator whose whole state is one
/// number. A seed always gives the same numbers, so it makes no keys.
///
/// The sync machine spreads its timers with it. Programs around it and tests may, too.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The generator of this seed.
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }
}

/// One step of a hash over words.
#[inline]
pub(crate) fn fold(hash: u64, word: u64) -> u64 {
    mix(hash.rotate_left(32).wrapping_add(word) ^ 0x9e37_79b9_7f4a_7c15)
}

/// A hash of bytes. `seed` is 0 where other replicas have to compute the same hash.
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

    /// The code for WebAssembly, in place of the crate that is linked here.
    #[test]
    #[cfg(not(target_family = "wasm"))]
    fn the_compact_one_compresses_alike() {
        let mut blocks = [[0; 64]; 3];
        for seed in 0..1_000 {
            for (at, byte) in blocks.as_flattened_mut().iter_mut().enumerate() {
                *byte = (mix(seed) >> (at % 8 * 8)) as u8 ^ (mix(at as u64) as u8);
            }
            let (mut ours, mut theirs) = (BEGIN, BEGIN);
            compact::compress256(&mut ours, &blocks);
            compress256(&mut theirs, &blocks);
            assert_eq!(ours, theirs, "seed {seed}");
        }
    }

    /// The examples of FIPS 180-4 with one block, and with two.
    #[test]
    fn it_takes_the_examples_of_its_standard() {
        let half = |text: &[u8]| u128::from_be_bytes(sha256_half(text.to_vec()));
        assert_eq!(half(b"abc"), 0xba78_16bf_8f01_cfea_4141_40de_5dae_2223);
        let long = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(half(long), 0x248d_6a61_d206_38b8_e5c0_2693_0c3e_6039);
    }
}

//! Version vectors: what a replica holds, writer by writer.

use crate::hash::sha256_half;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// Writer -> the highest clock such that everything of that writer up to it is held and visible.
///
/// A writer that is not in the vector stands at 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionVector(Vec<(WriterId, u64)>); // ascending by writer, no zeros

impl VersionVector {
    /// Takes entries that ascend by writer and have no zero clock.
    pub(crate) fn from_sorted(entries: Vec<(WriterId, u64)>) -> VersionVector {
        debug_assert!(entries.windows(2).all(|w| w[0].0 < w[1].0));
        VersionVector(entries)
    }

    /// The clock up to which `writer` is held, 0 if nothing of it is.
    pub fn get(&self, writer: &WriterId) -> u64 {
        match self.0.binary_search_by(|entry| entry.0.cmp(writer)) {
            Ok(at) => self.0[at].1,
            Err(_) => 0,
        }
    }

    /// Each writer with its clock, ascending by writer.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (WriterId, u64)> + '_ {
        self.0.iter().copied()
    }

    /// How many writers are in it.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is the vector of nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same without these writers.
    pub(crate) fn without(mut self, writers: &[WriterId]) -> VersionVector {
        self.0.retain(|(writer, _)| !writers.contains(writer));
        self
    }

    /// Whether all that `other` holds is held here too.
    pub fn covers(&self, other: &VersionVector) -> bool {
        other
            .iter()
            .all(|(writer, clock)| clock <= self.get(&writer))
    }

    /// A digest by which two vectors are compared without sending them: SHA-256 over ids and
    /// little-endian clocks, cut to 16 bytes.
    pub fn digest(&self) -> [u8; 16] {
        let mut bytes = Vec::with_capacity(24 * self.len() + 72);
        for (writer, clock) in &self.0 {
            bytes.extend_from_slice(writer.as_bytes());
            bytes.extend_from_slice(&clock.to_le_bytes());
        }
        sha256_half(bytes)
    }
}

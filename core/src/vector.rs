//! Version vectors: what a replica has, writer by writer (Parker et al. 1983).
//!
//! An entry covers a prefix: everything that the writer made up to this clock is held and visible. A vector
//! never claims a clock of which something is missing, so two replicas with equal vectors show the same.

use crate::hash::sha256_half;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// For each writer, the highest clock up to which the replica has all transactions of the writer, and shows
/// them.
///
/// A writer that is not in the vector has the clock 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionVector(Vec<(WriterId, u64)>); // ascending by writer, no zeros

impl VersionVector {
    /// The vector of nothing.
    pub(crate) const EMPTY: VersionVector = VersionVector(Vec::new());

    /// Makes a vector of entries that ascend by writer and have no zero clock.
    pub(crate) fn from_sorted(entries: Vec<(WriterId, u64)>) -> VersionVector {
        debug_assert!(entries.windows(2).all(|w| w[0].0 < w[1].0));
        VersionVector(entries)
    }

    /// The vector without the writers for which `keeps` is false.
    pub fn restricted(self, mut keeps: impl FnMut(&WriterId) -> bool) -> VersionVector {
        let entries = self.0.into_iter();
        VersionVector(entries.filter(|it| keeps(&it.0)).collect())
    }

    /// The vector that covers one writer up to a clock.
    pub fn of(writer: WriterId, clock: u64) -> VersionVector {
        let entry = [(writer, clock)].into_iter();
        VersionVector(entry.filter(|it| it.1 > 0).collect())
    }

    /// Returns the clock up to which the vector covers `writer`, 0 if it covers nothing of it.
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

    /// The entries of these writers.
    pub(crate) fn only(mut self, writers: &[WriterId]) -> VersionVector {
        self.0.retain(|(writer, _)| writers.contains(writer));
        self
    }

    /// The same with at most this clock of a writer.
    #[cfg(all(feature = "members", not(target_family = "wasm")))]
    pub(crate) fn up_to(mut self, writer: &WriterId, clock: u64) -> VersionVector {
        if let Ok(at) = self.0.binary_search_by(|entry| entry.0.cmp(writer)) {
            match clock {
                0 => drop(self.0.remove(at)),
                _ => self.0[at].1 = clock.min(self.0[at].1),
            }
        }
        self
    }

    /// For each writer the smaller clock of both vectors.
    #[cfg(feature = "members")]
    pub(crate) fn within(&self, other: &VersionVector) -> VersionVector {
        let both = self.iter().map(|it| (it.0, it.1.min(other.get(&it.0))));
        VersionVector(both.filter(|it| it.1 > 0).collect())
    }

    /// For each writer the greater clock of both vectors.
    pub fn joined(&self, other: &VersionVector) -> VersionVector {
        let mut entries = self.0.clone();
        for (writer, clock) in other.iter() {
            match entries.binary_search_by(|entry| entry.0.cmp(&writer)) {
                Ok(at) => entries[at].1 = entries[at].1.max(clock),
                Err(at) => entries.insert(at, (writer, clock)),
            }
        }
        VersionVector(entries)
    }

    /// Whether it covers everything that `other` covers.
    pub fn covers(&self, other: &VersionVector) -> bool {
        other
            .iter()
            .all(|(writer, clock)| clock <= self.get(&writer))
    }

    /// Returns a digest by which two vectors are compared without sending them. It is SHA-256 over ids and
    /// little-endian clocks, cut to 16 bytes.
    pub fn digest(&self) -> [u8; 16] {
        let mut bytes = crate::list(24 * self.len() + 72);
        for (writer, clock) in &self.0 {
            bytes.extend_from_slice(writer.as_bytes());
            bytes.extend_from_slice(&clock.to_le_bytes());
        }
        sha256_half(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(entries: &[(u8, u64)]) -> VersionVector {
        let id = |byte| WriterId::from_bytes([byte; 16]);
        let entries = entries.iter().map(|(byte, clock)| (id(*byte), *clock));
        VersionVector::from_sorted(entries.collect())
    }

    #[test]
    fn a_restricted_vector_has_the_other_writers() {
        let it = vector(&[(2, 5), (4, 7), (6, 1)]);
        let rest = it.restricted(|writer| *writer != WriterId::from_bytes([4; 16]));
        assert_eq!(rest, vector(&[(2, 5), (6, 1)]));
    }

    #[test]
    fn a_vector_covers_what_it_holds() {
        let it = vector(&[(2, 5), (4, 7)]);
        for other in [&[][..], &[(2, 5)], &[(4, 7)], &[(2, 4), (4, 6)]] {
            assert!(it.covers(&vector(other)), "{other:?}");
        }
        for other in [&[(2, 6)][..], &[(3, 1)], &[(2, 1), (4, 8)]] {
            assert!(!it.covers(&vector(other)), "{other:?}");
        }
    }

    #[test]
    fn vectors_are_joined_by_the_greater_clock() {
        let it = vector(&[(2, 5), (4, 7)]);
        let other = vector(&[(1, 1), (2, 4), (4, 8), (9, 2)]);
        let both = vector(&[(1, 1), (2, 5), (4, 8), (9, 2)]);
        assert_eq!(it.joined(&other), both);
        assert_eq!(other.joined(&it), both);
        assert_eq!(it.joined(&vector(&[])), it);
    }

    #[test]
    #[cfg(feature = "members")]
    fn a_vector_within_another_has_the_smaller_clocks() {
        let it = vector(&[(2, 5), (4, 7), (6, 1)]);
        let other = vector(&[(1, 1), (2, 4), (4, 8)]);
        let both = vector(&[(2, 4), (4, 7)]);
        assert_eq!(it.within(&other), both);
        assert_eq!(other.within(&it), both);
        assert_eq!(it.within(&vector(&[])), vector(&[]));
    }

    #[test]
    fn a_vector_knows_its_entries() {
        let it = vector(&[(2, 5), (4, 7)]);
        let id = |byte| WriterId::from_bytes([byte; 16]);
        assert_eq!([1, 2, 3, 4].map(|byte| it.get(&id(byte))), [0, 5, 0, 7]);
        assert_eq!((it.len(), it.is_empty()), (2, false));
        assert!(vector(&[]).is_empty());
        assert_eq!(VersionVector::of(id(2), 5), vector(&[(2, 5)]));
        assert_eq!(VersionVector::of(id(2), 0), vector(&[]));
        assert!(it.iter().eq([(id(2), 5), (id(4), 7)]));
        assert_eq!(it.clone().without(&[id(2), id(3)]), vector(&[(4, 7)]));
        assert_eq!(it.digest(), vector(&[(2, 5), (4, 7)]).digest());
        assert_ne!(it.digest(), vector(&[(2, 5), (4, 8)]).digest());
        assert_ne!(it.digest(), vector(&[]).digest());
    }
}

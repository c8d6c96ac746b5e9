//! The indices by which a [journal](super) bundles: where bundles end, and the latest transaction on each counter.
//!
//! Both are vectors and no trees of the standard library. In a page's second module the trees took 8 KB of code.

use super::Made;
use crate::sort::sort;
use alloc::vec::Vec;

/// The place of a transaction, by its first clock.
pub(super) fn find(made: &[Made], clock: u64) -> Result<usize, usize> {
    made.binary_search_by_key(&clock, |made| made.clock)
}

/// The last clock and the first one of each bundle, ascending by the last one.
///
/// If a bundle gets another transaction, its entry stays beside the new one until there are as many such entries as
/// others.
#[derive(Clone, Debug)]
pub(crate) struct Bundles(Vec<(u64, u64)>);

impl Bundles {
    pub(crate) const EMPTY: Bundles = Bundles(Vec::new());

    /// Those of all transactions.
    pub(super) fn of(made: &[Made]) -> Bundles {
        let mut bundles = Bundles::EMPTY;
        bundles.extend(made.iter());
        bundles
    }

    /// Notes a bundle that ends last.
    pub(super) fn push(&mut self, made: &[Made], last: u64, first: u64) {
        if self.0.len() == self.0.capacity() {
            self.0.retain(|it| is_end(made, *it));
            self.0.reserve(self.0.len().max(4));
        }
        self.0.push((last, first));
    }

    /// Notes the bundles among new transactions. They usually end after all others.
    pub(super) fn extend<'a>(&mut self, new: impl Iterator<Item = &'a Made>) {
        let bundled = new.filter(|made| made.last > made.clock);
        let ends: Vec<(u64, u64)> = bundled.map(|made| (made.last, made.clock)).collect();
        let first = ends.iter().map(|it| it.0).min().unwrap_or(u64::MAX);
        let from = self.0.partition_point(|it| it.0 < first);
        self.0.extend(ends);
        sort(&mut self.0[from..]);
    }

    /// The bundles that end after a clock, with their last clocks and first ones, ascending by the last ones.
    pub(super) fn after(
        &self,
        made: &[Made],
        clock: u64,
    ) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        let from = self.0.partition_point(|it| it.0 <= clock);
        let ends = self.0[from..].iter().copied();
        ends.filter(|it| is_end(made, *it))
    }

    /// Drops those that end at a clock or before it.
    pub(super) fn drop_upto(&mut self, clock: u64) {
        let upto = self.0.partition_point(|it| it.0 <= clock);
        self.0.drain(..upto);
    }
}

/// Whether the transaction with this first clock ends at this last one.
fn is_end(made: &[Made], (last, first): (u64, u64)) -> bool {
    find(made, first).is_ok_and(|at| made[at].last == last)
}

/// Equal transactions have equal bundles.
impl PartialEq for Bundles {
    fn eq(&self, _: &Bundles) -> bool {
        true
    }
}

impl Eq for Bundles {}

/// The clock of the latest transaction on each counter, by the hash of its key: a table with open addresses. Its
/// length is a power of two, and at most three quarters of it are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Latest {
    /// The hash and the clock. A clock of 0 stands for a free place.
    places: Vec<(u64, u64)>,
    used: usize,
}

impl Latest {
    pub(crate) const EMPTY: Latest = Latest {
        places: Vec::new(),
        used: 0,
    };

    /// The place of a hash, or the free one where it belongs. There is one if the table has places.
    fn place(&self, hash: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut at = hash as usize & mask;
        while self.places[at].1 != 0 && self.places[at].0 != hash {
            at = (at + 1) & mask;
        }
        at
    }

    pub(super) fn get(&self, hash: u64) -> Option<u64> {
        if self.places.is_empty() {
            return None;
        }
        let (_, clock) = self.places[self.place(hash)];
        (clock > 0).then_some(clock)
    }

    pub(super) fn insert(&mut self, hash: u64, clock: u64) {
        if self.used >= self.places.len() / 4 * 3 {
            let room = (2 * self.places.len()).max(4);
            let before = core::mem::replace(&mut self.places, alloc::vec![(0, 0); room]);
            for it in before.into_iter().filter(|it| it.1 > 0) {
                let at = self.place(it.0);
                self.places[at] = it;
            }
        }
        let at = self.place(hash);
        self.used += usize::from(self.places[at].1 == 0);
        self.places[at] = (hash, clock);
    }

    pub(super) fn clear(&mut self) {
        *self = Latest::EMPTY;
    }
}

#[cfg(test)]
mod tests;

//! Whether a counter has changed.

use super::Replica;
use crate::hash::{fold, hash_bytes};
use crate::slot::{RankedBase, Slot, Stamp};

impl Replica {
    /// A number that changes whenever anything about the counter does: by an operation, by a merge,
    /// and when it expires by [`set_time`](Replica::set_time). It stays while nothing happens to the
    /// counter, whatever happens to others, but for retirement and collection, which may move what
    /// it is made of. 0 if nothing is known of the counter.
    ///
    /// It is a hash, and means nothing elsewhere.
    pub fn version(&self, key: &str) -> u64 {
        let Some(handle) = self.keys.find(key) else {
            return 0;
        };
        let slots = self.slots(handle);
        if slots.is_empty() {
            return 0;
        }
        // A sum, since local numbers, by which slots are in order, may change.
        let hashes = slots.iter().map(|slot| self.slot_version(slot));
        let slots = hashes.fold(0, u64::wrapping_add);
        fold(slots, u64::from(self.value_at(handle).is_some())).max(1)
    }

    /// A hash of all that a slot says.
    fn slot_version(&self, slot: &Slot) -> u64 {
        let id = |writer: u32| hash_bytes(0, self.writers[writer as usize].as_bytes());
        let mut hash = slot.rank().into_iter().fold(id(slot.writer()), fold);
        // Each record has a number of its own, so that none is taken for another.
        let mut take = |record: u64, by: Stamp, words: &[u64]| {
            let begin = [record, id(by.writer), by.clock];
            hash = begin
                .into_iter()
                .chain(words.iter().copied())
                .fold(hash, fold);
        };
        let halves = |wide: i128| [wide as u64, (wide >> 64) as u64];
        let side = &slot.side;
        if let Some(cut) = &side.cut {
            let [low, high] = halves(cut.total);
            take(1, cut.by, &[cut.clock, low, high]);
        }
        if let Some(lift) = &side.lift {
            take(2, lift.by, &[lift.clock]);
        }
        if let Some(moved) = &*side.moved {
            take(3, moved.to, &halves(moved.amount));
        }
        if let Some(it) = &*side.fold {
            let by = Stamp {
                writer: slot.writer(),
                clock: it.clock,
            };
            let base = it.base.map_or(
                0,
                |RankedBase {
                     set,
                     clock,
                     writer,
                     value,
                 }| {
                    let words = [u64::from(set), clock, value as u64];
                    words
                        .into_iter()
                        .fold(hash_bytes(1, writer.as_bytes()), fold)
                },
            );
            let [low, high] = halves(it.amount);
            let until = it.until.map_or([0, 0], |until| [1, until]);
            take(
                4,
                by,
                &[low, high, u64::from(it.adds), base, until[0], until[1]],
            );
        }
        hash
    }
}

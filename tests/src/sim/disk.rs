//! The disk of a replica: records, with what was seen when each was written. A record is there or is not: a
//! store finds out by lengths and check sums of its own which are whole.

use std::rc::Rc;

/// A record, and what was seen when it was written.
type Record<V> = (Rc<Vec<u8>>, V);

/// What a process begins from.
#[derive(Clone, Default)]
pub struct Disk<V> {
    records: Vec<Record<V>>,
}

impl<V: Clone + Default> Disk<V> {
    /// Its records, the oldest first.
    pub fn records(&self) -> &[Record<V>] {
        &self.records
    }

    /// What was seen when it was written last.
    pub fn seen(&self) -> V {
        let last = self.records.last();
        last.map_or(V::default(), |it| it.1.clone())
    }

    /// Writes a record; one that is whole stands for all before it.
    pub(super) fn write(&mut self, record: Vec<u8>, is_whole: bool, seen: V) {
        if is_whole {
            self.records.clear();
        }
        self.records.push((Rc::new(record), seen));
    }

    /// Has one record stand for all, as a store does now and then.
    pub fn compact(&mut self, record: Vec<u8>) {
        let seen = self.seen();
        self.records = vec![(Rc::new(record), seen)];
    }

    /// Loses its last records, as flushes do that were acknowledged and not done. The first record stays: it is
    /// written beside those before it, which go later.
    pub(super) fn tear(&mut self, records: usize) {
        let count = self.records.len();
        self.records.truncate(count.saturating_sub(records).max(1));
    }
}

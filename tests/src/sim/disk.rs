//! The disk of a replica: records, each with the scenario's view when it was written. A record is there as a
//! whole or not at all, because a store finds broken records by their lengths and checksums.

use std::rc::Rc;

/// A record, and the scenario's view when it was written.
type Record<V> = (Rc<Vec<u8>>, V);

/// The state from which a process starts.
#[derive(Clone, Default)]
pub struct Disk<V> {
    records: Vec<Record<V>>,
}

impl<V: Clone + Default> Disk<V> {
    /// Its records, the oldest first.
    pub fn records(&self) -> &[Record<V>] {
        &self.records
    }

    /// The view when the last record was written.
    pub fn seen(&self) -> V {
        let last = self.records.last();
        last.map_or(V::default(), |it| it.1.clone())
    }

    /// Writes a record. A whole state replaces all records before it.
    pub(super) fn write(&mut self, record: Vec<u8>, is_whole: bool, seen: V) {
        if is_whole {
            self.records.clear();
        }
        self.records.push((Rc::new(record), seen));
    }

    /// Replaces all records by one, as a store does from time to time.
    pub fn compact(&mut self, record: Vec<u8>) {
        let seen = self.seen();
        self.records = vec![(Rc::new(record), seen)];
    }

    /// Loses its last records, as after flushes that were acknowledged and not done. The first record stays,
    /// because it is written beside those before it, and those are removed later.
    pub(super) fn tear(&mut self, records: usize) {
        let count = self.records.len();
        self.records.truncate(count.saturating_sub(records).max(1));
    }
}

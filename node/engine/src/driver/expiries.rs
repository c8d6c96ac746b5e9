//! The expiry times of a space's counters, ordered so that the next one is found without a search.

use std::collections::{BTreeSet, HashMap};
use tallymesh_core::KeyId;

/// The counters that expire, by time. This is only an index: the replica decides whether a counter
/// has expired.
#[derive(Default)]
pub(super) struct Expiries {
    by_time: BTreeSet<(u64, KeyId)>,
    times: HashMap<KeyId, u64>,
}

impl Expiries {
    /// Records when a counter expires, in milliseconds since 1970; `None` if it does not.
    pub(super) fn note(&mut self, counter: KeyId, at: Option<u64>) {
        if at.is_none() && self.times.is_empty() {
            return; // Few spaces have counters that expire, and this is asked for every change.
        }
        let before = match at {
            Some(at) => self.times.insert(counter, at),
            None => self.times.remove(&counter),
        };
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.by_time.remove(&(before, counter));
        }
        if let Some(at) = at {
            self.by_time.insert((at, counter));
        }
    }

    /// Removes and returns the counter that expires next, if it is due at `now`.
    pub(super) fn take_due(&mut self, now: u64) -> Option<KeyId> {
        let &(at, counter) = self.by_time.first().filter(|(at, _)| *at <= now)?;
        self.by_time.remove(&(at, counter));
        self.times.remove(&counter);
        Some(counter)
    }

    /// When the next counter expires, in milliseconds since 1970.
    pub(super) fn next(&self) -> Option<u64> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// The counters that expire from a time on and before another.
    pub(super) fn between(&self, from: u64, until: u64) -> impl Iterator<Item = KeyId> {
        let all = (from, KeyId::from_u32(0))..(until.max(from), KeyId::from_u32(0));
        self.by_time.range(all).map(|(_, counter)| *counter)
    }

    /// How many counters expire.
    pub(super) fn len(&self) -> usize {
        self.times.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_is_due_once_at_its_newest_time() {
        let handle = KeyId::from_u32;
        let mut expiries = Expiries::default();
        for (counter, at) in [
            (1, Some(50)),
            (2, Some(20)),
            (3, Some(20)),
            (1, Some(10)),
            (3, None),
            (4, None),
            (2, Some(20)),
        ] {
            expiries.note(handle(counter), at);
        }
        assert_eq!((expiries.len(), expiries.next()), (2, Some(10)));
        assert_eq!(expiries.take_due(9), None);
        assert_eq!(expiries.take_due(10), Some(handle(1)));
        assert_eq!(expiries.take_due(10), None);
        assert_eq!((expiries.len(), expiries.next()), (1, Some(20)));
        assert_eq!(expiries.take_due(u64::MAX), Some(handle(2)));
        assert_eq!((expiries.len(), expiries.next()), (0, None));
    }
}

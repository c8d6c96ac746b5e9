//! How many counters of a space exist, counted along, so that to ask takes no time.
//!
//! Whether a counter exists changes when somebody changes it, and when its expiry passes. The owner tells
//! of the former with [`look`](Existing::look); of the latter it finds out by the times of expiries.

use tallymesh_core::{KeyId, RESERVED, Replica};

/// The counters that exist, and how many they are.
#[derive(Default)]
pub(super) struct Existing {
    /// By handle.
    bits: Vec<u64>,
    count: usize,
    /// The [generation](Replica::generation) of the replica that was counted: with another one handles
    /// mean other counters. `None` before the first count.
    generation: Option<u64>,
    /// Up to when expiries were looked at, in milliseconds since 1970.
    time: u64,
    /// Counters that were looked at one by one.
    #[cfg(test)]
    pub(super) looked: usize,
}

impl Existing {
    /// Whether it is of this replica, so that it only has to hear of changes.
    pub(super) fn is_of(&self, replica: &Replica) -> bool {
        self.generation == Some(replica.generation())
    }

    /// Counts all, which takes time for each.
    pub(super) fn recount(&mut self, replica: &Replica, unix_ms: u64) {
        self.bits.clear();
        self.count = 0;
        (self.generation, self.time) = (Some(replica.generation()), unix_ms);
        replica.each_counter(&mut |counter| self.set(counter, true));
    }

    /// Looks whether a counter exists now.
    #[inline]
    pub(super) fn look(&mut self, replica: &Replica, counter: KeyId) {
        #[cfg(test)]
        {
            self.looked += 1;
        }
        let exists = replica.value_at(counter).is_some();
        if exists != self.has(counter) {
            let is_plain = || {
                replica
                    .key(counter)
                    .is_some_and(|key| !key.starts_with(RESERVED))
            };
            self.set(counter, exists && is_plain());
        }
    }

    /// The times at which expiries are to be looked at, before those at this time: from the first on and
    /// below the second.
    pub(super) fn pass(&mut self, unix_ms: u64) -> (u64, u64) {
        let before = std::mem::replace(&mut self.time, unix_ms);
        (before.saturating_add(1), unix_ms.saturating_add(1))
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Has the next one who asks count all again, as when the clock went back.
    pub(super) fn forget(&mut self) {
        self.generation = None;
    }

    fn has(&self, counter: KeyId) -> bool {
        let at = counter.as_u32() as usize;
        self.bits
            .get(at / 64)
            .is_some_and(|bits| bits >> (at % 64) & 1 == 1)
    }

    fn set(&mut self, counter: KeyId, exists: bool) {
        if self.has(counter) == exists {
            return;
        }
        let at = counter.as_u32() as usize;
        if self.bits.len() <= at / 64 {
            self.bits.resize(at / 64 + 1, 0);
        }
        self.bits[at / 64] ^= 1 << (at % 64);
        match exists {
            true => self.count += 1,
            false => self.count -= 1,
        }
    }
}

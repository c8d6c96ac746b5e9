//! The number of existing counters of a space, counted incrementally, so that to ask for it takes
//! no time.
//!
//! A counter begins or ceases to exist by a change, or by its expiry. The owner reports changes
//! with [`look`](Existing::look). It finds the expired counters with [`pass`](Existing::pass).

use tallymesh_core::{KeyId, RESERVED, Replica};

/// The set of existing counters, and its size.
#[derive(Default)]
pub(super) struct Existing {
    /// One bit for each KeyId.
    bits: Vec<u64>,
    count: usize,
    /// The [generation](Replica::generation) of the replica that was counted. In another generation
    /// the same KeyIds mean other counters. `None` before the first count.
    generation: Option<u64>,
    /// The time up to which expiries were handled, in milliseconds since 1970.
    time: u64,
    /// How many counters were looked at one by one.
    #[cfg(test)]
    pub(super) looked: usize,
}

impl Existing {
    /// Whether the count belongs to this replica and generation, so that changes alone keep it
    /// correct.
    pub(super) fn is_of(&self, replica: &Replica) -> bool {
        self.generation == Some(replica.generation())
    }

    /// Counts all counters, which takes time for each.
    pub(super) fn recount(&mut self, replica: &Replica, unix_ms: u64) {
        self.bits.clear();
        self.count = 0;
        (self.generation, self.time) = (Some(replica.generation()), unix_ms);
        replica.each_counter(&mut |counter| self.set(counter, true));
    }

    /// Updates whether a counter exists now.
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

    /// Moves the time to `unix_ms`. Returns the range of expiry times to handle: from the first,
    /// below the second.
    pub(super) fn pass(&mut self, unix_ms: u64) -> (u64, u64) {
        let before = std::mem::replace(&mut self.time, unix_ms);
        (before.saturating_add(1), unix_ms.saturating_add(1))
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Makes the next query count all counters again, for example after the clock went back.
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

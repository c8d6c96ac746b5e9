//! The hash table of the key table in WebAssembly: a plain one with linear probing.
//!
//! It does what hashbrown's does natively, with a sixth of the code to download. Look-ups are
//! slower, which matters little: keys rarely cross from JavaScript.

use alloc::vec::Vec;

/// A slot that was not used since the table last grew.
const EMPTY: u32 = u32::MAX;
/// A slot whose number was removed. A look-up continues behind it.
const REMOVED: u32 = u32::MAX - 1;
const SLOTS_MIN: usize = 8;

/// A set of numbers below [`REMOVED`], which are found by a hash and a test.
#[derive(Clone)]
pub(crate) struct Table {
    /// The slots: a power of two of them, or none.
    slots: Vec<u32>,
    len: usize,
    /// How many slots are not empty.
    used: usize,
}

/// A number in a table.
pub(crate) struct Entry<'a> {
    table: &'a mut Table,
    at: usize,
}

impl Table {
    pub(crate) const fn new() -> Table {
        Table {
            slots: Vec::new(),
            len: 0,
            used: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Returns the place of the number that passes the test. All tests share one function.
    #[inline(never)]
    fn probe(&self, hash: u64, is_it: &mut dyn FnMut(&u32) -> bool) -> Option<usize> {
        let mut at = hash as usize;
        loop {
            let here = at & self.slots.len().wrapping_sub(1);
            let number = self.slots.get(here)?;
            if *number == EMPTY {
                return None;
            }
            if *number != REMOVED && is_it(number) {
                return Some(here);
            }
            at += 1;
        }
    }

    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(&u32) -> bool) -> Option<&u32> {
        self.slots.get(self.probe(hash, &mut is_it)?)
    }

    pub(crate) fn find_entry(
        &mut self,
        hash: u64,
        mut is_it: impl FnMut(&u32) -> bool,
    ) -> Result<Entry<'_>, ()> {
        let at = self.probe(hash, &mut is_it).ok_or(())?;
        Ok(Entry { table: self, at })
    }

    /// Inserts a number that is not in the table.
    pub(crate) fn insert_unique(&mut self, hash: u64, number: u32, hasher: impl Fn(&u32) -> u64) {
        // A quarter stays empty, so that probes are short and end.
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            self.shrink_to_fit(hasher);
        }
        self.put(hash, number);
        self.len += 1;
    }

    /// Does nothing: where memory is scarce, the table takes it when it needs it.
    #[cfg(all(feature = "members", target_family = "wasm"))]
    pub(crate) fn reserve(&mut self, _numbers: usize, _hasher: impl Fn(&u32) -> u64) {}

    /// Moves all numbers into a suitable number of slots, with room for one more.
    pub(crate) fn shrink_to_fit(&mut self, hasher: impl Fn(&u32) -> u64) {
        let count = ((self.len + 1) * 2).next_power_of_two().max(SLOTS_MIN);
        let old = core::mem::replace(&mut self.slots, alloc::vec![EMPTY; count]);
        self.used = 0;
        for number in old {
            if number < REMOVED {
                self.put(hasher(&number), number);
            }
        }
    }

    fn put(&mut self, hash: u64, number: u32) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != EMPTY {
            at = (at + 1) & mask;
        }
        self.slots[at] = number;
        self.used += 1;
    }
}

impl Entry<'_> {
    pub(crate) fn remove(self) {
        self.table.slots[self.at] = REMOVED;
        self.table.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Few hashes, so that probes run into each other and around the end.
    fn hash(number: &u32) -> u64 {
        u64::from(number % 11) * 13
    }

    #[test]
    fn it_holds_what_a_set_holds() {
        let mut table = Table::new();
        let mut model = BTreeSet::new();
        let mut random = 7u32;
        for step in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let number = (random >> 16) % if step % 2_000 < 1_000 { 400 } else { 30 };
            if model.insert(number) {
                table.insert_unique(hash(&number), number, hash);
            } else {
                model.remove(&number);
                let entry = table.find_entry(hash(&number), |it| *it == number);
                entry
                    .unwrap_or_else(|()| panic!("{number} is lost"))
                    .remove();
            }
            let probe = (random >> 8) % 400;
            let found = table.find(hash(&probe), |it| *it == probe).copied();
            assert_eq!(found, model.get(&probe).copied());
            assert_eq!(table.len(), model.len());
            assert!(table.len() < table.capacity());
            if step % 500 == 0 {
                table.shrink_to_fit(hash);
            }
        }
        assert!(
            model
                .iter()
                .all(|number| { table.find(hash(number), |it| it == number) == Some(number) })
        );
    }
}

//! Since when slots have their present lifetimes, as far as their begins and ends are forgotten.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// For this many slots the log remembers the clocks. If there are more, it forgets which slots they were, and keeps
/// one clock for each writer, the newest. More slots cost memory. With fewer, duplicates stay that could be
/// withdrawn.
const SLOTS_MAX: usize = 1_024;

/// The clocks from which on slots have their present lifetimes. By the counter's name, because its number is used
/// again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NewLifetimes {
    /// Ascending by writer and counter. The empty name stands for all counters.
    slots: Vec<(u32, Box<str>, u64)>,
}

impl NewLifetimes {
    /// Records that a writer's slot in this counter began its present lifetime at this clock, or later.
    pub(crate) fn note(&mut self, writer: u32, key: &str, clock: u64) {
        let mut place = self.place(writer, key);
        if place.is_err() && self.slots.len() >= SLOTS_MAX {
            self.slots.iter_mut().for_each(|it| it.1 = Box::default());
            self.slots.dedup_by(|it, first| {
                let same = first.0 == it.0;
                if same {
                    first.2 = first.2.max(it.2);
                }
                same
            });
            place = self.place(writer, key);
        }
        match place {
            Ok(at) => self.slots[at].2 = clock.max(self.slots[at].2),
            Err(at) => self.slots.insert(at, (writer, key.into(), clock)),
        }
    }

    /// The clock from which on a writer's slot in this counter has its present lifetime. 0 if nothing else is known.
    pub(super) fn of(&self, writer: u32, key: &str) -> u64 {
        let known = |key| self.place(writer, key).map_or(0, |at| self.slots[at].2);
        known(key).max(known(""))
    }

    /// Forgets these writers.
    pub(super) fn forget(&mut self, is_gone: impl Fn(u32) -> bool) {
        self.slots.retain(|it| !is_gone(it.0));
    }

    fn place(&self, writer: u32, key: &str) -> Result<usize, usize> {
        let place = (writer, key);
        self.slots.binary_search_by(|it| (it.0, &*it.1).cmp(&place))
    }

    /// The same for the same knowledge, whatever numbers the writers have.
    #[cfg(feature = "explore")]
    pub(super) fn text<W: Ord + core::fmt::Debug>(
        &self,
        id: impl Fn(u32) -> W,
    ) -> alloc::string::String {
        let slots = self.slots.iter().map(|it| (id(it.0), &it.1, it.2));
        let slots: alloc::collections::BTreeSet<_> = slots.collect();
        alloc::format!("{slots:?}")
    }

    #[cfg(test)]
    pub(crate) fn one(writer: u32, key: &str, clock: u64) -> NewLifetimes {
        let mut one = NewLifetimes::default();
        one.note(writer, key, clock);
        one
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn each_slot_has_its_own_clock_and_beyond_the_limit_a_writer_has_the_newest() {
        let mut it = NewLifetimes::default();
        for number in 0..SLOTS_MAX as u64 {
            it.note(1 + (number % 2) as u32, &format!("k{number}"), 100 + number);
        }
        it.note(2, "k1", 50);
        assert_eq!(
            [it.of(1, "k0"), it.of(2, "k1"), it.of(2, "k0")],
            [100, 101, 0]
        );
        it.note(1, "k0", 5_000);
        assert_eq!(it.of(1, "k0"), 5_000);
        it.note(3, "one more", 6_000);
        assert_eq!(it.slots.len(), 3);
        let last = 100 + SLOTS_MAX as u64 - 1;
        assert_eq!(
            [it.of(1, "x"), it.of(2, "x"), it.of(3, "x")],
            [5_000, last, 0]
        );
        it.forget(|writer| writer != 2);
        assert_eq!(
            [it.of(1, "x"), it.of(2, "x"), it.of(3, "one more")],
            [0, last, 0]
        );
    }
}

//! Change tracking: which counters changed since a mark, found without looking at the others.
//!
//! Each mark begins an *epoch*: [`State::begin_epoch`]. There are two kinds. A [`StateMark`] has clocks and an
//! epoch, and is for stores and pushes. A `Moment` has an epoch alone, and is for readers.
//!
//! Each page of 64 counters remembers the epochs of its last two changes, and which counters the last one
//! touched. Groups of 64 pages remember the same of their pages. So a search skips whole groups that did not
//! change, and an add pays one comparison.

use super::State;
use super::keys::KeyIndex;
use crate::optional::{GuestPart, MEMBERS, MemberPart, Optional};
use crate::state::page::Page;
use alloc::vec::Vec;

/// Pages in a group.
const GROUP: usize = 64;

/// When any of 64 things last changed, and which of them did. Epochs count the marks, from 1 on.
///
/// A build without the members layer, which pages download, keeps the last epoch alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touch {
    /// The epoch of the last change.
    epoch: u64,
    /// The epoch of the last change before `epoch`.
    before: MemberPart<u64>,
    /// A bit set of the things that changed in `epoch`.
    which: MemberPart<u64>,
}

impl Touch {
    /// Notes that these things change in an epoch, the newest. Returns true if no other change was noted in
    /// it before.
    #[inline]
    pub(crate) fn note(&mut self, which: u64, epoch: u64) -> bool {
        if MEMBERS {
            if self.epoch == epoch {
                self.which.update(|it| *it |= which);
                return false;
            }
            self.before.set(self.epoch);
            self.which.set(which);
        }
        self.epoch = epoch;
        true
    }

    /// Returns the things that may have changed since an epoch began.
    fn since(&self, epoch: u64) -> u64 {
        if self.epoch < epoch {
            0
        } else if MEMBERS && *self.before < epoch {
            *self.which
        } else {
            u64::MAX
        }
    }
}

/// A change mark for stores and pushes: what a state had, by clocks and by epoch.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateMark {
    /// The version vector by local number.
    pub(crate) clocks: Vec<u64>,
    pub(crate) epoch: u64,
}

/// The changes of all pages, in groups of 64 pages. Each page has the changes of its own counters.
#[derive(Clone, Default)]
pub(crate) struct Touched(MemberPart<Vec<Touch>>);

impl Touched {
    pub(crate) fn resize(&mut self, pages: usize) {
        let groups = pages.div_ceil(GROUP);
        self.0.update(|it| it.resize(groups, Touch::default()));
    }

    pub(crate) fn shrink(&mut self) {
        self.0.update(Vec::shrink_to_fit);
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Touch>()
    }

    /// Notes that a page changes in an epoch, the newest, for the first time.
    #[cold]
    pub(crate) fn note(&mut self, page: usize, epoch: u64) {
        self.0
            .update(|it| it[page / GROUP].note(1 << (page % GROUP), epoch));
    }

    /// Returns the next page, from `at` on, that changed since an epoch began. It also returns the counters
    /// of the page that may have changed.
    pub(crate) fn next(&self, pages: &[Page], mut at: usize, since: u64) -> Option<(usize, u64)> {
        loop {
            let page = pages.get(at)?;
            if MEMBERS {
                let group = self.0[at / GROUP].since(since) >> (at % GROUP);
                if group & 1 == 0 {
                    at += (group.trailing_zeros() as usize).min(GROUP - at % GROUP);
                    continue;
                }
            }
            match page.touch.since(since) {
                0 => at += 1,
                slots => return Some((at, slots)),
            }
        }
    }
}

impl<I: KeyIndex> State<I> {
    /// The number of the present epoch.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Begins an epoch, as each mark does, and returns its number.
    #[inline]
    pub(crate) fn begin_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    /// Moves a mark to the present.
    pub(crate) fn move_mark(&mut self, mark: &mut StateMark) {
        let raised = self.raised_since(mark);
        mark.epoch = self.begin_epoch();
        match raised {
            Some(raised) => {
                mark.clocks.resize(self.clocks.len(), 0);
                for number in raised {
                    mark.clocks[number as usize] = self.clocks[number as usize];
                }
            }
            None => mark.clocks.clone_from(&self.clocks),
        }
    }

    /// Whether a whole state replaced everything since a mark.
    #[inline]
    pub(crate) fn is_replaced_since(&self, mark: &StateMark) -> bool {
        self.began >= mark.epoch
    }

    /// Notes that a whole state replaces everything.
    #[inline]
    pub(crate) fn note_replaced(&mut self) {
        self.began = self.epoch;
    }

    /// The epoch in which a whole state last replaced everything, 0 for never.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.began
    }

    /// Whether the own writer has to be sent again as a whole, because its number was given to it, or its
    /// shards changed without a newer clock, since a mark.
    #[cfg(feature = "members")]
    pub(crate) fn is_own_reworked_since(&self, mark: &StateMark) -> bool {
        self.assigned[super::page::OWN as usize] >= mark.epoch
    }

    /// Returns the clock that a mark has for a local number. Returns 0 if another writer received the number
    /// since the mark.
    pub(crate) fn low(&self, mark: &StateMark, number: usize) -> u64 {
        // A program without guests has no `assigned`, because no number changes hands there.
        let since = self.assigned.get(number).copied().unwrap_or(self.began);
        match since >= mark.epoch {
            true => 0,
            false => mark.clocks.get(number).copied().unwrap_or(0),
        }
    }

    /// The clocks that a mark has, by local number.
    pub(crate) fn lows(&self, mark: &StateMark) -> Vec<u64> {
        let numbers = 0..self.ids.len();
        numbers.map(|number| self.low(mark, number)).collect()
    }

    /// Returns the next page, from `at` on, with changes since an epoch began.
    #[inline]
    pub(crate) fn next_changed(&self, at: usize, since: u64) -> Option<usize> {
        Some(self.touched.next(&self.pages, at, since)?.0)
    }

    /// How often scans of the state in parts became void.
    #[inline]
    pub(crate) fn voided(&self) -> &GuestPart<u64> {
        &self.voided
    }

    /// Makes scans of the state in parts void.
    pub(crate) fn void_scans(&mut self) {
        self.voided.update(|it| *it = it.wrapping_add(1));
    }

    /// Notes that garbage was collected, which makes scans void.
    pub(crate) fn note_collected(&mut self) {
        self.collected = true;
        self.void_scans();
    }

    /// Notes that so many counters were dropped because nothing was left of them.
    #[inline]
    pub(crate) fn note_dropped(&mut self, counters: u64) {
        self.dropped.update(|it| *it += counters);
    }
}

#[cfg(test)]
#[cfg(feature = "members")]
mod tests {
    use super::*;
    use crate::state::page::PAGE;

    #[test]
    fn what_changed_since_an_epoch_is_named_or_everything_is() {
        let mut pages = Vec::new();
        pages.resize_with(200, Page::default);
        let mut touched = Touched::default();
        touched.resize(pages.len());
        let changes = [
            (3, 0b1, 1),
            (3, 0b10, 1),
            (130, 0b100, 2),
            (130, 0b1000, 3),
            (199, 0b1, 3),
        ];
        for (page, slots, epoch) in changes {
            pages[page].touch.note(slots, epoch);
            touched.note(page, epoch);
        }
        let since = |epoch| {
            let (mut found, mut from) = (Vec::new(), 0);
            while let Some(next) = touched.next(&pages, from, epoch) {
                found.push(next);
                from = next.0 + 1;
            }
            found
        };
        assert_eq!(since(4), []);
        assert_eq!(since(3), [(130, 0b1000), (199, 0b1)]);
        assert_eq!(since(2), [(130, u64::MAX), (199, 0b1)]);
        assert_eq!(since(1), [(3, 0b11), (130, u64::MAX), (199, 0b1)]);
        assert_eq!(since(0).len(), pages.len());
        assert_eq!(touched.next(&pages, 131, 2), Some((199, 0b1)));
        assert_eq!(touched.next(&pages[..199], 131, 2), None);
    }

    fn state(keys: usize) -> State<crate::state::keys::NoIndex> {
        let writer = crate::writer_id::WriterId::from_bytes([1; 16]);
        let space = crate::writer_id::Space::default();
        let mut state = State::new(space, writer);
        for at in 0..keys {
            let key_id = state.key_id(&alloc::format!("k{at}")).unwrap();
            assert!(state.add_first(key_id, 1, 1).unwrap());
        }
        state.made(1);
        state
    }

    #[test]
    fn each_counter_of_each_page_is_found() {
        let all = 2 * PAGE + 1;
        let state = state(all);
        let mut found = Vec::new();
        state.each_counter(|key_id| found.push(key_id.0));
        found.sort_unstable();
        let expected: Vec<u32> = (0..all as u32).collect();
        assert_eq!(found, expected);
        assert_eq!(state.key_ids_end(), 3 * PAGE as u32);
    }

    /// A transaction may make as many adds of one amount as its bound allows.
    #[test]
    fn an_add_is_small_if_no_transaction_of_such_adds_can_overflow() {
        let state = state(1);
        let key_id = crate::state::keys::KeyId(0);
        let most = i64::MAX / 2 / crate::bounds::TRANSACTION_OPS_MAX as i64;
        for (by, small) in [(most, true), (-most, true), (most + 1, false), (0, true)] {
            assert_eq!(state.is_small(key_id, by), small, "{by}");
        }
        assert!(!state.is_small(crate::state::keys::KeyId(1), 1));
    }

    #[test]
    fn the_memory_of_all_parts_is_counted() {
        let mut state = state(PAGE + 1);
        state.shrink();
        let pages = state.pages.iter().map(Page::heap_bytes).sum::<usize>();
        let parts = pages + 2 * size_of::<Page>() + state.touched.heap_bytes();
        assert!(pages > 0 && state.touched.heap_bytes() > 0);
        assert_eq!(state.heap_bytes(), parts + state.keys.heap_bytes());
    }

    /// The own clock of a replica that only reads stays 0, whatever it drops.
    #[test]
    fn the_digest_of_a_state_that_was_dropped_is_that_of_nothing() {
        let mut state = state(0);
        let writer = state.writer();
        let other = crate::writer_id::WriterId::from_bytes([2; 16]);
        let number = state.number(other);
        state.made(0);
        state.advance(number as usize, 3);
        let before = state.cached_digest();
        state.clear(writer);
        let nothing = crate::state::vector::VersionVector::default().digest();
        assert_ne!(before, nothing);
        assert_eq!(state.digest(), nothing);
    }

    #[test]
    fn a_delta_raises_the_writers_of_which_it_has_something_newer() {
        use crate::state::delta::{Delta, Entry};
        let state = state(1);
        let [own, other] = [1, 2].map(|byte| crate::writer_id::WriterId::from_bytes([byte; 16]));
        let raised = |hi: [u64; 2]| {
            let writers = [own, other].into_iter().zip(hi);
            let entry = |(writer, hi)| Entry { writer, lo: 0, hi };
            let delta = Delta {
                writers: writers.map(entry).collect(),
                ..Delta::default()
            };
            state.raised_by(&delta)
        };
        assert_eq!(raised([1, 0]), []);
        assert_eq!(raised([2, 0]), [(own, 1)]);
        assert_eq!(raised([1, 4]), [(other, 0)]);
    }

    /// A start in the place of an earlier one relies on that: the state is then no more that of its store.
    #[test]
    fn a_state_that_is_dropped_begins_another_generation() {
        let writer = crate::writer_id::WriterId::from_bytes([1; 16]);
        let space = crate::writer_id::Space::default();
        let mut state = State::<crate::state::keys::NoIndex>::new(space, writer);
        state.note_replaced();
        for _ in 0..2 {
            let before = state.generation();
            state.clear(writer);
            assert!(state.generation() > before);
        }
    }

    #[test]
    fn once_shrunk_it_takes_no_more_than_its_groups_do() {
        let mut touched = Touched::default();
        assert_eq!(touched.heap_bytes(), 0);
        for (pages, groups) in [(10 * GROUP, 10), (9 * GROUP, 9), (8 * GROUP + 1, 9), (1, 1)] {
            touched.resize(pages);
            touched.shrink();
            assert_eq!(touched.heap_bytes(), groups * size_of::<Touch>());
        }
    }
}

//! Change tracking: which counters changed since a mark, found without looking at the others.
//!
//! A mark begins an *epoch*. Each page of 64 counters remembers the epochs of its last two changes, and
//! which counters the last one touched. Groups of 64 pages remember the same of their pages. So a search
//! skips whole groups that did not change, and an add pays one comparison.

use crate::layers::{MEMBERS, MemberPart, Optional};
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

/// A place in the history of a state.
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

#[cfg(test)]
#[cfg(feature = "members")]
mod tests {
    use super::*;

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

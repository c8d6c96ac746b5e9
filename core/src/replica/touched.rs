//! Which pages changed when, and which of their counters, so that what changed is found without
//! looking at what did not.

use crate::PACED;
use crate::closed::Closed;
use alloc::vec::Vec;

/// Pages under one entry of the summary.
const SUMMARY: usize = 64;

/// The changes of each page. Epochs count the marks, from 1 on.
#[derive(Clone, Default)]
pub(super) struct Touched {
    pages: Vec<Touch>,
    /// For each 64 pages the newest epoch of them.
    summary: Closed<Vec<u64>>,
}

/// The changes of a page. A program that is downloaded and holds few pages knows the last epoch only.
#[derive(Clone, Default)]
struct Touch {
    /// The epoch of the last change.
    epoch: u64,
    /// The one of the last change before that epoch.
    before: Closed<u64>,
    /// The counters that changed in the last epoch.
    slots: Closed<u64>,
}

impl Touched {
    pub(super) fn resize(&mut self, pages: usize) {
        self.pages.resize(pages, Touch::default());
        if PACED {
            self.summary.resize(pages.div_ceil(SUMMARY), 0);
        }
    }

    pub(super) fn clear(&mut self) {
        self.resize(0);
    }

    pub(super) fn shrink(&mut self) {
        self.pages.shrink_to_fit();
        if PACED {
            self.summary.shrink_to_fit();
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<Touch>() + self.summary.capacity() * size_of::<u64>()
    }

    /// Notes that these counters of a page change in an epoch, the newest.
    #[inline]
    pub(super) fn touch(&mut self, page: usize, slots: u64, epoch: u64) {
        let touch = &mut self.pages[page];
        if PACED {
            self.summary[page / SUMMARY] = epoch;
            let first = touch.epoch != epoch;
            *touch.before = if first { touch.epoch } else { *touch.before };
            *touch.slots = slots | if first { 0 } else { *touch.slots };
        }
        touch.epoch = epoch;
    }

    /// The next page, from `page` on, that changed since an epoch began, and the counters that may
    /// have changed.
    pub(super) fn next(&self, mut page: usize, since: u64) -> Option<(usize, u64)> {
        loop {
            let touch = self.pages.get(page)?;
            if PACED && page.is_multiple_of(SUMMARY) && self.summary[page / SUMMARY] < since {
                page += SUMMARY;
            } else if touch.epoch < since {
                page += 1;
            } else {
                let known = PACED && *touch.before < since;
                return Some((page, if known { *touch.slots } else { u64::MAX }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(touched: &Touched, epoch: u64) -> Vec<(usize, u64)> {
        let mut found = Vec::new();
        while let Some(next) =
            touched.next(found.last().map_or(0, |it: &(usize, u64)| it.0 + 1), epoch)
        {
            found.push(next);
        }
        found
    }

    #[test]
    fn what_changed_since_an_epoch_is_named_or_all_of_the_page() {
        let mut touched = Touched::default();
        touched.resize(200);
        touched.touch(3, 0b1, 1);
        touched.touch(3, 0b10, 1);
        touched.touch(130, 0b100, 2);
        touched.touch(130, 0b1000, 3);
        touched.touch(199, 0b1, 3);
        assert_eq!(since(&touched, 4), []);
        assert_eq!(since(&touched, 3), [(130, 0b1000), (199, 0b1)]);
        assert_eq!(since(&touched, 2), [(130, u64::MAX), (199, 0b1)]);
        assert_eq!(since(&touched, 1), [(3, 0b11), (130, u64::MAX), (199, 0b1)]);
        assert_eq!(since(&touched, 0).len(), 200);
        assert_eq!(touched.next(131, 2), Some((199, 0b1)));
        touched.clear();
        touched.resize(1);
        assert_eq!(since(&touched, 1), []);
    }
}

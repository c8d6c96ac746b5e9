//! The last changes: what changed since a moment is found without a look at all that did not.

use crate::sort::sort;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// How many of the last changes are stored. A caller that needs more reads everything.
const KNOWN_MAX: usize = 1_024;

/// The local numbers of the writers that changed last, with the epoch of each change, the last one last.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    changes: VecDeque<(u64, u32)>,
    /// The epoch up to which changes may be missing.
    missing: u64,
}

impl Recent {
    pub(crate) const EMPTY: Recent = Recent {
        changes: VecDeque::new(),
        missing: 0,
    };

    /// Notes a change in an epoch, the newest.
    pub(crate) fn note(&mut self, number: u32, epoch: u64) {
        if self.changes.back() != Some(&(epoch, number)) {
            self.changes.push_back((epoch, number));
        }
        if self.changes.len() > KNOWN_MAX
            && let Some((epoch, _)) = self.changes.pop_front()
        {
            self.missing = epoch;
        }
    }

    /// Notes that anything may have changed up to this epoch.
    pub(crate) fn all(&mut self, epoch: u64) {
        self.changes.clear();
        self.missing = epoch;
    }

    /// Returns the changes in this epoch or later, ascending. `None` if some of them are not stored any more.
    pub(crate) fn since(&self, epoch: u64) -> Option<Vec<u32>> {
        if epoch <= self.missing {
            return None;
        }
        let changes = self.changes.iter().rev();
        let newer = changes.take_while(|it| it.0 >= epoch);
        let mut newer: Vec<u32> = newer.map(|it| it.1).collect();
        sort(&mut newer);
        newer.dedup();
        Some(newer)
    }
}

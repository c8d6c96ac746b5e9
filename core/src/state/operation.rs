//! Operations on counters, and the drafts of a transaction.
//!
//! A draft is a copy of one counter's slots. A transaction works on drafts, and puts all of them back once
//! every operation has gone through. So a transaction that is refused has changed nothing.

use super::keys::{KeyId, KeyIndex};
use super::page::{OWN, Row};
use super::slot::Slot;
use super::{State, place};
use crate::bounds::EXPIRY_MAX;
use crate::error::{Error, detail};
use alloc::vec::Vec;

/// One operation on a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Adds, also 0 or a negative number. An absent counter begins at 0.
    Add(i64),
    /// Cancels everything that this replica sees of the counter, and leaves it at 0.
    Reset,
    /// Cancels everything that this replica sees of the counter, and leaves it absent.
    Delete,
    /// Cancels everything that this replica sees of the counter, and leaves this value.
    Set(i64),
    /// Lets the counter, if it exists, expire at this time, in milliseconds since 1970. The next replica that
    /// works on it then deletes it. The longest of concurrent expiries counts.
    Expire(u64),
    /// Removes the counter's expiry. It wins over concurrent expiries.
    Persist,
}

impl Op {
    /// Whether it may create an absent counter.
    pub(crate) fn creates(self) -> bool {
        matches!(self, Op::Add(_) | Op::Reset | Op::Set(_))
    }
}

/// A counter of a transaction that is being made.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(crate) handle: KeyId,
    pub(crate) slots: Vec<Slot>,
    pub(crate) changed: bool,
}

impl<I: KeyIndex> State<I> {
    /// Returns the place of a counter's draft. Creates the draft if there is none.
    pub(crate) fn draft_of(&self, drafts: &mut Vec<Draft>, handle: KeyId) -> usize {
        match drafts.binary_search_by_key(&handle, |draft| draft.handle) {
            Ok(at) => at,
            Err(at) => {
                drafts.insert(at, self.draft(handle));
                at
            }
        }
    }

    pub(crate) fn draft(&self, handle: KeyId) -> Draft {
        let (page_at, slot) = place(handle);
        let page = self.pages.get(page_at);
        Draft {
            handle,
            slots: page.map_or(Vec::new(), |page| page.slots(slot)),
            changed: false,
        }
    }
}

impl<I: KeyIndex> State<I> {
    /// Adds to a counter that has plain slots alone, one of which is the own writer's, as a transaction. It is
    /// the commonest write. Returns false, with nothing changed, if the counter is another one, or if the
    /// clock or the total has no room.
    #[inline(always)]
    pub(crate) fn add_again(&mut self, handle: KeyId, by: i64) -> bool {
        let (page_at, slot) = place(handle);
        let Some(page) = self.pages.get_mut(page_at) else {
            return false;
        };
        if page.is_odd(slot) {
            return false;
        }
        let Some(row) = page.own.get_mut(slot) else {
            return false;
        };
        let own = &mut self.clocks[OWN as usize];
        let (Some(clock), Some(total)) = (own.checked_add(1), row.total.checked_add(by)) else {
            return false;
        };
        *row = Row { clock, total };
        *own = clock;
        page.own.newest = clock;
        if page.touch.note(1 << slot, self.epoch) {
            self.touched.note(page_at, self.epoch);
        }
        true
    }

    /// Adds to a counter of which the own writer has no slot yet. Returns false, with nothing changed, if a
    /// slot of the counter has more than a row.
    ///
    /// # Errors
    /// [`Error::Overflow`] if the own writer has a row, to which [`add_again`](State::add_again) added nothing.
    #[inline(always)]
    pub(crate) fn add_first(&mut self, handle: KeyId, clock: u64, by: i64) -> Result<bool, Error> {
        let (page_at, slot) = place(handle);
        let page = self.page_mut(page_at);
        if page.is_odd(slot) {
            return Ok(false);
        }
        if let Some(&Row { total, .. }) = page.own.get(slot) {
            return Err(overflow(total.into(), by));
        }
        page.own.insert(slot, Row { clock, total: by });
        self.touch(page_at, 1 << slot);
        Ok(true)
    }

    /// Makes an add that [is small](State::is_small), of a transaction with this clock.
    #[cfg(feature = "members")]
    pub(crate) fn add_small(&mut self, handle: KeyId, clock: u64, by: i64) {
        let (page_at, slot) = place(handle);
        let own = &mut self.pages[page_at].own;
        if let Some(row) = own.get(slot) {
            let total = row.total + by; // Both are small.
            own.put(slot, Row { clock, total });
            self.touch(page_at, 1 << slot);
        }
    }
}

/// An add that does not fit into a total.
fn overflow(total: i128, by: i64) -> Error {
    Error::Overflow {
        total: detail(total),
        by: detail(by),
    }
}

/// Checks that an expiry is in range.
///
/// # Errors
/// [`Error::ExpiryRange`].
pub(crate) fn check(op: Op) -> Result<(), Error> {
    match op {
        Op::Expire(at) if at > EXPIRY_MAX => Err(Error::ExpiryRange { at: detail(at) }),
        _ => Ok(()),
    }
}

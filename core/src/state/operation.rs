//! Operations on counters, and the drafts of a transaction.
//!
//! [`State::step`] carries an operation out, with [`Act`](super::counter::Act). A plain add, which is most of
//! all writes, needs no draft: [`State::add_again`].
//!
//! A draft is a copy of one counter's slots. A transaction works on drafts, and puts all of them back once
//! every operation has gone through. So a transaction that is refused has changed nothing.

use super::counter::Sum;
use super::keys::{KeyId, KeyIndex};
use super::page::{OWN, Row};
#[cfg(any(test, feature = "members"))]
use super::slot::Withdrawal;
use super::slot::{Assignment, NEVER, Slot};
use super::{State, counter, place};
use crate::bounds::EXPIRY_MAX;
use crate::error::{Error, WriteError, detail};
use crate::optional::GUESTS;
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
    /// works on it then ends it. In an open space that is a delete. In a space with members, a concurrent refresh
    /// to a later time makes the end void. The longest of concurrent expiries counts.
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
    pub(crate) key_id: KeyId,
    pub(crate) slots: Vec<Slot>,
    pub(crate) changed: bool,
}

impl<I: KeyIndex> State<I> {
    /// Returns the place of a counter's draft. Creates the draft if there is none.
    pub(crate) fn draft_of(&self, drafts: &mut Vec<Draft>, key_id: KeyId) -> usize {
        match drafts.binary_search_by_key(&key_id, |draft| draft.key_id) {
            Ok(at) => at,
            Err(at) => {
                drafts.insert(at, self.draft(key_id));
                at
            }
        }
    }

    pub(crate) fn draft(&self, key_id: KeyId) -> Draft {
        Draft {
            key_id,
            slots: self.slots(key_id),
            changed: false,
        }
    }

    /// Makes an operation on a draft, in the transaction of the clock `clock`. A counter that has expired is
    /// ended first: in a space with members, which is `closed`, by an [`Expired`](super::slot::Expired)
    /// record, and else by a delete. Returns whether the counter existed before. For [`Op::Persist`], returns
    /// whether it had an expiry.
    ///
    /// Before it changes anything, it asks `allows` with what the counter comes to. It calls `made` after
    /// each change, with the operation, the time of such a record or 0, and the slots. An operation without an
    /// effect is no change.
    ///
    /// # Errors
    /// [`WriteError::ExpiryRange`], [`WriteError::Overflow`], and the errors of `allows`. Then the draft is
    /// unchanged, except that a counter that has just expired begins again.
    #[inline(always)]
    pub(crate) fn step(
        &self,
        draft: &mut Draft,
        (clock, closed): (u64, bool),
        op: Op,
        allows: impl FnOnce(&Sum) -> Result<(), Error>,
        mut made: impl FnMut((Op, u64), &[Slot]),
    ) -> Result<bool, Error> {
        check(op)?;
        let act = self.act(clock);
        let slots = &mut draft.slots;
        let mut sum = counter::sum(slots, &self.ids);
        allows(&sum)?;
        if let Some(until) = sum.expiry().filter(|it| self.is_past(Some(*it))) {
            // A counter that this transaction changed already has its clock in the own slot.
            let carries_out = GUESTS && closed && !draft.changed;
            let ends = match carries_out {
                true => act.carry_out(slots, until, false),
                false => 0,
            };
            if ends == 0 {
                act.cancel(slots, None);
            }
            made((Op::Delete, ends), slots);
            draft.changed = true;
            sum = Sum::default();
        }
        let exists = sum.exists();
        match op {
            Op::Add(by) => {
                let added = act.add(slots, by);
                added.map_err(|total| WriteError::overflow(total, by))?
            }
            Op::Reset => act.cancel(slots, Some(Assignment::Reset)),
            Op::Set(value) => act.cancel(slots, Some(Assignment::Set(value))),
            _ if !exists => return Ok(false),
            Op::Delete => act.cancel(slots, None),
            Op::Expire(at) => act.expire(slots, at),
            Op::Persist => act.expire(slots, NEVER),
        }
        draft.changed = true;
        made((op, 0), slots);
        Ok(match op {
            Op::Persist => sum.expiry().is_some(),
            _ => exists,
        })
    }

    /// Makes a draft visible, if it was changed. Returns whether it was. Next,
    /// [`made`](State::made) moves the own clock.
    #[inline(always)]
    pub(crate) fn put_draft(&mut self, draft: &mut Draft) -> bool {
        if draft.changed {
            let mut slots = core::mem::take(&mut draft.slots);
            counter::normalize(&mut slots);
            self.put_slots(draft.key_id, slots);
        }
        draft.changed
    }
}

impl<I: KeyIndex> State<I> {
    /// Adds to a counter that has plain slots alone, one of which is the own writer's, as a transaction. It
    /// is the commonest write. Returns false, with nothing changed, if the counter is another one, or if the
    /// clock or the total has no room.
    #[inline(always)]
    pub(crate) fn add_again(&mut self, key_id: KeyId, by: i64) -> bool {
        let (page_at, bit) = place(key_id);
        let Some(page) = self.pages.get_mut(page_at) else {
            return false;
        };
        if page.is_odd(bit) {
            return false;
        }
        let Some(row) = page.own.get_mut(bit) else {
            return false;
        };
        let own = &mut self.clocks[OWN as usize];
        let (Some(clock), Some(total)) = (own.checked_add(1), row.total.checked_add(by)) else {
            return false;
        };
        *row = Row { clock, total };
        *own = clock;
        page.own.newest = clock;
        if page.touch.note(1 << bit, self.epoch) {
            self.touched.note(page_at, self.epoch);
        }
        true
    }

    /// Adds to a counter of which the own writer has no slot yet. Returns false, with nothing changed, if a
    /// slot of the counter has more than a row. Nothing may ever have been collected here, because then a new
    /// row has to say that it begins a lifetime.
    ///
    /// # Errors
    /// [`WriteError::Overflow`] if the own writer has a row, to which [`add_again`](State::add_again) added
    /// nothing.
    #[inline(always)]
    pub(crate) fn add_first(&mut self, key_id: KeyId, clock: u64, by: i64) -> Result<bool, Error> {
        let (page_at, bit) = place(key_id);
        let page = self.page_mut(page_at);
        if page.is_odd(bit) {
            return Ok(false);
        }
        if let Some(&Row { total, .. }) = page.own.get(bit) {
            return Err(WriteError::overflow(total.into(), by));
        }
        page.own.insert(bit, Row { clock, total: by });
        self.touch(page_at, 1 << bit);
        Ok(true)
    }

    /// Makes an add that [is small](State::is_small), of a transaction with this clock.
    #[cfg(feature = "members")]
    pub(crate) fn add_small(&mut self, key_id: KeyId, clock: u64, by: i64) {
        let (page_at, bit) = place(key_id);
        let own = &mut self.pages[page_at].own;
        if let Some(row) = own.get(bit) {
            let total = row.total + by; // Both are small.
            own.put(bit, Row { clock, total });
            self.touch(page_at, 1 << bit);
        }
    }
}

#[cfg(any(test, feature = "members"))]
impl<I: KeyIndex> State<I> {
    /// Withdraws one add of a writer from a counter. Returns false, with nothing changed, if this was done
    /// before, if the add is cancelled or part of another writer's total by now, or if the slot is in a later
    /// lifetime. Once the begin of a lifetime is collected, or withdrawals are joined, `sure` says that the caller
    /// knows it is the same lifetime, and that it was not withdrawn.
    pub(crate) fn withdraw(
        &mut self,
        key_id: KeyId,
        writer: u32,
        withdrawal: Withdrawal,
        sure: bool,
    ) -> bool {
        let at = withdrawal.clock;
        let mut slots = self.slots(key_id);
        let Ok(found) = counter::find(&slots, writer) else {
            return false;
        };
        let slot = &mut slots[found];
        // The begin of a lifetime is forgotten once it is stable, so this may be a later lifetime.
        let unsure = slot.began() == 0 && !sure || slot.row.clock < at;
        let void = at < slot.began() || at <= slot.watermark_clock() || unsure;
        let mut withdrawals = slot.side.withdrawals.iter();
        // The caller also knows then whether this add is among those that were withdrawn and joined.
        let done = withdrawals.any(|it| at == it.clock || it.several && at < it.clock && !sure);
        if slot.side.moved.is_some() || void || done {
            return false;
        }
        slot.side.withdraw(withdrawal, &|_, _| false);
        self.put_slots(key_id, slots);
        true
    }
}

/// Checks that an expiry is in range.
///
/// # Errors
/// [`WriteError::ExpiryRange`].
pub(crate) fn check(op: Op) -> Result<(), Error> {
    match op {
        Op::Expire(at) if at > EXPIRY_MAX => Err(WriteError::ExpiryRange { at: detail(at) }.into()),
        _ => Ok(()),
    }
}

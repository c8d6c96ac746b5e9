//! Local operations beyond a plain add: cancels, expiries, transactions.

use super::{QuotaHooks, Replica, place};
use crate::error::{Error, detail};
use crate::layers::Quota;
use crate::limits::TRANSACTION_OPS_MAX;
use crate::message::journal::Dids;
use crate::state::counter;
use crate::state::keys::KeyId;
use crate::state::operation::{Draft, Op, check};
#[cfg(feature = "members")]
use crate::state::page::Row;
use crate::state::slot::{Base, NEVER};
use alloc::vec::Vec;

impl Replica {
    /// Makes one operation, as a transaction of its own. Tells whether the counter existed before,
    /// or, of [`Op::Persist`], whether it had an expiry.
    ///
    /// What does nothing is no transaction: deleting, expiring or persisting an absent counter. A
    /// counter that has expired is deleted before anything else is done to it.
    ///
    /// # Errors
    /// As [`add`](Replica::add), and [`Error::ExpiryRange`] over
    /// [`EXPIRY_MAX`](crate::limits::EXPIRY_MAX). Of one that [only adds](crate::MembersMut::set_adds_only)
    /// `Error::BeyondRole` and `Error::Expired`.
    pub fn apply(&mut self, key: &str, op: Op) -> Result<bool, Error> {
        Ok(self.transact(&[(key, op)])?[0])
    }

    /// [Applies](Replica::apply) an operation to the counter that goes by `handle`.
    ///
    /// # Errors
    /// As [`apply`](Replica::apply), and [`Error::UnknownHandle`].
    pub fn apply_at(&mut self, handle: KeyId, op: Op) -> Result<bool, Error> {
        if self.state.keys.get(handle).is_none() {
            return Err(Error::UnknownHandle {
                handle: detail(handle.0),
            });
        }
        Quota::check_at(&self.state, handle)?;
        let clock = self.membership.next_clock(&self.state)?;
        let mut draft = self.state.draft(handle);
        let mut did = Dids::default();
        let told = self.step(&mut draft, clock, op, &mut did)?;
        self.commit(clock, &mut draft);
        self.rejoin.keep(clock, did);
        Ok(told)
    }

    /// Makes several operations on any counters, as one transaction: every replica sees all of
    /// them or none. Each sees what the ones before it did. Tells of each what
    /// [`apply`](Replica::apply) does.
    ///
    /// # Errors
    /// As [`apply`](Replica::apply), and [`Error::TransactionTooLarge`]. Nothing of the transaction
    /// is done then.
    pub fn transact<K: AsRef<str>>(&mut self, ops: &[(K, Op)]) -> Result<Vec<bool>, Error> {
        if ops.len() > TRANSACTION_OPS_MAX {
            return Err(Error::TransactionTooLarge {
                ops: detail(ops.len()),
            });
        }
        let clock = self.membership.next_clock(&self.state)?;
        let mut drafts: Vec<Draft> = Vec::new();
        let mut did = Dids::default();
        let told = self.draft_all(ops, clock, &mut drafts, &mut did)?;
        for draft in &mut drafts {
            self.commit(clock, draft);
        }
        self.rejoin.keep(clock, did);
        Ok(told)
    }

    /// Makes operations on drafts of their counters. If one is refused, nothing is left of any.
    #[inline(always)]
    fn draft_all<K: AsRef<str>>(
        &mut self,
        ops: &[(K, Op)],
        clock: u64,
        drafts: &mut Vec<Draft>,
        did: &mut Dids,
    ) -> Result<Vec<bool>, Error> {
        let mut told = crate::list(ops.len());
        for (key, op) in ops {
            match self.step_key(drafts, clock, key.as_ref(), *op, did) {
                Ok(answer) => told.push(answer),
                Err(error) => {
                    for draft in drafts.iter() {
                        self.state.forget_unused(draft.handle);
                    }
                    return Err(error);
                }
            }
        }
        Ok(told)
    }

    /// Adds to counters that go by their handles, as one transaction, if this writer has a plain shard of
    /// each already. False, with nothing changed, if it has not, or something is wrong: a
    /// [`Transaction`](Replica::begin) does all of it, and tells what is wrong.
    ///
    /// It looks at no other writer's shards, of which a counter may have tens of thousands.
    #[cfg(feature = "members")]
    pub fn add_together(&mut self, adds: &[(KeyId, i64)]) -> bool {
        let fits = adds.len() <= TRANSACTION_OPS_MAX;
        let Some(clock) = self
            .membership
            .next_clock(&self.state)
            .ok()
            .filter(|_| fits)
        else {
            return false;
        };
        if !adds.iter().all(|(handle, by)| self.is_small(*handle, *by)) {
            return false;
        }
        let mut did = Dids::default();
        for (handle, by) in adds {
            self.add_small(*handle, *by, clock, &mut did);
        }
        if !adds.is_empty() {
            self.membership.made(&mut self.state, clock);
            self.rejoin.keep(clock, did);
        }
        true
    }

    /// Whether an add needs no more than a plain shard of this writer's that is there.
    #[cfg(feature = "members")]
    fn is_small(&self, handle: KeyId, by: i64) -> bool {
        self.state.is_small(handle, by) && Quota::check_at(&self.state, handle).is_ok()
    }

    /// Makes an add that [is small](Self::is_small), and notes what it did, if that is to be kept.
    #[cfg(feature = "members")]
    fn add_small(&mut self, handle: KeyId, by: i64, clock: u64, did: &mut Dids) {
        let (page_at, slot) = place(handle);
        if let Some(row) = self.state.pages[page_at].own.get(slot) {
            let total = row.total + by; // Both are small.
            self.state.pages[page_at]
                .own
                .put(slot, Row { clock, total });
            self.state.touch(page_at, 1 << slot);
        }
        if self.membership.keeps_journal() {
            did.push(
                self.rejoin
                    .did(&self.state, handle, Op::Add(by), clock, &[]),
            );
        }
    }

    /// Deletes the counter if it has expired; tells whether it had. One that
    /// [only adds](crate::MembersMut::set_adds_only) deletes nothing.
    ///
    /// # Errors
    /// [`Error::UnknownHandle`], [`Error::ClockExhausted`].
    pub fn materialize_expiry(&mut self, handle: KeyId) -> Result<bool, Error> {
        let (page_at, slot) = place(handle);
        let page = self
            .state
            .pages
            .get(page_at)
            .filter(|page| page.is_odd(slot));
        let Some(page) = page else { return Ok(false) };
        let expiry = counter::sum(&page.slots(slot), &self.state.writers).expiry();
        if !self.is_past(expiry) {
            return Ok(false);
        }
        #[cfg(feature = "guests")]
        if self.adds_only {
            return Ok(false);
        }
        self.apply_at(handle, Op::Delete)?;
        Ok(true)
    }

    /// One operation on a draft of its counter; `drafts` ascend by handle.
    pub(super) fn step_key(
        &mut self,
        drafts: &mut Vec<Draft>,
        clock: u64,
        key: &str,
        op: Op,
        did: &mut Dids,
    ) -> Result<bool, Error> {
        #[cfg(feature = "guests")]
        self.check_role(op, &counter::Sum::default())?;
        Quota::check(&self.state, key)?;
        let handle = match self.state.keys.find(key) {
            Some(handle) => handle,
            None if op.creates() => self.state.keys.find_or_insert(key)?,
            None => {
                self.state.keys.check(key)?;
                check(op)?;
                return Ok(false);
            }
        };
        let at = self.state.draft_of(drafts, handle);
        self.step(&mut drafts[at], clock, op, did)
    }

    /// Makes an operation on a draft; notes what it did, if that is to be kept. One that is refused
    /// leaves the draft as it was: a counter that has just expired begins again, which fits.
    pub(crate) fn step(
        &self,
        draft: &mut Draft,
        clock: u64,
        op: Op,
        did: &mut Dids,
    ) -> Result<bool, Error> {
        check(op)?;
        let act = self.state.act(clock);
        let slots = &mut draft.slots;
        let mut sum = counter::sum(slots, &self.state.writers);
        #[cfg(feature = "guests")]
        self.check_role(op, &sum)?;
        if self.is_past(sum.expiry()) {
            act.cancel(slots, None);
            draft.changed = true;
            if self.membership.keeps_journal() {
                did.push(
                    self.rejoin
                        .did(&self.state, draft.handle, Op::Delete, clock, slots),
                );
            }
            sum = counter::Sum::default();
        }
        let exists = sum.exists();
        match op {
            Op::Add(by) => act.add(slots, by).map_err(|total| Error::Overflow {
                total: detail(total),
                by: detail(by),
            })?,
            Op::Reset => act.cancel(slots, Some(Base::Reset)),
            Op::Set(value) => act.cancel(slots, Some(Base::Set(value))),
            _ if !exists => return Ok(false),
            Op::Delete => act.cancel(slots, None),
            Op::Expire(at) => act.expire(slots, at),
            Op::Persist => act.expire(slots, NEVER),
        }
        draft.changed = true;
        if self.membership.keeps_journal() {
            did.push(self.rejoin.did(&self.state, draft.handle, op, clock, slots));
        }
        Ok(match op {
            Op::Persist => sum.expiry().is_some(),
            _ => exists,
        })
    }

    /// Makes what was drafted visible.
    pub(crate) fn commit(&mut self, clock: u64, draft: &mut Draft) {
        if draft.changed {
            let mut slots = core::mem::take(&mut draft.slots);
            counter::normalize(&mut slots);
            self.state.put_slots(draft.handle, slots);
            self.membership.made(&mut self.state, clock);
        }
    }
}

#[cfg(test)]
mod tests;

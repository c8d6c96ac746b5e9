//! Local operations beyond a plain add: cancels, expiries, transactions.

use super::quota::Quota;
use super::{QuotaHooks, Replica};
use crate::bounds::TRANSACTION_OPS_MAX;
use crate::error::{Error, WriteError, detail};
use crate::message::journal::Dids;
use crate::optional::Optional;
use crate::state::counter;
use crate::state::keys::KeyId;
use crate::state::operation::{Draft, Op, check};
use alloc::vec::Vec;

impl Replica {
    /// Makes one operation, as a transaction of its own. Returns whether the counter existed before. For
    /// [`Op::Persist`], returns whether it had an expiry.
    ///
    /// An operation without an effect makes no transaction: deleting, expiring or persisting an absent
    /// counter. A counter that has expired is deleted before any other operation on it.
    ///
    /// # Errors
    /// The errors of [`add`](Replica::add), and [`WriteError::ExpiryRange`] over
    /// [`EXPIRY_MAX`](crate::bounds::EXPIRY_MAX). `ScopeError::BeyondRole` and `ScopeError::Expired` if this
    /// replica [only adds](crate::MembersMut::set_adds_only), and the latter if its time is
    /// [unsure](crate::MembersMut::set_time_unsure).
    pub fn apply(&mut self, key: &str, op: Op) -> Result<bool, Error> {
        Ok(self.transact(&[(key, op)])?[0])
    }

    /// [Applies](Replica::apply) an operation to the counter with this id.
    ///
    /// # Errors
    /// The errors of [`apply`](Replica::apply), and [`WriteError::UnknownKeyId`].
    pub(crate) fn apply_at(&mut self, key_id: KeyId, op: Op) -> Result<bool, Error> {
        if self.state.keys().get(key_id).is_none() {
            return Err(WriteError::UnknownKeyId {
                key_id: detail(key_id.0),
            }
            .into());
        }
        Quota::check_at(&self.state, key_id)?;
        let clock = self.membership.next_clock(&self.state)?;
        let mut draft = self.state.draft(key_id);
        let mut did = Dids::default();
        let told = self.step(&mut draft, clock, op, &mut did)?;
        self.commit(clock, &mut draft);
        self.rejoin.keep(clock, did);
        Ok(told)
    }

    /// Makes several operations on any counters, as one transaction: every replica sees all of them or none.
    /// Each operation sees the effects of those before it. Returns the result of [`apply`](Replica::apply)
    /// for each.
    ///
    /// # Errors
    /// The errors of [`apply`](Replica::apply), and [`WriteError::TransactionTooLarge`]. After an error,
    /// nothing of the transaction is done.
    pub fn transact<K: AsRef<str>>(&mut self, ops: &[(K, Op)]) -> Result<Vec<bool>, Error> {
        if ops.len() > TRANSACTION_OPS_MAX {
            return Err(WriteError::TransactionTooLarge {
                ops: detail(ops.len()),
            }
            .into());
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

    /// Makes operations on drafts of their counters. If one is rejected, none has an effect.
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
                        self.state.forget_unused(draft.key_id);
                    }
                    return Err(error);
                }
            }
        }
        Ok(told)
    }

    /// Adds to counters, given by their ids, as one transaction, if this writer already has a plain shard
    /// of each. Otherwise, or if an add fails, returns false and changes nothing. Then make a
    /// [`Transaction`](Replica::begin), which handles all cases and reports the error.
    ///
    /// It does not look at shards of other writers, of which a counter may have tens of thousands.
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
        if !adds.iter().all(|(key_id, by)| self.is_small(*key_id, *by)) {
            return false;
        }
        let mut did = Dids::default();
        for (key_id, by) in adds {
            self.add_small(*key_id, *by, clock, &mut did);
        }
        if !adds.is_empty() {
            self.membership.made(&mut self.state, clock);
            self.rejoin.keep(clock, did);
        }
        true
    }

    /// Whether an add only needs an existing plain shard of this writer.
    #[cfg(feature = "members")]
    fn is_small(&self, key_id: KeyId, by: i64) -> bool {
        self.state.is_small(key_id, by) && Quota::check_at(&self.state, key_id).is_ok()
    }

    /// Makes an add that [is small](Self::is_small), and adds it to the journal if there is one.
    #[cfg(feature = "members")]
    fn add_small(&mut self, key_id: KeyId, by: i64, clock: u64, did: &mut Dids) {
        self.state.add_small(key_id, clock, by);
        if self.membership.keeps_journal() {
            let made = self
                .rejoin
                .did(&self.state, key_id, (Op::Add(by), 0), clock, &[]);
            did.update(|it| it.push(made));
        }
    }

    /// Ends the counter if it has expired, and returns whether it had. In a space with members, a refresh that
    /// this replica has not seen still saves it. A replica that [only
    /// adds](crate::MembersMut::set_adds_only) ends nothing, and nor does a guest whose time is
    /// [unsure](crate::MembersMut::set_time_unsure).
    ///
    /// # Errors
    /// [`WriteError::UnknownKeyId`], [`WriteError::ClockExhausted`].
    pub fn materialize_expiry(&mut self, key_id: KeyId) -> Result<bool, Error> {
        let expiry = self.state.effective_expiry(key_id);
        if !self.is_past(expiry) {
            return Ok(false);
        }
        #[cfg(feature = "guests")]
        if self.adds_only || self.is_time_unsure() {
            return Ok(false);
        }
        self.apply_at(key_id, Op::Delete)?;
        Ok(true)
    }

    /// Makes one operation on a draft of its counter. `drafts` ascend by id.
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
        let key_id = match self.state.keys().find(key) {
            Some(key_id) => key_id,
            None if op.creates() => self.state.key_id(key)?,
            None => {
                self.state.keys().check(key)?;
                check(op)?;
                return Ok(false);
            }
        };
        let at = self.state.draft_of(drafts, key_id);
        self.step(&mut drafts[at], clock, op, did)
    }

    /// Makes an operation on a draft, and adds it to the journal if there is one. A rejected operation leaves
    /// the draft unchanged, except that a counter that has just expired begins again.
    pub(crate) fn step(
        &self,
        draft: &mut Draft,
        clock: u64,
        op: Op,
        did: &mut Dids,
    ) -> Result<bool, Error> {
        let key_id = draft.key_id;
        let allows = |_sum: &counter::Sum| {
            #[cfg(feature = "guests")]
            self.check_role(op, _sum)?;
            Ok(())
        };
        let closed = self.membership.configuration().is_some();
        self.state
            .step(draft, (clock, closed), op, allows, |op, slots| {
                if self.membership.keeps_journal() {
                    let made = self.rejoin.did(&self.state, key_id, op, clock, slots);
                    did.update(|it| it.push(made));
                }
            })
    }

    /// Makes a draft visible.
    pub(crate) fn commit(&mut self, clock: u64, draft: &mut Draft) {
        if self.state.put_draft(draft) {
            self.membership.made(&mut self.state, clock);
        }
    }
}

#[cfg(test)]
mod tests;

//! Rights of a retired writer, which its successor inherits.
//!
//! The successor has merged everything that counts of the retired writer, including all that this writer took
//! from its accounts. No other writer may become its successor. From then on the successor alone may take
//! from these accounts, as the retired writer did before. It moves their contents to accounts of its own.
//!
//! Amounts that other members were still sending to the retired writer are moved when they arrive. A writer
//! whose accounts are not empty is not forgotten. A member that has acknowledged the retirement gives the
//! retired writer nothing more, so nothing arrives too late.
//!
//! A start that follows another one [in its place](crate::Predecessor) does not wait for that retirement, which
//! all members have to acknowledge. The earlier start has ended, and everything that it made is here. So once
//! this start has its vote, it gives itself what the earlier one held, as that one could have done. Amounts that
//! the earlier one received under idempotency keys stay until they are stable, because a duplicate may withdraw
//! them.
//!
//! # Guests delay none of this
//! A member's acknowledgements wait for its guests, and a guest may be gone without a word. So neither this vote
//! nor these rights need one: it is enough that other members [know of](crate::membership::votes) this start. They
//! then have its fence of the earlier start, and this start has all that they had. This is as safe as their
//! acknowledgement of the fence:
//! - *The earlier start spends no more.* The lock of its place proves that it has ended.
//! - *An older store is noticed as before.* A spend at level quorum is at half of the other members before its
//!   client hears of it. While all but half of the members are linked, one of those must know of this start. By
//!   then this start has the spend, and so [follows](crate::Members::follows) none.
//! - *Another start of this owner is noticed, too*, because it would have had to be known to such a member.
//! - *Amounts that arrive for the earlier start later* come from members that did not know its end. Only this
//!   start may take them.

use super::period::is_over;
use super::{QuotaMut, QuotaRef};
use crate::error::Error;
use crate::indexed_state::State;
use crate::ledger::RightKind;
use crate::ledger::account::{Account, Part};
use crate::ledger::period::{PeriodKey, rights_key};
use crate::ledger::sequence::SequenceKey;
use crate::message::journal::Dids;
use crate::message::records::SUCCESSORS_MAX;
use crate::replica::Replica;
use crate::state::keys::KeyId;
use crate::state::operation::Op;
use crate::state::page::OWN;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// Maximum number of accounts that one transaction empties.
const AT_ONCE: usize = 1000;

/// The part of an account that stays after a move.
#[derive(Clone, Copy)]
enum Leaves {
    /// The account is deleted.
    Nothing,
    /// The rest stays, with the operations that made it.
    Rest,
}

impl QuotaRef<'_> {
    /// Whether this replica is the successor of a writer, directly or through a chain of successors.
    fn is_left_to_own(self, writer: &WriterId) -> bool {
        let Some(mut at) = self.state.number_of(writer).filter(|at| *at != OWN) else {
            return false;
        };
        for _ in 0..SUCCESSORS_MAX {
            match self.membership.writer(at).retired {
                Some(retired) => at = retired.to.writer,
                None => return at == OWN,
            }
        }
        false
    }
}

impl QuotaRef<'_> {
    /// Whether this start is about to take over some of a budget or a period from an earlier start of its owner, or to
    /// bring its owner's share into the period. `kind` is `None` for a sequence: its numbers never run out, so it
    /// is enough that an earlier start may have some, or that this one has those that nobody has yet.
    pub fn is_to_take_over(self, name: &str, kind: Option<RightKind>) -> bool {
        let Some(owner) = self.membership.owner_of(OWN) else {
            return false;
        };
        let earlier = self.membership.incarnations(&owner);
        let mut earlier = earlier.filter(|it| *it != OWN);
        let Some(kind) = kind else {
            let rest = self.rest_holder(name);
            return earlier.next().is_some() || rest == Some(self.state.writer());
        };
        let account = self.account(name);
        let key = |writer| match kind {
            RightKind::Period => Some(rights_key(writer, name)),
            RightKind::Rights => Some(account.as_ref()?.key_of(Part::Rights(writer))),
            RightKind::Room => Some(account.as_ref()?.key_of(Part::Room(writer))),
        };
        let held = |number| self.state.value(&key(self.state.id(number))?);
        earlier.any(|number| held(number) > Some(0))
            || kind == RightKind::Period && self.share_to_come(&owner, name) > 0
    }
}

/// Whether anything is left in the accounts of a writer, by its local number.
pub(super) fn has_accounts(state: &State, number: u32) -> bool {
    let writer = state.id(number);
    state
        .index()
        .held_by(writer)
        .any(|key_id| state.has_slots(key_id))
}

impl QuotaMut<'_> {
    /// Moves the accounts of retired writers to accounts of this writer, if this replica is the successor.
    pub(super) fn inherit(&mut self) -> Result<(), Error> {
        let Replica {
            quota,
            state,
            membership,
            ..
        } = &mut *self.replica;
        quota.drop_stable_pending(state, membership);
        let heirless = self
            .replica
            .state
            .index()
            .holders()
            .filter(|it| self.read().is_left_to_own(it));
        let accounts = heirless.flat_map(|writer| self.replica.state.index().held_by(writer));
        // The remains of periods that are over are deleted soon, so they are not moved.
        let end = |key_id| {
            self.replica
                .state
                .keys()
                .get(key_id)
                .and_then(PeriodKey::parse)
        };
        let over = |key_id| end(key_id).is_some_and(|it| is_over(&self.replica.state, it.end()));
        let left: Vec<KeyId> = accounts
            .filter(|key_id| self.replica.value_at(*key_id).is_some() && !over(*key_id))
            .collect();
        self.empty_all(&left, self.replica.writer())?;
        self.inherit_followed()
    }

    /// Moves the accounts of the start that this one follows, if any, to accounts of this writer.
    fn inherit_followed(&mut self) -> Result<(), Error> {
        let Replica {
            state,
            membership,
            idempotency,
            ..
        } = &*self.replica;
        let Some(number) = membership.followed(state) else {
            return Ok(());
        };
        let held = state.index().held_by(state.id(number));
        let held = held.filter(|key_id| state.value_at(*key_id) > Some(0));
        let is_sequence = |key_id: &KeyId| {
            let key = state.keys().get(*key_id);
            key.and_then(SequenceKey::parse).is_some()
        };
        let (whole, parts): (Vec<KeyId>, Vec<KeyId>) = held.partition(is_sequence);
        if whole.is_empty() && parts.is_empty() {
            return Ok(());
        }
        let uncertain = idempotency.uncertain_of(membership, &membership.quorum(state), number);
        let parts = parts.into_iter().filter_map(|key_id| {
            let key = state.keys().get(key_id)?;
            let held = state.value_at(key_id)? - uncertain.get(key).copied().unwrap_or(0);
            let part = i64::try_from(held).ok().filter(|part| *part > 0)?;
            Some((key_id, part))
        });
        let parts: Vec<(KeyId, i64)> = parts.collect();
        let to = self.replica.writer();
        self.empty_all(&whole, to)?;
        parts
            .chunks(AT_ONCE)
            .try_for_each(|some| self.move_amounts(some, to, Leaves::Rest))
    }

    /// Moves the budget accounts of this writer to another writer. This replica is about to continue as that
    /// writer, [from its own state](crate::RejoinMut::begin_again). [`SyncMachine`](crate::sync::SyncMachine)
    /// calls it by itself.
    ///
    /// Pending amounts stay: the successor of this writer gets them.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted).
    pub fn hand_over(&mut self, to: WriterId) -> Result<(), Error> {
        let own: Vec<KeyId> = self
            .replica
            .state
            .index()
            .held_by(self.replica.writer())
            .collect();
        let free = |key_id: &KeyId| !self.replica.quota.pending.contains_key(key_id);
        let full = |key_id: &KeyId| self.replica.value_at(*key_id) > Some(0);
        let own: Vec<KeyId> = own.into_iter().filter(free).filter(full).collect();
        self.empty_all(&own, to)
    }

    /// Deletes accounts, and adds their amounts to the same accounts of another writer. A delete cancels
    /// exactly what this replica has observed of an account.
    fn empty_all(&mut self, accounts: &[KeyId], to: WriterId) -> Result<(), Error> {
        accounts.chunks(AT_ONCE).try_for_each(|some| {
            let held = |key_id: &KeyId| {
                let held = i64::try_from(self.replica.value_at(*key_id)?).ok()?;
                Some((*key_id, held))
            };
            let amounts: Vec<(KeyId, i64)> = some.iter().filter_map(held).collect();
            self.move_amounts(&amounts, to, Leaves::Nothing)
        })
    }

    /// Moves amounts of accounts to the same accounts of another writer, by one transaction. An amount that
    /// does not fit there stays.
    fn move_amounts(
        &mut self,
        amounts: &[(KeyId, i64)],
        to: WriterId,
        leaves: Leaves,
    ) -> Result<(), Error> {
        if amounts.is_empty() {
            return Ok(());
        }
        let clock = self.replica.membership.next_clock(&self.replica.state)?;
        let mut drafts = Vec::new();
        let mut did = Dids::default();
        for (key_id, amount) in amounts.iter().copied() {
            let successor = |key: &str| {
                if let Some(period) = PeriodKey::parse(key) {
                    return Some(rights_key(to, period.name));
                }
                Some(match Account::parse(key) {
                    Some(account) => account.key_of(account.part.held_by(to)),
                    None => SequenceKey::parse(key)?.left_to(to),
                })
            };
            let key = self.replica.state.keys().get(key_id).and_then(successor);
            let Some(key) = key else {
                continue;
            };
            let successor = self.replica.state.key_id(&key)?;
            let at = self.replica.state.draft_of(&mut drafts, successor);
            let moved = match amount {
                0 => Ok(false),
                amount => self
                    .replica
                    .step(&mut drafts[at], clock, Op::Add(amount), &mut did),
            };
            if moved.is_ok() {
                let taken = match leaves {
                    Leaves::Nothing => Op::Delete,
                    Leaves::Rest => Op::Add(-amount),
                };
                let at = self.replica.state.draft_of(&mut drafts, key_id);
                self.replica.step(&mut drafts[at], clock, taken, &mut did)?;
            }
        }
        for draft in &mut drafts {
            self.replica.commit(clock, draft);
            self.replica.state.forget_unused(draft.key_id);
        }
        self.replica.rejoin.keep(clock, did);
        Ok(())
    }
}

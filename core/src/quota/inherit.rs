//! What becomes of what a writer held once it is over.
//!
//! Whoever absorbed a writer has all that counts of it, all that it took from its accounts too, and
//! nobody else may absorb it. So from then on this one alone may take from them, as the writer did
//! before, and moves what is there to accounts of its own. What others had on the way to the writer is
//! moved when it comes. A writer whose accounts are not empty is not forgotten, and nobody gives it
//! anything who has acknowledged that it was absorbed, so nothing comes too late.

use super::period::is_over;
use super::{QuotaMut, QuotaRef};
use crate::error::Error;
use crate::layers::State;
use crate::ledger::account::Account;
use crate::ledger::period::{PeriodKey, rights_key};
use crate::ledger::sequence::SequenceKey;
use crate::message::journal::Dids;
use crate::message::records::HEIRS_MAX;
use crate::replica::Replica;
use crate::state::keys::KeyId;
use crate::state::operation::Op;
use crate::state::page::OWN;
use crate::state::place;
use crate::writer_id::WriterId;
use alloc::string::String;
use alloc::vec::Vec;

/// How many accounts are emptied in one transaction.
const AT_ONCE: usize = 1000;

impl QuotaRef<'_> {
    /// Whether this replica has absorbed a writer, or whoever did.
    fn is_left_to_own(self, writer: &WriterId) -> bool {
        let Some(mut at) = self.state.numbers.get(writer).filter(|at| *at != OWN) else {
            return false;
        };
        for _ in 0..HEIRS_MAX {
            match self.membership.table.cards[at as usize].retired {
                Some(retired) => at = retired.to.writer,
                None => return at == OWN,
            }
        }
        false
    }
}

/// Whether anything is left in the accounts of a writer, by its local number.
pub(super) fn has_accounts(state: &State, number: u32) -> bool {
    let writer = state.writers[number as usize];
    state.keys.index.held_by(writer).any(|handle| {
        let (page_at, slot) = place(handle);
        let page = state.pages.get(page_at);
        page.is_some_and(|page| page.rows(slot).next().is_some())
    })
}

impl QuotaMut<'_> {
    /// Moves what absorbed writers held to the own accounts, if this replica is the one that may.
    pub(super) fn inherit(&mut self) -> Result<(), Error> {
        let Replica {
            quota,
            state,
            membership,
            ..
        } = &mut *self.replica;
        quota.settle_pending(state, membership);
        let heirless = self
            .replica
            .state
            .keys
            .index
            .holders()
            .filter(|it| self.read().is_left_to_own(it));
        let accounts = heirless.flat_map(|writer| self.replica.state.keys.index.held_by(writer));
        // What is left of periods that are over is deleted soon.
        let end = |handle| {
            self.replica
                .state
                .keys
                .get(handle)
                .and_then(PeriodKey::parse)
        };
        let over = |handle| end(handle).is_some_and(|it| is_over(&self.replica.state, it.end()));
        let left: Vec<KeyId> = accounts
            .filter(|handle| self.replica.value_at(*handle).is_some() && !over(*handle))
            .collect();
        left.chunks(AT_ONCE)
            .try_for_each(|some| self.empty_accounts(some, self.replica.writer()))
    }

    /// Moves what this writer holds of budgets to another one, which this replica is about to go on as,
    /// [from its own state](crate::RejoinMut::begin_again). [`SyncMachine`](crate::sync::SyncMachine) does so by itself.
    ///
    /// What is pending stays: whoever absorbs this writer gets it.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`].
    pub fn hand_over(&mut self, to: WriterId) -> Result<(), Error> {
        let own: Vec<KeyId> = self
            .replica
            .state
            .keys
            .index
            .held_by(self.replica.writer())
            .collect();
        let free = |handle: &KeyId| !self.replica.quota.pending.contains_key(handle);
        let full = |handle: &KeyId| self.replica.value_at(*handle) > Some(0);
        let own: Vec<KeyId> = own.into_iter().filter(free).filter(full).collect();
        own.chunks(AT_ONCE)
            .try_for_each(|some| self.empty_accounts(some, to))
    }

    /// Deletes accounts, which cancels exactly what was seen of them, and adds what that came to to the
    /// same accounts of another writer. What does not fit there stays.
    fn empty_accounts(&mut self, accounts: &[KeyId], to: WriterId) -> Result<(), Error> {
        let clock = self.replica.membership.next_clock(&self.replica.state)?;
        let mut drafts = Vec::new();
        let mut did = Dids::default();
        for handle in accounts {
            let heir = |key: &str| {
                if let Some(period) = PeriodKey::parse(key) {
                    return Some(rights_key(to, period.name));
                }
                Some(match Account::parse(key) {
                    Some(account) => account.key_of(account.part.held_by(to)),
                    None => SequenceKey::parse(key)?.left_to(to),
                })
            };
            let heir: Option<String> = self.replica.state.keys.get(*handle).and_then(heir);
            let (Some(key), Some(held)) = (heir, self.replica.value_at(*handle)) else {
                continue;
            };
            let Ok(held) = i64::try_from(held) else {
                continue;
            };
            let heir = self.replica.state.keys.find_or_insert(&key)?;
            let at = self.replica.state.draft_of(&mut drafts, heir);
            let moved = match held {
                0 => Ok(false),
                held => self
                    .replica
                    .step(&mut drafts[at], clock, Op::Add(held), &mut did),
            };
            if moved.is_ok() {
                let at = self.replica.state.draft_of(&mut drafts, *handle);
                self.replica
                    .step(&mut drafts[at], clock, Op::Delete, &mut did)?;
            }
        }
        for draft in &mut drafts {
            self.replica.commit(clock, draft);
            self.replica.state.forget_unused(draft.handle);
        }
        self.replica.rejoin.keep(clock, did);
        Ok(())
    }
}

//! What becomes of what a writer held once it is over.
//!
//! Whoever absorbed a writer has all that counts of it, all that it took from its accounts too, and
//! nobody else may absorb it. So from then on this one alone may take from them, as the writer did
//! before, and moves what is there to accounts of its own. What others had on the way to the writer is
//! moved when it comes. A writer whose accounts are not empty is not forgotten, and nobody gives it
//! anything who has acknowledged that it was absorbed, so nothing comes too late.

use crate::error::Error;
use crate::message::journal::Dids;
use crate::message::records::HEIRS_MAX;
use crate::ledger::account::Account;
use crate::ledger::period::{PeriodKey, rights_key};
use crate::ledger::sequence::SequenceKey;
use crate::replica::{Replica, place};
use crate::state::keys::KeyId;
use crate::state::operation::Op;
use crate::state::page::OWN;
use crate::writer_id::WriterId;
use alloc::string::String;
use alloc::vec::Vec;

/// How many accounts are emptied in one transaction.
const AT_ONCE: usize = 1000;

impl Replica {
    /// Moves what absorbed writers held to the own accounts, if this replica is the one that may.
    pub(in crate::replica) fn inherit(&mut self) -> Result<(), Error> {
        self.settle_pending();
        let heirless = self
            .state
            .keys
            .index
            .holders()
            .filter(|it| self.is_left_to_own(it));
        let accounts = heirless.flat_map(|writer| self.state.keys.index.held_by(writer));
        // What is left of periods that are over is deleted soon.
        let end = |handle| self.state.keys.get(handle).and_then(PeriodKey::parse);
        let over = |handle| end(handle).is_some_and(|it| self.is_over(it.end()));
        let left: Vec<KeyId> = accounts
            .filter(|handle| self.value_at(*handle).is_some() && !over(*handle))
            .collect();
        left.chunks(AT_ONCE)
            .try_for_each(|some| self.empty_accounts(some, self.writer()))
    }

    /// Moves what this writer holds of budgets to another one, which this replica is about to go on as,
    /// [from its own state](Replica::begin_again). [`SyncMachine`](crate::sync::SyncMachine) does so by itself.
    ///
    /// What is pending stays: whoever absorbs this writer gets it.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`].
    pub fn hand_over(&mut self, to: WriterId) -> Result<(), Error> {
        let own: Vec<KeyId> = self.state.keys.index.held_by(self.writer()).collect();
        let free = |handle: &KeyId| !self.pending.contains_key(handle);
        let full = |handle: &KeyId| self.value_at(*handle) > Some(0);
        let own: Vec<KeyId> = own.into_iter().filter(free).filter(full).collect();
        own.chunks(AT_ONCE)
            .try_for_each(|some| self.empty_accounts(some, to))
    }

    /// Whether this replica has absorbed a writer, or whoever did.
    fn is_left_to_own(&self, writer: &WriterId) -> bool {
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

    /// Deletes accounts, which cancels exactly what was seen of them, and adds what that came to to the
    /// same accounts of another writer. What does not fit there stays.
    fn empty_accounts(&mut self, accounts: &[KeyId], to: WriterId) -> Result<(), Error> {
        let clock = self.membership.next_clock(&self.state)?;
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
            let heir: Option<String> = self.state.keys.get(*handle).and_then(heir);
            let (Some(key), Some(held)) = (heir, self.value_at(*handle)) else {
                continue;
            };
            let Ok(held) = i64::try_from(held) else {
                continue;
            };
            let heir = self.state.keys.find_or_insert(&key)?;
            let at = self.state.draft_of(&mut drafts, heir);
            let moved = match held {
                0 => Ok(false),
                held => self.step(&mut drafts[at], clock, Op::Add(held), &mut did),
            };
            if moved.is_ok() {
                let at = self.state.draft_of(&mut drafts, *handle);
                self.step(&mut drafts[at], clock, Op::Delete, &mut did)?;
            }
        }
        for draft in &mut drafts {
            self.commit(clock, draft);
            self.state.forget_unused(draft.handle);
        }
        self.rejoin.keep(clock, did);
        Ok(())
    }

    /// Whether anything is left in the accounts of a writer.
    pub(in crate::replica) fn has_accounts(&self, number: u32) -> bool {
        let writer = self.state.writers[number as usize];
        self.state.keys.index.held_by(writer).any(|handle| {
            let (page_at, slot) = place(handle);
            let page = self.state.pages.get(page_at);
            page.is_some_and(|page| page.rows(slot).next().is_some())
        })
    }
}

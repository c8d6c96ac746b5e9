//! Budget operations that a rejoining replica repeats under its fresh writer.
//!
//! Operations of the earlier writer that no other replica merged never counted. Moves of rights among them
//! are not repeated, because the rights of the earlier writer went to its successor. Mints are repeated.
//! Spends are repeated if the rights here are enough, and never against the floor. A replica that rejoins as
//! a guest repeats none of them.

use super::QuotaRef;
use crate::ledger::account::{Account, Part};
use crate::ledger::period::{PeriodKey, is_known_key};
use crate::ledger::sequence::SequenceKey;
use crate::message::journal::Did;
use crate::state::operation::Op;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

impl QuotaRef<'_> {
    /// The operations of an earlier writer's transaction in the form in which this writer makes them. Returns
    /// `None` if this writer can't make them: it holds too little here, or it is not a member.
    pub(super) fn flows_again(self, did: Vec<Did>) -> Option<Vec<Did>> {
        // Numbers of a sequence were given or handed out under the earlier writer. Amounts of a period were
        // allowed then, whatever is left of it now. Both are dropped. A watch belongs to no writer and is
        // kept.
        let is_watch = |it: &Did| SequenceKey::parse(&it.key).is_some_and(|key| key.is_watch());
        let is_draw = |it: &Did| {
            !is_watch(it)
                && (SequenceKey::parse(&it.key).is_some()
                    || PeriodKey::parse(&it.key).is_some()
                    || is_known_key(&it.key))
        };
        let did: Vec<Did> = did.into_iter().filter(|it| !is_draw(it)).collect();
        let is_account = |it: &Did| Account::parse(&it.key).is_some();
        if !did.iter().any(is_account) {
            return Some(did);
        }
        let (accounts, mut again): (Vec<Did>, Vec<Did>) = did.into_iter().partition(is_account);
        // Deletes only ever affect amounts that other writers left behind.
        if accounts.iter().any(|it| it.op == Op::Delete) {
            return Some(again);
        }
        again.extend(self.moves_again(self.sums_of(&accounts))?);
        Some(again)
    }

    /// The sums that the operations add to each account, if this writer makes them.
    fn sums_of(&self, accounts: &[Did]) -> BTreeMap<String, i128> {
        let mut sums: BTreeMap<String, i128> = BTreeMap::new();
        for it in accounts {
            let (Some(account), Op::Add(by)) = (Account::parse(&it.key), it.op) else {
                continue;
            };
            // Rights of every holder count as rights of this writer, so a move between holders adds up to
            // zero.
            let part = match account.part.held_by(self.state.writer()) {
                // A spend on a lease is now a spend on the rights.
                Part::Leased(own, _) => Part::Rights(own),
                part => part,
            };
            *sums.entry(account.key_of(part)).or_default() += i128::from(by);
        }
        sums
    }

    /// The adds that bring these sums. Returns `None` if this writer can't make them.
    fn moves_again(self, sums: BTreeMap<String, i128>) -> Option<Vec<Did>> {
        let mut again = Vec::new();
        // Only a member holds rights, or takes from them.
        let may_hold = self.membership.is_member() || self.quota.is_next_start;
        // Only a member makes a budget, too.
        let is_value = |key| Account::parse(key).is_some_and(|it| it.part == Part::Value);
        if !may_hold && sums.iter().any(|(key, by)| *by != 0 || is_value(key)) {
            return None;
        }
        for (key, by) in sums {
            let account = Account::parse(&key)?;
            let held = account.part.holder().is_some();
            let here = self.state.value(&key).unwrap_or(0) - self.pending_of(&key);
            if held && by < 0 && here + by < 0 {
                return None;
            }
            let by = i64::try_from(by).ok()?;
            if by != 0 || account.part == Part::Value {
                again.push(Did::new(&key, Op::Add(by)));
            }
        }
        Some(again)
    }
}

//! What a replica that comes back makes again of what it did to budgets.
//!
//! What others did not take over of it never counted, and so it still counts for nothing that rights
//! were moved: what the former writer held was left to whoever absorbed it. What was minted is minted
//! again, and what was spent is spent if there is enough for it: never against the floor. Who comes back
//! as a guest makes nothing of it again.

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
    /// The operations of a former writer's transaction as this one is to make them; `None` if this one
    /// can't: too little is held here for it, or it is no member's.
    pub(super) fn flows_again(self, did: Vec<Did>) -> Option<Vec<Did>> {
        // What was given of a sequence, or handed out, was so under that writer. What was allowed in a
        // period was allowed, whatever is left of it now. A watch is anybody's.
        let is_watch = |it: &Did| SequenceKey::parse(&it.key).is_some_and(|key| key.is_watch());
        let is_ticket = |it: &Did| {
            !is_watch(it)
                && (SequenceKey::parse(&it.key).is_some()
                    || PeriodKey::parse(&it.key).is_some()
                    || is_known_key(&it.key))
        };
        let did: Vec<Did> = did.into_iter().filter(|it| !is_ticket(it)).collect();
        let is_account = |it: &Did| Account::parse(&it.key).is_some();
        if !did.iter().any(is_account) {
            return Some(did);
        }
        let (accounts, mut again): (Vec<Did>, Vec<Did>) = did.into_iter().partition(is_account);
        // Only what was left behind by others was ever deleted.
        if accounts.iter().any(|it| it.op == Op::Delete) {
            return Some(again);
        }
        let mut sums: BTreeMap<String, i128> = BTreeMap::new();
        for it in &accounts {
            let (Some(account), Op::Add(by)) = (Account::parse(&it.key), it.op) else {
                continue;
            };
            // Whoever held it: what was moved to others is as it was before.
            let part = match account.part.held_by(self.state.writer()) {
                // What was spent of a lease is spent of the rights now.
                Part::Leased(own, _) => Part::Rights(own),
                part => part,
            };
            *sums.entry(account.key_of(part)).or_default() += i128::from(by);
        }
        // Nobody else holds anything, and nothing is taken of it.
        let may_hold = self.membership.is_member() || self.quota.is_next_start;
        // Nor does anybody else make a budget.
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
                again.push(Did {
                    key: key.into(),
                    op: Op::Add(by),
                    saw: Vec::new(),
                });
            }
        }
        Some(again)
    }
}

//! Amounts paid in under idempotency keys that may turn out to be duplicates.
//!
//! Two members may make an operation under one key. Then one of the two operations is withdrawn, once a
//! replica has received both. The amount that it paid in disappears. So an amount can be spent only once all
//! counted members have acknowledged it. A member that had made the duplicate has withdrawn one of the two
//! before it acknowledges.

use super::{Quota, QuotaRef};
use crate::indexed_state::State;
use crate::ledger::account::Account;
use crate::membership::Membership;
use crate::state::counter;
use crate::state::keys::KeyId;
use crate::state::operation::Draft;
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Amounts received under keys, by account: the clock of the own transaction, and the amount.
pub(super) type Pending = BTreeMap<KeyId, Vec<(u64, i128)>>;

impl QuotaRef<'_> {
    /// The amount of an account that can't be used yet.
    pub(super) fn pending_of(self, key: &str) -> i128 {
        let key_id = self.state.keys().find(key);
        let Some(pending) = key_id.and_then(|key_id| self.quota.pending.get(&key_id)) else {
            return 0;
        };
        let quorum = self.membership.quorum(self.state);
        let open = |clock| {
            let writer = OWN;
            !self.membership.is_stable(&quorum, Stamp { writer, clock })
        };
        let pending = pending.iter().filter(|it| open(it.0));
        pending.map(|it| it.1).sum()
    }
}

impl Quota {
    /// Adds the amounts that a transaction under a key brings to the own accounts. The transaction is not
    /// visible yet.
    pub(super) fn note_pending(&mut self, state: &State, clock: u64, drafts: &[Draft]) {
        if state.index().are_plain() {
            return;
        }
        for draft in drafts.iter().filter(|draft| draft.changed) {
            let account = state.keys().get(draft.key_id).and_then(Account::parse);
            if account.and_then(|it| it.part.holder()) != Some(state.writer()) {
                continue;
            }
            let after = counter::sum(&draft.slots, state.ids()).value();
            let before = state.value_at(draft.key_id);
            let amount = after.unwrap_or(0) - before.unwrap_or(0);
            if amount > 0 {
                let pending = self.pending.entry(draft.key_id).or_default();
                pending.push((clock, amount));
            }
        }
    }

    /// Removes amounts that are no longer pending.
    pub(super) fn drop_stable_pending(&mut self, state: &State, membership: &Membership) {
        if self.pending.is_empty() {
            return;
        }
        let quorum = membership.quorum(state);
        self.pending.retain(|_, of_one| {
            of_one.retain(|(clock, _)| {
                let (writer, clock) = (OWN, *clock);
                !membership.is_stable(&quorum, Stamp { writer, clock })
            });
            !of_one.is_empty()
        });
    }
}

//! What was paid in under idempotency keys and may still turn out to have been paid in twice.
//!
//! If two members made an operation under one key, one of the two is withdrawn once somebody has heard
//! of both. What that one had paid in is gone then. So it can be spent only once everybody who counts
//! has acknowledged it: whoever had made another has withdrawn one of the two before that.

use super::{Quota, QuotaRef};
use crate::layers::State;
use crate::ledger::account::Account;
use crate::membership::Membership;
use crate::state::counter;
use crate::state::keys::KeyId;
use crate::state::operation::Draft;
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// What came in under keys, by the account: the own transaction's clock, and how much.
pub(super) type Pending = BTreeMap<KeyId, Vec<(u64, i128)>>;

impl QuotaRef<'_> {
    /// How much of an account can't be used yet.
    pub(super) fn pending_of(self, key: &str) -> i128 {
        let handle = self.state.keys.find(key);
        let Some(pending) = handle.and_then(|handle| self.quota.pending.get(&handle)) else {
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
    /// Notes what a transaction under a key, which is not visible yet, brings to the own accounts.
    pub(super) fn note_pending(&mut self, state: &State, clock: u64, drafts: &[Draft]) {
        if state.keys.index.are_plain() {
            return;
        }
        for draft in drafts.iter().filter(|draft| draft.changed) {
            let account = state.keys.get(draft.handle).and_then(Account::parse);
            if account.and_then(|it| it.part.holder()) != Some(state.writer()) {
                continue;
            }
            let after = counter::sum(&draft.slots, &state.writers).value();
            let before = state.value_at(draft.handle);
            let amount = after.unwrap_or(0) - before.unwrap_or(0);
            if amount > 0 {
                let pending = self.pending.entry(draft.handle).or_default();
                pending.push((clock, amount));
            }
        }
    }

    /// Forgets what is pending no longer.
    pub(super) fn settle_pending(&mut self, state: &State, membership: &Membership) {
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

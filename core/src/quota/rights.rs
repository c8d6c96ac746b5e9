//! Data about a budget that requests for rights need, and the operations that grant them.

use super::budget::Flow;
use super::period::used_of;
use super::{QuotaMut, QuotaRef};
use crate::error::Error;
use crate::ledger::account::{Account, Part};
use crate::ledger::{Holding, RightKind};
use crate::state::keys::KeyId;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// The part of a budget that stores a writer's rights of this kind, or `None` if they are no budget's.
fn part(kind: RightKind, writer: WriterId) -> Option<Part> {
    match kind {
        RightKind::Rights => Some(Part::Rights(writer)),
        RightKind::Room => Some(Part::Room(writer)),
        RightKind::Period => None,
    }
}

impl Flow {
    /// The operation that moves some rights of a kind to another member's writer. Returns `None` if they are
    /// no budget's.
    pub fn grant(kind: RightKind, to: WriterId, amount: u64) -> Option<Flow> {
        match kind {
            RightKind::Rights => Some(Flow::Grant { to, amount }),
            RightKind::Room => Some(Flow::GrantRoom { to, amount }),
            RightKind::Period => None,
        }
    }
}

impl QuotaRef<'_> {
    /// The distribution of the rights of a kind. Returns `None` if there is no such budget here, if the budget
    /// has no cap for room, or if the period is over.
    pub fn rights(self, name: &str, kind: RightKind) -> Option<Holding> {
        if kind == RightKind::Period {
            return self.rights_in_period(name);
        }
        let budget = self.budget(name)?;
        match kind {
            RightKind::Rights => Some(budget.rights),
            RightKind::Room => budget.room,
            RightKind::Period => None,
        }
    }

    /// The rights of a kind that a writer has, according to this replica.
    pub(crate) fn rights_of(self, name: &str, kind: RightKind, writer: WriterId) -> i128 {
        let Some(part) = part(kind, writer) else {
            return self.rights_in_period_of(name, writer);
        };
        let account = self.account(name);
        let key = account.map(|it| it.key_of(part));
        key.and_then(|key| self.state.value(&key)).unwrap_or(0)
    }
}

impl QuotaMut<'_> {
    /// Moves some rights to another member, as a transaction of its own, and adds each counter that
    /// changed to `changed`.
    ///
    /// # Errors
    /// As [`QuotaTransaction::flow`](crate::quota::QuotaTransaction::flow). Nothing is changed then.
    pub(crate) fn grant(
        &mut self,
        (name, kind): (&str, RightKind),
        to: WriterId,
        amount: u64,
        changed: &mut Vec<KeyId>,
    ) -> Result<(), Error> {
        let Some(flow) = Flow::grant(kind, to, amount) else {
            return self.grant_period(name, to, amount, changed);
        };
        let mut transaction = self.replica.begin()?;
        transaction.quota_mut().flow(name, flow)?;
        transaction.commit(changed);
        Ok(())
    }

    /// Calls `take` with the rights that were used here since the last call: with their name, their kind and
    /// the amount.
    pub(crate) fn take_used(&mut self, take: &mut dyn FnMut(&str, RightKind, u64)) {
        if self.replica.quota.used.is_empty() {
            return;
        }
        let used = core::mem::take(&mut self.replica.quota.used);
        for (key_id, amount) in used {
            let key = self.replica.state.keys().get(key_id);
            if let Some((name, kind)) = key.and_then(|key| used_of(key, self.replica.writer())) {
                take(name, kind, amount);
                continue;
            }
            match key.and_then(Account::parse) {
                Some(Account { part, name, .. }) if part == Part::Rights(self.replica.writer()) => {
                    take(name, RightKind::Rights, amount);
                }
                Some(Account { part, name, .. }) if part == Part::Room(self.replica.writer()) => {
                    take(name, RightKind::Room, amount);
                }
                _ => {}
            }
        }
    }
}

//! Data about a budget that requests for rights need, and the operations that grant them.

use super::budget::Flow;
use super::period::used_of;
use super::{QuotaMut, QuotaRef};
use crate::error::Error;
use crate::ledger::account::{Account, Part};
use crate::ledger::{Holding, Stock};
use crate::state::keys::KeyId;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// The part of a budget that stores a writer's stock, or `None` if the stock is no budget's.
fn part(stock: Stock, writer: WriterId) -> Option<Part> {
    match stock {
        Stock::Rights => Some(Part::Rights(writer)),
        Stock::Room => Some(Part::Room(writer)),
        Stock::Period => None,
    }
}

impl Flow {
    /// The operation that moves some of a stock to another member's writer. Returns `None` if the stock is no
    /// budget's.
    pub fn grant(stock: Stock, to: WriterId, amount: u64) -> Option<Flow> {
        match stock {
            Stock::Rights => Some(Flow::Grant { to, amount }),
            Stock::Room => Some(Flow::GrantRoom { to, amount }),
            Stock::Period => None,
        }
    }
}

impl QuotaRef<'_> {
    /// The distribution of a stock. Returns `None` if there is no such budget here, if the budget has no cap
    /// for room, or if the period is over.
    pub fn stock(self, name: &str, stock: Stock) -> Option<Holding> {
        if stock == Stock::Period {
            return self.period_stock(name);
        }
        let budget = self.budget(name)?;
        match stock {
            Stock::Rights => Some(budget.rights),
            Stock::Room => budget.room,
            Stock::Period => None,
        }
    }

    /// The amount of a stock that a writer holds, according to this replica.
    pub(crate) fn stock_of(self, name: &str, stock: Stock, writer: WriterId) -> i128 {
        let Some(part) = part(stock, writer) else {
            return self.period_stock_of(name, writer);
        };
        let account = self.account(name);
        let key = account.map(|it| it.key_of(part));
        key.and_then(|key| self.state.value(&key)).unwrap_or(0)
    }
}

impl QuotaMut<'_> {
    /// Moves some of a stock to another member, as a transaction of its own, and adds each counter that
    /// changed to `changed`.
    ///
    /// # Errors
    /// As [`QuotaTransaction::flow`](crate::quota::QuotaTransaction::flow). Nothing is changed then.
    pub(crate) fn grant(
        &mut self,
        (name, stock): (&str, Stock),
        to: WriterId,
        amount: u64,
        changed: &mut Vec<KeyId>,
    ) -> Result<(), Error> {
        let Some(flow) = Flow::grant(stock, to, amount) else {
            return self.grant_period(name, to, amount, changed);
        };
        let mut transaction = self.replica.begin()?;
        transaction.quota_mut().flow(name, flow)?;
        transaction.commit(changed);
        Ok(())
    }

    /// Calls `take` with each stock that was used here since the last call, and the amount.
    pub(crate) fn take_used(&mut self, take: &mut dyn FnMut(&str, Stock, u64)) {
        if self.replica.quota.used.is_empty() {
            return;
        }
        let used = core::mem::take(&mut self.replica.quota.used);
        for (key_id, amount) in used {
            let key = self.replica.state.keys().get(key_id);
            if let Some((name, stock)) = key.and_then(|key| used_of(key, self.replica.writer())) {
                take(name, stock, amount);
                continue;
            }
            match key.and_then(Account::parse) {
                Some(Account { part, name, .. }) if part == Part::Rights(self.replica.writer()) => {
                    take(name, Stock::Rights, amount);
                }
                Some(Account { part, name, .. }) if part == Part::Room(self.replica.writer()) => {
                    take(name, Stock::Room, amount);
                }
                _ => {}
            }
        }
    }
}

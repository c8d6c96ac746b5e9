//! What requests for rights need to know of a budget, and how they are granted.

use super::{Flow, Holding, Used};
use crate::account::{Account, Part};
use crate::error::Error;
use crate::keys::Handle;
use crate::replica::Replica;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// Of what a member may run short: both are held and moved in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stock {
    /// Rights to spend.
    Rights,
    /// Room to mint, under a cap.
    Room,
}

impl Stock {
    fn part(self, writer: WriterId) -> Part {
        match self {
            Stock::Rights => Part::Rights(writer),
            Stock::Room => Part::Room(writer),
        }
    }

    /// What moves some of it to another member's writer.
    pub fn grant(self, to: WriterId, amount: u64) -> Flow {
        match self {
            Stock::Rights => Flow::Grant { to, amount },
            Stock::Room => Flow::GrantRoom { to, amount },
        }
    }
}

impl Replica {
    /// How much of a stock is held where; `None` if there is no such budget here, or none with a cap.
    pub fn stock(&self, name: &str, stock: Stock) -> Option<Holding> {
        let budget = self.budget(name)?;
        match stock {
            Stock::Rights => Some(budget.rights),
            Stock::Room => budget.room,
        }
    }

    /// How much of a stock a writer holds, as is known here.
    pub(crate) fn stock_of(&self, name: &str, stock: Stock, writer: WriterId) -> i128 {
        let account = self.account(name);
        let key = account.map(|it| it.key_of(stock.part(writer)));
        key.and_then(|key| self.value(&key)).unwrap_or(0)
    }

    /// Moves some of a stock to another member, as a transaction of its own, and adds each counter that
    /// changed to `changed`.
    ///
    /// # Errors
    /// As [`Transaction::flow`](crate::Transaction::flow). Nothing is changed then.
    pub(crate) fn grant(
        &mut self,
        (name, stock): (&str, Stock),
        to: WriterId,
        amount: u64,
        changed: &mut Vec<Handle>,
    ) -> Result<(), Error> {
        let mut transaction = self.begin()?;
        transaction.flow(name, stock.grant(to, amount))?;
        transaction.commit(changed);
        Ok(())
    }

    /// Calls `take` with each stock that something was used of here since the last call, and how much.
    pub(crate) fn take_used(&mut self, take: &mut dyn FnMut(&str, Stock, u64)) {
        if self.used.is_empty() {
            return;
        }
        let used: Used = core::mem::take(&mut self.used);
        for (handle, amount) in used {
            match self.keys.get(handle).and_then(Account::parse) {
                Some(Account { part, name, .. }) if part == Part::Rights(self.writer()) => {
                    take(name, Stock::Rights, amount);
                }
                Some(Account { part, name, .. }) if part == Part::Room(self.writer()) => {
                    take(name, Stock::Room, amount);
                }
                _ => {}
            }
        }
    }
}

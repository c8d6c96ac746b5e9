//! A transaction that is made step by step. Each operation sees the effects of those before it, and its
//! result is known before the next one.

use super::quota::Noted;
use super::{QuotaHooks, Replica};
use crate::bounds::TRANSACTION_OPS_MAX;
use crate::error::{Error, WriteError, detail};
use crate::message::journal::Dids;
use crate::state::counter::{self, Sum};
use crate::state::keys::KeyId;
use crate::state::operation::{Draft, Op};
use alloc::vec::Vec;

/// A transaction that is being made. It is invisible until it is [committed](Transaction::commit). If it is
/// dropped, nothing has happened.
pub struct Transaction<'a> {
    pub(crate) replica: &'a mut Replica,
    pub(crate) clock: u64,
    /// Ascending by handle.
    pub(crate) drafts: Vec<Draft>,
    pub(crate) did: Dids,
    /// How many operations were made.
    pub(crate) ops: usize,
    /// The notes that the quota receives at the commit.
    pub(crate) quota: Noted,
}

impl Replica {
    /// Begins a transaction. The result is that of [`transact`](Replica::transact) with the same operations.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`].
    pub fn begin(&mut self) -> Result<Transaction<'_>, Error> {
        let clock = self.membership.next_clock(&self.state)?;
        Ok(Transaction {
            replica: self,
            clock,
            drafts: Vec::new(),
            did: Dids::default(),
            ops: 0,
            quota: Noted::default(),
        })
    }
}

impl Transaction<'_> {
    /// Makes an operation after the earlier operations of the transaction. Returns the result of
    /// [`Replica::apply`].
    ///
    /// # Errors
    /// The errors of [`Replica::apply`], and [`WriteError::TransactionTooLarge`]. After an error, the
    /// transaction is as it was before and may go on.
    pub fn apply(&mut self, key: &str, op: Op) -> Result<bool, Error> {
        let ops = self.ops + 1;
        if ops > TRANSACTION_OPS_MAX {
            return Err(WriteError::TransactionTooLarge { ops: detail(ops) }.into());
        }
        let (replica, drafts) = (&mut *self.replica, &mut self.drafts);
        let told = replica.step_key(drafts, self.clock, key, op, &mut self.did)?;
        self.ops = ops;
        Ok(told)
    }

    /// The replica, without the operations of this transaction.
    pub fn replica(&self) -> &Replica {
        self.replica
    }

    /// The counter's value after the operations so far, as [`Replica::value`].
    pub fn value(&self, key: &str) -> Option<i128> {
        match self.drafted(key) {
            Some(sum) if self.replica.is_past(sum.expiry()) => None,
            Some(sum) => sum.value(),
            None => self.replica.value(key),
        }
    }

    /// When the counter expires after the operations so far, as [`Replica::expiry_at`].
    pub fn expiry(&self, key: &str) -> Option<u64> {
        let expiry = match self.drafted(key) {
            Some(sum) => sum.expiry(),
            None => self
                .replica
                .effective_expiry(self.replica.state.keys().find(key)?),
        };
        expiry.filter(|_| !self.replica.is_past(expiry))
    }

    /// The sum of a counter on which an operation was made.
    fn drafted(&self, key: &str) -> Option<Sum> {
        let handle = self.replica.state.keys().find(key)?;
        let at = self.drafts.binary_search_by_key(&handle, |it| it.handle);
        let slots = &self.drafts[at.ok()?].slots;
        Some(counter::sum(slots, self.replica.state.ids()))
    }

    /// Makes all operations visible at once, and adds each counter that changed to `changed`. If nothing
    /// changed, makes no transaction.
    pub fn commit(mut self, changed: &mut Vec<KeyId>) {
        self.finish(changed);
    }

    /// Makes all operations visible, and adds each counter that changed to `changed`.
    pub(super) fn finish(&mut self, changed: &mut Vec<KeyId>) {
        for mut draft in core::mem::take(&mut self.drafts) {
            if draft.changed {
                changed.push(draft.handle);
            }
            self.replica.commit(self.clock, &mut draft);
        }
        let noted = core::mem::take(&mut self.quota);
        self.replica.quota.committed(noted);
        let did = core::mem::take(&mut self.did);
        self.replica.rejoin.keep(self.clock, did);
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        for draft in &self.drafts {
            self.replica.state.forget_unused(draft.handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::DecodeError;
    use crate::message::Message;
    use crate::state::page::OWN;
    use crate::{Space, WriterId};

    #[test]
    fn there_is_a_last_transaction() {
        let mut one = Replica::new(Space::default(), WriterId::from_bytes([1; 16]));
        one.state.set_clock(OWN, u64::MAX - 2);
        let mut transaction = one.begin().unwrap();
        assert_eq!(transaction.apply("k", Op::Add(1)), Ok(false));
        transaction.commit(&mut Vec::new());
        assert_eq!((one.clock(), one.value("k")), (u64::MAX - 1, Some(1)));
        assert_eq!(
            one.begin().err(),
            Some(Error::Write(WriteError::ClockExhausted))
        );
        let told = Message::decode(&one.snapshot().encode());
        assert_eq!(
            told.map(|it| it.delta.writers),
            Ok(one.snapshot().delta.writers)
        );
        // The greatest number stands for what lets nothing through, and is no clock.
        one.state.set_clock(OWN, u64::MAX);
        let told = Message::decode(&one.snapshot().encode());
        assert_eq!(told, Err(DecodeError::Number.into()));
    }
}

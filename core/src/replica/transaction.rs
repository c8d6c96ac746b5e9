//! A transaction that is made step by step. Each operation sees the effects of those before it, and its
//! result is known before the next one.

use super::quota::Noted;
use super::{QuotaHooks, Replica};
use crate::bounds::TRANSACTION_OPS_MAX;
use crate::error::{Error, WriteError, detail};
use crate::message::journal::Dids;
#[cfg(feature = "budgets")]
use crate::optional::Optional;
use crate::state::counter::{self, Sum};
use crate::state::keys::KeyId;
use crate::state::operation::{Draft, Op};
use alloc::vec::Vec;

/// A transaction that is being made. It is invisible until it is [committed](Transaction::commit). If it is
/// dropped, nothing has happened.
pub struct Transaction<'a> {
    pub(super) replica: &'a mut Replica,
    pub(super) clock: u64,
    /// Ascending by id.
    pub(super) drafts: Vec<Draft>,
    did: Dids,
    /// How many operations were made.
    ops: usize,
    /// The notes that the quota receives at the commit.
    pub(super) quota: Noted,
    /// The place to which the present [attempt](Transaction::attempt) goes back if it fails.
    #[cfg(feature = "budgets")]
    attempt: Option<Savepoint>,
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
            #[cfg(feature = "budgets")]
            attempt: None,
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
        let ops = self.room_for(1)?;
        #[cfg(feature = "budgets")]
        let before = self.attempt.is_some().then(|| self.draft_of(key));
        let (replica, drafts) = (&mut *self.replica, &mut self.drafts);
        let told = replica.step_key(drafts, self.clock, key, op, &mut self.did);
        #[cfg(feature = "budgets")]
        if let (Some(attempt), Some(before)) = (&mut self.attempt, before)
            && let Some(key_id) = replica.state.keys().find(key)
        {
            attempt.drafts.push((key_id, before));
        }
        let told = told?;
        self.ops = ops;
        Ok(told)
    }

    /// How many operations the transaction has after `more` further ones.
    ///
    /// # Errors
    /// [`WriteError::TransactionTooLarge`].
    #[inline(always)]
    pub(crate) fn room_for(&self, more: usize) -> Result<usize, Error> {
        let ops = self.ops + more;
        match ops > TRANSACTION_OPS_MAX {
            true => Err(WriteError::TransactionTooLarge { ops: detail(ops) }.into()),
            false => Ok(ops),
        }
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
        let key_id = self.replica.state.keys().find(key)?;
        let at = self.drafts.binary_search_by_key(&key_id, |it| it.key_id);
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
                changed.push(draft.key_id);
            }
            self.replica.commit(self.clock, &mut draft);
        }
        let noted = core::mem::take(&mut self.quota);
        self.replica.quota.committed(noted);
        let did = core::mem::take(&mut self.did);
        self.replica.rejoin.keep(self.clock, did);
    }
}

/// A place in a transaction to which it can go back.
#[cfg(feature = "budgets")]
pub(crate) struct Savepoint {
    ops: usize,
    did: usize,
    /// The drafts that were about to change since, as they were. `None` for one that there was not.
    drafts: Vec<(KeyId, Option<Draft>)>,
}

#[cfg(feature = "budgets")]
impl Transaction<'_> {
    /// Makes some operations, all or none. If `make` fails, the transaction is as it was before and may go
    /// on. An attempt within another one is a part of that one, and does not go back alone.
    ///
    /// # Errors
    /// The error of `make`.
    pub fn attempt<T, E>(&mut self, make: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        if self.attempt.is_some() {
            return make(self);
        }
        let noted = self.quota.place();
        self.attempt = Some(self.savepoint());
        let made = make(self);
        if let (Some(saved), Err(_)) = (self.attempt.take(), &made) {
            self.roll_back(saved);
            self.quota.go_back(noted);
        }
        made
    }

    /// A copy of a counter's draft, if there is one.
    fn draft_of(&self, key: &str) -> Option<Draft> {
        let key_id = self.replica.state.keys().find(key)?;
        let at = self.drafts.binary_search_by_key(&key_id, |it| it.key_id);
        Some(self.drafts[at.ok()?].clone())
    }

    /// The present place.
    pub(crate) fn savepoint(&self) -> Savepoint {
        Savepoint {
            ops: self.ops,
            did: self.did.len(),
            drafts: Vec::new(),
        }
    }

    /// Makes a step of an operation, which is not counted. `saved` stores what it changes.
    pub(crate) fn step(
        &mut self,
        key: &str,
        op: Op,
        saved: &mut Savepoint,
    ) -> Result<KeyId, Error> {
        let replica = &mut *self.replica;
        let key_id = replica.state.key_id(key)?;
        let known = self.drafts.binary_search_by_key(&key_id, |it| it.key_id);
        let draft = known.ok().map(|at| self.drafts[at].clone());
        if let Some(attempt) = &mut self.attempt {
            attempt.drafts.push((key_id, draft.clone()));
        }
        saved.drafts.push((key_id, draft));
        let at = replica.state.draft_of(&mut self.drafts, key_id);
        let done = replica.step(&mut self.drafts[at], self.clock, op, &mut self.did);
        done.map(|_| key_id)
    }

    /// Counts the operation that the last steps made.
    ///
    /// # Errors
    /// [`WriteError::TransactionTooLarge`].
    pub(crate) fn count_op(&mut self) -> Result<(), Error> {
        self.ops = self.room_for(1)?;
        Ok(())
    }

    /// Goes back to a place, as if nothing had been done since.
    pub(crate) fn roll_back(&mut self, to: Savepoint) {
        for (key_id, draft) in to.drafts.into_iter().rev() {
            let Ok(at) = self.drafts.binary_search_by_key(&key_id, |it| it.key_id) else {
                continue;
            };
            match draft {
                Some(draft) => self.drafts[at] = draft,
                None => {
                    self.drafts.remove(at);
                    self.replica.state.forget_unused(key_id);
                }
            }
        }
        self.did.update(|it| it.truncate(to.did));
        self.ops = to.ops;
    }

    /// The notes that the quota receives at the commit.
    pub(crate) fn noted(&self) -> &Noted {
        &self.quota
    }

    /// The same, to be changed.
    pub(crate) fn noted_mut(&mut self) -> &mut Noted {
        &mut self.quota
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        for draft in &self.drafts {
            self.replica.state.forget_unused(draft.key_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::DecodeError;
    use crate::message::Message;
    use crate::state::page::OWN;
    use crate::wire::Encode;
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

    #[cfg(feature = "budgets")]
    #[test]
    fn a_failed_attempt_leaves_the_transaction_as_it_was() {
        let begun = || Replica::new(Space::default(), WriterId::from_bytes([1; 16]));
        let (mut one, mut other) = (begun(), begun());
        for replica in [&mut one, &mut other] {
            replica.add("old", 7).unwrap();
        }
        let steps = [
            ("old", Op::Delete),
            ("a", Op::Add(5)),
            ("new", Op::Set(2)),
            ("new", Op::Expire(9)),
            ("", Op::Add(1)),
        ];
        let mut transaction = one.begin().unwrap();
        transaction.apply("a", Op::Add(1)).unwrap();
        let made = transaction.attempt(|it| {
            it.attempt(|it| it.apply("inner", Op::Add(1)))?;
            assert_eq!(it.value("inner"), Some(1));
            for (key, op) in steps {
                it.apply(key, op)?;
            }
            Ok(())
        });
        let refused = Error::Write(WriteError::KeyLength { bytes: detail(0) });
        assert_eq!(made, Err(refused));
        let values = ["old", "a", "new", "inner"].map(|key| transaction.value(key));
        assert_eq!(values, [Some(7), Some(1), None, None]);
        let made = transaction.attempt(|it| it.apply("b", Op::Add(3)));
        assert_eq!(made, Ok(false));
        transaction.commit(&mut Vec::new());
        other
            .transact(&[("a", Op::Add(1)), ("b", Op::Add(3))])
            .unwrap();
        assert_eq!(one.snapshot(), other.snapshot());
        assert_eq!(one.key_ids_end(), other.key_ids_end());
    }
}

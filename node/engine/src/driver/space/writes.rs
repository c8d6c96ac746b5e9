//! Writes to a space: adds, transactions, and the deletion of expired counters.

use super::{KeyId, OpenSpace, only_adds};
use tallymesh_core::bounds::TRANSACTION_OPS_MAX;
use tallymesh_core::{
    Asker, DecodeError, Error, KeyStatus, Op, Party, RESERVED, ScopeError, Transaction, WriteError,
};
use tallymesh_node_ground::model::{
    Counter, Done, Event, Keyed, Made, Operation, OperationError, Refusal, Sum, Transacted,
};

/// Most counters that one batch deletes because they have expired. With more, other requests would
/// wait too long.
const EXPIRIES_BATCH_MAX: usize = 4096;

impl OpenSpace {
    pub(in crate::driver) fn add(&mut self, key: String, by: i64) -> Result<Counter, Refusal> {
        #[cfg(test)]
        crate::contain::tests::panic_if_told(key.as_bytes(), crate::contain::tests::WITHIN);
        let counter = self.writable()?.add(&key, by);
        let counter = counter.map_err(|error| match self.is_untimely(&error) {
            true => Refusal::CatchingUp,
            false => error.into(),
        })?;
        self.wrote(counter, Event::IncrBy);
        let now = self.reading(counter).unwrap_or_default();
        Ok(Counter { key, now })
    }

    /// Makes one transaction. The error names the operation that was refused. Under a key that was
    /// used before it only returns the present values of the counters.
    pub(in crate::driver) fn transact(
        &mut self,
        ops: &[Operation],
        once: Option<Keyed>,
    ) -> Result<Transacted, Refusal> {
        if ops.len() > TRANSACTION_OPS_MAX {
            return Err(Error::Write(WriteError::TransactionTooLarge { ops: ops.len() }).into());
        }
        match once.map(|it| self.replica.keyed().lookup(&it.once)) {
            None | Some(KeyStatus::New) => {}
            Some(KeyStatus::Before(_)) => {
                self.part.tally.replayed += 1;
                if once.is_some_and(|it| self.replica.keyed().is_weaker(&it.once)) {
                    return Err(Refusal::MadeWeaker);
                }
                return Ok(self.transacted_before(ops));
            }
            Some(KeyStatus::Reused) => {
                self.part.tally.reused += 1;
                return Err(Refusal::KeyReused);
            }
        }
        let mut changed = Vec::new();
        for operation in ops {
            if let Operation::Allow { key, cost } = operation {
                // This is not part of the transaction, because the transaction may be withdrawn.
                let replica = self.writable()?;
                replica.quota_mut().bring_in_for(key, *cost, &mut changed)?;
            }
        }
        for counter in changed {
            self.wrote(counter, Event::Merge);
        }
        let asker = once.map(|it| self.asker(it.party, it.limited));
        let awaits_clock = self.awaits_clock();
        let mut transaction = self.writable()?.begin()?;
        let mut told = Vec::with_capacity(ops.len());
        for (index, operation) in ops.iter().enumerate() {
            let refusal = |error| Refusal::Op {
                index,
                on: operation.on(),
                key: operation.key().to_owned(),
                error,
            };
            if awaits_clock
                && matches!(operation, Operation::Allow { .. } | Operation::Lease { .. })
            {
                return Err(refusal(OperationError::CatchingUp(Vec::new())));
            }
            told.push(operation.make(&mut transaction).map_err(refusal)?);
        }
        let mut changed = Vec::new();
        match once {
            Some(once) => {
                let made = transaction.commit_once_for(once.once, asker.as_ref(), &mut changed);
                made.map_err(keyed_refusal)?;
                self.part.tally.keyed += 1;
            }
            None => transaction.commit(&mut changed),
        }
        let done = ops.iter().zip(told).map(|(operation, told)| {
            let mut done = self.shown(operation);
            match told {
                Made::Number { number, watched } => {
                    done.number = Some(number);
                    done.watched = watched;
                }
                Made::Leased(lease) => done.lease = Some(lease.into()),
                Made::Told(_) | Made::Done => {}
            }
            let (Some(op), Made::Told(told)) = (operation.op(), told) else {
                return done;
            };
            if let Some(event) = event(op, told)
                && let Some(counter) = self.replica.key_id(&done.key)
            {
                self.wrote(counter, event);
                changed.retain(|it| *it != counter);
            }
            match op {
                Op::Persist => done.had_expiry = Some(told),
                _ => done.existed = Some(told),
            }
            done
        });
        let done = done.collect();
        for counter in changed {
            let key = self.replica.key(counter).unwrap_or_default();
            let event = match self.replica.quota().budget_at(counter) {
                Some(_) => Event::Budget,
                // The counter belongs to a sequence. Redis clients receive no events about
                // sequences.
                None if key.starts_with(RESERVED) => Event::Merge,
                // No operation requested that change: the transaction found an expired counter.
                None => Event::Expired,
            };
            self.wrote(counter, event);
        }
        let again = false;
        Ok(Transacted { done, again })
    }

    /// The asker for whom an operation under an idempotency key is made.
    pub fn asker(&self, party: Party, limited: bool) -> Asker {
        Asker {
            party,
            limited,
            settled: self.key_retention.settled(),
        }
    }

    /// Counts the result of an operation under an idempotency key.
    pub fn asked(&mut self, asked: KeyStatus) {
        let tally = &mut self.part.tally;
        let count = match asked {
            KeyStatus::New => &mut tally.keyed,
            KeyStatus::Before(_) => &mut tally.replayed,
            KeyStatus::Reused => &mut tally.reused,
        };
        *count += 1;
    }

    /// The answer to a transaction that was made before.
    fn transacted_before(&self, ops: &[Operation]) -> Transacted {
        Transacted {
            done: ops.iter().map(|operation| self.shown(operation)).collect(),
            again: true,
        }
    }

    /// The present values of an operation's counter or budgets.
    fn shown(&self, operation: &Operation) -> Done {
        let key = operation.key();
        let mut done = Done {
            key: key.to_owned(),
            existed: None,
            had_expiry: None,
            now: None,
            budget: None,
            to: None,
            lease: None,
            period: None,
            number: None,
            watched: false,
        };
        match operation {
            Operation::Count { .. } => done.now = self.read_at(key),
            Operation::Begin { .. } | Operation::Next { .. } | Operation::Watch { .. } => {}
            Operation::Allow { .. } => done.period = self.period(key).ok(),
            _ => done.budget = self.budget_row(key),
        }
        if let Operation::Transfer { to, .. } = operation {
            let rows = to.iter().filter_map(|(key, _)| self.budget_row(key));
            done.to = Some(rows.collect());
        }
        done
    }

    /// Adds to any number of counters, all or none. Up to a limit the adds are one transaction.
    /// More adds are tried first, and then made as several transactions.
    pub(in crate::driver) fn add_many(&mut self, sums: &[Sum]) -> Result<(), Refusal> {
        self.writable()?;
        let mut adds: Vec<(KeyId, &Sum)> = Vec::with_capacity(sums.len());
        let interned = sums.iter().try_for_each(|sum| {
            let counter = self.replica.intern(&sum.key);
            adds.push((counter.map_err(|error| at_line(sum, error))?, sum));
            Ok(())
        });
        // In this order the replica goes through its counters from end to end.
        adds.sort_unstable_by_key(|(counter, _)| *counter);
        let done = interned.and_then(|()| self.add_all(&adds));
        let done = done.map_err(|refusal| match refusal {
            Refusal::Line { ref error, .. } if self.is_untimely(error) => Refusal::CatchingUp,
            refusal => refusal,
        });
        for (counter, _) in adds {
            // The key was interned above, so its KeyId is valid.
            let _ = self.replica.release(counter);
        }
        done
    }

    fn add_all(&mut self, adds: &[(KeyId, &Sum)]) -> Result<(), Refusal> {
        let parts = || adds.chunks(TRANSACTION_OPS_MAX);
        if parts().len() > 1 {
            parts().try_for_each(|part| self.draft(part).map(|_| ()))?;
        }
        parts().try_for_each(|part| {
            let plain: Vec<_> = part
                .iter()
                .map(|(counter, sum)| (*counter, sum.by))
                .collect();
            let mut changed: Vec<_> = part.iter().map(|(counter, _)| *counter).collect();
            if self.writable()?.add_together(&plain) {
                changed.dedup();
            } else {
                changed.clear();
                self.draft(part)?.commit(&mut changed);
            }
            for counter in changed {
                self.wrote(counter, Event::IncrBy);
            }
            Ok(())
        })
    }

    /// A transaction that is not committed yet.
    fn draft(&mut self, adds: &[(KeyId, &Sum)]) -> Result<Transaction<'_>, Refusal> {
        let mut transaction = self.writable()?.begin()?;
        for (_, sum) in adds {
            let added = transaction.apply(&sum.key, Op::Add(sum.by));
            added.map_err(|error| at_line(sum, error))?;
        }
        Ok(transaction)
    }

    /// Whether this member refuses something only because it awaits the clock of another one.
    fn is_untimely(&self, error: &Error) -> bool {
        *error == Error::Scope(ScopeError::Expired) && self.awaits_clock()
    }

    /// Deletes counters that have expired at `now`, which is also the replica's time. Returns how
    /// many it deleted; the rest stays due. While the time is unsure, all stay.
    pub(in crate::driver) fn delete_expired(&mut self, now: u64) -> usize {
        let mut deleted = 0;
        if self.is_time_unsure() {
            return deleted;
        }
        for _ in 0..EXPIRIES_BATCH_MAX {
            let Some(counter) = self.expiries.take_due(now) else {
                break;
            };
            // The counter leaves the list of expiries here, so this is the last look at its expiry.
            self.existing.look(&self.replica, counter);
            if only_adds(self.role) {
                // Another node deletes it, and a merge brings that here.
                continue;
            }
            match self.replica.materialize_expiry(counter) {
                Ok(true) => {
                    self.wrote(counter, Event::Expired);
                    deleted += 1;
                }
                // The clock went back, or the KeyId means another counter now.
                Ok(false) => self.expiries.note(counter, self.replica.expiry_at(counter)),
                Err(error) => {
                    let (space, code) = (self.name().as_str(), error.code());
                    tracing::error!(space, code, %error, "could not delete an expired counter");
                }
            }
        }
        deleted
    }
}

/// The event of an operation, if it did anything. `told` is the result of the replica.
fn event(op: Op, told: bool) -> Option<Event> {
    match op {
        Op::Add(_) => Some(Event::IncrBy),
        Op::Reset | Op::Set(_) => Some(Event::Set),
        _ if !told => None,
        Op::Delete => Some(Event::Del),
        Op::Expire(_) => Some(Event::Expire),
        Op::Persist => Some(Event::Persist),
    }
}

fn keyed_refusal(error: Error) -> Refusal {
    match error {
        Error::Decode(DecodeError::TooLarge { size, max, .. }) => {
            Refusal::KeyedTooLarge { bytes: size, max }
        }
        error => error.into(),
    }
}

fn at_line(sum: &Sum, error: Error) -> Refusal {
    Refusal::Line {
        line: sum.line,
        key: sum.key.clone(),
        error,
    }
}

//! What is written here: adds, transactions, and the deletion of what has expired.

use super::{KeyId, OpenSpace};
use crate::driver::budgets::Made;
use crate::driver::{Counter, Done, Keyed, Operation, OperationError, Transacted};
use crate::handle::{Refusal, Sum};
use crate::resp::Event;
use tallymesh_core::limits::TRANSACTION_OPS_MAX;
use tallymesh_core::{Asked, Asker, Error, Op, Party, RESERVED, Transaction};

/// Most counters of one batch that are deleted because they have expired. With more, whoever asks
/// for something else would wait too long.
const EXPIRIES_BATCH_MAX: usize = 4096;

impl OpenSpace {
    pub(in crate::driver) fn add(&mut self, key: String, by: i64) -> Result<Counter, Refusal> {
        #[cfg(test)]
        crate::resp::tests::panic_if_told(key.as_bytes(), crate::resp::tests::WITHIN);
        let counter = self.writable()?.add(&key, by)?;
        self.wrote(counter, Event::IncrBy);
        let now = self.reading(counter).unwrap_or_default();
        Ok(Counter { key, now })
    }

    /// Makes one transaction, or tells which operation of it was refused. Under a key that is known
    /// already it only tells what the counters show.
    pub(in crate::driver) fn transact(
        &mut self,
        ops: &[Operation],
        once: Option<Keyed>,
    ) -> Result<Transacted, Refusal> {
        if ops.len() > TRANSACTION_OPS_MAX {
            return Err(Error::TransactionTooLarge { ops: ops.len() }.into());
        }
        match once.map(|it| self.replica.keyed().lookup(&it.once)) {
            None | Some(Asked::New) => {}
            Some(Asked::Before(_)) => {
                self.part.tally.replayed += 1;
                return Ok(self.transacted_before(ops));
            }
            Some(Asked::Reused) => {
                self.part.tally.reused += 1;
                return Err(Refusal::KeyReused);
            }
        }
        let mut changed = Vec::new();
        for operation in ops {
            if let Operation::Allow { key, cost } = operation {
                // No part of the transaction, which may be withdrawn.
                let replica = self.writable()?;
                replica.quota_mut().bring_in_for(key, *cost, &mut changed)?;
            }
        }
        for counter in changed {
            self.wrote(counter, Event::Merge);
        }
        let not_a_member = self.not_a_member();
        let asker = once.map(|it| self.asker(it.party, it.limited));
        let mut transaction = self.writable()?.begin()?;
        let mut told = Vec::with_capacity(ops.len());
        for (index, operation) in ops.iter().enumerate() {
            let refusal = |error| Refusal::Op {
                index,
                on: operation.on(),
                key: operation.key().to_owned(),
                error: match error {
                    OperationError::Core(Error::NotAMember) => not_a_member.clone(),
                    error => error,
                },
            };
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
                && let Some(counter) = self.replica.handle(&done.key)
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
                // A sequence's, of which Redis clients are told nothing.
                None if key.starts_with(RESERVED) => Event::Merge,
                // Nobody asked for that change: the counter had expired, and was met.
                None => Event::Expired,
            };
            self.wrote(counter, event);
        }
        let again = false;
        Ok(Transacted { done, again })
    }

    /// For whom an operation under an idempotency key is made.
    pub(in crate::driver) fn asker(&self, party: Party, limited: bool) -> Asker {
        Asker {
            party,
            limited,
            settled: self.window.settled(),
        }
    }

    /// Counts what became of an operation under an idempotency key, which is made if it is new.
    pub(in crate::driver) fn asked(&mut self, asked: Asked) {
        let tally = &mut self.part.tally;
        let count = match asked {
            Asked::New => &mut tally.keyed,
            Asked::Before(_) => &mut tally.replayed,
            Asked::Reused => &mut tally.reused,
        };
        *count += 1;
    }

    /// What is answered to a transaction that was made before.
    fn transacted_before(&self, ops: &[Operation]) -> Transacted {
        Transacted {
            done: ops.iter().map(|operation| self.shown(operation)).collect(),
            again: true,
        }
    }

    /// What an operation's counter or budgets show now.
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

    /// Adds to any number of counters, all or none. Up to a limit they are one transaction; more
    /// are tried first, and then made as several.
    pub(in crate::driver) fn add_many(&mut self, sums: &[Sum]) -> Result<(), Refusal> {
        self.writable()?;
        let mut adds: Vec<(KeyId, &Sum)> = Vec::with_capacity(sums.len());
        let interned = sums.iter().try_for_each(|sum| {
            let counter = self.replica.intern(&sum.key);
            adds.push((counter.map_err(|error| at_line(sum, error))?, sum));
            Ok(())
        });
        // The replica works through them from end to end then.
        adds.sort_unstable_by_key(|(counter, _)| *counter);
        let done = interned.and_then(|()| self.add_all(&adds));
        for (counter, _) in adds {
            // It was interned above, so it is known.
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

    /// A transaction that is not made yet.
    fn draft(&mut self, adds: &[(KeyId, &Sum)]) -> Result<Transaction<'_>, Refusal> {
        let mut transaction = self.writable()?.begin()?;
        for (_, sum) in adds {
            let added = transaction.apply(&sum.key, Op::Add(sum.by));
            added.map_err(|error| at_line(sum, error))?;
        }
        Ok(transaction)
    }

    /// Deletes counters that have expired at `now`, which is also the replica's time. Returns how
    /// many; what is left is still due.
    pub(in crate::driver) fn delete_expired(&mut self, now: u64) -> usize {
        let mut deleted = 0;
        for _ in 0..EXPIRIES_BATCH_MAX {
            let Some(counter) = self.expiries.take_due(now) else {
                break;
            };
            // Once it is taken out, nothing else tells that it has expired.
            self.existing.look(&self.replica, counter);
            if self.replica.is_adds_only() {
                // Somebody else deletes it, of which a merge tells.
                continue;
            }
            match self.replica.materialize_expiry(counter) {
                Ok(true) => {
                    self.wrote(counter, Event::Expired);
                    deleted += 1;
                }
                // The clock went back, or the counter is another one by now.
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

/// What is told of an operation, if it did anything; `told` as the replica tells it.
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
        Error::TooLarge { size, max, .. } => Refusal::KeyedTooLarge { bytes: size, max },
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

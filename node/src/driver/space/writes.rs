//! What is written here: adds, transactions, and the deletion of what has expired.

use super::{Counted, OpenSpace};
use crate::driver::{Counter, Done};
use crate::handle::{Refusal, Sum};
use tallymesh_core::limits::{EXPIRY_MAX, TRANSACTION_OPS_MAX};
use tallymesh_core::{Error, Op, Replica};

/// Most counters of one batch that are deleted because they have expired. With more, whoever asks
/// for something else would wait too long.
const EXPIRIES_BATCH_MAX: usize = 4096;

/// What no replica takes: see [`OpenSpace::would_take`].
const REFUSED: (&str, Op) = ("-", Op::Expire(u64::MAX));

impl OpenSpace {
    pub(in crate::driver) fn add(&mut self, key: String, by: i64) -> Result<Counter, Refusal> {
        let counter = self.replica.add(&key, by)?;
        self.wrote = true;
        self.changed.push(counter);
        let now = self.reading(counter).unwrap_or_default();
        Ok(Counter { key, now })
    }

    /// Makes one transaction, or tells which operation of it was refused.
    pub(in crate::driver) fn transact(
        &mut self,
        ops: &[(String, Op)],
    ) -> Result<Vec<Done>, Refusal> {
        let ops: Vec<(&str, Op)> = ops.iter().map(|(key, op)| (key.as_str(), *op)).collect();
        let counters = |replica: &Replica, changed: &mut Vec<Counted>| {
            changed.extend(ops.iter().filter_map(|(key, _)| replica.handle(key)));
        };
        let told = match self.make(&ops, counters) {
            Ok(told) => told,
            Err(error) => return Err(self.refusal(&ops, error)),
        };
        let done = ops.iter().zip(told).map(|((key, op), told)| {
            let persists = matches!(op, Op::Persist);
            Done {
                key: (*key).to_owned(),
                existed: (!persists).then_some(told),
                had_expiry: persists.then_some(told),
                now: self.read_at(key),
            }
        });
        Ok(done.collect())
    }

    /// Makes operations; `counters` names the counters if any of them did something.
    fn make(
        &mut self,
        ops: &[(&str, Op)],
        counters: impl FnOnce(&Replica, &mut Vec<Counted>),
    ) -> Result<Vec<bool>, Error> {
        let before = self.replica.clock();
        let told = self.replica.transact(ops)?;
        if self.replica.clock() != before {
            self.wrote = true;
            counters(&self.replica, &mut self.changed);
        }
        Ok(told)
    }

    /// Names the operation because of which `ops` were refused.
    fn refusal(&mut self, ops: &[(&str, Op)], error: Error) -> Refusal {
        let index = match error {
            Error::TransactionTooLarge { .. } | Error::ClockExhausted => None,
            Error::ExpiryRange { .. } => ops
                .iter()
                .position(|(_, op)| matches!(op, Op::Expire(at) if *at > EXPIRY_MAX)),
            _ => Some(self.refused_at(ops)),
        };
        match index.and_then(|index| Some((index, ops.get(index)?))) {
            Some((index, (key, _))) => Refusal::Op {
                index,
                key: (*key).to_owned(),
                error,
            },
            None => Refusal::Core(error),
        }
    }

    /// Where in a transaction that was refused the first operation is that was not taken.
    fn refused_at(&mut self, ops: &[(&str, Op)]) -> usize {
        let (mut taken, mut refused) = (0, ops.len());
        while taken + 1 < refused {
            let middle = taken.midpoint(refused);
            match self.would_take(&ops[..middle]) {
                Ok(()) => taken = middle,
                Err(_) => refused = middle,
            }
        }
        taken
    }

    /// Tries fewer than [`TRANSACTION_OPS_MAX`] operations without making them: after them comes
    /// one that is refused in any case, and takes the others with it.
    fn would_take(&mut self, ops: &[(&str, Op)]) -> Result<(), Error> {
        let mut ops = ops.to_vec();
        ops.push(REFUSED);
        match self.replica.transact(&ops) {
            Ok(_) | Err(Error::ExpiryRange { at: u64::MAX }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Adds to any number of counters, all or none. Up to a limit they are one transaction; more
    /// are tried first, and then made as several.
    pub(in crate::driver) fn add_many(&mut self, sums: &[Sum]) -> Result<(), Refusal> {
        let mut adds: Vec<(Counted, &Sum)> = Vec::with_capacity(sums.len());
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

    fn add_all(&mut self, adds: &[(Counted, &Sum)]) -> Result<(), Refusal> {
        let ops: Vec<(&str, Op)> = adds
            .iter()
            .map(|(_, sum)| (sum.key.as_str(), Op::Add(sum.by)))
            .collect();
        // One less than the limit, so that they can be tried.
        let parts = || ops.chunks(TRANSACTION_OPS_MAX - 1);
        let at = |sums: &[(Counted, &Sum)], refusal| match refusal {
            Refusal::Op { index, error, .. } => at_line(sums[index].1, error),
            other => other,
        };
        let mut sums = adds.chunks(TRANSACTION_OPS_MAX - 1);
        if parts().len() > 1 {
            for (part, sums) in parts().zip(sums.clone()) {
                if let Err(error) = self.would_take(part) {
                    return Err(at(sums, self.refusal(part, error)));
                }
            }
        }
        parts().try_for_each(|part| {
            let sums = sums.next().unwrap_or_default();
            let counters = |_: &Replica, changed: &mut Vec<Counted>| {
                changed.extend(sums.iter().map(|(counter, _)| *counter));
            };
            match self.make(part, counters) {
                Ok(_) => Ok(()),
                Err(error) => Err(at(sums, self.refusal(part, error))),
            }
        })
    }

    /// Deletes counters that have expired at `now`, which is also the replica's time. Returns how
    /// many; what is left is still due.
    pub(in crate::driver) fn delete_expired(&mut self, now: u64) -> usize {
        let mut deleted = 0;
        for _ in 0..EXPIRIES_BATCH_MAX {
            let Some(counter) = self.expiries.take_due(now) else {
                break;
            };
            match self.replica.materialize_expiry(counter) {
                Ok(true) => {
                    self.wrote = true;
                    self.changed.push(counter);
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

fn at_line(sum: &Sum, error: Error) -> Refusal {
    Refusal::Line {
        line: sum.line,
        key: sum.key.clone(),
        error,
    }
}

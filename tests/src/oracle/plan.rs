//! The operations that a call to a replica must issue, and the comparison of a real replica with them.

use super::once::once;
use super::{Counter, Issue, Key, Kind, OnceId, Oracle, View};
use std::collections::{BTreeMap, BTreeSet};
use tallymesh_core::bounds::EXPIRY_MAX;
use tallymesh_core::{Error, Replica, WriteError, WriterId};

/// The expected effect of a transaction at its replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The operations that are issued. If there are none, no transaction is made.
    pub issued: Vec<(Key, Issue)>,
    /// The replica's answer for each requested operation: whether the counter existed just before it. For a
    /// persist, whether the counter had an expiry.
    pub answers: Vec<bool>,
}

/// The reason why a replica must reject a transaction. Nothing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The sum of the writer's own adds that are not cancelled would leave `i64`.
    Overflow {
        /// The sum.
        total: i128,
        /// The amount of the add.
        by: i64,
    },
    /// An expiry later than the last one that is allowed.
    ExpiryRange {
        /// The expiry.
        at: u64,
    },
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        match refusal {
            Refusal::Overflow { total, by } => Error::Write(WriteError::Overflow { total, by }),
            Refusal::ExpiryRange { at } => Error::Write(WriteError::ExpiryRange { at }),
        }
    }
}

/// The call that requests a single operation of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `add` if it is an add, else `apply`.
    Single,
    /// `transact`, as for several operations.
    Transact,
    /// A transaction under the idempotency key of this number.
    Once(OnceId),
}

impl Oracle {
    /// Returns the expected effect of a transaction of these operations, made by `writer` at time `now` in
    /// this `view`.
    ///
    /// - Each operation sees the earlier ones.
    /// - Any operation on a counter that has expired by `now` is preceded by an ordinary delete.
    /// - Delete, expire and persist of an absent counter do nothing and are not issued.
    ///
    /// # Errors
    /// The reason why the replica must reject it.
    pub fn plan(
        &self,
        view: &View,
        writer: WriterId,
        now: u64,
        ops: &[(Key, Kind)],
    ) -> Result<Plan, Refusal> {
        self.plan_with(view, writer, now, ops, &|_| None)
    }

    /// The same, with the floor of each counter by the replica. In a space with members there is one. There, a
    /// counter that has expired before the transaction gets an end in place of the delete.
    ///
    /// # Errors
    /// The reason why the replica must reject it.
    pub fn plan_with(
        &self,
        view: &View,
        writer: WriterId,
        now: u64,
        ops: &[(Key, Kind)],
        floors: &dyn Fn(Key) -> Option<u64>,
    ) -> Result<Plan, Refusal> {
        let mut plan = Plan::default();
        // For each touched counter: its state in the middle of the transaction, and the sum of the writer's
        // own adds. The view contains all earlier operations, so this needs no history.
        let mut drafts: BTreeMap<Key, (Option<Counter>, i128, Option<u64>)> = BTreeMap::new();
        for &(key, kind) in ops {
            let (counter, own, floor) = drafts.entry(key).or_insert_with(|| {
                let own = self.own_sum(&view.seen, key, writer);
                (view.counters.get(&key).copied(), own, floors(key))
            });
            let expired = counter.filter(|counter| counter.is_expired(now));
            if let Some(until) = expired.and_then(|counter| counter.expiry) {
                let untouched = !plan.issued.iter().any(|it| it.0 == key);
                match floor.as_mut().filter(|_| untouched) {
                    Some(floor) => {
                        *floor = until.max(*floor + 1);
                        plan.issued.push((key, Issue::end(*floor)));
                    }
                    None => {
                        plan.issued.push((key, Issue::from(Kind::Delete)));
                        *own = 0;
                    }
                }
                *counter = None;
            }
            plan.answers.push(match kind {
                Kind::Persist => counter.is_some_and(|counter| counter.expiry.is_some()),
                _ => counter.is_some(),
            });
            match (kind, &mut *counter) {
                (Kind::Expire(at), _) if at > EXPIRY_MAX => {
                    return Err(Refusal::ExpiryRange { at });
                }
                (Kind::Delete | Kind::Expire(_) | Kind::Persist, None) => continue,
                (Kind::Add(by), _) => {
                    let total = *own;
                    *own += i128::from(by);
                    if i64::try_from(*own).is_err() {
                        return Err(Refusal::Overflow { total, by });
                    }
                    let life = counter.get_or_insert(Counter {
                        value: 0,
                        expiry: None,
                    });
                    life.value += i128::from(by);
                }
                (Kind::Expire(at), Some(counter)) => counter.expiry = Some(at),
                (Kind::Persist, Some(counter)) => counter.expiry = None,
                (Kind::Delete, Some(_)) => (*counter, *own) = (None, 0),
                (Kind::Reset, _) => (*counter, *own) = (Some(base(0)), 0),
                (Kind::Set(value), _) => (*counter, *own) = (Some(base(value)), 0),
            }
            let issue = Issue::with_floor(kind, floor.unwrap_or(0));
            plan.issued.push((key, issue));
        }
        Ok(plan)
    }

    /// The [plan](Oracle::plan) of a transaction of a replica.
    ///
    /// # Errors
    /// If the replica takes a time for the floor that no end in force has.
    pub fn plan_for(
        &self,
        view: &View,
        replica: &Replica,
        now: u64,
        ops: &[(Key, Kind)],
    ) -> Result<Result<Plan, Refusal>, String> {
        let mut floors: BTreeMap<Key, Option<u64>> = BTreeMap::new();
        for (key, _) in ops {
            floors.insert(*key, self.floor_of(view, replica, *key)?);
        }
        let floors = |key| floors.get(&key).copied().flatten();
        Ok(self.plan_with(view, replica.writer(), now, ops, &floors))
    }

    /// Requests a transaction at a real replica, and compares its answer and all its reads with the plan.
    /// Returns whether a transaction was made. If not, it did nothing or had to be rejected.
    ///
    /// # Errors
    /// The difference, as text.
    pub fn transact(
        &mut self,
        view: &mut View,
        replica: &mut Replica,
        now: u64,
        ops: &[(Key, Kind)],
        call: Call,
    ) -> Result<bool, String> {
        let plan = self.plan_for(view, replica, now, ops)?;
        let before = replica.clock();
        replica.set_time(now);
        let result = match (ops, call) {
            (&[(key, Kind::Add(by))], Call::Single) => {
                // The call returns the handle, and not whether the counter existed.
                let answers = plan
                    .as_ref()
                    .map_or(Vec::new(), |plan| plan.answers.clone());
                replica.add(&self.keys[key], by).map(|_| answers)
            }
            (&[(key, kind)], Call::Single) => {
                replica.apply(&self.keys[key], kind).map(|bool| vec![bool])
            }
            (_, Call::Once(number)) => self.transact_once(replica, ops, number),
            _ => {
                let named = ops.iter().map(|(key, op)| (self.keys[*key].as_str(), *op));
                replica.transact(&named.collect::<Vec<_>>())
            }
        };
        let made = match (&plan, &result) {
            (Ok(plan), Ok(answers)) if plan.answers == *answers => {
                !plan.issued.is_empty() || matches!(call, Call::Once(_))
            }
            (Err(refusal), Err(error)) if Error::from(*refusal) == *error => false,
            _ => return Err(format!("{ops:?} gave {result:?}, expected {plan:?}")),
        };
        let clock = replica.clock();
        if clock != before + u64::from(made) {
            let plan = format!("{ops:?}, which issues {plan:?}");
            return Err(format!("the clock went from {before} to {clock} by {plan}"));
        }
        if let (true, Call::Once(number)) = (made, call) {
            self.key((replica.writer(), clock), number);
        }
        if let (true, Ok(plan)) = (made, &plan) {
            self.issue(view, (replica.writer(), clock), &plan.issued)?;
        }
        let touched = ops.iter().map(|(key, _)| *key).collect();
        self.check_touched(view, replica, now, &touched)
            .map_err(|error| format!("after {ops:?}: {error}"))?;
        Ok(made)
    }

    fn transact_once(
        &self,
        replica: &mut Replica,
        ops: &[(Key, Kind)],
        number: OnceId,
    ) -> Result<Vec<bool>, Error> {
        let mut transaction = replica.begin()?;
        let ops = ops.iter();
        let answers = ops.map(|(key, op)| transaction.apply(&self.keys[*key], *op));
        let answers: Vec<bool> = answers.collect::<Result<_, _>>()?;
        transaction.commit_once(once(number), &mut Vec::new())?;
        Ok(answers)
    }

    /// Requests that a real replica materialise a counter's expiry, as [`transact`](Oracle::transact)
    /// requests operations.
    ///
    /// # Errors
    /// The difference, as text.
    pub fn materialize(
        &mut self,
        view: &mut View,
        replica: &mut Replica,
        now: u64,
        key: Key,
    ) -> Result<bool, String> {
        let ended = self.end_expired(view, replica, now, key)?;
        Ok(ended.is_some())
    }

    /// The same. Returns the operation that ended the counter.
    ///
    /// # Errors
    /// The difference, as text.
    pub fn end_expired(
        &mut self,
        view: &mut View,
        replica: &mut Replica,
        now: u64,
        key: Key,
    ) -> Result<Option<Issue>, String> {
        let counter = view.counters.get(&key);
        let due = counter.is_some_and(|counter| counter.is_expired(now));
        let before = replica.clock();
        let floor = self.floor_of(view, replica, key)?;
        let issue = match (floor, counter.and_then(|counter| counter.expiry)) {
            (Some(floor), Some(until)) => Issue::end(until.max(floor + 1)),
            _ => Issue::from(Kind::Delete),
        };
        replica.set_time(now);
        let done = match replica.key_id(&self.keys[key]) {
            Some(handle) => replica.materialize_expiry(handle),
            None => Ok(false),
        };
        if done != Ok(due) || replica.clock() != before + u64::from(due) {
            return Err(format!("materialising key {key} gave {done:?}, due {due}"));
        }
        if due {
            let stamp = (replica.writer(), replica.clock());
            self.issue(view, stamp, &[(key, issue)])?;
        }
        self.check_touched(view, replica, now, &BTreeSet::from([key]))
            .map_err(|error| format!("after materialising key {key}: {error}"))?;
        Ok(due.then_some(issue))
    }
}

/// The counter after a reset or a set.
fn base(value: i64) -> Counter {
    Counter {
        value: i128::from(value),
        expiry: None,
    }
}

//! The oracle: every operation ever made, and for each replica the operations that it has seen.
//!
//! The implementation stores shards only. The oracle stores operations, and computes what every read must
//! return. A replica's version vector claims which operations it sees, and the oracle checks this claim.
//!
//! # The meaning of a counter
//! These rules apply to a view of some operations on the counter. [`Oracle::counter`] is the same in code.
//! - A *cancel* (reset, delete, set) cancels exactly the operations that its issuer had seen, of every kind.
//!   It keeps doing so when it is cancelled itself.
//! - The counter exists if an add, a reset or a set is not cancelled. Else it is absent, not 0.
//! - Its value is the sum of the adds that are not cancelled, and one assignment. The assignment is one of
//!   the resets (0) and sets that are not cancelled. A set wins over a reset, then the greater clock wins,
//!   then the greater writer id.
//! - An expire or a persist *replaces* the expires and persists that its issuer had seen. An add to an absent
//!   counter replaces them too, and begins a new lifetime. Among those neither cancelled nor replaced, a
//!   persist wins, else the longest expiry.
//! - A counter reads as absent where the wall clock has reached its expiry.
//! - In a space with members, the end of an expired counter is an operation of its own. The module `ended` says
//!   which ends are *in force*: these cancel as a cancel does.
//! - A *withdrawal* cancels exactly the adds that one transaction made on the counter. The transaction was
//!   made under an idempotency key, and another one under the same key counts.
//!
//! A view that contains an operation contains everything that its issuer had seen. It contains a transaction
//! as a whole. So views are causal cuts. [`Oracle::plan`] returns the operations that a call issues.

mod again;
mod ended;
mod once;
mod plan;
mod seen;
mod taken;
#[cfg(test)]
mod tests;

pub use again::{Dot, Marks};
pub use ended::Issue;
pub use once::{OnceId, once};
pub use plan::{Call, Plan, Refusal};
pub use seen::{OpId, Seen};
pub use taken::Takeovers;
pub use tallymesh_core::Op as Kind;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tallymesh_core::{KeyId, Replica, WriterId};

/// The number of a key.
pub type Key = usize;

/// Least number of untouched counters whose values are compared at each step.
const OTHERS: usize = 48;

/// One operation as it was issued.
#[derive(Clone, Debug)]
struct Issued {
    key: Key,
    kind: Kind,
    writer: WriterId,
    clock: u64,
    /// The operations that the issuer had seen, including earlier ones of the same transaction.
    saw: Seen,
    /// Whether it is an add to a counter that was absent at the issuer.
    begins_life: bool,
    /// For a withdrawal, the operations that it withdraws. It cancels nothing else.
    withdraws: Option<Seen>,
    /// The time of the end of an expired counter, in a space with members.
    ends: Option<u64>,
    /// The greatest time of an end in force that the issuer of a refresh saw, 0 for none.
    floor: u64,
    /// The ends that it spares.
    void: Seen,
}

impl Issued {
    /// Whether it cancels the operations on the key that its issuer had seen.
    fn cancels(&self) -> bool {
        self.ends.is_none() && matches!(self.kind, Kind::Reset | Kind::Delete | Kind::Set(_))
    }

    /// The operations that it cancels, if it cancels any.
    fn cancelled(&self) -> &Seen {
        self.withdraws.as_ref().unwrap_or(&self.saw)
    }

    /// Whether it replaces the expires and persists that its issuer had seen of the key.
    fn replaces_expiry(&self) -> bool {
        self.begins_life || matches!(self.kind, Kind::Expire(_) | Kind::Persist)
    }
}

/// A counter that exists, at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its value.
    pub value: i128,
    /// When it expires, in milliseconds since 1970.
    pub expiry: Option<u64>,
}

impl Counter {
    /// Whether it has expired by a wall clock.
    pub fn is_expired(&self, now: u64) -> bool {
        self.expiry.is_some_and(|at| at <= now)
    }
}

/// A replica's view, by the oracle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    vector: BTreeMap<WriterId, u64>,
    seen: Seen,
    counters: BTreeMap<Key, Counter>,
}

impl View {
    /// The clock up to which it sees each writer. The vector determines the whole view.
    pub fn vector(&self) -> &BTreeMap<WriterId, u64> {
        &self.vector
    }

    /// The operations in the view.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The counters that exist, including those that have expired by some clock.
    pub fn counters(&self) -> &BTreeMap<Key, Counter> {
        &self.counters
    }

    /// The result of a read of the counter where the wall clock shows `now`.
    pub fn read(&self, key: Key, now: u64) -> Option<Counter> {
        let counter = self.counters.get(&key).copied();
        counter.filter(|counter| !counter.is_expired(now))
    }
}

/// All operations of a space.
#[derive(Debug)]
pub struct Oracle {
    keys: Vec<String>,
    numbers: BTreeMap<String, Key>,
    ops: Vec<Issued>,
    /// The operations of each transaction.
    stamps: BTreeMap<(WriterId, u64), Range<OpId>>,
    by_key: Vec<Vec<OpId>>,
    /// Operations that a crash removed. No replica may ever see them.
    lost: BTreeSet<OpId>,
    /// The transactions that were made under idempotency keys.
    keyed: BTreeMap<Dot, OnceId>,
}

impl Oracle {
    /// An oracle over these keys.
    pub fn new(keys: Vec<String>) -> Oracle {
        Oracle {
            by_key: vec![Vec::new(); keys.len()],
            numbers: keys.iter().cloned().zip(0..).collect(),
            keys,
            ops: Vec::new(),
            stamps: BTreeMap::new(),
            lost: BTreeSet::new(),
            keyed: BTreeMap::new(),
        }
    }

    /// The keys.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The number of a key.
    pub fn number(&self, name: &str) -> Option<Key> {
        self.numbers.get(name).copied()
    }

    /// Number of operations.
    pub fn op_count(&self) -> usize {
        self.ops.len()
    }

    /// Number of operations that a crash removed.
    pub fn lost_count(&self) -> usize {
        self.lost.len()
    }

    /// Adds a transaction that was made at the replica of `view`. Each of its operations saw the earlier
    /// ones.
    ///
    /// # Errors
    /// If the stamp was used before, or the transaction is empty.
    pub fn issue(
        &mut self,
        view: &mut View,
        (writer, clock): (WriterId, u64),
        ops: &[(Key, Issue)],
    ) -> Result<(), String> {
        let last = view.vector.get(&writer).copied().unwrap_or(0);
        if self.stamps.contains_key(&(writer, clock)) || clock != last + 1 {
            return Err(format!("writer {writer} made clock {clock} after {last}"));
        }
        if ops.is_empty() && !self.keyed.contains_key(&(writer, clock)) {
            return Err(format!("writer {writer} made clock {clock} of nothing"));
        }
        let first = self.ops.len();
        view.vector.insert(writer, clock);
        for &(key, issue) in ops {
            self.push(view, (writer, clock), (key, issue), None);
        }
        self.stamps.insert((writer, clock), first..self.ops.len());
        Ok(())
    }

    /// Adds transactions of a writer, up to this clock, that change no counter.
    pub fn note(&mut self, view: &mut View, (writer, clock): (WriterId, u64)) {
        let last = view.vector.get(&writer).copied().unwrap_or(0);
        for clock in last + 1..=clock {
            let none = self.ops.len()..self.ops.len();
            self.stamps.insert((writer, clock), none);
            view.vector.insert(writer, clock);
        }
    }

    /// Notes that the replica of `view` is gone, and only `kept` is left of it. The replica must have been
    /// the only one that saw the rest.
    pub fn lose(&mut self, writer: WriterId, view: &View, kept: &View) {
        let kept_clock = kept.vector.get(&writer).copied().unwrap_or(0);
        let clock = view.vector.get(&writer).copied().unwrap_or(0);
        let range = (writer, kept_clock + 1)..=(writer, clock.max(kept_clock));
        if clock > kept_clock {
            let ops = self.stamps.range(range).flat_map(|(_, ops)| ops.clone());
            self.lost.extend(ops);
        }
    }

    /// Extends a view to the version vector that its replica claims, as [`writers`](Replica::writers) returns
    /// it. Returns the counters that this touches.
    ///
    /// # Errors
    /// If the claim is wrong. It went back, it names operations that were never made or were lost, or it is
    /// not a causal cut.
    pub fn learn(
        &self,
        view: &mut View,
        claimed: impl Iterator<Item = (WriterId, u64)>,
    ) -> Result<BTreeSet<Key>, String> {
        let mut fresh: Vec<OpId> = Vec::new();
        let mut lost: BTreeSet<WriterId> = view.vector.keys().copied().collect();
        for (writer, clock) in claimed {
            lost.remove(&writer);
            let held = view.vector.get(&writer).copied().unwrap_or(0);
            if clock < held {
                return Err(format!("clock of {writer} went from {held} to {clock}"));
            }
            if clock > held {
                let mut made = 0;
                for (_, ops) in self.stamps.range((writer, held + 1)..=(writer, clock)) {
                    fresh.extend(ops.clone());
                    made += 1;
                }
                if made != clock - held {
                    return Err(format!("{writer} never made all clocks up to {clock}"));
                }
                view.vector.insert(writer, clock);
            }
        }
        if let Some(lost) = lost.first() {
            return Err(format!("the version vector lost writer {lost}"));
        }
        for &op in &fresh {
            view.seen.insert(op);
        }
        for &op in &fresh {
            let Issued { writer, clock, .. } = self.ops[op];
            if self.lost.contains(&op) {
                return Err(format!("{writer}@{clock} was lost, and came back"));
            }
            if let Some(missing) = self.ops[op].saw.first_missing_in(&view.seen) {
                let cause = &self.ops[missing];
                let cause = format!("{}@{}", cause.writer, cause.clock);
                return Err(format!(
                    "not a causal cut: {writer}@{clock} is seen without {cause}"
                ));
            }
        }
        let touched: BTreeSet<Key> = fresh.iter().map(|op| self.ops[*op].key).collect();
        for key in &touched {
            self.recount(view, *key);
        }
        Ok(touched)
    }

    /// Compares every read of the replica, whose wall clock shows `now`, with the view.
    ///
    /// # Errors
    /// The first read that differs.
    pub fn check(&self, view: &View, replica: &Replica, now: u64) -> Result<(), String> {
        let mut exist: Vec<(KeyId, &str)> = Vec::new();
        for (key, name) in self.keys.iter().enumerate() {
            self.check_key(view, replica, now, key)?;
            if view.read(key, now).is_some() {
                exist.extend(replica.key_id(name).map(|handle| (handle, name.as_str())));
            }
        }
        let mut listed: Vec<(KeyId, &str)> = replica.counters().collect();
        listed.sort_unstable();
        exist.sort_unstable();
        if listed != exist {
            return Err(format!("the counters are {listed:?}, expected {exist:?}"));
        }
        if replica.len() != exist.len() || replica.is_empty() != exist.is_empty() {
            let (len, expected) = (replica.len(), exist.len());
            return Err(format!("{len} counters, expected {expected}"));
        }
        Ok(())
    }

    /// Compares every read of the touched counters, and the values of the others, or of some of them in turn
    /// if they are many.
    ///
    /// This is enough where nothing but the touched counters can have changed since the last
    /// [`check`](Oracle::check). It is much faster.
    ///
    /// # Errors
    /// The first read that differs.
    pub fn check_touched(
        &self,
        view: &View,
        replica: &Replica,
        now: u64,
        touched: &BTreeSet<Key>,
    ) -> Result<(), String> {
        let turns = self.keys.len() / OTHERS + 1;
        let turn = self.ops.len() + now as usize;
        for (key, name) in self.keys.iter().enumerate() {
            if touched.contains(&key) {
                self.check_key(view, replica, now, key)?;
                continue;
            }
            if !(key + turn).is_multiple_of(turns) {
                continue;
            }
            let (value, expected) = (replica.value(name), view.read(key, now));
            if value != expected.map(|counter| counter.value) {
                return Err(format!(
                    "key {key}, which nobody touched: read {value:?}, expected {expected:?}"
                ));
            }
        }
        Ok(())
    }

    /// Compares every read of one counter.
    fn check_key(&self, view: &View, replica: &Replica, now: u64, key: Key) -> Result<(), String> {
        let name = &self.keys[key];
        let expected = view.read(key, now);
        let handle = replica.key_id(name);
        let value = replica.value(name);
        let by_id = handle.and_then(|handle| replica.value_at(handle));
        let expiry = handle.and_then(|handle| replica.expiry_at(handle));
        let same = (expected.map(|c| c.value), expected.and_then(|c| c.expiry));
        if (value, expiry) != same || by_id != value {
            return Err(format!(
                "key {key} at {now}: read {value:?} (by its id {by_id:?}), expiry \
                 {expiry:?}, expected {expected:?} of {:?}",
                view.counters.get(&key)
            ));
        }
        if let (Some(handle), Some(value)) = (handle, value) {
            let sum: i128 = replica.shards(handle).map(|shard| shard.total).sum();
            if sum != value {
                return Err(format!(
                    "key {key}: {value}, and its shards add up to {sum}"
                ));
            }
        }
        Ok(())
    }

    fn recount(&self, view: &mut View, key: Key) {
        match self.counter(&view.seen, key) {
            Some(counter) => view.counters.insert(key, counter),
            None => view.counters.remove(&key),
        };
    }

    /// The counter in a view of these operations, by definition. `None` if it is absent.
    pub fn counter(&self, seen: &Seen, key: Key) -> Option<Counter> {
        let live = self.live(seen, key);
        let base = live.iter().filter_map(|(_, op)| match op.kind {
            Kind::Reset => Some((false, op.clock, op.writer, 0)),
            Kind::Set(value) => Some((true, op.clock, op.writer, value)),
            _ => None,
        });
        let base = base.max().map(|(.., value)| i128::from(value));
        let mut adds = live.iter().filter_map(|(_, op)| match op.kind {
            Kind::Add(by) => Some(i128::from(by)),
            _ => None,
        });
        let first = base.or_else(|| adds.next())?;
        Some(Counter {
            value: first + adds.sum::<i128>(),
            expiry: self.expiry(seen, key),
        })
    }

    /// The sum of the writer's own adds that are in the view and not cancelled. The end of an expired counter
    /// takes none of them away, because it may turn out to be void.
    pub fn own_sum(&self, seen: &Seen, key: Key, writer: WriterId) -> i128 {
        let cancelled = self.cancelled(seen, key);
        let live = self.visible(seen, key);
        let live = live.filter(|(id, _)| !cancelled.contains(*id));
        live.map(|(_, op)| match op.kind {
            Kind::Add(by) if op.writer == writer => i128::from(by),
            _ => 0,
        })
        .sum()
    }

    fn expiry(&self, seen: &Seen, key: Key) -> Option<u64> {
        let mut replaced = Seen::default();
        for (_, op) in self.visible(seen, key) {
            if op.replaces_expiry() {
                replaced.union(&op.saw);
            }
        }
        let mut longest = None;
        for (id, op) in self.live(seen, key) {
            match op.kind {
                _ if replaced.contains(id) => {}
                Kind::Persist => return None,
                Kind::Expire(at) => longest = longest.max(Some(at)),
                _ => {}
            }
        }
        longest
    }

    /// The operations on a key that are in the view and not cancelled.
    fn live(&self, seen: &Seen, key: Key) -> Vec<(OpId, &Issued)> {
        let mut cancelled = self.cancelled(seen, key);
        for (id, _) in self.judged(seen, key).into_iter().filter(|it| it.1) {
            cancelled.union(&self.ops[id].saw);
        }
        self.visible(seen, key)
            .filter(|(id, _)| !cancelled.contains(*id))
            .collect()
    }

    /// The operations on a key that a reset, a delete, a set or a withdrawal in the view cancels.
    fn cancelled(&self, seen: &Seen, key: Key) -> Seen {
        let mut cancelled = Seen::default();
        for (_, op) in self.visible(seen, key).filter(|(_, op)| op.cancels()) {
            cancelled.union(op.cancelled());
        }
        cancelled
    }

    fn visible(&self, seen: &Seen, key: Key) -> impl Iterator<Item = (OpId, &Issued)> {
        let ids = self.by_key[key].iter().copied();
        ids.filter(|id| seen.contains(*id))
            .map(|id| (id, &self.ops[id]))
    }
}

//! The oracle: every operation ever made, and which of them each replica has seen.
//!
//! The implementation keeps shards only; the oracle keeps operations, and says what every read
//! must answer. A replica's version vector tells which operations it claims to see; the oracle
//! holds it to that.
//!
//! - an add counts at a replica that sees it, unless a cancel which the replica sees had seen it;
//! - a cancel cancels exactly what its issuer had seen;
//! - a counter is absent, not 0, when nothing survives;
//! - whoever sees an operation sees everything that its issuer had seen: views are causal cuts.

use std::collections::{BTreeMap, BTreeSet};
use tallymesh_core::{Replica, VersionVector, WriterId};

/// The number of an operation, in the order of issue.
pub type OpId = usize;
/// The number of a key.
pub type Key = usize;

/// A set of operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen(Vec<u64>);

impl Seen {
    /// Adds an operation.
    pub fn insert(&mut self, op: OpId) {
        if op / 64 >= self.0.len() {
            self.0.resize(op / 64 + 1, 0);
        }
        self.0[op / 64] |= 1 << (op % 64);
    }

    /// Whether the operation is in the set.
    pub fn contains(&self, op: OpId) -> bool {
        self.0.get(op / 64).is_some_and(|w| w >> (op % 64) & 1 == 1)
    }

    /// Adds all of another set.
    pub fn union(&mut self, other: &Seen) {
        if other.0.len() > self.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    /// The first operation that is here and not in `other`.
    pub fn first_missing_in(&self, other: &Seen) -> Option<OpId> {
        self.0.iter().enumerate().find_map(|(at, word)| {
            let missing = word & !other.0.get(at).copied().unwrap_or(0);
            (missing != 0).then(|| at * 64 + missing.trailing_zeros() as usize)
        })
    }

    /// How many operations are in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Adds to the counter.
    Add {
        /// How much.
        by: i64,
    },
}

impl Kind {
    /// Whether it cancels what its issuer had seen of the key.
    fn cancels(self) -> bool {
        match self {
            Kind::Add { .. } => false,
        }
    }
}

/// One operation.
#[derive(Clone, Debug)]
struct Op {
    key: Key,
    kind: Kind,
    writer: WriterId,
    clock: u64,
    /// What the issuer had seen.
    saw: Seen,
}

/// What a replica sees, as the oracle has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    vector: BTreeMap<WriterId, u64>,
    seen: Seen,
    values: BTreeMap<Key, i128>,
}

impl View {
    /// Up to which clock it sees each writer, which tells all that it sees.
    pub fn vector(&self) -> &BTreeMap<WriterId, u64> {
        &self.vector
    }

    /// The operations that it sees.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The counters that exist, with their values.
    pub fn values(&self) -> &BTreeMap<Key, i128> {
        &self.values
    }
}

/// All operations of a space.
#[derive(Debug)]
pub struct Oracle {
    keys: Vec<String>,
    numbers: BTreeMap<String, Key>,
    ops: Vec<Op>,
    /// The operations of each transaction.
    stamps: BTreeMap<(WriterId, u64), Vec<OpId>>,
    by_key: Vec<Vec<OpId>>,
    /// What survives of each writer's own operations at the writer itself.
    own: BTreeMap<(WriterId, Key), i64>,
    /// Operations that a crash took back: nobody may ever see them.
    lost: BTreeSet<OpId>,
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
            own: BTreeMap::new(),
            lost: BTreeSet::new(),
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

    /// How many operations there were.
    pub fn op_count(&self) -> usize {
        self.ops.len()
    }

    /// How many of them a crash took back.
    pub fn lost_count(&self) -> usize {
        self.lost.len()
    }

    /// Whether this writer's part of the counter can take the add.
    pub fn fits(&self, writer: WriterId, key: Key, by: i64) -> bool {
        let own = self.own.get(&(writer, key)).copied().unwrap_or(0);
        own.checked_add(by).is_some()
    }

    /// Takes in an operation that was made at the replica of `view`.
    ///
    /// # Errors
    /// Says so if the stamp was used before.
    pub fn issue(
        &mut self,
        view: &mut View,
        (writer, clock): (WriterId, u64),
        key: Key,
        kind: Kind,
    ) -> Result<OpId, String> {
        let last = view.vector.get(&writer).copied().unwrap_or(0);
        if self.stamps.contains_key(&(writer, clock)) || clock != last + 1 {
            return Err(format!("writer {writer} made clock {clock} after {last}"));
        }
        let id = self.ops.len();
        let saw = view.seen.clone();
        self.ops.push(Op {
            key,
            kind,
            writer,
            clock,
            saw,
        });
        self.stamps.entry((writer, clock)).or_default().push(id);
        self.by_key[key].push(id);
        match kind {
            Kind::Add { by } => *self.own.entry((writer, key)).or_insert(0) += by,
        }
        view.vector.insert(writer, clock);
        view.seen.insert(id);
        self.revalue(view, key);
        Ok(id)
    }

    /// Notes that the replica of `view` is gone, and `kept` is what is left of it, if it was the
    /// only one to have seen the rest.
    pub fn lose(&mut self, writer: WriterId, view: &View, kept: &View) {
        let kept_clock = kept.vector.get(&writer).copied().unwrap_or(0);
        let clock = view.vector.get(&writer).copied().unwrap_or(0);
        let range = (writer, kept_clock + 1)..=(writer, clock.max(kept_clock));
        if clock > kept_clock {
            let ops = self.stamps.range(range).flat_map(|(_, ops)| ops);
            self.lost.extend(ops.copied());
        }
    }

    /// Brings a view to the version vector that its replica claims.
    ///
    /// # Errors
    /// Says what is wrong with the claim: it went back, names operations that were never made or
    /// were lost, or is no causal cut.
    pub fn learn(&self, view: &mut View, claimed: &VersionVector) -> Result<(), String> {
        let mut fresh: Vec<OpId> = Vec::new();
        if claimed.len() < view.vector.len() {
            return Err("the version vector lost a writer".into());
        }
        for (writer, clock) in claimed.iter() {
            let held = view.vector.get(&writer).copied().unwrap_or(0);
            if clock < held {
                return Err(format!("clock of {writer} went from {held} to {clock}"));
            }
            if clock > held {
                let range = (writer, held + 1)..=(writer, clock);
                let stamps = self.stamps.range(range);
                let before = fresh.len();
                fresh.extend(stamps.flat_map(|(_, ops)| ops));
                let known = self.stamps.contains_key(&(writer, clock));
                if !known || fresh.len() - before < (clock - held) as usize {
                    return Err(format!("{writer} never made all clocks up to {clock}"));
                }
                view.vector.insert(writer, clock);
            }
        }
        for &op in &fresh {
            view.seen.insert(op);
        }
        for &op in &fresh {
            if self.lost.contains(&op) {
                let Op { writer, clock, .. } = &self.ops[op];
                return Err(format!("{writer}@{clock} was lost, and came back"));
            }
            if let Some(missing) = self.ops[op].saw.first_missing_in(&view.seen) {
                let Op { writer, clock, .. } = &self.ops[op];
                let Op {
                    writer: other,
                    clock: cause,
                    ..
                } = &self.ops[missing];
                return Err(format!(
                    "not a causal cut: {writer}@{clock} is seen without {other}@{cause}"
                ));
            }
        }
        let touched: BTreeSet<Key> = fresh.iter().map(|op| self.ops[*op].key).collect();
        for key in touched {
            self.revalue(view, key);
        }
        Ok(())
    }

    /// Compares every read of the replica with the view.
    ///
    /// # Errors
    /// Names the first read that differs.
    pub fn check(&self, view: &View, replica: &Replica) -> Result<(), String> {
        for (key, name) in self.keys.iter().enumerate() {
            let (expected, read) = (view.values.get(&key).copied(), replica.value(name));
            if expected != read {
                return Err(format!("key {key}: read {read:?}, expected {expected:?}"));
            }
        }
        if replica.len() != view.values.len() {
            let (len, expected) = (replica.len(), view.values.len());
            return Err(format!("{len} counters, expected {expected}"));
        }
        Ok(())
    }

    /// Compares every shard of the replica with the operations of its owner that the view sees.
    ///
    /// # Errors
    /// Names the first shard that differs.
    pub fn check_shards(&self, view: &View, replica: &Replica) -> Result<(), String> {
        let mut expected: BTreeMap<(&str, WriterId), (u64, i64)> = BTreeMap::new();
        for (id, op) in self.ops.iter().enumerate() {
            if view.seen.contains(id) {
                let at = (self.keys[op.key].as_str(), op.writer);
                let shard = expected.entry(at).or_insert((0, 0));
                let Kind::Add { by } = op.kind;
                *shard = (op.clock, shard.1 + by);
            }
        }
        let mut held = BTreeMap::new();
        for (handle, key) in replica.counters() {
            for shard in replica.shards(handle) {
                held.insert((key, shard.writer), (shard.clock, shard.total));
            }
        }
        match held == expected {
            true => Ok(()),
            false => Err(format!("shards {held:?}, expected {expected:?}")),
        }
    }

    fn revalue(&self, view: &mut View, key: Key) {
        match self.value(&view.seen, key) {
            Some(value) => view.values.insert(key, value),
            None => view.values.remove(&key),
        };
    }

    /// The value of a counter for whoever sees these operations, by definition.
    fn value(&self, seen: &Seen, key: Key) -> Option<i128> {
        let visible = || {
            let ops = self.by_key[key].iter();
            ops.filter(|op| seen.contains(**op)).copied()
        };
        let mut dead = Seen::default();
        for op in visible().filter(|op| self.ops[*op].kind.cancels()) {
            dead.union(&self.ops[op].saw);
        }
        let mut value = None;
        for op in visible().filter(|op| !dead.contains(*op)) {
            let Kind::Add { by } = self.ops[op].kind;
            *value.get_or_insert(0) += i128::from(by);
        }
        value
    }
}

//! A replica's view by the oracle, and the state that its application has.

use super::World;
use crate::oracle::{Counter, Key, View};
use std::collections::{BTreeMap, BTreeSet};
use tallymesh_core::Output;

/// At every step of this number, all reads of a replica are compared. At the other steps it is the reads of
/// the touched counters, and all values.
const FULL_CHECK_EVERY: u64 = 16;

#[derive(Default)]
pub(super) struct Shown {
    /// The present view of the replica.
    pub(super) view: View,
    /// The view at its last write to the disk: this is acknowledged, and survives a crash.
    pub(super) flushed: View,
    /// The counters that the application shows. It reads them after its own writes, after
    /// [`Output::Changed`], and when its wall clock passes an expiry in either direction.
    counters: BTreeMap<Key, Counter>,
    /// The time of its wall clock at the last check, in milliseconds since 1970.
    pub(super) wall: u64,
    /// Counters that changed since the last comparison of the reads.
    touched: BTreeSet<Key>,
    /// Number of comparisons.
    checks: u64,
}

impl Shown {
    /// Whether its whole view would survive a crash.
    pub(super) fn is_flushed(&self) -> bool {
        self.flushed.vector() == self.view.vector()
    }

    /// The counters that a read finds.
    fn readable(&self) -> BTreeMap<Key, Counter> {
        let counters = self.view.counters().iter();
        let alive = counters.filter(|(_, counter)| !counter.is_expired(self.wall));
        alive.map(|(key, counter)| (*key, *counter)).collect()
    }

    pub(super) fn show(&mut self, key: Key, counter: Option<Counter>) {
        match counter {
            Some(counter) => self.counters.insert(key, counter),
            None => self.counters.remove(&key),
        };
    }
}

impl World {
    /// Sets a replica's time by its own wall clock.
    pub(super) fn look_at_clock(&mut self, at: usize) {
        self.set_time(at);
        let wall = self.wall(at);
        let it = &mut self.own.shown[at];
        let before = std::mem::replace(&mut it.wall, wall);
        for (key, counter) in it.view.counters() {
            match (counter.is_expired(before), counter.is_expired(wall)) {
                (false, true) => drop(it.counters.remove(key)),
                (true, false) => drop(it.counters.insert(*key, *counter)),
                _ => continue,
            }
            it.touched.insert(*key);
        }
    }

    /// Compares the reads of a replica that has handled an input.
    pub(super) fn compare(&mut self, at: usize) -> Result<(), String> {
        let (oracle, replica) = (&self.own.oracle, &self.nodes[at].replica);
        let it = &mut self.own.shown[at];
        let learned = oracle.learn(&mut it.view, replica.writers())?;
        it.touched.extend(learned);
        it.checks += 1;
        let touched = std::mem::take(&mut it.touched);
        match it.checks.is_multiple_of(FULL_CHECK_EVERY) {
            true => oracle.check(&it.view, replica, it.wall),
            false => oracle.check_touched(&it.view, replica, it.wall, &touched),
        }
    }

    /// Compares the reads of a process that has restored a record. Each prefix of a log is a state that the
    /// replica once had.
    pub(super) fn compare_restored(&mut self, at: usize) -> Result<(), String> {
        let (oracle, replica) = (&self.own.oracle, &self.nodes[at].replica);
        let it = &mut self.own.shown[at];
        oracle.learn(&mut it.view, replica.writers())?;
        oracle.check(&it.view, replica, it.wall)
    }

    /// A process has started, and sees the state of its disk.
    pub(super) fn begin_showing(&mut self, at: usize) -> Result<(), String> {
        let node = &self.nodes[at];
        let it = &mut self.own.shown[at];
        it.flushed = node.disk.seen();
        if it.view != it.flushed {
            return Err("the disk does not hold what was flushed".into());
        }
        it.counters = it.readable();
        Ok(())
    }

    /// The application receives the event that a counter changed.
    pub(super) fn tell_changed(&mut self, at: usize, output: &Output) -> Result<(), String> {
        if let Output::Changed { key_id } = output {
            let replica = &self.nodes[at].replica;
            let key = replica.key(*key_id).ok_or("a counter has no key")?;
            let key = self.own.oracle.number(key);
            let key = key.ok_or("a key that nobody wrote")?;
            let expiry = replica.expiry_at(*key_id);
            let counter = replica.value_at(*key_id);
            let counter = counter.map(|value| Counter { value, expiry });
            self.own.shown[at].show(key, counter);
        }
        Ok(())
    }

    /// Checks that the application shows the results of reads.
    pub(super) fn compare_shown(&self, at: usize) -> Result<(), String> {
        let it = &self.own.shown[at];
        match it.counters == it.readable() {
            true => Ok(()),
            false => Err("a counter changed and the application was not told".into()),
        }
    }
}

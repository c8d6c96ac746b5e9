//! A replica with its sync machine, its disk if it has one, and what its application was told.

use crate::oracle::{Call, Counter, Key, Kind, Oracle, View};
use std::collections::{BTreeMap, BTreeSet};
use tallymesh_core::{
    Input, Mark, Message, Millis, Output, Replica, Space, Sync, SyncConfig, WriterId,
};

/// The true time at virtual time 0, in milliseconds since 1970.
const TRUE_TIME: u64 = 1_800_000_000_000;

/// Every so many steps of a replica all its reads are compared, and not only those of the counters
/// that were touched, and every value.
const FULL_CHECK_EVERY: u64 = 16;

/// One incarnation of a replica, and the disk that outlives it.
pub(super) struct Node {
    /// Whether it has a disk.
    pub(super) durable: bool,
    pub(super) alive: bool,
    /// The number of the incarnation: events of an earlier one mean nothing.
    pub(super) epoch: u32,
    pub(super) replica: Replica,
    pub(super) sync: Sync,
    /// What it sees, as the oracle has it.
    pub(super) view: View,
    /// What it saw when it was flushed last: what a crash leaves, and what was acknowledged.
    pub(super) flushed: View,
    mark: Mark,
    disk: Vec<Vec<u8>>,
    /// What it saw when each record of the disk was written.
    records: Vec<View>,
    /// A copy of the disk that was made some time.
    backup: Disk,
    /// What the application shows: what it read after its own writes, after
    /// [`Output::Changed`], and when its wall clock passed an expiry, in whichever direction.
    shown: BTreeMap<Key, Counter>,
    /// How far its wall clock is from the true time, in milliseconds.
    pub(super) skew: i64,
    /// What its wall clock showed when it was looked at last.
    pub(super) wall: u64,
    /// Counters that changed since the reads were compared last.
    touched: BTreeSet<Key>,
    /// How often the reads were compared.
    checks: u64,
    pub(super) flush_pending: bool,
    /// The earliest tick that is scheduled.
    pub(super) tick_at: Option<Millis>,
}

/// The records of a disk, and what was seen when each was written.
pub(super) type Disk = (Vec<Vec<u8>>, Vec<View>);

fn fresh(writer: WriterId) -> Replica {
    Replica::new(Space::default(), writer)
}

impl Node {
    pub(super) fn new(durable: bool, skew: i64) -> Node {
        Node {
            durable,
            alive: false,
            epoch: 0,
            replica: fresh(WriterId::from_bytes([0; 16])),
            sync: Sync::new(SyncConfig::default(), 0),
            view: View::default(),
            flushed: View::default(),
            mark: Mark::default(),
            disk: Vec::new(),
            records: Vec::new(),
            backup: Disk::default(),
            shown: BTreeMap::new(),
            skew,
            wall: 0,
            touched: BTreeSet::new(),
            checks: 0,
            flush_pending: false,
            tick_at: None,
        }
    }

    /// Starts the next incarnation from what is on the disk.
    pub(super) fn start(
        &mut self,
        oracle: &Oracle,
        now: Millis,
        nonce: &[u8; 16],
        sync: Sync,
    ) -> Result<(), String> {
        let writer = WriterId::mint(&Space::default(), &[1; 32], nonce);
        self.replica = fresh(writer);
        self.sync = sync;
        self.alive = true;
        self.epoch += 1;
        self.flush_pending = false;
        self.tick_at = None;
        self.view = View::default();
        self.look_at_clock(now);
        if !self.durable {
            self.flushed = View::default();
        }
        // What was being written when the power failed is not whole.
        if self.disk.len() > self.records.len()
            && let Some(torn) = self.disk.pop()
            && Message::decode_stored(&torn).is_ok()
        {
            return Err("half a record was taken for a whole one".into());
        }
        for record in &self.disk {
            let message = Message::decode_stored(record).map_err(|e| e.to_string())?;
            self.replica.merge(&message).map_err(|e| e.to_string())?;
            // Each prefix of the log is a state that was whole once.
            oracle.learn(&mut self.view, self.replica.writers())?;
            oracle.check(&self.view, &self.replica, self.wall)?;
        }
        if self.view != self.flushed {
            return Err("the disk does not hold what was flushed".into());
        }
        self.mark = Mark::default();
        self.replica.since(&mut self.mark);
        self.shown = self.readable();
        Ok(())
    }

    /// Sets the replica's time by the node's own wall clock.
    pub(super) fn look_at_clock(&mut self, now: Millis) {
        let before = self.wall;
        self.wall = (TRUE_TIME + now).saturating_add_signed(self.skew);
        self.replica.set_time(self.wall);
        for (key, counter) in self.view.counters() {
            match (counter.is_expired(before), counter.is_expired(self.wall)) {
                (false, true) => drop(self.shown.remove(key)),
                (true, false) => drop(self.shown.insert(*key, *counter)),
                _ => continue,
            }
            self.touched.insert(*key);
        }
    }

    /// The counters that a read finds.
    fn readable(&self) -> BTreeMap<Key, Counter> {
        let counters = self.view.counters().iter();
        let alive = counters.filter(|(_, counter)| !counter.is_expired(self.wall));
        alive.map(|(key, counter)| (*key, *counter)).collect()
    }

    fn show(&mut self, key: Key, counter: Option<Counter>) {
        match counter {
            Some(counter) => self.shown.insert(key, counter),
            None => self.shown.remove(&key),
        };
    }

    /// Stops without a word; what was not flushed is lost.
    pub(super) fn crash(&mut self, oracle: &mut Oracle) {
        self.alive = false;
        oracle.lose(self.replica.writer(), &self.view, &self.flushed);
    }

    /// The disk as it is.
    pub(super) fn disk(&self) -> Disk {
        (self.disk.clone(), self.records.clone())
    }

    /// Copies the disk away.
    pub(super) fn back_up(&mut self) {
        self.backup = self.disk();
    }

    /// The copy that was made last; nothing if none was.
    pub(super) fn backup(&self) -> Disk {
        self.backup.clone()
    }

    /// Puts other records on the disk of a replica that does not run.
    pub(super) fn replace_disk(&mut self, (disk, records): Disk) {
        self.flushed = records.last().cloned().unwrap_or_default();
        (self.disk, self.records) = (disk, records);
    }

    /// Loses the last records of the disk, as a flush does that was acknowledged and not done; of
    /// the first of them a part may be left.
    pub(super) fn tear(&mut self, records: usize, part: usize) {
        let keep = self.disk.len() - records.min(self.disk.len());
        let torn = self
            .disk
            .get(keep)
            .map(|torn| torn[..part.min(torn.len() - 1)].to_vec());
        let (mut disk, mut views) = self.disk();
        disk.truncate(keep);
        views.truncate(keep);
        self.replace_disk((disk, views));
        self.disk.extend(torn);
    }

    /// Asks for a transaction, and tells whether one was made.
    pub(super) fn transact(
        &mut self,
        oracle: &mut Oracle,
        ops: &[(Key, Kind)],
        call: Call,
    ) -> Result<bool, String> {
        let made = oracle.transact(&mut self.view, &mut self.replica, self.wall, ops, call)?;
        for (key, _) in ops {
            self.show(*key, self.view.read(*key, self.wall));
        }
        Ok(made)
    }

    /// Materialises the expiries that have passed by its clock, and tells how many.
    pub(super) fn materialize(&mut self, oracle: &mut Oracle) -> Result<u64, String> {
        let expire = self.view.counters().iter();
        let expire = expire.filter(|(_, counter)| counter.expiry.is_some());
        let keys: Vec<Key> = expire.map(|(key, _)| *key).collect();
        let mut done = 0;
        for key in keys {
            let due = oracle.materialize(&mut self.view, &mut self.replica, self.wall, key)?;
            done += u64::from(due);
        }
        Ok(done)
    }

    pub(super) fn handle(
        &mut self,
        oracle: &Oracle,
        now: Millis,
        input: Input<'_>,
    ) -> Result<(), String> {
        self.look_at_clock(now);
        self.sync.handle(now, &mut self.replica, input);
        let learned = oracle.learn(&mut self.view, self.replica.writers())?;
        self.touched.extend(learned);
        self.checks += 1;
        if self.checks.is_multiple_of(FULL_CHECK_EVERY) {
            self.touched.clear();
            return oracle.check(&self.view, &self.replica, self.wall);
        }
        let touched = std::mem::take(&mut self.touched);
        oracle.check_touched(&self.view, &self.replica, self.wall, &touched)
    }

    /// Makes durable what changed; only then the outputs are taken.
    pub(super) fn flush(&mut self, oracle: &Oracle) -> Result<Vec<Output>, String> {
        self.flush_pending = false;
        if self.durable
            && let Some(message) = self.replica.since(&mut self.mark)
        {
            self.disk.push(message.encode());
            self.records.push(self.view.clone());
        }
        if !self.is_flushed() {
            self.flushed = self.view.clone();
        }
        let outputs: Vec<Output> = std::iter::from_fn(|| self.sync.poll()).collect();
        for output in &outputs {
            if let Output::Changed { handle } = output {
                let key = self.replica.key(*handle).ok_or("a counter has no key")?;
                let key = oracle.number(key).ok_or("a key that nobody wrote")?;
                let value = self.replica.value_at(*handle);
                let expiry = self.replica.expiry_at(*handle);
                self.show(key, value.map(|value| Counter { value, expiry }));
            }
        }
        if self.shown != self.readable() {
            return Err("a counter changed and the application was not told".into());
        }
        Ok(outputs)
    }

    /// Whether all that it sees would outlive a crash.
    pub(super) fn is_flushed(&self) -> bool {
        self.flushed.vector() == self.view.vector()
    }

    /// Rewrites the disk as one record, as a store does to its log now and then.
    pub(super) fn compact(&mut self) {
        if self.durable && self.is_flushed() && !self.disk.is_empty() {
            self.disk = vec![self.replica.canonical_bytes()];
            self.records = vec![self.view.clone()];
        }
    }
}

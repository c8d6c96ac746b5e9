//! A replica with its sync machine, its disk if it has one, and what its application was told.

use crate::oracle::{Key, Kind, Oracle, View};
use std::collections::BTreeMap;
use tallymesh_core::{
    Input, Mark, Message, Millis, Output, Replica, Space, Sync, SyncConfig, WriterId,
};

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
    /// What the application shows, from its own writes and from [`Output::Changed`].
    shown: BTreeMap<Key, i128>,
    pub(super) flush_pending: bool,
    /// The earliest tick that is scheduled.
    pub(super) tick_at: Option<Millis>,
}

fn fresh(writer: WriterId) -> Replica {
    Replica::new(Space::default(), writer)
}

impl Node {
    pub(super) fn new(durable: bool) -> Node {
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
            shown: BTreeMap::new(),
            flush_pending: false,
            tick_at: None,
        }
    }

    /// Starts the next incarnation from what is on the disk.
    pub(super) fn start(
        &mut self,
        oracle: &Oracle,
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
        if !self.durable {
            self.flushed = View::default();
        }
        for record in &self.disk {
            let message = Message::decode_stored(record).map_err(|e| e.to_string())?;
            self.replica.merge(&message).map_err(|e| e.to_string())?;
            // Each prefix of the log is a state that was whole once.
            oracle.learn(&mut self.view, &self.replica.vector())?;
            oracle.check(&self.view, &self.replica)?;
        }
        if self.view != self.flushed {
            return Err("the disk does not hold what was flushed".into());
        }
        self.mark = Mark::default();
        self.replica.since(&mut self.mark);
        self.shown = self.view.values().clone();
        Ok(())
    }

    /// Stops without a word; what was not flushed is lost.
    pub(super) fn crash(&mut self, oracle: &mut Oracle) {
        self.alive = false;
        oracle.lose(self.replica.writer(), &self.view, &self.flushed);
    }

    pub(super) fn add(&mut self, oracle: &mut Oracle, key: Key, by: i64) -> Result<bool, String> {
        let writer = self.replica.writer();
        let fits = oracle.fits(writer, key, by);
        let before = self.replica.clock();
        let result = self.replica.add(&oracle.keys()[key], by);
        if result.is_ok() != fits {
            return Err(format!("add of {by} gave {result:?}"));
        }
        if fits {
            let stamp = (writer, self.replica.clock());
            oracle.issue(&mut self.view, stamp, key, Kind::Add { by })?;
            self.shown.insert(key, self.view.values()[&key]);
        } else if self.replica.clock() != before {
            return Err("a refused add moved the clock".into());
        }
        oracle.check(&self.view, &self.replica)?;
        Ok(fits)
    }

    pub(super) fn handle(
        &mut self,
        oracle: &Oracle,
        now: Millis,
        input: Input<'_>,
    ) -> Result<(), String> {
        self.sync.handle(now, &mut self.replica, input);
        oracle.learn(&mut self.view, &self.replica.vector())?;
        oracle.check(&self.view, &self.replica)
    }

    /// Makes durable what changed; only then the outputs are taken.
    pub(super) fn flush(&mut self, oracle: &Oracle) -> Result<Vec<Output>, String> {
        self.flush_pending = false;
        if self.durable
            && let Some(message) = self.replica.since(&mut self.mark)
        {
            self.disk.push(message.encode());
        }
        if !self.is_flushed() {
            self.flushed = self.view.clone();
        }
        let outputs: Vec<Output> = std::iter::from_fn(|| self.sync.poll()).collect();
        for output in &outputs {
            if let Output::Changed { handle } = output {
                let key = self.replica.key(*handle).ok_or("a counter has no key")?;
                let key = oracle.number(key).ok_or("a key that nobody wrote")?;
                let value = self.replica.value_at(*handle).ok_or("an absent counter")?;
                self.shown.insert(key, value);
            }
        }
        if self.shown != *self.view.values() {
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
        }
    }
}

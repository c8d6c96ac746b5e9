//! One open space: its replica, its sync machine, and how far the store has followed.

use super::{Counter, Page, Query, SpaceStatus};
use crate::handle::{Changes, Refusal, Sum};
use crate::store::{Record, Store, StoreError};
use std::collections::BinaryHeap;
use tallymesh_core::{
    Error, Handle as Counted, Input, Link, LinkStatus, Mark, Message, Output, Replica, Shard,
    Space, Sync, SyncConfig, VersionVector, WriterId,
};
use tokio::sync::broadcast;

/// Batches of changes that a slow reader of events may be behind before it is told to catch up.
const CHANGES_BATCHES_MAX: usize = 256;

/// The log of a space is replaced by one snapshot when it is this many times the size of the last
/// snapshot. Lower costs more writing, higher more disk and a slower start.
const LOG_TO_SNAPSHOT_MAX: usize = 4;

/// No log below this size is worth replacing.
const LOG_BYTES_MIN: usize = 1 << 20;

/// A space that this node has open.
pub(super) struct OpenSpace {
    pub(super) replica: Replica,
    /// Readers of events.
    pub(super) watchers: broadcast::Sender<Changes>,
    sync: Sync,
    /// What the store has.
    stored: Mark,
    /// Bytes of the last snapshot, and of the records after it.
    snapshot_bytes: usize,
    log_bytes: usize,
    /// Counters that changed since readers were last told.
    changed: Vec<Counted>,
    /// Local transactions were made since the sync machine was last told.
    wrote: bool,
    /// Faults that were logged.
    faults_logged: u64,
}

impl OpenSpace {
    /// Replays what the store keeps of `space` under a fresh writer id: no start can repeat a
    /// clock, whatever happened to the files.
    pub(super) fn load(
        space: Space,
        owner: &[u8; 32],
        store: &mut dyn Store,
    ) -> Result<OpenSpace, StoreError> {
        let writer = WriterId::mint(&space, owner, &random()?);
        let mut replica = Replica::new(space.clone(), writer);
        let (mut snapshot_bytes, mut log_bytes) = (0, 0);
        store.load(&space, &mut |bytes| {
            let damaged = |error: Error| StoreError::Record {
                space: space.clone(),
                problem: error.to_string(),
            };
            let message = Message::decode_stored(bytes).map_err(damaged)?;
            replica.merge(&message).map_err(damaged)?;
            if snapshot_bytes == 0 {
                snapshot_bytes = bytes.len();
            } else {
                log_bytes += bytes.len();
            }
            Ok(())
        })?;
        let config = SyncConfig {
            agent: concat!("tallymesh-node/", env!("CARGO_PKG_VERSION")),
            ..SyncConfig::default()
        };
        let mut stored = Mark::default();
        // All that was replayed is stored already: this moves the mark past it.
        let _ = replica.since(&mut stored);
        Ok(OpenSpace {
            replica,
            watchers: broadcast::Sender::new(CHANGES_BATCHES_MAX),
            sync: Sync::new(config, u64::from_le_bytes(random()?)),
            stored,
            snapshot_bytes,
            log_bytes,
            changed: Vec::new(),
            wrote: false,
            faults_logged: 0,
        })
    }

    pub(super) fn name(&self) -> &Space {
        self.replica.space()
    }

    pub(super) fn add(&mut self, key: String, by: i64) -> Result<Counter, Refusal> {
        let counter = self.replica.add(&key, by)?;
        self.wrote = true;
        self.changed.push(counter);
        let value = self.replica.value_at(counter).unwrap_or_default();
        Ok(Counter { key, value })
    }

    /// Checks everything first, so that a refusal changes nothing.
    pub(super) fn add_many(&mut self, sums: &[Sum]) -> Result<(), Refusal> {
        let mut pinned = Vec::with_capacity(sums.len());
        let checked = sums.iter().try_for_each(|sum| {
            let at_line = |error| Refusal::Line {
                line: sum.line,
                key: sum.key.clone(),
                error,
            };
            let counter = self.replica.intern(&sum.key).map_err(at_line)?;
            pinned.push(counter);
            let total = self.own_total(counter);
            match total.checked_add(sum.by) {
                Some(_) => Ok(()),
                None => Err(at_line(Error::Overflow { total, by: sum.by })),
            }
        });
        let done = checked.and_then(|()| {
            for (counter, sum) in pinned.iter().zip(sums) {
                self.replica.add_at(*counter, sum.by)?;
                self.changed.push(*counter);
                self.wrote = true;
            }
            Ok(())
        });
        for counter in pinned {
            // It was pinned above, so it is known.
            let _ = self.replica.release(counter);
        }
        done
    }

    fn own_total(&self, counter: Counted) -> i64 {
        let own = self.replica.writer();
        let mut shards = self.replica.shards(counter);
        shards
            .find(|shard| shard.writer == own)
            .map_or(0, |shard| shard.total)
    }

    pub(super) fn shards(&self, key: &str) -> Option<Vec<Shard>> {
        let counter = self.replica.handle(key)?;
        self.replica.value_at(counter)?;
        let mut shards: Vec<Shard> = self.replica.shards(counter).collect();
        shards.sort_by_key(|shard| shard.writer);
        Some(shards)
    }

    /// Looks at each counter and keeps the first `limit`, in memory for `limit` keys.
    pub(super) fn list(&self, query: &Query) -> Page {
        let mut first: BinaryHeap<(&str, u32)> = BinaryHeap::with_capacity(query.limit + 1);
        let wanted = |key: &str| {
            let after = query.after.as_deref();
            key.starts_with(&query.prefix) && after.is_none_or(|after| key > after)
        };
        let mut more = false;
        for (counter, key) in self.replica.counters() {
            if wanted(key) {
                first.push((key, counter.as_u32()));
                if first.len() > query.limit {
                    first.pop();
                    more = true;
                }
            }
        }
        let counters: Vec<Counter> = first
            .into_sorted_vec()
            .into_iter()
            .map(|(key, counter)| self.counter(key, Counted::from_u32(counter)))
            .collect();
        let last = counters.last().filter(|_| more);
        Page {
            next: last.map(|counter| counter.key.clone()),
            counters,
        }
    }

    fn counter(&self, key: &str, counter: Counted) -> Counter {
        Counter {
            key: key.to_owned(),
            value: self.replica.value_at(counter).unwrap_or_default(),
        }
    }

    pub(super) fn connected(&mut self, now: u64, link: Link, broadcast: bool) {
        self.handle(now, Input::Connected { link, broadcast });
    }

    pub(super) fn disconnected(&mut self, now: u64, link: Link) {
        self.handle(now, Input::Disconnected { link });
    }

    pub(super) fn frame(&mut self, now: u64, link: Link, bytes: &[u8]) {
        self.handle(now, Input::Frame { link, bytes });
    }

    pub(super) fn broadcast(&mut self, now: u64, from: Option<Link>, bytes: &[u8]) {
        self.handle(now, Input::Broadcast { from, bytes });
    }

    /// Tells the sync machine of local writes, and of the time when it is due.
    pub(super) fn tick(&mut self, now: u64) {
        if std::mem::take(&mut self.wrote) {
            self.handle(now, Input::Changed);
        }
        if self.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.handle(now, Input::Tick);
        }
    }

    fn handle(&mut self, now: u64, input: Input<'_>) {
        self.sync.handle(now, &mut self.replica, input);
    }

    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.sync.next_deadline()
    }

    pub(super) fn poll(&mut self) -> Option<Output> {
        self.sync.poll()
    }

    pub(super) fn links(&self) -> impl Iterator<Item = LinkStatus> {
        self.sync.links()
    }

    /// What the store lacks: the changes, or the whole state when the log has grown long.
    pub(super) fn record(&mut self) -> Option<Record> {
        let changes = self.replica.since(&mut self.stored)?;
        let mut bytes = changes.encode();
        let log_bytes = self.log_bytes + bytes.len();
        let replaces = log_bytes > LOG_BYTES_MIN.max(self.snapshot_bytes * LOG_TO_SNAPSHOT_MAX);
        if replaces {
            bytes = self.replica.delta(&VersionVector::default()).encode();
            (self.snapshot_bytes, self.log_bytes) = (bytes.len(), 0);
        } else {
            self.log_bytes = log_bytes;
        }
        Some(Record {
            space: self.name().clone(),
            bytes,
            replaces,
        })
    }

    pub(super) fn changed(&mut self, counter: Counted) {
        self.changed.push(counter);
    }

    /// Tells the readers of events what changed, each counter once.
    pub(super) fn publish_changes(&mut self) {
        let mut changed = std::mem::take(&mut self.changed);
        if !changed.is_empty() && self.watchers.receiver_count() > 0 {
            changed.sort_unstable();
            changed.dedup();
            let newest = changed.iter().filter_map(|counter| {
                let key = self.replica.key(*counter)?.to_owned();
                let value = self.replica.value_at(*counter)?;
                Some(Counter { key, value })
            });
            // The last reader may have left meanwhile.
            let _ = self.watchers.send(newest.collect());
        }
        changed.clear();
        self.changed = changed;
        self.log_faults();
    }

    /// A fault is a writer that used one clock twice: the operator must hear of it.
    fn log_faults(&mut self) {
        let count = self.replica.fault_count();
        if count > self.faults_logged {
            self.faults_logged = count;
            let space = self.name().as_str();
            match self.replica.faults().last() {
                Some(fault) => tracing::error!(
                    space,
                    count,
                    key = %fault.key,
                    writer = %fault.ours.writer,
                    clock = fault.ours.clock,
                    ours = fault.ours.total,
                    theirs = fault.theirs.total,
                    "one writer used one clock twice: is its process or its disk cloned?"
                ),
                None => tracing::error!(space, count, "a writer used one clock twice"),
            }
        }
    }

    pub(super) fn status(&self) -> SpaceStatus {
        SpaceStatus {
            space: self.name().to_string(),
            writer: self.replica.writer().to_string(),
            clock: self.replica.clock(),
            counters: self.replica.len(),
            shards: self.replica.shard_count(),
            writers: self.replica.writers().count(),
            digest: hex(&self.replica.digest()),
            faults: self.replica.fault_count(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Fresh random bytes from the system.
fn random<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Io {
        doing: "draw random bytes".into(),
        problem: error.to_string(),
    })?;
    Ok(bytes)
}

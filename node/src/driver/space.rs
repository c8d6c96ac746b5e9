//! One open space: its replica, its sync machine, and how far the store has followed.

mod members;
mod writes;

pub(crate) use members::Tally;

use super::expiries::Expiries;
use super::{Change, Counter, FaultReport, News, Page, Query, Reading, Renewal, SpaceStatus};
use crate::store::{Record, Store, StoreError};
use members::Part;
use std::collections::BinaryHeap;
use std::sync::Arc;
use tallymesh_core::{
    Error, Handle as Counted, Input, Link, LinkStatus, Mark, Message, Output, Replica, Shard,
    Space, Sync, SyncConfig, WriterId,
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
    /// The public key under which writer ids are minted.
    owner: [u8; 32],
    /// How often that was done since the start.
    renewals: u64,
    /// Readers of events.
    pub(super) watchers: broadcast::Sender<News>,
    sync: Sync,
    /// What the store has.
    stored: Mark,
    /// Bytes of the last snapshot, and of the records after it.
    snapshot_bytes: usize,
    log_bytes: usize,
    /// Counters that changed since readers were last told.
    changed: Vec<Counted>,
    expiries: Expiries,
    /// Local transactions were made since the sync machine was last told.
    wrote: bool,
    /// The wall clock of the present batch, in milliseconds since 1970.
    unix_ms: u64,
    part: Part,
    /// Faults that were told of.
    faults_told: u64,
}

impl OpenSpace {
    /// Replays what the store keeps of `space` under a fresh writer id: no start can repeat a
    /// clock, whatever happened to the files.
    pub(super) fn load(
        space: Space,
        owner: &[u8; 32],
        lease_ms: u32,
        store: &mut dyn Store,
    ) -> Result<OpenSpace, StoreError> {
        let (writer, nonce) = mint(&space, owner)?;
        let mut replica = Replica::new(space.clone(), writer);
        let (mut snapshot_bytes, mut log_bytes) = (0, 0);
        store.load(&space, &mut |bytes| {
            let damaged = |error: Error| StoreError::Record {
                space: space.clone(),
                problem: error.to_string(),
            };
            let message = Message::decode_stored(bytes).map_err(damaged)?;
            replica.restore(&message).map_err(damaged)?;
            if snapshot_bytes == 0 {
                snapshot_bytes = bytes.len();
            } else {
                log_bytes += bytes.len();
            }
            Ok(())
        })?;
        let config = SyncConfig {
            agent: concat!("tallymesh-node/", env!("CARGO_PKG_VERSION")),
            owner: store.is_durable().then_some(*owner),
            lease_ms,
            ..SyncConfig::default()
        };
        let mut stored = Mark::default();
        // All that was replayed is stored already: this moves the mark past it.
        let _ = replica.since(&mut stored);
        let mut expiries = Expiries::default();
        // At its first time, 0, nothing has expired, so all counters are listed with their expiries.
        for (counter, _) in replica.counters() {
            expiries.note(counter, replica.expiry_at(counter));
        }
        Ok(OpenSpace {
            replica,
            owner: *owner,
            renewals: 0,
            watchers: broadcast::Sender::new(CHANGES_BATCHES_MAX),
            sync: Sync::new(config, u64::from_le_bytes(random()?)),
            stored,
            snapshot_bytes,
            log_bytes,
            changed: Vec::new(),
            expiries,
            wrote: false,
            unix_ms: 0,
            part: Part::new((writer, nonce), store.is_durable()),
            faults_told: 0,
        })
    }

    pub(super) fn name(&self) -> &Space {
        self.replica.space()
    }

    /// Sets the time by which counters expire, in milliseconds since 1970. It may go back.
    pub(super) fn set_time(&mut self, unix_ms: u64) {
        self.unix_ms = unix_ms;
        self.replica.set_time(unix_ms);
    }

    fn reading(&self, counter: Counted) -> Option<Reading> {
        Some(Reading {
            value: self.replica.value_at(counter)?,
            expires_at: self.replica.expiry_at(counter),
        })
    }

    fn read_at(&self, key: &str) -> Option<Reading> {
        self.reading(self.replica.handle(key)?)
    }

    pub(super) fn read(&self, key: String) -> Option<Counter> {
        let now = self.read_at(&key)?;
        Some(Counter { key, now })
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
            .filter_map(|(key, counter)| {
                let now = self.reading(Counted::from_u32(counter))?;
                let key = key.to_owned();
                Some(Counter { key, now })
            })
            .collect();
        let last = counters.last().filter(|_| more);
        Page {
            next: last.map(|counter| counter.key.clone()),
            counters,
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

    /// Does the duties of a member, and tells the sync machine of local writes, and of the time
    /// when it is due.
    pub(super) fn tick(&mut self, now: u64) {
        self.tend(now);
        if std::mem::take(&mut self.wrote) {
            self.handle(now, Input::Changed);
        }
        if self
            .sync
            .next_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            self.handle(now, Input::Tick);
        }
    }

    fn handle(&mut self, now: u64, input: Input<'_>) {
        self.sync.handle(now, &mut self.replica, input);
    }

    fn tell_renewal(&self, was: String, writer: String) {
        // Without readers of events the log must do.
        let renewal = Renewal { was, writer };
        let _ = self.watchers.send(News::Renewed(Arc::new(renewal)));
    }

    pub(super) fn next_deadline(&self) -> Option<u64> {
        let deadlines = [self.sync.next_deadline(), self.tend_due()];
        deadlines.into_iter().flatten().min()
    }

    /// When the next counter expires, in milliseconds since 1970.
    pub(super) fn next_expiry(&self) -> Option<u64> {
        self.expiries.next()
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
        let mut bytes = changes.encode_stored();
        let log_bytes = self.log_bytes + bytes.len();
        let long = log_bytes > LOG_BYTES_MIN.max(self.snapshot_bytes * LOG_TO_SNAPSHOT_MAX);
        let replaces = long || changes.is_whole();
        if replaces {
            if !changes.is_whole() {
                bytes = self.replica.snapshot().encode_stored();
            }
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

    /// Ends a batch: notes when the changed counters expire, and tells the readers of events of
    /// each of them once.
    pub(super) fn settle(&mut self) {
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable();
        changed.dedup();
        for counter in &changed {
            self.expiries.note(*counter, self.due(*counter));
        }
        if !changed.is_empty() && self.watchers.receiver_count() > 0 {
            let newest = changed.iter().filter_map(|counter| {
                let key = self.replica.key(*counter)?.to_owned();
                let now = self.reading(*counter);
                Some(Change { key, now })
            });
            // The last reader may have left meanwhile.
            let _ = self.watchers.send(News::Changed(newest.collect()));
        }
        changed.clear();
        self.changed = changed;
        self.tell_faults();
        self.tell_members();
    }

    /// When a counter is to be looked at because it expires: at once if it has expired and its
    /// deletion was not seen yet.
    fn due(&self, counter: Counted) -> Option<u64> {
        match self.replica.value_at(counter) {
            Some(_) => self.replica.expiry_at(counter),
            None => self.replica.shards(counter).next().map(|_| 0),
        }
    }

    /// A fault is a writer id in two hands: the operator must hear of it.
    fn tell_faults(&mut self) {
        let count = self.replica.fault_count();
        if count == self.faults_told {
            return;
        }
        let space = self.name().as_str();
        let told = usize::try_from(self.faults_told).unwrap_or(usize::MAX);
        for fault in self.replica.faults().iter().skip(told) {
            let report = FaultReport::of(fault);
            tracing::error!(
                space,
                count,
                kind = report.kind,
                key = report.key,
                writer = %report.writer,
                clock = report.clock,
                ours = report.ours,
                theirs = report.theirs,
                "two processes wrote under one writer id: was one of them copied while it ran?"
            );
            // Without readers of events the log must do.
            let _ = self.watchers.send(News::Fault(Arc::new(report)));
        }
        let kept = self.replica.faults().len() as u64;
        if count > kept {
            tracing::error!(
                space,
                count,
                kept,
                "two processes wrote under one writer id; the evidence of the first faults is kept"
            );
        }
        self.faults_told = count;
    }

    pub(super) fn status(&mut self, now: u64) -> SpaceStatus {
        let closed = self.replica.configuration().is_some();
        SpaceStatus {
            space: self.name().to_string(),
            writer: self.replica.writer().to_string(),
            clock: self.replica.clock(),
            counters: self.replica.len(),
            expiring: self.expiries.len(),
            shards: self.replica.shard_count(),
            writers: self.replica.writers().count(),
            digest: hex(&self.replica.digest()),
            contents: hex(&self.replica.content_digest().to_be_bytes()),
            faults: self.replica.fault_count(),
            renewals: self.renewals,
            membership: closed.then(|| self.membership(now)),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A fresh writer id, and the nonce that it was made with.
fn mint(space: &Space, owner: &[u8; 32]) -> Result<(WriterId, [u8; 16]), StoreError> {
    let nonce = random()?;
    Ok((WriterId::mint(space, owner, &nonce), nonce))
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

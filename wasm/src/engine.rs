//! One replica and its sync machine, as JavaScript sees them.

use alloc::string::String;
use alloc::vec::Vec;

use tallymesh_core::{
    Error, Handle, Input, Link, Mark, Message, Millis, Output, Replica, Space, Sync, SyncConfig,
    VersionVector, WriterId,
};
use wasm_bindgen::prelude::wasm_bindgen;

/// What [`Engine::poll`] found, as the numbers that TypeScript switches on.
mod kind {
    pub(super) const NOTHING: u32 = 0;
    pub(super) const SEND: u32 = 1;
    pub(super) const CHANGED: u32 = 2;
    pub(super) const CLOSE: u32 = 3;
}

/// A replica of one space beside the sync machine that keeps it in step with its peers.
#[wasm_bindgen]
pub struct Engine {
    replica: Replica,
    sync: Sync,
    /// What `poll` took last.
    subject: u32,
    /// The bytes that [`Engine::take`] gives: one way out for all, since each further one costs code
    /// on both sides.
    bytes: Vec<u8>,
    /// Where [`Engine::changes`] goes on.
    mark: Mark,
    error: Option<Error>,
}

#[wasm_bindgen]
impl Engine {
    /// Makes an empty replica of `space` under a fresh writer id, or nothing if the name is refused.
    ///
    /// `bytes` are 56: the owner's public key (32), then fresh random bytes for the nonce of the
    /// writer id (16) and for the timers of the sync machine (8). Another length gives nothing, too.
    pub fn open(space: &str, bytes: &[u8]) -> Option<Engine> {
        let space = Space::new(space).ok()?;
        let (owner, random) = bytes.split_first_chunk::<32>()?;
        let (nonce, seed) = random.split_first_chunk::<16>()?;
        let seed = u64::from_le_bytes(seed.try_into().ok()?);
        let writer = WriterId::mint(&space, owner, nonce);
        let config = SyncConfig {
            agent: String::from(concat!("tallymesh-js/", env!("CARGO_PKG_VERSION"))),
            ..SyncConfig::default()
        };
        Some(Engine {
            replica: Replica::new(space, writer),
            sync: Sync::new(config, seed),
            subject: 0,
            bytes: Vec::new(),
            mark: Mark::default(),
            error: None,
        })
    }

    /// Gives the bytes of the call before, once. Numbers in them are little-endian.
    pub fn take(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.bytes)
    }

    /// Reads the stable code of the last failure.
    pub fn read_error(&mut self) {
        let code = self.error.as_ref().map_or("", Error::code);
        self.bytes = code.as_bytes().to_vec();
    }

    // ---- local transactions and reads ----

    /// Gives the number of a key and pins it, or nothing (see [`Engine::read_error`]).
    pub fn intern(&mut self, key: &str) -> Option<u32> {
        let handle = self.replica.intern(key);
        self.keep(handle).map(Handle::as_u32)
    }

    /// Takes back one [`Engine::intern`].
    pub fn release(&mut self, handle: u32) -> bool {
        let released = self.replica.release(Handle::from_u32(handle));
        self.keep(released).is_some()
    }

    /// Adds to a counter.
    pub fn add(&mut self, handle: u32, by: i64) -> bool {
        let added = self.replica.add_at(Handle::from_u32(handle), by);
        self.keep(added).is_some()
    }

    /// Adds a small number: no `bigint` is made for it.
    pub fn add_small(&mut self, handle: u32, by: i32) -> bool {
        self.add(handle, i64::from(by))
    }

    /// The counter's value, if it exists.
    pub fn value_at(&self, handle: u32) -> Option<i128> {
        self.replica.value_at(Handle::from_u32(handle))
    }

    /// The number of a counter that exists, not pinned.
    pub fn handle(&self, key: &str) -> Option<u32> {
        self.replica.handle(key).map(Handle::as_u32)
    }

    /// Reads the key of a number, if there is one.
    pub fn read_key(&mut self, handle: u32) -> bool {
        let key = self.replica.key(Handle::from_u32(handle));
        self.bytes = key.unwrap_or_default().as_bytes().to_vec();
        key.is_some()
    }

    /// Reads the numbers (u32) of all counters that exist, in no stated order.
    pub fn read_counters(&mut self) {
        self.bytes = Vec::with_capacity(4 * self.replica.len());
        for (handle, _) in self.replica.counters() {
            put(&mut self.bytes, &handle.as_u32().to_le_bytes());
        }
    }

    /// Reads a counter's shards, 32 bytes each: writer (16), clock (u64), total (i64).
    pub fn read_shards(&mut self, handle: u32) {
        self.bytes.clear();
        for shard in self.replica.shards(Handle::from_u32(handle)) {
            put(&mut self.bytes, shard.writer.as_bytes());
            put(&mut self.bytes, &shard.clock.to_le_bytes());
            put(&mut self.bytes, &shard.total.to_le_bytes());
        }
    }

    /// Reads how things stand: this writer (16), its clock, and how many counters, shards and faults
    /// there are (u64 each); then the version vector, 24 bytes an entry: writer (16), clock (u64).
    pub fn read_status(&mut self) {
        self.bytes.clear();
        put(&mut self.bytes, self.replica.writer().as_bytes());
        for number in [
            self.replica.clock(),
            self.replica.len() as u64,
            self.replica.shard_count() as u64,
            self.replica.fault_count(),
        ] {
            put(&mut self.bytes, &number.to_le_bytes());
        }
        for (writer, clock) in self.replica.writers() {
            put(&mut self.bytes, writer.as_bytes());
            put(&mut self.bytes, &clock.to_le_bytes());
        }
    }

    // ---- messages ----

    /// Reads the whole state as one message.
    pub fn read_delta(&mut self) {
        self.bytes = self.replica.delta(&VersionVector::default()).encode();
    }

    /// Reads what changed since this was last asked, if anything did: what a store appends.
    pub fn read_changes(&mut self) -> bool {
        let changes = self.replica.since(&mut self.mark);
        changes
            .map(|message| self.bytes = message.encode())
            .is_some()
    }

    /// Merges a message, and reads the numbers (u32) of the counters that it changed.
    pub fn merge(&mut self, bytes: &[u8]) -> bool {
        self.bytes.clear();
        let changed = &mut self.bytes;
        let replica = &mut self.replica;
        let merged = Message::decode(bytes).and_then(|message| {
            replica.merge_with(&message, &mut |handle| {
                put(changed, &handle.as_u32().to_le_bytes());
            })
        });
        self.keep(merged).is_some()
    }

    // ---- sync: times are milliseconds of a monotonic clock ----

    /// A link came up; its number was never used before.
    pub fn connected(&mut self, now: f64, link: u32) {
        self.input(
            now,
            Input::Connected {
                link: Link(link),
                broadcast: false,
            },
        );
    }

    /// A link went down.
    pub fn disconnected(&mut self, now: f64, link: u32) {
        self.input(now, Input::Disconnected { link: Link(link) });
    }

    /// One frame came from a link.
    pub fn frame(&mut self, now: f64, link: u32, bytes: &[u8]) {
        self.input(
            now,
            Input::Frame {
                link: Link(link),
                bytes,
            },
        );
    }

    /// Local transactions were made.
    pub fn changed(&mut self, now: f64) {
        self.input(now, Input::Changed);
    }

    /// A deadline passed.
    pub fn tick(&mut self, now: f64) {
        self.input(now, Input::Tick);
    }

    /// When to call [`Engine::tick`]; infinity if there is nothing to wait for.
    pub fn deadline(&self) -> f64 {
        self.sync
            .next_deadline()
            .map_or(f64::INFINITY, |millis| millis as f64)
    }

    /// Takes the next output and says its kind: 0 none, 1 send (`subject` is the link, `take` the
    /// frame), 2 changed (`subject` is the counter), 3 close (`subject` is the link, `read_error`
    /// why).
    pub fn poll(&mut self) -> u32 {
        loop {
            let (found, subject) = match self.sync.poll() {
                None => (kind::NOTHING, 0),
                Some(Output::Send { link, bytes }) => {
                    self.bytes = bytes;
                    (kind::SEND, link.0)
                }
                Some(Output::Changed { handle }) => (kind::CHANGED, handle.as_u32()),
                Some(Output::Refused {
                    close: Some(link),
                    error,
                }) => {
                    self.error = Some(error);
                    (kind::CLOSE, link.0)
                }
                // Every peer of a page is a link of its own: there is no channel to broadcast on.
                Some(_) => continue,
            };
            self.subject = subject;
            return found;
        }
    }

    /// What the last [`Engine::poll`] was about.
    pub fn subject(&self) -> u32 {
        self.subject
    }
}

impl Engine {
    fn input(&mut self, now: f64, input: Input<'_>) {
        self.sync.handle(now as Millis, &mut self.replica, input);
    }

    /// Notes a failure for [`Engine::read_error`].
    fn keep<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.error = Some(error)).ok()
    }
}

/// One function for all sizes, since each costs code.
#[inline(never)]
fn put(bytes: &mut Vec<u8>, more: &[u8]) {
    bytes.extend_from_slice(more);
}

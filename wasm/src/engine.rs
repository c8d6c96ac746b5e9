//! One replica and its sync machine, as JavaScript sees them.

use alloc::string::String;
use alloc::vec::Vec;

use tallymesh_core::{
    Error, Handle, Input, Link, Mark, Message, Millis, Output, Replica, Shard, Space, Sync, SyncConfig,
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
    /// What `poll` took last, until its parts are read.
    subject: u32,
    bytes: Vec<u8>,
    /// Where [`Engine::changes`] goes on.
    mark: Mark,
    /// Counters that the last `merge` changed.
    changed: Vec<u32>,
    error: Option<Error>,
}

#[wasm_bindgen]
impl Engine {
    /// Makes an empty replica of `space` under a fresh writer id, or nothing if the name is refused.
    ///
    /// `owner` is the owner's public key (32 bytes), `random` 24 fresh random bytes: the nonce of the
    /// writer id, then the seed of the sync machine's timers. Other lengths give nothing, too.
    pub fn open(space: &str, owner: &[u8], random: &[u8]) -> Option<Engine> {
        let space = Space::new(space).ok()?;
        let owner: &[u8; 32] = owner.try_into().ok()?;
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
            changed: Vec::new(),
            error: None,
        })
    }

    /// The stable code of the last failure.
    pub fn error(&self) -> String {
        String::from(self.error.as_ref().map_or("", Error::code))
    }

    // ---- local transactions and reads ----

    /// Gives the number of a key and pins it, or nothing (see [`Engine::error`]).
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

    /// The key of a number.
    pub fn key(&self, handle: u32) -> Option<String> {
        self.replica.key(Handle::from_u32(handle)).map(String::from)
    }

    /// The numbers of all counters that exist, in no stated order.
    pub fn counters(&self) -> Vec<u32> {
        self.replica.counters().map(|(handle, _)| handle.as_u32()).collect()
    }

    /// A counter's shards, 32 bytes each: writer (16), clock (u64) and total (i64), little-endian.
    pub fn shards(&self, handle: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for Shard { writer, clock, total } in self.replica.shards(Handle::from_u32(handle)) {
            bytes.extend_from_slice(writer.as_bytes());
            bytes.extend_from_slice(&clock.to_le_bytes());
            bytes.extend_from_slice(&total.to_le_bytes());
        }
        bytes
    }

    /// The version vector, 24 bytes an entry: writer (16) and clock (u64), little-endian.
    pub fn vector(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (writer, clock) in self.replica.writers() {
            bytes.extend_from_slice(writer.as_bytes());
            bytes.extend_from_slice(&clock.to_le_bytes());
        }
        bytes
    }

    /// This replica's writer id, 16 bytes.
    pub fn writer(&self) -> Vec<u8> {
        self.replica.writer().as_bytes().to_vec()
    }

    /// This writer's clock.
    pub fn clock(&self) -> u64 {
        self.replica.clock()
    }

    /// How many counters exist.
    pub fn len(&self) -> usize {
        self.replica.len()
    }

    /// How many shards are held.
    pub fn shard_count(&self) -> usize {
        self.replica.shard_count()
    }

    /// How many forks (equal clock, different content) were met.
    pub fn fault_count(&self) -> f64 {
        self.replica.fault_count() as f64
    }

    // ---- messages ----

    /// The whole state as one message.
    pub fn delta(&self) -> Vec<u8> {
        self.replica.delta(&VersionVector::default()).encode()
    }

    /// What changed since this was last asked, as one message: what a store appends.
    pub fn changes(&mut self) -> Option<Vec<u8>> {
        self.replica.since(&mut self.mark).map(|message| message.encode())
    }

    /// Merges a message; the counters that it changed are then in [`Engine::take_changed`].
    pub fn merge(&mut self, bytes: &[u8]) -> bool {
        let changed = &mut self.changed;
        let replica = &mut self.replica;
        let merged = Message::decode(bytes).and_then(|message| {
            replica.merge_with(&message, &mut |handle| changed.push(handle.as_u32()))
        });
        self.keep(merged).is_some()
    }

    /// The counters that [`Engine::merge`] changed since this was last asked.
    pub fn take_changed(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.changed)
    }

    // ---- sync: times are milliseconds of a monotonic clock ----

    /// A link came up; its number was never used before.
    pub fn connected(&mut self, now: f64, link: u32) {
        self.input(now, Input::Connected { link: Link(link), broadcast: false });
    }

    /// A link went down.
    pub fn disconnected(&mut self, now: f64, link: u32) {
        self.input(now, Input::Disconnected { link: Link(link) });
    }

    /// One frame came from a link.
    pub fn frame(&mut self, now: f64, link: u32, bytes: &[u8]) {
        self.input(now, Input::Frame { link: Link(link), bytes });
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
        self.sync.next_deadline().map_or(f64::INFINITY, |millis| millis as f64)
    }

    /// Takes the next output and says its kind: 0 none, 1 send (`subject` is the link, `take_bytes`
    /// the frame), 2 changed (`subject` is the counter), 3 close (`subject` is the link, `error` why).
    pub fn poll(&mut self) -> u32 {
        loop {
            let (found, subject) = match self.sync.poll() {
                None => (kind::NOTHING, 0),
                Some(Output::Send { link, bytes }) => {
                    self.bytes = bytes;
                    (kind::SEND, link.0)
                }
                Some(Output::Changed { handle }) => (kind::CHANGED, handle.as_u32()),
                Some(Output::Refused { close: Some(link), error }) => {
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

    /// The frame of the last [`Engine::poll`], once.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.bytes)
    }
}

impl Engine {
    fn input(&mut self, now: f64, input: Input<'_>) {
        self.sync.handle(now as Millis, &mut self.replica, input);
    }

    /// Notes a failure for [`Engine::error`].
    fn keep<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.error = Some(error)).ok()
    }
}

//! One replica and its sync machine, as JavaScript sees them.

use alloc::string::String;
use alloc::vec::Vec;

use tallymesh_core::{
    Encode, Error, Input, KeyId, Link, Mark, Message, Millis, Op, Output, Replica, Space,
    SyncConfig, SyncMachine, VersionVector, WriterId,
};

#[cfg(feature = "members")]
mod members;

/// What [`Engine::poll`] found, as the numbers that TypeScript switches on.
mod kind {
    pub(super) const SEND: u32 = 1;
    pub(super) const CHANGED: u32 = 2;
    pub(super) const CLOSE: u32 = 3;
    #[cfg(feature = "members")]
    pub(super) const RENEW: u32 = 4;
    #[cfg(feature = "members")]
    pub(super) const RETURNED: u32 = 5;
}

/// What [`Engine::read`] reads. TypeScript names the same numbers in js/replica/numbers.ts.
pub mod part {
    /// The stable code of the last failure.
    pub const ERROR: u32 = 0;
    /// The key of a number.
    pub const KEY: u32 = 1;
    /// The numbers (u32) of all counters that exist, in no stated order.
    pub const COUNTERS: u32 = 2;
    /// A counter's shards, 40 bytes each: writer (16), clock (u64), total (i128).
    pub const SHARDS: u32 = 3;
    /// This writer (16), its clock, and how many counters, shards and faults there are (u64 each);
    /// then the version vector, 24 bytes an entry: writer (16), clock (u64).
    pub const STATUS: u32 = 4;
    /// The whole state as one message.
    pub const DELTA: u32 = 5;
    /// What changed since this was last read, if anything did: what a store appends.
    pub const CHANGES: u32 = 6;
    /// In a space with members, else nothing: era and number of the configuration (u64 each), the
    /// sponsor's writer (16, zeros for none), then the members' keys (32 each).
    pub const MEMBERS: u32 = 7;
    /// The writers that are known, 89 bytes each: writer (16), clock (u64), sponsor and successor (16 each,
    /// zeros for none), owner's key (32, zeros for none), what became of it (0 living, 1 left, 2
    /// declared dead, 3 absorbed).
    pub const WRITERS: u32 = 8;
    /// All that a store keeps of this replica, as a record (see `Engine::restore`) that stands for all
    /// before it.
    pub const SNAPSHOT: u32 = 9;
    /// What changed since this or [`SNAPSHOT`] was last read, as such a record, if anything did.
    pub const RECORD: u32 = 10;
    /// How many transactions no member is known to hold (u64); 0 while the space is open.
    pub const UNCONFIRMED: u32 = 11;
}

/// What [`Engine::stage`] stages. TypeScript names the same numbers in js/replica/transaction.ts.
pub mod op {
    /// Adds the number to the counter.
    pub const ADD: u32 = 0;
    /// Leaves the number as the counter's value.
    pub const SET: u32 = 1;
    /// Leaves the counter at 0.
    pub const RESET: u32 = 2;
    /// Leaves the counter absent.
    pub const DELETE: u32 = 3;
    /// Lets the counter expire at the number, in milliseconds since 1970.
    pub const EXPIRE: u32 = 4;
    /// Takes the counter's expiry away.
    pub const PERSIST: u32 = 5;
}

/// What [`Engine::input`] tells the sync machine. TypeScript names the same numbers in js/replica/numbers.ts.
pub mod event {
    /// A link came up; its number was never used before.
    pub const CONNECTED: u32 = 0;
    /// A link went down.
    pub const DISCONNECTED: u32 = 1;
    /// One frame came from a link.
    pub const FRAME: u32 = 2;
    /// Local transactions were made.
    pub const CHANGED: u32 = 3;
    /// A deadline passed.
    pub const TICK: u32 = 4;
    /// The answer to a wish for a fresh writer id: 16 random bytes for its nonce.
    pub const RENEW: u32 = 5;
}

/// A replica of one space beside the sync machine that keeps it in step with its peers.
pub struct Engine {
    replica: Replica,
    sync: SyncMachine,
    /// The operations of the transaction that is being made.
    staged: Vec<(String, Op)>,
    /// The bytes that [`Engine::take`] gives: one way out for all, since each further one costs code
    /// on both sides.
    bytes: Vec<u8>,
    /// Where [`part::CHANGES`] goes on.
    mark: Mark,
    error: Option<Error>,
    /// The owner's public key, for further writer ids.
    #[cfg(feature = "members")]
    owner: [u8; 32],
    /// Whether somebody stores what [`part::CHANGES`] gives.
    #[cfg(feature = "members")]
    stored: bool,
    /// Whether the role allows no writes at all.
    #[cfg(feature = "members")]
    reads_only: bool,
    /// What a store brings back.
    #[cfg(feature = "members")]
    restored: members::Restored,
}

impl Engine {
    /// Makes an empty replica of `space` under a fresh writer id, or nothing if the name is refused.
    /// Before the space may come a name for people, which peers are told, and a line break.
    ///
    /// `bytes` are 56: the owner's public key (32), then fresh random bytes for the nonce of the
    /// writer id (16) and for the timers of the sync machine (8). Another length gives nothing, too.
    pub fn open(space: &[u8], bytes: &[u8]) -> Option<Engine> {
        let (space, name) = named(space)?;
        let (owner, nonce, seed) = parts(bytes)?;
        let writer = WriterId::mint(&space, owner, nonce);
        let replica = Replica::new(space, writer);
        Some(Engine::of(replica, (owner, nonce), seed, name))
    }

    /// Gives the bytes of the call before, once. Numbers in them are little-endian.
    pub fn take(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.bytes)
    }

    /// Reads a [`part`] for [`Engine::take`]; false if there is nothing to read. `key_id` is the
    /// counter, where the part is of one. One method for all, since each further one costs code on
    /// both sides.
    pub fn read(&mut self, what: u32, key_id: u32) -> bool {
        let key_id = KeyId::from_u32(key_id);
        let Engine { replica, bytes, .. } = self;
        bytes.clear();
        match what {
            part::KEY => match replica.key(key_id) {
                Some(key) => put(bytes, key.as_bytes()),
                None => return false,
            },
            part::COUNTERS => replica.each_counter(&mut |key_id| {
                #[cfg(feature = "members")]
                if !replica.key(key_id).is_some_and(members::is_plain) {
                    return;
                }
                put(bytes, &key_id.as_u32().to_le_bytes());
            }),
            part::SHARDS => replica.each_shard(key_id, &mut |shard| {
                put(bytes, shard.writer.as_bytes());
                put(bytes, &shard.clock.to_le_bytes());
                put(bytes, &shard.total.to_le_bytes());
            }),
            part::STATUS => {
                put(bytes, replica.writer().as_bytes());
                for number in [
                    replica.clock(),
                    replica.len() as u64,
                    replica.shard_count() as u64,
                    replica.forks().fault_count(),
                ] {
                    put(bytes, &number.to_le_bytes());
                }
                for (writer, clock) in replica.vector().iter() {
                    put(bytes, writer.as_bytes());
                    put(bytes, &clock.to_le_bytes());
                }
            }
            part::DELTA => *bytes = replica.delta(&VersionVector::default()).encode(),
            part::CHANGES => {
                #[cfg(feature = "members")]
                {
                    self.stored = true;
                }
                match replica.since(&mut self.mark) {
                    Some(message) => *bytes = message.encode(),
                    None => return false,
                }
            }
            #[cfg(feature = "members")]
            part::MEMBERS => return members::put_members(bytes, replica),
            #[cfg(feature = "members")]
            part::WRITERS => members::put_writers(bytes, replica),
            #[cfg(feature = "members")]
            part::SNAPSHOT | part::RECORD => return self.put_record(what == part::SNAPSHOT),
            #[cfg(feature = "members")]
            part::UNCONFIRMED => put(
                bytes,
                &(replica.consistency().unconfirmed() as u64).to_le_bytes(),
            ),
            _ => put(
                bytes,
                self.error.as_ref().map_or("", Error::code).as_bytes(),
            ),
        }
        true
    }

    // ---- local transactions and reads ----

    /// Gives the number of a key in UTF-8, or nothing. With `pin` the number is made if need be and
    /// kept (nothing is a failure then, see [`part::ERROR`]); without, it is of a counter that exists.
    pub fn find(&mut self, key: &[u8], pin: bool) -> Option<u32> {
        let key = str::from_utf8(key).ok()?;
        if !pin {
            #[cfg(feature = "members")]
            if !members::is_plain(key) {
                return None;
            }
            return self.replica.key_id(key).map(KeyId::as_u32);
        }
        let key_id = self.replica.intern(key);
        self.keep(key_id).map(KeyId::as_u32)
    }

    /// Takes back one pin of [`Engine::find`].
    pub fn release(&mut self, key_id: u32) -> bool {
        let released = self.replica.release(KeyId::from_u32(key_id));
        self.keep(released).is_some()
    }

    /// Adds to a counter.
    pub fn add(&mut self, key_id: u32, by: i64) -> bool {
        #[cfg(feature = "members")]
        if self.reads_only {
            return self.refuse();
        }
        let added = self.replica.add_at(KeyId::from_u32(key_id), by);
        self.keep(added).is_some()
    }

    /// Adds a small number: no `bigint` is made for it.
    pub fn add_small(&mut self, key_id: u32, by: i32) -> bool {
        self.add(key_id, i64::from(by))
    }

    /// Puts an [`op`] at the end of the transaction that [`Engine::commit`] makes; `key` is in UTF-8.
    pub fn stage(&mut self, key: &[u8], what: u32, number: i64) {
        let op = match what {
            op::ADD => Op::Add(number),
            op::SET => Op::Set(number),
            op::RESET => Op::Reset,
            op::DELETE => Op::Delete,
            op::EXPIRE => Op::Expire(number as u64),
            _ => Op::Persist,
        };
        let key = str::from_utf8(key).unwrap_or_default();
        self.staged.push((key.into(), op));
    }

    /// Makes all that was staged visible at once, or nothing of it. Reads a byte of each operation:
    /// 1 if the counter existed before or, of [`op::PERSIST`], had an expiry, else 0.
    pub fn commit(&mut self) -> bool {
        let staged = core::mem::take(&mut self.staged);
        #[cfg(feature = "members")]
        if self.reads_only {
            return self.refuse();
        }
        let told = self.replica.transact(&staged);
        let Some(told) = self.keep(told) else {
            return false;
        };
        self.bytes.clear();
        for existed in &told {
            self.bytes.push(u8::from(*existed));
        }
        true
    }

    /// Sets the wall clock that expiry is judged by, in milliseconds since 1970, until the next call.
    pub fn set_time(&mut self, unix_ms: f64) {
        self.replica.set_time(unix_ms as u64);
    }

    /// When the counter expires, in milliseconds since 1970; 0 if it is absent or stays.
    pub fn expiry_at(&self, key_id: u32) -> f64 {
        let at = self.replica.expiry_at(KeyId::from_u32(key_id));
        at.unwrap_or_default() as f64
    }

    /// The counter's value, if it exists.
    pub fn value_at(&self, key_id: u32) -> Option<i128> {
        self.replica.value_at(KeyId::from_u32(key_id))
    }

    // ---- messages ----

    /// Merges a message, and reads the numbers (u32) of the counters that it changed.
    pub fn merge(&mut self, bytes: &[u8]) -> bool {
        self.bytes.clear();
        let changed = &mut self.bytes;
        let replica = &mut self.replica;
        let merged = Message::decode(bytes).and_then(|message| {
            replica.merge_with(&message, None, &mut |key_id| {
                put(changed, &key_id.as_u32().to_le_bytes());
            })
        });
        self.keep(merged).is_some()
    }

    // ---- sync: times are milliseconds of a monotonic clock ----

    /// Tells the sync machine of an [`event`]; `link` and `bytes` where the event has them.
    pub fn input(&mut self, bytes: &[u8], what: u32, now: f64, link: u32) {
        let link = Link(link);
        let input = match what {
            event::CONNECTED => Input::Connected {
                link,
                broadcast: false,
            },
            event::DISCONNECTED => Input::Disconnected { link },
            event::FRAME => Input::Frame { link, bytes },
            event::CHANGED => Input::Changed,
            #[cfg(feature = "members")]
            event::RENEW => return self.renew(now as Millis, bytes),
            _ => Input::Tick,
        };
        self.sync.handle(now as Millis, &mut self.replica, input);
        #[cfg(feature = "members")]
        if what == event::TICK {
            self.tend(now as Millis);
        }
    }

    /// When an [`event::TICK`] is due; infinity if there is nothing to wait for.
    pub fn deadline(&self) -> f64 {
        self.sync
            .next_deadline()
            .map_or(f64::INFINITY, |millis| millis as f64)
    }

    /// Takes the next output. The answer is its kind times 2^32 plus its subject: 0 none, 1 send (the
    /// subject is the link, `take` the frame), 2 changed (the counter), 3 close (the link;
    /// [`part::ERROR`] says why), 4 renew (an [`event::RENEW`] is to follow at once), 5 came
    /// back: `take` has u64 each of how many transactions were made again, the first and the last clock
    /// of those of which it is not known whether they count (0 and 0: none), and how many cancels are
    /// weaker now.
    pub fn poll(&mut self) -> f64 {
        loop {
            let (kind, subject) = match self.sync.poll() {
                None => return 0.0,
                Some(Output::Send { link, bytes }) => {
                    self.bytes = bytes.to_vec();
                    (kind::SEND, link.0)
                }
                Some(Output::Changed { key_id }) => (kind::CHANGED, key_id.as_u32()),
                Some(Output::Refused {
                    close: Some(link),
                    error,
                }) => {
                    self.error = Some(error);
                    (kind::CLOSE, link.0)
                }
                #[cfg(feature = "members")]
                Some(Output::Renew) => (kind::RENEW, 0),
                #[cfg(feature = "members")]
                Some(Output::Returned(returned)) => {
                    self.bytes = members::returned(&returned);
                    (kind::RETURNED, 0)
                }
                // Every peer of a page is a link of its own: there is no channel to broadcast on.
                Some(_) => continue,
            };
            return (u64::from(kind) << 32 | u64::from(subject)) as f64;
        }
    }
}

impl Engine {
    /// An engine around a replica of this owner's, whose writer was minted with this nonce.
    fn of(
        replica: Replica,
        (owner, nonce): (&[u8; 32], &[u8; 16]),
        seed: u64,
        name: &str,
    ) -> Engine {
        let _ = (owner, nonce); // without members nobody needs another id, nor the proof of this one
        let mut agent = String::from(concat!("tallymesh-js/", env!("CARGO_PKG_VERSION")));
        if !name.is_empty() {
            agent.push(' ');
            agent.push_str(name);
        }
        let config = SyncConfig {
            agent,
            #[cfg(feature = "members")]
            takes_time: true,
            ..SyncConfig::default()
        };
        let engine = Engine {
            replica,
            sync: SyncMachine::new(config, seed),
            staged: Vec::new(),
            bytes: Vec::new(),
            mark: Mark::default(),
            error: None,
            #[cfg(feature = "members")]
            owner: *owner,
            #[cfg(feature = "members")]
            stored: false,
            #[cfg(feature = "members")]
            reads_only: false,
            #[cfg(feature = "members")]
            restored: members::Restored::default(),
        };
        #[cfg(feature = "members")]
        let engine = engine.proving(*nonce);
        engine
    }

    /// Notes a failure for [`part::ERROR`].
    fn keep<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.error = Some(error)).ok()
    }
}

/// A space, and the name for people that may come before it, with a line break between.
fn named(text: &[u8]) -> Option<(Space, &str)> {
    let text = str::from_utf8(text).ok()?;
    let (name, space) = text.split_once('\n').unwrap_or(("", text));
    Some((Space::new(space).ok()?, name))
}

/// How many bytes an engine is made with.
pub(crate) const ORIGIN_BYTES: usize = 56;

/// The owner's public key, the nonce of the writer id, and what the timers are drawn from.
fn parts(bytes: &[u8]) -> Option<(&[u8; 32], &[u8; 16], u64)> {
    let (owner, random) = bytes.split_first_chunk::<32>()?;
    let (nonce, seed) = random.split_first_chunk::<16>()?;
    Some((owner, nonce, u64::from_le_bytes(seed.try_into().ok()?)))
}

/// One function for all sizes, since each costs code.
#[inline(never)]
fn put(bytes: &mut Vec<u8>, more: &[u8]) {
    bytes.extend_from_slice(more);
}

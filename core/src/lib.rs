//! The Tallymesh counter: many replicas write it, none of them asks another one, and it adds up everywhere.
//!
//! This crate is the kernel: the meaning of a counter, the merge, deltas, the wire format and a sync
//! machine. It is a sans-I/O library: it opens no socket or file, reads no clock and draws no random
//! number. It is `no_std` and has no unsafe code. The words of this page are explained in
//! `docs/glossary.md`, and `ARCHITECTURE.md` shows how the rest of Tallymesh uses the crate.
//!
//! # The two types
//! **[`Replica`]** is one copy of a *space*, which is a named set of counters. It accepts writes with no
//! network, and merges the states of other replicas. A counter is a map with one *shard* for each
//! *writer*: the writer's clock and its total. Merge keeps the shard with the greater clock, and the value
//! is the sum of the totals. So the order, the loss and the repetition of messages do not matter.
//!
//! ```
//! use tallymesh_core::{Error, Op, Replica, Space, WriterId};
//! # fn main() -> Result<(), Error> {
//! let space = Space::new("shop")?;
//! let writer = |nonce| WriterId::mint(&space, &[7; 32], &[nonce; 16]);
//! let mut here = Replica::new(space.clone(), writer(1));
//! let mut there = Replica::new(space.clone(), writer(2));
//! here.add("likes", 2)?;
//! there.transact(&[("likes", Op::Add(3)), ("visits", Op::Add(1))])?;
//! // A delta holds everything that the other replica lacks. A whole state is the delta from nothing.
//! here.merge(&there.delta(&here.vector()))?;
//! assert_eq!((here.value("likes"), here.value("visits")), (Some(5), Some(1)));
//! # Ok(())
//! # }
//! ```
//!
//! **[`SyncMachine`]** keeps a replica in step with its peers. It decides which bytes go to which peer and
//! when. The program around it carries the bytes, over WebSocket, libp2p or a simulator.
//! The module [`sync`] has the machine's contract and protocol.
//!
//! # The loop
//! Each program around a machine runs this loop:
//! 1. Change the replica, or hand an [`Input`] to [`SyncMachine::handle`], with the present time.
//!    After a local write the input is [`Input::Changed`].
//! 2. Store what changed: [`Replica::since`] returns it as one record. Any number of inputs may share one
//!    record.
//! 3. Call [`SyncMachine::poll`] until it returns `None`, and carry out each [`Output`].
//! 4. Wait for the next event, but no longer than until [`SyncMachine::next_deadline`]. At the deadline,
//!    hand in [`Input::Tick`].
//!
//! In a space with members, call [`SyncMachine::tend`] about once a second besides: it does a member's duties.
//! Its changes are local writes, so steps 2 and 3 follow.
//!
//! **The single invariant: a change of the replica is durable before the next `poll`, if the program stores
//! the replica at all.** Then no peer ever hears of a change that a crash can undo. A program that stores
//! nothing skips step 2, because its next start writes under another writer.
//!
//! ```
//! use tallymesh_core::{
//!     Encode, Error, Input, Link, Mark, Message, Millis, Output, Replica, Space, SyncConfig, SyncMachine,
//!     WriterId,
//! };
//!
//! struct Peer {
//!     replica: Replica,
//!     machine: SyncMachine,
//!     /// The change mark up to which the log has everything.
//!     stored: Mark,
//!     /// Stands for a file.
//!     log: Vec<Vec<u8>>,
//! }
//!
//! impl Peer {
//!     fn new(nonce: [u8; 16], seed: u64) -> Peer {
//!         let space = Space::default();
//!         let writer = WriterId::mint(&space, &[7; 32], &nonce);
//!         Peer {
//!             replica: Replica::new(space, writer),
//!             machine: SyncMachine::new(SyncConfig::default(), seed),
//!             stored: Mark::default(),
//!             log: Vec::new(),
//!         }
//!     }
//!
//!     fn handle(&mut self, now: Millis, input: Input<'_>) {
//!         self.machine.handle(now, &mut self.replica, input);
//!     }
//!
//!     /// Steps 2 and 3: stores, then returns the frames to send.
//!     fn flush(&mut self) -> Vec<Vec<u8>> {
//!         if let Some(record) = self.replica.since(&mut self.stored) {
//!             self.log.push(record.encode_stored());
//!         }
//!         let mut frames = Vec::new();
//!         while let Some(output) = self.machine.poll() {
//!             match output {
//!                 Output::Send { bytes, .. } => frames.push(bytes.to_vec()),
//!                 Output::Refused { error, .. } => panic!("the peer broke the protocol: {error}"),
//!                 // The counters that changed, for a user interface; what was merged, for a log.
//!                 _ => {}
//!             }
//!         }
//!         frames
//!     }
//! }
//!
//! # fn main() -> Result<(), Error> {
//! // A program draws the nonces and the seeds at random, and takes `now` from a monotonic clock.
//! let mut peers = [Peer::new([1; 16], 11), Peer::new([2; 16], 12)];
//! let mut now: Millis = 0;
//! let link = Link(1);
//! for peer in &mut peers {
//!     peer.handle(now, Input::Connected { link, broadcast: false });
//! }
//! for (peer, by) in peers.iter_mut().zip([3, 4]) {
//!     peer.replica.add("likes", by)?;
//!     peer.handle(now, Input::Changed);
//! }
//! while !peers.iter().all(|peer| peer.replica.value("likes") == Some(7)) {
//!     let mut sent = false;
//!     for (from, to) in [(0, 1), (1, 0)] {
//!         for bytes in peers[from].flush() {
//!             peers[to].handle(now, Input::Frame { link, bytes: &bytes });
//!             sent = true;
//!         }
//!     }
//!     if !sent {
//!         // Nobody has anything to do before the earliest deadline, so this clock jumps there.
//!         let deadlines = peers.iter().filter_map(|peer| peer.machine.next_deadline());
//!         now = deadlines.min().expect("a push or a digest is due").max(now);
//!         peers.iter_mut().for_each(|peer| peer.handle(now, Input::Tick));
//!     }
//! }
//! assert!(now < 1_000, "changes are pushed after some milliseconds, not at the next digest");
//!
//! // The next start reads the log, and writes under a fresh writer.
//! peers[0].flush();
//! let mut again = Peer::new([3; 16], 13);
//! for record in &peers[0].log {
//!     again.replica.restore(&Message::decode_stored(record)?)?;
//! }
//! assert_eq!(again.replica.value("likes"), Some(7));
//! # Ok(())
//! # }
//! ```
//!
//! # Time, randomness and identity
//! All three are arguments, so one seed replays a whole run.
//!
//! | argument | unit | meaning |
//! |---|---|---|
//! | `now` of [`SyncMachine::handle`] | milliseconds, [`Millis`] | a monotonic time from any origin; it drives timers only |
//! | [`Replica::set_time`] | milliseconds since 1970 | the time by which counters expire; it may go back. A guest of members hands in their time, [`SyncMachine::member_time`], and without one says so by [`MembersMut::set_time_unsure`] |
//! | `seed` of [`SyncMachine::new`] | any random number | names the process to its peers, and spreads its timers |
//! | `nonce` of [`WriterId::mint`] | 16 random bytes, drawn at each start | makes the writer id fresh, so no restored disk repeats a clock |
//!
//! Nothing depends on the order of a hash table. No merge compares wall clocks.
//!
//! # Errors
//! An operation, a message or a frame that is refused with an [`Error`] has changed nothing.
//! [`Error`] has one small enum for each boundary, such as [`WriteError`] and [`DecodeError`].
//! [`Error::kind`] is the error without its details.
//! [`Error::code`] is a stable name for programs, and `docs/errors.md` lists all of them for people.
//! Every size and count has a bound in [`bounds`], which is checked before memory is allocated for it.
//! Arithmetic is checked: an add that does not fit is refused, and no total ever wraps.
//!
//! # Features
//! Each feature adds, and none changes what another one means.
//!
//! | feature | default | a program with it | a program without it |
//! |---|---|---|---|
//! | `guests` | by `members` | is a *guest* in spaces with *members*: a member admits it, and it rejoins after it was passed over | speaks open spaces only, as the module that a page downloads first does |
//! | `members` | yes | can be a member: it votes, acknowledges, retires writers and collects; it also remembers idempotency keys, finds forks, makes snapshots in parts, broadcasts, and answers reads at a level; its errors have details and a text | is a guest at most, and believes its peers about forks; its errors have their codes only |
//! | `budgets` | yes | has budgets, leases, sequences and rate limits; implies `members` | carries the counters of which these are made, and does not interpret them |
//! | `tokens` | yes | reads and writes [`Token`], the state that a session depends on, as text | has no such text |
//! | `json` | no | writes the full shard map as JSON, through `serde` | does not depend on `serde` |
//! | `explore` | no | shows its private state as text, to tests that must tell replicas apart | |
//!
//! # Where things are
//! Each folder or file of `core/src` in this table is one layer, or a part of the ground below all layers. A
//! layer names the ground, and layers that come earlier in the table. One file is the exception: a replica owns
//! its quota, a layer above, so `replica/quota.rs` names `quota`. No other folders form a circle.
//! `xtask/src/tidy/arrows.rs` has the arrows, and `cargo xtask check` holds them.
//!
//! The module page of a layer says what the layer adds, what it guarantees, and which paper it follows.
//! `cargo doc --document-private-items` shows these pages, and makes links of the following names.
//!
//! - To learn the CRDT, read [`state`]. Its page gives a reading order for one afternoon.
//! - **Where is a duplicate add withdrawn, and why is that exact?** See
//!   [`idempotency`, *Withdrawal*](idempotency#withdrawal).
//! - **Which records may be collected, and when?** See
//!   [`membership::stability`, *Collection*](membership::stability#collection).
//!
//! | folder or file | holds |
//! |---|---|
//! | `error`, `bounds`, `hash`, `sort`, `list`, `sheet`, `numbers`, `recent`, `vector`, `expired`, `writer_id`, `once`, `optional`, `reserved` | the ground: errors, bounds, hashes, names, version vectors, the judgement of ends, the null object of a part that a program lacks; they name no layer |
//! | `state/` | the CRDT: counters, their memory, the join, delta intervals |
//! | `message/` | the unit that travels: a delta interval, with membership records and the keys of requests |
//! | `ledger/` | the keys of budgets, leases, sequences and rate limits |
//! | `indexed_state` | the state of a replica in this build: with the index of the keys of `ledger`, or with none |
//! | `forks` | one writer, one clock, two contents: how that shows |
//! | `membership/` | who counts, who has seen what, what is stable, who takes over |
//! | `wire/` | bytes: version 1 of the format, which `docs/protocol.md` specifies |
//! | `rejoin/` | how a replica that was passed over goes on under a fresh writer |
//! | `idempotency/` | which operations were made under which key, and the exact withdrawal of duplicates |
//! | `consistency` | how far a transaction is held, and the tokens of sessions |
//! | `replica/` | the public face, and the order in which the layers act |
//! | `quota/` | budgets, leases, sequences and rate limits, made of counters |
//! | `sync/` | the sync machine |
//! | `json` | the shard map as JSON |

#![no_std]
#![forbid(unsafe_code)]
// The guide leads to pages of private layers. `cargo xtask check` sees that each link leads somewhere.
#![allow(rustdoc::private_intra_doc_links)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bounds;
mod consistency;
mod error;
mod expired;
mod forks;
mod hash;
mod idempotency;
mod indexed_state;
#[cfg(feature = "json")]
mod json;
#[cfg(feature = "budgets")]
mod ledger;
mod list;
mod membership;
mod message;
mod numbers;
mod once;
mod optional;
#[cfg(feature = "budgets")]
mod quota;
mod recent;
mod rejoin;
mod replica;
mod reserved;
mod sheet;
mod sort;
mod state;
pub mod sync;
mod vector;
pub mod wire;
mod writer_id;

pub(crate) use list::list;

pub use consistency::Consistency;
#[cfg(feature = "guests")]
pub use error::ScopeError;
#[cfg(feature = "tokens")]
pub use error::TokenError;
pub use error::{
    AdmissionError, DecodeError, Detail, Error, ErrorKind, Limited, LinkError, MemberError,
    MergeError, Missing, Rule, WriteError,
};
#[cfg(feature = "budgets")]
pub use error::{QuotaError, Short};
pub use forks::{Contents, Evidence, Fault, Forks};
pub use hash::SplitMix64;
#[cfg(feature = "members")]
pub use idempotency::{Asker, KeyStatus, KeyedBounds};
pub use idempotency::{Keyed, KeyedMut};
#[cfg(feature = "budgets")]
pub use ledger::account::{Kind, LeaseId, budget_name};
#[cfg(feature = "budgets")]
pub use ledger::period::period_end;
#[cfg(feature = "budgets")]
pub use ledger::{Holding, RightKind};
pub use membership::listing::{Fate, Listed, Member, Members};
pub use membership::place::Predecessor;
pub use message::Message;
pub use message::journal::Journal;
pub use message::records::{Configuration, Limit, Owner};
pub use once::Once;
#[cfg(feature = "budgets")]
pub use quota::budget::{Budget, Flow, Holder};
#[cfg(feature = "budgets")]
pub use quota::lease::{Lease, lease_until};
#[cfg(feature = "budgets")]
pub use quota::period::Period;
#[cfg(feature = "budgets")]
pub use quota::sequence::{Reached, Sequence, Watched};
#[cfg(feature = "budgets")]
pub use quota::{QuotaMut, QuotaPreview, QuotaRef, QuotaTransaction};
pub use rejoin::{Again, AgainOp, Returned};
#[cfg(any(test, feature = "explore"))]
pub use replica::local as explore;
pub use replica::{ForksMut, Mark, MembersMut, Merged, RejoinMut, Replica, Transaction};
#[cfg(feature = "members")]
pub use replica::{Part, Restoring, Snapshot};
pub use reserved::RESERVED;
pub use state::keys::KeyId;
#[cfg(feature = "members")]
pub use state::moment::Moment;
pub use state::operation::Op;
pub use state::page::Shard;
pub use state::vector::VersionVector;
#[cfg(feature = "members")]
pub use sync::{Accusation, Level, Party, PeerScope, Question, Reach, Role, Share};
pub use sync::{FrameBytes, Input, Link, LinkStatus, Millis, Output, SyncConfig, SyncMachine};
#[cfg(feature = "budgets")]
pub use sync::{RequestId, RightsProgress};
#[cfg(feature = "tokens")]
pub use wire::Token;
#[cfg(feature = "members")]
pub use wire::push_changes_writer;
pub use wire::{Encode, frame_space};
pub use writer_id::{Space, WriterId};

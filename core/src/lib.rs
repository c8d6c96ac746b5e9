//! The Tallymesh counter: a state-based CRDT that is written anywhere and adds up everywhere.
//!
//! This crate is meaning, merge, deltas, the wire format and the sync machine. It does no I/O, is
//! `no_std`, and has no unsafe code; time and randomness are handed in. A counter is a map of
//! shards, one for each writer, `(clock, total)`; replicas merge by the greater clock of each
//! writer, and a counter's value is the sum of its shards' totals.
//!
//! Start at [`Replica`]. [`SyncMachine`] keeps a replica in step with its peers.

#![no_std]
#![forbid(unsafe_code)]

/// Whether spaces with members are spoken. A constant instead of conditional compilation: both
/// variants are type-checked, and the compiler drops what can't be reached.
pub(crate) const MEMBERS: bool = cfg!(feature = "guests");

/// Whether this program may be a member itself, and not only a guest of members.
pub(crate) const DUTIES: bool = cfg!(feature = "members");

/// Whether forks are looked for. A page has no disk that could be copied: it takes its peers' word
/// for what is forked, and saves the rest of the download.
pub(crate) const FORKS: bool = cfg!(feature = "members");

/// Whether anybody asks for the [`LinkStatus`] of links. No page does.
pub(crate) const STATUS: bool = cfg!(feature = "members");

/// Whether snapshots are made in parts. No page has a store.
pub(crate) const PARTS: bool = cfg!(feature = "members");

/// Whether pushes are paced by how much is written. A page writes little.
pub(crate) const PACED: bool = cfg!(feature = "members");

/// Whether there may be a broadcast beside links. A page has links only.
pub(crate) const BROADCAST: bool = cfg!(feature = "members");

extern crate alloc;
#[cfg(test)]
extern crate std;

/// Whether lists get room for all that they are to have before it is put in. Where not, they grow: that
/// is less code, and the allocator of a page finds the room for it in place mostly.
pub(crate) const ROOMY: bool = cfg!(feature = "guests");

mod closed;
mod error;
mod forks;
mod hash;
mod idempotency;
#[cfg(feature = "json")]
mod json;
mod layers;
pub mod limits;
mod membership;
mod message;
mod once;
#[cfg(feature = "budgets")]
mod quota;
mod rejoin;
mod replica;
mod reserved;
mod sort;
mod state;
pub mod sync;
pub mod wire;
mod writer_id;

use alloc::vec::Vec;

/// An empty list that so many are to be put into.
#[inline(always)]
pub(crate) fn list<T>(count: usize) -> Vec<T> {
    match ROOMY {
        true => Vec::with_capacity(count),
        false => Vec::new(),
    }
}

#[cfg(feature = "budgets")]
pub use error::Short;
pub use error::{Detail, Error, Limited, Missing, Rule};
pub use forks::{Contents, Evidence, Fault};
#[cfg(feature = "members")]
pub use idempotency::{Asked, Asker, KeyedBounds};
pub use message::Message;
pub use message::journal::Journal;
pub use message::records::{Configuration, Limit, Owner};
pub use once::Once;
#[cfg(feature = "budgets")]
pub use quota::account::{Kind, LeaseId, budget_name};
#[cfg(feature = "budgets")]
pub use quota::period::period_end;
pub use rejoin::{Again, AgainOp, Returned};
#[cfg(feature = "budgets")]
pub use replica::{
    Budget, Flow, Holder, Holding, Lease, Period, Reached, Sequence, Stock, Watched, lease_until,
};
pub use replica::{Fate, Listed, Mark, Member, Merged, Replica, Transaction};
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
pub use sync::{Accusation, Level, Party, Question, Reach, Rights, Role, Share};
pub use sync::{Input, Link, LinkStatus, Millis, Output, SyncConfig, SyncMachine};
#[cfg(feature = "budgets")]
pub use sync::{Supply, WantId};
#[cfg(feature = "tokens")]
pub use wire::Token;
pub use wire::frame_space;
#[cfg(feature = "members")]
pub use wire::push_changes_writer;
pub use writer_id::{Space, WriterId};

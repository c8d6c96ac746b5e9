//! The idempotency log: an operation under a key counts once, however often and at however many replicas it is asked for.
//!
//! A replica remembers the keys of the operations that it has made or heard of, for as long as its
//! caller wants. A retry is answered from that. If two replicas took an operation before they heard
//! of each other, whoever hears of both withdraws the later one: takes out what that very transaction
//! added, and nothing else. What it cancelled stays cancelled, and its base is one of two equal ones.
//!
//! A withdrawal is an operation of its own, with the stamp of whoever made it, so it travels and
//! merges like a cancel. Several replicas may make the same one. It is made only where the
//! transaction's writer has not been absorbed yet; whoever absorbs a writer waits until all have
//! acknowledged its keyed operations, and so knows of all that are to be withdrawn.
//!
//! A program that is never a member remembers no keys: there the log is [nothing](none).

#[cfg(feature = "members")]
mod gaps;
#[cfg(feature = "members")]
pub(crate) mod keyed;
#[cfg(feature = "members")]
pub(crate) mod log;
#[cfg(not(feature = "members"))]
mod none;
#[cfg(feature = "members")]
pub(crate) mod shares;
#[cfg(feature = "members")]
mod withdrawal;

#[cfg(feature = "members")]
pub use keyed::Asked;
#[cfg(feature = "members")]
pub(crate) use keyed::{KeyedMark, KeyedOps, KeyedWalk};
#[cfg(feature = "members")]
pub(crate) use log::{IdempotencyLog, Instance};
#[cfg(not(feature = "members"))]
pub(crate) use none::{IdempotencyLog, KeyedMark, KeyedOps, KeyedWalk};
#[cfg(feature = "members")]
pub use shares::{Asker, KeyedBounds, Party};

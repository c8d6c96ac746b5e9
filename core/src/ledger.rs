//! Ledger keys: the keys under which budgets, leases, sequences and rate limits are stored.
//!
//! # What it adds
//! All of these are plain counters under keys that begin with [`RESERVED`](crate::RESERVED). This folder is the
//! codec of these keys, and their index in the key table. It has no operations: these are in `quota`, above the
//! replica.
//!
//! | file | keys of |
//! |---|---|
//! | [`account`] | budgets and leases: an account for each holder |
//! | [`sequence`] | sequences: the rest, and each range that was given to a writer |
//! | [`period`] | rate limits: each period of each key |
//! | [`index`] | all of them, found by name and by holder |
//!
//! # What it guarantees
//! - **No plain operation writes to these keys.** Each begins with U+0000, which no key of a plain operation may.
//! - **A key says all.** The kind, the holder and the name are parts of it. So the index follows from the keys
//!   alone, and no store needs to write it.
//! - **Nobody needs this folder to carry them.** Merge, the wire, stores and collection treat such a counter like
//!   any other, also in a program that knows no quota.
//!
//! # What it follows
//! An account for each holder is the layout of bounded counters. `quota` names the papers, and where it departs
//! from them.

pub use crate::error::Holding;
pub(crate) mod account;
pub(crate) mod index;
pub(crate) mod period;
pub(crate) mod sequence;

/// A kind of right that a member may run short of. All kinds are moved in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RightKind {
    /// Rights to spend.
    Rights,
    /// Room to mint, under a cap.
    Room,
    /// Room under a rate limit in a period. Its name is that of the [period](crate::Period).
    Period,
}

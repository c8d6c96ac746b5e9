//! Ledger keys: the keys under which budgets, leases, sequences and rate limits are stored.
//!
//! All of these are plain counters under keys that begin with [`RESERVED`](crate::RESERVED). Merge, the wire,
//! stores and collection treat such a counter like any other, also in a program that knows no quota. This
//! folder is the codec of these keys, and their index in the key table ([`index`]). It has no operations:
//! these stand above the replica, in `quota`.

pub use crate::error::Holding;
pub(crate) mod account;
pub(crate) mod index;
pub(crate) mod period;
pub(crate) mod sequence;

/// A kind of right that a member may run short of. All kinds are moved in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stock {
    /// Rights to spend.
    Rights,
    /// Room to mint, under a cap.
    Room,
    /// Room under a rate limit in a period. Its name is that of the [period](crate::Period).
    Period,
}

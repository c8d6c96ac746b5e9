//! Ledger keys: the keys under which budgets, leases, sequences and rate limits are stored.
//!
//! All of these are plain counters under keys that begin with [`RESERVED`](crate::RESERVED). Merge, the wire,
//! stores and collection treat such a counter like any other, also in a program that knows no quota. This
//! folder is the codec of these keys, and their index in the key table ([`index`]). It has no operations:
//! these stand above the replica, in `quota`.

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

/// The distribution of an amount of a budget, according to this replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// The amount that this replica may use now.
    pub here: i128,
    /// The amount that this replica may use once all members have acknowledged it. It came in under
    /// idempotency keys, and may have come in elsewhere too.
    pub pending: i128,
    /// The amount that other writers hold.
    pub elsewhere: i128,
}

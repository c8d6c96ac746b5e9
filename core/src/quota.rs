//! Budgets, leases, sequences and limits: what has a bound.
//!
//! They are plain counters under keys that begin with [`RESERVED`](crate::RESERVED): merge, the wire, stores
//! and collection know nothing of them. Here are their keys, and where these are found.

pub(crate) mod account;
pub(crate) mod index;
pub(crate) mod period;
pub(crate) mod sequence;

/// Of what a member may run short: both are held and moved in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stock {
    /// Rights to spend.
    Rights,
    /// Room to mint, under a cap.
    Room,
    /// What a limit allows in a period; its name is that of the [period](crate::Period).
    Period,
}

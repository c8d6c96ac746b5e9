//! Budgets, leases, sequences and limits: what has a bound.
//!
//! They are plain counters under keys that begin with [`RESERVED`](crate::RESERVED): merge, the wire, stores
//! and collection know nothing of them. Here are their keys, and where these are found.

pub(crate) mod account;
pub(crate) mod index;
pub(crate) mod ticket;
pub(crate) mod window;

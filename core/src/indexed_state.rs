//! The state of a replica in this build: the [shards of a space](crate::state), with the index of keys that the
//! layers above need.
//!
//! With the feature `budgets`, the index finds the keys of `ledger`, as the state adds and removes them. A
//! program without that feature has the null object [`NoIndex`](crate::state::keys::NoIndex). The state itself
//! knows no key but those of plain counters, so the choice stands above both.

/// The index of keys in a program with budgets, leases, sequences and rate limits.
#[cfg(feature = "budgets")]
type Index = crate::ledger::index::QuotaIndex;
/// The null object in a program without them.
#[cfg(not(feature = "budgets"))]
type Index = crate::state::keys::NoIndex;

/// The state of a replica, with that index.
pub(crate) type State = crate::state::State<Index>;

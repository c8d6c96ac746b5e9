//! The layers of a build, chosen here: each is the real one, or a null object that costs nothing.
//! [`optional`](crate::optional) has the parts that a program may lack.
//!
//! This file is the one exception to the arrows between folders: it names the layers from which it chooses, and
//! every folder may name it. By it, and only by it, a replica meets its quota, which is a layer above.

/// The layer of budgets, leases, sequences and rate limits.
#[cfg(feature = "budgets")]
pub(crate) type Quota = crate::quota::Quota;
/// The null object in a program without budgets, leases, sequences and rate limits.
#[cfg(not(feature = "budgets"))]
pub(crate) type Quota = crate::replica::NoQuota;

/// The null objects in a program that is never a member: it remembers no keys.
#[cfg(not(feature = "members"))]
pub(crate) use crate::idempotency::none::{
    IdempotencyLog, KeyedMark, KeyedOps, KeyedScan, Known, Made,
};
/// The log of idempotency keys, and what marks and scans of it remember.
#[cfg(feature = "members")]
pub(crate) use crate::idempotency::{
    keyed::{KeyedMark, KeyedOps, KeyedScan, Known, Made},
    log::IdempotencyLog,
};

#[cfg(feature = "budgets")]
pub(crate) use crate::quota::{QuotaMut, QuotaPreview, QuotaRef, QuotaTransaction};

// The checks of peers of limited rights are traits of the machine, in `sync/rights.rs` and `sync/shares.rs`. A
// program that is never a member has none.
#[cfg(not(feature = "members"))]
impl crate::sync::scope::ScopeChecks for crate::sync::SyncMachine {
    type Scope = crate::sync::scope::NoScope;
}
#[cfg(not(feature = "members"))]
impl crate::sync::scope::WriterShares for crate::sync::SyncMachine {}

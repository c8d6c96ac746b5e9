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

#[cfg(feature = "budgets")]
pub(crate) use crate::quota::{QuotaMut, QuotaPreview, QuotaRef, QuotaTransaction};

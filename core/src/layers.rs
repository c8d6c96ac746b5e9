//! The layers of a build, chosen here and nowhere else: each is the real one, or a null object that costs
//! nothing. [`optional`] has the parts that a program may lack.

pub(crate) mod optional;

pub(crate) use optional::{Empty, GUESTS, GuestPart, MEMBERS, MemberPart, Optional};

/// The index by which the layers above find keys.
#[cfg(feature = "budgets")]
pub(crate) type Index = crate::ledger::index::QuotaIndex;
/// The index by which the layers above find keys.
#[cfg(not(feature = "budgets"))]
pub(crate) type Index = crate::state::keys::NoIndex;

/// The state of a replica, with that index.
pub(crate) type State = crate::state::State<Index>;

/// The layer of budgets, leases, sequences and rate limits.
#[cfg(feature = "budgets")]
pub(crate) type Quota = crate::quota::Quota;
/// The null object in a program without budgets, leases, sequences and rate limits.
#[cfg(not(feature = "budgets"))]
pub(crate) type Quota = crate::replica::NoQuota;

#[cfg(feature = "budgets")]
pub(crate) use crate::quota::{QuotaMut, QuotaPreview, QuotaRef, QuotaTransaction};

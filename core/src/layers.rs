//! The layers of a program, chosen here and nowhere else.

/// What the layers above find keys by.
#[cfg(feature = "budgets")]
pub(crate) type Index = crate::quota::index::QuotaIndex;
/// What the layers above find keys by.
#[cfg(not(feature = "budgets"))]
pub(crate) type Index = crate::state::keys::NoIndex;

/// The state of a replica, with that index.
pub(crate) type State = crate::state::State<Index>;

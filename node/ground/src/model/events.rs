//! The events of a space, for readers of event streams.

use super::{Absorption, Changes, ConfigurationRow, FaultReport, Position};
use serde::Serialize;
use std::sync::Arc;

/// An event for the readers of an event stream.
#[derive(Clone, Debug)]
pub enum News {
    /// These counters, budgets and sequences changed together. A reader of this event has received
    /// every change up to the position.
    Changed(Arc<Changes>, Position),
    /// A fault was found.
    Fault(Arc<FaultReport>),
    /// The node continues under another writer id.
    Renewed(Arc<Renewal>),
    /// The node rejoined under the writer id of the last `Renewed`.
    Returned(Arc<Comeback>),
    /// The space has these members from now on.
    Members(Arc<ConfigurationRow>),
    /// A writer was retired, and its successor has taken its totals over.
    Absorbed(Arc<Absorption>),
}

/// The node continues under another writer id in a space, because another process writes under the
/// earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Renewal {
    /// The earlier writer, as 32 hex digits.
    pub was: String,
    /// The present writer, as 32 hex digits.
    pub writer: String,
}

/// The node rejoined a space in which its writer had been retired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comeback {
    /// The present writer, as 32 hex digits.
    pub writer: String,
    /// How many transactions of the earlier writer were made again.
    pub again: usize,
    /// The first and the last clock of the earlier writer's transactions that may or may not count.
    /// They were sent, and no member can tell whether they arrived.
    pub unknown: Option<(u64, u64)>,
    /// How many resets, deletes and sets cancel less now than they had observed. The rest is part
    /// of totals that other writers have taken over.
    pub weaker: usize,
    /// How many transactions spent rights that this node does not have now. They do not count.
    pub refused: usize,
}

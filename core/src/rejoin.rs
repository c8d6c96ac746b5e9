//! The late return: how a replica that was given up, or that went on from too old a state, comes
//! back under a new writer with what was not taken over from it.
//!
//! In a closed space a replica keeps its own transactions until a member is known to hold them.
//! It comes back from a member's whole state, and makes again those that were not taken over.
//! Adds, sets and resets are made again exactly, and so is the cancelling of its own operations.
//! Of what a cancel saw of others, only what is still told apart can be cancelled now; the rest is
//! not, and is reported: never is more cancelled than was seen.

pub(crate) mod earlier;
pub(crate) mod journal;

use crate::closed::Closed;
use crate::message::journal::{Former, Journal};
use alloc::vec::Vec;

pub(crate) use earlier::OfFormer;
pub use journal::{Again, AgainOp, Returned};

/// Own transactions that no member is known to hold, of the present writer and of earlier ones.
#[derive(Clone, Default)]
pub(crate) struct Rejoin {
    pub(crate) journal: Closed<Journal>,
    pub(crate) former: Closed<Vec<Former>>,
}

//! Why a state was not merged.

use crate::error::Detail;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use core::fmt;

/// The transactions that a message builds on and that a replica lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The writer of the missing transactions.
    pub writer: WriterId,
    /// The clock that the message builds on.
    pub needed: u64,
    /// The clock up to which the replica has the writer's transactions.
    pub held: u64,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing {
            writer,
            needed,
            held,
        } = self;
        write!(
            f,
            "clock {needed} of writer {writer}, of which {held} is held here"
        )
    }
}

/// The reason why the state of another replica was not merged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeError {
    /// A message builds on something that this replica lacks.
    NotCovered(Detail<Box<Missing>>),
    /// A message has transactions of this replica's own writer that the replica never made.
    OwnClockAhead {
        /// The clock in the message.
        heard: Detail<u64>,
        /// This replica's own clock.
        own: Detail<u64>,
    },
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            MergeError::NotCovered(ref missing) => write!(f, "the message builds on {missing}"),
            MergeError::OwnClockAhead { heard, own } => write!(
                f,
                "a peer knows clock {heard} of this writer, which is at {own}: another process writes under its id"
            ),
        }
    }
}

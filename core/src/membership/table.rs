//! The writer table: what is known of each writer, and where collection stands.
//!
//! It is plain data. The other files of this folder own the rules.

use super::index::Index;
use super::stability::Prospect;
use crate::message::records::{Card, Configuration, Owner, Ruling};
use crate::state::slot::Stamp;
use crate::writer_id::WriterId;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A writer that is attached to this member, and what it has seen of the members' writers.
#[derive(Clone, Debug)]
pub(crate) struct Attached {
    pub(crate) writer: u32,
    pub(crate) seen: Vec<(u32, u64)>,
}

/// What is known of the writers of a closed space, and where collection stands.
#[derive(Clone, Debug)]
pub(crate) struct Roster {
    /// By local number.
    pub(crate) cards: Vec<Card>,
    /// Those of members' starts, of those that are over, and those that changed last.
    pub(crate) index: Index,
    /// The present configuration, and who said so.
    pub(crate) configuration: Option<(Stamp, Configuration)>,
    /// The newest generation of each owner that was forgotten, ascending by owner, and the stamp
    /// of its absorption.
    pub(crate) gone: Vec<(Owner, u64, Stamp)>,
    /// Ascending by writer.
    pub(crate) attached: Vec<Attached>,
    /// How many writers could not be absorbed the last time, because their totals did not fit.
    pub(crate) stuck: usize,
    /// Everything up to here, by local number, is stable.
    pub(crate) settled: Vec<u64>,
    /// The members' part, by local number, of what was stable when something was collected, here or
    /// before it came here. Whoever has not seen it can't be told the difference, only the whole.
    pub(crate) floor: Vec<u64>,
    /// What was held at an ack of this member's own, which others are to acknowledge.
    pub(crate) pending: Option<(u64, Vec<u64>)>,
    pub(crate) prospect: Option<Prospect>,
    /// Whether others have taken this writer in.
    pub(crate) established: bool,
    /// Whether this is a start of a member's that has not announced itself yet.
    pub(crate) early: bool,
    /// What was proposed here.
    pub(crate) proposal: Option<Ruling>,
    /// Whether that was put to the vote.
    pub(crate) asked: bool,
    /// Who is known to have taken in an incarnation whose place is not certain.
    pub(crate) vouched: Vec<(WriterId, u32)>,
    /// Whether the last collection left something that waits to be stable.
    pub(crate) waiting: bool,
    /// Forgotten writers with the last clock that was taken over, ascending by writer.
    pub(crate) returns: Vec<(WriterId, u64)>,
    /// They, the longest forgotten first.
    pub(crate) returned: VecDeque<WriterId>,
    /// How many there were in all.
    pub(crate) remembered: u64,
    /// Whether others were, or may have been, that are not remembered here.
    pub(crate) gaps: bool,
    /// Members' writers of which only a part may be acknowledged, and up to which clock, ascending by
    /// local number: of what comes after it the idempotency keys are not known here.
    pub(crate) held_back: Vec<(u32, u64)>,
}

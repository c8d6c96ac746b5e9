//! The writer table: what is known of each writer, and where collection stands.
//!
//! It is plain data. The other files of this folder own the rules.

use super::index::Index;
use super::place::Predecessor;
use super::stability::Prospect;
use crate::membership::writer_state::WriterState;
use crate::message::records::{Configuration, Owner, Ruling};
use crate::state::slot::Stamp;
use crate::writer_id::WriterId;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A writer that this member sponsors, and the clocks of the members' writers that it has seen.
#[derive(Clone, Debug)]
pub(crate) struct Sponsored {
    pub(crate) writer: u32,
    pub(crate) seen: Vec<(u32, u64)>,
}

/// The records about the writers of a space with members, and the state of collection.
#[derive(Clone, Debug)]
pub(crate) struct WriterTable {
    /// The writer states, by local number.
    pub(crate) writer_states: Vec<WriterState>,
    /// Lists of numbers: members' starts, writers that are over, and writers that changed last.
    pub(crate) index: Index,
    /// The present configuration, with the stamp of its record.
    pub(crate) configuration: Option<(Stamp, Configuration)>,
    /// The newest generation of each owner that was forgotten, ascending by owner, and the stamp
    /// of its absorption.
    pub(crate) gone: Vec<(Owner, u64, Stamp)>,
    /// The writers that this member sponsors, ascending.
    pub(crate) sponsored: Vec<Sponsored>,
    /// How many writers the last retirement skipped, because their totals did not fit.
    pub(crate) stuck: usize,
    /// Everything up to here, by local number, is stable.
    pub(crate) stable: Vec<u64>,
    /// The clocks of members' writers at the last collection, by local number, here or before the state came
    /// here. A replica that has not seen them cannot be sent the difference, but only the whole state. A
    /// writer's [horizon](super::Membership::horizon) is the greater of this clock and the stable one:
    /// replicas to which this one reported stable clocks may have collected up to them.
    pub(crate) collected: Vec<u64>,
    /// The request for acknowledgements that is under way: the own clock of its transaction, and the clocks
    /// that this member had then.
    pub(crate) pending: Option<(u64, Vec<u64>)>,
    pub(crate) prospect: Option<Prospect>,
    /// Whether other members have admitted this writer.
    pub(crate) established: bool,
    /// Whether this is a member's start that has not announced itself yet.
    pub(crate) early: bool,
    /// Whether this writer is over, and the replica goes on under another one as soon as it can.
    pub(crate) over: bool,
    /// The start that this one follows in its place, with the clock up to which the store had it.
    pub(crate) follows: Option<Predecessor>,
    /// How many other members are linked, as the sync machine last said.
    pub(crate) linked: usize,
    /// The members' clocks that pages have which no member has admitted, as the sync machine last said. `None` if
    /// there are no such pages.
    pub(crate) pages: Option<Vec<(WriterId, u64)>>,
    /// The other members' writers that know of this start, and of which this replica had everything then.
    pub(crate) told: Vec<WriterId>,
    /// The number that this start votes on, from its first step on, and whether it followed the one before then.
    pub(crate) votes_on: Option<(Option<(u64, u64)>, bool)>,
    /// The ruling that was proposed here.
    pub(crate) proposal: Option<Ruling>,
    /// Whether that ruling was put to the vote.
    pub(crate) asked: bool,
    /// Pairs of a replica's writer and an incarnation. The replica is known to have accepted the incarnation,
    /// whose place is not certain.
    pub(crate) vouched: Vec<(WriterId, u32)>,
    /// Whether the last collection left something that waits to be stable.
    pub(crate) waiting: bool,
    /// Forgotten writers with the last clock that was taken over, ascending by writer.
    pub(crate) returns: Vec<(WriterId, u64)>,
    /// The same writers. The writer that was forgotten first comes first.
    pub(crate) returned: VecDeque<WriterId>,
    /// How many writers were ever remembered, those included that were dropped since.
    pub(crate) remembered: u64,
    /// Whether this replica does not remember some forgotten writers, or may not.
    pub(crate) gaps: bool,
    /// Members' writers that may be acknowledged only in part, each with its last clock, ascending by local
    /// number. The idempotency keys of later transactions are missing here.
    pub(crate) held_back: Vec<(u32, u64)>,
}

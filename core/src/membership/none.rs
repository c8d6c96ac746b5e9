//! The empty writer table: of an open space, and of a program without members.

use super::index::Index;
use super::table::WriterTable;
use crate::membership::writer_state::WriterState;
use crate::optional::Empty;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

impl Empty for WriterTable {
    const EMPTY: WriterTable = WriterTable {
        writer_states: Vec::new(),
        index: Index::EMPTY,
        configuration: None,
        gone: Vec::new(),
        sponsored: Vec::new(),
        stuck: 0,
        stable: Vec::new(),
        collected: Vec::new(),
        pending: None,
        prospect: None,
        established: false,
        early: false,
        over: false,
        follows: None,
        linked: 0,
        pages: None,
        told: Vec::new(),
        votes_on: None,
        proposal: None,
        asked: false,
        vouched: Vec::new(),
        waiting: false,
        returns: Vec::new(),
        gaps: false,
        returned: VecDeque::new(),
        remembered: 0,
        held_back: Vec::new(),
    };
    const NOTHING: &'static WriterTable = &WriterTable::EMPTY;
}

impl WriterTable {
    /// The table of an open space of one writer.
    pub(crate) fn new() -> WriterTable {
        WriterTable {
            writer_states: Vec::from([WriterState::default()]),
            ..WriterTable::EMPTY
        }
    }
}

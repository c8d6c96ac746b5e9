//! What is read in place of a [`Roster`] where there are no members.

use super::members::Roster;
use crate::closed::Empty;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

impl Empty for Roster {
    const EMPTY: Roster = Roster {
        cards: Vec::new(),
        configuration: None,
        gone: Vec::new(),
        attached: Vec::new(),
        settled: Vec::new(),
        floor: Vec::new(),
        pending: None,
        free: Vec::new(),
        assigned: Vec::new(),
        established: false,
        proposal: None,
        asked: false,
        vouched: Vec::new(),
        waiting: false,
        returns: Vec::new(),
        returned: VecDeque::new(),
        remembered: 0,
    };
    const NOTHING: &'static Roster = &Roster::EMPTY;
}

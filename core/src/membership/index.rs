//! The index of the writer table: members' starts, ended writers, and the last changes, listed apart.
//!
//! Most writers of a space are guests that go on, and nothing is to be done about them. So a round of duties
//! looks at the lists, and not at every guest. Debug builds compare the lists with the whole table.

use super::table::{Sponsored, WriterTable};
use crate::membership::writer_state::WriterState;
use crate::optional::MEMBERS;
use crate::recent::Recent;
use alloc::vec::Vec;

/// Local numbers, listed by the state of their writers.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    /// The numbers of members' starts, ascending.
    starts: Vec<u32>,
    /// The numbers of writers that are over, ascending.
    ended: Vec<u32>,
    /// The writers about which records came last.
    said: Recent,
}

impl Index {
    pub(crate) const EMPTY: Index = Index {
        starts: Vec::new(),
        ended: Vec::new(),
        said: Recent::EMPTY,
    };
}

/// Adds a number to an ascending list, or removes it.
fn set(numbers: &mut Vec<u32>, number: u32, listed: bool) {
    match (numbers.binary_search(&number), listed) {
        (Err(at), true) => numbers.insert(at, number),
        (Ok(at), false) => {
            numbers.remove(at);
        }
        _ => {}
    }
}

impl WriterTable {
    /// Notes that the records about a writer changed in this epoch.
    pub(crate) fn changed(&mut self, number: u32, epoch: u64) {
        if !MEMBERS {
            return;
        }
        let writer_state = &self.writer_states[number as usize];
        let index = &mut self.index;
        set(&mut index.starts, number, writer_state.announce.is_some());
        set(&mut index.ended, number, writer_state.is_over());
        index.said.note(number, epoch);
    }

    /// Returns the writers about which a record came in this epoch or later, by local number, ascending.
    /// Returns all writers if the index does not reach back that far.
    pub(crate) fn changed_since(&self, epoch: u64) -> Vec<u32> {
        let said = self.index.said.since(epoch).filter(|_| MEMBERS);
        said.unwrap_or_else(|| (0..self.writer_states.len() as u32).collect())
    }

    /// The members' starts in the table, ascending.
    pub(crate) fn starts(&self) -> impl Iterator<Item = u32> {
        self.listed(&self.index.starts, |writer_state| {
            writer_state.announce.is_some()
        })
    }

    /// The writers that are over, ascending.
    pub(crate) fn ended(&self) -> impl Iterator<Item = u32> {
        self.listed(&self.index.ended, WriterState::is_over)
    }

    #[cfg(all(feature = "members", not(test)))]
    fn listed<'a>(
        &'a self,
        listed: &'a [u32],
        is: fn(&WriterState) -> bool,
    ) -> impl Iterator<Item = u32> + 'a {
        debug_assert!({
            let writer_states = self.writer_states.iter().zip(0u32..);
            let all = writer_states.filter(|it| is(it.0)).map(|it| it.1);
            all.eq(listed.iter().copied())
        });
        listed.iter().copied()
    }

    /// A guest has few writers, and its code is downloaded. Unit tests change the table by hand.
    #[cfg(any(not(feature = "members"), test))]
    fn listed<'a>(
        &'a self,
        _: &'a [u32],
        is: fn(&WriterState) -> bool,
    ) -> impl Iterator<Item = u32> + 'a {
        let writer_states = self.writer_states.iter().zip(0u32..);
        writer_states.filter(move |it| is(it.0)).map(|it| it.1)
    }

    /// Returns the clock up to which a writer may be acknowledged, if that is not everything that the replica
    /// has.
    pub(crate) fn acknowledgeable(&self, writer: u32) -> Option<u64> {
        let held_back = &self.held_back;
        let at = held_back.binary_search_by_key(&writer, |it| it.0).ok()?;
        Some(held_back[at].1)
    }

    /// Limits the acknowledgement of a writer to this clock, unless it is limited already.
    pub(crate) fn hold_back(&mut self, writer: u32, upto: u64) {
        if let Err(at) = self.held_back.binary_search_by_key(&writer, |it| it.0) {
            self.held_back.insert(at, (writer, upto));
        }
    }

    /// Lets everything of a writer be acknowledged.
    pub(crate) fn stop_holding_back(&mut self, writer: u32) {
        self.held_back.retain(|it| it.0 != writer);
    }

    /// The clocks that a sponsored writer has reported as seen.
    pub(crate) fn reported_by(&self, writer: u32) -> Option<&[(u32, u64)]> {
        let of = |it: &Sponsored| it.writer;
        let at = self.sponsored.binary_search_by_key(&writer, of).ok()?;
        Some(&self.sponsored[at].seen)
    }

    /// Notes the clocks that a sponsored writer has seen.
    pub(crate) fn sponsor(&mut self, writer: u32, seen: Vec<(u32, u64)>) {
        match self.sponsored.binary_search_by_key(&writer, |it| it.writer) {
            Ok(at) => self.sponsored[at].seen = seen,
            Err(at) => self.sponsored.insert(at, Sponsored { writer, seen }),
        }
    }
}

#[cfg(test)]
mod tests;

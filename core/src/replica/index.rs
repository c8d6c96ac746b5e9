//! Where the few writers are found that matter to a question, among all those that are attached.
//!
//! Most writers of a space are guests that go on: nothing is to be done about them. So the members'
//! starts and the writers that are over are listed apart, and those of which something was said last.

use super::members::{Attached, Roster};
use crate::DUTIES;
use crate::roster::Card;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// So many of the last changes are known. Who asks for more looks at all writers.
const CHANGES_MAX: usize = 1_024;

/// Local numbers, by what is known of their writers.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// Of members' starts, ascending.
    starts: Vec<u32>,
    /// Of writers that are over, ascending.
    ended: Vec<u32>,
    /// Of those of which something was said last, with the epoch of each change, the last one last.
    changes: VecDeque<(u64, u32)>,
    /// Up to this epoch changes may be missing.
    missing: u64,
}

impl Index {
    pub(super) const EMPTY: Index = Index {
        starts: Vec::new(),
        ended: Vec::new(),
        changes: VecDeque::new(),
        missing: 0,
    };
}

/// Puts a number into an ascending list, or takes it out.
fn set(numbers: &mut Vec<u32>, number: u32, listed: bool) {
    match (numbers.binary_search(&number), listed) {
        (Err(at), true) => numbers.insert(at, number),
        (Ok(at), false) => {
            numbers.remove(at);
        }
        _ => {}
    }
}

impl Roster {
    /// Something of a writer is known that was not, or not any more, in this epoch.
    pub(super) fn changed(&mut self, number: u32, epoch: u64) {
        if !DUTIES {
            return;
        }
        let card = &self.cards[number as usize];
        let index = &mut self.index;
        set(&mut index.starts, number, card.announce.is_some());
        set(&mut index.ended, number, card.is_over());
        if index.changes.back() != Some(&(epoch, number)) {
            index.changes.push_back((epoch, number));
        }
        if index.changes.len() > CHANGES_MAX
            && let Some((epoch, _)) = index.changes.pop_front()
        {
            index.missing = epoch;
        }
    }

    /// The writers of which something was said in this epoch or later, by local number, ascending; all
    /// if that is not known any more.
    pub(super) fn changed_since(&self, epoch: u64) -> Vec<u32> {
        if !DUTIES || epoch <= self.index.missing {
            return (0..self.cards.len() as u32).collect();
        }
        let changes = self.index.changes.iter().rev();
        let newer = changes.take_while(|it| it.0 >= epoch);
        let mut newer: Vec<u32> = newer.map(|it| it.1).collect();
        newer.sort_unstable();
        newer.dedup();
        newer
    }

    /// The members' starts that are known, ascending.
    pub(super) fn starts(&self) -> impl Iterator<Item = u32> {
        self.listed(&self.index.starts, |card| card.announce.is_some())
    }

    /// The writers that are over, ascending.
    pub(super) fn ended(&self) -> impl Iterator<Item = u32> {
        self.listed(&self.index.ended, Card::is_over)
    }

    #[cfg(all(feature = "members", not(test)))]
    fn listed<'a>(
        &'a self,
        listed: &'a [u32],
        is: fn(&Card) -> bool,
    ) -> impl Iterator<Item = u32> + 'a {
        debug_assert!({
            let cards = self.cards.iter().zip(0u32..);
            let all = cards.filter(|it| is(it.0)).map(|it| it.1);
            all.eq(listed.iter().copied())
        });
        listed.iter().copied()
    }

    /// A guest knows few writers, and is downloaded. Unit tests change by hand what is known.
    #[cfg(any(not(feature = "members"), test))]
    fn listed<'a>(&'a self, _: &'a [u32], is: fn(&Card) -> bool) -> impl Iterator<Item = u32> + 'a {
        let cards = self.cards.iter().zip(0u32..);
        cards.filter(move |it| is(it.0)).map(|it| it.1)
    }

    /// What a writer that is attached here has told that it has seen.
    pub(super) fn told_by(&self, writer: u32) -> Option<&[(u32, u64)]> {
        let of = |it: &Attached| it.writer;
        let at = self.attached.binary_search_by_key(&writer, of).ok()?;
        Some(&self.attached[at].seen)
    }

    /// Notes what a writer that is attached here has seen.
    pub(super) fn attach(&mut self, writer: u32, seen: Vec<(u32, u64)>) {
        match self.attached.binary_search_by_key(&writer, |it| it.writer) {
            Ok(at) => self.attached[at].seen = seen,
            Err(at) => self.attached.insert(at, Attached { writer, seen }),
        }
    }
}

#[cfg(test)]
mod tests;

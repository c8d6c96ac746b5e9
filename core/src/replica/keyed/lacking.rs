//! Keyed operations that are missing of what is held here: guests pass transactions on without keys.
//!
//! A member acknowledges a writer only as far as it knows the writer's keyed operations. What it lacks
//! it asks other members for; if the writer is over and nobody who counts knows more, it gives up.

use crate::replica::Replica;
use crate::state::delta::{Entry, Message};
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use crate::state::vector::VersionVector;
use alloc::vec::Vec;

impl Replica {
    /// Tells in a message of which writers keyed operations may be missing.
    pub(in crate::replica) fn tell_lacking(&self, message: &mut Message) {
        for writer in self.keyed.lacking.keys() {
            let id = &self.state.writers[*writer as usize];
            if let Ok(at) = message.writers.binary_search_by_key(id, |it| it.writer) {
                message.lacking.push(at as u32);
            }
        }
        message.lacking.sort_unstable();
    }

    /// Notes up to where the keyed operations of a writer are known once this part of a message is
    /// taken in. Only members take keyed operations so that they are known elsewhere.
    pub(in crate::replica) fn note_keys_of(&mut self, writer: u32, entry: &Entry, lacking: bool) {
        let held = self.state.clocks[writer as usize];
        let known = &mut self.keyed.lacking;
        if lacking {
            let announced = self.roster.cards[writer as usize].announce.is_some();
            if announced && entry.hi > held {
                known.entry(writer).or_insert(held);
            }
        } else if let Some(upto) = known.get_mut(&writer)
            && entry.lo <= *upto
        {
            *upto = entry.hi.max(*upto);
            if *upto >= held {
                known.remove(&writer);
            }
        }
    }

    /// Whether there may be keyed operations of what is held here that are not known here.
    pub fn lacks_keys(&self) -> bool {
        !self.keyed.lacking.is_empty()
    }

    /// Whether there may be keyed operations of a writer that are not known here.
    pub(in crate::replica) fn lacks_keys_of(&self, writer: u32) -> bool {
        self.keyed.lacking.contains_key(&writer)
    }

    /// Up to which clock a writer is held with its keyed operations.
    pub(in crate::replica) fn held_with_keys(&self, writer: u32) -> u64 {
        let held = self.state.clocks[writer as usize];
        self.keyed
            .lacking
            .get(&writer)
            .map_or(held, |upto| held.min(*upto))
    }

    /// What a node is to be asked for: all but what is held here with its keyed operations.
    pub fn vector_with_keys(&self) -> VersionVector {
        let clocks = self.state.numbers.iter();
        let clocks = clocks.map(|(writer, number)| (writer, self.held_with_keys(number)));
        VersionVector::from_sorted(clocks.filter(|it| it.1 > 0).collect())
    }

    /// The writers that are over, and up to where they are held, of which keyed operations may be
    /// missing here.
    fn lacking_for_good(&self) -> Vec<(u32, u64)> {
        let lacking = self.keyed.lacking.keys().copied();
        let over = lacking.filter(|it| self.roster.cards[*it as usize].is_over());
        over.map(|it| (it, self.state.clocks[it as usize]))
            .collect()
    }

    /// Whether this replica has to ask, by an acknowledgement of its own, who knows the keyed
    /// operations of writers that are over.
    pub(in crate::replica) fn asks_for_keys(&self) -> bool {
        self.keyed.asked.is_none() && !self.lacking_for_good().is_empty()
    }

    /// Notes that this is asked by the own transaction of this clock.
    pub(in crate::replica) fn ask_for_keys(&mut self, clock: u64) {
        self.keyed.asked = Some((clock, self.lacking_for_good()));
    }

    /// The clock of the transaction that asks for keyed operations, 0 for none.
    pub(in crate::replica) fn asked_for_keys(&self) -> u64 {
        self.keyed.asked.as_ref().map_or(0, |asked| asked.0)
    }

    /// Gives up the keyed operations that are missing of writers that are over, if nobody who counts
    /// knows more of them. That is certain once all have acknowledged a transaction that was made here
    /// when the writer was over: they know that as well, and hear no more of it than one of them did.
    /// Whoever knows the most gives up alone, and tells the others.
    pub(in crate::replica) fn give_up_keys(&mut self) {
        let Some(asked) = &self.keyed.asked else {
            return;
        };
        let quorum = self.quorum();
        let (writer, clock) = (OWN, asked.0);
        if !self.acknowledged(&quorum, Stamp { writer, clock }) {
            return;
        }
        for (writer, clock) in self.keyed.asked.take().into_iter().flat_map(|it| it.1) {
            let upto = self.held_with_keys(writer);
            let knows = |member: &u32| self.seen_by(&quorum, *member, writer) > upto;
            if self.state.clocks[writer as usize] == clock && !quorum.members.iter().any(knows) {
                self.keyed.lacking.remove(&writer);
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Going on under another writer id, because another process writes under the present one:
//! [forks](crate::forks).

use super::Replica;
use crate::forks::{Contents, Fault};
#[cfg(feature = "members")]
use crate::message::Message;
use crate::state::page::{Column, OWN};
use crate::writer_id::WriterId;
use alloc::vec::Vec;

impl Replica {
    /// A digest of everything that is held here: equal at replicas with equal version vectors,
    /// unless a writer was forked. Only what changed since the last call is looked at. 0 in a program
    /// built without them.
    pub fn content_digest(&mut self) -> u64 {
        let closed = self.membership.configuration().is_some();
        self.forks.content_digest(&mut self.state, closed)
    }

    /// The contents of each writer, ascending by writer. Looks at everything that is held.
    pub fn contents(&self) -> Vec<Contents> {
        let closed = self.membership.configuration().is_some();
        self.forks.contents(&self.state, closed)
    }

    /// Goes on under another writer id, freshly [minted](WriterId::mint), as somebody else writes
    /// under the present one. What was written stays under the old id, which becomes one writer
    /// among others. False, with nothing done, if the id is known already, or in a space with
    /// members, who decide such things together.
    pub fn renew(&mut self, writer: WriterId) -> bool {
        if self.state.numbers.get(&writer).is_some() || self.membership.configuration().is_some() {
            return false;
        }
        self.state.void_walks();
        let old = self.writer();
        let number = self.state.assign(old);
        self.membership.fit(self.state.writers.len());
        #[cfg(feature = "members")]
        self.idempotency.renumber_own_keyed(number);
        self.state.numbers.remove(&old);
        self.state.numbers.insert(old, number);
        self.state.numbers.insert(writer, OWN);
        self.state.writers[OWN as usize] = writer;
        // A mark that knows the former owner of the number is void.
        self.state.assigned[OWN as usize] = self.state.epoch;
        self.state.clocks[number as usize] = core::mem::take(&mut self.state.clocks[OWN as usize]);
        self.state.all_moved();
        // The new writer's first transaction builds on all that is here.
        self.state.merged_at.fill(0);
        for page in &mut self.state.pages {
            if page.own.present != 0 {
                let mut column = core::mem::replace(&mut page.own, Column::new(OWN));
                column.writer = number;
                page.others.push(column);
            }
            if let Some(odd) = &mut page.odd {
                odd.renumber_own(number);
            }
        }
        true
    }

    /// The writers of which something came that a clock held here had claimed, since this was last
    /// called.
    pub(crate) fn take_forked(&mut self) -> Vec<WriterId> {
        self.forks.take_forked()
    }

    /// Notes that two processes write under the own id: a peer knows this clock of it.
    pub(crate) fn doubt_self(&mut self, clock: u64) {
        self.forks.doubt_self(&self.state, clock)
    }

    /// Lets what changed of these writers be stored although its clocks were stored already; in a
    /// page what changed of any.
    pub(crate) fn rework(&mut self, writers: &[WriterId]) {
        self.state.rework(writers)
    }

    /// The writers of which a message has something newer, and up to which clock each is held.
    #[cfg(feature = "members")]
    pub(crate) fn raised(&self, message: &Message) -> Vec<(WriterId, u64)> {
        self.state.raised(&message.delta)
    }

    /// Notes where the rows of a writer in a message, all of clocks that are held, are not those that are
    /// held. A row that is not here may have been collected.
    #[cfg(feature = "members")]
    pub(crate) fn compare_rows(&mut self, message: &Message, writer: &WriterId) {
        self.forks.compare_rows(&self.state, message, writer)
    }

    /// Notes a fault. One that may show again and again is noted once a writer.
    pub(crate) fn note_fault(&mut self, fault: impl FnOnce() -> Fault) {
        self.forks.note_fault(fault)
    }

    /// The faults that were noted since this was last called, each kind once a writer, also those that are
    /// not kept for ever.
    #[cfg(feature = "members")]
    pub(crate) fn take_fresh_faults(&mut self) -> Vec<Fault> {
        self.forks.take_fresh_faults()
    }
}

#[cfg(test)]
mod tests;

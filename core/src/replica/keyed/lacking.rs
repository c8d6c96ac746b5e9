//! Keyed operations that are missing of what is held here: guests pass transactions on without keys.
//!
//! A member acknowledges a writer only as far as it knows the writer's keyed operations. What it lacks
//! it asks other members for; if the writer is over and nobody who counts knows more, it gives up.

use crate::replica::Replica;
use crate::state::page::OWN;
use crate::state::slot::Stamp;

impl Replica {
    /// Whether this replica has to ask, by an acknowledgement of its own, who knows the keyed
    /// operations of writers that are over.
    pub(in crate::replica) fn asks_for_keys(&self) -> bool {
        self.keyed.asked.is_none() && !self.membership.lacking_for_good(&self.state).is_empty()
    }

    /// Notes that this is asked by the own transaction of this clock.
    pub(in crate::replica) fn ask_for_keys(&mut self, clock: u64) {
        self.keyed.asked = Some((clock, self.membership.lacking_for_good(&self.state)));
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
        let quorum = self.membership.quorum(&self.state);
        let (writer, clock) = (OWN, asked.0);
        if !self
            .membership
            .acknowledged(&quorum, Stamp { writer, clock })
        {
            return;
        }
        for (writer, clock) in self.keyed.asked.take().into_iter().flat_map(|it| it.1) {
            let upto = self.membership.held_with_keys(&self.state, writer);
            let knows = |member: &u32| self.membership.seen_by(&quorum, *member, writer) > upto;
            if self.state.clocks[writer as usize] == clock && !quorum.members.iter().any(knows) {
                self.membership.table.stop_holding_back(writer);
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Key gaps: transactions that are held here without their keys, because guests pass them on without.
//!
//! A member acknowledges a writer only as far as it knows the writer's keys. It pulls the rest from other
//! members. If the writer is over, its keys may be gone with its disk. Then the member makes a transaction, and
//! waits until all who count have acknowledged it. If none of them knows more, nobody ever will, and the
//! member gives the gap up.

use super::IdempotencyLog;
use crate::layers::State;
use crate::membership::Membership;
use crate::state::page::OWN;
use crate::state::slot::Stamp;

impl IdempotencyLog {
    /// Whether this replica has to ask, by an acknowledgement of its own, who knows the keyed
    /// operations of writers that are over.
    pub(crate) fn asks_for_keys(&self, state: &State, members: &Membership) -> bool {
        self.asked.is_none() && !members.lacking_for_good(state).is_empty()
    }

    /// Notes that this is asked by the own transaction of this clock.
    pub(crate) fn ask_for_keys(&mut self, state: &State, members: &Membership, clock: u64) {
        self.asked = Some((clock, members.lacking_for_good(state)));
    }

    /// The clock of the transaction that asks for keyed operations, 0 for none.
    pub(crate) fn asked_for_keys(&self) -> u64 {
        self.asked.as_ref().map_or(0, |asked| asked.0)
    }

    /// Gives up the keyed operations that are missing of writers that are over, if nobody who counts
    /// knows more of them. That is certain once all have acknowledged a transaction that was made here
    /// when the writer was over: they know that as well, and hear no more of it than one of them did.
    /// Whoever knows the most gives up alone, and tells the others.
    pub(crate) fn give_up_keys(&mut self, state: &State, members: &mut Membership) {
        let Some(asked) = &self.asked else {
            return;
        };
        let quorum = members.quorum(state);
        let (writer, clock) = (OWN, asked.0);
        if !members.acknowledged(&quorum, Stamp { writer, clock }) {
            return;
        }
        for (writer, clock) in self.asked.take().into_iter().flat_map(|it| it.1) {
            let upto = members.held_with_keys(state, writer);
            let knows = |member: &u32| members.seen_by(&quorum, *member, writer) > upto;
            if state.clocks[writer as usize] == clock && !quorum.members.iter().any(knows) {
                members.table.stop_holding_back(writer);
            }
        }
    }
}

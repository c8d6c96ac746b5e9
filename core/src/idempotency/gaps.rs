//! Key gaps: transactions that are held here without their keys, because guests pass them on without.
//!
//! A member acknowledges a writer only as far as it has the writer's keys. It pulls the rest from other
//! members. If the writer is over, its keys may be gone with its disk. Then the member makes a transaction,
//! and waits until all counted members have acknowledged it. If no member has more keys, they are lost, and
//! the member gives the gap up.

use super::log::IdempotencyLog;
use crate::indexed_state::State;
use crate::membership::Membership;
use crate::state::page::OWN;
use crate::state::slot::Stamp;

impl IdempotencyLog {
    /// Whether this replica has to ask which members have the missing keyed operations of writers that are
    /// over. It asks by an acknowledgement of its own.
    pub(crate) fn asks_for_keys(&self, state: &State, members: &Membership) -> bool {
        self.asked.is_none() && !members.lasting_key_gaps(state).is_empty()
    }

    /// Records that the own transaction of this clock asks for them.
    pub(crate) fn ask_for_keys(&mut self, state: &State, members: &Membership, clock: u64) {
        self.asked = Some((clock, members.lasting_key_gaps(state)));
    }

    /// The clock of the transaction that asks for keyed operations, or 0 if none does.
    pub(crate) fn asked_for_keys(&self) -> u64 {
        self.asked.as_ref().map_or(0, |asked| asked.0)
    }

    /// Gives up the missing keyed operations of writers that are over, if no counted member has more of them.
    ///
    /// This is certain once all members have acknowledged a transaction that was made here after the writers
    /// were over. A member that acknowledges it knows that they are over, and receives no more than one of
    /// them had. The member with the most keys gives up alone, and informs the others.
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
            let upto = members.clock_with_keys(state, writer);
            let knows = |member: &u32| members.seen_by(&quorum, *member, writer) > upto;
            if state.clock_at(writer) == clock && !quorum.members.iter().any(knows) {
                members.close_gap(writer);
            }
        }
    }
}

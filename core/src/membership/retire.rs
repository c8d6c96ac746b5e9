//! Retirement: which writer takes over from one that is gone.
//!
//! One writer alone may take over, so no total is ever counted twice: the successor that the leave or the
//! fence names. If that one was retired itself, its own successor may. (`replica/absorb.rs` does the work.) A
//! successor that was only fenced may have taken over already. So nobody takes its place before that is known.
//!
//! A retirement moves an amount and changes no value: [`Moved`](crate::state::slot::Moved) notes what the
//! successor's total took over, and a read subtracts it from what the retired slot comes to.

use super::Membership;
use crate::indexed_state::State;
use crate::membership::writer_state::WriterState;
use crate::message::records::{Admit, Fence, SUCCESSORS_MAX, Statement};
use crate::optional::Optional;
use crate::sort::sort;
use crate::state::counter;
use crate::state::page::OWN;
use crate::state::slot::Stamp;

impl Membership {
    /// Declares an earlier writer of this owner dead with the transaction of this clock. This writer is the
    /// successor. A writer that no member has admitted is admitted in the same transaction.
    pub(crate) fn end_earlier(&mut self, state: &State, writer: u32, clock: u64) {
        let by = Stamp { writer: OWN, clock };
        let writer_state = &self.table.writer_states[writer as usize];
        if writer == OWN || writer_state.is_over() {
            return;
        }
        if writer_state.intro.is_none() && writer_state.announce.is_none() {
            self.note(state, writer, Statement::Admit(Admit { turn: 0, by }));
        }
        let fence = Fence {
            turn: 0,
            by,
            successor: OWN,
        };
        self.note(state, writer, Statement::Fence(fence));
    }

    /// Returns the only writer that may absorb a writer. It is the successor, or the writer that absorbed the
    /// successor. A successor that was only declared dead may still have absorbed the writer itself.
    pub(crate) fn absorber_of(&self, writer_state: &WriterState) -> Option<u32> {
        let mut at = writer_state.successor()?;
        for _ in 0..SUCCESSORS_MAX {
            match self.table.writer_states[at as usize].retired {
                Some(retired) => at = retired.to.writer,
                None => return Some(at),
            }
        }
        None
    }

    /// Notes how many writers a retirement skipped, because their totals did not fit.
    pub(crate) fn note_stuck(&mut self, writers: usize) {
        self.table.update(|it| it.stuck = writers);
    }

    /// Drops the slots of writers that were absorbed without these slots, because nothing survived in them.
    pub(crate) fn drop_unmoved(&mut self, state: &mut State, writers: &[u32]) {
        if writers.is_empty() {
            return;
        }
        let mut writers = writers.to_vec();
        sort(&mut writers);
        let gone = |writer: u32| writers.binary_search(&writer).is_ok();
        for key_id in state.slots_of(&writers) {
            let mut slots = state.slots(key_id);
            slots.retain(|slot| slot.side.moved.is_some() || !gone(slot.writer()));
            counter::normalize(&mut slots);
            state.put_slots(key_id, slots);
            state.forget_unused(key_id);
        }
    }
}

//! Missing idempotency keys: guests pass transactions on without their keys.
//!
//! A member acknowledges a writer only as far as it knows the writer's keys. The rest is a *key gap*, which
//! the member fills by a pull from other members. [`idempotency::gaps`](crate::idempotency) decides when a
//! gap is given up.

use super::Membership;
use super::admission::Forgotten;
use crate::indexed_state::State;
use crate::message::Message;
use crate::optional::{GUESTS, MEMBERS, Optional};
use crate::sort::sort;
use crate::state::delta::Entry;
use crate::state::vector::VersionVector;
#[cfg(feature = "members")]
use alloc::vec::Vec;

impl Membership {
    /// Notes in a message of which writers the sender may lack keyed operations.
    pub(crate) fn add_key_gaps(&self, state: &State, message: &mut Message) {
        if !MEMBERS {
            return;
        }
        for (writer, _) in &self.table.held_back {
            let id = &state.id(*writer);
            if let Ok(at) = message
                .delta
                .writers
                .binary_search_by_key(id, |it| it.writer)
            {
                message.key_gaps.update(|it| it.push(at as u32));
            }
        }
        message.key_gaps.update(|it| sort(it));
    }

    /// Makes the joined part of a message visible. It moves the version vector up to the message's clocks,
    /// and notes the key gaps that each writer has then.
    #[inline(always)]
    pub(crate) fn advance(&mut self, state: &mut State, message: &Message, forgotten: &Forgotten) {
        let lacks_all = message.without_keys && message.key_gaps.is_empty();
        for (at, entry) in message.delta.writers.iter().enumerate() {
            if GUESTS && forgotten.contains(&at) {
                continue;
            }
            let number = self.number(state, entry.writer);
            if message.is_closed() {
                let has_gap = lacks_all || message.key_gaps.contains(&(at as u32));
                self.note_keys_of(state, number, entry, has_gap);
            }
            state.advance(number as usize, entry.hi);
        }
    }

    /// Updates the key gap of a writer for a part of a message that is about to be merged.
    ///
    /// Only members' writers have key gaps, because only members make keyed operations that other replicas
    /// receive.
    pub(crate) fn note_keys_of(
        &mut self,
        state: &State,
        writer: u32,
        entry: &Entry,
        has_gap: bool,
    ) {
        let held = state.clock_at(writer);
        if !MEMBERS {
            return;
        }
        if has_gap {
            let announced = self.table.writer_states[writer as usize].announce.is_some();
            if announced && entry.hi > held {
                self.table.update(|it| it.hold_back(writer, held));
            }
        } else if let Some(upto) = self.table.acknowledgeable(writer)
            && entry.lo <= upto
        {
            let upto = entry.hi.max(upto);
            self.table.update(|it| it.stop_holding_back(writer));
            if upto < held {
                self.table.update(|it| it.hold_back(writer, upto));
            }
        }
    }

    /// Lets each gap of a whole state begin no earlier than what was collected, if the sender had the keys of that.
    /// All members had acknowledged it, with its keys. A pull that asks for it brings the whole state, each time. A
    /// guest's state has no keys, so a start that takes it has to ask a member once.
    pub(crate) fn raise_gaps(&mut self, state: &State, message: &Message) {
        if !MEMBERS || self.table.held_back.is_empty() || message.without_keys {
            return;
        }
        let mut gaps = self.table.held_back.clone();
        gaps.retain_mut(|(writer, upto)| {
            *upto = self.horizon(*writer).max(*upto);
            *upto < state.clock_at(*writer)
        });
        self.table.update(|it| it.held_back = gaps);
    }

    /// Whether keys of what was collected are missing here. Then a whole state says that keys are missing from the
    /// begin on, because it can't say where gaps begin.
    pub(crate) fn lacks_collected_keys(&self) -> bool {
        let mut gaps = self.table.held_back.iter();
        MEMBERS && gaps.any(|(writer, upto)| *upto < self.horizon(*writer))
    }

    /// Closes the gaps of writers that have none by a record of the own store. The gap may have been closed in
    /// parts, and a record can't say how far a part went.
    pub(crate) fn close_stored_gaps(&mut self, state: &State, record: &Message) {
        if !MEMBERS || !record.is_closed() || record.without_keys {
            return;
        }
        for (at, entry) in record.delta.writers.iter().enumerate() {
            if let Some(writer) = state.number_of(&entry.writer)
                && !record.key_gaps.contains(&(at as u32))
            {
                self.table.update(|it| it.stop_holding_back(writer));
            }
        }
    }

    /// The key gaps here: each writer with the clock up to which its keys are known, ascending by number.
    #[cfg(feature = "members")]
    pub(crate) fn key_gaps(&self) -> &[(u32, u64)] {
        &self.table.held_back
    }

    /// Closes a writer's key gap: everything of the writer may be acknowledged.
    #[cfg(feature = "members")]
    pub(crate) fn close_gap(&mut self, writer: u32) {
        self.table.update(|it| it.stop_holding_back(writer));
    }

    /// Drops the key gaps of these writers.
    #[cfg(feature = "members")]
    pub(crate) fn drop_gaps_of(&mut self, is_gone: impl Fn(u32) -> bool) {
        self.table
            .update(|it| it.held_back.retain(|it| !is_gone(it.0)));
    }

    /// Drops all key gaps.
    #[cfg(feature = "members")]
    pub(crate) fn drop_gaps(&mut self) {
        self.table.update(|it| it.held_back.clear());
    }

    /// Whether this replica has any key gap.
    pub(crate) fn lacks_keys(&self) -> bool {
        MEMBERS && !self.table.held_back.is_empty()
    }

    /// Returns the clock up to which this replica has a writer together with its keyed operations.
    pub(crate) fn clock_with_keys(&self, state: &State, writer: u32) -> u64 {
        let held = state.clock_at(writer);
        let upto = match MEMBERS {
            true => self.table.acknowledgeable(writer),
            false => None,
        };
        upto.map_or(held, |upto| held.min(upto))
    }

    /// Returns the vector for a pull from a node. It covers everything that this replica has together with
    /// its keyed operations.
    pub(crate) fn vector_with_keys(&self, state: &State) -> VersionVector {
        let clocks = state.numbered();
        let clocks = clocks.map(|(writer, number)| (writer, self.clock_with_keys(state, number)));
        VersionVector::from_sorted(clocks.filter(|it| it.1 > 0).collect())
    }

    /// Returns the writers that are over and have a key gap here, each with the clock up to which this
    /// replica has it.
    #[cfg(feature = "members")]
    pub(crate) fn lasting_key_gaps(&self, state: &State) -> Vec<(u32, u64)> {
        let writers = self.table.held_back.iter().map(|it| it.0);
        let over = writers.filter(|it| self.table.writer_states[*it as usize].is_over());
        over.map(|it| (it, state.clock_at(it))).collect()
    }
}

#[cfg(all(test, feature = "members"))]
mod tests;

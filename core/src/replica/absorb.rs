//! Absorption: a retired writer's amounts move into its successor's slots.
//!
//! No value changes by this, whatever cancels are under way. The successor's total grows by the amount, and a
//! read subtracts the same amount from the retired slot ([`counter`]). A writer is ready once its end is
//! certain, and once its keyed transactions are [stable](crate::membership::stability).

use super::quota::Quota;
use super::{MembersMut, QuotaHooks, Replica};
use crate::error::Error;
use crate::membership::writer_state::WriterState;
use crate::message::records::{Retired, Statement};
use crate::sort::sort;
use crate::state::counter;
use crate::state::keys::KeyId;
use crate::state::page::OWN;
use crate::state::slot::{Slot, Stamp, WIDE_MAX};
use alloc::vec::Vec;

/// The amounts of one counter in which retiring writers count.
#[derive(Default)]
struct Part {
    /// The own total, to which the amounts are added.
    total: i128,
    /// The total of each writer, by local number, ascending. `None` if nothing of it survives.
    amounts: Vec<(u32, Option<i128>)>,
}

impl MembersMut<'_> {
    /// Retires the writers whose successor this replica is, if they are ready. Returns how many it retired.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted).
    pub fn retire(&mut self) -> Result<usize, Error> {
        if !self.replica.membership.is_member() {
            return Ok(0);
        }
        self.replica.idempotency.withdraw(
            &mut self.replica.state,
            &mut self.replica.membership,
            &mut |_, _| (),
        )?;
        let taken = self.retire_ready()?;
        Quota::absorbed(self.replica)?;
        Ok(taken)
    }

    /// Retires the writers that are ready, all by one transaction. Skips those whose totals do not fit.
    fn retire_ready(&mut self) -> Result<usize, Error> {
        let mut ready = self.ready_to_retire();
        let mut chosen = alloc::vec![false; self.replica.state.ids().len()];
        ready.iter().for_each(|it| chosen[*it as usize] = true);
        let parts = match ready.is_empty() {
            true => Vec::new(),
            false => self.parts_of(&ready, &chosen),
        };
        let stuck = self.misfits(&parts);
        stuck.iter().for_each(|it| chosen[*it as usize] = false);
        self.replica.membership.note_stuck(stuck.len());
        ready.retain(|it| chosen[*it as usize]);
        if ready.is_empty() {
            return Ok(0);
        }
        let clock = self.replica.membership.next_clock(&self.replica.state)?;
        for (key_id, part) in &parts {
            let mut slots = self.replica.state.slots(*key_id);
            self.retire_counter(&mut slots, part, &chosen, clock);
            self.replica.state.put_slots(*key_id, slots);
            self.replica.state.forget_unused(*key_id);
        }
        self.note_retired(&ready, clock);
        Ok(ready.len())
    }

    /// The writers that this replica may retire now, by local number, ascending.
    fn ready_to_retire(&self) -> Vec<u32> {
        let Replica {
            state,
            membership,
            idempotency,
            ..
        } = &*self.replica;
        let quorum = membership.quorum(state);
        let is_ready = |writer_state: &WriterState, number: u32| {
            let over = match writer_state.fence {
                // A member that has acknowledged the fence accepts more of the writer only from members.
                Some(fence) => quorum.firm && membership.acknowledged(&quorum, fence.by),
                None => writer_state.leave.is_some(),
            };
            // Operations of other writers under the same keys must be here.
            over && idempotency.is_keyed_stable(membership, &quorum, number)
                && number != OWN
                && writer_state.retired.is_none()
                && membership.absorber_of(writer_state) == Some(OWN)
        };
        let ended = membership.ended_states();
        let ready = ended.filter(|(writer_state, number)| is_ready(writer_state, *number));
        ready.map(|it| it.1).collect()
    }

    /// Records, by the own transaction of this clock, that these writers are retired.
    fn note_retired(&mut self, writers: &[u32], clock: u64) {
        let Replica {
            state, membership, ..
        } = &mut *self.replica;
        let to = Stamp { writer: OWN, clock };
        for number in writers {
            let upto = state.clock_at(*number);
            let retired = Statement::Retired(Retired { to, upto });
            membership.note(state, *number, retired);
        }
        membership.made(state, clock);
    }

    /// Each counter in which a writer of `ready` has a slot. `chosen` marks the same writers by number.
    fn parts_of(&self, ready: &[u32], chosen: &[bool]) -> Vec<(KeyId, Part)> {
        let state = &self.replica.state;
        let key_ids = state.slots_of(ready).into_iter();
        let parts = key_ids.map(|key_id| (key_id, self.part(&state.slots(key_id), chosen)));
        parts.collect()
    }

    /// The slots of the chosen writers in one counter.
    fn part(&self, slots: &[Slot], chosen: &[bool]) -> Part {
        let sums = counter::certain_sums(slots, self.replica.state.ids());
        // Beside an expiry that is not decided, nothing of the counter is dropped.
        let open = counter::is_open(slots);
        let mut part = Part::default();
        for (slot, sum) in slots.iter().zip(&sums) {
            match slot.writer() {
                OWN if sum.is_alive() => part.total = slot.total(),
                // The own writer is never chosen.
                writer if chosen[writer as usize] && slot.side.moved.is_none() => {
                    let amount = (open || sum.is_alive()).then_some(sum.amount);
                    part.amounts.push((writer, amount));
                }
                _ => {}
            }
        }
        part
    }

    /// The writers with an amount that would not fit into the own total if all others are retired. It checks
    /// one writer after the other, in all of its counters.
    fn misfits(&self, parts: &[(KeyId, Part)]) -> Vec<u32> {
        let mut totals: Vec<i128> = parts.iter().map(|(_, part)| part.total).collect();
        let mut moves: Vec<(u32, usize, i128)> = Vec::new();
        for (at, (_, part)) in parts.iter().enumerate() {
            for (writer, amount) in &part.amounts {
                moves.extend(amount.map(|amount| (*writer, at, amount)));
            }
        }
        sort(&mut moves);
        let mut misfits = Vec::new();
        for of_one in moves.chunk_by(|a, b| a.0 == b.0) {
            let mut of_one_fit = of_one.iter();
            match of_one_fit.all(|(_, at, amount)| (totals[*at] + amount).abs() < WIDE_MAX) {
                true => of_one.iter().for_each(|(_, at, by)| totals[*at] += by),
                false => misfits.extend(of_one.first().map(|it| it.0)),
            }
        }
        misfits
    }

    /// Moves the amounts of the chosen writers' slots into the own slot. They fit.
    fn retire_counter(&self, slots: &mut Vec<Slot>, part: &Part, chosen: &[bool], clock: u64) {
        let taken = part.amounts.iter().filter(|it| chosen[it.0 as usize]);
        let taken: Vec<(u32, Option<i128>)> = taken.copied().collect();
        self.replica.state.act(clock).retire(slots, &taken);
    }
}

#[cfg(test)]
impl Replica {
    /// Adds an amount to a counter as if from a retired writer.
    pub(crate) fn absorb_for_test(&mut self, key: &str, amount: i128) {
        let key_id = self.add(key, 0).unwrap();
        let mut slots = self.state.slots(key_id);
        let clock = self.clock() + 1;
        assert!(self.state.act(clock).take_over(&mut slots, amount));
        self.state.put_slots(key_id, slots);
        self.membership.made(&mut self.state, clock);
    }
}

#[cfg(test)]
mod tests;

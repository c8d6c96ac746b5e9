//! Forgotten writers: what is remembered of one after nothing else of it is left.
//!
//! A member remembers the last clock that counted of the last [`RETURNS_MAX`] forgotten writers. A process
//! that comes back under such a writer learns which of its transactions count, and makes the others again.

use super::Membership;
use crate::bounds::RETURNS_MAX;
use crate::indexed_state::State;
use crate::message::Message;
#[cfg(all(feature = "members", not(target_family = "wasm")))]
use crate::message::records::{Retired, SUCCESSORS_MAX};
use crate::optional::{GUESTS, Optional};
use crate::sort::sort;
use crate::state::page::OWN;
use crate::state::slot::{Stamp, absorption};
#[cfg(all(feature = "members", not(target_family = "wasm")))]
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

impl Membership {
    /// Forgets the records about writers, which ascend. Each has the stamp of its absorption, and the last
    /// clock that was taken over. Stamps of these writers are replaced by the stamps of their absorptions.
    pub(crate) fn forget_writers(&mut self, state: &State, gone: &[(u32, Stamp, u64)]) {
        let is_gone = |number: u32| absorption(gone, number).is_some();
        for (number, to, _) in gone {
            let at = *number as usize;
            let writer_state = self
                .table
                .update(|it| core::mem::take(&mut it.writer_states[at]));
            if let Some(announce) = writer_state.and_then(|writer_state| writer_state.announce) {
                self.note_forgotten(*to, announce.owner, announce.generation);
            }
        }
        let again = |stamp: &mut Stamp| {
            if let Some(to) = absorption(gone, stamp.writer) {
                *stamp = to;
            }
        };
        let Some(table) = self.table.get_mut() else {
            return;
        };
        table.vouched.retain(|it| !is_gone(it.1));
        let mut renamed = Vec::new();
        for (writer_state, of) in table.writer_states.iter_mut().zip(0u32..) {
            if let Some(base) = &mut writer_state.base
                && base.iter().any(|entry| is_gone(entry.0))
            {
                let left = base.iter().copied().filter(|entry| !is_gone(entry.0));
                let mut left: Vec<(u32, u64)> = left.collect();
                if of == OWN && left.is_empty() {
                    left.push((OWN, 1)); // a sponsor must not think it saw nothing
                }
                *base = left.into();
            }
            let before = (writer_state.intro, writer_state.sponsor, writer_state.fence);
            for admit in [&mut writer_state.intro, &mut writer_state.sponsor]
                .into_iter()
                .flatten()
            {
                again(&mut admit.by);
            }
            // The sponsor's admission stays the later one, whatever ranks the two have now. A replica that
            // begins from this state distinguishes them by their order.
            if (writer_state.intro, writer_state.sponsor) != (before.0, before.1)
                && writer_state.intro != writer_state.sponsor
                && let Some(sponsor) = &mut writer_state.sponsor
            {
                sponsor.turn |= 1;
            }
            if let Some(fence) = &mut writer_state.fence {
                again(&mut fence.by);
            }
            if let Some(ack) = &mut writer_state.ack {
                ack.seen.retain(|entry| !is_gone(entry.0));
            }
            if (writer_state.intro, writer_state.sponsor, writer_state.fence) != before {
                renamed.push(of);
            }
        }
        let gone_too = gone.iter().map(|it| it.0);
        for number in renamed.into_iter().chain(gone_too) {
            table.changed(number, state.epoch());
        }
        if let Some((by, _)) = &mut table.configuration {
            again(by);
        }
        for (_, _, by) in &mut table.gone {
            again(by);
        }
        for sponsored in &mut table.sponsored {
            sponsored.seen.retain(|entry| !is_gone(entry.0));
        }
        table.sponsored.retain(|it| !is_gone(it.writer));
        table.collected.resize(state.ids().len(), 0);
        if let Some(prospect) = &mut table.prospect {
            prospect.fences.retain(|guest| !is_gone(*guest));
        }
    }

    /// Raises the low clocks of retired writers for a replica that has forgotten them. So it receives nothing of
    /// them again. A replica with a writer's retirement has everything of the writer. So a vector with the
    /// retirement and without the writer is of a replica that has forgotten it.
    #[cfg(all(feature = "members", not(target_family = "wasm")))]
    pub(crate) fn past_forgotten(&self, state: &State, mut lows: Vec<u64>) -> Vec<u64> {
        for (writer_state, number) in self.ended_states() {
            let at = number as usize;
            if let Some(retired) = writer_state.retired.filter(|_| lows[at] == 0)
                && self.covers(|number| lows[number as usize], retired.to)
            {
                lows[at] = state.clock_at(number);
            }
        }
        lows
    }

    /// A vector may leave out writers that are here. Takes their retirements out of it, too, so that no peer takes
    /// them for [forgotten](Self::past_forgotten) here.
    #[cfg(all(feature = "members", not(target_family = "wasm")))]
    pub(crate) fn without_retirements(
        &self,
        state: &State,
        mut vector: VersionVector,
    ) -> VersionVector {
        for (_, mut writer) in self.ended_states() {
            if state.clock_at(writer) == 0 || vector.get(&state.id(writer)) > 0 {
                continue;
            }
            for _ in 0..SUCCESSORS_MAX {
                let Some(Retired { to, .. }) = self.table.writer_states[writer as usize].retired
                else {
                    break;
                };
                vector = vector.up_to(&state.id(to.writer), to.clock.saturating_sub(1));
                writer = to.writer;
            }
        }
        vector
    }

    /// Forgets a writer's clocks.
    pub(crate) fn forget_clocks(&mut self, number: u32, to: Stamp) {
        let at = number as usize;
        let Some(table) = self.table.get_mut() else {
            return;
        };
        table.collected[at] = 0;
        let collected = &mut table.collected[to.writer as usize];
        *collected = to.clock.max(*collected);
        if let Some((_, held)) = &mut table.pending
            && let Some(clock) = held.get_mut(at)
        {
            *clock = 0;
        }
        if let Some(clock) = table.stable.get_mut(at) {
            *clock = 0;
        }
        if let Some(prospect) = &mut table.prospect {
            let held = prospect.held.iter_mut().filter_map(|it| it.get_mut(at));
            let least = prospect.least.get_mut(at).into_iter();
            held.chain(least).for_each(|clock| *clock = 0);
        }
    }

    /// Remembers up to which clock a forgotten writer was taken over, in case its process rejoins.
    pub(crate) fn remember(&mut self, writer: WriterId, upto: u64) {
        let Some(table) = self.table.get_mut() else {
            return;
        };
        let returns = &mut table.returns;
        if let Err(at) = returns.binary_search_by(|entry| entry.0.cmp(&writer)) {
            returns.insert(at, (writer, upto));
            table.returned.push_back(writer);
            table.remembered += 1;
        }
        if returns.len() > RETURNS_MAX
            && let Some(oldest) = table.returned.pop_front()
            && let Ok(at) = returns.binary_search_by(|entry| entry.0.cmp(&oldest))
        {
            returns.remove(at);
            table.gaps = true;
        }
    }

    /// Remembers writers that are forgotten at once. The result is that of [`remember`](Self::remember) for
    /// one after the other. But that one moves all later entries for each writer.
    pub(crate) fn remember_all(&mut self, forgotten: Vec<(WriterId, u64)>) {
        let Some(table) = self.table.get_mut() else {
            return;
        };
        let returns = &table.returns;
        let is_known = |writer: &WriterId| returns.binary_search_by(|it| it.0.cmp(writer)).is_ok();
        let fresh = forgotten.into_iter().filter(|it| !is_known(&it.0));
        let fresh: Vec<(WriterId, u64)> = fresh.collect();
        table.returned.extend(fresh.iter().map(|it| it.0));
        table.remembered += fresh.len() as u64;
        table.returns.extend(fresh);
        sort(&mut table.returns);
        let more = table.returns.len().saturating_sub(RETURNS_MAX);
        if more > 0 {
            let mut oldest: Vec<WriterId> = table.returned.drain(..more).collect();
            sort(&mut oldest);
            let is_oldest = |writer: &WriterId| oldest.binary_search(writer).is_ok();
            table.returns.retain(|it| !is_oldest(&it.0));
            table.gaps = true;
        }
    }

    /// Remembers the forgotten writers that a message names. `begins` says whether this replica learns of the
    /// space's members by this message.
    pub(crate) fn merge_memory(&mut self, state: &State, message: &Message, begins: bool) {
        self.table.update(|it| {
            it.gaps = match message.gaps {
                Some(false) => false,
                _ => it.gaps || begins,
            };
        });
        for (writer, upto) in message.returns.iter() {
            if state.number_of(writer).is_none() {
                self.remember(*writer, *upto);
            }
        }
    }

    /// Adds the last `most` forgotten writers to the message that completes a transfer.
    pub(crate) fn add_memory(&self, message: &mut Message, most: usize) {
        if GUESTS && message.is_complete() {
            message.returns.set(self.remembered(most as u64));
            let more = self.table.returned.len() > most;
            message.gaps = Some(self.table.gaps || more);
        }
    }

    /// How many writers were ever remembered here, those included that were dropped since.
    pub(crate) fn remembered_count(&self) -> u64 {
        self.table.remembered
    }

    /// Whether this replica does not remember some forgotten writers, or may not. `None` in an open space.
    pub(crate) fn memory_gaps(&self) -> Option<bool> {
        self.configuration().map(|_| self.table.gaps)
    }

    /// Whether the replica remembers of each forgotten writer up to which clock it was taken over.
    pub(crate) fn remembers_all(&self) -> bool {
        self.configuration().is_some() && !self.table.gaps
    }

    /// Returns the `last` writers that were forgotten last, with their clocks. The writer that was forgotten
    /// first comes first.
    pub(crate) fn remembered(&self, last: u64) -> Vec<(WriterId, u64)> {
        let returned = &self.table.returned;
        let skipped = (returned.len() as u64).saturating_sub(last) as usize;
        let returned = returned.iter().skip(skipped);
        returned
            .filter_map(|writer| Some((*writer, self.forgotten_upto(writer)?)))
            .collect()
    }
}

#[cfg(all(test, feature = "members"))]
mod tests;

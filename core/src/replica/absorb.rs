//! Absorption: what a writer that is gone leaves moves into its heir's slots, which changes no
//! value, whatever cancels are under way.

use super::{Replica, place};
use crate::counter;
use crate::error::Error;
use crate::keys::Handle;
use crate::roster::{Card, HEIRS_MAX, Retired, Says};
use crate::shard::{OWN, PAGE, bits};
use crate::slot::{Moved, Slot, Stamp};
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

impl Replica {
    /// Who alone may absorb a writer: its heir, or whoever has absorbed that one. An heir that was
    /// only declared dead may still have absorbed it itself.
    pub(super) fn absorber_of(&self, card: &Card) -> Option<u32> {
        let mut at = card.successor()?;
        for _ in 0..HEIRS_MAX {
            match self.roster.cards[at as usize].retired {
                Some(retired) => at = retired.to.writer,
                None => return Some(at),
            }
        }
        None
    }

    /// The writers that were absorbed and are still known, with the last clock that was taken over.
    pub fn retired(&self) -> impl Iterator<Item = (WriterId, u64)> {
        let cards = self.roster.cards.iter().zip(&self.writers);
        cards.filter_map(|(card, writer)| Some((*writer, card.retired?.upto)))
    }

    /// Takes over the writers whose heir this replica is, if that may be; tells how many.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`].
    pub fn absorb(&mut self) -> Result<usize, Error> {
        if !self.is_member() {
            return Ok(0);
        }
        self.withdraw(&mut |_, _| ())?;
        let taken = self.absorb_ready()?;
        #[cfg(feature = "budgets")]
        self.inherit()?;
        Ok(taken)
    }

    fn absorb_ready(&mut self) -> Result<usize, Error> {
        let quorum = self.quorum();
        let ready = |(card, number): (&Card, u32)| {
            let over = match card.fence {
                // Whoever has acknowledged it takes nothing more of the writer but from members.
                Some(fence) => quorum.firm && self.acknowledged(&quorum, fence.by),
                None => card.bye.is_some(),
            };
            // What was made elsewhere under the same keys must be known here.
            let free = over && self.is_keyed_stable(&quorum, number);
            let mine =
                number != OWN && card.retired.is_none() && self.absorber_of(card) == Some(OWN);
            (free && mine).then_some(number)
        };
        let cards = self.roster.cards.iter().zip(0u32..);
        let mut ready: Vec<u32> = cards.filter_map(ready).collect();
        if ready.is_empty() {
            return Ok(0);
        }
        let clock = self.next_clock()?;
        let mut taken = Vec::new();
        for handle in self.slots_of(&ready) {
            let mut slots = self.slots(handle);
            if !self.absorb_counter(&mut slots, &ready, clock) {
                return Ok(0); // it would not fit; values stay right without
            }
            taken.push((handle, slots));
        }
        for (handle, slots) in taken {
            self.put_slots(handle, slots);
            self.forget_unused(handle);
        }
        let to = Stamp { writer: OWN, clock };
        for number in &mut ready {
            let upto = self.clocks[*number as usize];
            self.note(*number, Says::Retired(Retired { to, upto }));
        }
        self.made(clock);
        Ok(ready.len())
    }

    /// Moves what these writers' slots come to into the own slot; false if it would not fit.
    pub(super) fn absorb_counter(
        &self,
        slots: &mut Vec<Slot>,
        writers: &[u32],
        clock: u64,
    ) -> bool {
        for &writer in writers {
            let sums = counter::sums(slots, &self.writers);
            let Ok(at) = counter::find(slots, writer) else {
                continue;
            };
            if slots[at].side.moved.is_some() {
                continue;
            }
            if !sums[at].is_alive() {
                slots.remove(at);
                continue;
            }
            let amount = sums[at].amount;
            if !self.act(clock).take_over(slots, amount) {
                return false;
            }
            let to = Stamp { writer: OWN, clock };
            if let Ok(at) = counter::find(slots, writer) {
                *slots[at].side.moved = Some(Box::new(Moved { to, amount }));
            }
        }
        counter::normalize(slots);
        true
    }

    /// The counters of which one of these writers has a slot.
    pub(super) fn slots_of(&self, writers: &[u32]) -> Vec<Handle> {
        let mut handles = Vec::new();
        for (at, page) in self.pages.iter().enumerate() {
            let columns = writers.iter().filter_map(|writer| page.column(*writer));
            let present = columns.fold(0, |set, column| set | column.present);
            handles.extend(bits(present).map(|slot| Handle((at * PAGE) as u32 + slot)));
        }
        handles
    }

    pub(super) fn slots(&self, handle: Handle) -> Vec<Slot> {
        let (page_at, slot) = place(handle);
        let page = self.pages.get(page_at);
        page.map_or(Vec::new(), |page| page.slots(slot))
    }

    /// Drops the slots of writers that were absorbed without them: nothing survived in them.
    pub(super) fn drop_unmoved(&mut self, writers: &[u32]) {
        for handle in self.slots_of(writers) {
            let mut slots = self.slots(handle);
            slots.retain(|slot| slot.side.moved.is_some() || !writers.contains(&slot.writer()));
            counter::normalize(&mut slots);
            self.put_slots(handle, slots);
            self.forget_unused(handle);
        }
    }
}

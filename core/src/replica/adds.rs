//! What a store keeps of plain adds: less work than a message, which has to look for what changed,
//! bring it into order, and tell of every writer.

use super::{Mark, Replica, place};
use crate::rejoin::OfFormer;
use crate::state::delta::Entry;
use crate::state::keys::KeyId;
use crate::state::page::OWN;
use crate::state::sheet::{Few, Sheet};
use crate::wire::Adds;
use alloc::vec::Vec;

impl Replica {
    /// The local transactions after `mark`, which is moved to now, encoded for a store, if they are
    /// all that happened and only added to plain counters; else `None`, the mark stays, and
    /// [`since`](Replica::since) tells what happened. `changed` names each counter that changed
    /// after the mark; one that is missing is lost.
    ///
    /// Its cost follows the length of `changed`. In a space with members it is always `None`.
    pub fn adds_since(&mut self, mark: &mut Mark, changed: &[KeyId]) -> Option<Vec<u8>> {
        let low = self.state.low(&mark.state, OWN as usize);
        if low == self.clock() || !self.only_wrote(mark, low) {
            return None;
        }
        let (writer, hi) = (self.writer(), self.clock());
        let mut adds = Adds::new(
            Entry {
                writer,
                lo: low,
                hi,
            },
            changed.len(),
        );
        for handle in changed {
            let (page_at, slot) = place(*handle);
            let page = self.state.pages.get(page_at)?;
            let row = page.own.get(slot).filter(|_| !page.is_odd(slot))?;
            if row.clock > low {
                adds.push(self.state.keys.get(*handle)?, *row);
            }
        }
        self.move_mark(mark);
        Some(
            adds.encode(&self.rejoin.to_keep(
                &self.state,
                &self.membership,
                low,
                OfFormer::Nothing,
            )),
        )
    }

    /// Whether nothing happened after a mark but own transactions, from the clock `low` on, that tell
    /// of counters only.
    fn only_wrote(&self, mark: &Mark, low: u64) -> bool {
        let own = OWN as usize;
        let known = (mark.remembered, mark.former);
        let moved = self.state.moved_since(&mark.state);
        let mut lows = Few::as_in(&self.state.clocks);
        lows.set(OWN, low);
        self.membership.configuration().is_none()
            && self.state.began < mark.state.epoch
            // Nor is all of the own writer to be told again.
            && self.state.assigned[own] < mark.state.epoch
            && known == (self.membership.table.remembered, self.rejoin.former_clocks())
            && moved.is_some_and(|moved| moved == [OWN])
            && self.membership.facts_since(mark.state.epoch, &lows).is_empty()
            && mark.keyed.is_last(&self.idempotency)
    }
}

#[cfg(test)]
mod tests;

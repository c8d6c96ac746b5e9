//! Records of plain adds for a store. They take less work than a message, which has to find the changes, sort
//! them and list every writer.

use super::{Mark, Replica};
use crate::rejoin::OfEarlier;
use crate::sheet::{Few, Sheet};
use crate::state::delta::Entry;
use crate::state::keys::KeyId;
use crate::state::page::OWN;
use crate::wire::Adds;
use alloc::vec::Vec;

impl Replica {
    /// The local transactions after `mark`, encoded for a store. They must be all that happened, and only add
    /// to plain counters. Moves the mark to now. Otherwise returns `None` and leaves the mark, and
    /// [`since`](Replica::since) has the changes. `changed` must have each counter that changed after the
    /// mark: a missing one is lost.
    ///
    /// The cost grows with the length of `changed`. In a space with members, it always returns `None`.
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
        for key_id in changed {
            let row = self.state.plain_own_row(*key_id)?;
            if row.clock > low {
                adds.push(self.state.keys().get(*key_id)?, *row);
            }
        }
        self.move_mark(mark);
        Some(
            adds.encode(&self.rejoin.to_store(
                &self.state,
                &self.membership,
                low,
                OfEarlier::Nothing,
            )),
        )
    }

    /// Whether only own transactions happened after a mark, from the clock `low` on, and they changed only
    /// counters.
    fn only_wrote(&self, mark: &Mark, low: u64) -> bool {
        let known = (mark.remembered, mark.earlier);
        let raised = self.state.raised_since(&mark.state);
        let mut lows = Few::as_in(self.state.clocks());
        lows.set(OWN, low);
        self.membership.configuration().is_none()
            && !self.state.is_replaced_since(&mark.state)
            && !self.state.is_own_reworked_since(&mark.state)
            && known
                == (
                    self.membership.remembered_count(),
                    self.rejoin.earlier_clocks(),
                )
            && raised.is_some_and(|raised| raised == [OWN])
            && self
                .membership
                .records_since(mark.state.epoch, &lows)
                .is_empty()
            && mark.keyed.is_last(&self.idempotency)
    }
}

#[cfg(test)]
mod tests;

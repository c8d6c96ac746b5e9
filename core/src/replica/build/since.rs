//! Changes after a mark: a record for a store, and a push.
//!
//! Their cost follows the changes: both look only at the writers whose clocks moved.

use super::{Mark, OfEarlier, Push, Said};
#[cfg(feature = "members")]
use crate::bounds::FRAME_BYTES_MAX;
use crate::bounds::PUSH_BYTES_MAX;
use crate::message::Message;
#[cfg(feature = "members")]
use crate::optional::GuestPart;
use crate::optional::{GUESTS, Optional};
use crate::replica::Replica;
#[cfg(feature = "members")]
use crate::sheet::Few;
use crate::sheet::Sheet;
use crate::sort::sort;
use crate::state::build::{END, NOTHING, Selection};
use crate::state::page::OWN;
#[cfg(feature = "members")]
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// With more writers than this, the few that changed are listed apart.
const FEW_FROM: usize = 64;

impl Replica {
    /// Everything that any writer changed after `mark`; `None` if nothing was. Moves the mark to now. The
    /// cost follows the changes, not the state. A store that appends each such message can
    /// [restore](Replica::restore) them in order into an empty replica.
    ///
    /// In a space with members, another state may have replaced everything. Then the message is
    /// [whole](Message::is_whole), and replaces all messages before it.
    pub fn since(&mut self, mark: &mut Mark) -> Option<Message> {
        if GUESTS
            && self.state.is_replaced_since(&mark.state)
            && self.membership.configuration().is_some()
        {
            self.move_mark(mark);
            return Some(self.snapshot());
        }
        let message = match self.few_since(mark) {
            #[cfg(feature = "members")]
            Some(few) => self.message_since(mark, Few::as_in(self.state.clocks()), few.into_iter()),
            _ => self.message_since(
                mark,
                self.state.clocks().to_vec(),
                0..self.state.clocks().len() as u32,
            ),
        };
        self.move_mark(mark);
        message
    }

    /// The only writers that may have changed since a mark, if they are few among many.
    fn few_since(&self, mark: &Mark) -> Option<Vec<u32>> {
        let raised = self.state.raised_since(&mark.state);
        let mut few = raised.filter(|_| self.state.clocks().len() > FEW_FROM)?;
        few.extend(mark.keyed.writers());
        sort(&mut few);
        few.dedup();
        Some(few)
    }

    /// The changes of these writers after a mark. No other writer has any. `lows` are the present clocks.
    fn message_since<L: Sheet<u64>>(
        &self,
        mark: &Mark,
        mut lows: L,
        writers: impl Iterator<Item = u32>,
    ) -> Option<Message> {
        let mut base = lows.like(self.state.clocks().len(), NOTHING);
        // Whether the message repeats changes from before the mark.
        let mut again = false;
        let mut changed = GUESTS && self.has_local_news(mark);
        for number in writers {
            let clock = self.state.clock_at(number);
            let before = self.state.low(&mark.state, number as usize);
            let low = before.min(mark.keyed.low(&self.membership, &self.state, number));
            again |= low != before;
            changed |= low != clock;
            lows.set(number, low);
            if low < clock {
                base.set(number, low);
            }
        }
        if !changed {
            return None;
        }
        let selection = Selection {
            epoch: mark.state.epoch,
            ..Selection::all(&lows)
        };
        let said = Said {
            lows: &lows,
            changed: if again { 0 } else { mark.state.epoch },
        };
        let picked = self.state.select(&selection, usize::MAX);
        let mut message = self.assemble(&selection, Some(said), picked.key_ids, &base);
        if GUESTS {
            self.add_local_changes(&mut message, mark, lows.at(OWN));
            self.add_keyed(&mut message, &mark.keyed, &lows, usize::MAX);
        }
        Some(message)
    }

    /// Whether anything changed after a mark that only a store receives.
    #[inline(always)]
    fn has_local_news(&self, mark: &Mark) -> bool {
        let told = (self.rejoin.sent_upto(), self.rejoin.earlier_clocks());
        self.membership.remembered_count() > mark.remembered
            || told != (mark.told, mark.earlier)
            || self.membership.is_early() && !mark.early
    }

    /// Adds what changed after a mark and only a store receives. `own` is the low of the own clock.
    #[inline(always)]
    fn add_local_changes(&self, message: &mut Message, mark: &Mark, own: u64) {
        let remembered = self.membership.remembered_count();
        let fresh = remembered.saturating_sub(mark.remembered);
        message.returns.set(self.membership.remembered(fresh));
        message.gaps = self.membership.memory_gaps();
        let earlier = match self.rejoin.earlier_clocks() == mark.earlier {
            true => OfEarlier::Nothing,
            false => OfEarlier::Clocks,
        };
        let writers = self
            .rejoin
            .to_store(&self.state, &self.membership, own, earlier);
        message.earlier.set(writers);
    }

    /// Everything that any writer changed after `mark`, as a peer receives it that stores no keyed operations and
    /// has everything up to there.
    #[cfg(feature = "members")]
    pub(crate) fn round(&self, mark: &Mark) -> Push {
        if self.state.is_replaced_since(&mark.state) {
            return Push::TooLarge;
        }
        match self.few_since(mark) {
            Some(few) => self.round_of(mark, Few::as_in(self.state.clocks()), few.into_iter()),
            None => self.round_of(
                mark,
                self.state.clocks().to_vec(),
                0..self.state.clocks().len() as u32,
            ),
        }
    }

    /// The same, where no other writers than these have changes. `lows` are the present clocks.
    #[cfg(feature = "members")]
    fn round_of<L: Sheet<u64>>(
        &self,
        mark: &Mark,
        mut lows: L,
        writers: impl Iterator<Item = u32>,
    ) -> Push {
        let mut base = lows.like(self.state.clocks().len(), NOTHING);
        let mut changed = false;
        for number in writers {
            let low = self.state.low(&mark.state, number as usize);
            if low < self.state.clock_at(number) {
                lows.set(number, low);
                base.set(number, low);
                changed = true;
            }
        }
        if !changed {
            return Push::Nothing;
        }
        let selection = Selection {
            epoch: mark.state.epoch,
            ..Selection::all(&lows)
        };
        let picked = self.state.select(&selection, FRAME_BYTES_MAX / 2);
        if picked.stopped != END {
            return Push::TooLarge;
        }
        let said = Said {
            lows: &lows,
            changed: mark.state.epoch,
        };
        let mut message = self.assemble(&selection, Some(said), picked.key_ids, &base);
        message.without_keys = message.closed;
        message.key_gaps = GuestPart::default();
        Push::Message(message)
    }

    /// Whether a writer had made a transaction by a mark.
    #[cfg(feature = "members")]
    pub(crate) fn had(&self, mark: &Mark, writer: &WriterId) -> bool {
        let number = self.state.number_of(writer);
        number.is_some_and(|number| self.state.low(&mark.state, number as usize) > 0)
    }

    /// Whether any writer made a transaction after a mark.
    #[cfg(feature = "members")]
    pub(crate) fn has_news(&self, mark: &Mark) -> bool {
        let changed = |number: u32| {
            self.state.low(&mark.state, number as usize) < self.state.clock_at(number)
        };
        match self.state.raised_since(&mark.state) {
            Some(raised) => raised.into_iter().any(changed),
            None => (0..self.state.clocks().len() as u32).any(changed),
        }
    }

    /// The clocks that a mark has of the members' writers.
    #[cfg(feature = "members")]
    pub(crate) fn members_at(&self, mark: &Mark) -> Vec<(WriterId, u64)> {
        let clock = |number: u32| self.state.low(&mark.state, number as usize);
        let clocks = self.membership.members_part(clock).into_iter();
        clocks
            .map(|(number, clock)| (self.state.id(number), clock))
            .collect()
    }

    /// Whether this replica has made and merged no transaction since a mark.
    #[cfg(feature = "members")]
    pub fn is_at(&self, mark: &Mark) -> bool {
        self.state.clocks() == mark.state.clocks
    }

    /// The present place in this replica's history, for a caller that keeps nothing of it.
    pub fn mark(&mut self) -> Mark {
        let mut mark = Mark::default();
        self.move_mark(&mut mark);
        mark
    }

    /// The local transactions after `mark`, to be pushed. The push builds on the mark's own clock and on all
    /// that was merged since that clock's transaction, which by causality implies the rest. Merges between
    /// that transaction and the last push count too. A peer may have the transaction from elsewhere, without
    /// the changes that the last push built on.
    pub(crate) fn push(&mut self, mark: &mut Mark) -> Push {
        let own = self.state.low(&mark.state, OWN as usize);
        if own == self.clock() {
            return Push::Nothing;
        }
        let push = match () {
            #[cfg(feature = "members")]
            () if self.state.clocks().len() > FEW_FROM => {
                self.push_of(mark, Few::each(NOTHING), own)
            }
            () => self.push_of(mark, alloc::vec![NOTHING; self.state.clocks().len()], own),
        };
        self.move_mark(mark);
        push
    }

    /// The local transactions after a mark, from the clock `own` on. `lows` let nothing through.
    fn push_of<L: Sheet<u64>>(&self, mark: &Mark, mut lows: L, own: u64) -> Push {
        let mut base = lows.like(self.state.clocks().len(), NOTHING);
        lows.set(OWN, own);
        let mut writers = 0;
        for (clock, number) in self.state.clocks().iter().zip(0u32..) {
            if number == OWN {
                base.set(OWN, own);
            } else if self.state.is_merged_since(number, own) && *clock > 0 {
                base.set(number, *clock);
            } else {
                continue;
            }
            writers += 1;
            if writers * 20 > PUSH_BYTES_MAX {
                return Push::TooLarge;
            }
        }
        let selection = Selection {
            epoch: mark.state.epoch,
            ..Selection::all(&lows)
        };
        let said = Said {
            lows: &lows,
            changed: mark.state.epoch,
        };
        let picked = self.state.select(&selection, PUSH_BYTES_MAX);
        if picked.stopped != END {
            return Push::TooLarge;
        }
        let mut message = self.assemble(&selection, Some(said), picked.key_ids, &base);
        let fits = self.membership.configuration().is_none()
            || self.add_keyed(&mut message, &mark.keyed, &lows, PUSH_BYTES_MAX);
        match fits {
            true => Push::Message(message),
            false => Push::TooLarge,
        }
    }

    pub(crate) fn move_mark(&mut self, mark: &mut Mark) {
        self.state.move_mark(&mut mark.state);
        mark.remembered = self.membership.remembered_count();
        (mark.told, mark.earlier) = (self.rejoin.sent_upto(), self.rejoin.earlier_clocks());
        mark.early = self.membership.is_early();
        mark.keyed = self.idempotency.keyed_mark(&self.membership);
    }
}

#[cfg(all(test, feature = "members"))]
mod tests;

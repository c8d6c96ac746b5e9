//! Restoring: reading back what a store kept, or what another program held.

use super::Replica;
use crate::error::Error;
use crate::layers::GUESTS;
use crate::membership::admission::Forgotten;
use crate::message::Message;
use crate::state::join::Found;
use crate::state::page::OWN;
use crate::writer_id::{Space, WriterId};
use alloc::boxed::Box;

impl Replica {
    /// Takes back what this replica's store kept of an earlier start: the messages that
    /// [`since`](Replica::since) gave, in order, into an empty replica. They were judged when they
    /// were merged first, by more than was stored, so who sent them is not asked again.
    ///
    /// # Errors
    /// [`Error::NotCovered`] if a message between is missing, [`Error::CountersFull`] over 2^32 bytes of
    /// keys. Nothing is changed then. A state that was merged once is never refused for its number of
    /// writers.
    pub fn restore(&mut self, message: &Message) -> Result<(), Error> {
        self.check_stored(message)?;
        let mut ignore = |_| ();
        let found = Found::new(self.state.numbers.len() == 1, &mut ignore);
        self.take_stored(message, found)
    }

    /// Refuses what builds on something that is not held, or what there is no room for.
    pub(super) fn check_stored(&self, message: &Message) -> Result<(), Error> {
        for entry in &message.delta.writers {
            let held = self.state.clock_of(entry);
            if entry.lo > held {
                return Err(Error::not_covered(entry.writer, entry.lo, held));
            }
        }
        self.state.room_for_keys(&message.delta, true)
    }

    /// Takes in a message that was judged when it was merged first.
    pub(super) fn take_stored(
        &mut self,
        message: &Message,
        mut found: Found<'_>,
    ) -> Result<(), Error> {
        let forgotten = Forgotten::default();
        self.install(message, &forgotten, &mut found)?;
        self.conclude(message, &forgotten, found);
        if GUESTS {
            self.idempotency.drop_due(&self.state);
            self.membership
                .take_memory(&self.state, message, message.gaps == Some(true));
            for kept in message.kept.iter() {
                self.rejoin.take_kept(&self.state, kept);
            }
        }
        Ok(())
    }

    /// A replica that goes on where another one of this process ended: under its writer, with its
    /// clock, and with all that it held. `state` is its whole state, of an open space. So a program
    /// that was built without members, and meets a space that has some, goes on in one built with
    /// them. The other one must never be used again: both would write under one id.
    ///
    /// # Errors
    /// [`Error::Closed`] if the space has members in that state: then more than the state is needed
    /// to go on. [`Error::NotCovered`] if the state is not whole, [`Error::CountersFull`].
    pub fn resume(space: Space, writer: WriterId, state: &Message) -> Result<Replica, Error> {
        if state.is_closed() {
            return Err(Error::Closed);
        }
        let mut replica = Replica::new(space, writer);
        replica.restore(state)?;
        // What was merged after the last transaction is not told apart from what was merged before:
        // the next push builds on all of it.
        let clock = replica.clock();
        replica.state.merged_at.fill(clock);
        if GUESTS {
            *replica.state.seen_at_last = replica.state.clocks.clone();
        }
        if clock > 0 && replica.state.numbers.len() == 1 {
            // It has seen nobody, so it had not at its first transaction either. Of any other it is
            // not known, and nothing is claimed.
            replica.membership.table.cards[OWN as usize].base = Some(Box::default());
        }
        Ok(replica)
    }
}

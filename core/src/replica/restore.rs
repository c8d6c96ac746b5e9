//! Restoring: reading back a store's records, or another program's state.

use super::Replica;
use crate::error::{Error, MemberError};
use crate::membership::admission::Forgotten;
use crate::message::Message;
use crate::optional::GUESTS;
use crate::state::join::Found;
use crate::writer_id::{Space, WriterId};

impl Replica {
    /// Reads back a record that this replica's store has from an earlier start, into an empty replica.
    /// Restore the messages of [`since`](Replica::since) in order. They were checked at their first merge,
    /// with more data than was stored, so their senders are not checked again.
    ///
    /// # Errors
    /// [`MergeError::NotCovered`](crate::MergeError::NotCovered) if a message in between is missing,
    /// [`WriteError::CountersFull`](crate::WriteError::CountersFull) over 2^32 bytes of keys. After an error,
    /// nothing is changed. A state that was merged once is never rejected for its number of writers.
    pub fn restore(&mut self, message: &Message) -> Result<(), Error> {
        self.check_stored(message)?;
        let mut ignore = |_| ();
        let found = Found::new(self.state.is_alone(), &mut ignore);
        self.apply_stored(message, found)
    }

    /// Rejects a message that builds on something missing here, or that has no room.
    pub(super) fn check_stored(&self, message: &Message) -> Result<(), Error> {
        for entry in &message.delta.writers {
            let held = self.state.held(&entry.writer);
            if entry.lo > held {
                return Err(Error::not_covered(entry.writer, entry.lo, held));
            }
        }
        self.state.room_for_keys(&message.delta, true)
    }

    /// Merges a message that was checked at its first merge.
    pub(super) fn apply_stored(
        &mut self,
        message: &Message,
        mut found: Found<'_>,
    ) -> Result<(), Error> {
        let forgotten = Forgotten::default();
        self.install(message, &forgotten, &mut found)?;
        self.conclude(message, &forgotten, found);
        if GUESTS {
            self.idempotency.drop_due(&self.state);
            self.membership.close_stored_gaps(&self.state, message);
            self.membership
                .merge_memory(&self.state, message, message.gaps == Some(true));
            for earlier in message.earlier.iter() {
                self.rejoin.restore_earlier(&self.state, earlier);
            }
        }
        Ok(())
    }

    /// A replica that continues another one of this process: with its writer, its clock, and its whole state
    /// `state`, of an open space. So a program built without members can continue in one built with them once
    /// the space has members. Never use the other replica again, because both would write under one id.
    ///
    /// # Errors
    /// [`MemberError::Closed`] if the space has members in that state, because continuing then needs more
    /// than the state. [`MergeError::NotCovered`](crate::MergeError::NotCovered) if the state is not whole,
    /// [`WriteError::CountersFull`](crate::WriteError::CountersFull).
    pub fn resume(space: Space, writer: WriterId, state: &Message) -> Result<Replica, Error> {
        if state.is_closed() {
            return Err(MemberError::Closed.into());
        }
        let mut replica = Replica::new(space, writer);
        replica.restore(state)?;
        // Merges before and after the last transaction can't be told apart, so the next push builds on all of
        // them.
        let clock = replica.clock();
        replica.state.build_on_all();
        if clock > 0 && replica.state.is_alone() {
            // A replica without other writers had none at its first transaction either. For any other
            // replica, this is unknown, and nothing is claimed.
            replica.membership.note_first();
        }
        Ok(replica)
    }
}

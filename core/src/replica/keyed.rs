//! Operations under idempotency keys, as a replica makes them and is asked for them.

use super::{QuotaHooks, Replica, Transaction};
use crate::error::Error;
use crate::idempotency::{Asked, Asker, KeyedBounds};
use crate::layers::Quota;
use crate::once::Once;
use crate::state::keys::KeyId;
use crate::state::operation::Draft;
use crate::state::vector::VersionVector;
#[cfg(any(test, feature = "explore"))]
use crate::writer_id::WriterId;
use alloc::vec::Vec;

impl Transaction<'_> {
    /// As [`commit`](Transaction::commit), remembering that it was made under a key, which the caller
    /// has found to be [new](Replica::asked). It is a transaction also if nothing changed.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if what it adds, with the keys, takes more than
    /// [`KEYED_BYTES_MAX`](crate::limits::KEYED_BYTES_MAX); with the feature `budgets` `NumberOnce` and `LeaseOnce`. Nothing is done then.
    pub fn commit_once(self, once: Once, changed: &mut Vec<KeyId>) -> Result<(), Error> {
        self.commit_once_for(once, None, changed)
    }

    /// As [`commit_once`](Transaction::commit_once), for a caller with whose other operations it shares
    /// room.
    ///
    /// # Errors
    /// Also [`Error::KeyedFull`] if it would push out what this caller was answered lately.
    pub fn commit_once_for(
        mut self,
        once: Once,
        asker: Option<&Asker>,
        changed: &mut Vec<KeyId>,
    ) -> Result<(), Error> {
        Quota::check_once(&self.quota)?;
        self.replica
            .remember_keyed(self.clock, (once, asker), &self.drafts)?;
        self.finish(changed);
        self.replica
            .membership
            .made(&mut self.replica.state, self.clock);
        Ok(())
    }
}

impl Replica {
    /// What is known of a keyed operation.
    pub fn asked(&self, once: &Once) -> Asked {
        self.idempotency.asked(&self.state, once)
    }

    /// What to ask members for when a retry asks for a level: the own transactions so far, and the one
    /// that counts, whoever made it. `None` if nobody has told yet whether any does, as this replica
    /// began again.
    pub fn written_before(&self, once: &Once) -> Option<VersionVector> {
        let own = self.written();
        match self.idempotency.asked(&self.state, once) {
            Asked::Before(Some(maker)) => {
                Some(own.joined(&VersionVector::from_sorted(Vec::from([maker]))))
            }
            // All who count have seen one whose writer is forgotten.
            _ => self.idempotency.is_made(once).then_some(own),
        }
    }

    /// By whom, and at which clock, it is known that an operation was made.
    #[cfg(any(test, feature = "explore"))]
    pub fn makers(&self, once: &Once) -> Vec<(WriterId, u64)> {
        self.idempotency.makers(&self.state, once)
    }

    /// How many keyed operations are remembered.
    pub fn keyed_count(&self) -> usize {
        self.idempotency.keyed_count()
    }

    /// How many keyed operations were ever remembered here: a place in their order.
    pub fn keyed_end(&self) -> u64 {
        self.idempotency.keyed_end()
    }

    /// Has less room for keyed operations, for tests that fill it.
    #[doc(hidden)]
    pub fn bound_keyed(&mut self, bounds: KeyedBounds) {
        self.idempotency.bound_keyed(bounds)
    }

    /// Drops the keyed operations that came before this place, so that a retry of one of them is taken
    /// for new. In a space with members it stops before the first that not all who count have
    /// acknowledged: another may have been made under its key, and is to be withdrawn. Tells whether
    /// all that came before the place are dropped.
    pub fn drop_keyed(&mut self, before: u64) -> bool {
        self.idempotency
            .drop_keyed(&self.state, &self.membership, before)
    }

    /// Remembers a transaction of this clock, which is not visible yet, as one that was made under a
    /// key. It may share room with other operations of its caller.
    ///
    /// # Errors
    /// [`Error::TooLarge`], and [`Error::KeyedFull`] where it shares room.
    pub(super) fn remember_keyed(
        &mut self,
        clock: u64,
        (once, asker): (Once, Option<&Asker>),
        drafts: &[Draft],
    ) -> Result<(), Error> {
        let log = &mut self.idempotency;
        log.remember(&self.state, clock, (once, asker), drafts)?;
        self.quota.note_once(&self.state, clock, drafts);
        if self.membership.keeps_journal() {
            self.rejoin.journal.keyed.push((clock, once));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! Operations under idempotency keys, as a replica makes them and is asked for them.

use super::{QuotaHooks, Replica, Transaction};
use crate::error::Error;
use crate::idempotency::Asker;
use crate::layers::Quota;
use crate::once::Once;
use crate::state::keys::KeyId;
use crate::state::operation::Draft;
use alloc::vec::Vec;

impl Transaction<'_> {
    /// As [`commit`](Transaction::commit), remembering that it was made under a key, which the caller
    /// has found to be [new](crate::Keyed::lookup). It is a transaction also if nothing changed.
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
            self.rejoin.keep_key(clock, once);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

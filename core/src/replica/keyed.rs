//! Operations under idempotency keys, as a replica makes them and as callers request them.

use super::quota::Quota;
use super::{QuotaHooks, Replica, Transaction};
use crate::error::Error;
use crate::idempotency::Asker;
use crate::once::Once;
use crate::state::keys::KeyId;
use crate::state::operation::Draft;
use alloc::vec::Vec;

impl Transaction<'_> {
    /// Like [`commit`](Transaction::commit), and records that the transaction was made under a key. The
    /// caller has found this key to be [new](crate::Keyed::lookup). It makes a transaction even if nothing
    /// changed.
    ///
    /// # Errors
    /// [`DecodeError::TooLarge`](crate::DecodeError::TooLarge) if its adds take more than
    /// [`KEYED_BYTES_MAX`](crate::bounds::KEYED_BYTES_MAX) with their keys. `NumberOnce` and `LeaseOnce` with
    /// the feature `budgets`. After an error, nothing is done.
    pub fn commit_once(self, once: Once, changed: &mut Vec<KeyId>) -> Result<(), Error> {
        self.commit_once_for(once, None, changed)
    }

    /// Like [`commit_once`](Transaction::commit_once), for a caller with whose other operations it shares
    /// room.
    ///
    /// # Errors
    /// Also [`ScopeError::KeyedFull`](crate::ScopeError::KeyedFull) if it would drop an operation that this
    /// caller got a reply for recently.
    pub fn commit_once_for(
        mut self,
        once: Once,
        asker: Option<&Asker>,
        changed: &mut Vec<KeyId>,
    ) -> Result<(), Error> {
        Quota::check_once(&self.quota)?;
        self.replica
            .remember_keyed(self.clock, (once, asker), &self.drafts, false)?;
        self.finish(changed);
        self.replica
            .membership
            .made(&mut self.replica.state, self.clock);
        Ok(())
    }
}

impl Replica {
    /// Records that a transaction of this clock was made under a key. It is not visible yet. It may share
    /// room with other operations of its caller.
    ///
    /// # Errors
    /// [`DecodeError::TooLarge`](crate::DecodeError::TooLarge), and
    /// [`ScopeError::KeyedFull`](crate::ScopeError::KeyedFull) if it shares room and there is none.
    pub(super) fn remember_keyed(
        &mut self,
        clock: u64,
        (once, asker): (Once, Option<&Asker>),
        drafts: &[Draft],
        weaker: bool,
    ) -> Result<(), Error> {
        let log = &mut self.idempotency;
        let marks = [self.membership.lacks_keys(), weaker];
        log.remember(&self.state, clock, (once, asker), drafts, marks)?;
        self.quota.note_once(&self.state, clock, drafts);
        if self.membership.keeps_journal() {
            self.rejoin.keep_key(clock, once);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

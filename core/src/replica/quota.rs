//! The points at which a replica calls the quota that stands above it, and the null object of a program
//! without one.
//!
//! A replica owns its quota, and a quota makes transactions of the replica. So the two name each other, and
//! theirs is the one circle between folders of core. This file alone names the layer above. All else in
//! `replica` knows the quota as [`Quota`], by the hooks of [`QuotaHooks`].

use super::Replica;
#[cfg(feature = "budgets")]
use super::Transaction;
use crate::error::Error;
use crate::forks::ForkLog;
use crate::indexed_state::State;
use crate::membership::Membership;
use crate::message::Message;
use crate::message::journal::Did;
use crate::message::records::Owner;
#[cfg(feature = "budgets")]
use crate::quota::{QuotaMut, QuotaPreview, QuotaRef, QuotaTransaction};
use crate::state::keys::KeyId;
#[cfg(feature = "members")]
use crate::state::operation::Draft;
#[cfg(feature = "budgets")]
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// The layer of budgets, leases, sequences and rate limits.
#[cfg(feature = "budgets")]
pub(crate) type Quota = crate::quota::Quota;
/// The null object in a program without them.
#[cfg(not(feature = "budgets"))]
pub(crate) type Quota = NoQuota;

/// The notes that a transaction keeps for the quota until its commit.
pub(crate) type Noted = <Quota as QuotaHooks>::Noted;

/// The accounts that a merge has shards of, for the quota.
pub(crate) type Accounts = <Quota as QuotaHooks>::Accounts;

/// The six points at which a replica calls its quota. Each hook does nothing by default.
pub(crate) trait QuotaHooks: Clone + Default {
    /// The notes that a transaction keeps until its commit.
    type Noted: Default;
    /// The accounts that a merge has shards of.
    type Accounts: Default;

    // 1. A key: a key of the quota is in no list of counters.

    /// Whether a key is the quota's own.
    #[inline(always)]
    fn owns(_state: &State, _key_id: KeyId) -> bool {
        false
    }

    /// Each key that is the quota's own, in no stated order.
    #[inline(always)]
    fn owned(_state: &State) -> impl Iterator<Item = KeyId> {
        core::iter::empty()
    }

    // 2. A plain operation: it may not write to a key or a name of the quota.

    /// Rejects a plain operation on a key.
    #[inline(always)]
    fn check(_state: &State, _key: &str) -> Result<(), Error> {
        Ok(())
    }

    /// The same of a key that has an id.
    #[inline(always)]
    fn check_at(_state: &State, _key_id: KeyId) -> Result<(), Error> {
        Ok(())
    }

    // 3. A commit.

    /// Rejects a commit under an idempotency key if the transaction must not be withdrawn.
    #[cfg(feature = "members")]
    #[inline(always)]
    fn check_once(_noted: &Self::Noted) -> Result<(), Error> {
        Ok(())
    }

    /// Before the commit of a transaction of this clock under an idempotency key.
    #[cfg(feature = "members")]
    #[inline(always)]
    fn note_once(&mut self, _state: &State, _clock: u64, _drafts: &[Draft]) {}

    /// After a commit.
    #[inline(always)]
    fn committed(&mut self, _noted: Self::Noted) {}

    // 4. A merge.

    /// Adds the accounts that a merged message has shards of to `accounts`.
    #[inline(always)]
    fn merged(_state: &State, _message: &Message, _accounts: &mut Self::Accounts) {}

    /// After a merge: reports the accounts with a value below zero.
    #[inline(always)]
    fn report(_state: &State, _forks: &mut ForkLog, _accounts: Self::Accounts) {}

    // 5. Members: absorption, acknowledgements, configurations.

    /// After each attempt of this replica to retire writers.
    #[inline(always)]
    fn absorbed(_replica: &mut Replica) -> Result<(), Error> {
        Ok(())
    }

    /// Whether a retired writer, by its local number, can't be forgotten yet.
    #[inline(always)]
    fn keeps(_state: &State, _number: u32) -> bool {
        false
    }

    /// Whether the quota waits for acknowledgements.
    #[inline(always)]
    fn waits(&self, _state: &State, _membership: &Membership) -> bool {
        false
    }

    /// After a configuration took effect here.
    #[inline(always)]
    fn configured(&mut self, _membership: &Membership) {}

    // 6. A new start: the replica goes on from the state of another, and makes operations again.

    /// After the replica has dropped its state.
    #[inline(always)]
    fn cleared(&mut self) {}

    /// After the replica went on under a new writer. `owner` is its owner if it was a member before.
    #[inline(always)]
    fn begun_again(&mut self, _owner: Option<Owner>, _membership: &Membership) {}

    /// The operations of an earlier writer's transaction in the form in which this writer makes them. `None`
    /// if it can't make them.
    #[inline(always)]
    fn made_again(_replica: &Replica, did: Vec<Did>) -> Option<Vec<Did>> {
        Some(did)
    }

    /// The part of quota that is not in the state, as text.
    #[cfg(feature = "explore")]
    fn local_text(&self, _state: &State) -> alloc::string::String {
        Default::default()
    }
}

/// No quota: all keys are counters.
#[cfg(not(feature = "budgets"))]
#[derive(Clone, Default)]
pub(crate) struct NoQuota {}

#[cfg(not(feature = "budgets"))]
impl QuotaHooks for NoQuota {
    type Noted = NoQuota;
    type Accounts = NoQuota;
}

#[cfg(feature = "budgets")]
impl Replica {
    /// Reads of budgets, leases, sequences and rate limits, as far as this replica knows them.
    pub fn quota(&self) -> QuotaRef<'_> {
        QuotaRef::new(&self.state, &self.membership, &self.quota)
    }

    /// The operations on budgets, leases, sequences and rate limits, each a transaction of its own.
    pub fn quota_mut(&mut self) -> QuotaMut<'_> {
        QuotaMut::new(self)
    }
}

#[cfg(feature = "budgets")]
impl Replica {
    /// Whether a writer is a living incarnation of a member.
    pub(crate) fn has_counted_member(&self, writer: &WriterId) -> bool {
        self.membership.is_counted_member(&self.state, writer)
    }
}

#[cfg(feature = "budgets")]
impl<'a> Transaction<'a> {
    /// Reads of budgets, sequences and rate limits after the operations so far.
    pub fn quota(&self) -> QuotaPreview<'_, 'a> {
        QuotaPreview::new(self)
    }

    /// The operations on budgets, leases, sequences and rate limits, as a part of this transaction.
    pub fn quota_mut(&mut self) -> QuotaTransaction<'_, 'a> {
        QuotaTransaction::new(self)
    }
}

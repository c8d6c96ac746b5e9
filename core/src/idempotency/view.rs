//! The idempotency log of a replica, as a caller reads and bounds it.

use super::IdempotencyLog;
#[cfg(feature = "members")]
use super::{Asked, KeyedBounds};
use crate::error::Error;
use crate::layers::State;
use crate::membership::Membership;
#[cfg(feature = "members")]
use crate::once::Once;
use crate::state::keys::KeyId;
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
#[cfg(feature = "members")]
use alloc::vec::Vec;

/// The operations that were made under idempotency keys: see [`Replica::keyed`].
///
/// A view: it borrows the replica, reads, and changes nothing.
///
/// [`Replica::keyed`]: crate::Replica::keyed
#[derive(Clone, Copy)]
pub struct Keyed<'a> {
    #[cfg(feature = "members")]
    log: &'a IdempotencyLog,
    membership: &'a Membership,
    state: &'a State,
}

impl<'a> Keyed<'a> {
    #[inline(always)]
    pub(crate) fn new(
        log: &'a IdempotencyLog,
        membership: &'a Membership,
        state: &'a State,
    ) -> Keyed<'a> {
        #[cfg(not(feature = "members"))]
        let _ = log;
        Keyed {
            #[cfg(feature = "members")]
            log,
            membership,
            state,
        }
    }

    /// Whether there may be keyed operations, among what is held here, that are not known here.
    #[inline]
    pub fn has_gaps(self) -> bool {
        self.membership.lacks_keys()
    }

    /// The version vector to ask a node with: all but what is held here with its keyed operations.
    #[inline]
    pub fn vector(self) -> VersionVector {
        self.membership.vector_with_keys(self.state)
    }
}

#[cfg(feature = "members")]
impl Keyed<'_> {
    /// What is known of the operation under a key.
    pub fn lookup(self, once: &Once) -> Asked {
        self.log.asked(self.state, once)
    }

    /// What to ask members for when a retry asks for a level: the own transactions so far, and the one
    /// that counts, whichever replica made it. `None` if it is not known yet whether any does, because
    /// this replica began again.
    pub fn written_before(self, once: &Once) -> Option<VersionVector> {
        let own = VersionVector::of(self.state.writer(), self.state.clock());
        match self.log.asked(self.state, once) {
            Asked::Before(Some(maker)) => {
                Some(own.joined(&VersionVector::from_sorted(Vec::from([maker]))))
            }
            // All who count have seen one whose writer is forgotten.
            _ => self.log.is_made(once).then_some(own),
        }
    }

    /// By which writers, and at which clocks, it is known that an operation was made.
    #[cfg(any(test, feature = "explore"))]
    pub fn makers(self, once: &Once) -> Vec<(WriterId, u64)> {
        self.log.makers(self.state, once)
    }

    /// How many keyed operations are remembered.
    pub fn count(self) -> usize {
        self.log.keyed_count()
    }

    /// How many keyed operations were ever remembered here: a place in their order.
    pub fn end(self) -> u64 {
        self.log.keyed_end()
    }

    /// How many adds this replica has withdrawn, since it was made; what others withdrew is not counted.
    pub fn withdrawn_count(self) -> u64 {
        self.log.withdrawn_count()
    }
}

/// Changes of the idempotency log: see [`Replica::keyed_mut`](crate::Replica::keyed_mut).
pub struct KeyedMut<'a> {
    log: &'a mut IdempotencyLog,
    membership: &'a mut Membership,
    state: &'a mut State,
}

impl<'a> KeyedMut<'a> {
    #[inline(always)]
    pub(crate) fn new(
        log: &'a mut IdempotencyLog,
        membership: &'a mut Membership,
        state: &'a mut State,
    ) -> KeyedMut<'a> {
        KeyedMut {
            log,
            membership,
            state,
        }
    }

    /// Withdraws what was made more than once under one key, as far as that became known since this
    /// was last called, and names each add that was withdrawn: its counter, and the writer and clock of
    /// the transaction that made it. Tells whether there was any.
    ///
    /// A program that merges by hand calls this after each merge;
    /// [`SyncMachine`](crate::sync::SyncMachine) does so by itself.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`].
    #[inline]
    pub fn withdraw(
        self,
        withdrawn: &mut dyn FnMut(KeyId, (WriterId, u64)),
    ) -> Result<bool, Error> {
        self.log.withdraw(self.state, self.membership, withdrawn)
    }
}

#[cfg(feature = "members")]
impl KeyedMut<'_> {
    /// Has less room for keyed operations, for tests that fill it.
    #[doc(hidden)]
    pub fn set_bounds(self, bounds: KeyedBounds) {
        self.log.bound_keyed(bounds)
    }

    /// Drops the keyed operations that came before this place, so that a retry of one of them is taken
    /// for new. In a space with members it stops before the first that not all who count have
    /// acknowledged: another may have been made under its key, and is to be withdrawn. Tells whether
    /// all that came before the place are dropped.
    pub fn drop_before(self, place: u64) -> bool {
        self.log.drop_keyed(self.state, self.membership, place)
    }
}

//! The idempotency log of a replica, as a caller reads and bounds it.

use super::IdempotencyLog;
#[cfg(feature = "members")]
use super::{KeyStatus, KeyedBounds};
use crate::error::Error;
use crate::indexed_state::State;
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

    /// Whether this replica may lack the keys of some transactions that it has.
    #[inline]
    pub fn has_gaps(self) -> bool {
        self.membership.lacks_keys()
    }

    /// The version vector for a pull from a node: it covers a transaction only if its key is here, too.
    #[inline]
    pub fn vector(self) -> VersionVector {
        self.membership.vector_with_keys(self.state)
    }
}

#[cfg(feature = "members")]
impl Keyed<'_> {
    /// The log's answer about the operation under a key.
    pub fn lookup(self, once: &Once) -> KeyStatus {
        self.log.asked(self.state, once)
    }

    /// The transactions to ask members for when a retry requests a level. These are the own ones so far, and
    /// the one that counts, whichever replica made it. `None` if this replica began again and does not know
    /// yet whether any counts.
    pub fn written_before(self, once: &Once) -> Option<VersionVector> {
        let own = VersionVector::of(self.state.writer(), self.state.clock());
        match self.log.asked(self.state, once) {
            KeyStatus::Before(Some(maker)) => {
                Some(own.joined(&VersionVector::from_sorted(Vec::from([maker]))))
            }
            // All counted members have received an operation whose writer is forgotten.
            _ => self.log.is_made(once).then_some(own),
        }
    }

    /// Whether an operation that was made before lacks an effect: its replica had to rejoin, and could not
    /// cancel again all that the operation had cancelled, or could not make a part of it again. Another
    /// replica may have made the same operation in full. Then it lacks nothing.
    pub fn is_weaker(self, once: &Once) -> bool {
        self.log.is_weaker(once)
    }

    /// The writers that made an operation, with the clocks, according to this replica.
    #[cfg(any(test, feature = "explore"))]
    pub fn makers(self, once: &Once) -> Vec<(WriterId, u64)> {
        self.log.makers(self.state, once)
    }

    /// Number of keyed operations in the log.
    pub fn count(self) -> usize {
        self.log.keyed_count()
    }

    /// Number of keyed operations that were ever added here: a place in their order.
    pub fn end(self) -> u64 {
        self.log.keyed_end()
    }

    /// How many adds this replica has withdrawn since it was made. Withdrawals of other replicas are not
    /// counted.
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

    /// Withdraws duplicates under one key that became known since the last call. Calls `withdrawn` with each
    /// withdrawn add: its counter, and the writer and clock of its transaction. Returns whether there was
    /// any.
    ///
    /// A program that merges by hand calls this after each merge. [`SyncMachine`](crate::sync::SyncMachine)
    /// calls it by itself.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted).
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
    /// Lowers the room for keyed operations, for tests that fill it.
    #[doc(hidden)]
    pub fn set_bounds(self, bounds: KeyedBounds) {
        self.log.bound_keyed(bounds)
    }

    /// Drops the keyed operations before this place, so that a retry of one of them counts as new. In a space
    /// with members, it stops before the first one that is not stable. Another operation may exist under this
    /// key, and would have to be withdrawn. Returns whether all operations before the place are dropped.
    pub fn drop_before(self, place: u64) -> bool {
        self.log.drop_keyed(self.state, self.membership, place)
    }
}

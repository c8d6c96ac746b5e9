//! Collection, as a member performs it in each round of its duties, and the clearing of a replica.
//! [The rule and the argument](crate::membership::stability#collection) stand with stability.

use super::quota::Quota;
use super::{Mark, MembersMut, QuotaHooks, Replica};
use crate::membership::Membership;
use crate::membership::stability::Quorum;
use crate::optional::{GUESTS, MEMBERS, Optional};
use crate::state::counter;
use crate::state::keys::KeyId;
use crate::state::slot::{Slot, Stamp};
use crate::state::sweep::sweep;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

impl MembersMut<'_> {
    /// Collects stable garbage: dead slots, amounts of retired writers, and these writers themselves. It
    /// touches nothing that is newer than `stored`, the mark of the store's last write. Returns whether
    /// anything was collected.
    ///
    /// A collection makes snapshots in parts void, so no scan may span it.
    pub fn collect(&mut self, stored: &Mark) -> bool {
        let replica = &mut *self.replica;
        if replica.membership.configuration().is_none() {
            return false;
        }
        let quorum = replica.membership.quorum(&replica.state);
        replica.membership.raise_stable(&replica.state, &quorum);
        let stored = replica.state.lows(&stored.state);
        replica.membership.stop_waiting();
        let mut changed = replica.sweep_counters(&quorum, &stored);
        changed |= replica.forget(&quorum, &stored);
        let waits = MEMBERS && replica.waits_for_others(&quorum);
        replica.membership.note_waiting(waits);
        if changed {
            replica.state.note_collected();
            replica.membership.note_collected(&replica.state, &quorum);
        }
        changed
    }
}

impl Replica {
    /// Sweeps each counter with more than plain shards, as far as they are stable and not newer than the
    /// clocks `stored`. Returns whether anything was removed.
    fn sweep_counters(&mut self, quorum: &Quorum, stored: &[u64]) -> bool {
        let mut changed = false;
        let mut joined = Vec::new();
        for at in 0..self.state.pages().len() {
            for key_id in self.state.odd_counters(at) {
                let mut slots = self.state.slots(key_id);
                let mut waits = false;
                let stable = |stamp: Stamp| {
                    stamp.clock <= stored[stamp.writer as usize]
                        && self.membership.is_stable(quorum, stamp)
                };
                let before = self.idempotency.has_keyed().then(|| slots.clone());
                if sweep(&mut slots, self.state.ids(), &stable, &mut waits) {
                    changed = true;
                    if let Some((before, key)) = before.zip(self.state.keys().get(key_id)) {
                        self.idempotency.note_new_lifetimes(key, &before, &slots);
                        joined.extend(joined_withdrawals(&before, &slots));
                    }
                    counter::normalize(&mut slots);
                    self.state
                        .note_dropped(u64::from(MEMBERS && slots.is_empty()));
                    self.state.put_slots(key_id, slots);
                    self.state.forget_unused(key_id);
                }
                self.membership.note_waiting(waits);
            }
        }
        self.idempotency.note_joined(joined);
        changed
    }

    /// Whether keyed operations or rights wait for acknowledgements.
    fn waits_for_others(&self, quorum: &Quorum) -> bool {
        let mut numbers = 0..self.state.ids().len() as u32;
        let waits_for_keys = |number| {
            self.idempotency
                .waits_for_keyed(&self.membership, quorum, number)
        };
        numbers.any(waits_for_keys) || self.quota.waits(&self.state, &self.membership)
    }

    /// Drops everything but the interned keys, to begin again as `writer`. Returns the counters that existed.
    pub(super) fn clear(&mut self, writer: WriterId) -> Vec<KeyId> {
        if GUESTS {
            self.rejoin.note_earlier(&self.state, &self.membership);
        }
        let mut key_ids: Vec<KeyId> = self.counters().map(|(key_id, _)| key_id).collect();
        key_ids.extend(Quota::owned(&self.state));
        self.quota.cleared();
        self.forks.forget_sums();
        self.idempotency.doubt_keyed(&mut self.membership);
        self.state.clear(writer);
        self.membership = Membership::new();
        self.deciding.take();
        key_ids
    }
}

/// The transactions whose withdrawals were joined in a sweep: their writers and clocks.
fn joined_withdrawals(before: &[Slot], slots: &[Slot]) -> Vec<(u32, u64)> {
    let mut joined = Vec::new();
    for slot in before {
        let writer = slot.writer();
        let kept = counter::find(slots, writer).map_or(0, |at| slots[at].side.withdrawals.len());
        if kept < slot.side.withdrawals.len() {
            joined.extend(slot.side.withdrawals.iter().map(|it| (writer, it.clock)));
        }
    }
    joined
}

#[cfg(test)]
pub(crate) mod tests;

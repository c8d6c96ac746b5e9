//! Acknowledgement and collection, as a member performs them in each round of its duties.
//! [The rule and the argument](crate::membership::stability#collection) stand with stability.

mod sweep;

use super::{Mark, QuotaHooks, Replica};
use crate::closed::Empty;
use crate::error::Error;
use crate::layers::Quota;
use crate::membership::Membership;
use crate::message::records::{Ack, Says};
use crate::state::counter;
use crate::state::keys::KeyId;
use crate::state::page::{OWN, PAGE, bits};
use crate::state::slot::Stamp;
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use crate::{MEMBERS, PARTS};
use alloc::boxed::Box;
use alloc::vec::Vec;
use sweep::sweep;

impl Replica {
    /// Whether others wait for an acknowledgement of this member's that waits itself for those who are
    /// attached here: they have not said that they have seen as much.
    pub(crate) fn is_held_up(&self) -> bool {
        self.membership.is_held_up(&self.state)
    }

    /// Publishes what this member has seen, if somebody waits for it; tells whether it did.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`].
    pub fn acknowledge(&mut self) -> Result<bool, Error> {
        if !self.membership.is_member() {
            return Ok(false);
        }
        // Whoever hears that this was acknowledged must have heard of that.
        self.idempotency
            .withdraw(&mut self.state, &mut self.membership, &mut |_, _| ())?;
        self.idempotency
            .give_up_keys(&self.state, &mut self.membership);
        let seen = self.membership.seen(&self.state);
        let asks = self.membership.table.waiting && self.membership.table.pending.is_none();
        let asks_for_keys = self
            .idempotency
            .asks_for_keys(&self.state, &self.membership);
        if !asks && !asks_for_keys && !self.membership.is_awaited(&seen) {
            return Ok(false);
        }
        let clock = self.membership.next_clock(&self.state)?;
        if asks {
            let mut held = self.state.clocks.clone();
            held[OWN as usize] = clock;
            self.membership.table.pending = Some((clock, held));
        }
        if asks_for_keys {
            self.idempotency
                .ask_for_keys(&self.state, &self.membership, clock);
        }
        let want = self
            .membership
            .table
            .pending
            .as_ref()
            .map_or(0, |pending| pending.0);
        let want = want.max(self.idempotency.asked_for_keys());
        let mut seen = seen;
        // It is part of what is seen here, if all that are attached have seen it. Who was not heard yet
        // may have been sent all but this, and be about to begin from that.
        let is_silent = |guest: u32| self.state.clocks[guest as usize] == 0;
        if !self.membership.attached_numbers().any(is_silent)
            && let Some(own) = seen.iter_mut().find(|it| it.0 == OWN && it.1 == clock - 1)
        {
            own.1 = clock;
        }
        self.membership.record(&mut self.state, OWN, |by| {
            Says::Ack(Box::new(Ack {
                clock: by.clock,
                want,
                seen,
            }))
        })?;
        Ok(true)
    }

    /// Collects what is stable: dead slots, absorbed writers' amounts, the writers themselves.
    /// Nothing that is newer than `kept`, what a store has written, is touched. Tells whether
    /// anything was collected.
    ///
    /// That makes snapshots in parts void: nobody may walk over the state across a collection.
    pub fn collect(&mut self, kept: &Mark) -> bool {
        if self.membership.configuration().is_none() {
            return false;
        }
        let quorum = self.membership.quorum(&self.state);
        self.membership.settle(&self.state, &quorum);
        let kept: Vec<u64> = (0..self.state.writers.len())
            .map(|n| self.state.low(&kept.state, n))
            .collect();
        let mut changed = false;
        self.membership.table.waiting = false;
        for at in 0..self.state.pages.len() {
            for slot in bits(self.state.pages[at].odd()) {
                let handle = KeyId((at * PAGE) as u32 + slot);
                let mut slots = self.state.pages[at].slots(slot);
                let mut waits = false;
                let stable = |stamp: Stamp| {
                    stamp.clock <= kept[stamp.writer as usize]
                        && self.membership.is_stable(&quorum, stamp)
                };
                let before = self.idempotency.has_keyed().then(|| slots.clone());
                if sweep(&mut slots, &self.state.writers, &stable, &mut waits) {
                    changed = true;
                    self.idempotency
                        .note_reborn(&before.unwrap_or_default(), &slots);
                    counter::normalize(&mut slots);
                    *self.state.dropped += u64::from(PARTS && slots.is_empty());
                    self.put_slots(handle, slots);
                    self.state.forget_unused(handle);
                }
                self.membership.table.waiting |= waits;
            }
        }
        changed |= self.forget(&quorum, &kept);
        let numbers = 0..self.state.writers.len() as u32;
        self.membership.table.waiting |= numbers.into_iter().any(|n| {
            self.idempotency
                .waits_for_keyed(&self.membership, &quorum, n)
        });
        self.membership.table.waiting |= self.quota.waits(&self.state, &self.membership);
        self.state.collected |= changed;
        if changed {
            self.state.void_walks();
            let mut floor = alloc::vec![0; self.state.writers.len()];
            for (number, clock) in self.membership.horizons() {
                floor[number as usize] = clock;
            }
            self.membership.table.floor = floor;
        }
        changed
    }

    /// What this replica knows to be stable: a member can tell those that are attached to it, who
    /// have no acknowledgements of their own to conclude it from.
    pub fn settled(&self) -> VersionVector {
        self.membership.settled(&self.state)
    }

    /// Takes a member's word for what is [settled](Replica::settled), if this replica has seen all
    /// that the member had, which was this: otherwise something could be missing here still that
    /// was made before it was settled.
    pub fn take_settled(&mut self, settled: &VersionVector, seen: &VersionVector) {
        self.membership.take_settled(&self.state, settled, seen)
    }

    /// Drops everything but the keys that are interned, to begin again as `writer`; which counters
    /// there were.
    pub(super) fn clear(&mut self, writer: WriterId) -> Vec<KeyId> {
        if MEMBERS {
            self.rejoin.note_former(&self.state, &self.membership);
        }
        let mut handles: Vec<KeyId> = self.counters().map(|(handle, _)| handle).collect();
        handles.extend(Quota::owned(&self.state));
        self.quota.cleared();
        *self.forks.sums = Empty::EMPTY;
        self.idempotency.doubt_keyed(&mut self.membership);
        self.state.clear(writer);
        self.membership = Membership::new();
        handles
    }
}

#[cfg(test)]
pub(crate) mod tests;

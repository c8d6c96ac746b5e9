//! Acknowledgement, and the collection of what means nothing any more.
//!
//! Something is *stable* once everybody who counts has seen it: then whatever is still unseen was
//! made by somebody who had seen it. Members count, and each of them speaks for the writers that
//! are attached to it. Only what is stable is collected.

mod sweep;

use super::members::Roster;
use super::{Mark, Replica};
use crate::closed::Empty;
use crate::error::Error;
use crate::roster::{Ack, Fence, HEIRS_MAX, Owner, Says, of};
use crate::state::counter;
use crate::state::keys::Handle;
use crate::state::page::{OWN, PAGE, bits};
use crate::state::slot::Stamp;
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use crate::{MEMBERS, PARTS};
use alloc::boxed::Box;
use alloc::vec::Vec;
use sweep::sweep;

/// Those whose acknowledgement is needed.
pub(super) struct Quorum {
    pub(super) members: Vec<u32>,
    /// What this replica has seen, and those that are attached to it.
    pub(super) own: Vec<(u32, u64)>,
    /// Whether they acknowledged each fence of a member's incarnation that is not absorbed yet, and each
    /// incarnation whose place is not certain. Until then no other acknowledgement means anything: some
    /// may know of a fence that others do not.
    pub(super) firm: bool,
    /// Whether they acknowledged the fences of guests, too. An acknowledgement leaves out whom its member
    /// knows to be dead, and others may still take in what that one says.
    pub(super) settled: bool,
}

/// What all who count have acknowledged, who left out guests that not all of them knew to be dead. It is
/// stable once they do: whoever was declared dead later was not left out. So guests that go all the time
/// put off nothing for ever.
#[derive(Clone, Debug)]
pub(super) struct Prospect {
    pub(super) members: Vec<u32>,
    /// By local number: of members' writers what all acknowledged.
    pub(super) least: Vec<u64>,
    /// What was held at an ack of this member's own that all acknowledged.
    pub(super) held: Option<Vec<u64>>,
    /// The guests that were left out, perhaps.
    pub(super) fences: Vec<u32>,
}

impl Replica {
    /// Whether a set of clocks covers a stamp, or the stamp of the absorption of its writer.
    pub(super) fn covers(&self, seen: impl Fn(u32) -> u64, mut stamp: Stamp) -> bool {
        for _ in 0..HEIRS_MAX {
            if seen(stamp.writer) >= stamp.clock {
                return true;
            }
            match self.roster.cards[stamp.writer as usize].retired {
                Some(retired) => stamp = retired.to,
                None => return false,
            }
        }
        false
    }

    pub(super) fn quorum(&self) -> Quorum {
        let members = self.starts().filter(|number| self.counts(*number));
        let mut quorum = Quorum {
            members: members.collect(),
            own: self.seen(),
            firm: false,
            settled: false,
        };
        // A member of whom no living incarnation is known may have seen, and made, anything.
        let speaks = |owner: &Owner| {
            let mut incarnations = self.incarnations(owner);
            incarnations.any(|number| self.counts(number))
        };
        if !self
            .configuration()
            .is_some_and(|it| it.members.iter().all(speaks))
        {
            quorum.members.clear();
        }
        let starts = self.starts();
        let cards = starts.map(|number| (&self.roster.cards[number as usize], number));
        let mut open = cards.filter(|(card, _)| card.retired.is_none());
        quorum.firm = open.all(|(card, number)| {
            // Others may still judge that it began from too old a state.
            let announce = card.announce.as_ref().filter(|_| card.is_unsure());
            let announce = announce.map(|it| Stamp {
                writer: number,
                clock: it.clock,
            });
            if announce.is_some_and(|by| !self.acknowledged(&quorum, by)) {
                return false;
            }
            let seen = |fence: Fence| self.acknowledged(&quorum, fence.by);
            let buried = |fence| seen(fence) && self.is_heir_told(&quorum, number);
            card.fence.is_none_or(buried)
        });
        quorum.settled = quorum.firm && self.left_out(&quorum).next().is_none();
        quorum
    }

    /// The guests that were declared dead, and not all who count have acknowledged it.
    fn left_out(&self, quorum: &Quorum) -> impl Iterator<Item = u32> {
        let left_out = self.ended_cards().filter(|(card, _)| {
            let open = card.retired.is_none() && card.announce.is_none();
            let fence = card.fence.filter(|_| open);
            fence.is_some_and(|fence| !self.acknowledged(quorum, fence.by))
        });
        left_out.map(|(_, number)| number)
    }

    /// Whether the heir of a dead member knows of all that anybody knows of it, and so of all writers
    /// that were attached to it, for whom the heir speaks now.
    pub(super) fn is_heir_told(&self, quorum: &Quorum, writer: u32) -> bool {
        let heir = self.heir_of(writer);
        let seen = |number: u32| self.seen_by(quorum, number, writer);
        let most = quorum.members.iter().map(|number| seen(*number)).max();
        let most = most.unwrap_or(0).max(self.state.clocks[writer as usize]);
        quorum.members.contains(&heir) && seen(heir) >= most
    }

    /// How much of a member's writer a member has acknowledged.
    pub(super) fn seen_by(&self, quorum: &Quorum, member: u32, writer: u32) -> u64 {
        match (member, &self.roster.cards[member as usize].ack) {
            (OWN, _) => of(&quorum.own, writer),
            (_, Some(ack)) => ack.of(writer),
            (_, None) => 0,
        }
    }

    /// Whether all who count have acknowledged a stamp.
    pub(super) fn acknowledged(&self, quorum: &Quorum, stamp: Stamp) -> bool {
        !quorum.members.is_empty()
            && quorum.members.iter().all(|&number| {
                let ack = &self.roster.cards[number as usize].ack;
                match (number, ack) {
                    (OWN, _) => self.covers(|writer| of(&quorum.own, writer), stamp),
                    (_, Some(ack)) => self.covers(|writer| ack.of(writer), stamp),
                    (_, None) => false,
                }
            })
    }

    /// Whether everybody who counts has seen a stamp: what is unseen was made by somebody who had.
    pub(super) fn is_stable(&self, quorum: &Quorum, stamp: Stamp) -> bool {
        let settled = &self.roster.settled;
        let settled = |writer: u32| settled.get(writer as usize).copied().unwrap_or(0);
        self.covers(settled, stamp) || quorum.settled && self.acknowledged(quorum, stamp)
    }

    /// Whether others wait for this member to acknowledge some of what it has seen.
    fn is_awaited(&self, seen: &[(u32, u64)]) -> bool {
        let before = self.acked();
        let mut due = false;
        let ended = self.ended_cards().map(|it| it.1);
        for number in self.starts().chain(ended) {
            let card = &self.roster.cards[number as usize];
            let newly = |stamp: Stamp| {
                self.covers(|writer| of(seen, writer), stamp)
                    && !self.covers(|writer| of(&before, writer), stamp)
            };
            let wanted = card
                .ack
                .as_ref()
                .filter(|_| number != OWN && self.counts(number));
            let own = |clock| Stamp {
                writer: number,
                clock,
            };
            due |= wanted.is_some_and(|ack| ack.want > 0 && newly(own(ack.want)));
            due |= card.retired.is_none() && card.fence.is_some_and(|fence| newly(fence.by));
            // Whoever takes over from a member is waited for until it has been told all.
            due |= card.fence.is_some() && of(seen, number) > of(&before, number);
            // A new incarnation waits to hear from the others.
            due |= number != OWN
                && self.counts(number)
                && card
                    .announce
                    .as_ref()
                    .is_some_and(|it| newly(own(it.clock)));
        }
        due
    }

    /// Whether others wait for an acknowledgement of this member's that waits itself for those who are
    /// attached here: they have not said that they have seen as much.
    pub(crate) fn is_held_up(&self) -> bool {
        let held = || self.members_part(|number| self.held_with_keys(number));
        self.is_member() && !self.is_awaited(&self.seen()) && self.is_awaited(&held())
    }

    /// Publishes what this member has seen, if somebody waits for it; tells whether it did.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`].
    pub fn acknowledge(&mut self) -> Result<bool, Error> {
        if !self.is_member() {
            return Ok(false);
        }
        // Whoever hears that this was acknowledged must have heard of that.
        self.withdraw(&mut |_, _| ())?;
        self.give_up_keys();
        let seen = self.seen();
        let asks = self.roster.waiting && self.roster.pending.is_none();
        let asks_for_keys = self.asks_for_keys();
        if !asks && !asks_for_keys && !self.is_awaited(&seen) {
            return Ok(false);
        }
        let clock = self.next_clock()?;
        if asks {
            let mut held = self.state.clocks.clone();
            held[OWN as usize] = clock;
            self.roster.pending = Some((clock, held));
        }
        if asks_for_keys {
            self.ask_for_keys(clock);
        }
        let want = self.roster.pending.as_ref().map_or(0, |pending| pending.0);
        let want = want.max(self.asked_for_keys());
        let mut seen = seen;
        // It is part of what is seen here, if all that are attached have seen it. Who was not heard yet
        // may have been sent all but this, and be about to begin from that.
        let is_silent = |guest: u32| self.state.clocks[guest as usize] == 0;
        if !self.attached_numbers().any(is_silent)
            && let Some(own) = seen.iter_mut().find(|it| it.0 == OWN && it.1 == clock - 1)
        {
            own.1 = clock;
        }
        self.state(OWN, |by| {
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
        if self.configuration().is_none() {
            return false;
        }
        let quorum = self.quorum();
        self.settle(&quorum);
        let kept: Vec<u64> = (0..self.state.writers.len())
            .map(|n| self.state.low(&kept.state, n))
            .collect();
        let mut changed = false;
        self.roster.waiting = false;
        for at in 0..self.state.pages.len() {
            for slot in bits(self.state.pages[at].odd()) {
                let handle = Handle((at * PAGE) as u32 + slot);
                let mut slots = self.state.pages[at].slots(slot);
                let mut waits = false;
                let stable = |stamp: Stamp| {
                    stamp.clock <= kept[stamp.writer as usize] && self.is_stable(&quorum, stamp)
                };
                let before = self.has_keyed().then(|| slots.clone());
                if sweep(&mut slots, &self.state.writers, &stable, &mut waits) {
                    changed = true;
                    self.note_reborn(&before.unwrap_or_default(), &slots);
                    counter::normalize(&mut slots);
                    *self.state.dropped += u64::from(PARTS && slots.is_empty());
                    self.put_slots(handle, slots);
                    self.state.forget_unused(handle);
                }
                self.roster.waiting |= waits;
            }
        }
        changed |= self.forget(&quorum, &kept);
        let numbers = 0..self.state.writers.len() as u32;
        self.roster.waiting |= numbers
            .into_iter()
            .any(|n| self.waits_for_keyed(&quorum, n));
        #[cfg(feature = "budgets")]
        {
            self.roster.waiting |= !self.has_none_pending() || self.awaits_known();
            self.roster.waiting |= self.keeps_spent_leases();
        }
        self.state.collected |= changed;
        if changed {
            self.state.void_walks();
            let mut floor = alloc::vec![0; self.state.writers.len()];
            for (number, clock) in self.horizons() {
                floor[number as usize] = clock;
            }
            self.roster.floor = floor;
        }
        changed
    }

    /// Moves the settled vector on to what all have acknowledged, and to what was held at an ack of
    /// this member's own that all have acknowledged.
    pub(super) fn settle(&mut self, quorum: &Quorum) {
        if !quorum.firm {
            return;
        }
        let left_out: Vec<u32> = self.left_out(quorum).collect();
        let prospect = self.roster.prospect.take();
        let prospect = prospect.filter(|it| it.members == quorum.members);
        let mut prospect = prospect.unwrap_or_else(|| self.prospect(quorum, &left_out));
        prospect
            .fences
            .retain(|guest| left_out.binary_search(guest).is_ok());
        if !prospect.fences.is_empty() {
            self.roster.prospect = Some(prospect);
            return;
        }
        let mut settled = core::mem::take(&mut self.roster.settled);
        settled.resize(self.state.writers.len(), 0);
        // Of members' writers all say themselves what they have seen: also whose keyed operations they
        // know.
        let mut held = prospect.held.unwrap_or_default();
        for number in self.starts() {
            let number = number as usize;
            if let Some(held) = held.get_mut(number) {
                *held = 0;
            }
            if let Some(clock) = prospect.least.get(number) {
                settled[number] = settled[number].max(*clock);
            }
        }
        for (settled, clock) in settled.iter_mut().zip(held) {
            *settled = clock.max(*settled);
        }
        self.roster.settled = settled;
        let starts: Vec<u32> = self.starts().collect();
        for number in starts {
            let number = number as usize;
            let card = &self.roster.cards[number];
            let clock = card.announce.as_ref().map_or(0, |it| it.clock);
            if card.is_unsure() && self.roster.settled[number] >= clock {
                self.roster.cards[number].base = None;
                self.roster.vouched.retain(|it| it.1 != number as u32);
            }
        }
    }

    /// What all have acknowledged by now.
    fn prospect(&mut self, quorum: &Quorum, left_out: &[u32]) -> Prospect {
        let waits = self.roster.pending.as_ref();
        let dot = waits.map(|(clock, _)| Stamp {
            writer: OWN,
            clock: *clock,
        });
        let is_held = dot.is_some_and(|dot| self.acknowledged(quorum, dot));
        let held = self.roster.pending.take_if(|_| is_held);
        let mut least = alloc::vec![0; self.state.writers.len()];
        for number in self.starts() {
            least[number as usize] = self.least_seen(quorum, number);
        }
        Prospect {
            members: quorum.members.clone(),
            least,
            held: held.map(|(_, held)| held),
            fences: left_out.to_vec(),
        }
    }

    /// How much of a member's writer all who count have acknowledged.
    pub(super) fn least_seen(&self, quorum: &Quorum, writer: u32) -> u64 {
        let seen = |number: &u32| self.seen_by(quorum, *number, writer);
        quorum.members.iter().map(seen).min().unwrap_or(0)
    }

    /// What this replica knows to be stable: a member can tell those that are attached to it, who
    /// have no acknowledgements of their own to conclude it from.
    pub fn settled(&self) -> VersionVector {
        let clocks = |(writer, number): (WriterId, u32)| {
            let clock = self.roster.settled.get(number as usize).copied();
            clock
                .filter(|clock| *clock > 0)
                .map(|clock| (writer, clock))
        };
        VersionVector::from_sorted(self.state.numbers.iter().filter_map(clocks).collect())
    }

    /// Takes a member's word for what is [settled](Replica::settled), if this replica has seen all
    /// that the member had, which was this: otherwise something could be missing here still that
    /// was made before it was settled.
    pub fn take_settled(&mut self, settled: &VersionVector, seen: &VersionVector) {
        if seen
            .iter()
            .any(|(writer, clock)| clock > self.held(&writer))
        {
            return;
        }
        self.roster.settled.resize(self.state.writers.len(), 0);
        for (writer, clock) in settled.iter() {
            if let Some(number) = self.state.numbers.get(&writer) {
                let ours = &mut self.roster.settled[number as usize];
                *ours = clock.max(*ours);
            }
        }
    }

    /// Whether everything that was collected here is covered by these clocks.
    pub(super) fn covers_floor(&self, lows: &[u64]) -> bool {
        let mut floor = self.roster.floor.iter().zip(0u32..);
        !MEMBERS
            || floor.all(|(&clock, writer)| {
                self.covers(|number| lows[number as usize], Stamp { writer, clock })
            })
    }

    /// Drops everything but the keys that are interned, to begin again as `writer`; which counters
    /// there were.
    pub(super) fn clear(&mut self, writer: WriterId) -> Vec<Handle> {
        if MEMBERS {
            self.note_former();
        }
        let handles = self.counters().map(|(handle, _)| handle);
        #[cfg(feature = "budgets")]
        let handles = handles.chain(self.state.keys.reserved().map(|(handle, _)| handle));
        let handles: Vec<Handle> = handles.collect();
        #[cfg(feature = "budgets")]
        self.pending.clear();
        *self.sums = Empty::EMPTY;
        self.doubt_keyed();
        self.state.clear(writer);
        *self.roster = Roster::new();
        handles
    }
}

#[cfg(test)]
pub(super) mod tests;

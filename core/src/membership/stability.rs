//! Acknowledgement, what is stable by it, and what may be collected.
//!
//! A stamp is *stable* at a replica that has the acknowledgements of it by all who count. From then on, each
//! transaction that this replica has not seen was made by a writer that had seen the stamp. This is causal
//! stability (Baquero, Almeida, Shoker 2014). It departs from the paper in two ways. Members count, and each
//! answers for the guests that it sponsors, in place of all replicas. And acknowledgements are records of the
//! state, not timestamps on messages.
//!
//! # Who counts
//! - Each living incarnation of a member of the present configuration counts. If some member has none, nothing
//!   more becomes stable ([`Membership::quorum`]).
//! - A member acknowledges what it and all of its guests have seen ([`Membership::seen`]). It acknowledges a
//!   writer only as far as it knows that writer's idempotency keys.
//! - All who count must have acknowledged each open fence of a member's start, and each start whose place is
//!   not certain. Until then no other acknowledgement means anything ([`Quorum::firm`]).
//! - An acknowledgement leaves out guests that its member knows to be fenced. So it waits until all know of
//!   these fences, or of those that were open when it was made ([`Quorum::stable`], [`Prospect`]).
//!
//! # Collection
//! **The rule.** A record may be dropped when everything that could still refer to it is stable, and the store
//! has it. `collect` (`replica/collect.rs`) looks at each counter, and `sweep` (`state/sweep.rs`) decides:
//!
//! | dropped | when these are stable |
//! |---|---|
//! | a slot in which nothing survives | its last transaction, and its watermark, lift and withdrawals |
//! | a slot of a retired writer, folded into the successor's | its retirement, its own records, and the successor's lift; in the order of the retirements, children first |
//! | an expiry that was taken away | its own transaction, and the lift if there is one |
//! | an assignment under a watermark | the watermark's transaction |
//! | the clock at which a lifetime began | that clock, once no assignment is left |
//! | single withdrawals of a slot, joined into one | all of them |
//! | a lift with nothing left to lift | the lift |
//! | a retired writer, with its clocks | its retirement, once it has no slot, succeeds no other writer, and holds no account of a budget |
//! | an end of an expired counter (`replica/expiries.rs`) | if it is in force, itself, and then all that was here when it was; if it is void, its mark. Until then nothing of the counter is dropped |
//! | an idempotency key, by age (`drop_keyed`) | its transaction; the caller chooses the age |
//!
//! Three kinds of drops wait for no stability, and are not in the table: void records, which
//! [`normalize`](crate::state::counter::normalize) drops; a retired writer's slot in which nothing survived, which
//! its [retirement](super::retire) drops; and the oldest idempotency key when room runs out. A replica that is no
//! member drops ends earlier ([`expiries`](crate::replica::expiries)).
//!
//! **When.** `SyncMachine::tend` does a member's duties, about once a second: it votes, fences, retires,
//! acknowledges, decides on ends, pushes, and collects. Nothing newer than the store's mark is dropped. A round waits for transfers
//! that a peer is in the middle of, for a bounded time. In an open space nothing is ever stable, so nothing of
//! the table is dropped.
//!
//! **Why that is safe.** Let all who count have acknowledged stamp `s`, and let `t` be a transaction that this
//! replica has not seen.
//! 1. *The writer of `t` had seen `s`.* The acknowledgement of a member is a record in its own causal order.
//!    A replica with that record has all that the member had made before it. It also has all that the
//!    member's guests had made when they reported `s`. So `t` came after.
//!
//!    A guest that is admitted later begins from no less than its member has acknowledged, or
//!    [admission](super::admission) refuses it (`behind`). If the writer of `t` is fenced, `t` counts only as
//!    far as the successor took it over.
//! 2. *So `t` does not need the record.* If `s` cancelled a slot, the slot's owner has seen that. Its next add
//!    begins a new lifetime. A later cancel by anybody finds the slot dead and leaves it alone.
//! 3. *A late copy of the record does no harm.* Its clock is covered and it is absent, so the
//!    [join](crate::state::join) takes it for collected and does not install it.
//! 4. *A replica that lacks `s` is found out.* A complete message carries the sender's horizon
//!    ([`Membership::add_horizon`]). A replica below it gets the whole state, or has to rejoin (`outdated`).
//! 5. *A push leaves out nothing that was collected.* A push carries no horizon, and readers merge it, although
//!    no member waits for readers. So `SyncMachine::tend` pushes before it collects. A replica can merge a push
//!    only if it has the push before, and then it has all own transactions that were collected. A decision on
//!    ends comes before that push. It drops the record of an end, whose effect is in watermarks of the same
//!    push; a void end has no effect.
//!
//! Collection also forgets where a slot's lifetimes began and ended. So it notes that for the log of keys
//! (`note_new_lifetimes`). A [duplicate that is found later](crate::idempotency#withdrawal) is then withdrawn
//! from the right lifetime, or not at all.
//!
//! **The tests.**
//! - `core/src/replica/collect/tests.rs`: the rows of the table, before and after they are stable. Writers
//!   are in `collect/tests/forgotten.rs`, and keys in `keyed/tests.rs`,
//!   `what_others_may_have_taken_too_is_not_dropped`.
//! - `what_is_deleted_is_dropped_when_all_have_seen_it_and_not_before` in `tests/tests/traces/retirement.rs`.
//! - `tests/src/retirement.rs`: every order of events of small spaces; all must end with equal bytes, and
//!   nobody who is gone may be known.
//! - `tests/src/closed.rs`: random histories with restarts and disks that are put back, against an oracle.
//! - `nothing_is_collected_before_it_was_pushed` in `core/src/sync/members/tests/duties.rs`.
//! - `core/src/replica/collect/tests/sponsors.rs`: guests that come and go put off nothing for ever.

use crate::indexed_state::State;
use crate::membership::Membership;
use crate::membership::admission::Forgotten;
use crate::message::Message;
use crate::message::records::{Fence, MembershipRecord, Owner, SUCCESSORS_MAX, Statement, of};
use crate::optional::{GUESTS, MEMBERS, Optional};
use crate::sort::sort_by_key;
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// The writers whose acknowledgements are needed.
pub(crate) struct Quorum {
    pub(crate) members: Vec<u32>,
    /// The clocks that this replica and all of its guests have seen.
    pub(crate) own: Vec<(u32, u64)>,
    /// Whether they acknowledged each fence of a member's incarnation that is not absorbed yet, and each
    /// incarnation whose place is not certain.
    ///
    /// Until then no other acknowledgement means anything, because some members may have a fence that others
    /// lack.
    pub(crate) firm: bool,
    /// Whether they acknowledged the fences of guests, too. An acknowledgement leaves out guests that its
    /// member knows to be dead, and other members may still accept messages of these guests.
    pub(crate) stable: bool,
}

/// The clocks that all counting incarnations have acknowledged, while not all of them had acknowledged the
/// fences of some guests.
///
/// These clocks become stable once all have acknowledged those fences. A guest that was declared dead later
/// was not left out. So guests that leave all the time do not delay stability for ever.
#[derive(Clone, Debug)]
pub(crate) struct Prospect {
    pub(crate) members: Vec<u32>,
    /// For each member's writer, by local number, the clock that all acknowledged.
    pub(crate) least: Vec<u64>,
    /// The clocks that this member had at an own acknowledgement that all have acknowledged.
    pub(crate) held: Option<Vec<u64>>,
    /// The guests that may have been left out.
    pub(crate) fences: Vec<u32>,
}

impl Membership {
    /// Makes a message complete: it names all writers, and carries the GC horizon of this replica.
    pub(crate) fn add_horizon(&self, state: &State, message: &mut Message) {
        message.complete = message.closed;
        if !message.is_complete() {
            return;
        }
        message.without_keys |= message.is_whole() && self.lacks_collected_keys();
        for (writer, entry) in message.delta.writers.iter().enumerate() {
            let number = state.number_of(&entry.writer);
            if let Some(clock) = number.map(|number| self.horizon(number)).filter(|c| *c > 0) {
                let writer = writer as u32;
                let statement = Statement::Horizon(clock);
                message
                    .records
                    .update(|it| it.push(MembershipRecord { writer, statement }));
            }
        }
        message
            .records
            .update(|it| sort_by_key(it, MembershipRecord::place));
    }

    /// Returns a version vector by local number, no higher than the clocks here. All clocks are 0 if the
    /// vector lacks something that was collected here, because then only the whole state is enough.
    pub(crate) fn lows(&self, state: &State, since: &VersionVector) -> Vec<u64> {
        let mut lows = state.clocks_in(since);
        if !self.covers_collected(&lows) {
            lows.fill(0);
        }
        lows
    }

    /// Whether a set of clocks covers a stamp, or the stamp of the absorption of its writer.
    pub(crate) fn covers(&self, seen: impl Fn(u32) -> u64, mut stamp: Stamp) -> bool {
        for _ in 0..SUCCESSORS_MAX {
            if seen(stamp.writer) >= stamp.clock {
                return true;
            }
            match self.table.writer_states[stamp.writer as usize].retired {
                Some(retired) => stamp = retired.to,
                None => return false,
            }
        }
        false
    }

    pub(crate) fn quorum(&self, state: &State) -> Quorum {
        let members = self.starts().filter(|number| self.counts(*number));
        let mut quorum = Quorum {
            members: members.collect(),
            own: self.seen(state),
            firm: false,
            stable: false,
        };
        // A member without a living incarnation here may have seen and made anything.
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
        let writer_states =
            starts.map(|number| (&self.table.writer_states[number as usize], number));
        let mut open = writer_states.filter(|(writer_state, _)| writer_state.retired.is_none());
        quorum.firm = open.all(|(writer_state, number)| {
            // Other members may still find that it began from too old a state.
            let announce = writer_state
                .announce
                .as_ref()
                .filter(|_| writer_state.is_unsure());
            let announce = announce.map(|it| Stamp {
                writer: number,
                clock: it.clock,
            });
            if announce.is_some_and(|by| !self.acknowledged(&quorum, by)) {
                return false;
            }
            let seen = |fence: Fence| self.acknowledged(&quorum, fence.by);
            let buried = |fence| seen(fence) && self.is_successor_told(state, &quorum, number);
            writer_state.fence.is_none_or(buried)
        });
        quorum.stable = quorum.firm && self.left_out(&quorum).next().is_none();
        quorum
    }

    /// The guests that were declared dead by a fence that not all counting incarnations have acknowledged.
    pub(crate) fn left_out(&self, quorum: &Quorum) -> impl Iterator<Item = u32> {
        let left_out = self.ended_states().filter(|(writer_state, _)| {
            let open = writer_state.retired.is_none() && writer_state.announce.is_none();
            let fence = writer_state.fence.filter(|_| open);
            fence.is_some_and(|fence| !self.acknowledged(quorum, fence.by))
        });
        left_out.map(|(_, number)| number)
    }

    /// Whether the successor of a dead member has everything that any member has of it. Then the successor
    /// has all writers that the dead member sponsored, and answers for them.
    pub(crate) fn is_successor_told(&self, state: &State, quorum: &Quorum, writer: u32) -> bool {
        let successor = self.successor_of(writer);
        let seen = |number: u32| self.seen_by(quorum, number, writer);
        let most = quorum.members.iter().map(|number| seen(*number)).max();
        let most = most.unwrap_or(0).max(state.clock_at(writer));
        quorum.members.contains(&successor) && seen(successor) >= most
    }

    /// How much of a member's writer a member has acknowledged.
    pub(crate) fn seen_by(&self, quorum: &Quorum, member: u32, writer: u32) -> u64 {
        match (member, &self.table.writer_states[member as usize].ack) {
            (OWN, _) => of(&quorum.own, writer),
            (_, Some(ack)) => ack.of(writer),
            (_, None) => 0,
        }
    }

    /// Whether all counting incarnations have acknowledged a stamp.
    pub(crate) fn acknowledged(&self, quorum: &Quorum, stamp: Stamp) -> bool {
        !quorum.members.is_empty()
            && quorum.members.iter().all(|&number| {
                let ack = &self.table.writer_states[number as usize].ack;
                match (number, ack) {
                    (OWN, _) => self.covers(|writer| of(&quorum.own, writer), stamp),
                    (_, Some(ack)) => self.covers(|writer| ack.of(writer), stamp),
                    (_, None) => false,
                }
            })
    }

    /// Whether all counting incarnations have seen a stamp. Then each unseen transaction was made by a writer
    /// that had seen it.
    pub(crate) fn is_stable(&self, quorum: &Quorum, stamp: Stamp) -> bool {
        let stable = &self.table.stable;
        let stable = |writer: u32| stable.get(writer as usize).copied().unwrap_or(0);
        self.covers(stable, stamp) || quorum.stable && self.acknowledged(quorum, stamp)
    }

    /// Begins a collection, which finds out anew whether anything waits to be stable.
    pub(crate) fn stop_waiting(&mut self) {
        if MEMBERS {
            self.table.update(|it| it.waiting = false);
        }
    }

    /// Notes whether something waits to be stable.
    pub(crate) fn note_waiting(&mut self, waits: bool) {
        if MEMBERS {
            self.table.update(|it| it.waiting |= waits);
        }
    }

    /// Whether this member waits for acknowledgements that it has not requested yet.
    pub(crate) fn asks_for_acknowledgements(&self) -> bool {
        self.table.waiting && self.table.pending.is_none()
    }

    /// Notes that this member requests, with its transaction of this clock, acknowledgements of everything
    /// that is here.
    pub(crate) fn note_asked(&mut self, state: &State, clock: u64) {
        let mut held = state.clocks().to_vec();
        held[OWN as usize] = clock;
        self.table.update(|it| it.pending = Some((clock, held)));
    }

    /// The own clock of the transaction that requested acknowledgements, until all have arrived. Otherwise 0.
    pub(crate) fn asked(&self) -> u64 {
        let pending = self.table.pending.as_ref();
        pending.map_or(0, |pending| pending.0)
    }

    /// Returns the clocks that are [seen](Self::seen), for an acknowledgement of this clock. The
    /// acknowledgement is part of them if all writers that are sponsored here have seen the transaction
    /// before it.
    ///
    /// A writer without a transaction, or a page that no member has admitted, may have received everything but this
    /// one, and be about to begin from that.
    pub(crate) fn seen_up_to(
        &self,
        state: &State,
        mut seen: Vec<(u32, u64)>,
        clock: u64,
    ) -> Vec<(u32, u64)> {
        let is_silent = |guest: u32| state.clock_at(guest) == 0;
        if self.table.pages.is_none()
            && !self.sponsored_numbers().any(is_silent)
            && let Some(own) = seen.iter_mut().find(|it| it.0 == OWN && it.1 == clock - 1)
        {
            own.1 = clock;
        }
        seen
    }

    /// Whether others wait for this member to acknowledge some of what it has seen.
    pub(crate) fn is_awaited(&self, seen: &[(u32, u64)]) -> bool {
        let before = self.acked();
        let mut due = false;
        let ended = self.ended_states().map(|it| it.1);
        for number in self.starts().chain(ended) {
            let writer_state = &self.table.writer_states[number as usize];
            let newly = |stamp: Stamp| {
                self.covers(|writer| of(seen, writer), stamp)
                    && !self.covers(|writer| of(&before, writer), stamp)
            };
            let wanted = writer_state
                .ack
                .as_ref()
                .filter(|_| number != OWN && self.counts(number));
            let own = |clock| Stamp {
                writer: number,
                clock,
            };
            due |= wanted.is_some_and(|ack| ack.want > 0 && newly(own(ack.want)));
            due |= writer_state.retired.is_none()
                && writer_state.fence.is_some_and(|fence| newly(fence.by));
            // A member's successor has to receive everything of it, and the others wait for that.
            due |= writer_state.fence.is_some() && of(seen, number) > of(&before, number);
            // A new incarnation waits for an acknowledgement of the others.
            due |= number != OWN
                && self.counts(number)
                && writer_state
                    .announce
                    .as_ref()
                    .is_some_and(|it| newly(own(it.clock)));
        }
        due
    }

    /// Whether others wait for an acknowledgement of this member that is itself delayed by its guests. The
    /// guests have not reported that they have seen as much.
    pub(crate) fn is_held_up(&self, state: &State) -> bool {
        let held = || self.members_part(|number| self.clock_with_keys(state, number));
        self.is_member() && !self.is_awaited(&self.seen(state)) && self.is_awaited(&held())
    }

    /// Raises the stable clocks in two steps. For members' writers it raises them to the clocks that all
    /// have acknowledged. For the others it raises them to the clocks that this member had at an own
    /// acknowledgement that all have acknowledged.
    pub(crate) fn raise_stable(&mut self, state: &State, quorum: &Quorum) {
        if !quorum.firm {
            return;
        }
        let left_out: Vec<u32> = self.left_out(quorum).collect();
        let prospect = self.table.update(|it| it.prospect.take()).flatten();
        let prospect = prospect.filter(|it| it.members == quorum.members);
        let mut prospect = prospect.unwrap_or_else(|| self.prospect(state, quorum, &left_out));
        prospect
            .fences
            .retain(|guest| left_out.binary_search(guest).is_ok());
        if !prospect.fences.is_empty() {
            self.table.update(|it| it.prospect = Some(prospect));
            return;
        }
        let stable = self.table.update(|it| core::mem::take(&mut it.stable));
        let mut stable = stable.unwrap_or_default();
        stable.resize(state.ids().len(), 0);
        // All acknowledge members' writers themselves, and only as far as they have the writers' keyed
        // operations.
        let mut held = prospect.held.unwrap_or_default();
        for number in self.starts() {
            let number = number as usize;
            if let Some(held) = held.get_mut(number) {
                *held = 0;
            }
            if let Some(clock) = prospect.least.get(number) {
                stable[number] = stable[number].max(*clock);
            }
        }
        for (stable, clock) in stable.iter_mut().zip(held) {
            *stable = clock.max(*stable);
        }
        self.table.update(|it| it.stable = stable);
        let starts: Vec<u32> = self.starts().collect();
        for number in starts {
            let number = number as usize;
            let writer_state = &self.table.writer_states[number];
            let clock = writer_state.announce.as_ref().map_or(0, |it| it.clock);
            if writer_state.is_unsure() && self.table.stable[number] >= clock {
                self.table.update(|it| {
                    it.writer_states[number].base = None;
                    it.vouched.retain(|it| it.1 != number as u32);
                });
            }
        }
    }

    /// Returns the prospect: the clocks that all have acknowledged by now.
    pub(crate) fn prospect(
        &mut self,
        state: &State,
        quorum: &Quorum,
        left_out: &[u32],
    ) -> Prospect {
        let waits = self.table.pending.as_ref();
        let dot = waits.map(|(clock, _)| Stamp {
            writer: OWN,
            clock: *clock,
        });
        let is_held = dot.is_some_and(|dot| self.acknowledged(quorum, dot));
        let held = self.table.update(|it| it.pending.take_if(|_| is_held));
        let mut least = alloc::vec![0; state.ids().len()];
        for number in self.starts() {
            least[number as usize] = self.least_seen(quorum, number);
        }
        Prospect {
            members: quorum.members.clone(),
            least,
            held: held.flatten().map(|(_, held)| held),
            fences: left_out.to_vec(),
        }
    }

    /// How much of a member's writer all counting incarnations have acknowledged.
    pub(crate) fn least_seen(&self, quorum: &Quorum, writer: u32) -> u64 {
        let seen = |number: &u32| self.seen_by(quorum, *number, writer);
        quorum.members.iter().map(seen).min().unwrap_or(0)
    }

    /// Takes over the GC horizon that the sender of a state had.
    pub(crate) fn apply_horizon(
        &mut self,
        state: &mut State,
        message: &Message,
        forgotten: &Forgotten,
    ) {
        self.table
            .update(|it| it.collected.resize(state.ids().len(), 0));
        for record in message.records() {
            if let Statement::Horizon(clock) = record.statement
                && !forgotten.contains(&(record.writer as usize))
            {
                let number =
                    self.number(state, message.delta.writers[record.writer as usize].writer);
                self.table.update(|it| {
                    let collected = &mut it.collected[number as usize];
                    *collected = clock.max(*collected);
                });
            }
        }
    }

    /// Notes that something was collected: it moves the GC horizon of each writer up to everything that was
    /// [stable](Self::is_stable) then. This may be more than [`raise_stable`](Self::raise_stable) has noted so far.
    pub(crate) fn note_collected(&mut self, state: &State, quorum: &Quorum) {
        let mut collected = alloc::vec![0; state.ids().len()];
        for number in self.starts() {
            let acknowledged = match quorum.stable {
                true => self.least_seen(quorum, number),
                false => 0,
            };
            collected[number as usize] = self.horizon(number).max(acknowledged);
        }
        self.table.update(|it| it.collected = collected);
    }

    /// Everything that this replica has found to be stable. A member can send it to its guests. These cannot
    /// compute it, because they receive no acknowledgements of their own.
    pub(crate) fn stable(&self, state: &State) -> VersionVector {
        let clocks = |(writer, number): (WriterId, u32)| {
            let clock = self.table.stable.get(number as usize).copied();
            clock
                .filter(|clock| *clock > 0)
                .map(|clock| (writer, clock))
        };
        VersionVector::from_sorted(state.numbered().filter_map(clocks).collect())
    }

    /// Accepts a member's report of what is [stable](crate::Members::stable), if this replica has seen
    /// everything that the member had, which is `seen`. Otherwise this replica could still lack something
    /// that was made before it was stable.
    pub(crate) fn accept_stable(
        &mut self,
        state: &State,
        stable: &VersionVector,
        seen: &VersionVector,
    ) {
        if seen
            .iter()
            .any(|(writer, clock)| clock > state.held(&writer))
        {
            return;
        }
        let Some(table) = self.table.get_mut() else {
            return;
        };
        table.stable.resize(state.ids().len(), 0);
        for (writer, clock) in stable.iter() {
            if let Some(number) = state.number_of(&writer) {
                let ours = &mut table.stable[number as usize];
                *ours = clock.max(*ours);
            }
        }
    }

    /// The GC horizon, as far as it names members' writers.
    #[cfg(feature = "members")]
    pub(crate) fn horizon_vector(&self, state: &State) -> VersionVector {
        let clocks = self.starts().map(|it| (state.id(it), self.horizon(it)));
        let mut clocks: Vec<(WriterId, u64)> = clocks.filter(|it| it.1 > 0).collect();
        clocks.sort_unstable();
        VersionVector::from_sorted(clocks)
    }

    /// Accepts a member's GC horizon, if this replica has everything that the member had at its last collection.
    #[cfg(feature = "guests")]
    pub(crate) fn accept_horizon(&mut self, state: &State, horizon: &VersionVector) {
        let Some(table) = self.table.get_mut() else {
            return;
        };
        table.stable.resize(state.ids().len(), 0);
        for (writer, clock) in horizon.iter() {
            if let Some(number) = state.number_of(&writer) {
                let stable = &mut table.stable[number as usize];
                *stable = clock.max(*stable);
            }
        }
    }

    /// Whether this replica, which no member has judged yet, began too early. At its first transaction it had
    /// not seen the GC horizon of a complete message's sender.
    pub(crate) fn began_before(&self, state: &State, message: &Message) -> bool {
        let writer_state = &self.table.writer_states[OWN as usize];
        let base = writer_state.base.as_deref().filter(|base| !base.is_empty());
        let judged = writer_state.announce.is_some() || self.is_counted();
        !judged && base.is_some_and(|base| !self.has_seen_horizon(state, message, base))
    }

    /// Whether this replica had seen nothing at its first transaction.
    pub(crate) fn is_lonely(&self) -> bool {
        let base = self.table.writer_states[OWN as usize].base.as_deref();
        base.is_none_or(<[_]>::is_empty)
    }

    /// Whether these clocks cover everything that was collected here.
    pub(crate) fn covers_collected(&self, lows: &[u64]) -> bool {
        let mut collected = self.table.collected.iter().zip(0u32..);
        !GUESTS
            || collected.all(|(&clock, writer)| {
                self.covers(|number| lows[number as usize], Stamp { writer, clock })
            })
    }

    /// Returns the clock up to which a writer's part may lack records that all have seen to be over. Returns
    /// 0 if the table has no clock for the writer.
    #[cfg(feature = "members")]
    pub(crate) fn collected_upto(&self, writer: u32) -> u64 {
        let of = |clocks: &[u64]| clocks.get(writer as usize).copied().unwrap_or(0);
        of(&self.table.collected).max(of(&self.table.stable))
    }
}

#[cfg(all(test, feature = "members"))]
mod tests;

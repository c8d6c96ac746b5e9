//! Members, their incarnations, and the records that a member makes of itself and of others.
//!
//! An owner's process has a new writer at each start: an *incarnation*. A member's incarnation announces
//! itself with a generation that ascends, so every replica can tell an older start from a newer one. Its
//! place is *unsure* until all who count have acknowledged it, because its disk may have been put back.
//!
//! A fence declares a writer dead. It plays the part of a fencing token (Kleppmann 2016): a replica that has
//! acknowledged it accepts nothing more of that writer, except from members.

use super::Membership;
use crate::error::{Error, MemberError, WriteError, detail};
use crate::indexed_state::State;
use crate::membership::room::Bringer;
use crate::membership::writer_state::WriterState;
use crate::message::records::{
    Admit, Announce, Configuration, Fence, Intro, Leave, Owner, Statement, of,
};
use crate::optional::{GUESTS, MEMBERS, Optional};
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

impl Membership {
    /// Returns the clock of the next own transaction.
    ///
    /// # Errors
    /// [`WriteError::WritersFull`], [`WriteError::ClockExhausted`].
    pub(crate) fn next_clock(&self, state: &State) -> Result<u64, Error> {
        self.room_for_start(state)?;
        self.clock_after(state)
    }

    /// The same for a transaction for which there is always room.
    pub(crate) fn clock_after(&self, state: &State) -> Result<u64, Error> {
        let next = state.clock().checked_add(1);
        next.filter(|clock| !GUESTS || *clock < u64::MAX)
            .ok_or(Error::from(WriteError::ClockExhausted))
    }

    /// Whether this replica stores own transactions in the journal, to make them again if it has to rejoin.
    #[inline]
    pub(crate) fn keeps_journal(&self) -> bool {
        GUESTS && self.table.configuration.is_some()
    }

    /// Closes the space: the owner of this replica's writer is its first member. All writers that are known
    /// here are admitted.
    ///
    /// # Errors
    /// [`MemberError::Closed`], [`WriteError::ClockExhausted`].
    pub(crate) fn found(
        &mut self,
        state: &mut State,
        owner: &Owner,
        nonce: &[u8; 16],
        unix_ms: u64,
    ) -> Result<(), Error> {
        if self.configuration().is_some() {
            return Err(MemberError::Closed.into());
        }
        // A full space gets room by that.
        let clock = self.clock_after(state)?;
        let configuration = Configuration {
            era: 0,
            number: 1,
            members: Vec::from([*owner]),
            limits: Vec::new(),
        };
        let announce = self.announcement(clock, owner, nonce, unix_ms);
        self.note(state, OWN, Statement::Announce(Box::new(announce)));
        let by = Stamp { writer: OWN, clock };
        for writer in 1..state.ids().len() as u32 {
            self.note(state, writer, Statement::Admit(Admit { turn: 0, by }));
        }
        self.table.update(|it| {
            it.configuration = Some((by, configuration));
            it.established = true;
        });
        self.made(state, clock);
        self.table
            .update(|it| it.writer_states[OWN as usize].base = None);
        Ok(())
    }

    pub(crate) fn announcement(
        &self,
        clock: u64,
        owner: &Owner,
        nonce: &[u8; 16],
        unix_ms: u64,
    ) -> Announce {
        let known = self.incarnations(owner);
        let known = known.map(|number| self.generation_of(number));
        let last = known.chain(self.gone(owner)).max().unwrap_or(0);
        Announce {
            clock,
            owner: *owner,
            nonce: *nonce,
            generation: last.saturating_add(1).max(unix_ms),
        }
    }

    /// The newest generation of an owner whose incarnation was forgotten here.
    pub(crate) fn gone(&self, owner: &Owner) -> Option<u64> {
        let gone = &self.table.gone;
        let at = gone.binary_search_by(|entry| entry.0.cmp(owner)).ok()?;
        Some(gone[at].1)
    }

    /// The owner's incarnations in the table.
    pub(crate) fn incarnations(&self, owner: &Owner) -> impl Iterator<Item = u32> {
        let of = move |writer_state: &WriterState| {
            writer_state
                .announce
                .as_ref()
                .is_some_and(|it| it.owner == *owner)
        };
        let starts = self.starts();
        starts.filter(move |number| of(&self.table.writer_states[*number as usize]))
    }

    /// Notes that this writer was announced. A member that admitted a start when it connected waits for it
    /// from what the member had acknowledged.
    pub(crate) fn note_announced(&mut self, begins: bool) {
        self.table.update(|it| {
            let own = &mut it.writer_states[OWN as usize];
            if begins && own.intro.is_some() {
                own.base = None;
            }
        });
    }

    /// Notes that this writer had seen nothing of others at its first transaction.
    pub(crate) fn note_first(&mut self) {
        self.table
            .update(|it| it.writer_states[OWN as usize].base = Some(Box::default()));
    }

    /// The members' starts in the table, by local number, ascending.
    pub(crate) fn starts(&self) -> impl Iterator<Item = u32> {
        self.table.starts()
    }

    /// The members' starts in the table, with the records about them.
    pub(crate) fn start_states(&self) -> impl Iterator<Item = (&WriterState, u32)> {
        let starts = self.starts();
        starts.map(|number| (&self.table.writer_states[number as usize], number))
    }

    /// The writers that have left, were declared dead or were absorbed, and are not forgotten yet. They come
    /// with their records, by local number, ascending.
    pub(crate) fn ended_states(&self) -> impl Iterator<Item = (&WriterState, u32)> {
        let ended = self.table.ended();
        ended.map(|number| (&self.table.writer_states[number as usize], number))
    }

    /// Whether this number is a living incarnation of a member.
    pub(crate) fn counts(&self, writer: u32) -> bool {
        let writer_state = &self.table.writer_states[writer as usize];
        let owner = writer_state.announce.as_ref().map(|it| it.owner);
        let member = owner.is_some_and(|it| self.configuration().is_some_and(|c| c.has(&it)));
        member && !writer_state.is_over()
    }

    /// Whether this replica is a member.
    pub(crate) fn is_member(&self) -> bool {
        MEMBERS && self.counts(OWN)
    }

    /// Returns the clocks up to which anything may have been collected, here or elsewhere. Nothing beyond
    /// them was acknowledged by this member or found to be stable.
    pub(crate) fn given_up(&self) -> Vec<(u32, u64)> {
        let owner = |writer_state: &WriterState| writer_state.announce.as_ref().map(|it| it.owner);
        let own = owner(&self.table.writer_states[OWN as usize]);
        // Earlier incarnations of the owner acknowledged for it too.
        let writer_states = self.start_states().filter(|it| owner(it.0) == own);
        let acks = writer_states.filter_map(|it| it.0.ack.as_ref());
        let acked = acks.flat_map(|ack| ack.seen.iter().copied());
        acked.chain(self.horizons()).collect()
    }

    /// The clock up to which a member's writer may have been collected. This replica may have collected it,
    /// or replicas to which it reported what is stable.
    pub(crate) fn horizon(&self, number: u32) -> u64 {
        let at = number as usize;
        let of = |clocks: &[u64]| clocks.get(at).copied().unwrap_or(0);
        match self.table.writer_states[at].announce {
            Some(_) => of(&self.table.collected).max(of(&self.table.stable)),
            None => 0,
        }
    }

    pub(crate) fn horizons(&self) -> impl Iterator<Item = (u32, u64)> {
        let numbers = self.starts();
        let horizons = numbers.map(|number| (number, self.horizon(number)));
        horizons.filter(|(_, clock)| *clock > 0)
    }

    /// Moves the own clock to that of a transaction that was made.
    pub(crate) fn made(&mut self, state: &mut State, clock: u64) {
        if GUESTS && state.clock() == 0 {
            let seen = state.clocks().iter().copied().zip(0u32..);
            let seen = seen.filter(|(clock, _)| *clock > 0);
            let seen = seen.map(|(clock, number)| (number, clock)).collect();
            let is_closed = self.configuration().is_some();
            self.table.update(|it| {
                it.writer_states[OWN as usize].base = Some(seen);
                if is_closed {
                    it.changed(OWN, state.epoch());
                }
            });
        }
        state.made(clock);
    }

    /// Notes whether other members have admitted this writer.
    pub(crate) fn establish(&mut self) {
        let sole = self.configuration().is_some_and(|it| it.members.len() == 1);
        let writer_state = &self.table.writer_states[OWN as usize];
        let announced = writer_state.announce.as_ref().map(|it| it.clock);
        let established = match announced {
            Some(_) if sole => true,
            None => writer_state.intro.is_some(),
            Some(clock) => self
                .start_states()
                .filter(|it| it.1 != OWN)
                .any(|it| it.0.ack.as_ref().is_some_and(|ack| ack.of(OWN) >= clock)),
        };
        self.table.update(|it| it.established |= established);
    }

    /// Whether a member's start, or the end of one, is delayed by this member's acknowledgement. The
    /// acknowledgement waits for the guests that are sponsored here.
    ///
    /// Until then the place of the start, and the last clock of the ended one, are not certain.
    pub(crate) fn delays_members(&self, state: &State) -> bool {
        let mut open = self
            .start_states()
            .filter(|(writer_state, _)| writer_state.retired.is_none());
        open.any(|(writer_state, writer)| {
            let fence = writer_state
                .fence
                .filter(|_| writer_state.announce.is_some());
            self.delays_start(state, writer)
                || fence.is_some_and(|fence| self.delays(state, fence.by))
        })
    }

    /// Whether the end of a writer is delayed by this member's acknowledgement.
    pub(crate) fn delays_ends(&self, state: &State) -> bool {
        let mut open = self
            .ended_states()
            .filter(|(writer_state, _)| writer_state.retired.is_none());
        open.any(|(writer_state, _)| {
            let fence = writer_state.fence;
            fence.is_some_and(|fence| self.delays(state, fence.by))
        })
    }

    /// Whether another member's start is delayed by this member's acknowledgement.
    pub(crate) fn delays_start(&self, state: &State, number: u32) -> bool {
        let announce = self.writer(number).announce.as_ref();
        announce.is_some_and(|announce| {
            let by = Stamp {
                writer: number,
                clock: announce.clock,
            };
            number != OWN && self.counts(number) && self.delays(state, by)
        })
    }

    /// Whether a transaction is here, with its keys, and this member has not acknowledged it.
    fn delays(&self, state: &State, by: Stamp) -> bool {
        let ack = self.writer(OWN).ack.as_ref();
        let acked = ack.map_or(0, |ack| ack.of(by.writer));
        (acked + 1..=self.clock_with_keys(state, by.writer)).contains(&by.clock)
    }

    /// The clocks of this member's last acknowledgement.
    pub(crate) fn acked(&self) -> Vec<(u32, u64)> {
        let ack = self.table.writer_states[OWN as usize].ack.as_ref();
        ack.map_or(Vec::new(), |ack| ack.seen.clone())
    }

    /// Leaves: makes the writer's last transaction. Afterwards the replica makes no other one and merges
    /// nothing. Its sponsor is the successor.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`] if no member has admitted it.
    pub(crate) fn leave(&mut self, state: &mut State) -> Result<(), Error> {
        let Some(sponsor) = self.table.writer_states[OWN as usize].sponsor else {
            return Err(MemberError::NotAMember.into());
        };
        let successor = sponsor.by.writer;
        self.record(state, OWN, |by| {
            Statement::Leave(Leave {
                clock: by.clock,
                successor,
            })
        })
    }

    /// Declares a writer dead, with this member as the successor. The member takes over everything that it
    /// has of the writer. If it has nothing, it becomes certain that nothing of the writer counts.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`] if this replica is none, [`MemberError::UnknownWriter`] if it is its own,
    /// [`WriteError::WritersFull`].
    pub(crate) fn fence(&mut self, state: &mut State, writer: &WriterId) -> Result<(), Error> {
        if !self.is_member() {
            return Err(MemberError::NotAMember.into());
        }
        if *writer == state.writer() {
            return Err(MemberError::UnknownWriter {
                writer: detail(*writer),
            }
            .into());
        }
        if self.forgotten_upto(writer).is_some() {
            return Ok(());
        }
        let clock = self.next_clock(state)?;
        self.room_for_writer(state, writer, Bringer::Peer)?;
        let number = self.number(state, *writer);
        let writer_state = &self.table.writer_states[number as usize];
        if writer_state.fence.is_some() || writer_state.retired.is_some() {
            return Ok(());
        }
        let by = Stamp { writer: OWN, clock };
        if writer_state.intro.is_none() && writer_state.announce.is_none() {
            self.note(state, number, Statement::Admit(Admit { turn: 0, by }));
        }
        let fence = Fence {
            turn: 0,
            by,
            successor: OWN,
        };
        self.note(state, number, Statement::Fence(fence));
        self.made(state, clock);
        Ok(())
    }

    /// Whether this replica accepts messages of this writer's own. It does not if the writer was declared
    /// dead, or if it left, because then the replica already has all of it.
    pub(crate) fn accepts_from(&self, state: &State, writer: &WriterId) -> bool {
        let writer_state = state
            .number_of(writer)
            .map(|at| &self.table.writer_states[at as usize]);
        writer_state.is_none_or(|writer_state| !writer_state.is_over())
    }

    /// Whether this member has acknowledged that a writer is dead, or concluded it from its own
    /// acknowledgement alone.
    ///
    /// By then it had everything that its guests had of the writer. It accepts no more of the writer from
    /// guests. If nobody had received the writer before the fence, it accepts nothing of the writer from
    /// them.
    pub(crate) fn has_buried(&self, writer: u32) -> bool {
        let writer_state = &self.table.writer_states[writer as usize];
        let acked = self.acked();
        let known = |writer| of(&acked, writer).max(self.horizon(writer));
        let buried = |fence: Fence| writer_state.is_burial() || self.covers(known, fence.by);
        writer_state.retired.is_none() && writer_state.fence.is_some_and(buried)
    }

    /// Whether a writer is a living incarnation of a member.
    pub(crate) fn is_counted_member(&self, state: &State, writer: &WriterId) -> bool {
        state
            .number_of(writer)
            .is_some_and(|number| self.counts(number))
    }

    /// Declares incarnations dead whose owners are no members any more. Declares also earlier incarnations of
    /// its own owner dead that this replica had not received when it announced itself.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`].
    pub(crate) fn fence_strays(&mut self, state: &mut State) -> Result<(), Error> {
        let own = self.incarnation(state, &state.writer());
        let Some((owner, generation)) = own.filter(|_| self.is_member()) else {
            return Ok(());
        };
        let is_stray = |writer_state: &WriterState| {
            let announce = writer_state
                .announce
                .as_ref()
                .filter(|_| !writer_state.is_over());
            announce.is_some_and(|it| {
                let before = it.owner == owner && it.generation < generation;
                before
                    || self
                        .configuration()
                        .is_some_and(|members| !members.has(&it.owner))
            })
        };
        let strays = self
            .start_states()
            .filter(|(writer_state, _)| is_stray(writer_state));
        let strays = strays.map(|it| state.id(it.1));
        let strays: Vec<WriterId> = strays.collect();
        strays
            .iter()
            .try_for_each(|writer| self.fence(state, writer))?;
        self.adopt_orphans(state)
    }

    /// Becomes the successor of dead writers whose successors are dead in a circle. These cannot have taken
    /// over anything unseen, because all have acknowledged that they are dead.
    pub(crate) fn adopt_orphans(&mut self, state: &mut State) -> Result<(), Error> {
        let quorum = self.quorum(state);
        let open = self
            .ended_states()
            .filter(|(writer_state, _)| writer_state.retired.is_none());
        let fences = open.filter_map(|(writer_state, number)| Some((number, writer_state.fence?)));
        let fences: Vec<(u32, Fence)> = fences.collect();
        let known = |it: &(u32, Fence)| self.acknowledged(&quorum, it.1.by);
        let is_successor =
            |it: &&(u32, Fence)| self.table.writer_states[it.0 as usize].announce.is_some();
        if !fences.iter().filter(is_successor).all(known) {
            return Ok(());
        }
        let orphans = fences.iter().copied().filter(known);
        let orphans = orphans.filter(|it| !self.counts(self.successor_of(it.0)));
        let orphans: Vec<(u32, Fence)> = orphans.collect();
        for (number, fence) in orphans {
            let turn = fence.turn.saturating_add(1);
            self.record(state, number, |by| {
                Statement::Fence(Fence {
                    turn,
                    by,
                    successor: OWN,
                })
            })?;
        }
        Ok(())
    }

    /// The last clock of a writer that counts, if it is over and this replica is certain of the clock.
    pub(crate) fn last_of(&self, state: &State, writer: &WriterId) -> Option<u64> {
        let number = state.number_of(writer);
        let retired = number.and_then(|number| self.table.writer_states[number as usize].retired);
        retired
            .map(|it| it.upto)
            .or_else(|| self.forgotten_upto(writer))
    }

    /// Whether this replica has seen everything up to an admission. Then a writer of that admission that is
    /// not in the table was forgotten.
    pub(crate) fn has_seen(&self, state: &State, intro: &Intro) -> bool {
        let held = state.held(&intro.by) >= intro.clock;
        held && intro.clock > 0 || self.gone(&intro.owner) >= Some(intro.generation)
    }

    /// Whether a writer is a living incarnation of a member, and its place is certain. Such a writer does not
    /// have to rejoin because it began from an old state, so nothing is lost that it alone has.
    pub(crate) fn is_sure_member(&self, state: &State, writer: &WriterId) -> bool {
        let Some(number) = state.number_of(writer).filter(|it| self.counts(*it)) else {
            return false;
        };
        let writer_state = &self.table.writer_states[number as usize];
        let announced = writer_state
            .announce
            .as_ref()
            .map_or(u64::MAX, |it| it.clock);
        let sole = self.configuration().is_some_and(|it| it.members.len() == 1);
        !writer_state.is_unsure() && (sole || self.horizon(number) >= announced)
    }

    /// Whether another living member has acknowledged this member's writer.
    pub(crate) fn is_acknowledged(&self) -> bool {
        let announce = self.table.writer_states[OWN as usize].announce.as_ref();
        let clock = announce.map_or(u64::MAX, |it| it.clock);
        let mut others = self.start_states().filter(|it| it.1 != OWN);
        let acked = |writer_state: &WriterState| {
            writer_state
                .ack
                .as_ref()
                .is_some_and(|ack| ack.of(OWN) >= clock)
        };
        self.is_established()
            && others.any(|(writer_state, _)| !writer_state.is_over() && acked(writer_state))
    }

    /// Whether this is a member's writer that other members have admitted.
    pub(crate) fn is_established(&self) -> bool {
        self.is_member() && self.table.established
    }

    /// The last clock of a forgotten writer that was taken over, if this replica still remembers it.
    pub(crate) fn forgotten_upto(&self, writer: &WriterId) -> Option<u64> {
        let returns = &self.table.returns;
        let at = returns.binary_search_by(|entry| entry.0.cmp(writer)).ok()?;
        Some(returns[at].1)
    }

    /// Whether a member has learned what this replica has seen, and waits for it.
    pub(crate) fn is_counted(&self) -> bool {
        let writer_state = &self.table.writer_states[OWN as usize];
        self.is_established()
            || writer_state.intro.is_some()
                && writer_state.announce.is_none()
                && writer_state.leave.is_none()
    }

    /// Returns the writer's local number. A writer without a number receives one.
    pub(crate) fn number(&mut self, state: &mut State, writer: WriterId) -> u32 {
        let number = state.number(writer);
        self.fit(state.ids().len());
        number
    }

    /// Whether this is a member's start that has not announced itself yet.
    pub(crate) fn is_early(&self) -> bool {
        GUESTS && self.table.early
    }

    /// Notes whether this is a member's start that has not announced itself yet. Until then others admit it
    /// as a guest.
    pub(crate) fn note_early(&mut self, early: bool) {
        self.table.update(|it| it.early = early);
    }

    /// Whether this member takes from the rights, numbers and limits that it holds. Nothing counts that a
    /// writer takes which is over, and its successor may take the same.
    pub(crate) fn may_take(&self) -> bool {
        self.is_member() && !self.table.over
    }

    /// Notes whether this writer is over, and the replica goes on under another one as soon as it can.
    pub(crate) fn note_over(&mut self, over: bool) {
        self.table.update(|it| it.over = over);
    }

    /// The generation of an owner's newest start here, this writer excepted. 0 if there is none.
    pub(crate) fn newest_start(&self, owner: &Owner) -> u64 {
        self.other_starts(owner).max().unwrap_or(0)
    }

    /// The generations of an owner's starts here, this writer excepted, and the newest one of those that were
    /// forgotten.
    pub(crate) fn other_starts(&self, owner: &Owner) -> impl Iterator<Item = u64> {
        let others = self.incarnations(owner).filter(|number| *number != OWN);
        let writer_states =
            others.filter_map(|number| self.table.writer_states[number as usize].announce.as_ref());
        writer_states
            .map(|it| it.generation)
            .chain(self.gone(owner))
    }

    /// Whether a writer is a member's incarnation whose place is not certain here.
    pub(crate) fn is_unsure(&self, state: &State, writer: &WriterId) -> bool {
        let number = state.number_of(writer);
        number.is_some_and(|number| self.table.writer_states[number as usize].is_unsure())
    }

    /// Whether a member's incarnation is here whose place is not certain.
    pub(crate) fn has_unsure_start(&self) -> bool {
        self.start_states().any(|it| it.0.is_unsure())
    }

    /// Whether members wait for a writer that is no member's incarnation.
    pub(crate) fn is_waited_for(&self, state: &State, writer: &WriterId) -> bool {
        let number = state.number_of(writer);
        let writer_state = number.map(|number| &self.table.writer_states[number as usize]);
        writer_state
            .is_some_and(|writer_state| writer_state.announce.is_none() && !writer_state.is_over())
    }

    /// The admission of this replica's writer, if the replica has it. For a member's writer, its own
    /// announcement once others have admitted it.
    pub(crate) fn intro(&self, state: &State) -> Option<Intro> {
        self.intro_of(state, OWN)
    }

    /// The admission of a writer, if this replica has it. For a member's writer, its own announcement if
    /// others have admitted it.
    ///
    /// A writer that was declared dead in the transaction of its admission was unknown before. So that
    /// admission says nothing, and the result is `None`.
    pub(crate) fn intro_of(&self, state: &State, number: u32) -> Option<Intro> {
        let writer_state = &self.table.writer_states[number as usize];
        if writer_state.is_burial() {
            return None;
        }
        let stamp = match &writer_state.announce {
            Some(announce) if self.is_taken_in(number) => Stamp {
                writer: number,
                clock: announce.clock,
            },
            Some(_) => return None,
            None => writer_state.intro?.by,
        };
        let by = &self.table.writer_states[stamp.writer as usize];
        let announce = by.announce.as_ref()?;
        Some(Intro {
            by: state.id(stamp.writer),
            clock: stamp.clock,
            owner: announce.owner,
            generation: announce.generation,
        })
    }

    /// Whether others have admitted a member's start.
    pub(crate) fn is_taken_in(&self, number: u32) -> bool {
        match number {
            OWN => self.table.established,
            _ => self.table.writer_states[number as usize].base.is_none(),
        }
    }
}

#[cfg(test)]
mod tests;

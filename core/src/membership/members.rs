//! Members, their incarnations, and the records that a member makes of itself and of others.
//!
//! An owner's process has a new writer at each start: an *incarnation*. A member's incarnation announces itself
//! with a generation that ascends, so every replica can tell an older start from a newer one. Its place is
//! *unsure* until all who count have acknowledged it, because its disk may have been put back.
//!
//! A fence declares a writer dead. It plays the part of a fencing token (Kleppmann 2016): a replica that has
//! acknowledged it accepts nothing more of that writer, except from members.

use super::Membership;
use crate::error::{Error, detail};
use crate::layers::{GUESTS, MEMBERS, State};
use crate::membership::room::Bringer;
use crate::message::Message;
use crate::message::records::{
    Admit, Announce, Bye, Card, Configuration, Fact, Fence, Intro, Owner, Says, of,
};
use crate::state::page::OWN;
use crate::state::sheet::Sheet;
use crate::state::slot::Stamp;
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

impl Membership {
    /// The clock of the next own transaction.
    pub(crate) fn next_clock(&self, state: &State) -> Result<u64, Error> {
        self.room_for_start(state)?;
        self.clock_after(state)
    }

    /// The same of a transaction for which there is room always.
    pub(crate) fn clock_after(&self, state: &State) -> Result<u64, Error> {
        let next = state.clock().checked_add(1);
        next.filter(|clock| !GUESTS || *clock < u64::MAX)
            .ok_or(Error::ClockExhausted)
    }

    /// Whether own transactions are kept, to be made again if need be.
    #[inline]
    pub(crate) fn keeps_journal(&self) -> bool {
        GUESTS && self.table.configuration.is_some()
    }

    /// The facts about writers that are newer than `lows`, by local numbers. All of these must have been
    /// noted in this epoch or later.
    pub(crate) fn facts_since(&self, epoch: u64, lows: &impl Sheet<u64>) -> Vec<Fact> {
        if !GUESTS {
            return Vec::new();
        }
        let numbers = self.table.changed_since(epoch).into_iter();
        let closed = self.configuration().is_some();
        let facts = numbers
            .flat_map(|number| self.table.cards[number as usize].facts(number))
            .filter(|fact| closed || !fact.is_local());
        let configuration = self.table.configuration.as_ref().map(|(by, it)| Fact {
            writer: by.writer,
            says: Says::Configuration(by.clock, Box::new(it.clone())),
        });
        let newer = |fact: &Fact| {
            let by = fact.stamp();
            by.clock > lows.at(by.writer)
        };
        let gone = self.table.gone.iter().map(|(owner, generation, by)| Fact {
            writer: by.writer,
            says: Says::Gone(by.clock, Box::new((*owner, *generation))),
        });
        facts
            .chain(configuration)
            .chain(gone)
            .filter(newer)
            .collect()
    }

    /// The present configuration; `None` while the space is open.
    pub(crate) fn configuration(&self) -> Option<&Configuration> {
        self.table.configuration.as_ref().map(|(_, it)| it)
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

    /// The newest generation of an owner that was forgotten here.
    pub(crate) fn gone(&self, owner: &Owner) -> Option<u64> {
        let gone = &self.table.gone;
        let at = gone.binary_search_by(|entry| entry.0.cmp(owner)).ok()?;
        Some(gone[at].1)
    }

    /// The owner's incarnations that are known.
    pub(crate) fn incarnations(&self, owner: &Owner) -> impl Iterator<Item = u32> {
        let of = move |card: &Card| card.announce.as_ref().is_some_and(|it| it.owner == *owner);
        let starts = self.starts();
        starts.filter(move |number| of(&self.table.cards[*number as usize]))
    }

    /// Notes a fact in a transaction of this replica's.
    pub(crate) fn note(&mut self, state: &State, writer: u32, says: Says) {
        if matches!(says, Says::Announce(_)) {
            self.table.prospect = None;
        }
        self.table.cards[writer as usize].take(&says, &state.writers);
        self.table.changed(writer, state.epoch);
    }

    /// The members' starts that are known, by local number, ascending.
    pub(crate) fn starts(&self) -> impl Iterator<Item = u32> {
        self.table.starts()
    }

    /// The starts of members, and what is known of them.
    pub(crate) fn start_cards(&self) -> impl Iterator<Item = (&Card, u32)> {
        let starts = self.starts();
        starts.map(|number| (&self.table.cards[number as usize], number))
    }

    /// The writers that have left, were declared dead or were absorbed and not forgotten yet, by local
    /// number, ascending, and what is known of them.
    pub(crate) fn ended_cards(&self) -> impl Iterator<Item = (&Card, u32)> {
        let ended = self.table.ended();
        ended.map(|number| (&self.table.cards[number as usize], number))
    }

    /// Makes one fact a transaction.
    pub(crate) fn record(
        &mut self,
        state: &mut State,
        writer: u32,
        says: impl FnOnce(Stamp) -> Says,
    ) -> Result<(), Error> {
        let clock = self.next_clock(state)?;
        let by = Stamp { writer: OWN, clock };
        self.note(state, writer, says(by));
        self.made(state, clock);
        Ok(())
    }

    /// Whether this number is a member's incarnation that counts.
    pub(crate) fn counts(&self, writer: u32) -> bool {
        let card = &self.table.cards[writer as usize];
        let owner = card.announce.as_ref().map(|it| it.owner);
        let member = owner.is_some_and(|it| self.configuration().is_some_and(|c| c.has(&it)));
        member && !card.is_over()
    }

    /// Whether this replica is a member.
    pub(crate) fn is_member(&self) -> bool {
        MEMBERS && self.counts(OWN)
    }

    /// What may have been collected, here or elsewhere: nothing that this member has not
    /// acknowledged, or knows to be stable.
    pub(crate) fn given_up(&self) -> Vec<(u32, u64)> {
        let owner = |card: &Card| card.announce.as_ref().map(|it| it.owner);
        let own = owner(&self.table.cards[OWN as usize]);
        // Its earlier incarnations spoke for it too.
        let cards = self.start_cards().filter(|it| owner(it.0) == own);
        let acks = cards.filter_map(|it| it.0.ack.as_ref());
        let acked = acks.flat_map(|ack| ack.seen.iter().copied());
        acked.chain(self.horizons()).collect()
    }

    /// Up to which clock what a member's writer stamped may have been collected, here or by those
    /// who took this replica's word for what is stable.
    pub(crate) fn horizon(&self, number: u32) -> u64 {
        let at = number as usize;
        let of = |clocks: &[u64]| clocks.get(at).copied().unwrap_or(0);
        match self.table.cards[at].announce {
            Some(_) => of(&self.table.floor).max(of(&self.table.settled)),
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
            let seen = state.clocks.iter().copied().zip(0u32..);
            let seen = seen.filter(|(clock, _)| *clock > 0);
            let seen = seen.map(|(clock, number)| (number, clock)).collect();
            self.table.cards[OWN as usize].base = Some(seen);
        }
        state.clocks[OWN as usize] = clock;
    }

    /// Notes whether somebody has taken this writer in by now.
    pub(crate) fn establish(&mut self) {
        let sole = self.configuration().is_some_and(|it| it.members.len() == 1);
        let card = &self.table.cards[OWN as usize];
        let announced = card.announce.as_ref().map(|it| it.clock);
        self.table.established |= match announced {
            Some(_) if sole => true,
            None => card.intro.is_some(),
            Some(clock) => self
                .start_cards()
                .filter(|it| it.1 != OWN)
                .any(|it| it.0.ack.as_ref().is_some_and(|ack| ack.of(OWN) >= clock)),
        };
    }

    /// Whether a start of a member's, or the end of one, waits for this member's acknowledgement, which waits
    /// for those who are attached here: until then the start has [no vote](Self::has_vote), and it is not
    /// certain what counts of the one that ended.
    pub(crate) fn holds_up_members(&self, state: &State) -> bool {
        let acked = self.acked();
        let is_held_up = |by: Stamp| {
            (of(&acked, by.writer) + 1..=self.held_with_keys(state, by.writer)).contains(&by.clock)
        };
        let mut open = self
            .start_cards()
            .filter(|(card, _)| card.retired.is_none());
        open.any(|(card, writer)| {
            let Some(announce) = &card.announce else {
                return false;
            };
            let clock = announce.clock;
            let begins = Stamp { writer, clock };
            let starts = writer != OWN && self.counts(writer) && is_held_up(begins);
            starts || card.fence.is_some_and(|fence| is_held_up(fence.by))
        })
    }

    /// What this member's last ack says.
    pub(crate) fn acked(&self) -> Vec<(u32, u64)> {
        let ack = self.table.cards[OWN as usize].ack.as_ref();
        ack.map_or(Vec::new(), |ack| ack.seen.clone())
    }

    /// Notes what a writer that is attached to this member has seen, as its message tells, of which
    /// everything has been taken in.
    pub(crate) fn heard(&mut self, state: &State, writer: &WriterId, message: &Message) {
        self.heard_of(state, writer, &|writer| message.hi(writer).unwrap_or(0));
    }

    /// Notes that a writer that is attached to this member has seen this, if all of it is here.
    pub(crate) fn told(&mut self, state: &State, writer: &WriterId, seen: &VersionVector) {
        if state.vector().covers(seen) {
            self.heard_of(state, writer, &|writer| seen.get(writer));
        }
    }

    pub(crate) fn heard_of(
        &mut self,
        state: &State,
        writer: &WriterId,
        hi: &dyn Fn(&WriterId) -> u64,
    ) {
        let Some(number) = state.numbers.get(writer) else {
            return;
        };
        let card = &self.table.cards[number as usize];
        if number == OWN || card.announce.is_some() || !self.is_home_of(card) {
            return;
        }
        let before = self.table.told_by(number).unwrap_or_default();
        let seen = self.members_part(|number| {
            let writer = &state.writers[number as usize];
            hi(writer).max(of(before, number))
        });
        self.table.attach(number, seen);
    }

    /// The clocks of those writers that are members' incarnations.
    pub(crate) fn members_part(&self, clock: impl Fn(u32) -> u64) -> Vec<(u32, u64)> {
        let of = self.starts().map(|number| (number, clock(number)));
        of.filter(|(_, clock)| *clock > 0).collect()
    }

    /// What this member can acknowledge: what it and all that are attached to it have seen.
    pub(crate) fn seen(&self, state: &State) -> Vec<(u32, u64)> {
        let mut seen = self.members_part(|number| self.held_with_keys(state, number));
        for (card, number) in self.table.cards.iter().zip(0u32..) {
            if card.announce.is_some() || card.is_over() || !self.is_home_of(card) {
                continue;
            }
            let theirs = self.seen_there(number);
            for (writer, clock) in &mut seen {
                *clock = of(theirs, *writer).min(*clock);
            }
        }
        seen.retain(|(_, clock)| *clock > 0);
        seen
    }

    /// What a writer that is attached here has seen at least: what it told, or else what its last home
    /// spoke for.
    pub(crate) fn seen_there(&self, number: u32) -> &[(u32, u64)] {
        let told = self.table.told_by(number);
        let home = self.table.cards[number as usize].home;
        let home = home.map(|home| home.by.writer as usize);
        let before = home.and_then(|home| self.table.cards[home].ack.as_ref());
        match (told, before) {
            (Some(seen), _) => seen,
            (None, Some(ack)) => &ack.seen,
            (None, None) => &[],
        }
    }

    /// How far a writer that is attached here has got with what members made, as a number that grows
    /// with it, and whether it has seen all that is held here.
    pub(crate) fn progress(&self, state: &State, writer: &WriterId) -> (u64, bool) {
        let number = state.numbers.get(writer).unwrap_or(OWN);
        let theirs = self.seen_there(number);
        let held = self.members_part(|number| state.clocks[number as usize]);
        let mut held = held.iter();
        let level = held.all(|(number, clock)| of(theirs, *number) >= *clock);
        (theirs.iter().map(|entry| entry.1).sum(), level)
    }

    /// Says goodbye: the writer's last transaction, after which it makes no other and takes nothing
    /// in. Its home takes over.
    ///
    /// # Errors
    /// [`Error::NotAMember`] if no member has taken it in.
    pub(crate) fn leave(&mut self, state: &mut State) -> Result<(), Error> {
        let Some(home) = self.table.cards[OWN as usize].home else {
            return Err(Error::NotAMember);
        };
        let heir = home.by.writer;
        self.record(state, OWN, |by| {
            Says::Bye(Bye {
                clock: by.clock,
                heir,
            })
        })
    }

    /// Declares a writer dead. This member takes over what is known of it, which may be nothing: so
    /// it becomes certain that nothing of it counts.
    ///
    /// # Errors
    /// [`Error::NotAMember`] if this replica is none, [`Error::UnknownWriter`] if it is its own,
    /// [`Error::WritersFull`].
    pub(crate) fn fence(&mut self, state: &mut State, writer: &WriterId) -> Result<(), Error> {
        if !self.is_member() {
            return Err(Error::NotAMember);
        }
        if *writer == state.writer() {
            return Err(Error::UnknownWriter {
                writer: detail(*writer),
            });
        }
        if self.taken_over(writer).is_some() {
            return Ok(());
        }
        let clock = self.next_clock(state)?;
        self.room_for_writer(state, writer, Bringer::Peer)?;
        let number = self.number(state, *writer);
        let card = &self.table.cards[number as usize];
        if card.fence.is_some() || card.retired.is_some() {
            return Ok(());
        }
        let by = Stamp { writer: OWN, clock };
        if card.intro.is_none() && card.announce.is_none() {
            self.note(state, number, Says::Admit(Admit { turn: 0, by }));
        }
        let fence = Fence {
            turn: 0,
            by,
            heir: OWN,
        };
        self.note(state, number, Says::Fence(fence));
        self.made(state, clock);
        Ok(())
    }

    /// Whether messages of this writer's own may be taken: not if it left, for then all of it is
    /// held, or was declared dead.
    pub(crate) fn takes_from(&self, state: &State, writer: &WriterId) -> bool {
        let card = state
            .numbers
            .get(writer)
            .map(|at| &self.table.cards[at as usize]);
        card.is_none_or(|card| !card.is_over())
    }

    /// Whether this member has acknowledged that a writer is dead, or concluded from its own word
    /// alone: by then it held all that those who are attached to it had of the writer, and takes no
    /// more of it from such. Of one that nobody had heard of before it takes nothing from them.
    pub(crate) fn has_buried(&self, writer: u32) -> bool {
        let card = &self.table.cards[writer as usize];
        let acked = self.acked();
        let known = |writer| of(&acked, writer).max(self.horizon(writer));
        let buried = |fence: Fence| card.is_burial() || self.covers(known, fence.by);
        card.retired.is_none() && card.fence.is_some_and(buried)
    }

    /// Whether a writer is a member's incarnation that counts.
    pub(crate) fn is_counted_member(&self, state: &State, writer: &WriterId) -> bool {
        state
            .numbers
            .get(writer)
            .is_some_and(|number| self.counts(number))
    }

    /// Declares the incarnations dead of owners that are members no more, and those before this one of
    /// its own owner's, of which it did not know when it announced itself.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`].
    pub(crate) fn fence_strays(&mut self, state: &mut State) -> Result<(), Error> {
        let own = self.incarnation(state, &state.writer());
        let Some((owner, generation)) = own.filter(|_| self.is_member()) else {
            return Ok(());
        };
        let is_stray = |card: &Card| {
            let announce = card.announce.as_ref().filter(|_| !card.is_over());
            announce.is_some_and(|it| {
                let before = it.owner == owner && it.generation < generation;
                before
                    || self
                        .configuration()
                        .is_some_and(|members| !members.has(&it.owner))
            })
        };
        let strays = self.start_cards().filter(|(card, _)| is_stray(card));
        let strays = strays.map(|it| state.writers[it.1 as usize]);
        let strays: Vec<WriterId> = strays.collect();
        strays
            .iter()
            .try_for_each(|writer| self.fence(state, writer))?;
        self.adopt_orphans(state)
    }

    /// Becomes the heir of the dead whose heirs are dead in a circle. They can't have taken over what
    /// nobody knows that they did: all have acknowledged that they are dead.
    pub(crate) fn adopt_orphans(&mut self, state: &mut State) -> Result<(), Error> {
        let quorum = self.quorum(state);
        let open = self
            .ended_cards()
            .filter(|(card, _)| card.retired.is_none());
        let fences = open.filter_map(|(card, number)| Some((number, card.fence?)));
        let fences: Vec<(u32, Fence)> = fences.collect();
        let known = |it: &(u32, Fence)| self.acknowledged(&quorum, it.1.by);
        let is_heir = |it: &&(u32, Fence)| self.table.cards[it.0 as usize].announce.is_some();
        if !fences.iter().filter(is_heir).all(known) {
            return Ok(());
        }
        let orphans = fences.iter().copied().filter(known);
        let orphans = orphans.filter(|it| !self.counts(self.heir_of(it.0)));
        let orphans: Vec<(u32, Fence)> = orphans.collect();
        for (number, fence) in orphans {
            let turn = fence.turn.saturating_add(1);
            self.record(state, number, |by| {
                Says::Fence(Fence {
                    turn,
                    by,
                    heir: OWN,
                })
            })?;
        }
        Ok(())
    }

    /// Notes that an owner's incarnations up to a generation were forgotten.
    pub(crate) fn take_gone(&mut self, by: Stamp, owner: Owner, generation: u64) {
        self.table.prospect = None;
        let gone = &mut self.table.gone;
        match gone.binary_search_by(|entry| entry.0.cmp(&owner)) {
            Ok(at) if gone[at].1 >= generation => {}
            Ok(at) => gone[at] = (owner, generation, by),
            Err(at) => gone.insert(at, (owner, generation, by)),
        }
    }

    /// The last clock of a writer that counts, if it is over and that is certain here.
    pub(crate) fn last_of(&self, state: &State, writer: &WriterId) -> Option<u64> {
        let number = state.numbers.get(writer);
        let retired = number.and_then(|number| self.table.cards[number as usize].retired);
        retired
            .map(|it| it.upto)
            .or_else(|| self.taken_over(writer))
    }

    /// Whether everything up to an admission was seen here: who was taken in by it and is not known
    /// was forgotten.
    pub(crate) fn has_seen(&self, state: &State, intro: &Intro) -> bool {
        let held = state.held(&intro.by) >= intro.clock;
        held && intro.clock > 0 || self.gone(&intro.owner) >= Some(intro.generation)
    }

    /// Whether a writer is a member's incarnation that counts, and whose place is certain: it does not
    /// have to come back for having begun from an old state, and lose what it alone holds.
    pub(crate) fn is_sure_member(&self, state: &State, writer: &WriterId) -> bool {
        let Some(number) = state.numbers.get(writer).filter(|it| self.counts(*it)) else {
            return false;
        };
        let card = &self.table.cards[number as usize];
        let announced = card.announce.as_ref().map_or(u64::MAX, |it| it.clock);
        let sole = self.configuration().is_some_and(|it| it.members.len() == 1);
        !card.is_unsure() && (sole || self.horizon(number) >= announced)
    }

    /// Whether this is a member's writer that another living one has taken in.
    pub(crate) fn is_acknowledged(&self) -> bool {
        let announce = self.table.cards[OWN as usize].announce.as_ref();
        let clock = announce.map_or(u64::MAX, |it| it.clock);
        let mut others = self.start_cards().filter(|it| it.1 != OWN);
        let acked = |card: &Card| card.ack.as_ref().is_some_and(|ack| ack.of(OWN) >= clock);
        self.is_established() && others.any(|(card, _)| !card.is_over() && acked(card))
    }

    /// Whether this is a member's writer that others have taken in.
    pub(crate) fn is_established(&self) -> bool {
        self.is_member() && self.table.established
    }

    /// The last clock of a forgotten writer that was taken over, if it is still remembered.
    pub(crate) fn taken_over(&self, writer: &WriterId) -> Option<u64> {
        let returns = &self.table.returns;
        let at = returns.binary_search_by(|entry| entry.0.cmp(writer)).ok()?;
        Some(returns[at].1)
    }

    /// Whether a member knows what this replica has seen, and waits for it.
    pub(crate) fn is_counted(&self) -> bool {
        let card = &self.table.cards[OWN as usize];
        self.is_established()
            || card.intro.is_some() && card.announce.is_none() && card.bye.is_none()
    }

    /// The writer's local number, given to it if it has none.
    pub(crate) fn number(&mut self, state: &mut State, writer: WriterId) -> u32 {
        let number = state.number(writer);
        self.fit(state.writers.len());
        number
    }

    /// Notes whether this is a start of a member's that has not announced itself yet: others take it in
    /// as a guest until then.
    pub(crate) fn note_early(&mut self, early: bool) {
        self.table.early = early;
    }

    /// The newest start that is known of an owner, but for this one.
    pub(crate) fn newest_start(&self, owner: &Owner) -> u64 {
        let others = self.incarnations(owner).filter(|number| *number != OWN);
        let cards = others.filter_map(|number| self.table.cards[number as usize].announce.as_ref());
        let known = cards.map(|it| it.generation).chain(self.gone(owner));
        known.max().unwrap_or(0)
    }

    /// Whether a writer is a member's incarnation whose place is not certain here.
    pub(crate) fn is_unsure(&self, state: &State, writer: &WriterId) -> bool {
        let number = state.numbers.get(writer);
        number.is_some_and(|number| self.table.cards[number as usize].is_unsure())
    }

    /// Whether members wait for a writer that is none of theirs.
    pub(crate) fn is_waited_for(&self, state: &State, writer: &WriterId) -> bool {
        let number = state.numbers.get(writer);
        let card = number.map(|number| &self.table.cards[number as usize]);
        card.is_some_and(|card| card.announce.is_none() && !card.is_over())
    }

    /// Who took this replica's writer in, if that is known; of a member, its own announcement, once
    /// others have taken it in.
    pub(crate) fn intro(&self, state: &State) -> Option<Intro> {
        self.intro_of(state, OWN)
    }

    /// Who took a writer in, if that is known; of a member, its own announcement, if others have
    /// taken that in. Who was declared dead in the same transaction was not heard of before, and
    /// that tells nothing.
    pub(crate) fn intro_of(&self, state: &State, number: u32) -> Option<Intro> {
        let card = &self.table.cards[number as usize];
        if card.is_burial() {
            return None;
        }
        let stamp = match &card.announce {
            Some(announce) if self.is_taken_in(number) => Stamp {
                writer: number,
                clock: announce.clock,
            },
            Some(_) => return None,
            None => card.intro?.by,
        };
        let by = &self.table.cards[stamp.writer as usize];
        let announce = by.announce.as_ref()?;
        Some(Intro {
            by: state.writers[stamp.writer as usize],
            clock: stamp.clock,
            owner: announce.owner,
            generation: announce.generation,
        })
    }

    /// Whether others have taken a member's start in.
    pub(crate) fn is_taken_in(&self, number: u32) -> bool {
        match number {
            OWN => self.table.established,
            _ => self.table.cards[number as usize].base.is_none(),
        }
    }
}

//! Closed spaces: members, their incarnations, and those whom they take in.
//!
//! A member admits a writer at its first contact and is its home from then on: it says what the
//! writer has seen, and takes over when the writer leaves or is given up.

use super::Replica;
use super::collect::Prospect;
use super::index::Index;
use super::room::Bringer;
use super::votes::checked;
use crate::error::{Error, detail};
use crate::roster::{Admit, Announce, Bye, Card, Configuration, Fence, Owner, Ruling, Says, of};
use crate::state::delta::Message;
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use crate::state::vector::VersionVector;
use crate::wire::Intro;
use crate::writer_id::WriterId;
use crate::{DUTIES, MEMBERS};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A writer that is attached to this member, and what it has seen of the members' writers.
#[derive(Clone, Debug)]
pub(super) struct Attached {
    pub(super) writer: u32,
    pub(super) seen: Vec<(u32, u64)>,
}

/// What is known of the writers of a closed space, and where collection stands.
#[derive(Clone, Debug)]
pub(super) struct Roster {
    /// By local number.
    pub(super) cards: Vec<Card>,
    /// Those of members' starts, of those that are over, and those that changed last.
    pub(super) index: Index,
    /// The present configuration, and who said so.
    pub(super) configuration: Option<(Stamp, Configuration)>,
    /// The newest generation of each owner that was forgotten, ascending by owner, and the stamp
    /// of its absorption.
    pub(super) gone: Vec<(Owner, u64, Stamp)>,
    /// Ascending by writer.
    pub(super) attached: Vec<Attached>,
    /// How many writers could not be absorbed the last time, because their totals did not fit.
    pub(super) stuck: usize,
    /// Everything up to here, by local number, is stable.
    pub(super) settled: Vec<u64>,
    /// The members' part, by local number, of what was stable when something was collected, here or
    /// before it came here. Whoever has not seen it can't be told the difference, only the whole.
    pub(super) floor: Vec<u64>,
    /// What was held at an ack of this member's own, which others are to acknowledge.
    pub(super) pending: Option<(u64, Vec<u64>)>,
    pub(super) prospect: Option<Prospect>,
    /// Whether others have taken this writer in.
    pub(super) established: bool,
    /// Whether this is a start of a member's that has not announced itself yet.
    pub(super) early: bool,
    /// What was proposed here.
    pub(super) proposal: Option<Ruling>,
    /// Whether that was put to the vote.
    pub(super) asked: bool,
    /// Who is known to have taken in an incarnation whose place is not certain.
    pub(super) vouched: Vec<(WriterId, u32)>,
    /// Whether the last collection left something that waits to be stable.
    pub(super) waiting: bool,
    /// Forgotten writers with the last clock that was taken over, ascending by writer.
    pub(super) returns: Vec<(WriterId, u64)>,
    /// They, the longest forgotten first.
    pub(super) returned: VecDeque<WriterId>,
    /// How many there were in all.
    pub(super) remembered: u64,
    /// Whether others were, or may have been, that are not remembered here.
    pub(super) gaps: bool,
}

impl Replica {
    /// The present configuration; `None` while the space is open.
    pub fn configuration(&self) -> Option<&Configuration> {
        self.roster.configuration.as_ref().map(|(_, it)| it)
    }

    /// Closes the space: the owner of this replica's writer is its first member, and all writers
    /// that are known here are taken in. `nonce` is what the writer was minted with; `unix_ms`
    /// helps to order the owner's incarnations.
    ///
    /// # Errors
    /// [`Error::Closed`] if the space has members already.
    pub fn found(&mut self, owner: &Owner, nonce: &[u8; 16], unix_ms: u64) -> Result<(), Error> {
        if self.configuration().is_some() {
            return Err(Error::Closed);
        }
        // A full space gets room by that.
        let clock = self.clock_after()?;
        let configuration = Configuration {
            era: 0,
            number: 1,
            members: Vec::from([*owner]),
            limits: Vec::new(),
        };
        let announce = self.announcement(clock, owner, nonce, unix_ms);
        self.note(OWN, Says::Announce(Box::new(announce)));
        let by = Stamp { writer: OWN, clock };
        for writer in 1..self.state.writers.len() as u32 {
            self.note(writer, Says::Admit(Admit { turn: 0, by }));
        }
        self.roster.configuration = Some((by, configuration));
        #[cfg(feature = "budgets")]
        self.note_configuration();
        self.roster.established = true;
        self.made(clock);
        self.roster.cards[OWN as usize].base = None;
        Ok(())
    }

    /// Announces this writer as an incarnation of a member, and declares the owner's earlier ones
    /// dead, with itself as their heir. Those that ended before they had announced themselves are taken
    /// in along with it: of a writer that nobody took in, others take it that they have forgotten it.
    ///
    /// # Errors
    /// [`Error::NotAMember`].
    pub fn announce(&mut self, owner: &Owner, nonce: &[u8; 16], unix_ms: u64) -> Result<(), Error> {
        if !self.configuration().is_some_and(|it| it.has(owner)) {
            return Err(Error::NotAMember);
        }
        let clock = self.next_clock()?;
        let begins = self.clock() == 0;
        let earlier: Vec<u32> = self.incarnations(owner).collect();
        let announce = self.announcement(clock, owner, nonce, unix_ms);
        let vote = self.inherited_vote(owner, clock);
        self.note(OWN, Says::Announce(Box::new(announce)));
        if let Some(vote) = vote {
            self.note(OWN, Says::Vote(vote));
        }
        let by = Stamp { writer: OWN, clock };
        let silent = self.left_behind().into_iter().map(|it| it.0);
        let silent: Vec<u32> = silent
            .filter_map(|id| self.state.numbers.get(&id))
            .collect();
        for writer in earlier.into_iter().chain(silent) {
            let card = &self.roster.cards[writer as usize];
            if writer != OWN && !card.is_over() {
                if card.intro.is_none() && card.announce.is_none() {
                    self.note(writer, Says::Admit(Admit { turn: 0, by }));
                }
                let fence = Fence {
                    turn: 0,
                    by,
                    heir: OWN,
                };
                self.note(writer, Says::Fence(fence));
            }
        }
        self.made(clock);
        // Who took a start in as it greeted waits for it from what it had acknowledged.
        let card = &mut self.roster.cards[OWN as usize];
        if begins && card.intro.is_some() {
            card.base = None;
        }
        self.establish();
        Ok(())
    }

    pub(super) fn announcement(
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
    pub(super) fn gone(&self, owner: &Owner) -> Option<u64> {
        let gone = &self.roster.gone;
        let at = gone.binary_search_by(|entry| entry.0.cmp(owner)).ok()?;
        Some(gone[at].1)
    }

    /// The owner's incarnations that are known.
    pub(super) fn incarnations(&self, owner: &Owner) -> impl Iterator<Item = u32> {
        let of = move |card: &Card| card.announce.as_ref().is_some_and(|it| it.owner == *owner);
        let starts = self.starts();
        starts.filter(move |number| of(&self.roster.cards[*number as usize]))
    }

    /// Notes a fact in a transaction of this replica's.
    pub(super) fn note(&mut self, writer: u32, says: Says) {
        if matches!(says, Says::Announce(_)) {
            self.roster.prospect = None;
        }
        self.roster.cards[writer as usize].take(&says, &self.state.writers);
        self.roster.changed(writer, self.state.epoch);
    }

    /// The members' starts that are known, by local number, ascending.
    pub(super) fn starts(&self) -> impl Iterator<Item = u32> {
        self.roster.starts()
    }

    /// The starts of members, and what is known of them.
    fn start_cards(&self) -> impl Iterator<Item = (&Card, u32)> {
        let starts = self.starts();
        starts.map(|number| (&self.roster.cards[number as usize], number))
    }

    /// The writers that have left, were declared dead or were absorbed and not forgotten yet, by local
    /// number, ascending, and what is known of them.
    pub(super) fn ended_cards(&self) -> impl Iterator<Item = (&Card, u32)> {
        let ended = self.roster.ended();
        ended.map(|number| (&self.roster.cards[number as usize], number))
    }

    /// Makes one fact a transaction.
    pub(super) fn state(
        &mut self,
        writer: u32,
        says: impl FnOnce(Stamp) -> Says,
    ) -> Result<(), Error> {
        let clock = self.next_clock()?;
        let by = Stamp { writer: OWN, clock };
        self.note(writer, says(by));
        self.made(clock);
        Ok(())
    }

    /// Whether this number is a member's incarnation that counts.
    pub(super) fn counts(&self, writer: u32) -> bool {
        let card = &self.roster.cards[writer as usize];
        let owner = card.announce.as_ref().map(|it| it.owner);
        let member = owner.is_some_and(|it| self.configuration().is_some_and(|c| c.has(&it)));
        member && !card.is_over()
    }

    /// Whether this replica is a member.
    pub fn is_member(&self) -> bool {
        DUTIES && self.counts(OWN)
    }

    /// What may have been collected, here or elsewhere: nothing that this member has not
    /// acknowledged, or knows to be stable.
    pub(super) fn given_up(&self) -> Vec<(u32, u64)> {
        let owner = |card: &Card| card.announce.as_ref().map(|it| it.owner);
        let own = owner(&self.roster.cards[OWN as usize]);
        // Its earlier incarnations spoke for it too.
        let cards = self.start_cards().filter(|it| owner(it.0) == own);
        let acks = cards.filter_map(|it| it.0.ack.as_ref());
        let acked = acks.flat_map(|ack| ack.seen.iter().copied());
        acked.chain(self.horizons()).collect()
    }

    /// Up to which clock what a member's writer stamped may have been collected, here or by those
    /// who took this replica's word for what is stable.
    pub(super) fn horizon(&self, number: u32) -> u64 {
        let at = number as usize;
        let of = |clocks: &[u64]| clocks.get(at).copied().unwrap_or(0);
        match self.roster.cards[at].announce {
            Some(_) => of(&self.roster.floor).max(of(&self.roster.settled)),
            None => 0,
        }
    }

    pub(super) fn horizons(&self) -> impl Iterator<Item = (u32, u64)> {
        let numbers = self.starts();
        let horizons = numbers.map(|number| (number, self.horizon(number)));
        horizons.filter(|(_, clock)| *clock > 0)
    }

    /// Moves the own clock to that of a transaction that was made.
    pub(super) fn made(&mut self, clock: u64) {
        if MEMBERS && self.clock() == 0 {
            let seen = self.state.clocks.iter().copied().zip(0u32..);
            let seen = seen.filter(|(clock, _)| *clock > 0);
            let seen = seen.map(|(clock, number)| (number, clock)).collect();
            self.roster.cards[OWN as usize].base = Some(seen);
        }
        self.state.clocks[OWN as usize] = clock;
    }

    /// Notes whether somebody has taken this writer in by now.
    pub(super) fn establish(&mut self) {
        let sole = self.configuration().is_some_and(|it| it.members.len() == 1);
        let card = &self.roster.cards[OWN as usize];
        let announced = card.announce.as_ref().map(|it| it.clock);
        self.roster.established |= match announced {
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
    pub(crate) fn holds_up_members(&self) -> bool {
        let acked = self.acked();
        let is_held_up = |by: Stamp| {
            (of(&acked, by.writer) + 1..=self.held_with_keys(by.writer)).contains(&by.clock)
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
    pub(super) fn acked(&self) -> Vec<(u32, u64)> {
        let ack = self.roster.cards[OWN as usize].ack.as_ref();
        ack.map_or(Vec::new(), |ack| ack.seen.clone())
    }

    /// Notes what a writer that is attached to this member has seen, as its message tells, of which
    /// everything has been taken in.
    pub(super) fn heard(&mut self, writer: &WriterId, message: &Message) {
        self.heard_of(writer, &|writer| message.hi(writer).unwrap_or(0));
    }

    /// Notes that a writer that is attached to this member has seen this, if all of it is here.
    pub(crate) fn told(&mut self, writer: &WriterId, seen: &VersionVector) {
        if self.vector().covers(seen) {
            self.heard_of(writer, &|writer| seen.get(writer));
        }
    }

    fn heard_of(&mut self, writer: &WriterId, hi: &dyn Fn(&WriterId) -> u64) {
        let Some(number) = self.state.numbers.get(writer) else {
            return;
        };
        let card = &self.roster.cards[number as usize];
        if number == OWN || card.announce.is_some() || !self.is_home_of(card) {
            return;
        }
        let before = self.roster.told_by(number).unwrap_or_default();
        let seen = self.members_part(|number| {
            let writer = &self.state.writers[number as usize];
            hi(writer).max(of(before, number))
        });
        self.roster.attach(number, seen);
    }

    /// The clock up to which a writer is held.
    pub(crate) fn held(&self, writer: &WriterId) -> u64 {
        self.state.held(writer)
    }

    /// The clocks of those writers that are members' incarnations.
    pub(super) fn members_part(&self, clock: impl Fn(u32) -> u64) -> Vec<(u32, u64)> {
        let of = self.starts().map(|number| (number, clock(number)));
        of.filter(|(_, clock)| *clock > 0).collect()
    }

    /// What this member can acknowledge: what it and all that are attached to it have seen.
    pub(super) fn seen(&self) -> Vec<(u32, u64)> {
        let mut seen = self.members_part(|number| self.held_with_keys(number));
        for (card, number) in self.roster.cards.iter().zip(0u32..) {
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
    pub(super) fn seen_there(&self, number: u32) -> &[(u32, u64)] {
        let told = self.roster.told_by(number);
        let home = self.roster.cards[number as usize].home;
        let home = home.map(|home| home.by.writer as usize);
        let before = home.and_then(|home| self.roster.cards[home].ack.as_ref());
        match (told, before) {
            (Some(seen), _) => seen,
            (None, Some(ack)) => &ack.seen,
            (None, None) => &[],
        }
    }

    /// How far a writer that is attached here has got with what members made, as a number that grows
    /// with it, and whether it has seen all that is held here.
    pub(crate) fn progress(&self, writer: &WriterId) -> (u64, bool) {
        let number = self.state.numbers.get(writer).unwrap_or(OWN);
        let theirs = self.seen_there(number);
        let held = self.members_part(|number| self.state.clocks[number as usize]);
        let mut held = held.iter();
        let level = held.all(|(number, clock)| of(theirs, *number) >= *clock);
        (theirs.iter().map(|entry| entry.1).sum(), level)
    }

    /// Replaces the configuration without asking a majority, when one is lost for ever. It beats
    /// whatever the members of the present one may still decide among themselves: a member that
    /// was only out of reach, and is not among `members`, loses its say.
    ///
    /// # Errors
    /// [`Error::NotAMember`] if this replica is none, [`Error::MembersFull`].
    pub fn force_members(&mut self, members: &[Owner]) -> Result<(), Error> {
        let Some(present) = self.configuration().filter(|_| self.is_member()) else {
            return Err(Error::NotAMember);
        };
        let next = Configuration {
            era: present.era + 1,
            number: present.number + 1,
            members: checked(members)?,
            limits: present.limits.clone(),
        };
        self.decide(next)
    }

    /// Says goodbye: the writer's last transaction, after which it makes no other and takes nothing
    /// in. Its home takes over.
    ///
    /// # Errors
    /// [`Error::NotAMember`] if no member has taken it in.
    pub fn leave(&mut self) -> Result<(), Error> {
        let Some(home) = self.roster.cards[OWN as usize].home else {
            return Err(Error::NotAMember);
        };
        let heir = home.by.writer;
        self.state(OWN, |by| {
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
    pub fn fence(&mut self, writer: &WriterId) -> Result<(), Error> {
        if !self.is_member() {
            return Err(Error::NotAMember);
        }
        if *writer == self.writer() {
            return Err(Error::UnknownWriter {
                writer: detail(*writer),
            });
        }
        if self.taken_over(writer).is_some() {
            return Ok(());
        }
        let clock = self.next_clock()?;
        self.room_for_writer(writer, Bringer::Peer)?;
        let number = self.number(*writer);
        let card = &self.roster.cards[number as usize];
        if card.fence.is_some() || card.retired.is_some() {
            return Ok(());
        }
        let by = Stamp { writer: OWN, clock };
        if card.intro.is_none() && card.announce.is_none() {
            self.note(number, Says::Admit(Admit { turn: 0, by }));
        }
        let fence = Fence {
            turn: 0,
            by,
            heir: OWN,
        };
        self.note(number, Says::Fence(fence));
        self.made(clock);
        Ok(())
    }

    /// Whether messages of this writer's own may be taken: not if it left, for then all of it is
    /// held, or was declared dead.
    pub fn takes_from(&self, writer: &WriterId) -> bool {
        let card = self
            .state
            .numbers
            .get(writer)
            .map(|at| &self.roster.cards[at as usize]);
        card.is_none_or(|card| !card.is_over())
    }

    /// Whether this member has acknowledged that a writer is dead, or concluded from its own word
    /// alone: by then it held all that those who are attached to it had of the writer, and takes no
    /// more of it from such. Of one that nobody had heard of before it takes nothing from them.
    pub(super) fn has_buried(&self, writer: u32) -> bool {
        let card = &self.roster.cards[writer as usize];
        let acked = self.acked();
        let known = |writer| of(&acked, writer).max(self.horizon(writer));
        let buried = |fence: Fence| card.is_burial() || self.covers(known, fence.by);
        card.retired.is_none() && card.fence.is_some_and(buried)
    }

    /// Whether a writer is a member's incarnation that counts.
    pub(crate) fn is_counted_member(&self, writer: &WriterId) -> bool {
        self.state
            .numbers
            .get(writer)
            .is_some_and(|number| self.counts(number))
    }

    /// Declares the incarnations dead of owners that are members no more, and those before this one of
    /// its own owner's, of which it did not know when it announced itself.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`].
    pub fn fence_strays(&mut self) -> Result<(), Error> {
        let own = self.incarnation(&self.writer());
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
        let strays = strays.map(|it| self.state.writers[it.1 as usize]);
        let strays: Vec<WriterId> = strays.collect();
        strays.iter().try_for_each(|writer| self.fence(writer))?;
        self.adopt_orphans()
    }

    /// Becomes the heir of the dead whose heirs are dead in a circle. They can't have taken over what
    /// nobody knows that they did: all have acknowledged that they are dead.
    fn adopt_orphans(&mut self) -> Result<(), Error> {
        let quorum = self.quorum();
        let open = self
            .ended_cards()
            .filter(|(card, _)| card.retired.is_none());
        let fences = open.filter_map(|(card, number)| Some((number, card.fence?)));
        let fences: Vec<(u32, Fence)> = fences.collect();
        let known = |it: &(u32, Fence)| self.acknowledged(&quorum, it.1.by);
        let is_heir = |it: &&(u32, Fence)| self.roster.cards[it.0 as usize].announce.is_some();
        if !fences.iter().filter(is_heir).all(known) {
            return Ok(());
        }
        let orphans = fences.iter().copied().filter(known);
        let orphans = orphans.filter(|it| !self.counts(self.heir_of(it.0)));
        let orphans: Vec<(u32, Fence)> = orphans.collect();
        for (number, fence) in orphans {
            let turn = fence.turn.saturating_add(1);
            self.state(number, |by| {
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
    pub(super) fn take_gone(&mut self, by: Stamp, owner: Owner, generation: u64) {
        self.roster.prospect = None;
        let gone = &mut self.roster.gone;
        match gone.binary_search_by(|entry| entry.0.cmp(&owner)) {
            Ok(at) if gone[at].1 >= generation => {}
            Ok(at) => gone[at] = (owner, generation, by),
            Err(at) => gone.insert(at, (owner, generation, by)),
        }
    }

    /// The last clock of a writer that counts, if it is over and that is certain here.
    pub fn last_of(&self, writer: &WriterId) -> Option<u64> {
        let number = self.state.numbers.get(writer);
        let retired = number.and_then(|number| self.roster.cards[number as usize].retired);
        retired
            .map(|it| it.upto)
            .or_else(|| self.taken_over(writer))
    }

    /// Whether a writer is known here.
    pub(crate) fn knows(&self, writer: &WriterId) -> bool {
        self.state.knows(writer)
    }

    /// Whether everything up to an admission was seen here: who was taken in by it and is not known
    /// was forgotten.
    pub(crate) fn has_seen(&self, intro: &Intro) -> bool {
        let held = self.held(&intro.by) >= intro.clock;
        held && intro.clock > 0 || self.gone(&intro.owner) >= Some(intro.generation)
    }

    /// Whether a writer is a member's incarnation that counts, and whose place is certain: it does not
    /// have to come back for having begun from an old state, and lose what it alone holds.
    pub(crate) fn is_sure_member(&self, writer: &WriterId) -> bool {
        let Some(number) = self.state.numbers.get(writer).filter(|it| self.counts(*it)) else {
            return false;
        };
        let card = &self.roster.cards[number as usize];
        let announced = card.announce.as_ref().map_or(u64::MAX, |it| it.clock);
        let sole = self.configuration().is_some_and(|it| it.members.len() == 1);
        !card.is_unsure() && (sole || self.horizon(number) >= announced)
    }

    /// Whether this is a member's writer that another living one has taken in.
    pub(crate) fn is_acknowledged(&self) -> bool {
        let announce = self.roster.cards[OWN as usize].announce.as_ref();
        let clock = announce.map_or(u64::MAX, |it| it.clock);
        let mut others = self.start_cards().filter(|it| it.1 != OWN);
        let acked = |card: &Card| card.ack.as_ref().is_some_and(|ack| ack.of(OWN) >= clock);
        self.is_established() && others.any(|(card, _)| !card.is_over() && acked(card))
    }

    /// Whether this is a member's writer that others have taken in.
    pub fn is_established(&self) -> bool {
        self.is_member() && self.roster.established
    }

    /// The last clock of a forgotten writer that was taken over, if it is still remembered.
    pub fn taken_over(&self, writer: &WriterId) -> Option<u64> {
        let returns = &self.roster.returns;
        let at = returns.binary_search_by(|entry| entry.0.cmp(writer)).ok()?;
        Some(returns[at].1)
    }

    /// Whether a member knows what this replica has seen, and waits for it.
    pub(super) fn is_counted(&self) -> bool {
        let card = &self.roster.cards[OWN as usize];
        self.is_established()
            || card.intro.is_some() && card.announce.is_none() && card.bye.is_none()
    }
}

#[cfg(test)]
mod tests;

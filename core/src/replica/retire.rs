//! Closed spaces: members, admission, acknowledgement, retirement, and the collection of what
//! means nothing any more.
//!
//! Something is *stable* once everybody who counts has seen it: then whatever is still unseen was
//! made by somebody who had seen it. Members count, and each of them speaks for the writers that
//! are attached to it. Only what is stable is collected.

use super::{Mark, Replica, place};
use crate::counter;
use crate::delta::Message;
use crate::error::Error;
use crate::keys::Handle;
use crate::limits::MEMBERS_MAX;
use crate::roster::{
    Ack, Admit, Announce, Bye, Card, Configuration, Fact, Fence, Owner, Retired, Says,
};
use crate::shard::{OWN, PAGE, bits};
use crate::slot::{Fold, Moved, Slot, Stamp};
use crate::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Longest chain of heirs that is followed.
const HEIRS_MAX: usize = 64;

/// A writer that is attached to this member, and what it has seen of the members' writers.
#[derive(Clone, Debug)]
pub(super) struct Attached {
    writer: u32,
    seen: Vec<(u32, u64)>,
}

/// Those whose acknowledgement is needed.
struct Quorum {
    members: Vec<u32>,
    /// What this replica has seen, and those that are attached to it.
    own: Vec<(u32, u64)>,
    /// Whether they acknowledged each fence of a writer that is not absorbed yet. Until then no
    /// other acknowledgement means anything: some may know of a fence that others do not.
    settled: bool,
}

/// What is known of the writers of a closed space, and where collection stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Roster {
    /// By local number.
    pub(super) cards: Vec<Card>,
    /// The present configuration, and who said so.
    pub(super) configuration: Option<(Stamp, Configuration)>,
    /// The newest generation of each owner that was forgotten, ascending by owner, and the stamp
    /// of its absorption.
    pub(super) gone: Vec<(Owner, u64, Stamp)>,
    attached: Vec<Attached>,
    /// Everything up to here, by local number, is stable.
    settled: Vec<u64>,
    /// The newest stamps, by local number, of what was collected here or before it came here. Whoever
    /// has not seen them all can't be told the difference, only the whole.
    pub(super) floor: Vec<u64>,
    /// What was held at an ack of this member's own, which others are to acknowledge.
    pending: Option<(u64, Vec<u64>)>,
    /// The local numbers of forgotten writers.
    free: Vec<u32>,
    /// The epoch in which each local number was given to its writer.
    pub(super) assigned: Vec<u64>,
    /// Whether others have taken this writer in.
    established: bool,
    /// What was held at this writer's first transaction, by local number. A writer that goes on from
    /// an old state may cancel what was collected meanwhile: this tells.
    base: Vec<u64>,
    /// Whether the last collection left something that waits to be stable.
    waiting: bool,
    /// Forgotten writers with the last clock that was taken over, ascending by writer.
    returns: Vec<(WriterId, u64)>,
}

impl Roster {
    /// That of an open space of one writer.
    pub(super) fn new() -> Roster {
        Roster {
            cards: Vec::from([Card::default()]),
            assigned: Vec::from([0]),
            ..Roster::default()
        }
    }
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
        let clock = self.next_clock()?;
        let configuration = Configuration {
            era: 0,
            number: 1,
            members: Vec::from([*owner]),
        };
        let announce = self.announcement(clock, owner, nonce, unix_ms);
        self.note(OWN, Says::Announce(Box::new(announce)));
        let by = Stamp { writer: OWN, clock };
        for writer in 1..self.writers.len() as u32 {
            self.note(writer, Says::Admit(Admit { turn: 0, by }));
        }
        self.roster.configuration = Some((by, configuration));
        self.roster.established = true;
        self.made(clock);
        Ok(())
    }

    /// Announces this writer as an incarnation of a member, and declares the owner's earlier ones
    /// dead, with itself as their heir.
    ///
    /// # Errors
    /// [`Error::NotAMember`].
    pub fn announce(&mut self, owner: &Owner, nonce: &[u8; 16], unix_ms: u64) -> Result<(), Error> {
        if !self.configuration().is_some_and(|it| it.has(owner)) {
            return Err(Error::NotAMember);
        }
        let clock = self.next_clock()?;
        let earlier: Vec<u32> = self.incarnations(owner).collect();
        let announce = self.announcement(clock, owner, nonce, unix_ms);
        self.note(OWN, Says::Announce(Box::new(announce)));
        let by = Stamp { writer: OWN, clock };
        for writer in earlier {
            let card = &self.roster.cards[writer as usize];
            if writer != OWN && !card.is_over() {
                let fence = Fence {
                    turn: 0,
                    by,
                    heir: OWN,
                };
                self.note(writer, Says::Fence(fence));
            }
        }
        self.made(clock);
        self.establish();
        Ok(())
    }

    fn announcement(&self, clock: u64, owner: &Owner, nonce: &[u8; 16], unix_ms: u64) -> Announce {
        let cards = self.roster.cards.iter();
        let known = cards.filter_map(|card| card.announce.as_ref());
        let known = known
            .filter(|it| it.owner == *owner)
            .map(|it| it.generation);
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
    fn incarnations(&self, owner: &Owner) -> impl Iterator<Item = u32> {
        let of = move |card: &Card| card.announce.as_ref().is_some_and(|it| it.owner == *owner);
        let cards = self.roster.cards.iter().zip(0..);
        cards
            .filter(move |(card, _)| of(card))
            .map(|(_, number)| number)
    }

    /// Notes a fact in a transaction of this replica's.
    pub(super) fn note(&mut self, writer: u32, says: Says) {
        self.roster.cards[writer as usize].take(&says, &self.writers);
    }

    /// Makes one fact a transaction.
    fn state(&mut self, writer: u32, says: impl FnOnce(Stamp) -> Says) -> Result<(), Error> {
        let clock = self.next_clock()?;
        let by = Stamp { writer: OWN, clock };
        self.note(writer, says(by));
        self.made(clock);
        Ok(())
    }

    /// Whether this number is a member's incarnation that counts.
    fn counts(&self, writer: u32) -> bool {
        let card = &self.roster.cards[writer as usize];
        let owner = card.announce.as_ref().map(|it| it.owner);
        let member = owner.is_some_and(|it| self.configuration().is_some_and(|c| c.has(&it)));
        member && !card.is_over()
    }

    /// Whether this replica is a member.
    pub fn is_member(&self) -> bool {
        self.counts(OWN)
    }

    /// Takes a writer in that asks for it in a session of its own, or makes this member its home.
    /// `vector` is what the writer has seen, all of which was taken in here.
    ///
    /// # Errors
    /// [`Error::NotAMember`] if this replica is none, [`Error::Retired`] if the writer was declared
    /// dead or absorbed, [`Error::Behind`] if it has seen something, but not all that this member
    /// has acknowledged: then it has to begin again from this member's state.
    pub fn admit(&mut self, writer: WriterId, vector: &VersionVector) -> Result<(), Error> {
        if !self.is_member() {
            return Err(Error::NotAMember);
        }
        let seen = |writer: &WriterId| vector.get(writer);
        let lonely = vector.iter().all(|(other, _)| other == writer);
        self.may_admit(&writer, lonely, &seen)?;
        self.take_in(writer)
    }

    /// Whether a writer may be taken in that has seen so much of others, or nothing.
    pub(super) fn may_admit(
        &self,
        writer: &WriterId,
        lonely: bool,
        seen: &dyn Fn(&WriterId) -> u64,
    ) -> Result<(), Error> {
        if self.taken_over(writer).is_some() {
            return Err(Error::Retired);
        }
        let behind = |(number, clock): &(u32, u64)| seen(&self.writers[*number as usize]) < *clock;
        match !lonely && self.given_up().iter().any(behind) {
            true => Err(Error::Behind),
            false => Ok(()),
        }
    }

    /// What may have been collected, here or elsewhere: nothing that this member has not
    /// acknowledged, or collected itself.
    fn given_up(&self) -> Vec<(u32, u64)> {
        let floor = self.roster.floor.iter().copied().zip(0u32..);
        let floor = floor.filter(|(clock, _)| *clock > 0);
        let floor = floor.map(|(clock, number)| (number, clock));
        self.acked().into_iter().chain(floor).collect()
    }

    /// Whether a member's new incarnation, which has seen so much, has missed what may have been
    /// collected meanwhile.
    pub(super) fn is_behind(&self, seen: &dyn Fn(&WriterId) -> u64) -> bool {
        let quorum = self.quorum();
        let members = self.roster.cards.iter().zip(0u32..);
        let mut members = members.filter(|(card, _)| card.announce.is_some());
        let mut floor = self.roster.floor.iter().zip(&self.writers);
        members.any(|(_, number)| {
            seen(&self.writers[number as usize]) < self.least_seen(&quorum, number)
        }) || floor.any(|(clock, writer)| seen(writer) < *clock)
    }

    /// Makes this member the home of a writer.
    pub(super) fn take_in(&mut self, writer: WriterId) -> Result<(), Error> {
        let number = self.number(writer);
        let card = &self.roster.cards[number as usize];
        if card.is_over() {
            return Err(Error::Retired);
        }
        if card.announce.is_some() || card.home.is_some_and(|home| home.by.writer == OWN) {
            return Ok(());
        }
        let turn = card.home.map_or(0, |home| home.turn + 1);
        self.state(number, |by| Says::Admit(Admit { turn, by }))?;
        let seen = self.acked();
        self.roster.attached.retain(|it| it.writer != number);
        self.roster.attached.push(Attached {
            writer: number,
            seen,
        });
        Ok(())
    }

    /// Moves the own clock to that of a transaction that was made.
    pub(super) fn made(&mut self, clock: u64) {
        if self.clock() == 0 {
            self.roster.base.clone_from(&self.clocks);
        }
        self.clocks[OWN as usize] = clock;
    }

    /// What this writer had seen at its first transaction, until somebody has taken it in.
    pub(super) fn base(&self) -> Option<Fact> {
        if self.roster.established || self.configuration().is_none() || self.clock() == 0 {
            return None;
        }
        let seen = self.roster.base.iter().copied().zip(0u32..);
        let seen = seen.filter(|(clock, _)| *clock > 0);
        Some(Fact {
            writer: OWN,
            says: Says::Base(seen.map(|(clock, number)| (number, clock)).collect()),
        })
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
                .roster
                .cards
                .iter()
                .skip(1)
                .any(|card| card.ack.as_ref().is_some_and(|ack| ack.of(OWN) >= clock)),
        };
    }

    /// What this member's last ack says.
    fn acked(&self) -> Vec<(u32, u64)> {
        let ack = self.roster.cards[OWN as usize].ack.as_ref();
        ack.map_or(Vec::new(), |ack| ack.seen.clone())
    }

    /// Notes what a writer that is attached to this member has seen, as its message tells, of which
    /// everything has been taken in.
    pub(super) fn heard(&mut self, writer: &WriterId, message: &Message) {
        let Some(number) = self.numbers.get(writer) else {
            return;
        };
        let card = &self.roster.cards[number as usize];
        if number == OWN || card.announce.is_some() || !self.is_home_of(card) {
            return;
        }
        let before = self.roster.attached.iter().find(|it| it.writer == number);
        let before = before.map_or(&[][..], |it| &it.seen);
        let seen = self.members_part(|number| {
            let writer = self.writers[number as usize];
            let at = message
                .writers
                .binary_search_by_key(&writer, |it| it.writer);
            at.map_or(0, |at| message.writers[at].hi)
                .max(of(before, number))
        });
        match self
            .roster
            .attached
            .iter_mut()
            .find(|it| it.writer == number)
        {
            Some(attached) => attached.seen = seen,
            None => self.roster.attached.push(Attached {
                writer: number,
                seen,
            }),
        }
    }

    /// The clock up to which a writer is held.
    pub(super) fn held(&self, writer: &WriterId) -> u64 {
        let number = self.numbers.get(writer);
        number.map_or(0, |number| self.clocks[number as usize])
    }

    /// The clocks of those writers that are members' incarnations.
    fn members_part(&self, clock: impl Fn(u32) -> u64) -> Vec<(u32, u64)> {
        let cards = self.roster.cards.iter().zip(0u32..);
        let members = cards.filter(|(card, _)| card.announce.is_some());
        let of = members.map(|(_, number)| (number, clock(number)));
        of.filter(|(_, clock)| *clock > 0).collect()
    }

    /// What this member can acknowledge: what it and all that are attached to it have seen.
    fn seen(&self) -> Vec<(u32, u64)> {
        let mut seen = self.members_part(|number| self.clocks[number as usize]);
        for (card, number) in self.roster.cards.iter().zip(0u32..) {
            if card.announce.is_some() || card.is_over() || !self.is_home_of(card) {
                continue;
            }
            // What it has seen at least: what it told, or else what its last home spoke for.
            let told = self.roster.attached.iter().find(|it| it.writer == number);
            let home = card.home.map(|home| home.by.writer as usize);
            let before = home.and_then(|home| self.roster.cards[home].ack.as_ref());
            let theirs = match (told, before) {
                (Some(attached), _) => &attached.seen[..],
                (None, Some(ack)) => &ack.seen[..],
                (None, None) => &[],
            };
            for (writer, clock) in &mut seen {
                let at = theirs.binary_search_by_key(writer, |entry| entry.0);
                *clock = (*clock).min(at.map_or(0, |at| theirs[at].1));
            }
        }
        seen.retain(|(_, clock)| *clock > 0);
        seen
    }

    /// Whether this replica speaks for a writer: it is its home, or took over from its home.
    fn is_home_of(&self, card: &Card) -> bool {
        card.home
            .is_some_and(|home| self.heir_of(home.by.writer) == OWN)
    }

    /// Who speaks for a writer by now: itself, or whoever took over.
    fn heir_of(&self, writer: u32) -> u32 {
        let mut at = writer;
        for _ in 0..HEIRS_MAX {
            match self.roster.cards[at as usize].successor() {
                Some(next) => at = next,
                None => return at,
            }
        }
        at
    }

    /// The member by whom this replica's writer was taken in; `None` before that, and of a member.
    pub fn home(&self) -> Option<WriterId> {
        let card = &self.roster.cards[OWN as usize];
        let home = card.home.filter(|_| card.announce.is_none())?;
        Some(self.writers[self.heir_of(home.by.writer) as usize])
    }

    /// The member that is waited for in the name of this replica, which is none itself.
    pub(super) fn home_number(&self) -> Option<u32> {
        let card = &self.roster.cards[OWN as usize];
        let home = card.home.filter(|_| card.announce.is_none())?;
        Some(home.by.writer)
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
        if members.is_empty() || members.len() > MEMBERS_MAX {
            let members = members.len();
            return Err(Error::MembersFull { members });
        }
        let mut next = Configuration {
            era: present.era + 1,
            number: present.number + 1,
            members: members.to_vec(),
        };
        next.members.sort_unstable();
        next.members.dedup();
        let clock = self.next_clock()?;
        let by = Stamp { writer: OWN, clock };
        self.roster.configuration = Some((by, next));
        self.made(clock);
        Ok(())
    }

    /// Who alone may absorb a writer: its heir, or whoever has absorbed that one. An heir that was
    /// only declared dead may still have absorbed it itself.
    fn absorber_of(&self, card: &Card) -> Option<u32> {
        let mut at = card.successor()?;
        for _ in 0..HEIRS_MAX {
            match self.roster.cards[at as usize].retired {
                Some(retired) => at = retired.to.writer,
                None => return Some(at),
            }
        }
        None
    }

    /// Says goodbye: the writer's last transaction, after which it makes no other. `heir` takes
    /// over, its home if none is named.
    ///
    /// # Errors
    /// [`Error::NotAMember`] if there is no heir.
    pub fn leave(&mut self) -> Result<(), Error> {
        let home = self.roster.cards[OWN as usize].home;
        let Some(home) = home else {
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

    /// Declares a writer dead. This member takes over what is known of it.
    ///
    /// # Errors
    /// [`Error::NotAMember`] if this replica is none, [`Error::UnknownWriter`].
    pub fn fence(&mut self, writer: &WriterId) -> Result<(), Error> {
        if !self.is_member() {
            return Err(Error::NotAMember);
        }
        let Some(number) = self.numbers.get(writer).filter(|number| *number != OWN) else {
            return Err(Error::UnknownWriter { writer: *writer });
        };
        let card = &self.roster.cards[number as usize];
        if card.fence.is_some() || card.retired.is_some() {
            return Ok(());
        }
        self.state(number, |by| {
            Says::Fence(Fence {
                turn: 0,
                by,
                heir: OWN,
            })
        })
    }

    /// The writers that were absorbed and are still known, with the last clock that was taken over.
    pub fn retired(&self) -> impl Iterator<Item = (WriterId, u64)> {
        let cards = self.roster.cards.iter().zip(&self.writers);
        cards.filter_map(|(card, writer)| Some((*writer, card.retired?.upto)))
    }

    /// All that is known of writers, for the messages of tests.
    pub fn roster_debug(&self) -> impl core::fmt::Debug {
        self.roster.clone()
    }

    /// Whether messages of this writer's own may be taken: not if it was declared dead.
    pub fn takes_from(&self, writer: &WriterId) -> bool {
        let card = self
            .numbers
            .get(writer)
            .map(|at| &self.roster.cards[at as usize]);
        card.is_none_or(|card| card.fence.is_none() && card.retired.is_none())
    }

    /// Whether this member has acknowledged that a writer is dead: by then it held all that those who
    /// are attached to it had of the writer, and takes no more of it from such.
    pub(super) fn has_buried(&self, writer: u32) -> bool {
        let card = &self.roster.cards[writer as usize];
        let acked = self.acked();
        let buried = |fence: Fence| self.covers(|writer| of(&acked, writer), fence.by);
        card.retired.is_none() && card.fence.is_some_and(buried)
    }

    /// Whether a writer is a member's incarnation that counts.
    pub(super) fn is_counted_member(&self, writer: &WriterId) -> bool {
        self.numbers
            .get(writer)
            .is_some_and(|number| self.counts(number))
    }

    /// Whether a set of clocks covers a stamp, or the stamp of the absorption of its writer.
    fn covers(&self, seen: impl Fn(u32) -> u64, mut stamp: Stamp) -> bool {
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

    fn quorum(&self) -> Quorum {
        let members = (0..self.writers.len() as u32).filter(|number| self.counts(*number));
        let mut quorum = Quorum {
            members: members.collect(),
            own: self.seen(),
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
        let cards = self.roster.cards.iter().zip(0u32..);
        let mut open = cards.filter(|(card, _)| card.retired.is_none());
        quorum.settled = open.all(|(card, number)| {
            let seen = |fence: Fence| self.acknowledged(&quorum, fence.by);
            let buried = |fence| seen(fence) && self.is_heir_told(&quorum, number);
            card.fence.is_none_or(buried)
        });
        quorum
    }

    /// Whether the heir of a dead member knows of all that anybody knows of it, and so of all writers
    /// that were attached to it, for whom the heir speaks now.
    fn is_heir_told(&self, quorum: &Quorum, writer: u32) -> bool {
        if self.roster.cards[writer as usize].announce.is_none() {
            return true;
        }
        let heir = self.heir_of(writer);
        let seen = |number: u32| self.seen_by(quorum, number, writer);
        let most = quorum.members.iter().map(|number| seen(*number)).max();
        let most = most.unwrap_or(0).max(self.clocks[writer as usize]);
        quorum.members.contains(&heir) && seen(heir) >= most
    }

    /// How much of a member's writer a member has acknowledged.
    fn seen_by(&self, quorum: &Quorum, member: u32, writer: u32) -> u64 {
        match (member, &self.roster.cards[member as usize].ack) {
            (OWN, _) => of(&quorum.own, writer),
            (_, Some(ack)) => ack.of(writer),
            (_, None) => 0,
        }
    }

    /// Whether all who count have acknowledged a stamp.
    fn acknowledged(&self, quorum: &Quorum, stamp: Stamp) -> bool {
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
    fn is_stable(&self, quorum: &Quorum, stamp: Stamp) -> bool {
        let settled = &self.roster.settled;
        let settled = |writer: u32| settled.get(writer as usize).copied().unwrap_or(0);
        self.covers(settled, stamp) || quorum.settled && self.acknowledged(quorum, stamp)
    }

    /// Publishes what this member has seen, if somebody waits for it; tells whether it did.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`].
    pub fn acknowledge(&mut self) -> Result<bool, Error> {
        if !self.is_member() {
            return Ok(false);
        }
        let seen = self.seen();
        let before = self.acked();
        let asks = self.roster.waiting && self.roster.pending.is_none();
        let mut due = asks;
        for (card, number) in self.roster.cards.iter().zip(0u32..) {
            let newly = |stamp: Stamp| {
                self.covers(|writer| of(&seen, writer), stamp)
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
            // A new incarnation waits to hear from the others.
            due |= number != OWN
                && self.counts(number)
                && card
                    .announce
                    .as_ref()
                    .is_some_and(|it| newly(own(it.clock)));
        }
        if !due {
            return Ok(false);
        }
        let clock = self.next_clock()?;
        if asks {
            let mut held = self.clocks.clone();
            held[OWN as usize] = clock;
            self.roster.pending = Some((clock, held));
        }
        let want = self.roster.pending.as_ref().map_or(0, |pending| pending.0);
        let mut seen = seen;
        // It is part of what is seen here, if all that are attached have seen it.
        if let Some(own) = seen
            .iter_mut()
            .find(|entry| entry.0 == OWN && entry.1 == clock - 1)
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

    /// Declares the incarnations dead of owners that are members no more.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`].
    pub fn fence_strays(&mut self) -> Result<(), Error> {
        if !self.is_member() {
            return Ok(());
        }
        let is_stray = |card: &Card| {
            let owner = card.announce.as_ref().map(|it| it.owner);
            let member = |owner| self.configuration().is_some_and(|it| it.has(&owner));
            owner.is_some_and(|owner| !member(owner)) && !card.is_over()
        };
        let cards = self.roster.cards.iter().zip(&self.writers);
        let strays = cards.filter(|(card, _)| is_stray(card)).map(|it| *it.1);
        let strays: Vec<WriterId> = strays.collect();
        strays.iter().try_for_each(|writer| self.fence(writer))
    }

    /// Takes over the writers whose heir this replica is, if that may be; tells how many.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`].
    pub fn absorb(&mut self) -> Result<usize, Error> {
        if !self.is_member() {
            return Ok(0);
        }
        let fenced = self.quorum().settled;
        let ready = |(card, number): (&Card, u32)| {
            let free = match (card.fence, card.bye) {
                (Some(_), _) => fenced,
                (None, Some(_)) => true,
                (None, None) => false,
            };
            let mine =
                number != OWN && card.retired.is_none() && self.absorber_of(card) == Some(OWN);
            (free && mine).then_some(number)
        };
        let cards = self.roster.cards.iter().zip(0u32..);
        let mut ready: Vec<u32> = cards.filter_map(ready).collect();
        if ready.is_empty() {
            return Ok(0);
        }
        let clock = self.next_clock()?;
        let mut taken = Vec::new();
        for handle in self.slots_of(&ready) {
            let mut slots = self.slots(handle);
            if !self.absorb_counter(&mut slots, &ready, clock) {
                return Ok(0); // it would not fit; values stay right without
            }
            taken.push((handle, slots));
        }
        for (handle, slots) in taken {
            self.put_slots(handle, slots);
        }
        let to = Stamp { writer: OWN, clock };
        for number in &mut ready {
            let upto = self.clocks[*number as usize];
            self.note(*number, Says::Retired(Retired { to, upto }));
        }
        self.made(clock);
        Ok(ready.len())
    }

    /// Moves what these writers' slots come to into the own slot; false if it would not fit.
    fn absorb_counter(&self, slots: &mut Vec<Slot>, writers: &[u32], clock: u64) -> bool {
        for &writer in writers {
            let sums = counter::sums(slots, &self.writers);
            let Ok(at) = counter::find(slots, writer) else {
                continue;
            };
            if slots[at].side.moved.is_some() {
                continue;
            }
            if !sums[at].is_alive() {
                slots.remove(at);
                continue;
            }
            let amount = sums[at].amount;
            if !self.act(clock).take_over(slots, amount) {
                return false;
            }
            let to = Stamp { writer: OWN, clock };
            if let Ok(at) = counter::find(slots, writer) {
                slots[at].side.moved = Some(Box::new(Moved { to, amount }));
            }
        }
        counter::normalize(slots);
        true
    }

    /// The counters of which one of these writers has a slot.
    fn slots_of(&self, writers: &[u32]) -> Vec<Handle> {
        let mut handles = Vec::new();
        for (at, page) in self.pages.iter().enumerate() {
            let columns = writers.iter().filter_map(|writer| page.column(*writer));
            let present = columns.fold(0, |set, column| set | column.present);
            handles.extend(bits(present).map(|slot| Handle((at * PAGE) as u32 + slot)));
        }
        handles
    }

    pub(super) fn slots(&self, handle: Handle) -> Vec<Slot> {
        let (page_at, slot) = place(handle);
        let page = self.pages.get(page_at);
        page.map_or(Vec::new(), |page| page.slots(slot))
    }

    /// Drops the slots of writers that were absorbed without them: nothing survived in them.
    pub(super) fn drop_unmoved(&mut self, writers: &[u32]) {
        for handle in self.slots_of(writers) {
            let mut slots = self.slots(handle);
            slots.retain(|slot| slot.side.moved.is_some() || !writers.contains(&slot.writer()));
            counter::normalize(&mut slots);
            self.put_slots(handle, slots);
        }
    }

    /// Collects what is stable: dead slots, absorbed writers' amounts, the writers themselves.
    /// Nothing that is newer than `kept`, what a store has written, is touched. Tells whether
    /// anything was collected.
    ///
    /// Whoever walks over this replica's state in steps must not do so across a collection.
    pub fn collect(&mut self, kept: &Mark) -> bool {
        if self.configuration().is_none() {
            return false;
        }
        let quorum = self.quorum();
        self.settle(&quorum);
        let kept: Vec<u64> = (0..self.writers.len()).map(|n| self.low(kept, n)).collect();
        let mut changed = false;
        let floor = core::cell::RefCell::new(core::mem::take(&mut self.roster.floor));
        floor.borrow_mut().resize(self.writers.len(), 0);
        self.roster.waiting = false;
        for at in 0..self.pages.len() {
            for slot in bits(self.pages[at].odd()) {
                let handle = Handle((at * PAGE) as u32 + slot);
                let mut slots = self.pages[at].slots(slot);
                let mut waits = false;
                let stable = |stamp: Stamp| {
                    let number = stamp.writer as usize;
                    let stable = stamp.clock <= kept[number] && self.is_stable(&quorum, stamp);
                    if stable {
                        let least = &mut floor.borrow_mut()[number];
                        *least = stamp.clock.max(*least);
                    }
                    stable
                };
                if sweep(&mut slots, &self.writers, &stable, &mut waits) {
                    changed = true;
                    self.put_slots(handle, slots);
                    self.forget_unused(handle);
                }
                self.roster.waiting |= waits;
            }
        }
        self.roster.floor = floor.into_inner();
        changed |= self.forget(&quorum, &kept);
        self.collected |= changed;
        changed
    }

    /// Moves the settled vector on to what all have acknowledged, and to what was held at an ack of
    /// this member's own that all have acknowledged.
    fn settle(&mut self, quorum: &Quorum) {
        if !quorum.settled {
            return;
        }
        let mut settled = core::mem::take(&mut self.roster.settled);
        settled.resize(self.writers.len(), 0);
        let dot = |clock| Stamp { writer: OWN, clock };
        let waits = self.roster.pending.as_ref().map(|(clock, _)| dot(*clock));
        if waits.is_some_and(|dot| self.acknowledged(quorum, dot))
            && let Some((_, held)) = self.roster.pending.take()
        {
            for (clock, held) in settled.iter_mut().zip(held) {
                *clock = held.max(*clock);
            }
        }
        for (card, number) in self.roster.cards.iter().zip(0u32..) {
            if card.announce.is_some() {
                let clock = &mut settled[number as usize];
                *clock = self.least_seen(quorum, number).max(*clock);
            }
        }
        self.roster.settled = settled;
    }

    /// How much of a member's writer all who count have acknowledged.
    fn least_seen(&self, quorum: &Quorum, writer: u32) -> u64 {
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
        VersionVector::from_sorted(self.numbers.iter().filter_map(clocks).collect())
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
        self.roster.settled.resize(self.writers.len(), 0);
        for (writer, clock) in settled.iter() {
            if let Some(number) = self.numbers.get(&writer) {
                let ours = &mut self.roster.settled[number as usize];
                *ours = clock.max(*ours);
            }
        }
    }

    /// Forgets writers that were absorbed and of whom nothing is left.
    fn forget(&mut self, quorum: &Quorum, kept: &[u64]) -> bool {
        let mut changed = false;
        let mut left = alloc::vec![false; self.writers.len()];
        for page in self.pages.iter().filter(|page| page.odd.is_some()) {
            for column in page.columns().filter(|column| column.present != 0) {
                left[column.writer as usize] = true;
            }
        }
        for number in 1..self.writers.len() as u32 {
            let at = number as usize;
            let Some(Retired { to, upto }) = self.roster.cards[at].retired else {
                continue;
            };
            let is_kept = to.clock <= kept[to.writer as usize] && upto <= kept[at];
            let named = self
                .roster
                .cards
                .iter()
                .any(|card| card.successor() == Some(number));
            if is_kept && !named && !left[at] && self.is_stable(quorum, to) {
                self.forget_writer(number, to, upto);
                changed = true;
            } else {
                self.roster.waiting = true;
            }
        }
        changed
    }

    /// Forgets one writer; whatever it stamped is stamped by its absorption from now on.
    fn forget_writer(&mut self, number: u32, to: Stamp, upto: u64) {
        let card = core::mem::take(&mut self.roster.cards[number as usize]);
        if let Some(announce) = card.announce {
            self.take_gone(to, announce.owner, announce.generation);
        }
        let again = |stamp: &mut Stamp| {
            if stamp.writer == number {
                *stamp = to;
            }
        };
        for card in &mut self.roster.cards {
            for admit in [&mut card.intro, &mut card.home].into_iter().flatten() {
                again(&mut admit.by);
            }
            if let Some(fence) = &mut card.fence {
                again(&mut fence.by);
            }
            if let Some(ack) = &mut card.ack {
                ack.seen.retain(|entry| entry.0 != number);
            }
        }
        if let Some((by, _)) = &mut self.roster.configuration {
            again(by);
        }
        for (_, _, by) in &mut self.roster.gone {
            again(by);
        }
        for page in &mut self.pages {
            for side in page.sides_mut() {
                if let Some(cut) = &mut side.cut {
                    again(&mut cut.by);
                }
                if let Some(lift) = &mut side.lift {
                    again(&mut lift.by);
                }
            }
            page.others.retain(|column| column.writer != number);
        }
        for attached in &mut self.roster.attached {
            attached.seen.retain(|entry| entry.0 != number);
        }
        self.roster.attached.retain(|it| it.writer != number);
        self.roster.floor[number as usize] = 0;
        let floor = &mut self.roster.floor[to.writer as usize];
        *floor = to.clock.max(*floor);
        // A base that named it is not empty, though what it named is gone.
        if self
            .roster
            .base
            .get(number as usize)
            .is_some_and(|clock| *clock > 0)
        {
            self.roster.base[number as usize] = 0;
            self.roster.base[OWN as usize] = 1;
        }
        if let Some((_, held)) = &mut self.roster.pending
            && let Some(clock) = held.get_mut(number as usize)
        {
            *clock = 0;
        }
        if let Some(clock) = self.roster.settled.get_mut(number as usize) {
            *clock = 0;
        }
        let writer = self.writers[number as usize];
        let returns = &mut self.roster.returns;
        if let Err(at) = returns.binary_search_by(|entry| entry.0.cmp(&writer)) {
            returns.insert(at, (writer, upto));
        }
        self.numbers.remove(&writer);
        self.clocks[number as usize] = 0;
        self.merged_at[number as usize] = 0;
        self.roster.free.push(number);
    }

    /// Notes that an owner's incarnations up to a generation were forgotten.
    pub(super) fn take_gone(&mut self, by: Stamp, owner: Owner, generation: u64) {
        let gone = &mut self.roster.gone;
        match gone.binary_search_by(|entry| entry.0.cmp(&owner)) {
            Ok(at) if gone[at].1 >= generation => {}
            Ok(at) => gone[at] = (owner, generation, by),
            Err(at) => gone.insert(at, (owner, generation, by)),
        }
    }

    /// The last clock of a forgotten writer that was taken over, if it is still remembered.
    pub fn taken_over(&self, writer: &WriterId) -> Option<u64> {
        let returns = &self.roster.returns;
        let at = returns.binary_search_by(|entry| entry.0.cmp(writer)).ok()?;
        Some(returns[at].1)
    }

    /// Whether everything that was collected here is covered by these clocks.
    pub(super) fn covers_floor(&self, lows: &[u64]) -> bool {
        self.roster
            .floor
            .iter()
            .zip(lows)
            .all(|(floor, low)| floor <= low)
    }

    /// The transaction that took a writer in.
    pub(super) fn introduced_by(&self, writer: &WriterId) -> Option<(WriterId, u64)> {
        let number = self.numbers.get(writer)?;
        let by = self.roster.cards[number as usize].intro?.by;
        Some((self.writers[by.writer as usize], by.clock))
    }

    /// Whose incarnation a writer is, and of which generation, if it is a member's.
    pub(super) fn incarnation(&self, writer: &WriterId) -> Option<(Owner, u64)> {
        let number = self.numbers.get(writer)?;
        let announce = self.roster.cards[number as usize].announce.as_ref()?;
        Some((announce.owner, announce.generation))
    }

    /// Whether a member knows what this replica has seen, and waits for it.
    fn is_counted(&self) -> bool {
        let card = &self.roster.cards[OWN as usize];
        self.is_member() || card.intro.is_some() && card.bye.is_none()
    }

    /// Whether a message is to take the place of what is held here: nobody has waited for this
    /// replica, so things may have been collected that it still holds.
    ///
    /// # Errors
    /// [`Error::Outdated`] if that would lose transactions of its own.
    pub(super) fn is_replaced_by(&self, message: &Message) -> Result<bool, Error> {
        let whole = message.closed && message.writers.iter().all(|entry| entry.lo == 0);
        let alone = self.numbers.len() == 1;
        if !whole || alone || self.is_counted() {
            return Ok(false);
        }
        let left = self.roster.cards[OWN as usize].bye.is_some();
        match self.clock() == 0 || left {
            true => Ok(true),
            false => Err(Error::Outdated),
        }
    }

    /// Drops everything but the keys that are interned, to begin again; which counters there were.
    pub(super) fn clear(&mut self) -> Vec<Handle> {
        let handles: Vec<Handle> = self.counters().map(|(handle, _)| handle).collect();
        let writer = self.writer();
        let pages = core::mem::take(&mut self.pages);
        self.summary.clear();
        for (at, page) in pages.iter().enumerate() {
            for slot in bits(page.present()) {
                self.forget_unused(Handle((at * PAGE) as u32 + slot));
            }
        }
        self.epoch += 1;
        self.writers.truncate(1);
        self.clocks = Vec::from([0]);
        self.merged_at = Vec::from([0]);
        self.numbers = crate::numbers::Numbers::new(writer, OWN);
        self.roster = Roster::new();
        handles
    }

    /// A number for a writer that has none.
    pub(super) fn assign(&mut self, writer: WriterId) -> u32 {
        let number = match self.roster.free.pop() {
            Some(number) => {
                self.writers[number as usize] = writer;
                number
            }
            None => {
                self.writers.push(writer);
                self.clocks.push(0);
                self.merged_at.push(0);
                self.roster.cards.push(Card::default());
                self.roster.assigned.push(0);
                self.writers.len() as u32 - 1
            }
        };
        self.roster.assigned[number as usize] = self.epoch;
        number
    }

    /// The clock that a mark has for a local number: nothing if the number changed hands since.
    pub(super) fn low(&self, mark: &Mark, number: usize) -> u64 {
        match self.roster.assigned[number] >= mark.epoch {
            true => 0,
            false => mark.clocks.get(number).copied().unwrap_or(0),
        }
    }
}

fn of(seen: &[(u32, u64)], writer: u32) -> u64 {
    match seen.binary_search_by_key(&writer, |entry| entry.0) {
        Ok(at) => seen[at].1,
        Err(_) => 0,
    }
}

/// Collects what is stable in one counter; tells whether anything was, and whether anything waits.
fn sweep(
    slots: &mut Vec<Slot>,
    ids: &[WriterId],
    stable: &dyn Fn(Stamp) -> bool,
    waits: &mut bool,
) -> bool {
    let mut changed = false;
    loop {
        let sums = counter::sums(slots, ids);
        let heirs: Vec<u32> = slots
            .iter()
            .filter_map(|slot| Some(slot.side.moved.as_ref()?.to.writer))
            .collect();
        let is_settled = |slot: &Slot| {
            slot.side.cut.is_none_or(|cut| stable(cut.by))
                && slot.side.lift.as_ref().is_none_or(|lift| stable(lift.by))
        };
        let mut done = true;
        for at in 0..slots.len() {
            let slot = &slots[at];
            if heirs.contains(&slot.writer()) {
                continue; // its children first
            }
            let stamp = Stamp {
                writer: slot.writer(),
                clock: slot.row.clock,
            };
            let collected = match &slot.side.moved {
                Some(moved) => stable(moved.to) && is_settled(slot),
                None => !sums[at].is_alive() && stable(stamp) && is_settled(slot),
            };
            if collected {
                let child = slots.remove(at);
                if let Some(moved) = child.side.moved
                    && let Ok(up) = counter::find(slots, moved.to.writer)
                {
                    fold(&mut slots[up], moved.to.clock, &sums[at], moved.amount);
                }
                done = false;
                break;
            }
            *waits |= slot.side.moved.is_some() || !sums[at].is_alive();
        }
        if done {
            break;
        }
        changed = true;
        *waits = false;
    }
    let heirs: Vec<u32> = slots
        .iter()
        .filter_map(|slot| Some(slot.side.moved.as_ref()?.to.writer))
        .collect();
    for slot in slots {
        let has_children = heirs.contains(&slot.writer());
        changed |= settle_slot(slot, has_children, stable, waits);
    }
    changed
}

/// Folds what a child comes to into its parent.
fn fold(parent: &mut Slot, clock: u64, sum: &counter::Sum, moved: i128) {
    let lift = parent.lift_clock();
    let mut fold = Fold {
        clock,
        amount: sum.amount - moved,
        adds: sum.adds,
        base: sum.base,
        until: sum.until.filter(|_| clock > lift),
    };
    if fold.amount == 0 && !fold.adds && fold.base.is_none() && fold.until.is_none() {
        return;
    }
    if let Some(old) = &parent.side.fold {
        fold.clock = fold.clock.max(old.clock);
        fold.amount += old.amount;
        fold.adds |= old.adds;
        fold.base = fold.base.max(old.base);
        fold.until = fold.until.max(old.until.filter(|_| old.clock > lift));
    }
    parent.side.fold = Some(Box::new(fold));
}

/// Takes off a slot what all have seen and nobody needs: the begin of its life, expiries that were
/// taken away.
fn settle_slot(
    slot: &mut Slot,
    has_children: bool,
    stable: &dyn Fn(Stamp) -> bool,
    waits: &mut bool,
) -> bool {
    let before = slot.clone();
    let own = |clock| Stamp {
        writer: slot.writer(),
        clock,
    };
    let mut extra = slot.extra();
    if let Some(expiry) = extra.expiry {
        // One that lives may still be needed where it is known to beat others.
        let dead = expiry.clock <= slot.cut_clock().max(slot.lift_clock());
        let lifted = slot.side.lift.as_ref().is_none_or(|lift| stable(lift.by));
        if dead && lifted && stable(own(expiry.clock)) {
            extra.expiry = None;
        } else {
            *waits |= dead;
        }
    }
    if extra.base.is_some()
        && let Some(cut) = slot.valid_cut()
    {
        match stable(cut.by) {
            true => extra.base = None,
            false => *waits = true,
        }
    }
    if extra.born > 0 && extra.base.is_none() {
        match stable(own(extra.born)) {
            true => extra.born = 0,
            false => *waits = true,
        }
    }
    let (clock, total) = (slot.row.clock, slot.total());
    slot.set_shard(clock, total, extra);
    if let Some(lift) = &slot.side.lift {
        if has_children || !stable(lift.by) {
            *waits = true;
        } else {
            // What it lifts is gone, or goes now.
            let clock = lift.clock;
            if let Some(fold) = slot.side.fold.as_mut().filter(|fold| fold.clock <= clock) {
                fold.until = None;
            }
            if slot
                .extra()
                .expiry
                .is_none_or(|expiry| expiry.clock > clock)
            {
                slot.side.lift = None;
            }
        }
    }
    *slot != before
}

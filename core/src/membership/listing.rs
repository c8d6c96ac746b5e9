//! Views of a space with members, for people: who the members are, and what became of each writer.

use super::Membership;
use crate::indexed_state::State;
use crate::membership::place::Predecessor;
use crate::message::Message;
use crate::message::records::{Configuration, Intro, Limit, Owner};
use crate::optional::Optional;
use crate::state::page::OWN;
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// A member, as this replica sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its owner's key.
    pub owner: Owner,
    /// The writer of its newest living incarnation. `None` if this replica has none.
    pub writer: Option<WriterId>,
    /// The clock up to which this replica has that writer's transactions.
    pub clock: u64,
    /// How many of the members' transactions here it has not acknowledged yet. Members acknowledge when
    /// another replica waits for it, so a small number is no sign of trouble.
    pub behind: u64,
    /// Whether its incarnation is not certain yet, because not all others have acknowledged it.
    pub unsure: bool,
    /// Whether it is this replica's owner.
    pub own: bool,
}

/// The fate of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It may still write.
    Living,
    /// The writer left. Its successor has not taken over yet.
    Left,
    /// The writer was declared dead. Its successor has not taken over yet.
    Dead,
    /// The successor has taken over all that counts of the writer, and replicas will forget it.
    Absorbed,
}

/// A writer, as this replica sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The writer.
    pub writer: WriterId,
    /// The clock up to which this replica has its transactions.
    pub clock: u64,
    /// The owner whose incarnation it is or was, if it is or was a member's.
    pub owner: Option<Owner>,
    /// The writer's sponsor, if a member has admitted it.
    pub sponsor: Option<WriterId>,
    /// The successor of a writer that is over.
    pub successor: Option<WriterId>,
    /// Its fate.
    pub fate: Fate,
}

/// The members of a space, and the records about its writers: see [`Replica::members`].
///
/// A view: it borrows the replica, reads, and changes nothing.
///
/// [`Replica::members`]: crate::Replica::members
#[derive(Clone, Copy)]
pub struct Members<'a> {
    membership: &'a Membership,
    state: &'a State,
}

impl<'a> Members<'a> {
    #[inline(always)]
    pub(crate) fn new(membership: &'a Membership, state: &'a State) -> Members<'a> {
        Members { membership, state }
    }

    /// The present configuration; `None` while the space is open.
    #[inline]
    pub fn configuration(self) -> Option<&'a Configuration> {
        self.membership.configuration()
    }

    /// The transaction here with the present configuration. A replica that has it has that configuration, or a
    /// later one.
    pub fn configured_by(self) -> Option<VersionVector> {
        let (by, _) = self.membership.table.configuration.as_ref()?;
        Some(VersionVector::of(self.state.id(by.writer), by.clock))
    }

    /// The members of the present configuration, ascending by owner; none while the space is open.
    pub fn list(self) -> Vec<Member> {
        let quorum = self.membership.quorum(self.state);
        let owners = self
            .membership
            .configuration()
            .map_or(&[][..], |it| &it.members);
        let own = self.membership.owner_of(OWN);
        let member = |owner: &Owner| {
            let living = self
                .membership
                .incarnations(owner)
                .filter(|number| self.membership.counts(*number));
            let number = living.max_by_key(|number| self.membership.generation_of(*number));
            let behind = number.map(|number| {
                // A member that forgot a retired writer no longer names it in its acknowledgements.
                let held = self.membership.members_part(|writer| {
                    match self.membership.writer(writer).retired {
                        Some(_) => 0,
                        None => self.state.clock_at(writer),
                    }
                });
                let lacks = |(writer, clock): (u32, u64)| match number == OWN && writer == OWN {
                    true => 0,
                    false => clock.saturating_sub(self.membership.seen_by(&quorum, number, writer)),
                };
                held.into_iter().map(lacks).fold(0, u64::saturating_add)
            });
            Member {
                owner: *owner,
                writer: number.map(|number| self.state.id(number)),
                clock: number.map_or(0, |number| self.state.clock_at(number)),
                behind: behind.unwrap_or(0),
                unsure: number
                    .is_some_and(|it| self.membership.table.writer_states[it as usize].is_unsure()),
                own: own == Some(*owner),
            }
        };
        owners.iter().map(member).collect()
    }

    /// Whether this replica is a member.
    #[inline]
    pub fn is_member(self) -> bool {
        self.membership.is_member()
    }

    /// Whether this replica is a member that takes from the rights, numbers and limits that it holds. It does
    /// not while it goes on under another writer, because this one is over.
    #[inline]
    pub fn may_take(self) -> bool {
        self.membership.may_take()
    }

    /// The generation of this replica's start, if it was announced.
    pub fn generation(self) -> Option<u64> {
        Some(self.incarnation(&self.state.writer())?.1)
    }

    /// The generation of an owner's newest start here, this replica's excepted. 0 if there is none.
    pub fn newest_start(self, owner: &Owner) -> u64 {
        self.membership.newest_start(owner)
    }

    /// Whether this replica's writer has announced itself as an incarnation of its owner. Also true if it
    /// can't do so any more because it left or was declared dead.
    #[inline]
    pub fn is_announced(self) -> bool {
        self.membership.is_announced()
    }

    /// Whether this is a member's writer that other members have admitted.
    #[inline]
    pub fn is_established(self) -> bool {
        self.membership.is_established()
    }

    /// Whether this replica may vote, and counts for the levels `quorum` and `all`.
    pub fn has_vote(self) -> bool {
        self.membership.has_vote(self.state)
    }

    /// Whether this start continues the votes of the one before in its place, as far as others have said by
    /// now.
    pub fn follows(self) -> bool {
        self.membership.follows(self.state)
    }

    /// The only living start of an owner here, if there is just one. A program asks this right after it has
    /// restored its store: a start in the place of that one may [follow
    /// it](crate::MembersMut::announce_after).
    pub fn only_start(self, owner: &Owner) -> Option<Predecessor> {
        self.membership.only_start(self.state, owner)
    }

    /// The members that were proposed here and are not decided on yet.
    #[inline]
    pub fn proposal(self) -> Option<&'a [Owner]> {
        self.membership.proposal()
    }

    /// The rate limits that were proposed here and are not decided on yet.
    #[inline]
    pub fn proposed_limits(self) -> Option<&'a [Limit]> {
        self.membership.proposed_limits()
    }

    /// The members that have not voted yet on the next configuration, as far as this replica has learned.
    /// Empty if there is nothing to decide.
    pub fn silent_voters(self) -> Vec<Owner> {
        let Some((era, number)) = self.membership.next_number() else {
            return Vec::new();
        };
        let promised = |owner: &Owner| {
            self.membership
                .vote_of(owner, era, number)
                .map(|it| it.promised)
        };
        let owners = self
            .membership
            .configuration()
            .map_or(&[][..], |it| &it.members);
        let newest = owners.iter().filter_map(promised).max();
        if newest.is_none() && self.membership.proposal().is_none() {
            return Vec::new();
        }
        let silent = |owner: &&Owner| newest.is_none() || promised(owner) != newest;
        owners.iter().filter(silent).copied().collect()
    }

    /// The number of other members that have acknowledged all of a writer up to a clock.
    ///
    /// A member acknowledges members' writers only, and when another replica
    /// [asks](crate::MembersMut::request_acknowledgement) or waits for it. It does so once the writers that
    /// it sponsors have it too.
    pub fn holders(self, writer: &WriterId, clock: u64) -> usize {
        let Some(writer) = self.state.number_of(writer) else {
            return 0;
        };
        let quorum = self.membership.quorum(self.state);
        let own = self.membership.owner_of(OWN);
        let owners = self
            .membership
            .configuration()
            .map_or(&[][..], |it| &it.members);
        let holds = |owner: &&Owner| {
            let mut living = self
                .membership
                .incarnations(owner)
                .filter(|number| self.membership.counts(*number));
            Some(**owner) != own
                && living.any(|number| self.membership.seen_by(&quorum, number, writer) >= clock)
        };
        owners.iter().filter(holds).count()
    }

    /// The owner whose incarnation a writer is, if it is or was a member's.
    pub fn owner_of(self, writer: &WriterId) -> Option<Owner> {
        self.membership.owner_of(self.state.number_of(writer)?)
    }

    /// How many writers this replica has.
    pub fn writer_count(self) -> usize {
        self.state.writer_count()
    }

    /// The writers that this replica has, ascending, with the state of each.
    pub fn writer_table(self) -> impl Iterator<Item = Listed> + 'a {
        self.state.numbered().map(move |(writer, number)| {
            let writer_state = &self.membership.table.writer_states[number as usize];
            let fate = match (writer_state.retired, writer_state.fence, writer_state.leave) {
                (Some(_), ..) => Fate::Absorbed,
                (_, Some(_), _) => Fate::Dead,
                (_, _, Some(_)) => Fate::Left,
                _ => Fate::Living,
            };
            let sponsor = writer_state
                .sponsor
                .filter(|_| writer_state.announce.is_none());
            let sponsor = sponsor.map(|sponsor| {
                self.state
                    .id(self.membership.successor_of(sponsor.by.writer))
            });
            Listed {
                writer,
                clock: self.state.clock_at(number),
                owner: self.membership.owner_of(number),
                sponsor: sponsor.filter(|_| fate == Fate::Living),
                successor: writer_state
                    .successor()
                    .map(|_| self.membership.successor_of(number))
                    .map(|successor| {
                        // Only a writer that is over has a successor.
                        self.state.id(successor)
                    }),
                fate,
            }
        })
    }

    /// Whether this replica accepts messages of this writer's own. It does not if the writer was declared
    /// dead, or if it left, because then the replica already has all of it.
    #[inline]
    pub fn accepts_from(self, writer: &WriterId) -> bool {
        self.membership.accepts_from(self.state, writer)
    }

    /// The last clock of a writer that counts, if the writer is over and this replica is certain of the
    /// clock.
    #[inline]
    pub fn final_clock(self, writer: &WriterId) -> Option<u64> {
        self.membership.last_of(self.state, writer)
    }

    /// The retired writers that this replica has not forgotten yet, each with the last clock that was taken
    /// over.
    pub fn retired(self) -> impl Iterator<Item = (WriterId, u64)> + 'a {
        let writer_states = self.membership.ended_states();
        writer_states.filter_map(move |(writer_state, at)| {
            Some((self.state.id(at), writer_state.retired?.upto))
        })
    }

    /// The last clock of a forgotten writer that its successor took over, if this replica still remembers it.
    #[inline]
    pub fn retired_clock(self, writer: &WriterId) -> Option<u64> {
        self.membership.forgotten_upto(writer)
    }

    /// How many writers the last [`retire`](crate::MembersMut::retire) skipped, because their totals do not
    /// fit into this replica's.
    ///
    /// Each call tries them again. The values in which they count are right, and a delete of the counter
    /// frees them.
    pub fn stuck_writers(self) -> usize {
        self.membership.table.stuck
    }

    /// The writers that this member sponsors: those it admitted, and those whose sponsors it retired.
    pub fn sponsored(self) -> impl Iterator<Item = WriterId> + 'a {
        let sponsored = self.membership.sponsored_numbers();
        sponsored.map(move |number| self.state.id(number))
    }

    /// The member that admitted this replica's writer; `None` before that, and of a member.
    #[inline]
    pub fn sponsor(self) -> Option<WriterId> {
        self.membership.sponsor(self.state)
    }

    /// Everything that this replica has found to be stable. A member can send it to the writers that it
    /// sponsors. These cannot compute it, because they receive no acknowledgements of their own.
    pub fn stable(self) -> VersionVector {
        self.membership.stable(self.state)
    }
}

/// Further reads of the sync machine.
impl Members<'_> {
    /// Whether this member sponsors a writer.
    #[inline]
    pub(crate) fn is_sponsored(self, writer: &WriterId) -> bool {
        self.membership.is_sponsored(self.state, writer)
    }

    /// Returns how much of the members' transactions a sponsored writer has seen, and whether it has seen all
    /// that are here. The first result is a number that grows with it.
    #[inline]
    pub(crate) fn progress(self, writer: &WriterId) -> (u64, bool) {
        self.membership.progress(self.state, writer)
    }

    /// Whether a writer is a living incarnation of a member.
    #[inline]
    pub(crate) fn is_counted_member(self, writer: &WriterId) -> bool {
        self.membership.is_counted_member(self.state, writer)
    }

    /// Whether a writer is a living incarnation of a member, and its place is certain.
    #[inline]
    pub(crate) fn is_sure_member(self, writer: &WriterId) -> bool {
        self.membership.is_sure_member(self.state, writer)
    }

    /// Whether this replica has seen everything up to an admission.
    #[inline]
    pub(crate) fn has_seen(self, intro: &Intro) -> bool {
        self.membership.has_seen(self.state, intro)
    }

    /// The owner and the generation of a writer that is a member's incarnation.
    #[inline]
    pub(crate) fn incarnation(self, writer: &WriterId) -> Option<(Owner, u64)> {
        self.membership.incarnation(self.state, writer)
    }

    /// Whether an acknowledgement for which others wait is itself delayed by the writers that are sponsored
    /// here.
    #[inline]
    pub(crate) fn is_held_up(self) -> bool {
        self.membership.is_held_up(self.state)
    }

    /// Whether the start of another member is delayed by this member's acknowledgement.
    #[inline]
    pub(crate) fn delays_start(self, writer: &WriterId) -> bool {
        let number = self.state.number_of(writer);
        number.is_some_and(|number| self.membership.delays_start(self.state, number))
    }

    /// Whether a message has anything that this replica lacks.
    #[inline]
    pub(crate) fn news(self, message: &Message) -> bool {
        self.membership.news(self.state, message)
    }
}

impl Membership {
    /// Requests acknowledgements of the other members. This member also makes its next one if no replica
    /// waits.
    pub(crate) fn ask_for_acknowledgement(&mut self) {
        if self.is_member() {
            self.table.update(|it| it.waiting = true);
        }
    }

    pub(crate) fn generation_of(&self, number: u32) -> u64 {
        let announce = self.table.writer_states[number as usize].announce.as_ref();
        announce.map_or(0, |it| it.generation)
    }

    /// Whether this replica's writer has announced itself as an incarnation of its owner. Also true if it
    /// can't do so any more because it left or was declared dead.
    pub(crate) fn is_announced(&self) -> bool {
        let writer_state = &self.table.writer_states[OWN as usize];
        writer_state.announce.is_some() || writer_state.is_over()
    }

    /// Whether this writer announced itself after this clock.
    pub(crate) fn is_announced_after(&self, clock: u64) -> bool {
        let announce = &self.table.writer_states[OWN as usize].announce;
        announce.as_ref().is_some_and(|it| it.clock > clock)
    }
}

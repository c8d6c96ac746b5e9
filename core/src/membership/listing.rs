//! Views of a space with members, for people: who the members are, and what became of each writer.

use super::Membership;
use crate::layers::State;
use crate::message::records::Owner;
use crate::state::page::OWN;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// A member, as it is seen from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its owner's key.
    pub owner: Owner,
    /// The writer of its newest living incarnation; `None` if none was heard of.
    pub writer: Option<WriterId>,
    /// Up to which clock that writer is held here.
    pub clock: u64,
    /// How many transactions of members that are held here it has not acknowledged yet. Members
    /// acknowledge when somebody waits for it, so that some are no sign of trouble.
    pub behind: u64,
    /// Whether its incarnation has not been acknowledged by all others yet.
    pub unsure: bool,
    /// Whether it is this replica's owner.
    pub own: bool,
}

/// What became of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It may still write.
    Living,
    /// It said goodbye; its heir has not taken over yet.
    Left,
    /// It was declared dead; its heir has not taken over yet.
    Dead,
    /// Its heir has taken over all that counts of it, and it is to be forgotten.
    Absorbed,
}

/// A writer, as it is seen from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The writer.
    pub writer: WriterId,
    /// Up to which clock it is held here.
    pub clock: u64,
    /// Whose incarnation it is, if it is or was a member's.
    pub owner: Option<Owner>,
    /// The member that speaks for it, of a writer that a member has taken in.
    pub home: Option<WriterId>,
    /// Who takes over or took over, once it is gone.
    pub heir: Option<WriterId>,
    /// What became of it.
    pub fate: Fate,
}

impl Membership {
    /// The members of the present configuration, ascending by owner; none while the space is open.
    pub(crate) fn members(&self, state: &State) -> Vec<Member> {
        let quorum = self.quorum(state);
        let owners = self.configuration().map_or(&[][..], |it| &it.members);
        let own = self.owner_of(OWN);
        let member = |owner: &Owner| {
            let living = self
                .incarnations(owner)
                .filter(|number| self.counts(*number));
            let number = living.max_by_key(|number| self.generation_of(*number));
            let behind = number.map(|number| {
                let held = self.members_part(|writer| state.clocks[writer as usize]);
                let lacks = |(writer, clock): (u32, u64)| match number == OWN && writer == OWN {
                    true => 0,
                    false => clock.saturating_sub(self.seen_by(&quorum, number, writer)),
                };
                held.into_iter().map(lacks).fold(0, u64::saturating_add)
            });
            Member {
                owner: *owner,
                writer: number.map(|number| state.writers[number as usize]),
                clock: number.map_or(0, |number| state.clocks[number as usize]),
                behind: behind.unwrap_or(0),
                unsure: number.is_some_and(|it| self.table.cards[it as usize].is_unsure()),
                own: own == Some(*owner),
            }
        };
        owners.iter().map(member).collect()
    }

    /// How many other members have said that they hold all of a writer up to a clock. A member says
    /// so of members' writers only, when somebody [asks](Self::ask_for_acknowledgement) or waits
    /// for it, and only once those whom it speaks for hold it too.
    pub(crate) fn holders(&self, state: &State, writer: &WriterId, clock: u64) -> usize {
        let Some(writer) = state.numbers.get(writer) else {
            return 0;
        };
        let quorum = self.quorum(state);
        let own = self.owner_of(OWN);
        let owners = self.configuration().map_or(&[][..], |it| &it.members);
        let holds = |owner: &&Owner| {
            let mut living = self
                .incarnations(owner)
                .filter(|number| self.counts(*number));
            Some(**owner) != own
                && living.any(|number| self.seen_by(&quorum, number, writer) >= clock)
        };
        owners.iter().filter(holds).count()
    }

    /// Has the next acknowledgement be made also if nobody waits, and ask
    /// the other members for theirs.
    pub(crate) fn ask_for_acknowledgement(&mut self) {
        if self.is_member() {
            self.table.waiting = true;
        }
    }

    pub(crate) fn generation_of(&self, number: u32) -> u64 {
        let announce = self.table.cards[number as usize].announce.as_ref();
        announce.map_or(0, |it| it.generation)
    }

    /// Whose incarnation a writer is, if it is or was a member's.
    pub(crate) fn owner_of_writer(&self, state: &State, writer: &WriterId) -> Option<Owner> {
        self.owner_of(state.numbers.get(writer)?)
    }

    /// How many writers are known here.
    pub(crate) fn writer_count(&self, state: &State) -> usize {
        state.numbers.len()
    }

    /// The writers that are known here, ascending, with what became of them.
    pub(crate) fn roster(&self, state: &State) -> impl Iterator<Item = Listed> {
        state.numbers.iter().map(|(writer, number)| {
            let card = &self.table.cards[number as usize];
            let fate = match (card.retired, card.fence, card.bye) {
                (Some(_), ..) => Fate::Absorbed,
                (_, Some(_), _) => Fate::Dead,
                (_, _, Some(_)) => Fate::Left,
                _ => Fate::Living,
            };
            let home = card.home.filter(|_| card.announce.is_none());
            let home = home.map(|home| state.writers[self.heir_of(home.by.writer) as usize]);
            Listed {
                writer,
                clock: state.clocks[number as usize],
                owner: self.owner_of(number),
                home: home.filter(|_| fate == Fate::Living),
                heir: card.successor().map(|_| self.heir_of(number)).map(|heir| {
                    // Only who is over has one.
                    state.writers[heir as usize]
                }),
                fate,
            }
        })
    }

    /// Whether this replica's writer has announced itself as an incarnation of its owner, or can't
    /// do so any more because it left or was declared dead.
    pub(crate) fn is_announced(&self) -> bool {
        let card = &self.table.cards[OWN as usize];
        card.announce.is_some() || card.is_over()
    }

    /// Whether this writer announced itself after this clock.
    pub(crate) fn is_announced_after(&self, clock: u64) -> bool {
        let announce = &self.table.cards[OWN as usize].announce;
        announce.as_ref().is_some_and(|it| it.clock > clock)
    }

    /// The members that have not taken part yet in deciding on the next configuration, as far as is
    /// known here; none if nothing is to be decided.
    pub(crate) fn silent_voters(&self) -> Vec<Owner> {
        let Some((era, number)) = self.next_number() else {
            return Vec::new();
        };
        let promised = |owner: &Owner| self.vote_of(owner, era, number).map(|it| it.promised);
        let owners = self.configuration().map_or(&[][..], |it| &it.members);
        let newest = owners.iter().filter_map(promised).max();
        if newest.is_none() && self.proposal().is_none() {
            return Vec::new();
        }
        let silent = |owner: &&Owner| newest.is_none() || promised(owner) != newest;
        owners.iter().filter(silent).copied().collect()
    }
}

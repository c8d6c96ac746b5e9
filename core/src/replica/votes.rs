//! How members agree on the next configuration.
//!
//! Each number is decided by one ballot protocol (Lamport, "The Part-Time Parliament", 1998), whose
//! messages are facts: a member's vote is a register that only its owner writes and that travels
//! with the state. A proposer asks with a new ballot; members promise it; once a majority of the
//! present configuration has, the proposer accepts under it what was accepted under the greatest
//! ballot among them, or else its own proposal; members follow; what a majority accepted under one
//! ballot is decided. So two configurations of one number can never both take effect.

use super::Replica;
use crate::error::{Error, detail};
use crate::limits::MEMBERS_MAX;
use crate::roster::{Ballot, Configuration, Limit, Owner, Ruling, Says, Vote};
use crate::state::page::OWN;
use alloc::boxed::Box;
use alloc::vec::Vec;

impl Replica {
    /// Proposes the members of the next configuration. It takes effect when a majority of the present
    /// members has agreed, which takes [tending](Replica::vote) here and there; another proposal
    /// may win instead.
    ///
    /// # Errors
    /// [`Error::NotAMember`] if this replica is none, [`Error::MembersFull`] if there are too many
    /// or none.
    pub fn propose_members(&mut self, members: &[Owner]) -> Result<(), Error> {
        let members = checked(members)?;
        let limits = self.configuration().map(|it| it.limits.clone());
        let limits = limits.unwrap_or_default();
        self.propose(Ruling { members, limits })
    }

    /// Proposes what the next configuration is to allow in each period, as
    /// [`propose_members`](Replica::propose_members) does members. What is in `born` does not matter.
    ///
    /// # Errors
    /// [`Error::NotAMember`] if this replica is none, and as [`Limit::check`]; [`Error::LimitsFull`].
    #[cfg(feature = "budgets")]
    pub fn propose_limits(&mut self, limits: &[Limit]) -> Result<(), Error> {
        let members = self.configuration().map(|it| it.members.clone());
        let members = members.unwrap_or_default();
        let limits = self.limits_to_propose(limits)?;
        self.propose(Ruling { members, limits })
    }

    fn propose(&mut self, ruling: Ruling) -> Result<(), Error> {
        if !self.is_member() {
            return Err(Error::NotAMember);
        }
        self.roster.proposal = Some(ruling);
        self.roster.asked = false;
        self.vote().map(|_| ())
    }

    /// The members that were proposed here and are not decided on yet.
    pub fn proposal(&self) -> Option<&[Owner]> {
        self.roster.proposal.as_ref().map(|it| &*it.members)
    }

    /// The limits that were proposed here and are not decided on yet.
    pub fn proposed_limits(&self) -> Option<&[Limit]> {
        self.roster.proposal.as_ref().map(|it| &*it.limits)
    }

    /// Takes the next steps in deciding on a configuration; tells whether there was one to take.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`].
    pub fn vote(&mut self) -> Result<bool, Error> {
        let mut stepped = false;
        while self.vote_once()? {
            stepped = true;
        }
        Ok(stepped)
    }

    fn vote_once(&mut self) -> Result<bool, Error> {
        let (true, Some(owner)) = (self.has_vote(), self.owner_of(OWN)) else {
            return Ok(false);
        };
        let Some((era, number)) = self.next_number() else {
            return Ok(false);
        };
        let voters = self.configuration().map_or(0, |it| it.members.len());
        let majority = voters / 2 + 1;
        let votes = self.votes(era, number);
        let own = votes
            .iter()
            .find(|(of, _)| *of == owner)
            .map(|(_, vote)| vote.clone());
        let accepts = |ballot: &Ballot| {
            let those = votes.iter().filter_map(|(_, vote)| vote.accepted.as_ref());
            those.filter(|it| it.0 == *ballot).count()
        };
        let decided = votes.iter().filter_map(|(_, vote)| vote.accepted.as_ref());
        let decided = decided.clone().find(|it| accepts(&it.0) >= majority);
        if let Some((_, ruling)) = decided.cloned() {
            let next = Configuration {
                era,
                number,
                members: ruling.members,
                limits: ruling.limits,
            };
            return self.decide(next).map(|()| true);
        }
        let greatest = votes.iter().map(|(_, vote)| vote.promised).max();
        let asks = self.roster.proposal.is_some() && !self.roster.asked;
        let round = greatest.map_or(0, |ballot| ballot.0).saturating_add(1);
        let new = asks.then_some((round, owner));
        let Some(ballot) = new.or(greatest) else {
            return Ok(false);
        };
        // What the greatest ballot's proposer accepted is to be followed.
        let accepted = votes.iter().filter_map(|(_, vote)| vote.accepted.as_ref());
        let followed = accepted.clone().find(|it| it.0 == ballot).cloned();
        let promised = own.as_ref().map(|vote| vote.promised);
        let held = own.and_then(|vote| vote.accepted);
        let mut accepted_now = held.clone();
        if followed.is_some() {
            accepted_now = followed;
        } else if ballot.1 == owner && promised == Some(ballot) {
            let promises = votes.iter().filter(|(_, vote)| vote.promised == ballot);
            if promises.count() >= majority {
                let before = accepted.max_by_key(|it| it.0).map(|it| it.1.clone());
                // One that started again has lost what it proposed, and nobody else may under its
                // ballot: all stays as it is, under the next number.
                let present = || {
                    self.configuration().map(|it| Ruling {
                        members: it.members.clone(),
                        limits: it.limits.clone(),
                    })
                };
                let value = before.or_else(|| self.roster.proposal.clone());
                let value = value.or_else(present);
                accepted_now = value.map(|ruling| (ballot, ruling)).or(accepted_now);
            }
        }
        if promised == Some(ballot) && accepted_now == held {
            return Ok(false);
        }
        self.roster.asked |= asks;
        self.state(OWN, |by| {
            Says::Vote(Box::new(Vote {
                clock: by.clock,
                era,
                number,
                promised: ballot,
                accepted: accepted_now,
            }))
        })?;
        Ok(true)
    }

    /// Whether this replica may vote. A member's new incarnation may have forgotten what the one
    /// before promised, if its disk was put back. It votes once so many others have acknowledged it
    /// that one of them took part in every majority that the one before can have been part of; by
    /// then they count the old vote no more.
    pub(super) fn has_vote(&self) -> bool {
        let members = self.configuration().map_or(0, |it| it.members.len());
        let card = &self.roster.cards[OWN as usize];
        let Some(announce) = card.announce.as_ref().filter(|_| self.is_member()) else {
            return false;
        };
        let knows = |number: u32| {
            let ack = &self.roster.cards[number as usize].ack;
            number != OWN
                && self.counts(number)
                && ack
                    .as_ref()
                    .is_some_and(|ack| ack.of(OWN) >= announce.clock)
        };
        let heard = (0..self.state.writers.len() as u32).filter(|number| knows(*number));
        let needed = members - (members / 2 + 1) + 1;
        let settled = self.roster.settled.first().copied().unwrap_or(0);
        settled >= announce.clock || members == 1 || heard.count() >= needed
    }

    /// Writes down what was decided.
    pub(super) fn decide(&mut self, next: Configuration) -> Result<(), Error> {
        let clock = self.next_clock()?;
        let by = crate::state::slot::Stamp { writer: OWN, clock };
        self.roster.configuration = Some((by, next));
        self.roster.proposal = None;
        #[cfg(feature = "budgets")]
        self.note_configuration();
        self.made(clock);
        Ok(())
    }

    /// Era and number of the configuration that is to be decided next.
    pub(super) fn next_number(&self) -> Option<(u64, u64)> {
        let present = self.configuration()?;
        Some((present.era, present.number.saturating_add(1)))
    }

    /// Whose incarnation a local number is.
    pub(super) fn owner_of(&self, number: u32) -> Option<Owner> {
        let announce = self.roster.cards[number as usize].announce.as_ref();
        announce.map(|it| it.owner)
    }

    /// The vote of each member who has one on this number: its newest one.
    pub(super) fn votes(&self, era: u64, number: u64) -> Vec<(Owner, Vote)> {
        let members = self.configuration().map_or(&[][..], |it| &it.members);
        let vote = |owner: &Owner| Some((*owner, self.vote_of(owner, era, number)?.clone()));
        members.iter().filter_map(vote).collect()
    }

    pub(super) fn vote_of(&self, owner: &Owner, era: u64, number: u64) -> Option<&Vote> {
        let cards = self.incarnations(owner);
        let cards = cards.map(|number| &self.roster.cards[number as usize]);
        let cards = cards.filter(|card| !card.is_over());
        let votes = cards.filter_map(|card| card.vote.as_deref());
        let votes = votes.filter(|vote| (vote.era, vote.number) == (era, number));
        votes.max_by_key(|vote| (vote.promised, vote.accepted.as_ref().map(|it| it.0)))
    }

    /// The present vote of an owner's, to be taken over by its new incarnation.
    pub(super) fn inherited_vote(&self, owner: &Owner, clock: u64) -> Option<Box<Vote>> {
        let (era, number) = self.next_number()?;
        let vote = self.vote_of(owner, era, number)?.clone();
        Some(Box::new(Vote { clock, ..vote }))
    }
}

/// A list of members as a configuration has it.
pub(super) fn checked(members: &[Owner]) -> Result<Vec<Owner>, Error> {
    let mut members = members.to_vec();
    members.sort_unstable();
    members.dedup();
    match members.is_empty() || members.len() > MEMBERS_MAX {
        true => Err(Error::MembersFull {
            members: detail(members.len()),
        }),
        false => Ok(members),
    }
}

#[cfg(test)]
mod tests;

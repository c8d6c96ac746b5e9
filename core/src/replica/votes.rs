//! The steps of a vote on the next configuration.
//!
//! Each number is decided by a ballot of single-decree Paxos (Lamport, "The Part-Time Parliament", 1998). Its
//! messages are membership records: a member's vote is a register that only its owner writes and that travels
//! with the state.
//! 1. A proposer records a new ballot. Members promise it.
//! 2. Once a majority of the present configuration has promised, the proposer accepts under its ballot: the
//!    value that was accepted under the greatest ballot among them, or else its own proposal.
//! 3. Members follow. A value that a majority accepted under one ballot is decided.
//!
//! So two configurations of one number never both take effect.
//! [Which votes count](crate::membership::votes) stands with the reading half.

use super::{MembersMut, QuotaHooks};
use crate::error::Error;
use crate::membership::votes::checked;
use crate::message::records::{Ballot, Configuration, Owner, Ruling, Says, Vote};
use crate::state::page::OWN;
use alloc::boxed::Box;

impl MembersMut<'_> {
    /// Proposes the members of the next configuration. It takes effect when a majority of the present
    /// members has agreed, which takes [tending](MembersMut::vote) here and there; another proposal
    /// may win instead.
    ///
    /// # Errors
    /// [`Error::NotAMember`] if this replica is none, [`Error::MembersFull`] if there are too many
    /// or none.
    pub fn propose(&mut self, members: &[Owner]) -> Result<(), Error> {
        let members = checked(members)?;
        let limits = self
            .replica
            .membership
            .configuration()
            .map(|it| it.limits.clone());
        let limits = limits.unwrap_or_default();
        self.put_forward(Ruling { members, limits })
    }

    /// Proposes the next configuration.
    pub(crate) fn put_forward(&mut self, ruling: Ruling) -> Result<(), Error> {
        if !self.replica.membership.is_member() {
            return Err(Error::NotAMember);
        }
        self.replica.membership.table.proposal = Some(ruling);
        self.replica.membership.table.asked = false;
        self.vote().map(|_| ())
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
        let (true, Some(owner)) = (
            self.replica.membership.has_vote(&self.replica.state),
            self.replica.membership.owner_of(OWN),
        ) else {
            return Ok(false);
        };
        let Some((era, number)) = self.replica.membership.next_number() else {
            return Ok(false);
        };
        let voters = self
            .replica
            .membership
            .configuration()
            .map_or(0, |it| it.members.len());
        let majority = voters / 2 + 1;
        let votes = self.replica.membership.votes(era, number);
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
        let asks = self.replica.membership.table.proposal.is_some()
            && !self.replica.membership.table.asked;
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
                    self.replica.membership.configuration().map(|it| Ruling {
                        members: it.members.clone(),
                        limits: it.limits.clone(),
                    })
                };
                let value = before.or_else(|| self.replica.membership.table.proposal.clone());
                let value = value.or_else(present);
                accepted_now = value.map(|ruling| (ballot, ruling)).or(accepted_now);
            }
        }
        if promised == Some(ballot) && accepted_now == held {
            return Ok(false);
        }
        self.replica.membership.table.asked |= asks;
        self.replica
            .membership
            .record(&mut self.replica.state, OWN, |by| {
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

    /// Writes down what was decided.
    pub(super) fn decide(&mut self, next: Configuration) -> Result<(), Error> {
        let clock = self.replica.membership.next_clock(&self.replica.state)?;
        let by = crate::state::slot::Stamp { writer: OWN, clock };
        let replica = &mut *self.replica;
        replica.membership.table.configuration = Some((by, next));
        replica.membership.table.proposal = None;
        replica.quota.configured(&replica.membership);
        replica.membership.made(&mut replica.state, clock);
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! The steps of a vote on the next configuration.
//!
//! Each number is decided by a ballot of single-decree Paxos (Lamport, "The Part-Time Parliament", 1998). Its
//! messages are membership records: a member's vote is a register that only its owner writes and that travels
//! with the state.
//! 1. A proposer records a new ballot. Members promise it.
//! 2. Once a majority of the present configuration has promised, the proposer accepts a value under its ballot.
//!    This is the value that they accepted under the greatest ballot, or else its own proposal.
//! 3. Members follow. A value that a majority accepted under one ballot is decided.
//!
//! So two configurations of one number never both take effect.
//! [Which votes count](crate::membership::votes) stands with the reading half.

use super::{MembersMut, QuotaHooks, Replica};
use crate::error::{Error, MemberError};
use crate::membership::votes::{Step, checked};
use crate::message::records::{Configuration, Owner, Ruling};

impl MembersMut<'_> {
    /// Proposes the members of the next configuration. It takes effect when a majority of the present
    /// members has agreed, which takes [tending](MembersMut::vote) here and there; another proposal
    /// may win instead.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`] if this replica is none, [`MemberError::MembersFull`] if there are too
    /// many or none.
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
            return Err(MemberError::NotAMember.into());
        }
        self.replica.membership.put_forward(ruling);
        self.vote().map(|_| ())
    }

    /// Takes the next steps in deciding on a configuration. Returns whether there was one to take.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted).
    pub fn vote(&mut self) -> Result<bool, Error> {
        let mut stepped = false;
        loop {
            let Replica {
                state, membership, ..
            } = &mut *self.replica;
            match membership.vote_once(state)? {
                Step::Nothing => return Ok(stepped),
                Step::Voted => {}
                Step::Decided(next) => self.decide(next)?,
            }
            stepped = true;
        }
    }

    /// Writes down what was decided.
    pub(super) fn decide(&mut self, next: Configuration) -> Result<(), Error> {
        let clock = self.replica.membership.next_clock(&self.replica.state)?;
        let replica = &mut *self.replica;
        replica.membership.decide(&mut replica.state, clock, next);
        replica.quota.configured(&replica.membership);
        Ok(())
    }
}

#[cfg(test)]
mod tests;

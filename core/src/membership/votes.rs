//! Votes on the next configuration: the reading half of single-decree Paxos ("The Part-Time Parliament",
//! Lamport 1998). `replica/votes.rs` takes the steps.
//!
//! Each number of a configuration is decided by a ballot of its own. A member's vote is a register: the
//! ballot that it promised, and what it accepted last. The register travels with the state, so a replica
//! reads all votes that it has seen, and nobody sends a promise to one receiver.
//!
//! It departs from the paper where a member may have lost its disk. A new incarnation has
//! [no vote](Membership::has_vote) until enough others know of it: one of each majority that an earlier
//! incarnation can have been part of. From then on they do not count the old vote, and the new incarnation has
//! all that they accepted before. An incarnation in the [place](super::place) of the one before, whose store is
//! whole, is no such case: it votes as soon as half of the others know of it.
//!
//! A member knows of a start if it has acknowledged it, or if it had the start's announcement and the start has
//! since received all that the member had ([`Membership::note_told`]). The second happens without the member's
//! guests, for which acknowledgements wait.
//!
//! Two members may have lost their disks at a time. Neither can say what was decided, so neither may speak for
//! the other: a start that is [uninformed](Membership::is_uninformed) acknowledges no start that may need its
//! word. Other starts take an unsure member's word only as its acknowledgement.

use super::Membership;
use crate::bounds::MEMBERS_MAX;
use crate::error::{Error, MemberError, detail};
use crate::indexed_state::State;
use crate::message::records::{Ballot, Configuration, Limit, Owner, Ruling, Statement, Vote};
use crate::optional::Optional;
use crate::sort::sort;
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A step towards a decided configuration.
pub(crate) enum Step {
    /// There is no step to take.
    Nothing,
    /// This member has voted.
    Voted,
    /// A majority has accepted this configuration.
    Decided(Configuration),
}

impl Membership {
    /// Puts a ruling forward, which the next rounds put to the vote.
    pub(crate) fn put_forward(&mut self, ruling: Ruling) {
        self.table.update(|it| {
            it.proposal = Some(ruling);
            it.asked = false;
        });
    }

    /// Makes what was decided the present configuration, by an own transaction of this clock.
    pub(crate) fn decide(&mut self, state: &mut State, clock: u64, next: Configuration) {
        let by = Stamp { writer: OWN, clock };
        self.table.update(|it| {
            it.configuration = Some((by, next));
            it.proposal = None;
        });
        self.made(state, clock);
    }

    /// The members that were proposed here and are not decided on yet.
    pub(crate) fn proposal(&self) -> Option<&[Owner]> {
        self.table.proposal.as_ref().map(|it| &*it.members)
    }

    /// The limits that were proposed here and are not decided on yet.
    pub(crate) fn proposed_limits(&self) -> Option<&[Limit]> {
        self.table.proposal.as_ref().map(|it| &*it.limits)
    }

    /// Whether this replica may vote.
    ///
    /// A member's new incarnation may have lost a promise of the one before, if its disk was put back. It
    /// votes once enough others know of it: one of each majority that the one before can have been part of. By
    /// then they no longer count the old vote. A start that [follows](super::place) the one before in its
    /// place has lost nothing, and needs fewer.
    ///
    /// Once it votes, it does so for as long as the configuration is the same, whatever becomes of those that know
    /// of it. Under the next one others count, who may know of other votes.
    pub(crate) fn has_vote(&self, state: &State) -> bool {
        if !self.is_member() {
            return false;
        }
        if self.is_known_to_all() || self.table.votes_on == Some(self.voting(state)) {
            return true;
        }
        let follows = self.follows(state);
        let trusted = |number: u32| follows || !self.writer(number).is_unsure();
        let needed = self.knowing_needed(state, self.member_count());
        self.knowing(state, trusted) >= needed
    }

    /// Whether all who count have acknowledged this start, at some time.
    fn is_known_to_all(&self) -> bool {
        let stable = self.table.stable.first().copied().unwrap_or(0);
        self.member_count() == 1 || self.announced().is_some_and(|it| stable >= it)
    }

    fn member_count(&self) -> usize {
        self.configuration().map_or(0, |it| it.members.len())
    }

    /// The number that this start votes on, and whether it follows the one before.
    fn voting(&self, state: &State) -> (Option<(u64, u64)>, bool) {
        (self.next_number(), self.follows(state))
    }

    /// The clock at which this start was announced.
    fn announced(&self) -> Option<u64> {
        let announce = self.writer(OWN).announce.as_ref();
        announce.map(|it| it.clock)
    }

    /// How many other members know of this start. It takes the word of those that are `trusted` without an
    /// acknowledgement.
    fn knowing(&self, state: &State, trusted: impl Fn(u32) -> bool) -> usize {
        let announced = self.announced().unwrap_or(u64::MAX);
        let acked = |number: u32| {
            let ack = self.writer(number).ack.as_ref();
            ack.is_some_and(|ack| ack.of(OWN) >= announced)
        };
        let told = |number: u32| self.table.told.contains(&state.id(number));
        let others = self.starts().filter(|it| *it != OWN && self.counts(*it));
        others
            .filter(|it| acked(*it) || told(*it) && trusted(*it))
            .count()
    }

    /// Notes that a member's writer has this replica's transactions up to `clock`, and that this replica had
    /// all that it had then. If this start was announced by then, the member knows of it.
    pub(crate) fn note_told(&mut self, state: &State, writer: &WriterId, clock: u64) {
        let number = state.number_of(writer).filter(|it| self.counts(*it));
        let knows = self.announced().is_some_and(|it| clock >= it) && !self.is_known_to_all();
        if number.is_some() && knows && !self.table.told.contains(writer) {
            self.table.update(|it| it.told.push(*writer));
        }
    }

    /// Whether this start may lack what an earlier one of its owner had accepted, and those that it has heard
    /// of are too few to say.
    ///
    /// An owner without an earlier start had accepted nothing. Enough others have to say that there was none.
    pub(crate) fn is_uninformed(&self, state: &State) -> bool {
        if self.follows(state) || self.has_vote(state) {
            return false;
        }
        let members = self.member_count();
        let is_first = self
            .owner_of(OWN)
            .is_some_and(|it| self.newest_start(&it) == 0);
        let needed = match is_first {
            true => members - members / 2,
            false => members.saturating_sub(1),
        };
        self.knowing(state, |_| true) < needed
    }

    /// Takes the next step towards a decided configuration: it decides, or votes, if there is anything to
    /// vote on.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted).
    pub(crate) fn vote_once(&mut self, state: &mut State) -> Result<Step, Error> {
        let (true, Some(owner)) = (self.has_vote(state), self.owner_of(OWN)) else {
            return Ok(Step::Nothing);
        };
        let voting = self.voting(state);
        let counts_on = !self.is_known_to_all();
        self.table
            .update(|it| it.votes_on = counts_on.then_some(voting));
        let Some((era, number)) = self.next_number() else {
            return Ok(Step::Nothing);
        };
        let voters = self.member_count();
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
            return Ok(Step::Decided(next));
        }
        let greatest = votes.iter().map(|(_, vote)| vote.promised).max();
        let asks = self.table.proposal.is_some() && !self.table.asked;
        let round = greatest.map_or(0, |ballot| ballot.0).saturating_add(1);
        let new = asks.then_some((round, owner));
        let Some(ballot) = new.or(greatest) else {
            return Ok(Step::Nothing);
        };
        // A member follows what the proposer of the greatest ballot accepted.
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
                // A proposer that started again has lost its proposal, and nobody else may propose under its
                // ballot. So all stays as it is, under the next number.
                let present = || {
                    self.configuration().map(|it| Ruling {
                        members: it.members.clone(),
                        limits: it.limits.clone(),
                    })
                };
                let value = before.or_else(|| self.table.proposal.clone());
                let value = value.or_else(present);
                accepted_now = value.map(|ruling| (ballot, ruling)).or(accepted_now);
            }
        }
        if promised == Some(ballot) && accepted_now == held {
            return Ok(Step::Nothing);
        }
        self.table.update(|it| it.asked |= asks);
        self.record(state, OWN, |by| {
            Statement::Vote(Box::new(Vote {
                clock: by.clock,
                era,
                number,
                promised: ballot,
                accepted: accepted_now,
            }))
        })?;
        Ok(Step::Voted)
    }

    /// The era and the number of the configuration that is decided next.
    pub(crate) fn next_number(&self) -> Option<(u64, u64)> {
        let present = self.configuration()?;
        Some((present.era, present.number.saturating_add(1)))
    }

    /// The owner of the incarnation with this local number.
    pub(crate) fn owner_of(&self, number: u32) -> Option<Owner> {
        let announce = self.table.writer_states[number as usize].announce.as_ref();
        announce.map(|it| it.owner)
    }

    /// The newest vote of each member that has voted on this number.
    pub(crate) fn votes(&self, era: u64, number: u64) -> Vec<(Owner, Vote)> {
        let members = self.configuration().map_or(&[][..], |it| &it.members);
        let vote = |owner: &Owner| Some((*owner, self.vote_of(owner, era, number)?.clone()));
        members.iter().filter_map(vote).collect()
    }

    pub(crate) fn vote_of(&self, owner: &Owner, era: u64, number: u64) -> Option<&Vote> {
        let writer_states = self.incarnations(owner);
        let writer_states = writer_states.map(|number| &self.table.writer_states[number as usize]);
        let writer_states = writer_states.filter(|writer_state| !writer_state.is_over());
        let votes = writer_states.filter_map(|writer_state| writer_state.vote.as_deref());
        let votes = votes.filter(|vote| (vote.era, vote.number) == (era, number));
        votes.max_by_key(|vote| (vote.promised, vote.accepted.as_ref().map(|it| it.0)))
    }

    /// The present vote of an owner, for its new incarnation.
    pub(crate) fn inherited_vote(&self, owner: &Owner, clock: u64) -> Option<Box<Vote>> {
        let (era, number) = self.next_number()?;
        let vote = self.vote_of(owner, era, number)?.clone();
        Some(Box::new(Vote { clock, ..vote }))
    }
}

/// Returns a list of members in the form of a configuration: ascending, without duplicates.
///
/// # Errors
/// [`MemberError::MembersFull`] if it is empty or too long.
pub(crate) fn checked(members: &[Owner]) -> Result<Vec<Owner>, Error> {
    let mut members = members.to_vec();
    sort(&mut members);
    members.dedup();
    match members.is_empty() || members.len() > MEMBERS_MAX {
        true => Err(MemberError::MembersFull {
            members: detail(members.len()),
        }
        .into()),
        false => Ok(members),
    }
}

//! Requests that wait for a level, or for the state on which a session depends.

use super::{OpenSpace, Refusal};
use crate::driver::Release;
use crate::driver::command::release;
use crate::driver::levels::{Reply, after};
use std::time::Duration;
use tallymesh_core::{AdmissionError, Error, Level, Once, Owner, Question, Reach, VersionVector};
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{
    Completeness, Demand, Heard, LastWrite as Transacted, Position, ReadBack, Unreached, Written,
};

/// Ends a request: makes its answer from the space as it is at that time.
type End = Box<dyn FnOnce(&OpenSpace, u64, Result<(), Refusal>) -> Release + Send>;

/// A waiting request.
pub(super) struct Wait {
    /// The question to the members; `None` at level local.
    question: Option<Question>,
    level: Level,
    /// For a read: the state that this node must have before it answers.
    token: Option<VersionVector>,
    /// The deadline, in milliseconds since the start.
    until: u64,
    write: bool,
    /// Whether it waits for no member to which no link leads.
    linked: bool,
    end: End,
}

/// An answer that is ready.
pub(in crate::driver) enum Ended {
    /// Send it when the node's durability setting allows.
    Told(Release),
    /// Send it once everything that is visible here is durable.
    WhenDurable(Release),
}

/// What members have to do before a change of them is answered.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) enum Settled {
    /// They have the present configuration.
    Known,
    /// They vote.
    Voting,
}

/// Access to the part of a space that the store does not keep: its waits and its positions.
pub(in crate::driver) struct VolatileState<'s>(&'s mut OpenSpace);

impl<'s> VolatileState<'s> {
    pub(in crate::driver) fn of(space: &'s mut OpenSpace) -> VolatileState<'s> {
        VolatileState(space)
    }

    /// Waits until all local writes so far reach the demanded level. Returns the answer if there is
    /// nothing to wait for.
    pub(in crate::driver) fn reach(
        self,
        now: u64,
        demand: &Demand,
        reply: Reply<Written<()>>,
    ) -> Option<Release> {
        let done = self.0.check(demand);
        self.0.reach(now, done, None, demand, reply)
    }

    /// Reads once this node has the demanded state.
    pub(in crate::driver) fn read_back(
        self,
        now: u64,
        keys: Vec<String>,
        demand: &Demand,
        reply: Reply<ReadBack>,
    ) {
        let before = demand.token.clone();
        let end = move |space: &OpenSpace, now: u64, met: Result<(), Refusal>| -> Release {
            let read = met.map(|()| ReadBack {
                counters: keys.into_iter().map(|key| space.read(key)).collect(),
                token: before.and_then(|before| space.replica.consistency().token(&before).ok()),
                completeness: space.completeness(now),
            });
            release(reply, read)
        };
        self.0.wait_to_read(now, demand, Box::new(end));
    }

    /// Waits until the members to which links lead have the present configuration, or until each of them votes. It
    /// does not say whether that was in time.
    pub(in crate::driver) fn settle(
        self,
        now: u64,
        (settled, wait): (Settled, Duration),
        reply: Reply<()>,
    ) {
        let space = self.0;
        let Some(upto) = space.replica.members().configured_by() else {
            return;
        };
        let (sync, replica) = (&mut space.sync, &space.replica);
        let question = match settled {
            Settled::Known => sync.ask_for_write(now, replica, Level::All, upto),
            // A member answers this only by its vote, and not by an acknowledgement.
            Settled::Voting => sync.ask_for_read(now, replica, Level::All),
        };
        space.waits.push(Wait {
            question: Some(question),
            level: Level::All,
            token: None,
            until: after(now, wait),
            write: false,
            linked: true,
            end: Box::new(move |_, _, _| release(reply, Ok(()))),
        });
    }

    /// The position of a reader that has received every event up to now.
    pub(in crate::driver) fn position(self) -> Position {
        self.0.position()
    }
}

impl OpenSpace {
    /// Refuses a demand that can't be met, before anything is applied.
    pub(in crate::driver) fn check(&self, demand: &Demand) -> Result<(), Refusal> {
        if demand.level != Level::Local && self.replica.members().configuration().is_none() {
            return Err(self.open());
        }
        let token = demand.token.as_ref();
        token.map_or(Ok(()), |token| {
            self.replica.consistency().room_in_token(token)
        })?;
        Ok(())
    }

    /// Waits until all local writes so far reach a level, and also the operation under this key,
    /// whichever node made it. Returns the answer if there is nothing to wait for.
    pub(super) fn reach<T: Send + 'static>(
        &mut self,
        now: u64,
        done: Result<T, Refusal>,
        once: Option<Once>,
        demand: &Demand,
        reply: Reply<Written<T>>,
    ) -> Option<Release> {
        let token = demand
            .token
            .as_ref()
            .map(|token| self.replica.consistency().token(token));
        let done = done.and_then(|done| Ok((done, token.transpose()?)));
        let end = move |done: Result<Written<T>, Refusal>| release(reply, done);
        let (done, token) = match done {
            Ok(done) => done,
            Err(refusal) => return Some(end(Err(refusal))),
        };
        let written = Written { done, token };
        if demand.level == Level::Local {
            return Some(end(Ok(written)));
        }
        let upto = match once {
            Some(once) => self.replica.keyed().written_before(&once),
            None => Some(self.replica.consistency().written()),
        };
        let Some(upto) = upto else {
            return Some(end(Err(Error::Admission(AdmissionError::Outdated).into())));
        };
        self.wait_for_write(now, upto, demand, move |met| end(met.map(|()| written)));
        None
    }

    /// Waits until these transactions reach a level above local.
    pub fn wait_for_write(
        &mut self,
        now: u64,
        upto: VersionVector,
        demand: &Demand,
        end: impl FnOnce(Result<(), Refusal>) -> Release + Send + 'static,
    ) {
        let question = self
            .sync
            .ask_for_write(now, &self.replica, demand.level, upto);
        self.waits.push(Wait {
            question: Some(question),
            level: demand.level,
            token: None,
            until: after(now, demand.wait),
            write: true,
            linked: false,
            end: Box::new(move |_, _, met| end(met)),
        });
    }

    /// Waits until this node has all the state that is demanded.
    pub fn wait_for_read(
        &mut self,
        now: u64,
        demand: &Demand,
        end: impl FnOnce(Result<(), Refusal>) -> Release + Send + 'static,
    ) {
        self.wait_to_read(now, demand, Box::new(move |_, _, met| end(met)));
    }

    /// Asks the other members which of them have these transactions. Does nothing in a space
    /// without members.
    pub fn ask_who_holds(&mut self, now: u64, upto: VersionVector) -> Option<Question> {
        self.replica.members().configuration()?;
        let question = self
            .sync
            .ask_for_write(now, &self.replica, Level::All, upto);
        Some(question)
    }

    /// Ends a question of [`ask_who_holds`](OpenSpace::ask_who_holds).
    pub fn end_question(&mut self, question: Question) {
        self.sync.end_question(question);
    }

    /// How many members beside this node have stored a transaction durably, by their
    /// acknowledgements and their answers to a question.
    pub fn holders(&mut self, written: &Transacted, question: Option<Question>) -> usize {
        let said = self
            .replica
            .members()
            .holders(&written.writer, written.clock);
        let reach = question.and_then(|it| self.sync.reach(&self.replica, it));
        let (Some(reach), Some(present)) = (reach, self.replica.members().configuration()) else {
            return said;
        };
        let holds = |it: &&Owner| **it != self.owner && !reach.lacking.contains(it);
        let held = present.members.iter().filter(holds).count();
        if !reach.lacking.is_empty() && self.is_member_unlinked() {
            // The answers of unlinked members arrive through others.
            self.ask_for_acknowledgement();
        }
        said.max(held)
    }

    fn wait_to_read(&mut self, now: u64, demand: &Demand, end: End) {
        let open = demand.level != Level::Local && self.replica.members().configuration().is_none();
        let question = (demand.level != Level::Local && !open)
            .then(|| self.sync.ask_for_read(now, &self.replica, demand.level));
        // A demand that can't be met ends at the next look.
        self.waits.push(Wait {
            question,
            level: demand.level,
            token: demand.token.as_ref().map(|token| token.vector().clone()),
            until: if open { now } else { after(now, demand.wait) },
            write: false,
            linked: false,
            end,
        });
    }

    /// When the first wait reaches its deadline.
    pub(super) fn waits_due(&self) -> Option<u64> {
        self.waits.iter().map(|wait| wait.until).min()
    }

    /// Ends the requests that have reached their level, or whose deadline has passed.
    pub(in crate::driver) fn take_ended_waits(&mut self, now: u64) -> Vec<Ended> {
        if self.waits.is_empty() {
            return Vec::new();
        }
        let mut ended = Vec::new();
        let mut unlinked = false;
        for wait in std::mem::take(&mut self.waits) {
            let met = self.met(&wait);
            unlinked |= met.is_err() && wait.write;
            if met.is_err() && wait.until > now {
                self.waits.push(wait);
                continue;
            }
            if let Some(question) = wait.question {
                self.sync.end_question(question);
            }
            let is_write = met.is_ok() && wait.write;
            let release = (wait.end)(self, now, met);
            ended.push(match is_write {
                true => Ended::WhenDurable(release),
                false => Ended::Told(release),
            });
        }
        if unlinked && self.is_member_unlinked() {
            // The answers of unlinked members arrive through others.
            self.ask_for_acknowledgement();
        }
        ended
    }

    /// Checks whether a request may end. The error names what is missing.
    fn met(&self, wait: &Wait) -> Result<(), Refusal> {
        if let Some(token) = wait
            .token
            .as_ref()
            .filter(|it| !self.replica.consistency().holds(it))
        {
            let lacks = |it: &(tallymesh_core::WriterId, u64)| {
                !self.replica.consistency().holds_of(&it.0, it.1)
            };
            let lacking: Vec<String> = token
                .iter()
                .filter(lacks)
                .map(|it| it.0.to_string())
                .collect();
            return Err(Refusal::TokenNotReached { lacking });
        }
        if wait.level == Level::Local {
            return Ok(());
        }
        let reach = wait
            .question
            .and_then(|it| self.sync.reach(&self.replica, it));
        match reach {
            None => Err(self.open()),
            Some(reach) if reach.is_reached() => Ok(()),
            Some(reach) if wait.linked && !self.is_any_linked(&reach.lacking) => Ok(()),
            Some(reach) => Err(self.unreached(wait, reach)),
        }
    }

    /// Whether a link leads to any of these other members.
    fn is_any_linked(&self, owners: &[Owner]) -> bool {
        let mut others = owners.iter().filter(|it| **it != self.owner);
        others.any(|it| self.sync.is_linked_to(&self.replica, it))
    }

    /// Whether there is a member to which no link leads.
    fn is_member_unlinked(&self) -> bool {
        let linked: Vec<_> = self.sync.links().filter_map(|link| link.writer).collect();
        let members = self.replica.members().list();
        let unlinked = |it: &tallymesh_core::Member| {
            !it.own && it.writer.is_none_or(|writer| !linked.contains(&writer))
        };
        members.iter().any(unlinked)
    }

    /// The time of the last message from each member.
    pub(in crate::driver) fn completeness(&self, now: u64) -> Completeness {
        let members = self.membership(now).members.into_iter();
        Completeness {
            members: members
                .map(|row| Heard {
                    owner: row.owner,
                    own: row.own,
                    last_heard_ms: row.last_heard_ms,
                })
                .collect(),
        }
    }

    fn unreached(&self, wait: &Wait, reach: Reach) -> Refusal {
        let Reach {
            needed,
            reached,
            lacking,
        } = reach;
        let lacking = lacking.into_iter().map(OwnerKey);
        Refusal::LevelNotReached(Unreached {
            level: wait.level,
            applied: wait.write,
            needed,
            reached,
            lacking: lacking.map(|owner| self.named(owner)).collect(),
        })
    }
}

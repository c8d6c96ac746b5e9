//! Consistency levels: how many members have something durably.
//!
//! Writes and reads at the level `quorum` follow quorum consensus (Gifford 1979). A majority of the present
//! members answers each, so the two share a member. This departs from it in two ways. A value has no
//! version number, because merging the answers' states gives the right one. And the set of members
//! changes while requests are open, which is the reason for the rule below.
//!
//! A replica asks the members that a link leads to. For a write it asks whether they have it: they answer as
//! soon as they do. For a read it asks for all that they have, and waits until it has seen as much of each.
//! Either is reached once enough members of the present configuration count.
//!
//! # Why a quorum read misses no quorum write
//! Only answers count whose sender had accepted no newer configuration than the one that is present
//! here. Let the write be reached under configuration `w`, and the read under `r`.
//! - `w = r`: both have a majority of it, so some member answered both, the write first.
//! - `w < r`: each member that accepted the configuration after `w` was not in the write's majority, or had
//!   answered it before. So the member that decided it had seen the write, and so has everybody who
//!   knows of that decision: a view is a causal cut.
//! - `w > r`: a majority of `r` had accepted the configuration after it before the write was reached,
//!   and so before the read was asked for. One of them would be in the read's majority, and its answer
//!   does not count.
//!
//! A start of a member counts once it has its vote. Then it has caught up with one member of each majority
//! that an earlier start can have been part of. This holds for disks that were put back, too. Or it follows the
//! earlier start [in its place](crate::Predecessor), and has all that this one answered for on its disk.
//!
//! # Where it ends
//! The argument needs members that keep what they answered for. A member that rejoins does not: it drops what
//! it had of others until they send it again. If all who had a write rejoin at the same time, reads miss the
//! write until its writer has made it again. Three things can bring that about:
//! - disks of a majority that were put back;
//! - a forced configuration;
//! - a configuration most of whose members are new, or that lacks most of those before.
//!
//! A process that begins from its own store does not rejoin for that alone.

use super::{Link, Millis, SyncMachine};
use crate::bounds::{ASK_WRITERS_MAX, ASKS_WAITING_MAX};
use crate::consistency::newest;
use crate::message::records::Owner;
use crate::replica::Replica;
use crate::state::vector::VersionVector;
use crate::wire::{Answer, Ask, Body};
use alloc::vec::Vec;

/// Time in milliseconds until the next ask. Frames get lost, and members connect.
const ASK_AGAIN_MS: Millis = 250;

/// Number of members that must have stored something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// None: the state of this replica is enough.
    #[default]
    Local,
    /// A majority of the present members.
    Quorum,
    /// All of them.
    All,
}

impl Level {
    /// The number of members that this level needs, out of `members`.
    pub fn needed(self, members: usize) -> usize {
        match self {
            Level::Local => 0,
            Level::Quorum => members / 2 + 1,
            Level::All => members,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Local => "local",
            Level::Quorum => "quorum",
            Level::All => "all",
        }
    }
}

/// The id of an open question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question(u32);

/// The progress of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// How many members the level needs.
    pub needed: usize,
    /// How many members count so far.
    pub reached: usize,
    /// The members that do not count yet, ascending.
    pub lacking: Vec<Owner>,
}

impl Reach {
    /// Whether enough members count.
    pub fn is_reached(&self) -> bool {
        self.reached >= self.needed
    }
}

/// The subject of a question.
#[derive(Clone)]
enum Matter {
    /// Members have stored these transactions.
    Write(VersionVector),
    /// This replica has merged everything that members had stored at the time of the ask.
    Read,
}

#[derive(Clone)]
struct Open {
    question: Question,
    level: Level,
    matter: Matter,
    /// The first ask after the question was opened.
    since: u32,
    /// The generation of the state with which answers are compared: see [`Replica::generation`].
    generation: u64,
    due: Millis,
    replies: Vec<Reply>,
}

/// A member's last answer that matters.
#[derive(Clone)]
struct Reply {
    owner: Owner,
    link: Link,
    /// The newest configuration that the member had, or had accepted.
    newest: (u64, u64),
    /// For a read: what the member had and this replica lacks.
    unseen: Option<VersionVector>,
}

/// A peer's question that has no answer yet.
#[derive(Clone)]
struct Waiting {
    link: Link,
    id: u32,
    upto: VersionVector,
}

/// Questions of this replica and of peers.
#[derive(Clone, Default)]
pub(super) struct Levels {
    open: Vec<Open>,
    questions: u32,
    asks: u32,
    waiting: Vec<Waiting>,
}

impl Levels {
    pub(super) fn due(&self) -> Option<Millis> {
        self.open.iter().map(|open| open.due).min()
    }

    pub(super) fn gone(&mut self, link: Link) {
        self.waiting.retain(|it| it.link != link);
    }

    /// Makes all questions due, because a new member can be asked.
    pub(super) fn ask_soon(&mut self, now: Millis) {
        self.open.iter_mut().for_each(|open| open.due = now);
    }

    fn next_ask(&mut self) -> u32 {
        let id = self.asks;
        self.asks = id.wrapping_add(1);
        id
    }
}

impl SyncMachine {
    /// Opens a question that waits until members have stored these transactions durably. The next
    /// [`Input::Tick`](super::Input), which is due at once, asks them. See [`reach`](SyncMachine::reach).
    ///
    /// This replica counts itself if it is a member and has merged them. Its merges are durable once the
    /// program has stored them.
    pub fn ask_for_write(
        &mut self,
        now: Millis,
        replica: &Replica,
        level: Level,
        upto: VersionVector,
    ) -> Question {
        self.open_question(now, replica, level, Matter::Write(upto))
    }

    /// Opens a question that waits until this replica has merged everything that members have stored durably
    /// now.
    pub fn ask_for_read(&mut self, now: Millis, replica: &Replica, level: Level) -> Question {
        self.open_question(now, replica, level, Matter::Read)
    }

    fn open_question(
        &mut self,
        now: Millis,
        replica: &Replica,
        level: Level,
        matter: Matter,
    ) -> Question {
        let levels = &mut self.levels;
        let question = Question(levels.questions);
        levels.questions = levels.questions.wrapping_add(1);
        levels.open.push(Open {
            question,
            level,
            matter,
            since: levels.asks,
            generation: replica.generation(),
            due: now,
            replies: Vec::new(),
        });
        question
    }

    /// The progress of a question. Returns `None` if there is no such question, or the space has no members.
    pub fn reach(&self, replica: &Replica, question: Question) -> Option<Reach> {
        let open = self.levels.open.iter().find(|it| it.question == question)?;
        let (members, footing) = (
            replica.members().configuration()?,
            replica.consistency().footing()?,
        );
        let own = replica
            .members()
            .incarnation(&replica.writer())
            .map(|it| it.0);
        let replied = |owner: &Owner| {
            let reply = open.replies.iter().find(|it| it.owner == *owner);
            reply.is_some_and(|it| {
                let seen = it
                    .unseen
                    .as_ref()
                    .is_none_or(|held| replica.consistency().sees(held));
                it.newest <= footing.present && seen
            })
        };
        let counts = |owner: &Owner| {
            let itself = own == Some(*owner) && footing.counts && !footing.accepted;
            let itself = itself && self.stays();
            match &open.matter {
                Matter::Read => itself || replied(owner),
                Matter::Write(upto) => {
                    itself && replica.consistency().vouches(upto)
                        || replied(owner)
                        || replica.consistency().is_acknowledged_by(owner, upto)
                }
            }
        };
        let owners = members.members.iter();
        let lacking: Vec<Owner> = owners.filter(|owner| !counts(owner)).copied().collect();
        Some(Reach {
            needed: open.level.needed(members.members.len()),
            reached: members.members.len() - lacking.len(),
            lacking,
        })
    }

    /// Ends a question.
    pub fn end_question(&mut self, question: Question) {
        self.levels.open.retain(|it| it.question != question);
    }

    /// Answers the peers' questions that can be answered now, and asks what is due.
    pub(super) fn look_at_questions(&mut self, now: Millis, replica: &Replica) {
        let waiting = &mut self.levels.waiting;
        let held = waiting.extract_if(.., |it| replica.consistency().vouches(&it.upto));
        let held: Vec<Waiting> = held.collect();
        for it in held {
            self.answer(replica, it.link, it.id, &it.upto);
        }
        for open in &mut self.levels.open {
            if open.generation != replica.generation() {
                // The replica may have dropped what it had merged before.
                open.generation = replica.generation();
                open.replies
                    .retain(|_| !matches!(open.matter, Matter::Read));
                open.due = now;
            }
        }
        let due = |open: &Open| open.due <= now;
        if replica.members().configuration().is_none() || !self.levels.open.iter().any(due) {
            return;
        }
        let mut reads = false;
        let mut writes: Vec<VersionVector> = Vec::new();
        let mut wanted: Vec<Link> = Vec::new();
        for open in self.levels.open.iter_mut().filter(|open| due(open)) {
            open.due = now + ASK_AGAIN_MS;
            match &open.matter {
                Matter::Read => reads = true,
                Matter::Write(upto) => gather(&mut writes, upto),
            }
            let unseen = open.replies.iter().filter(|it| it.unseen.is_some());
            wanted.extend(unseen.map(|it| it.link));
        }
        let whole = reads.then(VersionVector::default);
        for upto in whole.into_iter().chain(writes) {
            let id = self.levels.next_ask();
            for link in self.links_to_members(replica) {
                let upto = upto.clone();
                self.send(replica, link, Body::Ask(Ask { id, upto }));
            }
        }
        for link in wanted {
            self.want_soon(now, replica, link);
        }
    }

    /// The links to members that answer such questions.
    fn links_to_members(&self, replica: &Replica) -> Vec<Link> {
        let of = self.peers.iter().filter(|peer| {
            let hello = peer.hello.as_ref().filter(|it| it.answers);
            hello.is_some_and(|it| replica.members().is_counted_member(&it.writer))
        });
        of.map(|peer| peer.link).collect()
    }

    /// Handles a peer's question about what this replica has stored.
    pub(super) fn asked(&mut self, now: Millis, replica: &Replica, link: Link, ask: Ask) {
        if replica.members().configuration().is_none() {
            return;
        }
        let Ask { id, upto } = ask;
        if replica.consistency().vouches(&upto) {
            return self.answer(replica, link, id, &upto);
        }
        let waiting = &mut self.levels.waiting;
        // The peer may have repeated its question, or extended it.
        waiting.retain(|it| it.link != link || !upto.covers(&it.upto));
        if waiting.iter().filter(|it| it.link == link).count() >= ASKS_WAITING_MAX
            && let Some(oldest) = waiting.iter().position(|it| it.link == link)
        {
            waiting.remove(oldest);
        }
        waiting.push(Waiting { link, id, upto });
        self.lacks(now, link);
    }

    fn answer(&mut self, replica: &Replica, link: Link, id: u32, upto: &VersionVector) {
        let Some(footing) = replica.consistency().footing() else {
            return;
        };
        let whole = upto.is_empty();
        let answer = Answer {
            id,
            era: footing.present.0,
            number: footing.present.1,
            accepted: footing.accepted,
            counts: footing.counts && self.stays(),
            whole,
            vector: match whole {
                true => replica.vector(),
                false => replica.consistency().vouched_of(upto),
            },
        };
        self.send(replica, link, Body::Answer(answer));
    }

    /// Handles a peer's answer.
    pub(super) fn answered(&mut self, now: Millis, replica: &Replica, link: Link, it: &Answer) {
        let Some(footing) = replica.consistency().footing() else {
            return;
        };
        let newest = newest((it.era, it.number), it.accepted);
        if newest > footing.present {
            self.want_soon(now, replica, link);
        }
        let writer = self.writer_of(link);
        let writer = writer.filter(|writer| replica.members().is_counted_member(writer));
        let owner = writer.and_then(|writer| Some(replica.members().incarnation(&writer)?.0));
        let Some(owner) = owner.filter(|_| it.counts) else {
            return;
        };
        let unseen =
            (it.whole && !replica.consistency().sees(&it.vector)).then(|| it.vector.clone());
        let mut wanted = false;
        for open in &mut self.levels.open {
            let own = &open.replies;
            let stands = own.iter().find(|reply| reply.owner == owner);
            if stands.is_some_and(|reply| reply.newest <= footing.present) {
                continue;
            }
            let unseen = match &open.matter {
                Matter::Write(upto) if it.vector.covers(upto) => None,
                Matter::Read if it.whole && it.id.wrapping_sub(open.since) as i32 >= 0 => {
                    wanted |= unseen.is_some();
                    unseen.clone()
                }
                _ => continue,
            };
            open.replies.retain(|reply| reply.owner != owner);
            open.replies.push(Reply {
                owner,
                link,
                newest,
                unseen,
            });
        }
        if wanted {
            self.want_soon(now, replica, link);
        }
    }

    /// Whether this replica keeps its state. A replica that rejoins drops it, and makes its own part of it
    /// again.
    fn stays(&self) -> bool {
        self.guests.coming_back.is_none()
    }

    /// Pulls from a peer even if a large transfer has just finished, because a caller waits.
    fn want_soon(&mut self, now: Millis, replica: &Replica, link: Link) {
        self.pulls.end_rest(now);
        self.want(now, replica, link);
    }
}

/// Adds a question's transactions to the common asks.
fn gather(asks: &mut Vec<VersionVector>, upto: &VersionVector) {
    for ask in asks.iter_mut() {
        let both = ask.joined(upto);
        if both.len() <= ASK_WRITERS_MAX {
            *ask = both;
            return;
        }
    }
    asks.push(upto.clone());
}

#[cfg(test)]
mod tests;

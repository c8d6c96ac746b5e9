//! The explorer of spaces with members: every order of events of a small configuration, on the real
//! core.
//!
//! From a start in which the members know each other, and tabs were taken in, all actions are tried
//! in all orders, breadth first: transactions, snapshots (whole, or what a peer lacks), the
//! delivery of any snapshot ever sent to any replica, farewells, declaring others dead, absorption,
//! acknowledgement, collection, members that start again, tabs that come back, proposals and votes,
//! and clocks that move on. A replica that is gone is one that
//! does nothing any more, a message that is lost one that is never delivered.
//!
//! Whenever a replica changes, every read is compared with the [`oracle`](crate::oracle). From each
//! state, or from a sample, everything is put in order: all exchange what they have, members
//! declare dead who is gone, acknowledge, absorb and collect, until nothing changes any more. Then
//! all must have equal bytes, and nobody who is gone may be known.
//!
//! Two replicas count as the same if they saw the same operations, have the same canonical bytes,
//! and keep the same to themselves. Local numbers of writers, which follow from the order in which
//! they were met, are not told apart.

mod calls;
mod configs;
mod order;
mod seen;
mod world;

pub use configs::{Config, full, share};

use crate::explore::{Failure, Report};
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::BuildHasher;
use tallymesh_core::Replica;
use world::{Counts, MessageId, World};

/// Most replicas of a config.
pub const REPLICAS_MAX: usize = 4;
/// Most snapshots that a config may send.
pub const MESSAGES_MAX: usize = 6;

/// The number of a state of a single replica.
type NodeId = u32;

/// What a replica does by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Local {
    /// Makes a transaction of the config's alphabet.
    Transact(u8),
    Acknowledge,
    /// Declares stray incarnations dead, and takes over whom it may.
    Absorb,
    Collect,
    Leave,
    /// Declares the so-many-th start of somebody dead. An owner's is taken out of the members.
    Fence(u8, u8),
    /// Ends, and begins again as a new incarnation, from its own state as it was in this node.
    Restart(NodeId),
    /// Proposes the members of the next configuration.
    Propose(u8),
    /// Takes the next steps in deciding on it.
    Vote,
    /// Its clock moves on to the config's next time.
    Pass,
    /// Deletes a counter that has expired by its clock.
    Materialize(u8),
    /// Closes the space, with all members.
    Found,
    /// Announces itself as an incarnation.
    Announce(u8),
}

/// One step from a state to the next.
#[derive(Clone, Copy, Debug)]
enum Action {
    Local {
        at: u8,
        step: Local,
    },
    /// Sends what `to` lacks, or everything.
    Send {
        from: u8,
        to: Option<u8>,
    },
    /// `live`: in a session of the sender; else somebody passes it on.
    Deliver {
        to: u8,
        message: MessageId,
        live: bool,
    },
    /// A tab that was given up comes back by a member, as that is now.
    Return {
        at: u8,
        by: u8,
    },
}

/// A state of the whole: each replica, and the set of messages ever sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    nodes: [NodeId; REPLICAS_MAX],
    /// Ascending, then [`NONE`].
    messages: [MessageId; MESSAGES_MAX],
}

/// A place that is not taken.
const NONE: u32 = u32::MAX;

impl State {
    fn nodes(&self) -> impl Iterator<Item = (u8, NodeId)> + '_ {
        (0..).zip(self.nodes.iter().copied().filter(|id| *id != NONE))
    }

    fn messages(&self) -> impl Iterator<Item = MessageId> + '_ {
        self.messages.iter().copied().filter(|id| *id != NONE)
    }

    /// The same with one more message.
    fn with(&self, message: MessageId) -> State {
        let mut next = *self;
        if !self.messages.contains(&message) {
            next.messages[MESSAGES_MAX - 1] = message;
            next.messages.sort_unstable();
        }
        next
    }

    /// 128 bits by which a state is known again.
    fn digest(&self) -> u128 {
        let half = |seed| u128::from(FixedState::with_seed(seed).hash_one(self));
        half(1) << 64 | half(2)
    }
}

/// What happened beside the figures of the [`Report`].
#[derive(Clone, Debug, Default)]
pub struct More {
    /// Messages refused, by the code of the error.
    pub refused: BTreeMap<&'static str, usize>,
    /// Replicas that had to begin again while everything was put in order, by the code of the error
    /// that told them so.
    pub ended: BTreeMap<&'static str, usize>,
}

impl fmt::Display for More {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "messages refused: {:?}", self.refused)?;
        match self.ended.is_empty() {
            true => Ok(()),
            false => write!(
                f,
                "; replicas that had to begin again in the end: {:?}",
                self.ended
            ),
        }
    }
}

/// Runs a config to its end, or to its bound on states.
///
/// # Errors
/// The first wrong answer, with the steps that lead to it.
pub fn explore(config: &Config) -> Result<(Report, More), Failure> {
    let fail = |wrong| Failure {
        name: config.name(),
        wrong,
        steps: Vec::new(),
    };
    config.check().map_err(fail)?;
    let (world, nodes) = World::new(config).map_err(fail)?;
    let mut start = State {
        nodes: [NONE; REPLICAS_MAX],
        messages: [NONE; MESSAGES_MAX],
    };
    start.nodes[..nodes.len()].copy_from_slice(&nodes);
    let mut search = Search {
        config,
        world,
        start,
        known: HashSet::default(),
        parents: Vec::new(),
        transitions: 0,
        settled: 0,
        ended: BTreeMap::new(),
        made: Counts::default(),
    };
    search.begin().map_err(fail)?;
    let complete = search.run()?;
    let report = Report {
        name: config.name(),
        states: search.parents.len(),
        transitions: search.transitions,
        replica_states: search.world.node_count(),
        executed: search.world.executed(),
        settled: search.settled,
        complete,
    };
    let more = More {
        refused: search.world.refused().clone(),
        ended: search.ended,
    };
    Ok((report, more))
}

/// A state that waits for its turn, and its number.
type Waiting = (State, u32);

struct Search<'a> {
    config: &'a Config,
    world: World<'a>,
    start: State,
    known: HashSet<u128, FixedState>,
    /// How each state was met first: from which, and by what.
    parents: Vec<(u32, Option<Action>)>,
    transitions: usize,
    settled: usize,
    ended: BTreeMap<&'static str, usize>,
    /// What was done in all before the start.
    made: Counts,
}

impl Search<'_> {
    /// Whether all states were met.
    fn run(&mut self) -> Result<bool, Failure> {
        let mut frontier: Vec<Waiting> = Vec::new();
        self.known.insert(self.start.digest());
        self.parents.push((0, None));
        frontier.push((self.start, 0));
        let (mut next, mut actions) = (Vec::new(), Vec::new());
        while !frontier.is_empty() {
            for (state, number) in frontier.drain(..) {
                if !self.expand(&state, number, &mut actions, &mut next)? {
                    return Ok(false);
                }
            }
            std::mem::swap(&mut frontier, &mut next);
        }
        Ok(true)
    }

    /// Tries every action; false if the bound on states was met.
    fn expand(
        &mut self,
        state: &State,
        number: u32,
        actions: &mut Vec<Action>,
        next: &mut Vec<Waiting>,
    ) -> Result<bool, Failure> {
        self.actions(state, actions);
        for &action in actions.iter() {
            let after = match self.step(state, action) {
                Ok(after) if after == *state => continue,
                Ok(after) => after,
                Err(wrong) => return Err(self.failure(number, Some(action), wrong)),
            };
            self.transitions += 1;
            if !self.known.insert(after.digest()) {
                continue;
            }
            if self.parents.len() >= self.config.states_max {
                return Ok(false);
            }
            let child = self.parents.len() as u32;
            self.parents.push((number, Some(action)));
            next.push((after, child));
        }
        let each = self.config.settle_each;
        if each > 0 && (number as usize).is_multiple_of(each) {
            let settled = self.settle(state);
            settled.map_err(|wrong| self.failure(number, None, wrong))?;
        }
        Ok(true)
    }

    /// What was done so far in a state, since the start.
    fn counts(&self, state: &State) -> Counts {
        let mut sum = Counts::default();
        for (_, node) in state.nodes() {
            let counts = self.world.node(node).counts;
            sum.ops += counts.ops;
            sum.acks += counts.acks;
            sum.farewells += counts.farewells;
            sum.fences += counts.fences;
            sum.restarts += counts.restarts;
            sum.returns += counts.returns;
            sum.proposals += counts.proposals;
            sum.passes += counts.passes;
        }
        sum.ops -= self.made.ops;
        sum.acks -= self.made.acks;
        sum
    }

    /// Everything that can happen next.
    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.clear();
        let counts = self.counts(state);
        let fewer = |made: u8, most: usize| usize::from(made) < most;
        let sends = state.messages().count() < self.config.snapshots;
        let count = self.config.replicas() as u8;
        for (at, node) in state.nodes() {
            let node = self.world.node(node);
            let (member, left) = (node.replica.is_member(), node.counts.farewells > 0);
            let mut local = |step| actions.push(Action::Local { at, step });
            if fewer(counts.ops, self.config.ops) && !left {
                (0..self.config.alphabet.len() as u8).for_each(|op| local(Local::Transact(op)));
            }
            let passes = usize::from(node.counts.passes) < self.config.times.len();
            if passes && fewer(counts.passes, self.config.passes) {
                local(Local::Pass);
            }
            if member {
                self.of_member(state, at, &counts, &mut local);
            } else if fewer(counts.farewells, self.config.farewells)
                && !left
                && node.replica.home().is_some()
            {
                local(Local::Leave);
            }
            if self.config.gc {
                local(Local::Collect);
            }
            let tab = usize::from(at) >= self.config.members && !left;
            if tab && fewer(counts.returns, self.config.returns) {
                let writer = node.replica.writer();
                let knows =
                    |replica: &Replica| replica.is_member() && replica.last_of(&writer).is_some();
                let helpers = state
                    .nodes()
                    .filter(|it| knows(&self.world.node(it.1).replica));
                actions.extend(helpers.map(|(by, _)| Action::Return { at, by }));
            }
            for message in state.messages() {
                let to = at;
                for live in [true, false] {
                    if live || self.config.relays {
                        actions.push(Action::Deliver { to, message, live });
                    }
                }
            }
            if sends {
                let (from, to) = (at, None);
                actions.push(Action::Send { from, to });
                let others = (0..count).filter(|other| *other != at && !self.config.wholes);
                for other in others {
                    let to = Some(other);
                    actions.push(Action::Send { from, to });
                }
            }
        }
    }

    /// What a member can do by itself, beside writing.
    fn of_member(&self, state: &State, at: u8, counts: &Counts, local: &mut dyn FnMut(Local)) {
        let own = state.nodes[usize::from(at)];
        local(Local::Absorb);
        if !self.config.proposals.is_empty() {
            local(Local::Vote);
        }
        if usize::from(counts.proposals) < self.config.proposed {
            (0..self.config.proposals.len() as u8).for_each(|it| local(Local::Propose(it)));
        }
        if !self.config.times.is_empty() {
            (0..self.config.keys as u8).for_each(|key| local(Local::Materialize(key)));
        }
        if usize::from(counts.acks) < self.config.acks {
            local(Local::Acknowledge);
        }
        if usize::from(counts.restarts) < self.config.restarts {
            local(Local::Restart(own));
            if self.config.backups {
                let sent = state.messages().map(|message| self.world.sender(message));
                let own = sent.filter(|(sender, _)| *sender == at);
                own.for_each(|(_, was)| local(Local::Restart(was)));
            }
        }
        if usize::from(counts.fences) < self.config.fences {
            for (other, node) in state.nodes().filter(|it| it.0 != at) {
                let starts = self.world.node(node).counts.starts();
                let writer = calls::writer(self.config, other, starts);
                let mut known = self.world.node(own).replica.writers();
                if known.any(|it| it.0 == writer) {
                    local(Local::Fence(other, starts));
                }
            }
        }
    }

    fn step(&mut self, state: &State, action: Action) -> Result<State, String> {
        let mut after = *state;
        match action {
            Action::Local { at, step } => {
                let node = &mut after.nodes[usize::from(at)];
                *node = self.world.perform(*node, step)?;
            }
            Action::Send { from, to } => {
                let node = state.nodes[usize::from(from)];
                let lacking = to.map(|to| state.nodes[usize::from(to)]);
                after = state.with(self.world.snapshot(node, lacking)?);
            }
            Action::Deliver { to, message, live } => {
                let node = &mut after.nodes[usize::from(to)];
                *node = self.world.deliver(*node, message, live)?;
            }
            Action::Return { at, by } => {
                let by = state.nodes[usize::from(by)];
                let node = &mut after.nodes[usize::from(at)];
                *node = self.world.comes_back(*node, by)?;
            }
        }
        Ok(after)
    }

    /// A failure with the way to it, which follows from the parents.
    fn failure(&mut self, number: u32, last: Option<Action>, wrong: String) -> Failure {
        let mut actions = Vec::from_iter(last);
        let mut at = number;
        while let (parent, Some(action)) = self.parents[at as usize] {
            actions.push(action);
            at = parent;
        }
        let mut state = self.start;
        let mut steps = Vec::new();
        for action in actions.into_iter().rev() {
            steps.push(self.describe(&state, action));
            match self.step(&state, action) {
                Ok(after) => state = after,
                Err(_) => break,
            }
        }
        if last.is_none() {
            steps.push("everything is put in order".into());
        }
        Failure {
            name: self.config.name(),
            wrong,
            steps,
        }
    }

    fn describe(&mut self, state: &State, action: Action) -> String {
        match action {
            Action::Local { at, step } => {
                let did = self.world.describe(state.nodes[usize::from(at)], step);
                format!("replica {at}: {did}")
            }
            Action::Return { at, by } => format!("replica {at} comes back by replica {by}"),
            Action::Send { from, to } => {
                let what = match to {
                    Some(to) => format!("what replica {to} lacks"),
                    None => "its whole state".into(),
                };
                format!("replica {from} sends {what}")
            }
            Action::Deliver { to, message, live } => {
                let node = state.nodes[usize::from(to)];
                let refused = match self.world.refusal(node, message, live) {
                    Some(code) => format!(" (refused: {code})"),
                    None => String::new(),
                };
                let message = self.world.describe_message(message);
                let passed_on = if live { "" } else { ", passed on" };
                format!("replica {to} gets {message}{passed_on}{refused}")
            }
        }
    }
}

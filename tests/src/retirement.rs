//! The explorer of spaces with members: every order of events of a small configuration, on the real core.
//!
//! At the start the members have each other's configuration, and tabs are admitted. From there the search
//! tries all actions in all orders, breadth first. An action is one of these:
//! - a transaction, or a snapshot (whole, or the part that a peer lacks),
//! - the delivery of any snapshot ever sent to any replica,
//! - a leave, a fence, a retirement, an acknowledgement, or a collection,
//! - the restart of a member, or the return of a tab,
//! - a proposal or a vote,
//! - a step of a clock, the end of an expired counter, or a decision on such ends.
//!
//! A replica that is gone is one that does nothing any more. A lost message is one that is never delivered.
//!
//! Whenever a replica changes, every read is compared with the [`oracle`](crate::oracle). From each state, or
//! from a sample, everything is put in order. All replicas exchange their states. Members fence the writers
//! that are gone, acknowledge, retire and collect, until nothing changes any more. Then all must have equal
//! bytes, and no replica may have a writer that is gone.
//!
//! Two replicas count as the same if they saw the same operations, and have the same canonical bytes and the
//! same private state. Local numbers of writers follow from the order in which the writers came, so they are
//! not compared.

mod calls;
mod configs;
mod order;
mod seen;
mod world;

pub use configs::{Config, budgets, full, share};

use crate::explore::Report;
use crate::search::{Bounds, Failure, MessageId, Model, NodeId, State, search};
use std::collections::BTreeMap;
use std::fmt;
use tallymesh_core::Replica;
use world::{Counts, World};

/// An action of a replica by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Local {
    /// Makes a transaction of the config's alphabet.
    Transact(u8),
    /// Makes one of the config's operations on a budget.
    Flow(u8),
    Acknowledge,
    /// Fences stray incarnations, and retires the writers that it may.
    Absorb,
    Collect,
    Leave,
    /// Fences the writer of a place's start of this number. A member's owner is taken out of the
    /// configuration.
    Fence(u8, u8),
    /// Ends, and starts again as a new incarnation, from its own state in this node.
    Restart(NodeId),
    /// Proposes the members of the next configuration.
    Propose(u8),
    /// Takes the next steps to decide on it.
    Vote,
    /// Moves its clock to the config's next time.
    Pass,
    /// Ends a counter that has expired by its clock.
    Materialize(u8),
    /// Ends a counter that has an expiry, whatever its clock shows.
    Expire(u8),
    /// Decides on the ends of counters.
    Decide,
    /// Founds the space, with all members.
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
    /// If `live`, the message comes in a session of its sender. Else another replica passes it on.
    Deliver {
        to: u8,
        message: MessageId,
        live: bool,
    },
    /// A tab that was given up rejoins through a member, in the member's present state.
    Return {
        at: u8,
        by: u8,
    },
}

/// Results beside the metrics of the [`Report`].
#[derive(Clone, Debug, Default)]
pub struct More {
    /// Messages rejected, by the code of the error.
    pub refused: BTreeMap<&'static str, usize>,
    /// Replicas that had to begin again while everything was put in order, by the code of the error that
    /// caused it.
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
    let mut space = Space {
        config,
        world,
        ended: BTreeMap::new(),
        made: Counts::default(),
    };
    let start = space.begin(&nodes).map_err(fail)?;
    let bounds = Bounds {
        settle_each: config.settle_each,
        states_max: config.states_max,
    };
    let found = search(&mut space, &config.name(), start, bounds)?;
    let report = Report {
        name: config.name(),
        states: found.states,
        transitions: found.transitions,
        replica_states: space.world.node_count(),
        executed: space.world.executed(),
        settled: found.settled,
        complete: found.complete,
    };
    let more = More {
        refused: space.world.refused().clone(),
        ended: space.ended,
    };
    Ok((report, more))
}

struct Space<'a> {
    config: &'a Config,
    world: World<'a>,
    ended: BTreeMap<&'static str, usize>,
    /// Counts of all actions before the start.
    made: Counts,
}

impl Space<'_> {
    /// Counts of all actions in a state, since the start.
    fn counts(&self, state: &State) -> Counts {
        let mut sum = Counts::default();
        for (_, node) in state.nodes() {
            let counts = self.world.node(node).counts;
            sum.ops += counts.ops;
            sum.acks += counts.acks;
            sum.leaves += counts.leaves;
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

    /// Adds the actions that a member can take by itself, beside writing.
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
}

impl Model for Space<'_> {
    type Action = Action;

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let counts = self.counts(state);
        let fewer = |made: u8, most: usize| usize::from(made) < most;
        let sends = state.messages().count() < self.config.snapshots;
        let count = self.config.replicas() as u8;
        for (at, node) in state.nodes() {
            let node = self.world.node(node);
            let (member, left) = (node.replica.members().is_member(), node.counts.leaves > 0);
            let mut local = |step| actions.push(Action::Local { at, step });
            if fewer(counts.ops, self.config.ops) && !left {
                match self.config.flows.len() as u8 {
                    0 => (0..self.config.alphabet.len() as u8)
                        .for_each(|op| local(Local::Transact(op))),
                    flows => (0..flows).for_each(|flow| local(Local::Flow(flow))),
                }
                let keys = if self.config.early {
                    self.config.keys
                } else {
                    0
                };
                (0..keys as u8).for_each(|key| local(Local::Expire(key)));
            }
            let passes = usize::from(node.counts.passes) < self.config.times.len();
            if passes && fewer(counts.passes, self.config.passes) {
                local(Local::Pass);
            }
            if member {
                self.of_member(state, at, &counts, &mut local);
            } else if fewer(counts.leaves, self.config.leaves)
                && !left
                && node.replica.members().sponsor().is_some()
            {
                local(Local::Leave);
            }
            if self.config.gc {
                local(Local::Collect);
                if self.config.early {
                    local(Local::Decide);
                }
            }
            let tab = usize::from(at) >= self.config.members && !left;
            if tab && fewer(counts.returns, self.config.returns) {
                let writer = node.replica.writer();
                let knows = |replica: &Replica| {
                    replica.members().is_member()
                        && replica.members().final_clock(&writer).is_some()
                };
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

    fn settle(&mut self, state: &State) -> Result<(), String> {
        self.settle_all(state)
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

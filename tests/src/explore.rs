//! The explorer: every order of events of a small configuration, on the real core.
//!
//! A [`Config`] gives the number of replicas, keys and transactions, and the transactions to choose from.
//! From the start the search tries all actions in all orders, breadth first. An action is one of these:
//! - a transaction at a replica,
//! - a step of a replica's clock to its next time,
//! - a snapshot of a replica's state (whole, or the part that a peer lacks),
//! - the delivery of any snapshot ever sent to any replica, any number of times.
//!
//! A lost message is one that is never delivered.
//!
//! Whenever a replica changes, every read is compared with the [`oracle`](crate::oracle). Replicas that see
//! the same operations must have the same bytes, by whichever way they came to see them. From each state, or
//! from a sample, everything is then delivered everywhere, and all replicas must end with equal bytes.
//!
//! A [`Report`] gives the number of states and transitions. It also says whether the run met its bound on
//! states, and so is incomplete.

mod configs;
mod world;

pub use configs::{Act, Config, full, share};

use crate::search::{Bounds, Failure, MessageId, Model, NodeId, State, search};
use std::fmt;
use world::World;

/// An action of a replica by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Local {
    /// Makes the transaction of this number: first the config's alphabet is numbered, then its start.
    Transact(u8),
    /// Moves its clock to the config's next time.
    Pass,
    /// Deletes a counter that has expired by its clock.
    Materialize(u8),
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
    Deliver {
        to: u8,
        message: MessageId,
    },
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The config's name.
    pub name: String,
    /// States that the search met.
    pub states: usize,
    /// Steps between different states.
    pub transitions: usize,
    /// Different states of a single replica.
    pub replica_states: usize,
    /// Calls of the core that changed, or tried to change, a replica.
    pub executed: usize,
    /// States from which everything was delivered everywhere.
    pub settled: usize,
    /// Whether the search met every state. If not, it met the bound on states.
    pub complete: bool,
}

impl Report {
    /// The head of the table that [`Display`](fmt::Display) writes the rows of.
    pub const HEAD: &str = "| configuration | states | transitions | settled | replica states | core calls | complete |\n|---|---:|---:|---:|---:|---:|---|";
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let complete = if self.complete { "yes" } else { "INCOMPLETE" };
        write!(
            f,
            "| {} | {} | {} | {} | {} | {} | {complete} |",
            self.name,
            self.states,
            self.transitions,
            self.settled,
            self.replica_states,
            self.executed
        )
    }
}

/// Runs a config to its end, or to its bound on states.
///
/// # Errors
/// The first wrong answer, with the steps that lead to it.
pub fn explore(config: &Config) -> Result<Report, Failure> {
    let fail = |wrong| Failure {
        name: config.name.clone(),
        wrong,
        steps: Vec::new(),
    };
    config.check().map_err(fail)?;
    let (world, start) = World::new(config).map_err(fail)?;
    let mut space = Space { config, world };
    let bounds = Bounds {
        settle_each: config.settle_each,
        states_max: config.states_max,
    };
    let found = search(&mut space, &config.name, start, bounds)?;
    Ok(Report {
        name: config.name.clone(),
        states: found.states,
        transitions: found.transitions,
        replica_states: space.world.node_count(),
        executed: space.world.executed(),
        settled: found.settled,
        complete: found.complete,
    })
}

struct Space<'a> {
    config: &'a Config,
    world: World<'a>,
}

impl Model for Space<'_> {
    type Action = Action;

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let (mut made, mut passed) = (0, 0);
        for (_, node) in state.nodes() {
            made += self.world.transactions_of(node);
            passed += self.world.passes_of(node);
        }
        let count = self.config.replicas as u8;
        for at in 0..count {
            let mut local = |step| actions.push(Action::Local { at, step });
            if made < self.config.ops + self.config.start.len() {
                (0..self.config.alphabet.len() as u8).for_each(|op| local(Local::Transact(op)));
                if !self.config.times.is_empty() {
                    (0..self.config.keys as u8).for_each(|key| local(Local::Materialize(key)));
                }
            }
            if passed < self.config.passes {
                local(Local::Pass);
            }
            for message in state.messages() {
                actions.push(Action::Deliver { to: at, message });
            }
            if state.messages().count() < self.config.snapshots {
                let (from, to) = (at, None);
                actions.push(Action::Send { from, to });
                for other in (0..count).filter(|other| *other != at) {
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
            Action::Deliver { to, message } => {
                let node = &mut after.nodes[usize::from(to)];
                *node = self.world.deliver(*node, message)?;
            }
        }
        Ok(after)
    }

    /// Delivers everything everywhere: first every message sent, then the whole state of the first replica,
    /// after it has merged all others.
    fn settle(&mut self, state: &State) -> Result<(), String> {
        let mut nodes: Vec<NodeId> = state.nodes().map(|(_, node)| node).collect();
        for node in &mut nodes {
            for message in state.messages() {
                *node = self.world.deliver(*node, message)?;
            }
        }
        let whole: Vec<MessageId> = nodes
            .iter()
            .map(|node| self.world.snapshot(*node, None))
            .collect::<Result<_, _>>()?;
        for message in whole {
            nodes[0] = self.world.deliver(nodes[0], message)?;
        }
        let (all, rest) = nodes.split_at_mut(1);
        let message = self.world.snapshot(all[0], None)?;
        for node in rest {
            *node = self.world.deliver(*node, message)?;
            self.world.same(all[0], *node)?;
        }
        Ok(())
    }

    fn describe(&mut self, state: &State, action: Action) -> String {
        match action {
            Action::Local { at, step } => {
                let did = self.world.describe(state.nodes[usize::from(at)], step);
                format!("replica {at}: {did}")
            }
            Action::Send { from, to } => {
                let what = match to {
                    Some(to) => format!("what replica {to} lacks"),
                    None => "its whole state".into(),
                };
                format!("replica {from} sends {what}")
            }
            Action::Deliver { to, message } => {
                let message = self.world.describe_message(message);
                format!("replica {to} gets {message}")
            }
        }
    }
}

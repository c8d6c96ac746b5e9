//! The explorer of majorities: every order of restarts, disks that are put back or replaced, cuts, and
//! proposals of a small space of members, on the real core.
//!
//! At the start all members know each other. From there the search tries all actions in all orders, breadth
//! first. There are two kinds of configurations.
//!
//! In the first kind, a step is a message or an action of one member:
//! - a member receives what it lacks of another one's state,
//! - a member does its duties: it votes, fences, retires and acknowledges,
//! - a member proposes a limit, or makes a write,
//! - a member ends and starts again: in its place, from an older copy in its place, or from an empty disk,
//! - a start announces itself.
//!
//! A link that is cut is one over which nothing is received. A member that is dead is one that does nothing
//! any more.
//!
//! In the second kind, a step is an event: a member is killed, starts in its place, from an older
//! copy or from an empty disk, proposes a limit or to remove a member, or writes; links are cut and mended; a
//! disk is copied, and the copy runs beside its original and is adopted. After each event, or at steps of their
//! own, linked members exchange their states. So few steps go far. The depth is bounded, and the number of
//! events of a kind is not.
//!
//! In each state these must hold:
//! - No number has two configurations, at whatever replica it is or was known.
//! - No member has accepted two configurations under one ballot.
//! - A read at level quorum shows a write that a quorum acknowledged.
//! - A copy beside its original is no member.
//!
//! Then a majority of members is up and linked, and all others are dead. If none of that majority has lost its
//! disk, it must decide on a proposal. In the second kind, such a majority must also decide over the links that
//! it has. At last all are up and linked again. They must decide, agree, and show the write.

mod configs;
mod events;
mod links;
mod order;
mod settle;
mod world;

pub use configs::{Config, Counts, Pace, Places, full, put_back, share, two_lost, without_places};

use crate::explore::Report;
use crate::search::Failure;
use events::Event;
use foldhash::fast::FixedState;
use links::{Links, PLACES_MAX};
use std::collections::HashSet;
use std::hash::BuildHasher;
use world::{Local, NodeId, World};

/// One step from a state to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Local { at: u8, step: Local },
    PutBack { at: u8 },
    Pull { to: u8, from: u8 },
    Event(Event),
}

/// A state of the whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    /// The replica of each member. Its disk has the same. Then the one on a copy of a disk.
    nodes: [NodeId; PLACES_MAX],
    /// The older copies of the disks.
    older: [NodeId; PLACES_MAX],
    links: Links,
    /// The members that are down, a bit for each.
    dead: u8,
    /// What was decided and accepted, by its number.
    history: u32,
    /// The write, by its number.
    written: Option<u32>,
    acknowledged: bool,
    done: Counts,
    /// How many limits were proposed.
    proposed: u8,
}

impl State {
    fn is_dead(&self, at: usize) -> bool {
        self.dead >> at & 1 == 1
    }

    /// Whether a member has an answer of another one, or of itself.
    fn reaches(&self, at: usize, other: usize) -> bool {
        at == other || self.links.has(at, other) && !self.is_dead(other)
    }

    fn propose(&mut self) {
        self.done.proposals += 1;
        self.proposed += 1;
    }
}

/// Runs a config to its end, or to its bound on states. Returns also how many of the states that were put in
/// order never came to a decision.
///
/// # Errors
/// The first wrong answer, with the steps that lead to it.
pub fn explore(config: &Config) -> Result<(Report, usize), Failure> {
    let fail = |wrong| Failure {
        name: config.name(),
        wrong,
        steps: Vec::new(),
    };
    let mut world = World::new(config);
    let start = order::begin(&mut world).map_err(fail)?;
    let mut search = Search {
        world,
        known: HashSet::default(),
        parents: Vec::new(),
        transitions: 0,
        settled: 0,
        stuck: 0,
        start,
    };
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
    Ok((report, search.stuck))
}

/// One step of a history that is played by hand, with the places of members.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A member proposes something that nobody has proposed before.
    Propose(u8),
    /// The first member receives the state of the second one.
    Receive(u8, u8),
    /// An older copy is put back in a member's place, and a start begins from it.
    PutBack(u8),
    /// A start announces itself.
    Announce(u8),
    /// A member writes.
    Write(u8),
    /// A member is down until its next start.
    Kill(u8),
    /// These members are linked with each other, and the others are.
    Part(&'static [usize]),
}

/// Plays these steps, with the checks of each state.
///
/// # Errors
/// The first contradiction.
pub fn play(config: &Config, steps: &[Step]) -> Result<(), String> {
    let mut world = World::new(config);
    let mut state = order::begin(&mut world)?;
    for step in steps {
        let local = |at, step| Action::Local { at, step };
        let action = match *step {
            step if config.pace != Pace::Messages => Action::Event(match step {
                Step::Propose(at) => Event::Propose(at),
                Step::PutBack(at) => Event::PutBack(at),
                Step::Write(at) => Event::Write(at),
                Step::Kill(at) => Event::Kill(at),
                Step::Part(side) => Event::Link(Links::parted(side)),
                Step::Receive(..) | Step::Announce(_) => Event::Round,
            }),
            Step::Kill(_) | Step::Part(_) => return Err("no step between messages".into()),
            Step::Write(at) => local(at, Local::Write),
            Step::Propose(at) => local(at, Local::Propose(state.proposed)),
            Step::Receive(to, from) => Action::Pull { to, from },
            Step::PutBack(at) => Action::PutBack { at },
            Step::Announce(at) => local(at, Local::Announce),
        };
        state = order::step(&mut world, &state, action)?;
    }
    Ok(())
}

struct Search<'a> {
    world: World<'a>,
    known: HashSet<u128, FixedState>,
    parents: Vec<(u32, Option<Action>)>,
    transitions: usize,
    settled: usize,
    stuck: usize,
    start: State,
}

impl Search<'_> {
    fn run(&mut self) -> Result<bool, Failure> {
        let mut frontier = vec![(self.start, 0u32)];
        self.known.insert(digest(&self.start));
        self.parents.push((0, None));
        let (mut next, mut actions) = (Vec::new(), Vec::new());
        let mut depth = 0;
        while !frontier.is_empty() {
            let is_last = depth > 0 && depth == self.world.config.depth_max;
            for (state, number) in frontier.drain(..) {
                actions.clear();
                if !is_last {
                    self.actions(&state, &mut actions);
                }
                for action in &actions {
                    let after = self.step(&state, *action);
                    let after = after.map_err(|it| self.failure(number, Some(*action), it))?;
                    if after == state {
                        continue;
                    }
                    self.transitions += 1;
                    if !self.known.insert(digest(&after)) {
                        continue;
                    }
                    if self.parents.len() >= self.world.config.states_max {
                        return Ok(false);
                    }
                    self.parents.push((number, Some(*action)));
                    next.push((after, self.parents.len() as u32 - 1));
                }
                let each = self.world.config.settle_each;
                if each > 0 && (number as usize).is_multiple_of(each) {
                    self.settled += 1;
                    let decided = settle::settle(&mut self.world, &state);
                    let stuck = decided.map_err(|it| self.failure(number, None, it))?;
                    if let Some(stuck) = stuck {
                        self.stuck += 1;
                        if self.world.config.places != Places::Unknown {
                            return Err(self.failure(number, None, stuck));
                        }
                    }
                }
            }
            std::mem::swap(&mut frontier, &mut next);
            depth += 1;
        }
        Ok(true)
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let config = self.world.config;
        if config.pace != Pace::Messages {
            return events::events(&self.world, state, actions);
        }
        let (most, done) = (&config.most, &state.done);
        for at in 0..config.members as u8 {
            let mut local = |step| actions.push(Action::Local { at, step });
            let node = self.world.node(state.nodes[usize::from(at)]);
            match node.is_early() {
                true => local(Local::Announce),
                false => {
                    if config.slow {
                        local(Local::Tend(0));
                    }
                    if done.proposals < most.proposals {
                        local(Local::Propose(state.proposed));
                    }
                    if most.writes > 0 && state.written.is_none() {
                        local(Local::Write);
                    }
                }
            }
            if done.restarts < most.restarts {
                local(Local::Restart);
            }
            let loses = config.any_disk || usize::from(at) == config.members / 2;
            if loses && done.wiped < most.wiped {
                local(Local::Wipe);
            }
            if loses && done.put_back < most.put_back {
                actions.push(Action::PutBack { at });
            }
            for from in (0..config.members as u8).filter(|from| *from != at) {
                actions.push(Action::Pull { to: at, from });
            }
        }
    }

    fn step(&mut self, state: &State, action: Action) -> Result<State, String> {
        order::step(&mut self.world, state, action)
    }

    /// A failure with the steps to it, which follow from the parents.
    fn failure(&mut self, number: u32, last: Option<Action>, wrong: String) -> Failure {
        let mut actions = Vec::from_iter(last);
        let mut at = number;
        while let (parent, Some(action)) = self.parents[at as usize] {
            actions.push(action);
            at = parent;
        }
        let steps = actions.into_iter().rev().map(|action| match action {
            Action::Local { at, step } => format!("member {at}: {step:?}"),
            Action::PutBack { at } => format!("member {at}: an older copy is put back"),
            Action::Pull { to, from } => format!("member {to} receives the state of member {from}"),
            Action::Event(event) => format!("{event:?}"),
        });
        Failure {
            name: self.world.config.name(),
            wrong,
            steps: steps.collect(),
        }
    }
}

/// A digest of 128 bits, by which equal values are recognised.
fn digest<T: std::hash::Hash + ?Sized>(of: &T) -> u128 {
    let half = |seed| u128::from(FixedState::with_seed(seed).hash_one(of));
    half(5) << 64 | half(6)
}

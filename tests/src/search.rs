//! Breadth-first search of all possible events, which both explorers use.

mod table;

pub use table::table;

use foldhash::fast::FixedState;
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, Hash};

/// Most replicas of a config.
pub const REPLICAS_MAX: usize = 4;
/// Most snapshots that a config may send.
pub const MESSAGES_MAX: usize = 6;

/// The number of a state of a single replica.
pub(crate) type NodeId = u32;
/// The number of a message.
pub(crate) type MessageId = u32;

/// An empty place.
const NONE: u32 = u32::MAX;

/// A state of the whole: each replica, and the set of messages ever sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) nodes: [NodeId; REPLICAS_MAX],
    /// In ascending order, followed by [`NONE`].
    messages: [MessageId; MESSAGES_MAX],
}

impl State {
    /// These replicas, and no message yet.
    pub(crate) fn new(nodes: &[NodeId]) -> State {
        let mut state = State {
            nodes: [NONE; REPLICAS_MAX],
            messages: [NONE; MESSAGES_MAX],
        };
        state.nodes[..nodes.len()].copy_from_slice(nodes);
        state
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (u8, NodeId)> + '_ {
        (0..).zip(self.nodes.iter().copied().filter(|id| *id != NONE))
    }

    pub(crate) fn messages(&self) -> impl Iterator<Item = MessageId> + '_ {
        self.messages.iter().copied().filter(|id| *id != NONE)
    }

    /// The same with one more message.
    pub(crate) fn with(&self, message: MessageId) -> State {
        let mut next = *self;
        if !self.messages.contains(&message) {
            next.messages[MESSAGES_MAX - 1] = message;
            next.messages.sort_unstable();
        }
        next
    }

    /// A digest of 128 bits, by which equal states are recognised.
    fn digest(&self) -> u128 {
        let half = |seed| u128::from(FixedState::with_seed(seed).hash_one(self));
        half(1) << 64 | half(2)
    }
}

/// The possible actions, and the checks of each state.
pub(crate) trait Model {
    /// One step from a state to the next.
    type Action: Copy;

    /// Adds all actions that are possible next.
    fn actions(&self, state: &State, actions: &mut Vec<Self::Action>);

    /// Returns the state after an action. The error is the violation.
    fn step(&mut self, state: &State, action: Self::Action) -> Result<State, String>;

    /// Puts everything in order from a state. The error is the violation at the end.
    fn settle(&mut self, state: &State) -> Result<(), String>;

    /// Describes an action in words.
    fn describe(&mut self, state: &State, action: Self::Action) -> String;
}

/// A wrong answer, and the shortest sequence of steps to it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The config's name.
    pub name: String,
    /// The violation.
    pub wrong: String,
    /// The steps that lead to it.
    pub steps: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.name, self.wrong)?;
        for (at, step) in self.steps.iter().enumerate() {
            writeln!(f, "{:>4}. {step}", at + 1)?;
        }
        Ok(())
    }
}

/// The bounds of a search.
pub(crate) struct Bounds {
    /// Everything is put in order from every state whose number is a multiple of this. 0 means from none.
    pub(crate) settle_each: usize,
    /// Most states.
    pub(crate) states_max: usize,
}

/// The results of a search.
pub(crate) struct SearchResult {
    pub(crate) states: usize,
    pub(crate) transitions: usize,
    pub(crate) settled: usize,
    pub(crate) complete: bool,
}

/// A state that waits for its turn, and its number.
type Waiting = (State, u32);

struct Search<'a, M: Model> {
    model: &'a mut M,
    bounds: Bounds,
    name: &'a str,
    start: State,
    known: HashSet<u128, FixedState>,
    /// For each state, the state and the action by which the search first met it.
    parents: Vec<(u32, Option<M::Action>)>,
    transitions: usize,
    settled: usize,
}

/// Searches everything from a start, as far as the bounds allow.
pub(crate) fn search<M: Model>(
    model: &mut M,
    name: &str,
    start: State,
    bounds: Bounds,
) -> Result<SearchResult, Failure> {
    let mut search = Search {
        model,
        bounds,
        name,
        start,
        known: HashSet::default(),
        parents: Vec::new(),
        transitions: 0,
        settled: 0,
    };
    let complete = search.run()?;
    Ok(SearchResult {
        states: search.parents.len(),
        transitions: search.transitions,
        settled: search.settled,
        complete,
    })
}

impl<M: Model> Search<'_, M> {
    /// Runs the search. Returns whether it met all states.
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

    /// Tries every action. Returns false if it met the bound on states.
    fn expand(
        &mut self,
        state: &State,
        number: u32,
        actions: &mut Vec<M::Action>,
        next: &mut Vec<Waiting>,
    ) -> Result<bool, Failure> {
        actions.clear();
        self.model.actions(state, actions);
        for &action in actions.iter() {
            let after = match self.model.step(state, action) {
                Ok(after) if after == *state => continue,
                Ok(after) => after,
                Err(wrong) => return Err(self.failure(number, Some(action), wrong)),
            };
            self.transitions += 1;
            if !self.known.insert(after.digest()) {
                continue;
            }
            if self.parents.len() >= self.bounds.states_max {
                return Ok(false);
            }
            let child = self.parents.len() as u32;
            self.parents.push((number, Some(action)));
            next.push((after, child));
        }
        let each = self.bounds.settle_each;
        if each > 0 && (number as usize).is_multiple_of(each) {
            self.settled += 1;
            let settled = self.model.settle(state);
            settled.map_err(|wrong| self.failure(number, None, wrong))?;
        }
        Ok(true)
    }

    /// A failure with the steps to it, which follow from the parents.
    fn failure(&mut self, number: u32, last: Option<M::Action>, wrong: String) -> Failure {
        let mut actions = Vec::from_iter(last);
        let mut at = number;
        while let (parent, Some(action)) = self.parents[at as usize] {
            actions.push(action);
            at = parent;
        }
        let mut state = self.start;
        let mut steps = Vec::new();
        for action in actions.into_iter().rev() {
            steps.push(self.model.describe(&state, action));
            match self.model.step(&state, action) {
                Ok(after) => state = after,
                Err(_) => break,
            }
        }
        if last.is_none() {
            steps.push("everything is put in order".into());
        }
        let name = self.name.to_owned();
        Failure { name, wrong, steps }
    }
}

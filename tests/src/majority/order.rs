//! The start of a configuration, and its steps with the checks after each.

use super::configs::Counts;
use super::links::{COPY, Links, PLACES_MAX};
use super::settle::round;
use super::world::{Local, NodeId, World};
use super::{Action, State};
use tallymesh_core::VersionVector;
use tallymesh_core::explore::{said, sees};

/// Rounds after which all members know each other.
const ROUNDS: usize = 30;

/// Founds the space, and lets all members know each other.
pub(super) fn begin(world: &mut World<'_>) -> Result<State, String> {
    let mut state = State {
        nodes: [NodeId::MAX; PLACES_MAX],
        older: [NodeId::MAX; PLACES_MAX],
        links: Links::ALL,
        dead: 0,
        history: 0,
        written: None,
        acknowledged: false,
        done: Counts::default(),
        proposed: 0,
    };
    let members: Vec<usize> = (0..world.config.members).collect();
    for at in &members {
        state.nodes[*at] = world.beginner(*at as u8);
    }
    state.nodes[0] = world.found(state.nodes[0])?;
    for at in &members[1..] {
        state.nodes[*at] = world.pull(state.nodes[*at], state.nodes[0])?;
        state.nodes[*at] = world.perform(state.nodes[*at], Local::Announce)?;
    }
    for _ in 0..ROUNDS {
        round(world, &mut state, &members)?;
    }
    for at in &members {
        state.nodes[*at] = world.collect(state.nodes[*at])?;
    }
    for _ in 0..ROUNDS {
        round(world, &mut state, &members)?;
    }
    let voters = members
        .iter()
        .filter(|at| world.node(state.nodes[**at]).replica.members().has_vote());
    if voters.count() != members.len() {
        return Err("not all have a vote at the start".into());
    }
    state.older = state.nodes;
    world.first = state.nodes;
    Ok(state)
}

/// One step, and the checks of the state after it.
pub(super) fn step(world: &mut World<'_>, state: &State, action: Action) -> Result<State, String> {
    let mut after = *state;
    match action {
        Action::Local { at, step } => {
            let place = usize::from(at);
            after.nodes[place] = world.perform(after.nodes[place], step)?;
            match step {
                Local::Propose(_) => after.propose(),
                Local::Restart => after.done.restarts += 1,
                Local::Wipe => after.done.wiped += 1,
                Local::Write => after.written = Some(world.wrote(after.nodes[place])),
                Local::Tend(_) | Local::Announce | Local::Remove(_) | Local::Adopt => {}
            }
        }
        Action::PutBack { at } => {
            let place = usize::from(at);
            after.nodes[place] = world.put_back(after.nodes[place], after.older[place])?;
            after.done.put_back += 1;
        }
        Action::Pull { to, from } => {
            let sender = after.nodes[usize::from(from)];
            let node = &mut after.nodes[usize::from(to)];
            *node = world.pull(*node, sender)?;
            if !world.config.slow && !world.node(*node).is_early() {
                *node = world.perform(*node, Local::Tend(0))?;
            }
        }
        Action::Event(event) => return super::events::step(world, state, event),
    }
    look(world, &mut after)?;
    Ok(after)
}

/// Adds what is new in a state to its history. The error is a contradiction.
pub(super) fn look(world: &mut World<'_>, state: &mut State) -> Result<(), String> {
    for at in 0..world.config.members {
        state.history = world.learn(state.history, state.nodes[at])?;
    }
    if state.nodes[COPY] != NodeId::MAX {
        let members = world.node(state.nodes[COPY]).replica.members();
        if members.is_announced() || members.has_vote() {
            return Err("a copy takes part as a member beside its original".into());
        }
    }
    acknowledge(world, state);
    read(world, state)
}

/// Notes whether a quorum acknowledges the write.
fn acknowledge(world: &World<'_>, state: &mut State) {
    let Some(write) = state.written.filter(|_| !state.acknowledged) else {
        return;
    };
    let (at, writer, clock) = world.write(write);
    let at = usize::from(at);
    let replica = &world.node(state.nodes[at]).replica;
    if replica.writer() != writer || state.is_dead(at) {
        return; // its process has ended
    }
    let upto = VersionVector::of(writer, clock);
    let Some(present) = said(replica, &upto).map(|it| it.present) else {
        return;
    };
    let answers = (0..world.config.members)
        .filter(|other| state.reaches(at, *other))
        .filter_map(|other| said(&world.node(state.nodes[other]).replica, &upto))
        .filter(|it| it.counts && it.vouches && it.newest <= present);
    let members = replica
        .members()
        .configuration()
        .map_or(0, |it| it.members.len());
    if answers.count() > members / 2 {
        state.acknowledged = true;
    }
}

/// Checks that a read at level quorum shows the write that was acknowledged.
fn read(world: &World<'_>, state: &State) -> Result<(), String> {
    if !state.acknowledged {
        return Ok(());
    }
    for at in (0..world.config.members).filter(|at| !state.is_dead(*at)) {
        let replica = &world.node(state.nodes[at]).replica;
        let nothing = VersionVector::default();
        let Some(own) = said(replica, &nothing) else {
            continue;
        };
        let answering = (0..world.config.members).filter(|other| state.reaches(at, *other));
        let answers = answering.filter(|other| {
            let other = &world.node(state.nodes[*other]).replica;
            let counts =
                said(other, &nothing).is_some_and(|it| it.counts && it.newest <= own.present);
            counts && sees(replica, &other.vector())
        });
        let members = replica
            .members()
            .configuration()
            .map_or(0, |it| it.members.len());
        if answers.count() > members / 2 && replica.value("written") != Some(1) {
            return Err(format!("a quorum read at member {at} misses the write"));
        }
    }
    Ok(())
}

//! The majority that must decide, and what holds once all members are up and linked again.

use super::State;
use super::configs::Pace;
use super::links::Links;
use super::order::look;
use super::world::{Local, World, owner};

/// Rounds after which a majority must have decided.
const ROUNDS: usize = 30;
/// The limit that is proposed when a state is put in order.
const ASKED: u8 = 50;

/// All of these members exchange their states over their links, and do their duties once.
pub(super) fn round(world: &mut World<'_>, state: &mut State, up: &[usize]) -> Result<(), String> {
    for &to in up {
        let linked: Vec<usize> = up
            .iter()
            .copied()
            .filter(|from| state.links.has(to, *from))
            .collect();
        for &from in &linked {
            state.nodes[to] = world.pull(state.nodes[to], state.nodes[from])?;
        }
        let node = state.nodes[to];
        let members = linked.iter().filter(|at| **at < world.config.members);
        let members = members.count() as u8;
        let duty = match (world.node(node).is_early(), world.config.pace) {
            (true, _) => Local::Announce,
            (false, Pace::Messages) => Local::Tend(0),
            (false, Pace::Rounds | Pace::Events) => Local::Tend(members),
        };
        state.nodes[to] = world.perform(node, duty)?;
        look(world, state)?;
    }
    Ok(())
}

/// The members of these that have lost nothing.
fn whole(world: &World<'_>, state: &State, up: &[usize]) -> Vec<usize> {
    let has_lost = |at: &usize| world.node(state.nodes[*at]).is_lost();
    up.iter().copied().filter(|at| !has_lost(at)).collect()
}

/// Whether these are a majority of each configuration that any member knows.
fn is_majority(world: &World<'_>, state: &State, whole: &[usize]) -> bool {
    (0..world.config.members).all(|at| {
        let it = &world.node(state.nodes[at]).replica;
        it.members().configuration().is_none_or(|it| {
            let those = whole.iter().filter(|at| it.has(&owner(**at as u8)));
            2 * those.count() > it.members.len()
        })
    })
}

/// Puts a state in order in several ways. Returns what never decides, if there is something:
/// - each majority of the members is up and linked, and the others are dead,
/// - the members that are up decide over the links that they have,
/// - all are up and linked again.
pub(super) fn settle(world: &mut World<'_>, state: &State) -> Result<Option<String>, String> {
    let members = world.config.members;
    for mask in 1u32..1 << members {
        let up: Vec<usize> = (0..members).filter(|at| mask >> at & 1 == 1).collect();
        if members > 3 && up.len() != members / 2 + 1 {
            continue;
        }
        let mut majority = *state;
        majority.links = Links::ALL;
        majority.dead = !(mask as u8);
        if let Some(stuck) = must_decide(world, majority, &up)? {
            return Ok(Some(stuck));
        }
    }
    if world.config.pace == Pace::Messages {
        return Ok(None);
    }
    // Members that were removed pass nothing on.
    let newest = (0..members).max_by_key(|at| world.node(state.nodes[*at]).number());
    let names = |at: &usize| newest.is_none_or(|it| world.node(state.nodes[it]).names(*at));
    let up = (0..members).filter(|at| !state.is_dead(*at) && names(at));
    let up: Vec<usize> = up.collect();
    for at in &up {
        let group = state.links.group(*at, &up);
        if group[0] == *at
            && let Some(stuck) = must_decide(world, *state, &group)?
        {
            return Ok(Some(stuck));
        }
    }
    heal(world, *state)
}

/// Lets these members decide, if they must. Returns it if they do not.
fn must_decide(
    world: &mut World<'_>,
    mut state: State,
    up: &[usize],
) -> Result<Option<String>, String> {
    let whole = whole(world, &state, up);
    if !is_majority(world, &state, &whole) || decides(world, &mut state, up)? {
        return Ok(None);
    }
    Ok(Some(format!("members {up:?} are up, and do not decide")))
}

/// Starts all members and links them. They must decide, agree, and show the write that was acknowledged.
fn heal(world: &mut World<'_>, mut state: State) -> Result<Option<String>, String> {
    let members: Vec<usize> = (0..world.config.members).collect();
    for at in &members {
        if state.is_dead(*at) {
            state.nodes[*at] = world.perform(state.nodes[*at], Local::Restart)?;
        }
    }
    (state.dead, state.links) = (0, Links::ALL);
    if !decides(world, &mut state, &members)? {
        return Ok(Some(
            "all are up and linked again, and do not decide".into(),
        ));
    }
    for at in members {
        let node = world.node(state.nodes[at]);
        let value = node.replica.value("written");
        if state.acknowledged && node.names(at) && value != Some(1) {
            return Err(format!("the write is lost: member {at} shows {value:?}"));
        }
    }
    Ok(None)
}

/// These members exchange their states until nothing is new.
pub(super) fn quiet(world: &mut World<'_>, state: &mut State, up: &[usize]) -> Result<(), String> {
    for _ in 0..ROUNDS {
        let before = *state;
        round(world, state, up)?;
        if before == *state {
            return Ok(());
        }
    }
    Err(format!(
        "there is still something new after {ROUNDS} rounds"
    ))
}

/// Whether these members decide on what one of them proposes, and all of them that are members then learn of
/// it.
fn decides(world: &mut World<'_>, state: &mut State, up: &[usize]) -> Result<bool, String> {
    let number = |world: &World<'_>, state: &State, at: usize| world.node(state.nodes[at]).number();
    let newest =
        |world: &World<'_>, state: &State| up.iter().map(|at| number(world, state, *at)).max();
    // What was proposed before may be decided now, and leave no majority for more.
    let first = newest(world, state);
    quiet(world, state, up)?;
    let before = newest(world, state).flatten();
    let has_lost = |world: &World<'_>, state: &State, at: usize| {
        let node = world.node(state.nodes[at]);
        node.is_lost() || node.number() != before || !node.names(at)
    };
    let proposer = up.iter().copied().find(|at| !has_lost(world, state, *at));
    for at in 0..ROUNDS {
        let latest = newest(world, state);
        let agrees = |at: &usize| {
            let knows = up
                .iter()
                .find(|other| Some(number(world, state, **other)) == latest);
            let named = knows.is_some_and(|it| world.node(state.nodes[*it]).names(*at));
            !named || Some(number(world, state, *at)) == latest
        };
        if latest > first && up.iter().all(agrees) {
            return Ok(true);
        }
        let Some(proposer) = proposer else {
            return Ok(false);
        };
        let node = state.nodes[proposer];
        let open = number(world, state, proposer) == before && latest == first;
        if open && at % 6 == 0 && !world.node(node).is_early() {
            state.nodes[proposer] = world.perform(node, Local::Propose(ASKED))?;
        }
        round(world, state, up)?;
    }
    Ok(false)
}

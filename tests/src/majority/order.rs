//! The start of a configuration, its steps with the checks after each, and the majority that must decide.

use super::world::{Fact, Local, NodeId, What, World, owner};
use super::{Action, MEMBERS_MAX, State};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use tallymesh_core::VersionVector;
use tallymesh_core::explore::{accepted, said, sees};

/// Rounds after which a majority must have decided.
const ROUNDS: usize = 30;

/// Founds the space, and lets all members know each other.
pub(super) fn begin(world: &mut World<'_>) -> Result<State, String> {
    let mut state = State {
        nodes: [NodeId::MAX; MEMBERS_MAX],
        history: 0,
        restarts: 0,
        put_back: 0,
        wiped: 0,
        proposals: 0,
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
    world.first = state.nodes[..members.len()].to_vec();
    Ok(state)
}

/// One step, and the checks of the state after it.
pub(super) fn step(world: &mut World<'_>, state: &State, action: Action) -> Result<State, String> {
    let mut after = *state;
    match action {
        Action::Local { at, step } => {
            let node = &mut after.nodes[usize::from(at)];
            *node = world.perform(*node, step)?;
            match step {
                Local::Propose(_) => after.proposals += 1,
                Local::Restart => after.restarts += 1,
                Local::PutBack => after.put_back += 1,
                Local::Wipe => after.wiped += 1,
                Local::Write => {
                    let replica = &world.node(*node).replica;
                    let write = What::Write(at, replica.writer(), replica.clock());
                    let mut facts = world.facts(after.history).clone();
                    facts.insert(Fact::Wrote, write);
                    after.history = world.history(facts);
                }
                Local::Tend | Local::Announce => {}
            }
        }
        Action::Pull { to, from } => {
            let sender = after.nodes[usize::from(from)];
            let node = &mut after.nodes[usize::from(to)];
            *node = world.pull(*node, sender)?;
            if !world.config.slow && !world.node(*node).is_early() {
                *node = world.perform(*node, Local::Tend)?;
            }
        }
    }
    look(world, &mut after)?;
    Ok(after)
}

/// Adds what is new in a state to its history. The error is a contradiction.
fn look(world: &mut World<'_>, state: &mut State) -> Result<(), String> {
    let mut facts = world.facts(state.history).clone();
    let mut add = |fact: Fact, what: String| match facts.entry(fact.clone()) {
        Entry::Vacant(entry) => {
            entry.insert(What::Ruling(what));
            Ok(())
        }
        Entry::Occupied(entry) if *entry.get() == What::Ruling(what.clone()) => Ok(()),
        Entry::Occupied(entry) => Err(format!("{fact:?}: {:?} and {what}", entry.get())),
    };
    for at in 0..world.config.members {
        let replica = &world.node(state.nodes[at]).replica;
        let Some(it) = replica.members().configuration() else {
            continue;
        };
        add(Fact::Decided((it.era, it.number)), format!("{it:?}"))?;
        // A vote that nobody else has received is no promise to anybody.
        let own = owner(at as u8);
        for (of, number, ballot, what) in accepted(replica) {
            if of != own {
                add(Fact::Accepted(of, number, ballot), what)?;
            }
        }
    }
    acknowledge(world, state, &mut facts);
    read(world, state, &facts)?;
    state.history = world.history(facts);
    Ok(())
}

/// Notes whether a quorum acknowledges the write.
fn acknowledge(world: &World<'_>, state: &State, facts: &mut BTreeMap<Fact, What>) {
    let Some(What::Write(at, writer, clock)) = facts.get(&Fact::Wrote).cloned() else {
        return;
    };
    let replica = &world.node(state.nodes[usize::from(at)]).replica;
    if replica.writer() != writer || facts.contains_key(&Fact::Acknowledged) {
        return; // its process has ended
    }
    let upto = VersionVector::of(writer, clock);
    let Some(present) = said(replica, &upto).map(|it| it.present) else {
        return;
    };
    let answers = (0..world.config.members)
        .filter_map(|other| said(&world.node(state.nodes[other]).replica, &upto))
        .filter(|it| it.counts && it.vouches && it.newest <= present);
    let members = replica
        .members()
        .configuration()
        .map_or(0, |it| it.members.len());
    if answers.count() > members / 2 {
        facts.insert(Fact::Acknowledged, What::Write(at, writer, clock));
    }
}

/// Checks that a read at level quorum shows the write that was acknowledged.
fn read(world: &World<'_>, state: &State, facts: &BTreeMap<Fact, What>) -> Result<(), String> {
    if !facts.contains_key(&Fact::Acknowledged) {
        return Ok(());
    }
    for at in 0..world.config.members {
        let replica = &world.node(state.nodes[at]).replica;
        let nothing = VersionVector::default();
        let Some(own) = said(replica, &nothing) else {
            continue;
        };
        let answers = (0..world.config.members).filter(|other| {
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

/// All of these members exchange their states and do their duties once.
fn round(world: &mut World<'_>, state: &mut State, up: &[usize]) -> Result<(), String> {
    for to in up {
        for from in up.iter().filter(|from| *from != to) {
            state.nodes[*to] = world.pull(state.nodes[*to], state.nodes[*from])?;
        }
        let node = state.nodes[*to];
        let duty = match world.node(node).is_early() {
            true => Local::Announce,
            false => Local::Tend,
        };
        state.nodes[*to] = world.perform(node, duty)?;
        look(world, state)?;
    }
    Ok(())
}

/// Puts a state in order with each majority of the members, while the others are dead. Returns the one that
/// never decides, if there is one.
pub(super) fn settle(world: &mut World<'_>, state: &State) -> Result<Option<String>, String> {
    let members = world.config.members;
    for mask in 1u32..1 << members {
        let up: Vec<usize> = (0..members).filter(|at| mask >> at & 1 == 1).collect();
        let has_lost = |at: &usize| {
            let node = world.node(state.nodes[*at]);
            node.lost && !node.replica.members().has_vote()
        };
        let whole: Vec<usize> = up.iter().copied().filter(|at| !has_lost(at)).collect();
        let of_each = |at: usize| {
            let it = world
                .node(state.nodes[at])
                .replica
                .members()
                .configuration();
            it.is_none_or(|it| {
                let those = whole.iter().filter(|at| it.has(&owner(**at as u8)));
                2 * those.count() > it.members.len()
            })
        };
        if !(0..members).all(of_each) {
            continue;
        }
        if !decides(world, *state, &up, whole[0])? {
            return Ok(Some(format!("members {up:?} are up, and do not decide")));
        }
    }
    Ok(None)
}

/// Whether these members decide on what one of them proposes, and all of them learn of it.
fn decides(
    world: &mut World<'_>,
    mut state: State,
    up: &[usize],
    proposer: usize,
) -> Result<bool, String> {
    let number = |world: &World<'_>, state: &State, at: usize| {
        let members = world.node(state.nodes[at]).replica.members();
        members.configuration().map(|it| (it.era, it.number))
    };
    round(world, &mut state, up)?;
    round(world, &mut state, up)?;
    let before = number(world, &state, proposer);
    for at in 0..ROUNDS {
        let open = number(world, &state, proposer) == before;
        if open && at % 6 == 0 && !world.node(state.nodes[proposer]).is_early() {
            let node = state.nodes[proposer];
            state.nodes[proposer] = world.perform(node, Local::Propose(50))?;
        }
        if up.iter().all(|at| number(world, &state, *at) > before) {
            return Ok(true);
        }
        round(world, &mut state, up)?;
    }
    Ok(false)
}

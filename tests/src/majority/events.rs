//! Steps that are events: faults, proposals and a write. Members that are linked exchange their states in
//! rounds.

use super::configs::{ANY, Pace};
use super::links::{COPY, Links};
use super::order::look;
use super::settle::{quiet, round};
use super::world::{Local, NodeId, World};
use super::{Action, State};

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A member is down from now on.
    Kill(u8),
    /// A member ends, if it is up, and starts in its place.
    Restart(u8),
    /// The same, from the older copy of its disk.
    PutBack(u8),
    /// The same, from an empty disk.
    Wipe(u8),
    /// The disk of a member is copied, to be put back later.
    BackUp(u8),
    /// A member proposes a limit.
    Propose(u8),
    /// The first member proposes to remove the second one.
    Remove(u8, u8),
    /// A member writes.
    Write(u8),
    /// These are linked from now on, and no others.
    Link(Links),
    /// All that are linked exchange their states once.
    Round,
    /// The disk of a member is copied, and a start on the copy runs beside it.
    Copy(u8),
    /// The copy takes the place of its original, which is down for good.
    Adopt,
}

/// All events that are possible next.
pub(super) fn events(world: &World<'_>, state: &State, actions: &mut Vec<Action>) {
    let config = world.config;
    let (most, done) = (&config.most, &state.done);
    let mut add = |event| actions.push(Action::Event(event));
    if config.pace == Pace::Rounds {
        add(Event::Round);
    }
    let lost = |except: usize| {
        let others = (0..config.members).filter(|at| *at != except);
        others
            .filter(|at| world.node(state.nodes[*at]).is_lost())
            .count()
    };
    for place in 0..config.members {
        let at = place as u8;
        let may_lose = lost(place) < config.lost_max;
        if may_lose && is_copy_of(world, state, at) && state.is_dead(place) {
            add(Event::Adopt);
        }
        if is_like_an_earlier(world, state, place) {
            continue;
        }
        if done.restarts < most.restarts {
            add(Event::Restart(at));
        }
        if may_lose && done.put_back < most.put_back {
            add(Event::PutBack(at));
        }
        if may_lose && done.wiped < most.wiped {
            add(Event::Wipe(at));
        }
        if state.is_dead(place) {
            continue;
        }
        if done.kills < most.kills {
            add(Event::Kill(at));
        }
        if done.backups < most.backups && state.older[place] != state.nodes[place] {
            add(Event::BackUp(at));
        }
        if done.copies < most.copies && !world.node(state.nodes[place]).is_early() {
            add(Event::Copy(at));
        }
        if place >= config.alike || world.node(state.nodes[place]).is_early() {
            continue;
        }
        if state.done.proposals < most.proposals {
            add(Event::Propose(at));
        }
        if state.done.removals < most.removals {
            let others = (0..config.members).filter(|other| *other != place);
            others.for_each(|other| add(Event::Remove(at, other as u8)));
        }
        if most.writes > 0 && state.written.is_none() {
            add(Event::Write(at));
        }
    }
    if done.cuts < most.cuts {
        let choices = Links::choices(config.members).into_iter();
        choices
            .filter(|links| *links != state.links)
            .for_each(|links| add(Event::Link(links)));
    }
}

fn is_copy_of(world: &World<'_>, state: &State, at: u8) -> bool {
    let copy = state.nodes[COPY];
    copy != NodeId::MAX && world.node(copy).at == at
}

/// Whether nothing has happened to a member that never proposes, so that another one may stand for it.
fn is_fresh(world: &World<'_>, state: &State, at: usize) -> bool {
    at >= world.config.alike
        && state.nodes[at] == world.first[at]
        && state.older[at] == world.first[at]
}

/// Whether a member is like one before it, to which the same may happen.
fn is_like_an_earlier(world: &World<'_>, state: &State, at: usize) -> bool {
    is_fresh(world, state, at)
        && (world.config.alike..at).any(|other| {
            let same = state.links.swapped(other, at) == state.links;
            same && state.is_dead(other) == state.is_dead(at) && is_fresh(world, state, other)
        })
}

/// Of the states that differ only in members to which nothing has happened, always the same one.
fn canonical(world: &World<'_>, mut state: State) -> State {
    let fresh = (0..world.config.members).filter(|at| is_fresh(world, &state, *at));
    let fresh: Vec<usize> = fresh.collect();
    // Swaps of two reach the least order of these few.
    loop {
        let mut least = state;
        for (count, &high) in fresh.iter().enumerate() {
            for &low in &fresh[..count] {
                let mut other = state;
                other.links = state.links.swapped(low, high);
                let bits = [low, high].map(|at| state.dead >> at & 1);
                other.dead &= !(1 << low | 1 << high);
                other.dead |= bits[0] << high | bits[1] << low;
                if (other.dead, other.links) < (least.dead, least.links) {
                    least = other;
                }
            }
        }
        if least == state {
            return state;
        }
        state = least;
    }
}

/// One event, and the checks of the states after it.
pub(super) fn step(world: &mut World<'_>, state: &State, event: Event) -> Result<State, String> {
    let most = world.config.most;
    let mut after = *state;
    let add = |count: &mut u8, most: u8| *count += u8::from(most != ANY);
    let done = &mut after.done;
    match event {
        Event::Kill(_) => add(&mut done.kills, most.kills),
        Event::Restart(_) => add(&mut done.restarts, most.restarts),
        Event::PutBack(_) => add(&mut done.put_back, most.put_back),
        Event::Wipe(_) => add(&mut done.wiped, most.wiped),
        Event::BackUp(_) => add(&mut done.backups, most.backups),
        Event::Propose(_) => add(&mut done.proposals, most.proposals),
        Event::Remove(..) => add(&mut done.removals, most.removals),
        Event::Link(_) => add(&mut done.cuts, most.cuts),
        Event::Copy(_) => add(&mut done.copies, most.copies),
        Event::Write(_) | Event::Round | Event::Adopt => {}
    }
    let local = |world: &mut World<'_>, after: &mut State, at: u8, step| {
        let node = &mut after.nodes[usize::from(at)];
        *node = world.perform(*node, step)?;
        Ok::<(), String>(())
    };
    match event {
        Event::Kill(at) => after.dead |= 1 << at,
        Event::Restart(at) => {
            local(world, &mut after, at, Local::Restart)?;
            after.dead &= !(1 << at);
        }
        Event::PutBack(at) => {
            let place = usize::from(at);
            after.nodes[place] = world.put_back(after.nodes[place], after.older[place])?;
            after.dead &= !(1 << at);
        }
        Event::Wipe(at) => {
            local(world, &mut after, at, Local::Wipe)?;
            after.dead &= !(1 << at);
        }
        Event::BackUp(at) => after.older[usize::from(at)] = after.nodes[usize::from(at)],
        Event::Propose(at) => {
            local(world, &mut after, at, Local::Propose(state.proposed))?;
            if after.nodes != state.nodes {
                after.proposed += 1;
            }
        }
        Event::Remove(at, which) => local(world, &mut after, at, Local::Remove(which))?,
        Event::Write(at) => {
            local(world, &mut after, at, Local::Write)?;
            after.written = Some(world.wrote(after.nodes[usize::from(at)]));
        }
        Event::Link(links) => after.links = links,
        Event::Round => {
            let up = up(world, &after);
            round(world, &mut after, &up)?;
        }
        Event::Copy(at) => after.nodes[COPY] = world.copy(after.nodes[usize::from(at)])?,
        Event::Adopt => {
            let copy = std::mem::replace(&mut after.nodes[COPY], NodeId::MAX);
            let at = world.node(copy).at;
            after.nodes[usize::from(at)] = world.perform(copy, Local::Adopt)?;
            after.dead &= !(1 << at);
        }
    }
    look(world, &mut after)?;
    if world.config.pace == Pace::Events {
        let up = up(world, &after);
        quiet(world, &mut after, &up)?;
    }
    Ok(canonical(world, after))
}

/// The members that are up, and the copy.
fn up(world: &World<'_>, state: &State) -> Vec<usize> {
    let members = (0..world.config.members).filter(|at| !state.is_dead(*at));
    let copy = (state.nodes[COPY] != NodeId::MAX).then_some(COPY);
    members.chain(copy).collect()
}

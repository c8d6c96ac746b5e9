//! The laws of the state, over random histories from fixed seeds. They use nothing above the state, and run
//! with the features of the core and, in `tests/state-alone`, without any.

use super::build::{Cursor, END, Selection};
use super::delta::Delta;
use super::join::{Found, Judged};
use super::operation::Op;
use super::slot::{Base, NEVER};
use super::vector::VersionVector;
use super::*;
use crate::hash::mix;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

/// What tests of the layers above look at and set.
impl<I: KeyIndex> State<I> {
    pub(crate) fn set_clock(&mut self, number: u32, clock: u64) {
        self.clocks[number as usize] = clock;
    }

    pub(crate) fn drop_number(&mut self, writer: &WriterId) {
        self.numbers.remove(writer);
    }

    pub(crate) fn free_numbers(&self) -> &[u32] {
        &self.free
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Runs `body` for so many seeds. A failure prints its seed.
fn cases(count: u64, body: impl Fn(&mut Random)) {
    struct Seed(u64);
    impl Drop for Seed {
        fn drop(&mut self) {
            if std::thread::panicking() {
                std::eprintln!("seed {}", self.0);
            }
        }
    }
    for seed in 0..count {
        let named = Seed(seed);
        body(&mut Random(mix(seed)));
        drop(named);
    }
}

fn id(number: usize) -> WriterId {
    WriterId::from_bytes([number as u8; 16])
}

fn state(number: usize) -> State {
    State::new(Space::default(), id(number))
}

/// One operation as the layers above make it: in a draft, which is then normalized and put back.
fn apply(state: &mut State, key: &str, op: Op) -> bool {
    let handle = match op.creates() {
        true => Some(state.keys.find_or_insert(key).unwrap()),
        false => state.keys.find(key),
    };
    let Some(handle) = handle else { return false };
    let clock = state.clock() + 1;
    let mut slots = state.draft(handle).slots;
    let exists = counter::sum(&slots, &state.ids).exists();
    let act = state.act(clock);
    match op {
        Op::Add(by) => act.add(&mut slots, by).unwrap(),
        Op::Reset => act.cancel(&mut slots, Some(Base::Reset)),
        Op::Set(value) => act.cancel(&mut slots, Some(Base::Set(value))),
        _ if !exists => return false,
        Op::Delete => act.cancel(&mut slots, None),
        Op::Expire(at) => act.expire(&mut slots, at),
        Op::Persist => act.expire(&mut slots, NEVER),
    }
    counter::normalize(&mut slots);
    state.put_slots(handle, slots);
    state.clocks[OWN as usize] = clock;
    true
}

/// A part of a delta: what a selection picks, up to about `budget` bytes, and where it stopped.
fn part(state: &State, selection: &mut Selection<'_, Vec<u64>>, budget: usize) -> (Delta, Cursor) {
    let mut picked = state.select(selection, budget);
    selection.to = picked.stopped;
    let mut delta = Delta::default();
    let named = state.gather(selection, &mut picked.handles, &mut delta);
    let base = match budget {
        usize::MAX => selection.lows,
        _ => &picked.lows,
    };
    let table = (base, &named);
    state.assemble(selection, &picked.handles, &mut delta, table, &|_| false);
    (delta, picked.stopped)
}

/// The delta interval from `since` to the present.
fn delta(state: &State, since: &VersionVector) -> Delta {
    let lows = state.clocks_in(since);
    part(state, &mut Selection::all(&lows), usize::MAX).0
}

/// The whole state. Two states are equal if these are.
fn full(state: &State) -> Delta {
    delta(state, &VersionVector::default())
}

fn covers(state: &State, delta: &Delta) -> bool {
    delta
        .writers
        .iter()
        .all(|entry| entry.lo <= state.held(&entry.writer))
}

/// Joins several parts, and then moves the clocks to the ends of the last one. The result is how many shards
/// and records were installed.
fn join_parts(state: &mut State, parts: &[Delta], ends: &Delta) -> usize {
    let mut ignore = |_| ();
    let mut found = Found::new(state.numbers.len() == 1, &mut ignore);
    let judged = Judged {
        collects: false,
        forgotten: &[],
    };
    for part in parts {
        state.install(part, judged, &mut found).unwrap();
    }
    let (installed, odd) = (found.installed, found.odd);
    for handle in odd {
        let mut slots = state.slots(KeyId(handle));
        counter::normalize(&mut slots);
        state.put_slots(KeyId(handle), slots);
    }
    for entry in &ends.writers {
        let number = state.number(entry.writer) as usize;
        if entry.hi > state.clocks[number] {
            state.clocks[number] = entry.hi;
            state.note_moved(number as u32);
        }
    }
    installed
}

/// Joins a delta, whose low clocks must be covered.
fn join(state: &mut State, delta: &Delta) -> usize {
    assert!(covers(state, delta));
    join_parts(state, core::slice::from_ref(delta), delta)
}

/// The join of these states, at a replica that never writes.
fn joined(states: &[&Delta]) -> State {
    let mut all = state(255);
    for delta in states {
        join(&mut all, delta);
    }
    all
}

/// An operation that was made, and what its replica had seen before.
struct Event {
    writer: WriterId,
    clock: u64,
    key: String,
    op: Op,
    seen: VersionVector,
}

/// Some replicas with a shared past, each of which has seen a part of the others.
struct World {
    states: Vec<State>,
    keys: Vec<String>,
    events: Vec<Event>,
}

impl World {
    fn new(random: &mut Random, count: usize) -> World {
        let keys = match random.below(4) {
            0 => 1,
            1 | 2 => 1 + random.below(6),
            _ => 60 + random.below(80),
        };
        World {
            states: (1..=count).map(state).collect(),
            keys: (0..keys).map(|at| format!("key:{at}")).collect(),
            events: Vec::new(),
        }
    }

    /// Some steps of each replica: operations, and deltas of others since any vector.
    fn play(&mut self, random: &mut Random, steps: usize, adds_only: bool) {
        for _ in 0..steps {
            let at = random.below(self.states.len());
            if random.chance(25) {
                let (from, since) = (
                    random.below(self.states.len()),
                    random.below(self.states.len()),
                );
                let since = self.states[since].vector();
                let told = delta(&self.states[from], &since);
                let state = &mut self.states[at];
                let is_own =
                    |it: &super::delta::Entry| it.writer == state.writer() && it.hi > state.clock();
                let twin = told.writers.iter().any(is_own);
                if covers(state, &told) && !twin {
                    join(state, &told);
                }
                continue;
            }
            let key = self.keys[random.below(self.keys.len())].clone();
            let amount = random.below(9) as i64 - 4;
            let op = match random.below(10) {
                _ if adds_only => Op::Add(amount),
                0 => Op::Reset,
                1 | 2 => Op::Delete,
                3 => Op::Set(amount),
                4 => Op::Expire(1 + random.next() % 1_000),
                5 => Op::Persist,
                _ => Op::Add(amount),
            };
            let state = &mut self.states[at];
            let seen = state.vector();
            if apply(state, &key, op) {
                let (writer, clock) = (state.writer(), state.clock());
                self.events.push(Event {
                    writer,
                    clock,
                    key,
                    op,
                    seen,
                });
            }
        }
    }

    fn played(random: &mut Random, count: usize) -> World {
        let mut world = World::new(random, count);
        let steps = random.below(120);
        world.play(random, steps, false);
        world
    }

    /// The value by the definition of observed-remove: the adds and the greatest assignment that no visible
    /// cancel had observed.
    fn value(&self, key: &str, vector: &VersionVector) -> Option<i128> {
        let visible = |it: &&Event| it.key == key && it.clock <= vector.get(&it.writer);
        let visible: Vec<&Event> = self.events.iter().filter(visible).collect();
        let cancels = |it: &&&Event| matches!(it.op, Op::Reset | Op::Delete | Op::Set(_));
        let survives = |it: &&&Event| {
            let mut cancels = visible.iter().filter(cancels);
            !cancels.any(|by| it.clock <= by.seen.get(&it.writer))
        };
        let (mut sum, mut exists, mut base) = (0, false, None);
        for it in visible.iter().filter(survives) {
            let (is_set, value) = match it.op {
                Op::Add(by) => {
                    (sum, exists) = (sum + i128::from(by), true);
                    continue;
                }
                Op::Reset => (false, 0),
                Op::Set(value) => (true, value),
                _ => continue,
            };
            base = base.max(Some((is_set, it.clock, it.writer, value)));
        }
        let value = base.map_or(0, |it| i128::from(it.3));
        (exists || base.is_some()).then_some(sum + value)
    }

    fn check(&self, state: &State) {
        for key in &self.keys {
            let (is, must) = (state.value(key), self.value(key, &state.vector()));
            assert_eq!(is, must, "{key} at {:?}", state.vector());
        }
    }
}

/// Three states. In half of the cases two replicas write under one id, as a copied disk does.
fn three(random: &mut Random) -> [Delta; 3] {
    let mut world = World::new(random, 3);
    let steps = random.below(120);
    let is_forked = random.chance(50);
    if is_forked {
        world.states[1] = state(1);
    }
    world.play(random, steps, is_forked);
    [0, 1, 2].map(|at| full(&world.states[at]))
}

#[test]
fn a_join_is_commutative() {
    cases(300, |random| {
        let [a, b, _] = three(random);
        assert_eq!(full(&joined(&[&a, &b])), full(&joined(&[&b, &a])));
    });
}

#[test]
fn a_join_is_associative() {
    cases(300, |random| {
        let [a, b, c] = three(random);
        let left = full(&joined(&[&a, &b]));
        let right = full(&joined(&[&b, &c]));
        let all = full(&joined(&[&left, &c]));
        assert_eq!(all, full(&joined(&[&a, &right])));
        assert_eq!(all, full(&joined(&[&c, &b, &a])));
    });
}

#[test]
fn a_join_is_idempotent_and_its_clocks_only_grow() {
    cases(300, |random| {
        let [a, b, c] = three(random);
        let mut all = joined(&[&a]);
        for delta in [&b, &c] {
            let before = all.vector();
            join(&mut all, delta);
            assert!(all.vector().covers(&before));
        }
        let before = full(&all);
        for delta in [&a, &b, &c, &before] {
            join(&mut all, delta);
            assert_eq!(full(&all), before);
        }
        assert_eq!(join(&mut all, &before), 0);
    });
}

/// The join of a delta is the join of the state that it was taken from, wherever its low clocks are covered.
#[test]
fn a_delta_is_worth_the_whole_state() {
    cases(300, |random| {
        let world = World::played(random, 3);
        let [from, to, seen] = [0, 1, 2].map(|at| &world.states[at]);
        let [from_state, to_state] = [from, to].map(full);
        let whole = full(&joined(&[&to_state, &from_state]));
        for since in [VersionVector::default(), to.vector(), seen.vector()] {
            let told = delta(from, &since);
            let mut here = joined(&[&to_state]);
            if covers(&here, &told) {
                join(&mut here, &told);
                assert_eq!(full(&here), whole, "since {since:?}");
            }
        }
        // Neither side sends what both sides have.
        let told = delta(from, &joined(&[&whole]).vector());
        assert!(told.is_empty() && told.shard_count() == 0);
    });
}

/// Deltas of any interval arrive in any order and more than once. A delta that is not covered yet waits.
#[test]
fn intervals_in_any_order_give_the_state() {
    cases(200, |random| {
        let mut world = World::new(random, 3);
        let mut told = Vec::new();
        for _ in 0..4 {
            let since: Vec<_> = world.states.iter().map(State::vector).collect();
            world.play(random, 15, false);
            for state in &world.states {
                told.push(delta(state, &since[random.below(since.len())]));
            }
        }
        told.extend(world.states.iter().map(full));
        let ends: Vec<Delta> = world.states.iter().map(full).collect();
        let all = joined(&ends.iter().collect::<Vec<_>>());
        let mut here = state(254);
        let mut waiting: Vec<&Delta> = told.iter().chain(&told).collect();
        while !waiting.is_empty() {
            let next = waiting.swap_remove(random.below(waiting.len()));
            match covers(&here, next) {
                true => _ = join(&mut here, next),
                false => waiting.push(next),
            }
            world.check(&here);
        }
        assert_eq!(full(&here), full(&all));
    });
}

/// A state in parts, each of one column or a few, is the state.
#[test]
fn parts_joined_at_once_are_the_state() {
    cases(150, |random| {
        let world = World::played(random, 4);
        let ends: Vec<Delta> = world.states.iter().map(full).collect();
        let all = joined(&ends.iter().collect::<Vec<_>>());
        let lows = alloc::vec![0; all.clocks.len()];
        let mut from = Cursor::default();
        let mut parts = Vec::new();
        while from != END {
            let mut selection = Selection::all(&lows);
            selection.from = from;
            let budget = random.below(200);
            let (part, stopped) = part(&all, &mut selection, budget);
            assert!(stopped > from);
            parts.push(part);
            from = stopped;
        }
        let mut here = joined(&[&ends[random.below(ends.len())]]);
        join_parts(&mut here, &parts, &full(&all));
        assert_eq!(full(&here), full(&all));
    });
}

/// A reset, a delete and a set take away exactly what their replica had observed.
#[test]
fn a_cancel_removes_what_it_has_observed_and_nothing_else() {
    cases(600, |random| {
        let world = World::played(random, 3);
        for state in &world.states {
            world.check(state);
        }
        let ends: Vec<Delta> = world.states.iter().map(full).collect();
        world.check(&joined(&ends.iter().collect::<Vec<_>>()));
    });
}

/// Epochs alone find everything that changed since a moment.
#[test]
fn all_that_changed_since_an_epoch_is_told() {
    cases(200, |random| {
        let mut world = World::played(random, 3);
        for state in &mut world.states {
            state.epoch += 1;
        }
        let marks: Vec<_> = world.states.iter().map(|it| (it.epoch, full(it))).collect();
        world.play(random, 20, false);
        for (state, (epoch, before)) in world.states.iter().zip(&marks) {
            let mut here = joined(&[before]);
            let lows = state.clocks_in(&here.vector());
            let mut selection = Selection::all(&lows);
            selection.epoch = *epoch;
            let (told, _) = part(state, &mut selection, usize::MAX);
            join(&mut here, &told);
            assert_eq!(full(&here), full(state));
        }
    });
}

/// Each key has one id while it is pinned or its counter is there, and an id has one key.
#[test]
fn keys_and_their_ids_are_one_to_one() {
    cases(60, |random| {
        let mut here = state(1);
        let mut model: BTreeMap<String, KeyId> = BTreeMap::new();
        for _ in 0..400 {
            let length = 1 + random.below(40);
            let key = format!("{:0length$}", random.below(120));
            match model.get(&key).copied() {
                None => {
                    assert_eq!(here.keys.find(&key), None);
                    let handle = here.keys.find_or_insert(&key).unwrap();
                    here.keys.pin(handle);
                    model.insert(key, handle);
                }
                Some(handle) if random.chance(70) => {
                    assert_eq!(here.keys.unpin(handle), Ok(true));
                    here.forget_unused(handle);
                    model.remove(&key);
                }
                Some(handle) => assert_eq!(here.keys.find_or_insert(&key), Ok(handle)),
            }
            if random.chance(2) {
                here.shrink();
            }
        }
        let mut ids: Vec<KeyId> = model.values().copied().collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), model.len());
        for (key, handle) in &model {
            assert_eq!(here.keys.find(key), Some(*handle));
            assert_eq!(here.keys.get(*handle), Some(key.as_str()));
        }
        let bytes: usize = model.keys().map(String::len).sum();
        assert_eq!(here.keys.bytes(), bytes as u64);
        assert!(here.keys.find_or_insert("").is_err());
        let longest = "k".repeat(crate::bounds::KEY_BYTES_MAX);
        assert!(here.keys.find_or_insert(&longest).is_ok());
        assert!(
            here.keys
                .find_or_insert(&(longest.to_owned() + "k"))
                .is_err()
        );
    });
}

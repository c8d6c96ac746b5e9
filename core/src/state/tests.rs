//! The laws of the state, over random histories from fixed seeds. They use nothing above the state, and run
//! with the features of the core and, in `tests/state-alone`, without any. Programs with members also retire
//! writers, withdraw adds and collect.

use super::build::{Cursor, END, Selection};
use super::delta::Delta;
#[cfg(feature = "guests")]
use super::operation::Op;
use super::vector::VersionVector;
use super::*;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use world::*;

mod world;

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

/// The join of these states, at a replica that never writes.
fn joined(states: &[&Delta], above: &Above) -> State {
    let mut all = state(255);
    for delta in states {
        join(&mut all, delta, above);
    }
    all
}

/// What the join of these states comes to.
fn settled_join(states: &[&Delta], above: &Above) -> Delta {
    settled(&joined(states, above), above)
}

/// Three states of a space that may collect, and what the layers above know of them. In half of the cases
/// where it does not collect, two replicas write under one id, as a copied disk does.
fn three(random: &mut Random) -> ([Delta; 3], Above) {
    let count = 3 + random.below(3);
    let mut world = World::new(random, count);
    let steps = random.below(40 * count);
    let is_forked = !world.above.collects && random.chance(50);
    if is_forked {
        world.states[1] = state(1);
    }
    world.play(random, steps, is_forked);
    let states = [0, 1, 2].map(|at| full(&world.states[at]));
    (states, world.above)
}

#[test]
fn a_join_is_commutative() {
    cases(300, |random| {
        let ([a, b, _], above) = three(random);
        let join = |states: &[&Delta]| settled_join(states, &above);
        assert_eq!(join(&[&a, &b]), join(&[&b, &a]));
    });
}

#[test]
fn a_join_is_associative() {
    cases(300, |random| {
        let ([a, b, c], above) = three(random);
        let join = |states: &[&Delta]| settled_join(states, &above);
        let left = full(&joined(&[&a, &b], &above));
        let right = full(&joined(&[&b, &c], &above));
        let all = join(&[&left, &c]);
        assert_eq!(all, join(&[&a, &right]));
        assert_eq!(all, join(&[&c, &b, &a]));
    });
}

#[test]
fn a_join_is_idempotent_and_its_clocks_only_grow() {
    cases(300, |random| {
        let ([a, b, c], above) = three(random);
        let mut all = joined(&[&a], &above);
        for delta in [&b, &c] {
            let before = all.vector();
            join(&mut all, delta, &above);
            assert!(all.vector().covers(&before));
        }
        let before = full(&all);
        for delta in [&a, &b, &c, &before] {
            join(&mut all, delta, &above);
            assert_eq!(full(&all), before);
        }
        assert_eq!(join(&mut all, &before, &above), 0);
    });
}

/// The join of a delta is the join of the state that it was taken from, wherever its low clocks are covered.
#[test]
fn a_delta_is_worth_the_whole_state() {
    cases(300, |random| {
        let world = World::played(random, 3);
        let [from, to, seen] = [0, 1, 2].map(|at| &world.states[at]);
        let [from_state, to_state] = [from, to].map(full);
        let whole = joined(&[&to_state, &from_state], &world.above);
        for since in [VersionVector::default(), to.vector(), seen.vector()] {
            let told = delta(from, &since);
            let mut here = joined(&[&to_state], &world.above);
            if covers(&here, &told) {
                join(&mut here, &told, &world.above);
                let (here, whole) = (settled(&here, &world.above), settled(&whole, &world.above));
                assert_eq!(here, whole, "since {since:?}");
            }
        }
        // Neither side sends what both sides have.
        let told = delta(from, &whole.vector());
        assert!(told.is_empty() && told.shard_count() == 0);
    });
}

/// Deltas of any interval arrive in any order and more than once. A delta that is not covered yet waits.
#[test]
fn intervals_in_any_order_give_the_state() {
    cases(200, |random| {
        let mut world = World::new(random, 3);
        world.sweeps = false; // A replica that nobody waits for may lack what was collected.
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
        let all = joined(&ends.iter().collect::<Vec<_>>(), &world.above);
        let mut here = state(254);
        let mut waiting: Vec<&Delta> = told.iter().chain(&told).collect();
        while !waiting.is_empty() {
            let next = waiting.swap_remove(random.below(waiting.len()));
            match covers(&here, next) {
                true => _ = join(&mut here, next, &world.above),
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
        let all = joined(&ends.iter().collect::<Vec<_>>(), &world.above);
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
        let mut here = joined(&[&ends[random.below(ends.len())]], &world.above);
        join_parts(&mut here, &parts, &full(&all), &world.above);
        assert_eq!(settled(&here, &world.above), settled(&all, &world.above));
    });
}

/// A reset, a delete and a set take away exactly what their replica had observed, and a withdrawal one add. A
/// retirement and a collection change no value.
#[test]
fn a_cancel_removes_what_it_has_observed_and_nothing_else() {
    cases(600, |random| {
        let world = World::played(random, 3);
        for state in &world.states {
            world.check(state);
        }
        let ends: Vec<Delta> = world.states.iter().map(full).collect();
        let all = joined(&ends.iter().collect::<Vec<_>>(), &world.above);
        world.check(&all);
    });
}

/// A space of one counter, whose replicas add and have everything.
#[cfg(feature = "guests")]
fn adders(random: &mut Random, count: usize) -> World {
    let mut world = World::new(random, count);
    world.above.collects = true;
    for at in 0..count {
        world.operate(at, "key:0", Op::Add(1 << at));
    }
    all_catch_up(&mut world);
    world
}

#[cfg(feature = "guests")]
fn all_catch_up(world: &mut World) {
    (0..world.states.len()).for_each(|at| world.catch_up(at));
}

/// One replica collected after each of two retirements, and the other one after the first alone.
#[cfg(feature = "guests")]
#[test]
fn of_two_folds_the_later_one_stays() {
    cases(1, |random| {
        let mut world = adders(random, 4);
        world.retire(0, 1);
        all_catch_up(&mut world);
        world.sweep(0);
        world.sweep(2);
        world.retire(0, 3);
        all_catch_up(&mut world);
        world.sweep(0);
        let [later, earlier] = [0, 2].map(|at| full(&world.states[at]));
        assert_ne!(later, earlier);
        for states in [[&later, &earlier], [&earlier, &later]] {
            let all = joined(&states, &world.above);
            world.check(&all);
            assert_eq!(settled(&all, &world.above), later);
        }
    });
}

/// Two replicas withdraw it, neither of which has seen the other.
#[cfg(feature = "guests")]
#[test]
fn an_add_that_two_withdraw_is_taken_out_once() {
    cases(1, |random| {
        let mut world = adders(random, 3);
        world.withdraw(1, 0);
        world.withdraw(2, 0);
        let [one, two] = [1, 2].map(|at| full(&world.states[at]));
        let all = [[&one, &two], [&two, &one]].map(|states| joined(&states, &world.above));
        world.check(&all[0]);
        assert_eq!(full(&all[0]), full(&all[1]));
    });
}

/// Epochs alone find everything that changed since a moment.
#[test]
fn all_that_changed_since_an_epoch_is_told() {
    cases(200, |random| {
        let mut world = World::played(random, 3);
        for state in &mut world.states {
            state.begin_epoch();
        }
        let marks: Vec<_> = world.states.iter().map(|it| (it.epoch, full(it))).collect();
        world.sweeps = false; // The replicas of before are not waited for.
        world.play(random, 20, false);
        for (state, (epoch, before)) in world.states.iter().zip(&marks) {
            let mut here = joined(&[before], &world.above);
            let lows = state.clocks_in(&here.vector());
            let mut selection = Selection::all(&lows);
            selection.epoch = *epoch;
            let (told, _) = part(state, &mut selection, usize::MAX);
            join(&mut here, &told, &world.above);
            let [here, must] = [&here, state].map(|it| settled(it, &world.above));
            assert_eq!(here, must);
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
                    let key_id = here.keys.find_or_insert(&key).unwrap();
                    here.keys.pin(key_id);
                    model.insert(key, key_id);
                }
                Some(key_id) if random.chance(70) => {
                    assert_eq!(here.keys.unpin(key_id), Ok(true));
                    here.forget_unused(key_id);
                    model.remove(&key);
                }
                Some(key_id) => assert_eq!(here.keys.find_or_insert(&key), Ok(key_id)),
            }
            if random.chance(2) {
                here.shrink();
            }
        }
        let mut ids: Vec<KeyId> = model.values().copied().collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), model.len());
        for (key, key_id) in &model {
            assert_eq!(here.keys.find(key), Some(*key_id));
            assert_eq!(here.keys.get(*key_id), Some(key.as_str()));
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

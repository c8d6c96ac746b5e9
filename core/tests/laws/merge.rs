//! Merge is a join: commutative, associative, idempotent, and nothing ever goes back.

use crate::support::{Random, cases, forked_world, full, joined, observer, shards, world};
use std::collections::BTreeSet;
use tallymesh_core::{Evidence, Fault, Message, Replica};
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// Three states, in some cases of forked writers.
fn three(random: &mut Random) -> Vec<Message> {
    let replicas = match random.chance(50) {
        true => world(random, 3).0,
        false => forked_world(random, 4),
    };
    replicas.iter().rev().take(3).map(full).collect()
}

fn bytes(states: &[&Message]) -> Vec<u8> {
    joined(states).canonical_bytes()
}

#[test]
fn merge_is_commutative() {
    cases(600, |random| {
        let states = three(random);
        let (a, b) = (&states[0], &states[1]);
        assert_eq!(bytes(&[a, b]), bytes(&[b, a]));
    });
}

#[test]
fn merge_is_associative() {
    cases(600, |random| {
        let states = three(random);
        let (a, b, c) = (&states[0], &states[1], &states[2]);
        let left = full(&joined(&[a, b]));
        let right = full(&joined(&[b, c]));
        assert_eq!(bytes(&[&left, c]), bytes(&[a, &right]));
        assert_eq!(bytes(&[&left, c]), bytes(&[c, b, a]));
    });
}

#[test]
fn merge_is_idempotent() {
    cases(600, |random| {
        let states = three(random);
        let mut replica = joined(&[&states[0], &states[1]]);
        let before = replica.canonical_bytes();
        for state in [&states[1], &states[0], &full(&replica)] {
            let merged = replica.merge(state).unwrap();
            assert_eq!((merged.shards, merged.new), (0, false));
        }
        assert_eq!(replica.canonical_bytes(), before);
    });
}

#[test]
fn merge_is_monotone() {
    cases(600, |random| {
        let mut replica = observer();
        for state in &three(random) {
            let (vector, before) = (replica.vector(), shards(&replica));
            let mut named = Vec::new();
            let merged = replica
                .merge_with(state, None, &mut |key_id| named.push(key_id))
                .unwrap();
            assert!(replica.vector().covers(&vector));
            assert_eq!(merged.new, replica.vector() != vector);
            let after = shards(&replica);
            for (at, shard) in &before {
                assert!(after[at] >= *shard, "{at:?} went back");
            }
            for (at, shard) in &after {
                let key_id = replica.key_id(&at.0).unwrap();
                let same = before.get(at) == Some(shard);
                assert!(same || named.contains(&key_id), "{at:?} changed unnamed");
            }
        }
    });
}

/// Whoever merges whom, and in whatever shape the keys stand in memory.
#[test]
fn merging_both_ways_gives_one_state() {
    cases(400, |random| {
        let (replicas, history) = world(random, 2);
        let [mut a, mut b] = <[Replica; 2]>::try_from(replicas).ok().unwrap();
        let (state_a, state_b) = (full(&a), full(&b));
        a.merge(&state_b).unwrap();
        b.merge(&state_a).unwrap();
        assert_eq!(a.canonical_bytes(), b.canonical_bytes());
        assert_eq!(a.digest(), b.digest());
        assert_eq!(a.forks().fault_count(), 0);
        history.check(&a);
        history.check(&b);
    });
}

#[test]
fn a_fork_is_reported_and_the_greater_total_stands() {
    cases(300, |random| {
        let twins = forked_world(random, 2);
        let (one, two) = (shards(&twins[0]), shards(&twins[1]));
        let forks: Vec<_> = one
            .iter()
            .filter_map(|(at, ours)| Some((at, *ours, *two.get(at)?)))
            .filter(|(_, ours, theirs)| ours.0 == theirs.0 && ours.1 != theirs.1)
            .collect();
        let replica = joined(&[&full(&twins[0]), &full(&twins[1])]);
        // What only one of the twins made is told of once a writer.
        let late = |fault: &&Fault| matches!(fault.evidence, Evidence::Late { .. });
        let late = replica.forks().faults().iter().filter(late).count();
        assert_eq!(replica.forks().fault_count(), (forks.len() + late) as u64);
        let after = shards(&replica);
        for (at, ours, theirs) in &forks {
            assert_eq!(after[*at], *ours.max(theirs));
        }
        for Fault {
            writer,
            clock,
            evidence,
        } in replica.forks().faults()
        {
            let Evidence::Totals { key, ours, theirs } = evidence else {
                continue;
            };
            let [ours, theirs] = [ours, theirs].map(|total| (*clock, *total as i64));
            assert!(forks.contains(&(&(key.to_string(), *writer), ours, theirs)));
        }
        let kept = replica.forks().faults().len();
        assert!((forks.len().min(64)..=64).contains(&kept), "{kept}");
    });
}

/// Whoever watches counters hears of those that a merge changed, and of no others.
#[test]
fn a_merge_names_each_counter_that_it_changed() {
    cases(400, |random| {
        let states: Vec<Message> = world(random, 3).0.iter().map(full).collect();
        let mut replica = joined(&[&states[0]]);
        for state in &states[1..] {
            let before = shards(&replica);
            let mut named = BTreeSet::new();
            let mut changed = |key_id| assert!(named.insert(key_id), "twice");
            replica.merge_with(state, None, &mut changed).unwrap();
            let after = shards(&replica);
            let news = after
                .iter()
                .filter(|(at, shard)| before.get(*at) != Some(shard));
            let news: BTreeSet<&str> = news.map(|((key, _), _)| key.as_str()).collect();
            let named = named.iter().map(|key_id| replica.key(*key_id).unwrap());
            assert_eq!(named.collect::<BTreeSet<_>>(), news);
        }
    });
}

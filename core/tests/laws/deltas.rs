//! Deltas in any order, and marks, give the full state and never show anything but a causal cut.

use crate::support::{cases, joined, keys, observer, replica, world};
use tallymesh_core::{Encode, Error, Mark, MergeError, Message, Missing, Replica, VersionVector};
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// Deltas taken at any time since any vector of the past come in any order, repeatedly.
#[test]
fn deltas_in_any_order_give_the_full_state() {
    cases(300, |random| {
        let (mut replicas, mut history) = world(random, 3);
        let keys = keys(random);
        let mut vectors = vec![VersionVector::default()];
        let mut messages: Vec<Message> = Vec::new();
        for _ in 0..random.below(60) {
            let at = random.below(3);
            match random.below(4) {
                0 | 1 => {
                    let (key, by) = (random.pick(&keys), random.amount());
                    history.add(&mut replicas[at], key, by);
                }
                2 => {
                    vectors.push(replicas[at].vector());
                    messages.push(replicas[at].delta(random.pick(&vectors)));
                }
                _ if messages.is_empty() => {}
                _ => match replicas[at].merge(random.pick(&messages)) {
                    Ok(_) | Err(Error::Merge(MergeError::NotCovered { .. })) => {
                        history.check(&replicas[at])
                    }
                    Err(error) => panic!("{error}"),
                },
            }
        }
        // Every gap can be closed, since the full state of each is among them.
        messages.extend(replicas.iter().map(|r| r.delta(&VersionVector::default())));
        let mut expected = observer();
        for message in &messages {
            let _ = expected.merge(message);
        }
        let mut receiver = observer();
        let mut waiting: Vec<&Message> = messages.iter().chain(&messages).collect();
        while !waiting.is_empty() {
            random.shuffle(&mut waiting);
            waiting.retain(|message| {
                let before = receiver.canonical_bytes();
                let result = receiver.merge(message);
                history.check(&receiver);
                match result {
                    Ok(_) => false,
                    Err(Error::Merge(MergeError::NotCovered { .. })) => {
                        assert_eq!(receiver.canonical_bytes(), before);
                        true
                    }
                    Err(error) => panic!("{error}"),
                }
            });
        }
        assert_eq!(receiver.canonical_bytes(), expected.canonical_bytes());
    });
}

/// A delta says what is missing, and nothing else.
#[test]
fn a_delta_is_what_the_other_lacks() {
    cases(300, |random| {
        let (replicas, _) = world(random, 2);
        let delta = replicas[0].delta(&replicas[1].vector());
        let mut other = replicas[1].clone();
        let missing = |replica: &Replica| {
            let held = replicas[1].vector();
            let new = |(key_id, _)| {
                let shards = replica.shards(key_id);
                shards.filter(|s| s.clock > held.get(&s.writer)).count()
            };
            replica.counters().map(new).sum::<usize>()
        };
        assert_eq!(delta.shard_count(), missing(&replicas[0]));
        let merged = other.merge(&delta).unwrap();
        assert_eq!(merged.shards, delta.shard_count());
        assert_eq!(merged.new, !delta.is_empty());
        assert!(replicas[0].delta(&other.vector()).is_empty());
        assert_eq!(replicas[0].delta(&other.vector()).shard_count(), 0);
    });
}

/// What a store appends, merged in order, is the state; several marks do not disturb each other.
#[test]
fn records_since_a_mark_replay_to_the_state() {
    cases(300, |random| {
        let (others, mut history) = world(random, 2);
        let keys = keys(random);
        let mut source = replica(77);
        let mut marks = [Mark::default(), Mark::default(), Mark::default()];
        let mut logs: [Vec<Vec<u8>>; 3] = Default::default();
        let mut last = [source.vector(), source.vector(), source.vector()];
        for _ in 0..random.below(80) {
            match random.below(6) {
                0 => drop(source.merge(&random.pick(&others).delta(&source.vector()))),
                1..=3 => {
                    let (key, by) = (random.pick(&keys), random.amount());
                    history.add(&mut source, key, by);
                }
                _ => {
                    let at = random.below(marks.len());
                    let message = source.since(&mut marks[at]);
                    assert_eq!(message.is_some(), source.vector() != last[at]);
                    last[at] = source.vector();
                    logs[at].extend(message.map(|message| message.encode()));
                }
            }
        }
        for (mark, log) in marks.iter_mut().zip(&mut logs) {
            log.extend(source.since(mark).map(|message| message.encode()));
            assert_eq!(source.since(mark), None);
            let mut replayed = observer();
            for record in log.iter() {
                replayed
                    .merge(&Message::decode_stored(record).unwrap())
                    .unwrap();
                history.check(&replayed);
            }
            assert_eq!(replayed.canonical_bytes(), source.canonical_bytes());
        }
    });
}

/// A message is applied as a whole or not at all.
#[test]
fn what_a_message_builds_on_must_be_held() {
    let mut source = replica(1);
    source.add("a", 1).unwrap();
    let since = source.vector();
    source.add("b", 2).unwrap();
    let later = source.delta(&since);
    let mut receiver = observer();
    let refused = Error::Merge(MergeError::NotCovered(Box::new(Missing {
        writer: source.writer(),
        needed: 1,
        held: 0,
    })));
    assert_eq!(receiver.merge(&later), Err(refused));
    assert_eq!((receiver.value("b"), receiver.len()), (None, 0));
    receiver.merge(&source.delta(&receiver.vector())).unwrap();
    assert_eq!(receiver.value("b"), Some(2));
    assert_eq!(joined(&[]).canonical_bytes(), [0, 0, 0, 0]);
}

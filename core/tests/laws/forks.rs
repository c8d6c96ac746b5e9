//! Writer ids in two hands: digests tell them, merging heals them, and a replica leaves its own.

use crate::support::{Random, cases, forked_world, full, joined, keys, observer, replica, writer};
use tallymesh_core::{Evidence, Mark, Message, Op, Replica, VersionVector};
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

fn op(random: &mut Random) -> Op {
    match random.below(10) {
        0 => Op::Reset,
        1 => Op::Delete,
        2 => Op::Set(random.amount()),
        3 => Op::Expire(random.next() >> 24),
        4 => Op::Persist,
        _ => Op::Add(random.below(9) as i64 - 4),
    }
}

/// Makes operations at random replicas, which hear of each other now and then: of all that is new,
/// or once more of everything that was some time ago.
fn play(random: &mut Random, replicas: &mut [Replica], keys: &[String], steps: usize) {
    let mut old: Vec<Message> = Vec::new();
    for _ in 0..steps {
        let at = random.below(replicas.len());
        match random.below(6) {
            0 => old.push(full(&replicas[at])),
            1 if !old.is_empty() => drop(replicas[at].merge(random.pick(&old))),
            2 => {
                let delta = replicas[random.below(replicas.len())].delta(&replicas[at].vector());
                let _ = replicas[at].merge(&delta); // refused if a twin is ahead
            }
            _ => {
                let key: &String = random.pick(keys);
                let _ = replicas[at].apply(key, op(random)); // refused if it overflows
            }
        }
    }
}

/// Everybody hears of everything, until nobody learns anything.
fn meet(replicas: &mut [Replica]) {
    for _ in 0..2 {
        for from in 0..replicas.len() {
            let state = full(&replicas[from]);
            for replica in &mut *replicas {
                replica.merge(&state).unwrap();
            }
        }
    }
}

fn replayed(log: &[Message]) -> Replica {
    joined(&log.iter().collect::<Vec<_>>())
}

/// The contents follow from the version vector, in whatever order the keys stand in memory, and
/// however often the digest was asked for on the way; and nobody is taken for forked who is not.
#[test]
fn equal_vectors_have_equal_contents() {
    cases(400, |random| {
        let keys = keys(random);
        let mut replicas: Vec<Replica> = (0..3).map(replica).collect();
        for _ in 0..3 {
            let steps = random.below(40);
            play(random, &mut replicas, &keys, steps);
            let at = random.below(3);
            replicas[at].forks_mut().content_digest();
        }
        meet(&mut replicas);
        let contents = replicas[0].forks().contents();
        let digest = replicas[0].forks_mut().content_digest();
        let sum = contents.iter().fold(0u64, |sum, it| {
            sum.wrapping_add(it.shards).wrapping_add(it.cancels)
        });
        assert_eq!(sum, digest);
        for replica in &mut replicas {
            assert_eq!(replica.forks().contents(), contents);
            assert_eq!(replica.forks_mut().content_digest(), digest);
            assert_eq!(replica.forks().faults(), []);
        }
        let mut other = joined(&[&full(&replicas[0])]);
        assert_eq!(
            (other.forks().contents(), other.forks_mut().content_digest()),
            (contents, digest)
        );
    });
}

/// A writer's shards follow from its own clock, whatever else is held.
#[test]
fn equal_clocks_have_equal_shards() {
    cases(300, |random| {
        let keys = keys(random);
        let mut replicas: Vec<Replica> = (0..4).map(replica).collect();
        play(random, &mut replicas, &keys, 120);
        for one in &replicas {
            for two in &replicas {
                for it in one.forks().contents() {
                    let same = |other: &&_| {
                        let other: &tallymesh_core::Contents = other;
                        (other.writer, other.clock) == (it.writer, it.clock)
                    };
                    if let Some(other) = two.forks().contents().iter().find(same) {
                        assert_eq!(it.shards, other.shards);
                    }
                }
            }
        }
    });
}

/// Replicas of equal vectors and different bytes have different digests; merging whole states makes
/// them equal, is reported, and reaches the log.
#[test]
fn a_fork_shows_in_the_digest_and_heals() {
    cases(400, |random| {
        let mut twins = match random.chance(50) {
            true => forked_world(random, 2),
            false => {
                let keys = keys(random);
                let mut replicas: Vec<Replica> = [1, 1, 2].map(replica).into();
                play(random, &mut replicas, &keys, 60);
                replicas
            }
        };
        // Whoever is behind is brought up to the other's clock by others' eyes.
        let mut seen: Vec<Replica> = twins.iter_mut().map(|it| joined(&[&full(it)])).collect();
        let all = VersionVector::default();
        let mut logs = Vec::new();
        for at in 0..seen.len() {
            let mut mark = Mark::default();
            let mut log = vec![seen[at].since(&mut mark)];
            for from in 0..seen.len() {
                let whole = seen[from].delta(&all);
                seen[at].merge(&whole).unwrap();
                log.push(seen[at].since(&mut mark));
            }
            logs.push((log, mark));
        }
        meet(&mut seen);
        let bytes = seen[0].canonical_bytes();
        let digest = seen[0].forks_mut().content_digest();
        for (at, (mut log, mut mark)) in logs.into_iter().enumerate() {
            assert_eq!(seen[at].canonical_bytes(), bytes);
            assert_eq!(seen[at].forks_mut().content_digest(), digest);
            log.push(seen[at].since(&mut mark));
            let log: Vec<Message> = log.into_iter().flatten().collect();
            assert_eq!(replayed(&log).canonical_bytes(), bytes);
        }
        for twin in &mut twins {
            let mut twin = joined(&[&full(twin)]);
            if twin.digest() == seen[0].digest() {
                let equal = twin.canonical_bytes() == bytes;
                assert_eq!(twin.forks_mut().content_digest() == digest, equal);
            }
        }
    });
}

#[test]
fn what_comes_late_is_reported_once() {
    let mut one = replica(1);
    let mut two = replica(1);
    for (twin, key) in [(&mut one, "a"), (&mut two, "b")] {
        twin.add(key, 1).unwrap();
        twin.add(key, 1).unwrap();
        twin.add("c", 1).unwrap();
    }
    let mut seen = joined(&[&full(&one)]);
    let mut mark = Mark::default();
    seen.since(&mut mark);
    assert_eq!(seen.value("b"), None);
    seen.merge(&full(&two)).unwrap();
    assert_eq!([seen.value("a"), seen.value("b")], [Some(2), Some(2)]);
    assert_eq!(seen.value("c"), Some(1));
    let [fault] = seen.forks().faults() else {
        panic!("{:?}", seen.forks().faults())
    };
    assert_eq!((fault.writer, fault.clock), (one.writer(), 2));
    let key = "b".into();
    assert_eq!(fault.evidence, Evidence::Late { key });
    let record = seen.since(&mut mark).expect("it is to be stored");
    assert!(record.shard_count() > 0);
    assert_eq!(seen.since(&mut mark), None);
    seen.merge(&full(&two)).unwrap();
    assert_eq!(seen.forks().fault_count(), 1);
}

/// Also on a later page, and where both know the same counters.
#[test]
fn what_comes_late_is_reported_with_its_counter() {
    let mut twins = [replica(1), replica(1)];
    for (twin, last) in twins.iter_mut().zip([0, 65]) {
        for at in (0..70).chain([last]) {
            twin.add(&format!("k{at:02}"), 1).unwrap();
        }
    }
    let mut seen = joined(&[&full(&twins[0])]);
    seen.merge(&full(&twins[1])).unwrap();
    let [fault] = seen.forks().faults() else {
        panic!("{:?}", seen.forks().faults())
    };
    let key = "k65".into();
    assert_eq!(fault.evidence, Evidence::Late { key });
    assert_eq!((fault.clock, seen.value("k65")), (71, Some(2)));
}

/// A replica that goes on under another id keeps all that it has, and its log, its pushes and its
/// deltas go on.
#[test]
fn another_id_changes_nothing_else() {
    cases(300, |random| {
        let keys = keys(random);
        let mut replicas: Vec<Replica> = (0..3).map(replica).collect();
        let steps = random.below(60);
        play(random, &mut replicas, &keys, steps);
        let mut mark = Mark::default();
        let mut log: Vec<Message> = replicas[0].since(&mut mark).into_iter().collect();
        let steps = random.below(20);
        play(random, &mut replicas, &keys, steps);
        let before = (
            replicas[0].canonical_bytes(),
            replicas[0].forks_mut().content_digest(),
        );
        let old = (replicas[0].writer(), replicas[0].clock());
        assert!(replicas[0].forks_mut().renew(writer(7)));
        assert_eq!((replicas[0].writer(), replicas[0].clock()), (writer(7), 0));
        assert_eq!(replicas[0].vector().get(&old.0), old.1);
        let after = (
            replicas[0].canonical_bytes(),
            replicas[0].forks_mut().content_digest(),
        );
        assert_eq!(before, after);
        assert!(!replicas[0].forks_mut().renew(old.0), "an id that is known");
        if random.chance(50) {
            log.extend(replicas[0].since(&mut mark));
        }
        let steps = random.below(60);
        play(random, &mut replicas, &keys, steps);
        log.extend(replicas[0].since(&mut mark));
        let bytes = replicas[0].canonical_bytes();
        assert_eq!(replayed(&log).canonical_bytes(), bytes);
        meet(&mut replicas);
        let mut late = observer();
        late.merge(&full(&replicas[0])).unwrap();
        for replica in &replicas {
            assert_eq!(replica.canonical_bytes(), late.canonical_bytes());
            assert_eq!(replica.forks().faults(), []);
        }
    });
}

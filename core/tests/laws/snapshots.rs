//! Snapshots in parts, of more counters than fit on a page: what is taken back from them is what is
//! taken back from a snapshot of one piece.

use crate::support::{Random, cases, keys, observer, replica, space, world, writer};
use std::cell::Cell;
use tallymesh_core::{
    DecodeError, Encode, Error, Mark, MergeError, Message, Op, Part, Replica, Restoring, Rule,
    Snapshot,
};
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

fn op(random: &mut Random) -> Op {
    match random.below(12) {
        0 => Op::Reset,
        1 => Op::Delete,
        2 => Op::Set(random.amount()),
        3 => Op::Expire(random.next() >> 24),
        4 => Op::Persist,
        _ => Op::Add(random.below(9) as i64 - 4),
    }
}

/// Takes a snapshot back, each part as it was stored.
fn restored(parts: &[Message]) -> Result<Replica, Error> {
    let stored = |part: &Message| Message::decode_stored(&part.encode_stored()).unwrap();
    let (last, before) = parts.split_last().unwrap();
    let mut restoring = Restoring::new(space(), writer(u64::MAX)).with_room(100);
    for part in before {
        restoring = restoring.take(&stored(part))?;
    }
    restoring.finish(&stored(last))
}

/// All parts of a snapshot, with this done before each but the first.
fn parts(
    replica: &mut Replica,
    bytes_target: usize,
    mut between: impl FnMut(&mut Replica),
) -> Vec<Message> {
    let mut snapshot = Snapshot::begin(replica);
    let mut parts = Vec::new();
    loop {
        assert!(parts.len() < 5_000, "it comes to no end");
        match snapshot.step(replica, bytes_target) {
            Part::More(part) => parts.push(part),
            Part::Last(part) => {
                parts.push(part);
                assert_eq!(snapshot.step(replica, 1), Part::Void);
                return parts;
            }
            Part::Void => panic!("nothing happened that makes it void"),
        }
        between(replica);
    }
}

/// Of each counter the table of keys knows at least where its key stands, which takes 8 bytes.
#[test]
fn memory_is_set_aside_for_as_many_counters_as_asked() {
    let last = parts(&mut observer(), 1, |_| ()).pop().unwrap();
    let held = |counters| {
        let restoring = Restoring::new(space(), writer(u64::MAX)).with_room(counters);
        restoring.finish(&last).unwrap().heap_bytes()
    };
    assert!(held(1_000) >= held(0) + 8_000);
}

#[test]
fn parts_are_the_state_of_the_moment_of_the_last_one() {
    cases(200, |random| {
        let (mut replicas, _) = world(random, 3);
        let keys = keys(random);
        let (bytes_target, busy) = (1 << random.below(14), random.below(20));
        let mut one = replicas.remove(0);
        let parts = parts(&mut one, bytes_target, |one| {
            for _ in 0..random.below(1 + busy) {
                let (at, key) = (random.below(3), random.pick(&keys).clone());
                let op = op(random);
                // Refused if it overflows.
                let _ = match replicas.get_mut(at) {
                    Some(other) => other.apply(&key, op),
                    None => one.apply(&key, op),
                };
                if random.chance(20) {
                    let delta = replicas[random.below(2)].delta(&one.vector());
                    one.merge(&delta).unwrap();
                }
            }
        });
        let mut mark = one.mark();
        let mut whole = observer();
        whole.restore(&one.snapshot()).unwrap();
        let mut again = restored(&parts).unwrap();
        assert_eq!(again.snapshot(), whole.snapshot());
        assert_eq!(again.canonical_bytes(), one.canonical_bytes());
        assert_eq!(
            again.forks_mut().content_digest(),
            one.forks_mut().content_digest()
        );
        // What comes after is restored as after any other state.
        for key in &keys {
            let _ = one.apply(key, op(random));
        }
        if let Some(record) = one.since(&mut mark) {
            again.restore(&record).unwrap();
        }
        assert_eq!(again.canonical_bytes(), one.canonical_bytes());
    });
}

/// A space that comes to have members while a snapshot of it is made, here or elsewhere.
#[test]
fn an_open_space_may_be_closed_between_two_parts() {
    let (runs, closed) = (Cell::new(0), Cell::new(0));
    cases(200, |random| {
        let (mut replicas, _) = world(random, 3);
        let keys = keys(random);
        let mut one = replicas.remove(0);
        let mut snapshot = Snapshot::begin(&one);
        let (mut parts, open) = (Vec::new(), random.chance(90));
        loop {
            assert!(parts.len() < 5_000, "it comes to no end");
            match snapshot.step(&one, 1 << random.below(12)) {
                Part::More(part) => parts.push(part),
                Part::Last(part) => {
                    parts.push(part);
                    break;
                }
                Part::Void => {
                    parts.clear();
                    snapshot = Snapshot::begin(&one);
                }
            }
            for _ in 0..random.below(6) {
                let (at, key) = (random.below(3), random.pick(&keys).clone());
                let replica = replicas.get_mut(at).unwrap_or(&mut one);
                match random.below(5) {
                    // Its owner is the space's first member; refused if there is one.
                    0 if open => drop(replica.members_mut().found(&[9; 32], &[at as u8; 16], 1)),
                    1 | 2 => {
                        let (other, live) = (&replicas[at % 2], replicas[at % 2].writer());
                        let delta = other.delta(&one.vector());
                        // Refused if one of them is not taken in there.
                        let _ = one.merge_with(&delta, Some(live), &mut |_| ());
                    }
                    _ => drop(replica.apply(&key, op(random))),
                }
            }
        }
        runs.set(runs.get() + 1);
        closed.set(
            closed.get() + usize::from(one.members().configuration().is_some() && parts.len() > 1),
        );
        let mut whole = observer();
        whole.restore(&one.snapshot()).unwrap();
        let again = restored(&parts).unwrap();
        assert_eq!(again.snapshot(), whole.snapshot());
        assert_eq!(again.canonical_bytes(), whole.canonical_bytes());
    });
    // A single one may be replayed.
    assert!(runs.get() == 1 || closed.get() > runs.get() / 10);
}

#[test]
fn a_part_is_about_as_large_as_is_asked_for() {
    let mut one = replica(1);
    for at in 0..1000 {
        one.add(&format!("counter:{at:05}"), at).unwrap();
    }
    // 13 bytes of a key, with 2 for its lengths and 5 for its shard, and 64 of them on a page.
    let page = 64 * 20;
    for (bytes_target, shards) in [(0, 64), (1, 64), (page, 128), (5 * page, 6 * 64)] {
        let parts = parts(&mut one, bytes_target, |_| ());
        // A second walk, which finds nothing, makes it a state of one moment.
        let (last, before) = parts.split_last().unwrap();
        assert_eq!(last.shard_count(), 0);
        let sizes: Vec<usize> = before.iter().map(Message::shard_count).collect();
        assert_eq!(sizes.iter().sum::<usize>(), 1000);
        assert!(sizes.iter().all(|size| *size <= shards), "{sizes:?}");
        assert_eq!(sizes[0], shards);
    }
    let whole = parts(&mut one, usize::MAX, |_| ());
    assert_eq!(whole, [one.snapshot()]);
}

#[test]
fn a_snapshot_ends_however_much_is_written() {
    let mut one = replica(1);
    let mut write = |one: &mut Replica| {
        for at in 0..1000 {
            one.add(&format!("counter:{at:05}"), at).unwrap();
        }
    };
    write(&mut one);
    // Each walk has parts twice as large, up to one of 20 kB.
    let parts = parts(&mut one, 0, &mut write);
    let walks = parts.iter().filter(|part| part.shard_count() == 1000);
    assert_eq!(walks.count(), 1);
    assert!((100..200).contains(&parts.len()), "{}", parts.len());
    let again = restored(&parts).unwrap();
    assert_eq!(again.canonical_bytes(), one.canonical_bytes());
}

#[test]
fn what_can_not_be_told_makes_a_snapshot_void() {
    let mut one = replica(1);
    for at in 0..100 {
        one.add(&format!("counter:{at:05}"), at).unwrap();
    }
    let mut begun = Snapshot::begin(&one);
    assert!(matches!(begun.step(&one, 1), Part::More(_)));
    // The writer's number is another one's now.
    assert!(one.forks_mut().renew(writer(2)));
    assert_eq!(begun.step(&one, 1), Part::Void);
    assert_eq!(begun.step(&one, 1), Part::Void);
    let parts = parts(&mut one, 1, |_| ());
    let again = restored(&parts).unwrap();
    assert_eq!(again.canonical_bytes(), one.canonical_bytes());
}

#[test]
fn parts_of_two_snapshots_are_not_taken_for_one() {
    let mut one = replica(1);
    for at in 0..100 {
        one.add(&format!("counter:{at:05}"), at).unwrap();
    }
    let old = parts(&mut one, 1, |_| ());
    let mut mark = Mark::default();
    one.since(&mut mark);
    one.add("one more", 1).unwrap();
    let record = one.since(&mut mark).unwrap();
    let new = parts(&mut one, 1, |_| ());
    let mixed = [&new[..1], &old[1..]].concat();
    let rule = Rule::ChunkCovered;
    assert_eq!(
        restored(&mixed).err(),
        Some(Error::Decode(DecodeError::Malformed { rule }))
    );
    // What builds on something is no last part.
    let built = [&old[..1], &[record]].concat();
    assert!(matches!(
        restored(&built),
        Err(Error::Merge(MergeError::NotCovered(_)))
    ));
    assert!(restored(&old).is_ok() && restored(&new).is_ok());
}

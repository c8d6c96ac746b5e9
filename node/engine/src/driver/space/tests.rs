//! The records that are given to the store contain everything that happened.

use super::*;
use crate::driver::origins::Origins;
use tallymesh_core::{KeyStatus, Once, Op};
use tallymesh_node_ground::model::{Operation, Sum};
use tallymesh_node_store::Memory;

/// How long idempotency keys are remembered.
const WINDOW: Duration = Duration::from_secs(3_600);

/// A space, and a replay of the records for its store.
struct Followed {
    space: OpenSpace,
    records: Vec<Record>,
}

impl Followed {
    fn new() -> Followed {
        let (owner, mut store) = ([7; 32], Memory::default());
        let load = OpenSpace::load(
            Space::default(),
            &owner,
            0,
            WINDOW,
            &mut store,
            false,
            (&mut Nonces::default(), &mut Places::default()),
        );
        Followed {
            space: load.expect("an empty store"),
            records: Vec::new(),
        }
    }

    /// Ends a batch, and collects the record for the store.
    fn keep(&mut self) {
        self.space.settle(0, &Origins::default());
        self.records.extend(self.space.record());
    }

    /// Compares the space with the replay of its records.
    fn check(&mut self, context: &str) {
        let mut replay = Replay::new(Space::default(), WriterId::from_bytes([1; 16]));
        for record in &self.records {
            let taken = replay.take(record.kind, &record.bytes);
            taken.expect("a record that can be used");
        }
        let mut replica = replay.end();
        let own = &mut self.space.replica;
        assert_eq!(replica.digest(), own.digest(), "{context}: clocks");
        let digests = [
            replica.forks_mut().content_digest(),
            own.forks_mut().content_digest(),
        ];
        assert_eq!(digests[0], digests[1], "{context}: contents");
    }
}

#[test]
fn a_counter_that_expired_unseen_is_given_to_the_store_whoever_meets_it() {
    for op in [Op::Delete, Op::Expire(50), Op::Persist] {
        let mut followed = Followed::new();
        let key = || "gone".to_owned();
        let made = [(key(), Op::Set(5)), (key(), Op::Expire(20))].map(Operation::from);
        followed.space.transact(&made, None).expect("well");
        followed.keep();
        followed.space.set_time(30);
        let done = followed
            .space
            .transact(&[(key(), op).into()], None)
            .expect("well");
        assert_eq!(done.done[0].now, None);
        followed.space.add("other".to_owned(), 1).expect("well");
        followed.keep();
        followed.check(&format!("{op:?}"));
    }
}

#[test]
fn a_key_is_known_for_the_window_also_to_the_next_process() {
    let minutes = |count: u64| count * 60_000;
    let once = |key: &str| Once::new(key.as_bytes(), b"");
    let mut followed = Followed::new();
    let add = |space: &mut OpenSpace, key: &str| {
        let ops = [("n".to_owned(), Op::Add(1)).into()];
        space
            .transact(&ops, Some(once(key).into()))
            .expect("well")
            .again
    };
    assert_eq!(followed.space.next_deadline(), None);
    assert!(!add(&mut followed.space, "early"));
    followed.space.tick(minutes(10));
    assert_eq!(followed.space.keys_due(), Some(minutes(11)));
    assert!(!add(&mut followed.space, "late"));
    for minute in 11..70 {
        followed.space.tick(minutes(minute));
        assert!(add(&mut followed.space, "early"), "{minute}");
    }
    followed.keep();
    followed.space.tick(minutes(70));
    assert_eq!(
        followed.space.replica.keyed().lookup(&once("early")),
        KeyStatus::New
    );
    assert!(add(&mut followed.space, "late"));
    followed.space.tick(minutes(71));
    assert!(!add(&mut followed.space, "late"), "it counts again");
    assert_eq!(
        followed.space.read("n".to_owned()).map(|it| it.now.value),
        Some(3)
    );
    let tally = followed.space.take_tally();
    assert_eq!((tally.keyed, tally.replayed, tally.reused), (3, 60, 0));
    // To the next process, all stored keys count as new.
    let mut store = Memory::default();
    store.commit(&followed.records).expect("well");
    let load = OpenSpace::load(
        Space::default(),
        &[7; 32],
        0,
        WINDOW,
        &mut store,
        false,
        (&mut Nonces::default(), &mut Places::default()),
    );
    let mut next = load.expect("what was kept");
    for minute in 0..60 {
        next.tick(minutes(minute));
        assert!(
            add(&mut next, "early") && add(&mut next, "late"),
            "{minute}"
        );
    }
    next.tick(minutes(60));
    assert_eq!((next.replica.keyed().count(), next.keys_due()), (0, None));
}

#[test]
fn whatever_happens_is_given_to_the_store() {
    let mut kinds = [0; 2];
    for seed in 0..200u64 {
        let mut random = seed;
        let mut below = |end: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % end
        };
        // Most batches of most runs have adds only.
        let rare = [4, 40, 400][seed as usize % 3];
        let mut followed = Followed::new();
        for time in 0..150 {
            let space = &mut followed.space;
            space.set_time(time);
            for _ in 0..below(4) {
                let key = format!("key-{}", below(40));
                let op = match below(6) {
                    0 => Op::Reset,
                    1 => Op::Delete,
                    2 => Op::Set(3),
                    3 => Op::Expire(time + below(5)),
                    4 => Op::Persist,
                    _ => Op::Add(1),
                };
                match below(rare) {
                    0 => drop(space.transact(&[(key, op).into()], None).expect("well")),
                    1 => {
                        let ops = [(key.clone(), op), ("both".into(), Op::Add(1)), (key, op)];
                        let ops = ops.map(Operation::from);
                        drop(space.transact(&ops, None).expect("well"));
                    }
                    2 => {
                        let sums = [key, "many".to_owned()].map(|key| Sum {
                            key,
                            by: 2,
                            line: 1,
                        });
                        space.add_many(&sums).expect("well");
                    }
                    _ => drop(space.add(key, 1).expect("well")),
                }
            }
            if below(2) == 0 {
                space.delete_expired(time);
            }
            followed.keep();
            if below(10) == 0 {
                followed.check(&format!("seed {seed}, time {time}"));
            }
        }
        followed.check(&format!("seed {seed}, at the end"));
        for record in &followed.records {
            kinds[usize::from(record.kind == Kind::Adds)] += 1;
        }
    }
    assert!(kinds.iter().all(|count| *count > 1_000), "{kinds:?}");
}

#[test]
fn how_many_counters_exist_is_counted_along() {
    let exact = |space: &mut OpenSpace, context: &str| {
        let sizes = space.sizes();
        assert_eq!(sizes.counters, space.replica.len(), "{context}");
        let expiring = space
            .replica
            .counters()
            .filter(|it| space.replica.expiry_at(it.0).is_some());
        let due = sizes.expiring - expiring.count();
        assert!(
            due == 0 || space.expiries.next().is_some_and(|at| at <= space.unix_ms),
            "{context}"
        );
    };
    for seed in 0..100u64 {
        let mut random = seed;
        let mut below = |end: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % end
        };
        let mut space = Followed::new().space;
        let mut peer = Followed::new().space.replica;
        let mut now = 1_000;
        for step in 0..150 {
            let key = format!("k{}", below(70));
            let op = match below(8) {
                0 => Op::Delete,
                1 => Op::Expire(now + below(50)),
                2 => Op::Persist,
                3 | 4 => Op::Set(below(9) as i64),
                _ => Op::Add(1),
            };
            match below(4) {
                0 => {
                    // A change of another replica is merged.
                    peer.set_time(now);
                    peer.apply(&key, op).expect("room");
                    let message = peer.snapshot();
                    space.replica.merge(&message).expect("a good message");
                    let changed: Vec<KeyId> = (0..space.replica.key_ids_end())
                        .map(KeyId::from_u32)
                        .collect();
                    for counter in changed {
                        if space.replica.key(counter).is_some() {
                            space.changed(counter);
                        }
                    }
                }
                _ => {
                    space.transact(&[(key, op).into()], None).expect("room");
                }
            }
            match below(6) {
                0 => {
                    // Mostly the time goes forward; now and then the clock goes back.
                    now = (now + below(40)).saturating_sub(15);
                    space.set_time(now);
                    if below(2) == 0 {
                        space.delete_expired(now);
                    }
                }
                1 => drop(space.settle(0, &Origins::default())),
                2 => exact(&mut space, &format!("seed {seed}, step {step}")),
                _ => {}
            }
        }
        exact(&mut space, &format!("seed {seed}"));
    }
}

#[test]
fn to_ask_how_many_counters_exist_looks_at_none_of_them() {
    let mut space = Followed::new().space;
    for at in 0..500 {
        let op = if at % 2 == 0 {
            Op::Set(1)
        } else {
            Op::Expire(1_000 + at)
        };
        space.add(format!("k{at}"), 1).expect("room");
        space
            .transact(&[(format!("k{at}"), op).into()], None)
            .expect("room");
    }
    space.settle(0, &Origins::default());
    space.set_time(500);
    assert_eq!(
        space.sizes(),
        Sizes {
            counters: 500,
            expiring: 250
        }
    );
    let looked = space.existing.looked;
    for _ in 0..10_000 {
        space.sizes();
    }
    assert_eq!(space.existing.looked, looked);
    // When time passes, the space looks once at each counter that expired meanwhile.
    space.set_time(1_100);
    assert_eq!(space.sizes().counters, 450);
    assert_eq!(space.existing.looked, looked + 50);
    space.sizes();
    assert_eq!(space.existing.looked, looked + 50);
}

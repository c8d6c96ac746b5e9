//! Versions of counters: they change with their counter, and with nothing else.

use crate::support::{Random, cases, replica, writer};
use std::collections::BTreeMap;
use tallymesh_core::{KeyId, Op, Replica, Shard};
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const KEYS: [&str; 4] = ["a", "b", "c", "never"];

fn op(random: &mut Random) -> Op {
    match random.below(10) {
        0 => Op::Reset,
        1 | 2 => Op::Delete,
        3 => Op::Set(random.below(3) as i64),
        4 | 5 => Op::Expire(random.below(30) as u64),
        6 => Op::Persist,
        // Of 0 too, and back and forth.
        _ => Op::Add(random.below(3) as i64 - 1),
    }
}

fn versions(replica: &Replica) -> BTreeMap<&'static str, u64> {
    KEYS.map(|key| (key, replica.version(key))).into()
}

/// What can be read of a counter.
fn read(replica: &Replica, key: &str) -> (Option<i128>, Option<u64>, Vec<Shard>) {
    let key_id = replica.key_id(key).unwrap_or(KeyId::from_u32(u32::MAX));
    let shards = replica.shards(key_id).collect();
    (replica.value(key), replica.expiry_at(key_id), shards)
}

#[test]
fn a_version_changes_with_its_counter_and_with_nothing_else() {
    cases(300, |random| {
        let mut replicas: Vec<Replica> = (0..3).map(replica).collect();
        for step in 0..60 {
            let (at, from) = (random.below(3), random.below(3));
            let delta = replicas[from].delta(&replicas[at].vector());
            let one = &mut replicas[at];
            let before = versions(one);
            let was = KEYS.map(|key| read(one, key));
            // Which may have changed, and whether they certainly did.
            let (mut changed, mut certain) = (Vec::new(), true);
            match random.below(8) {
                0..5 => {
                    let (key, clock) = (KEYS[random.below(3)], one.clock());
                    one.apply(key, op(random)).unwrap();
                    changed.extend((one.clock() > clock).then_some(key));
                }
                5 => {
                    let mut key_ids = Vec::new();
                    one.merge_with(&delta, None, &mut |key_id| key_ids.push(key_id))
                        .unwrap();
                    let named =
                        |key: &&str| one.key_id(key).is_some_and(|it| key_ids.contains(&it));
                    changed.extend(KEYS.into_iter().filter(named));
                    certain = false;
                }
                6 => {
                    one.set_time(random.below(30) as u64);
                    let passed = |(key, was): &(&str, _)| one.value(key).is_some() != *was;
                    let existed = was.iter().map(|it| it.0.is_some());
                    let passed = KEYS.into_iter().zip(existed).filter(passed);
                    changed.extend(passed.map(|it| it.0));
                }
                // The own writer's number changes, and nothing else.
                _ => assert!(one.forks_mut().renew(writer(100 * step + at as u64 + 10))),
            }
            for (key, was) in KEYS.into_iter().zip(was) {
                let (differs, named) = (one.version(key) != before[key], changed.contains(&key));
                let is_other = read(one, key) != was;
                assert!(named || !differs, "{key} at {step}");
                assert!(differs || !named || !certain, "{key} at {step}");
                assert!(differs || !is_other, "{key} at {step}");
                assert_eq!(one.version(key) == 0, one.key_id(key).is_none());
            }
        }
    });
}

#[test]
fn of_what_is_not_known_the_version_is_0() {
    let mut one = replica(1);
    one.intern("k").unwrap();
    assert_eq!((one.version("k"), one.version("")), (0, 0));
    one.add("k", 0).unwrap();
    let first = one.version("k");
    one.apply("k", Op::Delete).unwrap();
    let (deleted, absent) = (one.version("k"), one.value("k"));
    assert!(first != 0 && deleted != 0 && deleted != first && absent.is_none());
}

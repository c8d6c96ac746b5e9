//! Transactions step by step do what transactions of one piece do, and show what they have done so
//! far.

use crate::support::{Random, cases, replica, world};
use tallymesh_core::bounds::{EXPIRY_MAX, TRANSACTION_OPS_MAX};
use tallymesh_core::{Error, Op, Replica, WriteError};
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const TIME: u64 = 1_000;

fn op(random: &mut Random) -> Op {
    match random.below(14) {
        0 => Op::Reset,
        1 | 2 => Op::Delete,
        3 => Op::Set(random.amount()),
        4..7 => Op::Expire(TIME - 5 + random.below(10) as u64),
        7 => Op::Expire(EXPIRY_MAX + random.below(2) as u64),
        8 => Op::Persist,
        _ => Op::Add(random.amount()),
    }
}

/// Keys that are used, keys that are not, and two that are refused.
fn keys(replica: &Replica, random: &mut Random) -> Vec<String> {
    let used = replica.counters().map(|(_, key)| key.to_owned());
    let mut keys: Vec<String> = used.take(1 + random.below(6)).collect();
    keys.extend(["new:1", "new:2", ""].map(str::to_owned));
    keys.push("x".repeat(513));
    keys
}

/// A replica with a past, in some cases in a space with members, where it keeps a journal.
fn begun(random: &mut Random) -> Replica {
    let (mut replicas, _) = world(random, 3);
    for _ in 0..random.below(30) {
        let (at, from) = (random.below(3), random.below(3));
        let known: Vec<String> = keys(&replicas[at], random);
        let key = random.pick(&known).clone();
        let _ = replicas[at].apply(&key, op(random));
        let delta = replicas[from].delta(&replicas[at].vector());
        replicas[at].merge(&delta).unwrap();
    }
    let mut one = replicas.remove(0);
    if random.chance(30) {
        one.members_mut().found(&[9; 32], &[0; 16], 1).unwrap();
    }
    one.set_time(TIME);
    one
}

/// What can be read of these counters.
fn read(replica: &Replica, keys: &[String]) -> Vec<(Option<i128>, Option<u64>)> {
    let expiry = |key: &String| replica.expiry_at(replica.key_id(key)?);
    let read = |key: &String| (replica.value(key), expiry(key));
    keys.iter().map(read).collect()
}

#[test]
fn a_transaction_by_steps_does_what_one_of_one_piece_does() {
    cases(300, |random| {
        let before = begun(random);
        let keys = keys(&before, random);
        let mut one = before.clone();
        let mut mark = one.mark();
        let mut singly = before.clone();
        let (mut made, mut told): (Vec<(String, Op)>, Vec<bool>) = Default::default();
        let mut transaction = one.begin().unwrap();
        for _ in 0..random.below(12) {
            let next = (random.pick(&keys).clone(), op(random));
            let mut other = before.clone();
            let ops = [&made[..], std::slice::from_ref(&next)].concat();
            let alike = other.transact(&ops);
            let outcome = transaction.apply(&next.0, next.1);
            assert_eq!(singly.apply(&next.0, next.1), outcome, "{next:?}");
            match alike {
                Ok(all) => {
                    assert_eq!(Ok(all[made.len()]), outcome, "{next:?}");
                    made.push(next);
                    told = all;
                }
                Err(error) => {
                    assert_eq!(Err(error), outcome, "{next:?}");
                    other = before.clone();
                    assert_eq!(other.transact(&made), Ok(told.clone()));
                }
            }
            let here = |key: &String| (transaction.value(key), transaction.expiry(key));
            let here: Vec<_> = keys.iter().map(here).collect();
            assert_eq!(here, read(&other, &keys), "{made:?}");
            assert_eq!(here, read(&singly, &keys), "{made:?}");
        }
        if random.chance(30) {
            drop(transaction);
            assert_eq!(one.snapshot(), before.snapshot());
            assert_eq!(one.since(&mut mark), None);
            for key in &keys {
                assert_eq!(one.key_id(key), before.key_id(key), "{key}");
            }
            return;
        }
        let mut changed = Vec::new();
        transaction.commit(&mut changed);
        let mut other = before.clone();
        assert_eq!(other.transact(&made), Ok(told));
        assert_eq!(one.snapshot(), other.snapshot());
        assert_eq!(one.clock(), other.clock());
        assert_eq!(one.clock() > before.clock(), !changed.is_empty());
        for key in &keys {
            assert_eq!(one.key_id(key), other.key_id(key), "{key}");
            let named = one.key_id(key).is_some_and(|it| changed.contains(&it));
            assert_eq!(one.version(key) != before.version(key), named, "{key}");
        }
    });
}

#[test]
fn a_transaction_has_so_many_steps() {
    let mut one = replica(1);
    let mut transaction = one.begin().unwrap();
    for _ in 0..TRANSACTION_OPS_MAX {
        // What is refused is no step.
        assert!(transaction.apply("", Op::Add(1)).is_err());
        transaction.apply("k", Op::Add(1)).unwrap();
    }
    let ops = TRANSACTION_OPS_MAX + 1;
    let refused = Err(Error::Write(WriteError::TransactionTooLarge { ops }));
    assert_eq!(transaction.apply("k", Op::Add(1)), refused);
    let max = Some(TRANSACTION_OPS_MAX as i128);
    assert_eq!(transaction.value("k"), max);
    let mut changed = Vec::new();
    transaction.commit(&mut changed);
    assert_eq!((one.clock(), one.value("k")), (1, max));
    assert_eq!(changed, [one.key_id("k").unwrap()]);
}

#[test]
fn what_is_dropped_leaves_no_key() {
    let mut one = replica(1);
    one.add("a", 1).unwrap();
    let pinned = one.intern("pinned").unwrap();
    let mut transaction = one.begin().unwrap();
    for key in ["a", "b", "c", "pinned"] {
        transaction.apply(key, Op::Add(1)).unwrap();
        transaction.apply(key, Op::Delete).unwrap();
    }
    drop(transaction);
    let known = ["a", "b", "c", "pinned"].map(|key| one.key_id(key).is_some());
    assert_eq!(known, [true, false, false, true]);
    assert_eq!((one.clock(), one.value("a")), (1, Some(1)));
    assert_eq!(one.key_id("pinned"), Some(pinned));
    // One that does nothing is none.
    let mut changed = Vec::new();
    let mut transaction = one.begin().unwrap();
    assert_eq!(transaction.apply("b", Op::Delete), Ok(false));
    transaction.commit(&mut changed);
    assert_eq!((one.clock(), changed), (1, Vec::new()));
}

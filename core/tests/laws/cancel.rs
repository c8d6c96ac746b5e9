//! What cancels, bases, expiries and transactions mean, in small traces.

use crate::support::{full, joined, replica};
use tallymesh_core::{DecodeError, Encode, Error, Message, Op, Replica, WriteError};

/// Moves what `from` has and `to` lacks, encoded on the way.
fn send(from: &Replica, to: &mut Replica) {
    let bytes = from.delta(&to.vector()).encode();
    to.merge(&Message::decode(&bytes).unwrap()).unwrap();
}

#[test]
fn a_cancel_cancels_what_it_saw() {
    let (mut a, mut b) = (replica(1), replica(2));
    a.add("k", 5).unwrap();
    send(&a, &mut b);
    a.add("k", 3).unwrap();
    assert_eq!(b.apply("k", Op::Delete), Ok(true));
    assert_eq!((b.value("k"), b.len()), (None, 0));
    send(&b, &mut a);
    assert_eq!(a.value("k"), Some(3));
    send(&a, &mut b);
    assert_eq!(b.value("k"), Some(3));
    assert_eq!(a.canonical_bytes(), b.canonical_bytes());
}

#[test]
fn a_deleted_key_can_be_used_again_at_once() {
    let (mut a, mut b) = (replica(1), replica(2));
    a.add("k", 5).unwrap();
    send(&a, &mut b);
    a.apply("k", Op::Delete).unwrap();
    a.add("k", 7).unwrap();
    b.apply("k", Op::Delete).unwrap();
    send(&a, &mut b);
    send(&b, &mut a);
    assert_eq!((a.value("k"), b.value("k")), (Some(7), Some(7)));
    assert_eq!(a.canonical_bytes(), b.canonical_bytes());
}

#[test]
fn of_concurrent_sets_one_counts_and_adds_survive() {
    let (mut a, mut b, mut c) = (replica(1), replica(2), replica(3));
    a.apply("k", Op::Set(100)).unwrap();
    b.apply("k", Op::Set(200)).unwrap();
    c.add("k", 1).unwrap();
    let all = [full(&a), full(&b), full(&c)];
    for replica in [&mut a, &mut b, &mut c] {
        for bytes in &all {
            replica
                .merge(&Message::decode(&bytes.encode()).unwrap())
                .unwrap();
        }
    }
    let value = a.value("k").unwrap();
    assert!(value == 101 || value == 201);
    assert_eq!((b.value("k"), c.value("k")), (Some(value), Some(value)));
    assert_eq!(a.apply("k", Op::Delete), Ok(true));
    send(&a, &mut b);
    assert_eq!(b.value("k"), None);
    assert_eq!(joined(&[&full(&a), &full(&c)]).value("k"), None);
}

#[test]
fn a_transaction_is_whole_or_not_at_all() {
    let mut a = replica(1);
    a.add("from", 10).unwrap();
    let before = (a.canonical_bytes(), a.clock());
    let refused = a.transact(&[
        ("from", Op::Add(-3)),
        ("new", Op::Add(3)),
        ("from", Op::Add(i64::MAX)),
    ]);
    assert_eq!(
        refused,
        Err(Error::Write(WriteError::Overflow {
            total: 7,
            by: i64::MAX
        }))
    );
    assert_eq!((a.canonical_bytes(), a.clock()), before);
    assert_eq!(a.key_id("new"), None);
    let told = a.transact(&[
        ("from", Op::Add(-3)),
        ("to", Op::Add(3)),
        ("to", Op::Set(9)),
        ("to", Op::Add(1)),
    ]);
    assert_eq!(told, Ok(vec![true, false, true, true]));
    assert_eq!(
        (a.value("from"), a.value("to"), a.clock()),
        (Some(7), Some(10), 2)
    );
}

#[test]
fn an_expired_counter_begins_a_new_lifetime() {
    let (mut a, mut b) = (replica(1), replica(2));
    assert_eq!(a.apply("k", Op::Expire(1_000)), Ok(false));
    assert_eq!(a.clock(), 0);
    a.add("k", 5).unwrap();
    assert_eq!(a.apply("k", Op::Expire(1_000)), Ok(true));
    send(&a, &mut b);
    let key_id = b.key_id("k").unwrap();
    assert_eq!((b.value("k"), b.expiry_at(key_id)), (Some(5), Some(1_000)));
    b.set_time(1_000);
    assert_eq!(
        (b.value("k"), b.expiry_at(key_id), b.len()),
        (None, None, 0)
    );
    b.add("k", 2).unwrap();
    assert_eq!((b.value("k"), b.expiry_at(key_id)), (Some(2), None));
    a.add("k", 1).unwrap(); // its clock is behind
    send(&a, &mut b);
    send(&b, &mut a);
    // The late add had not been seen by the delete.
    assert_eq!((a.value("k"), b.value("k")), (Some(3), Some(3)));
    assert_eq!(a.canonical_bytes(), b.canonical_bytes());
}

#[test]
fn overflow_is_judged_on_what_survives() {
    let (mut a, mut b) = (replica(1), replica(2));
    a.add("k", i64::MAX - 1).unwrap();
    send(&a, &mut b);
    a.add("k", 1).unwrap();
    b.apply("k", Op::Reset).unwrap();
    send(&b, &mut a);
    assert_eq!(a.value("k"), Some(1));
    a.add("k", i64::MAX - 1).unwrap(); // the total is beyond 64 bits now, what survives is not
    assert_eq!(a.value("k"), Some(i128::from(i64::MAX)));
    assert_eq!(
        a.add("k", 1),
        Err(Error::Write(WriteError::Overflow {
            total: i128::from(i64::MAX),
            by: 1
        }))
    );
    send(&a, &mut b);
    assert_eq!(b.value("k"), Some(i128::from(i64::MAX)));
}

/// A total is put together from two halves, of which a peer may send any.
#[test]
fn totals_beyond_their_bound_are_refused() {
    let (mut a, mut b) = (replica(1), replica(2));
    a.add("k", i64::MAX).unwrap();
    send(&a, &mut b);
    a.add("k", -1).unwrap();
    b.apply("k", Op::Reset).unwrap();
    send(&b, &mut a);
    a.add("k", i64::MAX).unwrap();
    let bytes = full(&a).encode();
    // The upper half is 1, written as 2: the only byte that is followed by the watermark's clock.
    let places = (0..bytes.len()).filter(|at| {
        let mut other = bytes.clone();
        other[*at] = 4;
        Message::decode(&other).is_ok_and(|m| m.encode() == other)
    });
    let wide = |high: i64| {
        let mut number = Vec::new();
        crate::limits::put(&mut number, ((high << 1) ^ (high >> 63)) as u64);
        number
    };
    let mut refused = 0;
    for at in places.collect::<Vec<_>>() {
        for high in [i64::MIN, i64::MAX, 1 << 37, -(1 << 37)] {
            let mut other = bytes.clone();
            other.splice(at..=at, wide(high));
            refused +=
                usize::from(Message::decode(&other) == Err(Error::Decode(DecodeError::Number)));
        }
    }
    assert!(refused >= 4, "{refused}");
}

/// A merge tells how much it brought: each shard, and each watermark, counts for one.
#[test]
fn a_merge_counts_what_it_installs() {
    let (mut a, mut b) = (replica(1), replica(2));
    for key in ["k", "l", "m"] {
        a.apply(key, Op::Set(1)).unwrap();
    }
    let merged = b.merge(&full(&a)).unwrap();
    assert_eq!((merged.shards, merged.new), (3, true));
    b.apply("k", Op::Delete).unwrap();
    b.apply("l", Op::Delete).unwrap();
    let merged = a.merge(&full(&b)).unwrap();
    assert_eq!((merged.shards, merged.new), (2, true));
    let merged = a.merge(&full(&b)).unwrap();
    assert_eq!((merged.shards, merged.new), (0, false));
}

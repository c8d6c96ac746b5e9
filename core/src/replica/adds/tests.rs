//! Plain adds as a store keeps them: what is taken back is what there was, and what is more than
//! adds is left to a message.

use super::*;
use crate::bounds::KEY_BYTES_MAX;
use crate::error::{DecodeError, Error, MergeError, WriteError};
use crate::message::Message;
use crate::state::page::Row;
use crate::wire::Adds;
use crate::wire::Encode;
use crate::writer_id::WriterId;
use crate::{Missing, Once, Op, Rule, Space, VersionVector};
use alloc::format;

fn restore_adds(replica: &mut Replica, bytes: &[u8]) -> Result<(), Error> {
    replica.restore(&Message::decode_adds(bytes)?)
}

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

fn replica(byte: u8) -> Replica {
    Replica::new(Space::default(), id(byte))
}

/// Two stores that follow a replica: with what they keep, they come to another one each. The second
/// keeps messages alone.
struct Store {
    mark: Mark,
    copy: Replica,
    other: (Mark, Replica),
}

impl Store {
    fn new(replica: &mut Replica) -> Store {
        let mut copy = super::tests::replica(100);
        copy.restore(&replica.snapshot()).unwrap();
        Store {
            mark: replica.mark(),
            copy: copy.clone(),
            other: (replica.mark(), copy),
        }
    }

    /// Follows by adds, if that is possible.
    fn adds(&mut self, replica: &mut Replica, changed: &[KeyId]) -> bool {
        let before = format!("{:?}", self.mark);
        let Some(adds) = replica.adds_since(&mut self.mark, changed) else {
            assert_eq!(format!("{:?}", self.mark), before);
            return false;
        };
        restore_adds(&mut self.copy, &adds).unwrap();
        // Again it changes nothing.
        let once = self.copy.canonical_bytes();
        restore_adds(&mut self.copy, &adds).unwrap();
        assert_eq!(self.copy.canonical_bytes(), once);
        true
    }

    /// Follows in any way, and is compared.
    fn follow(&mut self, replica: &mut Replica, changed: &[KeyId]) -> bool {
        let by_adds = self.adds(replica, changed);
        if let Some(message) = replica.since(&mut self.mark).filter(|_| !by_adds) {
            self.copy.restore(&message).unwrap();
        }
        let (mark, other) = &mut self.other;
        if let Some(message) = replica.since(mark) {
            other.restore(&message).unwrap();
        }
        assert_eq!(self.copy.canonical_bytes(), replica.canonical_bytes());
        assert_eq!(self.copy.forks().contents(), replica.forks().contents());
        // The records of earlier writers are the same too.
        let all = |replica: &Replica| replica.snapshot().encode_stored();
        assert_eq!(all(&self.copy), all(other));
        assert!(replica.since(&mut self.mark.clone()).is_none());
        by_adds
    }
}

#[test]
fn a_store_follows_whatever_happens() {
    let mut by_adds = 0;
    for seed in 0..400u64 {
        let mut random = seed;
        let mut below = |end: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % end
        };
        let (mut one, mut two) = (replica(1), replica(2));
        let mut store = Store::new(&mut one);
        let mut changed = Vec::new();
        // Most runs are of plain adds for the greatest part.
        let odd_in = [3, 30, 300][seed as usize % 3];
        for time in 0..300 {
            one.set_time(time);
            let key = format!("key-{}", below(150));
            let op = match below(odd_in) {
                0 => [
                    Op::Delete,
                    Op::Set(5),
                    Op::Reset,
                    Op::Expire(time + 20),
                    Op::Persist,
                ][below(5) as usize],
                _ => Op::Add(below(20) as i64 - 8),
            };
            match below(odd_in) {
                0 => drop(two.apply(&key, op).unwrap()),
                1 => {
                    let delta = two.delta(&one.vector());
                    one.merge_with(&delta, None, &mut |key_id| changed.push(key_id))
                        .unwrap();
                }
                2 => drop(two.merge(&one.delta(&two.vector())).unwrap()),
                3 => {
                    // Several at once, be it on one counter.
                    let mut transaction = one.begin().unwrap();
                    for (key, op) in [(key.as_str(), op), ("other", Op::Add(1)), (&key, op)] {
                        transaction.apply(key, op).unwrap();
                    }
                    transaction.commit(&mut changed);
                }
                4 => {
                    let mut transaction = one.begin().unwrap();
                    transaction.apply(&key, op).unwrap();
                    let once = Once::new(&time.to_le_bytes(), b"");
                    transaction.commit_once(once, &mut changed).unwrap();
                }
                _ => {
                    one.apply(&key, op).unwrap();
                    changed.extend(one.key_id(&key));
                }
            }
            if below(10) == 0 {
                one.rejoin.note_sent(&one.state, below(2) == 0);
            }
            if below(10) == 0 {
                by_adds += u64::from(store.follow(&mut one, &changed));
                changed.clear();
            }
        }
        store.follow(&mut one, &changed);
    }
    assert!(by_adds > 3_000, "{by_adds}");
}

/// A replica with two counters of its own and one of another, and its store, at the same place.
fn stored() -> (Replica, Store, KeyId) {
    let (mut one, mut two) = (replica(1), replica(2));
    let a = one.add("a", 1).unwrap();
    one.add("b", 2).unwrap();
    two.add("c", 3).unwrap();
    one.merge(&two.delta(&VersionVector::default())).unwrap();
    let store = Store::new(&mut one);
    (one, store, a)
}

#[test]
fn what_is_more_than_adds_is_left_to_a_message() {
    // Nothing at all.
    let (mut one, mut store, a) = stored();
    assert!(!store.adds(&mut one, &[a]));
    // Adds beside something of another writer.
    one.add_at(a, 1).unwrap();
    let mut three = replica(3);
    three.add("d", 1).unwrap();
    one.merge(&three.delta(&VersionVector::default())).unwrap();
    assert!(!store.follow(&mut one, &[a]));
    one.add_at(a, 1).unwrap();
    assert!(store.follow(&mut one, &[a]));
    // One under an idempotency key, which is to be remembered.
    let mut transaction = one.begin().unwrap();
    transaction.apply("a", Op::Add(1)).unwrap();
    let done = transaction.commit_once(Once::new(b"a", b""), &mut Vec::new());
    assert_eq!(done, Ok(()));
    assert!(!store.follow(&mut one, &[a]));
    assert_eq!(store.copy.keyed().count(), 1);
    one.add_at(a, 1).unwrap();
    assert!(store.follow(&mut one, &[a]));
    // A counter that is not plain, and one of another writer that this one has no part of.
    one.apply("b", Op::Reset).unwrap();
    let b = one.key_id("b").unwrap();
    assert!(!store.follow(&mut one, &[b]));
    one.add_at(a, 1).unwrap();
    let c = one.key_id("c").unwrap();
    assert!(!store.adds(&mut one, &[a, c]));
    assert!(!store.adds(&mut one, &[a, KeyId(1 << 20)]));
    assert!(store.follow(&mut one, &[a, a]), "once more is no harm");
    // One that was not changed is left out.
    one.add("e", 1).unwrap();
    let e = one.key_id("e").unwrap();
    let adds = one.adds_since(&mut store.mark.clone(), &[a, e]).unwrap();
    assert_eq!(Message::decode_adds(&adds).unwrap().shard_count(), 1);
}

#[test]
fn after_another_writer_id_all_is_told_again() {
    let (mut one, mut store, a) = stored();
    assert!(one.forks_mut().renew(id(7)));
    one.add_at(a, 1).unwrap();
    assert!(!store.follow(&mut one, &[a]));
    one.add_at(a, 1).unwrap();
    assert!(store.follow(&mut one, &[a]));
}

/// Somebody else wrote under the same id: what comes of that has clocks that are stored already.
#[test]
fn what_comes_late_of_the_own_writer_is_left_to_a_message() {
    let (mut one, mut store, a) = stored();
    store.mark = one.mark();
    let mut twin = replica(1);
    twin.add("other", 5).unwrap();
    twin.add("another", 6).unwrap();
    let mut changed = Vec::from([a]);
    let late = twin.delta(&VersionVector::default());
    one.merge_with(&late, None, &mut |key_id| changed.push(key_id))
        .unwrap();
    one.add_at(a, 1).unwrap();
    assert!(!store.follow(&mut one, &changed));
    assert_eq!(store.copy.value("other"), Some(5));
    one.add_at(a, 1).unwrap();
    assert!(store.follow(&mut one, &[a]));
}

#[test]
fn in_a_space_with_members_there_are_no_adds() {
    let (mut one, _, a) = stored();
    one.members_mut().found(&[1; 32], &[0; 16], 1).unwrap();
    let mut mark = one.mark();
    one.add_at(a, 1).unwrap();
    assert!(one.adds_since(&mut mark, &[a]).is_none());
}

#[test]
fn a_mark_of_nothing_has_no_adds() {
    let mut one = replica(1);
    let a = one.add("a", 1).unwrap();
    assert!(one.adds_since(&mut Mark::default(), &[a]).is_none());
    let mut mark = one.mark();
    one.add_at(a, 1).unwrap();
    assert!(one.adds_since(&mut mark, &[a]).is_some());
}

#[test]
fn adds_that_are_none_are_refused() {
    let entry = |lo, hi| Entry {
        writer: id(1),
        lo,
        hi,
    };
    let adds = |entry: Entry, keys: &[(&str, u64)]| {
        let mut adds = Adds::new(entry, keys.len());
        for (key, clock) in keys {
            adds.push(
                key,
                Row {
                    clock: *clock,
                    total: -1,
                },
            );
        }
        adds.encode(&[])
    };
    let good = adds(entry(0, 3), &[("b", 1), ("a", 3)]);
    let mut one = replica(9);
    restore_adds(&mut one, &good).unwrap();
    assert_eq!((one.value("a"), one.value("b")), (Some(-1), Some(-1)));
    assert_eq!(one.vector().get(&id(1)), 3);
    for end in 0..good.len() {
        assert!(
            restore_adds(&mut replica(9), &good[..end]).is_err(),
            "{end}"
        );
    }
    let malformed = |rule| Error::Decode(DecodeError::Malformed { rule });
    let refused = [
        (
            adds(entry(0, 3), &[("", 1), ("bb", 2)]),
            Error::Write(WriteError::KeyLength { bytes: 0 }),
        ),
        (adds(entry(0, 3), &[("a", 4)]), malformed(Rule::ShardClock)),
        (
            [&good[..], &[0]].concat(),
            Error::Decode(DecodeError::TrailingBytes { bytes: 1 }),
        ),
    ];
    for (bytes, error) in refused {
        assert_eq!(restore_adds(&mut replica(9), &bytes), Err(error));
    }
    let long = "k".repeat(KEY_BYTES_MAX);
    restore_adds(&mut replica(9), &adds(entry(0, 3), &[(&long, 1)])).unwrap();
    let long = "k".repeat(KEY_BYTES_MAX + 1);
    assert!(restore_adds(&mut replica(9), &adds(entry(0, 3), &[(&long, 1)])).is_err());
    let mut endless = good.clone();
    endless[17] = 0xFF; // how many transactions there are
    assert!(restore_adds(&mut replica(9), &endless).is_err());
    // It builds on what is not there.
    let later = adds(entry(5, 6), &[("a", 6)]);
    let missing = Missing {
        writer: id(1),
        needed: 5,
        held: 0,
    };
    let refused = Err(Error::Merge(MergeError::NotCovered(missing.into())));
    assert_eq!(restore_adds(&mut replica(9), &later), refused);
}

#[test]
fn many_counters_are_taken_back_at_their_places() {
    let mut one = replica(1);
    let mut store = Store::new(&mut one);
    let key_ids: Vec<KeyId> = (0..200)
        .map(|number| one.add(&format!("key-{number}"), number).unwrap())
        .collect();
    let shuffled: Vec<KeyId> = (0..200).map(|at| key_ids[at * 67 % 200]).collect();
    assert!(store.follow(&mut one, &shuffled));
    assert_eq!(store.copy.value("key-77"), Some(77));
}

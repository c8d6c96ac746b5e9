//! Limits: what is refused changes nothing.

use crate::support::{cases, full, observer, replica, writer};
use tallymesh_core::bounds::{
    KEY_BYTES_MAX, SPACE_BYTES_MAX, WRITERS_MERGED_MAX, WRITERS_TOLD_MAX,
};
use tallymesh_core::{
    DecodeError, Encode, Error, Mark, MergeError, Message, Space, WriteError, WriterId,
};
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

#[test]
fn overflow_is_refused_and_changes_nothing() {
    cases(500, |random| {
        let mut replica = replica(1);
        let mut mark = Mark::default();
        let mut model = 0i64;
        let key_id = replica.add("k", 0).unwrap();
        for _ in 0..40 {
            let by = random.amount();
            let before = (replica.canonical_bytes(), replica.clock());
            replica.since(&mut mark);
            let result = match random.chance(50) {
                true => replica.add("k", by).map(|_| ()),
                false => replica.add_at(key_id, by),
            };
            match model.checked_add(by) {
                Some(sum) => {
                    assert_eq!(result, Ok(()));
                    model = sum;
                }
                None => {
                    assert_eq!(
                        result,
                        Err(Error::Write(WriteError::Overflow {
                            total: i128::from(model),
                            by
                        }))
                    );
                    assert_eq!((replica.canonical_bytes(), replica.clock()), before);
                    assert_eq!(replica.since(&mut mark), None);
                }
            }
            assert_eq!(replica.value("k"), Some(i128::from(model)));
        }
    });
}

#[test]
fn a_sum_over_writers_is_wider_than_64_bits() {
    let mut sum = observer();
    for (number, by) in [(1, i64::MAX), (2, i64::MAX), (3, i64::MIN), (4, i64::MAX)] {
        let mut source = replica(number);
        source.add("k", by).unwrap();
        let state = Message::decode(&full(&source).encode()).unwrap();
        sum.merge(&state).unwrap();
    }
    let expected = 3 * i128::from(i64::MAX) + i128::from(i64::MIN);
    assert_eq!(sum.value("k"), Some(expected));
}

#[test]
fn keys_and_names_have_limits() {
    let mut replica = replica(1);
    let long = "k".repeat(KEY_BYTES_MAX + 1);
    let bytes = long.len();
    assert_eq!(
        replica.add(&long, 1),
        Err(Error::Write(WriteError::KeyLength { bytes }))
    );
    assert_eq!(
        replica.intern(&long),
        Err(Error::Write(WriteError::KeyLength { bytes }))
    );
    assert_eq!(
        replica.add("", 1),
        Err(Error::Write(WriteError::KeyLength { bytes: 0 }))
    );
    assert_eq!((replica.clock(), replica.len()), (0, 0));
    assert!(replica.add(&long[1..], 1).is_ok());
    let name = "s".repeat(SPACE_BYTES_MAX);
    assert_eq!(Space::new(&name).unwrap().as_str(), name);
    for name in ["", "a b", "ä", "a/b", &format!("{name}s")] {
        let bytes = name.len();
        assert_eq!(
            Space::new(name),
            Err(Error::Write(WriteError::SpaceName { bytes }))
        );
    }
    let id = writer(5);
    assert_eq!(WriterId::parse(&id.to_string()), Some(id));
    for text in ["", "00", &id.to_string().to_uppercase(), &"g".repeat(32)] {
        assert_eq!(WriterId::parse(text), None, "{text}");
    }
}

#[test]
fn a_peer_cannot_move_my_clock() {
    let mut mine = replica(1);
    mine.add("k", 1).unwrap();
    let mut clone = mine.clone();
    clone.add("k", 1).unwrap();
    let before = mine.canonical_bytes();
    let ahead = Error::Merge(MergeError::OwnClockAhead { heard: 2, own: 1 });
    assert_eq!(mine.merge(&clone.delta(&mine.vector())), Err(ahead.clone()));
    assert_eq!(mine.merge(&full(&clone)), Err(ahead));
    assert_eq!((mine.canonical_bytes(), mine.clock()), (before, 1));
}

/// Clocks at the end of their range are taken as they are, and overflow nowhere.
#[test]
fn a_stranger_may_stand_at_the_last_clock() {
    // One writer, from `lo` on, with one key and its shard.
    let table = |lo: u64, grown: u64| {
        let mut bytes = vec![1];
        bytes.extend_from_slice(writer(9).as_bytes());
        put(&mut bytes, lo);
        put(&mut bytes, grown);
        bytes
    };
    let mut bytes = table(0, u64::MAX - 1);
    bytes.extend_from_slice(&[1, 0, 1, b'k', 1, 0, 0]);
    put(&mut bytes, u64::MAX - 2);
    bytes.extend_from_slice(&[7, 0, 0]);
    let message = Message::decode(&bytes).unwrap();
    assert_eq!(message.encode(), bytes);
    let mut replica = replica(1);
    replica.merge(&message).unwrap();
    replica.add("k", 1).unwrap();
    assert_eq!(replica.value("k"), Some(8));
    assert_eq!(replica.clock(), 1);
    let mut other = observer();
    let state = Message::decode(&replica.canonical_bytes()).unwrap();
    other.merge(&state).unwrap();
    assert_eq!(other.canonical_bytes(), replica.canonical_bytes());
    assert_eq!(other.vector().get(&writer(9)), u64::MAX - 1);
    // The greatest number is no clock, and nothing is beyond it.
    for lo in [0, 1] {
        let mut over = table(lo, u64::MAX);
        over.extend_from_slice(&[0, 0, 0]);
        assert_eq!(
            Message::decode(&over),
            Err(Error::Decode(DecodeError::Number))
        );
    }
}

#[test]
fn a_space_holds_so_many_writers() {
    let table = |numbers: std::ops::Range<u64>| {
        let mut ids: Vec<_> = numbers.map(writer).collect();
        ids.sort();
        let mut bytes = Vec::new();
        put(&mut bytes, ids.len() as u64);
        for id in ids {
            bytes.extend_from_slice(id.as_bytes());
            bytes.extend_from_slice(&[0, 1]);
        }
        bytes.extend_from_slice(&[0, 0, 0]);
        bytes
    };
    let max = WRITERS_MERGED_MAX as u64;
    let mut replica = observer();
    let most = Message::decode(&table(0..max - 1)).unwrap();
    replica.merge(&most).unwrap();
    assert_eq!(replica.vector().len(), WRITERS_MERGED_MAX - 1);
    let before = replica.digest();
    let one_more = Message::decode(&table(max..max + 1)).unwrap();
    let full = |max: usize| {
        let writers = max + 1;
        Error::Write(WriteError::WritersFull { writers, max })
    };
    assert_eq!(replica.merge(&one_more), Err(full(WRITERS_MERGED_MAX)));
    assert_eq!(replica.digest(), before);
    // Its own writer was counted from the start.
    replica.add("k", 1).unwrap();
    assert_eq!(replica.vector().len(), WRITERS_MERGED_MAX);
    assert_eq!(
        Message::decode(&table(0..WRITERS_TOLD_MAX as u64 + 1)),
        Err(full(WRITERS_TOLD_MAX))
    );
}

/// LEB128.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

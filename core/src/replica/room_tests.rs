//! Bounds that are reached: what is taken, told, stored and read back there.

mod filled;

use super::super::Op;
use super::*;
use crate::bounds::{
    EXPIRY_MAX, FRAME_BYTES_MAX, KEY_BYTES_MAX, KEY_TABLE_BYTES_MAX, WRITERS_MAX,
    WRITERS_MERGED_MAX, WRITERS_TOLD_MAX,
};
use crate::error::WriteError;
use crate::membership::room::Bringer;
use crate::state::delta::{Delta, Entry};
use crate::state::page::{Column, PAGE, Row};
use crate::wire::{Body, Encode, Frame, Pull};
use crate::{Message, Restoring, Space, VersionVector};
use alloc::format;
use core::ops::Range;

fn id(number: usize) -> WriterId {
    let mut bytes = [7; 16];
    bytes[8..].copy_from_slice(&(number as u64).to_be_bytes());
    WriterId::from_bytes(bytes)
}

fn own(number: u8) -> WriterId {
    WriterId::from_bytes([number; 16])
}

fn replica(number: u8) -> Replica {
    Replica::new(Space::default(), own(number))
}

/// An add of 1 to the counter `k` by each of these writers.
fn made(writers: Range<usize>) -> Message {
    let entry = |number| Entry {
        writer: id(number),
        lo: 0,
        hi: 1,
    };
    let mut message = Message {
        delta: Delta {
            writers: writers.map(entry).collect(),
            ..Delta::default()
        },
        ..Message::default()
    };
    message.delta.keys.push("k");
    let column = |writer| {
        let mut column = Column::new(writer);
        column.insert(0, Row { clock: 1, total: 1 });
        column
    };
    let columns = 0..message.delta.writers.len() as u32;
    message.delta.pages.push(columns.map(column).collect());
    message
}

fn full<T>(writers: usize, max: usize) -> Result<T, Error> {
    Err(WriteError::WritersFull { writers, max }.into())
}

/// The start of the same node that comes next, under another writer.
fn restarted(replica: &Replica, writer: u8) -> Replica {
    let bytes = replica.snapshot().encode_stored();
    let stored = Message::decode_stored(&bytes).expect("what was stored is read");
    let begun = Restoring::new(Space::default(), own(writer));
    let whole = begun.finish(&stored).expect("what was stored is taken");
    let mut parts = Snapshot::begin(replica);
    let mut begun = Restoring::new(Space::default(), own(writer));
    let again = loop {
        match parts.step(replica, 1 << 20) {
            crate::Part::More(part) => begun = begun.take(&part).expect("a part is taken"),
            crate::Part::Last(last) => break begun.finish(&last).expect("the parts are taken"),
            crate::Part::Void => panic!("nothing happened meanwhile"),
        }
    };
    for it in [&whole, &again] {
        assert_eq!(it.canonical_bytes(), replica.canonical_bytes());
        assert_eq!(it.value("k"), replica.value("k"));
    }
    again
}

/// All that a replica tells in one frame has room in it, and is understood.
fn tells(replica: &Replica) {
    let body = Body::Pull(Pull {
        id: 1,
        chunk: 0,
        vector: replica.vector(),
    });
    let frame = Frame {
        space: Space::default(),
        body,
    };
    let bytes = frame.encode();
    assert!(bytes.len() <= FRAME_BYTES_MAX);
    assert_eq!(Frame::decode(&bytes), Ok(frame));
    let state = replica.delta(&VersionVector::default());
    assert_eq!(Message::decode(&state.encode()), Ok(state));
}

#[test]
fn a_full_space_opens_at_every_start() {
    let mut one = replica(1);
    one.merge(&made(0..WRITERS_MERGED_MAX - 1)).expect("room");
    let more = made(WRITERS_MERGED_MAX..WRITERS_MERGED_MAX + 1);
    let over = WRITERS_MERGED_MAX + 1;
    assert_eq!(one.merge(&more), full(over, WRITERS_MERGED_MAX));
    assert_eq!(one.add("k", 5).map(|_| ()), Ok(()));
    tells(&one);
    // Its next starts have room above that.
    let mut two = restarted(&one, 2);
    assert_eq!(two.add("k", 6).map(|_| ()), Ok(()));
    tells(&two);
    // A start that adds nothing takes no place.
    let three = restarted(&restarted(&two, 3), 4);
    assert_eq!(three.vector().len(), WRITERS_MERGED_MAX + 1);
    assert_eq!(three.value("k"), Some(WRITERS_MERGED_MAX as i128 - 1 + 11));
}

#[test]
fn a_start_that_finds_no_place_opens_reads_and_refuses_to_write() {
    // As many as there may be, the last start's writer among them.
    let mut one = replica(1);
    one.restore(&made(0..WRITERS_TOLD_MAX - 1)).expect("stored");
    assert_eq!(one.add("k", 5).map(|_| ()), Ok(()));
    tells(&one);
    let mut two = restarted(&one, 2);
    let before = two.canonical_bytes();
    let refused = full::<()>(WRITERS_TOLD_MAX + 1, WRITERS_TOLD_MAX);
    assert_eq!(two.add("k", 1).map(|_| ()), refused);
    assert_eq!(two.add("new", 1).map(|_| ()), refused);
    assert_eq!(two.apply("k", Op::Delete).map(|_| ()), refused);
    assert_eq!(two.transact(&[("new", Op::Set(1))]).map(|_| ()), refused);
    assert_eq!(two.begin().map(|_| ()), refused);
    assert_eq!((two.key_id("new"), two.clock()), (None, 0));
    assert_eq!(two.canonical_bytes(), before);
    tells(&two);
    // Known writers go on, and an empty replica takes all of them.
    let mut news = made(0..1);
    (news.delta.writers[0].lo, news.delta.writers[0].hi) = (1, 2);
    news.delta.pages[0][0].rows[0] = Row { clock: 2, total: 9 };
    assert!(two.merge(&news).expect("nobody is new").new);
    let mut fresh = replica(3);
    fresh
        .merge(&two.delta(&VersionVector::default()))
        .expect("all of it");
    assert_eq!(fresh.value("k"), two.value("k"));
    // It gets room again by members.
    assert_eq!(two.members_mut().found(&[5; 32], &[0; 16], 1), Ok(()));
    assert_eq!(two.add("k", 1).map(|_| ()), Ok(()));
}

/// The bound of a start judges the first transaction only.
#[test]
fn a_replica_that_has_its_place_keeps_it() {
    let mut one = replica(1);
    one.add("k", 1).expect("room");
    one.restore(&made(0..WRITERS_TOLD_MAX)).expect("stored");
    assert_eq!(one.add("new", 1).map(|_| ()), Ok(()));
}

/// One that knows nobody takes as many writers as it may tell, its own one among them once it has written.
#[test]
fn a_replica_that_has_written_tells_all_that_it_accepts() {
    let mut one = replica(1);
    one.add("k", 1).expect("room");
    let all = made(0..WRITERS_TOLD_MAX);
    assert_eq!(
        one.merge(&all),
        full(WRITERS_TOLD_MAX + 1, WRITERS_TOLD_MAX)
    );
    one.merge(&made(0..WRITERS_TOLD_MAX - 1)).expect("room");
    assert_eq!(one.add("new", 1).map(|_| ()), Ok(()));
    tells(&one);
}

#[test]
fn a_folder_that_an_earlier_version_filled_opens() {
    for writers in [WRITERS_MAX, WRITERS_MAX + 25] {
        let mut one = replica(1);
        one.restore(&made(0..writers)).expect("stored");
        let mut one = restarted(&one, 2);
        assert_eq!(one.add("k", 5).map(|_| ()), Ok(()));
        let two = restarted(&one, 3);
        assert_eq!(two.value("k"), Some(writers as i128 + 5));
        tells(&two);
    }
    let mut many = replica(1);
    many.restore(&made(0..2 * WRITERS_MAX)).expect("stored");
    assert_eq!(restarted(&many, 2).vector().len(), 2 * WRITERS_MAX);
}

#[test]
fn two_nodes_that_guests_filled_take_each_others_starts() {
    let mut nodes = [replica(1), replica(2)];
    for node in &mut nodes {
        node.merge(&made(0..WRITERS_MAX - 1)).expect("room");
        let guest = node
            .membership
            .room_for_writers(&node.state, 1, Bringer::Guest);
        assert_eq!(guest, full(WRITERS_MAX + 1, WRITERS_MAX));
    }
    for round in 0..2 {
        nodes = [0, 1].map(|at| restarted(&nodes[at as usize], 3 + 2 * round + at));
        for node in &mut nodes {
            assert_eq!(node.add("k", 1).map(|_| ()), Ok(()));
        }
        let [one, two] = &mut nodes;
        one.merge(&two.delta(&one.vector()))
            .expect("room for a start");
        two.merge(&one.delta(&two.vector()))
            .expect("room for a start");
        assert_eq!(one.canonical_bytes(), two.canonical_bytes());
        let value = WRITERS_MAX as i128 - 1 + 2 * (i128::from(round) + 1);
        assert_eq!(one.value("k"), Some(value));
    }
}

#[test]
fn a_full_key_table_refuses_new_keys_and_nothing_else() {
    let mut one = replica(1);
    let key = |number: usize| format!("{number:0100}");
    for number in 0..100 {
        one.add(&key(number), 1).expect("room");
    }
    // Keys that went leave their bytes behind; they do not count.
    let gone: alloc::vec::Vec<_> = (0..30)
        .map(|number| one.intern(&format!("gone{number:096}")).expect("room"))
        .collect();
    for key_id in gone {
        one.release(key_id).expect("interned");
    }
    crate::explore::set_key_bytes_max(&mut one, 100 * 100 + 99);
    assert_eq!(one.key_bytes(), 10_000);
    let refused = Err(WriteError::CountersFull { counters: 100 }.into());
    assert_eq!(one.add(&key(100), 1).map(|_| ()), refused);
    assert_eq!(one.intern(&key(100)).map(|_| ()), refused);
    assert_eq!(one.transact(&[(key(100), Op::Add(1))]).map(|_| ()), refused);
    assert_eq!(one.add("short", 1).map(|_| ()), Ok(()));
    assert_eq!(one.add(&key(0), 1).map(|_| ()), Ok(()));
    // A peer that adds to the same keys is heard.
    let mut two = replica(2);
    two.merge(&one.delta(&VersionVector::default()))
        .expect("room");
    for number in 0..100 {
        two.add(&key(number), 1).expect("room");
    }
    let known = two.delta(&one.vector());
    two.add(&key(100), 1).expect("room");
    let new = two.delta(&one.vector());
    let refused = Err(WriteError::CountersFull { counters: 101 }.into());
    assert_eq!(one.merge(&new), refused);
    assert_eq!(
        one.merge_staged(&[known.encode()], &new, None, &mut |_| ()),
        refused
    );
    assert!(one.merge(&known).expect("no key is new").new);
    assert_eq!(one.value(&key(0)), Some(3));
    // All of it comes back, also where there is less room by now.
    let bytes = one.snapshot().encode_stored();
    let mut again = replica(3);
    crate::explore::set_key_bytes_max(&mut again, 1);
    let stored = Message::decode_stored(&bytes).expect("stored");
    again.restore(&stored).expect("what was stored is taken");
    assert_eq!(again.canonical_bytes(), one.canonical_bytes());
    assert_eq!(again.add(&key(0), 1).map(|_| ()), Ok(()));
}

#[test]
fn the_levels_of_a_bound_ascend() {
    const { assert!(WRITERS_MAX < WRITERS_MERGED_MAX && WRITERS_MERGED_MAX < WRITERS_TOLD_MAX) };
    const { assert!(KEY_TABLE_BYTES_MAX < u32::MAX) };
    // The contents of all writers take the most of a frame.
    const { assert!(WRITERS_TOLD_MAX * (16 + 10 + 16) + 128 <= FRAME_BYTES_MAX) };
}

/// Numbers that look random, and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// The state of so many writers, with clocks, totals and keys at their ends.
fn extreme(dice: &mut Dice, writers: usize, keys: usize) -> Message {
    let mut message = Message::default();
    for at in 0..keys {
        let length = dice.of(&[4, 100, KEY_BYTES_MAX]);
        message
            .delta
            .keys
            .push(&format!("{at:04}{}", "n".repeat(length - 4)));
        if at % PAGE == 0 {
            message.delta.pages.push(alloc::vec::Vec::new());
        }
    }
    for writer in 0..writers {
        let hi = dice.of(&[1, 1 << 32, u64::MAX - 1]);
        message.delta.writers.push(Entry {
            writer: id(writer),
            lo: 0,
            hi,
        });
        for at in 0..keys {
            // Each key has a row at least, and each writer.
            if writer > 0 && at != writer % keys && dice.below(4) > 0 {
                continue;
            }
            let columns = &mut message.delta.pages[at / PAGE];
            if columns.last().is_none_or(|it| it.writer != writer as u32) {
                columns.push(Column::new(writer as u32));
            }
            let total = dice.of(&[0, -1, 7, i64::MIN, i64::MAX]);
            let clock = dice.of(&[1, hi]);
            if let Some(column) = columns.last_mut() {
                column.insert((at % PAGE) as u32, Row { clock, total });
            }
        }
    }
    message
}

#[test]
fn states_near_their_bounds_are_stored_and_told() {
    let sizes = [
        (1, 1),
        (2, 65),
        (65, 64),
        (300, 130),
        (WRITERS_TOLD_MAX - 1, 2),
    ];
    for (seed, (writers, keys)) in sizes.into_iter().enumerate() {
        let mut dice = Dice(seed as u64);
        let made = extreme(&mut dice, writers, keys);
        let bytes = made.encode();
        let mut one = replica(1);
        one.merge(&Message::decode(&bytes).expect("what a peer tells"))
            .expect("room");
        for at in 0..keys {
            let key = made.delta.keys.get(at);
            let op = dice.of(&[
                Op::Add(1),
                Op::Set(i64::MIN),
                Op::Expire(EXPIRY_MAX),
                Op::Reset,
                Op::Delete,
                Op::Persist,
            ]);
            one.apply(key, op).expect("its own first writes");
        }
        tells(&one);
        let again = restarted(&one, 2);
        let mut other = replica(3);
        other
            .merge(&one.delta(&VersionVector::default()))
            .expect("all of it");
        for at in 0..keys {
            let key = made.delta.keys.get(at);
            assert_eq!(again.value(key), one.value(key), "{seed} {at}");
            assert_eq!(other.value(key), one.value(key), "{seed} {at}");
        }
        assert_eq!(other.canonical_bytes(), one.canonical_bytes(), "{seed}");
    }
}

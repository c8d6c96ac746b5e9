//! The selection for a message, and how much of it fits.

use super::super::collect::tests::space;
use super::*;
use crate::Op;
use crate::bounds::PUSH_BYTES_MAX;
use crate::state::build::{END_BYTES, NOTHING, ROW_BYTES, SIDE_BYTES};
use crate::state::delta::Entry;
use crate::state::page::PAGE;
use crate::state::place;
use crate::writer_id::WriterId;
use alloc::format;

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

fn replica(byte: u8) -> Replica {
    Replica::new(crate::Space::default(), id(byte))
}

/// A replica with a shard of each of four writers, its own first, on each of these counters, to
/// the first of which every writer applies an operation before.
fn shared(keys: &[&str], first: Option<Op>) -> Replica {
    let mut one = replica(1);
    for byte in 1..=4 {
        let mut other = replica(byte);
        if let Some(op) = first {
            other.apply(keys[0], op).unwrap();
        }
        for key in keys {
            other.add(key, 1).unwrap();
        }
        match byte {
            1 => one = other,
            _ => drop(one.merge(&other.delta(&VersionVector::default())).unwrap()),
        }
    }
    one
}

/// How many columns are selected before one does not fit any more, and how many counters they have.
fn fits(one: &Replica, budget: usize) -> (u32, usize) {
    let lows = alloc::vec![0; 4];
    let picked = one.state.select(&Selection::all(&lows), budget);
    let columns = match picked.stopped {
        END => 4,
        stopped => stopped.writer,
    };
    let named = picked.lows.iter().filter(|low| **low != NOTHING).count();
    assert_eq!(named as u32, columns);
    (columns, picked.key_ids.len())
}

#[test]
fn a_transfer_is_divided_where_its_budget_is_exceeded() {
    // The key once with what stands beside it, and a row for each writer.
    let one = shared(&["k"], None);
    let key = 1 + 2;
    for columns in 1..4 {
        let bytes = key + columns as usize * ROW_BYTES;
        assert_eq!(fits(&one, bytes - 1), (columns, 1));
        assert_eq!(fits(&one, bytes), (columns + 1, 1));
    }
    let three = shared(&["k", "k2", "k33"], None);
    let bytes = 3 + 4 + 5 + 3 * ROW_BYTES;
    assert_eq!(fits(&three, bytes - 1), (1, 3));
    assert_eq!(fits(&three, bytes), (2, 3));
    // One of the three has more than a row.
    let odd = shared(&["k", "k2", "k33"], Some(Op::Set(5)));
    assert_eq!(fits(&odd, bytes + SIDE_BYTES - 1), (1, 3));
    assert_eq!(fits(&odd, bytes + SIDE_BYTES), (2, 3));
    // On each page the keys count that are there.
    let mut many = replica(1);
    for at in 0..2 * PAGE + 3 {
        many.add(&"k".repeat(at + 1), 1).unwrap();
    }
    for (key_id, key) in many.counters() {
        let (page, slot) = place(key_id);
        assert_eq!(many.state.key_of(page, slot), key);
    }
}

/// A counter that ended often has all its ends. A message has only the new ones.
#[test]
fn ends_that_are_sent_take_room_and_others_do_not() {
    let [mut one, _, _] = space();
    let mut ended = Vec::new();
    for at in 1..=3 {
        one.add("key", 1).unwrap();
        one.apply("key", Op::Expire(at * 1_000)).unwrap();
        ended.push(one.clock());
        one.set_time(at * 1_000);
        // A further write carries the end out.
        one.add("key", 1).unwrap();
    }
    let bytes = |since: u64| {
        let mut lows = one.clocks().to_vec();
        lows[0] = since;
        one.state
            .select(&Selection::all(&lows), usize::MAX - 1)
            .bytes
    };
    let all = bytes(ended[0]);
    assert_eq!(all - bytes(ended[1]), 2 * END_BYTES);
    assert_eq!(all - bytes(ended[2]), 4 * END_BYTES);
    // As the end of the second lifetime and of the third one, each with one slot.
    assert_eq!(all - bytes(one.clock() - 1), 4 * END_BYTES);
}

#[test]
fn chunks_have_each_column_once_and_what_is_said_of_writers_at_the_end() {
    let [mut one, _, mut tab] = space();
    for at in 0..PAGE + 6 {
        one.add(&format!("key:{at}"), 1).unwrap();
        tab.add(&format!("key:{at}"), 2).unwrap();
    }
    let message = tab.delta(&one.vector());
    one.merge_with(&message, Some(tab.writer()), &mut |_| ())
        .unwrap();
    let since = VersionVector::default();
    let lows = one.membership.lows(&one.state, &since);
    let (mut cursor, mut sizes) = (Cursor::default(), Vec::new());
    loop {
        let (message, next) = one.chunk(
            &since,
            (&lows, false),
            cursor,
            &mut KeyedScan::new(&lows, false),
            0,
        );
        sizes.push(message.shard_count());
        assert_eq!(message.records().is_empty(), next.is_some());
        assert_eq!(message.is_complete(), next.is_none());
        let Some(next) = next else { break };
        assert!(next > cursor && message.delta.writers.len() == 1);
        cursor = next;
    }
    assert_eq!(sizes.iter().sum::<usize>(), one.shard_count());
    let columns = one
        .state
        .pages()
        .iter()
        .map(|page| page.columns().filter(|it| it.present != 0).count());
    assert_eq!(sizes.len(), columns.sum::<usize>());
}

#[test]
fn a_push_that_would_name_too_many_writers_is_left_to_a_pull() {
    let most = PUSH_BYTES_MAX / 20;
    for (writers, fits) in [(most, true), (most + 1, false)] {
        let mut one = replica(1);
        let mut mark = one.mark();
        for at in 1..writers as u64 {
            let mut bytes = [200; 16];
            bytes[8..].copy_from_slice(&at.to_be_bytes());
            let number = one
                .membership
                .number(&mut one.state, WriterId::from_bytes(bytes));
            one.state.set_clock(number, 1);
        }
        one.add("k", 1).unwrap();
        let push = one.push(&mut mark);
        assert_eq!(matches!(push, Push::Message(_)), fits);
        assert_eq!(matches!(push, Push::TooLarge), !fits);
        assert!(matches!(one.push(&mut mark), Push::Nothing));
    }
}

#[test]
fn a_record_for_a_store_names_those_who_did_something() {
    let mut one = shared(&["k"], None);
    let mut mark = one.mark();
    assert_eq!(one.since(&mut mark), None);
    one.add("k", 1).unwrap();
    let message = one.since(&mut mark).expect("something changed");
    let named: Vec<WriterId> = message.delta.writers.iter().map(|it| it.writer).collect();
    assert_eq!((named, message.shard_count()), ([id(1)].into(), 1));
    assert!(message.returns.is_empty());
    assert_eq!(one.since(&mut mark), None);
}

/// Each who asks has marks of its own; what it hears must not depend on when others ask.
#[test]
fn whoever_asks_hears_of_all_that_changed_since_it_asked() {
    let mut replica = replica(1);
    for counter in 0..200 {
        replica.add(&format!("key-{counter}"), 1).unwrap();
    }
    let mut asks = [2, 3, 7].map(|pace| (pace, replica.mark(), replica.clone()));
    for turn in 1..200 {
        for step in [7, 13] {
            let key = format!("key-{}", turn * step % 200);
            replica.add(&key, 1).unwrap();
        }
        for (_, mark, copy) in asks.iter_mut().filter(|it| turn % it.0 == 0) {
            let record = replica.since(mark).expect("something changed");
            copy.restore(&record).unwrap();
            assert_eq!(
                copy.forks().contents(),
                replica.forks().contents(),
                "turn {turn}"
            );
        }
    }
}

/// A message of some writers builds on what the last own transaction had of the others, and on no more. So
/// a receiver that has as much accepts it, and one that has less does not.
#[test]
fn a_message_of_own_transactions_builds_on_what_the_last_one_had_seen() {
    let mut one = replica(1);
    let [other, start] = [2, 3].map(|byte| one.membership.number(&mut one.state, id(byte)));
    let hear = |one: &mut Replica, number: u32, clock| one.state.advance(number as usize, clock);
    hear(&mut one, other, 1);
    hear(&mut one, other, 2);
    one.add("k", 1).unwrap();
    hear(&mut one, start, 4);
    let only_own = [0, NOTHING, NOTHING];
    let built_on = |one: &Replica, since: &VersionVector| one.built_on(since, &only_own);
    let nothing = VersionVector::default();
    assert_eq!(built_on(&one, &nothing), [NOTHING, 2, NOTHING]);
    // It arrived after the transaction, in two steps.
    hear(&mut one, other, 3);
    hear(&mut one, other, 5);
    assert_eq!(built_on(&one, &nothing), [NOTHING, 2, NOTHING]);
    // The message must name each start of a member.
    let announce = crate::message::records::Announce {
        clock: 1,
        owner: [3; 32],
        nonce: [0; 16],
        generation: 1,
    };
    let states = &mut one.membership.table_mut().stored().writer_states;
    states[start as usize].announce = Some(alloc::boxed::Box::new(announce));
    assert_eq!(built_on(&one, &nothing), [NOTHING, 2, 1]);
    // Nothing is new for one that has the transaction.
    let own = VersionVector::of(id(1), 1);
    let newer = [1, NOTHING, NOTHING];
    assert_eq!(one.built_on(&own, &newer), [NOTHING; 3]);
    // Another writer that is let through may build on all that is here.
    let two = [0, 0, NOTHING];
    assert_eq!(one.built_on(&nothing, &two), [NOTHING, NOTHING, 4]);
    one.add("k", 1).unwrap();
    assert_eq!(one.built_on(&own, &newer), [NOTHING, 5, 4]);
}

#[test]
fn a_message_builds_on_writers_of_whom_it_has_nothing() {
    let mut one = replica(1);
    one.membership.number(&mut one.state, id(2));
    let entry = |byte, lo, hi| Entry {
        writer: id(byte),
        lo,
        hi,
    };
    let built = |lows: [u64; 2], seen: [u64; 2]| {
        let mut message = Message::default();
        message.delta.writers = alloc::vec![entry(1, 0, 7), entry(2, 0, 8)];
        one.build_on(message, &lows, &seen).delta.writers
    };
    let as_it_was = [entry(1, 0, 7), entry(2, 0, 8)];
    assert_eq!(
        built([0, NOTHING], [NOTHING, 3]),
        [entry(1, 0, 7), entry(2, 3, 3)]
    );
    assert_eq!(built([0, NOTHING], [NOTHING, NOTHING]), as_it_was);
    assert_eq!(built([0, 0], [3, 3]), as_it_was);
}

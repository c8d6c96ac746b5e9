//! Journals alone: which transactions are unconfirmed.

use super::*;
use crate::state::operation::Op;

/// A journal of adds at these clocks.
fn journal(clocks: &[u64]) -> Journal {
    let did = |by: u64| Did::new("k", Op::Add(by as i64));
    Journal {
        made: clocks
            .iter()
            .map(|clock| Made::one(*clock, Vec::from([did(*clock)])))
            .collect(),
        ..Journal::EMPTY
    }
}

fn clocks(journal: &Journal) -> Vec<u64> {
    journal.made.iter().map(|made| made.clock).collect()
}

#[test]
fn a_member_confirms_what_it_has() {
    let mut all = journal(&[2, 3, 7]);
    assert_eq!(all.last(), 7);
    all.drop_upto(3);
    assert_eq!((clocks(&all), all.dropped), (Vec::from([7]), 3));
    all.drop_upto(1);
    assert_eq!(all.dropped, 3, "nothing is unconfirmed again");
    all.drop_upto(9);
    assert!(all.is_empty());
}

#[test]
fn the_open_time_is_confirmed_as_one() {
    let mut all = journal(&[6]);
    all.open = 5;
    assert!(all.needs_survivors());
    all.drop_upto(4);
    assert_eq!(all.open, 5, "its transactions can't be told apart");
    all.drop_upto(5);
    assert_eq!((all.open, clocks(&all)), (0, Vec::from([6])));
    assert!(!all.needs_survivors());
}

#[test]
fn a_part_and_what_follows_are_the_whole() {
    let all = journal(&[2, 3, 7, 8]);
    assert_eq!(clocks(&all.after(3)), [7, 8]);
    let mut bundled = journal(&[2, 3]);
    bundled.extend(&all.after(3));
    assert_eq!(bundled, all);
    bundled.extend(&all);
    assert_eq!(bundled, all, "a record that comes twice changes nothing");
    let mut confirmed = all.after(8);
    confirmed.dropped = 7;
    bundled.extend(&confirmed);
    assert_eq!(clocks(&bundled), [8]);
}

fn op(key: &str, op: Op) -> Did {
    Did::new(key, op)
}

fn add(key: &str, by: i64) -> Vec<Did> {
    Vec::from([op(key, Op::Add(by))])
}

/// The journal of a replica that is cut off.
fn alone() -> Journal {
    let mut journal = Journal::EMPTY;
    journal.set_bundles(true);
    journal
}

/// What a journal has: the first and the last clock, how many transactions, and the operations.
fn rows(journal: &Journal) -> Vec<(u64, u64, u64, Vec<Did>)> {
    let row = |made: &Made| (made.clock, made.last, made.count, made.did.clone());
    journal.made.iter().map(row).collect()
}

#[test]
fn adds_to_a_counter_bundle_until_something_is_sent() {
    let mut all = alone();
    for (clock, key, by) in [(1, "a", 5), (2, "b", 7), (3, "a", -2), (5, "a", 4)] {
        all.note(clock, add(key, by));
    }
    let bundled = [(1, 5, 3, add("a", 7)), (2, 2, 1, add("b", 7))];
    assert_eq!(rows(&all), bundled);
    assert_eq!((all.len(), all.last()), (4, 5));
    all.note_sent(5);
    all.note(6, add("a", 1));
    all.note(7, add("a", 1));
    assert_eq!(rows(&all)[2..], [(6, 7, 2, add("a", 2))]);
    assert_eq!((all.len(), all.told), (6, 5));
    all.separate();
    all.note(8, add("a", 1));
    all.set_bundles(false);
    all.note(9, add("a", 1));
    all.note(10, add("a", 1));
    all.set_bundles(true);
    all.note(11, add("a", 1));
    assert_eq!(clocks(&all)[3..], [8, 9, 10, 11]);
}

#[test]
fn what_does_more_than_adding_is_not_bundled() {
    let mut all = alone();
    for (clock, did) in [
        (1, add("a", 1)),
        (2, Vec::from([op("a", Op::Reset)])),
        (3, add("a", 1)),
        (4, Vec::from([op("a", Op::Persist)])),
        (5, Vec::from([op("a", Op::Persist)])),
        (6, add("\0budget", 1)),
        (7, add("\0budget", 1)),
        (8, add("b", i64::MAX)),
        (9, add("b", 1)),
    ] {
        all.note(clock, did);
    }
    assert_eq!(clocks(&all), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    // It would not fit, and is the last of its counter now.
    all.note(10, add("b", 1));
    assert_eq!(rows(&all)[8], (9, 10, 2, add("b", 2)));
}

#[test]
fn transactions_bundle_those_that_add_to_the_same_counters() {
    let both = |a, b| [add("a", a), add("b", b)].concat();
    let mut all = alone();
    all.note(1, both(1, 2));
    all.note(2, both(3, 4));
    assert_eq!(rows(&all), [(1, 2, 2, both(4, 6))]);
    all.note(3, add("a", 1));
    all.note(4, both(1, 1)); // its counters are of two
    all.note(5, add("b", 1)); // of the one before, which has more
    all.note(6, [add("a", 1), add("a", 2)].concat());
    all.note(7, [add("a", 1), add("a", 2)].concat());
    let counts: Vec<u64> = all.made.iter().map(|made| made.count).collect();
    assert_eq!(counts, [2, 1, 1, 1, 2]);
}

#[test]
fn what_was_made_under_a_key_stays_alone() {
    let once = |byte| Once::new(&[byte], b"");
    let mut all = alone();
    all.note(1, add("a", 1));
    all.keyed.push((2, once(2)));
    all.note(2, add("a", 1));
    all.note(3, add("a", 1));
    all.note(4, add("a", 1));
    assert_eq!(clocks(&all), [1, 2, 3]);
    assert_eq!(rows(&all)[2], (3, 4, 2, add("a", 2)));
}

/// A store gets the part since its last record, and again the bundles with more in them since.
#[test]
fn a_store_that_gets_parts_has_the_whole() {
    let mut all = alone();
    let mut stored = Journal::EMPTY;
    let mut mark = 0;
    for clock in 1..=60_u64 {
        let key = ["a", "b", "c"][(clock % 3) as usize];
        match clock % 11 {
            10 => all.note(clock, Vec::from([op(key, Op::Delete)])),
            _ => all.note(clock, add(key, clock as i64)),
        }
        if clock % 23 == 0 {
            all.note_sent(clock);
        }
        if clock == 50 {
            all.drop_upto(46);
        }
        if clock % 7 < 2 {
            let part = all.after(mark);
            // Since its last record at most each counter has one part that goes back before it.
            assert!(part.made.iter().filter(|made| made.clock <= mark).count() <= 3);
            stored.extend(&part);
            stored.extend(&part);
            assert_eq!(rows(&stored), rows(&all), "{clock}");
            let bundles = |it: &Journal| -> Vec<_> { it.bundled.after(&it.made, 0).collect() };
            assert_eq!((stored.len(), bundles(&stored)), (all.len(), bundles(&all)));
            mark = clock;
        }
    }
    assert!(all.made.iter().any(|made| made.count > 1));
    assert_eq!(all.after(u64::MAX).len(), 0);
}

#[test]
fn a_bundle_is_dropped_as_one() {
    let mut all = alone();
    for clock in [1, 2, 4] {
        all.note(clock, add("a", 1));
    }
    all.note(3, add("b", 1));
    assert_eq!(
        (all.bundled_across(1), all.bundled_across(3)),
        (Some(4), Some(4))
    );
    assert_eq!((all.bundled_across(0), all.bundled_across(4)), (None, None));
    all.drop_upto(3);
    assert_eq!(rows(&all), [(1, 4, 3, add("a", 3))]);
    all.drop_upto(4);
    assert!(all.is_empty() && all.bundled.after(&all.made, 0).next().is_none());
}

#[test]
fn memory_is_given_back() {
    let mut all = alone();
    for clock in 1..=10_000 {
        all.note(clock, Vec::new());
    }
    all.drop_upto(9_990);
    assert_eq!(all.len(), 10);
    assert!(all.made.capacity() < 100);
}

/// A link to a member may carry nothing, and looks as if it did for seconds.
#[test]
fn many_that_nobody_confirms_are_bundled_too() {
    let mut all = Journal::EMPTY;
    for clock in 1..=APART_MAX as u64 {
        all.note(clock, add("a", 1));
    }
    assert_eq!(all.made.len(), APART_MAX);
    all.note(2_001, add("a", 1));
    all.note(2_002, add("a", 1));
    assert_eq!(all.made.len(), APART_MAX + 1);
    // As few as before are not bundled, and nor are later ones across what came in between.
    all.drop_upto(100);
    all.note(2_003, Vec::from([op("a", Op::Reset)]));
    for clock in 2_004..=2_200 {
        all.note(clock, add("b", 1));
    }
    all.note(2_201, add("a", 1));
    let last = all.made.last().expect("the last one");
    assert_eq!((last.clock, last.count), (2_201, 1));
}

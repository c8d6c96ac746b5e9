//! Withdrawals, and operations that are not withdrawn: they may belong to another lifetime, or were withdrawn
//! before.

use super::*;
use crate::idempotency::Instance;
use crate::idempotency::lifetimes::NewLifetimes;
use crate::optional::Optional;
use crate::state::counter;
use crate::state::page::{OWN, Row};
use crate::state::slot::{Extra, Slot, Stamp, Withdrawal};
use crate::{KeyStatus, Mark, Replica, WriterId};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// The first tells the second all that it has, without that anything is withdrawn.
fn pass(from: &Replica, to: &mut Replica) {
    let message = from.delta(&to.keyed().vector());
    to.merge_with(&message, Some(from.writer()), &mut |_| ())
        .unwrap();
}

/// By whom, and at which clock, what was withdrawn was made.
fn withdrawn(replica: &mut Replica) -> Vec<(WriterId, u64)> {
    let mut made = Vec::new();
    let done = replica.idempotency.withdraw(
        &mut replica.state,
        &mut replica.membership,
        &mut |_, dot| made.push(dot),
    );
    assert_eq!(done, Ok(!made.is_empty()));
    made
}

/// All have seen what a writer made up to this clock.
fn stable(replica: &mut Replica, writer: u32, clock: u64) {
    replica.membership.table_mut().stored().stable = vec![0; replica.state.ids().len()];
    replica.membership.table_mut().stored().stable[writer as usize] = clock;
    assert_eq!(replica.membership.collected_upto(writer), clock);
}

/// The log records the history of its slot from its arrival on. Earlier history may have been collected.
#[test]
fn what_came_when_all_had_seen_it_is_not_withdrawn() {
    for (before, watched) in [(1, true), (0, false)] {
        let [mut one, mut two] = members();
        add(&mut one, "a", 5);
        add(&mut two, "a", 5);
        let (writer, at) = dot(&two);
        let number = one.membership.number(&mut one.state, writer);
        stable(&mut one, number, at - before);
        pass(&two, &mut one);
        stable(&mut one, number, at);
        let made = withdrawn(&mut one);
        assert_eq!(made, Vec::from_iter(watched.then_some((writer, at))));
        assert_eq!(one.value("n"), Some(if watched { 5 } else { 10 }));
    }
}

/// As long as not all have seen it, nothing of it was collected anywhere.
#[test]
fn what_not_all_have_seen_is_withdrawn_whoever_watched_it() {
    for (unseen, is_done) in [(1, true), (0, false)] {
        let [mut one, mut two] = members();
        add(&mut one, "a", 5);
        add(&mut two, "a", 5);
        let (writer, at) = dot(&two);
        pass(&two, &mut one);
        let number = one.membership.number(&mut one.state, writer);
        one.idempotency.at_mut(1).unwrap().watched = false;
        stable(&mut one, number, at - unseen);
        assert_eq!(!withdrawn(&mut one).is_empty(), is_done);
    }
}

/// Which of them is among the joined ones, the log knows as it saw the join, or it does not know.
#[test]
fn of_several_that_are_one_none_is_withdrawn_again() {
    // Somebody withdrew the middle one of three transactions, or the first two, whose withdrawals were joined.
    for (several, saw, watched, first) in [
        (false, false, true, true),
        (true, true, true, false),
        (true, false, true, true),
        (true, false, false, false),
    ] {
        let [mut one, mut two] = members();
        let mut clocks = Vec::new();
        for key in ["a", "b", "c"] {
            add(&mut one, key, 5);
            add(&mut two, key, 5);
            clocks.push(two.clock());
        }
        pass(&two, &mut one);
        let writer = one.membership.number(&mut one.state, two.writer());
        let key_id = one.key_id("n").unwrap();
        let mut slots = one.state.slots(key_id);
        let at = counter::find(&slots, writer).unwrap();
        slots[at].side.withdrawals.set(vec![Withdrawal {
            clock: clocks[1],
            amount: 10,
            before: 0,
            several,
            by: Stamp { writer, clock: 1 },
        }]);
        one.state.put_slots(key_id, slots);
        if several {
            stable(&mut one, writer, clocks[1]);
        }
        if saw {
            let joined = vec![(writer, clocks[1]), (writer, clocks[0])];
            one.idempotency.note_joined(joined);
        }
        for place in 0..6 {
            one.idempotency.at_mut(place).unwrap().watched = watched;
        }
        let made: Vec<u64> = withdrawn(&mut one).iter().map(|it| it.1).collect();
        let expected = [clocks[0], clocks[2]];
        assert_eq!(
            made,
            expected[usize::from(!first)..],
            "{several} {saw} {watched}"
        );
    }
}

/// A withdrawal that comes after others were joined stays apart, also in a replica that receives both at once.
#[test]
fn a_withdrawal_after_a_join_stays_apart() {
    let [mut one, two] = members();
    add(&mut one, "a", 5);
    let key_id = one.key_id("n").unwrap();
    let writer = one.membership.number(&mut one.state, two.writer());
    let to = |clock, amount, several| Withdrawal {
        clock,
        amount,
        before: 0,
        several,
        by: Stamp {
            writer: OWN,
            clock: 1,
        },
    };
    let mut slot = Slot::new(
        writer,
        Row {
            clock: 9,
            total: 30,
        },
        None,
    );
    let apart = vec![to(4, 5, false), to(8, 10, true)];
    slot.side.withdrawals.set(apart);
    let mut slots = one.state.slots(key_id);
    slots.push(slot);
    one.state.put_slots(key_id, slots);
    one.state.advance(writer as usize, 9);
    let mut three = Replica::new(one.space().clone(), WriterId::from_bytes([77; 16]));
    three.merge(&one.delta(&VersionVector::default())).unwrap();
    assert_eq!((one.value("n"), three.value("n")), (Some(20), Some(20)));
}

/// Each is withdrawn once, also if they came to the store one by one: the slot may have begun a lifetime
/// since, of which nobody tells the begin any more.
#[test]
fn what_a_store_has_in_several_records_is_not_withdrawn_again() {
    let mut all = space();
    let (one, two) = match all[0].writer() < all[1].writer() {
        true => (0, 1),
        false => (1, 0),
    };
    let mut mark = Mark::default();
    add(&mut all[one], "a", 5);
    let mut records = vec![all[one].since(&mut mark).unwrap()];
    add(&mut all[two], "a", 5);
    let told = all[one].clone();
    assert_eq!(tell(&told, &mut all[two]).len(), 1);
    all[two].add("n", 70).unwrap();
    settle(&mut all);
    all[two].add("n", 700).unwrap();
    let told = all[two].clone();
    assert_eq!(tell(&told, &mut all[one]), []);
    records.push(all[one].since(&mut mark).unwrap());
    assert!(!records[1].is_whole());
    let mut again = Replica::new(told.space().clone(), WriterId::from_bytes([77; 16]));
    for record in &records {
        again.restore(record).unwrap();
    }
    let slots = again.state.slots(again.key_id("n").unwrap());
    assert!(slots.iter().all(|slot| slot.began() == 0), "{slots:?}");
    assert_eq!(again.keyed().count(), 2);
    assert_eq!(withdrawn(&mut again), []);
    assert_eq!(again.value("n"), Some(775));
}

/// One may have seen nothing of that lifetime yet, as if an old copy of its disk was put back.
#[test]
fn the_begin_of_a_lifetime_stays_known_where_it_was_not_collected() {
    let [mut one, mut two] = members();
    add(&mut one, "a", 5);
    add(&mut two, "a", 5);
    assert_eq!(tell(&two, &mut one).len(), 1);
    let stored = one.snapshot();
    tell(&one, &mut two);
    two.apply("n", Op::Delete).unwrap();
    two.add("n", 70).unwrap();
    tell(&two, &mut one);
    // The writer of the slot collects its begin, and writes again.
    let key_id = two.key_id("n").unwrap();
    let mut slots = two.state.slots(key_id);
    let own = counter::find(&slots, OWN).unwrap();
    let (row, extra) = (slots[own].row, slots[own].extra());
    assert!(extra.began > 0);
    let collected = Extra { began: 0, ..extra };
    slots[own].set_shard(row.clock, row.total.into(), collected);
    two.state.put_slots(key_id, slots);
    two.add("n", 700).unwrap();
    tell(&two, &mut one);
    let mut old = Replica::new(one.space().clone(), WriterId::from_bytes([77; 16]));
    old.restore(&stored).unwrap();
    old.merge(&one.delta(&old.vector())).unwrap();
    assert_eq!([&one, &two, &old].map(|it| it.value("n")), [Some(770); 3]);
}

/// A slot of the writer 1, with its last add at 9.
fn slot(began: u64) -> Slot {
    let row = Row { clock: 9, total: 1 };
    let extra = Extra {
        began,
        added: 9,
        ..Extra::default()
    };
    Slot::new(1, row, Some(&extra))
}

#[test]
fn where_a_lifetime_began_and_ended_is_noted_when_that_is_forgotten() {
    let new_lifetimes = |known: &[(u32, u64)], before: &[Slot], slots: &[Slot]| {
        let [mut one, ..] = space();
        one.idempotency.count(1, 3);
        for (writer, clock) in known {
            one.idempotency.new_lifetimes().note(*writer, "n", *clock);
        }
        one.idempotency.note_new_lifetimes("n", before, slots);
        one.idempotency.new_lifetimes().clone()
    };
    let noted = |upto| NewLifetimes::one(1, "n", upto);
    assert_eq!(new_lifetimes(&[], &[slot(5)], &[slot(0)]), noted(5));
    // Nothing is left of one that has ended, its last add included.
    assert_eq!(new_lifetimes(&[], &[slot(5)], &[]), noted(10));
    assert_eq!(new_lifetimes(&[(1, 7)], &[slot(5)], &[slot(0)]), noted(7));
    assert_eq!(new_lifetimes(&[(1, 7)], &[slot(8)], &[slot(0)]), noted(8));
    // A slot that still has the begin shows itself which adds are its own.
    assert_eq!(
        new_lifetimes(&[], &[slot(5)], &[slot(5)]),
        NewLifetimes::default()
    );
    assert_eq!(
        new_lifetimes(&[], &[slot(0)], &[slot(0)]),
        NewLifetimes::default()
    );
    let [mut one, ..] = space();
    one.idempotency.note_new_lifetimes("n", &[slot(5)], &[]);
    assert_eq!(
        *one.idempotency.new_lifetimes(),
        NewLifetimes::default(),
        "it made none"
    );
}

/// The end of a slot in one counter says nothing about the writer's slot in another one.
#[test]
fn a_lifetime_of_another_counter_hinders_no_withdrawal() {
    for (key, left) in [("other", 5), ("n", 10)] {
        let [mut one, mut two] = members();
        add(&mut one, "a", 5);
        add(&mut two, "a", 5);
        let (writer, at) = dot(&two);
        let number = one.membership.number(&mut one.state, writer);
        pass(&two, &mut one);
        let row = Row {
            clock: at,
            total: 1,
        };
        let ended = Slot::new(number, row, None);
        one.idempotency.note_new_lifetimes(key, &[ended], &[]);
        stable(&mut one, number, at);
        let made = withdrawn(&mut one);
        assert_eq!(made.len(), usize::from(left == 5), "{key}");
        assert_eq!(one.value("n"), Some(left), "{key}");
    }
}

#[test]
fn of_what_came_with_a_whole_state_is_watched_what_not_all_have_seen() {
    let [mut one, _] = members();
    let mut watched = |known: u64| {
        add(&mut one, &alloc::format!("{known}"), 1);
        let mut one = one.clone();
        one.membership.table_mut().stored().collected = vec![0; one.state.ids().len()];
        one.membership.table_mut().stored().collected[OWN as usize] = one.clock() - known;
        one.idempotency.note_unwatched(&one.membership);
        one.idempotency.instances().values().last().unwrap().watched
    };
    assert_eq!([1, 0].map(&mut watched), [true, false]);
}

/// A start that has nothing of its own begins from what a page tells it, without keys, and is asked for
/// what all others have seen, take for the successor's, and tell of no writer any more.
#[test]
fn what_counts_for_certain_is_not_made_again_by_who_began_without_keys() {
    let [mut one, mut two, page] = space();
    add(&mut one, "a", 5);
    let before = one.writer();
    let mut one = start_again(&one, &two);
    for gone in [before, page.writer()] {
        one.members_mut().fence(&gone).unwrap();
    }
    tend(&mut one, &mut two, &|from, to| drop(tell(from, to)));
    assert_eq!(one.state.held(&before), 0);
    assert_eq!(one.keyed().lookup(&once("a")), KeyStatus::Before(None));
    let (owner, nonce) = ([2; 32], [30; 16]);
    let writer = WriterId::mint(one.space(), &owner, &nonce);
    let mut again = Replica::new(one.space().clone(), writer);
    tell_by_page(&one, &mut again);
    again.members_mut().announce(&owner, &nonce, 3).unwrap();
    add(&mut again, "a", 5);
    assert_eq!(again.value("n"), Some(10));
    assert_eq!(tell(&again, &mut one), [("n".into(), dot(&again))]);
    assert_eq!(one.value("n"), Some(5));
}

/// A writer whose keys are missing may have made it too, and that one may have counted.
#[test]
fn nothing_counts_for_certain_where_keys_are_missing() {
    for lacks in [false, true] {
        let [mut one, two] = members();
        add(&mut one, "a", 5);
        let number = one.state.number_of(&two.writer()).unwrap();
        let key = once("a").key;
        one.idempotency.renumber(&[OWN], number);
        if lacks {
            one.membership.table_mut().stored().hold_back(OWN, 0);
        }
        one.idempotency.forget_keyed(&mut one.membership, &[number]);
        let later = one.idempotency.insert(Instance {
            once: once("a"),
            writer: OWN,
            clock: one.clock(),
            adds: Box::default(),
            watched: true,
            withdrawn: false,
            sole: false,
            share: 0,
        });
        let withdrawn: Vec<u64> = later.into_iter().filter(|_| !lacks).collect();
        assert_eq!(one.idempotency.duplicates(&one.state, &key), withdrawn);
    }
}

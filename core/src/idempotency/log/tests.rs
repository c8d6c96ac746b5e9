//! The table by hand: where operations are, how many of each writer, and what takes whose place.

use super::*;
use crate::once::Once;
use alloc::boxed::Box;
use alloc::vec;

fn made(key: u8, writer: u32, clock: u64) -> Instance {
    let (key, content) = ([key; 16], 0);
    Instance {
        once: Once { key, content },
        writer,
        clock,
        adds: Box::default(),
        watched: true,
        withdrawn: false,
        sole: false,
        share: 0,
    }
}

fn table(instances: &[Instance]) -> IdempotencyLog {
    let mut table = IdempotencyLog::default();
    for (place, instance) in (0..).zip(instances) {
        assert_eq!(table.insert(instance.clone()), Some(place));
    }
    table
}

/// The makers of all, in order.
fn makers(table: &IdempotencyLog) -> Vec<(u32, u64)> {
    let instances = table.instances.values();
    instances.map(|it| (it.writer, it.clock)).collect()
}

fn of_writers(table: &IdempotencyLog) -> Vec<(u32, (u64, u64))> {
    table.of_writer.iter().map(|it| (*it.0, *it.1)).collect()
}

#[test]
fn places_stay_when_others_are_dropped() {
    let mut table = table(&[made(1, 1, 1), made(2, 1, 2), made(3, 2, 1)]);
    table.drop_upto(2);
    table.mark_withdrawn(2);
    assert!(table.at(2).withdrawn);
    assert_eq!((makers(&table), table.end), (vec![(2, 1)], 3));
    assert_eq!(table.of(&[3; 16]).collect::<Vec<_>>(), [2]);
    assert_eq!(table.of(&[2; 16]).next(), None);
}

#[test]
fn a_writer_of_whom_none_is_left_is_waited_for_no_more() {
    let mut table = table(&[made(1, 1, 4), made(2, 1, 9), made(3, 2, 5)]);
    assert_eq!(of_writers(&table), [(1, (2, 9)), (2, (1, 5))]);
    table.drop_upto(1);
    assert_eq!(of_writers(&table), [(1, (1, 9)), (2, (1, 5))]);
    table.drop_upto(2);
    assert_eq!(of_writers(&table), [(2, (1, 5))]);
    table.drop_upto(3);
    assert_eq!(of_writers(&table), []);
}

#[test]
fn so_many_are_kept_and_the_first_are_dropped() {
    let instances: Vec<Instance> = (1..=5).map(|at| made(at, 1, u64::from(at))).collect();
    let mut table = table(&instances);
    for (all, first) in [(7, 1), (6, 2), (6, 3), (4, 6)] {
        table.shares.bounds.all = all;
        let at = table.end as u8 + 1;
        assert_eq!(
            table.insert(made(at, 1, u64::from(at))),
            Some(u64::from(at) - 1)
        );
        assert_eq!(
            (makers(&table)[0], table.instances.len() <= all),
            ((1, first), true)
        );
    }
}

/// One of which it was not known what counts is the one that is told of now, if no other is. It comes
/// behind all that others have been told.
#[test]
fn what_is_told_replaces_what_was_not_sure() {
    let mut alone = table(&[made(1, UNSURE, 3), made(2, 1, 1)]);
    assert_eq!(alone.insert(made(1, 2, 7)), Some(2));
    assert_eq!(alone.of(&[1; 16]).collect::<Vec<_>>(), [2]);
    assert_eq!(makers(&alone), [(1, 1), (2, 7)]);
    assert_eq!(of_writers(&alone), [(1, (1, 1)), (2, (1, 7))]);
    assert_eq!(alone.due.len(), 0);
    alone.drop_upto(1);
    assert_eq!(makers(&alone), [(1, 1), (2, 7)]);
    assert_eq!(of_writers(&alone), [(1, (1, 1)), (2, (1, 7))]);

    let mut table = table(&[made(1, 1, 5), made(1, 2, 6)]);
    table.due.clear();
    table.renumber(&[1], UNSURE);
    assert_eq!(table.insert(made(1, 3, 7)), Some(2));
    assert_eq!(makers(&table), [(UNSURE, 5), (2, 6), (3, 7)]);
    assert_eq!(table.due, [[1; 16]]);
}

#[test]
fn however_many_writers_are_forgotten_each_operation_is_looked_at_once() {
    const WRITERS: u32 = 40;
    let mut one = crate::Replica::new(
        crate::Space::default(),
        crate::WriterId::from_bytes([1; 16]),
    );
    for key in 0..200 {
        let writer = 1 + u32::from(key) % WRITERS;
        one.idempotency.insert(made(key, writer, key.into()));
    }
    // A key under which two made something, and one of a writer that stays.
    one.idempotency.insert(made(0, 2, 300));
    one.idempotency.insert(made(250, WRITERS + 1, 1));
    let gone: Vec<u32> = (1..=WRITERS).collect();
    one.idempotency.forget_keyed(&mut one.membership, &gone);
    assert_eq!(one.idempotency.looked_at, 202);
    assert_eq!(
        of_writers(&one.idempotency),
        [
            (WRITERS + 1, (1, 1)),
            (UNSURE, (1, 0)),
            (ABSORBED, (200, 300))
        ]
    );
    let sole = one
        .idempotency
        .instances
        .values()
        .filter(|it| it.sole)
        .count();
    assert_eq!(sole, 200, "all but one of the two, and the one that stays");
}

/// Where the lifetimes of a writer's slots began says which of its operations may be withdrawn.
#[test]
fn what_is_known_of_writers_stays_when_others_are_forgotten() {
    let mut one = crate::Replica::new(
        crate::Space::default(),
        crate::WriterId::from_bytes([1; 16]),
    );
    let log = &mut one.idempotency;
    log.new_lifetimes = NewLifetimes::one(1, "n", 5);
    log.new_lifetimes.note(2, "n", 6);
    log.asked = Some((9, vec![(1, 5), (2, 6)]));
    log.forget_keyed(&mut one.membership, &[1]);
    assert_eq!(log.new_lifetimes, NewLifetimes::one(2, "n", 6));
    assert_eq!(log.asked, Some((9, vec![(2, 6)])));
}

/// Peers refuse a message in which these keys do not ascend.
#[test]
fn the_mark_of_less_effect_has_its_place_among_the_adds() {
    let mut one = crate::Replica::new(
        crate::Space::default(),
        crate::WriterId::from_bytes([1; 16]),
    );
    // A part of a budget, a key of limits, and a counter.
    let keys = ["\0b", "\0w", "n"];
    let drafts = keys.map(|key| {
        let key_id = one.state.key_id(key).unwrap();
        let mut draft = one.state.draft(key_id);
        let extra = crate::state::slot::Extra {
            added: 4,
            ..Default::default()
        };
        let row = crate::state::page::Row { clock: 4, total: 3 };
        let mut slot = crate::state::slot::Slot::new(0, row, None);
        slot.set_shard(4, 3, extra);
        draft.slots.push(slot);
        draft.changed = true;
        draft
    });
    let once = made(1, 0, 4).once;
    let log = &mut one.idempotency;
    log.remember(&one.state, 4, (once, None), &drafts, [false, true])
        .unwrap();
    let adds = crate::wire::decode_adds(&log.at(0).adds);
    let told: Vec<&str> = adds.iter().map(|it| &*it.key).collect();
    assert_eq!(told, ["\0b", "\0o", "\0w", "n"]);
    assert!(log.is_weaker(&once));
}

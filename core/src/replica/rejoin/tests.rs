//! The journal of own transactions, and the operations made again after a rejoin. A cancel is made again for
//! the part of its observed state that can still be told apart.

mod earlier;

use super::*;
use crate::error::AdmissionError;
use crate::message::journal::{EarlierWriter, Saw};
use crate::message::records::{Fence, Leave, Retired};
use crate::optional::Empty;
use crate::state::page::Row;
use crate::state::slot::{Extra, Fold, Moved, Slot, Stamp, Watermark};
use crate::{Space, VersionVector};
use alloc::boxed::Box;
use alloc::vec;

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

fn by(writer: u32, clock: u64) -> Stamp {
    Stamp { writer, clock }
}

/// A replica that holds the writer 1 up to 10, and the writer 2.
fn replica() -> Replica {
    let mut replica = Replica::new(Space::default(), id(9));
    for byte in [1, 2] {
        let number = replica.membership.number(&mut replica.state, id(byte));
        assert_eq!(number, u32::from(byte));
        replica.state.set_clock(number, 10);
    }
    replica
}

/// The slot of the writer 1: a row at 10, a lifetime that began at `began`.
fn slot(began: u64) -> Slot {
    let mut slot = Slot::new(
        1,
        Row {
            clock: 10,
            total: 0,
        },
        None,
    );
    let extra = Extra {
        began,
        added: 10,
        ..Extra::default()
    };
    slot.set_shard(10, 50, extra);
    slot
}

/// A cancel saw the writer 1 up to `clock`.
fn saw(clock: u64) -> Vec<Saw> {
    vec![Saw {
        writer: id(1),
        clock,
        total: 5,
    }]
}

/// Up to which clock the writer 1 is cancelled by a cancel that saw it at `clock`; `None` if the cancel is
/// left out.
fn again(replica: &Replica, slots: &[Slot], clock: u64) -> Option<u64> {
    let mut slots = slots.to_vec();
    let done = replica.rejoin.cancel_again(
        &replica.state,
        &replica.membership,
        &mut slots,
        saw(clock),
        &replica.state.act(77),
    );
    let watermark = slots.first().and_then(|slot| slot.side.watermark);
    if let Some(watermark) = watermark.filter(|watermark| watermark.by == by(OWN, 77)) {
        assert_eq!((watermark.clock, watermark.total), (clock, 5));
        assert_eq!(done, [(id(1), clock)]);
    }
    done.first()
        .map(|_| watermark.map_or(0, |watermark| watermark.clock))
}

#[test]
fn a_cancel_is_made_again_up_to_what_it_saw() {
    let replica = replica();
    assert_eq!(again(&replica, &[slot(0)], 4), Some(4));
    assert_eq!(again(&replica, &[slot(0)], 10), Some(10));
    // A shard that is not here can't be cancelled here.
    assert_eq!(again(&replica, &[slot(0)], 11), None);
    // Nothing is left of an earlier lifetime.
    assert_eq!(again(&replica, &[slot(4)], 4), Some(4));
    assert_eq!(again(&replica, &[slot(5)], 4), Some(0));
    assert_eq!(again(&replica, &[], 4), Some(0));
    // A watermark that is as long stands.
    let mut cancelled = slot(0);
    for (clock, stands) in [(3, 4), (4, 4), (5, 5)] {
        cancelled.side.watermark = Some(Watermark {
            clock,
            total: 1,
            by: by(2, 3),
        });
        assert_eq!(again(&replica, &[cancelled.clone()], 4), Some(stands));
        let mut slots = vec![cancelled.clone()];
        replica.rejoin.cancel_again(
            &replica.state,
            &replica.membership,
            &mut slots,
            saw(4),
            &replica.state.act(77),
        );
        assert_eq!(slots != [cancelled.clone()], clock < 4);
    }
    let mut other = replica.clone();
    other.state.drop_number(&id(1));
    assert_eq!(again(&other, &[slot(0)], 4), None);
}

#[test]
fn nothing_is_cancelled_of_who_was_given_up() {
    let mut fenced = replica();
    fenced.membership.table_mut().stored().writer_states[1].fence = Some(Fence {
        turn: 0,
        by: by(2, 3),
        successor: 2,
    });
    assert_eq!(again(&fenced, &[slot(0)], 4), None);
    let mut retired = replica();
    retired.membership.table_mut().stored().writer_states[1].retired = Some(Retired {
        to: by(2, 3),
        upto: 10,
    });
    assert_eq!(again(&retired, &[slot(0)], 4), None);
    let mut left = replica();
    left.membership.table_mut().stored().writer_states[1].leave = Some(Leave {
        clock: 10,
        successor: 2,
    });
    assert_eq!(again(&left, &[slot(0)], 4), Some(4));
}

#[test]
fn nothing_is_cancelled_where_something_was_absorbed_since() {
    let replica = replica();
    let child = |to: Stamp| {
        let mut child = Slot::new(2, Row { clock: 3, total: 1 }, None);
        child
            .side
            .moved
            .set(Some(Box::new(Moved { to, amount: 1 })));
        child
    };
    let with = |to| again(&replica, &[slot(0), child(to)], 4);
    assert_eq!(with(by(1, 3)), Some(4));
    assert_eq!(with(by(1, 4)), Some(4));
    assert_eq!(with(by(1, 5)), None);
    assert_eq!(with(by(OWN, 5)), Some(4));
    for (clock, done) in [(3, Some(4)), (4, Some(4)), (5, None)] {
        let mut folded = slot(0);
        folded.side.fold.set(Some(Box::new(Fold {
            clock,
            amount: 1,
            adds: false,
            assignment: None,
            until: None,
        })));
        assert_eq!(again(&replica, &[folded], 4), done);
    }
}

#[test]
fn nothing_is_cancelled_where_a_lifetime_may_have_begun_since() {
    let mut replica = replica();
    let announce = crate::message::records::Announce {
        clock: 1,
        owner: [1; 32],
        nonce: [1; 16],
        generation: 1,
    };
    replica.membership.table_mut().stored().writer_states[2].announce = Some(Box::new(announce));
    replica.membership.table_mut().stored().collected = vec![0, 0, 5];
    assert!(replica.membership.horizons().next().is_some());
    assert_eq!(again(&replica, &[slot(0)], 4), None);
    assert_eq!(again(&replica, &[slot(0)], 10), Some(10));
    assert_eq!(again(&replica, &[slot(3)], 4), Some(4));
}

fn open(byte: u8) -> Replica {
    Replica::new(Space::default(), id(byte))
}

/// The only member of a space.
fn member() -> Replica {
    let mut member = open(8);
    member.add("k", 1).unwrap();
    member.members_mut().found(&[8; 32], &[8; 16], 1).unwrap();
    member
}

fn whole(replica: &Replica) -> Message {
    replica.delta(&VersionVector::default())
}

/// An operation of a writer: one operation on the counter `key`.
fn op(key: &str, op: Op) -> Did {
    Did::new(key, op)
}

/// A guest that made two transactions before it knew of members, and two after that.
fn guest(member: &Replica) -> Replica {
    let mut guest = open(2);
    guest.add("a", 3).unwrap();
    guest.apply("b", Op::Set(0)).unwrap();
    assert!(guest.rejoin.journal().is_empty());
    guest.merge(&whole(member)).unwrap();
    guest.add("a", 4).unwrap();
    guest.apply("k", Op::Delete).unwrap();
    guest
}

#[test]
fn transactions_are_kept_from_when_there_are_members() {
    let member = member();
    let mut guest = guest(&member);
    let journal = guest
        .rejoin_mut()
        .begin_again(id(3), &whole(&member), &mut |_| ())
        .unwrap();
    assert_eq!((journal.writer(), journal.open), (Some(id(2)), 2));
    assert_eq!((journal.len(), journal.is_empty()), (2, false));
    let clocks: Vec<u64> = journal.made.iter().map(|made| made.clock).collect();
    assert_eq!(clocks, [3, 4]);
    let survivors = [op("a", Op::Add(7)), op("b", Op::Add(0))];
    assert_eq!(journal.survivors, survivors);
    // Nothing was ever kept of the new writer.
    let empty = guest
        .rejoin_mut()
        .begin_again(id(4), &whole(&member), &mut |_| ())
        .unwrap();
    assert_eq!((empty.writer(), empty.len()), (Some(id(3)), 0));
    assert!(empty.is_empty() && empty.survivors.is_empty());
}

#[test]
fn a_return_needs_a_whole_state_of_a_space_with_members() {
    let mut member = member();
    let mut guest = guest(&member);
    let before = guest.canonical_bytes();
    let known = member.vector();
    member.add("k", 1).unwrap();
    for state in [whole(&open(5)), member.delta(&known)] {
        let refused = guest.rejoin_mut().begin_again(id(3), &state, &mut |_| ());
        assert_eq!(refused.map(|_| ()), Err(AdmissionError::Outdated.into()));
        assert_eq!(guest.canonical_bytes(), before);
    }
}

#[test]
fn what_is_left_of_a_wide_total_is_added_in_parts() {
    let mut replica = open(1);
    replica.apply("k", Op::Set(i64::MAX)).unwrap();
    replica.add("k", 2).unwrap();
    let parts = [op("k", Op::Add(i64::MAX)), op("k", Op::Add(2))];
    assert_eq!(replica.rejoin.survivors(&replica.state, OWN), parts);
}

#[test]
fn of_a_cancel_is_kept_what_it_cancelled_itself() {
    let mut replica = replica();
    let key_id = replica.intern("k").unwrap();
    let watermark_by = |stamp| {
        let mut slot = slot(0);
        slot.side.watermark = Some(Watermark {
            clock: 4,
            total: 5,
            by: stamp,
        });
        slot
    };
    let saw_of = |op, slot| {
        replica
            .rejoin
            .did(&replica.state, key_id, (op, 0), 7, &[slot])
            .saw
    };
    for cancel in [Op::Reset, Op::Delete, Op::Set(3)] {
        assert_eq!(saw_of(cancel, watermark_by(by(OWN, 7))), saw(4));
        for other in [by(OWN, 6), by(2, 7)] {
            assert_eq!(saw_of(cancel, watermark_by(other)), []);
        }
    }
    for no_cancel in [Op::Add(1), Op::Expire(1), Op::Persist] {
        assert_eq!(saw_of(no_cancel, watermark_by(by(OWN, 7))), []);
    }
}

/// A journal of the transactions at these clocks, each of which adds its clock.
fn journal(clocks: &[u64], dropped: u64, open: u64) -> Journal {
    let made = |clock: &u64| Made::one(*clock, vec![op("k", Op::Add(*clock as i64))]);
    Journal {
        writer: Some(id(5)),
        made: clocks.iter().map(made).collect(),
        dropped,
        open,
        ..Journal::EMPTY
    }
}

#[test]
fn what_nobody_knows_is_told() {
    for (upto, published, (dropped, open), unknown) in [
        (Some(0), 9, (0, 5), Some((1, 5))),
        (Some(3), 9, (0, 5), Some((4, 5))),
        (Some(5), 9, (0, 5), None),
        (Some(3), 9, (5, 0), Some((4, 5))),
        (Some(5), 9, (5, 0), None),
        (Some(6), 9, (5, 5), None),
        (None, 7, (5, 0), Some((6, 7))),
        (None, 5, (5, 0), None),
        (None, 1, (0, 5), Some((1, 5))),
        (None, 0, (0, 5), Some((1, 5))),
        (None, 0, (0, 0), None),
    ] {
        let mut replica = self::open(1);
        let journal = journal(&[6, 7, 8], dropped, open);
        let returned = replica
            .rejoin_mut()
            .make_again(journal, upto, published, &mut |_| ());
        assert_eq!(returned.unknown, unknown, "{upto:?}, {published}");
        let from = upto.unwrap_or(published);
        let clocks: Vec<u64> = returned.again.iter().map(|it| it.was).collect();
        let left: Vec<u64> = (6..=8).filter(|clock| *clock > from).collect();
        assert_eq!(clocks, left);
        let value: u64 = left.iter().sum();
        assert_eq!(replica.value("k").unwrap_or(0), i128::from(value));
    }
}

#[test]
fn a_bundle_is_made_again_as_one() {
    let mut bundle = journal(&[], 0, 0);
    bundle.set_bundles(true);
    for clock in [4, 5, 8] {
        bundle.note(clock, vec![op("k", Op::Add(clock as i64))]);
    }
    // A member that says that it has a part of them is wrong, and nothing is counted twice.
    for (upto, dropped, counts, unknown) in [
        (3, 0, vec![(4, 3)], None),
        (5, 0, vec![], Some((6, 8))),
        (5, 7, vec![], Some((6, 8))),
    ] {
        let mut replica = self::open(1);
        bundle.dropped = dropped;
        let returned = replica
            .rejoin_mut()
            .make_again(bundle.clone(), Some(upto), 9, &mut |_| ());
        let again = returned.again.iter().map(|it| (it.was, it.count));
        assert_eq!(again.collect::<Vec<_>>(), counts);
        assert_eq!(returned.unknown, unknown);
        let value = replica.value("k").unwrap_or(0);
        assert_eq!(value, if counts.is_empty() { 0 } else { 17 });
    }
}

#[test]
fn a_transaction_that_comes_to_nothing_has_no_clock() {
    let mut replica = open(1);
    let mut journal = journal(&[6, 8], 0, 0);
    journal
        .made
        .insert(1, Made::one(7, vec![op("absent", Op::Expire(9))]));
    let returned = replica
        .rejoin_mut()
        .make_again(journal, Some(5), 0, &mut |_| ());
    let clocks: Vec<_> = returned.again.iter().map(|it| (it.was, it.clock)).collect();
    assert_eq!(clocks, [(6, Some(1)), (7, None), (8, Some(2))]);
}

#[test]
fn what_is_left_of_a_writer_of_before_is_one_transaction() {
    let mut kept = journal(&[6], 0, 4);
    kept.survivors = vec![op("k", Op::Add(2)), op("l", Op::Add(3))];
    let made = |mut replica: Replica, upto| {
        let returned = replica
            .rejoin_mut()
            .make_again(kept.clone(), upto, 0, &mut |_| ());
        let clocks: Vec<_> = returned.again.iter().map(|it| (it.was, it.clock)).collect();
        (clocks, returned.unknown)
    };
    assert_eq!(made(open(1), Some(0)), (vec![(4, Some(1))], None));
    assert_eq!(made(open(1), Some(1)), (vec![(6, Some(1))], Some((2, 4))));
    let mut exhausted = open(1);
    exhausted.state.set_clock(OWN, u64::MAX);
    assert_eq!(made(exhausted, Some(0)), (vec![(4, None)], None));
}

#[test]
fn a_cancel_tells_how_much_it_left() {
    let mut replica = replica();
    let mut journal = journal(&[], 0, 0);
    let gone = Saw {
        writer: id(7),
        clock: 2,
        total: 1,
    };
    let saw = [saw(4), vec![gone]].concat();
    let did = Did {
        saw,
        ..op("k", Op::Delete)
    };
    journal.made.push(Made::one(6, vec![did]));
    let returned = replica
        .rejoin_mut()
        .make_again(journal, Some(5), 0, &mut |_| ());
    let op = &returned.again[0].ops[0];
    assert_eq!((&op.cancels, op.left), (&vec![(id(1), 4)], 1));
}

/// An admitted guest is not judged by its first view any more. A member's incarnation still is.
#[test]
fn what_a_guest_had_seen_at_first_is_dropped_when_a_member_holds_it() {
    let admit = crate::message::records::Admit {
        turn: 0,
        by: by(1, 3),
    };
    let announce = crate::message::records::Announce {
        clock: 1,
        owner: [9; 32],
        nonce: [9; 16],
        generation: 1,
    };
    for (clock, announced, taken_in, drops) in [
        (1, false, true, true),
        (9, false, true, true),
        (0, false, true, false),
        (1, true, true, false),
        (1, false, false, false),
        (0, true, false, false),
    ] {
        let mut replica = replica();
        let writer_state = &mut replica.membership.table_mut().stored().writer_states[OWN as usize];
        writer_state.base = Some(Box::default());
        writer_state.announce = announced.then(|| Box::new(announce.clone()));
        writer_state.intro = taken_in.then_some(admit);
        replica
            .rejoin
            .confirm(&replica.state, &mut replica.membership, clock);
        let writer_state = &replica.membership.table().writer_states[OWN as usize];
        assert_eq!(
            writer_state.base.is_none(),
            drops,
            "{clock} {announced} {taken_in}"
        );
    }
}

#[test]
fn what_a_store_kept_twice_is_there_once() {
    let clocks = |it: &Journal| it.made.iter().map(|made| made.clock).collect::<Vec<u64>>();
    let mut kept = journal(&[], 0, 0);
    for (more, all) in [
        (&[2, 3][..], &[2, 3][..]),
        (&[2, 3], &[2, 3]),
        (&[3, 4], &[2, 3, 4]),
        (&[5], &[2, 3, 4, 5]),
    ] {
        kept.extend(&journal(more, 0, 0));
        assert_eq!(clocks(&kept), all);
    }
    kept.extend(&journal(&[], 4, 0));
    assert_eq!(clocks(&kept), [5]);
}

/// A later state may hold less of it.
#[test]
fn what_is_left_of_a_earlier_writer_is_found_out_once_if_it_was_never_kept() {
    let survivors_of = |open, before: &[Did]| {
        let mut replica = replica();
        let key_id = replica.intern("k").unwrap();
        replica.state.put_slots(key_id, vec![slot(0)]);
        let mut kept = journal(&[], 0, open);
        kept.survivors = before.to_vec();
        replica.rejoin.keep_earlier(EarlierWriter::new(id(1), kept));
        replica.clear(id(3));
        replica.rejoin.earlier()[0].journal.survivors.clone()
    };
    let found = [op("k", Op::Add(50))];
    assert_eq!(survivors_of(4, &[]), found);
    assert_eq!(survivors_of(0, &[]), []);
    let before = [op("l", Op::Add(9))];
    assert_eq!(survivors_of(4, &before), before);
}

/// Also of keys, which stand beside the transactions.
#[test]
fn keys_that_a_store_kept_twice_are_there_once() {
    let with = |clocks: &[u64]| {
        let mut kept = journal(clocks, 0, 0);
        let once = |clock: &u64| (*clock, Once::new(&clock.to_le_bytes(), b""));
        kept.keyed = clocks.iter().map(once).collect();
        kept
    };
    let clocks = |it: &Journal| it.keyed.iter().map(|keyed| keyed.0).collect::<Vec<u64>>();
    let mut kept = with(&[]);
    for (more, all) in [
        (&[2, 3][..], &[2, 3][..]),
        (&[3, 4], &[2, 3, 4]),
        (&[6, 7], &[2, 3, 4, 6, 7]),
    ] {
        kept.extend(&with(more));
        assert_eq!(clocks(&kept), all);
    }
    assert_eq!(clocks(&kept.after(4)), [6, 7]);
    for (upto, left) in [(1, &[2, 3, 4, 6, 7][..]), (4, &[6, 7]), (6, &[7]), (7, &[])] {
        kept.drop_upto(upto);
        assert_eq!(clocks(&kept), left);
    }
}

/// Of a transaction of plain counters everything is made again that can be.
#[test]
fn an_operation_that_fails_takes_no_other_one_with_it() {
    let mut replica = open(1);
    let mut journal = journal(&[], 0, 0);
    let late = Op::Expire(crate::bounds::EXPIRY_MAX + 1);
    let did = vec![op("k", Op::Add(1)), op("k", late), op("l", Op::Add(2))];
    journal.made.push(Made::one(6, did));
    let returned = replica
        .rejoin_mut()
        .make_again(journal, Some(5), 0, &mut |_| ());
    let again = &returned.again[0];
    assert_eq!((again.refused, again.clock), (false, Some(1)));
    assert_eq!(again.ops.len(), 2);
    assert_eq!((replica.value("k"), replica.value("l")), (Some(1), Some(2)));
}

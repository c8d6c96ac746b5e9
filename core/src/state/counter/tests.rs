//! Slots by hand, at the edges of what they mean.

use super::*;
#[cfg(feature = "guests")]
use crate::state::slot::Fold;
use crate::state::slot::{Moved, Withdrawal};
use alloc::vec;

const ME: Stamp = Stamp {
    writer: OWN,
    clock: 90,
};

fn ids() -> Vec<WriterId> {
    (0..9)
        .map(|byte| WriterId::from_bytes([byte; 16]))
        .collect()
}

fn slot(writer: u32, clock: u64, total: i128, extra: Extra) -> Slot {
    let mut slot = Slot::new(writer, Row { clock, total: 0 }, None);
    slot.set_shard(clock, total, extra);
    slot
}

/// A slot with one add.
fn plain(writer: u32, clock: u64, total: i64) -> Slot {
    Slot::new(writer, Row { clock, total }, None)
}

/// The slot of a writer that this replica absorbed at `clock`.
fn child(mut slot: Slot, clock: u64, amount: i128) -> Slot {
    let to = Stamp { writer: OWN, clock };
    slot.side.moved.set(Some(Box::new(Moved { to, amount })));
    slot
}

fn watermark(slot: &mut Slot, clock: u64, total: i128) {
    slot.side.watermark = Some(Watermark {
        clock,
        total,
        by: ME,
    });
}

fn lift(slot: &mut Slot, clock: u64) {
    slot.side.lift = Some(Box::new(Lift { clock, by: ME }));
}

fn withdraw(slot: &mut Slot, clock: u64, amount: i128, before: u64) {
    let withdrawal = Withdrawal {
        clock,
        amount,
        before,
        several: false,
        by: ME,
    };
    assert!(slot.side.withdraw(withdrawal, &|_, _| false));
}

fn added(clock: u64) -> Extra {
    Extra {
        added: clock,
        ..Extra::default()
    }
}

fn expires(clock: u64, until: u64) -> Extra {
    Extra {
        added: 1,
        expiry: Some(Expiry::new(clock, until)),
        ..Extra::default()
    }
}

fn act<'a>(clock: u64, ids: &'a [WriterId]) -> Act<'a> {
    Act {
        clock,
        ids,
        reuses: false,
    }
}

fn value(slots: &[Slot]) -> Option<i128> {
    sum(slots, &ids()).value()
}

#[test]
fn a_watermark_takes_what_it_saw_up_to_its_clock() {
    let mut one = slot(1, 5, 12, added(5));
    watermark(&mut one, 4, 10);
    assert_eq!(value(&[one.clone()]), Some(2));
    watermark(&mut one, 5, 12);
    assert_eq!(value(&[one.clone()]), None);
    // Only the adds of this lifetime count: the watermark belongs to an earlier one.
    let extra = Extra {
        began: 6,
        added: 6,
        ..Extra::default()
    };
    one.set_shard(6, 7, extra);
    assert_eq!(value(&[one.clone()]), Some(7));
    watermark(&mut one, 6, 7);
    assert_eq!(value(&[one]), None);
}

#[test]
#[cfg(feature = "guests")]
fn a_child_counts_from_its_parents_lifetime_on_and_until_a_watermark_reaches_it() {
    let lifetime = |began| Extra {
        began,
        added: 9,
        ..Extra::default()
    };
    // 4 of the child's 5 were moved: 1 came to light later.
    let of = |parent: Slot| value(&[parent, child(plain(1, 3, 5), 7, 4)]);
    assert_eq!(of(slot(OWN, 9, 20, lifetime(0))), Some(21));
    assert_eq!(of(slot(OWN, 9, 20, lifetime(7))), Some(21));
    assert_eq!(of(slot(OWN, 9, 20, lifetime(8))), Some(20));
    let with = |clock| {
        let mut parent = slot(OWN, 9, 20, lifetime(0));
        watermark(&mut parent, clock, 10);
        of(parent)
    };
    assert_eq!(with(6), Some(11));
    assert_eq!(with(7), Some(10));
    assert_eq!(with(8), Some(10));
}

#[test]
#[cfg(feature = "guests")]
fn children_of_children_count_and_circles_do_not() {
    let under = |slot: Slot, writer| {
        let mut slot = child(slot, 5, 0);
        slot.side.moved.stored().as_mut().unwrap().to.writer = writer;
        slot
    };
    let chain = [
        plain(OWN, 9, 1),
        under(plain(1, 9, 2), OWN),
        under(plain(2, 9, 4), 1),
        under(plain(3, 9, 8), 1),
    ];
    assert_eq!(value(&chain), Some(15));
    let sums: Vec<i128> = sums(&chain, &ids()).iter().map(|it| it.amount).collect();
    assert_eq!(sums, [15, 14, 4, 8]);
    let circle = [
        plain(OWN, 9, 1),
        under(plain(1, 9, 2), 2),
        under(plain(2, 9, 4), 1),
    ];
    assert_eq!(value(&circle), Some(1));
}

#[test]
#[cfg(feature = "guests")]
fn an_expiry_ends_with_a_watermark_or_a_lift_that_reaches_it() {
    let until = |slots: &[Slot]| sum(slots, &ids()).expiry();
    let mut one = slot(
        1,
        8,
        5,
        Extra {
            added: 8,
            ..expires(5, 100)
        },
    );
    assert_eq!(until(&[one.clone()]), Some(100));
    lift(&mut one, 4);
    assert_eq!(until(&[one.clone()]), Some(100));
    lift(&mut one, 5);
    assert_eq!(until(&[one.clone()]), None);
    one.side.lift = None;
    watermark(&mut one, 5, 1);
    assert_eq!(until(&[one.clone()]), None);
    assert_eq!(until(&[slot(1, 8, 5, expires(5, NEVER))]), None);
    // A child's is lifted by what lifts the successor's up to its absorption.
    let of = |clock| {
        let mut parent = slot(OWN, 9, 0, added(9));
        lift(&mut parent, clock);
        until(&[parent, child(slot(1, 5, 0, expires(5, 100)), 7, 0)])
    };
    assert_eq!(of(6), Some(100));
    assert_eq!(of(7), None);
    // A counter that does not exist does not expire.
    let mut gone = slot(
        1,
        5,
        0,
        Extra {
            added: 0,
            ..expires(5, 100)
        },
    );
    assert_eq!(until(&[gone.clone()]), None);
    assert!(sum(&[gone.clone()], &ids()).is_alive());
    lift(&mut gone, 5);
    assert!(!sum(&[gone], &ids()).is_alive());
}

#[test]
#[cfg(feature = "guests")]
fn a_fold_is_a_child_like_any_other() {
    let fold = |clock| Fold {
        clock,
        amount: 3,
        adds: true,
        assignment: None,
        until: Some(100),
    };
    let of = |at, watermark_at, lift_at| {
        let mut own = slot(OWN, 9, 20, added(0));
        own.side.fold.set(Some(Box::new(fold(at))));
        if watermark_at > 0 {
            watermark(&mut own, watermark_at, 0);
        }
        if lift_at > 0 {
            lift(&mut own, lift_at);
        }
        let sum = sum(&[own], &ids());
        (sum.value(), sum.expiry())
    };
    assert_eq!(of(5, 0, 0), (Some(23), Some(100)));
    assert_eq!(of(5, 4, 4), (Some(23), Some(100)));
    assert_eq!(of(5, 4, 5), (Some(23), None));
    assert_eq!(of(5, 5, 0), (None, None));
}

#[test]
fn a_successor_may_hold_more_than_an_add_may_make() {
    let ids = ids();
    let over = i128::from(i64::MAX) + 1;
    let mut slots = vec![plain(OWN, 1, 1)];
    assert!(act(2, &ids).take_over(&mut slots, over));
    assert_eq!(act(3, &ids).add(&mut slots, 1), Ok(()));
    assert_eq!(slots[0].total(), over + 2);
    // Without anything taken over the same sum is too much.
    let mut slots = vec![slot(OWN, 1, over, added(1))];
    assert_eq!(act(3, &ids).add(&mut slots, 1), Err(over));
    let mut slots = vec![plain(OWN, 1, i64::MAX)];
    assert_eq!(act(3, &ids).add(&mut slots, 1), Err(over - 1));
    assert_eq!(slots, [plain(OWN, 1, i64::MAX)]);
}

#[test]
#[cfg(feature = "guests")]
fn no_total_reaches_the_bound() {
    let ids = ids();
    let near = WIDE_MAX - 2;
    let absorbed = Extra {
        absorbed: true,
        ..added(1)
    };
    for sign in [1, -1] {
        let by = sign as i64;
        let mut slots = vec![slot(OWN, 1, sign * near, absorbed)];
        assert_eq!(act(3, &ids).add(&mut slots, by), Ok(()));
        assert_eq!(act(4, &ids).add(&mut slots, by), Err(sign * (near + 1)));
        assert!(!act(4, &ids).take_over(&mut slots, sign));
        assert!(act(4, &ids).take_over(&mut slots, 0));
        // The children's sums count as well.
        let moved = child(slot(1, 1, sign * (near - 5), added(1)), 2, 0);
        let mut slots = vec![slot(OWN, 2, sign * 5, absorbed), moved];
        assert_eq!(act(3, &ids).add(&mut slots, by), Ok(()));
        assert_eq!(act(4, &ids).add(&mut slots, by), Err(sign * (near + 1)));
        // A cancelled amount still fills the total.
        let mut own = slot(OWN, 3, sign * (near + 1), added(3));
        watermark(&mut own, 2, sign * near);
        assert_eq!(act(4, &ids).add(&mut vec![own], by), Err(sign));
    }
}

#[test]
fn a_new_lifetime_says_so_where_an_old_one_may_be_known() {
    let ids = ids();
    let mut slots = vec![];
    act(3, &ids).add(&mut slots, 5).unwrap();
    assert_eq!(slots, [plain(OWN, 3, 5)]);
    watermark(&mut slots[0], 3, 5);
    act(4, &ids).add(&mut slots, 7).unwrap();
    assert_eq!((slots[0].began(), slots[0].total()), (4, 7));
    assert_eq!(slots[0].side.watermark, None);
    // Also if it begins with what is taken over.
    let mut slots = vec![plain(OWN, 3, 5)];
    watermark(&mut slots[0], 3, 5);
    assert!(act(4, &ids).take_over(&mut slots, 7));
    assert_eq!((slots[0].began(), slots[0].total()), (4, 7));
    let mut slots = vec![];
    let again = Act {
        reuses: true,
        ..act(3, &ids)
    };
    again.add(&mut slots, 5).unwrap();
    assert_eq!((slots[0].began(), slots[0].total()), (3, 5));
}

#[test]
#[cfg(feature = "guests")]
fn a_cancel_notes_what_it_sees_alive_and_nothing_else() {
    let ids = ids();
    let mut dead = plain(2, 4, 9);
    watermark(&mut dead, 4, 9);
    let before = dead.side.watermark;
    let moved = child(plain(3, 4, 1), 2, 1);
    let mut slots = vec![plain(OWN, 3, 2), plain(1, 4, 5), dead, moved];
    act(95, &ids).cancel(&mut slots, None);
    let by = act(95, &ids).stamp();
    let noted = |clock, total| Some(Watermark { clock, total, by });
    assert_eq!(slots[1].side.watermark, noted(4, 5));
    assert_eq!(slots[2].side.watermark, before);
    assert_eq!(slots[3].side.watermark, None);
    assert_eq!((slots[0].began(), slots[0].total()), (95, 0));
    assert_eq!(value(&slots), None);
    // Its own dead slot stays as it is.
    let own = slots[0].clone();
    act(96, &ids).cancel(&mut slots, None);
    assert_eq!(slots[0], own);
    act(97, &ids).cancel(&mut slots, Some(Assignment::Set(6)));
    assert_eq!(value(&slots), Some(6));
}

#[test]
fn an_expiry_replaces_those_that_are_seen() {
    let ids = ids();
    let mut slots = vec![plain(OWN, 3, 2), slot(1, 6, 5, expires(6, 50))];
    act(7, &ids).expire(&mut slots, 70);
    assert_eq!(slots[1].lift_clock(), 6);
    assert_eq!(sum(&slots, &ids).expiry(), Some(70));
    assert_eq!(value(&slots), Some(7));
    // Again in the same transaction: the later one stays.
    act(7, &ids).expire(&mut slots, 60);
    assert_eq!(sum(&slots, &ids).expiry(), Some(60));
    act(8, &ids).expire(&mut slots, 40);
    assert_eq!(slots[0].lift_clock(), 7);
    assert_eq!(sum(&slots, &ids).expiry(), Some(40));
    let mut others = vec![plain(1, 6, 5)];
    act(7, &ids).expire(&mut others, 70);
    assert_eq!(others[0].writer(), OWN);
    assert_eq!(sum(&others, &ids).expiry(), Some(70));
}

#[test]
fn an_add_keeps_an_expiry_of_its_lifetime_only() {
    let ids = ids();
    let mut slots = vec![slot(OWN, 5, 5, expires(5, 50))];
    act(7, &ids).add(&mut slots, 1).unwrap();
    assert_eq!(sum(&slots, &ids).expiry(), Some(50));
    // A new lifetime of a counter that no longer exists does not inherit it.
    let mut slots = vec![slot(
        OWN,
        5,
        0,
        Extra {
            added: 0,
            ..expires(5, 50)
        },
    )];
    act(7, &ids).add(&mut slots, 1).unwrap();
    assert_eq!((slots[0].began(), value(&slots)), (7, Some(1)));
    assert_eq!(sum(&slots, &ids).expiry(), None);
    let dead = slot(
        1,
        5,
        0,
        Extra {
            added: 0,
            ..expires(5, 50)
        },
    );
    let mut slots = vec![dead.clone()];
    act(7, &ids).add(&mut slots, 1).unwrap();
    assert_eq!(sum(&slots, &ids).expiry(), None);
    assert_eq!(slots[1].lift_clock(), 5);
    // A counter that exists by others' adds keeps it, and the own lifetime too.
    let mut slots = vec![
        slot(
            OWN,
            5,
            0,
            Extra {
                added: 0,
                ..expires(5, 50)
            },
        ),
        plain(1, 2, 3),
    ];
    act(7, &ids).add(&mut slots, 1).unwrap();
    assert_eq!(sum(&slots, &ids).expiry(), Some(50));
    assert_eq!((slots[0].began(), value(&slots)), (0, Some(4)));
    let mut slots = vec![plain(1, 2, 3), dead.clone()];
    slots[1].side.writer = 2;
    act(7, &ids).add(&mut slots, 1).unwrap();
    assert_eq!(sum(&slots, &ids).expiry(), Some(50));
}

#[test]
#[cfg(feature = "guests")]
fn what_can_mean_nothing_any_more_is_dropped() {
    let kept = |slots: &[Slot]| {
        let mut slots = slots.to_vec();
        normalize(&mut slots);
        slots
    };
    let lifetime = |began| Extra {
        began,
        added: 9,
        ..Extra::default()
    };
    let moved = || child(plain(1, 3, 5), 7, 4);
    let numbers = |slots: &[Slot]| kept(slots).iter().map(Slot::writer).collect::<Vec<u32>>();
    assert_eq!(numbers(&[slot(OWN, 9, 20, lifetime(7)), moved()]), [0, 1]);
    assert_eq!(numbers(&[slot(OWN, 9, 20, lifetime(8)), moved()]), [0]);
    assert!(numbers(&[moved()]).is_empty());
    let with = |clock| {
        let mut parent = slot(OWN, 9, 20, lifetime(0));
        watermark(&mut parent, clock, 1);
        numbers(&[parent, moved()])
    };
    assert_eq!(with(6), [0, 1]);
    assert_eq!(with(7), [0]);
    // A watermark of an earlier lifetime.
    let mut one = slot(1, 9, 20, lifetime(8));
    watermark(&mut one, 7, 1);
    assert_eq!(kept(&[one.clone()])[0].side.watermark, None);
    watermark(&mut one, 8, 1);
    assert!(kept(&[one.clone()])[0].side.watermark.is_some());
    // A fold of an earlier lifetime, or that was cancelled.
    let fold = |clock| {
        Some(Box::new(Fold {
            clock,
            amount: 3,
            adds: true,
            assignment: None,
            until: Some(100),
        }))
    };
    one.side.watermark = None;
    for (clock, stays) in [(7, false), (8, true), (9, true)] {
        one.side.fold.set(fold(clock));
        assert_eq!(kept(&[one.clone()])[0].side.fold.is_some(), stays);
    }
    watermark(&mut one, 8, 1);
    for (clock, stays) in [(8, false), (9, true)] {
        one.side.fold.set(fold(clock));
        assert_eq!(kept(&[one.clone()])[0].side.fold.is_some(), stays);
    }
}

#[test]
#[cfg(feature = "guests")]
fn a_lift_stays_as_long_as_there_is_something_to_lift() {
    let lifts = |slots: &[Slot]| {
        let mut slots = slots.to_vec();
        normalize(&mut slots);
        slots[0].side.lift.is_some()
    };
    let mut own = slot(OWN, 9, 0, added(9));
    lift(&mut own, 6);
    assert!(!lifts(&[own.clone()]));
    for (clock, stays) in [(5, true), (6, true), (7, false)] {
        own.set_shard(
            9,
            0,
            Extra {
                added: 9,
                ..expires(clock, 50)
            },
        );
        assert_eq!(lifts(&[own.clone()]), stays);
    }
    own.set_shard(9, 0, added(9));
    for (clock, stays) in [(6, true), (7, false)] {
        let one = child(slot(1, 3, 0, expires(3, 50)), clock, 0);
        assert_eq!(lifts(&[own.clone(), one.clone()]), stays);
        // Another's child is none of its business.
        let mut other = one.clone();
        other.side.writer = 2;
        other.side.moved.stored().as_mut().unwrap().to.writer = 1;
        assert!(!lifts(&[own.clone(), plain(1, 9, 0), other]));
        for until in [Some(50), None] {
            let mut folded = own.clone();
            folded.side.fold.set(Some(Box::new(Fold {
                clock,
                amount: 3,
                adds: true,
                assignment: None,
                until,
            })));
            assert_eq!(lifts(&[folded]), stays && until.is_some());
        }
    }
}

#[test]
#[cfg(feature = "guests")]
fn what_is_withdrawn_does_not_count_where_no_watermark_covers_it() {
    let value = |slot: &Slot| sum(core::slice::from_ref(slot), &ids()).value();
    // 5 at 3, 2 at 7, and 10 at 9.
    let mut one = plain(1, 9, 17);
    withdraw(&mut one, 7, 2, 3);
    assert_eq!(value(&one), Some(15));
    for (clock, total, left) in [(3, 5, 10), (7, 7, 10), (8, 7, 10)] {
        let mut one = one.clone();
        watermark(&mut one, clock, total);
        assert_eq!(value(&one), Some(left), "watermark at {clock}");
        let mut slots = vec![one];
        normalize(&mut slots);
        assert_eq!(slots[0].side.withdrawals.is_empty(), clock >= 7, "{clock}");
        assert_eq!(value(&slots[0]), Some(left), "watermark at {clock}");
    }
    watermark(&mut one, 9, 17);
    assert_eq!(value(&one), None);
}

#[test]
#[cfg(feature = "guests")]
fn a_slot_of_which_all_was_withdrawn_makes_nothing_exist() {
    let mut one = plain(1, 9, 17);
    withdraw(&mut one, 9, 10, 7);
    assert_eq!(one.last_add(), 7);
    withdraw(&mut one, 7, 2, 3);
    assert_eq!(one.last_add(), 3);
    let value = |slot: &Slot| sum(core::slice::from_ref(slot), &ids()).value();
    assert_eq!(value(&one), Some(5));
    // The canceller had seen only the adds that are left.
    let mut cancelled = one.clone();
    watermark(&mut cancelled, 3, 5);
    assert_eq!(value(&cancelled), None);
    withdraw(&mut one, 3, 5, 0);
    assert_eq!((one.last_add(), value(&one)), (0, None));
    // Its owner begins anew.
    let act = Act {
        clock: 20,
        ids: &ids(),
        reuses: false,
    };
    let mut own = one.clone();
    own.side.writer = OWN;
    let mut slots = vec![own];
    act.add(&mut slots, 4).unwrap();
    assert_eq!((slots[0].began(), slots[0].total()), (20, 4));
    assert!(slots[0].side.withdrawals.is_empty());
}

#[test]
#[cfg(feature = "guests")]
fn a_withdrawal_of_an_earlier_lifetime_is_void() {
    let lifetime = Extra {
        began: 8,
        ..added(9)
    };
    let mut one = slot(1, 9, 4, lifetime);
    withdraw(&mut one, 7, 2, 0);
    let mut slots = vec![one];
    assert_eq!(sum(&slots, &ids()).amount, 4);
    normalize(&mut slots);
    assert!(slots[0].side.withdrawals.is_empty());
    withdraw(&mut slots[0], 8, 1, 0);
    normalize(&mut slots);
    assert_eq!(sum(&slots, &ids()).amount, 3);
}

/// The begin of a lifetime is collected elsewhere, and arrives with a later row, before an end is decided here.
#[test]
#[cfg(feature = "guests")]
fn an_end_says_nothing_of_a_lifetime_that_began_since() {
    let ended = Expired {
        clock: 3,
        time: 9,
        upto: [(1, 4), (2, 5)]
            .map(|(writer, clock)| Upto {
                writer,
                clock,
                total: 7,
            })
            .into(),
        spared: None,
    };
    let again = Extra {
        began: 6,
        added: 6,
        ..Extra::default()
    };
    let mut slots = vec![
        slot(1, 6, 20, again),
        plain(2, 5, 7),
        slot(3, 3, 0, added(0)),
    ];
    slots[2].side.expired.set(vec![ended]);
    assert_eq!(value(&slots), Some(20));
    normalize(&mut slots);
    assert_eq!(value(&slots), Some(20));
    slots[0].set_shard(8, 30, added(8));
    assert_eq!(value(&slots), Some(30));
}

/// A child is void, and stays as it has the record of an end. Then the clock at which its parent's lifetime began is
/// collected.
#[test]
#[cfg(feature = "guests")]
fn a_void_child_with_the_record_of_an_end_never_counts_again() {
    let lifetime = Extra {
        began: 9,
        ..added(12)
    };
    let parent = slot(OWN, 12, 3, lifetime);
    let other = plain(2, 4, 1);
    let end = Expired {
        clock: 3,
        time: 50,
        upto: vec![Upto {
            writer: 2,
            clock: 4,
            total: 1,
        }],
        spared: Some(ME),
    };
    let expiry = Expiry {
        clock: 2,
        until: 70,
        floor: Default::default(),
    };
    let refreshed = slot(
        1,
        2,
        5,
        Extra {
            expiry: Some(expiry),
            ..added(1)
        },
    );
    let mut cancelled = plain(1, 2, 5);
    watermark(&mut cancelled, 2, 5);
    for first in [refreshed, cancelled] {
        let mut void = child(first, 7, 5);
        void.side.expired.set(vec![end.clone()]);
        let mut grandchild = plain(3, 5, 7);
        let to = Stamp {
            writer: 1,
            clock: 2,
        };
        grandchild
            .side
            .moved
            .set(Some(Box::new(Moved { to, amount: 7 })));
        let mut slots = vec![parent.clone(), void, other.clone(), grandchild];
        normalize(&mut slots);
        assert_eq!(slots.len(), 3);
        let all = sum(&slots, &ids());
        assert_eq!((all.value(), all.until), (Some(4), None));
        slots[0].set_shard(12, 3, added(12));
        normalize(&mut slots);
        assert_eq!(sum(&slots, &ids()), all);
        // Nothing keeps it once the end is decided.
        slots[1].side.expired.take();
        slots[0] = parent.clone();
        normalize(&mut slots);
        assert_eq!(slots.len(), 2);
    }
}

//! Slots by hand: what is collected when, and what is left of it.

use super::*;
use crate::shard::Row;
use crate::slot::{Base, Cut, Expiry, Extra, Lift, Moved, RankedBase};
use alloc::vec;

fn ids() -> Vec<WriterId> {
    (0..9)
        .map(|byte| WriterId::from_bytes([byte; 16]))
        .collect()
}

fn by(writer: u32, clock: u64) -> Stamp {
    Stamp { writer, clock }
}

fn plain(writer: u32, clock: u64, total: i64) -> Slot {
    Slot::new(writer, Row { clock, total }, None)
}

fn slot(writer: u32, clock: u64, extra: Extra) -> Slot {
    let mut slot = plain(writer, clock, 0);
    slot.set_shard(clock, 7, extra);
    slot
}

fn child(mut slot: Slot, to: Stamp, amount: i128) -> Slot {
    *slot.side.moved = Some(Box::new(Moved { to, amount }));
    slot
}

fn cut(slot: &mut Slot, clock: u64, total: i128, by: Stamp) {
    slot.side.cut = Some(Cut { clock, total, by });
}

fn lift(slot: &mut Slot, clock: u64, by: Stamp) {
    slot.side.lift = Some(Box::new(Lift { clock, by }));
}

/// What is left, whether anything was collected, and whether anything waits, if all have seen
/// everything but `unseen`.
fn swept(slots: &[Slot], unseen: &[Stamp]) -> (Vec<Slot>, bool, bool) {
    let mut slots = slots.to_vec();
    let before = slots.clone();
    let mut waits = false;
    let stable = |stamp: Stamp| !unseen.contains(&stamp);
    let changed = sweep(&mut slots, &ids(), &stable, &mut waits);
    assert_eq!(changed, slots != before);
    (slots, changed, waits)
}

fn fold_of(slot: &Slot) -> Fold {
    **slot.side.fold.as_ref().expect("something was folded")
}

#[test]
fn a_dead_slot_goes_when_all_have_seen_it_and_what_killed_it() {
    let mut dead = plain(1, 5, 7);
    cut(&mut dead, 5, 7, by(2, 9));
    let one = [dead.clone()];
    assert_eq!(swept(&one, &[]), (vec![], true, false));
    for unseen in [by(1, 5), by(2, 9)] {
        assert_eq!(swept(&one, &[unseen]), (one.to_vec(), false, true));
    }
    lift(&mut dead, 5, by(3, 8));
    assert_eq!(
        swept(&[dead.clone()], &[by(3, 8)]),
        (vec![dead], false, true)
    );
    let alive = [plain(1, 5, 7)];
    assert_eq!(swept(&alive, &[]), (alive.to_vec(), false, false));
    assert_eq!(swept(&alive, &[by(1, 5)]), (alive.to_vec(), false, false));
}

#[test]
fn a_child_is_folded_when_all_have_seen_its_absorption_and_its_cut() {
    let heir = plain(0, 9, 20);
    let mut one = child(plain(1, 3, 5), by(0, 8), 4);
    let both = [heir.clone(), one.clone()];
    let (left, changed, waits) = swept(&both, &[]);
    assert!(changed && !waits && left.len() == 1);
    let fold = fold_of(&left[0]);
    assert_eq!((fold.clock, fold.amount, fold.adds), (8, 1, true));
    assert_eq!(swept(&both, &[by(0, 8)]), (both.to_vec(), false, true));
    cut(&mut one, 2, 3, by(2, 6));
    let both = [heir, one];
    assert_eq!(swept(&both, &[by(2, 6)]), (both.to_vec(), false, true));
    // 5 of which 3 are cancelled, and 4 were moved.
    assert_eq!(fold_of(&swept(&both, &[]).0[0]).amount, -2);
}

#[test]
fn children_of_children_are_folded_first() {
    let all = [
        plain(0, 9, 20),
        child(plain(1, 7, 5), by(0, 8), 5),
        child(plain(2, 3, 6), by(1, 6), 4),
    ];
    let (left, changed, waits) = swept(&all, &[]);
    assert!(changed && !waits && left.len() == 1);
    assert_eq!(fold_of(&left[0]).amount, 2);
    // The inner one waits, so the outer one does.
    assert_eq!(swept(&all, &[by(1, 6)]), (all.to_vec(), false, true));
    // The inner one is folded into the outer one, which waits.
    let (left, changed, waits) = swept(&all, &[by(0, 8)]);
    assert!(changed && waits && left.len() == 2);
    assert_eq!(fold_of(&left[1]).amount, 2);
}

#[test]
fn what_is_folded_adds_up() {
    let sum = |amount, adds, value, until| counter::Sum {
        amount,
        adds,
        base: Some(RankedBase {
            set: true,
            clock: 1,
            writer: ids()[1],
            value,
        }),
        until: Some(until),
    };
    let mut parent = plain(0, 9, 20);
    lift(&mut parent, 5, by(1, 1));
    fold(&mut parent, 6, &sum(10, false, 3, 100), 4);
    let first = fold_of(&parent);
    assert_eq!((first.clock, first.amount, first.adds), (6, 6, false));
    assert_eq!(first.until, Some(100));
    fold(&mut parent, 5, &sum(1, true, 2, 200), 4);
    let second = fold_of(&parent);
    assert_eq!((second.clock, second.amount, second.adds), (6, 3, true));
    assert_eq!((second.base, second.until), (first.base, Some(100)));
    fold(&mut parent, 8, &sum(0, false, 9, 50), 0);
    let third = fold_of(&parent);
    assert_eq!((third.clock, third.amount, third.adds), (8, 3, true));
    assert_eq!((third.base.unwrap().value, third.until), (9, Some(100)));
    // An expiry that is lifted by now is not to come back under a later clock.
    for (lifted, until) in [(7, Some(300)), (8, None), (9, None)] {
        let mut parent = parent.clone();
        lift(&mut parent, lifted, by(1, 1));
        fold(&mut parent, 9, &counter::Sum::default(), -1);
        assert_eq!(fold_of(&parent).until, Some(100).filter(|_| lifted < 8));
        *parent.side.fold = None;
        fold(&mut parent, 8, &sum(0, false, 9, 300), 0);
        assert_eq!(fold_of(&parent).until, until);
    }
}

#[test]
fn nothing_is_not_folded() {
    let mut parent = plain(0, 9, 20);
    let nothing = counter::Sum {
        amount: 4,
        ..counter::Sum::default()
    };
    fold(&mut parent, 8, &nothing, 4);
    assert_eq!(*parent.side.fold, None);
    // Two that come to nothing together.
    fold(&mut parent, 7, &nothing, 3);
    fold(&mut parent, 8, &nothing, 5);
    assert_eq!(*parent.side.fold, None);
    fold(&mut parent, 7, &nothing, 3);
    fold(&mut parent, 8, &nothing, 4);
    assert_eq!(fold_of(&parent).clock, 7);
}

#[test]
fn the_begin_of_a_life_is_forgotten_when_all_have_seen_it() {
    let extra = Extra {
        born: 4,
        added: 6,
        ..Extra::default()
    };
    let one = [slot(1, 6, extra)];
    let (left, _, waits) = swept(&one, &[]);
    assert_eq!((left[0].born(), waits), (0, false));
    assert_eq!(left, [plain(1, 6, 7)]);
    assert_eq!(swept(&one, &[by(1, 4)]), (one.to_vec(), false, true));
    // A base is of the clock at which the life began.
    let with = Extra {
        base: Some(Base::Set(3)),
        ..extra
    };
    let mut one = [slot(1, 6, with)];
    assert_eq!(swept(&one, &[]), (one.to_vec(), false, false));
    cut(&mut one[0], 5, 0, by(2, 9));
    assert_eq!(swept(&one, &[by(2, 9)]), (one.to_vec(), false, true));
    let left = &swept(&one, &[]).0[0];
    assert_eq!((left.extra().base, left.born()), (None, 0));
    let left = &swept(&one, &[by(1, 4)]).0[0];
    assert_eq!((left.extra().base, left.born()), (None, 4));
}

#[test]
fn an_expiry_that_was_taken_away_goes_when_all_have_seen_that() {
    let extra = Extra {
        added: 6,
        expiry: Some(Expiry {
            clock: 5,
            until: 100,
        }),
        ..Extra::default()
    };
    let living = [slot(1, 6, extra)];
    assert_eq!(swept(&living, &[]), (living.to_vec(), false, false));
    for lifted in [4, 5, 6] {
        let mut one = [slot(1, 6, extra)];
        lift(&mut one[0], lifted, by(2, 9));
        let (left, _, waits) = swept(&one, &[]);
        let dead = lifted >= 5;
        assert_eq!(left[0].extra().expiry.is_some(), !dead);
        assert!(left[0].side.lift.is_none() && !waits);
        let (left, changed, waits) = swept(&one, &[by(2, 9)]);
        assert_eq!((left, changed, waits), (one.to_vec(), false, true));
        let (left, _, waits) = swept(&one, &[by(1, 5)]);
        assert_eq!(left[0].side.lift.is_some(), dead);
        assert_eq!((left[0].extra().expiry, waits), (extra.expiry, dead));
    }
    let mut one = [slot(1, 6, extra)];
    cut(&mut one[0], 5, 0, by(2, 9));
    assert_eq!(swept(&one, &[]).0[0].extra().expiry, None);
    let (left, _, waits) = swept(&one, &[by(1, 5)]);
    assert_eq!((left, waits), (one.to_vec(), true));
}

#[test]
fn a_lift_goes_with_what_it_lifts() {
    let with = |clock, amount| {
        let mut one = plain(0, 9, 20);
        lift(&mut one, 6, by(2, 9));
        *one.side.fold = Some(Box::new(Fold {
            clock,
            amount,
            adds: false,
            base: None,
            until: Some(100),
        }));
        one
    };
    for (clock, until) in [(5, None), (6, None), (7, Some(100))] {
        let (left, _, waits) = swept(&[with(clock, 3)], &[]);
        assert!(left[0].side.lift.is_none() && !waits);
        assert_eq!(fold_of(&left[0]).until, until);
        let left = &swept(&[with(clock, 0)], &[]).0[0];
        assert_eq!(left.side.fold.is_some(), until.is_some());
    }
    // A child that is not folded yet may have an expiry that it lifts.
    let heir = {
        let mut one = with(7, 3);
        *one.side.fold = None;
        one
    };
    let both = [heir, child(plain(1, 3, 5), by(0, 8), 4)];
    assert_eq!(swept(&both, &[by(0, 8)]), (both.to_vec(), false, true));
}

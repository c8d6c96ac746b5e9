//! What a cancel saw, cancelled again after a return, as far as it can still be told apart.

use super::*;
use crate::roster::{Bye, Fence, Retired};
use crate::shard::Row;
use crate::slot::{Extra, Fold, Moved, Stamp};
use alloc::vec;

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

fn by(writer: u32, clock: u64) -> Stamp {
    Stamp { writer, clock }
}

/// A replica that holds the writer 1 up to 10, and the writer 2.
fn replica() -> Replica {
    let mut replica = Replica::new(crate::Space::default(), id(9));
    for byte in [1, 2] {
        let number = replica.number(id(byte));
        assert_eq!(number, u32::from(byte));
        replica.clocks[number as usize] = 10;
    }
    replica
}

/// The slot of the writer 1: a row at 10, a life that began at `born`.
fn slot(born: u64) -> Slot {
    let mut slot = Slot::new(
        1,
        Row {
            clock: 10,
            total: 0,
        },
        None,
    );
    let extra = Extra {
        born,
        added: 10,
        ..Extra::default()
    };
    slot.set_shard(10, 50, extra);
    slot
}

/// Up to which clock the writer 1 is cut by a cancel that saw it at `clock`; `None` if the cancel is
/// left out.
fn again(replica: &Replica, slots: &[Slot], clock: u64) -> Option<u64> {
    let mut slots = slots.to_vec();
    let saw = vec![Saw {
        writer: id(1),
        clock,
        total: 5,
    }];
    let done = replica.cancel_again(&mut slots, saw, &replica.act(77));
    let cut = slots.first().and_then(|slot| slot.side.cut);
    if let Some(cut) = cut.filter(|cut| cut.by == by(OWN, 77)) {
        assert_eq!((cut.clock, cut.total), (clock, 5));
        assert_eq!(done, [(id(1), clock)]);
    }
    done.first().map(|_| cut.map_or(0, |cut| cut.clock))
}

#[test]
fn a_cancel_is_made_again_up_to_what_it_saw() {
    let replica = replica();
    assert_eq!(again(&replica, &[slot(0)], 4), Some(4));
    assert_eq!(again(&replica, &[slot(0)], 10), Some(10));
    // What is not held here can't be cancelled here.
    assert_eq!(again(&replica, &[slot(0)], 11), None);
    // Of an earlier life all is gone.
    assert_eq!(again(&replica, &[slot(4)], 4), Some(4));
    assert_eq!(again(&replica, &[slot(5)], 4), Some(0));
    assert_eq!(again(&replica, &[], 4), Some(0));
    // A longer cut stands.
    let mut cutted = slot(0);
    for (clock, stands) in [(3, 4), (4, 4), (5, 5)] {
        cutted.side.cut = Some(Cut {
            clock,
            total: 1,
            by: by(2, 3),
        });
        assert_eq!(again(&replica, &[cutted.clone()], 4), Some(stands));
    }
    let mut other = replica.clone();
    other.numbers.remove(&id(1));
    assert_eq!(again(&other, &[slot(0)], 4), None);
}

#[test]
fn nothing_is_cancelled_of_who_was_given_up() {
    let mut fenced = replica();
    fenced.roster.cards[1].fence = Some(Fence {
        turn: 0,
        by: by(2, 3),
        heir: 2,
    });
    assert_eq!(again(&fenced, &[slot(0)], 4), None);
    let mut retired = replica();
    retired.roster.cards[1].retired = Some(Retired {
        to: by(2, 3),
        upto: 10,
    });
    assert_eq!(again(&retired, &[slot(0)], 4), None);
    let mut left = replica();
    left.roster.cards[1].bye = Some(Bye { clock: 10, heir: 2 });
    assert_eq!(again(&left, &[slot(0)], 4), Some(4));
}

#[test]
fn nothing_is_cancelled_where_something_was_absorbed_since() {
    let replica = replica();
    let child = |to: Stamp| {
        let mut child = Slot::new(2, Row { clock: 3, total: 1 }, None);
        *child.side.moved = Some(Box::new(Moved { to, amount: 1 }));
        child
    };
    let with = |to| again(&replica, &[slot(0), child(to)], 4);
    assert_eq!(with(by(1, 3)), Some(4));
    assert_eq!(with(by(1, 4)), Some(4));
    assert_eq!(with(by(1, 5)), None);
    assert_eq!(with(by(OWN, 5)), Some(4));
    for (clock, done) in [(3, Some(4)), (4, Some(4)), (5, None)] {
        let mut folded = slot(0);
        *folded.side.fold = Some(Box::new(Fold {
            clock,
            amount: 1,
            adds: false,
            base: None,
            until: None,
        }));
        assert_eq!(again(&replica, &[folded], 4), done);
    }
}

#[test]
fn nothing_is_cancelled_where_a_life_may_have_begun_since() {
    let mut replica = replica();
    let announce = crate::roster::Announce {
        clock: 1,
        owner: [1; 32],
        nonce: [1; 16],
        generation: 1,
    };
    replica.roster.cards[2].announce = Some(Box::new(announce));
    replica.roster.floor = vec![0, 0, 5];
    assert!(replica.horizons().next().is_some());
    assert_eq!(again(&replica, &[slot(0)], 4), None);
    assert_eq!(again(&replica, &[slot(0)], 10), Some(10));
    assert_eq!(again(&replica, &[slot(3)], 4), Some(4));
}

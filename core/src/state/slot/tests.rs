//! Slots by hand: totals of more than 64 bits, watermarks of other lifetimes, records by their stamps.

use super::*;
use alloc::vec::Vec;

fn slot(clock: u64, total: i128, extra: Extra) -> Slot {
    let mut slot = Slot::new(3, Row { clock, total: 0 }, None);
    slot.set_shard(clock, total, extra);
    slot
}

fn by(writer: u32, clock: u64) -> Stamp {
    Stamp { writer, clock }
}

fn watermark(clock: u64) -> Option<Watermark> {
    Some(Watermark {
        clock,
        total: 1,
        by: by(1, 9),
    })
}

/// A side with each record, stamped by the writers 1 to 3 at clocks of ten times that.
fn full() -> Side {
    let mut side = Side {
        watermark: Some(Watermark {
            clock: 1,
            total: 1,
            by: by(1, 10),
        }),
        lift: Some(Box::new(Lift {
            clock: 1,
            by: by(2, 20),
        })),
        ..Side::new(3)
    };
    side.moved.set(Some(Box::new(Moved {
        to: by(4, 40),
        amount: 5,
    })));
    side.fold.set(Some(Box::new(Fold {
        clock: 30,
        amount: 1,
        adds: false,
        assignment: None,
        until: None,
    })));
    side
}

fn stamps(side: &Side) -> Vec<Stamp> {
    let mut stamps = Vec::new();
    side.stamps(&mut |stamp| stamps.push(stamp));
    stamps
}

#[test]
fn a_total_comes_back_whole() {
    let wide = [WIDE_MAX, 1 << 64, 1 << 63, (1 << 63) - 1, 1 << 32, 5, 0];
    for total in wide
        .into_iter()
        .flat_map(|total| [total, -total, 1 - total])
    {
        let extra = Extra {
            added: 7,
            ..Extra::default()
        };
        let slot = slot(7, total, extra);
        assert_eq!(slot.total(), total);
        assert_eq!((slot.row.clock, slot.extra().added), (7, 7));
        assert_eq!(slot.side.extra.is_none(), i64::try_from(total).is_ok());
    }
    // One add at the row's clock is all that a plain row says.
    assert!(
        slot(
            7,
            1,
            Extra {
                added: 6,
                ..Extra::default()
            }
        )
        .side
        .extra
        .is_some()
    );
}

#[test]
#[cfg(feature = "guests")]
fn a_watermark_of_an_earlier_lifetime_is_none() {
    let extra = Extra {
        began: 5,
        added: 7,
        ..Extra::default()
    };
    let mut slot = slot(7, 1, extra);
    assert_eq!(
        (slot.began(), slot.watermark_clock(), slot.lift_clock()),
        (5, 0, 0)
    );
    for (clock, valid) in [(4, 0), (5, 5), (6, 6)] {
        slot.side.watermark = watermark(clock);
        assert_eq!(slot.watermark_clock(), valid);
    }
    slot.side.lift = full().lift;
    assert_eq!(slot.lift_clock(), 1);
    assert_eq!(
        Slot::new(3, Row { clock: 1, total: 1 }, Some(&extra)).began(),
        5
    );
}

#[test]
fn an_expiry_that_was_taken_away_does_not_come_back() {
    let expiry = Some(Expiry::new(6, 100));
    let extra = Extra {
        added: 3,
        expiry,
        ..Extra::default()
    };
    for (watermark_at, lift_at, lives) in [(0, 0, true), (5, 5, true), (6, 0, false), (0, 6, false)]
    {
        let mut slot = slot(7, 1, extra);
        slot.side.watermark = watermark(watermark_at).filter(|_| watermark_at > 0);
        slot.side.lift = Some(Box::new(Lift {
            clock: lift_at,
            by: by(1, 9),
        }));
        assert_eq!(slot.living_extra().expiry.is_some(), lives);
        assert_eq!(slot.living_extra().added, 3);
        assert_eq!(slot.extra().expiry, expiry);
    }
}

#[test]
#[cfg(feature = "guests")]
fn a_side_is_empty_without_records_only() {
    assert!(Side::new(3).is_empty());
    let parts: [fn(&mut Side); 5] = [
        |side| side.extra = Some(Box::default()),
        |side| side.watermark = full().watermark,
        |side| side.lift = full().lift,
        |side| side.moved = full().moved,
        |side| side.fold = full().fold,
    ];
    for put in parts {
        let mut side = Side::new(3);
        put(&mut side);
        assert!(!side.is_empty());
    }
    let parts: [fn(&mut Fold); 4] = [
        |fold| fold.amount = -1,
        |fold| fold.adds = true,
        |fold| fold.until = Some(3),
        |fold| {
            fold.assignment = Some(RankedAssignment {
                set: false,
                clock: 1,
                writer: WriterId::from_bytes([1; 16]),
                value: 0,
            });
        },
    ];
    let empty = Fold {
        amount: 0,
        ..**full().fold.as_ref().unwrap()
    };
    assert!(empty.is_empty());
    for put in parts {
        let mut fold = empty;
        put(&mut fold);
        assert!(!fold.is_empty());
    }
}

#[test]
#[cfg(feature = "guests")]
fn records_are_kept_that_are_newer() {
    let all = [by(1, 10), by(2, 20), by(4, 40), by(3, 30)];
    assert_eq!(stamps(&full()), all);
    for (number, stamp) in all.into_iter().enumerate() {
        let mut lows = alloc::vec![0; 5];
        for (low, kept) in [(stamp.clock - 1, 4), (stamp.clock, 3)] {
            lows[stamp.writer as usize] = low;
            let mut side = full();
            side.keep_newer(&lows);
            let left = stamps(&side);
            assert_eq!(left.len(), kept);
            assert_eq!(left.contains(&stamp), kept == 4, "{number}");
        }
    }
}

#[test]
#[cfg(feature = "guests")]
fn renumbering_reaches_each_record() {
    let mut side = full();
    side.renumber(|number| number + 100);
    let all = [by(101, 10), by(102, 20), by(104, 40), by(103, 30)];
    assert_eq!(stamps(&side), all);
    assert_eq!(side.writer, 103);
}

#[test]
fn a_set_beats_a_reset_whatever_their_clocks() {
    let assignment = |set, clock, byte, value| RankedAssignment {
        set,
        clock,
        writer: WriterId::from_bytes([byte; 16]),
        value,
    };
    assert!(assignment(true, 1, 1, 0) > assignment(false, 9, 9, 0));
    assert!(assignment(true, 2, 1, 0) > assignment(true, 1, 9, 9));
    assert!(assignment(true, 2, 2, 0) > assignment(true, 2, 1, 9));
    assert_eq!(
        (Assignment::Reset.value(), Assignment::Set(-4).value()),
        (0, -4)
    );
}

/// All replicas keep the same one of two contents of one clock: the one of the greater total.
#[test]
fn contents_of_one_clock_are_ordered_by_what_they_come_to() {
    let of = |clock, total, extra| slot(clock, total, extra).rank();
    let assignment = |assignment| Extra {
        began: 3,
        assignment,
        ..Extra::default()
    };
    let totals = [-1 << 70, -1 << 64, -2, -1, 0, 1, 1 << 63, 1 << 64, 1 << 70];
    let totals = totals.map(|total| of(5, total, assignment(None)));
    assert!(totals.is_sorted_by(|a, b| a < b));
    let sets = [i64::MIN, -1, 0, 1, i64::MAX].map(|value| Some(Assignment::Set(value)));
    let bases = [None, Some(Assignment::Reset)].into_iter().chain(sets);
    let bases: Vec<_> = bases.map(|it| of(5, 7, assignment(it))).collect();
    assert!(bases.is_sorted_by(|a, b| a < b));
    assert!(of(6, -1 << 70, assignment(None)) > of(5, 1 << 70, assignment(None)));
}

fn withdrawal(clock: u64, several: bool, by: Stamp) -> Withdrawal {
    Withdrawal {
        clock,
        amount: 1,
        before: 0,
        several,
        by,
    }
}

#[test]
#[cfg(feature = "guests")]
fn of_two_withdrawals_of_one_add_the_one_above_stays() {
    let above = |a: Stamp, b: Stamp| a.writer > b.writer;
    let [first, last] = [
        withdrawal(3, false, by(2, 9)),
        withdrawal(8, false, by(2, 9)),
    ];
    for (writer, taken) in [(1, false), (2, false), (3, true)] {
        let mut side = Side::new(3);
        for known in [last, first] {
            assert!(side.withdraw(known, &above));
        }
        let other = withdrawal(8, false, by(writer, 5));
        assert_eq!(side.withdraw(other, &above), taken);
        let stays = if taken { other } else { last };
        assert_eq!(*side.withdrawals, [first, stays]);
    }
}

#[test]
#[cfg(feature = "guests")]
fn one_that_stands_for_several_takes_their_place() {
    let single = |clock| withdrawal(clock, false, by(2, 9));
    let mut side = Side::new(3);
    for clock in [3, 5, 8] {
        side.withdraw(single(clock), &|_, _| false);
    }
    let several = withdrawal(5, true, by(1, 9));
    assert!(side.withdraw(several, &|_, _| false));
    assert_eq!(*side.withdrawals, [several, single(8)]);
}

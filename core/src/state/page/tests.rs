//! Columns and pages by hand.

use super::*;
use crate::state::slot::Extra;
use alloc::vec;

fn row(clock: u64) -> Row {
    Row { clock, total: 1 }
}

fn column(writer: u32, slots: &[u32]) -> Column {
    let mut column = Column::new(writer);
    for slot in slots {
        column.insert(*slot, row(u64::from(*slot) + 1));
    }
    column
}

/// A slot that began its lifetime at `began`; 0 for a plain one.
fn slot(writer: u32, began: u64) -> Slot {
    let extra = Extra {
        began,
        added: 50,
        ..Extra::default()
    };
    let mut slot = Slot::new(writer, row(50), None);
    slot.set_shard(50, i128::from(writer), extra);
    slot
}

#[test]
fn a_column_is_a_map_of_64_places() {
    let places = [0, 1, 31, 62, 63];
    for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 4, 0, 1, 3]] {
        let mut it = column(4, &order.map(|at| places[at]));
        for slot in 0..64 {
            let there = places.contains(&slot);
            let clock = there.then_some(u64::from(slot) + 1);
            assert_eq!(it.has(slot), there);
            assert_eq!(it.get(slot).map(|row| row.clock), clock);
            assert_eq!(it.get_mut(slot).map(|row| row.clock), clock);
        }
        assert_eq!((it.newest, it.rows.len()), (64, 5));
        assert!(it.iter().map(|(slot, _)| slot).eq(places));
        it.remove(31);
        it.remove(30);
        assert!(bits(it.present).eq([0, 1, 62, 63]));
        assert!(it.rows.iter().map(|row| row.clock).eq([1, 2, 63, 64]));
    }
}

#[test]
#[cfg(feature = "members")]
fn newer_rows_are_found_among_those_that_are_looked_at() {
    let it = column(4, &[0, 1, 31, 62, 63]);
    let set = |slots: &[u32]| slots.iter().fold(0, |set, slot| set | 1u64 << slot);
    let some = set(&[1, 31, 40, 63]);
    for (low, among, newer) in [
        (0, u64::MAX, &[0, 1, 31, 62, 63][..]),
        (31, u64::MAX, &[31, 62, 63]),
        (32, u64::MAX, &[62, 63]),
        (64, u64::MAX, &[]),
        (0, some, &[1, 31, 63]),
        (31, some, &[31, 63]),
        (32, some, &[63]),
        (64, some, &[]),
        (0, 0, &[]),
    ] {
        assert_eq!(it.newer(low, among), set(newer), "{low} {among:b}");
    }
}

#[test]
fn a_row_that_is_put_in_moves_the_newest_clock() {
    let mut it = column(4, &[3]);
    it.put(3, row(9));
    assert_eq!((it.newest, it.rows.len()), (9, 1));
    it.put(3, row(2));
    it.put(5, row(3));
    assert_eq!((it.newest, it.rows.len()), (9, 2));
    assert_eq!(it.get(3), Some(&row(2)));
    it.put(6, row(10));
    assert_eq!(it.newest, 10);
}

#[test]
fn of_two_rows_the_newer_stands() {
    let installed = |it: &mut Column, slot, clock, covered| {
        let joined = it.join(slot, row(clock), covered);
        matches!(joined, Joined::Installed)
    };
    let mut it = Column::new(4);
    assert!(!installed(&mut it, 3, 5, 5));
    assert!(!it.has(3));
    assert!(installed(&mut it, 3, 6, 5));
    assert!(!installed(&mut it, 3, 6, 0));
    assert!(!installed(&mut it, 3, 5, 0));
    assert!(installed(&mut it, 3, 7, 9));
    assert_eq!((it.get(3), it.newest), (Some(&row(7)), 7));
    // The greater total of one clock stands on both sides.
    for [first, second] in [[4, 2], [2, 4]] {
        let mut it = Column::new(4);
        it.insert(
            3,
            Row {
                clock: 7,
                total: first,
            },
        );
        let joined = it.join(
            3,
            Row {
                clock: 7,
                total: second,
            },
            0,
        );
        assert!(matches!(joined, Joined::Forked { ours } if ours.total == first));
        assert_eq!(it.get(3).unwrap().total, 4);
    }
}

#[test]
fn a_newer_row_is_taken_whole() {
    for (theirs, taken) in [(4, 0), (5, 0), (6, u64::MAX)] {
        let mut ours = Row {
            clock: 5,
            total: -3,
        };
        let new = Row {
            clock: theirs,
            total: 12,
        };
        assert_eq!(ours.keep_greater(new), taken);
        let stands = if taken == 0 { (5, -3) } else { (6, 12) };
        assert_eq!((ours.clock, ours.total), stands);
        assert_eq!(ours.forks(new), theirs == 5);
    }
    assert!(!row(5).forks(row(5)));
}

#[test]
fn a_page_gives_back_the_slots_that_it_was_given() {
    let mut page = Page::default();
    let sets = [
        vec![slot(OWN, 3), slot(2, 0), slot(5, 7)],
        vec![slot(2, 0), slot(4, 0)],
        vec![slot(1, 4), slot(5, 0)],
        vec![slot(OWN, 0)],
        vec![],
        vec![slot(7, 2)],
    ];
    for first in &sets {
        for second in &sets {
            page.set_slots(9, first.clone());
            page.set_slots(3, second.clone());
            page.set_slots(60, vec![slot(6, 5)]);
            assert_eq!(page.slots(9), *first);
            assert_eq!(page.slots(3), *second);
            assert_eq!(page.slots(60), [slot(6, 5)]);
            let odd = |slots: &[Slot]| slots.iter().any(|slot| !slot.side.is_empty());
            assert_eq!((page.is_odd(9), page.is_odd(3)), (odd(first), odd(second)));
            assert!(!page.is_odd(10) && page.sides(10).is_empty());
            let mask = u64::from(odd(first)) << 9 | u64::from(odd(second)) << 3 | 1 << 60;
            assert_eq!(page.odd(), mask);
            let has = |slots: &[Slot]| u64::from(!slots.is_empty());
            assert_eq!(page.present(), has(first) << 9 | has(second) << 3 | 1 << 60);
            assert!(page.others.iter().all(|column| column.present != 0));
            let sides = page.odd.iter().flat_map(|odd| odd.iter());
            let places: Vec<(u32, u32)> = sides.map(|(slot, side)| (slot, side.writer)).collect();
            assert!(places.is_sorted());
            assert_eq!(page.sides_mut().count(), places.len());
        }
    }
    for at in [9, 3, 60] {
        page.set_slots(at, Vec::new());
    }
    assert!(page.present() == 0 && page.odd.is_none() && page.others.is_empty());
}

#[test]
fn columns_stand_in_the_order_of_their_writers() {
    let mut page = Page::default();
    let mut hint = 0;
    for writer in [5, 2, 9, 2, OWN, 7, 9] {
        assert_eq!(page.column_mut(writer, &mut hint).writer, writer);
    }
    assert!(
        page.columns()
            .map(|column| column.writer)
            .eq([0, 2, 5, 7, 9])
    );
    let found = |writer| page.column(writer).map(|column| column.writer);
    assert_eq!(
        [OWN, 2, 9, 3].map(found),
        [Some(OWN), Some(2), Some(9), None]
    );
    page.column_mut(5, &mut hint).put(8, row(3));
    page.column_mut(OWN, &mut hint).put(8, row(4));
    let rows: Vec<(u32, u64)> = page
        .rows(8)
        .map(|(writer, row)| (writer, row.clock))
        .collect();
    assert_eq!(rows, [(OWN, 4), (5, 3)]);
}

#[test]
fn the_own_writer_gets_a_number_above_all_others() {
    let mut page = Page::default();
    page.set_slots(9, vec![slot(OWN, 3), slot(2, 4)]);
    page.set_slots(3, vec![slot(1, 3), slot(2, 4)]);
    let mut odd = page.odd.unwrap();
    odd.renumber_own(8);
    let writers = |slot| odd.sides(slot).iter().map(|side| side.writer);
    assert!(writers(9).eq([2, 8]));
    assert!(writers(3).eq([1, 2]));
}

#[test]
fn heap_bytes_are_those_that_were_allocated() {
    let mut page = Page::default();
    assert_eq!(page.heap_bytes(), 0);
    page.set_slots(9, vec![slot(OWN, 3), slot(2, 0), slot(5, 7)]);
    let odd = page.odd.as_ref().unwrap();
    let sides: usize = odd.sides.iter().map(Vec::capacity).sum();
    let beside = size_of::<Odd>() + odd.sides.capacity() * size_of::<Vec<Side>>();
    let rows: usize = page.columns().map(|column| column.rows.capacity()).sum();
    let bytes = rows * 16
        + page.others.capacity() * size_of::<Column>()
        + beside
        + sides * size_of::<Side>();
    assert_eq!(page.heap_bytes(), bytes);
    assert!(sides == 2 && rows == 3);
}

#[test]
fn room_grows_in_small_steps() {
    let mut it = Column::new(4);
    let mut steps = Vec::new();
    for slot in 0..64 {
        it.insert(slot, row(1));
        steps.push(it.rows.capacity());
    }
    steps.dedup();
    assert_eq!(steps, [1, 2, 3, 4, 6, 9, 13, 19, 28, 42, 63, 64]);
    let mut columns = Vec::new();
    for writer in 1..=9 {
        assert_eq!(find_or_insert(&mut columns, writer), writer as usize - 1);
        let room = if writer <= 8 { writer as usize } else { 16 };
        assert_eq!(columns.capacity(), room);
    }
}

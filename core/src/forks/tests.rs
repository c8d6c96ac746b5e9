//! The log of forks alone: what it stores, counts, and hands on.

use super::*;

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

fn ahead(byte: u8, clock: u64) -> Fault {
    Fault {
        writer: id(byte),
        clock,
        evidence: Evidence::Ahead { own: 1 },
    }
}

fn totals(byte: u8, clock: u64) -> Fault {
    let evidence = Evidence::Totals {
        key: "k".into(),
        ours: 1,
        theirs: 2,
    };
    Fault {
        evidence,
        ..ahead(byte, clock)
    }
}

#[test]
fn a_fault_that_shows_again_is_counted_once_for_each_writer() {
    let mut log = ForkLog::new();
    for (byte, clock) in [(1, 5), (1, 6), (2, 5)] {
        log.note_fault(|| ahead(byte, clock));
    }
    assert_eq!(log.fault_count, 2);
    assert_eq!(*log.faults, [ahead(1, 5), ahead(2, 5)]);
    // Two contents of one clock are a new fault each time.
    log.note_fault(|| totals(1, 7));
    log.note_fault(|| totals(1, 8));
    assert_eq!((log.fault_count, log.faults.len()), (4, 4));
}

#[test]
fn the_machine_receives_a_fault_once() {
    let mut log = ForkLog::new();
    log.note_fault(|| ahead(1, 5));
    log.note_fault(|| ahead(1, 6));
    assert_eq!(log.take_fresh_faults(), [ahead(1, 5)]);
    assert_eq!(log.take_fresh_faults(), []);
    log.note_fault(|| ahead(1, 7));
    assert_eq!(
        log.take_fresh_faults(),
        [ahead(1, 7)],
        "it is under way again"
    );
    assert_eq!(log.fault_count, 1);
}

#[test]
fn a_full_log_drops_a_fault_of_which_it_has_another() {
    let mut log = ForkLog::new();
    log.note_fault(|| totals(1, 1));
    for clock in 2..=FAULTS_KEPT_MAX as u64 {
        log.note_fault(|| totals(1, clock));
    }
    log.note_fault(|| ahead(2, 1));
    assert_eq!(log.faults.len(), FAULTS_KEPT_MAX);
    assert_eq!(
        log.faults[0],
        totals(1, 2),
        "the oldest of one kind and writer"
    );
    assert_eq!(log.faults.last(), Some(&ahead(2, 1)));
    assert_eq!(log.fault_count, FAULTS_KEPT_MAX as u64 + 1);
}

#[test]
fn another_process_under_the_own_id_is_a_fault() {
    let mut log = ForkLog::new();
    let state = State::new(crate::Space::default(), id(1));
    log.doubt_self(&state, 9);
    let own = Evidence::Ahead { own: 0 };
    let faults: Vec<(WriterId, u64, &Evidence)> = log
        .faults
        .iter()
        .map(|it| (it.writer, it.clock, &it.evidence))
        .collect();
    assert_eq!(faults, [(id(1), 9, &own)]);
}

#[test]
fn equal_contents_have_equal_digests() {
    let empty = |byte| State::new(crate::Space::default(), id(byte));
    let digest = |state: &mut State| ForkLog::new().content_digest(state, false);
    assert_eq!(digest(&mut empty(1)), digest(&mut empty(1)));
    assert_eq!(
        digest(&mut empty(1)),
        digest(&mut empty(2)),
        "nobody has written"
    );
}

/// What was not touched since the last digest is not hashed again, with members and without.
#[test]
fn a_digest_looks_at_no_page_that_did_not_change() {
    for closed in [false, true] {
        let mut one = crate::Replica::new(crate::Space::default(), id(1));
        one.add("k", 1).unwrap();
        let mut log = ForkLog::new();
        let digest = log.content_digest(&mut one.state, closed);
        // Only the sum that the log has can make this difference.
        log.sums.update(|it| it.sum = it.sum.wrapping_add(1));
        let again = log.content_digest(&mut one.state, closed);
        assert_eq!(again, digest.wrapping_add(1), "{closed}");
    }
}

/// A history of the writer 2: adds to more counters than a page has, of these amounts.
fn history(amount: impl Fn(usize) -> i64) -> crate::Replica {
    let mut one = crate::Replica::new(crate::Space::default(), id(2));
    for at in 0..=PAGE {
        one.add(&alloc::format!("k{at:03}"), amount(at)).unwrap();
    }
    one
}

#[test]
fn rows_that_differ_are_faults_and_equal_ones_are_not() {
    let mut here = crate::Replica::new(crate::Space::default(), id(1));
    let all = |of: &crate::Replica| of.delta(&crate::VersionVector::default());
    here.merge(&all(&history(|at| at as i64))).unwrap();
    let faults = |theirs: &Message| {
        let mut log = ForkLog::new();
        log.compare_rows(&here.state, theirs, &id(2));
        assert_eq!(log.fault_count, log.faults.len() as u64);
        let faults = log.faults.iter().map(|it| (it.clock, it.evidence.clone()));
        faults.collect::<Vec<_>>()
    };
    assert_eq!(faults(&all(&history(|at| at as i64))), []);
    // The last counter is the first one of the second page.
    let mut other = history(|at| if at == PAGE { -1 } else { at as i64 });
    let last = alloc::format!("k{PAGE:03}");
    let totals = Evidence::Totals {
        key: last.as_str().into(),
        ours: PAGE as i128,
        theirs: -1,
    };
    assert_eq!(faults(&all(&other)), [(PAGE as u64 + 1, totals)]);
    other.add(&last, 1).unwrap();
    let late = Evidence::Late {
        key: last.as_str().into(),
    };
    assert_eq!(faults(&all(&other)), [(PAGE as u64 + 2, late)]);
    // An older row is what the newer one here replaced.
    here.merge(&all(&other)).unwrap();
    let mut log = ForkLog::new();
    log.compare_rows(&here.state, &all(&history(|at| at as i64)), &id(2));
    assert_eq!(log.fault_count, 0);
}

#[test]
fn there_is_room_for_so_many_faults_that_the_machine_has_not_taken() {
    let mut log = ForkLog::new();
    for at in 0..=FAULTS_KEPT_MAX {
        log.note_fault(|| ahead(at as u8, 1));
    }
    assert_eq!(log.faults.len(), FAULTS_KEPT_MAX);
    assert_eq!(log.take_fresh_faults().len(), FAULTS_KEPT_MAX);
}

#[test]
fn a_fault_gives_way_only_if_it_has_a_double_and_there_is_no_room() {
    let mut log = ForkLog::new();
    log.note_fault(|| ahead(3, 1));
    log.note_fault(|| totals(1, 1));
    log.note_fault(|| totals(1, 2));
    log.note_fault(|| ahead(2, 1));
    let all = [ahead(3, 1), totals(1, 1), totals(1, 2), ahead(2, 1)];
    assert_eq!(*log.faults, all, "there is room");
    for clock in 5..=FAULTS_KEPT_MAX as u64 {
        log.note_fault(|| totals(1, clock));
    }
    log.note_fault(|| totals(1, 99));
    assert_eq!(log.faults[..4], all, "one more of a kind that it has");
    log.note_fault(|| ahead(4, 1));
    assert_eq!(
        log.faults[..2],
        [ahead(3, 1), totals(1, 2)],
        "the first one has no double"
    );
    assert_eq!(log.faults.last(), Some(&ahead(4, 1)));
    assert_eq!(log.faults.len(), FAULTS_KEPT_MAX);
}

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

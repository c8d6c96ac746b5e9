//! Records by hand: their stamps, places and numbers.

use super::*;
use alloc::vec;

/// The writer 2 has the least id of all.
pub(crate) fn ids() -> Vec<WriterId> {
    [5, 6, 1, 8, 9]
        .map(|byte| WriterId::from_bytes([byte; 16]))
        .to_vec()
}

pub(crate) fn at(writer: u32, clock: u64) -> Stamp {
    Stamp { writer, clock }
}

pub(crate) fn announce(owner: u8, clock: u64) -> Announce {
    Announce {
        clock,
        owner: [owner; 32],
        nonce: [3; 16],
        generation: 7,
    }
}

pub(crate) fn vote(clock: u64) -> Vote {
    Vote {
        clock,
        era: 0,
        number: 2,
        promised: (1, [1; 32]),
        accepted: None,
    }
}

pub(crate) fn ack(clock: u64, seen: Vec<(u32, u64)>) -> Ack {
    Ack {
        clock,
        want: 0,
        seen,
    }
}

/// Each sort of record of the writer 3, with the stamp that it has.
pub(crate) fn all() -> Vec<(Statement, Stamp)> {
    let configuration = Configuration {
        era: 1,
        number: 2,
        members: vec![[1; 32]],
        limits: Vec::new(),
    };
    let limited = Configuration {
        limits: vec![Limit {
            name: "login".into(),
            limit: 100,
            period_ms: 60_000,
            since: 2,
        }],
        ..configuration.clone()
    };
    let fence = Fence {
        turn: 1,
        by: at(1, 14),
        successor: 2,
    };
    let admit = Admit {
        turn: 2,
        by: at(1, 12),
    };
    let retired = Retired {
        to: at(2, 15),
        upto: 9,
    };
    vec![
        (Statement::Announce(Box::new(announce(1, 11))), at(3, 11)),
        (Statement::Admit(admit), at(1, 12)),
        (
            Statement::Ack(Box::new(ack(13, vec![(1, 5), (2, 6)]))),
            at(3, 13),
        ),
        (
            Statement::Leave(Leave {
                clock: 16,
                successor: 1,
            }),
            at(3, 16),
        ),
        (Statement::Fence(fence), at(1, 14)),
        (Statement::Retired(retired), at(2, 15)),
        (
            Statement::Configuration(17, Box::new(configuration)),
            at(3, 17),
        ),
        (Statement::Gone(18, Box::new(([4; 32], 5))), at(3, 18)),
        (Statement::Base(vec![(1, 2), (2, 1)].into(), true), at(3, 1)),
        (Statement::Horizon(19), at(3, 19)),
        (Statement::Vote(Box::new(vote(20))), at(3, 20)),
        (Statement::Configuration(21, Box::new(limited)), at(3, 21)),
    ]
}

#[test]
fn each_record_has_a_stamp_and_a_place() {
    for ((statement, stamp), kind) in all().into_iter().zip(0u8..) {
        let local = matches!(statement, Statement::Base(..) | Statement::Horizon(_));
        let turn = if matches!(statement, Statement::Admit(_)) {
            2
        } else {
            0
        };
        let owner = match statement {
            Statement::Gone(..) => [4; 32],
            _ => [0; 32],
        };
        let record = MembershipRecord {
            writer: 3,
            statement,
        };
        assert_eq!(record.stamp(), stamp, "{record:?}");
        assert_eq!(record.kind(), kind, "{record:?}");
        assert_eq!(record.is_local(), local, "{record:?}");
        let place = (kind, 3, stamp.clock, stamp.writer, turn, owner);
        assert_eq!(record.place(), place, "{record:?}");
    }
}

#[test]
fn renumbering_reaches_each_number_and_keeps_lists_in_order() {
    // 1 and 2 change their order.
    let map = |number: u32| [0, 20, 10, 30][number as usize];
    for (statement, stamp) in all() {
        let mut record = MembershipRecord {
            writer: 3,
            statement,
        };
        record.renumber(map);
        assert_eq!(record.writer, 30);
        let moved = record.stamp();
        assert_eq!(
            (moved.writer, moved.clock),
            (map(stamp.writer), stamp.clock)
        );
        match &record.statement {
            Statement::Ack(ack) => assert_eq!(ack.seen, [(10, 6), (20, 5)]),
            Statement::Base(seen, _) => assert_eq!(seen[..], [(10, 1), (20, 2)]),
            Statement::Leave(leave) => assert_eq!(leave.successor, 20),
            Statement::Fence(fence) => assert_eq!(fence.successor, 10),
            _ => {}
        }
    }
}

#[test]
fn a_list_knows_the_clocks_that_are_in_it() {
    let seen = [(1, 5), (4, 6)];
    assert_eq!(
        [0, 1, 2, 4, 5].map(|writer| of(&seen, writer)),
        [0, 5, 0, 6, 0]
    );
    let ack = ack(1, seen.to_vec());
    assert_eq!((ack.of(4), ack.of(3)), (6, 0));
    let configuration = Configuration {
        members: vec![[1; 32], [3; 32]],
        ..Configuration::default()
    };
    assert!(configuration.has(&[3; 32]) && !configuration.has(&[2; 32]));
}

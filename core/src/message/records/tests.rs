//! Facts by hand: which of two stands, and what a card says.

use super::*;
use alloc::vec;

/// The writer 2 has the least id of all.
fn ids() -> Vec<WriterId> {
    [5, 6, 1, 8, 9]
        .map(|byte| WriterId::from_bytes([byte; 16]))
        .to_vec()
}

fn at(writer: u32, clock: u64) -> Stamp {
    Stamp { writer, clock }
}

fn announce(owner: u8, clock: u64) -> Announce {
    Announce {
        clock,
        owner: [owner; 32],
        nonce: [3; 16],
        generation: 7,
    }
}

fn vote(clock: u64) -> Vote {
    Vote {
        clock,
        era: 0,
        number: 2,
        promised: (1, [1; 32]),
        accepted: None,
    }
}

fn ack(clock: u64, seen: Vec<(u32, u64)>) -> Ack {
    Ack {
        clock,
        want: 0,
        seen,
    }
}

/// Each sort of fact of the writer 3, with the stamp that it has.
fn all() -> Vec<(Statement, Stamp)> {
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
            born: 2,
        }],
        ..configuration.clone()
    };
    let fence = Fence {
        turn: 1,
        by: at(1, 14),
        heir: 2,
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
        (Statement::Bye(Bye { clock: 16, heir: 1 }), at(3, 16)),
        (Statement::Fence(fence), at(1, 14)),
        (Statement::Retired(retired), at(2, 15)),
        (
            Statement::Configuration(17, Box::new(configuration)),
            at(3, 17),
        ),
        (Statement::Gone(18, Box::new(([4; 32], 5))), at(3, 18)),
        (Statement::Base(vec![(1, 2), (2, 1)].into(), true), at(3, 1)),
        (Statement::Floor(19), at(3, 19)),
        (Statement::Vote(Box::new(vote(20))), at(3, 20)),
        (Statement::Configuration(21, Box::new(limited)), at(3, 21)),
    ]
}

#[test]
fn each_fact_has_a_stamp_and_a_place() {
    for ((says, stamp), kind) in all().into_iter().zip(0u8..) {
        let local = matches!(says, Statement::Base(..) | Statement::Floor(_));
        let turn = if matches!(says, Statement::Admit(_)) {
            2
        } else {
            0
        };
        let owner = match says {
            Statement::Gone(..) => [4; 32],
            _ => [0; 32],
        };
        let fact = MembershipRecord { writer: 3, says };
        assert_eq!(fact.stamp(), stamp, "{fact:?}");
        assert_eq!(fact.kind(), kind, "{fact:?}");
        assert_eq!(fact.is_local(), local, "{fact:?}");
        let place = (kind, 3, stamp.clock, stamp.writer, turn, owner);
        assert_eq!(fact.place(), place, "{fact:?}");
    }
}

#[test]
fn renumbering_reaches_each_number_and_keeps_lists_in_order() {
    // 1 and 2 change their order.
    let map = |number: u32| [0, 20, 10, 30][number as usize];
    for (says, stamp) in all() {
        let mut fact = MembershipRecord { writer: 3, says };
        fact.renumber(map);
        assert_eq!(fact.writer, 30);
        let moved = fact.stamp();
        assert_eq!(
            (moved.writer, moved.clock),
            (map(stamp.writer), stamp.clock)
        );
        match &fact.says {
            Statement::Ack(ack) => assert_eq!(ack.seen, [(10, 6), (20, 5)]),
            Statement::Base(seen, _) => assert_eq!(seen[..], [(10, 1), (20, 2)]),
            Statement::Bye(bye) => assert_eq!(bye.heir, 20),
            Statement::Fence(fence) => assert_eq!(fence.heir, 10),
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

#[test]
fn a_card_says_all_that_it_took() {
    let mut card = WriterState::default();
    let ids = ids();
    let kept = |says: &Statement| {
        !matches!(
            says,
            Statement::Base(..)
                | Statement::Configuration(..)
                | Statement::Gone(..)
                | Statement::Floor(_)
        )
    };
    let mut kinds = Vec::new();
    for (says, _) in all() {
        assert_eq!(card.take(&says, &ids), kept(&says), "{says:?}");
        assert!(!card.take(&says, &ids), "{says:?} is known");
        if kept(&says) {
            kinds.push(MembershipRecord { writer: 3, says }.kind());
        }
    }
    let mut said: Vec<u8> = card.facts(3).map(|fact| fact.kind()).collect();
    said.sort_unstable();
    assert_eq!(said, kinds);
    assert!(card.facts(3).all(|fact| fact.writer == 3));
    // A move to another home is a second admission.
    let by = at(4, 30);
    assert!(card.take(&Statement::Admit(Admit { turn: 3, by }), &ids));
    assert_eq!(card.facts(3).filter(|fact| fact.kind() == 1).count(), 2);
}

#[test]
fn of_two_the_right_one_stands_in_any_order() {
    let ids = ids();
    let both = |one: &Statement, other: &Statement| {
        let play = |says: [&Statement; 2]| {
            let mut card = WriterState::default();
            for says in says {
                card.take(says, &ids);
            }
            card
        };
        let card = play([one, other]);
        assert_eq!(card, play([other, one]));
        card
    };
    // The fence of the later turn wins, then the least writer by id, then the least clock.
    let fence = |turn, writer, clock| Fence {
        turn,
        by: at(writer, clock),
        heir: 0,
    };
    let stands = |one: Fence, other: Fence| {
        let card = both(&Statement::Fence(one), &Statement::Fence(other));
        assert_eq!(card.fence, Some(one));
    };
    stands(fence(1, 4, 9), fence(0, 2, 1));
    stands(fence(1, 2, 9), fence(1, 1, 1));
    stands(fence(1, 1, 3), fence(1, 1, 4));
    // The least admission is the first, the greatest is the sponsor's.
    let admit = |turn, writer, clock| Admit {
        turn,
        by: at(writer, clock),
    };
    let order = |least: Admit, greatest: Admit| {
        let card = both(&Statement::Admit(least), &Statement::Admit(greatest));
        assert_eq!((card.intro, card.home), (Some(least), Some(greatest)));
    };
    order(admit(0, 4, 9), admit(1, 2, 1));
    order(admit(0, 2, 9), admit(0, 1, 1));
    order(admit(0, 1, 1), admit(0, 1, 2));
    let later = Statement::Ack(Box::new(ack(5, vec![(1, 1)])));
    let card = both(&later, &Statement::Ack(Box::new(ack(4, vec![(1, 9)]))));
    assert_eq!(card.ack, Some(Box::new(ack(5, vec![(1, 1)]))));
    let card = both(
        &Statement::Vote(Box::new(vote(5))),
        &Statement::Vote(Box::new(vote(4))),
    );
    assert_eq!(card.vote, Some(Box::new(vote(5))));
}

#[test]
fn the_base_of_an_incarnation_is_kept_until_it_is_certain() {
    let ids = ids();
    let base = Statement::Base(vec![(1, 2)].into(), false);
    let mut card = WriterState::default();
    card.take(&base, &ids);
    assert!(card.base.is_none() && !card.is_unsure());
    card.take(&Statement::Announce(Box::new(announce(1, 1))), &ids);
    assert!(!card.is_unsure());
    card.take(&base, &ids);
    card.take(&Statement::Base(vec![(1, 3)].into(), false), &ids);
    assert_eq!(card.base.as_deref(), Some(&[(1, 2)][..]));
    assert!(card.is_unsure() && !card.is_over());
    let retired = Retired {
        to: at(2, 15),
        upto: 9,
    };
    card.take(&Statement::Retired(retired), &ids);
    card.take(&base, &ids);
    assert!(card.base.is_none() && !card.is_unsure() && card.is_over());
}

#[test]
fn what_was_done_beats_what_was_declared_beats_what_was_asked() {
    let mut card = WriterState::default();
    assert!(!card.is_over());
    assert_eq!(card.successor(), None);
    card.bye = Some(Bye { clock: 3, heir: 1 });
    assert!(card.is_over());
    assert_eq!(card.successor(), Some(1));
    card.fence = Some(Fence {
        turn: 0,
        by: at(1, 4),
        heir: 2,
    });
    assert_eq!(card.successor(), Some(2));
    card.bye = None;
    assert!(card.is_over());
    card.retired = Some(Retired {
        to: at(3, 5),
        upto: 3,
    });
    assert_eq!(card.successor(), Some(3));
    card.fence = None;
    assert!(card.is_over());
}

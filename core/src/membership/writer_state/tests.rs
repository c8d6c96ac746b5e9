//! Writer states by hand: which of two records stands, and what a state says of its writer.

use super::*;
use crate::message::records::tests::{ack, all, announce, at, ids, vote};
use alloc::vec;
use alloc::vec::Vec;

#[test]
fn a_writer_state_has_all_that_it_took() {
    let mut writer_state = WriterState::default();
    let ids = ids();
    let kept = |statement: &Statement| {
        !matches!(
            statement,
            Statement::Base(..)
                | Statement::Configuration(..)
                | Statement::Gone(..)
                | Statement::Horizon(_)
        )
    };
    let mut kinds = Vec::new();
    for (statement, _) in all() {
        assert_eq!(
            writer_state.merge(&statement, &ids),
            kept(&statement),
            "{statement:?}"
        );
        assert!(
            !writer_state.merge(&statement, &ids),
            "{statement:?} is known"
        );
        if kept(&statement) {
            kinds.push(
                MembershipRecord {
                    writer: 3,
                    statement,
                }
                .kind(),
            );
        }
    }
    let mut said: Vec<u8> = writer_state
        .records(3)
        .map(|record| record.kind())
        .collect();
    said.sort_unstable();
    assert_eq!(said, kinds);
    assert!(writer_state.records(3).all(|record| record.writer == 3));
    // A move to another sponsor is a second admission.
    let by = at(4, 30);
    assert!(writer_state.merge(&Statement::Admit(Admit { turn: 3, by }), &ids));
    assert_eq!(
        writer_state
            .records(3)
            .filter(|record| record.kind() == 1)
            .count(),
        2
    );
}

#[test]
fn of_two_the_right_one_stands_in_any_order() {
    let ids = ids();
    let both = |one: &Statement, other: &Statement| {
        let play = |statement: [&Statement; 2]| {
            let mut writer_state = WriterState::default();
            for statement in statement {
                writer_state.merge(statement, &ids);
            }
            writer_state
        };
        let writer_state = play([one, other]);
        assert_eq!(writer_state, play([other, one]));
        writer_state
    };
    // The fence of the later turn wins, then the least writer by id, then the least clock.
    let fence = |turn, writer, clock| Fence {
        turn,
        by: at(writer, clock),
        successor: 0,
    };
    let stands = |one: Fence, other: Fence| {
        let writer_state = both(&Statement::Fence(one), &Statement::Fence(other));
        assert_eq!(writer_state.fence, Some(one));
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
        let writer_state = both(&Statement::Admit(least), &Statement::Admit(greatest));
        assert_eq!(
            (writer_state.intro, writer_state.sponsor),
            (Some(least), Some(greatest))
        );
    };
    order(admit(0, 4, 9), admit(1, 2, 1));
    order(admit(0, 2, 9), admit(0, 1, 1));
    order(admit(0, 1, 1), admit(0, 1, 2));
    let later = Statement::Ack(Box::new(ack(5, vec![(1, 1)])));
    let writer_state = both(&later, &Statement::Ack(Box::new(ack(4, vec![(1, 9)]))));
    assert_eq!(writer_state.ack, Some(Box::new(ack(5, vec![(1, 1)]))));
    let writer_state = both(
        &Statement::Vote(Box::new(vote(5))),
        &Statement::Vote(Box::new(vote(4))),
    );
    assert_eq!(writer_state.vote, Some(Box::new(vote(5))));
}

#[test]
fn the_base_of_an_incarnation_is_kept_until_it_is_certain() {
    let ids = ids();
    let base = Statement::Base(vec![(1, 2)].into(), false);
    let mut writer_state = WriterState::default();
    writer_state.merge(&base, &ids);
    assert!(writer_state.base.is_none() && !writer_state.is_unsure());
    writer_state.merge(&Statement::Announce(Box::new(announce(1, 1))), &ids);
    assert!(!writer_state.is_unsure());
    writer_state.merge(&base, &ids);
    writer_state.merge(&Statement::Base(vec![(1, 3)].into(), false), &ids);
    assert_eq!(writer_state.base.as_deref(), Some(&[(1, 2)][..]));
    assert!(writer_state.is_unsure() && !writer_state.is_over());
    let retired = Retired {
        to: at(2, 15),
        upto: 9,
    };
    writer_state.merge(&Statement::Retired(retired), &ids);
    writer_state.merge(&base, &ids);
    assert!(writer_state.base.is_none() && !writer_state.is_unsure() && writer_state.is_over());
}

#[test]
fn what_was_done_beats_what_was_declared_beats_what_was_asked() {
    let mut writer_state = WriterState::default();
    assert!(!writer_state.is_over());
    assert_eq!(writer_state.successor(), None);
    writer_state.leave = Some(Leave {
        clock: 3,
        successor: 1,
    });
    assert!(writer_state.is_over());
    assert_eq!(writer_state.successor(), Some(1));
    writer_state.fence = Some(Fence {
        turn: 0,
        by: at(1, 4),
        successor: 2,
    });
    assert_eq!(writer_state.successor(), Some(2));
    writer_state.leave = None;
    assert!(writer_state.is_over());
    writer_state.retired = Some(Retired {
        to: at(3, 5),
        upto: 3,
    });
    assert_eq!(writer_state.successor(), Some(3));
    writer_state.fence = None;
    assert!(writer_state.is_over());
}

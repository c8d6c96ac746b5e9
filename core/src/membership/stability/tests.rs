//! A stamp is stable if all who count have acknowledged it, and not otherwise.

use super::super::tests::*;
use super::*;
use crate::message::records::Ack;
use alloc::boxed::Box;

/// The second member acknowledges these clocks of the first one, by its transaction of this clock.
fn acknowledge(space: &mut (State, Membership), member: u32, clock: u64, upto: u64) {
    let ack = Ack {
        clock,
        want: 0,
        seen: Vec::from([(OWN, upto)]),
    };
    take(space, member, Statement::Ack(Box::new(ack)));
}

#[test]
fn a_stamp_is_stable_once_all_who_count_have_acknowledged_it() {
    let mut space = founded();
    let alone = space.1.quorum(&space.0);
    assert!(
        space.1.is_stable(&alone, by(OWN, 1)),
        "a sole member asks nobody"
    );
    let other = second_member(&mut space, 1);
    let both = space.1.quorum(&space.0);
    assert_eq!(both.members, [OWN, other]);
    assert!(!space.1.is_stable(&both, by(OWN, 1)));
    acknowledge(&mut space, other, 2, 1);
    let both = space.1.quorum(&space.0);
    assert!(both.firm && both.stable);
    assert!(space.1.is_stable(&both, by(OWN, 1)));
    assert!(!space.1.is_stable(&both, by(OWN, 2)), "it was made later");
}

#[test]
fn nothing_becomes_stable_while_a_member_has_no_living_incarnation() {
    let mut space = founded();
    let other = second_member(&mut space, 1);
    acknowledge(&mut space, other, 2, 1);
    take(&mut space, other, Statement::Fence(fence(by(OWN, 2))));
    let quorum = space.1.quorum(&space.0);
    assert!(quorum.members.is_empty());
    assert!(!space.1.is_stable(&quorum, by(OWN, 1)));
}

/// A guest that was absorbed was seen by all who counted then. A member that counts later need not say so.
#[test]
fn an_acknowledgement_leaves_out_dead_guests_until_they_are_absorbed() {
    let mut space = founded();
    let other = second_member(&mut space, 1);
    let guest = space.1.number(&mut space.0, id(3));
    let admitted = admit(0, by(OWN, 1)).unwrap();
    take(&mut space, guest, Statement::Admit(admitted));
    let left_out = |space: &(State, Membership)| -> Vec<u32> {
        let quorum = space.1.quorum(&space.0);
        space.1.left_out(&quorum).collect()
    };
    assert!(left_out(&space).is_empty());
    take(&mut space, guest, Statement::Fence(fence(by(OWN, 1))));
    assert_eq!(left_out(&space), [guest], "the other one has not said so");
    let mut told = (space.0.clone(), space.1.clone());
    acknowledge(&mut told, other, 2, 1);
    assert!(left_out(&told).is_empty());
    take(&mut space, guest, Statement::Retired(absorbed().unwrap()));
    assert!(left_out(&space).is_empty());
}

#[test]
fn a_collection_finds_out_anew_what_it_waits_for() {
    let (_, mut members) = founded();
    assert!(!members.asks_for_acknowledgements());
    members.note_waiting(true);
    members.note_waiting(false);
    assert!(members.asks_for_acknowledgements());
    members.stop_waiting();
    assert!(!members.asks_for_acknowledgements());
}

fn fence(by: Stamp) -> Fence {
    let (turn, successor) = (0, OWN);
    Fence {
        turn,
        by,
        successor,
    }
}

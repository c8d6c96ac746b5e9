use super::super::tests::{all_is_sure, give, member, next};
use super::*;
use crate::error::{MemberError, QuotaError};
use crate::quota::budget::tests::{members, pass};
use crate::replica::Replica;

fn reached(replica: &Replica, number: u64) -> Option<Reached> {
    let known = replica.quota().sequence("visits")?;
    let mut watched = known.watched.iter();
    watched.find(|it| it.number == number).map(|it| it.reached)
}

fn exchange(one: &mut Replica, other: &mut Replica) {
    pass(one, other);
    pass(other, one);
}

#[test]
fn a_watch_tells_what_became_of_its_number_until_it_is_ended() {
    let mut replica = member();
    let changed = &mut Vec::new();
    replica
        .quota_mut()
        .watch_number("visits", 2, changed)
        .unwrap();
    assert_eq!(
        (changed.len(), reached(&replica, 2)),
        (1, Some(Reached::NotYet))
    );
    give(&mut replica, 3);
    next(&mut replica).unwrap();
    assert_eq!(reached(&replica, 2), Some(Reached::NotYet));
    next(&mut replica).unwrap();
    let by = replica.writer();
    assert_eq!(
        reached(&replica, 2),
        Some(Reached::HandedOut { by, below: 0 })
    );
    // A writer that had not received it before.
    replica
        .quota_mut()
        .watch_number("visits", 1, changed)
        .unwrap();
    assert_eq!(reached(&replica, 1), Some(Reached::Passed));
    let before = replica.clock();
    replica
        .quota_mut()
        .watch_number("visits", 1, changed)
        .unwrap();
    assert_eq!(replica.quota().sequence("visits").unwrap().watched.len(), 2);
    for number in [1, 2, 77] {
        replica
            .quota_mut()
            .end_watch("visits", number, changed)
            .unwrap();
    }
    assert_eq!(replica.quota().sequence("visits").unwrap().watched, []);
    assert!(replica.clock() > before);
}

#[test]
fn a_transaction_that_hands_several_out_tells_of_the_watched_one() {
    let mut replica = member();
    replica
        .quota_mut()
        .watch_number("visits", 4, &mut Vec::new())
        .unwrap();
    give(&mut replica, 5);
    let mut transaction = replica.begin().unwrap();
    let numbers = [0; 3].map(|_| transaction.quota_mut().draw("visits").unwrap());
    assert_eq!(numbers, [1, 2, 3]);
    assert!(
        !transaction.quota().is_watched("visits", 3) && transaction.quota().is_watched("visits", 4)
    );
    assert_eq!(transaction.quota_mut().draw("visits"), Ok(4));
    transaction.commit(&mut Vec::new());
    let by = replica.writer();
    assert_eq!(
        reached(&replica, 4),
        Some(Reached::HandedOut { by, below: 0 })
    );
}

#[test]
fn a_lost_number_is_told_as_lost_and_its_gap_is_kept() {
    let mut replica = member();
    replica
        .quota_mut()
        .watch_number("visits", 5, &mut Vec::new())
        .unwrap();
    give(&mut replica, 8);
    let end = 9;
    let range = Piece::Range {
        holder: replica.writer(),
        end,
    };
    let steps = [(range, Op::Delete), (Piece::Gap { end }, Op::Add(8))];
    let key = |piece| {
        SequenceKey {
            piece,
            name: "visits",
        }
        .key()
    };
    let steps = steps.map(|(piece, op)| (key(piece), op));
    replica.quota_mut().make(&steps, &mut Vec::new()).unwrap();
    assert_eq!(reached(&replica, 5), Some(Reached::Lost));
    for end in 2..100 {
        let gap = (key(Piece::Gap { end: end * 10 }), Op::Add(1));
        replica.quota_mut().make(&[gap], &mut Vec::new()).unwrap();
    }
    give(&mut replica, 1);
    assert_eq!(reached(&replica, 5), Some(Reached::Lost));
    assert_eq!(replica.quota().sequence("visits").unwrap().lost, 98 - 64);
}

#[test]
fn what_can_t_be_watched_is_refused() {
    let mut replica = member();
    let changed = &mut Vec::new();
    let before = replica.clock();
    for number in [0, SEQUENCE_NUMBER_MAX + 1, u64::MAX] {
        let refused = replica.quota_mut().watch_number("visits", number, changed);
        assert_eq!(refused, Err(QuotaError::NumberRange { number }.into()));
    }
    assert_eq!(
        replica.quota_mut().watch_number("other", 1, changed),
        Err(QuotaError::NoSequence.into())
    );
    assert_eq!(
        replica.quota_mut().end_watch("other", 1, changed),
        Err(QuotaError::NoSequence.into())
    );
    assert_eq!((replica.clock(), changed.len()), (before, 0));
    for number in 1..=WATCHES_MAX as u64 {
        replica
            .quota_mut()
            .watch_number("visits", number, changed)
            .unwrap();
    }
    let refused = replica
        .quota_mut()
        .watch_number("visits", SEQUENCE_NUMBER_MAX, changed);
    assert_eq!(refused, Err(QuotaError::WatchesFull.into()));
    let mut guest = Replica::new(
        crate::writer_id::Space::default(),
        WriterId::from_bytes([9; 16]),
    );
    guest.merge(&replica.snapshot()).unwrap();
    assert_eq!(
        guest.quota_mut().watch_number("visits", 1, changed),
        Err(MemberError::NotAMember.into())
    );
}

#[test]
fn what_is_given_back_is_passed_on_and_handed_out_once() {
    let [mut giver, mut other] = members();
    giver
        .quota_mut()
        .begin_sequence("visits", &mut Vec::new())
        .unwrap();
    all_is_sure(&mut giver);
    let to = other.writer();
    giver
        .quota_mut()
        .give_numbers("visits", to, 4, &mut Vec::new())
        .unwrap();
    exchange(&mut giver, &mut other);
    all_is_sure(&mut other);
    assert_eq!(next(&mut other), Ok(1));
    let back = other
        .quota_mut()
        .return_numbers("visits", giver.writer(), 0, &mut Vec::new());
    assert_eq!((back, other.quota().numbers_here("visits")), (Ok(3), 0));
    assert_eq!(next(&mut other), Err(QuotaError::NumbersShort.into()));
    exchange(&mut giver, &mut other);
    // Not before most members hold that.
    assert_eq!(
        giver.quota_mut().pass_on("visits", to, 9, &mut Vec::new()),
        Ok(0)
    );
    all_is_sure(&mut giver);
    assert_eq!(giver.quota().numbers_here("visits"), 3);
    assert_eq!(
        giver.quota_mut().pass_on("visits", to, 1, &mut Vec::new()),
        Ok(1)
    );
    assert_eq!(next(&mut giver), Ok(3));
    exchange(&mut giver, &mut other);
    all_is_sure(&mut other);
    assert_eq!((next(&mut other), next(&mut giver)), (Ok(2), Ok(4)));
    exchange(&mut giver, &mut other);
    let known = giver.quota().sequence("visits").unwrap();
    assert_eq!(
        (known.next, known.issued, known.held.len(), known.gaps.len()),
        (5, 4, 0, 0)
    );
    // Only who gives numbers passes them on.
    assert_eq!(
        other
            .quota_mut()
            .pass_on("visits", giver.writer(), 1, &mut Vec::new()),
        Ok(0)
    );
}

#[test]
fn the_next_number_is_kept_back_while_others_have_lower_ones() {
    let [mut giver, mut other] = members();
    giver
        .quota_mut()
        .begin_sequence("visits", &mut Vec::new())
        .unwrap();
    all_is_sure(&mut giver);
    assert_eq!(giver.quota().watching("visits"), Watching::Nothing);
    giver
        .quota_mut()
        .watch_number("visits", 5, &mut Vec::new())
        .unwrap();
    assert_eq!(giver.quota().watching("visits"), Watching::Before(4));
    giver
        .quota_mut()
        .give_numbers("visits", other.writer(), 4, &mut Vec::new())
        .unwrap();
    assert_eq!(giver.quota().watching("visits"), Watching::At(true));
    exchange(&mut giver, &mut other);
    all_is_sure(&mut other);
    assert_eq!(other.quota().watched_sequences(), ["visits"]);
    for number in 1..=4 {
        assert_eq!(other.quota().watching("visits"), Watching::At(true));
        assert_eq!(next(&mut other), Ok(number));
    }
    exchange(&mut giver, &mut other);
    assert_eq!(giver.quota().watching("visits"), Watching::At(false));
    // The watched number itself comes before the next one.
    giver
        .quota_mut()
        .give_numbers("visits", other.writer(), 1, &mut Vec::new())
        .unwrap();
    assert_eq!(giver.quota().watching("visits"), Watching::At(true));
    exchange(&mut giver, &mut other);
    all_is_sure(&mut other);
    assert_eq!(next(&mut other), Ok(5));
    exchange(&mut giver, &mut other);
    assert_eq!(giver.quota().watching("visits"), Watching::Nothing);
    let by = other.writer();
    assert_eq!(
        reached(&giver, 5),
        Some(Reached::HandedOut { by, below: 0 })
    );
}

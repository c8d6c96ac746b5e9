use super::*;
use crate::error::{MemberError, QuotaError, WriteError};
use crate::message::records::Owner;
use crate::once::Once;
use crate::replica::Replica;
use crate::writer_id::Space;

const OWNER: Owner = [7; 32];

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

/// The only member of a space, with a sequence that it may give numbers of.
pub(super) fn member() -> Replica {
    let mut replica = Replica::new(Space::default(), id(1));
    replica.members_mut().found(&OWNER, &[0; 16], 1).unwrap();
    replica
        .quota_mut()
        .begin_sequence("visits", &mut Vec::new())
        .unwrap();
    all_is_sure(&mut replica);
    replica
}

pub(super) fn all_is_sure(replica: &mut Replica) {
    for (given, _) in replica.quota_mut().look_at_sequence("visits") {
        let done = replica
            .quota_mut()
            .numbers_are_sure("visits", given, &mut Vec::new());
        done.unwrap();
    }
}

pub(super) fn give(replica: &mut Replica, count: u64) -> u64 {
    let to = replica.writer();
    let given = replica
        .quota_mut()
        .give_numbers("visits", to, count, &mut Vec::new());
    let given = given.unwrap();
    all_is_sure(replica);
    given
}

pub(super) fn next(replica: &mut Replica) -> Result<u64, Error> {
    replica.quota_mut().draw("visits", &mut Vec::new())
}

#[test]
fn numbers_are_handed_out_one_by_one_from_ranges_that_were_given() {
    let mut replica = member();
    assert_eq!(next(&mut replica), Err(QuotaError::NumbersShort.into()));
    assert_eq!((give(&mut replica, 2), give(&mut replica, 1)), (2, 1));
    assert_eq!(replica.quota().numbers_here("visits"), 3);
    assert_eq!(next(&mut replica), Ok(1));
    let known = replica.quota().sequence("visits").unwrap();
    assert_eq!((known.next, known.issued, known.lost), (4, 1, 0));
    assert_eq!(known.held, [(2..3, id(1)), (3..4, id(1))]);
    assert_eq!((next(&mut replica), next(&mut replica)), (Ok(2), Ok(3)));
    assert_eq!(next(&mut replica), Err(QuotaError::NumbersShort.into()));
    let known = replica.quota().sequence("visits").unwrap();
    assert_eq!((known.issued, known.held.len()), (3, 0));
}

#[test]
fn nothing_is_used_before_most_members_hold_that_it_was_given() {
    let mut replica = Replica::new(Space::default(), id(1));
    replica.members_mut().found(&OWNER, &[0; 16], 1).unwrap();
    replica
        .quota_mut()
        .begin_sequence("visits", &mut Vec::new())
        .unwrap();
    let to = replica.writer();
    let upto = VersionVector::of(to, replica.clock());
    assert_eq!(
        replica.quota_mut().look_at_sequence("visits"),
        [(ReceivedPart::Rest, upto)]
    );
    let given = replica
        .quota_mut()
        .give_numbers("visits", to, 5, &mut Vec::new());
    assert_eq!(given, Ok(0));
    all_is_sure(&mut replica);
    let given = replica
        .quota_mut()
        .give_numbers("visits", to, 5, &mut Vec::new());
    assert_eq!(given, Ok(5));
    let unsure = replica.quota_mut().look_at_sequence("visits");
    assert_eq!(
        unsure,
        [(
            ReceivedPart::Range(6),
            VersionVector::of(to, replica.clock())
        )]
    );
    assert_eq!(
        (
            replica.quota().numbers_here("visits"),
            replica.quota().numbers_coming("visits")
        ),
        (0, 5)
    );
    assert_eq!(next(&mut replica), Err(QuotaError::NumbersShort.into()));
    all_is_sure(&mut replica);
    assert_eq!(next(&mut replica), Ok(1));
}

#[test]
fn a_transaction_hands_out_several_or_none() {
    let mut replica = member();
    give(&mut replica, 2);
    give(&mut replica, 2);
    let mut transaction = replica.begin().unwrap();
    let numbers = [0; 3].map(|_| transaction.quota_mut().draw("visits").unwrap());
    assert_eq!(numbers, [1, 2, 3]);
    drop(transaction);
    let mut transaction = replica.begin().unwrap();
    assert_eq!(
        [0; 3].map(|_| transaction.quota_mut().draw("visits").unwrap()),
        [1, 2, 3]
    );
    transaction.apply("likes", Op::Add(1)).unwrap();
    transaction.commit(&mut Vec::new());
    assert_eq!(
        (next(&mut replica), replica.value("likes")),
        (Ok(4), Some(1))
    );
    assert_eq!(
        replica.quota().sequence("visits").map(|it| it.issued),
        Some(4)
    );
}

#[test]
fn what_can_t_be_is_refused_and_changes_nothing() {
    let mut replica = member();
    give(&mut replica, 1);
    let before = replica.clock();
    let mut changed = Vec::new();
    let begun = replica.quota_mut().begin_sequence("visits", &mut changed);
    assert_eq!(begun, Err(QuotaError::SequenceExists.into()));
    assert_eq!(
        replica.quota_mut().draw("other", &mut changed),
        Err(QuotaError::NoSequence.into())
    );
    assert_eq!(
        replica.quota_mut().begin_sequence("", &mut changed),
        Err(WriteError::KeyLength { bytes: 0 }.into())
    );
    assert_eq!(
        replica.quota_mut().begin_sequence("\0", &mut changed),
        Err(QuotaError::ReservedKey.into())
    );
    let mut transaction = replica.begin().unwrap();
    assert_eq!(transaction.quota_mut().draw("visits"), Ok(1));
    let once = Once::new(b"key", b"content");
    assert_eq!(
        transaction.commit_once(once, &mut changed),
        Err(QuotaError::NumberOnce.into())
    );
    assert_eq!((replica.clock(), changed.len()), (before, 0));
    assert_eq!(next(&mut replica), Ok(1));
    let mut guest = Replica::new(Space::default(), id(2));
    guest.merge(&replica.snapshot()).unwrap();
    let begun = guest.quota_mut().begin_sequence("another", &mut changed);
    assert_eq!(
        (begun, next(&mut guest)),
        (
            Err(MemberError::NotAMember.into()),
            Err(MemberError::NotAMember.into())
        )
    );
}

#[test]
fn there_is_a_last_number() {
    let mut replica = member();
    let rest = SequenceKey {
        piece: Piece::Rest(id(1)),
        name: "visits",
    }
    .key();
    let by = Op::Add(SEQUENCE_NUMBER_MAX.cast_signed() - 3);
    replica
        .quota_mut()
        .make(&[(rest, by)], &mut Vec::new())
        .unwrap();
    assert_eq!((give(&mut replica, 100), give(&mut replica, 1)), (3, 0));
    let last = [0; 3].map(|_| next(&mut replica));
    assert_eq!(last[2], Ok(SEQUENCE_NUMBER_MAX));
    assert_eq!(next(&mut replica), Err(QuotaError::NumbersShort.into()));
}

#[test]
fn of_two_rests_the_one_that_nothing_was_given_of_goes() {
    let mut here = member();
    let mut other = here.clone();
    let piece = Piece::Rest(id(9));
    let key = SequenceKey {
        piece,
        name: "visits",
    }
    .key();
    for replica in [&mut here, &mut other] {
        replica.quota.sequences = Sequences::default();
        replica
            .quota_mut()
            .make(&[(key.clone(), Op::Add(5))], &mut Vec::new())
            .unwrap();
    }
    all_is_sure(&mut here);
    assert_eq!(here.quota().rest_holder("visits"), Some(id(9)));
    assert_eq!(here.quota().sequence("visits").map(|it| it.next), Some(5));
    // One of which something was given stays, and gives nothing more.
    let own = SequenceKey {
        piece: Piece::Rest(id(1)),
        name: "visits",
    }
    .key();
    other
        .quota_mut()
        .make(&[(own, Op::Add(1))], &mut Vec::new())
        .unwrap();
    all_is_sure(&mut other);
    assert_eq!(
        (other.quota().rest_holder("visits"), give(&mut other, 1)),
        (None, 0)
    );
}

#[test]
fn the_oldest_of_many_gaps_are_only_counted() {
    let mut replica = member();
    give(&mut replica, 1);
    let gap = |end| {
        SequenceKey {
            piece: Piece::Gap { end },
            name: "visits",
        }
        .key()
    };
    for end in 0..GAPS_MAX as u64 + 3 {
        let by = Op::Add(2);
        replica
            .quota_mut()
            .make(&[(gap(end * 10 + 10), by)], &mut Vec::new())
            .unwrap();
    }
    assert_eq!(
        replica.quota().sequence("visits").map(|it| it.gaps.len()),
        Some(GAPS_MAX + 3)
    );
    give(&mut replica, 1);
    let known = replica.quota().sequence("visits").unwrap();
    assert_eq!(
        (known.gaps.len(), known.lost, known.gaps[0].clone()),
        (GAPS_MAX, 6, 38..40)
    );
}

//! The index lists the writers that a look at all writers would find.

use super::*;
use crate::{Replica, Space, VersionVector, WriterId};

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

/// The lists of a replica, and what a look at all finds.
fn lists(replica: &Replica) -> [Vec<u32>; 4] {
    let table = &replica.membership.table;
    let index = &table.index;
    let (starts, ended) = (index.starts.clone(), index.ended.clone());
    [
        starts,
        table.starts().collect(),
        ended,
        table.ended().collect(),
    ]
}

fn check(replica: &Replica) {
    let [starts, all_starts, ended, all_ended] = lists(replica);
    assert_eq!((starts, ended), (all_starts, all_ended));
}

#[test]
fn starts_and_ends_are_listed_as_they_come_and_go() {
    let mut one = Replica::new(Space::default(), id(1));
    let mut two = Replica::new(Space::default(), id(2));
    one.members_mut().found(&[1; 32], &[7; 16], 1).unwrap();
    one.members_mut().propose(&[[1; 32], [2; 32]]).unwrap();
    for _ in 0..4 {
        one.members_mut().vote().unwrap();
        two.merge(&one.delta(&VersionVector::default())).unwrap();
        if !two.members().is_announced() {
            let _ = two.members_mut().announce(&[2; 32], &[8; 16], 2);
        }
        one.merge(&two.delta(&one.vector())).unwrap();
        check(&one);
        check(&two);
    }
    assert_eq!(lists(&one)[0].len(), 2);
    for byte in 3..9 {
        one.members_mut().admit(&id(byte)).unwrap();
        check(&one);
    }
    for byte in 3..9 {
        one.members_mut().fence(&id(byte)).unwrap();
        check(&one);
    }
    assert_eq!(lists(&one)[2].len(), 6);
    for _ in 0..8 {
        for turn in 0..2 {
            let (from, to) = match turn {
                0 => (&mut one, &mut two),
                _ => (&mut two, &mut one),
            };
            from.members_mut().retire().unwrap();
            from.members_mut().acknowledge().unwrap();
            let kept = from.mark();
            from.members_mut().collect(&kept);
            to.merge(&from.delta(&to.vector())).unwrap();
            check(from);
            check(to);
        }
    }
    assert_eq!(lists(&one)[2].len(), 0, "they were forgotten");
    assert_eq!(one.members().writer_table().count(), 2);
}

/// A push looks at what was said since the last one, and it has all of it.
#[test]
fn what_was_said_since_a_mark_is_what_is_newer() {
    let mut one = Replica::new(Space::default(), id(1));
    one.members_mut().found(&[1; 32], &[7; 16], 1).unwrap();
    let mut mark = one.mark();
    let mut other = Replica::new(Space::default(), id(200));
    other.merge(&one.delta(&VersionVector::default())).unwrap();
    for round in 0..3_000u32 {
        let mut bytes = [9; 16];
        bytes[..4].copy_from_slice(&round.to_le_bytes());
        let writer = WriterId::from_bytes(bytes);
        one.members_mut().admit(&writer).unwrap();
        // Now and then more than is listed.
        if round % 7 == 0 && round < 1_400 || round == 2_999 {
            let message = one.since(&mut mark).unwrap();
            other.merge(&message).unwrap();
            assert_eq!(other.canonical_bytes(), one.canonical_bytes(), "{round}");
        }
    }
}

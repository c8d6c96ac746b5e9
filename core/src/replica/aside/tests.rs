//! A copy of a member's data stands aside until an operator lets it take the member's place.

use crate::error::{Error, MemberError, QuotaError};
use crate::message::Message;
use crate::quota::budget::Flow;
use crate::replica::{Mark, Replica};
use crate::state::vector::VersionVector;
use crate::wire::Encode;
use crate::writer_id::{Space, WriterId};
use alloc::vec::Vec;

const OWNER: [u8; 32] = [1; 32];
const OTHER: [u8; 32] = [2; 32];

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

/// A start with the data of a replica.
fn start(of: &Replica, byte: u8) -> Replica {
    let mut start = Replica::new(Space::default(), id(byte));
    let kept = of.clone().since(&mut Mark::default()).unwrap();
    let kept = Message::decode_stored(&kept.encode_stored()).unwrap();
    start.restore(&kept).unwrap();
    start
}

/// The only member of a space, with 10 units and some numbers.
fn member() -> Replica {
    let mut replica = Replica::new(Space::default(), id(1));
    replica.members_mut().found(&OWNER, &[0; 16], 1).unwrap();
    replica
        .quota_mut()
        .flow("gift", Flow::Mint(10))
        .expect("minted");
    replica
}

/// A copy of a replica's data.
fn copy(of: &Replica, byte: u8) -> Replica {
    let mut copy = start(of, byte);
    let originals: Vec<WriterId> = copy.consistency().earlier_writers().collect();
    copy.members_mut().stand_aside(originals);
    copy
}

const REFUSED: Error = Error::Member(MemberError::NotAMember);

#[test]
fn a_copy_adds_and_has_no_right_of_its_original() {
    let original = member();
    let mut copy = copy(&original, 2);
    assert!(copy.stands_aside() && !original.stands_aside());
    assert!(copy.is_of_original(&id(1)) && !copy.is_of_original(&id(2)));
    assert_eq!(
        copy.members_mut().announce(&OWNER, &[0; 16], 2),
        Err(REFUSED)
    );
    assert!(!copy.members().is_member() && !copy.members().has_vote());
    assert_eq!(copy.quota_mut().flow("gift", Flow::Spend(1)), Err(REFUSED));
    assert_eq!(copy.quota_mut().flow("gift", Flow::Mint(1)), Err(REFUSED));
    let begun = copy.quota_mut().begin_sequence("visits", &mut Vec::new());
    assert_eq!(begun, Err(REFUSED));
    assert_eq!(copy.members_mut().propose(&[OTHER]), Err(REFUSED));
    assert_eq!(copy.members_mut().force(&[OTHER]), Err(REFUSED));
    assert_eq!(copy.members_mut().fence(&id(1)), Err(REFUSED));
    copy.add("likes", 1).unwrap();
    assert_eq!(copy.value("likes"), Some(1));
    assert!(copy.members().accepts_from(&id(1)), "it has ended nobody");
}

#[test]
fn a_copy_founds_no_space() {
    let mut original = Replica::new(Space::default(), id(1));
    original.add("likes", 1).unwrap();
    let mut copy = copy(&original, 2);
    assert_eq!(copy.members_mut().found(&OWNER, &[0; 16], 1), Err(REFUSED));
    copy.members_mut().adopt();
    assert_eq!(copy.members_mut().found(&OWNER, &[0; 16], 1), Ok(()));
}

#[test]
fn an_adopted_copy_of_the_only_member_has_its_rights() {
    let original = member();
    let mut copy = copy(&original, 2);
    copy.members_mut().adopt();
    assert!(!copy.stands_aside() && !copy.is_of_original(&id(1)));
    copy.members_mut().announce(&OWNER, &[0; 16], 2).unwrap();
    copy.members_mut().retire().unwrap();
    assert!(copy.members().has_vote());
    copy.quota_mut().flow("gift", Flow::Spend(10)).unwrap();
    let short = copy.quota_mut().flow("gift", Flow::Spend(1));
    assert!(matches!(
        short,
        Err(Error::Quota(QuotaError::RightsShort(_)))
    ));
}

/// The replica begins again from another state, and is a copy all the same.
#[test]
fn a_copy_stays_one_when_it_rejoins() {
    let original = member();
    let mut copy = copy(&original, 2);
    let state = original.delta(&VersionVector::default());
    copy.rejoin_mut()
        .begin_again(id(3), &state, &mut |_| ())
        .unwrap();
    assert!(copy.stands_aside() && copy.is_of_original(&id(1)));
    assert_eq!(
        copy.members_mut().announce(&OWNER, &[0; 16], 2),
        Err(REFUSED)
    );
}

/// Each unit is spent at most once, whichever of the two spends it and whatever each has heard.
#[test]
fn no_unit_is_spent_twice_beside_a_copy() {
    let mut original = member();
    let mut copies: Vec<Replica> = (2..5).map(|byte| copy(&original, byte)).collect();
    let mut spent = 0;
    for _ in 0..12 {
        spent += usize::from(original.quota_mut().flow("gift", Flow::Spend(1)).is_ok());
        for copy in &mut copies {
            spent += usize::from(copy.quota_mut().flow("gift", Flow::Spend(1)).is_ok());
        }
    }
    assert_eq!(spent, 10);
    assert_eq!(original.quota().budget("gift").unwrap().value, 0);
}

//! Rights of writers that go and rejoin.

use super::*;
use crate::Owner;
use crate::message::journal::Did;
use crate::quota::inherit::has_accounts;
use crate::state::page::{OWN, Row};
use crate::state::slot::{Extra, Slot, WIDE_MAX};
use crate::wire::Encode;

/// A member ends, and starts again from what its store has.
fn restart(old: &Replica, owner: Owner, nonce: u8) -> Replica {
    let space = Space::default();
    let writer = WriterId::mint(&space, &owner, &[nonce; 16]);
    let mut new = Replica::new(space, writer);
    let stored = old.snapshot().encode_stored();
    new.restore(&Message::decode_stored(&stored).unwrap())
        .unwrap();
    new.members_mut()
        .announce(&owner, &[nonce; 16], u64::from(nonce))
        .unwrap();
    new
}

fn knows(replica: &Replica, writer: WriterId) -> bool {
    replica.state.knows(&writer)
}

#[test]
fn the_next_start_gets_what_the_one_before_held_once_all_know_of_it() {
    let [mut one, mut two] = members();
    two.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    two.quota_mut().flow("seats", Flow::RaiseCap(7)).unwrap();
    pass(&two, &mut one);
    let old = two.writer();
    let mut two = restart(&two, [2; 32], 8);
    // Others may know of spends that its disk does not.
    two.members_mut().retire().unwrap();
    assert_eq!(rights(&two, "gift"), (0, 0, 10));
    assert!(two.quota_mut().flow("gift", Flow::Spend(1)).is_err());
    // And may not have heard of its end.
    one.quota_mut().flow("gift", Flow::Mint(5)).unwrap();
    one.quota_mut()
        .flow("gift", Flow::Grant { to: old, amount: 3 })
        .unwrap();
    let mut both = [one, two];
    settle(&mut both);
    let [one, two] = &mut both;
    assert_eq!(rights(two, "gift"), (13, 0, 2));
    assert_eq!(two.quota().budget("seats").unwrap().room.unwrap().here, 7);
    two.quota_mut().flow("gift", Flow::Spend(13)).unwrap();
    pass(two, one);
    assert_eq!(value(one, "gift"), 2);
    assert!(!knows(one, old) && !knows(two, old));
    assert_eq!(one.quota().holders_of("gift").len(), 2);
    assert_eq!(one.canonical_bytes(), two.canonical_bytes());
    check_sums(one);
}

/// A grant by a member that has not received the other's end arrives after everything was inherited.
#[test]
fn what_was_on_the_way_to_a_writer_that_is_over_is_not_stranded() {
    let [mut one, mut two] = members();
    let old = two.writer();
    two.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    pass(&two, &mut one);
    one.quota_mut().flow("gift", Flow::Mint(4)).unwrap();
    let mut two = restart(&two, [2; 32], 8);
    let mut late = one.clone();
    late.quota_mut()
        .flow("gift", Flow::Grant { to: old, amount: 4 })
        .unwrap();
    // The first one acknowledges what it has heard, and tells of the grant only after that.
    pass(&two, &mut late);
    late.members_mut().acknowledge().unwrap();
    let knew = two.vector();
    pass(&late, &mut two);
    assert!(two.vector().get(&late.writer()) > knew.get(&late.writer()));
    let mut both = [late, two];
    settle(&mut both);
    assert_eq!(rights(&both[1], "gift"), (14, 0, 0));
    assert!(!knows(&both[1], old));
    check_sums(&both[0]);
}

#[test]
fn a_writer_is_not_forgotten_before_its_accounts_are_empty() {
    let [mut one, mut two] = members();
    two.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    pass(&two, &mut one);
    let old = two.writer();
    let two = restart(&two, [2; 32], 8);
    let mut both = [one, two];
    settle(&mut both);
    let number = both[0].state.number_of(&both[0].writer()).unwrap();
    assert!(!has_accounts(&both[0].state, number));
    let number = both[1].state.number_of(&both[1].writer()).unwrap();
    assert!(has_accounts(&both[1].state, number));
    assert!(
        both.iter()
            .all(|it| it.state.index().held_by(old).next().is_none())
    );
    assert!(
        both.iter()
            .all(|it| it.state.index().holders().count() == 1)
    );
}

#[test]
fn a_replica_takes_its_rights_along_to_another_writer() {
    let [mut one, mut two] = members();
    two.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    flow_once(&mut two, "pay", &[("bonus", Flow::Mint(3))]);
    let fresh = WriterId::from_bytes([77; 16]);
    two.quota_mut().hand_over(fresh).unwrap();
    assert_eq!(rights(&two, "gift"), (0, 0, 10));
    // An amount that may be a duplicate stays until that is certain.
    assert_eq!(rights(&two, "bonus"), (0, 3, 0));
    pass(&two, &mut one);
    let holders = one.quota().holders_of("gift");
    let full: Vec<_> = holders.iter().filter(|it| it.rights > 0).collect();
    assert_eq!((full.len(), full[0].writer, full[0].rights), (1, fresh, 10));
    check_sums(&one);
}

/// A member whose writer was declared dead while it went on.
fn given_up() -> (Replica, Replica, crate::Journal) {
    let [mut one, mut two] = members();
    two.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    two.quota_mut().flow("gift", Flow::Spend(1)).unwrap();
    pass(&two, &mut one);
    one.members_mut().force(&[[1; 32]]).unwrap();
    one.members_mut().fence_strays().unwrap();
    one.members_mut().retire().unwrap();
    // It has not heard of that.
    two.quota_mut().flow("gift", Flow::Spend(4)).unwrap();
    two.quota_mut().flow("gift", Flow::Mint(6)).unwrap();
    two.quota_mut().flow("gift", Flow::Spend(5)).unwrap();
    let to = one.writer();
    two.quota_mut()
        .flow("gift", Flow::Grant { to, amount: 2 })
        .unwrap();
    two.quota_mut().flow("bonus", Flow::Mint(2)).unwrap();
    two.add("plain", 1).unwrap();
    let whole = one.delta(&VersionVector::default());
    let fresh = WriterId::from_bytes([88; 16]);
    let journal = two
        .rejoin_mut()
        .begin_again(fresh, &whole, &mut |_| ())
        .unwrap();
    (one, two, journal)
}

#[test]
fn what_can_not_be_spent_again_is_handed_back() {
    let (one, mut two, journal) = given_up();
    assert_eq!(rights(&one, "gift"), (9, 0, 0));
    let upto = one.members().final_clock(&journal.writer().unwrap());
    // Others have taken it out of the members, and so it would be handed back all.
    assert!(!two.quota.is_next_start);
    two.quota.is_next_start = true;
    let returned = two.rejoin_mut().make_again(journal, upto, 0, &mut |_| ());
    let again: Vec<_> = returned
        .again
        .iter()
        .map(|it| (it.refused, it.clock))
        .collect();
    // Spent 4 of what was left to somebody else; minted 6, spent 5 of these; the grant was never heard of.
    assert_eq!(
        again,
        [
            (true, None),
            (false, Some(1)),
            (false, Some(2)),
            (false, None),
            (false, Some(3)),
            (false, Some(4))
        ]
    );
    assert_eq!((value(&two, "gift"), value(&two, "bonus")), (10, 2));
    assert_eq!(rights(&two, "gift"), (1, 0, 9));
    assert_eq!(two.value("plain"), Some(1));
    check_sums(&two);
}

/// A member that inherited rights by retiring others inherits them again: no other replica had received that.
#[test]
fn what_was_inherited_is_not_inherited_again() {
    let [mut one, mut two] = members();
    two.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    pass(&two, &mut one);
    one.members_mut().force(&[[1; 32]]).unwrap();
    one.members_mut().fence_strays().unwrap();
    let whole = one.delta(&VersionVector::default());
    one.members_mut().retire().unwrap();
    assert_eq!(rights(&one, "gift"), (10, 0, 0));
    one.quota_mut().flow("gift", Flow::Spend(1)).unwrap();
    let fresh = WriterId::from_bytes([88; 16]);
    let journal = one
        .rejoin_mut()
        .begin_again(fresh, &whole, &mut |_| ())
        .unwrap();
    let upto = whole.hi(&journal.writer().unwrap());
    let returned = one.rejoin_mut().make_again(journal, upto, 0, &mut |_| ());
    assert!(returned.again.iter().any(|it| it.refused));
    assert_eq!(
        (value(&one, "gift"), rights(&one, "gift")),
        (10, (0, 0, 10))
    );
    check_sums(&one);
}

/// The transaction that made the budget was lost with its writer.
#[test]
fn what_was_done_to_a_budget_that_never_counted_makes_it_again() {
    let [mut one, mut two] = members();
    one.members_mut().force(&[[1; 32]]).unwrap();
    one.members_mut().fence_strays().unwrap();
    one.members_mut().retire().unwrap();
    two.quota_mut().flow("debt", Flow::Mint(1)).unwrap();
    two.quota_mut().flow("debt", Flow::LowerFloor(5)).unwrap();
    two.quota_mut().flow("debt", Flow::Spend(6)).unwrap();
    let state = two.delta(&VersionVector::default());
    // It is a member's there.
    let mut fresh = two.clone();
    let mut journal = two
        .rejoin_mut()
        .begin_again(WriterId::from_bytes([88; 16]), &state, &mut |_| ())
        .unwrap();
    journal.made.remove(0);
    let whole = one.delta(&VersionVector::default());
    fresh
        .rejoin_mut()
        .begin_again(WriterId::from_bytes([89; 16]), &whole, &mut |_| ())
        .unwrap();
    let refused = fresh
        .clone()
        .rejoin_mut()
        .make_again(journal.clone(), Some(0), 0, &mut |_| ());
    assert!(refused.again.iter().all(|it| it.refused));
    fresh.quota.is_next_start = true;
    let returned = fresh
        .rejoin_mut()
        .make_again(journal, Some(0), 0, &mut |_| ());
    let refused: Vec<bool> = returned.again.iter().map(|it| it.refused).collect();
    assert_eq!(refused, [false, true]);
    let debt = fresh.quota().budget("debt").unwrap();
    assert_eq!((debt.value, debt.floor, debt.rights.here), (0, -5, 5));
}

/// Three members that know of each other.
fn three() -> [Replica; 3] {
    let owners = [[1; 32], [2; 32], [3; 32]];
    let [mut one, mut two, mut three] = [1_u8, 2, 3].map(|byte| {
        let space = Space::default();
        let writer = WriterId::mint(&space, &[byte; 32], &[byte; 16]);
        Replica::new(space, writer)
    });
    one.members_mut().found(&owners[0], &[1; 16], 1).unwrap();
    one.members_mut().force(&owners).unwrap();
    for (at, it) in [&mut two, &mut three].into_iter().enumerate() {
        pass(&one, it);
        let byte = at as u8 + 2;
        it.members_mut()
            .announce(&[byte; 32], &[byte; 16], 1)
            .unwrap();
    }
    let mut all = [one, two, three];
    settle(&mut all);
    all
}

/// A member ends, and starts again in its place, with all that it had.
fn follow(old: &Replica, owner: Owner, nonce: u8) -> Replica {
    let space = Space::default();
    let writer = WriterId::mint(&space, &owner, &[nonce; 16]);
    let mut new = Replica::new(space, writer);
    let stored = old.snapshot().encode_stored();
    new.restore(&Message::decode_stored(&stored).unwrap())
        .unwrap();
    let before = new.members().only_start(&owner);
    assert!(before.is_some());
    new.members_mut()
        .announce_after(&owner, &[nonce; 16], u64::from(nonce), before)
        .unwrap();
    new
}

#[test]
fn a_start_in_place_of_the_one_before_gets_its_rights_though_a_member_is_dead() {
    let [mut one, mut two, _dead] = three();
    two.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    two.quota_mut().flow("seats", Flow::RaiseCap(7)).unwrap();
    flow_once(&mut two, "spent", &[("gift", Flow::Spend(1))]);
    flow_once(&mut two, "paid", &[("gift", Flow::Mint(5))]);
    pass(&two, &mut one);
    let old = two.writer();
    let mut two = follow(&two, [2; 32], 8);
    // Nobody has said yet that this is not an older copy.
    two.members_mut().retire().unwrap();
    assert_eq!(rights(&two, "gift"), (0, 0, 14));
    // And somebody has not heard of the end.
    one.quota_mut().flow("gift", Flow::Mint(3)).unwrap();
    one.quota_mut()
        .flow("gift", Flow::Grant { to: old, amount: 3 })
        .unwrap();
    let mut both = [one, two];
    settle(&mut both);
    let [one, two] = &mut both;
    assert!(knows(two, old), "the dead member may still withdraw");
    // What came in under a key may be a duplicate.
    assert_eq!(rights(two, "gift"), (12, 0, 5));
    assert_eq!(two.quota().budget("seats").unwrap().room.unwrap().here, 7);
    two.quota_mut().flow("gift", Flow::Spend(9)).unwrap();
    check_sums(two);
    // Nobody waits for the dead one any more.
    one.members_mut().force(&[[1; 32], [2; 32]]).unwrap();
    settle(&mut both);
    let [one, two] = &mut both;
    assert!(!knows(one, old) && !knows(two, old));
    assert_eq!(rights(two, "gift"), (8, 0, 0));
    check_sums(one);
    assert_eq!(one.canonical_bytes(), two.canonical_bytes());
}

/// The other member's acknowledgements wait for its guest. Its knowledge of the new start does not.
#[test]
fn a_start_in_place_gets_its_rights_though_a_guest_of_another_member_is_gone() {
    let [mut one, mut two, _dead] = three();
    let guest = WriterId::from_bytes([77; 16]);
    one.members_mut().admit(&guest).unwrap();
    two.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    pass(&two, &mut one);
    let mut two = follow(&two, [2; 32], 8);
    // The other member's state from before it heard of the new start is not enough.
    pass(&one, &mut two);
    two.members_mut().retire().unwrap();
    assert_eq!(rights(&two, "gift"), (0, 0, 10));
    pass(&two, &mut one);
    pass(&one, &mut two);
    assert!(one.members().is_held_up());
    two.members_mut().retire().unwrap();
    assert_eq!(rights(&two, "gift"), (10, 0, 0));
    two.quota_mut().flow("gift", Flow::Spend(9)).unwrap();
    check_sums(&two);
    // The guest is given up, and the dead member taken out.
    one.members_mut().fence(&guest).unwrap();
    one.members_mut().force(&[[1; 32], [2; 32]]).unwrap();
    let mut both = [one, two];
    settle(&mut both);
    let [one, two] = &both;
    assert_eq!(rights(two, "gift"), (1, 0, 0));
    check_sums(one);
    assert_eq!(one.canonical_bytes(), two.canonical_bytes());
}

/// The dead member comes back, and has made the same operations.
#[test]
fn what_a_start_in_place_gave_itself_stays_right_when_a_duplicate_comes() {
    let [mut one, mut two, mut dead] = three();
    flow_once(&mut two, "mint", &[("gift", Flow::Mint(10))]);
    let mut all = [one, two, dead];
    settle(&mut all);
    [one, two, dead] = all;
    flow_once(&mut two, "spent", &[("gift", Flow::Spend(4))]);
    flow_once(&mut two, "paid", &[("gift", Flow::Mint(5))]);
    flow_once(&mut dead, "paid", &[("gift", Flow::Mint(5))]);
    pass(&two, &mut one);
    let mut two = follow(&two, [2; 32], 8);
    let (stable, seen) = (one.members().stable(), one.vector());
    two.members_mut().accept_stable(&stable, &seen);
    let mut both = [one, two];
    settle(&mut both);
    assert_eq!(rights(&both[1], "gift"), (6, 0, 5));
    let [one, two] = both;
    let mut all = [one, two, dead];
    settle(&mut all);
    for it in &all {
        assert_eq!(value(it, "gift"), 11, "the mint counts once");
        check_sums(it);
    }
}

#[test]
fn a_start_of_whose_earlier_one_others_know_more_gets_nothing_before_all_know_of_it() {
    let [mut one, mut two, _dead] = three();
    two.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    pass(&two, &mut one);
    let backup = two.clone();
    two.quota_mut().flow("gift", Flow::Spend(7)).unwrap();
    pass(&two, &mut one);
    let mut both = [one, follow(&backup, [2; 32], 8)];
    settle(&mut both);
    assert_eq!(rights(&both[1], "gift"), (0, 0, 3));
}

/// A budget's parts must add up, so a transaction of which one part fails is not made in parts.
#[test]
fn what_can_not_be_made_again_in_full_is_not_made_at_all() {
    let (_, mut two, mut journal) = given_up();
    two.quota.is_next_start = true;
    // The value is full.
    let key_id = two.key_id("\0bvgift").unwrap();
    two.state.set_clock(OWN, 1);
    let mut slots = two.state.slots(key_id);
    slots.retain(|slot| slot.writer() != OWN);
    let row = Row { clock: 1, total: 0 };
    let mut full = Slot::new(OWN, row, None);
    let extra = Extra {
        added: 1,
        ..Extra::default()
    };
    full.set_shard(1, WIDE_MAX - 1, extra);
    slots.insert(0, full);
    two.state.put_slots(key_id, slots);
    let before = (rights(&two, "gift"), value(&two, "gift"));
    // The first one that mints.
    let mints = |did: &[Did]| did.iter().any(|it| it.key == "\0bvgift".into());
    journal.made.retain(|made| mints(&made.did));
    journal.made.truncate(1);
    let returned = two
        .rejoin_mut()
        .make_again(journal, Some(0), 0, &mut |_| ());
    let again: Vec<_> = returned
        .again
        .iter()
        .map(|it| (it.refused, it.clock))
        .collect();
    assert_eq!(again, [(true, None)]);
    assert_eq!((rights(&two, "gift"), value(&two, "gift")), before);
}

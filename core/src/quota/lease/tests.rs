use super::*;
use crate::bounds::LEASED_NAME_BYTES_MAX;
use crate::error::Short;
use crate::error::{DecodeError, QuotaError};
use crate::quota::budget::tests::{check_sums, flow_once, members, pass, rights, settle, value};
use crate::quota::budget::{Budget, Flow};
use crate::replica::Replica;
use crate::wire::Encode;
use crate::{Limited, Once, Owner, Space, VersionVector};
use alloc::string::ToString;
use alloc::vec;

const ID: LeaseId = LeaseId::from_bytes([7; 16]);
const OTHER: LeaseId = LeaseId::from_bytes([8; 16]);
const UNTIL: u64 = 10_000;

fn lease(id: LeaseId, amount: u64) -> Flow {
    let until = UNTIL;
    Flow::Lease { id, until, amount }
}

fn spend(amount: u64) -> Flow {
    Flow::SpendLeased { id: ID, amount }
}

fn budget(replica: &Replica) -> Budget {
    replica.quota().budget("gift").unwrap()
}

/// The amounts of a budget: the value, the rights here, and the rights on lease.
fn left(replica: &Replica) -> (i128, i128, i128) {
    check_sums(replica);
    (
        value(replica, "gift"),
        rights(replica, "gift").0,
        budget(replica).leased,
    )
}

#[test]
fn what_is_on_lease_is_spent_by_its_holder_alone() {
    let [mut one, mut two] = members();
    one.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    one.quota_mut().flow("gift", lease(ID, 6)).unwrap();
    assert_eq!(left(&one), (10, 4, 6));
    let short = one.quota_mut().flow("gift", Flow::Spend(5)).unwrap_err();
    assert_eq!(
        short.to_string(),
        "5 are asked for, and 4 are held here, 6 elsewhere as far as is known here"
    );
    one.quota_mut().flow("gift", spend(2)).unwrap();
    pass(&one, &mut two);
    for replica in [&one, &two] {
        let of = replica.quota().leases_of("gift");
        let it = Lease {
            id: ID,
            writer: one.writer(),
            left: 4,
            until: UNTIL,
        };
        assert_eq!(of, vec![it]);
        assert_eq!((value(replica, "gift"), budget(replica).leased), (8, 4));
        check_sums(replica);
    }
    // Another member takes nothing of it, though it knows of it.
    assert_eq!(
        two.quota_mut().flow("gift", spend(1)).unwrap_err().code(),
        "rights_short"
    );
    let ended = two.quota_mut().flow("gift", Flow::EndLease { id: ID });
    assert_eq!(ended, Err(QuotaError::NoLease.into()));
    // Beyond that it is spent of the rights, as all of one that is not known here.
    one.quota_mut().flow("gift", spend(5)).unwrap();
    assert_eq!(left(&one), (3, 3, 0));
    let short = one.quota_mut().flow("gift", spend(4));
    let asked = |it: &Short| (it.asked, it.held.here);
    assert!(
        matches!(&short, Err(Error::Quota(QuotaError::RightsShort(it))) if asked(it) == (4, 3))
    );
    assert_eq!(left(&one), (3, 3, 0));
    one.quota_mut()
        .flow(
            "gift",
            Flow::SpendLeased {
                id: OTHER,
                amount: 1,
            },
        )
        .unwrap();
    assert_eq!(left(&one), (2, 2, 0));
    // All members know, and nothing is kept of it.
    let mut both = [one, two];
    settle(&mut both);
    assert!(
        both.iter()
            .all(|it| it.state.index().leases(it.state.keys()).next().is_none())
    );
    assert_eq!(both[0].canonical_bytes(), both[1].canonical_bytes());
}

#[test]
fn what_is_left_comes_back_when_the_holder_ends_it_or_when_its_time_is_over() {
    let [mut one, two] = members();
    one.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    one.quota_mut().flow("gift", lease(ID, 6)).unwrap();
    one.quota_mut().flow("gift", lease(OTHER, 3)).unwrap();
    one.quota_mut()
        .flow("gift", Flow::EndLease { id: ID })
        .unwrap();
    assert_eq!(left(&one), (10, 7, 3));
    let again = one
        .quota_mut()
        .flow("gift", Flow::EndLease { id: ID })
        .unwrap_err();
    assert_eq!((again.code(), left(&one)), ("no_lease", (10, 7, 3)));
    let mut changed = Vec::new();
    one.set_time(UNTIL - 1);
    one.quota_mut().end_leases(&mut changed).unwrap();
    assert_eq!((left(&one), changed.len()), ((10, 7, 3), 0));
    one.set_time(UNTIL);
    // Its clock may be fast.
    one.members_mut().set_time_unsure(true);
    one.quota_mut().end_leases(&mut changed).unwrap();
    assert_eq!((left(&one), changed.len()), ((10, 7, 3), 0));
    one.members_mut().set_time_unsure(false);
    one.quota_mut().end_leases(&mut changed).unwrap();
    assert_eq!((left(&one), changed.len()), ((10, 10, 0), 2));
    let mut both = [one, two];
    settle(&mut both);
    assert!(
        both.iter()
            .all(|it| it.state.index().leases(it.state.keys()).next().is_none())
    );
    assert_eq!(left(&both[0]), (10, 10, 0));
}

/// Two members spend what a holder tells both of; the one that gave the lease may be the one of which it
/// does not count, also when the rest came back before that is known.
#[test]
fn what_is_told_to_two_members_counts_once() {
    for ends in [false, true] {
        for first in [0, 1] {
            let mut both = members();
            for replica in &mut both {
                replica.quota_mut().flow("gift", Flow::Mint(20)).unwrap();
            }
            let [one, two] = &mut both;
            pass(two, one);
            pass(one, two);
            let [giver, other] = match first {
                0 => [one, two],
                _ => [two, one],
            };
            giver.quota_mut().flow("gift", lease(ID, 6)).unwrap();
            flow_once(giver, "order", &[("gift", spend(5))]);
            flow_once(other, "order", &[("gift", spend(5))]);
            assert_eq!(left(giver), (35, 14, 1));
            if ends {
                giver
                    .quota_mut()
                    .flow("gift", Flow::EndLease { id: ID })
                    .unwrap();
            }
            // Nothing is forgotten before all know of it.
            giver.quota_mut().end_leases(&mut Vec::new()).unwrap();
            settle(&mut both);
            for replica in &mut both {
                replica.set_time(UNTIL);
                replica.quota_mut().end_leases(&mut Vec::new()).unwrap();
            }
            settle(&mut both);
            let here: i128 = both.iter().map(|it| left(it).1).sum();
            assert_eq!((value(&both[0], "gift"), here), (35, 35), "{ends} {first}");
            assert!(
                both[0]
                    .state
                    .index()
                    .leases(both[0].state.keys())
                    .next()
                    .is_none()
            );
        }
    }
}

/// Room comes only with what was spent, so the value can't go over the cap when a lease ends.
#[test]
fn a_lease_makes_no_room_under_a_cap() {
    let [mut one, _] = members();
    one.quota_mut().flow("seats", Flow::RaiseCap(10)).unwrap();
    one.quota_mut().flow("seats", Flow::Mint(10)).unwrap();
    one.quota_mut().flow("seats", lease(ID, 6)).unwrap();
    assert!(one.quota_mut().flow("seats", Flow::Mint(1)).is_err());
    one.quota_mut().flow("seats", spend(2)).unwrap();
    check_sums(&one);
    one.quota_mut().flow("seats", Flow::Mint(2)).unwrap();
    one.quota_mut()
        .flow("seats", Flow::EndLease { id: ID })
        .unwrap();
    let seats = one.quota().budget("seats").unwrap();
    assert_eq!((seats.value, seats.rights.here), (10, 10));
    check_sums(&one);
}

#[test]
fn whoever_takes_over_a_member_takes_over_its_leases() {
    let [mut one, mut two] = members();
    two.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    two.quota_mut().flow("gift", lease(ID, 6)).unwrap();
    let owner: Owner = [2; 32];
    let writer = WriterId::mint(&Space::default(), &owner, &[8; 16]);
    let stored = two.snapshot().encode_stored();
    let mut next = Replica::new(Space::default(), writer);
    let stored = crate::Message::decode_stored(&stored).unwrap();
    next.restore(&stored).unwrap();
    next.members_mut().announce(&owner, &[8; 16], 8).unwrap();
    pass(&next, &mut one);
    let mut both = [one, next];
    settle(&mut both);
    let of = both[1].quota().leases_of("gift");
    assert_eq!(
        of,
        vec![Lease {
            id: ID,
            writer,
            left: 6,
            until: UNTIL
        }]
    );
    both[1].quota_mut().flow("gift", spend(6)).unwrap();
    assert_eq!(left(&both[1]), (4, 4, 0));
    // A replica that goes on under another writer takes them along.
    both[1].quota_mut().flow("gift", lease(OTHER, 3)).unwrap();
    let fresh = WriterId::from_bytes([77; 16]);
    both[1].quota_mut().hand_over(fresh).unwrap();
    let of = both[1].quota().leases_of("gift");
    assert_eq!((of.len(), of[0].writer, of[0].left), (1, fresh, 3));
    check_sums(&both[1]);
}

#[test]
fn a_lease_has_a_length_and_a_bound_on_its_holders_clock() {
    assert_eq!(lease_until(1_000, 60_000), Ok(1_000 + 60_000 + 600 + 2_000));
    assert_eq!(lease_until(0, 1_001), Ok(1_001 + 11 + 2_000));
    for ms in [0, LEASE_MS_MIN - 1, LEASE_MS_MAX + 1, u64::MAX] {
        assert_eq!(
            lease_until(0, ms),
            Err(QuotaError::LeaseRange { ms }.into())
        );
    }
    assert!(lease_until(u64::MAX, LEASE_MS_MAX).is_ok());
}

#[test]
fn a_lease_is_given_once_by_its_id() {
    let [mut one, _] = members();
    one.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    one.set_time(1_000);
    let ask = |one: &mut Replica, amount| {
        let mut transaction = one.begin().unwrap();
        let lease = transaction
            .quota_mut()
            .lease("gift", ID, 60_000, amount)
            .unwrap();
        transaction.commit(&mut Vec::new());
        (lease.left, lease.until)
    };
    assert_eq!(ask(&mut one, 6), (6, 63_600));
    one.set_time(2_000);
    assert_eq!(ask(&mut one, 6), (6, 63_600));
    assert_eq!(left(&one), (10, 4, 6));
    // The key is its id: another one would make it usable only when all know of it.
    let mut transaction = one.begin().unwrap();
    transaction
        .quota_mut()
        .lease("gift", OTHER, 60_000, 1)
        .unwrap();
    let once = Once::new(b"key", b"content");
    let refused = transaction.commit_once(once, &mut Vec::new());
    assert_eq!(refused, Err(QuotaError::LeaseOnce.into()));
    assert_eq!(left(&one), (10, 4, 6));
    let text = ID.to_string();
    assert_eq!(LeaseId::parse(&text), Ok(ID));
    for wrong in [
        &text[1..],
        "",
        &text.replace('7', "A"),
        &text.replace("07", "+7"),
    ] {
        let bytes = wrong.len();
        assert_eq!(
            LeaseId::parse(wrong),
            Err(QuotaError::LeaseId { bytes }.into())
        );
    }
}

#[test]
fn what_is_refused_of_a_lease_changes_nothing() {
    let [mut one, mut two] = members();
    let long = "x".repeat(LEASED_NAME_BYTES_MAX + 1);
    one.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    one.quota_mut().flow(&long, Flow::Mint(10)).unwrap();
    one.add("counter", 1).unwrap();
    let before = (one.canonical_bytes(), one.clock());
    let over = 1 << 63;
    for (name, flow, code) in [
        ("gift", lease(ID, 11), "rights_short"),
        ("gift", lease(ID, over), "amount_range"),
        ("gift", spend(over), "amount_range"),
        ("gift", spend(11), "rights_short"),
        ("gift", Flow::EndLease { id: ID }, "no_lease"),
        ("none", lease(ID, 1), "no_budget"),
        ("none", spend(1), "no_budget"),
        ("none", Flow::EndLease { id: ID }, "no_budget"),
        ("counter", lease(ID, 1), "wrong_kind"),
        (&long, lease(ID, 1), "too_large"),
    ] {
        let refused = one.quota_mut().flow(name, flow).unwrap_err();
        assert_eq!(refused.code(), code, "{name} {flow:?}");
        assert_eq!((one.canonical_bytes(), one.clock()), before);
    }
    let refused = one.quota_mut().flow(&long, lease(ID, 1)).unwrap_err();
    let what = Limited::LeasedName;
    let (size, max) = (LEASED_NAME_BYTES_MAX + 1, LEASED_NAME_BYTES_MAX);
    assert_eq!(
        refused,
        Error::Decode(DecodeError::TooLarge { what, size, max })
    );
    let held = two.quota_mut().flow("gift", lease(ID, 1));
    assert_eq!(held, Err(QuotaError::NoBudget.into()));
}

/// A rejoining member spends again from its rights what it had spent of a lease. It does not give the lease
/// again.
#[test]
fn what_was_spent_of_a_lease_is_made_again_of_the_rights() {
    let [mut one, mut two] = members();
    two.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    pass(&two, &mut one);
    one.members_mut().force(&[[1; 32]]).unwrap();
    one.members_mut().fence_strays().unwrap();
    one.members_mut().retire().unwrap();
    // It has not heard of that.
    two.quota_mut().flow("gift", Flow::Mint(6)).unwrap();
    two.quota_mut().flow("gift", lease(ID, 5)).unwrap();
    two.quota_mut().flow("gift", spend(4)).unwrap();
    two.quota_mut()
        .flow("gift", Flow::EndLease { id: ID })
        .unwrap();
    let whole = one.delta(&VersionVector::default());
    let fresh = WriterId::from_bytes([88; 16]);
    let journal = two
        .rejoin_mut()
        .begin_again(fresh, &whole, &mut |_| ())
        .unwrap();
    let upto = one.members().final_clock(&journal.writer().unwrap());
    two.quota.is_next_start = true;
    let returned = two.rejoin_mut().make_again(journal, upto, 0, &mut |_| ());
    let again = returned.again.iter().map(|it| (it.refused, it.clock));
    let expected = [
        (false, Some(1)),
        (false, None),
        (false, Some(2)),
        (false, None),
    ];
    assert_eq!(again.collect::<Vec<_>>(), expected);
    assert_eq!(left(&two), (12, 2, 0));
}

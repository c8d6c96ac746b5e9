//! Limits at one member and at two, by hand.

use super::*;
use crate::error::QuotaError;
use crate::message::Message;
use crate::replica::Replica;
use crate::wire::Encode;
use crate::writer_id::Space;
use alloc::vec;

const OWNERS: [Owner; 2] = [[1; 32], [2; 32]];
/// A period of a second that begins then.
const BEGIN: u64 = 1_800_000_000_000;

fn limit(name: &str, limit: u64, period_ms: u64) -> Limit {
    Limit {
        name: name.into(),
        limit,
        period_ms,
        since: 0,
    }
}

/// The first member alone, long before.
fn alone() -> Replica {
    let mut one = Replica::new(Space::default(), WriterId::from_bytes([1; 16]));
    one.members_mut()
        .found(&OWNERS[0], &[0; 16], BEGIN - 100_000)
        .unwrap();
    one.set_time(BEGIN);
    one
}

fn allow(replica: &mut Replica, key: &str, cost: u64) -> Result<(i128, i128), Error> {
    let period = replica.quota_mut().allow(key, cost, &mut Vec::new())?;
    Ok((period.left.here, period.left.elsewhere))
}

fn short(result: Result<(i128, i128), Error>) -> (u64, i128) {
    match result {
        Err(Error::Quota(QuotaError::LimitReached(short))) => (short.asked, short.held.here),
        other => panic!("{other:?}"),
    }
}

fn pass(from: &Replica, to: &mut Replica) {
    let message = from.delta(&to.keyed().vector());
    let message = Message::decode(&message.encode()).unwrap();
    to.merge_with(&message, Some(from.writer()), &mut |_| ())
        .unwrap();
}

/// Both members do their duties and tell each other.
fn tend(both: &mut [Replica; 2]) {
    for _ in 0..8 {
        for at in 0..2 {
            let replica = &mut both[at];
            replica.members_mut().vote().unwrap();
            replica.members_mut().fence_strays().unwrap();
            replica.members_mut().retire().unwrap();
            replica.quota_mut().note_known(&mut Vec::new()).unwrap();
            replica.quota_mut().end_periods(&mut Vec::new()).unwrap();
            replica.members_mut().acknowledge().unwrap();
            let kept = replica.mark();
            replica.members_mut().collect(&kept);
            let (one, two) = both.split_at_mut(1);
            pass(&one[0], &mut two[0]);
            pass(&two[0], &mut one[0]);
        }
    }
}

/// Two members that know of each other's all.
fn members() -> [Replica; 2] {
    let mut one = alone();
    one.members_mut().force(&OWNERS).unwrap();
    let mut two = Replica::new(Space::default(), WriterId::from_bytes([2; 16]));
    let state = one.snapshot();
    two.merge(&state).unwrap();
    two.set_time(BEGIN);
    two.members_mut()
        .announce(&OWNERS[1], &[0; 16], BEGIN - 90_000)
        .unwrap();
    let mut both = [one, two];
    pass(&both[1].clone(), &mut both[0]);
    tend(&mut both);
    both
}

#[test]
fn the_limit_of_a_key_is_that_of_its_name_or_of_what_stands_before_its_first_colon() {
    let limits = vec![
        limit("a", 1, 1_000),
        limit("a:b", 2, 1_000),
        limit("c:", 3, 1_000),
    ];
    let it = Configuration {
        limits,
        ..Configuration::default()
    };
    let of = |key| it.limit_of(key).map(|it| it.limit);
    for (key, expected) in [
        ("a", Some(1)),
        ("a:", Some(1)),
        ("a:x", Some(1)),
        ("a:b", Some(2)),
        ("a:b:c", Some(1)),
        ("ab", None),
        ("b", None),
        ("c:", Some(3)),
        ("c:d", None),
    ] {
        assert_eq!(of(key), expected, "{key}");
    }
}

#[test]
fn shares_of_all_members_are_the_limit() {
    for members in 1..=7u8 {
        for most in [1, 2, 6, 7, 8, 100, i64::MAX as u64] {
            let it = Configuration {
                members: (0..members).map(|it| [it; 32]).collect(),
                limits: vec![limit("a", most, 1_000)],
                ..Configuration::default()
            };
            let limit = &it.limits[0];
            let shares = it.members.iter().map(|owner| share(&it, owner, limit));
            assert_eq!(shares.map(u128::from).sum::<u128>(), u128::from(most));
            assert_eq!(share(&it, &[9; 32], limit), 0);
        }
    }
}

#[test]
fn limits_that_were_proposed_are_shown_until_they_are_decided() {
    let mut one = alone();
    assert_eq!(one.members().proposed_limits(), None);
    one.quota_mut()
        .propose_limits(&[limit("login", 5, 1_000)])
        .unwrap();
    assert_eq!(one.members().proposed_limits(), None, "one decides alone");
    one.members_mut().force(&OWNERS).unwrap();
    one.quota_mut()
        .propose_limits(&[limit("login", 9, 1_000)])
        .unwrap();
    let proposed = one.members().proposed_limits().unwrap();
    let limits = proposed.iter().map(|it| (&*it.name, it.limit));
    assert_eq!(limits.collect::<Vec<_>>(), [("login", 9)]);
}

#[test]
fn a_member_alone_allows_the_limit_in_each_period_and_a_refusal_changes_nothing() {
    let mut one = alone();
    assert_eq!(
        one.quota().period("login").unwrap_err(),
        Error::Quota(QuotaError::NoLimit)
    );
    one.quota_mut()
        .propose_limits(&[limit("login", 5, 1_000)])
        .unwrap();
    let before = one.clock();
    assert_eq!(short(allow(&mut one, "login", 6)), (6, 5));
    assert_eq!((one.clock(), one.quota().period_counters()), (before, 0));
    assert_eq!(allow(&mut one, "login", 3), Ok((2, 0)));
    let before = one.clock();
    assert_eq!(short(allow(&mut one, "login", 3)), (3, 2));
    assert_eq!(one.clock(), before);
    assert_eq!(allow(&mut one, "login:a", 5), Ok((0, 0)));
    assert_eq!(allow(&mut one, "login", 2), Ok((0, 0)));
    assert_eq!(allow(&mut one, "login", 0), Ok((0, 0)));
    one.set_time(BEGIN + 999);
    assert_eq!(short(allow(&mut one, "login", 1)), (1, 0));
    one.set_time(BEGIN + 1_000);
    assert_eq!(allow(&mut one, "login", 1), Ok((4, 0)));
    let period = one.quota().period("login").unwrap();
    assert_eq!((period.begins, period.ends), (BEGIN + 1_000, BEGIN + 2_000));
    // The first one goes, and the second one stays until it is its turn.
    assert_eq!(one.quota().period_counters(), 6);
    one.set_time(BEGIN + 3_000);
    // Its clock may be fast.
    one.members_mut().set_time_unsure(true);
    one.quota_mut().end_periods(&mut Vec::new()).unwrap();
    let kept = one.mark();
    one.members_mut().collect(&kept);
    assert_eq!(one.quota().period_counters(), 6);
    one.members_mut().set_time_unsure(false);
    one.quota_mut().end_periods(&mut Vec::new()).unwrap();
    let kept = one.mark();
    one.members_mut().collect(&kept);
    assert_eq!(one.quota().period_counters(), 2);
    one.set_time(BEGIN + 4_000);
    one.quota_mut().end_periods(&mut Vec::new()).unwrap();
    let kept = one.mark();
    one.members_mut().collect(&kept);
    assert_eq!(one.quota().period_counters(), 0);
}

#[test]
fn a_limit_is_begun_anew_if_its_period_changes_and_not_if_it_is_raised() {
    let mut one = alone();
    one.quota_mut()
        .propose_limits(&[limit("a", 5, 1_000)])
        .unwrap();
    assert_eq!(allow(&mut one, "a", 1), Ok((4, 0)));
    let since = |one: &Replica| one.members().configuration().unwrap().limits[0].since;
    let first = since(&one);
    one.quota_mut()
        .propose_limits(&[limit("a", 9, 1_000)])
        .unwrap();
    assert_eq!(since(&one), first);
    assert_eq!(allow(&mut one, "a", 1), Ok((3, 0)));
    one.quota_mut()
        .propose_limits(&[limit("a", 9, 2_000)])
        .unwrap();
    assert_eq!(since(&one), first + 2);
    assert_eq!(allow(&mut one, "a", 1), Ok((8, 0)));
}

#[test]
fn what_can_be_no_limit_is_refused() {
    let mut one = alone();
    let mut refused = |it: Limit| one.quota_mut().propose_limits(&[it]).unwrap_err().code();
    assert_eq!(refused(limit("", 1, 1_000)), "limit_name");
    assert_eq!(refused(limit(&"x".repeat(129), 1, 1_000)), "limit_name");
    assert_eq!(refused(limit("\0", 1, 1_000)), "limit_name");
    assert_eq!(refused(limit("a", 0, 1_000)), "limit_range");
    assert_eq!(refused(limit("a", 1 << 63, 1_000)), "limit_range");
    assert_eq!(refused(limit("a", 1, 999)), "period_range");
    assert_eq!(refused(limit("a", 1, 366 * 86_400_000 + 1)), "period_range");
    let many = (0..=LIMITS_MAX).map(|it| limit(&alloc::format!("{it}"), 1, 1_000));
    let many: Vec<Limit> = many.collect();
    assert_eq!(
        one.quota_mut().propose_limits(&many).unwrap_err().code(),
        "limits_full"
    );
    one.quota_mut().propose_limits(&many[1..]).unwrap();
    assert_eq!(
        one.members().configuration().unwrap().limits.len(),
        LIMITS_MAX
    );
    // All of it is told, and read again.
    let bytes = one.snapshot().encode();
    let again = Message::decode(&bytes).unwrap();
    assert!(again.encode() == bytes);
    let mut two = Replica::new(Space::default(), WriterId::from_bytes([2; 16]));
    two.merge(&again).unwrap();
    assert!(two.members().configuration() == one.members().configuration());
}

#[test]
fn a_share_that_grows_is_used_in_the_first_period_after_all_knew_of_it() {
    let mut both = members();
    both[0]
        .quota_mut()
        .propose_limits(&[limit("a", 10, 1_000)])
        .unwrap();
    tend(&mut both);
    let here = |replica: &Replica| replica.quota().period("a").unwrap().left.here;
    assert_eq!((here(&both[0]), here(&both[1])), (5, 5));
    let time = |both: &mut [Replica; 2], at: u64| both.iter_mut().for_each(|it| it.set_time(at));
    time(&mut both, BEGIN + 4_500);
    both[0]
        .quota_mut()
        .propose_limits(&[limit("a", 20, 1_000)])
        .unwrap();
    assert_eq!((here(&both[0]), here(&both[1])), (5, 5));
    tend(&mut both);
    assert_eq!((here(&both[0]), here(&both[1])), (5, 5));
    // The next period begins half a second after all knew of it, which is not a second.
    time(&mut both, BEGIN + 5_000);
    assert_eq!((here(&both[0]), here(&both[1])), (5, 5));
    time(&mut both, BEGIN + 6_000);
    assert_eq!((here(&both[0]), here(&both[1])), (10, 10));
    // One that is lowered holds from when it is heard of.
    both[0]
        .quota_mut()
        .propose_limits(&[limit("a", 4, 1_000)])
        .unwrap();
    both[0].members_mut().vote().unwrap();
    let [one, two] = &mut both;
    pass(one, two);
    two.members_mut().vote().unwrap();
    pass(two, one);
    one.members_mut().vote().unwrap();
    for _ in 0..4 {
        pass(two, one);
        one.members_mut().vote().unwrap();
        pass(one, two);
        two.members_mut().vote().unwrap();
    }
    assert_eq!((here(&both[0]), here(&both[1])), (2, 2));
}

#[test]
fn a_start_brings_in_nothing_in_a_period_in_which_one_before_it_may_have() {
    let mut both = members();
    both[0]
        .quota_mut()
        .propose_limits(&[limit("a", 10, 60_000)])
        .unwrap();
    tend(&mut both);
    let name = both[1].quota().period("a").unwrap().name;
    assert_eq!(allow(&mut both[1], "a", 2), Ok((3, 5)));
    // It ends, and begins again from a state without that.
    let mut again = Replica::new(Space::default(), WriterId::from_bytes([3; 16]));
    again.merge(&both[0].snapshot()).unwrap();
    again.set_time(BEGIN + 500);
    again
        .members_mut()
        .announce(&OWNERS[1], &[0; 16], BEGIN + 500)
        .unwrap();
    assert_eq!(short(allow(&mut again, "a", 1)), (1, 0));
    let before = both[1].clone();
    both[1] = again;
    both[1]
        .merge(&before.delta(&both[1].keyed().vector()))
        .unwrap();
    tend(&mut both);
    // The amount of the start before is its own, and it has no more.
    assert_eq!(both[1].quota().period("a").unwrap().left.here, 3);
    let shares: Vec<(&str, i128)> = both[1].quota().period_shares().collect();
    assert_eq!(shares, [(&*name, 5)]);
}

#[test]
fn a_share_is_to_come_until_its_owner_brings_it_in_or_its_period_is_over() {
    let [mut one, mut two] = members();
    one.quota_mut()
        .propose_limits(&[limit("login", 5, 1_000)])
        .unwrap();
    let mut both = [one, two];
    tend(&mut both);
    [one, two] = both;
    // The period begins after both knew of the limit.
    for replica in [&mut one, &mut two] {
        replica.set_time(BEGIN + 10_000);
    }
    let name = one.quota().period("login").unwrap().name;
    fn to_come(it: &Replica, owner: &Owner, name: &str) -> i128 {
        it.quota().share_to_come(owner, name)
    }
    assert_eq!(to_come(&one, &OWNERS[0], &name), 3);
    assert_eq!(to_come(&one, &OWNERS[1], &name), 2);
    assert_eq!(to_come(&one, &[9; 32], &name), 0, "it is no member");
    assert_eq!(
        to_come(&one, &OWNERS[1], "login"),
        0,
        "it is no period's name"
    );
    allow(&mut two, "login", 1).unwrap();
    assert_eq!(
        to_come(&one, &OWNERS[1], &name),
        2,
        "nobody has said so yet"
    );
    pass(&two, &mut one);
    assert_eq!(to_come(&one, &OWNERS[1], &name), 0);
    assert_eq!(to_come(&two, &OWNERS[0], &name), 3);
    two.set_time(BEGIN + 11_000);
    assert_eq!(to_come(&two, &OWNERS[0], &name), 0, "it is over");
}

#[test]
fn what_comes_after_its_period_was_deleted_is_no_fault_and_goes_too() {
    let mut both = members();
    both[0]
        .quota_mut()
        .propose_limits(&[limit("a", 10, 1_000)])
        .unwrap();
    tend(&mut both);
    assert_eq!(allow(&mut both[0], "a", 1), Ok((4, 5)));
    let [one, two] = &mut both;
    pass(one, two);
    // The other one does not hear of this before it deletes what it knows.
    assert_eq!(allow(one, "a", 3), Ok((1, 5)));
    two.set_time(BEGIN + 60_000);
    two.quota_mut().end_periods(&mut Vec::new()).unwrap();
    assert!(two.quota().period_rights().next().is_none());
    pass(one, two);
    assert_eq!(
        two.quota()
            .period_rights()
            .map(|it| it.2)
            .collect::<Vec<_>>(),
        [-3]
    );
    assert_eq!(two.forks().fault_count(), 0);
    one.set_time(BEGIN + 60_000);
    tend(&mut both);
    for replica in &both {
        assert_eq!(
            (
                replica.quota().period_counters(),
                replica.forks().fault_count()
            ),
            (0, 0)
        );
    }
}

//! Keyed operations of replicas that begin again, go on under another id, or forget a writer.

use super::*;
use crate::WriterId;
use crate::idempotency::log::{ABSORBED, UNSURE};
use crate::optional::Optional;
use crate::state::page::OWN;

const FRESH: WriterId = WriterId::from_bytes([77; 16]);

/// Begins again under another id, from all that another one has.
fn again(replica: &mut Replica, from: &Replica) -> crate::Journal {
    let state = from.delta(&VersionVector::default());
    replica
        .rejoin_mut()
        .begin_again(FRESH, &state, &mut |_| ())
        .unwrap()
}

#[test]
fn what_another_has_made_is_not_made_again() {
    let [mut one, mut two] = members();
    let told = two.clock();
    for (key, by) in [("a", 5), ("b", 7)] {
        add(&mut two, key, by);
    }
    add(&mut one, "a", 5);
    // Something else under the key of what nobody else has made.
    add_else(&mut one, "b", 100);
    let journal = again(&mut two, &one);
    let returned = two
        .rejoin_mut()
        .make_again(journal, Some(told), told + 2, &mut |_| ());
    let clocks: Vec<_> = returned.again.iter().map(|it| (it.was, it.clock)).collect();
    assert_eq!(clocks, [(told + 1, None), (told + 2, Some(1))]);
    assert_eq!(two.value("n"), Some(112));
    assert_eq!(two.keyed().makers(&once("b")), [(FRESH, 1)]);
}

/// A reset that was made again without one of the writers that it had cancelled. Replicas that hear of it and
/// a store know that, until somebody makes it in full.
#[test]
fn what_was_made_again_with_less_effect_is_known_to_all() {
    let [mut one, mut two, mut tab] = space();
    tab.add("n", 9).unwrap();
    tell(&tab, &mut one);
    tell(&one, &mut two);
    let told = two.clock();
    make(&mut two, "full", &[("m", Op::Reset)]);
    make(&mut two, "a", &[("n", Op::Reset)]);
    assert!(!two.keyed().is_weaker(&once("a")));
    one.members_mut().fence(&tab.writer()).unwrap();
    let journal = again(&mut two, &one);
    let returned = two
        .rejoin_mut()
        .make_again(journal, Some(told), told + 2, &mut |_| ());
    assert_eq!(returned.again[1].ops[0].left, 1);
    assert_eq!(two.value("n"), Some(9));
    let weaker =
        |replica: &Replica| ["full", "a", "none"].map(|key| replica.keyed().is_weaker(&once(key)));
    assert_eq!(weaker(&two), [false, true, false]);
    let mut stored = Replica::new(two.space().clone(), WriterId::from_bytes([78; 16]));
    stored.restore(&two.snapshot()).unwrap();
    assert_eq!(weaker(&stored), [false, true, false]);
    let message = two.delta(&one.keyed().vector());
    let message = Message::decode(&message.encode()).unwrap();
    assert!(message.keyed.iter().any(|it| it.adds.len() == 1));
    make(&mut one, "a", &[("n", Op::Reset)]);
    assert_eq!(weaker(&one), [false; 3]);
    assert_eq!(one.value("n"), Some(0));
}

#[test]
fn who_lost_a_withdrawal_makes_it_again() {
    let [mut one, mut two] = members();
    add(&mut two, "a", 5);
    tell_by_page(&two, &mut one);
    add(&mut one, "a", 5);
    assert_eq!(tell(&one, &mut two).len(), 1);
    again(&mut two, &one);
    assert_eq!(two.value("n"), Some(10));
    assert_eq!(
        two.idempotency
            .withdraw(&mut two.state, &mut two.membership, &mut |_, _| ()),
        Ok(true)
    );
    assert_eq!(two.value("n"), Some(5));
}

#[test]
fn who_begins_again_does_not_know_which_lifetimes_are_whose() {
    let mut all = space();
    let old = all[0].clone();
    add(&mut all[1], "a", 5);
    let at = all[1].clock();
    all[1].apply("n", Op::Delete).unwrap();
    all[1].add("n", 70).unwrap();
    for member in &mut all {
        member.membership.table_mut().stored().waiting = true;
    }
    settle(&mut all);
    let [mut one, mut two, _] = all;
    // It remembers keys for a shorter time.
    assert!(one.keyed_mut().drop_before(u64::MAX));
    let mut late = start_again(&old, &two);
    late.membership.drop_gaps(); // It does not know that it lacks keys.
    add(&mut late, "a", 5);
    let before = two.writer();
    again(&mut two, &one);
    assert_eq!(two.keyed().makers(&once("a")), [(before, at)]);
    assert!(
        two.membership
            .collected_upto(two.state.number_of(&before).unwrap())
            >= at
    );
    assert_eq!(tell(&late, &mut two), []);
    assert_eq!(two.value("n"), Some(75));
}

/// Its store was an older copy: it had made more than it knows.
#[test]
fn who_begins_again_claims_to_know_its_own_keys_only_as_far_as_it_does() {
    let [mut one, mut two, _] = space();
    let mut old = one.clone();
    add(&mut one, "a", 5);
    tell_by_page(&one, &mut two);
    again(&mut old, &two);
    assert_eq!(old.value("n"), Some(5));
    assert!(old.keyed().has_gaps());
    again(&mut one, &two);
    assert!(!one.keyed().has_gaps());
}

#[test]
fn who_goes_by_another_id_has_made_nothing_under_it() {
    let [closed, _] = members();
    let mut one = Replica::new(closed.space().clone(), closed.writer());
    add(&mut one, "a", 5);
    let made = dot(&one);
    assert!(one.forks_mut().renew(FRESH));
    assert_eq!(one.keyed().makers(&once("a")), [made]);
    add(&mut one, "b", 5);
    assert_eq!(one.keyed().makers(&once("b")), [(FRESH, 1)]);
}

/// Nobody tells what counts of them until a message does; nothing is to be withdrawn of them.
#[test]
fn what_is_in_doubt_may_be_dropped() {
    let [mut one, _] = members();
    add(&mut one, "a", 5);
    assert!(!one.keyed_mut().drop_before(u64::MAX));
    one.idempotency.doubt_keyed(&mut one.membership);
    assert_eq!(one.keyed().written_before(&once("a")), None);
    assert!(one.keyed_mut().drop_before(u64::MAX));
    assert_eq!(one.keyed().count(), 0);
}

#[test]
fn of_a_forgotten_writer_is_sure_what_nobody_else_has_made() {
    let [mut one, mut two] = members();
    for key in ["a", "b", "c"] {
        add(&mut one, key, 5);
    }
    add(&mut two, "a", 5);
    // Something else under the same key is another operation.
    add_else(&mut two, "b", 5);
    tell(&one, &mut two);
    let gone = two.membership.number(&mut two.state, one.writer());
    *two.idempotency.asked_mut() = Some((1, vec![(gone, 2), (OWN, 3)]));
    two.idempotency.forget_keyed(&mut two.membership, &[gone]);
    assert_eq!(*two.idempotency.asked_mut(), Some((1, vec![(OWN, 3)])));
    let of = |two: &Replica, key: &str| {
        let once = once(key);
        let places = two.idempotency.of(&once.key);
        let writers = places.map(|place| two.idempotency.at(place).writer);
        writers.filter(|it| *it != OWN).collect::<Vec<u32>>()
    };
    assert_eq!(of(&two, "a"), [UNSURE]);
    assert_eq!(of(&two, "b"), [ABSORBED]);
    assert_eq!(of(&two, "c"), [ABSORBED]);
    // All who count have seen it, so the own transactions are all that is to be asked for.
    let own = two.consistency().written();
    assert_eq!(two.keyed().written_before(&once("c")), Some(own));
}

/// A guest leaves: nothing but its keys makes members say that they have seen what it made.
#[test]
fn a_guest_that_left_is_taken_over_when_all_have_seen_its_keys() {
    let mut all = space();
    for member in &mut all {
        member.membership.table_mut().stored().waiting = true;
    }
    settle(&mut all);
    let [mut one, mut two, mut guest] = all;
    add(&mut guest, "a", 5);
    guest.members_mut().leave().unwrap();
    tell(&guest, &mut one);
    assert_eq!(
        one.members_mut().retire(),
        Ok(0),
        "others may have made the same"
    );
    let with_keys = |from: &Replica, to: &mut Replica| drop(tell(from, to));
    tend(&mut one, &mut two, &with_keys);
    for member in [&one, &two] {
        assert_eq!(member.state.held(&guest.writer()), 0);
        assert_eq!(member.value("n"), Some(5));
        assert_eq!(member.keyed().lookup(&once("a")), KeyStatus::Before(None));
    }
}

#[test]
fn who_begins_again_tells_its_keys_of_what_others_have_without() {
    let [mut one, mut two, _] = space();
    add(&mut one, "a", 5);
    let made = dot(&one);
    tell_by_page(&one, &mut two);
    let whole = two.delta(&VersionVector::default());
    let writer = WriterId::from_bytes([77; 16]);
    one.rejoin_mut()
        .begin_again(writer, &whole, &mut |_| ())
        .unwrap();
    assert_eq!(one.keyed().makers(&once("a")), [made]);
    let number = one.state.number_of(&made.0).unwrap();
    assert_eq!(one.membership.clock_with_keys(&one.state, number), made.1);
    assert_eq!(tell(&one, &mut two), []);
    assert_eq!(two.keyed().makers(&once("a")), [made]);
}

/// It may be the only one left who has heard them.
#[test]
fn who_begins_again_tells_the_keys_that_it_has_heard_of_others() {
    let [mut one, mut two, mut other] = space();
    add(&mut one, "a", 5);
    let made = dot(&one);
    tell_by_page(&one, &mut two);
    tell(&one, &mut other);
    let whole = two.delta(&VersionVector::default());
    let writer = WriterId::from_bytes([77; 16]);
    other
        .rejoin_mut()
        .begin_again(writer, &whole, &mut |_| ())
        .unwrap();
    assert_eq!(other.keyed().makers(&once("a")), [made]);
    let number = other.state.number_of(&made.0).unwrap();
    assert_eq!(
        other.membership.clock_with_keys(&other.state, number),
        made.1
    );
    add(&mut two, "a", 5);
    assert_eq!(tell(&other, &mut two).len(), 1);
    assert_eq!(two.value("n"), Some(5));
}

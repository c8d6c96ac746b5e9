//! Keys that nobody knows any more, and when that is certain.

use super::*;

/// A member that has not answered yet may have them.
#[test]
fn missing_keys_are_given_up_when_all_have_answered_and_not_before() {
    let [mut one, mut two, page] = space();
    let old = one.clone();
    add(&mut one, "a", 5);
    tell_by_page(&one, &mut two);
    let mut one = start_again(&old, &two);
    for gone in [old.writer(), page.writer()] {
        one.members_mut().fence(&gone).unwrap();
    }
    tell(&one, &mut two);
    assert!(two.members_mut().acknowledge().unwrap());
    assert!(two.idempotency.asked_for_keys() > 0);
    for _ in 0..3 {
        two.members_mut().acknowledge().unwrap();
        two.idempotency
            .give_up_keys(&two.state, &mut two.membership);
        assert!(two.keyed().has_gaps(), "nobody has answered");
    }
    for _ in 0..3 {
        tell(&two, &mut one);
        one.members_mut().acknowledge().unwrap();
        tell(&one, &mut two);
        two.members_mut().acknowledge().unwrap();
    }
    assert!(!two.keyed().has_gaps());
}

/// The record of the last part begins where the part before it ended, and no record says where that was.
#[test]
fn keys_that_came_in_parts_are_all_known_after_a_restart() {
    let [mut one, mut two] = members();
    tell(&one, &mut two);
    let mut mark = crate::Mark::default();
    let mut records = vec![two.since(&mut mark).unwrap()];
    add(&mut one, "a", 5);
    let part = one.clone();
    add(&mut one, "b", 7);
    tell_by_page(&one, &mut two);
    for (from, lacks) in [(&two.clone(), true), (&part, true), (&one, false)] {
        tell(from, &mut two);
        assert_eq!(two.keyed().has_gaps(), lacks);
        let record = two.since(&mut mark).unwrap();
        records.push(Message::decode_stored(&record.encode_stored()).unwrap());
    }
    let mut again = Replica::new(two.space().clone(), WriterId::from_bytes([77; 16]));
    for record in &records {
        again.restore(record).unwrap();
    }
    assert!(!again.keyed().has_gaps());
    assert_eq!(again.keyed().vector(), two.keyed().vector());
    for key in ["a", "b"] {
        assert_eq!(
            again.keyed().lookup(&once(key)),
            two.keyed().lookup(&once(key))
        );
    }
}

/// A whole state and a store say which writers have gaps, and not where these begin.
#[test]
fn a_gap_begins_no_earlier_than_what_all_members_had() {
    let mut all = space();
    add(&mut all[0], "a", 5);
    settle(&mut all);
    add(&mut all[0], "b", 7);
    let [one, mut two, _] = all;
    let maker = one.writer();
    let number = two.state.number_of(&maker).unwrap();
    let collected = two.membership.collected_upto(number);
    assert!(collected > 0);
    tell_by_page(&one, &mut two);
    assert!(two.keyed().has_gaps());
    let [mut whole, mut stored] =
        [76, 77].map(|byte| Replica::new(two.space().clone(), WriterId::from_bytes([byte; 16])));
    whole.merge(&two.delta(&VersionVector::default())).unwrap();
    stored.restore(&two.snapshot()).unwrap();
    for mut replica in [whole, stored] {
        assert!(replica.keyed().has_gaps());
        let since = replica.keyed().vector();
        assert_eq!(since.get(&maker), collected);
        assert!(!one.delta(&since).is_whole());
        tell(&one, &mut replica);
        assert!(!replica.keyed().has_gaps());
        assert_eq!(
            replica.keyed().lookup(&once("b")),
            one.keyed().lookup(&once("b"))
        );
    }
}

/// A guest's state has no keys, not even those of what all members had. What such a start tells and stores says so.
#[test]
fn a_start_from_the_state_of_a_guest_lacks_all_keys() {
    let mut all = space();
    add(&mut all[0], "a", 5);
    settle(&mut all);
    let [one, two, _] = all;
    let maker = one.writer();
    let [mut start, mut whole, mut stored] = [75, 76, 77]
        .map(|byte| Replica::new(two.space().clone(), WriterId::from_bytes([byte; 16])));
    let message = two.delta(&VersionVector::default());
    start.merge(&message.without_keys()).unwrap();
    let number = start.state.number_of(&maker).unwrap();
    assert!(start.membership.collected_upto(number) > 0);
    let told = start.delta(&VersionVector::default());
    assert_eq!((told.without_keys, told.key_gaps.len()), (true, 2));
    whole.merge(&told).unwrap();
    stored.restore(&start.snapshot()).unwrap();
    for mut replica in [start, whole, stored] {
        assert_eq!(replica.keyed().vector().get(&maker), 0);
        assert_eq!(replica.keyed().lookup(&once("a")), KeyStatus::New);
        tell(&one, &mut replica);
        assert!(!replica.keyed().has_gaps());
        let expected = KeyStatus::Before(Some(dot(&one)));
        assert_eq!(replica.keyed().lookup(&once("a")), expected);
    }
}

/// The other transaction may have been taken over since, and can't be withdrawn any more.
#[test]
fn what_was_made_while_keys_were_missing_counts_only_if_nothing_else_does() {
    let [mut one, mut two] = members();
    assert!(one.writer() < two.writer());
    add(&mut two, "a", 5);
    tell_by_page(&two, &mut one);
    assert!(one.keyed().has_gaps());
    add(&mut one, "a", 5);
    let (first, later) = (dot(&two), dot(&one));
    let mut other = two.clone();
    assert_eq!(tell(&one, &mut other), [("n".into(), later)]);
    assert_eq!(tell(&two, &mut one), [("n".into(), later)]);
    assert_eq!(tell(&one, &mut two), []);
    for replica in [&one, &two, &other] {
        assert_eq!(replica.value("n"), Some(5));
        let before = KeyStatus::Before(Some(first));
        assert_eq!(replica.keyed().lookup(&once("a")), before);
    }
    // Nobody else has made this one.
    tell_by_page(&two, &mut one);
    add(&mut one, "b", 7);
    assert_eq!(tell(&one, &mut two), []);
    assert_eq!(two.value("n"), Some(12));
}

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

//! Keyed operations at two members and a third who hears of both.

mod gaps;
mod returns;
mod shares;
mod transfers;
mod withdrawals;

pub(super) use super::super::collect::tests::space;
use super::*;
use crate::bounds::KEYED_BYTES_MAX;
use crate::error::DecodeError;
use crate::error::Limited;
use crate::idempotency::KeyStatus;
use crate::message::KeyedAdd;
use crate::message::records::Statement;
use crate::optional::Optional;
#[cfg(feature = "explore")]
use crate::replica::IdempotencyLog;
use crate::state::page::OWN;
use crate::state::vector::VersionVector;
use crate::wire::Encode;
use crate::wire::encode_adds;
use crate::{Message, Op, WriterId};
use alloc::string::String;
use alloc::vec;

pub(super) fn once(key: &str) -> Once {
    Once::new(key.as_bytes(), b"")
}

/// Makes operations under a key.
pub(super) fn make(replica: &mut Replica, key: &str, ops: &[(&str, Op)]) {
    assert_eq!(replica.keyed().lookup(&once(key)), KeyStatus::New);
    let mut transaction = replica.begin().unwrap();
    for (key, op) in ops {
        transaction.apply(key, *op).unwrap();
    }
    transaction.commit_once(once(key), &mut Vec::new()).unwrap();
}

pub(super) fn add(replica: &mut Replica, key: &str, by: i64) {
    make(replica, key, &[("n", Op::Add(by))]);
}

/// Adds something else under a key, whatever was made under it.
fn add_else(replica: &mut Replica, key: &str, by: i64) -> Once {
    let once = Once::new(key.as_bytes(), b"else");
    let mut transaction = replica.begin().unwrap();
    transaction.apply("n", Op::Add(by)).unwrap();
    transaction.commit_once(once, &mut Vec::new()).unwrap();
    once
}

/// Tells one all that another has, and which adds it withdraws then.
pub(super) fn tell(from: &Replica, to: &mut Replica) -> Vec<(String, (WriterId, u64))> {
    let message = from.delta(&to.keyed().vector());
    let message = Message::decode(&message.encode()).unwrap();
    to.merge_with(&message, Some(from.writer()), &mut |_| ())
        .unwrap();
    let mut withdrawn = Vec::new();
    let done = to
        .idempotency
        .withdraw(&mut to.state, &mut to.membership, &mut |key_id, dot| {
            withdrawn.push((key_id, dot))
        });
    assert_eq!(done, Ok(!withdrawn.is_empty()));
    let name = |key_id| String::from(to.key(key_id).unwrap());
    withdrawn.iter().map(|it| (name(it.0), it.1)).collect()
}

/// Two members; the first one's writer id is the lesser.
pub(super) fn members() -> [Replica; 2] {
    let [one, two, _] = space();
    match one.writer() < two.writer() {
        true => [one, two],
        false => [two, one],
    }
}

pub(super) fn dot(replica: &Replica) -> (WriterId, u64) {
    (replica.writer(), replica.clock())
}

#[test]
fn a_retry_is_known_where_it_was_taken_and_where_that_was_heard_of() {
    let [mut one, mut two] = members();
    add(&mut one, "a", 5);
    let before = KeyStatus::Before(Some(dot(&one)));
    assert_eq!(one.keyed().lookup(&once("a")), before);
    assert_eq!(one.keyed().lookup(&once("b")), KeyStatus::New);
    assert_eq!(
        one.keyed().lookup(&Once::new(b"a", b"else")),
        KeyStatus::Reused
    );
    assert_eq!(two.keyed().lookup(&once("a")), KeyStatus::New);
    assert_eq!(tell(&one, &mut two), []);
    assert_eq!(two.keyed().lookup(&once("a")), before);
    assert_eq!((one.keyed().count(), two.keyed().count()), (1, 1));
    // A reply to a retry with a level depends on the other member's transaction.
    two.add("n", 1).unwrap();
    let upto = two.keyed().written_before(&once("a")).unwrap();
    assert_eq!(
        upto,
        two.consistency()
            .written()
            .joined(&one.consistency().written())
    );
    assert_eq!(two.keyed().written_before(&once("b")), None);
}

#[test]
fn of_two_that_were_taken_apart_one_counts() {
    let [mut one, mut two] = members();
    one.add("n", 100).unwrap();
    two.add("n", 1_000).unwrap();
    add(&mut one, "a", 5);
    add(&mut two, "a", 5);
    let (first, later) = (dot(&one), dot(&two));
    assert_eq!(tell(&two, &mut one), [("n".into(), later)]);
    assert_eq!(one.value("n"), Some(1_105));
    // Another replica that withdraws it makes the same withdrawal.
    let own = two.clone();
    assert_eq!(tell(&one, &mut two), []);
    assert_eq!(two.value("n"), Some(1_105));
    let mut apart = own;
    let before = {
        let mut early = members()[0].clone();
        early.add("n", 100).unwrap();
        add(&mut early, "a", 5);
        early
    };
    assert_eq!(tell(&before, &mut apart), [("n".into(), later)]);
    assert_eq!(tell(&apart, &mut one), []);
    assert_eq!(tell(&one, &mut apart), []);
    assert_eq!([&one, &apart].map(|it| it.value("n")), [Some(1_105); 2]);
    assert_eq!(
        one.keyed().lookup(&once("a")),
        two.keyed().lookup(&once("a"))
    );
    assert!(one.keyed().makers(&once("a")).contains(&first));
}

#[test]
fn others_asked_under_one_key_count_both() {
    let [mut one, mut two] = members();
    add(&mut one, "a", 5);
    let other = add_else(&mut two, "a", 7);
    assert_eq!(tell(&two, &mut one), []);
    assert_eq!(one.value("n"), Some(12));
    assert!(matches!(
        one.keyed().lookup(&once("a")),
        KeyStatus::Before(Some(_))
    ));
    assert!(matches!(
        one.keyed().lookup(&other),
        KeyStatus::Before(Some(_))
    ));
}

#[test]
fn of_a_transaction_its_surviving_adds_are_withdrawn() {
    let [mut one, mut two] = members();
    for replica in [&mut one, &mut two] {
        replica.add("both", 7).unwrap();
        let ops = [
            ("both", Op::Add(1)),
            ("both", Op::Add(2)),
            ("set", Op::Add(50)),
            ("set", Op::Set(10)),
            ("set", Op::Add(3)),
            ("gone", Op::Add(9)),
            ("gone", Op::Delete),
            ("reset", Op::Reset),
        ];
        make(replica, "a", &ops);
    }
    let withdrawn = tell(&two, &mut one);
    let names: Vec<&str> = withdrawn.iter().map(|it| &it.0[..]).collect();
    assert_eq!(names, ["both", "set"]);
    let values = ["both", "set", "gone", "reset"].map(|key| one.value(key));
    assert_eq!(values, [Some(17), Some(13), None, Some(0)]);
}

#[test]
fn a_cancel_covers_what_is_withdrawn_and_what_was_not_seen_stays() {
    let [mut one, mut two] = members();
    add(&mut one, "a", 5);
    add(&mut two, "a", 5);
    two.apply("n", Op::Delete).unwrap();
    // The replica there has not received the one that counts.
    assert_eq!(tell(&two, &mut one), []);
    assert_eq!(one.value("n"), Some(5));
    let [mut one, mut two] = members();
    add(&mut one, "a", 5);
    add(&mut two, "a", 5);
    one.apply("n", Op::Delete).unwrap();
    assert_eq!(tell(&two, &mut one).len(), 1);
    assert_eq!(one.value("n"), None, "what is left was withdrawn");
    tell(&one, &mut two);
    assert_eq!(two.value("n"), None);
    two.add("n", 2).unwrap();
    tell(&two, &mut one);
    assert_eq!(one.value("n"), Some(2));
}

#[test]
fn a_key_counts_also_if_nothing_was_to_be_done() {
    let [mut one, _] = members();
    let clock = one.clock();
    make(&mut one, "a", &[("n", Op::Delete)]);
    assert_eq!(one.clock(), clock + 1);
    one.add("n", 1).unwrap();
    assert_eq!(
        one.keyed().lookup(&once("a")),
        KeyStatus::Before(Some((one.writer(), clock + 1)))
    );
}

#[test]
fn too_many_adds_under_one_key_are_refused_whole() {
    let [mut one, _] = members();
    let long = "n".repeat(500);
    let before = one.len();
    let mut transaction = one.begin().unwrap();
    for at in 0..300 {
        transaction
            .apply(&alloc::format!("{at}{long}"), Op::Add(1))
            .unwrap();
    }
    let done = transaction.commit_once(once("a"), &mut Vec::new());
    let what = Limited::Keyed;
    let max = KEYED_BYTES_MAX;
    assert!(
        matches!(done, Err(Error::Decode(DecodeError::TooLarge { what: is, max: most, .. })) if (is, most) == (what, max))
    );
    assert_eq!(
        (one.len(), one.keyed().lookup(&once("a"))),
        (before, KeyStatus::New)
    );
}

#[test]
fn adds_under_one_key_may_take_so_many_bytes_and_no_more() {
    let [one, _] = members();
    let bytes = |keys: &[String]| {
        let add = |key: &String| KeyedAdd {
            key: key.as_str().into(),
            amount: 1,
            before: 0,
        };
        encode_adds(&keys.iter().map(add).collect::<Vec<_>>()).len()
    };
    let keys: Vec<String> = (0..324).map(|at| alloc::format!("{at:0400}")).collect();
    let with = |length: usize| [&keys[..], &["z".repeat(length)]].concat();
    let length = (1..=512).find(|length| bytes(&with(*length)) >= KEYED_BYTES_MAX);
    let length = length.expect("one more key fills them");
    for (longer, fits) in [(0, true), (1, false)] {
        let keys = with(length + longer);
        assert_eq!(bytes(&keys), KEYED_BYTES_MAX + longer);
        let mut one = one.clone();
        let mut transaction = one.begin().unwrap();
        for key in &keys {
            transaction.apply(key, Op::Add(1)).unwrap();
        }
        let done = transaction.commit_once(once("a"), &mut Vec::new());
        assert_eq!(done.is_ok(), fits);
    }
}

#[test]
fn the_longest_known_are_dropped() {
    let [closed, _] = members();
    let mut one = Replica::new(closed.space().clone(), closed.writer());
    let keys: Vec<String> = (0..10).map(|at| alloc::format!("{at}")).collect();
    for key in &keys[..5] {
        add(&mut one, key, 1);
    }
    let place = one.keyed().end();
    for key in &keys[5..] {
        add(&mut one, key, 1);
    }
    assert!(one.keyed_mut().drop_before(place));
    assert_eq!((one.keyed().count(), one.keyed().end()), (5, 10));
    let known = |one: &Replica| {
        keys.iter()
            .filter(|key| one.keyed().lookup(&once(key)) != KeyStatus::New)
            .count()
    };
    assert_eq!(known(&one), 5);
    assert!(one.keyed_mut().drop_before(0));
    assert_eq!(known(&one), 5);
    assert!(one.keyed_mut().drop_before(u64::MAX));
    assert_eq!((known(&one), one.keyed().count()), (0, 0));
    add(&mut one, "0", 1);
    assert_eq!(known(&one), 1);
}

/// A key of which not all are known to have heard may have been taken elsewhere too.
#[test]
fn what_others_may_have_taken_too_is_not_dropped() {
    let [mut one, mut two, mut tab] = space();
    add(&mut one, "a", 5);
    add(&mut two, "a", 5);
    assert!(!one.keyed_mut().drop_before(u64::MAX));
    assert_eq!(one.keyed().count(), 1);
    tell(&one, &mut two);
    tell(&two, &mut one);
    assert_eq!((one.value("n"), two.value("n")), (Some(5), Some(5)));
    assert_eq!(
        one.idempotency.withdrawn_count() + two.idempotency.withdrawn_count(),
        1
    );
    assert!(
        !one.keyed_mut().drop_before(u64::MAX),
        "nobody has acknowledged it"
    );
    for _ in 0..3 {
        tell(&one, &mut tab);
        tell(&tab, &mut one);
        one.members_mut().request_acknowledgement();
        one.members_mut().acknowledge().unwrap();
        tell(&one, &mut two);
        two.members_mut().acknowledge().unwrap();
        tell(&two, &mut one);
    }
    // The last one need not be known to all yet.
    let known = one.keyed().end();
    add(&mut one, "b", 1);
    assert!(!one.keyed_mut().drop_before(u64::MAX));
    assert_eq!((one.keyed().count(), one.keyed().end()), (1, known + 1));
    assert!(one.keyed_mut().drop_before(known));
    assert_eq!(one.keyed().lookup(&once("a")), KeyStatus::New);
}

#[test]
fn what_came_without_keys_is_asked_for_again() {
    let [mut one, mut two] = members();
    tell(&one, &mut two);
    tell(&two, &mut one);
    add(&mut one, "a", 5);
    let by_page = one.delta(&two.vector()).without_keys();
    let by_page = Message::decode(&by_page.encode()).unwrap();
    two.merge(&by_page).unwrap();
    assert_eq!(
        (two.value("n"), two.keyed().lookup(&once("a"))),
        (Some(5), KeyStatus::New)
    );
    assert!(two.keyed().has_gaps() && two.vector() != two.keyed().vector());
    // It may be taken twice now.
    add(&mut two, "a", 5);
    let later = dot(&two);
    assert_eq!(tell(&one, &mut two), [("n".into(), later)]);
    assert!(!two.keyed().has_gaps());
    assert_eq!(two.value("n"), Some(5));
    assert_eq!(two.vector(), two.keyed().vector());
}

/// Keys that come after their counters raise no clock, and a record of few among many writers has them.
#[test]
fn keys_that_come_late_are_recorded_among_many_writers() {
    let [mut one, mut two] = members();
    tell(&one, &mut two);
    tell(&two, &mut one);
    for number in 1..=100 {
        two.members_mut()
            .admit(&WriterId::from_bytes([number; 16]))
            .unwrap();
    }
    add(&mut one, "a", 5);
    two.merge(&one.delta(&two.vector()).without_keys()).unwrap();
    let mut mark = two.mark();
    assert!(two.keyed().has_gaps());
    assert_eq!(tell(&one, &mut two), []);
    let record = two.since(&mut mark).unwrap();
    assert_eq!(record.keyed.len(), 1);
}

#[test]
fn who_lacks_keys_says_so_and_acknowledges_no_more_than_it_knows() {
    let [mut one, mut two] = members();
    tell(&one, &mut two);
    tell(&two, &mut one);
    let held = one.clock();
    add(&mut one, "a", 5);
    two.merge(&one.delta(&two.vector()).without_keys()).unwrap();
    let number = two.state.number_of(&one.writer()).unwrap();
    assert_eq!(two.membership.clock_with_keys(&two.state, number), held);
    assert_eq!(
        crate::message::records::of(&two.membership.seen(&two.state), number),
        held
    );
    let told = two.delta(&VersionVector::default());
    assert_eq!(told.key_gaps.len(), 1);
    assert_eq!(Message::decode(&told.encode()), Ok(told));
}

#[test]
fn a_store_keeps_keys_and_what_was_withdrawn() {
    let [mut one, mut two] = members();
    let mut mark = crate::Mark::default();
    let mut records = vec![two.since(&mut mark).unwrap().encode_stored()];
    add(&mut one, "a", 5);
    add(&mut two, "a", 5);
    records.push(two.since(&mut mark).unwrap().encode_stored());
    assert_eq!(tell(&one, &mut two).len(), 1);
    records.push(two.since(&mut mark).unwrap().encode_stored());
    assert_eq!(two.since(&mut mark), None);
    let whole = [two.snapshot().encode_stored()];
    for records in [&records[..], &whole] {
        let mut again = Replica::new(two.space().clone(), WriterId::from_bytes([77; 16]));
        for record in records {
            let message = Message::decode_stored(record).unwrap();
            again.restore(&message).unwrap();
        }
        assert_eq!(
            again
                .idempotency
                .withdraw(&mut again.state, &mut again.membership, &mut |_, _| ()),
            Ok(false)
        );
        assert_eq!(again.value("n"), Some(5));
        assert_eq!(
            again.keyed().lookup(&once("a")),
            two.keyed().lookup(&once("a"))
        );
        assert_eq!(again.keyed().makers(&once("a")).len(), 2);
    }
}

/// All are told everything, acknowledge it, and collect what is stable.
pub(super) fn settle(all: &mut [Replica; 3]) {
    for _ in 0..6 {
        for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0)] {
            let from = all[from].clone();
            tell(&from, &mut all[to]);
        }
        for member in &mut all[..2] {
            member.members_mut().acknowledge().unwrap();
            let kept = member.mark();
            member.members_mut().collect(&kept);
        }
    }
}

#[test]
fn what_a_store_or_a_whole_state_has_twice_is_not_withdrawn_again() {
    let mut all = space();
    let (one, two) = match all[0].writer() < all[1].writer() {
        true => (0, 1),
        false => (1, 0),
    };
    let mut mark = crate::Mark::default();
    let mut records = vec![all[one].since(&mut mark).unwrap()];
    add(&mut all[one], "a", 5);
    add(&mut all[two], "a", 5);
    let told = all[one].clone();
    assert_eq!(tell(&told, &mut all[two]).len(), 1);
    // Another lifetime of its slot, of which all forget when it began.
    all[two].add("n", 70).unwrap();
    settle(&mut all);
    records.push(all[one].since(&mut mark).unwrap());
    all[two].add("n", 700).unwrap();
    let key_id = all[two].key_id("n").unwrap();
    let slots = all[two].state.slots(key_id);
    assert!(slots.iter().all(|slot| slot.began() == 0), "{slots:?}");
    let told = all[two].clone();
    assert_eq!(tell(&told, &mut all[one]), []);
    records.push(all[one].since(&mut mark).unwrap());

    let start = |byte| Replica::new(told.space().clone(), WriterId::from_bytes([byte; 16]));
    let [mut again, mut fresh] = [start(77), start(78)];
    for record in &records {
        again.restore(record).unwrap();
    }
    // From one who has not concluded yet that all have seen it.
    let mut whole = all[one].delta(&VersionVector::default());
    let horizon = |statement: &Statement| matches!(statement, Statement::Horizon(_));
    whole
        .records
        .stored()
        .retain(|record| !horizon(&record.statement));
    fresh.merge(&whole).unwrap();
    for mut replica in [again, fresh] {
        assert_eq!(replica.keyed().makers(&once("a")).len(), 2);
        assert_eq!(
            replica.idempotency.withdraw(
                &mut replica.state,
                &mut replica.membership,
                &mut |_, _| ()
            ),
            Ok(false)
        );
        assert_eq!(replica.value("n"), Some(775));
    }
}

/// The next start of the first member, from its stored state, under a smaller writer id than the other's. It
/// receives the other's state by a page.
pub(super) fn start_again(member: &Replica, other: &Replica) -> Replica {
    let owner = [1; 32];
    let mint = |nonce| WriterId::mint(member.space(), &owner, &[nonce; 16]);
    let nonce = (8..).find(|nonce| mint(*nonce) < other.writer()).unwrap();
    let mut again = Replica::new(member.space().clone(), mint(nonce));
    again.restore(&member.snapshot()).unwrap();
    tell_by_page(other, &mut again);
    again
        .members_mut()
        .announce(&owner, &[nonce; 16], 2)
        .unwrap();
    again
}

/// Two members tell each other over a page, which knows no keys.
pub(super) fn tell_by_page(from: &Replica, to: &mut Replica) {
    let message = from.delta(&to.vector()).without_keys();
    to.merge_with(&message, Some(from.writer()), &mut |_| ())
        .unwrap();
}

/// Two members tend, as often as it may take.
pub(super) fn tend(one: &mut Replica, two: &mut Replica, tell: &dyn Fn(&Replica, &mut Replica)) {
    for _ in 0..8 {
        tell(one, two);
        tell(two, one);
        for member in [&mut *one, &mut *two] {
            member.members_mut().acknowledge().unwrap();
            member.members_mut().retire().unwrap();
            let kept = member.mark();
            member.members_mut().collect(&kept);
        }
    }
}

#[test]
fn a_start_that_is_over_is_not_taken_over_before_others_know_its_keys() {
    let [mut one, mut two, page] = space();
    add(&mut one, "a", 5);
    let before = one.writer();
    tell_by_page(&one, &mut two);
    let mut one = start_again(&one, &two);
    for gone in [before, page.writer()] {
        one.members_mut().fence(&gone).unwrap();
    }
    // A replica that does not ask for the missing keys still receives the start and the fence.
    let unasked = |from: &Replica, to: &mut Replica| {
        let message = from.delta(&to.vector());
        to.merge_with(&message, Some(from.writer()), &mut |_| ())
            .unwrap();
    };
    tend(&mut one, &mut two, &unasked);
    assert!(two.keyed().has_gaps());
    assert_eq!(one.members().retired().count(), 0);
    add(&mut two, "a", 5);
    let with_keys = |from: &Replica, to: &mut Replica| drop(tell(from, to));
    tend(&mut one, &mut two, &with_keys);
    for replica in [&one, &two] {
        assert_eq!(replica.value("n"), Some(5));
        assert!(!replica.keyed().has_gaps() && replica.state.held(&before) == 0);
    }
}

#[test]
fn keys_that_nobody_knows_any_more_are_given_up() {
    let [mut one, mut two, page] = space();
    let old = one.clone();
    add(&mut one, "a", 5);
    tell_by_page(&one, &mut two);
    assert!(two.keyed().has_gaps());
    // Its disk was put back to an older copy.
    let mut one = start_again(&old, &two);
    for gone in [old.writer(), page.writer()] {
        one.members_mut().fence(&gone).unwrap();
    }
    let with_keys = |from: &Replica, to: &mut Replica| drop(tell(from, to));
    tend(&mut one, &mut two, &with_keys);
    for replica in [&one, &two] {
        assert_eq!(replica.value("n"), Some(5));
        assert!(!replica.keyed().has_gaps());
        assert_eq!(replica.keyed().lookup(&once("a")), KeyStatus::New);
        assert!(replica.writers().count() <= 3);
    }
}

/// A member adds under a key, and does more. All have seen that, and then a start of the other one that
/// began from an older copy, and has heard of it over a page, is asked for the same. It may know that it lacks keys.
fn asked_late(doubts: bool, more: impl Fn(&mut Replica)) -> [Replica; 2] {
    let mut all = space();
    let old = all[0].clone();
    add(&mut all[1], "a", 5);
    let at = all[1].clock();
    more(&mut all[1]);
    for member in &mut all {
        member.membership.table_mut().stored().waiting = true;
    }
    settle(&mut all);
    let [_, two, _] = all;
    assert!(two.membership.collected_upto(OWN) >= at);
    let mut late = start_again(&old, &two);
    if !doubts {
        late.membership.drop_gaps();
    }
    add(&mut late, "a", 5);
    [late, two]
}

#[test]
fn what_all_have_seen_is_withdrawn_if_it_was_made_again_without_doubt() {
    for doubts in [false, true] {
        let [late, mut two] = asked_late(doubts, |_| ());
        let made = two.keyed().makers(&once("a"))[0];
        let later = if doubts { dot(&late) } else { made };
        assert_eq!(tell(&late, &mut two), [("n".into(), later)]);
        assert_eq!(two.value("n"), Some(5));
    }
}

#[test]
fn of_another_lifetime_nothing_is_withdrawn_if_its_begin_is_forgotten() {
    for doubts in [false, true] {
        let [late, two] = asked_late(doubts, |two| {
            two.apply("n", Op::Delete).unwrap();
            two.add("n", 70).unwrap();
        });
        let slots = two.state.slots(two.key_id("n").unwrap());
        assert!(slots.iter().all(|slot| slot.began() == 0), "{slots:?}");
        // Nor by who has it from a store.
        let mut stored = Replica::new(two.space().clone(), WriterId::from_bytes([77; 16]));
        stored.restore(&two.snapshot()).unwrap();
        for mut replica in [two, stored] {
            assert_eq!(tell(&late, &mut replica).len(), usize::from(doubts));
            let left = if doubts { 70 } else { 75 };
            assert_eq!(replica.value("n"), Some(left));
        }
    }
}

/// The text of a replica differs wherever its later behaviour differs.
#[cfg(feature = "explore")]
#[test]
fn replicas_that_remember_something_else_are_told_apart() {
    let [mut one, mut two] = members();
    add(&mut one, "a", 5);
    let changes: [fn(&mut IdempotencyLog); 6] = [
        |it| it.at_mut(0).unwrap().once.content ^= 1,
        |it| it.at_mut(0).unwrap().clock += 1,
        |it| it.at_mut(0).unwrap().watched = false,
        |it| it.at_mut(0).unwrap().withdrawn = true,
        |it| it.new_lifetimes().note(OWN, "n", 1),
        |it| *it.asked_mut() = Some((1, vec![(OWN, 1)])),
    ];
    let text = crate::explore::local_text(&one);
    for (number, change) in changes.into_iter().enumerate() {
        let mut other = one.clone();
        change(&mut other.idempotency);
        assert_ne!(crate::explore::local_text(&other), text, "{number}");
    }
    let mut other = one.clone();
    other.membership.table_mut().stored().hold_back(OWN, 1);
    assert_ne!(crate::explore::local_text(&other), text);
    // Wherever they stand.
    add(&mut two, "b", 5);
    tell(&two, &mut one);
    let mut other = one.clone();
    let instances = other.idempotency.instances();
    let swapped = [(0, instances[&1].clone()), (1, instances[&0].clone())];
    instances.extend(swapped);
    assert_eq!(
        crate::explore::local_text(&other),
        crate::explore::local_text(&one)
    );
}

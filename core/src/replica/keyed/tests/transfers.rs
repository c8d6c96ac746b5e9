//! How many keys are told at a time, to whom, and again to a store if they come later.

use super::*;
use crate::idempotency::KeyedMark;
use crate::idempotency::keyed::OP_BYTES;
use crate::replica::Scan;
use crate::wire::Encode;
use crate::{Mark, Message, WriterId};

#[test]
fn so_many_keys_are_told_as_fit() {
    let [mut one, _] = members();
    for key in ["a", "b", "c"] {
        add(&mut one, key, 5);
    }
    let each = OP_BYTES + one.idempotency.at(0).adds.len();
    let lows = vec![0; one.state.ids().len()];
    for (budget, told) in [
        (0, 1),
        (2 * each - 1, 1),
        (2 * each, 2),
        (3 * each - 1, 2),
        (3 * each, 3),
    ] {
        let (ops, all) =
            one.idempotency
                .keyed_since(&one.state, &KeyedMark::default(), &lows, budget);
        assert_eq!((ops.len(), all), (told, told == 3), "{budget}");
    }
}

/// A store that has been told of a transaction without its key is told the key when that comes.
#[test]
fn a_store_is_told_keys_that_came_later() {
    let [mut one, mut two, mut tab] = space();
    let mut mark = Mark::default();
    add(&mut one, "a", 5);
    tell_by_page(&one, &mut two);
    tab.add("k", 1).unwrap();
    tell_by_page(&tab, &mut two);
    let mut records = vec![two.since(&mut mark).unwrap()];
    assert!(two.keyed().has_gaps());
    assert_eq!(two.since(&mut mark), None, "none came");
    tell(&one, &mut two);
    records.push(two.since(&mut mark).unwrap());
    assert_eq!(two.since(&mut mark), None);
    let mut again = Replica::new(two.space().clone(), WriterId::from_bytes([77; 16]));
    for record in &records {
        let record = Message::decode_stored(&record.encode_stored()).unwrap();
        again.restore(&record).unwrap();
    }
    assert_eq!(
        again.keyed().lookup(&once("a")),
        KeyStatus::Before(Some(dot(&one)))
    );
}

/// The sender of a transfer receives a transaction without its key, and the key later. The requester has the
/// transaction, so without this rule the table at the end would not name its writer.
#[test]
fn a_key_that_comes_late_in_a_transfer_lies_within_its_part() {
    let [mut one, mut two] = members();
    for at in 0..80 {
        one.add(&alloc::format!("key:{at}"), 1).unwrap();
    }
    add(&mut two, "a", 5);
    let since = two.vector();
    let mut scan = Some(Scan::new(&one, &since, true));
    let (mut parts, mut late) = (0, false);
    while let Some(now) = scan {
        let number = now.number();
        let (message, next) = now.step(&one, &since, 0);
        late |= number == 2 && !message.keyed.is_empty();
        let bytes = message.encode();
        assert_eq!(Message::decode(&bytes), Ok(message));
        if parts == 0 {
            tell_by_page(&two, &mut one);
            assert!(one.keyed().has_gaps());
        }
        // Each scan has two parts, in the first and in the last page.
        if number < 2 {
            one.add("key:0", 1).unwrap();
            one.add("key:79", 1).unwrap();
        } else {
            tell(&two, &mut one);
        }
        parts += 1;
        scan = next;
        assert!(parts < 100);
    }
    assert!(late && !one.keyed().has_gaps());
}

#[test]
fn keys_travel_in_parts_of_any_size() {
    let [mut one, mut two] = members();
    for at in 0..50 {
        add(&mut one, &alloc::format!("{at}"), 1);
    }
    let since = two.vector();
    let mut scan = Some(Scan::new(&one, &since, true));
    let mut parts = Vec::new();
    while let Some(now) = scan {
        let (message, next) = now.step(&one, &since, 100);
        parts.push(message.encode());
        scan = next;
    }
    assert!(parts.len() > 5, "{}", parts.len());
    let last = Message::decode(&parts.pop().unwrap()).unwrap();
    two.merge_staged(&parts, &last, Some(one.writer()), &mut |_| ())
        .unwrap();
    assert_eq!((two.keyed().count(), two.value("n")), (50, Some(50)));
    assert!(!two.keyed().has_gaps());
}

#[test]
fn keys_of_a_writer_that_comes_during_a_transfer_are_told() {
    let [mut one, mut two] = members();
    for at in 0..3 {
        add(&mut two, &alloc::format!("{at}"), 1);
    }
    // The requester has records of the other member that are missing here.
    let since = two.vector();
    for at in 0..80 {
        one.add(&alloc::format!("key:{at}"), 1).unwrap();
    }
    let mut scan = Some(Scan::new(&one, &since, true));
    let mut parts = 0;
    while let Some(now) = scan {
        let (message, next) = now.step(&one, &since, 0);
        let bytes = message.encode();
        assert_eq!(Message::decode(&bytes), Ok(message));
        if parts == 0 {
            tell(&two, &mut one);
            one.add("more", 1).unwrap();
        }
        parts += 1;
        scan = next;
        assert!(parts < 1_000);
    }
    assert!(parts > 3, "{parts}");
}

#[test]
fn pages_are_told_no_keys() {
    let [mut one, _] = members();
    add(&mut one, "a", 5);
    let since = VersionVector::default();
    let (message, next) = Scan::new(&one, &since, false).step(&one, &since, 1 << 20);
    assert!(next.is_none() && message.keyed.is_empty() && message.without_keys);
}

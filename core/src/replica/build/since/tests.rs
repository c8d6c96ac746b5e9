//! A record made from few writers equals the one that a look at all of them makes.

use super::*;
use crate::hash::mix;
use crate::replica::Mark;
use crate::wire::Encode;
use crate::{Once, Op, Space, VersionVector, WriterId};
use alloc::format;

fn id(number: u64) -> WriterId {
    let mut bytes = [7; 16];
    bytes[..8].copy_from_slice(&mix(number).to_le_bytes());
    WriterId::from_bytes(bytes)
}

/// A message of one writer that is new to all.
fn brought(number: u64) -> Message {
    let mut one = Replica::new(Space::default(), id(number));
    one.add(&format!("k{}", number % 90), 1).unwrap();
    one.delta(&VersionVector::default())
}

/// The record that a look at all writers makes after a mark.
fn of_all(one: &Replica, mark: &Mark) -> Option<Message> {
    one.message_since(
        mark,
        one.state.clocks().to_vec(),
        0..one.state.clocks().len() as u32,
    )
}

fn check(one: &mut Replica, mark: &mut Mark, round: u64) -> bool {
    let few = one.few_since(mark).is_some();
    let all = of_all(one, mark).map(|it| it.encode_stored());
    let own = one.state.low(&mark.state, OWN as usize);
    let lows = alloc::vec![NOTHING; one.state.clocks().len()];
    let pushed = match one.clock() == own {
        true => None,
        false => Some(one.push_of(mark, lows, own)),
    };
    let bytes = |push: Push| match push {
        Push::Message(message) => Some(message.encode()),
        _ => None,
    };
    let pushed = pushed.and_then(bytes);
    assert_eq!(
        bytes(one.clone().push(&mut mark.clone())),
        pushed,
        "{round}"
    );
    let told = one.since(mark).map(|it| it.encode_stored());
    assert_eq!(told, all, "{round}");
    assert_eq!(mark.state.clocks, one.state.clocks(), "{round}");
    few
}

/// Plays writes and merges, and compares each record and each push with those of a look at all.
#[test]
fn a_record_of_few_writers_is_the_one_of_all() {
    for closed in [false, true] {
        let mut one = Replica::new(Space::default(), id(0));
        for number in 1..200 {
            one.merge(&brought(number)).unwrap();
        }
        if closed {
            one.members_mut().found(&[1; 32], &[2; 16], 1).unwrap();
        }
        // One that comes again and again, in an open space.
        let mut again = Replica::new(Space::default(), id(77_777));
        let (mut mark, mut few, mut other) = (one.mark(), 0, 1_000);
        for round in 0..600u64 {
            for step in 0..mix(round) % 4 {
                let key = format!("k{}", mix(round * 4 + step) % 90);
                match mix(round ^ step << 32) % 9 {
                    0 => drop(one.apply(&key, Op::Set(5)).unwrap()),
                    1 => drop(one.apply(&key, Op::Delete).unwrap()),
                    2 => drop(one.apply(&key, Op::Expire(1 << 40)).unwrap()),
                    3 if !closed => {
                        other += 1;
                        one.merge(&brought(other)).unwrap();
                    }
                    3 => {
                        other += 1;
                        one.members_mut().admit(&id(other)).unwrap();
                    }
                    4 if closed => {
                        let writer = id(1_000 + mix(round) % (other - 999));
                        let _ = one.members_mut().fence(&writer);
                        one.members_mut().retire().unwrap();
                        one.members_mut().acknowledge().unwrap();
                    }
                    5 => {
                        let mut transaction = one.begin().unwrap();
                        transaction.apply(&key, Op::Add(1)).unwrap();
                        let once =
                            Once::new(&[round.to_le_bytes(), step.to_le_bytes()].concat(), b"");
                        transaction.commit_once(once, &mut Vec::new()).unwrap();
                    }
                    6 if closed => drop(one.members_mut().collect(&mark)),
                    6 if round % 60 == 0 => drop(one.forks_mut().renew(id(5_000 + round))),
                    7 if !closed => {
                        again.add(&key, 1).unwrap();
                        one.merge(&again.delta(&one.vector())).unwrap();
                    }
                    _ => drop(one.add(&key, 1).unwrap()),
                }
            }
            few += usize::from(check(&mut one, &mut mark, round));
        }
        assert!(few > 300, "{few}: mostly few writers change");
    }
}

/// Among tens of thousands of writers, only those that moved are looked at.
#[test]
fn a_mark_of_many_writers_is_moved_by_those_that_changed() {
    let mut one = Replica::new(Space::default(), id(0));
    for number in 1..3_000 {
        one.merge(&brought(number)).unwrap();
    }
    let mut mark = one.mark();
    one.add("mine", 1).unwrap();
    one.merge(&brought(9_999)).unwrap();
    let theirs = one.state.number_of(&id(9_999)).unwrap();
    assert_eq!(one.few_since(&mark), Some(alloc::vec![OWN, theirs]));
    let key_id = one.state.keys().find("mine").unwrap();
    assert!(
        one.adds_since(&mut mark.clone(), &[key_id]).is_none(),
        "not all of it"
    );
    one.since(&mut mark).unwrap();
    one.add("mine", 1).unwrap();
    assert_eq!(one.few_since(&mark), Some(alloc::vec![OWN]));
    assert!(one.adds_since(&mut mark, &[key_id]).is_some());
    // More than is listed is looked for among all.
    for number in 10_000..11_100 {
        one.merge(&brought(number)).unwrap();
    }
    assert_eq!(one.few_since(&mark), None);
    assert!(check(&mut one, &mut mark, 0) || one.few_since(&mark).is_some());
}

#[test]
fn a_replica_is_at_a_mark_until_it_makes_or_merges_something() {
    let mut one = Replica::new(Space::default(), id(0));
    one.add("k", 1).unwrap();
    let mark = one.mark();
    assert!(one.is_at(&mark));
    one.add("k", 1).unwrap();
    assert!(!one.is_at(&mark));
    let mark = one.mark();
    one.merge(&brought(7)).unwrap();
    assert!(!one.is_at(&mark));
}

/// A writer of whom nothing is here would take room at each receiver.
#[test]
fn the_first_push_names_nobody_who_has_written_nothing() {
    let [mut one, mut start] = [1, 2].map(|byte| Replica::new(Space::default(), id(byte)));
    one.members_mut().found(&[1; 32], &[1; 16], 1).unwrap();
    one.members_mut().admit(&id(7)).unwrap();
    start.merge(&one.delta(&VersionVector::default())).unwrap();
    assert!(start.state.knows(&id(7)));
    let mut mark = start.mark();
    start.add("k", 1).unwrap();
    let Push::Message(message) = start.push(&mut mark) else {
        panic!("there is something to push");
    };
    assert!(message.delta.writers.iter().all(|it| it.writer != id(7)));
    assert!(message.hi(&id(1)).is_some());
}

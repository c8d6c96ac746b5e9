//! When changes are pushed: soon, less often if they are too many, and not at all where nobody is.

use super::super::pull::tests::{End, PUSH_DELAY_MS, full, id, replica};
use super::*;
use crate::sync::{Input, Link};
use alloc::format;

/// Adds to so many counters, and lets the time of the push come; how long that took, and whether
/// they were pushed.
fn push(end: &mut End, counters: usize) -> (Millis, bool) {
    for counter in 0..counters {
        end.replica
            .add(&format!("counter-{counter:06}"), 1)
            .unwrap();
    }
    end.input(Input::Changed);
    let due = end.sync.next_deadline().unwrap();
    let delay = due - end.now;
    end.wait(delay - 1);
    assert_eq!(end.sent(), [], "not before");
    end.wait(1);
    let mut sent = end.sent();
    assert_eq!(sent.len(), 1);
    match sent.remove(0).1 {
        Body::Push(_) => (delay, true),
        Body::Digest(_) => (delay, false),
        body => panic!("{body:?}"),
    }
}

fn linked() -> End {
    let mut end = End::new();
    end.link(1, 1, id(1));
    end.sent();
    end
}

#[test]
fn the_more_is_written_the_less_often_it_is_told() {
    let (few, most) = (TRANSACTIONS_MIN as usize, TRANSACTIONS_MAX as usize);
    let mut end = linked();
    let mut doublings = 0;
    // How many in each delay, whether that is pushed, and how often the next delay is doubled.
    for (counters, pushed, next) in [
        (1, true, 0),
        (few - 1, true, 0),
        (few, true, 3),
        (most / 8, true, 3),
        (most / 8 + 1, true, 2),
        (most / 4, true, 2),
        (most / 2, true, 1),
        (most / 2 + 1, true, 0),
        (most, true, 0),
        (most + 1, true, 7),
        (most, false, 0),
        (most * 6, false, 7),
        (1, true, 0),
    ] {
        let told = push(&mut end, counters << doublings);
        assert_eq!(told, (PUSH_DELAY_MS << doublings, pushed), "{counters}");
        doublings = next;
    }
}

#[test]
fn what_was_written_alone_is_pulled_and_not_pushed() {
    let mut end = End::new();
    end.replica.add("a", 1).unwrap();
    end.input(Input::Changed);
    end.wait(PUSH_DELAY_MS);
    // It was as if it had been pushed: the next push builds on it.
    end.link(1, 1, id(1));
    end.sent();
    end.replica.add("b", 1).unwrap();
    end.input(Input::Changed);
    end.wait(PUSH_DELAY_MS);
    let sent = end.sent();
    let [(Link(1), Body::Push(message))] = sent.as_slice() else {
        panic!("{sent:?}");
    };
    assert_eq!(message.shard_count(), 1);
    let refused = replica(2).merge(message).unwrap_err();
    assert!(matches!(refused, Error::NotCovered(_)), "{refused}");
    let mut other = replica(2);
    other.merge(&full(&end.replica)).unwrap();
    assert_eq!(other.value("b"), Some(1));
}

//! When changes are pushed: soon, less often if they are too many, and not at all where nobody is.
//! To whom pushes are passed on, and how those wait that come before what they build on.

use super::super::pull::tests::{End, PUSH_DELAY_MS, full, id, replica};
use super::*;
use crate::Op;
use crate::error::MergeError;
use crate::once::Once;
use crate::sync::{Frame, Input, Link};
use crate::writer_id::Space;
use alloc::{format, vec};

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
fn the_more_links_there_are_the_less_often_they_are_told_while_it_fits() {
    const LINKS: u32 = 400;
    const DELAY_MS: Millis = LINKS as Millis / LINKS_FOR_EACH_MS;
    let mut end = End::new();
    for number in 0..LINKS {
        end.link(number, 1, id(1));
    }
    end.sent();
    let mut push = |counters: usize| {
        for counter in 0..counters {
            let key = format!("{counter:03}{}", "k".repeat(200));
            end.replica.add(&key, 1).unwrap();
        }
        end.input(Input::Changed);
        let begun = end.now;
        while end.sent().is_empty() {
            end.wait(1);
        }
        end.now - begun
    };
    for _ in 0..3 {
        assert_eq!(push(10), DELAY_MS);
    }
    assert_eq!(push(400), DELAY_MS);
    let told = push(400);
    assert!((PUSH_DELAY_MS..DELAY_MS).contains(&told), "{told}");
    // A change that was too much for a push is announced soon.
    push(700);
    assert!(push(1) < DELAY_MS);
    assert_eq!(push(1), DELAY_MS);
}

/// A large push is copied for few links, and announced to many.
#[test]
fn the_copies_of_a_push_have_room_on_all_links_together() {
    let mut end = End::new();
    let rooms = |end: &End| {
        let sizes = [PUSH_BYTES_MAX, FRAME_BYTES_MAX, FRAME_BYTES_MAX + 1];
        sizes.map(|bytes| end.sync.has_room_for(bytes))
    };
    assert_eq!(rooms(&end), [true, true, false]);
    let most = (COPIES_BYTES_MAX / FRAME_BYTES_MAX) as u32;
    for number in 0..most {
        end.link(number, 1, id(1));
    }
    assert_eq!(rooms(&end), [true, true, false]);
    for number in most..600 {
        end.link(number, 1, id(1));
    }
    assert_eq!(rooms(&end), [true, false, false]);
}

/// A large push of another writer is passed on to few links, and announced to many.
#[test]
fn a_push_is_passed_on_if_its_copies_have_room() {
    let mut other = replica(7);
    for counter in 0..1_000 {
        let key = format!("{counter:03}{}", "k".repeat(200));
        other.add(&key, 1).unwrap();
    }
    let push = full(&other);
    assert!((PUSH_BYTES_MAX..FRAME_BYTES_MAX).contains(&encoded(&push).len()));
    for (links, passed_on) in [(2, 1), (600, 0)] {
        let mut end = End::new();
        for number in 0..links {
            end.link(number, 1, id(1));
        }
        end.sent();
        comes(&mut end, Link(0), &push);
        assert_eq!(end.replica.len(), 1_000);
        let copies = end.sent();
        assert!(copies.iter().all(|it| it.1 == Body::Push(push.clone())));
        assert_eq!(copies.len(), passed_on);
        end.wait(PUSH_DELAY_MS);
        let announced = end.sent();
        let is_digest = |it: &(Link, Body)| matches!(it.1, Body::Digest(_));
        assert!(announced.iter().all(is_digest));
        assert_eq!(
            announced.len(),
            if passed_on > 0 { 0 } else { links as usize - 1 }
        );
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
    assert!(
        matches!(refused, Error::Merge(MergeError::NotCovered(_))),
        "{refused}"
    );
    let mut other = replica(2);
    other.merge(&full(&end.replica)).unwrap();
    assert_eq!(other.value("b"), Some(1));
}

/// How long a push waits before somebody is asked for what it builds on.
const PATIENCE_MS: Millis = PUSH_DELAY_MS << PATIENCE_DOUBLINGS;

/// So many pushes of another writer, each of which adds 1 and builds on the one before.
fn pushes(count: usize) -> Vec<Message> {
    let mut other = replica(7);
    let mut mark = other.mark();
    let push = |_| {
        other.add("key", 1).unwrap();
        match other.push(&mut mark) {
            Push::Message(message) => message,
            _ => panic!("there is something to push, and little"),
        }
    };
    (0..count).map(push).collect()
}

/// With links to two peers.
fn two_links() -> (End, [Link; 2]) {
    let mut end = End::new();
    let links = [1, 2].map(|number| end.link(number, u64::from(number), id(number as u8)));
    end.sent();
    (end, links)
}

/// A push comes on a link.
fn comes(end: &mut End, link: Link, push: &Message) {
    end.frame(link, Body::Push(push.clone()));
}

/// The frame of a push.
fn encoded(push: &Message) -> Vec<u8> {
    encode(&Space::default(), &Body::Push(push.clone()))
}

/// The bytes of each push that waits, the oldest first.
fn waiting(sync: &SyncMachine) -> Vec<usize> {
    let pushes = &sync.pushes;
    let bytes: Vec<usize> = pushes.waiting.iter().map(|it| it.bytes.len()).collect();
    assert_eq!(pushes.waiting_bytes, bytes.iter().sum::<usize>());
    bytes
}

/// The sum of all adds, and how many pushes wait.
fn state(end: &End) -> (Option<i128>, usize) {
    (end.replica.value("key"), waiting(&end.sync).len())
}

#[test]
fn a_push_follows_what_it_builds_on_as_soon_as_that_comes() {
    let (mut end, [one, two]) = two_links();
    let it = pushes(5);
    for early in [4, 2, 1] {
        comes(&mut end, one, &it[early]);
    }
    assert_eq!(state(&end), (None, 3));
    assert_eq!(end.sent(), []);
    let passed = |link, at: usize| (link, Body::Push(it[at].clone()));
    comes(&mut end, two, &it[0]);
    assert_eq!(state(&end), (Some(3), 1));
    assert_eq!(end.sent(), [passed(one, 0), passed(two, 1), passed(two, 2)]);
    comes(&mut end, two, &it[3]);
    assert_eq!(state(&end), (Some(5), 0));
    assert_eq!(end.sent(), [passed(one, 3), passed(two, 4)]);
    end.wait(PATIENCE_MS);
    assert_eq!(end.sent(), [], "nothing is lacking");
}

#[test]
fn what_a_push_builds_on_is_asked_for_after_a_while() {
    let (mut end, [one, two]) = two_links();
    let it = pushes(4);
    comes(&mut end, one, &it[2]);
    assert_eq!(end.sync.next_deadline(), Some(end.now + PATIENCE_MS));
    end.wait(PATIENCE_MS - 1);
    // Another one that waits changes nothing; but where one follows, the rest may be under way.
    comes(&mut end, two, &it[3]);
    assert_eq!(end.sync.next_deadline(), Some(end.now + 1));
    comes(&mut end, two, &it[0]);
    assert_eq!(state(&end), (Some(1), 2));
    end.sent();
    end.wait(PATIENCE_MS - 1);
    assert_eq!(end.sent(), []);
    end.wait(1);
    assert_eq!(end.asked(), [(one, 1, 0)]);
    end.last(one, 1, 0, &it[1]);
    assert_eq!(state(&end), (Some(4), 0));
}

#[test]
fn nobody_is_asked_for_what_came_from_nobody_that_is_known() {
    for (known, asked) in [(true, vec![1]), (false, vec![])] {
        let (mut end, [one, _]) = two_links();
        let bytes = &encoded(&pushes(2)[1]);
        let from = known.then_some(one);
        end.input(Input::Broadcast { from, bytes });
        end.wait(PATIENCE_MS);
        let links = end.asked().into_iter().map(|(Link(link), ..)| link);
        assert_eq!(
            (waiting(&end.sync).len(), links.collect::<Vec<_>>()),
            (1, asked)
        );
    }
}

#[test]
fn so_many_pushes_wait_and_the_oldest_is_dropped() {
    let most = WAITING_PUSHES_MAX;
    for (more, then) in [(0, (Some(most as i128 + 1), 0)), (1, (Some(1), most))] {
        let (mut end, [one, _]) = two_links();
        let it = pushes(1 + most + more);
        for push in &it[1..] {
            comes(&mut end, one, push);
        }
        assert_eq!(state(&end), (None, most));
        comes(&mut end, one, &it[0]);
        assert_eq!(state(&end), then);
        comes(&mut end, one, &it[1]);
        assert_eq!(state(&end), (Some(it.len() as i128), 0));
    }
}

#[test]
fn pushes_of_so_many_bytes_wait_and_the_oldest_are_dropped() {
    let (most, half) = (WAITING_BYTES_MAX, WAITING_BYTES_MAX / 2);
    for (sizes, dropped) in [
        (&[half, half][..], 0),
        (&[half, half + 1], 1),
        (&[1, half, half], 1),
        (&[1, 2, 3, most - 2], 3),
        (&[1, most + 1], 2),
    ] {
        let (End { replica, sync, now }, [one, _]) = &mut two_links();
        for (push, size) in pushes(1 + sizes.len()).into_iter().skip(1).zip(sizes) {
            let bytes = &vec![0; *size];
            sync.pushed(*now, replica, Some(*one), false, push, bytes)
                .unwrap();
        }
        assert_eq!(waiting(sync), sizes[dropped..]);
    }
}

/// The pushes passed on since the last look: the link, `None` for the broadcast, and the clock of each push.
fn passed(end: &mut End) -> Vec<(Option<u32>, u64)> {
    let pushes = end.outputs().into_iter().filter_map(|output| {
        let (link, bytes) = match output {
            Output::Send { link, bytes } => (Some(link.0), bytes.to_vec()),
            Output::Broadcast { bytes } => (None, bytes),
            _ => return None,
        };
        let Body::Push(push) = Frame::decode(&bytes).unwrap().body else {
            panic!("only pushes are passed on");
        };
        Some((link, push.hi(&origin(&push)?)?))
    });
    pushes.collect()
}

#[test]
fn a_push_is_passed_on_once_to_all_who_may_lack_it() {
    let mut end = End::new();
    for number in 1..=6 {
        let (link, broadcast) = (Link(number), [3, 4, 6].contains(&number));
        end.input(Input::Connected { link, broadcast });
        // Two of them never say who they are.
        if number <= 4 {
            end.hello(link, u64::from(number), id(number as u8));
        }
    }
    end.outputs();
    end.replica.add("own", 1).unwrap();
    end.input(Input::Changed);
    end.wait(PUSH_DELAY_MS);
    let [one, two, broadcast] = [Some(1), Some(2), None];
    assert_eq!(passed(&mut end), [(one, 1), (two, 1), (broadcast, 1)]);
    let it = pushes(5);
    comes(&mut end, Link(1), &it[0]);
    assert_eq!(passed(&mut end), [(two, 1), (broadcast, 1)]);
    comes(&mut end, Link(3), &it[1]);
    assert_eq!(passed(&mut end), [(one, 2), (two, 2), (broadcast, 2)]);
    comes(&mut end, Link(2), &it[1]);
    assert_eq!(passed(&mut end), [], "it is known");
    // A push that arrived by broadcast is not broadcast again, even if it had to wait.
    for (at, from) in [(3, None), (2, Some(Link(3)))] {
        let bytes = &encoded(&it[at]);
        end.input(Input::Broadcast { from, bytes });
    }
    assert_eq!(passed(&mut end), [(one, 3), (two, 3), (one, 4), (two, 4)]);
    // All other peers that the broadcast reaches are gone.
    end.cut(Link(4));
    comes(&mut end, Link(3), &it[4]);
    assert_eq!(passed(&mut end), [(one, 5), (two, 5)]);
}

/// Pages keep no keys, and say so of what they pass on.
#[test]
fn keys_are_pushed_to_nodes_alone() {
    let mut end = End::new();
    end.replica
        .members_mut()
        .found(&[1; 32], &[1; 16], 1)
        .unwrap();
    let [node, page] = [(1, true), (2, false)].map(|it| end.link_to(it.0, it.1));
    end.sent();
    let pushed = |end: &mut End| {
        end.input(Input::Changed);
        end.wait(PUSH_DELAY_MS);
        let sent = end.sent().into_iter().map(|(link, body)| match body {
            Body::Push(push) => (link, push.keyed.len(), push.without_keys),
            body => panic!("{body:?}"),
        });
        sent.collect::<Vec<_>>()
    };
    end.replica.add("key", 1).unwrap();
    assert_eq!(pushed(&mut end), [(node, 0, false), (page, 0, false)]);
    let mut transaction = end.replica.begin().unwrap();
    transaction.apply("key", Op::Add(1)).unwrap();
    let once = Once::new(b"a", b"");
    transaction.commit_once(once, &mut Vec::new()).unwrap();
    assert_eq!(pushed(&mut end), [(node, 1, false), (page, 0, true)]);
}

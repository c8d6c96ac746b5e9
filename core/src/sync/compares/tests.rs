//! However often peers say what they hold, many writers are not looked at for each word.

use super::*;
use crate::sync::Input;
use crate::sync::pull::tests::{End, full, id};
use crate::writer_id::WriterId;
use crate::{Replica, Space};
use alloc::vec::Vec;

/// A replica of more writers than a digest is worked out of for each word.
fn many(writers: usize) -> End {
    let mut end = End::new();
    for number in 0..writers as u32 {
        let mut bytes = [9; 16];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        let mut one = Replica::new(Space::default(), WriterId::from_bytes(bytes));
        one.add("n", 1).unwrap();
        end.replica.merge(&full(&one)).unwrap();
    }
    end
}

#[test]
fn what_many_links_tell_is_compared_at_once() {
    const LINKS: u32 = 50;
    let mut end = many(AT_ONCE_WRITERS_MAX + 10);
    let links: Vec<Link> = (0..LINKS)
        .map(|number| end.link(number, number.into(), id(number as u8)))
        .collect();
    end.wait(GATHER_MS);
    assert_eq!(end.sync.compares.due(), None);
    end.sent();
    let before = end.replica.state.digests_worked_out();
    for link in &links {
        // Each write changes the digest.
        end.replica.add("n", 1).unwrap();
        end.differs(*link);
    }
    assert_eq!(end.replica.state.digests_worked_out(), before);
    assert_eq!(end.asked(), []);
    assert_eq!(end.sync.next_deadline(), Some(end.now + GATHER_MS));
    end.wait(GATHER_MS - 1);
    assert_eq!(end.asked(), [], "not yet");
    end.wait(1);
    assert_eq!(end.replica.state.digests_worked_out(), before + 1);
    // One is asked at a time, and each comes next.
    assert_eq!(end.asked().len(), 1);
    let asks = |link: &&Link| end.sync.pulls.is_from(**link) || end.sync.pulls.is_wanted(**link);
    assert_eq!(links.iter().filter(asks).count(), links.len());
}

#[test]
fn what_is_told_is_compared_at_once_where_that_takes_no_time() {
    let mut end = many(AT_ONCE_WRITERS_MAX - 10);
    let link = end.link(1, 1, id(1));
    end.sent();
    end.replica.add("n", 1).unwrap();
    end.differs(link);
    assert_eq!(end.asked().len(), 1);
    // Nor is it put off where the digest is known.
    let mut end = many(AT_ONCE_WRITERS_MAX + 10);
    let link = end.link(1, 1, id(1));
    end.wait(GATHER_MS);
    end.sent();
    end.differs(link);
    assert_eq!(end.asked().len(), 1);
}

#[test]
fn what_a_peer_said_before_it_went_by_another_state_is_not_compared() {
    let mut end = many(AT_ONCE_WRITERS_MAX + 10);
    let [one, other] = [1, 2].map(|number| end.link(number, number.into(), id(number as u8)));
    end.wait(GATHER_MS);
    end.sent();
    end.replica.add("n", 1).unwrap();
    end.differs(one);
    end.differs(other);
    end.frame(one, Body::Writer(id(7)));
    end.cut(other);
    end.wait(GATHER_MS);
    assert_eq!(end.asked(), []);
    // The next word counts.
    end.differs(one);
    end.wait(GATHER_MS);
    assert_eq!(end.asked().len(), 1);
}

#[test]
fn digests_are_told_together_on_many_links() {
    const LINKS: u32 = 400;
    const SECOND: Millis = 1_000;
    let mut end = many(10);
    end.sync.config.interval_ms = SECOND as u32;
    for number in 0..LINKS {
        end.link(number, number.into(), id(1));
    }
    end.sent();
    let (mut told, mut ticks) = (0, 0);
    let begun = end.now;
    while let Some(due) = end.sync.next_deadline()
        && due < begun + 4 * SECOND
    {
        end.now = due;
        end.replica.add("n", 1).unwrap();
        end.input(Input::Tick);
        told += end.sent().len();
        ticks += 1;
    }
    // Each is told about once a second, and all of them at no more than ten moments of it or so.
    assert!((4 * 400 - 400..4 * 400 + 400).contains(&told), "{told}");
    assert!(ticks <= 60, "{ticks}");
}

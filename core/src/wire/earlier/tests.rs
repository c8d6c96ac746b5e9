//! The records of own writers in a store, to bytes and back.

use super::super::bytes::read_all;
use super::*;
use crate::error::{DecodeError, Error};
use crate::layers::Empty;
use crate::message::records::Intro;
use crate::once::Once;
use alloc::vec;

fn did(key: &str, op: Op, saw: &[(u8, u64, i128)]) -> Did {
    let saw = saw.iter().map(|&(writer, clock, total)| Saw {
        writer: WriterId::from_bytes([writer; 16]),
        clock,
        total,
    });
    Did {
        key: key.into(),
        op,
        saw: saw.collect(),
    }
}

fn earlier(writer: u8, intro: Option<Intro>, journal: Journal) -> EarlierWriter {
    let writer = WriterId::from_bytes([writer; 16]);
    let journal = Journal {
        writer: Some(writer),
        ..journal
    };
    EarlierWriter {
        intro,
        ..EarlierWriter::new(writer, journal)
    }
}

fn bytes(earlier: &[EarlierWriter]) -> Vec<u8> {
    let mut out = Vec::new();
    put_earlier(&mut out, earlier);
    out
}

/// A writer that made one transaction, at 300.
fn made(did: Vec<Did>) -> EarlierWriter {
    let made = vec![(300, did)];
    let journal = Journal {
        made,
        ..Journal::EMPTY
    };
    earlier(1, None, journal)
}

#[test]
fn what_is_kept_comes_back() {
    let intro = Intro {
        by: WriterId::from_bytes([9; 16]),
        clock: 4,
        owner: [3; 32],
        generation: 5,
    };
    let some = vec![
        did("one", Op::Add(-7), &[]),
        did("", Op::Reset, &[(2, 3, -1 << 90), (4, u64::MAX, 5)]),
        did("two", Op::Delete, &[(2, 1, 0)]),
    ];
    let more = vec![
        did("one", Op::Set(i64::MIN), &[]),
        did("one", Op::Expire(1 << 50), &[]),
        did("one", Op::Persist, &[]),
    ];
    let journal = Journal {
        writer: None,
        made: vec![(7, some), (8, more), (300, Vec::new())],
        keyed: Vec::new(),
        dropped: 6,
        open: 5,
        told: 4,
        as_guest: 3,
        survivors: vec![did("left", Op::Add(i64::MAX), &[])],
    };
    let doubtful = EarlierWriter {
        doubtful: true,
        ..earlier(1, Some(intro), journal)
    };
    let unsure = EarlierWriter {
        unsure: true,
        ..earlier(2, None, Journal::EMPTY)
    };
    let all = [doubtful, unsure, made(Vec::new())];
    for kept in [&all[..], &all[1..], &[]] {
        assert_eq!(read_all(&bytes(kept), read_earlier), Ok(kept.to_vec()));
    }
    let whole = bytes(&all);
    for size in 0..whole.len() {
        let read = read_all(&whole[..size], read_earlier);
        assert_eq!(read, Err(DecodeError::Truncated.into()), "{size}");
    }
    // Keys of transactions follow all that was there before there were any.
    let mut keyed = all.clone();
    let once = |byte| Once::new(&[byte], b"");
    keyed[2].journal.keyed = vec![(299, once(1)), (300, once(2))];
    let more = bytes(&keyed);
    assert_eq!(more[..whole.len()], whole);
    assert_eq!(read_all(&more, read_earlier), Ok(keyed.to_vec()));
    keyed[2].journal.keyed.reverse();
    let read = read_all(&bytes(&keyed), read_earlier);
    let rule = Rule::Stored;
    assert_eq!(read, Err(DecodeError::Malformed { rule }.into()));
    let none = [whole, vec![0; 3]].concat();
    assert_eq!(
        read_all(&none, read_earlier),
        Err(DecodeError::Malformed { rule }.into())
    );
}

#[test]
fn what_is_known_of_an_earlier_writers_place_comes_back() {
    for (doubtful, unsure) in [(false, false), (false, true), (true, false), (true, true)] {
        let kept = [EarlierWriter {
            doubtful,
            unsure,
            ..made(Vec::new())
        }];
        let read = read_all(&bytes(&kept), read_earlier);
        assert_eq!(read, Ok(kept.to_vec()));
    }
}

#[test]
fn what_nothing_was_kept_as_is_refused() {
    let broken = |rule| Err(Error::Decode(DecodeError::Malformed { rule }));
    let malformed = broken(Rule::Stored);
    for (first, second, good) in [(3, 4, true), (4, 4, false), (5, 4, false)] {
        let made = vec![(first, Vec::new()), (second, Vec::new())];
        let journal = Journal {
            made,
            ..Journal::EMPTY
        };
        let kept = [earlier(1, None, journal)];
        let expected = match good {
            true => Ok(kept.to_vec()),
            false => malformed.clone(),
        };
        assert_eq!(read_all(&bytes(&kept), read_earlier), expected);
    }
    // Before the last operation's value, what it saw, and the survivors.
    let mut unknown = bytes(&[made(vec![did("key", Op::Persist, &[])])]);
    let kind = unknown.len() - 4;
    assert_eq!(unknown[kind], PERSIST);
    unknown[kind] = PERSIST + 1;
    assert_eq!(read_all(&unknown, read_earlier), malformed);
    // After the count, the writer, and that nobody is known to have taken it in.
    let mut doubt = bytes(&[made(Vec::new())]);
    assert_eq!(doubt[18], 0);
    doubt[18] = 4;
    assert_eq!(read_all(&doubt, read_earlier), broken(Rule::Flag));
}

//! The records of own writers in a store, to bytes and back.

use super::super::bytes::read_all;
use super::*;
use crate::error::{DecodeError, Error};
use crate::message::records::Intro;
use crate::once::Once;
use crate::optional::Empty;
use alloc::vec;

fn did(key: &str, op: Op, saw: &[(u8, u64, i128)]) -> Did {
    let saw = saw.iter().map(|&(writer, clock, total)| Saw {
        writer: WriterId::from_bytes([writer; 16]),
        clock,
        total,
    });
    Did {
        saw: saw.collect(),
        ..Did::new(key, op)
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
    let made = vec![Made::one(300, did)];
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
        made: vec![
            Made::one(7, some),
            Made::one(8, more),
            Made::one(300, Vec::new()),
        ],
        dropped: 6,
        open: 5,
        told: 4,
        as_guest: 3,
        survivors: vec![did("left", Op::Add(i64::MAX), &[])],
        ..Journal::EMPTY
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
        let made = vec![Made::one(first, Vec::new()), Made::one(second, Vec::new())];
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

#[test]
fn a_bundle_comes_back() {
    let made = |clock, last, count| Made {
        last,
        count,
        ..Made::one(clock, vec![did("k", Op::Add(2), &[])])
    };
    let kept = |all: Vec<Made>| {
        let mut journal = Journal::EMPTY;
        journal.set_made(all);
        [earlier(1, None, Journal::EMPTY), earlier(2, None, journal)]
    };
    let mut good = kept(vec![made(3, 9, 4), made(4, 4, 1), made(5, 6, 2)]);
    assert_eq!(read_all(&bytes(&good), read_earlier), Ok(good.to_vec()));
    good[0].journal.keyed = vec![(2, Once::new(&[1], b""))];
    let whole = bytes(&good);
    assert_eq!(read_all(&whole, read_earlier), Ok(good.to_vec()));
    let rule = Rule::Stored;
    let malformed = Err(DecodeError::Malformed { rule }.into());
    let bundled = [0, 2, 0, 6, 4, 2, 1, 2];
    assert_eq!(whole[whole.len() - 8..], bundled);
    for size in whole.len() - 7..whole.len() {
        assert!(read_all(&whole[..size], read_earlier).is_err(), "{size}");
    }
    for bad in [
        made(3, 9, 1),
        made(3, 9, 0),
        made(3, 4, 3),
        made(3, 9, u64::MAX),
    ] {
        assert_eq!(read_all(&bytes(&kept(vec![bad])), read_earlier), malformed);
    }
    // The place of the bundle, at the end: none, one that is not there, and the same twice.
    let one = bytes(&kept(vec![made(3, 9, 4)]));
    let (head, tail) = one.split_at(one.len() - 4);
    assert_eq!(tail, [1, 0, 6, 4]);
    for tail in [&[0][..], &[1, 1, 6, 4], &[2, 0, 6, 4, 0, 6, 4]] {
        let read = read_all(&[head, tail].concat(), read_earlier);
        assert_eq!(read, malformed, "{tail:?}");
    }
}

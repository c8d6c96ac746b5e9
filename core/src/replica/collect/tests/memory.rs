//! The record of forgotten writers, sent to others and stored.

use super::*;
use crate::Owner;
use crate::bounds::{RETURNS_MAX, RETURNS_SENT_MAX};
use crate::error::DecodeError;
use crate::wire::{Body, Delta, Encode, Frame};

#[test]
fn so_many_that_were_forgotten_are_remembered() {
    let [mut one, ..] = space();
    let id = |at: usize| {
        let mut bytes = [0; 16];
        bytes[8..].copy_from_slice(&(at as u64).to_be_bytes());
        WriterId::from_bytes(bytes)
    };
    for at in 0..RETURNS_MAX {
        one.membership.remember(id(at), 7);
    }
    one.membership.remember(id(3), 9);
    assert_eq!(one.membership.table().remembered, RETURNS_MAX as u64);
    assert_eq!(one.members().retired_clock(&id(0)), Some(7));
    for at in RETURNS_MAX..RETURNS_MAX + 2 {
        one.membership.remember(id(at), 8);
    }
    let known = [0, 1, 2, RETURNS_MAX + 1].map(|at| one.members().retired_clock(&id(at)));
    assert_eq!(known, [None, None, Some(7), Some(8)]);
    assert_eq!(one.membership.table().returns.len(), RETURNS_MAX);
    assert_eq!(one.membership.remembered(1), [(id(RETURNS_MAX + 1), 8)]);
    assert!(!one.membership.remembers_all());
}

impl Replica {
    /// Makes it one that may not remember all who were forgotten.
    pub(crate) fn lose_memory(&mut self) {
        self.membership.table_mut().stored().gaps = true;
    }
}

#[test]
fn a_whole_state_tells_who_was_forgotten() {
    let [mut one, ..] = space();
    let id = |byte| WriterId::from_bytes([byte; 16]);
    for at in 0..=RETURNS_SENT_MAX as u64 {
        one.membership
            .remember(WriterId::from_bytes(u128::from(at).to_be_bytes()), at);
    }
    let since = |since: &VersionVector| {
        let mut message = one.delta(since);
        one.membership.add_memory(&mut message, RETURNS_SENT_MAX);
        message
    };
    let message = since(&VersionVector::default());
    assert_eq!(since(&one.vector()).returns, message.returns);
    // A message that is not complete has nothing of it.
    let mut part = Message {
        complete: false,
        ..one.delta(&VersionVector::default())
    };
    one.membership.add_memory(&mut part, RETURNS_SENT_MAX);
    assert!(part.returns.is_empty() && part.gaps.is_none());
    assert_eq!(message.gaps, Some(true));
    assert_eq!(message.returns.len(), RETURNS_SENT_MAX);
    assert_eq!(
        message.returns[0].1, 1,
        "the longest forgotten are left out"
    );

    let mut fresh = Replica::new(one.space().clone(), id(77));
    fresh.merge(&message).unwrap();
    assert_eq!(fresh.membership.remembered(u64::MAX), *message.returns);
    assert!(one.membership.remembers_all() && !fresh.membership.remembers_all());
    // A writer that is known is not forgotten.
    let mut message = fresh.delta(&VersionVector::default());
    message.returns.set(vec![(id(77), 1), (id(78), 2)]);
    fresh.merge(&message).unwrap();
    let known = [77, 78].map(|byte| fresh.members().retired_clock(&id(byte)));
    assert_eq!(known, [None, Some(2)]);

    let frame = Frame {
        space: one.space().clone(),
        body: Body::Delta(Delta {
            id: 1,
            chunk: 0,
            last: true,
            message,
        }),
    };
    let mut bytes = frame.encode();
    assert_eq!(Frame::decode(&bytes).as_ref(), Ok(&frame));
    // There is one way to say that nobody is remembered: not at all.
    bytes.truncate(bytes.len() - 2 * 17 - 2);
    assert!(Frame::decode(&bytes).is_ok());
    let with = |flag| Frame::decode(&[&bytes[..], &[flag, 0]].concat());
    assert_eq!(with(0), Err(DecodeError::TrailingBytes { bytes: 2 }.into()));
    let gaps = |frame: Frame| match frame.body {
        Body::Delta(delta) => delta.message.gaps,
        _ => None,
    };
    assert_eq!(
        [1, 2].map(|flag| with(flag).map(gaps)),
        [Ok(Some(true)), Ok(Some(false))]
    );
    assert!(with(3).is_err());
}

/// The record of writers that others have forgotten, by the state from which a replica began.
#[test]
fn who_begins_knows_whether_it_remembers_all() {
    let [one, ..] = space();
    let id = |byte| WriterId::from_bytes([byte; 16]);
    let with = |gaps: Option<bool>| Message {
        gaps,
        ..one.delta(&VersionVector::default())
    };
    for (gaps, all) in [(None, false), (Some(true), false), (Some(false), true)] {
        let mut fresh = Replica::new(one.space().clone(), id(77));
        assert!(
            !fresh.membership.remembers_all(),
            "nobody knows of members here"
        );
        fresh.merge(&with(gaps)).unwrap();
        assert_eq!(fresh.membership.remembers_all(), all);
        // A later message completes it, and takes nothing back.
        for (more, all) in [(None, all), (Some(true), all), (Some(false), true)] {
            let mut fresh = fresh.clone();
            fresh.merge(&with(more)).unwrap();
            assert_eq!(fresh.membership.remembers_all(), all);
            let mut log = vec![fresh.snapshot()];
            fresh.add("k", 1).unwrap();
            let mut mark = Mark::default();
            log.extend(fresh.since(&mut mark));
            for stored in log {
                let bytes = stored.encode_stored();
                let stored = Message::decode_stored(&bytes).unwrap();
                let mut again = Replica::new(one.space().clone(), id(78));
                again.restore(&stored).unwrap();
                assert_eq!(again.membership.remembers_all(), all);
            }
        }
    }
}

#[test]
fn as_many_as_are_sent_are_all_that_there_are() {
    let [mut one, ..] = space();
    for at in 0..RETURNS_SENT_MAX as u64 {
        one.membership
            .remember(WriterId::from_bytes(u128::from(at).to_be_bytes()), at);
    }
    let mut message = one.delta(&VersionVector::default());
    one.membership.add_memory(&mut message, RETURNS_SENT_MAX);
    assert_eq!(message.gaps, Some(false));
}

#[test]
fn nobody_was_forgotten_before_a_space_had_members() {
    let id = |byte| WriterId::from_bytes([byte; 16]);
    let [mut one, mut other] = [1, 2].map(|byte| Replica::new(Default::default(), id(byte)));
    other.add("k", 1).unwrap();
    one.merge(&other.delta(&VersionVector::default())).unwrap();
    let owner: Owner = [1; 32];
    let writer = WriterId::mint(one.space(), &owner, &[7; 16]);
    assert!(one.forks_mut().renew(writer));
    one.members_mut().found(&owner, &[7; 16], 1).unwrap();
    assert!(one.membership.remembers_all());
}

#[test]
fn a_store_is_told_once_who_was_forgotten() {
    let [mut one, ..] = space();
    let mut mark = Mark::default();
    one.since(&mut mark);
    let gone = WriterId::from_bytes([77; 16]);
    one.membership.remember(gone, 7);
    let message = one.since(&mut mark).expect("it is to be stored");
    assert_eq!(message.returns[..], [(gone, 7)]);
    assert_eq!(one.since(&mut mark), None);
}

#[test]
fn a_replica_that_shrinks_keeps_no_memory_for_growth() {
    let replica = |byte| Replica::new(crate::Space::default(), WriterId::from_bytes([byte; 16]));
    let [mut one, mut other] = [replica(1), replica(2)];
    for at in 0..=PAGE {
        for replica in [&mut one, &mut other] {
            replica.add(&alloc::format!("k{at}"), 1).unwrap();
        }
    }
    one.merge(&other.delta(&VersionVector::default())).unwrap();
    let before = one.heap_bytes();
    one.shrink();
    assert!(one.heap_bytes() < before);
    for page in one.state.pages() {
        let rows = page.columns().map(|column| &column.rows);
        for rows in rows {
            assert_eq!(rows.capacity(), rows.len());
        }
    }
    assert_eq!(one.value("k0"), Some(2));
}

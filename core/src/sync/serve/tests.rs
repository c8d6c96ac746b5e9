//! Chunks that could be too large for a frame.

use super::super::pull::tests::{End, id};
use super::super::{Body, Input, PeerScope, Pull, Role};
use crate::bounds::{FRAME_BYTES_MAX, RETURNS_SENT_MAX, WRITERS_MAX};
use crate::message::Message;
use crate::optional::Optional;
use crate::state::delta::{Delta, Entry};
use crate::state::vector::VersionVector;
use crate::sync::{Link, Output};
use crate::writer_id::{Space, WriterId};
use crate::{Replica, wire};
use alloc::vec::Vec;

fn writer(number: usize) -> WriterId {
    WriterId::from_bytes((number as u128).to_be_bytes())
}

/// So many writers, which all are at this clock.
fn known(count: usize, clock: u64) -> Message {
    let entry = |number| Entry {
        writer: writer(number),
        lo: 0,
        hi: clock,
    };
    Message {
        delta: Delta {
            writers: (1..=count).map(entry).collect(),
            ..Delta::default()
        },
        ..Message::default()
    }
}

#[test]
fn the_last_chunk_fits_a_frame_however_many_were_forgotten() {
    let mut end = End::new();
    // Their clocks and admissions, and as many forgotten writers, take more than a frame.
    let mut message = known(WRITERS_MAX - 10, 1 << 62);
    let returns = (0..RETURNS_SENT_MAX).map(|at| (writer(1 << 20 | at), u64::MAX - 2));
    message.returns.set(returns.collect());
    end.replica.restore(&message).expect("stored");
    end.replica
        .members_mut()
        .found(&[1; 32], &[0; 16], 1)
        .expect("founded");
    let mut whole = end.replica.delta(&VersionVector::default());
    end.replica
        .membership
        .add_memory(&mut whole, RETURNS_SENT_MAX);
    let all = wire::Delta {
        id: 1,
        chunk: 0,
        last: true,
        message: whole,
    };
    let all = wire::encode(&Space::default(), &Body::Delta(all));
    assert!(all.len() > FRAME_BYTES_MAX, "{} bytes", all.len());

    let link = end.link_to(1, true);
    end.outputs();
    let (id, vector) = (1, VersionVector::default());
    let mut chunk = 0;
    end.frame(link, Body::Pull(Pull { id, chunk, vector }));
    loop {
        let sent = end.sent(); // Frames that are too large are no frames.
        let delta = sent.into_iter().find_map(|(_, body)| match body {
            Body::Delta(delta) => Some(delta),
            _ => None,
        });
        let delta = delta.expect("a chunk");
        if delta.last {
            assert!(delta.message.delta.writers.len() >= WRITERS_MAX - 10);
            assert!(!delta.message.returns.is_empty());
            assert_eq!(delta.message.gaps, Some(true));
            break;
        }
        chunk += 1;
        end.frame(link, Body::More { id, chunk });
    }
}

#[test]
fn guests_leave_room_for_nodes() {
    const OWNER: [u8; 32] = [7; 32];
    let (nonce, link) = ([8; 16], Link(1));
    let guest = WriterId::mint(&Space::default(), &OWNER, &nonce);
    let mut end = End::new();
    end.replica
        .restore(&known(WRITERS_MAX - 1, 1))
        .expect("stored");
    let (owner, role) = (OWNER, Role::Editor);
    end.input(Input::Limited { link, owner, role });
    end.hello(link, 1, guest);
    assert_eq!(
        end.sync.rights(link),
        Some(PeerScope::Limited { owner, role })
    );
    let (writer, message) = (guest, |writer| {
        let mut made = Replica::new(Space::default(), writer);
        made.add("k", 1).expect("room");
        made.delta(&VersionVector::default())
    });
    end.frame(link, Body::Own { writer, nonce });
    end.outputs();
    end.frame(link, Body::Push(message(guest)));
    let refused: Vec<&str> = end
        .outputs()
        .into_iter()
        .filter_map(|output| match output {
            Output::Refused { error, .. } => Some(error.code()),
            _ => None,
        })
        .collect();
    assert_eq!(
        (refused, end.replica.value("k")),
        (Vec::from(["writers_full"]), None)
    );
    let node = end.link(2, 2, id(4));
    end.frame(node, Body::Push(message(id(4))));
    assert_eq!(end.replica.value("k"), Some(1));
}

//! How many writers each share allows, and the refusals beyond it.

use super::super::pull::tests::End;
use super::*;
use crate::state::delta::Entry;
use crate::sync::{Body, Input, Output, Role};
use crate::{Space, VersionVector};

fn nonce(number: u64) -> [u8; 16] {
    let mut nonce = [0; 16];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    nonce
}

fn mint(owner: &Owner, number: u64) -> WriterId {
    WriterId::mint(&Space::default(), owner, &nonce(number))
}

fn member() -> End {
    let mut end = End::new();
    end.replica
        .members_mut()
        .found(&[1; 32], &[0; 16], 1)
        .unwrap();
    end
}

/// A link of a writer's, which has sent its hello and proved its first writer.
fn link(end: &mut End, number: u32, owner: Owner, party: Party) -> Link {
    let (link, role) = (Link(number), Role::Writer);
    end.input(Input::Limited { link, owner, role });
    end.sync.set_party(link, party);
    end.hello(link, number.into(), mint(&owner, 0));
    prove(end, link, owner, 0);
    link
}

fn prove(end: &mut End, link: Link, owner: Owner, number: u64) {
    let (writer, nonce) = (mint(&owner, number), nonce(number));
    end.frame(link, Body::Own { writer, nonce });
}

fn names(end: &mut End, link: Link, owner: Owner, number: u64) {
    end.frame(link, Body::Writer(mint(&owner, number)));
    end.now += 20;
    prove(end, link, owner, number);
}

/// The codes of what closed links.
fn closed(end: &mut End) -> Vec<(Link, &'static str)> {
    let outputs = core::iter::from_fn(|| end.sync.poll());
    let closed = outputs.filter_map(|output| match output {
        Output::Refused { close, error } => Some((close?, error.code())),
        _ => None,
    });
    closed.collect()
}

/// A push of a writer that has seen all that the member holds.
fn first_add(end: &End, writer: WriterId) -> Message {
    let mut peer = Replica::new(Space::default(), writer);
    let all = end.replica.delta(&VersionVector::default());
    peer.merge(&all).unwrap();
    peer.add("k", 1).unwrap();
    let mut message = peer.delta(&end.replica.vector());
    message.complete = false;
    message.gaps = None;
    message
}

#[test]
fn one_owner_has_so_many_writers_and_others_go_on() {
    let mut end = member();
    let owner = [7; 32];
    let flood = link(&mut end, 1, owner, Party::default());
    for number in 1..1_000 {
        names(&mut end, flood, owner, number);
    }
    let known = end.replica.members().writer_count();
    assert_eq!(known, 1 + crate::bounds::OWN_WRITERS_MAX);
    // It is told so when one of the others writes, and so is another link under its key.
    let push = Body::Push(first_add(&end, mint(&owner, 999)));
    assert_eq!(closed(&mut end), []);
    end.frame(flood, push.clone());
    assert_eq!(closed(&mut end), [(flood, "share_full")]);
    assert_eq!(end.replica.value("k"), None);
    let other = link(&mut end, 2, [8; 32], Party::default());
    assert!(
        end.replica.state.knows(&mint(&[8; 32], 0)),
        "others are taken in"
    );
    let first = first_add(&end, mint(&[8; 32], 0));
    end.frame(other, Body::Push(first));
    assert_eq!(closed(&mut end), []);
    assert_eq!(end.replica.value("k"), Some(1));
}

/// A member may have forgotten writers that a page still knows.
#[test]
fn writers_that_a_message_builds_on_take_no_room() {
    let mut end = member();
    let page = link(&mut end, 1, [7; 32], Party::default());
    let mut message = first_add(&end, mint(&[7; 32], 0));
    // They come last, so that the message's numbers of the others stay.
    let late = |number: u128| WriterId::from_bytes((u128::MAX - 300 + number).to_be_bytes());
    let others = (0..300).map(|number| Entry {
        writer: late(number),
        lo: 1,
        hi: 1,
    });
    message.delta.writers.extend(others);
    end.frame(page, Body::Push(message));
    assert_eq!(closed(&mut end), []);
}

/// A writer that has no room may have it later, so its peer does not hear that the writer ended.
#[test]
fn a_writer_without_room_has_not_ended() {
    let mut end = member();
    let owner = [7; 32];
    let flood = link(&mut end, 1, owner, Party::default());
    let most = crate::bounds::OWN_WRITERS_MAX as u64;
    for number in 1..=most {
        end.sent();
        names(&mut end, flood, owner, number);
    }
    let knows = |number| end.replica.state.knows(&mint(&owner, number));
    assert!(knows(most - 1) && !knows(most));
    let sent = end.sent();
    assert!(!sent.iter().any(|it| matches!(it.1, Body::Ended { .. })));
}

/// Forgotten writers make room.
#[test]
fn a_writer_counts_until_it_is_forgotten() {
    let mut end = member();
    let owner = [7; 32];
    let link = link(&mut end, 1, owner, Party::default());
    for number in 1..300 {
        names(&mut end, link, owner, number);
    }
    assert!(!end.replica.state.knows(&mint(&owner, 299)));
    for number in 0..crate::bounds::OWN_WRITERS_MAX as u64 {
        end.replica
            .members_mut()
            .fence(&mint(&owner, number))
            .unwrap();
    }
    for _ in 0..8 {
        end.now += SWEEP_MS;
        let kept = end.replica.mark();
        end.sync.tend(end.now, &mut end.replica, &kept).unwrap();
    }
    assert_eq!(end.replica.members().writer_count(), 1);
    assert!(end.sync.shares.writers.is_empty());
    assert!(end.sync.shares.counts.iter().all(BTreeMap::is_empty));
    names(&mut end, link, owner, 299);
    assert!(end.replica.state.knows(&mint(&owner, 299)));
}

#[test]
fn tickets_and_addresses_have_shares() {
    let mut sync = SyncMachine::new(Default::default(), 1);
    let (mut links, mut writers) = (0u32, 0u128);
    // So many links with keys of their own, each with nearly as many writers as it may have.
    let mut fill =
        |sync: &mut SyncMachine, ticket: Option<u128>, address: Option<u128>, count: u32| {
            for _ in 0..=count {
                links += 1;
                let mut owner = [0; 32];
                owner[..4].copy_from_slice(&links.to_le_bytes());
                sync.shares.connected(Link(links), owner);
                sync.set_party(Link(links), Party { ticket, address });
                let full = count == 0 || sync.room_in_share(Link(links), 250).is_err();
                for _ in 0..if full { 0 } else { 250 } {
                    writers += 1;
                    let writer = WriterId::from_bytes(writers.to_be_bytes());
                    sync.shares.count(Link(links), writer);
                }
            }
            sync.shares.has_room(Link(links), 1)
        };
    assert_eq!(fill(&mut sync, Some(1), Some(1), 38), Ok(()));
    assert_eq!(fill(&mut sync, Some(1), Some(2), 2), Err(Share::Ticket));
    assert_eq!(fill(&mut sync, Some(2), Some(1), 41), Err(Share::Ticket));
    assert_eq!(fill(&mut sync, Some(3), Some(1), 2), Err(Share::Address));
    assert_eq!(fill(&mut sync, None, Some(1), 0), Err(Share::Address));
    assert_eq!(fill(&mut sync, Some(3), Some(3), 0), Ok(()));
    assert_eq!(fill(&mut sync, None, None, 100), Ok(()), "nobody is known");
    // A member's link has none.
    assert_eq!(sync.shares.has_room(Link(u32::MAX), 1 << 20), Ok(()));
}

/// In an open space writers are for ever, and one message brings many.
#[test]
fn a_link_does_not_fill_an_open_space() {
    let mut end = End::new();
    let owner = [7; 32];
    let link = link(&mut end, 1, owner, Party::default());
    let mut brought = 0;
    for round in 0..4u64 {
        let mut other = Replica::new(Space::default(), WriterId::from_bytes([9; 16]));
        for number in 0..100 {
            let number = round * 100 + number;
            end.now += 20;
            prove(&mut end, link, owner, number);
            let mut one = Replica::new(Space::default(), mint(&owner, number));
            one.add("k", 1).unwrap();
            other.merge(&one.delta(&VersionVector::default())).unwrap();
        }
        let message = other.delta(&VersionVector::default());
        end.frame(link, Body::Push(message));
        if let Some((_, code)) = closed(&mut end).first() {
            assert_eq!(*code, "share_full");
            break;
        }
        brought += 100;
    }
    assert_eq!(brought, 200);
    assert_eq!(end.replica.value("k"), Some(200));
}

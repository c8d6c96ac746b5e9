//! This owner's writers: how many are remembered, and who gets their proofs.

use super::super::pull::tests::{End, id};
use super::*;

#[test]
fn so_many_own_writers_are_remembered() {
    let mut end = End::new();
    for number in 0..=OWN_WRITERS_MAX {
        let mut bytes = [1; 16];
        bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
        let writer = WriterId::from_bytes(bytes);
        end.sync.is_own(&end.replica, writer, [0; 16]);
        assert_eq!(end.sync.guests.own.len(), (number + 1).min(OWN_WRITERS_MAX));
    }
}

#[test]
fn a_peer_that_takes_all_gets_no_proofs() {
    let mut end = End::new();
    end.link(1, 1, id(5));
    end.sent();
    let own = end.replica.writer();
    end.sync.is_own(&end.replica, own, [0; 16]);
    let proofs = end.sent();
    let proofs = proofs.iter().filter(|it| matches!(it.1, Body::Own { .. }));
    assert_eq!(proofs.count(), 0);
}

/// A link to a peer that takes only what this owner made.
fn limited(end: &mut End) -> Link {
    let link = end.link(1, 1, id(5));
    let peer = end.sync.peer_mut(link).unwrap();
    peer.hello.as_mut().unwrap().takes.set(TAKES_OWN);
    end.sent();
    link
}

fn proofs(end: &mut End) -> Vec<WriterId> {
    let own = |(_, body): (Link, Body)| match body {
        Body::Own { writer, .. } => Some(writer),
        _ => None,
    };
    end.sent().into_iter().filter_map(own).collect()
}

#[test]
fn writers_that_matter_are_proved_until_the_peer_has_accepted_them() {
    let mut end = End::new();
    let link = limited(&mut end);
    let own = end.replica.writer();
    end.sync.is_own(&end.replica, own, [0; 16]);
    assert_eq!(proofs(&mut end), [own]);
    // Nothing of it is here.
    end.sync.is_own(&end.replica, id(9), [1; 16]);
    assert_eq!(proofs(&mut end), [own]);
    let (writer, nonce) = (own, [0; 16]);
    end.frame(link, Body::Own { writer, nonce });
    assert_eq!(*end.sync.peer(link).unwrap().taken, [own]);
    end.sent();
    end.sync.prove(&end.replica, link);
    assert_eq!(proofs(&mut end), []);
    // It can accept nothing that was not shown to it.
    let writer = id(33);
    end.frame(link, Body::Own { writer, nonce });
    assert_eq!(*end.sync.peer(link).unwrap().taken, [own]);
}

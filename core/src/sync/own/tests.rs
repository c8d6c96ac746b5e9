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

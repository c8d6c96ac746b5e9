//! Absorption, collection and forgetting in spaces with members.

use crate::mesh::Mesh;
use tallymesh_core::Op::{Add, Delete};

// Absorption.

/// The delete saw the tab's 4 and not the absorption. Whoever moves an amount without remembering
/// whose it was reads 5 when both meet.
#[test]
fn a_delete_concurrent_with_an_absorption_takes_the_absorbed_part_only() {
    let mut mesh = Mesh::new(2);
    let tab = mesh.tab(0, 4);
    mesh.apply(0, Add(1));
    mesh.does(tab, |replica| replica.leave());
    let left = mesh.state(tab);
    mesh.gets(0, &left);
    assert_eq!(mesh.absorbs(0), 1);
    let moved = mesh.state(0);
    mesh.gets(1, &left);
    assert_eq!(mesh.values([0, 1, tab]), [Some(5), Some(4), Some(4)]);
    mesh.apply(1, Delete);
    mesh.gets(1, &moved);
    assert_eq!(mesh.value(1), Some(1));
    mesh.gets(0, &mesh.state(1));
    assert_eq!(mesh.value(0), Some(1));
    mesh.ends(&[0, 1], Some(1));
}

/// The delete saw the absorption, so all of it goes; the tab's part does not come back as a rest.
#[test]
fn a_delete_after_an_absorption_takes_the_absorbed_part_too() {
    let mut mesh = Mesh::new(2);
    let tab = mesh.tab(0, 4);
    mesh.apply(0, Add(1));
    mesh.does(tab, |replica| replica.leave());
    let left = mesh.state(tab);
    mesh.gets(0, &left);
    assert_eq!(mesh.absorbs(0), 1);
    mesh.gets(1, &mesh.state(0));
    mesh.apply(1, Delete);
    let deleted = mesh.state(1);
    mesh.relays(1, &left);
    mesh.gets(0, &deleted);
    assert_eq!(mesh.values([0, 1]), [None, None]);
    mesh.apply(0, Add(16));
    mesh.ends(&[0, 1], Some(16));
}

// Collection.

/// One who has an old state and hears of the delete later must read absent. If the record of the
/// delete is dropped before all have seen it, the 1 stays.
#[test]
fn what_is_deleted_is_dropped_when_all_have_seen_it_and_not_before() {
    let mut mesh = Mesh::new(2);
    let empty = mesh.bytes(0).len();
    mesh.apply(0, Add(1));
    let added = mesh.state(0);
    let vector = mesh.vector(0);
    mesh.apply(0, Delete);
    assert!(!mesh.collects(0));
    let deleted = mesh.since(0, &vector);
    mesh.gets(1, &added);
    assert_eq!(mesh.values([0, 1]), [None, Some(1)]);
    mesh.gets(1, &deleted);
    assert_eq!(mesh.values([0, 1]), [None, None]);
    mesh.ends(&[0, 1], None);
    // Each clock may have grown by a byte, and nothing else.
    assert!(mesh.bytes(0).len() <= empty + 8);
    // What comes late of what was dropped brings nothing back.
    mesh.gets(1, &added);
    mesh.gets(0, &added);
    assert_eq!(mesh.values([0, 1]), [None, None]);
}

/// Member 2 forgets an absorbed incarnation before member 0 does, and what it acknowledges from
/// then on names it no more. Who has seen the absorption has seen all of it: else member 0 would
/// wait for ever for word of the incarnation's last transaction.
#[test]
fn an_acknowledgement_that_has_forgotten_a_writer_counts_for_all_of_it() {
    let mut mesh = Mesh::new(3);
    mesh.apply(0, Add(1));
    for (one, other) in [(0, 1), (0, 2)] {
        mesh.meet(one, other);
    }
    // Its last transaction, that only member 0 has in time.
    let before = mesh.state(1);
    mesh.apply(1, Delete);
    mesh.gets(0, &mesh.state(1));
    let old = mesh.writer(1);
    let new = mesh.restarts(1, &before);
    mesh.gets(2, &mesh.state(new));
    assert!(mesh.does(2, |replica| replica.acknowledge()));
    mesh.meet(new, 2);
    mesh.gets(0, &mesh.state(new));
    assert!(mesh.does(0, |replica| replica.acknowledge()));
    assert_eq!(mesh.absorbs(new), 0);
    mesh.gets(new, &mesh.state(0));
    assert_eq!(mesh.values([0, new, 2]), [None, None, Some(1)]);
    assert_eq!(mesh.absorbs(new), 1);
    while mesh.knows(2, &old) {
        mesh.round(&[new, 2]);
        mesh.gets(0, &mesh.state(new));
        mesh.does(0, |replica| replica.acknowledge());
        mesh.gets(new, &mesh.state(0));
    }
    assert!(mesh.knows(0, &old));
    assert_eq!(mesh.values([0, new, 2]), [None, None, None]);
    mesh.ends(&[0, new, 2], None);
}

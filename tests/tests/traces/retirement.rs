//! Retirement, collection and forgetting in spaces with members.

use crate::mesh::Mesh;
use tallymesh_core::Op::{Add, Delete, Expire};

// Retirement.

/// The delete saw the tab's 4, and not the retirement. If the moved amount did not keep its origin, 5 would
/// be read when both meet.
#[test]
fn a_delete_concurrent_with_an_absorption_takes_the_absorbed_part_only() {
    let mut mesh = Mesh::new(2);
    let tab = mesh.tab(0, 4);
    mesh.apply(0, Add(1));
    mesh.does(tab, |replica| replica.members_mut().leave());
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

/// The delete saw the retirement, so everything is cancelled. No rest of the tab's part comes back.
#[test]
fn a_delete_after_an_absorption_takes_the_absorbed_part_too() {
    let mut mesh = Mesh::new(2);
    let tab = mesh.tab(0, 4);
    mesh.apply(0, Add(1));
    mesh.does(tab, |replica| replica.members_mut().leave());
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

/// A replica with an old state that receives the delete later must read absent. If the record of the delete
/// is removed before all replicas have seen it, the 1 stays.
#[test]
fn what_is_deleted_is_dropped_when_all_have_seen_it_and_not_before() {
    let mut mesh = Mesh::new(2);
    let empty = mesh.bytes(0).len();
    mesh.apply(0, Add(1));
    let added = mesh.state(0);
    let vector = mesh.vector(0);
    mesh.apply(0, Delete);
    mesh.collects(0);
    let deleted = mesh.since(0, &vector);
    mesh.gets(1, &added);
    assert_eq!(mesh.values([0, 1]), [None, Some(1)]);
    mesh.gets(1, &deleted);
    assert_eq!(mesh.values([0, 1]), [None, None]);
    mesh.ends(&[0, 1], None);
    // Each clock may have grown by a byte, and nothing else.
    assert!(mesh.bytes(0).len() <= empty + 8);
    // A late change to a counter that was collected brings nothing back.
    mesh.gets(1, &added);
    mesh.gets(0, &added);
    assert_eq!(mesh.values([0, 1]), [None, None]);
}

/// A member starts twice, and its last start retires the two before. The other member forgets both before its
/// tab receives the stable vector, which names neither.
///
/// A replica that has seen a retirement has seen everything of the retired writer. Otherwise the tab would
/// wait for ever for acknowledgements of these writers.
#[test]
fn what_is_settled_by_one_who_has_forgotten_a_writer_counts_for_all_of_it() {
    let mut mesh = Mesh::new(2);
    let tab = mesh.tab(0, 1);
    mesh.apply(1, Add(4));
    mesh.in_order(&[0, 1, tab]);
    let mut starts = vec![1];
    for _ in 0..2 {
        let last = starts[starts.len() - 1];
        let new = mesh.restarts(last);
        mesh.apply(new, Add(16));
        starts.push(new);
    }
    let [first, second, third] = [0, 1, 2].map(|at| starts[at]);
    let gone = [first, second].map(|at| mesh.writer(at));
    assert_eq!(mesh.values([0, third, tab]), [Some(5), Some(37), Some(5)]);
    while gone.iter().any(|writer| mesh.knows(0, writer)) {
        mesh.round(&[0, third]);
        mesh.meet(0, tab); // which receives everything except the stable vector
    }
    // A visitor, so that all replicas have something to acknowledge again.
    let visitor = mesh.tab(0, 64);
    mesh.does(visitor, |replica| replica.members_mut().leave());
    mesh.gets(0, &mesh.since(visitor, &mesh.vector(0)));
    assert_eq!(mesh.absorbs(0), 1);
    let visitor = mesh.writer(visitor);
    while mesh.knows(0, &visitor) {
        mesh.round(&[0, third]);
        mesh.meet(0, tab);
    }
    assert!(gone.iter().all(|writer| mesh.knows(tab, writer)));
    assert_eq!(mesh.values([0, third, tab]), [Some(101); 3]);
    mesh.ends(&[0, third, tab], Some(101));
}

/// Each of two tabs has deleted a part of the other's, on two counters. The member retires both and forgets
/// them before the third tab receives the stable vector.
///
/// If the tab asked for the deletes under their tabs' names, it would wait for ever. Each of the two names
/// stays as long as the other tab's part does.
#[test]
fn what_forgotten_writers_have_deleted_of_each_other_is_settled_too() {
    let mut mesh = Mesh::new(1);
    let [tab, one, other] = [1, 4, 16].map(|by| mesh.tab(0, by));
    mesh.apply_to(other, 1, Add(16));
    mesh.in_order(&[0, tab, one, other]);
    mesh.apply(other, Delete);
    mesh.apply_to(one, 1, Delete);
    mesh.apply(one, Add(64));
    mesh.apply_to(other, 1, Add(64));
    for leaver in [one, other] {
        mesh.does(leaver, |replica| replica.members_mut().leave());
        mesh.gets(0, &mesh.since(leaver, &mesh.vector(0)));
    }
    assert_eq!(mesh.absorbs(0), 2);
    let gone = [one, other].map(|at| mesh.writer(at));
    while gone.iter().any(|writer| mesh.knows(0, writer)) {
        mesh.meet(0, tab); // which receives everything except the stable vector
        mesh.round(&[0]);
    }
    assert!(gone.iter().all(|writer| mesh.knows(tab, writer)));
    assert_eq!(mesh.values([0, tab]), [Some(64); 2]);
    mesh.ends(&[0, tab], Some(64));
}

/// A tab's part that comes to nothing leaves nothing. The successor's slot has an entry for a retired part
/// that counts, but none for one that was deleted meanwhile.
#[test]
fn an_absorbed_part_that_was_deleted_is_folded_into_nothing() {
    assert!(size_with_a_tab_of_nothing(true) < size_with_a_tab_of_nothing(false));
}

/// Member 1 has just replaced the expiry of the tab's part, and merges this part into its own before member 0
/// has received the change. The replacement must still reach member 0, or 2,000 comes back there.
#[test]
fn an_expiry_that_was_replaced_stays_so_where_it_is_not_folded_yet() {
    let mut mesh = Mesh::new(2);
    let tab = mesh.tab(0, 4);
    mesh.apply(tab, Expire(2_000));
    mesh.does(tab, |replica| replica.members_mut().leave());
    mesh.gets(0, &mesh.state(tab));
    assert_eq!(mesh.absorbs(0), 1);
    mesh.collects(0);
    assert!(mesh.does(0, |replica| replica.members_mut().acknowledge()));
    mesh.gets(1, &mesh.state(0));
    mesh.apply(1, Expire(1_000));
    mesh.collects(1);
    mesh.gets(0, &mesh.state(1));
    assert_eq!(mesh.values([0, 1]), [Some(4); 2]);
    mesh.ends(&[0, 1], Some(4));
}

/// Only an expiry is left of the second tab. Member 0 merges it into its own part, and then the expiry is
/// replaced. At member 1 the order is reversed. The bytes must be the same.
#[test]
fn an_expiry_that_was_replaced_leaves_the_same_before_and_after_it_was_folded() {
    let mut mesh = Mesh::new(2);
    let (first, second) = (mesh.tab(0, 4), mesh.tab(0, 1));
    mesh.apply(second, Delete);
    mesh.apply(first, Add(16));
    mesh.gets(second, &mesh.state(first));
    mesh.apply(second, Expire(2_000));
    for tab in [first, second] {
        mesh.does(tab, |replica| replica.members_mut().leave());
        mesh.gets(0, &mesh.since(tab, &mesh.vector(0)));
        assert_eq!(mesh.absorbs(0), 1);
    }
    mesh.collects(0);
    mesh.does(0, |replica| replica.members_mut().acknowledge());
    mesh.gets(1, &mesh.state(0));
    mesh.does(1, |replica| replica.members_mut().acknowledge());
    mesh.gets(0, &mesh.state(1));
    assert!(mesh.collects(0));
    mesh.apply(1, Expire(1_000));
    assert_eq!(mesh.values([0, 1]), [Some(16); 2]);
    mesh.ends(&[0, 1], Some(16));
}

fn size_with_a_tab_of_nothing(is_deleted: bool) -> usize {
    let mut mesh = Mesh::new(2);
    let tab = mesh.tab(0, 7);
    mesh.apply(tab, Add(-7));
    mesh.meet(1, tab);
    mesh.apply(0, Add(1));
    if is_deleted {
        mesh.apply(1, Delete);
        assert_eq!(mesh.value(1), None);
    }
    mesh.does(tab, |replica| replica.members_mut().leave());
    mesh.gets(0, &mesh.state(tab));
    assert_eq!(mesh.absorbs(0), 1);
    assert_eq!(mesh.values([0, tab]), [Some(1), Some(0)]);
    mesh.ends(&[0, 1], Some(1));
    mesh.bytes(0).len()
}

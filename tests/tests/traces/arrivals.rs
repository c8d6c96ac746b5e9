//! New replicas: admitted twice, born offline, forgotten, too old, and more than a number can count.

use crate::mesh::Mesh;
use tallymesh_core::Op::{Add, Delete};

/// Two members receive a tab's messages before each other's, and each admits the tab. It still has one
/// sponsor and one successor.
#[test]
fn a_tab_that_two_members_have_taken_in_counts_once() {
    let mut mesh = Mesh::new(2);
    let tab = mesh.reader(0);
    mesh.apply(tab, Add(4));
    let first = mesh.state(tab);
    mesh.gets(0, &first);
    mesh.gets(1, &first);
    assert_eq!(mesh.values([0, 1, tab]), [Some(4); 3]);
    mesh.in_order(&[0, 1, tab]);
    let sponsors = [0, 1].map(|at| Some(mesh.writer(at)));
    assert!(sponsors.contains(&mesh.sponsor(tab)));
    mesh.apply(1, Delete);
    mesh.apply(tab, Add(16));
    mesh.does(tab, |replica| replica.members_mut().leave());
    let left = mesh.state(tab);
    mesh.gets(0, &left);
    mesh.gets(1, &left);
    assert_eq!(mesh.absorbs(0) + mesh.absorbs(1), 1);
    mesh.ends(&[0, 1], Some(16));
}

/// It has counted before it received that the space has members, so it kept no journal. The rest of its
/// changes is added.
#[test]
fn what_was_counted_offline_before_the_first_contact_is_added_once() {
    let mut mesh = Mesh::new(2);
    let tab = mesh.stranger();
    for op in [Add(4), Delete, Add(16)] {
        mesh.apply(tab, op);
    }
    mesh.refuses(0, &mesh.state(tab), "stranger");
    assert_eq!(mesh.values([0, 1, tab]), [None, None, Some(16)]);
    mesh.fences(0, tab);
    mesh.in_order(&[0, 1]);
    let again = mesh.returns(tab, 0);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].op, Add(16));
    mesh.meet(0, tab);
    mesh.ends(&[0, 1, tab], Some(16));
}

/// The members have forgotten it. The first whole state that does not name it shows this, although that state
/// names its sponsor.
#[test]
fn one_who_was_forgotten_learns_it_from_a_state() {
    let mut mesh = Mesh::new(2);
    let tab = mesh.tab(0, 4);
    mesh.in_order(&[0, 1, tab]);
    let early = mesh.state(1);
    mesh.fences(0, tab);
    mesh.in_order(&[0, 1]);
    let writer = mesh.writer(tab);
    assert!(!mesh.knows(0, &writer) && !mesh.knows(1, &writer));
    mesh.apply(tab, Add(16));
    mesh.gets(tab, &early);
    mesh.refuses(tab, &mesh.state(1), "retired");
    for member in [0, 1] {
        mesh.refuses(member, &mesh.state(tab), "behind");
    }
    assert_eq!(mesh.values([0, 1, tab]), [Some(4), Some(4), Some(20)]);
    assert_eq!(mesh.returns(tab, 1).len(), 1);
    mesh.ends(&[0, 1, tab], Some(20));
}

/// No member waits for a reader, and the delete was collected meanwhile. The reader replaces its state by the
/// whole state. A merge would read 17.
#[test]
fn a_reader_that_is_too_old_takes_the_whole_state() {
    let mut mesh = Mesh::new(2);
    mesh.apply(0, Add(1));
    mesh.in_order(&[0, 1]);
    let reader = mesh.reader(1);
    mesh.apply(0, Delete);
    mesh.in_order(&[0, 1]);
    mesh.apply(0, Add(16));
    assert_eq!(mesh.values([0, 1, reader]), [Some(16), None, Some(1)]);
    mesh.gets(reader, &mesh.since(0, &mesh.vector(reader)));
    assert_eq!(mesh.values([0, 1, reader]), [Some(16), None, Some(16)]);
    mesh.apply(reader, Add(64));
    mesh.meet(0, reader);
    mesh.ends(&[0, 1, reader], Some(80));
}

/// Each of them has the largest total that adds can reach. The successor can still count.
#[test]
fn a_full_successor_takes_over_full_tabs() {
    const MOST: i128 = i64::MAX as i128;
    let mut mesh = Mesh::new(2);
    mesh.apply(0, Add(i64::MAX));
    let tabs = [mesh.tab(0, i64::MAX), mesh.tab(0, i64::MAX)];
    for tab in tabs {
        mesh.does(tab, |replica| replica.members_mut().leave());
        mesh.gets(0, &mesh.since(tab, &mesh.vector(0)));
        assert_eq!(mesh.absorbs(0), 1);
    }
    assert_eq!(mesh.value(0), Some(3 * MOST));
    mesh.apply(0, Add(-5));
    mesh.ends(&[0, 1], Some(3 * MOST - 5));
    mesh.apply(1, Delete);
    mesh.apply(0, Add(1));
    mesh.ends(&[0, 1], Some(1));
}

//! What a page does with rounds and positions.

use super::*;
use crate::Input;
use crate::sync::rounds::tests::{Mesh, body, rounds};
use crate::wire::Digests;
use alloc::vec::Vec;

const LINK: Link = Link(1);

fn pulls(frames: &[(Link, Vec<u8>)]) -> usize {
    let pulls = frames
        .iter()
        .filter(|it| matches!(body(&it.1), Body::Pull(_)));
    pulls.count()
}

#[test]
fn a_round_that_builds_on_a_lost_one_is_not_merged_and_is_pulled() {
    let mut mesh = Mesh::new(false, 1);
    let lost = mesh.add("likes");
    assert_eq!(rounds(&lost).len(), 1);
    let frames = mesh.add("views");
    mesh.deliver(&frames);
    assert_eq!(
        mesh.pages[0].0.value("views"),
        None,
        "it would be no causal cut"
    );
    let told = mesh.told(0);
    assert_eq!(pulls(&told), 1);
    mesh.deliver_to_node(told);
    mesh.settle();
    assert_eq!(mesh.pages[0].0.digest(), mesh.node.0.digest());
    let frames = mesh.add("likes");
    mesh.deliver(&frames);
    assert_eq!(
        mesh.value(0),
        mesh.node.0.value("likes"),
        "it follows again"
    );
}

#[test]
fn a_round_that_comes_again_changes_nothing() {
    let mut mesh = Mesh::new(false, 1);
    let frames = mesh.add("likes");
    mesh.deliver(&frames);
    mesh.deliver(&frames);
    assert_eq!(mesh.told(0), []);
    assert_eq!(mesh.value(0), Some(2));
}

/// The position that the node tells its page now.
fn position(mesh: &Mesh) -> Position {
    Position {
        at: mesh.pages[0]
            .1
            .peer(LINK)
            .unwrap()
            .following
            .position
            .unwrap(),
        pull: 0,
        digests: Digests {
            vector: mesh.node.0.digest(),
            contents: 0,
        },
        stable: VersionVector::default(),
    }
}

#[test]
fn who_follows_pulls_only_where_digests_differ_twice() {
    let mut mesh = Mesh::new(false, 1);
    mesh.pages[0].0.add("likes", 1).unwrap(); // and has not pushed it yet
    let position = position(&mesh);
    for asked in [0, 1] {
        let (replica, machine) = &mut mesh.pages[0];
        machine.position_came(mesh.now, replica, LINK, &position);
        let told = mesh.told(0);
        assert_eq!(pulls(&told), asked);
    }
    let later = Position {
        at: position.at + 1,
        ..position
    };
    let mut mesh = Mesh::new(false, 1);
    mesh.pages[0].0.add("likes", 1).unwrap();
    let (replica, machine) = &mut mesh.pages[0];
    machine.position_came(mesh.now, replica, LINK, &later);
    let told = mesh.told(0);
    assert_eq!(pulls(&told), 1, "a round was lost");
}

/// A page counts, so that a member admits it.
fn is_admitted(mesh: &mut Mesh, page: usize) {
    mesh.pages[page].0.add("likes", 1).unwrap();
    mesh.at_page(page, Input::Changed);
    mesh.settle();
    assert!(mesh.pages[page].0.members().sponsor().is_some());
}

#[test]
fn a_guest_reports_how_far_it_has_followed_while_others_write() {
    let mut mesh = Mesh::new(true, 2);
    is_admitted(&mut mesh, 0);
    let frames = mesh.add("likes");
    mesh.deliver(&frames);
    let writer = mesh.pages[0].0.writer();
    let seen = |mesh: &Mesh| mesh.node.0.members().progress(&writer).0;
    let before = seen(&mesh);
    // The node has made more than its last round has.
    mesh.node.0.add("likes", 1).unwrap();
    mesh.node.1.compare_soon(mesh.now, LINK);
    let frames = mesh.wait(0);
    assert!(
        matches!(body(&frames[0].1), Body::Position(_)),
        "{frames:?}"
    );
    mesh.deliver(&frames);
    let told = mesh.told(0);
    let followed: Vec<Followed> = told
        .iter()
        .filter_map(|it| match body(&it.1) {
            Body::Followed(followed) => Some(followed),
            _ => None,
        })
        .collect();
    assert_eq!((followed.len(), pulls(&told)), (1, 0));
    mesh.deliver_to_node(told);
    assert!(seen(&mesh) > before);
}

#[test]
fn a_report_counts_for_nothing_while_changes_of_its_guest_are_under_way() {
    let mut mesh = Mesh::new(true, 1);
    is_admitted(&mut mesh, 0);
    let frames = mesh.add("likes");
    mesh.deliver(&frames);
    mesh.node.0.add("likes", 1).unwrap();
    mesh.node.1.compare_soon(mesh.now, LINK);
    let frames = mesh.wait(0);
    mesh.pages[0].0.add("likes", 1).unwrap();
    mesh.deliver(&frames);
    let told = mesh.told(0);
    let reports = told
        .iter()
        .filter(|it| matches!(body(&it.1), Body::Followed(_)));
    let reports: Vec<_> = reports.cloned().collect();
    assert_eq!(reports.len(), 1);
    let writer = mesh.pages[0].0.writer();
    let before = mesh.node.0.members().progress(&writer).0;
    mesh.deliver_to_node(reports);
    assert_eq!(mesh.node.0.members().progress(&writer).0, before);
}

#[test]
fn whoever_begins_again_follows_nobody_until_it_has_pulled() {
    let mut mesh = Mesh::new(true, 1);
    mesh.pages[0].1.stop_following();
    let frames = mesh.add("likes");
    mesh.deliver(&frames);
    assert_eq!(mesh.value(0), Some(1));
    let told = mesh.told(0);
    assert_eq!(pulls(&told), 1);
    mesh.deliver_to_node(told);
    mesh.settle();
    assert_eq!(mesh.value(0), Some(2));
    let frames = mesh.add("likes");
    mesh.deliver(&frames);
    assert_eq!(mesh.value(0), Some(3));
}

//! Pages that no member has admitted: they look on, and are admitted with their first transaction.

use super::*;
use crate::Op;

/// The page's writer, and whether it knows of a member that admitted it.
fn standing(mesh: &Mesh, page: usize) -> (WriterId, bool) {
    let replica = &mesh.pages[page].0;
    (replica.writer(), replica.members().sponsor().is_some())
}

fn click(mesh: &mut Mesh, page: usize) {
    mesh.pages[page].0.add("likes", 1).unwrap();
    mesh.at_page(page, Input::Changed);
}

/// A member's duties, with everything stored.
fn tend(mesh: &mut Mesh) {
    let (replica, machine) = &mut mesh.node;
    let stored = replica.mark();
    machine.tend(mesh.now, replica, &stored).unwrap();
}

#[test]
fn a_page_that_only_looks_is_no_writer() {
    let mut mesh = Mesh::new(true, 3);
    assert_eq!(mesh.node.0.members().writer_count(), 1);
    click(&mut mesh, 1);
    mesh.settle();
    assert_eq!(mesh.node.0.members().writer_count(), 2);
    let admitted = [0, 1, 2].map(|page| standing(&mesh, page).1);
    assert_eq!(admitted, [false, true, false]);
    let values = [0, 1, 2].map(|page| mesh.value(page));
    assert_eq!(values, [Some(2); 3]);
    assert_eq!(mesh.pages[1].0.consistency().unconfirmed(), 0);
}

/// Otherwise the member would refuse a click that crosses a round, and the page would have to begin again.
#[test]
fn a_member_acknowledges_what_its_pages_have() {
    let mut mesh = Mesh::new(true, 1);
    // The clock that a new writer must have seen.
    let given_up = |mesh: &Mesh| {
        let given_up = mesh.node.0.membership.given_up();
        given_up.iter().map(|it| it.1).max().unwrap_or(0)
    };
    // A counter that was reset is collected.
    mesh.node.0.apply("likes", Op::Reset).unwrap();
    mesh.at_node(Input::Changed);
    let had = mesh.node.0.clock() - 1;
    let crossing = mesh.wait(BETWEEN_MS);
    assert_eq!(rounds(&crossing).len(), 1);
    let before = standing(&mesh, 0).0;
    click(&mut mesh, 0);
    for _ in 0..4 {
        tend(&mut mesh);
        mesh.now += TAKEN_MS / 8;
    }
    assert!(given_up(&mesh) <= had);
    mesh.now += 5;
    let told = mesh.told(0);
    mesh.deliver_to_node(told);
    mesh.deliver(&crossing);
    mesh.settle();
    assert_eq!(standing(&mesh, 0), (before, true));
    assert_eq!(mesh.node.0.value("likes"), Some(1));
    // It is not put off for longer than a round takes.
    for _ in 0..4 {
        mesh.now += TAKEN_MS;
        tend(&mut mesh);
        mesh.node.1.compare_soon(mesh.now, link(0));
        mesh.settle();
    }
    assert!(given_up(&mesh) > had);
}

#[test]
fn a_page_goes_on_that_did_not_hear_of_its_admission() {
    let mut mesh = Mesh::new(true, 1);
    let before = standing(&mesh, 0).0;
    click(&mut mesh, 0);
    mesh.now += 5;
    let told = mesh.told(0);
    mesh.deliver_to_node(told);
    assert_eq!(mesh.node.0.value("likes"), Some(2));
    let lost = mesh.wait(BETWEEN_MS);
    assert_eq!(rounds(&lost).len(), 1);
    let (link, broadcast) = (link(0), false);
    mesh.at_node(Input::Disconnected { link });
    mesh.at_page(0, Input::Disconnected { link });
    mesh.at_node(Input::Connected { link, broadcast });
    mesh.at_page(0, Input::Connected { link, broadcast });
    mesh.settle();
    assert_eq!(standing(&mesh, 0), (before, true));
    assert_eq!(
        (mesh.value(0), mesh.node.0.value("likes")),
        (Some(2), Some(2))
    );
}

/// A program that never does its duties keeps no more.
#[test]
fn the_clocks_of_the_first_round_and_of_so_many_others_are_kept() {
    let mut mesh = Mesh::new(true, 1);
    let first = mesh.node.1.rounds.made.front().cloned();
    for _ in 0..2 * MADE_MAX {
        let frames = mesh.add("likes");
        mesh.deliver(&frames);
    }
    let made = &mesh.node.1.rounds.made;
    assert_eq!((made.len(), made.front()), (MADE_MAX, first.as_ref()));
}

//! Pages that no member has admitted: they look on, and are admitted with their first transaction.

use super::*;
use crate::Op;
use crate::wire::Pull;

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

/// Lets so many seconds pass, with the duties of all. Returns how many pulls of everything there were.
fn pass(mesh: &mut Mesh, seconds: u64) -> usize {
    let mut pulls = 0;
    for _ in 0..seconds {
        mesh.now += 1_000;
        tend(mesh);
        for page in 0..mesh.pages.len() {
            mesh.node.1.compare_soon(mesh.now, link(page));
            let (replica, machine) = &mut mesh.pages[page];
            let stored = replica.mark();
            machine.tend(mesh.now, replica, &stored).unwrap();
            let told = mesh.told(page);
            let all = told
                .iter()
                .filter(|it| matches!(body(&it.1), Body::Pull(pull) if pull.vector.is_empty()));
            pulls += all.count();
            mesh.deliver_to_node(told);
        }
        mesh.settle();
    }
    pulls
}

#[test]
fn an_idle_page_gives_up_its_writer_and_downloads_nothing() {
    let mut mesh = Mesh::with(true, None, 2);
    click(&mut mesh, 0);
    pass(&mut mesh, 2);
    let before = standing(&mesh, 0);
    assert!(before.1);
    assert_eq!(pass(&mut mesh, 50), 0);
    assert_eq!(standing(&mesh, 0), before, "it may count again");
    assert_eq!(pass(&mut mesh, 20), 0);
    let after = standing(&mesh, 0);
    assert_ne!(after.0, before.0);
    assert!(!after.1);
    assert_eq!(mesh.node.0.members().writer_count(), 1);
    assert_eq!(
        mesh.pages[1].0.members().writer_count(),
        2,
        "the node and its own"
    );
    assert_eq!([mesh.value(0), mesh.value(1)], [Some(2); 2]);
    click(&mut mesh, 0);
    pass(&mut mesh, 2);
    assert_eq!(pass(&mut mesh, 50), 0);
    assert_eq!(standing(&mesh, 0), (after.0, true), "a minute begins anew");
    assert_eq!([mesh.value(0), mesh.value(1)], [Some(3); 2]);
    assert_eq!(mesh.node.0.value("likes"), Some(3));
}

/// A page that goes on from what it has counts again later, if ever. One that begins again makes transactions again.
#[test]
fn a_page_with_a_fresh_writer_is_admitted_if_it_pulls_everything() {
    for (vector, admitted) in [(true, false), (false, true)] {
        let mut mesh = Mesh::new(true, 1);
        let fresh = WriterId::from_bytes([77; 16]);
        let vector = match vector {
            true => mesh.pages[0].0.vector(),
            false => VersionVector::default(),
        };
        let (id, chunk) = (99, 0);
        for body in [Body::Writer(fresh), Body::Pull(Pull { id, chunk, vector })] {
            let space = Space::default();
            let bytes = Frame { space, body }.encode();
            mesh.deliver_to_node([(link(0), bytes)].into());
        }
        assert_eq!(mesh.node.0.state.knows(&fresh), admitted);
    }
}

//! Writers that were declared dead and are not, those who leave meanwhile, and those who don't know.

use crate::mesh::Mesh;
use tallymesh_core::Op::{Add, Delete};

// When an absorption is final.

/// The tab is alive and goes on. Taken over at once, what it added after would be seen by whoever
/// hears of it first, and by nobody who hears of the absorption first.
#[test]
fn a_dead_writer_is_absorbed_only_when_all_have_acknowledged_it() {
    let mut mesh = Mesh::new(2);
    let tab = mesh.tab(1, 1);
    mesh.meet(0, 1);
    mesh.fences(0, tab);
    assert_eq!(mesh.absorbs(0), 0);
    mesh.apply(tab, Add(4));
    mesh.gets(1, &mesh.state(tab));
    assert_eq!(mesh.values([0, 1, tab]), [Some(1), Some(5), Some(5)]);
    mesh.gets(1, &mesh.state(0));
    mesh.does(1, |replica| replica.acknowledge());
    // From now on member 1 takes nothing of it.
    mesh.apply(tab, Add(16));
    mesh.refuses(1, &mesh.state(tab), "behind");
    mesh.gets(0, &mesh.state(1));
    assert_eq!(mesh.values([0, 1, tab]), [Some(5), Some(5), Some(21)]);
    assert_eq!(mesh.absorbs(0), 1);
    mesh.refuses(0, &mesh.state(tab), "behind");
    mesh.refuses(tab, &mesh.state(0), "retired");
    mesh.ends(&[0, 1], Some(5));
}

/// The tab was taken in by a member that is dead now, and the heir has not heard of that: so its word
/// is not the tab's yet, who has not seen the delete.
#[test]
fn nothing_is_collected_before_the_heir_knows_for_whom_it_speaks() {
    let mut mesh = Mesh::new(3);
    mesh.apply(0, Add(1));
    mesh.in_order(&[0, 1, 2]);
    let tab = mesh.tab(2, 4);
    mesh.gets(1, &mesh.state(2));
    mesh.apply(0, Delete);
    mesh.keeps_only(0, &[0, 1]);
    mesh.fences(0, 2);
    assert!(mesh.does(0, |replica| replica.acknowledge()));
    mesh.gets(1, &mesh.state(0));
    mesh.does(1, |replica| replica.acknowledge());
    assert_eq!(mesh.values([0, 1, tab]), [None, Some(4), Some(5)]);
    assert!(!mesh.collects(1));
    mesh.meet(0, 1);
    mesh.meet(0, tab);
    assert_eq!(mesh.values([0, tab]), [Some(4), Some(4)]);
    mesh.does(tab, |replica| replica.leave());
    mesh.gets(0, &mesh.since(tab, &mesh.vector(0)));
    mesh.ends(&[0, 1], Some(4));
}

/// Member 2 is declared dead while it holds a transaction of the tab that nobody else has. Whoever
/// waits for word of the tab's fence only could absorb the tab without that transaction, while
/// member 0, who does not know yet that member 2 is dead, takes it in.
#[test]
fn no_dead_writer_is_absorbed_while_another_fence_is_open() {
    let mut mesh = Mesh::new(3);
    let tab = mesh.tab(2, 1);
    for (one, other) in [(2, 0), (0, 1)] {
        mesh.meet(one, other);
    }
    mesh.apply(tab, Add(4));
    mesh.gets(2, &mesh.state(tab));
    mesh.fences(1, tab);
    mesh.gets(0, &mesh.state(1));
    mesh.does(0, |replica| replica.acknowledge());
    mesh.gets(1, &mesh.state(0));
    assert_eq!(mesh.absorbs(1), 0); // member 2 has not said anything
    mesh.keeps_only(1, &[0, 1]);
    mesh.fences(1, 2);
    assert_eq!(mesh.absorbs(1), 0); // nor has member 0 of that
    mesh.gets(0, &mesh.state(2));
    assert_eq!(
        mesh.values([0, 1, 2, tab]),
        [Some(5), Some(1), Some(5), Some(5)]
    );
    mesh.gets(0, &mesh.state(1));
    mesh.does(0, |replica| replica.acknowledge());
    mesh.refuses(0, &mesh.state(2), "gone");
    mesh.gets(1, &mesh.state(0));
    assert_eq!(mesh.values([0, 1]), [Some(5), Some(5)]);
    assert_eq!(mesh.absorbs(1), 2);
    mesh.ends(&[0, 1], Some(5));
}

/// Two members declare each other dead, each as the other's heir: neither may absorb the other. A
/// third one takes both over.
#[test]
fn dead_members_who_are_each_others_heirs_find_a_third() {
    let mut mesh = Mesh::new(3);
    mesh.apply(0, Add(1));
    mesh.apply(1, Add(4));
    mesh.keeps_only(0, &[0, 2]);
    mesh.fences(0, 1);
    mesh.keeps_only(1, &[1, 2]);
    mesh.fences(1, 0);
    let (one, other) = (mesh.state(0), mesh.state(1));
    mesh.refuses(0, &other, "retired");
    mesh.refuses(1, &one, "retired");
    mesh.gets(2, &one);
    // Who is dead is not heard any more, others pass on what it said.
    mesh.refuses(2, &other, "gone");
    mesh.relays(2, &other);
    assert_eq!(mesh.values([0, 1, 2]), [Some(1), Some(4), Some(5)]);
    assert_eq!(mesh.absorbs(2), 0);
    mesh.keeps_only(2, &[2]);
    mesh.ends(&[2], Some(5));
}

// Those who were absorbed and don't know.

/// Member 2 was absorbed elsewhere and doesn't know. It goes on and takes a tab in, and the tab's
/// messages bring along what member 2 did above the last clock that was taken over.
#[test]
fn a_tab_that_was_taken_in_by_a_dead_member_is_refused() {
    let mut mesh = Mesh::new(3);
    mesh.apply(2, Add(1));
    mesh.meet(0, 2);
    mesh.keeps_only(0, &[0, 1]);
    mesh.fences(0, 2);
    mesh.gets(1, &mesh.state(0));
    mesh.does(1, |replica| replica.acknowledge());
    mesh.gets(0, &mesh.state(1));
    assert_eq!(mesh.absorbs(0), 1);
    mesh.apply(2, Add(4));
    let orphan = mesh.tab(2, 16);
    assert_eq!(
        mesh.values([0, 1, 2, orphan]),
        [Some(1), Some(1), Some(21), Some(21)]
    );
    mesh.refuses(0, &mesh.state(orphan), "behind");
    // Member 1 knows of the fence, not of the absorption.
    mesh.refuses(1, &mesh.state(orphan), "behind");
    mesh.gets(1, &mesh.state(0));
    mesh.refuses(1, &mesh.state(orphan), "behind");
    mesh.ends(&[0, 1], Some(1));
    // Member 2 is forgotten by now.
    for member in [0, 1] {
        mesh.refuses(member, &mesh.state(orphan), "behind");
        assert_eq!(mesh.value(member), Some(1));
    }
}

/// The tab's farewell is its last word. If its home went on to wait for it, no fence could be
/// acknowledged, and the other tab would never be absorbed.
#[test]
fn nobody_waits_for_one_who_has_left() {
    let mut mesh = Mesh::new(2);
    let (leaver, dead) = (mesh.tab(0, 1), mesh.tab(0, 4));
    mesh.in_order(&[0, 1, leaver, dead]);
    mesh.does(leaver, |replica| replica.leave());
    let left = mesh.state(leaver);
    mesh.gets(1, &left);
    mesh.fences(1, dead);
    mesh.gets(0, &mesh.state(1));
    mesh.does(0, |replica| replica.acknowledge());
    mesh.gets(1, &mesh.state(0));
    assert_eq!(mesh.values([0, 1, leaver, dead]), [Some(5); 4]);
    assert_eq!(mesh.absorbs(1), 1);
    mesh.ends(&[0, 1], Some(5));
}

/// A member's state from before it took the tab in does not name the tab. That is no word of the
/// tab having been forgotten, also when the one who took it in was itself absorbed and forgotten.
#[test]
fn a_state_from_before_an_admission_tells_nobody_that_it_was_forgotten() {
    let mut mesh = Mesh::new(2);
    mesh.apply(1, Add(1));
    let early = [mesh.state(0), mesh.state(1)];
    let tab = mesh.tab(0, 4);
    for state in &early {
        mesh.gets(tab, state);
    }
    mesh.in_order(&[0, 1, tab]);
    for state in &early {
        mesh.gets(tab, state);
    }
    assert_eq!(mesh.values([0, 1, tab]), [Some(5); 3]);
    let old = mesh.writer(0);
    let new = mesh.restarts(0);
    mesh.in_order(&[new, 1, tab]);
    assert!(!mesh.knows(tab, &old));
    let state = mesh.state(1);
    mesh.refuses(tab, &early[0], "gone"); // its sender was absorbed
    mesh.relays(tab, &early[0]);
    mesh.gets(tab, &early[1]);
    mesh.apply(tab, Add(16));
    mesh.gets(tab, &state);
    mesh.apply(tab, Delete);
    mesh.ends(&[new, 1, tab], None);
}

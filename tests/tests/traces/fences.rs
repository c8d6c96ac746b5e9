//! Writers that were fenced and still run, writers that leave meanwhile, and writers that have not received
//! their fence.

use crate::mesh::Mesh;
use tallymesh_core::Op::{Add, Delete};

// The time at which a retirement is final.

/// The tab runs and goes on. If it were retired at once, a replica that receives it first would see its later
/// adds. A replica that receives the retirement first would not.
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
    mesh.does(1, |replica| replica.members_mut().acknowledge());
    // From now on member 1 accepts nothing of the tab.
    mesh.apply(tab, Add(16));
    mesh.refuses(1, &mesh.state(tab), "behind");
    mesh.gets(0, &mesh.state(1));
    assert_eq!(mesh.values([0, 1, tab]), [Some(5), Some(5), Some(21)]);
    assert_eq!(mesh.absorbs(0), 1);
    mesh.refuses(0, &mesh.state(tab), "behind");
    mesh.refuses(tab, &mesh.state(0), "retired");
    mesh.ends(&[0, 1], Some(5));
}

/// The tab's sponsor is dead, and the successor has not received the tab's admission by it. So an
/// acknowledgement by this member does not yet cover the tab, which has not seen the delete.
#[test]
fn nothing_is_collected_before_the_successor_knows_for_whom_it_speaks() {
    let mut mesh = Mesh::new(3);
    mesh.apply(0, Add(1));
    mesh.in_order(&[0, 1, 2]);
    let tab = mesh.tab(2, 4);
    mesh.gets(1, &mesh.state(2));
    mesh.apply(0, Delete);
    mesh.keeps_only(0, &[0, 1]);
    mesh.fences(0, 2);
    assert!(mesh.does(0, |replica| replica.members_mut().acknowledge()));
    mesh.gets(1, &mesh.state(0));
    mesh.does(1, |replica| replica.members_mut().acknowledge());
    assert_eq!(mesh.values([0, 1, tab]), [None, Some(4), Some(5)]);
    assert!(!mesh.collects(1));
    mesh.meet(0, 1);
    mesh.meet(0, tab);
    assert_eq!(mesh.values([0, tab]), [Some(4), Some(4)]);
    mesh.does(tab, |replica| replica.members_mut().leave());
    mesh.gets(0, &mesh.since(tab, &mesh.vector(0)));
    mesh.ends(&[0, 1], Some(4));
}

/// Member 2 is fenced while it has a transaction of the tab that no other member has. A member that waits
/// only for acknowledgements of the tab's fence could retire the tab without this transaction. Meanwhile
/// member 0 does not have the fence of member 2 yet, and merges the transaction.
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
    mesh.does(0, |replica| replica.members_mut().acknowledge());
    mesh.gets(1, &mesh.state(0));
    assert_eq!(mesh.absorbs(1), 0); // member 2 has acknowledged nothing
    mesh.keeps_only(1, &[0, 1]);
    mesh.fences(1, 2);
    assert_eq!(mesh.absorbs(1), 0); // member 0 has not acknowledged this fence
    mesh.gets(0, &mesh.state(2));
    assert_eq!(
        mesh.values([0, 1, 2, tab]),
        [Some(5), Some(1), Some(5), Some(5)]
    );
    mesh.gets(0, &mesh.state(1));
    mesh.does(0, |replica| replica.members_mut().acknowledge());
    mesh.refuses(0, &mesh.state(2), "gone");
    mesh.gets(1, &mesh.state(0));
    assert_eq!(mesh.values([0, 1]), [Some(5), Some(5)]);
    assert_eq!(mesh.absorbs(1), 2);
    mesh.ends(&[0, 1], Some(5));
}

/// Two members fence each other, each as the other's successor. Neither may retire the other. A third member
/// retires both.
#[test]
fn dead_members_who_are_each_others_successors_find_a_third() {
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
    // A fenced writer's own messages are rejected, but others pass its changes on.
    mesh.refuses(2, &other, "gone");
    mesh.relays(2, &other);
    assert_eq!(mesh.values([0, 1, 2]), [Some(1), Some(4), Some(5)]);
    assert_eq!(mesh.absorbs(2), 0);
    mesh.keeps_only(2, &[2]);
    mesh.ends(&[2], Some(5));
}

// Writers that were retired and have not received this.

/// Member 2 was retired elsewhere and has not received this. It goes on and admits a tab. The tab's messages
/// contain changes of member 2 after the clock up to which it was retired.
#[test]
fn a_tab_that_was_taken_in_by_a_dead_member_is_refused() {
    let mut mesh = Mesh::new(3);
    mesh.apply(2, Add(1));
    mesh.meet(0, 2);
    mesh.keeps_only(0, &[0, 1]);
    mesh.fences(0, 2);
    mesh.gets(1, &mesh.state(0));
    mesh.does(1, |replica| replica.members_mut().acknowledge());
    mesh.gets(0, &mesh.state(1));
    assert_eq!(mesh.absorbs(0), 1);
    mesh.apply(2, Add(4));
    let orphan = mesh.tab(2, 16);
    assert_eq!(
        mesh.values([0, 1, 2, orphan]),
        [Some(1), Some(1), Some(21), Some(21)]
    );
    mesh.refuses(0, &mesh.state(orphan), "behind");
    // Member 1 has the fence, but not the retirement.
    mesh.refuses(1, &mesh.state(orphan), "behind");
    mesh.gets(1, &mesh.state(0));
    mesh.refuses(1, &mesh.state(orphan), "behind");
    mesh.ends(&[0, 1], Some(1));
    // The members have forgotten member 2 by now.
    for member in [0, 1] {
        mesh.refuses(member, &mesh.state(orphan), "behind");
        assert_eq!(mesh.value(member), Some(1));
    }
}

/// A leave is the tab's last message. If its sponsor still waited for the tab, no fence could be
/// acknowledged, and the other tab would never be retired.
#[test]
fn nobody_waits_for_one_who_has_left() {
    let mut mesh = Mesh::new(2);
    let (leaver, dead) = (mesh.tab(0, 1), mesh.tab(0, 4));
    mesh.in_order(&[0, 1, leaver, dead]);
    mesh.does(leaver, |replica| replica.members_mut().leave());
    let left = mesh.state(leaver);
    mesh.gets(1, &left);
    mesh.fences(1, dead);
    mesh.gets(0, &mesh.state(1));
    mesh.does(0, |replica| replica.members_mut().acknowledge());
    mesh.gets(1, &mesh.state(0));
    assert_eq!(mesh.values([0, 1, leaver, dead]), [Some(5); 4]);
    assert_eq!(mesh.absorbs(1), 1);
    mesh.ends(&[0, 1], Some(5));
}

/// A member's state from before the admission does not name the tab. This does not mean that the tab was
/// forgotten, even if its sponsor was itself retired and forgotten.
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
    mesh.refuses(tab, &early[0], "gone"); // its sender was retired
    mesh.relays(tab, &early[0]);
    mesh.gets(tab, &early[1]);
    mesh.apply(tab, Add(16));
    mesh.gets(tab, &state);
    mesh.apply(tab, Delete);
    mesh.ends(&[new, 1, tab], None);
}

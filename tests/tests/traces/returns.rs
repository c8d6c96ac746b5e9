//! Late returns. A tab that was given up replays its transactions that no member retired, under a new writer.
//! A replayed cancel covers exactly those of the operations it had seen that can still be told apart.

use crate::mesh::Mesh;
use tallymesh_core::Op::{self, Add, Delete, Set};

/// Checks a replayed delete: the number of others' parts that it cancels, and the number that it leaves.
fn is_delete(op: &tallymesh_core::AgainOp, cancels: usize, left: usize) {
    assert_eq!(op.op, Delete);
    assert_eq!((op.cancels.len(), op.left), (cancels, left), "{op:?}");
}

/// One round at member 0 for others: it requests their vectors, and sends its own.
fn asks(mesh: &mut Mesh) {
    mesh.collects(0);
    mesh.does(0, |replica| replica.members_mut().acknowledge());
}

/// Makes this history. Member 0 makes `own`, and then retires a first tab, whose part the second tab has
/// deleted. The returning tab has 256, and deletes everything that it sees. Then member 0 retires the second
/// tab, which has 16, and the returning tab.
///
/// Everything except the last delete counts, and reads 336.
fn between_two_absorptions(own: Op) -> (Mesh, usize) {
    let mut mesh = Mesh::new(2);
    let (first, second) = (mesh.tab(0, 1), mesh.tab(0, 1));
    mesh.in_order(&[0, 1, first, second]);
    mesh.apply(0, own);
    mesh.apply(first, Add(4));
    mesh.gets(second, &mesh.state(first));
    mesh.apply(second, Delete);
    mesh.apply(second, Add(16));
    mesh.does(first, |replica| replica.members_mut().leave());
    mesh.gets(0, &mesh.since(first, &mesh.vector(0)));
    assert_eq!(mesh.absorbs(0), 1);
    let late = mesh.tab(0, 256);
    mesh.apply(late, Delete);
    assert_eq!(mesh.values([second, late]), [Some(16), None]);
    mesh.does(second, |replica| replica.members_mut().leave());
    mesh.gets(0, &mesh.since(second, &mesh.vector(0)));
    mesh.fences(0, late);
    mesh.meet(0, 1);
    mesh.does(1, |replica| replica.members_mut().acknowledge());
    mesh.gets(0, &mesh.state(1));
    assert_eq!(mesh.absorbs(0), 2);
    assert_eq!(mesh.value(0), Some(336));
    (mesh, late)
}

/// The parts of both retirements are merged by now. The delete should cancel the first part and not the
/// second, and this is impossible. Applied unchanged, it would leave 268 or 272.
#[test]
fn a_late_delete_leaves_what_is_folded_with_later_absorptions() {
    // The set had cancelled the seen part of the second tab.
    for (own, seen) in [(Add(64), 2), (Set(64), 1)] {
        let (mut mesh, late) = between_two_absorptions(own);
        mesh.in_order(&[0, 1]);
        let again = mesh.returns(late, 0);
        assert_eq!(again.len(), 1);
        is_delete(&again[0], 0, seen);
        assert_eq!(mesh.values([0, 1, late]), [Some(336); 3]);
        mesh.ends(&[0, 1, late], Some(336));
    }
}

/// Member 0 can still tell the parts apart, and the tab rejoins through it. Member 1 no longer can.
#[test]
fn a_late_delete_leaves_what_others_may_have_folded() {
    // The set had cancelled the seen part of the second tab.
    for (own, seen) in [(Add(64), 2), (Set(64), 1)] {
        let (mut mesh, late) = between_two_absorptions(own);
        asks(&mut mesh);
        mesh.gets(1, &mesh.state(0));
        let before = mesh.bytes(1).len();
        assert!(mesh.collects(1) && mesh.bytes(1).len() < before);
        let again = mesh.returns(late, 0);
        is_delete(&again[0], 0, seen);
        mesh.gets(1, &mesh.state(late));
        assert_eq!(mesh.values([0, 1, late]), [Some(336); 3]);
        mesh.ends(&[0, 1, late], Some(336));
    }
}

/// The delete cancels what member 1 had added by then. The tab's own 4 was moved to its sponsor, where it can
/// no longer be told apart from the sponsor's other adds.
#[test]
fn a_late_delete_takes_what_is_told_apart() {
    let mut mesh = Mesh::new(2);
    mesh.apply(0, Add(1));
    mesh.apply(1, Add(64));
    mesh.meet(0, 1);
    let late = mesh.tab(0, 4);
    mesh.apply(late, Delete);
    mesh.apply(late, Add(16));
    mesh.fences(0, late);
    mesh.in_order(&[0, 1]);
    assert_eq!(mesh.values([0, 1, late]), [Some(69), Some(69), Some(16)]);
    let again = mesh.returns(late, 1);
    assert_eq!(again.len(), 2);
    is_delete(&again[0], 1, 1);
    assert_eq!(mesh.value(late), Some(21));
    mesh.ends(&[0, 1, late], Some(21));
}

/// The part that the delete saw was deleted meanwhile and begun anew. All replicas have seen this, and have
/// forgotten where the new lifetime began. Applied unchanged, the delete would leave 15.
#[test]
fn a_late_delete_leaves_a_life_whose_begin_is_forgotten() {
    let mut mesh = Mesh::new(2);
    mesh.apply(0, Add(1));
    let late = mesh.tab(0, 4);
    mesh.apply(late, Delete);
    mesh.apply(0, Delete);
    mesh.apply(0, Add(16));
    mesh.fences(0, late);
    mesh.in_order(&[0, 1]);
    assert_eq!(mesh.values([0, 1, late]), [Some(16), Some(16), None]);
    let again = mesh.returns(late, 0);
    is_delete(&again[0], 0, 1);
    mesh.ends(&[0, 1, late], Some(16));
}

/// The witness has seen the late tab's delete, was given up too, and has not received this. The tab's
/// replayed transactions are new ones for the witness.
///
/// The first delete cancelled the 4 of a third tab. This part was retired since, and no replica can remove it
/// any more. The witness keeps reading the same.
#[test]
fn what_is_made_again_is_new_to_one_who_saw_it_the_first_time() {
    let mut mesh = Mesh::new(2);
    let absorbed = mesh.tab(0, 4);
    let late = mesh.tab(0, 1);
    let witness = mesh.tab(0, 64);
    mesh.apply(late, Delete);
    mesh.apply(late, Add(16));
    mesh.gets(witness, &mesh.state(late));
    mesh.apply(witness, Add(256));
    assert_eq!(
        mesh.values([0, late, witness]),
        [Some(69), Some(16), Some(336)]
    );
    mesh.does(absorbed, |replica| replica.members_mut().leave());
    mesh.gets(0, &mesh.since(absorbed, &mesh.vector(0)));
    mesh.fences(0, late);
    mesh.fences(0, witness);
    mesh.meet(0, 1);
    mesh.does(1, |replica| replica.members_mut().acknowledge());
    mesh.gets(0, &mesh.state(1));
    assert_eq!(mesh.absorbs(0), 3);
    asks(&mut mesh);
    mesh.gets(1, &mesh.state(0));
    assert!(mesh.collects(1));
    let again = mesh.returns(late, 0);
    assert_eq!(again.len(), 2);
    is_delete(&again[0], 0, 1);
    assert_eq!(
        mesh.values([0, 1, late, witness]),
        [Some(69), Some(69), Some(85), Some(336)]
    );
    mesh.refuses(witness, &mesh.state(0), "retired");
    mesh.gets(1, &mesh.state(late));
    mesh.gets(0, &mesh.state(1));
    assert_eq!(
        mesh.values([0, 1, late, witness]),
        [Some(85), Some(85), Some(85), Some(336)]
    );
    let again = mesh.returns(witness, 1);
    assert_eq!(again.len(), 1);
    assert_eq!(mesh.value(witness), Some(341));
    mesh.meet(0, witness);
    mesh.ends(&[0, 1, late, witness], Some(341));
}

//! Short histories that are known to break counters of this kind. Each comment gives the number that a
//! plausible but wrong rule would read.

mod arrivals;
mod chunks;
mod fences;
mod mesh;
mod play;
mod retirement;
mod returns;

use play::Play;
use tallymesh_core::Op::{Add, Delete, Reset, Set};
use tallymesh_core::VersionVector;

const KEY: &[&str] = &["key"];

// Deliveries are causal.

/// The writer's shard of its new lifetime has 16. Without the delete on which it builds, the delivered
/// operations would sum up to 17.
#[test]
fn a_life_is_not_seen_before_the_delete_that_it_follows() {
    let mut play = Play::new(4, KEY);
    play.apply(0, Add(1));
    let first = play.state(0);
    play.gets(1, &first);
    let before_delete = play.vector(1);
    play.apply(1, Delete);
    let after_delete = play.vector(1);
    play.gets(0, &play.state(1));
    play.apply(0, Add(16));
    // The changes of writer 0 alone, for a replica that has the delete.
    let life = play.since(0, &after_delete);
    play.cannot_use(2, &life);
    assert_eq!(play.value(2), None);
    play.gets(2, &first);
    play.cannot_use(2, &life);
    assert_eq!(play.value(2), Some(1));
    // For a replica that has the first add, it contains the delete.
    play.gets(2, &play.since(0, &before_delete));
    assert_eq!(play.value(2), Some(16));
    play.gets(3, &play.state(0));
    assert_eq!(play.value(3), Some(16));
    play.ends(Some(16));
}

/// Two deletes saw a writer's part at different clocks, and only the longer one is stored. A replica has all
/// of the writer's adds, and receives the shorter delete through a replica with both. It must receive both,
/// or it would read 3, or 2 with a wrong remainder.
#[test]
fn two_deletes_that_saw_different_adds_are_kept_as_one_and_sent_as_one() {
    two_deletes(1, 2);
    two_deletes(2, 1);
}

/// Replica `of_one` makes the shorter delete, and `of_both` the longer one. Either may have the greater
/// writer id.
fn two_deletes(of_one: usize, of_both: usize) {
    let mut play = Play::new(6, KEY);
    play.apply(0, Add(1));
    let one = play.state(0);
    play.apply(0, Add(2));
    let both = play.state(0);
    play.gets(of_one, &one);
    play.apply(of_one, Delete);
    play.gets(of_both, &both);
    play.apply(of_both, Delete);
    let (short, long) = (play.state(of_one), play.state(of_both));
    // A replica that has both deletes, and one that has the adds only.
    play.gets(3, &short);
    play.gets(3, &long);
    play.gets(4, &both);
    assert_eq!(play.value(4), Some(3));
    play.gets(4, &play.since(3, &play.vector(4)));
    assert_eq!(play.value(4), None);
    // The shorter delete alone leaves the adds that it had not seen, and removes nothing later.
    play.gets(0, &short);
    assert_eq!(play.value(0), Some(2));
    play.gets(5, &long);
    play.gets(5, &short);
    assert_eq!(play.value(5), None);
    play.ends(None);
}

// Assignments.

/// A set that lost against another one must stay, so that a replica that saw it can delete it. If the loser
/// were removed at once, the delete would miss it, and 3 would come back.
#[test]
fn a_set_that_lost_is_deleted_with_the_one_that_won() {
    let mut play = Play::new(2, KEY);
    play.apply(0, Set(3));
    let lost = play.state(0);
    play.apply(1, Set(12));
    play.gets(1, &lost);
    assert_eq!(play.value(1), Some(12));
    play.apply(1, Delete);
    play.gets(0, &play.state(1));
    assert_eq!(play.value(0), None);
    play.ends(None);
}

/// The reverse: a delete that saw the winner only leaves the loser, which comes back.
#[test]
fn a_set_that_lost_comes_back_when_only_the_winner_is_deleted() {
    let mut play = Play::new(3, KEY);
    play.apply(0, Set(5));
    play.apply(1, Set(7));
    play.gets(2, &play.state(1));
    play.apply(2, Delete);
    play.gets(0, &play.state(1));
    assert_eq!(play.value(0), Some(7));
    play.gets(0, &play.state(2));
    assert_eq!(play.value(0), Some(5));
    play.ends(Some(5));
}

/// A set that lost still cancels everything that it saw, including operations that the winner had not seen.
#[test]
fn a_set_that_lost_still_cancels_what_it_saw() {
    let mut play = Play::new(3, KEY);
    play.apply(2, Add(100));
    play.gets(0, &play.state(2));
    play.apply(0, Set(5));
    play.apply(1, Set(7));
    play.gets(1, &play.state(2));
    assert_eq!(play.value(1), Some(107));
    play.gets(1, &play.state(0));
    assert_eq!(play.value(1), Some(7));
    play.ends(Some(7));
}

// Lifetimes.

/// A late delete cancels the lifetime that it saw. Subtracted from the new lifetime, it would leave 15.
#[test]
fn a_late_delete_of_an_old_life_leaves_the_new_one_alone() {
    let mut play = Play::new(2, KEY);
    play.apply(0, Add(1));
    let old = play.state(0);
    play.apply(0, Delete);
    play.apply(0, Add(16));
    let new = play.state(0);
    play.gets(1, &old);
    play.apply(1, Delete);
    play.gets(1, &new);
    assert_eq!(play.value(1), Some(16));
    play.ends(Some(16));
}

// The records that are removed, and the times of this.

/// In a space without a membership, the record of a deleted counter stays. So no older change can bring the
/// counter back. Without the record, 1 would be read.
#[test]
fn nothing_of_a_deleted_counter_is_dropped_in_an_open_space() {
    let mut play = Play::new(4, KEY);
    play.apply(0, Add(1));
    let add = play.state(0);
    let vector = play.vector(0);
    play.apply(0, Delete);
    let (deleted, delete) = (play.state(0), play.since(0, &vector));
    // In order; with the late add last; and with the delete alone on top of the add.
    play.gets(1, &add);
    play.gets(1, &deleted);
    assert_eq!(play.value(1), None);
    play.gets(2, &deleted);
    play.gets(2, &add);
    assert_eq!(play.value(2), None);
    play.gets(3, &add);
    assert_eq!(play.value(3), Some(1));
    play.gets(3, &delete);
    assert_eq!(play.value(3), None);
    play.ends(None);
    // A replica that received it from one without the add can still send it to others.
    assert_eq!(play.since(2, &vector), delete);
}

/// Cancelled operations are not stored. A thousand lifetimes take the bytes of one, and a few more for the
/// longer numbers.
#[test]
fn a_thousand_lives_take_the_room_of_one() {
    let mut play = Play::new(2, KEY);
    let life = |play: &mut Play| {
        for writer in [0, 1] {
            play.apply(writer, Add(1));
        }
        for (one, other) in [(0, 1), (1, 0)] {
            play.gets(one, &play.since(other, &play.vector(one)));
        }
        play.apply(0, Delete);
        play.apply(1, Reset);
        for (one, other) in [(0, 1), (1, 0)] {
            play.gets(one, &play.since(other, &play.vector(one)));
        }
        assert_eq!(play.value(0), Some(0));
        play.bytes(0).len()
    };
    life(&mut play);
    let few = life(&mut play);
    let many = (0..1_000).map(|_| life(&mut play)).max();
    // Each of the few stored numbers may grow from one byte to two.
    assert!(many.is_some_and(|many| many <= few + 12), "{few}, {many:?}");
    play.ends(Some(0));
}

// Transactions.

/// The first transaction changes both keys, and a later one overwrites the shard of one of them. A replica
/// that selects shards by a greatest clock would see half of the first transaction.
#[test]
fn a_transaction_stays_whole_when_a_later_one_overwrites_half_of_it() {
    let mut play = Play::new(3, &["key", "other"]);
    play.apply(0, Add(100));
    let before = play.vector(0);
    play.gets(1, &play.state(0));
    play.transact(0, &[(0, Add(-5)), (1, Add(5))]);
    let between = play.vector(0);
    play.apply(0, Add(1));
    // The changes after the first transaction need it, and neither part of them goes alone.
    let later = play.since(0, &between);
    play.cannot_use(1, &later);
    assert_eq!((play.value(1), play.value_of(1, 1)), (Some(100), None));
    play.cannot_use(2, &play.since(0, &before));
    assert_eq!((play.value(2), play.value_of(2, 1)), (None, None));
    play.gets(1, &play.since(0, &before));
    assert_eq!((play.value(1), play.value_of(1, 1)), (Some(96), Some(5)));
    play.gets(2, &play.since(0, &VersionVector::default()));
    play.ends(Some(96));
}

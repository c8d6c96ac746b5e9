//! Slots by hand: what is collected when, and what is left of it.

use super::*;
use crate::Owner;
use crate::membership::stability::Quorum;
use crate::message::Message;
use crate::message::records::Ack;
use crate::message::records::{Admit, Fence, Retired};
use crate::optional::Optional;
use crate::state::page::Row;
use crate::state::page::{OWN, PAGE};
use crate::state::slot::{
    Assignment, Expiry, Extra, Fold, Lift, Moved, RankedAssignment, Slot, Watermark, Withdrawal,
};
use crate::state::sweep::fold;
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec;

fn ids() -> Vec<WriterId> {
    (0..9)
        .map(|byte| WriterId::from_bytes([byte; 16]))
        .collect()
}

fn by(writer: u32, clock: u64) -> Stamp {
    Stamp { writer, clock }
}

fn plain(writer: u32, clock: u64, total: i64) -> Slot {
    Slot::new(writer, Row { clock, total }, None)
}

fn slot(writer: u32, clock: u64, extra: Extra) -> Slot {
    let mut slot = plain(writer, clock, 0);
    slot.set_shard(clock, 7, extra);
    slot
}

fn child(mut slot: Slot, to: Stamp, amount: i128) -> Slot {
    slot.side.moved.set(Some(Box::new(Moved { to, amount })));
    slot
}

fn watermark(slot: &mut Slot, clock: u64, total: i128, by: Stamp) {
    slot.side.watermark = Some(Watermark { clock, total, by });
}

fn lift(slot: &mut Slot, clock: u64, by: Stamp) {
    slot.side.lift = Some(Box::new(Lift { clock, by }));
}

/// The remaining slots, whether anything was collected, and whether anything waits, if all members have
/// everything but `unseen`.
fn swept(slots: &[Slot], unseen: &[Stamp]) -> (Vec<Slot>, bool, bool) {
    let mut slots = slots.to_vec();
    let before = slots.clone();
    let mut waits = false;
    let stable = |stamp: Stamp| !unseen.contains(&stamp);
    let changed = sweep(&mut slots, &ids(), &stable, &mut waits);
    assert_eq!(changed, slots != before);
    (slots, changed, waits)
}

fn fold_of(slot: &Slot) -> Fold {
    **slot.side.fold.as_ref().expect("something was folded")
}

#[test]
fn a_dead_slot_goes_when_all_have_seen_it_and_what_killed_it() {
    let mut dead = plain(1, 5, 7);
    watermark(&mut dead, 5, 7, by(2, 9));
    let one = [dead.clone()];
    assert_eq!(swept(&one, &[]), (vec![], true, false));
    for unseen in [by(1, 5), by(2, 9)] {
        assert_eq!(swept(&one, &[unseen]), (one.to_vec(), false, true));
    }
    lift(&mut dead, 5, by(3, 8));
    assert_eq!(
        swept(&[dead.clone()], &[by(3, 8)]),
        (vec![dead], false, true)
    );
    let alive = [plain(1, 5, 7)];
    assert_eq!(swept(&alive, &[]), (alive.to_vec(), false, false));
    assert_eq!(swept(&alive, &[by(1, 5)]), (alive.to_vec(), false, false));
}

fn withdrawal(clock: u64, amount: i128, before: u64, by: Stamp) -> Withdrawal {
    Withdrawal {
        clock,
        amount,
        before,
        several: false,
        by,
    }
}

#[test]
fn withdrawals_are_joined_when_all_have_seen_them() {
    let mut one = plain(1, 12, 100);
    let (first, last) = (withdrawal(5, 2, 3, by(2, 9)), withdrawal(8, 4, 5, by(3, 9)));
    one.side.withdrawals.set(vec![first]);
    for unseen in [&[][..], &[by(1, 5)]] {
        let same = vec![one.clone()];
        assert_eq!(swept(&[one.clone()], unseen), (same, false, false));
    }
    one.side.withdrawals.set(vec![first, last]);
    for unseen in [by(2, 9), by(3, 9), by(1, 8)] {
        let same = vec![one.clone()];
        assert_eq!(swept(&[one.clone()], &[unseen]), (same, false, true));
    }
    let joined = |before| Withdrawal {
        amount: 6,
        before,
        several: true,
        ..last
    };
    let (left, changed, waits) = swept(&[one.clone()], &[]);
    assert_eq!(*left[0].side.withdrawals, vec![joined(3)]);
    assert!(changed && !waits);
    // An add between them was not withdrawn.
    one.side.withdrawals.stored()[1].before = 6;
    let (left, ..) = swept(&[one], &[]);
    assert_eq!(*left[0].side.withdrawals, vec![joined(6)]);
}

#[test]
fn a_slot_stays_until_all_have_seen_what_was_withdrawn_of_it() {
    let mut dead = plain(1, 5, 7);
    dead.side
        .withdrawals
        .set(vec![withdrawal(5, 7, 0, by(2, 9))]);
    let one = [dead];
    assert_eq!(swept(&one, &[]), (vec![], true, false));
    assert_eq!(swept(&one, &[by(2, 9)]), (one.to_vec(), false, true));
}

#[test]
fn a_child_is_folded_when_all_have_seen_its_absorption_and_its_watermark() {
    let successor = plain(0, 9, 20);
    let mut one = child(plain(1, 3, 5), by(0, 8), 4);
    let both = [successor.clone(), one.clone()];
    let (left, changed, waits) = swept(&both, &[]);
    assert!(changed && !waits && left.len() == 1);
    let fold = fold_of(&left[0]);
    assert_eq!((fold.clock, fold.amount, fold.adds), (8, 1, true));
    assert_eq!(swept(&both, &[by(0, 8)]), (both.to_vec(), false, true));
    watermark(&mut one, 2, 3, by(2, 6));
    let both = [successor, one];
    assert_eq!(swept(&both, &[by(2, 6)]), (both.to_vec(), false, true));
    // 5 of which 3 are cancelled, and 4 were moved.
    assert_eq!(fold_of(&swept(&both, &[]).0[0]).amount, -2);
}

#[test]
fn children_of_children_are_folded_first() {
    let all = [
        plain(0, 9, 20),
        child(plain(1, 7, 5), by(0, 8), 5),
        child(plain(2, 3, 6), by(1, 6), 4),
    ];
    let (left, changed, waits) = swept(&all, &[]);
    assert!(changed && !waits && left.len() == 1);
    assert_eq!(fold_of(&left[0]).amount, 2);
    // The inner one waits, so the outer one does.
    assert_eq!(swept(&all, &[by(1, 6)]), (all.to_vec(), false, true));
    // The inner one is folded into the outer one, which waits.
    let (left, changed, waits) = swept(&all, &[by(0, 8)]);
    assert!(changed && waits && left.len() == 2);
    assert_eq!(fold_of(&left[1]).amount, 2);
}

#[test]
fn what_is_folded_adds_up() {
    let sum = |amount, adds, value, until| counter::Sum {
        amount,
        adds,
        assignment: Some(RankedAssignment {
            set: true,
            clock: 1,
            writer: ids()[1],
            value,
        }),
        until: Some(until),
    };
    let mut parent = plain(0, 9, 20);
    lift(&mut parent, 5, by(1, 1));
    fold(&mut parent, 6, &sum(10, false, 3, 100), 4);
    let first = fold_of(&parent);
    assert_eq!((first.clock, first.amount, first.adds), (6, 6, false));
    assert_eq!(first.until, Some(100));
    fold(&mut parent, 5, &sum(1, true, 2, 200), 4);
    let second = fold_of(&parent);
    assert_eq!((second.clock, second.amount, second.adds), (6, 3, true));
    assert_eq!(
        (second.assignment, second.until),
        (first.assignment, Some(100))
    );
    fold(&mut parent, 8, &sum(0, false, 9, 50), 0);
    let third = fold_of(&parent);
    assert_eq!((third.clock, third.amount, third.adds), (8, 3, true));
    assert_eq!(
        (third.assignment.unwrap().value, third.until),
        (9, Some(100))
    );
    // An expiry that is lifted by now is not to come back under a later clock.
    for (lifted, until) in [(7, Some(300)), (8, None), (9, None)] {
        let mut parent = parent.clone();
        lift(&mut parent, lifted, by(1, 1));
        fold(&mut parent, 9, &counter::Sum::default(), -1);
        assert_eq!(fold_of(&parent).until, Some(100).filter(|_| lifted < 8));
        parent.side.fold.set(None);
        fold(&mut parent, 8, &sum(0, false, 9, 300), 0);
        assert_eq!(fold_of(&parent).until, until);
    }
}

#[test]
fn nothing_is_not_folded() {
    let mut parent = plain(0, 9, 20);
    let nothing = counter::Sum {
        amount: 4,
        ..counter::Sum::default()
    };
    fold(&mut parent, 8, &nothing, 4);
    assert_eq!(*parent.side.fold, None);
    // Two that come to nothing together.
    fold(&mut parent, 7, &nothing, 3);
    fold(&mut parent, 8, &nothing, 5);
    assert_eq!(*parent.side.fold, None);
    fold(&mut parent, 7, &nothing, 3);
    fold(&mut parent, 8, &nothing, 4);
    assert_eq!(fold_of(&parent).clock, 7);
}

#[test]
fn the_begin_of_a_lifetime_is_forgotten_when_all_have_seen_it() {
    let extra = Extra {
        began: 4,
        added: 6,
        ..Extra::default()
    };
    let one = [slot(1, 6, extra)];
    let (left, _, waits) = swept(&one, &[]);
    assert_eq!((left[0].began(), waits), (0, false));
    assert_eq!(left, [plain(1, 6, 7)]);
    assert_eq!(swept(&one, &[by(1, 4)]), (one.to_vec(), false, true));
    // An assignment is of the clock at which the lifetime began.
    let with = Extra {
        assignment: Some(Assignment::Set(3)),
        ..extra
    };
    let mut one = [slot(1, 6, with)];
    assert_eq!(swept(&one, &[]), (one.to_vec(), false, false));
    watermark(&mut one[0], 5, 0, by(2, 9));
    assert_eq!(swept(&one, &[by(2, 9)]), (one.to_vec(), false, true));
    let left = &swept(&one, &[]).0[0];
    assert_eq!((left.extra().assignment, left.began()), (None, 0));
    let left = &swept(&one, &[by(1, 4)]).0[0];
    assert_eq!((left.extra().assignment, left.began()), (None, 4));
}

#[test]
fn an_expiry_that_was_taken_away_goes_when_all_have_seen_that() {
    let extra = Extra {
        added: 6,
        expiry: Some(Expiry::new(5, 100)),
        ..Extra::default()
    };
    let living = [slot(1, 6, extra)];
    assert_eq!(swept(&living, &[]), (living.to_vec(), false, false));
    for lifted in [4, 5, 6] {
        let mut one = [slot(1, 6, extra)];
        lift(&mut one[0], lifted, by(2, 9));
        let (left, _, waits) = swept(&one, &[]);
        let dead = lifted >= 5;
        assert_eq!(left[0].extra().expiry.is_some(), !dead);
        assert!(left[0].side.lift.is_none() && !waits);
        let (left, changed, waits) = swept(&one, &[by(2, 9)]);
        assert_eq!((left, changed, waits), (one.to_vec(), false, true));
        let (left, _, waits) = swept(&one, &[by(1, 5)]);
        assert_eq!(left[0].side.lift.is_some(), dead);
        assert_eq!((left[0].extra().expiry, waits), (extra.expiry, dead));
    }
    let mut one = [slot(1, 6, extra)];
    watermark(&mut one[0], 5, 0, by(2, 9));
    assert_eq!(swept(&one, &[]).0[0].extra().expiry, None);
    let (left, _, waits) = swept(&one, &[by(1, 5)]);
    assert_eq!((left, waits), (one.to_vec(), true));
}

#[test]
fn a_lift_goes_with_what_it_lifts() {
    let with = |clock, amount| {
        let mut one = plain(0, 9, 20);
        lift(&mut one, 6, by(2, 9));
        one.side.fold.set(Some(Box::new(Fold {
            clock,
            amount,
            adds: false,
            assignment: None,
            until: Some(100),
        })));
        one
    };
    for (clock, until) in [(5, None), (6, None), (7, Some(100))] {
        let (left, _, waits) = swept(&[with(clock, 3)], &[]);
        assert!(left[0].side.lift.is_none() && !waits);
        assert_eq!(fold_of(&left[0]).until, until);
        let left = &swept(&[with(clock, 0)], &[]).0[0];
        assert_eq!(left.side.fold.is_some(), until.is_some());
    }
    // A child that is not folded yet may have an expiry that it lifts.
    let successor = {
        let mut one = with(7, 3);
        one.side.fold.set(None);
        one
    };
    let both = [successor, child(plain(1, 3, 5), by(0, 8), 4)];
    assert_eq!(swept(&both, &[by(0, 8)]), (both.to_vec(), false, true));
}

/// Two members who know each other, and a tab of the first.
pub(crate) fn space() -> [Replica; 3] {
    let owners: [Owner; 2] = [[1; 32], [2; 32]];
    let space = crate::Space::default();
    let start =
        |owner: &Owner| Replica::new(space.clone(), WriterId::mint(&space, owner, &[7; 16]));
    let [mut one, mut two] = [start(&owners[0]), start(&owners[1])];
    one.members_mut().found(&owners[0], &[7; 16], 1).unwrap();
    one.members_mut().force(&owners).unwrap();
    pass(&one, &mut two);
    two.members_mut().announce(&owners[1], &[7; 16], 1).unwrap();
    for _ in 0..4 {
        pass(&one, &mut two);
        pass(&two, &mut one);
        one.members_mut().acknowledge().unwrap();
        two.members_mut().acknowledge().unwrap();
    }
    let mut tab = start(&[9; 32]);
    pass(&one, &mut tab);
    tab.add("k", 1).unwrap();
    pass(&tab, &mut one);
    [one, two, tab]
}

fn pass(from: &Replica, to: &mut Replica) {
    let message = from.delta(&to.vector());
    to.merge_with(&message, Some(from.writer()), &mut |_| ())
        .unwrap();
}

fn said(replica: &mut Replica) -> Ack {
    replica.membership.table_mut().stored().waiting = true;
    replica.membership.table_mut().stored().pending = None;
    assert!(replica.members_mut().acknowledge().unwrap());
    (**replica.membership.table().writer_states[OWN as usize]
        .ack
        .as_ref()
        .unwrap())
    .clone()
}

/// A member speaks for its tabs: what they have not seen, it has not either.
#[test]
fn a_member_acknowledges_what_its_tabs_have_seen() {
    let [mut one, mut two, mut tab] = space();
    let seen = tab.vector().get(&one.writer());
    one.add("k", 1).unwrap();
    one.add("k", 1).unwrap();
    assert_eq!(said(&mut one).of(OWN), seen);
    pass(&one, &mut tab);
    pass(&tab, &mut one);
    // A member need not acknowledge what only it waits for.
    one.membership.table_mut().stored().waiting = false;
    assert!(!one.members_mut().acknowledge().unwrap());
    let seen = tab.vector().get(&one.writer());
    assert_eq!(said(&mut one).of(OWN), seen + 1);
    // Without tabs the acknowledgement is part of what is seen.
    two.add("k", 1).unwrap();
    let ack = said(&mut two);
    assert_eq!((ack.of(OWN), ack.want), (two.clock(), two.clock()));
}

#[test]
fn an_acknowledgement_waits_for_tabs_and_is_held_up_by_them() {
    let [mut one, mut two, mut tab] = space();
    for replica in [&mut one, &mut two] {
        replica.membership.table_mut().stored().waiting = false;
    }
    assert!(!one.membership.is_held_up(&one.state));
    said(&mut two);
    pass(&two, &mut one);
    one.membership.table_mut().stored().waiting = false;
    assert!(!one.members_mut().acknowledge().unwrap());
    assert!(one.membership.is_held_up(&one.state));
    pass(&one, &mut tab);
    pass(&tab, &mut one);
    assert!(
        !one.membership.is_held_up(&one.state),
        "it can acknowledge now"
    );
    assert!(one.members_mut().acknowledge().unwrap());
    assert!(!one.membership.is_held_up(&one.state) && !tab.membership.is_held_up(&tab.state));
}

/// A replica gets one acknowledgement for new records for which others wait. No other replica gets one.
#[test]
fn an_acknowledgement_is_made_when_somebody_waits_for_it() {
    let [mut one, mut two, _] = space();
    for replica in [&mut one, &mut two] {
        replica.membership.table_mut().stored().waiting = false;
        assert!(!replica.members_mut().acknowledge().unwrap());
    }
    one.add("k", 1).unwrap();
    pass(&one, &mut two);
    assert!(!two.members_mut().acknowledge().unwrap(), "nobody asks");
    said(&mut one);
    pass(&one, &mut two);
    assert!(two.members_mut().acknowledge().unwrap());
    assert!(!two.members_mut().acknowledge().unwrap());
    pass(&two, &mut one);
    one.membership.table_mut().stored().waiting = false;
    assert!(!one.members_mut().acknowledge().unwrap());
    // Another owner's first incarnation.
    let owners = [[1; 32], [2; 32], [3; 32]];
    one.members_mut().force(&owners).unwrap();
    let mut three = Replica::new(
        crate::Space::default(),
        WriterId::mint(&crate::Space::default(), &owners[2], &[7; 16]),
    );
    pass(&one, &mut three);
    three
        .members_mut()
        .announce(&owners[2], &[7; 16], 1)
        .unwrap();
    pass(&one, &mut two);
    two.members_mut().acknowledge().unwrap();
    assert!(!two.members_mut().acknowledge().unwrap());
    pass(&three, &mut two);
    assert!(two.members_mut().acknowledge().unwrap());
}

/// Whatever is heard of a dead member is answered, once, so that its successor is known to have all of it.
#[test]
fn what_is_heard_of_a_dead_member_is_acknowledged() {
    let [mut one, mut two, mut tab] = space();
    one.membership.table_mut().stored().waiting = false;
    one.members_mut().fence(&two.writer()).unwrap();
    let mut heard = |one: &mut Replica| {
        // A member speaks for its tabs, too.
        pass(one, &mut tab);
        pass(&tab, one);
        one.membership.table_mut().stored().waiting = false;
        one.members_mut().acknowledge().unwrap()
    };
    assert!(heard(&mut one), "it is heard of for the first time");
    assert!(!heard(&mut one));
    two.add("k", 1).unwrap();
    one.merge(&two.delta(&one.vector())).unwrap();
    assert!(heard(&mut one), "others knew more of it");
    assert!(!heard(&mut one));
}

/// A new replica knows what was collected before it came, however the state came to it.
#[test]
fn a_new_replica_takes_over_what_was_collected() {
    let [mut one, mut two, mut tab] = space();
    assert!(!one.state.has_collected());
    let mut mark = Mark::default();
    one.apply("k", crate::Op::Delete).unwrap();
    for _ in 0..6 {
        pass(&one, &mut tab);
        pass(&tab, &mut one);
        pass(&one, &mut two);
        pass(&two, &mut one);
        one.members_mut().acknowledge().unwrap();
        two.members_mut().acknowledge().unwrap();
        one.since(&mut mark);
        one.members_mut().collect(&mark);
    }
    assert!(
        one.state.has_collected(),
        "slots that come again must say that they begin a lifetime"
    );
    assert!(
        one.is_empty()
            && one
                .membership
                .table()
                .collected
                .iter()
                .any(|clock| *clock > 0)
    );
    let all = one.delta(&VersionVector::default());
    let start = |byte| Replica::new(crate::Space::default(), WriterId::from_bytes([byte; 16]));
    let [mut merged, mut staged] = [start(1), start(2)];
    merged.merge(&all).unwrap();
    staged.merge_staged(&[], &all, None, &mut |_| ()).unwrap();
    let collected = |replica: &Replica| {
        let collected = replica
            .membership
            .table()
            .collected
            .iter()
            .zip(replica.state.ids());
        let mut collected: Vec<(WriterId, u64)> =
            collected.map(|(clock, it)| (*it, *clock)).collect();
        collected.retain(|(_, clock)| *clock > 0);
        collected.sort_unstable();
        collected
    };
    assert!(!collected(&merged).is_empty());
    assert_eq!(collected(&staged), collected(&merged));
    // A replica that is behind that gets everything.
    let old = tab.vector().without(&[two.writer()]);
    assert!(
        staged
            .membership
            .lows(&staged.state, &old)
            .iter()
            .all(|low| *low == 0)
    );
}

fn number(replica: &Replica, of: &Replica) -> u32 {
    replica.state.number_of(&of.writer()).expect("it is known")
}

/// All have acknowledged everything.
fn all_stable(replica: &mut Replica) -> (Quorum, Vec<u64>) {
    let quorum = Quorum {
        members: vec![],
        own: vec![],
        firm: true,
        stable: true,
    };
    let all = vec![u64::MAX; replica.state.ids().len()];
    replica.membership.table_mut().stored().stable = all.clone();
    (quorum, all)
}

#[test]
fn an_incarnations_place_is_certain_when_all_have_acknowledged_it() {
    let [one, two, tab] = space();
    let (member, guest) = (number(&one, &two), number(&one, &tab));
    let clock = one.membership.table().writer_states[member as usize]
        .announce
        .as_ref()
        .unwrap()
        .clock;
    for (stable, certain) in [(clock - 1, false), (clock, true), (clock + 1, true)] {
        let mut one = one.clone();
        let (quorum, _) = all_stable(&mut one);
        one.membership.table_mut().stored().pending = None;
        one.membership.table_mut().stored().stable = vec![stable; 3];
        one.membership.table_mut().stored().writer_states[member as usize].base = Some([].into());
        one.membership.table_mut().stored().writer_states[guest as usize].base = Some([].into());
        one.membership.table_mut().stored().vouched =
            vec![(two.writer(), member), (two.writer(), guest)];
        one.membership.raise_stable(&one.state, &quorum);
        assert_eq!(
            one.membership.table().writer_states[member as usize]
                .base
                .is_none(),
            certain
        );
        assert!(
            one.membership.table().writer_states[guest as usize]
                .base
                .is_some()
        );
        let kept = if certain { 1 } else { 2 };
        assert_eq!(one.membership.table().vouched.len(), kept);
        assert_eq!(one.membership.table().vouched[kept - 1].1, guest);
        one.membership.table_mut().stored().stable = vec![0, 5, 0];
        assert_eq!(one.members().stable().len(), 1);
    }
}

#[test]
fn whoever_begins_again_keeps_no_keys_but_those_in_use() {
    let [mut one, ..] = space();
    let keys: Vec<alloc::string::String> = (0..PAGE + 3).map(|at| alloc::format!("{at}")).collect();
    for key in &keys {
        one.add(key, 1).unwrap();
    }
    one.intern("7").unwrap();
    let counters = one.clear(WriterId::from_bytes([50; 16]));
    assert_eq!(counters.len(), keys.len() + 1);
    for key in &keys {
        assert_eq!(one.key_id(key).is_some(), key == "7", "{key}");
    }
    assert_eq!(one.key_id("k"), None);
}

mod forgotten;
mod horizon;
mod memory;
mod sponsors;

//! Ends of expired counters at two members and a guest, and what is decided on them.

use super::*;
use crate::bounds::{EXPIRED_MAX, EXPIRED_SLOTS_MAX};
use crate::error::{DecodeError, Rule, ScopeError};
use crate::replica::collect::tests::space;
use crate::state::counter::Act;
use crate::state::operation::Op;
use crate::state::page::Row;
use crate::state::slot::Expired;
use crate::wire::Encode;
use crate::{Message, VersionVector};

/// The time at which the counter expires at the start.
const TIME: u64 = 1_000;

/// Two members and a guest that see a counter of 10, which expires at `TIME`.
fn begun() -> [Replica; 3] {
    let [mut one, mut two, mut guest] = space();
    one.transact(&[("n", Op::Add(10)), ("n", Op::Expire(TIME))])
        .unwrap();
    both(&mut one, &mut two);
    both(&mut one, &mut guest);
    [one, two, guest]
}

fn pass(from: &Replica, to: &mut Replica) {
    let bytes = from.delta(&to.vector()).encode();
    let message = Message::decode(&bytes).unwrap();
    assert_eq!(message.encode(), bytes);
    to.merge_with(&message, Some(from.writer()), &mut |_| ())
        .unwrap();
    if !to.members().is_member() {
        let (stable, seen) = (from.members().stable(), from.vector());
        to.members_mut().accept_stable(&stable, &seen);
    }
}

fn both(one: &mut Replica, two: &mut Replica) {
    pass(one, two);
    pass(two, one);
}

/// Ends the counter by a clock that is as far as needed, and sets the clock back.
fn end(replica: &mut Replica) {
    let key_id = replica.key_id("n").unwrap();
    replica.set_time(u64::MAX);
    assert_eq!(replica.materialize_expiry(key_id), Ok(true));
    replica.set_time(0);
}

fn reads(replica: &Replica) -> (Option<i128>, Option<u64>) {
    let key_id = replica.key_id("n");
    let expiry = key_id.and_then(|it| replica.expiry_at(it));
    (replica.value("n"), expiry)
}

fn open(replica: &Replica) -> usize {
    let slots = replica.state.slots(replica.key_id("n").unwrap());
    slots.iter().map(|slot| slot.side.expired.len()).sum()
}

/// One round of the duties of the replicas. Each decides before it collects.
fn round(all: &mut [Replica]) {
    for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0)] {
        if from.max(to) < all.len() {
            let from = all[from].clone();
            pass(&from, &mut all[to]);
        }
    }
    for replica in all {
        replica.members_mut().acknowledge().unwrap();
        let kept = replica.mark();
        replica.members_mut().decide_expiries(&kept).unwrap();
        replica.members_mut().collect(&kept);
    }
}

/// Rounds until nothing is open and all have equal bytes.
fn settle(all: &mut [Replica]) {
    for _ in 0..20 {
        round(all);
    }
    let first = all[0].canonical_bytes();
    for replica in all.iter() {
        let open = replica.open_counters();
        assert!(open.is_empty(), "{open:?}");
        assert_eq!(replica.canonical_bytes(), first);
    }
}

/// Returns the counter's value and expiry if the first member ends it while the second one makes these operations.
fn beside(ops: &[Op]) -> (Option<i128>, Option<u64>) {
    let mut all = begun();
    end(&mut all[0]);
    assert_eq!(reads(&all[0]), (None, None));
    for op in ops {
        all[1].apply("n", *op).unwrap();
    }
    let [one, two, _] = &mut all;
    both(one, two);
    let read = reads(&all[0]);
    assert_eq!(reads(&all[1]), read);
    settle(&mut all);
    for replica in &all {
        assert_eq!(reads(replica), read);
    }
    read
}

#[test]
fn a_later_expiry_or_a_persist_beats_an_end_that_had_not_seen_it() {
    assert_eq!(beside(&[Op::Expire(2_000)]), (Some(10), Some(2_000)));
    assert_eq!(beside(&[Op::Persist]), (Some(10), None));
    assert_eq!(beside(&[Op::Expire(TIME)]), (None, None));
    assert_eq!(beside(&[Op::Expire(500)]), (None, None));
    assert_eq!(beside(&[Op::Add(3)]), (Some(3), None));
    assert_eq!(
        beside(&[Op::Add(3), Op::Persist, Op::Add(4)]),
        (Some(17), None)
    );
    // A refresh that was taken back saves nothing.
    assert_eq!(beside(&[Op::Persist, Op::Expire(500)]), (None, None));
    assert_eq!(beside(&[Op::Persist, Op::Delete]), (None, None));
    assert_eq!(beside(&[Op::Set(50)]), (Some(50), None));
    assert_eq!(beside(&[Op::Reset]), (Some(0), None));
    assert_eq!(beside(&[Op::Delete, Op::Add(1)]), (Some(1), None));
}

/// The counter has what was counted before the refresh, beside what was added since the end.
#[test]
fn what_was_added_since_the_end_stays_beside_what_is_there_again() {
    let [mut one, mut two, mut guest] = begun();
    end(&mut one);
    assert_eq!(one.apply("n", Op::Add(5)), Ok(false));
    assert_eq!(reads(&one), (Some(5), None));
    two.apply("n", Op::Expire(3_000)).unwrap();
    both(&mut one, &mut two);
    assert_eq!(reads(&one), (Some(15), Some(3_000)));
    assert_eq!(reads(&two), (Some(15), Some(3_000)));
    both(&mut one, &mut guest);
    assert_eq!(reads(&guest), (Some(15), Some(3_000)));
    let mut all = [one, two, guest];
    settle(&mut all);
    assert_eq!(reads(&all[2]), (Some(15), Some(3_000)));
}

/// A write to an expired counter ends it first.
#[test]
fn a_write_ends_an_expired_counter_by_a_record_that_can_be_void() {
    let [mut one, mut two, _] = begun();
    one.set_time(TIME);
    one.add("n", 5).unwrap();
    assert_eq!((reads(&one), open(&one)), ((Some(5), None), 1));
    two.apply("n", Op::Persist).unwrap();
    both(&mut one, &mut two);
    assert_eq!(reads(&one), (Some(15), None));
    // A counter that the same transaction changed before gets a delete.
    let ops = [
        ("n", Op::Add(1)),
        ("n", Op::Expire(TIME)),
        ("n", Op::Add(7)),
    ];
    one.transact(&ops).unwrap();
    assert_eq!((reads(&one), open(&one)), ((Some(7), None), 1));
}

/// A refresh of a later lifetime saves nothing of an earlier one.
#[test]
fn a_refresh_notes_the_end_of_the_lifetime_before() {
    let [mut one, mut two, mut guest] = begun();
    guest.add("n", 100).unwrap();
    both(&mut guest, &mut two);
    // The second member ends what it sees, and has not heard of what the first one does.
    end(&mut one);
    one.add("n", 5).unwrap();
    one.apply("n", Op::Expire(7_000)).unwrap();
    end(&mut two);
    both(&mut one, &mut two);
    assert_eq!(reads(&one), (Some(5), Some(7_000)));
    both(&mut one, &mut guest);
    let mut all = [one, two, guest];
    settle(&mut all);
    assert_eq!(reads(&all[1]), (Some(5), Some(7_000)));
}

/// The counter goes on when its end is void, and a shorter time then does not bring the end back.
#[test]
fn an_end_that_somebody_saw_void_stays_void() {
    let [mut one, mut two, mut guest] = begun();
    end(&mut one);
    two.apply("n", Op::Expire(7_000)).unwrap();
    both(&mut one, &mut two);
    two.apply("n", Op::Expire(500)).unwrap();
    assert_eq!(reads(&two), (Some(10), Some(500)));
    both(&mut one, &mut two);
    both(&mut one, &mut guest);
    for replica in [&one, &two, &guest] {
        assert_eq!(reads(replica), (Some(10), Some(500)));
    }
    let mut all = [one, two, guest];
    settle(&mut all);
    assert_eq!(reads(&all[0]), (Some(10), Some(500)));
}

#[test]
fn an_explicit_delete_takes_what_an_end_hides() {
    let [mut one, mut two, mut guest] = begun();
    end(&mut one);
    one.add("n", 5).unwrap();
    one.apply("n", Op::Delete).unwrap();
    two.apply("n", Op::Persist).unwrap();
    both(&mut one, &mut two);
    assert_eq!(reads(&two), (None, None));
    both(&mut one, &mut guest);
    let mut all = [one, two, guest];
    settle(&mut all);
    assert_eq!(reads(&all[0]), (None, None));
}

/// The first round finds the end stable, and the second one all that was here then.
#[test]
fn a_member_decides_after_two_rounds_and_by_a_transaction() {
    let [mut one, mut two, mut guest] = begun();
    end(&mut one);
    let kept = one.mark();
    assert_eq!(one.members_mut().decide_expiries(&kept), Ok(false));
    assert_eq!(one.deciding.counters.len(), 0);
    both(&mut one, &mut two);
    both(&mut one, &mut guest);
    let mut all = [one, two, guest];
    let (mut noted, mut decided) = (0, 0);
    for nth in 1..20 {
        for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0)] {
            let from = all[from].clone();
            pass(&from, &mut all[to]);
        }
        for member in &mut all[..2] {
            member.members_mut().acknowledge().unwrap();
            let kept = member.mark();
            member.members_mut().collect(&kept);
        }
        let before = all[0].clock();
        let kept = all[0].mark();
        let changed = all[0].members_mut().decide_expiries(&kept).unwrap();
        if noted == 0 && !all[0].deciding.counters.is_empty() {
            noted = nth;
        }
        if changed {
            assert_eq!(all[0].clock(), before + 1);
            decided = nth;
            break;
        }
    }
    assert!(noted > 0 && decided > noted + 1, "{noted} {decided}");
    assert_eq!(open(&all[0]), 0);
    // Everything of the slot is still here, with a watermark of the decision.
    let slots = all[0].state.slots(all[0].key_id("n").unwrap());
    let by = slots.iter().find_map(|slot| slot.side.watermark);
    assert_eq!(by.map(|it| it.by.clock), Some(all[0].clock()));
}

/// Rounds until the first member has decided, of which the second one and the guest have heard nothing.
fn decided_by_the_first(all: &mut [Replica; 3]) {
    for _ in 0..20 {
        for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0)] {
            let from = all[from].clone();
            pass(&from, &mut all[to]);
        }
        for member in &mut all[..2] {
            member.members_mut().acknowledge().unwrap();
            let kept = member.mark();
            member.members_mut().collect(&kept);
        }
        let kept = all[0].mark();
        if all[0].members_mut().decide_expiries(&kept).unwrap() {
            return;
        }
    }
    panic!("nothing was decided");
}

/// A slot that goes on, at an owner that has not decided, does not come back as it was.
#[test]
fn a_decision_has_a_stamp_of_its_own() {
    let mut all = begun();
    all[1].add("n", 7).unwrap();
    let [one, two, _] = &mut all;
    both(one, two);
    end(&mut all[0]);
    decided_by_the_first(&mut all);
    let kept = all[0].mark();
    all[0].members_mut().collect(&kept);
    // The second member's slot goes on, because its own part of the counter is only hidden there.
    all[1].add("n", 3).unwrap();
    assert_eq!(open(&all[1]), 1);
    let two = all[1].clone();
    pass(&two, &mut all[0]);
    assert_eq!(reads(&all[0]), (Some(3), None));
    settle(&mut all);
    for replica in &all {
        assert_eq!(reads(replica), (Some(3), None));
    }
}

/// A decided refresh may be replaced, and the end stays void where it is not decided.
#[test]
fn a_decision_marks_an_end_that_is_void() {
    let mut all = begun();
    end(&mut all[0]);
    all[1].apply("n", Op::Persist).unwrap();
    decided_by_the_first(&mut all);
    all[0].apply("n", Op::Expire(500)).unwrap();
    let one = all[0].clone();
    for replica in &mut all[1..] {
        pass(&one, replica);
        assert_eq!(reads(replica), (Some(10), Some(500)));
    }
    settle(&mut all);
    assert_eq!(reads(&all[2]), (Some(10), Some(500)));
}

/// A refresh that an end in force had seen saves nothing from another end, which knew less.
#[test]
fn what_a_cut_off_replica_ends_is_not_left_without_an_expiry() {
    let [mut one, mut two, mut guest] = begun();
    one.apply("n", Op::Expire(2_000)).unwrap();
    end(&mut one);
    guest.add("n", 7).unwrap();
    end(&mut guest);
    assert_eq!(reads(&guest), (None, None));
    both(&mut guest, &mut two);
    both(&mut one, &mut two);
    both(&mut one, &mut guest);
    for replica in [&one, &two, &guest] {
        assert_eq!(reads(replica), (None, None));
    }
    let mut all = [one, two, guest];
    settle(&mut all);
    assert_eq!(reads(&all[0]), (None, None));
}

/// A change of the ends in a message.
type Change<'a> = &'a dyn Fn(&mut Vec<Expired>);

/// Bytes that are cut off, and numbers that no correct sender writes, are refused.
#[test]
fn ends_are_checked_when_they_are_read() {
    let [mut one, _, _] = begun();
    end(&mut one);
    let message = one.delta(&VersionVector::default());
    let bytes = message.encode();
    for length in 0..bytes.len() {
        assert!(Message::decode(&bytes[..length]).is_err(), "{length}");
    }
    let wrong = |change: &dyn Fn(&mut Vec<Expired>)| {
        let mut message = message.clone();
        let sides = message.delta.sides.iter_mut();
        let mut sides = sides.filter(|it| !it.side.expired.is_empty());
        let side = &mut sides.next().unwrap().side;
        side.expired.update(change);
        Message::decode(&message.encode()).map(|_| ())
    };
    assert_eq!(wrong(&|_| ()), Ok(()));
    let malformed = Err(DecodeError::Malformed {
        rule: Rule::Expired,
    }
    .into());
    let again = |it: &mut Vec<Expired>, by: u64| {
        let next = Expired {
            clock: it[0].clock + by,
            ..it[0].clone()
        };
        it.push(next);
    };
    let cases: [Change<'_>; 8] = [
        &|it| it[0].clock += 100,
        &|it| it[0].clock = 0,
        &|it| it[0].time = u64::MAX,
        &|it| it[0].upto[0].clock = 0,
        &|it| it[0].upto[0].clock += 100,
        &|it| it[0].upto[0].writer += 100,
        &|it| again(it, 0),
        &|it| {
            let upto = it[0].upto[0];
            it[0].upto.push(upto);
        },
    ];
    for (nth, case) in cases.into_iter().enumerate() {
        assert_eq!(wrong(case), malformed, "{nth}");
    }
}

/// A store that has the end and not the mark must not find it in force when it is read back.
#[test]
fn nothing_is_dropped_that_the_store_lacks_the_reason_for() {
    let mut all = begun();
    end(&mut all[0]);
    all[1].apply("n", Op::Persist).unwrap();
    let old = all[0].mark();
    for _ in 0..20 {
        for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0)] {
            let from = all[from].clone();
            pass(&from, &mut all[to]);
        }
        for (at, replica) in all.iter_mut().enumerate() {
            replica.members_mut().acknowledge().unwrap();
            let kept = replica.mark();
            let kept = if at == 0 { &old } else { &kept };
            replica.members_mut().decide_expiries(kept).unwrap();
            replica.members_mut().collect(kept);
        }
    }
    assert_eq!((open(&all[0]), open(&all[1])), (1, 0));
    settle(&mut all);
    assert_eq!(reads(&all[0]), (Some(10), None));
}

/// A store's records bring the end back as it was.
#[test]
fn a_store_keeps_ends_and_marks() {
    let [mut one, mut two, _] = begun();
    let mut mark = crate::Mark::default();
    let mut records = alloc::vec![one.since(&mut mark).unwrap()];
    end(&mut one);
    records.push(one.since(&mut mark).unwrap());
    two.apply("n", Op::Expire(7_000)).unwrap();
    two.add("n", 1).unwrap();
    both(&mut one, &mut two);
    records.push(one.since(&mut mark).unwrap());
    one.apply("n", Op::Expire(500)).unwrap();
    records.push(one.since(&mut mark).unwrap());
    let writer = crate::WriterId::from_bytes([77; 16]);
    let mut again = Replica::new(one.space().clone(), writer);
    for record in &records {
        let bytes = record.encode_stored();
        again
            .restore(&Message::decode_stored(&bytes).unwrap())
            .unwrap();
    }
    assert_eq!(reads(&again), (Some(11), Some(500)));
    assert_eq!(again.canonical_bytes(), one.canonical_bytes());
}

/// Beyond the bounds, a counter ends by an ordinary delete.
#[test]
fn with_too_many_ends_that_are_not_decided_a_delete_ends_the_counter() {
    let [mut one, mut two, _] = begun();
    let again = [("n", Op::Add(1)), ("n", Op::Expire(TIME))];
    for _ in 1..EXPIRED_MAX {
        end(&mut one);
        one.transact(&again).unwrap();
    }
    end(&mut one);
    assert_eq!((open(&one), reads(&one)), (EXPIRED_MAX, (None, None)));
    // The message of a peer may have as many.
    both(&mut one, &mut two);
    assert_eq!(two.canonical_bytes(), one.canonical_bytes());
    one.transact(&again).unwrap();
    end(&mut one);
    assert_eq!((open(&one), reads(&one)), (EXPIRED_MAX, (None, None)));
    // So may a store.
    let stored = one.snapshot().encode_stored();
    let writer = crate::WriterId::from_bytes([77; 16]);
    let mut again = Replica::new(one.space().clone(), writer);
    again
        .restore(&Message::decode_stored(&stored).unwrap())
        .unwrap();
    assert_eq!(again.canonical_bytes(), one.canonical_bytes());
    // Or with too many slots in one of them.
    let ids: Vec<WriterId> = (0..=EXPIRED_SLOTS_MAX)
        .map(|at| WriterId::from_bytes((at as u128).to_le_bytes()))
        .collect();
    for (count, fits) in [(EXPIRED_SLOTS_MAX, true), (EXPIRED_SLOTS_MAX + 1, false)] {
        let row = Row { clock: 1, total: 1 };
        let slots = (0..count as u32).map(|writer| Slot::new(writer, row, None));
        let mut slots: Vec<Slot> = slots.collect();
        let act = Act {
            clock: 9,
            ids: &ids,
            reuses: false,
        };
        assert_eq!(act.carry_out(&mut slots, TIME, false) > 0, fits);
        assert_eq!(counter::is_open(&slots), fits);
    }
}

/// An end in a slot whose writer left moves with the slot, and stays until it is decided.
#[test]
fn an_end_outlives_its_writer() {
    let [mut one, mut two, mut guest] = begun();
    both(&mut one, &mut guest);
    end(&mut guest);
    guest.members_mut().leave().unwrap();
    pass(&guest, &mut one);
    assert_eq!(reads(&one), (None, None));
    one.members_mut().retire().unwrap();
    assert_eq!(open(&one), 1);
    two.apply("n", Op::Persist).unwrap();
    both(&mut one, &mut two);
    for replica in [&one, &two] {
        assert_eq!(reads(replica), (Some(10), None));
    }
    let mut all = [one, two];
    settle(&mut all);
    assert_eq!(reads(&all[0]), (Some(10), None));
    assert!(all.iter().all(|it| it.state.held(&guest.writer()) == 0));
}

/// A replica that rejoins ends again what it had ended of its own, and nothing that others refreshed.
#[test]
fn a_replica_that_rejoins_ends_its_own_adds_again() {
    // What happened elsewhere meanwhile, whether the time has passed at the guest, and the result.
    type Meanwhile = fn(&mut Replica);
    let cases: [(Meanwhile, bool, i128); 5] = [
        (|_| (), false, 11),
        (|_| (), true, 1),
        (end, false, 1),
        (
            |it| assert_eq!(it.apply("n", Op::Persist), Ok(true)),
            false,
            16,
        ),
        (
            |it| assert_eq!(it.apply("n", Op::Delete), Ok(true)),
            false,
            1,
        ),
    ];
    for (at, (meanwhile, is_past, value)) in cases.into_iter().enumerate() {
        let [mut one, mut two, mut guest] = begun();
        guest.add("n", 5).unwrap();
        end(&mut guest);
        guest.add("n", 1).unwrap();
        assert_eq!(guest.value("n"), Some(1));
        meanwhile(&mut one);
        let state = one.delta(&VersionVector::default());
        let next = crate::WriterId::from_bytes([9; 16]);
        let mut rejoin = guest.rejoin_mut();
        let journal = rejoin.begin_again(next, &state, &mut |_| ()).unwrap();
        guest.set_time(if is_past { u64::MAX } else { 0 });
        let again = guest
            .rejoin_mut()
            .make_again(journal.clone(), Some(0), 0, &mut |_| ());
        assert_eq!(again.again.len(), 4, "{again:?}");
        guest.set_time(0);
        assert_eq!(guest.value("n"), Some(value), "case {at}");
        pass(&guest, &mut one);
        both(&mut one, &mut two);
        assert_eq!(two.value("n"), Some(value), "case {at}");
        // The journal of the next writer has the end, too.
        let ends = |journal: &crate::message::journal::Journal| {
            let did = journal.made.iter().flat_map(|it| &it.did);
            did.filter(|it| it.ends > 0).count()
        };
        // Where the time has passed, the first add ends the counter, too.
        let now = 1 + usize::from(is_past);
        assert_eq!((ends(&journal), ends(guest.rejoin.journal())), (1, now));
    }
}

/// An end that a replica makes again names the replica's own slot alone, and not the refreshes that the replica has
/// seen. So only the floor tells that a refresh stands in a later lifetime.
#[test]
fn a_refresh_of_a_later_lifetime_saves_nothing_that_is_ended_again() {
    let [mut one, two, mut guest] = begun();
    let sent = guest.clock();
    guest.add("n", 5).unwrap();
    end(&mut guest);
    guest.add("n", 1).unwrap();
    end(&mut one);
    one.add("n", 3).unwrap();
    one.apply("n", Op::Expire(7_000)).unwrap();
    // The members decide on the first lifetime while the guest is away, and collect.
    one.members_mut().fence(&guest.writer()).unwrap();
    let mut members = [one, two];
    for _ in 0..5 {
        round(&mut members);
        for member in &mut members {
            member.members_mut().retire().unwrap();
        }
    }
    settle(&mut members);
    let [mut one, _] = members;
    assert_eq!(one.members().retired_clock(&guest.writer()), Some(sent));
    let state = one.delta(&VersionVector::default());
    let next = crate::WriterId::from_bytes([9; 16]);
    let mut rejoin = guest.rejoin_mut();
    let journal = rejoin.begin_again(next, &state, &mut |_| ()).unwrap();
    rejoin.make_again(journal, Some(sent), 0, &mut |_| ());
    assert_eq!(guest.value("n"), Some(4));
    pass(&guest, &mut one);
    assert_eq!(one.value("n"), Some(4));
}

/// A guest that no member has told its time ends no counter by its own clock.
#[test]
fn a_guest_whose_time_is_unsure_ends_nothing() {
    let [mut one, _, mut guest] = begun();
    guest.set_time(TIME);
    guest.members_mut().set_time_unsure(true);
    assert_eq!(reads(&guest), (None, None), "reads go by the own clock");
    let before = guest.canonical_bytes();
    let expired = || -> Option<Error> { Some(ScopeError::Expired.into()) };
    let key_id = guest.key_id("n").unwrap();
    for op in [
        Op::Add(1),
        Op::Reset,
        Op::Delete,
        Op::Set(5),
        Op::Expire(2 * TIME),
        Op::Persist,
    ] {
        assert_eq!(guest.apply("n", op).err(), expired(), "{op:?}");
        assert_eq!(guest.apply_at(key_id, op).err(), expired(), "{op:?}");
        let both = [("other", Op::Add(1)), ("n", op)];
        assert_eq!(guest.transact(&both).err(), expired(), "{op:?}");
        let mut transaction = guest.begin().unwrap();
        assert_eq!(transaction.apply("n", op).err(), expired(), "{op:?}");
    }
    assert_eq!(guest.add_at(key_id, 1).err(), expired());
    assert_eq!(guest.materialize_expiry(key_id), Ok(false));
    assert_eq!(guest.canonical_bytes(), before, "nothing is made");
    guest.add("other", 1).unwrap();
    // A member ends it, and then it can be added to.
    end(&mut one);
    pass(&one, &mut guest);
    guest.add("n", 2).unwrap();
    assert_eq!(guest.value("n"), Some(2));
    // By a member's time it ends counters itself.
    let [_, _, mut guest] = begun();
    guest.set_time(TIME);
    guest.add("n", 3).unwrap();
    assert_eq!(guest.value("n"), Some(3));
}

/// In a space without members each goes by its own clock.
#[test]
fn an_open_space_knows_no_unsure_time() {
    let mut one = Replica::new(
        crate::Space::default(),
        crate::WriterId::from_bytes([1; 16]),
    );
    one.transact(&[("n", Op::Add(10)), ("n", Op::Expire(TIME))])
        .unwrap();
    one.set_time(TIME);
    one.members_mut().set_time_unsure(true);
    one.add("n", 1).unwrap();
    assert_eq!(one.value("n"), Some(1));
}

/// What was added before the counter expired by the own clock is made again, and ends nothing.
#[test]
fn a_guest_whose_time_is_unsure_loses_nothing_when_it_rejoins() {
    let [one, _, mut guest] = begun();
    guest.add("n", 5).unwrap();
    let state = one.delta(&VersionVector::default());
    let next = crate::WriterId::from_bytes([9; 16]);
    let mut rejoin = guest.rejoin_mut();
    let journal = rejoin.begin_again(next, &state, &mut |_| ()).unwrap();
    guest.set_time(TIME);
    guest.members_mut().set_time_unsure(true);
    let mut rejoin = guest.rejoin_mut();
    let returned = rejoin.make_again(journal, Some(0), 0, &mut |_| ());
    assert_eq!(returned.again[0].ops.len(), 1, "{returned:?}");
    assert_eq!((guest.value("n"), open(&guest)), (None, 0));
    guest.set_time(0);
    assert_eq!(guest.value("n"), Some(15));
}

/// In a space without members nothing is ever decided, so the end is a delete there.
#[test]
fn an_open_space_ends_a_counter_by_a_delete() {
    let start = |byte| {
        let writer = crate::WriterId::from_bytes([byte; 16]);
        Replica::new(crate::Space::default(), writer)
    };
    let [mut one, mut two] = [start(1), start(2)];
    one.transact(&[("n", Op::Add(10)), ("n", Op::Expire(TIME))])
        .unwrap();
    two.merge(&one.delta(&VersionVector::default())).unwrap();
    end(&mut one);
    assert_eq!(open(&one), 0);
    two.apply("n", Op::Persist).unwrap();
    two.merge(&one.delta(&VersionVector::default())).unwrap();
    assert_eq!(reads(&two), (None, None));
}

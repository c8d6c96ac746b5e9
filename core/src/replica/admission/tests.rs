//! Messages by hand, and what they are to a replica. Writers go by one number everywhere: it is each
//! byte of their ids, their local number here, and how records name them before they are told.

mod checks;

use super::*;
use crate::error::{AdmissionError, detail};
use crate::membership::admission::{ADMISSIONS_MAX, WriterStatus};
use crate::membership::writer_state::WriterState;
use crate::message::journal::{EarlierWriter, Journal};
use crate::message::records::{
    Ack, Admit, Announce, Fence, Leave, MembershipRecord, Owner, Retired, Ruling,
};
use crate::optional::Empty;
use crate::optional::Optional;
use crate::state::delta::{Delta, Entry};
use crate::writer_id::{Space, WriterId};
use alloc::boxed::Box;
use alloc::vec;

fn id(byte: u32) -> WriterId {
    WriterId::from_bytes([byte as u8; 16])
}

fn owner(byte: u32) -> Owner {
    [byte as u8 + 1; 32]
}

fn by(writer: u32, clock: u64) -> Stamp {
    Stamp { writer, clock }
}

/// An incarnation of the owner of this number.
fn announce(of: u32, generation: u64) -> Statement {
    Statement::Announce(Box::new(Announce {
        clock: 1,
        owner: owner(of),
        nonce: [0; 16],
        generation,
    }))
}

fn admit(writer: u32, clock: u64) -> Statement {
    let by = by(writer, clock);
    Statement::Admit(Admit { turn: 0, by })
}

fn fence(writer: u32, clock: u64) -> Statement {
    Statement::Fence(Fence {
        turn: 0,
        by: by(writer, clock),
        successor: writer,
    })
}

fn retired(writer: u32, clock: u64, upto: u64) -> Statement {
    let to = by(writer, clock);
    Statement::Retired(Retired { to, upto })
}

fn ack(clock: u64, seen: &[(u32, u64)]) -> Statement {
    Statement::Ack(Box::new(Ack {
        clock,
        want: 0,
        seen: seen.to_vec(),
    }))
}

fn base(seen: &[(u32, u64)], told: bool) -> Statement {
    Statement::Base(seen.into(), told)
}

fn gone(of: u32, generation: u64) -> Statement {
    Statement::Gone(11, Box::new((owner(of), generation)))
}

fn configuration(number: u64, members: &[u32]) -> Configuration {
    Configuration {
        era: 0,
        number,
        members: members.iter().map(|it| owner(*it)).collect(),
        ..Configuration::default()
    }
}

fn decided(number: u64, members: &[u32]) -> Statement {
    Statement::Configuration(11, Box::new(configuration(number, members)))
}

/// A message that names these writers, each from one clock to another, and says this of them.
fn told(writers: &[(u32, u64, u64)], records: &[(u32, Statement)]) -> Message {
    let entry = |&(writer, lo, hi): &(u32, u64, u64)| Entry {
        writer: id(writer),
        lo,
        hi,
    };
    let mut message = Message {
        delta: Delta {
            writers: writers.iter().map(entry).collect(),
            ..Delta::default()
        },
        closed: true,
        ..Message::default()
    };
    let place = |byte: u32| {
        let at = writers.iter().position(|it| it.0 == byte);
        at.expect("it is named") as u32
    };
    for (writer, statement) in records.iter().cloned() {
        let mut record = MembershipRecord { writer, statement };
        record.renumber(place);
        message.records.stored().push(record);
    }
    message
        .records
        .stored()
        .sort_by_key(MembershipRecord::place);
    message
}

fn whole(writers: &[(u32, u64, u64)], records: &[(u32, Statement)]) -> Message {
    Message {
        complete: true,
        ..told(writers, records)
    }
}

fn open(writers: &[(u32, u64, u64)]) -> Message {
    Message {
        closed: false,
        ..told(writers, &[])
    }
}

fn learn(replica: &mut Replica, writer: u32, statement: Statement) {
    replica.membership.note(&replica.state, writer, statement);
}

/// A member, 0, that holds 10 transactions of each of another member, 1, and of a guest of that, 2.
fn member() -> Replica {
    let mut replica = Replica::new(Space::default(), id(0));
    for number in 0..3 {
        assert_eq!(
            replica.membership.number(&mut replica.state, id(number)),
            number
        );
        replica.state.set_clock(number, 10);
    }
    learn(&mut replica, 0, announce(0, 5));
    learn(&mut replica, 1, announce(1, 5));
    learn(&mut replica, 2, admit(1, 5));
    replica.membership.table_mut().stored().configuration =
        Some((by(0, 1), configuration(1, &[0, 1])));
    replica.membership.table_mut().stored().established = true;
    replica
}

/// A guest of 1, else as a member.
fn guest() -> Replica {
    let mut replica = member();
    replica.membership.table_mut().stored().writer_states[0] = WriterState::default();
    learn(&mut replica, 0, admit(1, 5));
    replica.membership.table_mut().stored().established = false;
    replica
}

/// The status of 7 in a message that names it from `lo` to `hi`, beside 1, 8 and 9.
fn status(
    replica: &Replica,
    (lo, hi): (u64, u64),
    records: &[(u32, Statement)],
    live: u32,
) -> WriterStatus {
    let message = told(&[(1, 10, 10), (7, lo, hi), (8, 0, 3), (9, 1, 3)], records);
    replica
        .membership
        .writer_status(&replica.state, &message, 1, Some(id(live)), 0)
}

#[track_caller]
fn is(status: WriterStatus, expected: WriterStatus) {
    assert!(status == expected);
}

#[test]
fn who_is_named_is_known_or_forgotten_or_a_stranger() {
    use WriterStatus::{Forgotten, Known, Stranger};
    let replica = member();
    let what = |span, records: &[(u32, Statement)]| status(&replica, span, records, 1);
    is(what((0, 3), &[]), Forgotten);
    is(what((1, 3), &[]), Known);
    let mut open = member();
    open.membership.table_mut().stored().configuration = None;
    is(status(&open, (0, 3), &[], 1), Known);
    let mut knows = member();
    knows.membership.number(&mut knows.state, id(7));
    is(status(&knows, (0, 3), &[], 1), Known);
    // The member that admitted it.
    is(what((0, 3), &[(7, admit(1, 10))]), Forgotten);
    is(what((0, 3), &[(7, admit(1, 11))]), Known);
    is(what((0, 3), &[(7, admit(8, 2))]), Forgotten);
    is(what((0, 3), &[(7, admit(9, 2))]), Known);
    is(
        what((0, 3), &[(7, admit(9, 2)), (7, admit(1, 10))]),
        Forgotten,
    );
    is(what((1, 3), &[(8, admit(1, 10))]), Known);
    // Whose incarnation it is.
    is(what((0, 3), &[(7, announce(7, 5))]), Known);
    let mut buried = member();
    buried.membership.note_forgotten(by(1, 3), owner(7), 5);
    is(
        status(&buried, (0, 3), &[(7, announce(7, 5))], 1),
        Forgotten,
    );
    is(status(&buried, (0, 3), &[(7, announce(7, 6))], 1), Known);
    is(status(&buried, (1, 3), &[(8, announce(7, 5))], 1), Known);
    // Its first view, as it states it to a member or as others state it.
    let new = [(7, base(&[], false))];
    is(status(&replica, (0, 3), &new, 7), Known);
    is(status(&replica, (0, 3), &new, 1), Stranger);
    is(status(&guest(), (0, 3), &new, 7), Stranger);
    is(
        status(&replica, (0, 3), &[(7, base(&[], true))], 7),
        Forgotten,
    );
    is(
        status(&replica, (0, 3), &[(8, base(&[], false))], 7),
        Forgotten,
    );
    is(what((0, 3), &[(7, admit(1, 11)), new[0].clone()]), Known);
    // Its part that was retired.
    let mut successor = member();
    successor.membership.remember(id(7), 3);
    is(status(&successor, (1, 3), &[], 1), Forgotten);
    is(status(&successor, (1, 4), &[], 1), Forgotten);
}

#[test]
fn admissions_are_followed_back_for_some_steps() {
    for (last, known) in [(ADMISSIONS_MAX, false), (ADMISSIONS_MAX + 1, true)] {
        let last = last as u32;
        let chain: Vec<(u32, u64, u64)> = (10..=10 + last).map(|it| (it, 0, 3)).collect();
        let admits = (10..10 + last).map(|it| (it, admit(it + 1, 2)));
        let message = told(&chain, &admits.collect::<Vec<_>>());
        let status = member()
            .membership
            .writer_status(&member().state, &message, 0, None, 0);
        assert_eq!(status == WriterStatus::Known, known);
        assert_eq!(status == WriterStatus::Forgotten, !known);
    }
}

#[test]
fn who_forgot_a_writer_has_seen_its_admission_or_says_so() {
    let mut replica = member();
    let left_out = |replica: &Replica, message: &Message, writer| {
        let [one, other] = [0, 1].map(id);
        assert_eq!(replica.membership.introduced_by(&replica.state, &one), None);
        assert_eq!(
            replica.membership.incarnation(&replica.state, &other),
            Some((owner(1), 5))
        );
        replica
            .membership
            .is_gone_from(&replica.state, message, &id(writer))
    };
    assert_eq!(
        replica.membership.introduced_by(&replica.state, &id(2)),
        Some((id(1), 5))
    );
    assert_eq!(replica.membership.incarnation(&replica.state, &id(2)), None);
    assert!(left_out(&replica, &whole(&[(1, 0, 5)], &[]), 2));
    assert!(!left_out(&replica, &whole(&[(1, 0, 4)], &[]), 2));
    assert!(!left_out(&replica, &whole(&[(1, 0, 5), (2, 0, 3)], &[]), 2));
    assert!(!left_out(&replica, &whole(&[(0, 0, 5)], &[]), 2));
    // A member's incarnation.
    let after = |statement| whole(&[(0, 0, 11)], &[(0, statement)]);
    for (statement, left) in [
        (gone(1, 4), false),
        (gone(1, 5), true),
        (gone(1, 6), true),
        (gone(0, 6), false),
        (decided(2, &[0]), false),
    ] {
        assert_eq!(left_out(&replica, &after(statement.clone()), 1), left);
        // And whoever it took in.
        assert_eq!(left_out(&replica, &after(statement), 2), left);
    }
    // Two that took in each other.
    for (one, other) in [(3, 4), (4, 3)] {
        replica.membership.number(&mut replica.state, id(3));
        replica.membership.number(&mut replica.state, id(4));
        learn(&mut replica, one, admit(other, 5));
    }
    assert!(!left_out(&replica, &after(gone(1, 5)), 3));
}

#[test]
fn a_whole_state_takes_the_place_of_one_that_nobody_waited_for() {
    let state = whole(&[(1, 0, 20)], &[]);
    let mut unknown = guest();
    unknown.membership.table_mut().stored().writer_states[0] = WriterState::default();
    assert_eq!(
        unknown.membership.is_replaced_by(&unknown.state, &state),
        Err(AdmissionError::Outdated.into())
    );
    let leave = Leave {
        clock: 10,
        successor: 1,
    };
    learn(&mut unknown, 0, Statement::Leave(leave));
    assert_eq!(
        unknown.membership.is_replaced_by(&unknown.state, &state),
        Ok(true)
    );
    unknown.membership.table_mut().stored().writer_states[0] = WriterState::default();
    unknown.state.set_clock(OWN, 0);
    assert_eq!(
        unknown.membership.is_replaced_by(&unknown.state, &state),
        Ok(true)
    );
    assert_eq!(
        unknown
            .membership
            .is_replaced_by(&unknown.state, &told(&[(1, 0, 20)], &[])),
        Ok(false)
    );
    assert_eq!(
        unknown
            .membership
            .is_replaced_by(&unknown.state, &whole(&[(1, 1, 20)], &[])),
        Ok(false)
    );
    assert_eq!(
        guest().membership.is_replaced_by(&guest().state, &state),
        Ok(false)
    );
    let empty = Replica::new(Space::default(), id(0));
    assert_eq!(
        empty.membership.is_replaced_by(&empty.state, &state),
        Ok(false)
    );
}

#[test]
fn what_a_state_takes_the_place_of_is_dropped_unless_the_state_takes_something_back() {
    let mut reader = guest();
    reader.membership.table_mut().stored().writer_states[0] = WriterState::default();
    reader.state.set_clock(OWN, 0);
    let make_way = |state: &Message, new| {
        let mut reader = reader.clone();
        let made = reader.make_way(state, new, &mut |_| ());
        (made, reader.writers().count())
    };
    let missing = |writer, held, needed| {
        let writer = id(writer);
        (Err(Error::not_covered(writer, needed, held)), 2)
    };
    let named = |one, two| whole(&[(1, 0, one), (2, 0, two)], &[]);
    assert_eq!(reader.writers().count(), 2);
    assert_eq!(make_way(&named(10, 11), true), (Ok(true), 0));
    assert_eq!(make_way(&named(10, 11), false), (Ok(false), 2));
    assert_eq!(make_way(&named(9, 11), true), missing(1, 9, 10));
    assert_eq!(make_way(&named(10, 9), true), missing(2, 9, 10));
    // The sender has forgotten a writer that is not named, or does not have it.
    assert_eq!(make_way(&whole(&[(1, 0, 10)], &[]), true), (Ok(true), 0));
    assert_eq!(
        make_way(&whole(&[(2, 0, 10)], &[]), true),
        missing(1, 0, 10)
    );
    assert_eq!(make_way(&told(&[(1, 0, 10)], &[]), true), (Ok(false), 2));
    // A member's start makes again by itself what it wrote before its announcement. The state need not name it.
    let mut early = reader.clone();
    early.membership.table_mut().stored().writer_states[1] = WriterState::default();
    let message = whole(&[(2, 0, 10)], &[]);
    assert_eq!(early.make_way(&message, true, &mut |_| ()), Ok(true));
    assert_eq!(early.writers().count(), 0);
    // One that had not heard of members may hold what they never took in.
    let mut new = reader.clone();
    new.membership.table_mut().stored().configuration = None;
    let make_way_new = |state: &Message| {
        let mut new = new.clone();
        let made = new.make_way(state, true, &mut |_| ());
        (made, new.writers().count())
    };
    assert_eq!(make_way_new(&whole(&[(2, 0, 10)], &[])), (Ok(true), 0));
    assert_eq!(make_way_new(&named(10, 9)), missing(2, 9, 10));
    // Nor is more awaited of one that they ended.
    for statement in [fence(1, 9), retired(1, 10, 9)] {
        let ended = whole(&[(1, 0, 10), (2, 0, 9)], &[(2, statement)]);
        assert_eq!(make_way_new(&ended), (Ok(true), 0));
        assert_eq!(make_way(&ended, true), missing(2, 9, 10));
    }
    // Kept transactions of an earlier writer are not lost by that.
    for (open, made) in [(0, missing(2, 9, 10)), (10, (Ok(true), 0))] {
        let mut journal = Journal::EMPTY;
        journal.open = open;
        let mut reader = reader.clone();
        reader
            .rejoin
            .keep_earlier(EarlierWriter::new(id(2), journal));
        let mut other = reader.clone();
        let make_way = |reader: &mut Replica, state: &Message| {
            let made = reader.make_way(state, true, &mut |_| ());
            (made, reader.writers().count())
        };
        assert_eq!(make_way(&mut reader, &named(10, 9)), made);
        assert_eq!(make_way(&mut other, &named(9, 10)), missing(1, 9, 10));
    }
}

#[test]
fn a_sender_is_taken_in_if_it_is_new() {
    let mut replica = member();
    let gone = Err(Error::Admission(AdmissionError::Gone { writer: id(7) }));
    let new = [(7, base(&[], false))];
    let with = |replica: &Replica, hi, records: &[(u32, Statement)]| {
        let message = told(&[(1, 10, 10), (6, 0, 0), (7, 0, hi)], records);
        replica
            .membership
            .newcomer(&replica.state, &message, Some(id(7)))
    };
    assert_eq!(with(&replica, 3, &new), Ok(Some(id(7))));
    assert_eq!(with(&replica, 0, &new), Ok(None));
    assert_eq!(with(&replica, 3, &[]), gone);
    assert_eq!(with(&replica, 3, &[(7, admit(1, 11))]), Ok(None));
    assert_eq!(with(&replica, 3, &[(7, announce(7, 5))]), Ok(None));
    // Nothing is taken of who says that it was ended: that would be found out too late.
    assert_eq!(
        with(&replica, 3, &[new[0].clone(), (7, fence(1, 11))]),
        gone
    );
    let unnamed = told(&[(1, 10, 10)], &[]);
    assert_eq!(
        replica
            .membership
            .newcomer(&replica.state, &unnamed, Some(id(7))),
        Ok(None)
    );
    let mut open = replica.clone();
    open.membership.table_mut().stored().configuration = None;
    assert_eq!(with(&open, 3, &new), Ok(None));
    let later = told(&[(7, 1, 3)], &[]);
    let stranger = Err(Error::Admission(AdmissionError::Stranger { writer: id(7) }));
    assert_eq!(
        guest()
            .membership
            .newcomer(&guest().state, &later, Some(id(7))),
        stranger
    );
    // An acknowledgement of another writer does not count for it.
    learn(&mut replica, 0, ack(9, &[(1, 5)]));
    let behind = Err(Error::Admission(AdmissionError::Behind));
    let other = [(1, 10, 10), (6, 1, 3), (7, 1, 3)];
    let beside = told(&other, &[(6, base(&[], false))]);
    assert_eq!(
        replica
            .membership
            .newcomer(&replica.state, &beside, Some(id(7))),
        behind
    );
    assert_eq!(with(&replica, 3, &[(7, base(&[(1, 4)], false))]), behind);
    let seen = (7, base(&[(1, 5)], false));
    assert_eq!(with(&replica, 3, &[seen]), Ok(Some(id(7))));
    // A writer that was admitted before this replica received it may have begun before the replica had that.
    replica.membership.number(&mut replica.state, id(7));
    assert_eq!(with(&replica, 3, &new), Ok(Some(id(7))));
    let other = [new[0].clone(), (6, announce(6, 5))];
    assert_eq!(with(&replica, 3, &other), Ok(Some(id(7))));
    let own = [new[0].clone(), (7, announce(7, 5))];
    assert_eq!(with(&replica, 3, &own), Ok(None));
    assert_eq!(with(&replica, 3, &[]), Ok(None));
    replica.state.set_clock(3, 1);
    assert_eq!(with(&replica, 3, &new), Ok(None));
}

#[test]
fn who_a_sender_is_follows_from_what_is_said_of_it() {
    let replica = member();
    let message = |records: &[(u32, Statement)]| told(&[(1, 0, 10), (6, 0, 3), (7, 0, 3)], records);
    let unknown = |records: &[(u32, Statement)]| {
        replica
            .membership
            .is_unknown(&replica.state, &message(records), &id(7))
    };
    assert!(unknown(&[]));
    assert!(unknown(&[(6, announce(1, 6))]));
    assert!(unknown(&[(7, admit(1, 11))]));
    assert!(!unknown(&[(7, announce(1, 6))]));
    assert!(
        !replica
            .membership
            .is_unknown(&replica.state, &message(&[]), &id(1))
    );
    let no_member =
        |records: &[(u32, Statement)]| replica.membership.is_no_member(&message(records), 2);
    assert!(no_member(&[(7, announce(7, 6))]));
    assert!(!no_member(&[(7, announce(1, 6))]));
    assert!(!no_member(&[(6, announce(7, 6))]));
    assert!(!no_member(&[(7, admit(1, 11))]));
    let dropped = |replica: &Replica, owner, statement| {
        let message = told(&[(1, 0, 11)], &[(1, statement)]);
        replica.membership.is_dropped_in(&message, owner)
    };
    assert!(dropped(&replica, None, decided(2, &[1])));
    assert!(dropped(&replica, Some(owner(1)), decided(2, &[1])));
    assert!(!dropped(&replica, None, decided(2, &[0, 1])));
    assert!(!dropped(&replica, None, gone(0, 9)));
    assert!(dropped(&guest(), None, decided(2, &[0, 1])));
    assert!(dropped(&guest(), Some(owner(0)), decided(2, &[1])));
    assert!(!dropped(&guest(), Some(owner(0)), decided(2, &[0, 1])));
}

#[test]
fn a_guest_is_an_orphan_when_its_member_is_dead_or_no_member() {
    let named = [(1, 0, 11), (2, 0, 11)];
    let orphan = |replica: &Replica, records: &[(u32, Statement)]| {
        let message = whole(&named, records);
        replica.membership.is_orphaned_by(&replica.state, &message)
    };
    let replica = guest();
    assert!(!orphan(&replica, &[]));
    for statement in [fence(2, 11), retired(2, 11, 10)] {
        assert!(orphan(&replica, &[(1, statement.clone())]));
        assert!(!orphan(&replica, &[(2, statement.clone())]));
        assert!(!orphan(&member(), &[(1, statement)]));
    }
    assert!(!orphan(&replica, &[(1, ack(11, &[]))]));
    assert!(orphan(&replica, &[(2, decided(2, &[0]))]));
    assert!(!orphan(&replica, &[(2, decided(2, &[1]))]));
    assert!(!orphan(&replica, &[(2, decided(0, &[0]))]));
    let mut dead = replica.clone();
    learn(&mut dead, 1, fence(2, 9));
    assert!(orphan(&dead, &[]));
    let mut dropped = replica.clone();
    dropped.membership.table_mut().stored().configuration =
        Some((by(0, 1), configuration(1, &[0])));
    assert!(orphan(&dropped, &[]));
}

/// A start goes on from what an earlier one had made that had not announced itself. Others would take that one for
/// forgotten, and would later lack what the start had cancelled of it.
#[test]
fn what_builds_on_a_start_that_no_member_admitted_waits_until_one_does() {
    let [mut one, two, _] = crate::replica::collect::tests::space();
    let owner = [2; 32];
    let start = |nonce: u8, stored: &Replica| {
        let writer = WriterId::mint(stored.space(), &owner, &[nonce; 16]);
        let mut start = Replica::new(stored.space().clone(), writer);
        start.restore(&stored.snapshot()).unwrap();
        start.membership.note_early(true);
        start
    };
    let mut first = start(8, &two);
    first.add("n", 5).unwrap();
    let mut next = start(9, &first);
    one.members_mut().admit(&next.writer()).unwrap();
    next.merge(&one.delta(&next.vector())).unwrap();
    next.apply("n", crate::Op::Delete).unwrap();
    next.add("n", 7).unwrap();
    let pass = |from: &Replica, to: &mut Replica| {
        let message = from.delta(&to.vector());
        let merged = to.merge_with(&message, Some(from.writer()), &mut |_| ());
        merged.map(|_| ())
    };
    let writer = detail(first.writer());
    let stranger = AdmissionError::Stranger { writer };
    assert_eq!(pass(&next, &mut one), Err(stranger.into()));
    next.members_mut().announce(&owner, &[9; 16], 3).unwrap();
    pass(&next, &mut one).unwrap();
    assert_eq!([&one, &next].map(|it| it.value("n")), [Some(7); 2]);
}

//! Rejected messages, and the membership records that are accepted from others.

use super::*;
use crate::bounds::WRITERS_MERGED_MAX;
use crate::error::{AdmissionError, MergeError, WriteError};
use crate::membership::writer_state::WriterState;
use crate::message::records::{HEARD, MembershipRecord};
use crate::optional::Optional;
use crate::state::delta::Entry;

const ONE: (u32, u64, u64) = (1, 10, 10);
const TWO: (u32, u64, u64) = (2, 10, 10);

#[track_caller]
fn judged(
    replica: &Replica,
    live: u32,
    writers: &[(u32, u64, u64)],
    records: &[(u32, Statement)],
    expected: Result<(), Error>,
) {
    let message = told(writers, records);
    assert_eq!(
        replica
            .membership
            .check(&replica.state, &message, Some(id(live))),
        expected
    );
}

#[test]
fn of_an_open_space_nothing_new_is_taken() {
    let replica = member();
    let stranger = |writer| {
        Err(Error::Admission(AdmissionError::Stranger {
            writer: id(writer),
        }))
    };
    for (hi, live, expected) in [
        (10, Some(7), Ok(())),
        (10, None, Ok(())),
        (11, Some(7), stranger(7)),
        (11, None, stranger(1)),
    ] {
        let message = open(&[(1, 0, hi)]);
        assert_eq!(
            replica
                .membership
                .check(&replica.state, &message, live.map(id)),
            expected
        );
        let mut unaware = member();
        unaware.membership.table_mut().stored().configuration = None;
        assert_eq!(
            unaware
                .membership
                .check(&unaware.state, &message, live.map(id)),
            Ok(())
        );
        let closed = told(&[(1, 0, hi)], &[]);
        assert_eq!(
            replica
                .membership
                .check(&replica.state, &closed, live.map(id)),
            Ok(())
        );
    }
    // A forgotten writer is no news, whichever peer passes it on.
    let message = open(&[ONE, (8, 0, 3)]);
    assert_eq!(
        replica.membership.check(&replica.state, &message, None),
        Ok(())
    );
    assert_eq!(
        replica
            .membership
            .check(&replica.state, &message, Some(id(1))),
        stranger(1)
    );
}

#[test]
fn a_message_must_not_leave_gaps_or_go_beyond_what_counts() {
    let replica = member();
    let missing = |writer, needed, held| {
        let writer = id(writer);
        Err(Error::not_covered(writer, needed, held))
    };
    judged(&replica, 1, &[(1, 10, 12)], &[], Ok(()));
    judged(&replica, 1, &[(1, 11, 12)], &[], missing(1, 11, 10));
    judged(&replica, 1, &[ONE, (9, 1, 3)], &[], missing(9, 1, 0));
    judged(&replica, 1, &[(0, 0, 10)], &[], Ok(()));
    let ahead = Err(Error::Merge(MergeError::OwnClockAhead {
        heard: 11,
        own: 10,
    }));
    judged(&replica, 1, &[(0, 0, 11)], &[], ahead);
    let new = (7, base(&[], false));
    let stranger = Err(Error::Admission(AdmissionError::Stranger { writer: id(7) }));
    let new = &[new];
    judged(&replica, 1, &[ONE, (7, 0, 3)], new, stranger);
    // The sender has not learned that it was admitted, taken over and forgotten.
    let mut forgot = member();
    forgot.membership.remember(id(7), 3);
    judged(&forgot, 1, &[ONE, (7, 0, 3)], new, Ok(()));
    let behind = Err(Error::Admission(AdmissionError::Behind));
    judged(&forgot, 1, &[ONE, (7, 0, 4)], new, behind);
    let mut absorbed = member();
    learn(&mut absorbed, 2, retired(1, 9, 10));
    judged(&absorbed, 1, &[(2, 0, 10)], &[], Ok(()));
    judged(
        &absorbed,
        1,
        &[(2, 0, 11)],
        &[],
        Err(Error::Admission(AdmissionError::Behind)),
    );
    let mut successor = member();
    successor.membership.remember(id(7), 3);
    judged(&successor, 1, &[(7, 0, 3)], &[], Ok(()));
    judged(
        &successor,
        1,
        &[(7, 0, 4)],
        &[],
        Err(Error::Admission(AdmissionError::Behind)),
    );
    judged(&successor, 1, &[(8, 0, 4)], &[], Ok(()));
    let mut left = guest();
    learn(
        &mut left,
        0,
        Statement::Leave(Leave {
            clock: 10,
            successor: 1,
        }),
    );
    judged(
        &left,
        1,
        &[ONE],
        &[],
        Err(Error::Admission(AdmissionError::Retired)),
    );
}

#[test]
fn nothing_new_of_a_dead_writer_is_taken_from_whom_nobody_waited_for() {
    let mut dead = member();
    learn(&mut dead, 2, fence(1, 9));
    let behind = || Err(Error::Admission(AdmissionError::Behind));
    let news = [(2, 10, 11), (7, 0, 1)];
    let new = [(7, base(&[], false))];
    judged(&dead, 7, &news, &new, behind());
    judged(&dead, 7, &[TWO, news[1]], &new, Ok(()));
    judged(&member(), 7, &news, &new, Ok(()));
    judged(&dead, 7, &news, &[(7, announce(1, 6))], Ok(()));
    judged(&dead, 1, &news[..1], &[], Ok(()));
    judged(&dead, 2, &news[..1], &[], Ok(()));
    // Nor from a guest, once it was acknowledged that the writer is dead.
    for (seen, expected) in [(8, Ok(())), (9, behind())] {
        learn(&mut dead, 0, ack(seen, &[(1, seen)]));
        judged(&dead, 2, &news[..1], &[], expected);
        judged(&dead, 2, &[TWO], &[], Ok(()));
        // Another member's start that is new here is none, even if it was one before.
        let starts = |of| [(7, announce(of, 6))];
        judged(&dead, 7, &news, &starts(1), Ok(()));
        judged(&dead, 1, &news[..1], &[], Ok(()));
        assert_eq!(
            dead.membership
                .check(&dead.state, &told(&news[..1], &[]), None),
            Ok(())
        );
    }
    let mut tab = guest();
    learn(&mut tab, 2, fence(1, 9));
    learn(&mut tab, 0, ack(9, &[(1, 9)]));
    judged(&tab, 2, &news[..1], &[], Ok(()));
    // The start before may have acknowledged it.
    tab.membership.note_early(true);
    judged(&tab, 2, &news[..1], &[], behind());
    judged(&tab, 1, &news[..1], &[], Ok(()));
    // Nor is it waited for until a member tells of it.
    let mut unheard = member();
    let (three, first) = (
        unheard.membership.number(&mut unheard.state, id(3)),
        [TWO, (3, 0, 1)],
    );
    let missing = Err(Error::not_covered(id(3), 1, 0));
    let taken_in = |turn| {
        let by = by(1, 10);
        [(3, Statement::Admit(Admit { turn, by }))]
    };
    judged(&unheard, 2, &first, &[], missing.clone());
    let named = [ONE, first[0], first[1]];
    for turn in [0, HEARD - 1] {
        judged(&unheard, 2, &named, &taken_in(turn), missing.clone());
    }
    for turn in [HEARD, HEARD + 1] {
        judged(&unheard, 2, &named, &taken_in(turn), Ok(()));
    }
    learn(&mut unheard, three, fence(1, 9));
    judged(&unheard, 2, &first, &[], behind());
    // Nor incarnations of those who are members only there.
    let named = [TWO, (7, 0, 1)];
    judged(&member(), 2, &named, &[(7, announce(7, 5))], behind());
    judged(&member(), 2, &named, &[(7, announce(1, 6))], Ok(()));
    judged(&member(), 1, &named, &[(7, announce(7, 5))], Ok(()));
}

#[test]
fn a_replica_hears_that_it_was_given_up_or_holds_what_was() {
    let replica = member();
    let (over, outdated) = (
        || Err(Error::Admission(AdmissionError::Retired)),
        || Err(Error::Admission(AdmissionError::Outdated)),
    );
    let all = [(0, 0, 10), (1, 10, 11), TWO];
    for (writer, statement, expected) in [
        (2, retired(1, 11, 9), outdated()),
        (2, retired(1, 11, 10), Ok(())),
        (2, retired(1, 11, 11), Ok(())),
        (2, fence(1, 11), Ok(())),
        (0, fence(1, 11), over()),
        (0, retired(1, 11, 10), over()),
        (0, admit(1, 11), Ok(())),
    ] {
        judged(&replica, 1, &all, &[(writer, statement)], expected);
    }
    // Whole states that do not name it.
    let judge = |replica: &Replica, writers: &[(u32, u64, u64)]| {
        let part = told(writers, &[]);
        assert_eq!(
            replica.membership.check(&replica.state, &part, Some(id(1))),
            Ok(())
        );
        replica
            .membership
            .check(&replica.state, &whole(writers, &[]), Some(id(1)))
    };
    let mut tab = guest();
    assert_eq!(judge(&tab, &[(1, 0, 10), TWO]), over());
    assert_eq!(judge(&tab, &[(0, 0, 10), (1, 0, 10), TWO]), Ok(()));
    assert_eq!(judge(&tab, &[(1, 0, 4), TWO]), Ok(()));
    learn(&mut tab, 1, fence(2, 9));
    assert_eq!(judge(&tab, &[(1, 0, 4), TWO]), outdated());
    assert_eq!(judge(&tab, &[(0, 0, 10), (1, 0, 4), TWO]), Ok(()));
    // Nor one that it holds.
    let two_left_out = [(0, 0, 10), (1, 0, 10)];
    assert_eq!(judge(&replica, &two_left_out), outdated());
    let mut absorbed = member();
    learn(&mut absorbed, 2, retired(1, 9, 10));
    assert_eq!(judge(&absorbed, &two_left_out), Ok(()));
    // The state takes the place of what one held for whom nobody waits, and who wrote nothing.
    for (clock, expected) in [(0, Ok(())), (1, outdated())] {
        let mut alone = guest();
        alone.membership.table_mut().stored().writer_states[0] = WriterState::default();
        alone.state.set_clock(OWN, clock);
        assert_eq!(judge(&alone, &[(1, 0, 10)]), expected);
    }
}

#[test]
fn who_is_waited_for_holds_what_was_collected_or_hears_that_it_was_not() {
    let hear = |replica: &Replica, complete, clock| {
        let message = Message {
            complete,
            ..told(
                &[(0, 0, 10), (1, 0, 12), TWO],
                &[(1, Statement::Horizon(clock))],
            )
        };
        replica
            .membership
            .check(&replica.state, &message, Some(id(1)))
    };
    for replica in [member(), guest()] {
        assert_eq!(hear(&replica, true, 10), Ok(()));
        assert_eq!(
            hear(&replica, true, 11),
            Err(AdmissionError::Outdated.into())
        );
        assert_eq!(hear(&replica, false, 11), Ok(()));
    }
    let mut alone = guest();
    alone.membership.table_mut().stored().writer_states[0] = WriterState::default();
    assert_eq!(hear(&alone, true, 11), Ok(()));
}

#[test]
fn there_may_be_so_many_writers() {
    let mut replica = member();
    replica.membership.table_mut().stored().configuration = None;
    let entry = |at: usize| {
        let mut bytes = [255; 16];
        bytes[8..].copy_from_slice(&(at as u64).to_be_bytes());
        let writer = WriterId::from_bytes(bytes);
        Entry {
            writer,
            lo: 0,
            hi: 1,
        }
    };
    let mut message = open(&[]);
    message.delta.writers = (0..WRITERS_MERGED_MAX - 3).map(entry).collect();
    assert_eq!(
        replica.membership.check(&replica.state, &message, None),
        Ok(())
    );
    message.delta.writers.push(entry(WRITERS_MERGED_MAX));
    let (writers, max) = (WRITERS_MERGED_MAX + 1, WRITERS_MERGED_MAX);
    let full = Err(Error::Write(WriteError::WritersFull { writers, max }));
    assert_eq!(
        replica.membership.check(&replica.state, &message, None),
        full
    );
}

#[test]
fn an_incarnation_must_have_seen_what_may_have_been_collected() {
    let mut replica = member();
    replica.membership.table_mut().stored().collected = vec![0, 6];
    let unsure = || Err(AdmissionError::Unsure { writer: id(7) }.into());
    let began = |seen| vec![(7, announce(1, 6)), (7, base(&[(1, seen)], true))];
    let named = [ONE, (7, 0, 3)];
    let judge = |message: &Message| {
        let at = message
            .delta
            .writers
            .iter()
            .position(|it| it.writer == id(7));
        replica
            .membership
            .check_base(&replica.state, message, at.unwrap() as u32)
    };
    assert_eq!(judge(&told(&named, &began(6))), Ok(()));
    assert_eq!(judge(&told(&named, &began(5))), unsure());
    assert_eq!(
        judge(&whole(&named, &began(5))),
        Err(AdmissionError::Behind.into())
    );
    let unaware = Message {
        closed: false,
        ..told(&named, &began(5))
    };
    assert_eq!(judge(&unaware), Ok(()));
    // The sender has forgotten whose that was.
    let forgot = [(1, gone(1, 5)), (7, announce(1, 6)), (7, base(&[], true))];
    let mut message = whole(&named, &forgot);
    assert_eq!(judge(&message), Err(AdmissionError::Behind.into()));
    message = whole(&[(3, 0, 1), (7, 0, 3)], &[]);
    for (_, statement) in &forgot {
        let writer = u32::from(!matches!(statement, Statement::Gone(..)));
        let statement = statement.clone();
        message
            .records
            .stored()
            .push(MembershipRecord { writer, statement });
    }
    message
        .records
        .stored()
        .sort_by_key(MembershipRecord::place);
    assert_eq!(judge(&message), Ok(()));
    // Records about others, or about guests, are not about it.
    let more = [ONE, (6, 0, 1), (7, 0, 3)];
    let [announced, based] = [announce(1, 6), base(&[(1, 5)], true)];
    let of = |a, b| told(&more, &[(a, announced.clone()), (b, based.clone())]);
    assert_eq!(judge(&of(7, 7)), unsure());
    assert_eq!(judge(&of(6, 7)), Ok(()));
    assert_eq!(judge(&of(7, 6)), Ok(()));
    assert_eq!(judge(&told(&more, &[(7, based.clone())])), Ok(()));
}

/// A member that took in an incarnation, 1, that had seen 4 of this one's transactions.
fn with_an_unsure_one() -> Replica {
    let mut replica = member();
    learn(&mut replica, 1, base(&[(0, 4)], true));
    assert!(replica.membership.table().writer_states[1].is_unsure());
    replica
}

#[test]
fn who_may_have_collected_what_an_incarnation_had_not_seen_is_refused() {
    let replica = with_an_unsure_one();
    let judge = |replica: &Replica, live, message: &Message| {
        let judged = replica
            .membership
            .check_unsure(&replica.state, message, &id(live));
        assert_eq!(
            replica
                .membership
                .check(&replica.state, message, Some(id(live))),
            judged
        );
        judged
    };
    let unsure = Err(Error::Admission(AdmissionError::Unsure { writer: id(1) }));
    let part = told(&[TWO], &[]);
    assert_eq!(judge(&replica, 2, &part), unsure);
    assert_eq!(judge(&replica, 1, &part), Ok(()));
    assert_eq!(judge(&member(), 2, &part), Ok(()));
    assert_eq!(judge(&replica, 2, &told(&[(1, 0, 0), TWO], &[])), unsure);
    assert_eq!(judge(&replica, 2, &told(&[(1, 0, 1), TWO], &[])), Ok(()));
    assert_eq!(
        replica
            .membership
            .check_unsure(&replica.state, &open(&[TWO]), &id(2)),
        Ok(())
    );
    for (vouched, expected) in [
        ((id(2), 1), Ok(())),
        ((id(2), 2), unsure.clone()),
        ((id(3), 1), unsure.clone()),
    ] {
        let mut replica = replica.clone();
        replica
            .membership
            .table_mut()
            .stored()
            .vouched
            .push(vouched);
        assert_eq!(judge(&replica, 2, &part), expected);
    }
    let horizon = |writer, clock| {
        let named = [(0, 0, 10), TWO, (8, 0, 3), (9, 1, 3)];
        let message = whole(&named, &[(writer, Statement::Horizon(clock))]);
        replica
            .membership
            .check_unsure(&replica.state, &message, &id(2))
    };
    assert_eq!(horizon(0, 4), Ok(()));
    assert_eq!(horizon(0, 5), Err(AdmissionError::Outdated.into()));
    // A writer that was forgotten here has been received as a whole. A new one has not.
    assert_eq!(horizon(8, 2), Ok(()));
    assert_eq!(horizon(9, 2), Err(AdmissionError::Outdated.into()));
    let other_records = whole(&[(0, 0, 10), TWO], &[(0, ack(11, &[]))]);
    assert_eq!(
        replica
            .membership
            .check_unsure(&replica.state, &other_records, &id(2)),
        Ok(())
    );
}

#[test]
fn who_names_an_unsure_incarnation_has_taken_it_in() {
    let mut replica = with_an_unsure_one();
    for (live, writers, vouched) in [
        (2, vec![(1, 0, 0), TWO], vec![]),
        (2, vec![TWO], vec![]),
        (1, vec![ONE, TWO], vec![]),
        (2, vec![(0, 0, 1), (1, 0, 1), TWO], vec![(id(2), 1)]),
        (2, vec![(1, 0, 1), TWO], vec![(id(2), 1)]),
        (3, vec![ONE], vec![(id(2), 1), (id(3), 1)]),
    ] {
        replica
            .membership
            .vouch(&replica.state, &told(&writers, &[]), id(live));
        assert_eq!(replica.membership.table().vouched, vouched);
    }
}

#[test]
fn what_is_said_of_writers_is_taken_once_and_not_of_the_forgotten() {
    let named = [(0, 0, 10), (1, 0, 12), (2, 0, 10), (3, 0, 1), (7, 0, 3)];
    let mut forgotten = Forgotten::default();
    forgotten.stored().push(4);
    let mut replica = member();
    replica.membership.number(&mut replica.state, id(3));
    learn(&mut replica, 3, announce(1, 6));
    let take = |replica: &mut Replica, writer, statement| {
        let before = replica.membership.table().writer_states.clone();
        let retired = replica.merge_records(&told(&named, &[(writer, statement)]), &forgotten);
        (retired, replica.membership.table().writer_states != before)
    };
    // Up to 10 all is known here.
    assert_eq!(take(&mut replica, 1, ack(10, &[(1, 9)])), (vec![], false));
    let seen = [(0, 5), (1, 9), (7, 3)];
    assert_eq!(take(&mut replica, 1, ack(11, &seen)), (vec![], true));
    let ack = replica.membership.table().writer_states[1]
        .ack
        .as_ref()
        .unwrap();
    assert_eq!((ack.clock, &ack.seen[..]), (11, &seen[..2]));
    let began = base(&[(1, 4), (7, 2)], true);
    assert_eq!(take(&mut replica, 3, began), (vec![], true));
    let base = replica.membership.table().writer_states[3].base.as_deref();
    assert_eq!(base, Some(&[(1, 4)][..]));
    assert_eq!(take(&mut replica, 7, fence(1, 11)), (vec![], false));
    assert_eq!(take(&mut replica, 7, retired(1, 11, 3)), (vec![], false));
    assert_eq!(take(&mut replica, 2, retired(1, 10, 3)), (vec![], false));
    assert_eq!(take(&mut replica, 2, retired(1, 11, 10)), (vec![2], true));
    assert_eq!(take(&mut replica, 2, retired(1, 11, 10)), (vec![], false));
    // Records about the space.
    assert_eq!(take(&mut replica, 1, decided(2, &[0])), (vec![], false));
    let configuration = configuration(2, &[0]);
    let by_one = by(1, 11);
    let decided = Some((by_one, configuration));
    assert_eq!(replica.membership.table().configuration, decided);
    assert_eq!(take(&mut replica, 1, gone(7, 4)), (vec![], false));
    assert_eq!(replica.membership.table().gone, [(owner(7), 4, by_one)]);
    assert_eq!(
        take(&mut replica, 1, Statement::Horizon(11)),
        (vec![], false)
    );
    assert_eq!(replica.membership.table().collected.iter().max(), None);
    // A collection there counts as one here.
    let horizon = |clock| {
        [
            (0, Statement::Horizon(2)),
            (1, Statement::Horizon(clock)),
            (7, Statement::Horizon(9)),
        ]
    };
    for (clock, kept) in [(6, 6), (5, 6), (8, 8)] {
        let message = told(&named, &horizon(clock));
        replica
            .membership
            .apply_horizon(&mut replica.state, &message, &forgotten);
        assert_eq!(replica.membership.table().collected, [2, kept, 0, 0]);
    }
    assert!(!replica.state.knows(&id(7)));
}

#[test]
fn the_later_configuration_stands_and_of_one_the_least_stamp() {
    let present = configuration(2, &[0, 1]);
    for (stamp, theirs, taken) in [
        (by(0, 5), configuration(1, &[0, 1]), false),
        (by(2, 5), configuration(3, &[0, 1]), true),
        (by(0, 9), present.clone(), true),
        (by(1, 4), present.clone(), true),
        (by(1, 6), present.clone(), false),
        (by(2, 1), present.clone(), false),
    ] {
        let mut replica = member();
        let before = (by(1, 5), present.clone());
        replica.membership.table_mut().stored().configuration = Some(before.clone());
        replica.membership.table_mut().stored().proposal = Some(Ruling {
            members: vec![owner(0)],
            ..Ruling::default()
        });
        replica.merge_configuration(stamp, &theirs);
        let stands = match taken {
            true => (stamp, theirs.clone()),
            false => before,
        };
        assert_eq!(replica.membership.table().configuration, Some(stands));
        // Its number is not taken by what was decided before.
        let open = !taken || theirs == present;
        assert_eq!(replica.members().proposal().is_some(), open);
    }
}

#[test]
fn one_that_began_from_too_old_a_state_notices_as_long_as_nobody_has_taken_it_in() {
    // It writes under 0, had seen 4 of 1's transactions before its first one, and holds all 10.
    let mut early = guest();
    early.membership.table_mut().stored().writer_states[0] = WriterState::default();
    early.membership.table_mut().stored().writer_states[0].base = Some([(1, 4)].into());
    let hear = |replica: &Replica, complete, clock| {
        let records = [(1, Statement::Horizon(clock))];
        let message = Message {
            complete,
            ..told(&[(0, 0, 10), (1, 0, 10), TWO], &records)
        };
        replica
            .membership
            .check(&replica.state, &message, Some(id(1)))
    };
    assert_eq!(hear(&early, true, 4), Ok(()));
    assert_eq!(hear(&early, true, 5), Err(AdmissionError::Outdated.into()));
    assert_eq!(hear(&early, false, 5), Ok(()));
    let but = |change: fn(&mut WriterState)| {
        let mut replica = early.clone();
        change(&mut replica.membership.table_mut().stored().writer_states[0]);
        hear(&replica, true, 5)
    };
    // Nothing that it had not seen can be cancelled by one that had seen nothing.
    assert_eq!(
        but(|writer_state| writer_state.base = Some([].into())),
        Ok(())
    );
    assert_eq!(but(|writer_state| writer_state.base = None), Ok(()));
    // Others wait for it, or judge it.
    let taken_in = |writer_state: &mut WriterState| {
        writer_state.merge(&admit(1, 5), &[id(0), id(1)]);
    };
    assert_eq!(but(taken_in), Ok(()));
    let announced = |writer_state: &mut WriterState| {
        writer_state.merge(&announce(0, 5), &[id(0), id(1)]);
    };
    assert_eq!(but(announced), Ok(()));
}

#[test]
fn a_whole_state_of_replaced_members_is_known_by_its_number() {
    let (mut replica, known) = (member(), configuration(2, &[0, 1]));
    replica.membership.table_mut().stored().configuration = Some((by(0, 1), known.clone()));
    let is_replaced = |number, era| {
        let it = Configuration {
            era,
            ..configuration(number, &[1])
        };
        let records = [(1, Statement::Configuration(11, Box::new(it)))];
        replica
            .membership
            .knows_newer_members(&whole(&[(1, 0, 11)], &records))
    };
    assert_eq!(
        [1, 2, 3].map(|number| is_replaced(number, 0)),
        [true, false, false]
    );
    assert!(!is_replaced(1, 1), "it was forced since");
    assert!(
        replica
            .membership
            .knows_newer_members(&whole(&[(1, 0, 11)], &[])),
        "it says of none"
    );
    let mut open = replica.clone();
    open.membership.table_mut().stored().configuration = None;
    assert!(
        !open
            .membership
            .knows_newer_members(&whole(&[(1, 0, 11)], &[]))
    );
}

//! Sponsors by hand: who is admitted, by whom, and what is known of what guests have seen.

use crate::error::{AdmissionError, WriteError};

use super::super::tests::*;
use super::*;
use crate::bounds::{WRITERS_MAX, WRITERS_MERGED_MAX};
use crate::membership::table::Sponsored;
use crate::message::records::Intro;
use crate::replica::Replica;
use crate::state::vector::VersionVector;
use alloc::vec;

#[test]
fn who_lacks_what_may_have_been_collected_is_not_taken_in() {
    let (mut one, ..) = member();
    writer_state(&mut one, OWN).ack = ack(&[(OWN, 4)]);
    let table = one.membership.table_mut().stored();
    (table.collected, table.stable) = (vec![0; 3], vec![0; 3]);
    let may = |lonely, seen: u64| {
        one.membership
            .may_admit(&one.state, &id(50), lonely, &|_| seen)
    };
    assert_eq!(may(false, 4), Ok(()));
    assert_eq!(may(false, 3), Err(AdmissionError::Behind.into()));
    // It saw nothing of others: so it cancels nothing of them.
    assert_eq!(may(true, 0), Ok(()));
    one.membership.remember(id(50), 7);
    let may = one.membership.may_admit(&one.state, &id(50), true, &|_| 9);
    assert_eq!(may, Err(AdmissionError::Gone { writer: id(50) }.into()));
}

#[test]
fn one_writer_too_many_is_refused() {
    let (mut one, ..) = member();
    let fill = |one: &mut Replica, upto: usize| {
        for at in one.state.writer_count()..upto {
            let mut bytes = [200; 16];
            bytes[8..].copy_from_slice(&(at as u64).to_be_bytes());
            one.membership
                .number(&mut one.state, WriterId::from_bytes(bytes));
        }
    };
    let full = |max: usize| {
        let writers = max + 1;
        Err(WriteError::WritersFull { writers, max }.into())
    };
    fill(&mut one, WRITERS_MAX);
    let known = one.state.ids()[WRITERS_MAX - 1];
    assert_eq!(one.members_mut().admit(&id(250)), full(WRITERS_MAX));
    let mut other = one.clone();
    assert_eq!(other.members_mut().fence(&id(250)), Ok(()));
    fill(&mut other, WRITERS_MERGED_MAX);
    assert_eq!(
        other.members_mut().fence(&id(251)),
        full(WRITERS_MERGED_MAX)
    );
    assert_eq!(one.members_mut().admit(&known), Ok(()));
    assert_eq!(one.members_mut().fence(&known), Ok(()));
}

#[test]
fn a_writer_is_taken_in_once_and_a_later_sponsor_has_a_later_turn() {
    let (one, other, guest) = member();
    let taken_in = |number: u32, sponsor: Option<Admit>, heard: bool| {
        let mut one = one.clone();
        writer_state(&mut one, number).sponsor = sponsor;
        let (writer, before) = (one.state.id(number), one.clock());
        one.membership.table_mut().stored().sponsored = [other, guest]
            .map(|writer| Sponsored {
                writer,
                seen: vec![],
            })
            .into();
        one.membership
            .become_sponsor_of(&mut one.state, writer, heard)
            .unwrap();
        let sponsored = one.membership.table().sponsored.iter().map(|it| it.writer);
        let sponsored: Vec<u32> = sponsored.collect();
        let sponsor = writer_state(&mut one, number).sponsor;
        (
            one.clock() - before,
            sponsor.map(|sponsor| sponsor.turn),
            sponsored,
        )
    };
    for heard in [false, true] {
        let same = (0, None, vec![other, guest]);
        assert_eq!(taken_in(other, None, heard), same);
        let turn = Some(if heard { 2 } else { 0 });
        assert_eq!(taken_in(guest, None, heard), (1, turn, vec![other, guest]));
    }
    for (turn, next) in [(0, 2), (1, 2), (2, 4), (3, 4)] {
        for sponsor in [OWN, other] {
            let sponsor = admit(turn, by(sponsor, 1));
            let same = (0, Some(turn), vec![other, guest]);
            assert_eq!(taken_in(guest, sponsor, false), same);
            let moved = (1, Some(next), vec![other, guest]);
            assert_eq!(taken_in(guest, sponsor, true), moved);
        }
    }
    let mut one = one.clone();
    writer_state(&mut one, guest).leave = left(3);
    let writer = one.state.id(guest);
    let gone = Err(AdmissionError::Gone { writer }.into());
    assert_eq!(
        one.membership
            .become_sponsor_of(&mut one.state, writer, false),
        gone
    );
    // The record that it was received is made, although no member waits for it any more.
    let sponsored = one.membership.table().sponsored.len();
    assert_eq!(
        one.membership
            .become_sponsor_of(&mut one.state, writer, true),
        Ok(())
    );
    assert_eq!(
        writer_state(&mut one, guest)
            .sponsor
            .map(|sponsor| sponsor.turn),
        Some(4)
    );
    assert_eq!(one.membership.table().sponsored.len(), sponsored);
    writer_state(&mut one, guest).fence = dead(by(OWN, 1));
    assert_eq!(
        one.membership
            .become_sponsor_of(&mut one.state, writer, true),
        gone
    );
}

/// Ranks change when what a forgotten writer stamped is stamped by its successor, and a state does not say
/// which of two admissions is the sponsor.
#[test]
fn the_sponsor_stays_the_later_admission_when_a_sponsor_is_forgotten() {
    let (one, other, guest) = member();
    let (own, theirs) = (by(OWN, 1), by(other, 1));
    for (intro, sponsor, turns) in [
        (own, theirs, (0, 1)),
        (theirs, own, (0, 1)),
        (theirs, theirs, (0, 0)),
        (own, own, (0, 0)),
    ] {
        let mut one = one.clone();
        writer_state(&mut one, guest).intro = admit(0, intro);
        writer_state(&mut one, guest).sponsor = admit(0, sponsor);
        one.forget_writer(other, by(OWN, 2), 1);
        let now = writer_state(&mut one, guest).clone();
        let turn = |admit: Option<Admit>| admit.unwrap().turn;
        assert_eq!((turn(now.intro), turn(now.sponsor)), turns);
        let mut begins = WriterState::default();
        for statement in [now.sponsor, now.intro].into_iter().flatten() {
            begins.merge(&Statement::Admit(statement), one.state.ids());
        }
        assert_eq!((begins.intro, begins.sponsor), (now.intro, now.sponsor));
    }
}

#[test]
fn a_member_notes_what_its_guests_have_seen_and_nobody_else() {
    let (one, other, guest) = member();
    let heard = |number: u32, announced: bool, sponsor: Option<Admit>| {
        let mut one = one.clone();
        one.membership.table_mut().stored().sponsored.clear();
        if !announced {
            writer_state(&mut one, number).announce = None;
        }
        writer_state(&mut one, number).sponsor = sponsor;
        let writer = one.state.id(number);
        one.membership.note_seen(&one.state, &writer, &one.vector());
        let sponsored = one.membership.table().sponsored.iter();
        sponsored.map(|it| it.writer).collect::<Vec<_>>()
    };
    let (here, there) = (admit(0, by(OWN, 1)), admit(0, by(other, 1)));
    assert_eq!(heard(guest, false, here), [guest]);
    assert!(heard(guest, false, there).is_empty());
    assert!(heard(guest, false, None).is_empty());
    // It was a guest before it became a member.
    assert!(heard(other, true, here).is_empty());
    assert!(heard(OWN, false, here).is_empty());
}

#[test]
fn of_what_was_heard_the_most_is_kept() {
    let (mut one, other, guest) = member();
    let writer = one.state.id(guest);
    one.membership.table_mut().stored().sponsored = vec![Sponsored {
        writer: guest,
        seen: vec![(OWN, 2)],
    }];
    one.membership
        .note_seen(&one.state, &writer, &VersionVector::default());
    assert_eq!(one.membership.table().sponsored[0].seen, [(OWN, 2)]);
    let of_other = one.vector().without(&[one.writer(), writer]);
    one.membership.note_seen(&one.state, &writer, &of_other);
    let mut both = vec![(OWN, 2), (other, one.state.clock_at(other))];
    both.sort_unstable();
    assert_eq!(one.membership.table().sponsored[0].seen, both);
    assert_eq!(one.membership.table().sponsored.len(), 1);
}

#[test]
fn a_member_speaks_for_those_it_took_in_who_are_not_over() {
    let (one, other, guest) = member();
    let sponsored = |number: u32, change: &dyn Fn(&mut WriterState)| {
        let mut one = one.clone();
        writer_state(&mut one, guest).sponsor = None;
        writer_state(&mut one, number).sponsor = admit(0, by(OWN, 1));
        change(writer_state(&mut one, number));
        let sponsored: Vec<WriterId> = one.members().sponsored().collect();
        assert!(sponsored.is_empty() || sponsored == [one.state.id(number)]);
        for writer in one.state.ids() {
            let is_one = one.members().is_sponsored(writer);
            assert_eq!(is_one, sponsored.contains(writer));
        }
        !sponsored.is_empty()
    };
    assert!(sponsored(guest, &|_| ()));
    assert!(!sponsored(guest, &|writer_state| writer_state.leave = left(3)));
    assert!(!sponsored(guest, &|writer_state| writer_state.fence =
        dead(by(other, 3))));
    assert!(!sponsored(guest, &|writer_state| writer_state.sponsor =
        admit(0, by(other, 3))));
    assert!(!sponsored(other, &|_| ()), "members speak for themselves");
}

#[test]
fn a_guest_gets_on_with_what_members_made() {
    let (mut one, other, guest) = member();
    let writer = one.state.id(guest);
    let held = [OWN, other].map(|number| one.state.clock_at(number));
    let mut told = |seen: Vec<(u32, u64)>| {
        one.membership.table_mut().stored().sponsored = Vec::from([Sponsored {
            writer: guest,
            seen,
        }]);
        one.membership.progress(&one.state, &writer)
    };
    assert_eq!(told(vec![]), (0, false));
    assert_eq!(told(vec![(other, held[1])]), (held[1], false));
    let all = vec![(OWN, held[0]), (other, held[1])];
    assert_eq!(told(all), (held[0] + held[1], true));
}

#[test]
fn a_writer_tells_who_took_it_in_once_it_was() {
    let (mut one, other, _) = member();
    let announce = writer_state(&mut one, OWN).announce.clone().unwrap();
    let own = Intro {
        by: one.writer(),
        clock: announce.clock,
        owner: announce.owner,
        generation: announce.generation,
    };
    for (established, intro) in [(true, Some(own)), (false, None)] {
        one.membership.table_mut().stored().established = established;
        assert_eq!(one.membership.intro(&one.state), intro);
        assert_eq!(
            (one.members().is_established(), one.membership.is_counted()),
            (established, established)
        );
    }
    // A writer that has left is no member, whichever member admitted it.
    one.membership.table_mut().stored().established = true;
    writer_state(&mut one, OWN).leave = left(9);
    assert!(!one.members().is_established() && !one.membership.is_counted());
    writer_state(&mut one, OWN).leave = None;
    // A guest of the other.
    writer_state(&mut one, OWN).announce = None;
    assert_eq!(
        (
            one.membership.intro(&one.state),
            one.membership.is_counted()
        ),
        (None, false)
    );
    assert!(!one.members().is_established());
    writer_state(&mut one, OWN).intro = admit(0, by(other, 2));
    let announce = writer_state(&mut one, other).announce.clone().unwrap();
    let theirs = Intro {
        by: one.state.id(other),
        clock: 2,
        owner: announce.owner,
        generation: announce.generation,
    };
    assert_eq!(
        (
            one.membership.intro(&one.state),
            one.membership.is_counted()
        ),
        (Some(theirs), true)
    );
    writer_state(&mut one, OWN).leave = left(9);
    assert!(!one.membership.is_counted());
}

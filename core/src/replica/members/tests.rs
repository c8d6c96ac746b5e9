//! Cards by hand: who is taken in, heard, declared dead, and known to whom.

use super::super::collect::tests::space;
use super::*;
use crate::bounds::{WRITERS_MAX, WRITERS_MERGED_MAX};
use crate::error::{AdmissionError, WriteError};
use crate::layers::Optional;
use crate::membership::table::Attached;
use crate::message::records::{Ack, Bye, Fence, Intro, Retired, WriterState};
use alloc::vec;

const OWNERS: [Owner; 2] = [[1; 32], [2; 32]];
const NONCE: [u8; 16] = [7; 16];

fn by(writer: u32, clock: u64) -> Stamp {
    Stamp { writer, clock }
}

fn admit(turn: u64, by: Stamp) -> Option<Admit> {
    Some(Admit { turn, by })
}

fn ack(seen: &[(u32, u64)]) -> Option<Box<Ack>> {
    Some(Box::new(Ack {
        clock: 1,
        want: 0,
        seen: seen.to_vec(),
    }))
}

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

/// A member of two, and the local numbers of the other one and of its own guest.
fn member() -> (Replica, u32, u32) {
    let [one, two, tab] = space();
    let number = |of: &Replica| one.state.number_of(&of.writer()).unwrap();
    let (other, guest) = (number(&two), number(&tab));
    (one, other, guest)
}

fn card(replica: &mut Replica, number: u32) -> &mut WriterState {
    &mut replica.membership.table.stored().cards[number as usize]
}

fn left(clock: u64) -> Option<Bye> {
    Some(Bye { clock, heir: OWN })
}

fn dead(by: Stamp) -> Option<Fence> {
    let (turn, heir) = (0, OWN);
    Some(Fence { turn, by, heir })
}

fn absorbed() -> Option<Retired> {
    let (to, upto) = (by(OWN, 1), 1);
    Some(Retired { to, upto })
}

#[test]
fn an_owners_next_incarnation_is_newer_than_its_own_earlier_ones_only() {
    let (mut one, other, _) = member();
    card(&mut one, OWN).announce.as_mut().unwrap().generation = 1_000;
    card(&mut one, other).announce.as_mut().unwrap().generation = 5;
    let generation = |one: &Replica, unix_ms| {
        let announce = one.membership.announcement(9, &OWNERS[1], &NONCE, unix_ms);
        announce.generation
    };
    assert_eq!([1, 6, 7].map(|it| generation(&one, it)), [6, 6, 7]);
    one.membership.take_gone(by(OWN, 3), OWNERS[1], 20);
    assert_eq!(generation(&one, 7), 21);
}

#[test]
fn incarnations_are_told_by_their_owners() {
    let (one, other, _) = member();
    let of = |owner: &Owner| one.membership.incarnations(owner).collect::<Vec<u32>>();
    assert_eq!(of(&OWNERS[0]), [OWN]);
    assert_eq!(of(&OWNERS[1]), [other]);
    assert!(of(&[3; 32]).is_empty());
}

#[test]
fn an_announcement_declares_the_living_earlier_ones_dead_and_nobody_else() {
    let (one, other, guest) = member();
    let announced = |over: &dyn Fn(&mut WriterState)| {
        let mut one = one.clone();
        over(card(&mut one, other));
        one.members_mut().announce(&OWNERS[1], &NONCE, 1).unwrap();
        let clock = one.clock();
        assert_eq!(card(&mut one, guest).fence, None);
        assert_eq!(card(&mut one, OWN).fence, None);
        card(&mut one, other).fence.map(|fence| (fence.by, clock))
    };
    let (fence, clock) = announced(&|_| ()).expect("it was declared dead");
    assert_eq!(fence, by(OWN, clock));
    assert_eq!(announced(&|card| card.bye = left(3)), None);
    assert_eq!(announced(&|card| card.retired = absorbed()), None);
    let mut again = one.clone();
    again.members_mut().announce(&OWNERS[0], &NONCE, 1).unwrap();
    assert!(again.members().is_member(), "nobody declares itself dead");
}

#[test]
fn what_may_have_been_collected_is_what_was_acknowledged_or_is_stable() {
    let (mut one, other, guest) = member();
    card(&mut one, OWN).ack = ack(&[(OWN, 4)]);
    card(&mut one, other).ack = ack(&[(other, 9)]);
    card(&mut one, guest).ack = None;
    let table = one.membership.table.stored();
    (table.floor, table.settled) = (vec![0; 3], vec![0; 3]);
    assert_eq!(one.membership.horizons().collect::<Vec<_>>(), []);
    assert_eq!(one.membership.given_up(), [(OWN, 4)]);
    let mut given_up = one.clone();
    given_up.membership.table.stored().floor[other as usize] = 2;
    given_up.membership.table.stored().settled = vec![3; 3];
    let mut horizons = vec![(OWN, 3), (other, 3)];
    assert_eq!(given_up.membership.horizons().collect::<Vec<_>>(), horizons);
    horizons.insert(0, (OWN, 4));
    assert_eq!(given_up.membership.given_up(), horizons);
    // The other one was an earlier incarnation of this owner.
    card(&mut one, other).announce.as_mut().unwrap().owner = OWNERS[0];
    assert_eq!(one.membership.given_up(), [(OWN, 4), (other, 9)]);
}

#[test]
fn who_lacks_what_may_have_been_collected_is_not_taken_in() {
    let (mut one, ..) = member();
    card(&mut one, OWN).ack = ack(&[(OWN, 4)]);
    let table = one.membership.table.stored();
    (table.floor, table.settled) = (vec![0; 3], vec![0; 3]);
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
    let full = |writers, max| Err(Error::Write(WriteError::WritersFull { writers, max }));
    fill(&mut one, WRITERS_MAX);
    let known = one.state.ids()[WRITERS_MAX - 1];
    let admitted = one.members_mut().admit(&id(250));
    assert_eq!(admitted, full(WRITERS_MAX + 1, WRITERS_MAX));
    let mut other = one.clone();
    assert_eq!(other.members_mut().fence(&id(250)), Ok(()));
    fill(&mut other, WRITERS_MERGED_MAX);
    assert_eq!(
        other.members_mut().fence(&id(251)),
        full(WRITERS_MERGED_MAX + 1, WRITERS_MERGED_MAX)
    );
    assert_eq!(one.members_mut().admit(&known), Ok(()));
    assert_eq!(one.members_mut().fence(&known), Ok(()));
}

#[test]
fn a_writer_is_taken_in_once_and_a_later_home_has_a_later_turn() {
    let (one, other, guest) = member();
    let taken_in = |number: u32, home: Option<Admit>, heard: bool| {
        let mut one = one.clone();
        card(&mut one, number).home = home;
        let (writer, before) = (one.state.id(number), one.clock());
        one.membership.table.stored().attached = [other, guest]
            .map(|writer| Attached {
                writer,
                seen: vec![],
            })
            .into();
        one.membership
            .take_in(&mut one.state, writer, heard)
            .unwrap();
        let attached = one.membership.table.attached.iter().map(|it| it.writer);
        let attached: Vec<u32> = attached.collect();
        let home = card(&mut one, number).home;
        (one.clock() - before, home.map(|home| home.turn), attached)
    };
    for heard in [false, true] {
        let same = (0, None, vec![other, guest]);
        assert_eq!(taken_in(other, None, heard), same);
        let turn = Some(if heard { 2 } else { 0 });
        assert_eq!(taken_in(guest, None, heard), (1, turn, vec![other, guest]));
    }
    for (turn, next) in [(0, 2), (1, 2), (2, 4), (3, 4)] {
        for home in [OWN, other] {
            let home = admit(turn, by(home, 1));
            let same = (0, Some(turn), vec![other, guest]);
            assert_eq!(taken_in(guest, home, false), same);
            let moved = (1, Some(next), vec![other, guest]);
            assert_eq!(taken_in(guest, home, true), moved);
        }
    }
    let mut one = one.clone();
    card(&mut one, guest).bye = left(3);
    let writer = one.state.id(guest);
    let gone = Err(Error::Admission(AdmissionError::Gone { writer }));
    assert_eq!(one.membership.take_in(&mut one.state, writer, false), gone);
    // The record that it was received is made, although no member waits for it any more.
    let attached = one.membership.table.attached.len();
    assert_eq!(one.membership.take_in(&mut one.state, writer, true), Ok(()));
    assert_eq!(card(&mut one, guest).home.map(|home| home.turn), Some(4));
    assert_eq!(one.membership.table.attached.len(), attached);
    card(&mut one, guest).fence = dead(by(OWN, 1));
    assert_eq!(one.membership.take_in(&mut one.state, writer, true), gone);
}

/// Ranks change when what a forgotten writer stamped is stamped by its heir, and a state does not say
/// which of two admissions is the home.
#[test]
fn the_home_stays_the_later_admission_when_a_home_is_forgotten() {
    let (one, other, guest) = member();
    let (own, theirs) = (by(OWN, 1), by(other, 1));
    for (intro, home, turns) in [
        (own, theirs, (0, 1)),
        (theirs, own, (0, 1)),
        (theirs, theirs, (0, 0)),
        (own, own, (0, 0)),
    ] {
        let mut one = one.clone();
        card(&mut one, guest).intro = admit(0, intro);
        card(&mut one, guest).home = admit(0, home);
        one.forget_writer(other, by(OWN, 2), 1);
        let now = card(&mut one, guest).clone();
        let turn = |admit: Option<Admit>| admit.unwrap().turn;
        assert_eq!((turn(now.intro), turn(now.home)), turns);
        let mut begins = WriterState::default();
        for says in [now.home, now.intro].into_iter().flatten() {
            begins.take(&Statement::Admit(says), one.state.ids());
        }
        assert_eq!((begins.intro, begins.home), (now.intro, now.home));
    }
}

#[test]
fn what_a_writer_had_seen_at_its_first_transaction_is_noted_then() {
    let [one, ..] = space();
    let mut tab = Replica::new(one.space().clone(), id(77));
    tab.merge(&one.delta(&VersionVector::default())).unwrap();
    let held = |tab: &Replica| -> Vec<(u32, u64)> {
        let clocks = (0..).zip(tab.state.clocks().iter().copied());
        clocks.filter(|(_, clock)| *clock > 0).collect()
    };
    let base = held(&tab);
    tab.add("k", 1).unwrap();
    assert_eq!(card(&mut tab, OWN).base.as_deref(), Some(&base[..]));
    tab.add("k", 1).unwrap();
    assert_ne!(held(&tab), base);
    assert_eq!(card(&mut tab, OWN).base.as_deref(), Some(&base[..]));
    // The member that admitted it may have had more than it.
    let mut tab = Replica::new(one.space().clone(), id(78));
    card(&mut tab, OWN).intro = admit(0, by(OWN, 1));
    tab.add("k", 1).unwrap();
    assert_eq!(card(&mut tab, OWN).base.as_deref(), Some(&[][..]));
}

#[test]
fn a_writer_is_established_when_others_have_taken_it_in() {
    let (one, other, _) = member();
    let clock = one.membership.table.cards[0]
        .announce
        .as_ref()
        .unwrap()
        .clock;
    let established = |change: &dyn Fn(&mut Replica)| {
        let mut one = one.clone();
        one.membership.table.stored().established = false;
        one.membership
            .table
            .stored()
            .cards
            .iter_mut()
            .for_each(|card| card.ack = None);
        change(&mut one);
        one.membership.establish();
        one.membership.table.established
    };
    assert!(!established(&|_| ()));
    for (seen, done) in [(clock - 1, false), (clock, true), (clock + 1, true)] {
        let heard = |one: &mut Replica| card(one, other).ack = ack(&[(OWN, seen)]);
        assert_eq!(established(&heard), done);
    }
    // Its own word is none.
    assert!(!established(
        &|one| card(one, OWN).ack = ack(&[(OWN, clock)])
    ));
    let sole = |one: &mut Replica| {
        let table = one.membership.table.stored();
        let (_, it) = table.configuration.as_mut().unwrap();
        it.members.truncate(1);
    };
    assert!(established(&sole));
    // A guest, which is established by its admission.
    let guest = |one: &mut Replica| card(one, OWN).announce = None;
    assert!(!established(&|one| {
        sole(one);
        guest(one);
    }));
    assert!(established(&|one| {
        guest(one);
        card(one, OWN).intro = admit(0, by(other, 1));
    }));
}

#[test]
fn a_member_notes_what_its_guests_have_seen_and_nobody_else() {
    let (one, other, guest) = member();
    let heard = |number: u32, announced: bool, home: Option<Admit>| {
        let mut one = one.clone();
        one.membership.table.stored().attached.clear();
        if !announced {
            card(&mut one, number).announce = None;
        }
        card(&mut one, number).home = home;
        let writer = one.state.id(number);
        one.membership.told(&one.state, &writer, &one.vector());
        let attached = one.membership.table.attached.iter();
        attached.map(|it| it.writer).collect::<Vec<_>>()
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
    one.membership.table.stored().attached = vec![Attached {
        writer: guest,
        seen: vec![(OWN, 2)],
    }];
    one.membership
        .told(&one.state, &writer, &VersionVector::default());
    assert_eq!(one.membership.table.attached[0].seen, [(OWN, 2)]);
    let of_other = one.vector().without(&[one.writer(), writer]);
    one.membership.told(&one.state, &writer, &of_other);
    let mut both = vec![(OWN, 2), (other, one.state.clock_at(other))];
    both.sort_unstable();
    assert_eq!(one.membership.table.attached[0].seen, both);
    assert_eq!(one.membership.table.attached.len(), 1);
}

#[test]
fn a_member_speaks_for_those_it_took_in_who_are_not_over() {
    let (one, other, guest) = member();
    let attached = |number: u32, change: &dyn Fn(&mut WriterState)| {
        let mut one = one.clone();
        card(&mut one, guest).home = None;
        card(&mut one, number).home = admit(0, by(OWN, 1));
        change(card(&mut one, number));
        let attached: Vec<WriterId> = one.members().sponsored().collect();
        assert!(attached.is_empty() || attached == [one.state.id(number)]);
        !attached.is_empty()
    };
    assert!(attached(guest, &|_| ()));
    assert!(!attached(guest, &|card| card.bye = left(3)));
    assert!(!attached(guest, &|card| card.fence = dead(by(other, 3))));
    assert!(!attached(guest, &|card| card.home = admit(0, by(other, 3))));
    assert!(!attached(other, &|_| ()), "members speak for themselves");
}

#[test]
fn a_forced_configuration_begins_an_era() {
    let (mut one, ..) = member();
    let at = |one: &Replica| one.members().configuration().map(|it| (it.era, it.number));
    let table = one.membership.table.stored();
    let configuration = &mut table.configuration.as_mut().unwrap().1;
    (configuration.era, configuration.number) = (0, 1);
    one.members_mut().force(&OWNERS).unwrap();
    assert_eq!(at(&one), Some((1, 2)));
    one.members_mut().force(&OWNERS[..1]).unwrap();
    assert_eq!(at(&one), Some((2, 3)));
}

#[test]
fn a_writer_is_declared_dead_once_and_a_stranger_is_taken_in_with_it() {
    let (one, other, guest) = member();
    let fenced = |number: u32, change: &dyn Fn(&mut WriterState)| {
        let mut one = one.clone();
        change(card(&mut one, number));
        let (writer, before) = (one.state.id(number), one.clock());
        one.members_mut().fence(&writer).unwrap();
        let card = card(&mut one, number).clone();
        (one.clock() - before, card.fence.map(|it| it.by), card)
    };
    let now = by(OWN, one.clock() + 1);
    let there = admit(0, by(other, 1));
    let (made, fence, after) = fenced(guest, &|card| (card.intro, card.home) = (there, there));
    assert_eq!((made, fence), (1, Some(now)));
    assert_eq!((after.intro, after.home), (there, there));
    let (made, fence, after) = fenced(other, &|_| ());
    assert_eq!((made, fence), (1, Some(now)));
    assert_eq!((after.intro, after.home), (None, None));
    let before = by(other, 1);
    let (made, fence, _) = fenced(guest, &|card| card.fence = dead(before));
    assert_eq!((made, fence), (0, Some(before)));
    let (made, fence, _) = fenced(guest, &|card| card.retired = absorbed());
    assert_eq!((made, fence), (0, None));
    // Nobody has taken it in: it is taken in and over.
    let mut one = one.clone();
    one.members_mut().fence(&id(50)).unwrap();
    let number = one.state.number_of(&id(50)).unwrap();
    let after = card(&mut one, number);
    assert_eq!(after.intro, admit(0, now));
    assert_eq!(after.fence, dead(now));
}

#[test]
fn incarnations_of_owners_that_are_no_members_are_declared_dead() {
    let (mut one, other, guest) = member();
    one.members_mut().fence_strays().unwrap();
    assert!(
        one.membership
            .table
            .cards
            .iter()
            .all(|card| card.fence.is_none())
    );
    one.members_mut().force(&OWNERS[..1]).unwrap();
    one.members_mut().fence_strays().unwrap();
    assert!(card(&mut one, other).fence.is_some());
    assert_eq!(card(&mut one, guest).fence, None);
    let clock = one.clock();
    one.members_mut().fence_strays().unwrap();
    assert_eq!(one.clock(), clock, "once");
    // One that has left is over already.
    let gone = card(&mut one, other);
    (gone.fence, gone.bye) = (None, left(1));
    one.members_mut().fence_strays().unwrap();
    assert_eq!(card(&mut one, other).fence, None);
}

#[test]
fn an_earlier_start_is_declared_dead_by_the_one_that_learns_of_it() {
    for (generation, dead) in [(1_999, true), (2_000, false), (2_001, false)] {
        let (mut one, other, _) = member();
        card(&mut one, OWN).announce.as_mut().unwrap().generation = 2_000;
        let announce = card(&mut one, other).announce.as_mut().unwrap();
        (announce.owner, announce.generation) = (OWNERS[0], generation);
        one.members_mut().fence_strays().unwrap();
        assert_eq!(card(&mut one, other).fence.is_some(), dead, "{generation}");
    }
}

#[test]
fn a_guest_gets_on_with_what_members_made() {
    let (mut one, other, guest) = member();
    let writer = one.state.id(guest);
    let held = [OWN, other].map(|number| one.state.clock_at(number));
    let mut told = |seen: Vec<(u32, u64)>| {
        one.membership.table.stored().attached = Vec::from([Attached {
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
    let announce = card(&mut one, OWN).announce.clone().unwrap();
    let own = Intro {
        by: one.writer(),
        clock: announce.clock,
        owner: announce.owner,
        generation: announce.generation,
    };
    for (established, intro) in [(true, Some(own)), (false, None)] {
        one.membership.table.stored().established = established;
        assert_eq!(one.membership.intro(&one.state), intro);
        assert_eq!(
            (one.members().is_established(), one.membership.is_counted()),
            (established, established)
        );
    }
    // One that has left is no member, whoever took it in.
    one.membership.table.stored().established = true;
    card(&mut one, OWN).bye = left(9);
    assert!(!one.members().is_established() && !one.membership.is_counted());
    card(&mut one, OWN).bye = None;
    // A guest of the other.
    card(&mut one, OWN).announce = None;
    assert_eq!(
        (
            one.membership.intro(&one.state),
            one.membership.is_counted()
        ),
        (None, false)
    );
    assert!(!one.members().is_established());
    card(&mut one, OWN).intro = admit(0, by(other, 2));
    let announce = card(&mut one, other).announce.clone().unwrap();
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
    card(&mut one, OWN).bye = left(9);
    assert!(!one.membership.is_counted());
}

#[test]
fn an_admission_was_seen_if_it_is_held_or_its_member_was_forgotten() {
    let (mut one, other, _) = member();
    let held = one.state.clock_at(other);
    let intro = |writer, clock, generation| Intro {
        by: writer,
        clock,
        owner: OWNERS[1],
        generation,
    };
    let theirs = one.state.id(other);
    assert!(one.membership.has_seen(&one.state, &intro(theirs, held, 5)));
    assert!(one.membership.has_seen(&one.state, &intro(theirs, 1, 5)));
    assert!(
        !one.membership
            .has_seen(&one.state, &intro(theirs, held + 1, 5))
    );
    assert!(!one.membership.has_seen(&one.state, &intro(id(50), 1, 5)));
    assert!(
        !one.membership.has_seen(&one.state, &intro(id(50), 0, 5)),
        "no admission has this clock"
    );
    one.membership.take_gone(by(OWN, 1), OWNERS[1], 5);
    let forgotten = |generation| {
        one.membership
            .has_seen(&one.state, &intro(id(50), 1, generation))
    };
    assert_eq!([4, 5, 6].map(forgotten), [true, true, false]);
}

#[test]
fn a_members_place_is_sure_when_nobody_can_refuse_it_any_more() {
    let (mut one, other, guest) = member();
    let writers = one.state.ids().to_vec();
    let sure = |one: &Replica| {
        let sure = |number: u32| {
            one.membership
                .is_sure_member(&one.state, &writers[number as usize])
        };
        [OWN, other, guest].map(sure)
    };
    for number in [OWN, other] {
        card(&mut one, number).base = None;
    }
    let clock = |number: u32| {
        one.membership.table.cards[number as usize]
            .announce
            .as_ref()
            .unwrap()
            .clock
    };
    let [own, others] = [OWN, other].map(clock);
    // Whether all who count have acknowledged them is known from what is stable.
    for (settled, known) in [
        ([own - 1, others - 1], [false, false, false]),
        ([own, others - 1], [true, false, false]),
        ([own, others], [true, true, false]),
    ] {
        one.membership.table.stored().settled = settled.to_vec();
        assert_eq!(sure(&one), known);
    }
    card(&mut one, other).base = Some([(OWN, 1)].into());
    assert_eq!(sure(&one), [true, false, false]);
    card(&mut one, other).base = None;
    card(&mut one, other).bye = left(9);
    assert_eq!(sure(&one), [true, false, false]);
    assert!(!one.membership.is_sure_member(&one.state, &id(50)));
}

#[test]
fn a_member_is_acknowledged_by_another_living_one() {
    let (mut one, other, _) = member();
    let clock = |one: &Replica, number: u32| {
        let announce = &one.membership.table.cards[number as usize].announce;
        announce.as_ref().unwrap().clock
    };
    let own = clock(&one, OWN);
    // Its own word is none.
    card(&mut one, OWN).ack = ack(&[(OWN, own)]);
    card(&mut one, other).ack = None;
    assert!(!one.membership.is_acknowledged());
    for (seen, known) in [(-1, false), (0, true), (1, true)] {
        let mut one = one.clone();
        card(&mut one, other).ack = ack(&[(OWN, own.strict_add_signed(seen))]);
        assert_eq!(one.membership.is_acknowledged(), known);
        card(&mut one, other).bye = left(9);
        assert!(!one.membership.is_acknowledged(), "it is over");
    }
    card(&mut one, other).ack = ack(&[(OWN, own)]);
    one.membership.table.stored().established = false;
    assert!(!one.membership.is_acknowledged());
}

#[test]
fn a_member_has_buried_whom_it_acknowledged_to_be_dead() {
    let (one, other, guest) = member();
    let buried = |acked: u64, settled: u64, change: &dyn Fn(&mut WriterState)| {
        let mut one = one.clone();
        card(&mut one, OWN).ack = ack(&[(other, acked)]);
        let table = one.membership.table.stored();
        (table.floor, table.settled) = (vec![0; 3], vec![0; 3]);
        one.membership.table.stored().settled[other as usize] = settled;
        card(&mut one, guest).fence = dead(by(other, 5));
        change(card(&mut one, guest));
        one.membership.has_buried(guest)
    };
    let plain = |acked, settled| buried(acked, settled, &|_| ());
    assert!(plain(5, 0) && plain(0, 5));
    assert!(!plain(4, 4));
    assert!(!buried(5, 5, &|card| card.fence = None));
    assert!(!buried(5, 5, &|card| card.retired = absorbed()));
}

#[test]
fn it_is_known_who_counts_and_who_is_over() {
    let (mut one, other, guest) = member();
    let writers = one.state.ids().to_vec();
    let id_of = |number: u32| writers[number as usize];
    let counted = |one: &Replica| {
        [OWN, other, guest].map(|it| {
            one.membership
                .is_counted_member(&one.state, &writers[it as usize])
        })
    };
    assert_eq!(counted(&one), [true, true, false]);
    assert!(!one.membership.is_counted_member(&one.state, &id(50)));
    assert!(one.members().accepts_from(&id_of(guest)) && one.members().accepts_from(&id(50)));
    assert_eq!(one.members().final_clock(&id_of(guest)), None);
    card(&mut one, guest).fence = dead(by(OWN, 5));
    assert!(!one.members().accepts_from(&id_of(guest)));
    card(&mut one, guest).retired = absorbed();
    assert_eq!(one.members().final_clock(&id_of(guest)), Some(1));
    one.membership.remember(id(50), 7);
    assert_eq!(one.members().final_clock(&id(50)), Some(7));
    assert!(one.state.knows(&id_of(guest)) && !one.state.knows(&id(50)));
    card(&mut one, other).bye = left(9);
    assert_eq!(counted(&one), [true, false, false]);
}

#[test]
fn an_owners_newest_forgotten_generation_is_kept() {
    let (mut one, ..) = member();
    let [late, early] = [2, 1].map(|clock| by(OWN, clock));
    let third = [3; 32];
    for (by, generation, kept) in [
        (early, 5, (5, early)),
        (late, 4, (5, early)),
        (late, 6, (6, late)),
    ] {
        one.membership.take_gone(by, OWNERS[1], generation);
        one.membership.take_gone(early, third, 1);
        let (generation, by) = kept;
        assert_eq!(
            one.membership.table.gone,
            [(OWNERS[1], generation, by), (third, 1, early)]
        );
    }
    one.membership.take_gone(late, OWNERS[1], 6);
    one.membership.take_gone(early, OWNERS[1], 6);
    assert_eq!(one.membership.table.gone[0], (OWNERS[1], 6, late));
    assert_eq!(
        (one.membership.gone(&OWNERS[0]), one.membership.gone(&third)),
        (None, Some(1))
    );
}

//! Writer states by hand: who is declared dead, who counts, and what is certain of whom.

use super::super::tests::*;
use super::*;
use crate::membership::listing::Members;
use crate::membership::place::Predecessor;
use crate::message::records::{Ack, Intro, Retired};
use crate::optional::Optional;
use crate::replica::Replica;
use crate::replica::collect::tests::space;
use crate::state::vector::VersionVector;
use alloc::vec;

#[test]
fn an_owners_next_incarnation_is_newer_than_its_own_earlier_ones_only() {
    let (mut one, other, _) = member();
    writer_state(&mut one, OWN)
        .announce
        .as_mut()
        .unwrap()
        .generation = 1_000;
    writer_state(&mut one, other)
        .announce
        .as_mut()
        .unwrap()
        .generation = 5;
    let generation = |one: &Replica, unix_ms| {
        let announce = one.membership.announcement(9, &OWNERS[1], &NONCE, unix_ms);
        announce.generation
    };
    assert_eq!([1, 6, 7].map(|it| generation(&one, it)), [6, 6, 7]);
    one.membership.note_forgotten(by(OWN, 3), OWNERS[1], 20);
    assert_eq!(generation(&one, 7), 21);
}

/// The others have forgotten it by then, and no longer name it.
#[test]
fn a_retired_start_leaves_no_member_behind() {
    let mut space = founded();
    let start = second_member(&mut space, 5);
    let before = space.1.number(&mut space.0, id(3));
    let announce = Announce {
        clock: 1,
        owner: OWNERS[1],
        nonce: NONCE,
        generation: 0,
    };
    take(&mut space, before, Statement::Announce(Box::new(announce)));
    space.0.advance(before as usize, 1_000);
    let own = space.0.clock_at(OWN);
    let seen = vec![(OWN, own), (start, 3)];
    let ack = Ack {
        clock: 4,
        want: 0,
        seen,
    };
    take(&mut space, start, Statement::Ack(Box::new(ack)));
    let behind = |(state, membership): &(State, Membership)| {
        Members::new(membership, state).list()[1].behind
    };
    assert_eq!(behind(&space), 1_002);
    let retired = Retired {
        to: by(start, 2),
        upto: 1_000,
    };
    take(&mut space, before, Statement::Retired(retired));
    assert_eq!(behind(&space), 2);
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
        over(writer_state(&mut one, other));
        one.members_mut().announce(&OWNERS[1], &NONCE, 1).unwrap();
        let clock = one.clock();
        assert_eq!(writer_state(&mut one, guest).fence, None);
        assert_eq!(writer_state(&mut one, OWN).fence, None);
        writer_state(&mut one, other)
            .fence
            .map(|fence| (fence.by, clock))
    };
    let (fence, clock) = announced(&|_| ()).expect("it was declared dead");
    assert_eq!(fence, by(OWN, clock));
    assert_eq!(
        announced(&|writer_state| writer_state.leave = left(3)),
        None
    );
    assert_eq!(
        announced(&|writer_state| writer_state.retired = absorbed()),
        None
    );
    let mut again = one.clone();
    again.members_mut().announce(&OWNERS[0], &NONCE, 1).unwrap();
    assert!(again.members().is_member(), "nobody declares itself dead");
}

#[test]
fn what_may_have_been_collected_is_what_was_acknowledged_or_is_stable() {
    let (mut one, other, guest) = member();
    writer_state(&mut one, OWN).ack = ack(&[(OWN, 4)]);
    writer_state(&mut one, other).ack = ack(&[(other, 9)]);
    writer_state(&mut one, guest).ack = None;
    let table = one.membership.table_mut().stored();
    (table.collected, table.stable) = (vec![0; 3], vec![0; 3]);
    assert_eq!(one.membership.horizons().collect::<Vec<_>>(), []);
    assert_eq!(one.membership.given_up(), [(OWN, 4)]);
    let mut given_up = one.clone();
    given_up.membership.table_mut().stored().collected[other as usize] = 2;
    given_up.membership.table_mut().stored().stable = vec![3; 3];
    let mut horizons = vec![(OWN, 3), (other, 3)];
    assert_eq!(given_up.membership.horizons().collect::<Vec<_>>(), horizons);
    horizons.insert(0, (OWN, 4));
    assert_eq!(given_up.membership.given_up(), horizons);
    // The other one was an earlier incarnation of this owner.
    writer_state(&mut one, other)
        .announce
        .as_mut()
        .unwrap()
        .owner = OWNERS[0];
    assert_eq!(one.membership.given_up(), [(OWN, 4), (other, 9)]);
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
    assert_eq!(writer_state(&mut tab, OWN).base.as_deref(), Some(&base[..]));
    tab.add("k", 1).unwrap();
    assert_ne!(held(&tab), base);
    assert_eq!(writer_state(&mut tab, OWN).base.as_deref(), Some(&base[..]));
    // The member that admitted it may have had more than it.
    let mut tab = Replica::new(one.space().clone(), id(78));
    writer_state(&mut tab, OWN).intro = admit(0, by(OWN, 1));
    tab.add("k", 1).unwrap();
    assert_eq!(writer_state(&mut tab, OWN).base.as_deref(), Some(&[][..]));
}

#[test]
fn a_writer_is_established_when_others_have_taken_it_in() {
    let (one, other, _) = member();
    let clock = one.membership.table().writer_states[0]
        .announce
        .as_ref()
        .unwrap()
        .clock;
    let established = |change: &dyn Fn(&mut Replica)| {
        let mut one = one.clone();
        one.membership.table_mut().stored().established = false;
        one.membership
            .table_mut()
            .stored()
            .writer_states
            .iter_mut()
            .for_each(|writer_state| writer_state.ack = None);
        change(&mut one);
        one.membership.establish();
        one.membership.table().established
    };
    assert!(!established(&|_| ()));
    for (seen, done) in [(clock - 1, false), (clock, true), (clock + 1, true)] {
        let heard = |one: &mut Replica| writer_state(one, other).ack = ack(&[(OWN, seen)]);
        assert_eq!(established(&heard), done);
    }
    // Its own word is none.
    assert!(!established(
        &|one| writer_state(one, OWN).ack = ack(&[(OWN, clock)])
    ));
    let sole = |one: &mut Replica| {
        let table = one.membership.table_mut().stored();
        let (_, it) = table.configuration.as_mut().unwrap();
        it.members.truncate(1);
    };
    assert!(established(&sole));
    // A guest, which is established by its admission.
    let guest = |one: &mut Replica| writer_state(one, OWN).announce = None;
    assert!(!established(&|one| {
        sole(one);
        guest(one);
    }));
    assert!(established(&|one| {
        guest(one);
        writer_state(one, OWN).intro = admit(0, by(other, 1));
    }));
}

#[test]
fn a_forced_configuration_begins_an_era() {
    let (mut one, ..) = member();
    let at = |one: &Replica| one.members().configuration().map(|it| (it.era, it.number));
    let table = one.membership.table_mut().stored();
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
        change(writer_state(&mut one, number));
        let (writer, before) = (one.state.id(number), one.clock());
        one.members_mut().fence(&writer).unwrap();
        let writer_state = writer_state(&mut one, number).clone();
        (
            one.clock() - before,
            writer_state.fence.map(|it| it.by),
            writer_state,
        )
    };
    let now = by(OWN, one.clock() + 1);
    let there = admit(0, by(other, 1));
    let (made, fence, after) = fenced(guest, &|writer_state| {
        (writer_state.intro, writer_state.sponsor) = (there, there)
    });
    assert_eq!((made, fence), (1, Some(now)));
    assert_eq!((after.intro, after.sponsor), (there, there));
    let (made, fence, after) = fenced(other, &|_| ());
    assert_eq!((made, fence), (1, Some(now)));
    assert_eq!((after.intro, after.sponsor), (None, None));
    let before = by(other, 1);
    let (made, fence, _) = fenced(guest, &|writer_state| writer_state.fence = dead(before));
    assert_eq!((made, fence), (0, Some(before)));
    let (made, fence, _) = fenced(guest, &|writer_state| writer_state.retired = absorbed());
    assert_eq!((made, fence), (0, None));
    // No member has admitted it: the member admits it, and is its successor.
    let mut one = one.clone();
    one.members_mut().fence(&id(50)).unwrap();
    let number = one.state.number_of(&id(50)).unwrap();
    let after = writer_state(&mut one, number);
    assert_eq!(after.intro, admit(0, now));
    assert_eq!(after.fence, dead(now));
}

#[test]
fn incarnations_of_owners_that_are_no_members_are_declared_dead() {
    let (mut one, other, guest) = member();
    one.members_mut().fence_strays().unwrap();
    assert!(
        one.membership
            .table()
            .writer_states
            .iter()
            .all(|writer_state| writer_state.fence.is_none())
    );
    one.members_mut().force(&OWNERS[..1]).unwrap();
    one.members_mut().fence_strays().unwrap();
    assert!(writer_state(&mut one, other).fence.is_some());
    assert_eq!(writer_state(&mut one, guest).fence, None);
    let clock = one.clock();
    one.members_mut().fence_strays().unwrap();
    assert_eq!(one.clock(), clock, "once");
    // One that has left is over already.
    let gone = writer_state(&mut one, other);
    (gone.fence, gone.leave) = (None, left(1));
    one.members_mut().fence_strays().unwrap();
    assert_eq!(writer_state(&mut one, other).fence, None);
}

#[test]
fn an_earlier_start_is_declared_dead_by_the_one_that_learns_of_it() {
    for (generation, dead) in [(1_999, true), (2_000, false), (2_001, false)] {
        let (mut one, other, _) = member();
        writer_state(&mut one, OWN)
            .announce
            .as_mut()
            .unwrap()
            .generation = 2_000;
        let announce = writer_state(&mut one, other).announce.as_mut().unwrap();
        (announce.owner, announce.generation) = (OWNERS[0], generation);
        one.members_mut().fence_strays().unwrap();
        assert_eq!(
            writer_state(&mut one, other).fence.is_some(),
            dead,
            "{generation}"
        );
    }
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
    one.membership.note_forgotten(by(OWN, 1), OWNERS[1], 5);
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
        writer_state(&mut one, number).base = None;
    }
    let clock = |number: u32| {
        one.membership.table().writer_states[number as usize]
            .announce
            .as_ref()
            .unwrap()
            .clock
    };
    let [own, others] = [OWN, other].map(clock);
    // Whether all who count have acknowledged them is known from what is stable.
    for (stable, known) in [
        ([own - 1, others - 1], [false, false, false]),
        ([own, others - 1], [true, false, false]),
        ([own, others], [true, true, false]),
    ] {
        one.membership.table_mut().stored().stable = stable.to_vec();
        assert_eq!(sure(&one), known);
    }
    writer_state(&mut one, other).base = Some([(OWN, 1)].into());
    assert_eq!(sure(&one), [true, false, false]);
    writer_state(&mut one, other).base = None;
    writer_state(&mut one, other).leave = left(9);
    assert_eq!(sure(&one), [true, false, false]);
    assert!(!one.membership.is_sure_member(&one.state, &id(50)));
}

#[test]
fn a_member_is_acknowledged_by_another_living_one() {
    let (mut one, other, _) = member();
    let clock = |one: &Replica, number: u32| {
        let announce = &one.membership.table().writer_states[number as usize].announce;
        announce.as_ref().unwrap().clock
    };
    let own = clock(&one, OWN);
    // Its own word is none.
    writer_state(&mut one, OWN).ack = ack(&[(OWN, own)]);
    writer_state(&mut one, other).ack = None;
    assert!(!one.membership.is_acknowledged());
    for (seen, known) in [(-1, false), (0, true), (1, true)] {
        let mut one = one.clone();
        writer_state(&mut one, other).ack = ack(&[(OWN, own.strict_add_signed(seen))]);
        assert_eq!(one.membership.is_acknowledged(), known);
        writer_state(&mut one, other).leave = left(9);
        assert!(!one.membership.is_acknowledged(), "it is over");
    }
    writer_state(&mut one, other).ack = ack(&[(OWN, own)]);
    one.membership.table_mut().stored().established = false;
    assert!(!one.membership.is_acknowledged());
}

#[test]
fn a_member_has_buried_whom_it_acknowledged_to_be_dead() {
    let (one, other, guest) = member();
    let buried = |acked: u64, stable: u64, change: &dyn Fn(&mut WriterState)| {
        let mut one = one.clone();
        writer_state(&mut one, OWN).ack = ack(&[(other, acked)]);
        let table = one.membership.table_mut().stored();
        (table.collected, table.stable) = (vec![0; 3], vec![0; 3]);
        one.membership.table_mut().stored().stable[other as usize] = stable;
        writer_state(&mut one, guest).fence = dead(by(other, 5));
        change(writer_state(&mut one, guest));
        one.membership.has_buried(guest)
    };
    let plain = |acked, stable| buried(acked, stable, &|_| ());
    assert!(plain(5, 0) && plain(0, 5));
    assert!(!plain(4, 4));
    assert!(!buried(5, 5, &|writer_state| writer_state.fence = None));
    assert!(!buried(5, 5, &|writer_state| writer_state.retired = absorbed()));
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
    writer_state(&mut one, guest).fence = dead(by(OWN, 5));
    assert!(!one.members().accepts_from(&id_of(guest)));
    writer_state(&mut one, guest).retired = absorbed();
    assert_eq!(one.members().final_clock(&id_of(guest)), Some(1));
    one.membership.remember(id(50), 7);
    assert_eq!(one.members().final_clock(&id(50)), Some(7));
    assert!(one.state.knows(&id_of(guest)) && !one.state.knows(&id(50)));
    writer_state(&mut one, other).leave = left(9);
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
        one.membership.note_forgotten(by, OWNERS[1], generation);
        one.membership.note_forgotten(early, third, 1);
        let (generation, by) = kept;
        assert_eq!(
            one.membership.table().gone,
            [(OWNERS[1], generation, by), (third, 1, early)]
        );
    }
    one.membership.note_forgotten(late, OWNERS[1], 6);
    one.membership.note_forgotten(early, OWNERS[1], 6);
    assert_eq!(one.membership.table().gone[0], (OWNERS[1], 6, late));
    assert_eq!(
        (one.membership.gone(&OWNERS[0]), one.membership.gone(&third)),
        (None, Some(1))
    );
}

/// Guests that are silent lose their places sooner while a start or a fence waits for them, and not otherwise.
#[test]
fn members_are_delayed_by_what_is_not_acknowledged_yet() {
    let (one, other, guest) = member();
    let announced = one.membership.writer(other).announce.as_ref().unwrap();
    let begin = announced.clock;
    let delays = |acked: &[(u32, u64)], fence: Option<Fence>| {
        let mut one = one.clone();
        writer_state(&mut one, OWN).ack = ack(acked);
        writer_state(&mut one, other).fence = fence;
        one.membership.delays_members(&one.state)
    };
    assert!(delays(&[(other, begin - 1)], None));
    assert!(!delays(&[(other, begin)], None));
    assert!(!delays(&[(other, begin + 1)], None));
    let clock = one.clock();
    assert!(delays(
        &[(OWN, clock - 1), (other, begin)],
        dead(by(OWN, clock))
    ));
    assert!(!delays(
        &[(OWN, clock), (other, begin)],
        dead(by(OWN, clock))
    ));
    let unseen = dead(by(OWN, clock + 1));
    assert!(!delays(&[(OWN, clock), (other, begin)], unseen));
    assert!(one.membership.writer(guest).announce.is_none());
}

#[test]
fn a_start_that_a_member_took_in_has_a_certain_place() {
    let base = |intro: Option<Admit>, begins: bool| {
        let (mut one, ..) = member();
        let own = writer_state(&mut one, OWN);
        (own.intro, own.base) = (intro, Some([(OWN, 1)].into()));
        one.membership.note_announced(begins);
        writer_state(&mut one, OWN).base.is_some()
    };
    let admitted = admit(0, by(1, 1));
    assert!(!base(admitted, true));
    assert!(base(admitted, false), "it wrote before it announced itself");
    assert!(base(None, true), "nobody took it in");
}

#[test]
fn a_start_follows_the_last_one_until_another_start_of_its_owner_is_known() {
    let (state, mut members) = founded();
    let before = Predecessor {
        writer: id(9),
        clock: 3,
        generation: 0,
    };
    members.table.update(|it| it.follows = Some(before));
    assert!(members.follows(&state));
    members.note_other_start(&OWNERS[1]);
    assert!(members.follows(&state), "it is another member's");
    members.note_other_start(&OWNERS[0]);
    assert!(!members.follows(&state));
}

/// An earlier writer that nobody had admitted is admitted by the transaction that ends it. So it never
/// counted, and its records say so. Those of the others must not.
#[test]
fn an_earlier_writer_is_admitted_with_its_end_only_if_it_was_unknown() {
    let (mut one, other, guest) = member();
    let ended = |one: &Replica, number: u32| {
        let mut one = one.clone();
        one.membership.end_earlier(&one.state, number, 50);
        one.membership.writer(number).clone()
    };
    let end = dead(by(OWN, 50));
    let start = ended(&one, other);
    assert_eq!((start.intro, start.sponsor, start.fence), (None, None, end));
    let before = one.membership.writer(guest).clone();
    assert!(before.intro.is_some());
    let after = ended(&one, guest);
    let admits = (before.intro, before.sponsor);
    assert_eq!((after.intro, after.sponsor), admits);
    assert_eq!((after.fence, after.is_burial()), (end, false));
    let unknown = one.membership.number(&mut one.state, id(50));
    assert!(ended(&one, unknown).is_burial());
    assert_eq!(ended(&one, OWN).fence, None);
}

#[test]
fn only_a_start_that_has_written_nothing_takes_its_place_from_its_admission() {
    for writes in [false, true] {
        let [mut one, ..] = space();
        let mut start = Replica::new(one.space().clone(), id(77));
        one.members_mut().admit(&id(77)).unwrap();
        start.merge(&one.delta(&VersionVector::default())).unwrap();
        if writes {
            start.add("k", 1).unwrap();
        }
        start.members_mut().announce(&OWNERS[1], &NONCE, 1).unwrap();
        assert_eq!(writer_state(&mut start, OWN).base.is_some(), writes);
    }
}

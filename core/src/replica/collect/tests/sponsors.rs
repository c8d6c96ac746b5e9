//! Guests of two members at a time.

use super::*;
use crate::Op;
use crate::error::Missing;
use crate::error::{AdmissionError, Error, MergeError};

/// Two members and a guest whom both admitted when it connected to them. The one who made the reset, and
/// acknowledged it, is the sponsor; the guest has the state of the other one, and does not know of that.
fn taken_in_twice() -> [Replica; 4] {
    let [mut one, mut two, mut tab] = space();
    one.add("n", 5).unwrap();
    talk(&mut one, &mut two, &mut tab);
    let first = one.writer() > two.writer();
    let (sponsor, other) = if first {
        (&mut one, &mut two)
    } else {
        (&mut two, &mut one)
    };
    sponsor.apply("n", Op::Reset).unwrap();
    said(sponsor);
    let mut guest = Replica::new(crate::Space::default(), WriterId::from_bytes([77; 16]));
    for member in [&mut *sponsor, &mut *other] {
        member
            .membership
            .admit_guest(&mut member.state, &guest.writer())
            .unwrap();
    }
    pass(other, &mut guest);
    assert_eq!(guest.value("n"), Some(5));
    let (sponsor, other) = if first { (one, two) } else { (two, one) };
    [sponsor, other, tab, guest]
}

/// Two members tell each other what they acknowledge, and one of them what its tab has seen.
fn talk(one: &mut Replica, two: &mut Replica, tab: &mut Replica) {
    for _ in 0..8 {
        pass(one, two);
        pass(two, one);
        for member in [&mut *one, &mut *two] {
            if member
                .members()
                .sponsored()
                .any(|guest| guest == tab.writer())
            {
                pass(member, tab);
                pass(tab, member);
            }
            member.membership.table_mut().stored().waiting = true;
            member.members_mut().acknowledge().unwrap();
            let kept = member.mark();
            member.members_mut().collect(&kept);
        }
    }
}

/// Whether what the reset cancelled was collected.
fn is_collected(replica: &Replica) -> bool {
    let sides = replica.snapshot().delta.sides;
    !sides.iter().any(|side| side.side.watermark.is_some())
}

/// A record of a writer that had less than was acknowledged is not accepted.
#[test]
fn whoever_began_from_less_than_its_sponsor_believes_is_refused() {
    let [mut sponsor, mut other, mut tab, mut guest] = taken_in_twice();
    talk(&mut sponsor, &mut other, &mut tab);
    assert!(is_collected(&sponsor));
    guest.apply("n", Op::Reset).unwrap();
    for member in [&mut sponsor, &mut other] {
        let message = guest.delta(&member.vector());
        let merged = member.merge_with(&message, Some(guest.writer()), &mut |_| ());
        assert_eq!(merged, Err(AdmissionError::Behind.into()));
        assert_eq!(member.state.held(&guest.writer()), 0);
    }
}

/// A member that acknowledges something right after a guest was sent all it had does not take the
/// guest to have that acknowledgement, too.
#[test]
fn whoever_was_sent_all_but_an_acknowledgement_goes_on() {
    let [mut one, _, mut tab] = space();
    let mut guest = Replica::new(crate::Space::default(), WriterId::from_bytes([77; 16]));
    one.membership
        .admit_guest(&mut one.state, &guest.writer())
        .unwrap();
    pass(&one, &mut guest);
    pass(&one, &mut tab);
    pass(&tab, &mut one);
    said(&mut one);
    guest.add("n", 1).unwrap();
    let message = guest.delta(&one.vector());
    let merged = one.merge_with(&message, Some(guest.writer()), &mut |_| ());
    assert!(merged.is_ok(), "{merged:?}");
}

/// The replica that received a guest first waits for it, whatever others that admitted it later believe.
#[test]
fn whoever_heard_of_a_guest_first_waits_for_it() {
    let [mut sponsor, mut other, mut tab, mut guest] = taken_in_twice();
    guest.apply("n", Op::Reset).unwrap();
    pass(&guest, &mut other);
    talk(&mut sponsor, &mut other, &mut tab);
    let number = |replica: &Replica| replica.state.number_of(&guest.writer()).unwrap();
    for member in [&sponsor, &other] {
        assert!(!is_collected(member), "the guest has not seen it");
        let writer_state = &member.membership.table().writer_states[number(member) as usize];
        let sponsor = writer_state.sponsor.unwrap();
        assert_eq!(member.state.id(sponsor.by.writer), other.writer());
    }
    pass(&other, &mut guest);
    pass(&guest, &mut other);
    talk(&mut sponsor, &mut other, &mut tab);
    assert!(is_collected(&sponsor) && is_collected(&other));
}

/// Only a guest itself states what it began from. No replica accepts its first records from another guest.
/// Another guest does not accept them before a member has them.
#[test]
fn what_a_guest_made_first_is_taken_by_a_member_first() {
    let [mut sponsor, mut other, mut tab, mut guest] = taken_in_twice();
    guest.add("n", 1).unwrap();
    pass(&other, &mut tab);
    let first = guest.delta(&other.vector());
    let stranger = Err(Error::Admission(AdmissionError::Stranger {
        writer: guest.writer(),
    }));
    let taken = tab.merge_with(&first, Some(guest.writer()), &mut |_| ());
    assert_eq!(taken, stranger);
    let passed_on = other.merge_with(&first, Some(tab.writer()), &mut |_| ());
    let missing = Missing {
        writer: guest.writer(),
        needed: 1,
        held: 0,
    };
    assert_eq!(
        passed_on,
        Err(MergeError::NotCovered(Box::new(missing)).into())
    );
    pass(&guest, &mut other);
    pass(&other, &mut tab);
    let before = sponsor.state.held(&guest.writer());
    let is_sponsors = sponsor
        .members()
        .sponsored()
        .any(|guest| guest == tab.writer());
    let member = if is_sponsors {
        &mut sponsor
    } else {
        &mut other
    };
    pass(&tab, member);
    guest.add("n", 1).unwrap();
    pass(&guest, &mut tab);
    pass(&tab, member);
    assert_eq!((before, member.state.held(&guest.writer())), (0, 2));
}

/// Members who learn of one dead guest after another.
#[test]
fn guests_that_go_all_the_time_put_off_nothing() {
    let [mut one, mut two, mut tab] = space();
    let mut visitor = 0u8;
    let mut visits = |one: &mut Replica| {
        visitor += 1;
        let mut guest = Replica::new(
            crate::Space::default(),
            WriterId::from_bytes([100 + visitor; 16]),
        );
        one.members_mut().admit(&guest.writer()).unwrap();
        pass(one, &mut guest);
        guest.add("n", 1).unwrap();
        pass(&guest, one);
        guest.writer()
    };
    one.add("n", 5).unwrap();
    one.apply("n", Op::Reset).unwrap();
    let mut before = visits(&mut one);
    for _ in 0..20 {
        // One goes and one comes, between each two acknowledgements.
        one.members_mut().fence(&before).unwrap();
        before = visits(&mut one);
        pass(&one, &mut tab);
        pass(&tab, &mut one);
        for (from, to) in [(true, false), (false, true)] {
            let (from, to) = match from && !to {
                true => (&mut one, &mut two),
                false => (&mut two, &mut one),
            };
            from.membership.table_mut().stored().waiting = true;
            from.members_mut().acknowledge().unwrap();
            from.members_mut().retire().unwrap();
            let kept = from.mark();
            from.members_mut().collect(&kept);
            pass(from, to);
        }
    }
    assert!(
        one.membership.horizons().any(|(_, clock)| clock > 10),
        "{:?}",
        one.members().stable()
    );
    let left = one
        .membership
        .table()
        .writer_states
        .iter()
        .filter(|writer_state| writer_state.fence.is_some());
    assert!(left.count() < 10);
    assert_eq!(one.value("n"), Some(21));
}

/// Visitors come all the time, and go before they have told what they took.
#[test]
fn visitors_that_tell_nothing_put_off_nothing() {
    const LEASE: usize = 3;
    let [mut one, _, mut tab] = space();
    let visitors: Vec<WriterId> = (100..120)
        .map(|byte| WriterId::from_bytes([byte; 16]))
        .collect();
    for (at, visitor) in visitors.iter().enumerate() {
        let before = one.clock();
        one.membership.admit_guest(&mut one.state, visitor).unwrap();
        if let Some(gone) = at.checked_sub(LEASE) {
            one.members_mut().fence(&visitors[gone]).unwrap();
        }
        pass(&one, &mut tab);
        pass(&tab, &mut one);
        let made = one.clock() - before + 1;
        let least = before.saturating_sub(made * LEASE as u64);
        assert!(said(&mut one).of(OWN) >= least, "{visitor:?}");
    }
}

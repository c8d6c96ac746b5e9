//! Records of a start whose place among the members is not certain yet.

use super::returns::aside;
use super::*;
use crate::error::AdmissionError;
use crate::replica::Push;

/// Others may reject the records of a start whose place is not certain. Then the replica that admitted it
/// rejoins without them, so they are kept here.
#[test]
fn what_a_start_made_is_kept_until_its_place_is_certain() {
    let [_, new, known] = second();
    for (replica, unheld) in [(new, 1), (known, 0)] {
        let mut home = End::member().replica;
        home.members_mut().force(&[OWNER, OTHER]).unwrap();
        let mut end = End::of(replica);
        // All know the other member.
        end.replica
            .members_mut()
            .accept_stable(&home.vector(), &home.vector());
        end.tend();
        end.replica.add("key", 5).unwrap();
        let links = [1, 2].map(|number| end.link(number, id(100 * number as u8)));
        let vector = end.replica.vector();
        let End { replica, sync, now } = &mut end;
        assert!(replica.members().is_sure_member(&id(100)));
        sync.note_peer_vector(replica, links[0], &vector);
        assert_eq!(replica.consistency().unconfirmed(), unheld);
        sync.begin_rejoin(*now, replica, links[1]);
        (end.coming_back().member, end.coming_back().fresh) = (true, Some(id(8)));
        let End { replica, sync, now } = &mut end;
        sync.begin_again(*now, replica, links[1], (&[], &full(&home)));
        assert_eq!(end.replica.writer(), id(8));
        let End { replica, sync, .. } = &mut end;
        replica
            .members_mut()
            .accept_stable(&home.vector(), &home.vector());
        assert!(replica.members().is_sure_member(&id(100)));
        sync.note_peer_vector(replica, links[0], &vector);
        assert_eq!(replica.consistency().unconfirmed(), unheld);
        assert_eq!(
            replica
                .rejoin
                .lost(&replica.state, &replica.membership)
                .count(),
            unheld
        );
    }
}

/// Such transactions are in no journal. A page that goes by this number would close before anybody has them.
#[test]
fn what_was_counted_before_there_were_members_is_unconfirmed() {
    let mut end = End::of(Replica::new(Space::default(), id(201)));
    end.sync.config.owner = None;
    end.replica.add("key", 5).unwrap();
    assert_eq!(end.replica.consistency().unconfirmed(), 0);
    end.replica.merge(&full(&End::member().replica)).unwrap();
    assert_eq!(end.replica.consistency().unconfirmed(), 1);
    end.replica.add("key", 5).unwrap();
    assert_eq!(end.replica.consistency().unconfirmed(), 2);
    let vector = end.replica.vector();
    let link = end.link(1, id(100));
    let End { replica, sync, .. } = &mut end;
    let other = vector.clone().only(&[id(100)]);
    for (vector, unconfirmed) in [(other, 2), (vector, 0)] {
        sync.note_peer_vector(replica, link, &vector);
        assert_eq!(replica.consistency().unconfirmed(), unconfirmed);
    }
}

/// A member with records of such a start may have to rejoin, and so may its guests. What a guest sent to this member
/// alone is lost then, unless the guest makes it again.
#[test]
fn what_a_guest_made_is_kept_until_the_place_of_each_start_is_certain() {
    let [_, new, mut known] = second();
    known.members_mut().acknowledge().unwrap();
    for (from, unconfirmed) in [(new, 2), (known, 0)] {
        let mut end = End::of(Replica::new(Space::default(), id(201)));
        end.sync.config.owner = None;
        end.replica.merge(&full(&from)).unwrap();
        end.replica.add("key", 5).unwrap();
        let vector = end.replica.vector();
        end.replica.members_mut().accept_stable(&vector, &vector);
        end.tend();
        let earlier = aside(None, 0);
        let held = VersionVector::from_sorted(Vec::from([(earlier.writer, earlier.last())]));
        end.replica.rejoin.keep_earlier(earlier);
        let link = end.link(1, id(100));
        let End { replica, sync, .. } = &mut end;
        assert!(replica.members().is_sure_member(&id(100)));
        sync.note_peer_vector(replica, link, &vector.joined(&held));
        assert_eq!(replica.consistency().unconfirmed(), unconfirmed);
    }
}

/// One that began from too old a state is refused, and asked again only after a while. But once it announces
/// itself it has caught up.
#[test]
fn a_start_that_was_refused_is_asked_again_when_it_announces_itself() {
    for announces in [false, true] {
        let mut end = End::member();
        end.replica.members_mut().force(&[OWNER, OTHER]).unwrap();
        let mut start = Replica::new(Space::default(), id(9));
        start.merge(&full(&end.replica)).unwrap();
        start.add("key", 1).unwrap();
        let mut mark = start.mark();
        match announces {
            true => start.members_mut().announce(&OTHER, &[0; 16], 2).unwrap(),
            false => drop(start.add("key", 1).unwrap()),
        }
        let Push::Message(push) = start.push(&mut mark) else {
            panic!("there is something to push");
        };
        let link = end.link(1, id(9));
        end.sync.peer_mut(link).unwrap().rests = true;
        let End { replica, sync, now } = &mut end;
        let pushed = sync.pushed(*now, replica, Some(link), true, push, &[]);
        assert_eq!(pushed, Ok(()));
        let due = sync.pushes.due().expect("it waits for what is missing");
        sync.ask_for_lacking(due, replica);
        let sent = end.sent().0.into_iter();
        let pulls = sent.filter(|(on, body)| *on == link && matches!(body, Body::Pull(_)));
        assert_eq!(pulls.count(), usize::from(announces));
    }
}

/// A guest that tells of the members first ends nobody: whoever counted before it heard of them, and has to
/// come back for that, asks a member whom that names.
#[test]
fn who_hears_of_members_from_a_guest_comes_back_by_a_member() {
    let member = End::member().replica;
    let mut guest = Replica::new(Space::default(), id(9));
    guest.merge(&full(&member)).unwrap();
    for (peers, asked) in [([9, 100], 1), ([100, 9], 0), ([9, 8], 0)] {
        let mut end = End::of(Replica::new(Space::default(), id(200)));
        end.replica.add("key", 1).unwrap();
        let links = [0, 1].map(|at| end.link(at + 1, id(peers[at as usize])));
        let End { replica, sync, now } = &mut end;
        let live = Some(id(peers[0]));
        let error = Error::Admission(AdmissionError::Outdated);
        sync.not_merged(*now, replica, Some(links[0]), &full(&guest), live, error)
            .unwrap();
        assert_eq!(end.coming_back().link, links[asked], "{peers:?}");
    }
}

/// A peer that is no member has no answer. A guest may not know which peers are members, and asks the others then. Else
/// it would ask the two in turn for ever, if members have forgotten it.
#[test]
fn a_peer_that_is_no_member_is_asked_once() {
    for first in [0, 1] {
        let mut end = End::admitted();
        let links = [1, 2].map(|number| end.link(number, id(number as u8)));
        let own = end.replica.writer();
        let mut hear = |link: usize, last| {
            let End { replica, sync, now } = &mut end;
            sync.ended(*now, replica, links[link], (own, last));
            let it = end.coming_back();
            (it.link, it.last)
        };
        let forgotten = Last::Forgotten(false);
        hear(first, Last::Unsure(1));
        if first == 0 {
            assert_eq!(hear(0, forgotten), (links[1], None));
        }
        assert_eq!(hear(1, Last::Hearsay).1, None);
        end.coming_back().link = links[0];
        let End { replica, sync, now } = &mut end;
        sync.ended(*now, replica, links[0], (own, forgotten));
        assert_eq!(end.coming_back().last, Some(forgotten));
    }
}

#[test]
fn one_that_was_made_a_member_meanwhile_comes_back_as_one() {
    let mut end = End::guest();
    let link = end.link(1, id(1));
    let own = end.replica.writer();
    let End { replica, sync, .. } = &mut end;
    sync.begin_rejoin(0, replica, link);
    end.coming_back().dropped = true;
    let End { replica, sync, .. } = &mut end;
    sync.ended(0, replica, link, (own, Last::Member));
    let it = end.coming_back();
    assert_eq!((it.member, it.dropped), (true, false));
    assert_eq!(it.last, Some(Last::Member));
}

#[test]
fn a_fresh_id_is_told_before_all_is_asked_for() {
    let mut end = End::admitted();
    let [link, other] = [1, 2].map(|number| end.link(number, id(number as u8)));
    let renew = |end: &mut End| {
        let End { replica, sync, now } = end;
        let taken = sync.fresh_writer(*now, replica, id(8));
        (taken, end.sent().0)
    };
    assert_eq!(renew(&mut end), (false, vec![]));
    let End { replica, sync, .. } = &mut end;
    sync.begin_rejoin(0, replica, link);
    end.outputs();
    assert_eq!(renew(&mut end), (false, vec![]));
    assert!(!end.sync.wants_all(&end.replica, link));
    end.coming_back().last = Some(Last::Upto(3));
    assert!(!end.sync.wants_all(&end.replica, link));
    let (taken, sent) = renew(&mut end);
    assert!(taken);
    assert_eq!(sent[0], (link, Body::Writer(id(8))));
    let (on, Body::Pull(pull)) = &sent[1] else {
        panic!("{:?}", sent[1]);
    };
    assert_eq!((*on, &pull.vector), (link, &VersionVector::default()));
    assert!(end.sync.wants_all(&end.replica, link) && !end.sync.wants_all(&end.replica, other));
}

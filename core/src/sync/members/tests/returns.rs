//! Beginning again from the whole state, and making again what does not count yet.

use super::*;

/// An admitted guest that has added 5, is to come back by its second link, and is told how much of
/// that counts.
fn returning(last: Last) -> (End, [Link; 2]) {
    let mut end = End::admitted();
    end.replica.add("key", 5).unwrap();
    let links = [1, 2].map(|number| end.link(number, id(number as u8)));
    for peer in &mut end.sync.peers {
        (peer.level, peer.published) = (true, 1);
    }
    end.sync.guests.published = 1;
    let End { replica, sync, .. } = &mut end;
    sync.come_back(0, replica, links[1]);
    end.coming_back().last = Some(last);
    end.coming_back().fresh = Some(id(8));
    end.outputs();
    (end, links)
}

fn begin_again(end: &mut End, link: Link, state: &Message) {
    let End { replica, sync, now } = end;
    sync.begin_again(*now, replica, link, (&[], state));
}

fn returned(outputs: &[Output]) -> Vec<Option<(u64, u64)>> {
    let unknown = |output: &Output| match output {
        Output::Returned(returned) => Some(returned.unknown),
        _ => None,
    };
    outputs.iter().filter_map(unknown).collect()
}

fn goes_by(outputs: &[Output], writer: WriterId) -> Vec<Link> {
    let on = |output: &Output| match output {
        Output::Send { link, bytes } => {
            let body = Frame::decode(bytes).unwrap().body;
            (body == Body::Writer(writer)).then_some(*link)
        }
        _ => None,
    };
    outputs.iter().filter_map(on).collect()
}

#[test]
fn a_guest_makes_again_what_does_not_count() {
    let state = full(&End::member().replica);
    for (last, value) in [(Last::Upto(0), Some(5)), (Last::Upto(1), None)] {
        let (mut end, links) = returning(last);
        begin_again(&mut end, links[1], &state);
        assert_eq!(end.replica.writer(), id(8));
        assert_eq!(end.replica.value("key"), value);
        let outputs = end.outputs();
        assert_eq!(returned(&outputs), [None]);
        assert_eq!(goes_by(&outputs, id(8)), links);
        let levels: Vec<bool> = end.sync.peers.iter().map(|peer| peer.level).collect();
        assert_eq!(levels, [false, true]);
        assert!(end.sync.peers.iter().all(|peer| peer.published == 0));
        assert!(end.sync.guests.coming_back.is_none());
        assert_eq!(end.sync.guests.published, 0);
        assert_eq!(end.sync.pushes.due(), Some(5));
        assert!(end.sync.pulls.is_from(links[1]));
        assert!(end.sync.guests.aside.is_empty());
    }
}

#[test]
fn a_member_puts_aside_what_may_not_count_unless_it_is_none_any_more() {
    let mut home = End::member().replica;
    home.force_members(&[OWNER, OTHER]).unwrap();
    let (mut end, links) = returning(Last::Unsure);
    end.coming_back().member = true;
    let (mut dropped, writer) = (End::of(end.replica.clone()), end.replica.writer());
    dropped.sync = end.sync.clone();
    begin_again(&mut end, links[1], &full(&home));
    assert_eq!(end.replica.writer(), id(8));
    assert_eq!(end.replica.value("key"), None);
    assert_eq!(returned(&end.outputs()), []);
    let aside = &end.sync.guests.aside[..];
    assert_eq!((aside.len(), aside[0].writer), (1, writer));
    assert_eq!((aside[0].published, aside[0].before), (1, 1));
    assert!(aside[0].intro.is_some() && end.sync.guests.coming_back.is_none());
    // Its owner is no member there.
    home.force_members(&[OWNER]).unwrap();
    dropped.now = ASK_AGAIN_MS;
    begin_again(&mut dropped, links[1], &full(&home));
    assert_eq!(dropped.replica.writer(), writer);
    assert_eq!(dropped.asked(), [links[1]]);
    let it = dropped.coming_back();
    assert_eq!((it.member, it.dropped, it.last), (false, true, None));
    assert_eq!((it.fresh, it.link), (None, links[1]));
}

/// What a guest counted that was not taken in, put aside under another end's id.
fn aside(intro: Option<Intro>, before: u64) -> Aside {
    let mut guest = End::guest();
    let writer = guest.replica.writer();
    guest.replica.add("key", 5).unwrap();
    let state = full(&End::member().replica);
    let mut ignore = |_| ();
    let journal = guest
        .replica
        .begin_again(id(8), &state, &mut ignore)
        .unwrap();
    Aside {
        writer,
        intro,
        journal,
        published: 1,
        before,
    }
}

fn intro(clock: u64) -> Option<Intro> {
    Some(Intro {
        by: id(100),
        clock,
        owner: OWNER,
        generation: 9,
    })
}

#[test]
fn a_member_ends_its_former_writers_before_it_asks_for_an_id() {
    for (intro, known, asks) in [
        (None, false, 0),
        (intro(9), false, 0),
        (intro(1), true, 0),
        (intro(1), false, 1),
    ] {
        let mut end = End::member();
        let it = aside(intro, 0);
        let writer = it.writer;
        if known {
            end.replica.admit(&writer).unwrap();
        }
        end.sync.guests.aside.push(it);
        end.tend();
        assert_eq!(end.sent().1, asks);
        assert_eq!(end.sync.guests.resuming, asks > 0);
        assert_eq!(end.replica.takes_from(&writer), asks > 0);
        let mut asked = asks;
        for _ in 0..5 {
            end.tend();
            asked += end.sent().1;
        }
        assert_eq!(asked, 1);
    }
    let mut guest = End::guest();
    guest.sync.guests.aside.push(aside(intro(1), 0));
    guest.tend();
    assert_eq!(guest.sent().1, 0);
}

#[test]
fn what_was_put_aside_is_made_again_once_it_is_certain() {
    for (intro, before, held, value, unknown) in [
        (None, 0, false, Some(5), None),
        (None, 1, false, None, Some((1, 1))),
        (intro(1), 1, false, Some(5), None),
        (None, 1, true, Some(5), None),
    ] {
        let mut end = End::member();
        let link = end.link(1, id(1));
        let it = aside(intro, before);
        if held {
            let mut guest = End::guest().replica;
            end.replica.admit(&guest.writer()).unwrap();
            guest.merge(&full(&end.replica)).unwrap();
            guest.add("key", 5).unwrap();
            let live = Some(guest.writer());
            let home = &mut end.replica;
            home.merge_live(&full(&guest), live, &mut |_| ()).unwrap();
        }
        end.replica.fence(&it.writer).unwrap();
        end.tend_until(|replica| replica.last_of(&it.writer).is_some());
        end.sync.guests.aside.push(it);
        end.sync.guests.published = 3;
        end.tend();
        end.outputs();
        assert!(end.sync.guests.resuming);
        let End { replica, sync, now } = &mut end;
        assert!(sync.fresh_writer(*now, replica, id(9)));
        assert_eq!(end.replica.writer(), id(9));
        assert_eq!(end.replica.value("key"), value);
        let outputs = end.outputs();
        assert_eq!(returned(&outputs), [unknown]);
        assert_eq!(goes_by(&outputs, id(9)), [link]);
        assert_eq!(end.sync.guests.published, 0);
        assert!(end.sync.guests.aside.is_empty() && !end.sync.guests.resuming);
    }
}

/// What a member holds need not be made again.
#[test]
fn the_journal_ends_where_a_member_holds_all() {
    let state = full(&End::member().replica);
    for (writer, upto, left) in [(100, 1, 0), (100, 0, 1), (7, 1, 1)] {
        let mut end = End::admitted();
        end.replica.add("key", 5).unwrap();
        let link = end.link(1, id(writer));
        let held = Vec::from([(end.replica.writer(), upto)]);
        let vector = VersionVector::from_sorted(held);
        let End { replica, sync, .. } = &mut end;
        sync.held_there(replica, Link(9), &replica.vector());
        sync.held_there(replica, link, &vector);
        let journal = replica.begin_again(id(8), &state, &mut |_| ()).unwrap();
        assert_eq!(journal.len(), left);
    }
}

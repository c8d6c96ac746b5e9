//! Asking for the whole state, and how long it may take.

use super::returns::{returning, writer_changed};
use super::*;
use alloc::format;

/// Guests do not answer who has to come back.
#[test]
fn members_are_asked_before_others() {
    let mut end = End::guest();
    let links = [(1, id(1)), (2, id(100)), (3, id(3))];
    let links = links.map(|(number, writer)| end.link(number, writer));
    assert_eq!(end.sync.links_to_ask(&end.replica), [links[1]]);
    let End { replica, sync, now } = &mut end;
    sync.begin_rejoin(*now, replica, links[0]);
    assert_eq!(end.coming_back().link, links[1]);
    end.cut(links[1]);
    assert_eq!(end.sync.links_to_ask(&end.replica), [links[0], links[2]]);
}

/// The one before may never answer.
#[test]
fn the_whole_state_is_asked_for_at_once() {
    for asked in [0, 1] {
        let (mut guest, links) = returning(Last::Upto(0));
        guest
            .sync
            .guests
            .stored()
            .coming_back
            .as_mut()
            .unwrap()
            .fresh = None;
        let End { replica, sync, now } = &mut guest;
        sync.want(*now, replica, links[asked]);
        sync.want(*now, replica, links[1 - asked]);
        guest.outputs();
        let pulls = |end: &mut End| {
            let sent = end.sent().0.into_iter();
            let pulls = sent.filter_map(|(link, body)| match body {
                Body::Pull(pull) => Some((link, pull.vector.is_empty())),
                _ => None,
            });
            pulls.collect::<Vec<_>>()
        };
        let End { replica, sync, now } = &mut guest;
        assert!(sync.fresh_writer(*now, replica, id(8)));
        assert_eq!(pulls(&mut guest), [(links[1], true)]);
        // The other one's turn comes yet.
        guest.cut(links[1]);
        assert_eq!(pulls(&mut guest), [(links[0], false)]);
    }
}

/// Not what else comes from whoever was asked for an end, and may never give one.
#[test]
fn a_chunk_of_the_whole_state_alone_gives_time() {
    for (fresh, asked) in [(None, 0), (Some(id(8)), 1)] {
        let (mut guest, links) = returning(Last::Upto(1));
        guest.coming_back().fresh = fresh;
        guest
            .sync
            .guests
            .stored()
            .chunk_came(PATIENCE_MS - 1, links[0]);
        guest
            .sync
            .guests
            .stored()
            .chunk_came(PATIENCE_MS - 1, links[1]);
        let End { replica, sync, .. } = &mut guest;
        sync.ask_to_end(PATIENCE_MS, replica);
        assert_eq!(guest.coming_back().link, links[asked]);
    }
}

/// However long it takes: neither is it given up meanwhile, nor does it ask another one.
#[test]
fn the_whole_state_may_take_longer_than_a_lease() {
    let mut member = End::member();
    for at in 0..3_000 {
        let key = format!("{at:04}{}", "long".repeat(60));
        member.replica.add(&key, 1).unwrap();
    }
    let (mut guest, links) = returning(Last::Upto(0));
    guest
        .sync
        .guests
        .stored()
        .coming_back
        .as_mut()
        .unwrap()
        .fresh = None;
    let home = member.link(links[1].0, guest.replica.writer());
    let End { replica, sync, now } = &mut guest;
    assert!(sync.fresh_writer(*now, replica, id(8)));
    let mut chunks = 0;
    let mut frames = |from: &mut End, to: &mut End| {
        let sent = from.outputs().into_iter();
        let sent: Vec<Vec<u8>> = sent
            .filter_map(|output| match output {
                Output::Send { link, bytes } if link == home => Some(bytes.to_vec()),
                _ => None,
            })
            .collect();
        for bytes in &sent {
            let frame = Frame::decode(bytes).unwrap();
            chunks += usize::from(matches!(frame.body, Body::Delta(_)));
            let (link, bytes) = (home, bytes.as_slice());
            let input = Input::Frame { link, bytes };
            to.sync.handle(to.now, &mut to.replica, input);
        }
        !sent.is_empty()
    };
    while guest.replica.writer() != id(8) {
        assert!(frames(&mut guest, &mut member), "nothing is asked for");
        assert!(frames(&mut member, &mut guest), "nothing is answered");
        for (end, patience) in [(&mut guest, PATIENCE_MS), (&mut member, LEASE_MS)] {
            end.now += patience * 3 / 4;
            end.tend();
        }
        let End { replica, sync, now } = &mut guest;
        sync.ask_to_end(*now, replica);
    }
    assert!(chunks > 3, "only {chunks} chunks");
    assert!(member.replica.members().accepts_from(&id(8)));
}

/// A page that was away for a moment does not receive everything again.
#[test]
fn a_guest_goes_on_from_what_it_has_if_all_that_counts() {
    for (last, is_cheap) in [
        (Last::Upto(1), true),
        (Last::Upto(0), false),
        (Last::Forgotten(true), false),
    ] {
        let (mut end, links) = returning(last);
        end.coming_back().fresh = None;
        let End { replica, sync, now } = &mut end;
        assert!(sync.fresh_writer(*now, replica, id(8)));
        let outputs = end.outputs();
        let pulls = |output: &Output| match output {
            Output::Send { bytes, .. } => match Frame::decode(bytes).unwrap().body {
                Body::Pull(pull) => Some(pull.vector.is_empty()),
                _ => None,
            },
            _ => None,
        };
        let pulls: Vec<bool> = outputs.iter().filter_map(pulls).collect();
        assert_eq!(pulls, [!is_cheap], "{last:?}");
        assert_eq!(end.replica.value("key"), Some(5));
        if is_cheap {
            assert_eq!((end.replica.writer(), end.replica.clock()), (id(8), 0));
            assert_eq!(writer_changed(&outputs, id(8)), links);
            assert!(end.sync.peers.iter().all(|peer| !peer.level));
            assert!(end.replica.rejoin.journal().is_empty());
        }
    }
}

//! Beginning again from the whole state, and making again what does not count yet.

use super::*;
use crate::error::AdmissionError;
use crate::message::journal::EarlierWriter;
use crate::wire::Pull;

/// An admitted guest that has added 5, is to come back by its second link, and is told how much of
/// that counts.
pub(super) fn returning(last: Last) -> (End, [Link; 2]) {
    let mut end = End::admitted();
    end.replica.add("key", 5).unwrap();
    let links = [1, 2].map(|number| end.link(number, id(number as u8)));
    for peer in &mut end.sync.peers {
        (peer.level, peer.published) = (true, 1);
    }
    end.replica.rejoin.note_sent(&end.replica.state, false);
    let End { replica, sync, .. } = &mut end;
    sync.begin_rejoin(0, replica, links[1]);
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

pub(super) fn writer_changed(outputs: &[Output], writer: WriterId) -> Vec<Link> {
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
        assert_eq!(writer_changed(&outputs, id(8)), links);
        let levels: Vec<bool> = end.sync.peers.iter().map(|peer| peer.level).collect();
        assert_eq!(levels, [false, true]);
        assert!(end.sync.peers.iter().all(|peer| peer.published == 0));
        assert!(end.sync.guests.coming_back.is_none());
        assert_eq!(end.replica.rejoin.sent_upto(), 0);
        assert_eq!(end.sync.pushes.due(), Some(5));
        assert!(end.sync.pulls.is_from(links[1]));
        assert_eq!(
            end.replica
                .rejoin
                .lost(&end.replica.state, &end.replica.membership)
                .count(),
            0
        );
    }
}

#[test]
fn a_member_puts_aside_what_may_not_count_unless_it_is_none_any_more() {
    let mut home = End::member().replica;
    home.members_mut().force(&[OWNER, OTHER]).unwrap();
    let (mut end, links) = returning(Last::Unsure(0));
    end.coming_back().member = true;
    let (mut dropped, writer) = (End::of(end.replica.clone()), end.replica.writer());
    dropped.sync = end.sync.clone();
    begin_again(&mut end, links[1], &full(&home));
    assert_eq!(end.replica.writer(), id(8));
    assert_eq!(end.replica.value("key"), None);
    assert_eq!(returned(&end.outputs()), []);
    let aside: Vec<&EarlierWriter> = end
        .replica
        .rejoin
        .lost(&end.replica.state, &end.replica.membership)
        .collect();
    assert_eq!((aside.len(), aside[0].writer), (1, writer));
    assert_eq!((aside[0].journal.told, aside[0].before), (1, 1));
    assert!(aside[0].intro.is_some() && end.sync.guests.coming_back.is_none());
    // Its owner is no member there.
    home.members_mut().force(&[OWNER]).unwrap();
    dropped.now = ASK_AGAIN_MS;
    begin_again(&mut dropped, links[1], &full(&home));
    assert_eq!(dropped.replica.writer(), writer);
    // Nobody is to wait for the writer either that it had told of.
    let outputs = dropped.outputs();
    let ended = |output: &Output| match output {
        Output::Send { link, bytes } => match Frame::decode(bytes).unwrap().body {
            Body::Return { writer, .. } => Some((*link, writer)),
            _ => None,
        },
        _ => None,
    };
    let ended: Vec<(Link, WriterId)> = outputs.iter().filter_map(ended).collect();
    assert_eq!(ended, [(links[1], id(8)), (links[1], writer)]);
    let it = dropped.coming_back();
    assert_eq!((it.member, it.dropped, it.last), (false, true, None));
    assert_eq!((it.fresh, it.link), (None, links[1]));
}

/// The counts of a guest that was not admitted, stored under another end's id.
pub(super) fn aside(intro: Option<Intro>, before: u64) -> EarlierWriter {
    let mut guest = End::guest();
    let writer = guest.replica.writer();
    guest.replica.add("key", 5).unwrap();
    guest.replica.rejoin.note_sent(&guest.replica.state, false);
    let state = full(&End::member().replica);
    let mut ignore = |_| ();
    let journal = guest
        .replica
        .rejoin_mut()
        .begin_again(id(8), &state, &mut ignore)
        .unwrap();
    EarlierWriter {
        intro,
        before,
        ..EarlierWriter::new(writer, journal)
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
fn a_member_ends_its_earlier_writers_before_it_asks_for_an_id() {
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
            end.replica.members_mut().admit(&writer).unwrap();
        }
        end.replica.rejoin.keep_earlier(it);
        end.tend();
        assert_eq!(end.sent().1, asks);
        assert_eq!(end.sync.guests.resuming, asks > 0);
        assert_eq!(end.replica.members().accepts_from(&writer), asks > 0);
        let mut asked = asks;
        for _ in 0..5 {
            end.tend();
            asked += end.sent().1;
        }
        assert_eq!(asked, 1);
    }
    let mut guest = End::guest();
    guest.replica.rejoin.keep_earlier(aside(intro(1), 0));
    guest.tend();
    assert_eq!(guest.sent().1, 0);
}

#[test]
fn a_guest_makes_again_once_it_is_taken_in_itself() {
    for (clock, admitted, asks) in [(0, false, 1), (1, false, 0), (1, true, 1)] {
        let mut end = match admitted {
            true => End::admitted(),
            false => End::guest(),
        };
        if clock > 0 {
            end.replica.add("key", 1).unwrap();
        }
        let mut it = aside(None, 0);
        it.writer = id(7);
        let link = end.link(1, id(100));
        end.replica.rejoin.keep_earlier(it);
        end.tend();
        end.sync.earlier_ended(link, id(7), Last::Upto(0));
        end.outputs();
        end.tend();
        assert_eq!(end.sent().1, asks, "{clock} {admitted}");
        // Up to which clock it counts was told by a peer, and nobody else remembers.
        let End { replica, sync, now } = &mut end;
        assert_eq!(sync.fresh_writer(*now, replica, id(9)), asks > 0);
        if asks > 0 {
            assert_eq!(end.replica.value("key"), Some(5 + clock));
            assert_eq!(returned(&end.outputs()), [None]);
        }
    }
}

#[test]
fn what_was_put_aside_is_made_again_once_it_is_certain() {
    for (intro, before, held, lacks, value, unknown) in [
        (None, 0, false, true, Some(5), None),
        (None, 1, false, true, None, Some((1, 1))),
        (None, 1, false, false, Some(5), None),
        (intro(1), 1, false, true, Some(5), None),
        (None, 1, true, true, Some(5), None),
    ] {
        let mut end = End::member();
        if lacks {
            end.replica.lose_memory();
        }
        let link = end.link(1, id(1));
        let it = aside(intro, before);
        if held {
            let mut guest = End::guest().replica;
            end.replica.members_mut().admit(&guest.writer()).unwrap();
            guest.merge(&full(&end.replica)).unwrap();
            guest.add("key", 5).unwrap();
            let live = Some(guest.writer());
            let home = &mut end.replica;
            home.merge_with(&full(&guest), live, &mut |_| ()).unwrap();
        }
        end.replica.members_mut().fence(&it.writer).unwrap();
        end.tend_until(|replica| replica.members().final_clock(&it.writer).is_some());
        end.replica.rejoin.keep_earlier(it);
        end.tend();
        end.outputs();
        assert_eq!(end.sync.guests.resuming, !held);
        if held {
            assert_eq!(end.replica.value("key"), value);
            continue; // all of it counts
        }
        let End { replica, sync, now } = &mut end;
        assert!(sync.fresh_writer(*now, replica, id(9)));
        assert_eq!(end.replica.writer(), id(9));
        assert_eq!(end.replica.value("key"), value);
        let outputs = end.outputs();
        assert_eq!(returned(&outputs), [unknown]);
        assert_eq!(writer_changed(&outputs, id(9)), [link]);
        assert_eq!(end.replica.rejoin.sent_upto(), 0);
        assert!(
            end.replica
                .rejoin
                .lost(&end.replica.state, &end.replica.membership)
                .count()
                == 0
                && !end.sync.guests.resuming
        );
    }
}

/// A transaction that a member has need not be made again.
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
        sync.note_peer_vector(replica, Link(9), &replica.vector());
        sync.note_peer_vector(replica, link, &vector);
        let journal = replica
            .rejoin_mut()
            .begin_again(id(8), &state, &mut |_| ())
            .unwrap();
        assert_eq!(journal.len(), left);
        // Nor of an earlier writer.
        let mut end = End::admitted();
        let link = end.link(1, id(writer));
        let earlier = aside(None, 0);
        let held = Vec::from([(earlier.writer, upto)]);
        end.replica.rejoin.keep_earlier(earlier);
        let End { replica, sync, .. } = &mut end;
        sync.note_peer_vector(replica, link, &VersionVector::from_sorted(held));
        assert_eq!(end.replica.consistency().unconfirmed(), left);
    }
}

/// A part that was retired shows that members have a record of it.
#[test]
fn the_rest_of_what_was_taken_over_is_made_again() {
    let mut end = End::member();
    let mut guest = End::guest().replica;
    let writer = guest.writer();
    guest.add("key", 5).unwrap();
    let first = full(&guest);
    guest.add("key", 3).unwrap();
    guest.rejoin.note_sent(&guest.state, false);
    let state = full(&end.replica);
    let journal = guest
        .rejoin_mut()
        .begin_again(id(8), &state, &mut |_| ())
        .unwrap();
    let home = &mut end.replica;
    home.merge_with(&first, Some(writer), &mut |_| ()).unwrap();
    home.members_mut().fence(&writer).unwrap();
    end.tend_until(|replica| !replica.state.knows(&writer));
    assert_eq!(end.replica.members().final_clock(&writer), Some(1));
    end.replica.rejoin.keep_earlier(EarlierWriter {
        before: 2,
        ..EarlierWriter::new(writer, journal)
    });
    end.tend();
    end.outputs();
    let End { replica, sync, now } = &mut end;
    assert!(sync.fresh_writer(*now, replica, id(9)));
    assert_eq!(end.replica.value("key"), Some(8));
    assert_eq!(returned(&end.outputs()), [None]);
}

/// The writer under which a replica makes others' transactions again is an earlier one from then on.
#[test]
fn what_is_known_of_the_present_writer_is_kept_with_what_it_made() {
    let [_, new, known] = second();
    for (replica, is_known) in [(End::admitted().replica, true), (new, false), (known, true)] {
        let mut end = End::of(replica);
        let (writer, intro) = (
            end.replica.writer(),
            end.replica.membership.intro(&end.replica.state),
        );
        assert_eq!(intro.is_some(), is_known);
        end.replica.add("key", 5).unwrap();
        end.replica.rejoin.note_sent(&end.replica.state, false);
        let told = end.replica.clock();
        end.sync.guests.stored().resuming = true;
        let End { replica, sync, now } = &mut end;
        assert!(sync.fresh_writer(*now, replica, id(8)));
        assert_eq!(end.replica.value("key"), Some(5));
        // A state without it.
        let state = full(&End::member().replica);
        let mut ignore = |_| ();
        let begun = end
            .replica
            .rejoin_mut()
            .begin_again(id(7), &state, &mut ignore);
        begun.unwrap();
        let lost = end
            .replica
            .rejoin
            .lost(&end.replica.state, &end.replica.membership);
        let lost: Vec<_> = lost.map(|it| (it.writer, it.intro, it.before)).collect();
        assert_eq!(lost, [(writer, intro, told)]);
    }
}

/// The store was an old copy if a start is known that is later than what it had, and is not this one.
#[test]
fn a_later_start_of_its_owner_shows_that_the_store_was_an_old_copy() {
    let announced = |replica: &mut Replica, unix_ms| {
        replica
            .members_mut()
            .announce(&OTHER, &[0; 16], unix_ms)
            .unwrap();
    };
    for (known, heard, doubts) in [
        (Some(5), None, false),
        (None, Some(5), true),
        (Some(5), Some(7), true),
    ] {
        let mut home = End::member().replica;
        home.members_mut().force(&[OWNER, OTHER]).unwrap();
        let mut end = End::of(Replica::new(Space::default(), id(9)));
        let mut learn = |end: &mut End, generation: Option<u64>| {
            let Some(generation) = generation else {
                return;
            };
            let mut start = Replica::new(Space::default(), id(generation as u8));
            start.merge(&full(&home)).unwrap();
            announced(&mut start, generation);
            home.merge(&full(&start)).unwrap();
            end.replica.merge(&full(&start)).unwrap();
        };
        learn(&mut end, known);
        let mut kept = aside(None, 0);
        kept.stored = true;
        end.replica.rejoin.keep_earlier(kept);
        end.sync.note_starts(&mut end.replica);
        learn(&mut end, heard);
        end.sync.note_starts(&mut end.replica);
        let doubtful = end
            .replica
            .rejoin
            .lost(&end.replica.state, &end.replica.membership)
            .next()
            .unwrap()
            .doubtful;
        assert_eq!(doubtful, doubts, "{known:?} {heard:?}");
        // The starts of this process are none of those.
        let mut home = End::member().replica;
        home.members_mut().force(&[OWNER, OTHER]).unwrap();
        let mut end = End::of(Replica::new(Space::default(), id(9)));
        end.replica.merge(&full(&home)).unwrap();
        end.sync.note_starts(&mut end.replica);
        announced(&mut end.replica, 5);
        end.sync.note_starts(&mut end.replica);
        let state = full(&end.replica);
        end.replica.add("key", 1).unwrap();
        let mut ignore = |_| ();
        let journal = end
            .replica
            .rejoin_mut()
            .begin_again(id(8), &state, &mut ignore)
            .unwrap();
        let kept = EarlierWriter {
            writer: id(9),
            stored: true,
            journal,
            ..aside(None, 0)
        };
        end.replica.rejoin.keep_earlier(kept);
        end.sync.note_starts(&mut end.replica);
        let doubtful: Vec<bool> = end
            .replica
            .rejoin
            .lost(&end.replica.state, &end.replica.membership)
            .map(|it| it.doubtful)
            .collect();
        assert_eq!(doubtful, [false]);
    }
}

/// A transaction of an old copy may have been made again. It is reported, and not added.
#[test]
fn what_is_doubtful_is_told() {
    let mut end = End::member();
    let mut it = aside(None, 0);
    (it.stored, it.doubtful) = (true, true);
    end.replica.members_mut().fence(&it.writer).unwrap();
    end.tend_until(|replica| replica.members().final_clock(&it.writer).is_some());
    end.replica.rejoin.keep_earlier(it);
    end.tend();
    end.outputs();
    let End { replica, sync, now } = &mut end;
    assert!(sync.fresh_writer(*now, replica, id(9)));
    assert_eq!(end.replica.value("key"), None);
    assert_eq!(returned(&end.outputs()), [Some((1, 1))]);
}

/// A member's answer about an earlier writer counts, unless the member may have forgotten some of it.
#[test]
fn what_is_certain_of_a_earlier_writer_is_made_again_or_counts() {
    for (last, value, unknown) in [
        (Last::Nothing, Some(5), None),
        (Last::Upto(0), None, Some((1, 1))),
        (Last::Upto(1), None, None),
    ] {
        let mut end = End::guest();
        let link = end.link(1, id(100));
        let mut it = aside(None, 1);
        it.writer = id(7);
        end.replica.rejoin.keep_earlier(it);
        let End { replica, sync, now } = &mut end;
        sync.look_back(*now, replica).unwrap();
        sync.earlier_ended(link, id(7), last);
        assert!(!replica.membership.remembers_all());
        sync.make_again(*now, replica, id(9));
        assert_eq!(end.replica.value("key"), value, "{last:?}");
        let told = returned(&end.outputs());
        assert_eq!(told.into_iter().flatten().next(), unknown, "{last:?}");
    }
}

/// A guest has its earlier writers ended, some at once, and asks each peer in turn.
#[test]
fn a_guest_has_those_ended_that_it_left_behind() {
    let mut end = End::guest();
    for byte in 10..40 {
        let mut it = aside(None, 0);
        it.writer = id(byte);
        end.replica.rejoin.keep_earlier(it);
    }
    let mut unknown = End::of(end.replica.clone());
    unknown.link(1, id(1));
    let mut home = End::member().replica;
    for byte in 10..40 {
        home.members_mut().admit(&id(byte)).unwrap();
    }
    end.replica.merge(&full(&home)).unwrap();
    for number in [1, 2] {
        end.link(number, id(number as u8));
    }
    let asked = |end: &mut End| {
        let End { replica, sync, now } = end;
        sync.look_back(*now, replica).unwrap();
        let sent = end.sent().0.into_iter();
        let asks = sent.filter_map(|(link, body)| match body {
            Body::Return { writer, .. } => Some((link, writer)),
            _ => None,
        });
        asks.collect::<Vec<_>>()
    };
    // Those too that nobody waits for.
    assert_eq!(asked(&mut unknown).len(), 16);
    let first = asked(&mut end);
    assert_eq!(first.len(), 16);
    assert!(first.iter().all(|it| it.0 == Link(1)));
    assert_eq!(asked(&mut end), []);
    end.now = ASK_AGAIN_MS;
    let second = asked(&mut end);
    assert_eq!(second.len(), 16);
    assert!(second.iter().all(|it| it.0 == Link(2)));
    // One whose owner is a member announces itself before.
    let mut early = End::of(end.replica.clone());
    early.sync.config.owner = Some(OWNER);
    early.link(1, id(1));
    assert_eq!(asked(&mut early), []);
}

/// A member that has to answer what counts of a rejoining guest may wait for acknowledgements of its earlier
/// writers. These are ended meanwhile, and made again after the rejoin.
#[test]
fn a_guest_that_comes_back_has_its_earlier_writers_ended_meanwhile() {
    let (mut end, links) = returning(Last::Upto(0));
    end.coming_back().last = None;
    let mut it = aside(None, 1);
    it.writer = id(7);
    end.replica.rejoin.keep_earlier(it);
    let End { replica, sync, now } = &mut end;
    sync.look_back(*now, replica).unwrap();
    assert_eq!(end.asked(), [links[0]]);
    end.sync.earlier_ended(links[0], id(7), Last::Upto(1));
    let End { replica, sync, now } = &mut end;
    sync.look_back(*now, replica).unwrap();
    assert!(!end.sync.guests.resuming);
    end.sync.guests.stored().coming_back = None;
    let End { replica, sync, now } = &mut end;
    sync.look_back(*now, replica).unwrap();
    assert!(end.sync.guests.resuming);
    // A member makes nothing any more under a writer that it leaves, and ends them by itself then.
    let mut member = End::member();
    let link = member.link(1, id(1));
    member.replica.members_mut().admit(&id(7)).unwrap();
    let mut it = aside(None, 1);
    it.writer = id(7);
    member.replica.rejoin.keep_earlier(it);
    let End { replica, sync, now } = &mut member;
    sync.begin_rejoin(*now, replica, link);
    let clock = member.replica.clock();
    let End { replica, sync, now } = &mut member;
    sync.look_back(*now, replica).unwrap();
    assert_eq!(member.replica.clock(), clock);
}

/// Another peer may remember what the first has forgotten.
#[test]
fn what_all_have_forgotten_is_known_of_nobody() {
    let mut end = End::guest();
    let links = [1, 2].map(|number| end.link(number, id(number as u8)));
    let mut it = aside(None, 0);
    it.writer = id(7);
    end.replica.rejoin.keep_earlier(it);
    let forgot = |end: &mut End, link, asked: &[Link]| {
        let last = Last::Forgotten(true);
        end.sync.earlier_ended(link, id(7), last);
        let End { replica, sync, now } = end;
        sync.look_back(*now, replica).unwrap();
        assert_eq!(end.asked(), asked);
        end.sync.guests.resuming
    };
    // An answer about another writer, whose end it did not request.
    end.sync.earlier_ended(links[0], id(8), Last::Upto(1));
    let End { replica, sync, now } = &mut end;
    sync.look_back(*now, replica).unwrap();
    assert_eq!(end.asked(), [links[0]]);
    assert!(!forgot(&mut end, links[0], &[links[1]]));
    assert!(!forgot(&mut end, links[0], &[]));
    assert!(!forgot(&mut end, links[1], &[]));
    let End { replica, sync, now } = &mut end;
    sync.look_back(*now, replica).unwrap();
    assert!(end.sync.guests.resuming);
}

/// Its present state is not the state of its next writer.
#[test]
fn who_has_said_by_which_writer_it_will_go_answers_only_who_begins_again() {
    let (mut end, links) = returning(Last::Upto(0));
    let mut answers = |id, vector: &VersionVector, fresh: Option<WriterId>| {
        end.coming_back().fresh = fresh;
        let pull = Pull {
            id,
            chunk: 0,
            vector: vector.clone(),
        };
        let End { replica, sync, now } = &mut end;
        sync.serve(*now, replica, links[0], &pull);
        let sent = end.sent().0.into_iter();
        sent.filter(|it| matches!(it.1, Body::Delta(_))).count()
    };
    let some = VersionVector::from_sorted(Vec::from([(id(100), 1)]));
    assert_eq!(answers(1, &some, None), 1);
    assert_eq!(answers(2, &some, Some(id(8))), 0);
    assert_eq!(answers(3, &VersionVector::default(), Some(id(8))), 1);
}

/// An answer that was asked of the writer before is not taken for the next one's.
#[test]
fn who_goes_by_another_writer_is_asked_anew() {
    let mut end = End::member();
    let link = end.link(1, id(1));
    let End { replica, sync, now } = &mut end;
    sync.want(*now, replica, link);
    let pulls = |end: &mut End| {
        let sent = end.sent().0.into_iter();
        let ids = sent.filter_map(|(_, body)| match body {
            Body::Pull(pull) => Some(pull.id),
            _ => None,
        });
        ids.collect::<Vec<_>>()
    };
    assert_eq!(pulls(&mut end), [1]);
    let frame = |end: &mut End, body| {
        let bytes = crate::wire::encode(end.replica.space(), &body);
        let bytes = &bytes;
        let End { replica, sync, now } = end;
        sync.handle(*now, replica, Input::Frame { link, bytes });
    };
    frame(&mut end, Body::Writer(id(2)));
    assert_eq!(pulls(&mut end), [2]);
}

/// A guest's whole state has what nobody took in.
#[test]
fn nobody_begins_again_from_a_strangers_state() {
    let (mut end, links) = returning(Last::Upto(0));
    let mut stranger = End::guest().replica;
    stranger.add("key", 1).unwrap();
    let writer = stranger.writer();
    begin_again(&mut end, links[1], &full(&stranger));
    let refused = Output::Refused {
        close: None,
        error: Error::Admission(AdmissionError::Stranger { writer }),
    };
    assert!(end.outputs().contains(&refused));
    assert_ne!(end.replica.writer(), id(8));
}

/// Transactions of an earlier writer that was declared dead unseen are made again under another writer.
#[test]
fn a_guest_whose_state_has_a_buried_writer_comes_back_once() {
    let buried = |mut end: End, writer: WriterId| {
        use crate::message::records::{Admit, Fence};
        let Replica {
            state,
            membership,
            rejoin,
            ..
        } = &mut end.replica;
        let number = membership.number(state, writer);
        state.set_clock(number, 3);
        let by = crate::state::slot::Stamp {
            writer: 0,
            clock: 9,
        };
        membership.note(state, number, Statement::Admit(Admit { turn: 0, by }));
        let (turn, successor) = (0, 0);
        let fence = Fence {
            turn,
            by,
            successor,
        };
        membership.note(state, number, Statement::Fence(fence));
        let mut journal = <crate::Journal as crate::optional::Empty>::EMPTY;
        (journal.writer, journal.open) = (Some(writer), 3);
        rejoin.keep_earlier(EarlierWriter::new(writer, journal));
        end
    };
    let look_back = |end: &mut End| {
        let End { replica, sync, now } = end;
        sync.look_back(*now, replica).unwrap();
        end.sync.guests.coming_back.as_ref().map(|it| it.fresh)
    };
    let mut guest = buried(End::admitted(), id(7));
    guest.link(1, id(1));
    guest.sync.peers[0].level = true;
    assert_eq!(look_back(&mut guest), Some(None));
    guest.coming_back().fresh = Some(id(8));
    assert_eq!(
        look_back(&mut guest),
        Some(Some(id(8))),
        "it does not begin anew"
    );
    let mut member = buried(End::member(), id(7));
    member.link(1, id(1));
    assert_eq!(look_back(&mut member), None);
}

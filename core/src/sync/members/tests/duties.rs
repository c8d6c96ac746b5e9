//! Whom a member waits for, and when it collects.

use super::*;
use crate::optional::Empty;
use crate::sync::members::silent::{ABSENT_MAX, BRIEF_MS};
use crate::wire::Digests;

#[test]
fn who_is_not_heard_for_a_lease_is_given_up() {
    let mut end = End::member();
    for byte in [1, 2] {
        end.replica.members_mut().admit(&id(byte)).unwrap();
    }
    let alive = |end: &mut End, now| {
        end.now = now;
        end.tend();
        [1, 2].map(|byte| end.replica.members().accepts_from(&id(byte)))
    };
    let tells = |end: &mut End| {
        let seen = end.replica.vector();
        end.replica
            .membership
            .note_seen(&end.replica.state, &id(2), &seen);
    };
    let link = end.link(1, id(2));
    tells(&mut end);
    assert_eq!(alive(&mut end, 500), [true, true]);
    assert_eq!(alive(&mut end, 700), [true, true]);
    end.cut(link);
    assert_eq!(alive(&mut end, 800), [true, true]);
    assert_eq!(alive(&mut end, 500 + LEASE_MS - 1), [true, true]);
    assert_eq!(alive(&mut end, 500 + LEASE_MS), [false, true]);
    // A link came, and went again.
    let link = end.link(2, id(2));
    for now in [800 + LEASE_MS, 5_000] {
        tells(&mut end);
        assert!(alive(&mut end, now)[1]);
    }
    tells(&mut end);
    end.cut(link);
    assert!(alive(&mut end, 5_100)[1]);
    assert!(alive(&mut end, 5_100 + LEASE_MS - 1)[1]);
    assert!(!alive(&mut end, 5_100 + LEASE_MS)[1]);
    // A link alone is not enough: it has to get on with what members made.
    let mut slow = End::member();
    slow.replica.members_mut().admit(&id(2)).unwrap();
    slow.link(1, id(2));
    assert!(alive(&mut slow, 100)[1]);
    assert!(alive(&mut slow, 100 + LEASE_MS - 1)[1]);
    tells(&mut slow);
    slow.replica.add("key", 1).unwrap();
    assert!(alive(&mut slow, 100 + LEASE_MS)[1]);
    assert!(alive(&mut slow, 100 + 2 * LEASE_MS - 1)[1]);
    assert!(!alive(&mut slow, 100 + 2 * LEASE_MS)[1]);
    // Each by itself.
    let mut both = End::member();
    for byte in [1, 2] {
        both.replica.members_mut().admit(&id(byte)).unwrap();
    }
    assert_eq!(alive(&mut both, 0), [true, true]);
    both.now = LEASE_MS;
    both.sync.give_up_silent(LEASE_MS, &mut both.replica);
    let lives = [1, 2].map(|byte| both.replica.members().accepts_from(&id(byte)));
    assert_eq!(lives, [false, false]);
    // Without a lease nobody is.
    let mut patient = End::member();
    patient.sync.config.guest_timeout_ms = 0;
    patient.replica.members_mut().admit(&id(1)).unwrap();
    assert!(alive(&mut patient, 1_000_000)[0]);
    assert!(alive(&mut patient, 2_000_000)[0]);
}

/// Three members, of whom this one knows two to be there, each by its writer.
fn three() -> (End, [WriterId; 2]) {
    let mut end = End::member();
    let owners = [OWNER, OTHER, [3; 32]];
    end.replica.members_mut().force(&owners).unwrap();
    let others = [1, 2].map(|at| {
        let writer = id(at as u8);
        let mut other = Replica::new(Space::default(), writer);
        other.merge(&full(&end.replica)).unwrap();
        other
            .members_mut()
            .announce(&owners[at], &[0; 16], 2)
            .unwrap();
        end.replica
            .merge_with(&full(&other), Some(writer), &mut |_| ())
            .unwrap();
        writer
    });
    (end, others)
}

#[test]
fn no_guest_without_a_link_is_waited_for_long_while_a_start_waits_for_that() {
    for is_held_up in [true, false] {
        let end = &mut if is_held_up { three().0 } else { End::member() };
        end.sync.config.guest_timeout_ms = 600_000;
        let mut page = Replica::new(Space::default(), id(6));
        for writer in [id(5), id(6), id(7)] {
            end.replica.members_mut().admit(&writer).unwrap();
        }
        end.link(1, id(7));
        page.merge(&full(&end.replica)).unwrap();
        page.add("key", 1).unwrap();
        let wrote = full(&page);
        end.replica
            .merge_with(&wrote, Some(id(6)), &mut |_| ())
            .unwrap();
        let mut alive = |now| {
            end.now = now;
            end.tend();
            [5, 6, 7].map(|byte| end.replica.members().accepts_from(&id(byte)))
        };
        assert_eq!(alive(100), [true; 3]);
        assert_eq!(alive(100 + BRIEF_MS - 1), [true; 3]);
        let is_over = [is_held_up, is_held_up, false];
        assert_eq!(alive(100 + BRIEF_MS), is_over.map(|it| !it));
        assert_eq!(alive(100 + 600_000), [false; 3]);
    }
}

/// A copy has its link in turns. Its adds under an earlier writer count once that writer's end is certain. On the link
/// on which it stood aside, its hello may have been a member's.
#[test]
fn a_copy_is_not_waited_for_long_while_the_end_of_any_writer_waits_for_that() {
    for is_awaited in [true, false] {
        let (end, [other, _]) = &mut three();
        end.sync.config.guest_timeout_ms = 600_000;
        let [page, copy, before] = [5, 6, 7].map(id);
        for (number, writer, owner) in [(1, page, [77; 32]), (2, copy, OTHER)] {
            let link = end.link(number, writer);
            end.sync.set_owner(link, owner);
            end.sync.admit_peer(0, &mut end.replica, link);
            end.cut(link);
        }
        end.replica.members_mut().admit(&before).unwrap();
        let starts = end.replica.vector();
        for writer in [page, copy, before] {
            end.replica
                .membership
                .note_seen(&end.replica.state, &writer, &starts);
        }
        end.now = 100;
        end.tend();
        assert!(end.replica.members().accepts_from(other));
        if is_awaited {
            end.replica.members_mut().fence(&before).unwrap();
        }
        let mut alive = |now| {
            end.now = now;
            end.tend();
            [page, copy].map(|it| end.replica.members().accepts_from(&it))
        };
        assert_eq!(alive(100 + BRIEF_MS - 1), [true, true]);
        assert_eq!(alive(100 + BRIEF_MS), [true, !is_awaited]);
    }
}

#[test]
fn a_page_whose_link_ended_is_given_up_soon_unless_it_is_heard_of() {
    let mut end = End::member();
    end.sync.config.guest_timeout_ms = 600_000;
    let [gone, node, back, elsewhere] = [1, 2, 3, 4].map(id);
    let mut page = Replica::new(Space::default(), elsewhere);
    for (number, writer) in [(1, gone), (2, node), (3, back), (4, elsewhere)] {
        end.replica.members_mut().admit(&writer).unwrap();
        let link = end.link(number, writer);
        let hello = &mut end.sync.peer_mut(link).unwrap().hello;
        hello.as_mut().unwrap().follows = writer != node;
    }
    page.merge(&full(&end.replica)).unwrap();
    end.now = 100;
    end.tend();
    for link in [1, 2, 3, 4].map(Link) {
        end.cut(link);
    }
    end.link(5, back);
    page.add("key", 1).unwrap();
    let (wrote, live) = (full(&page), Some(elsewhere));
    end.replica.merge_with(&wrote, live, &mut |_| ()).unwrap();
    let mut alive = |now| {
        end.now = now;
        end.tend();
        let alive = |it: &WriterId| end.replica.members().accepts_from(it);
        [gone, node, back, elsewhere].map(|it| alive(&it))
    };
    assert_eq!(alive(100 + BRIEF_MS - 1), [true; 4]);
    assert_eq!(alive(100 + BRIEF_MS), [false, true, true, true]);
    assert_eq!(alive(600_000), [false, true, true, true]);
}

/// Pages that come, count and vanish must not fill a space.
#[test]
fn of_many_absent_guests_those_that_went_first_are_given_up_soon() {
    let mut end = End::member();
    end.sync.config.guest_timeout_ms = 600_000;
    let guest = |number: usize| {
        let mut bytes = [7; 16];
        // Those that went first do not come first in the order of writers.
        bytes[..2].copy_from_slice(&(1_000 - number as u16).to_be_bytes());
        WriterId::from_bytes(bytes)
    };
    let alive = |end: &mut End, now| {
        end.now = now;
        end.tend();
        let those = (0..ABSENT_MAX + 3).map(guest);
        let is_alive = |it: &WriterId| end.replica.members().accepts_from(it);
        those.filter(is_alive).count()
    };
    for number in 0..ABSENT_MAX + 3 {
        end.replica.members_mut().admit(&guest(number)).unwrap();
        if number == 1 {
            alive(&mut end, 100);
        }
    }
    // One of them has a link.
    let last = guest(ABSENT_MAX + 2);
    end.link(1, last);
    assert_eq!(alive(&mut end, 200), ABSENT_MAX + 3);
    assert_eq!(alive(&mut end, 100 + BRIEF_MS - 1), ABSENT_MAX + 3);
    assert_eq!(alive(&mut end, 100 + BRIEF_MS), ABSENT_MAX + 1);
    let [first, third] = [0, 2].map(|it| end.replica.members().accepts_from(&guest(it)));
    assert_eq!([first, third], [false, true]);
    assert_eq!(alive(&mut end, 100 + 2 * BRIEF_MS), ABSENT_MAX + 1);
    assert_eq!(alive(&mut end, 599_000), ABSENT_MAX + 1);
}

#[test]
fn what_a_member_says_by_duty_is_told_and_to_be_kept() {
    let (mut end, _) = three();
    let mark = end.replica.mark();
    let held = end.replica.clock();
    assert!(end.tend());
    assert!(end.replica.clock() > held);
    assert!(!end.replica.members_mut().collect(&mark));
    assert_eq!(end.sync.pushes.due(), Some(5));
    assert!(!end.tend());
}

/// Another member waits for this one, which waits for what its guest has seen.
#[test]
fn a_guest_that_holds_up_an_acknowledgement_and_the_start_that_waits_hear_at_once() {
    let mut end = End::member();
    end.replica.members_mut().force(&[OWNER, OTHER]).unwrap();
    end.replica.members_mut().admit(&id(2)).unwrap();
    let mut other = Replica::new(Space::default(), id(1));
    other.merge(&full(&end.replica)).unwrap();
    other.members_mut().announce(&OTHER, &[0; 16], 2).unwrap();
    let message = full(&other);
    let merged = end.replica.merge_with(&message, Some(id(1)), &mut |_| ());
    merged.unwrap();
    let links = [1, 2].map(|number| end.link(number, id(number as u8)));
    let digests = |end: &mut End| {
        end.sync.handle(end.now, &mut end.replica, Input::Tick);
        let sent = end.sent().0.into_iter();
        let digests = sent.filter(|it| matches!(it.1, Body::Digest(_)));
        digests.map(|(link, _)| link).collect::<Vec<Link>>()
    };
    end.tend();
    assert!(end.replica.members().is_held_up());
    // The start learns once that this member knows of it.
    assert_eq!(digests(&mut end), links);
    end.now = 249;
    end.tend();
    assert_eq!(digests(&mut end), []);
    end.now = 250;
    end.tend();
    assert_eq!(digests(&mut end), links[1..]);
    // Under another writer it is another start.
    end.sync.set_writer(links[0], id(3));
    assert!(!*end.sync.peer(links[0]).unwrap().delayed);
    end.sync.set_writer(links[0], id(1));
    let seen = end.replica.vector();
    end.replica
        .membership
        .note_seen(&end.replica.state, &id(2), &seen);
    end.now = 500;
    assert!(end.tend());
    assert_eq!(digests(&mut end), []);
}

#[test]
fn a_guest_tells_a_member_that_holds_as_much_so() {
    let answers = |end: &mut End, by: u8, vector| {
        let link = end.link(1, id(by));
        let digests = Digests {
            vector,
            contents: 0,
        };
        let End { replica, sync, .. } = end;
        sync.digest_came(0, replica, link, &digests);
        let answers = end.sync.peer_mut(link).unwrap().next_digest == 0;
        end.cut(link);
        answers
    };
    let mut guest = End::admitted();
    let own = guest.replica.digest();
    assert!(answers(&mut guest, 100, own));
    assert!(!answers(&mut guest, 100, [1; 16]));
    assert!(!answers(&mut guest, 99, own), "no member asks");
    // Members acknowledge by themselves, and two that answered each other would never end.
    let mut member = End::member();
    let own = member.replica.digest();
    assert!(!answers(&mut member, 100, own));
}

#[test]
fn one_has_caught_up_with_all_who_are_there_if_they_are_most() {
    let (mut end, others) = three();
    let up = |end: &End| end.sync.has_caught_up(&end.replica);
    assert!(!up(&end));
    let tab = end.link(3, id(9));
    assert!(!up(&end));
    let links = [1, 2].map(|number| end.link(number, others[number as usize - 1]));
    end.sync.is_level(tab);
    end.sync.is_level(links[0]);
    assert!(!up(&end));
    let mut one_only = End::of(end.replica.clone());
    one_only.sync = end.sync.clone();
    one_only.cut(links[1]);
    assert!(up(&one_only));
    end.sync.is_level(links[1]);
    assert!(up(&end));
    end.replica
        .members_mut()
        .force(&[OWNER, OTHER, [3; 32], [4; 32]])
        .unwrap();
    assert!(up(&end));
    end.cut(links[1]);
    assert!(!up(&end));
    end.cut(links[0]);
    end.replica.members_mut().force(&[OWNER, OTHER]).unwrap();
    assert!(!up(&end));
    assert!(up(&End::member()));
    let open = Replica::new(Space::default(), id(3));
    assert!(up(&End::of(open)));
}

/// All members start at once, so none of them has announced itself.
#[test]
fn members_that_start_together_wait_for_nobody_else() {
    const THIRD: Owner = [3; 32];
    let (mut end, _) = three();
    let up = |end: &End| end.sync.has_caught_up(&end.replica);
    let link = end.link(1, id(70));
    end.sync.is_level(link);
    assert!(!up(&end), "it is not known whose start that is");
    end.sync.set_owner(link, [77; 32]);
    assert!(!up(&end), "that is no member");
    end.sync.set_owner(link, OTHER);
    assert!(!up(&end), "that is another process with the own key");
    end.sync.set_owner(link, THIRD);
    assert!(up(&end));
    let second = end.link(2, id(71));
    end.sync.set_owner(second, THIRD);
    assert!(!up(&end), "it has not caught up with each start");
    end.sync.is_level(second);
    assert!(up(&end));
    end.replica
        .members_mut()
        .force(&[OWNER, OTHER, THIRD, [4; 32]])
        .unwrap();
    assert!(!up(&end), "two links of one owner are one member");
}

#[test]
fn a_member_that_may_have_forgotten_some_asks_each_other_once() {
    let ask = |end: &mut End| {
        let End { replica, sync, now } = end;
        sync.ask_for_memory(*now, replica);
        let peers = sync.peers.iter();
        peers.map(|peer| peer.asked_memory).collect::<Vec<bool>>()
    };
    let (mut end, others) = three();
    end.link(3, id(9)); // a guest's
    let links = [1, 2].map(|number| end.link(number, others[number as usize - 1]));
    assert!(end.replica.membership.remembers_all());
    assert_eq!(ask(&mut end), [false; 3]);
    end.replica.lose_memory();
    let mut guest = End::of(end.replica.clone());
    guest.sync = end.sync.clone();
    guest.sync.config.owner = None;
    assert_eq!(ask(&mut guest), [false; 3]);
    assert_eq!(ask(&mut end), [true, false, false]);
    let pulls = |end: &mut End| {
        let sent = end.sent().0.into_iter();
        let pulls = sent.filter(|(_, body)| matches!(body, Body::Pull(_)));
        pulls.map(|(link, _)| link).collect::<Vec<Link>>()
    };
    assert_eq!(pulls(&mut end), [links[0]]);
    assert_eq!(ask(&mut end), [true, true, false]);
    assert_eq!(ask(&mut end), [true, true, false]);
    // One that is no member leaves that to members.
    let mut tab = End::guest();
    tab.link(1, id(100));
    assert!(!tab.replica.membership.remembers_all());
    assert_eq!(ask(&mut tab), [false]);
    // A member does it along with its other duties.
    let mut other = End::of(end.replica.clone());
    other.link(1, others[0]);
    other.tend();
    assert!(other.sync.peers[0].asked_memory);
}

/// A sole member with something to collect, that is in the middle of a transfer.
#[test]
fn collection_waits_for_transfers_but_not_for_ever() {
    let mut end = End::member();
    assert!(!end.tend());
    assert_eq!(end.sync.pushes.due(), None);
    let link = end.link(1, end.replica.writer());
    let name = |at: usize| alloc::format!("{at:0>500}");
    let mut keys = 0;
    while !end.sync.is_serving(&end.replica) {
        for at in keys..keys + 500 {
            end.replica.add(&name(at), 1).unwrap();
        }
        keys += 500;
        asks(&mut end, link, keys as u32);
        assert!(keys < 20_000);
    }
    end.replica.apply(&name(0), crate::Op::Delete).unwrap();
    // A peer whose transfer was ended asks again, and has twice as much time, up to a bound.
    for ended in 0..DOUBLINGS_MAX + 2 {
        // However often the member looks.
        let patience = PATIENCE << ended.min(DOUBLINGS_MAX);
        for time in [0, 0, 1, patience - 2] {
            end.now += time;
            assert!(
                !end.tend() && end.sync.is_serving(&end.replica),
                "{ended}: {time}"
            );
        }
        end.now += 1;
        assert!(end.tend());
        assert!(!end.sync.is_serving(&end.replica));
        end.replica
            .apply(&name(ended as usize + 1), crate::Op::Delete)
            .unwrap();
        asks(&mut end, link, (keys as u32) + 1 + ended);
    }
    // When it is gone nobody is waited for, nor longer after that.
    end.cut(link);
    assert!(end.tend());
    assert!(!end.tend());
    let link = end.link(2, end.replica.writer());
    asks(&mut end, link, 1);
    end.replica.apply(&name(99), crate::Op::Delete).unwrap();
    for time in [0, PATIENCE - 1] {
        end.now += time;
        assert!(!end.tend() && end.sync.is_serving(&end.replica), "{time}");
    }
    end.now += 1;
    assert!(end.tend());
}

/// Where a link broke nobody is waited for, and what was collected meanwhile is behind the scan; and
/// the number of a writer that is forgotten is another one's by then.
#[test]
fn no_transfer_goes_on_across_a_collection() {
    let mut end = End::member();
    let mut guest = Replica::new(Space::default(), id(1));
    end.replica.members_mut().admit(&id(1)).unwrap();
    guest.merge(&full(&end.replica)).unwrap();
    for _ in 0..5 {
        guest.add("guest", 1).unwrap();
    }
    end.replica
        .merge_with(&full(&guest), Some(id(1)), &mut |_| ())
        .unwrap();
    let since = VersionVector::of(id(1), guest.clock());
    let pull = |end: &mut End, link, (id, chunk)| {
        let vector = since.clone();
        let pull = crate::wire::Pull { id, chunk, vector };
        let End { replica, sync, now } = end;
        sync.serve(*now, replica, link, &pull);
        let sent = end.sent().0.into_iter();
        let deltas = sent.filter_map(|(_, body)| match body {
            Body::Delta(delta) => Some((delta.chunk, delta.last)),
            _ => None,
        });
        deltas.collect::<Vec<(u32, bool)>>()
    };
    let name = |at: usize| alloc::format!("{at:0>500}");
    for at in 0..20_000 {
        end.replica.add(&name(at), 1).unwrap();
    }
    let link = end.link(1, id(9));
    assert_eq!(pull(&mut end, link, (1, 0)), [(0, false)]);
    // The link breaks, and what is going on here is not void by that.
    let again = |end: &mut End, link, number| {
        end.cut(link);
        let link = end.link(number, id(9));
        let hello = end.sync.peer_mut(link).unwrap().hello.as_mut();
        hello.unwrap().session = 1;
        link
    };
    let link = again(&mut end, link, 2);
    assert_eq!(pull(&mut end, link, (1, 1)), [(1, false)]);
    end.cut(link);
    end.forget_all(id(1));
    end.replica.members_mut().admit(&id(2)).unwrap();
    let mut other = Replica::new(Space::default(), id(2));
    other.merge(&full(&end.replica)).unwrap();
    other.add(&name(10_000), 1).unwrap();
    end.replica
        .merge_with(&full(&other), Some(id(2)), &mut |_| ())
        .unwrap();
    // A cancel of the new writer's shard is sent, although this writer's clock is below the forgotten one's.
    end.replica.apply(&name(10_000), crate::Op::Delete).unwrap();
    let link = again(&mut end, link, 3);
    assert!(!end.sync.is_serving(&end.replica));
    assert_eq!(pull(&mut end, link, (1, 2)), []);
    assert_eq!(pull(&mut end, link, (2, 0)), [(0, false)]);
}

/// A peer asks for all that is here.
fn asks(end: &mut End, link: Link, id: u32) {
    let pull = crate::wire::Pull {
        id,
        chunk: 0,
        vector: VersionVector::default(),
    };
    let End { replica, sync, now } = end;
    sync.serve(*now, replica, link, &pull);
}

/// A reader builds on the last push. So a push leaves before anything of its time is collected.
#[test]
fn nothing_is_collected_before_it_was_pushed() {
    for resets in [false, true] {
        let mut end = End::member();
        let links = [2, 3].map(|number| end.link(number, id(number as u8)));
        let mut guest = Replica::new(Space::default(), id(2));
        let mut reader = Replica::new(Space::default(), id(3));
        let tell = |end: &mut End, guest: &Replica| {
            let message = guest.delta(&end.replica.vector());
            let merged = end.replica.merge_with(&message, Some(id(2)), &mut |_| ());
            merged.unwrap();
        };
        let push = |end: &mut End, reader: &mut Replica| {
            end.now += 5_000;
            end.sync.handle(end.now, &mut end.replica, Input::Tick);
            for (link, body) in end.sent().0 {
                if let (true, Body::Push(message)) = (link == links[1], body)
                    && reader.merge(&message).is_err()
                {
                    let missing = end.replica.delta(&reader.vector());
                    reader.merge(&missing).unwrap();
                }
            }
        };
        guest.merge(&full(&end.replica)).unwrap();
        guest.add("key", 5).unwrap();
        tell(&mut end, &guest);
        guest.merge(&end.replica.delta(&guest.vector())).unwrap();
        reader.merge(&full(&end.replica)).unwrap();
        end.sync.handle(end.now, &mut end.replica, Input::Changed);
        push(&mut end, &mut reader);
        assert_eq!(reader.vector(), end.replica.vector());
        guest.members_mut().leave().unwrap();
        tell(&mut end, &guest);
        if resets {
            end.replica.apply("key", crate::Op::Reset).unwrap();
        }
        for _ in 0..8 {
            end.tend();
        }
        end.replica.add("key", 1).unwrap();
        end.sync.handle(end.now, &mut end.replica, Input::Changed);
        push(&mut end, &mut reader);
        let value = if resets { 1 } else { 6 };
        assert_eq!(end.replica.value("key"), Some(value));
        assert_eq!(reader.value("key"), Some(value));
    }
}

#[test]
fn members_that_links_lead_to_are_counted_once() {
    let mut end = End::member();
    let [third, fourth] = [[3; 32], [4; 32]];
    let all = [OWNER, OTHER, third, fourth];
    end.replica.members_mut().force(&all).unwrap();
    assert_eq!(end.sync.linked_member_count(&end.replica), 0);
    let peers = [
        (third, true),
        (fourth, false),
        (third, true),
        // The own owner, and one that is no member.
        (OTHER, true),
        ([9; 32], true),
    ];
    for (number, (owner, level)) in (1..).zip(peers) {
        let link = end.link(number, id(number as u8));
        let peer = end.sync.peer_mut(link).unwrap();
        peer.owner.set(Some(owner));
        peer.level = level;
    }
    let linked = end.sync.linked_members(&end.replica);
    assert_eq!(linked, [(third, true), (fourth, false)]);
    assert_eq!(end.sync.linked_member_count(&end.replica), 2);
}

/// A guest that takes a long transfer reports nothing before it has all of it.
#[test]
fn a_guest_that_takes_chunks_is_not_silent() {
    let mut end = End::member();
    let link = end.link(1, id(5));
    let silent = [5, 6].map(|byte| (id(byte), 0, 1));
    end.sync.guests.stored().silent = silent.into();
    end.sync.chunk_taken(70, link);
    let silent = end.sync.guests.silent.iter().map(|it| (it.0, it.1));
    assert_eq!(silent.collect::<Vec<_>>(), [(id(5), 70), (id(6), 0)]);
}

/// What a cut costs follows the counters, and not the adds.
#[test]
fn a_member_that_no_other_is_linked_with_keeps_adds_to_a_counter_as_one() {
    let (mut end, others) = three();
    let kept = |end: &mut End, times: usize| {
        let before = end.replica.rejoin.journal().made.len();
        let unconfirmed = end.replica.consistency().unconfirmed();
        for at in 0..times {
            end.replica.add(["a", "b"][at % 2], 1).unwrap();
        }
        assert_eq!(end.replica.consistency().unconfirmed(), unconfirmed + times);
        end.replica.rejoin.journal().made.len() - before
    };
    let look = |end: &mut End| {
        let End { replica, sync, now } = end;
        sync.handle(*now, replica, Input::Changed);
    };
    assert_eq!(kept(&mut end, 10), 10, "it is not known yet who is linked");
    look(&mut end);
    assert_eq!(kept(&mut end, 1_000), 2);
    look(&mut end);
    assert_eq!(kept(&mut end, 1_000), 0);
    // A page that is linked may receive what is here, and pass it on.
    let page = end.link(1, id(50));
    let mut other = End::guest();
    let (link, broadcast) = (Link(1), false);
    let input = Input::Connected { link, broadcast };
    other.sync.handle(0, &mut other.replica, input);
    let Some((_, Body::Hello(hello))) = other.sent().0.pop() else {
        panic!("it says who it is");
    };
    let End { replica, sync, now } = &mut end;
    sync.receive_hello(*now, replica, page, hello);
    assert_eq!(kept(&mut end, 10), 10);
    end.tend();
    assert_eq!(kept(&mut end, 10), 2);
    end.tend();
    assert_eq!(kept(&mut end, 10), 2, "a push went out in between");
    look(&mut end);
    assert_eq!(kept(&mut end, 10), 2);
    // A member is linked: it soon has all.
    let member = end.link(2, others[0]);
    end.tend();
    assert_eq!(kept(&mut end, 10), 10);
    end.cut(member);
    end.tend();
    assert_eq!(kept(&mut end, 10), 2);
    end.cut(page);
    // It may be that they are made again right after something was sent.
    look(&mut end);
    let nothing = <crate::Journal as Empty>::EMPTY;
    end.replica
        .rejoin_mut()
        .make_again(nothing, Some(0), 0, &mut |_| ());
    assert_eq!(kept(&mut end, 10), 2);
}

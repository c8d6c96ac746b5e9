//! The statements about writers with differing contents, and their receivers.

use super::super::pull::tests::{End, INTERVAL_MS, PUSH_DELAY_MS, full, id, replica};
use super::*;
use crate::error::LinkError;
use crate::sync::{Frame, Input, Pull};
use crate::writer_id::Space;
use alloc::vec;

/// The writers that a pull leaves out of its vector, though they are held.
fn left_out(end: &End, pull: &Pull) -> Vec<WriterId> {
    let held = end.replica.vector();
    let out = held.iter().filter(|(it, _)| pull.vector.get(it) == 0);
    out.map(|(writer, _)| writer).collect()
}

/// The statements about contents, and the writers that were requested whole, since the last look.
#[derive(Debug, Default, PartialEq)]
struct Said {
    contents: Vec<(Link, Why, Vec<WriterId>)>,
    pulls: Vec<(Link, Vec<WriterId>)>,
    /// Whether another id was asked for.
    renews: bool,
}

fn said(end: &mut End) -> Said {
    let mut said = Said::default();
    for output in end.outputs() {
        let (link, bytes) = match output {
            Output::Send { link, bytes } => (link, bytes),
            Output::Renew => {
                said.renews = true;
                continue;
            }
            _ => continue,
        };
        match Frame::decode(&bytes).unwrap().body {
            Body::Contents { why, writers, .. } => {
                let writers = writers.iter().map(|it| it.writer).collect();
                said.contents.push((link, why, writers));
            }
            Body::Pull(pull) => said.pulls.push((link, left_out(end, &pull))),
            _ => {}
        }
    }
    said
}

/// A replica that holds two transactions of each of the writers 1 and 2, and has made two, with links
/// to two peers.
fn end() -> (End, [Link; 2]) {
    let mut end = End::new();
    for byte in [1, 2] {
        let mut other = replica(byte);
        other.add("key", 1).unwrap();
        other.add("key", 1).unwrap();
        end.replica.merge(&full(&other)).unwrap();
    }
    end.replica.add("key", 1).unwrap();
    end.replica.add("key", 1).unwrap();
    let links = [1, 2].map(|number| end.link(number, u64::from(number), id(50 + number as u8)));
    assert_eq!(said(&mut end), Said::default());
    (end, links)
}

/// The contents of a writer here, changed.
fn contents(end: &End, byte: u8, change: impl Fn(&mut Contents)) -> Contents {
    let all = end.replica.forks().contents();
    let mut it = *all.iter().find(|it| it.writer == id(byte)).unwrap();
    change(&mut it);
    it
}

fn other_shards(it: &mut Contents) {
    it.shards ^= 1;
}

/// A peer tells the contents of writers, by this vector or by another one.
fn tell(end: &mut End, link: Link, why: Why, same: bool, writers: Vec<Contents>) -> Said {
    let mut vector = end.replica.digest();
    vector[0] ^= u8::from(!same);
    let body = Body::Contents {
        why,
        vector,
        writers,
    };
    end.frame(link, body);
    said(end)
}

fn differs(end: &mut End, link: Link, contents: u64) -> Said {
    let vector = end.replica.digest();
    end.frame(link, Body::Digest(Digests { vector, contents }));
    said(end)
}

fn evidence(end: &End) -> Vec<(WriterId, u64, bool)> {
    let faults = end.replica.forks().faults().iter();
    let ahead = |it: &Fault| matches!(it.evidence, Evidence::Ahead { .. });
    faults.map(|it| (it.writer, it.clock, ahead(it))).collect()
}

#[test]
fn a_peer_with_other_contents_is_told_those_of_all_writers() {
    let (mut end, [one, _]) = end();
    let ours = end.replica.forks_mut().content_digest();
    assert_eq!(differs(&mut end, one, ours), Said::default());
    assert_eq!(differs(&mut end, one, 0), Said::default(), "it has none");
    let all = vec![id(1), id(2), id(100)];
    let asks = differs(&mut end, one, ours ^ 1);
    assert_eq!(asks.contents, [(one, Why::Ask, all)]);
    assert_eq!((asks.pulls, asks.renews), (vec![], false));
}

/// A node keeps keys, a page does not.
#[test]
fn a_peer_that_holds_the_same_is_asked_for_keys_alone() {
    let mut member = replica(1);
    member.members_mut().found(&[1; 32], &[1; 16], 1).unwrap();
    for (lacks, is_node, pulls) in [
        (true, true, 1),
        (true, false, 0),
        (false, true, 0),
        (false, false, 0),
    ] {
        let (mut end, mut member) = (End::new(), member.clone());
        end.replica.merge(&full(&member)).unwrap();
        if lacks {
            member.add("key", 1).unwrap();
            let by_page = member.delta(&end.replica.vector()).without_keys();
            end.replica.merge(&by_page).unwrap();
        }
        assert_eq!(end.replica.keyed().has_gaps(), lacks);
        let link = end.link_to(2, is_node);
        let mut sent = said(&mut end).pulls;
        sent.extend(differs(&mut end, link, 0).pulls);
        assert_eq!(sent.len(), pulls, "{lacks} {is_node}");
    }
}

/// A gap may begin before what the peer has collected. Then only the peer's whole state would close it.
#[test]
fn a_start_asks_for_missing_keys_once_it_has_announced_itself() {
    let owners = [[1; 32], [2; 32]];
    let mut member = replica(1);
    member.members_mut().found(&owners[0], &[1; 16], 1).unwrap();
    member.members_mut().force(&owners).unwrap();
    let mut end = End::new();
    end.sync.config.owner = Some(owners[1]);
    end.replica.merge(&full(&member)).unwrap();
    member.add("key", 1).unwrap();
    let by_page = member.delta(&end.replica.vector()).without_keys();
    end.replica.merge(&by_page).unwrap();
    let (with_keys, all) = (end.replica.keyed().vector(), end.replica.vector());
    assert_ne!(with_keys, all);
    let link = end.link_to(2, true);
    let asks = |end: &End| end.sync.vector_for(&end.replica, link, &[]);
    assert_eq!(asks(&end), all);
    assert_eq!(differs(&mut end, link, 0).pulls, []);
    let mut members = end.replica.members_mut();
    members.announce(&owners[1], &[0; 16], 5).unwrap();
    let announced = end.replica.vector();
    assert_ne!(asks(&end), announced);
    assert_eq!(asks(&end).get(&id(1)), with_keys.get(&id(1)));
    assert_eq!(differs(&mut end, link, 0).pulls.len(), 1);
}

#[test]
fn a_writer_whose_contents_differ_is_pulled_whole_and_told() {
    for (why, answers) in [(Why::Ask, true), (Why::Answer, false), (Why::Forked, true)] {
        let (mut end, [one, _]) = end();
        let writers = vec![
            contents(&end, 1, |_| ()),
            contents(&end, 2, other_shards),
            contents(&end, 100, |_| ()),
        ];
        let answer = (one, Why::Answer, vec![id(2)]);
        let expected = Said {
            contents: Vec::from_iter(Some(answer).filter(|_| answers)),
            pulls: vec![(one, vec![id(2)])],
            renews: false,
        };
        assert_eq!(tell(&mut end, one, why, true, writers.clone()), expected);
        assert_eq!(evidence(&end), [(id(2), 2, false)]);
        // However often it tells.
        tell(&mut end, one, why, true, writers);
        assert_eq!(end.sync.peer(one).unwrap().whole[..], [id(2)]);
    }
}

#[test]
fn equal_contents_are_no_news() {
    let (mut end, [one, _]) = end();
    for (why, same) in [(Why::Ask, true), (Why::Forked, true), (Why::Ask, false)] {
        let writers = [1, 2, 100].map(|byte| contents(&end, byte, |_| ()));
        assert_eq!(
            tell(&mut end, one, why, same, writers.into()),
            Said::default()
        );
    }
    assert_eq!(evidence(&end), []);
}

#[test]
fn a_writer_that_is_not_known_is_pulled() {
    let (mut end, [one, _]) = end();
    let unknown = Contents {
        writer: id(9),
        ..contents(&end, 1, |_| ())
    };
    let told = tell(&mut end, one, Why::Ask, true, vec![unknown]);
    assert_eq!(told.contents, [(one, Why::Answer, vec![])]);
    assert_eq!((told.pulls, told.renews), (vec![(one, vec![])], false));
}

/// Which cancels matter follows from all that is held.
#[test]
fn cancels_are_compared_where_all_is_held_alike() {
    for same in [true, false] {
        let (mut end, [one, _]) = end();
        let writers = vec![contents(&end, 1, |it| it.cancels ^= 1)];
        let told = tell(&mut end, one, Why::Answer, same, writers);
        assert_eq!(told.pulls.len(), usize::from(same));
        assert_eq!(evidence(&end).len(), usize::from(same));
    }
}

/// A writer has contents without a digest at a peer that makes none.
#[test]
fn what_has_no_digest_is_pulled_and_is_no_evidence() {
    let (mut end, [one, _]) = end();
    let writers = vec![contents(&end, 1, |it| it.shards = 0)];
    assert!(writers[0].is_unknown());
    let told = tell(&mut end, one, Why::Answer, true, writers);
    assert_eq!(told.pulls, [(one, vec![id(1)])]);
    assert_eq!(evidence(&end), []);
}

#[test]
fn what_was_found_forked_is_pulled_whatever_its_clock() {
    for (why, pulls) in [(Why::Ask, 0), (Why::Answer, 0), (Why::Forked, 1)] {
        for clock in [1, 3] {
            let (mut end, [one, _]) = end();
            let writers = vec![contents(&end, 1, |it| it.clock = clock)];
            let told = tell(&mut end, one, why, true, writers);
            assert_eq!((told.pulls.len(), told.contents.len()), (pulls, pulls));
            assert_eq!(evidence(&end), []);
        }
    }
}

#[test]
fn what_is_found_forked_meanwhile_is_pulled_next() {
    // The contents of the own id come once there is another id.
    for (byte, clock, next) in [(2, 1, vec![vec![id(2)]]), (100, 3, vec![])] {
        let (mut end, [one, _]) = end();
        end.differs(one);
        assert_eq!(said(&mut end).pulls, [(one, vec![])]);
        let writers = vec![contents(&end, byte, |it| it.clock = clock)];
        let told = tell(&mut end, one, Why::Forked, true, writers);
        assert_eq!(told.pulls, []);
        assert_eq!(end.sync.peer(one).unwrap().whole[..], [id(byte)]);
        let number = end.last_number();
        end.last(one, number, 0, &full(&replica(7)));
        let pulls = said(&mut end).pulls.into_iter();
        assert_eq!(pulls.map(|it| it.1).collect::<Vec<_>>(), next);
    }
}

#[test]
fn a_replica_that_is_not_alone_under_its_id_asks_for_another_one() {
    // The peer's version: its clock, whether its contents differ, and what this shows.
    for (clock, differs, shows) in [
        (1, false, None),
        (1, true, None),
        (2, false, None),
        (2, true, Some((id(100), 2, false))),
        (3, false, Some((id(100), 3, true))),
        (3, true, Some((id(100), 3, true))),
    ] {
        let (mut end, [one, _]) = end();
        let own = contents(&end, 100, |it| {
            it.clock = clock;
            it.shards ^= u64::from(differs);
        });
        let told = tell(&mut end, one, Why::Ask, true, vec![own]);
        assert_eq!(told.renews, shows.is_some(), "{clock} {differs}");
        assert_eq!(evidence(&end), Vec::from_iter(shows));
        let again = tell(&mut end, one, Why::Ask, true, vec![own]);
        assert!(!again.renews, "once");
    }
}

/// Transfers for healing that bring nothing are tried less and less often.
#[test]
fn who_heals_nothing_is_asked_again_later() {
    let (mut end, [one, _]) = end();
    let ours = end.replica.forks_mut().content_digest();
    let state = full(&end.replica);
    for doublings in [0, 1, 2, 3, 4, 5, 6, 6] {
        assert_eq!(differs(&mut end, one, ours ^ 1).contents.len(), 1);
        let writers = vec![contents(&end, 1, other_shards)];
        let told = tell(&mut end, one, Why::Answer, true, writers);
        assert_eq!(told.pulls.len(), 1);
        let number = end.last_number();
        end.last(one, number, 0, &state);
        end.now += (INTERVAL_MS << doublings) - 1;
        assert_eq!(differs(&mut end, one, ours ^ 1), Said::default());
        end.now += 1;
    }
    // Once they were equal, at once.
    differs(&mut end, one, ours);
    assert_eq!(differs(&mut end, one, ours ^ 1).contents.len(), 1);
}

/// The other history of the writer 1: of the same clock, with other contents.
fn twin() -> Replica {
    let mut twin = replica(1);
    twin.add("other", 1).unwrap();
    twin.add("other", 1).unwrap();
    twin
}

/// Also the writers of which nothing new came: others may lack what is here.
#[test]
fn what_was_healed_is_told_to_all() {
    let (mut end, links) = end();
    let writers = [1, 2].map(|byte| contents(&end, byte, other_shards));
    tell(&mut end, links[0], Why::Answer, true, writers.into());
    let number = end.last_number();
    end.last(links[0], number, 0, &full(&twin()));
    assert_eq!(end.replica.value("other"), Some(2));
    assert_eq!(said(&mut end).contents, []);
    end.wait(PUSH_DELAY_MS);
    let told = links.map(|link| (link, Why::Forked, vec![id(1), id(2)]));
    assert_eq!(said(&mut end).contents, told);
    end.wait(PUSH_DELAY_MS);
    assert_eq!(said(&mut end).contents, []);
    assert!(end.sync.peer(links[0]).unwrap().whole.is_empty());
}

#[test]
fn what_was_not_healed_is_told_to_nobody() {
    let (mut end, [one, _]) = end();
    let writers = vec![contents(&end, 1, other_shards)];
    tell(&mut end, one, Why::Answer, true, writers);
    let (number, state) = (end.last_number(), full(&end.replica));
    end.last(one, number, 0, &state);
    end.wait(PUSH_DELAY_MS);
    assert_eq!(said(&mut end), Said::default());
}

#[test]
fn what_comes_late_is_told_to_all() {
    let (mut end, links) = end();
    end.replica.merge(&full(&twin())).unwrap();
    end.input(Input::Tick);
    end.wait(PUSH_DELAY_MS);
    let told = links.map(|link| (link, Why::Forked, vec![id(1)]));
    assert_eq!(said(&mut end).contents, told);
}

#[test]
fn who_goes_by_another_id_tells_of_the_one_before() {
    let (mut end, links) = end();
    let writer = id(101);
    // Nothing is done under an id that is known.
    end.input(Input::Renew { writer: id(2) });
    end.wait(PUSH_DELAY_MS);
    assert_eq!(said(&mut end), Said::default());
    end.input(Input::Renew { writer });
    assert_eq!(end.replica.writer(), writer);
    end.wait(PUSH_DELAY_MS);
    let told = links.map(|link| (link, Why::Forked, vec![id(100)]));
    assert_eq!(said(&mut end).contents, told);
    for link in links {
        assert_eq!(end.sync.peer(link).unwrap().whole[..], [id(100)]);
    }
}

#[test]
fn what_is_refused_is_shown_unless_it_is_of_the_own_id() {
    let (mut end, [one, _]) = end();
    let mut own = replica(100);
    for _ in 0..3 {
        own.add("key", 1).unwrap();
    }
    end.frame(one, Body::Push(full(&own)));
    assert!(said(&mut end).renews);
    assert_eq!(evidence(&end), [(id(100), 3, true)]);
    assert_eq!(end.sync.peer(one).unwrap().whole[..], [id(100)]);
    let space = Space::new("another").unwrap();
    let body = Body::More { id: 1, chunk: 1 };
    let bytes = Frame { space, body }.encode();
    let shown = |close| Output::Refused {
        close,
        error: Error::Link(LinkError::WrongSpace),
    };
    let (link, bytes) = (one, &bytes[..]);
    end.input(Input::Frame { link, bytes });
    assert_eq!(end.outputs(), [shown(Some(one))]);
    let from = Some(one);
    end.input(Input::Broadcast { from, bytes });
    assert_eq!(end.outputs(), [shown(None)]);
}

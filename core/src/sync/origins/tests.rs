//! Links that are named for clocks that their writer has not made, and the nodes that are told.

use super::super::pull::tests::{End, full, id, replica};
use super::*;
use crate::sync::{Frame, Input, Output};
use alloc::vec;

/// The writer in whose name others speak.
const VICTIM: u8 = 7;

/// Pushes what a replica made after this clock on a link.
fn push(end: &mut End, link: Link, of: &Replica, after: &Replica) {
    let message = of.delta(&after.vector());
    end.frame(link, Body::Push(message));
}

/// The victim says that it has come to no more than this clock.
fn denies(end: &mut End, link: Link, clock: u64) {
    let body = Body::Contents {
        why: Why::Forked,
        vector: [0; 16],
        writers: vec![Contents::only_clock(id(VICTIM), clock)],
    };
    end.frame(link, body);
}

/// The writer, the clock, who brought it, and who said otherwise, of each fault.
fn named(end: &End) -> Vec<(WriterId, u64, Option<Link>, Option<Link>)> {
    let faults = end.replica.faults().iter();
    let named = |fault: &Fault| {
        let brought = end.sync.brought(fault).expect("it is attributed");
        (brought.writer, brought.clock, brought.first, brought.denied)
    };
    faults.map(named).collect()
}

/// A replica that the victim has told of one transaction, and links to the victim and to two others.
fn end() -> (End, Replica, [Link; 3]) {
    let mut end = End::new();
    let victim = Link(VICTIM.into());
    end.link_to(VICTIM, true);
    let others = [3, 4].map(|number| end.link_to(number, true));
    let mut theirs = replica(VICTIM);
    theirs.add("m", 100).unwrap();
    push(&mut end, victim, &theirs, &replica(VICTIM));
    (end, theirs, [victim, others[0], others[1]])
}

#[test]
fn who_brought_a_clock_that_its_writer_denies_is_named() {
    let (mut end, theirs, [victim, liar, other]) = end();
    let mut forged = theirs.clone();
    forged.add("m", -99).unwrap();
    push(&mut end, liar, &forged, &theirs);
    // A link that passes on later clocks does not hide the liar.
    let mut more = forged.clone();
    more.add("m", 1).unwrap();
    push(&mut end, other, &more, &forged);
    denies(&mut end, other, 1);
    assert_eq!(named(&end), [], "another has no say in that");
    denies(&mut end, victim, 3);
    assert_eq!(named(&end), [], "it is held up to that");
    denies(&mut end, victim, 1);
    let expected = (id(VICTIM), 3, Some(liar), Some(victim));
    assert_eq!(named(&end), [expected]);
    denies(&mut end, victim, 1);
    assert_eq!(end.replica.fault_count(), 1, "it is noted once");
}

#[test]
fn a_writer_that_denies_what_it_said_itself_is_named_for_both() {
    let (mut end, theirs, [victim, ..]) = end();
    let mut more = theirs.clone();
    more.add("m", 1).unwrap();
    push(&mut end, victim, &more, &theirs);
    denies(&mut end, victim, 1);
    assert_eq!(named(&end), [(id(VICTIM), 2, Some(victim), Some(victim))]);
}

#[test]
fn other_content_of_a_clock_that_is_held_names_both_links() {
    let (mut end, theirs, [victim, liar, _]) = end();
    let (mut forged, mut made) = (theirs.clone(), theirs.clone());
    forged.add("m", -99).unwrap();
    made.add("m", 5).unwrap();
    push(&mut end, liar, &forged, &theirs);
    push(&mut end, liar, &forged, &theirs);
    assert_eq!(named(&end), [], "it says the same again");
    push(&mut end, victim, &made, &theirs);
    let expected = (id(VICTIM), 2, Some(liar), Some(victim));
    assert_eq!(named(&end), [expected]);
    let Evidence::Totals { ours, theirs, .. } = end.replica.faults()[0].evidence else {
        panic!("{:?}", end.replica.faults());
    };
    assert_eq!((ours, theirs), (1, 105));
}

/// The links on which the own clock was denied since the last look.
fn told(end: &mut End) -> Vec<Link> {
    let own = end.replica.writer();
    let clock = end.replica.clock();
    let told = end.outputs().into_iter().filter_map(|output| {
        let Output::Send { link, bytes } = output else {
            return None;
        };
        match Frame::decode(&bytes).unwrap().body {
            Body::Contents { writers, .. } => {
                (writers == [Contents::only_clock(own, clock)]).then_some(link)
            }
            _ => None,
        }
    });
    told.collect()
}

#[test]
fn a_clock_of_the_own_writer_is_denied_to_nodes_and_no_more_than_so_often() {
    let mut end = End::new();
    let nodes = [3, 4].map(|number| end.link_to(number, true));
    end.link_to(5, false);
    end.replica.add("m", 100).unwrap();
    end.outputs();
    let own = end.replica.clone();
    let mut forged = own.clone();
    for round in 0..DENIALS_MAX + 1 {
        forged.add("m", -1).unwrap();
        let message = forged.delta(&own.vector());
        end.frame(nodes[0], Body::Push(message));
        let expected = if round < DENIALS_MAX { &nodes[..] } else { &[] };
        assert_eq!(told(&mut end), expected, "{round}");
    }
    let expected = (own.writer(), 2, Some(nodes[0]), None);
    assert_eq!(named(&end), [expected], "the first is evidence");
}

#[test]
fn a_writer_that_has_made_nothing_denies_nothing() {
    let mut end = End::new();
    let liar = end.link_to(3, true);
    end.outputs();
    let mut forged = end.replica.clone();
    forged.add("m", 1).unwrap();
    let message = full(&forged);
    end.frame(liar, Body::Push(message));
    let sent = end.sent();
    let denials = sent
        .iter()
        .filter(|(_, body)| matches!(body, Body::Contents { .. }));
    assert_eq!(denials.count(), 0, "{sent:?}");
    assert_eq!(named(&end), [(forged.writer(), 1, Some(liar), None)]);
}

#[test]
fn other_content_of_an_own_clock_names_its_link() {
    let mut end = End::new();
    let liar = end.link_to(3, true);
    let before = end.replica.clone();
    let mut forged = before.clone();
    forged.add("m", 1).unwrap();
    end.replica.add("m", 100).unwrap();
    push(&mut end, liar, &forged, &before);
    assert_eq!(named(&end), [(before.writer(), 1, Some(liar), None)]);
}

#[test]
fn a_transfer_is_attributed_as_a_push_is() {
    let (mut end, theirs, [victim, liar, _]) = end();
    let mut forged = theirs.clone();
    forged.add("m", -99).unwrap();
    end.outputs();
    end.differs(liar);
    let id_of = end.asked()[0].1;
    let delta = crate::wire::Delta {
        id: id_of,
        chunk: 0,
        last: true,
        message: full(&forged),
    };
    end.frame(liar, Body::Delta(delta));
    denies(&mut end, victim, 1);
    assert_eq!(named(&end), [(id(VICTIM), 2, Some(liar), Some(victim))]);
}

#[test]
fn a_closed_link_is_named_still() {
    let (mut end, theirs, [victim, liar, _]) = end();
    let mut forged = theirs.clone();
    forged.add("m", -99).unwrap();
    push(&mut end, liar, &forged, &theirs);
    end.input(Input::Disconnected { link: liar });
    denies(&mut end, victim, 1);
    assert_eq!(named(&end)[0].2, Some(liar));
}

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

/// The writer, the clock, who brought it, and who said otherwise, of each fault since the last look.
fn named(end: &mut End) -> Vec<(WriterId, u64, Option<Link>, Option<Link>)> {
    let all = end.sync.take_accusations().into_iter();
    let named = |it: Accusation| (it.fault.writer, it.fault.clock, it.first, it.denied);
    all.map(named).collect()
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
    assert_eq!(named(&mut end), [], "another has no say in that");
    denies(&mut end, victim, 3);
    assert_eq!(named(&mut end), [], "it is held up to that");
    denies(&mut end, victim, 1);
    let expected = (id(VICTIM), 3, Some(liar), Some(victim));
    assert_eq!(named(&mut end), [expected]);
    denies(&mut end, victim, 1);
    assert_eq!(end.replica.forks().fault_count(), 1, "it is noted once");
}

#[test]
fn a_writer_that_denies_what_it_said_itself_is_named_for_both() {
    let (mut end, theirs, [victim, ..]) = end();
    let mut more = theirs.clone();
    more.add("m", 1).unwrap();
    push(&mut end, victim, &more, &theirs);
    denies(&mut end, victim, 1);
    assert_eq!(
        named(&mut end),
        [(id(VICTIM), 2, Some(victim), Some(victim))]
    );
}

#[test]
fn other_content_of_a_clock_that_is_held_names_both_links() {
    let (mut end, theirs, [victim, liar, _]) = end();
    let (mut forged, mut made) = (theirs.clone(), theirs.clone());
    forged.add("m", -99).unwrap();
    made.add("m", 5).unwrap();
    push(&mut end, liar, &forged, &theirs);
    push(&mut end, liar, &forged, &theirs);
    assert_eq!(named(&mut end), [], "it says the same again");
    push(&mut end, victim, &made, &theirs);
    let expected = (id(VICTIM), 2, Some(liar), Some(victim));
    assert_eq!(named(&mut end), [expected]);
    let Evidence::Totals { ours, theirs, .. } = end.replica.forks().faults()[0].evidence else {
        panic!("{:?}", end.replica.forks().faults());
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
    assert_eq!(named(&mut end), [expected], "the first is evidence");
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
    assert_eq!(named(&mut end), [(forged.writer(), 1, Some(liar), None)]);
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
    assert_eq!(named(&mut end), [(before.writer(), 1, Some(liar), None)]);
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
    assert_eq!(named(&mut end), [(id(VICTIM), 2, Some(liar), Some(victim))]);
}

#[test]
fn a_closed_link_is_named_still() {
    let (mut end, theirs, [victim, liar, _]) = end();
    let mut forged = theirs.clone();
    forged.add("m", -99).unwrap();
    push(&mut end, liar, &forged, &theirs);
    end.input(Input::Disconnected { link: liar });
    denies(&mut end, victim, 1);
    assert_eq!(named(&mut end)[0].2, Some(liar));
}

/// A replica with this number, which has made one transaction that adds so much.
fn made(number: u8, amount: i64) -> Replica {
    let mut made = replica(number);
    made.add("m", amount).unwrap();
    made
}

#[test]
fn a_link_that_lies_without_end_hides_no_other() {
    let (mut end, theirs, [victim, liar, other]) = end();
    let many = 20..20 + 3 * OF_LINK_MAX as u8;
    for number in many.clone() {
        push(&mut end, other, &made(number, 1), &replica(number));
    }
    let mut forged = theirs.clone();
    forged.add("m", -99).unwrap();
    push(&mut end, liar, &forged, &theirs);
    // The forgery is denied before the flood, and another after it.
    denies(&mut end, victim, 1);
    for number in many.clone() {
        for amount in 2..4 {
            push(&mut end, liar, &made(number, amount), &replica(number));
        }
    }
    let all = end.sync.take_accusations();
    let by = |link| all.iter().filter(move |it| it.by() == Some(link));
    let denied = by(victim).map(|it| (it.first, it.times));
    assert_eq!(denied.collect::<Vec<_>>(), [(Some(liar), 1)]);
    let lies: Vec<_> = by(liar).map(|it| (it.fault.writer, it.times)).collect();
    let newest = many.skip(2 * OF_LINK_MAX).map(|number| (id(number), 2));
    assert_eq!(lies, newest.collect::<Vec<_>>());
    assert_eq!(end.sync.take_accusations(), []);
    // However many links do it, there is an end; and the one that has most makes room.
    for number in 0..FAULTS_KEPT_MAX as u8 {
        let link = end.link_to(128 + number, true);
        push(&mut end, link, &made(20, 7), &replica(20));
        push(
            &mut end,
            liar,
            &made(21 + number % 8, 7),
            &replica(21 + number % 8),
        );
    }
    let all = end.sync.take_accusations();
    assert_eq!(all.len(), FAULTS_KEPT_MAX);
    let lies = all.iter().filter(|it| it.by() == Some(liar));
    assert!(lies.count() <= 2, "who has most makes room");
}

/// The held state came before this process began, or by a broadcast: no link is known to have brought it.
#[test]
fn other_content_of_a_clock_whose_link_is_not_known_names_who_contradicts() {
    let mut end = End::new();
    let liar = end.link_to(3, true);
    end.replica.merge(&full(&made(VICTIM, 100))).unwrap();
    push(&mut end, liar, &made(VICTIM, 1), &replica(VICTIM));
    assert_eq!(named(&mut end), [(id(VICTIM), 1, None, Some(liar))]);
}

//! Nodes that nobody can dial, and the relay that they are reached through.

use crate::network::refused;
use crate::process::{Node, eventually, kept_address};

/// A node that listens at a relay only.
fn hidden(relay: &Node) -> Node {
    Node::start(&[
        "--listen",
        &format!("{}/p2p-circuit", relay.listen[0]),
        "--listen-open",
    ])
}

pub(crate) fn linked(one: &Node, other: &Node) -> bool {
    one.peers()
        .iter()
        .any(|row| row["peer"] == other.peer_id.as_str())
}

#[test]
fn a_node_that_listens_at_a_relay_is_reached_through_it() {
    // The relay has not opened the space, so it can't pass counts on by itself.
    let relay = Node::start(&["--relay", "--space", "other"]);
    let one = hidden(&relay);
    assert!(one.listen.len() == 1 && one.listen[0].contains("/p2p-circuit/p2p/"));
    one.add("likes", 1);
    let two = Node::start(&["--peer", &one.listen[0]]);
    two.add("likes", 10);
    eventually("they converge", || {
        (one.value("likes") == Some(11) && two.value("likes") == Some(11)).then_some(())
    });
    one.add("likes", 100);
    eventually("and go on", || {
        (two.value("likes") == Some(111)).then_some(())
    });
    assert!(linked(&one, &two) && linked(&one, &relay) && linked(&two, &relay));
    assert_eq!(relay.get("/v1/spaces/default/counters/likes").0, 404);
}

#[test]
fn a_relay_that_comes_back_is_listened_at_again() {
    let listen = kept_address();
    let mut relay = Node::start(&["--relay", "--space", "other", "--listen", &listen]);
    let one = hidden(&relay);
    let two = Node::start(&["--peer", &one.listen[0]]);
    eventually("they are linked", || linked(&one, &two).then_some(()));
    relay.kill();
    eventually("the circuit is gone", || {
        (!linked(&one, &two)).then_some(())
    });
    one.add("likes", 1);
    relay.start_again();
    eventually("they are linked again", || two.value("likes"));
}

#[test]
fn a_relay_that_is_none_takes_nobody() {
    let node = Node::start(&["--space", "other"]);
    let one = hidden(&node);
    eventually("it is reached", || linked(&one, &node).then_some(()));
    let log = ["--log", "warn,tallymesh_node=debug"];
    let two = Node::start(&[&log[..], &["--peer", &one.listen[0]]].concat());
    eventually("it passes nobody on", || {
        two.log().contains("dialling failed").then_some(())
    });
    assert!(linked(&two, &node) && !linked(&one, &two));
}

#[test]
fn circuits_and_reservations_are_limited() {
    let limits = ["--relay-circuits", "1", "--relay-reservations", "1"];
    let relay = Node::start(&[&["--relay", "--space", "other"][..], &limits].concat());
    let one = hidden(&relay);
    let mut two = Node::start(&["--peer", &one.listen[0]]);
    eventually("the first circuit is made", || {
        linked(&one, &two).then_some(())
    });
    let three = Node::start(&["--peer", &one.listen[0]]);
    eventually("the second is refused", || {
        (refused(&relay.url, "relay_circuit") > 0.0).then_some(())
    });
    assert!(!linked(&one, &three) && linked(&one, &two));
    let _late = hidden(&relay);
    eventually("the second to listen is refused", || {
        (refused(&relay.url, "relay_reservation") > 0.0).then_some(())
    });
    two.kill();
    eventually("there is room again", || linked(&one, &three).then_some(()));
}

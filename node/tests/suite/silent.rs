//! Settings that have no effect are told of, and nodes that are not where they should be are not ready.

use crate::join::CLOSED;
use crate::members::{close, owner, settled};
use crate::process::{DEADLINE, Node, eventually, kept_address, up};
use crate::swarm::swarm;
use futures::StreamExt;
use libp2p::identity::Keypair;
use libp2p::swarm::SwarmEvent;
use libp2p::{Multiaddr, PeerId, identify};
use serde_json::{Value, json};
use std::time::Duration;

fn unreached(node: &Node) -> Vec<Value> {
    let rows = node.get("/v1/peers").1["unreached"].clone();
    rows.as_array().cloned().unwrap_or_default()
}

#[test]
fn peers_that_are_not_reached_are_named_with_the_reason() {
    let mut other = Node::start(&[]);
    let own = kept_address();
    let (place, _) = other.listen[0].split_once("/p2p/").expect("an id");
    let foreign = format!("{place}/p2p/{}", PeerId::random());
    let refused = kept_address();
    let good = other.listen[0].clone();
    let peers = [&*own, &foreign, &refused, &good];
    let node = Node::start(&[&["--listen", &own, "--peer"], &peers[..]].concat());
    let expected = [
        (&own, "own_address"),
        (&foreign, "other_identity"),
        (&refused, "refused"),
    ];
    eventually("each has its reason", || {
        let rows = unreached(&node);
        let is_told = |(address, code): &(&String, &str)| {
            let mut rows = rows.iter();
            rows.any(|row| row["address"] == json!(address) && row["code"] == json!(code))
        };
        (rows.len() == 3 && expected.iter().all(is_told)).then_some(())
    });
    let output = node.run(&["peers"], "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let has = |text: &str, words: &[&str]| words.iter().all(|word| text.contains(word));
    assert!(
        has(&text, &["not reached for", "(refused)", &other.peer_id]),
        "{text}"
    );
    assert!(!text.contains("no peers"), "{text}");
    other.terminate();
    eventually("the one that is gone is told of, too", || {
        let mut rows = unreached(&node).into_iter();
        rows.any(|row| row["address"] == json!(good)).then_some(())
    });
}

#[test]
fn relays_that_take_nobody_in_and_peers_without_a_space_are_named() {
    let other = Node::start(&["--space", "other"]);
    let (place, _) = other.listen[0].split_once("/p2p/").expect("an id");
    let id = PeerId::random();
    let no_relay = format!("{}/p2p-circuit", other.listen[0]);
    let away = format!("{}/p2p/{id}/p2p-circuit", kept_address());
    let own = kept_address();
    let listen = ["--listen", &own, &no_relay, &away];
    let node = Node::start(&[&listen[..], &["--listen-open", "--peer", place]].concat());
    let expected = [
        (no_relay.as_str(), "relay", "listen"),
        (away.as_str(), "relay", "listen"),
        (place, "no_space", "peer"),
    ];
    eventually("each has its reason", || {
        let rows = unreached(&node);
        let is_told = |(address, code, from): &(&str, &str, &str)| {
            let mut rows = rows.iter();
            rows.any(|row| {
                let text = |field: &str| row[field].as_str().unwrap_or_default();
                text("address") == *address && text("code") == *code && text("from") == *from
            })
        };
        (rows.len() == 3 && expected.iter().all(is_told)).then_some(())
    });
    // A relay that takes the node in is no finding.
    let relay = Node::start(&["--relay"]);
    let circuit = format!("{}/p2p-circuit", relay.listen[0]);
    let node = Node::start(&["--listen", &circuit, "--listen-open"]);
    eventually("it listens there", || {
        (node.log().contains("listens at a relay") && unreached(&node).is_empty()).then_some(())
    });
}

#[test]
fn a_second_node_does_not_listen_on_the_tcp_port_of_another() {
    let one = Node::start(&[]);
    let (place, _) = one.listen[0].split_once("/p2p/").expect("an id");
    let folder = tempfile::tempdir().expect("a folder");
    let output = up(&folder.path().join("data"))
        .args(["--http", "127.0.0.1:0", "--listen", place])
        .output()
        .expect("run");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains(&format!("can't listen on {place}")) && error.contains("in use"),
        "{error}"
    );
}

/// A ticket leads to a node that is not there.
#[test]
fn a_node_that_waits_to_join_is_not_ready() {
    let listen = kept_address();
    let mut one = Node::start(&[CLOSED, "--listen", &listen]);
    close(&[&one]);
    let output = one.run(&["invite", "--role", "member"], "");
    let ticket = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    one.terminate();
    let two = Node::start(&[CLOSED, "--join", &ticket]);
    let ready = || {
        let (status, answer) = two.get("/readyz");
        (
            status,
            answer["code"].as_str().unwrap_or_default().to_owned(),
        )
    };
    assert_eq!(ready(), (503, "joining".into()));
    let output = two.run(&["doctor"], "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("to join the space `default`"), "{text}");
    one.start_again();
    eventually("it is a member, and ready", || {
        (ready().0 == 200).then_some(())
    });
}

/// Whether a node is ready: the status, the code and the detail.
fn readiness(node: &Node) -> (u16, String, String) {
    let (status, answer) = node.get("/readyz");
    let text = |field: &str| answer[field].as_str().unwrap_or_default().to_owned();
    (status, text("code"), text("detail"))
}

/// Waits until a node is not ready for this reason, and looks what it says to do.
fn worthless(node: &Node, why: &str) {
    eventually(why, || {
        let (status, code, detail) = readiness(node);
        let is_told = (status, &*code) == (503, "ticket_worthless") && detail.contains(why);
        is_told.then_some(())
    });
    let output = node.run(&["doctor"], "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let ready = text.split("\n").position(|line| line.contains("not ready"));
    let rows: Vec<&str> = text
        .lines()
        .skip(ready.unwrap_or_default())
        .take(2)
        .collect();
    assert!(
        rows[0].contains(why) && rows[1].contains("another ticket"),
        "{text}"
    );
    assert!(!rows[1].contains("Start one of them"), "{text}");
}

fn invite(node: &Node, role: &str) -> String {
    let output = node.run(&["invite", "--role", role, "--expires", "1h"], "");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A ticket that is worth nothing lets nobody join, whether it let this node in before or not.
#[test]
fn a_node_whose_ticket_is_worth_nothing_is_not_ready_and_says_why() {
    let mut one = Node::start(&[CLOSED]);
    close(&[&one]);
    let joins = |ticket: &str| Node::start(&[CLOSED, "--join", ticket]);
    let tickets = ["reader", "writer", "member"].map(|role| invite(&one, role));
    let late = invite(&one, "member");
    let mut guests = [&tickets[0], &tickets[1]].map(|ticket| joins(ticket));
    for guest in &guests {
        eventually("it is in", || (readiness(guest).0 == 200).then_some(()));
    }
    for ticket in &tickets {
        assert!(one.run(&["revoke", ticket], "").status.success());
    }
    guests[0].terminate();
    guests[0].start_again();
    let member = joins(&tickets[2]);
    for node in guests.iter().chain([&member]) {
        worthless(node, "was revoked");
    }
    assert!(!member.log().contains("has joined"), "{}", member.log());
    one.terminate();
    let mut late = Node::start_with_clock(&[CLOSED, "--join", &late]);
    assert_eq!(readiness(&late).1, "joining");
    late.put_forward(Duration::from_secs(2 * 60 * 60));
    worthless(&late, "has ended");
    assert!(!late.log().contains("has joined"), "{}", late.log());
    // A start with a ticket of another space is none.
    let folder = tempfile::tempdir().expect("a folder");
    let output = up(&folder.path().join("data"))
        .args([
            "--http",
            "127.0.0.1:0",
            "--space",
            "other",
            "--join",
            &tickets[0],
        ])
        .output()
        .expect("run");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("name it with --space"), "{error}");
}

#[test]
fn a_node_whose_ticket_a_removed_member_signed_is_not_ready() {
    let one = Node::start(&[CLOSED]);
    close(&[&one]);
    let two = Node::start(&[CLOSED, "--join", &invite(&one, "member")]);
    settled(&[&one, &two]);
    let guest = Node::start(&[
        CLOSED,
        "--join",
        &invite(&two, "writer"),
        "--peer",
        &one.listen[0],
    ]);
    eventually("it is in", || (readiness(&guest).0 == 200).then_some(()));
    let body = json!({"owner": owner(&two), "wait_ms": 20_000}).to_string();
    let (status, answer) = one.post("/v1/spaces/default/members/remove", &body);
    assert_eq!(status, 200, "{answer}");
    worthless(&guest, "is no member");
}

/// The answers of identify to a peer that has shown no right, by node.
#[tokio::test]
async fn strangers_learn_no_version_and_no_address() {
    let node = tokio::task::spawn_blocking(|| Node::start(&[CLOSED])).await;
    let node = node.expect("started");
    let key = Keypair::generate_ed25519();
    let config = identify::Config::new("x".into(), key.public());
    let mut swarm = swarm(key, identify::Behaviour::new(config));
    let address: Multiaddr = node.listen[0].parse().expect("an address");
    swarm.dial(address.clone()).expect("dialled");
    // A busy machine may let a handshake run out of time: then it is dialled again.
    let mut failures = Vec::new();
    let told = async {
        loop {
            match swarm.select_next_some().await {
                SwarmEvent::Behaviour(identify::Event::Received { info, .. }) => return info,
                SwarmEvent::Behaviour(identify::Event::Error { peer_id, error, .. }) => {
                    failures.push(error.to_string());
                    let _ = swarm.disconnect_peer_id(peer_id);
                }
                SwarmEvent::OutgoingConnectionError { error, .. } => {
                    failures.push(error.to_string());
                    swarm.dial(address.clone()).expect("dialled");
                }
                SwarmEvent::ConnectionClosed { cause, .. } => {
                    failures.push(format!("{cause:?}"));
                    swarm.dial(address.clone()).expect("dialled");
                }
                _ => {}
            }
        }
    };
    let told = tokio::time::timeout(DEADLINE, told).await;
    let told = told.unwrap_or_else(|_| panic!("it tells nothing: {failures:?}"));
    assert_eq!(told.agent_version, "tallymesh");
    assert!(told.listen_addrs.is_empty(), "{:?}", told.listen_addrs);
    tokio::task::spawn_blocking(|| drop(node))
        .await
        .expect("ended");
}

//! The address book: nodes that find each other, wherever they are.

use crate::process::{Node, eventually};
use crate::relay::linked;
use serde_json::{Value, json};
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

const BOOK: [&str; 1] = ["--address-book=on"];

fn start(peers: &[&Node]) -> Node {
    let peers = peers.iter().map(|node| node.listen[0].as_str());
    let peers: Vec<&str> = peers.flat_map(|address| ["--peer", address]).collect();
    Node::start(&[&BOOK[..], &peers].concat())
}

fn all_linked(nodes: &[&Node]) {
    eventually("all are linked with all", || {
        let pairs = nodes.iter().enumerate();
        let mut pairs = pairs.flat_map(|(at, one)| nodes[at + 1..].iter().map(move |it| (one, it)));
        pairs.all(|(one, other)| linked(one, other)).then_some(())
    });
}

#[test]
fn one_address_is_enough_and_moved_nodes_are_found() {
    let mut one = start(&[]);
    let two = start(&[&one]);
    let mut three = start(&[&one]);
    let four = start(&[&two]);
    all_linked(&[&one, &two, &three, &four]);

    // Links come before the book does, and a node that has no address finds nobody.
    for node in [&one, &three] {
        eventually("it has the addresses of those that stay", || {
            let known = std::fs::read_to_string(node.data().join("addresses.json")).ok()?;
            let knows = |other: &Node| known.contains(&other.peer_id);
            (knows(&two) && knows(&four)).then_some(())
        });
    }

    // Two nodes restart elsewhere, and nobody tells them whom to dial.
    let before = one.listen.clone();
    one.kill();
    three.kill();
    one.start_again_with(BOOK.map(str::to_owned).to_vec());
    three.start_again_with(BOOK.map(str::to_owned).to_vec());
    assert_ne!(one.listen, before);
    all_linked(&[&one, &two, &three, &four]);
    one.add("likes", 1);
    for node in [&two, &three, &four] {
        eventually("it counts", || node.value("likes"));
    }
}

#[test]
fn the_node_s_own_space_is_nobody_else_s() {
    let one = start(&[]);
    let two = start(&[&one]);
    all_linked(&[&one, &two]);
    let spaces = one.get("/v1/status").1["spaces"].clone();
    assert_eq!(spaces.as_array().map(Vec::len), Some(1), "{spaces}");
    assert_eq!(one.peers().len(), 1);
    let (status, problem) = one.post("/v1/spaces/_mesh/counters/a/add", "");
    assert_eq!((status, &problem["code"]), (404, &json!("space_not_open")));
    let detail = problem["detail"].as_str().expect("text");
    assert!(detail.contains("the node's own spaces"), "{detail}");
    let refused = Command::new(env!("CARGO_BIN_EXE_tallymesh"))
        // What is wrong beside is looked at later.
        .args([
            "up",
            "--http",
            "127.0.0.1:0",
            "--space",
            "_mesh",
            "--lease",
            "0s",
        ])
        .output()
        .expect("run");
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("the node's own spaces"), "{said}");
}

#[test]
fn what_is_announced_is_found() {
    let one = start(&[]);
    // It tells no address of its own listener that others could not guess, but this one.
    let announced = "/dns4/node.invalid/tcp/4001";
    let _two = Node::start(
        &[
            &BOOK[..],
            &["--peer", &one.listen[0], "--announce", announced],
        ]
        .concat(),
    );
    let file = one.data().join("addresses.json");
    eventually("the first one has received it", || {
        let text = std::fs::read_to_string(&file).ok()?;
        text.contains(announced).then_some(())
    });
}

/// The clocks of three nodes pass midnight at different moments. The day's book begins at each of them
/// then, and no link ends. The book works on the next day.
#[test]
fn midnight_at_different_moments_ends_no_link() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const BEFORE: Duration = Duration::from_secs(60);
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    let rest = DAY - Duration::from_millis((now.as_millis() % DAY.as_millis()) as u64);
    // Where midnight is near, it is the one after that.
    let rest = if rest > 2 * BEFORE { rest } else { rest + DAY };
    let start = |ahead: Duration, peers: &[&Node]| {
        let peers = peers.iter().map(|node| node.listen[0].as_str());
        let peers: Vec<&str> = peers.flat_map(|address| ["--peer", address]).collect();
        let mut node = Node::start_with_clock(&[&BOOK[..], &peers].concat());
        node.put_forward(ahead);
        node
    };
    let mut one = start(rest - BEFORE, &[]);
    let mut two = start(rest - BEFORE, &[&one]);
    let mut three = start(rest - BEFORE, &[&one, &two]);
    all_linked(&[&one, &two, &three]);
    let links = |node: &Node| -> Vec<Value> {
        let peers = node.peers();
        peers.iter().map(|it| it["link"].clone()).collect()
    };
    let before = [&one, &two, &three].map(links);
    for node in [&mut two, &mut one, &mut three] {
        node.put_forward(rest);
        // The others look at their clocks, and are a day behind.
        thread::sleep(Duration::from_millis(1_200));
    }
    one.add("likes", 1);
    for node in [&two, &three] {
        eventually("it counts", || node.value("likes"));
    }
    // A node is found by the book of the new day.
    let four = start(rest, &[&one]);
    all_linked(&[&one, &two, &three, &four]);
    for (node, before) in [&one, &two, &three].into_iter().zip(before) {
        let log = node.log();
        assert!(!log.contains("closing a link"), "{log}");
        let after = links(node);
        assert!(before.iter().all(|it| after.contains(it)), "{log}");
    }
}

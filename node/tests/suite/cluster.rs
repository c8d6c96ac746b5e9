//! Several nodes over libp2p.

use crate::members::close;
use crate::process::{Node, eventually};
use serde_json::{Value, json};
use std::thread;

/// Waits until all nodes hold the same, and checks a counter.
fn converged(nodes: &[&Node], key: &str, value: i128) {
    eventually("all nodes hold the same", || {
        let first = nodes[0].space()["digest"].clone();
        let same = nodes.iter().all(|node| node.space()["digest"] == first);
        let there = nodes.iter().all(|node| node.value(key) == Some(value));
        (same && there).then_some(())
    });
}

fn cut(node: &Node, body: serde_json::Value) {
    let (status, answer) = node.post("/v1/demo/cut", &body.to_string());
    assert_eq!(status, 200, "{answer}");
}

#[test]
fn a_chain_over_three_transports_converges() {
    let tcp = Node::start(&[]);
    tcp.add("likes", 1);
    let quic = Node::start(&["--peer", &tcp.listen[0]]);
    let listen = "/ip4/127.0.0.1/tcp/0/ws";
    let websocket = Node::start(&["--peer", &quic.listen[1], "--listen", listen]);
    let last = Node::start(&["--peer", &websocket.listen[0]]);
    let nodes = [&tcp, &quic, &websocket, &last];
    assert!(quic.listen[1].contains("quic-v1") && websocket.listen[0].contains("/ws"));
    converged(&nodes, "likes", 1);
    for node in nodes {
        node.add("likes", 10);
        let lines: String = (0..500).map(|n| format!("k{} {n}\n", n % 100)).collect();
        assert_eq!(node.post("/v1/spaces/default/add", &lines).0, 200);
    }
    converged(&nodes, "likes", 41);
    converged(&nodes, "k7", 4 * (7 + 107 + 207 + 307 + 407));
    assert_eq!(last.space()["counters"], 101);
    let rows = last.peers();
    assert_eq!((rows.len(), &rows[0]["kind"]), (1, &json!("libp2p")));
    assert_eq!(rows[0]["peer"], websocket.peer_id.as_str());
}

#[test]
fn a_cut_node_counts_on_alone_and_heals() {
    let one = Node::start(&["--demo"]);
    let two = Node::start(&["--demo", "--peer", &one.listen[0]]);
    let three = Node::start(&["--demo", "--peer", &one.listen[0], &two.listen[0]]);
    let nodes = [&one, &two, &three];
    one.add("likes", 1);
    converged(&nodes, "likes", 1);
    cut(&one, json!({"cut": true}));
    assert!(one.peers().is_empty());
    assert_eq!(one.get("/v1/status").1["cut"], true);
    one.add("likes", 10);
    two.add("likes", 100);
    converged(&[&two, &three], "likes", 101);
    assert_eq!(one.value("likes"), Some(11));
    cut(&one, json!({"cut": false}));
    converged(&nodes, "likes", 111);
}

#[test]
fn one_link_can_be_cut_alone() {
    let one = Node::start(&["--demo"]);
    let two = Node::start(&["--demo", "--peer", &one.listen[0]]);
    one.add("likes", 1);
    converged(&[&one, &two], "likes", 1);
    cut(&one, json!({"cut": true, "peer": two.peer_id}));
    let third = Node::start(&["--peer", &one.listen[0]]);
    one.add("likes", 1);
    converged(&[&one, &third], "likes", 2);
    assert_eq!(two.value("likes"), Some(1));
    cut(&one, json!({"cut": false, "peer": two.peer_id}));
    converged(&[&one, &two, &third], "likes", 2);
    let (status, problem) = one.post("/v1/demo/cut", r#"{"cut":true,"peer":"x"}"#);
    assert_eq!((status, &problem["code"]), (400, &json!("peer")));
}

#[test]
fn a_node_that_was_away_catches_up_by_itself() {
    let one = Node::start(&[]);
    let mut two = Node::start(&["--peer", &one.listen[0]]);
    one.add("likes", 1);
    converged(&[&one, &two], "likes", 1);
    two.kill();
    one.add("likes", 1);
    two.start_again();
    two.add("likes", 1);
    converged(&[&one, &two], "likes", 3);
}

/// Members acknowledge plain adds when somebody asks for it. After each split the mesh is quiet, and
/// they do all the same, so that an operator sees when a member has caught up.
#[test]
fn a_quiet_mesh_acknowledges_after_each_split() {
    const ADDS: usize = 200;
    let one = Node::start(&["--demo"]);
    let two = Node::start(&["--demo", "--peer", &one.listen[0]]);
    let three = Node::start(&["--demo", "--peer", &one.listen[0], &two.listen[0]]);
    let nodes = [&one, &two, &three];
    close(&nodes);
    for round in 1..=3 {
        for node in nodes {
            cut(node, json!({"cut": true}));
        }
        thread::scope(|scope| {
            for node in nodes {
                scope.spawn(|| (0..ADDS).for_each(|_| node.add("likes", 1)));
            }
        });
        for node in nodes {
            cut(node, json!({"cut": false}));
        }
        converged(&nodes, "likes", (round * 3 * ADDS) as i128);
        eventually("all is acknowledged but a few", || {
            let few = |node: &&Node| {
                let told = node.get("/v1/spaces/default/members").1;
                let rows = told["members"].as_array().cloned().unwrap_or_default();
                let few = |row: &Value| {
                    row["behind"]
                        .as_str()
                        .and_then(|it| it.parse().ok())
                        .is_some_and(|it: u64| it < 30)
                };
                rows.len() == 3 && rows.iter().all(few)
            };
            nodes.iter().all(few).then_some(())
        });
    }
}

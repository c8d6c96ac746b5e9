//! Shards in another member's name: the link that brought them is named at each node that can know, and the
//! steps of docs/trust.md repair what they did.

use super::doors::Page;
use super::frames::{Row, hello, message, push};
use super::id;
use crate::members;
use crate::process::{Node, eventually};
use serde_json::{Value, json};
use tallymesh_core::{Space, WriterId};

/// Three members, of which the second has counted 100 to `m`, and all show it: with the clock of its writer.
fn mesh() -> (Vec<Node>, WriterId, u64) {
    let nodes = members::nodes(3);
    members::close(&nodes.iter().collect::<Vec<_>>());
    nodes[1].add("m", 100);
    for node in &nodes {
        eventually("all show it", || {
            (node.value("m") == Some(100)).then_some(())
        });
    }
    let space = nodes[1].space();
    let clock = space["clock"].as_str().expect("a clock");
    let writer = space["writer"].as_str().expect("an id");
    let writer = WriterId::parse(writer).expect("an id");
    (nodes, writer, clock.parse().expect("a number"))
}

/// Says at a node, on a link of its own, that a writer's next transaction made the counter this.
fn forge(node: &Node, writer: WriterId, clock: u64, total: u64) -> Page {
    let mut page = Page::open_at(node, "").expect("a link");
    let space = Space::default();
    assert!(page.send(&hello(&space, id(77))));
    let row = Row {
        writer,
        lo: clock,
        hi: clock + 1,
    };
    assert!(page.send(&push(&space, &message(&[row], "m", total))));
    page
}

/// The evidence against this writer at a node, once there is any.
fn evidence(node: &Node, writer: WriterId) -> Value {
    eventually("there is evidence", || {
        let space = node.space();
        let reports = space["evidence"].as_array().cloned().unwrap_or_default();
        let of_writer = |it: &Value| it["writer"] == writer.to_string();
        reports.into_iter().find(of_writer)
    })
}

#[test]
fn who_forged_a_shard_of_another_member_is_named_and_the_counter_repaired() {
    let (nodes, writer, clock) = mesh();
    let owners: Vec<String> = nodes.iter().map(members::owner).collect();
    let _page = forge(&nodes[0], writer, clock, 1);

    let told = evidence(&nodes[0], writer);
    assert_eq!(
        (&told["kind"], &told["clock"]),
        (&json!("ahead"), &json!((clock + 1).to_string())),
        "{told}"
    );
    let by = &told["brought_by"];
    assert_eq!(by["kind"], "websocket", "{told}");
    let peer = by["peer"].as_str().expect("a name");
    assert!(peer.starts_with("ws-"), "{told}");
    let address = by["address"].as_str().expect("an address");
    assert!(address.starts_with("127.0.0.1:"), "{told}");
    assert_eq!(told["denied_by"]["owner"], owners[1], "{told}");

    // The others know from whom they have it.
    let told = evidence(&nodes[2], writer);
    assert_eq!(told["brought_by"]["owner"], owners[0], "{told}");
    assert_eq!(told["denied_by"]["owner"], owners[1], "{told}");
    let told = evidence(&nodes[1], writer);
    let by = told["brought_by"]["owner"].as_str().expect("an owner");
    assert!(by == owners[0] || by == owners[2], "{told}");
    assert_eq!(told.get("denied_by"), None, "{told}");

    let log = nodes[0].log();
    let named = |line: &str| line.contains("two wrote under one writer id") && line.contains(peer);
    assert!(log.lines().any(named), "{log}");
    let figures = nodes[0].run(&["doctor"], "");
    let text = String::from_utf8_lossy(&figures.stdout).into_owned();
    assert!(text.contains(&format!("came first from {peer}")), "{text}");

    // As docs/trust.md says: the member goes, its word stays until somebody sets the counter right.
    let removed = nodes[0].run(&["members", "remove", &owners[2]], "");
    assert!(removed.status.success(), "{removed:?}");
    let set = nodes[0].run(&["set", "m", "100"], "");
    assert!(set.status.success(), "{set:?}");
    eventually("the writer goes on under another id", || {
        (nodes[1].space()["writer"] != writer.to_string()).then_some(())
    });
    nodes[1].add("m", 5);
    for node in &nodes[..2] {
        eventually("it is repaired", || {
            (node.value("m") == Some(105)).then_some(())
        });
    }
}

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

/// A link of its own at a node, which has greeted.
fn page(node: &Node) -> Page {
    let mut page = Page::open_at(node, "").expect("a link");
    assert!(page.send(&hello(&Space::default(), id(77))));
    page
}

/// Says that a writer's transaction after this clock made the counter this.
fn say(page: &mut Page, writer: WriterId, clock: u64, total: u64) {
    let space = Space::default();
    let row = Row {
        writer,
        lo: clock,
        hi: clock + 1,
    };
    assert!(page.send(&push(&space, &message(&[row], "m", total))));
}

/// The evidence about this writer at a node that is so, once there is any.
fn evidence_that(node: &Node, writer: WriterId, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually("there is evidence", || {
        let space = node.space();
        let reports = space["evidence"].as_array().cloned().unwrap_or_default();
        let of_writer = |it: &Value| it["writer"] == writer.to_string();
        let mut reports = reports.into_iter().filter(of_writer);
        reports.find(|it| is_so(it))
    })
}

fn evidence(node: &Node, writer: WriterId) -> Value {
    evidence_that(node, writer, |_| true)
}

fn doctor(node: &Node) -> String {
    let output = node.run(&["doctor"], "");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A liar contradicts what the writer's own node said, without end, and then forges.
#[test]
fn who_contradicts_the_writers_own_node_is_the_suspect_and_hides_nothing_by_repeating_it() {
    let (nodes, writer, clock) = mesh();
    let owner = members::owner(&nodes[1]);
    let mut liar = page(&nodes[0]);
    for total in 2..82 {
        say(&mut liar, writer, clock - 1, total);
    }
    let told = evidence_that(&nodes[0], writer, |it| it["times"] == "80");
    // The writer may have acknowledged something at this clock, with no shard.
    let kind = told["kind"].as_str().expect("a kind");
    assert!(["totals", "late"].contains(&kind), "{told}");
    assert_eq!(told["denied_by"]["kind"], "websocket", "{told}");
    assert_eq!(told["suspect"], "denied_by", "{told}");
    let peer = told["denied_by"]["peer"].as_str().expect("a name");
    let text = doctor(&nodes[0]);
    let both = format!("contradicted by {peer}");
    assert!(
        text.contains(&both) && text.contains("suspect: the latter"),
        "{text}"
    );
    assert!(text.contains("not the other side"), "{text}");
    assert_eq!(nodes[0].value("m"), Some(100));
    // What it forges then is seen all the same.
    say(&mut liar, writer, clock, 1);
    let told = evidence_that(&nodes[0], writer, |it| it["kind"] == "ahead");
    assert_eq!(told["brought_by"]["peer"], peer, "{told}");
    assert_eq!(told["denied_by"]["owner"], owner, "{told}");
    assert_eq!(told["suspect"], "brought_by", "{told}");
    let log = nodes[0].log();
    let lines = log
        .lines()
        .filter(|it| it.contains("two wrote under one writer id"));
    assert_eq!(lines.count(), 2, "{log}");
}

#[test]
fn who_forged_a_shard_of_another_member_is_named_and_the_counter_repaired() {
    let (nodes, writer, clock) = mesh();
    let owners: Vec<String> = nodes.iter().map(members::owner).collect();
    let mut liar = page(&nodes[0]);
    say(&mut liar, writer, clock, 1);

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
    let text = doctor(&nodes[0]);
    assert!(text.contains(&format!("was brought by {peer}")), "{text}");

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

//! Shards in another member's name: the link that brought them is named at each node that can know, and the
//! steps of docs/trust.md repair what they did.

use super::doors::Page;
use super::frames::{Row, hello, message, push};
use super::id;
use crate::members;
use crate::process::{Node, eventually};
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use tallymesh_core::{Space, WriterId};

/// Further than the clock of a writer rises by what its node acknowledges while a test runs.
const FAR: u64 = 1_000;

/// Three members, of which the second has counted 100 to `m`, and all show it: with a clock of its writer that
/// all hold. It may go on by acknowledgements.
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
    let clock = clock.parse().expect("a number");
    for node in &nodes {
        eventually("all hold its clock", || {
            (held(node, writer) >= clock).then_some(())
        });
    }
    (nodes, writer, clock)
}

/// The clock up to which a node holds a writer.
fn held(node: &Node, writer: WriterId) -> u64 {
    let answer = node.get("/v1/spaces/default/writers").1;
    let rows = answer["writers"].as_array().expect("a list");
    let row = rows.iter().find(|row| row["writer"] == writer.to_string());
    let clock = row.and_then(|row| row["clock"].as_str());
    clock.map_or(0, |clock| clock.parse().expect("a number"))
}

/// A link of its own at a node, which has sent its hello.
fn page(node: &Node) -> Page {
    let mut page = Page::open_at(node, "");
    assert!(page.send(&hello(&Space::default(), id(77))));
    page
}

/// Says that a writer's transactions of these clocks made the counter this.
fn say(page: &mut Page, writer: WriterId, clocks: RangeInclusive<u64>, total: u64) {
    let space = Space::default();
    let row = Row {
        writer,
        lo: clocks.start() - 1,
        hi: *clocks.end(),
    };
    assert!(page.send(&push(&space, &message(&[row], "m", total))));
}

/// All evidence about this writer at a node.
fn reports(node: &Node, writer: WriterId) -> Vec<Value> {
    let space = node.space();
    let reports = space["evidence"].as_array().cloned().unwrap_or_default();
    let of_writer = |it: &Value| it["writer"] == writer.to_string();
    reports.into_iter().filter(of_writer).collect()
}

/// The evidence about this writer at a node that is so, once there is any.
fn evidence_that(node: &Node, writer: WriterId, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually("there is evidence", || {
        reports(node, writer).into_iter().find(&is_so)
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
        say(&mut liar, writer, clock..=clock, total);
    }
    // Each kind and pair of peers has a report that counts. What is held came by way of one peer or two.
    let told = eventually("each is counted", || {
        let told = reports(&nodes[0], writer);
        let times = |it: &Value| it["times"].as_str()?.parse::<u64>().ok();
        (told.iter().filter_map(times).sum::<u64>() == 80).then_some(told)
    });
    for it in &told {
        // The writer may have acknowledged something at this clock, with no shard.
        let kind = it["kind"].as_str().expect("a kind");
        assert!(["totals", "late"].contains(&kind), "{it}");
        assert_eq!(it["denied_by"]["kind"], "websocket", "{it}");
        assert_eq!(it["suspect"], "denied_by", "{it}");
    }
    let contradictions = told.len();
    assert!(contradictions <= 2, "{told:?}");
    let peer = told[0]["denied_by"]["peer"].as_str().expect("a name");
    let text = doctor(&nodes[0]);
    let both = format!("contradicted by {peer}");
    assert!(
        text.contains(&both) && text.contains("suspect: the latter"),
        "{text}"
    );
    assert!(text.contains("not the other side"), "{text}");
    assert_eq!(nodes[0].value("m"), Some(100));
    // What it forges then is seen all the same.
    say(&mut liar, writer, clock + 1..=clock + FAR, 1);
    let told = evidence_that(&nodes[0], writer, |it| it["kind"] == "ahead");
    assert_eq!(told["brought_by"]["peer"], peer, "{told}");
    assert_eq!(told["denied_by"]["owner"], owner, "{told}");
    assert_eq!(told["suspect"], "brought_by", "{told}");
    nodes[0].has_logged_often("two wrote under one writer id", contradictions + 1);
}

#[test]
fn who_forged_a_shard_of_another_member_is_named_and_the_counter_repaired() {
    let (nodes, writer, clock) = mesh();
    let owners: Vec<String> = nodes.iter().map(members::owner).collect();
    let mut liar = page(&nodes[0]);
    say(&mut liar, writer, clock + 1..=clock + FAR, 1);

    let told = evidence(&nodes[0], writer);
    assert_eq!(
        (&told["kind"], &told["clock"]),
        (&json!("ahead"), &json!((clock + FAR).to_string())),
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

    let named = |line: &str| line.contains("two wrote under one writer id") && line.contains(peer);
    eventually("the log names it", || {
        nodes[0].log().lines().any(named).then_some(())
    });
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

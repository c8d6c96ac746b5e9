//! Spaces with members, on real nodes.

use crate::process::{Node, eventually};
use serde_json::{Value, json};
use std::thread;

const SPACE: &str = "/v1/spaces/default";

/// Nodes that are all connected.
pub(crate) fn nodes(count: usize) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for _ in 0..count {
        let arguments = peers_of(&nodes.iter().collect::<Vec<_>>());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        nodes.push(Node::start(&arguments));
    }
    nodes
}

/// The arguments that connect a node to others.
pub(crate) fn peers_of(others: &[&Node]) -> Vec<String> {
    let mut arguments = Vec::new();
    if !others.is_empty() {
        arguments.push("--peer".to_owned());
    }
    arguments.extend(others.iter().map(|node| node.listen[0].clone()));
    arguments
}

/// Stops a node in order and starts it again, connected to the others.
fn restart(nodes: &mut [Node], at: usize) {
    let others: Vec<&Node> = (0..nodes.len())
        .filter(|other| *other != at)
        .map(|other| &nodes[other])
        .collect();
    let arguments = peers_of(&others);
    let status = nodes[at].terminate();
    assert!(status.success(), "{}", nodes[at].log());
    nodes[at].start_again_with(arguments);
}

pub(crate) fn owner(node: &Node) -> String {
    let status = node.get("/v1/status").1;
    status["owner"].as_str().expect("a key").to_owned()
}

fn members(node: &Node) -> Value {
    node.get(&format!("{SPACE}/members")).1
}

fn writers(node: &Node) -> Vec<Value> {
    let answer = node.get(&format!("{SPACE}/writers")).1;
    answer["writers"].as_array().expect("a list").clone()
}

fn own_writer(node: &Node) -> String {
    node.space()["writer"].as_str().expect("an id").to_owned()
}

/// Asks for a change, and expects that it is made.
fn change(node: &Node, path: &str, body: &Value) -> Value {
    let (status, answer) = node.post(&format!("{SPACE}/{path}"), &body.to_string());
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

fn add_member(node: &Node, owner: &str) {
    change(
        node,
        "members/add",
        &json!({ "owner": owner, "wait_ms": 20_000 }),
    );
}

/// Waits until each of these nodes sees all of them as members, with starts that all know.
pub(crate) fn settled(nodes: &[&Node]) {
    eventually("the members know each other", || {
        let knows = |node: &&Node| {
            let rows = members(node)["members"].as_array().cloned();
            let rows = rows.unwrap_or_default();
            let known = |row: &Value| !row["writer"].is_null() && row["unsure"] == false;
            rows.len() == nodes.len() && rows.iter().all(known)
        };
        nodes.iter().all(knows).then_some(())
    });
}

/// Makes all of these nodes members.
pub(crate) fn close(nodes: &[&Node]) {
    change(nodes[0], "members/init", &json!({}));
    for node in &nodes[1..] {
        add_member(nodes[0], &owner(node));
    }
    settled(nodes);
}

fn shows(nodes: &[&Node], key: &str, value: i128) {
    eventually(&format!("all show {value} for {key}"), || {
        let there = nodes.iter().all(|node| node.value(key) == Some(value));
        there.then_some(())
    });
}

/// Waits until nothing is known of any writer but the members' newest ones.
fn only_members_are_left(nodes: &[&Node]) {
    let left = |node: &&Node| {
        let rows = writers(node);
        rows.len() == nodes.len() && rows.iter().all(|row| row["fate"] == "living")
    };
    let told = || nodes.iter().map(|node| writers(node)).collect::<Vec<_>>();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        eventually("only the members are left", || {
            nodes.iter().all(left).then_some(())
        });
    }));
    assert!(result.is_ok(), "{:#?}", told());
}

#[test]
fn twenty_restarts_leave_three_writers_and_the_right_number() {
    let mut nodes = nodes(3);
    nodes[1].add("likes", 5); // before there are members
    close(&nodes.iter().collect::<Vec<_>>());
    let mut total = 5;
    for round in 0..20 {
        let at = round % 3;
        nodes[at].add("likes", 1);
        restart(&mut nodes, at);
        nodes[at].add("likes", 10);
        total += 11;
        shows(&nodes.iter().collect::<Vec<_>>(), "likes", total);
        if round % 5 == 4 {
            only_members_are_left(&nodes.iter().collect::<Vec<_>>());
        }
    }
    let nodes: Vec<&Node> = nodes.iter().collect();
    only_members_are_left(&nodes);
    shows(&nodes, "likes", total);
}

#[test]
fn a_guest_that_stays_away_is_taken_over_after_the_lease() {
    let member = Node::start(&["--lease", "1s"]);
    close(&[&member]);
    member.add("likes", 1);
    let mut guest = Node::start(&["--peer", &member.listen[0]]);
    shows(&[&guest], "likes", 1);
    guest.add("likes", 7);
    shows(&[&member], "likes", 8);
    guest.kill();
    only_members_are_left(&[&member]);
    shows(&[&member], "likes", 8);
}

#[test]
fn a_writer_that_is_gone_for_good_is_retired_and_its_total_stays() {
    let mut nodes = nodes(2);
    nodes[0].add("likes", 1);
    close(&nodes.iter().collect::<Vec<_>>());
    let mut guest = Node::start(&["--peer", &nodes[0].listen[0], &nodes[1].listen[0]]);
    shows(&[&guest], "likes", 1);
    guest.add("likes", 7);
    let members: Vec<&Node> = nodes.iter().collect();
    shows(&members, "likes", 8);
    let gone = own_writer(&guest);
    // Both may take it in at first, until they agree who has it.
    eventually(
        "the guest is attached to a member, and figures say so",
        || {
            members.iter().find(|node| {
                let rows = self::members(node)["attached"].clone();
                let rows = rows.as_array().cloned().unwrap_or_default();
                let figures = node.get("/metrics").1;
                let figures = figures.as_str().expect("text");
                rows.contains(&json!(gone))
                    && figures.contains("tallymesh_attached{space=\"default\"} 1\n")
            })
        },
    );
    assert_eq!(self::members(&guest)["member"], false);
    let body = json!({ "owner": owner(&guest) }).to_string();
    let (status, refused) = guest.post(&format!("{SPACE}/members/add"), &body);
    assert_eq!((status, &refused["code"]), (409, &json!("not_a_member")));
    guest.kill();

    let output = nodes[1].run(&["retire", &gone], "");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success() && out.contains("absorbed"),
        "{out}{err}"
    );
    only_members_are_left(&nodes.iter().collect::<Vec<_>>());
    shows(&nodes.iter().collect::<Vec<_>>(), "likes", 8);
    // Repeated, it tells the same.
    let again = nodes[1].run(&["retire", &gone, "--json"], "");
    assert!(
        text(&again.stdout).contains("\"fate\":\"absorbed\""),
        "{}",
        text(&again.stderr)
    );
    restart(&mut nodes, 0);
    shows(&nodes.iter().collect::<Vec<_>>(), "likes", 8);
    eventually("it takes part again", || {
        (self::members(&nodes[0])["member"] == true).then_some(())
    });

    let living = own_writer(&nodes[0]);
    for (who, code) in [
        (living, "is_member"),
        (owner(&nodes[0]), "is_member"),
        ("00".repeat(16), "unknown_writer"),
        ("00".repeat(32), "unknown_owner"),
        ("xy".to_owned(), "writer"),
    ] {
        let output = nodes[1].run(&["retire", &who, "--json"], "");
        let problem: Value = serde_json::from_slice(&output.stderr).expect("JSON");
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_lost_member_of_two_is_forced_out() {
    let mut nodes = nodes(2);
    close(&nodes.iter().collect::<Vec<_>>());
    nodes[0].add("likes", 1);
    nodes[1].add("likes", 10);
    shows(&nodes.iter().collect::<Vec<_>>(), "likes", 11);
    let (lost, kept) = (owner(&nodes[1]), owner(&nodes[0]));
    nodes[1].kill();
    let node = &nodes[0];
    let output = node.run(
        &["members", "remove", &lost, "--timeout", "1s", "--json"],
        "",
    );
    let problem: Value = serde_json::from_slice(&output.stderr).expect("JSON");
    assert_eq!(
        (output.status.code(), &problem["code"]),
        (Some(5), &json!("undecided"))
    );
    let detail = problem["detail"].as_str().expect("text");
    assert!(
        detail.contains(&format!("no answer yet from {}… at /ip4/", &lost[..8]))
            && detail.contains("force"),
        "{detail}"
    );
    assert_eq!(problem["members"], json!([lost]));

    let output = node.run(&["members", "force", &kept], "");
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        words.contains("--yes") && words.contains("no say"),
        "{words}"
    );
    assert_eq!(members(node)["configuration"]["era"], "0");
    let output = node.run(&["members", "force", &kept, "--yes"], "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(members(node)["configuration"]["era"], "1");
    only_members_are_left(&[node]);
    node.add("likes", 100);
    shows(&[node], "likes", 111);
}

#[test]
fn a_member_is_voted_out_and_comes_back_as_a_guest() {
    let nodes = nodes(3);
    let all: Vec<&Node> = nodes.iter().collect();
    close(&all);
    for (node, by) in all.iter().zip([1, 10, 100]) {
        node.add("likes", by);
    }
    shows(&all, "likes", 111);
    let out = owner(all[2]);
    let answer = change(
        all[0],
        "members/remove",
        &json!({ "owner": out, "wait_ms": 20_000 }),
    );
    assert_eq!(answer["members"].as_array().map(Vec::len), Some(2));
    eventually("it knows that it is no member", || {
        (members(all[2])["member"] == false).then_some(())
    });
    eventually("it goes on under a new writer", || {
        (all[2].space()["renewals"] == 1).then_some(())
    });
    all[2].add("likes", 1_000);
    shows(&all, "likes", 1_111);
}

#[test]
fn two_changes_at_once_are_decided_one_after_the_other() {
    let nodes = nodes(4);
    let all: Vec<&Node> = nodes.iter().collect();
    close(&all[..2]);
    thread::scope(|scope| {
        for (by, added) in [(0, 2), (1, 3)] {
            let (by, added) = (all[by], owner(all[added]));
            scope.spawn(move || {
                let body = json!({ "owner": added, "wait_ms": 20_000 });
                let answer = change(by, "members/add", &body);
                let members = answer["configuration"]["members"].as_array().cloned();
                assert!(members.expect("a list").contains(&json!(added)), "{answer}");
            });
        }
    });
    settled(&all);
    let first = members(all[0])["configuration"].clone();
    assert_eq!(first["number"], "4", "init, and three that were added");
    for node in &all {
        assert_eq!(members(node)["configuration"], first);
        node.add("likes", 1);
    }
    shows(&all, "likes", 4);
    only_members_are_left(&all);
}

#[test]
fn commands_show_and_change_the_members() {
    let node = Node::start(&[]);
    let run = |arguments: &[&str]| node.run(arguments, "");
    let own = text(&run(&["id"]).stdout).trim().to_owned();
    assert_eq!((own.len(), own.as_str()), (64, owner(&node).as_str()));
    assert!(text(&run(&["members"]).stdout).contains("members init"));
    let refused = run(&["members", "add", &own, "--json"]);
    assert!(text(&refused.stderr).contains("\"no_members\""));
    let made = run(&["members", "init"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert!(made.stderr.is_empty());
    let shown = text(&run(&["members", "list"]).stdout);
    assert!(
        shown.contains("configuration 1 of era 0") && shown.contains(&own),
        "{shown}"
    );
    let twice = run(&["members", "init", "--json"]);
    assert_eq!(twice.status.code(), Some(1));
    assert!(text(&twice.stderr).contains("\"closed\""));
    let wrong = run(&["members", "add", "abc", "--json"]);
    assert!(
        text(&wrong.stderr).contains("\"owner\""),
        "{}",
        text(&wrong.stderr)
    );
    let other = "11".repeat(32);
    // Alone it is a majority, so this is decided at once.
    assert!(run(&["members", "add", &other]).status.success());
    assert!(text(&run(&["members"]).stdout).contains("no start of it is known yet"));
    let status = text(&run(&["status"]).stdout);
    assert!(status.contains("2 members with this node"), "{status}");
    let writers = text(&run(&["writers"]).stdout);
    assert!(writers.contains("this node\tliving, member"), "{writers}");
}

#[test]
fn a_state_that_was_written_whole_is_gone_on_with() {
    let mut nodes = nodes(2);
    close(&nodes.iter().collect::<Vec<_>>());
    // More than a log may have before it is replaced by the whole state.
    let lines: String = (0..30_000)
        .map(|n| format!("a counter with a long name, of which there are many, {n} 1\n"))
        .map(|line| line.replacen(' ', "-", line.matches(' ').count() - 1))
        .collect();
    for round in 1..=2 {
        let (status, answer) = nodes[0].post(&format!("{SPACE}/add"), &lines);
        assert_eq!(status, 200, "{answer}");
        let key = "a-counter-with-a-long-name,-of-which-there-are-many,-29999";
        shows(&nodes.iter().collect::<Vec<_>>(), key, round);
        for at in 0..2 {
            restart(&mut nodes, at);
            nodes[at].add("likes", 1);
        }
        let all: Vec<&Node> = nodes.iter().collect();
        shows(&all, "likes", round * 2);
        shows(&all, key, round);
        only_members_are_left(&all);
    }
}

#[test]
fn events_tell_of_members_and_of_retired_writers() {
    use std::io::{BufRead, BufReader};
    let mut nodes = nodes(2);
    let url = format!("{}{SPACE}/events", nodes[0].url);
    let stream = crate::process::agent().get(url).call().expect("a stream");
    close(&nodes.iter().collect::<Vec<_>>());
    let old = own_writer(&nodes[1]);
    nodes[1].add("likes", 3);
    restart(&mut nodes, 1);
    nodes[1].add("likes", 4);
    shows(&[&nodes[0]], "likes", 7);
    let lines = BufReader::new(stream.into_body().into_reader()).lines();
    let mut lines = lines.map(|line| line.expect("a line"));
    let mut next = |name: &str| -> Value {
        let name = format!("event: {name}");
        assert!(lines.any(|line| line == name));
        let data = lines.next().expect("data");
        serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON")
    };
    assert_eq!(next("members")["number"], "1");
    assert_eq!(next("members")["number"], "2");
    assert_eq!(next("retired")["writer"], json!(old));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_in_memory_is_no_member() {
    use tallymesh_node::config::UpArgs;
    use tallymesh_node::model::Refusal;
    use tallymesh_node::store::Memory;
    let args = UpArgs {
        data: Some("unused".into()),
        http: Some("127.0.0.1:0".into()),
        ..UpArgs::default()
    };
    let config = args.config().expect("a valid configuration");
    let node = tallymesh_node::node::Node::start_on(Box::new(Memory::default()), config);
    let node = node.await.expect("start");
    let handle = node.handle();
    let space = handle.space("default").expect("open");
    let refused = handle.found(space).await.expect_err("must be refused");
    assert_eq!(refused, Refusal::MemoryOnly);
    assert!(refused.to_string().contains("data folder"), "{refused}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

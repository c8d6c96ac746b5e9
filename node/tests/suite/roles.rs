//! Nodes whose tickets give them less than the role member: what each may do, and what becomes of it.

use crate::join::CLOSED;
use crate::liar::Liar;
use crate::members::close;
use crate::network::{self, figure};
use crate::process::{Node, agent, eventually, read};
use crate::redis::Redis;
use crate::tickets::ticket;
use redis_protocol::resp2::types::OwnedFrame;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tallymesh_core::wire::{Body, Frame};
use tallymesh_core::{Replica, Space, WriterId};
use tallymesh_node::clock::WallClock;

const RESP: [&str; 2] = ["--resp", "127.0.0.1:0"];
const COUNTERS: &str = "/v1/spaces/default/counters";

/// A member that asks for tickets.
fn member() -> Node {
    let node = Node::start(&[CLOSED]);
    close(&[&node]);
    node
}

fn invite(node: &Node, role: &str) -> String {
    ticket(&node.run(&["invite", "--role", role], ""))
}

/// A node that joins with a ticket of this role.
fn joined(node: &Node, role: &str) -> Node {
    let joined = Node::start(&[&[CLOSED, "--join", &invite(node, role)], &RESP[..]].concat());
    role_is(&joined, role);
    joined
}

fn role_is(node: &Node, role: &str) {
    assert_eq!(node.space()["role"], role);
}

fn shows(nodes: &[&Node], key: &str, value: i128) {
    eventually(&format!("all show {value} for {key}"), || {
        let there = nodes.iter().all(|node| node.value(key) == Some(value));
        there.then_some(())
    });
}

/// A request that is beyond the role of the node.
fn beyond((status, problem): (u16, Value)) {
    let told = (status, &problem["code"], &problem["applied"]);
    assert_eq!(
        told,
        (403, &json!("beyond_role"), &json!("no")),
        "{problem}"
    );
}

/// A command that is.
fn not_permitted(redis: &mut Redis, words: &[&str]) {
    let answer = redis.ask(words);
    let told = matches!(&answer, OwnedFrame::Error(text) if text.starts_with("NOPERM "));
    assert!(told, "{words:?}: {answer:?}");
}

fn members(node: &Node) -> usize {
    let answer = node.get("/v1/spaces/default/members").1;
    answer["members"].as_array().map_or(0, Vec::len)
}

fn is_linked(node: &Node, to: &Node) -> bool {
    let mut peers = node.peers().into_iter();
    peers.any(|row| row["peer"] == to.peer_id)
}

/// How often a node refused frames with this code.
fn refused(url: &str, code: &str) -> f64 {
    let name = format!("tallymesh_refusals_total{{protocol=\"sync\",code=\"{code}\"}}");
    figure(url, &name)
}

#[test]
fn a_writers_node_adds_and_cancels_nothing() {
    let one = member();
    one.add("likes", 3);
    let two = joined(&one, "writer");
    shows(&[&two], "likes", 3);
    two.add("likes", 4);
    shows(&[&one], "likes", 7);
    let likes = format!("{COUNTERS}/likes");
    beyond(two.put(&likes, r#"{"value":1}"#));
    beyond(two.delete(&likes));
    for path in ["reset", "persist"] {
        beyond(two.post(&format!("{likes}/{path}"), ""));
    }
    beyond(two.post(&format!("{likes}/expire"), r#"{"in_ms":1000}"#));
    let both = json!({"ops": [{"op": "add", "key": "likes"}, {"op": "delete", "key": "other"}]});
    beyond(two.post("/v1/spaces/default/transactions", &both.to_string()));
    beyond(two.post("/v1/spaces/default/members/init", ""));
    let socket = two.post("/v1/spaces/default/sync", "");
    assert_eq!(
        socket.1["code"], "beyond_role",
        "what pages write would stay here"
    );
    let command = two.run(&["reset", "likes"], "");
    let text = String::from_utf8_lossy(&command.stderr).into_owned();
    assert!(
        !command.status.success()
            && text.contains("status --json")
            && text.contains("invite --role"),
        "{command:?}"
    );
    let mut redis = Redis::connect(&two);
    for words in [&["SET", "likes", "1"][..], &["DEL", "likes"]] {
        not_permitted(&mut redis, words);
    }
    assert_eq!(
        redis.ask(&["INCRBY", "likes", "10"]),
        OwnedFrame::Integer(17)
    );
    two.add("views", 1);
    one.add("likes", 100);
    shows(&[&one, &two], "likes", 117);
    shows(&[&one, &two], "views", 1);
    assert_eq!(members(&one), 1, "its ticket makes no member");
    assert_eq!(refused(&one.url, "beyond_role"), 0.0);
    // What somebody else cancels, and what expires, it hears of, and it counts on.
    assert_eq!(one.delete(&likes).0, 200);
    eventually("it is deleted", || {
        two.value("likes").is_none().then_some(())
    });
    two.add("likes", 1);
    shows(&[&one], "likes", 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_expired_is_left_to_others() {
    let one = member();
    let ticket = invite(&one, "writer");
    let time = Arc::new(AtomicU64::new(WallClock::default().now()));
    let shown = time.clone();
    let (_node, url) = network::start(|config| {
        config.join = vec![ticket];
        config.gossip.open = false;
        config.clock = WallClock::new(move || shown.load(Ordering::SeqCst));
    })
    .await;
    let value = || {
        let answer = agent().get(format!("{url}{COUNTERS}/likes")).call();
        let (_, answer) = read(answer.expect("an answer"));
        answer["value"].as_str().map(str::to_owned)
    };
    let add = || {
        let answer = agent().post(format!("{url}{COUNTERS}/likes/add")).send("");
        let (status, answer) = read(answer.expect("an answer"));
        (status, answer["code"].clone())
    };
    tokio::task::block_in_place(|| {
        one.add("likes", 3);
        let expire = format!("{COUNTERS}/likes/expire");
        assert_eq!(one.post(&expire, r#"{"in_ms":3600000}"#).0, 200);
        one.add("likes", 1); // comes after that
        eventually("it has received that", || {
            (value() == Some("4".into())).then_some(())
        });
        time.fetch_add(2 * 3_600_000, Ordering::SeqCst);
        assert_eq!(value(), None);
        assert_eq!(add(), (409, json!("expired")));
        assert_eq!(one.value("likes"), Some(4), "its clock is right");
        assert_eq!(one.delete(&format!("{COUNTERS}/likes")).0, 200);
        eventually("it can be added to again", || {
            (add().0 == 200).then_some(())
        });
        shows(&[&one], "likes", 1);
        assert_eq!(refused(&one.url, "beyond_role"), 0.0);
    });
}

#[test]
fn an_editors_node_cancels_too() {
    let one = member();
    one.add("likes", 3);
    let two = joined(&one, "editor");
    shows(&[&two], "likes", 3);
    assert_eq!(
        two.put(&format!("{COUNTERS}/likes"), r#"{"value":50}"#).0,
        200
    );
    shows(&[&one], "likes", 50);
    two.add("likes", 5);
    shows(&[&one], "likes", 55);
    assert_eq!(two.delete(&format!("{COUNTERS}/likes")).0, 200);
    eventually("it is deleted", || {
        one.value("likes").is_none().then_some(())
    });
    beyond(two.post("/v1/spaces/default/members/init", ""));
    assert_eq!(members(&one), 1);
}

#[test]
fn a_readers_node_reads() {
    let one = member();
    one.add("likes", 3);
    let mut two = joined(&one, "reader");
    shows(&[&two], "likes", 3);
    let likes = format!("{COUNTERS}/likes");
    beyond(two.post(&format!("{likes}/add"), ""));
    beyond(two.post("/v1/spaces/default/add", "likes\t4\n"));
    beyond(two.delete(&likes));
    let mut redis = Redis::connect(&two);
    for words in [&["INCR", "likes"][..], &["INCR", "new"], &["DEL", "likes"]] {
        not_permitted(&mut redis, words);
    }
    assert_eq!(redis.text(&["MULTI"]), Some("OK".into()));
    redis.ask(&["INCR", "likes"]);
    let exec = redis.ask(&["EXEC"]);
    assert!(matches!(exec, OwnedFrame::Error(_)), "{exec:?}");
    assert_eq!(redis.text(&["GET", "likes"]), Some("3".into()));
    one.add("likes", 1);
    shows(&[&two], "likes", 4);
    // The greatest of its tickets counts.
    let writer = invite(&one, "writer");
    two.terminate();
    two.start_again_with(vec![CLOSED.into(), "--join".into(), writer]);
    role_is(&two, "writer");
    two.add("likes", 10);
    shows(&[&one], "likes", 14);
}

/// Also of what it had told nobody, which it proves to be its own.
#[test]
fn a_writers_node_loses_nothing_when_it_starts_again() {
    let mut one = member();
    let mut two = joined(&one, "writer");
    two.add("likes", 1);
    shows(&[&one], "likes", 1);
    let mut sum = 1;
    for round in 0..3 {
        // Its member is away while it counts, and it is stopped itself.
        one.kill();
        sum += 10;
        two.add("likes", 10);
        match round % 2 {
            0 => two.kill(),
            _ => {
                two.terminate();
            }
        }
        two.start_again();
        sum += 100;
        two.add("likes", 100);
        comes_back(&mut one, &two);
        shows(&[&one, &two], "likes", sum);
    }
    assert_eq!(refused(&one.url, "not_yours"), 0.0);
    assert_eq!(members(&one), 1);
}

/// A member starts again, and dials a node of whose key it knows nothing.
fn comes_back(member: &mut Node, to: &Node) {
    let (address, _) = to.listen[0].split_once("/p2p/").expect("a name");
    member.start_again_with([CLOSED, "--peer", address].map(str::to_owned).to_vec());
}

#[test]
fn a_folder_without_proofs_gets_one_at_the_next_start() {
    let one = member();
    let mut two = joined(&one, "writer");
    two.add("likes", 1);
    shows(&[&one], "likes", 1);
    two.terminate();
    std::fs::remove_file(two.data().join("writers.json")).expect("the file is there");
    two.start_again();
    two.add("likes", 2);
    shows(&[&one, &two], "likes", 3);
}

#[test]
fn a_writers_node_goes_on_at_another_member() {
    let mut one = Node::start(&[CLOSED]);
    let first = one.listen[0].clone();
    let mut other = Node::start(&[CLOSED, "--peer", &first]);
    let name = format!("/ip4/127.0.0.1/tcp/1/p2p/{}", other.peer_id);
    one.terminate();
    one.start_again_with(vec![CLOSED.into(), "--peer".into(), name]);
    other.terminate();
    other.start_again_with(vec![CLOSED.into(), "--peer".into(), one.listen[0].clone()]);
    close(&[&one, &other]);
    let ticket = invite(&one, "writer");
    let two = Node::start(&[CLOSED, "--join", &ticket, "--peer", &other.listen[0]]);
    two.add("likes", 1);
    shows(&[&one, &other, &two], "likes", 1);
    one.kill();
    two.add("likes", 10);
    shows(&[&other], "likes", 11);
    other.add("likes", 100);
    shows(&[&two], "likes", 111);
}

#[test]
fn a_ticket_that_is_revoked_ends_the_links() {
    let one = member();
    let ticket = invite(&one, "writer");
    let two = Node::start(&[CLOSED, "--join", &ticket]);
    two.add("likes", 1);
    shows(&[&one], "likes", 1);
    // It was one before it had shown its ticket, too.
    let before = network::refused(&one.url, "stranger");
    let output = one.run(&["revoke", &ticket], "");
    assert!(output.status.success(), "{output:?}");
    eventually("it is cut off", || (!is_linked(&one, &two)).then_some(()));
    two.add("likes", 10);
    one.add("likes", 100);
    eventually("it is a stranger", || {
        (network::refused(&one.url, "stranger") > before).then_some(())
    });
    assert_eq!(one.value("likes"), Some(101));
    assert_eq!(two.value("likes"), Some(11));
    // With another ticket all arrives.
    let mut two = two;
    two.terminate();
    let fresh = invite(&one, "writer");
    two.start_again_with(vec![CLOSED.into(), "--join".into(), fresh]);
    shows(&[&one, &two], "likes", 111);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_that_ends_ends_the_links() {
    let time = Arc::new(AtomicU64::new(WallClock::default().now()));
    let shown = time.clone();
    let (node, url) = network::start(|config| {
        config.gossip.open = false;
        config.clock = WallClock::new(move || shown.load(Ordering::SeqCst));
    })
    .await;
    tokio::task::block_in_place(|| {
        let handle = node.handle();
        let body = json!({"role": "writer", "spaces": ["default"], "expires_in_ms": 3_600_000})
            .to_string();
        let shown = format!("Bearer {}", node.token().text());
        let asked = agent().post(format!("{url}/v1/tickets"));
        let answer = asked.header("authorization", shown).send(&body);
        let (status, answer) = read(answer.expect("an answer"));
        assert_eq!(status, 200, "{answer}");
        let ticket = answer["ticket"].as_str().expect("a ticket");
        let two = Node::start(&[CLOSED, "--join", ticket]);
        role_is(&two, "writer");
        two.add("likes", 1);
        let value = || {
            let space = handle.space("default").expect("open");
            let found = handle.read(space, "likes".into());
            let found = tokio::runtime::Handle::current()
                .block_on(found)
                .expect("it runs");
            found.map(|counter| counter.now.value)
        };
        eventually("it counts", || (value() == Some(1)).then_some(()));
        // It was one before it had shown its ticket, too.
        let before = network::refused(&url, "stranger");
        time.fetch_add(2 * 3_600_000, Ordering::SeqCst);
        eventually("it is cut off", || {
            (network::refused(&url, "stranger") > before).then_some(())
        });
        two.add("likes", 10);
        assert_eq!((value(), two.value("likes")), (Some(1), Some(11)));
    });
}

/// A program of its own that says what an honest one does not.
#[test]
fn who_forges_what_another_counted_is_refused() {
    let one = member();
    one.add("likes", 3);
    let liar = Liar::start(&one);
    // Its rights change with that, which may close the connection before the answer is through.
    if let Ok(answer) = liar.show(&invite(&one, "editor")) {
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        assert_eq!(answer["role"], "editor", "{answer}");
    }
    eventually("it may come again", || (!liar.is_connected()).then_some(()));
    liar.again();
    eventually("it is back", || liar.is_connected().then_some(()));
    liar.send_hello([0; 16]);
    eventually("it is let in", || (!one.peers().is_empty()).then_some(()));
    let space = Space::default();
    let mut other = Replica::new(space.clone(), WriterId::from_bytes([0xaa; 16]));
    other.add("likes", 1).expect("an add");
    let before = other.vector();
    other.add("likes", 100).expect("an add");
    let body = Body::Push(other.delta(&before));
    liar.say(Frame { space, body }.encode());
    eventually("it is refused", || {
        (refused(&one.url, "not_yours") >= 1.0).then_some(())
    });
    eventually("it is cut off", || (!liar.is_connected()).then_some(()));
    assert_eq!(one.value("likes"), Some(3));
    one.has_logged(&["not_yours"]);
}

//! Operations under idempotency keys, and levels, over HTTP on real nodes.

use crate::members::{close, nodes};
use crate::process::{Node, agent, eventually, read};
use serde_json::{Value, json};

const LIKES: &str = "/v1/spaces/default/counters/likes";

/// Posts with headers: the status, the JSON, and whether it had been made before.
fn post(node: &Node, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value, bool) {
    let mut request = agent().post(format!("{}{path}", node.url));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send(body).expect("an answer");
    let again = response.headers().contains_key("idempotent-replayed");
    let (status, answer) = read(response);
    (status, answer, again)
}

fn add_once(node: &Node, key: &str, by: i64) -> (u16, Value, bool) {
    let body = json!({ "by": by.to_string() }).to_string();
    post(
        node,
        &format!("{LIKES}/add"),
        &[("idempotency-key", key)],
        &body,
    )
}

#[test]
fn a_retry_counts_once_at_one_node_also_after_it_was_killed() {
    let mut node = Node::start(&[]);
    let first = add_once(&node, "a", 5);
    assert_eq!(first, (200, json!({"key": "likes", "value": "5"}), false));
    assert_eq!(add_once(&node, "a", 5), (200, first.1.clone(), true));
    let (status, problem, _) = add_once(&node, "a", 6);
    assert_eq!((status, &problem["code"]), (422, &json!("key_reused")));
    assert_eq!(problem["applied"], "no");
    assert_eq!(add_once(&node, "b", 6).1["value"], "11");
    node.kill();
    node.start_again();
    assert_eq!(
        add_once(&node, "a", 5),
        (200, json!({"key": "likes", "value": "11"}), true)
    );
    let long = "k".repeat(256);
    let (status, problem, _) = add_once(&node, &long, 5);
    assert_eq!((status, &problem["code"]), (400, &json!("idempotency_key")));
    assert_eq!(node.value("likes"), Some(11));
}

#[test]
fn every_operation_can_be_made_once() {
    let node = Node::start(&[]);
    let key = |key| [("idempotency-key", key)];
    let bulk = "a 1\nb 2\na 3";
    for again in [false, true] {
        let done = post(&node, "/v1/spaces/default/add", &key("bulk"), bulk);
        assert_eq!(done, (200, json!({"lines": 3}), again));
    }
    let ops = json!({"ops": [
        {"op": "add", "key": "a", "by": "10"},
        {"op": "delete", "key": "b"},
    ]});
    for again in [false, true] {
        let path = "/v1/spaces/default/transactions";
        let (status, answer, replayed) = post(&node, path, &key("txn"), &ops.to_string());
        assert_eq!((status, replayed), (200, again), "{answer}");
        assert_eq!(answer["results"][0]["value"], "14");
    }
    assert_eq!((node.value("a"), node.value("b")), (Some(14), None));
    // What is made again is not what was made before.
    node.add("b", 7);
    let path = "/v1/spaces/default/transactions";
    assert!(post(&node, path, &key("txn"), &ops.to_string()).2);
    assert_eq!(node.value("b"), Some(7));
    // A key is of one space, method and path.
    let (status, problem, _) = post(
        &node,
        "/v1/spaces/default/counters/a/reset",
        &key("txn"),
        "",
    );
    assert_eq!((status, &problem["code"]), (422, &json!("key_reused")));
}

#[test]
fn of_two_members_that_took_it_apart_one_counts() {
    let one = Node::start(&["--demo"]);
    let two = Node::start(&["--demo", "--peer", &one.listen[0]]);
    let both = [&one, &two];
    close(&both);
    for node in &both {
        assert_eq!(node.post("/v1/demo/cut", r#"{"cut":true}"#).0, 200);
    }
    for (node, again) in [(0, false), (1, false), (0, true), (1, true)] {
        let (status, answer, replayed) = add_once(both[node], "a", 5);
        assert_eq!((status, replayed), (200, again), "{answer}");
        assert_eq!(answer["value"], "5");
    }
    both[0].add("likes", 100);
    both[1].add("likes", 1_000);
    for node in &both {
        assert_eq!(node.post("/v1/demo/cut", r#"{"cut":false}"#).0, 200);
    }
    eventually("both show it once", || {
        let once = both.iter().all(|node| node.value("likes") == Some(1_105));
        once.then_some(())
    });
    assert!(add_once(both[1], "a", 5).2);
}

#[test]
fn a_level_is_asked_for_and_a_session_goes_on_elsewhere() {
    let nodes = nodes(3);
    let all: Vec<&Node> = nodes.iter().collect();
    let quorum = ("tallymesh-level", "quorum");
    let (status, problem, _) = post(all[0], &format!("{LIKES}/add"), &[quorum], "");
    assert_eq!((status, &problem["code"]), (409, &json!("no_members")));
    assert_eq!(all[0].value("likes"), None);
    close(&all);
    let (status, answer, _) = post(all[0], &format!("{LIKES}/add"), &[quorum], "");
    assert_eq!((status, &answer["value"]), (200, &json!("1")));
    let read_at = |node: &Node, headers: &[(&str, &str)]| {
        let mut request = agent().get(format!("{}{LIKES}", node.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.call().expect("an answer");
        let token = response.headers().get("tallymesh-token").cloned();
        (read(response), token)
    };
    for node in &all {
        let ((status, answer), token) = read_at(node, &[quorum]);
        assert_eq!((status, &answer["value"], token), (200, &json!("1"), None));
    }
    // What a session wrote it reads at once elsewhere.
    for round in 0..20 {
        let (writer, reader) = (all[round % 3], all[(round + 1) % 3]);
        let response = agent()
            .post(format!("{}{LIKES}/add", writer.url))
            .header("tallymesh-token", "")
            .send("")
            .expect("an answer");
        let token = response.headers().get("tallymesh-token").cloned();
        let token = token.expect("a token");
        let token = token.to_str().expect("text");
        let ((status, answer), _) = read_at(reader, &[("tallymesh-token", token)]);
        assert_eq!(status, 200, "{answer}");
        let seen: usize = answer["value"]
            .as_str()
            .expect("a value")
            .parse()
            .expect("a number");
        assert!(seen >= round + 2, "{seen} in round {round}");
    }
    for (header, value, code) in [
        ("tallymesh-level", "most", "level"),
        ("tallymesh-wait-ms", "1.5", "millis"),
        ("tallymesh-token", "x", "token"),
    ] {
        let ((status, problem), _) = read_at(all[0], &[(header, value)]);
        assert_eq!((status, &problem["code"]), (400, &json!(code)));
    }
}

//! Redis clients that retry, and that ask how many members hold what they wrote.

use crate::members::close;
use crate::process::{Node, agent, eventually, read};
use crate::redis::{Redis, text};
use redis_protocol::resp2::types::OwnedFrame;
use serde_json::json;
use std::time::{Duration, Instant};

const RESP: [&str; 2] = ["--resp", "127.0.0.1:0"];

/// Members that are all linked, and can be cut from each other.
fn members(count: usize) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for _ in 0..count {
        let mut arguments = [&RESP[..], &["--demo"]].concat();
        for node in &nodes {
            arguments.extend(["--peer", &node.listen[0]]);
        }
        nodes.push(Node::start(&arguments));
    }
    close(&nodes.iter().collect::<Vec<_>>());
    nodes
}

fn cut(nodes: &[Node], cut: bool) {
    for node in nodes {
        let (status, answer) = node.post("/v1/demo/cut", &json!({ "cut": cut }).to_string());
        assert_eq!(status, 200, "{answer}");
    }
}

fn show(nodes: &[Node], key: &str, value: i128) {
    eventually(&format!("all show {value} for {key}"), || {
        let all = nodes.iter().all(|node| node.value(key) == Some(value));
        all.then_some(())
    });
}

/// A transfer of 5, under a key.
fn transfer(redis: &mut Redis, key: &str) -> Vec<Option<String>> {
    redis.text(&["MULTI"]);
    redis.text(&["DECRBY", "from", "5"]);
    redis.text(&["INCRBY", "to", "5"]);
    let numbers = |frame| match frame {
        OwnedFrame::Integer(number) => Some(number.to_string()),
        other => text(other),
    };
    match redis.ask(&["ONCE", key, "EXEC"]) {
        OwnedFrame::Array(frames) => frames.into_iter().map(numbers).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_retry_counts_once_also_after_the_node_was_killed() {
    let mut node = Node::start(&RESP);
    let mut redis = Redis::connect(&node);
    let add = ["ONCE", "a", "INCRBY", "likes", "5"];
    assert_eq!((redis.integer(&add), redis.integer(&add)), (5, 5));
    let reused = redis.text(&["ONCE", "a", "INCRBY", "likes", "6"]);
    assert!(reused.expect("an error").starts_with("KEYREUSED "));
    // It changes nothing, and its key is kept all the same.
    let delete = ["ONCE", "d", "DEL", "other"];
    assert_eq!(redis.integer(&delete), 0);
    node.kill();
    node.start_again();
    let mut redis = Redis::connect(&node);
    redis.integer(&["INCR", "other"]);
    assert_eq!(redis.integer(&add), 5);
    assert_eq!(
        redis.text(&delete),
        None,
        "it was made, and is not made again"
    );
    assert_eq!(
        (node.value("likes"), node.value("other")),
        (Some(5), Some(1))
    );
    // A key over HTTP is of another request.
    let response = agent()
        .post(format!("{}/v1/spaces/default/counters/likes/add", node.url))
        .header("idempotency-key", "a")
        .send(r#"{"by":"5"}"#);
    let (status, problem) = read(response.expect("an answer"));
    assert_eq!((status, &problem["code"]), (422, &json!("key_reused")));
}

#[test]
fn a_retry_at_another_member_counts_once_whatever_that_had_heard() {
    let nodes = members(2);
    let mut clients: Vec<Redis> = nodes.iter().map(Redis::connect).collect();
    // Linked: the second receives it, before the retry or after.
    let add = ["ONCE", "linked", "INCRBY", "likes", "5"];
    assert_eq!(clients[0].integer(&add), 5);
    clients[1].integer(&add);
    show(&nodes, "likes", 5);
    // Apart: both take it, and one is taken out when they hear of each other.
    cut(&nodes, true);
    for client in &mut clients {
        let add = ["ONCE", "apart", "INCRBY", "likes", "5"];
        assert_eq!((client.integer(&add), client.integer(&add)), (10, 10));
        let moved = [Some("-5".to_owned()), Some("5".to_owned())];
        assert_eq!(transfer(client, "move"), moved);
        assert_eq!(transfer(client, "move"), moved);
    }
    clients[0].integer(&["INCRBY", "likes", "100"]);
    clients[1].integer(&["INCRBY", "likes", "1000"]);
    cut(&nodes, false);
    show(&nodes, "likes", 1_110);
    show(&nodes, "from", -5);
    show(&nodes, "to", 5);
    let add = ["ONCE", "apart", "INCRBY", "likes", "5"];
    for client in &mut clients {
        assert_eq!(client.integer(&add), 1_110);
        let moved = [Some("-5".to_owned()), Some("5".to_owned())];
        assert_eq!(transfer(client, "move"), moved);
    }
}

#[test]
fn wait_is_prompt_and_counts_who_holds_what_was_written() {
    let nodes = members(3);
    let mut redis = Redis::connect(&nodes[0]);
    let mut took: Vec<Duration> = Vec::new();
    for round in 1..=15 {
        assert_eq!(redis.integer(&["INCR", "a"]), round);
        let begun = Instant::now();
        assert_eq!(redis.integer(&["WAIT", "2", "20000"]), 2);
        took.push(begun.elapsed());
        for node in &nodes[1..] {
            assert_eq!(node.value("a"), Some(i128::from(round)), "it is there");
        }
    }
    // Members say it when they are asked, and not with what they do once a second.
    took.sort_unstable();
    assert!(took[7] < Duration::from_millis(300), "{took:?}");
    // A retry elsewhere waits for those who hold what was made first.
    let mut other = Redis::connect(&nodes[1]);
    let add = ["ONCE", "k", "INCR", "b"];
    redis.integer(&add);
    eventually("it has arrived", || nodes[1].value("b"));
    assert_eq!(other.integer(&add), 1);
    assert_eq!(other.integer(&["WAIT", "2", "20000"]), 2);
    cut(&nodes[2..], true);
    redis.integer(&["INCR", "a"]);
    assert_eq!(redis.integer(&["WAIT", "1", "20000"]), 1);
    assert_eq!(
        redis.integer(&["WAIT", "2", "100"]),
        1,
        "one is out of reach"
    );
    // Nobody is waited for for ever who may have gone away.
    let mut gone = Redis::connect(&nodes[0]);
    gone.integer(&["INCR", "a"]);
    gone.send(&crate::redis::command(&["WAIT", "2", "0"]));
    gone.end();
    assert!(matches!(gone.reply(), OwnedFrame::Integer(0 | 1)));
    assert!(gone.try_reply().is_err(), "the connection is closed");
    // It goes on for ever, until the other is back.
    redis.send(&crate::redis::command(&["WAIT", "2", "0"]));
    cut(&nodes[2..], false);
    assert_eq!(redis.reply(), OwnedFrame::Integer(2));
}

#[test]
fn a_session_reaches_the_level_that_it_asks_for() {
    let open = Node::start(&RESP);
    let mut redis = Redis::connect(&open);
    assert_eq!(
        redis.text(&["CLIENT", "LEVEL", "quorum"]),
        Some("OK".into())
    );
    let refused = redis.text(&["INCR", "a"]).expect("an error");
    assert!(refused.starts_with("NOMEMBERS "), "{refused}");
    assert_eq!(open.value("a"), None);

    let nodes = members(3);
    let mut clients: Vec<Redis> = nodes.iter().map(Redis::connect).collect();
    for client in &mut clients {
        client.text(&["CLIENT", "LEVEL", "quorum", "20000"]);
    }
    // What one wrote at quorum all read at quorum, at once.
    for round in 1..=20_i64 {
        let at = round as usize % 3;
        let words: &[&str] = match round % 2 {
            0 => &["INCR", "a"],
            _ => &["ONCE", &format!("k{round}"), "INCR", "a"],
        };
        assert_eq!(clients[at].integer(words), round);
        let seen = clients[(at + 1) % 3].text(&["GET", "a"]);
        assert_eq!(seen, Some(round.to_string()));
    }
    // One at a time, whatever else was sent: answers keep their order.
    let mut bytes = Vec::new();
    for words in [&["INCR", "b"][..], &["GET", "b"], &["PING"], &["INCR", "b"]] {
        bytes.extend(crate::redis::command(words));
    }
    clients[0].send(&bytes);
    let replies: Vec<OwnedFrame> = (0..4).map(|_| clients[0].reply()).collect();
    assert_eq!(replies[0], OwnedFrame::Integer(1));
    assert_eq!(replies[1], OwnedFrame::BulkString(b"1".to_vec()));
    assert_eq!(replies[2], OwnedFrame::SimpleString(b"PONG".to_vec()));
    assert_eq!(replies[3], OwnedFrame::Integer(2));
    // Alone it reaches nobody: what it wrote is applied, and what it reads is not shown.
    cut(&nodes, true);
    clients[0].text(&["CLIENT", "LEVEL", "quorum", "200"]);
    let refused = clients[0].text(&["INCR", "b"]).expect("an error");
    assert!(
        refused.starts_with("LEVELNOTREACHED ") && refused.contains("1 of 2"),
        "{refused}"
    );
    assert_eq!(nodes[0].value("b"), Some(3), "it is applied here");
    let refused = clients[0].text(&["GET", "b"]).expect("an error");
    assert!(
        refused.starts_with("LEVELNOTREACHED nothing was read"),
        "{refused}"
    );
    clients[0].text(&["CLIENT", "LEVEL", "local"]);
    assert_eq!(clients[0].text(&["GET", "b"]), Some("3".into()));
    // Who goes away meanwhile leaves nothing behind.
    clients[1].text(&["CLIENT", "LEVEL", "all", "20000"]);
    clients[1].send(&crate::redis::command(&["INCR", "b"]));
    drop(clients);
    cut(&nodes, false);
    show(&nodes, "b", 4);
}

#[test]
fn writes_under_conditions_take_a_centre() {
    let node = Node::start(&[]);
    let likes = format!("{}/v1/spaces/default/counters/likes", node.url);
    for (header, value) in [("if-match", "\"5\""), ("if-none-match", "*")] {
        let response = agent().put(&likes).header(header, value);
        let (status, problem) = read(response.send(r#"{"value":"5"}"#).expect("an answer"));
        assert_eq!((status, &problem["code"]), (501, &json!("needs_centre")));
        assert_eq!(problem["applied"], "no");
        let detail = problem["detail"].as_str().expect("text");
        assert!(detail.contains("one member alone"), "{detail}");
    }
    assert_eq!(node.value("likes"), None);
    node.add("likes", 5);
    let response = agent().get(&likes).header("if-none-match", "*").call();
    let (status, answer) = read(response.expect("an answer"));
    assert_eq!((status, &answer["value"]), (200, &json!("5")));
    // A read of many is a POST, and no write.
    let many = format!("{}/v1/spaces/default/read", node.url);
    let response = agent().post(many).header("if-none-match", "*");
    let (status, answer) = read(response.send(r#"{"keys":["likes"]}"#).expect("an answer"));
    let value = &answer["counters"][0]["value"];
    assert_eq!((status, value), (200, &json!("5")));
    for (path, body) in [("counters/likes/add", ""), ("add", "likes 1"), ("add", "")] {
        let url = format!("{}/v1/spaces/default/{path}", node.url);
        let response = agent().post(url).header("if-match", "\"5\"").send(body);
        let (status, problem) = read(response.expect("an answer"));
        assert_eq!((status, &problem["code"]), (501, &json!("needs_centre")));
    }
    assert_eq!(node.value("likes"), Some(5));
}

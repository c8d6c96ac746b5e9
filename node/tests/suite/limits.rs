//! Limits for each period over HTTP and on the command line, on real nodes.

use crate::members::{close, nodes};
use crate::once::post;
use crate::process::{Node, agent, eventually, read};
use crate::redis::Redis;
use redis_protocol::resp2::types::OwnedFrame;
use serde_json::{Value, json};
use std::thread;

const LIMITS: &str = "/v1/spaces/default/limits";

fn set(node: &Node, name: &str, limit: u64, period_ms: u64) {
    let body = json!({ "limit": limit, "period_ms": period_ms });
    let (status, answer) = node.put(&format!("{LIMITS}/{name}"), &body.to_string());
    assert_eq!(status, 200, "{answer}");
    let all = answer["limits"].as_array().expect("a list");
    let mut all = all.iter();
    let told = limit.to_string();
    let is_set = |it: &Value| it["name"] == name && it["limit"] == told.as_str();
    assert!(all.any(is_set), "{answer}");
}

/// Asks a node to allow something, and waits so long for it.
fn allow(node: &Node, key: &str, cost: u64, wait_ms: u64) -> (u16, Value) {
    let wait = wait_ms.to_string();
    let wait = [("tallymesh-rights-wait-ms", wait.as_str())];
    let body = json!({ "cost": cost }).to_string();
    let (status, answer, _) = post(node, &format!("{LIMITS}/{key}/allow"), &wait, &body);
    (status, answer)
}

fn period(node: &Node, key: &str) -> Value {
    let (status, answer) = node.get(&format!("{LIMITS}/{key}"));
    assert_eq!(status, 200, "{answer}");
    answer
}

/// What a command prints.
fn cli(node: &Node, arguments: &[&str]) -> String {
    let output = node.run(arguments, "");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{output:?}");
    printed
}

#[test]
fn three_nodes_allow_no_more_than_the_limit_and_lend_each_other_what_is_not_used() {
    let nodes = nodes(3);
    close(&nodes.iter().collect::<Vec<_>>());
    set(&nodes[0], "api", 120, 3_600_000);
    for node in &nodes {
        eventually("all have received it", || {
            (node.get(&format!("{LIMITS}/api")).0 == 200).then_some(())
        });
    }
    // The present period may end meanwhile: then with another key.
    for key in ["api:a", "api:b", "api:c"] {
        let ends = period(&nodes[0], key)["ends"].clone();
        let asked = [160, 40, 0];
        let allowed: usize = thread::scope(|scope| {
            let clients = nodes.iter().zip(asked).flat_map(|(node, asked)| {
                (0..4).map(move |_| {
                    scope.spawn(move || {
                        let asked = (0..asked / 4).map(|_| allow(node, key, 1, 3_000));
                        let allowed = asked.filter(|(status, answer)| {
                            assert!(matches!(status, 200 | 429), "{answer}");
                            *status == 200
                        });
                        allowed.count()
                    })
                })
            });
            let clients: Vec<_> = clients.collect();
            clients
                .into_iter()
                .map(|it| it.join().expect("it asks"))
                .sum()
        });
        if period(&nodes[0], key)["ends"] != ends {
            continue;
        }
        assert!((110..=120).contains(&allowed), "{allowed} of 120");
        let left = |node: &Node| {
            let left = &period(node, key)["left"];
            let number = |it: &Value| it.as_str().and_then(|it| it.parse::<usize>().ok());
            number(&left["here"]).zip(number(&left["elsewhere"]))
        };
        eventually("all know what is left", || {
            let mut all = nodes.iter().filter_map(left);
            all.all(|it| it.0 + it.1 == 120 - allowed).then_some(())
        });
        return;
    }
    panic!("the period ended three times");
}

/// What `INCREX` answers: what was used, and how much was added.
fn increx(redis: &mut Redis, words: &[&str]) -> (i64, i64) {
    match redis.ask(&[&["INCREX"], words].concat()) {
        OwnedFrame::Array(parts) => match parts[..] {
            [OwnedFrame::Integer(used), OwnedFrame::Integer(by)] => (used, by),
            _ => panic!("{words:?}: {parts:?}"),
        },
        other => panic!("{words:?}: {other:?}"),
    }
}

#[test]
fn redis_clients_of_two_nodes_are_held_to_one_limit() {
    let resp = ["--resp", "127.0.0.1:0"];
    let one = Node::start(&resp);
    let two = Node::start(&[&resp[..], &["--peer", &one.listen[0]]].concat());
    close(&[&one, &two]);
    set(&one, "api", 60, 3_600_000);
    eventually("the other has received it", || {
        (two.get(&format!("{LIMITS}/api")).0 == 200).then_some(())
    });
    // The present period may end meanwhile: then with another key.
    for key in ["api:a", "api:b", "api:c"] {
        let ends = period(&one, key)["ends"].clone();
        let asks = |node: &Node, times| {
            let mut redis = Redis::connect(node);
            let answer = redis.text(&["CLIENT", "RIGHTS-WAIT", "3000"]);
            assert_eq!(answer.as_deref(), Some("OK"));
            let rule = ["UBOUND", "60", "EX", "3600", "ENX"];
            let asked = (0..times).map(|_| increx(&mut redis, &[&[key], &rule[..]].concat()));
            let allowed = asked.filter(|(used, by)| {
                assert!(*used <= 60 && (0..=1).contains(by), "{used} {by}");
                *by == 1
            });
            allowed.count()
        };
        let allowed: usize = thread::scope(|scope| {
            let asking = [(&one, 70), (&two, 10)];
            let asking = asking.map(|(node, times)| scope.spawn(move || asks(node, times)));
            asking.map(|it| it.join().expect("it asks")).iter().sum()
        });
        if period(&one, key)["ends"] != ends {
            continue;
        }
        assert_eq!(allowed, 60, "all of it is used, and no more");
        return;
    }
    panic!("the period ended three times");
}

#[test]
fn what_is_not_allowed_is_refused_with_a_code_and_when_to_try_again() {
    let node = Node::start(&[]);
    let key = format!("{LIMITS}/login");
    let (status, problem) = node.put(&key, r#"{"limit":2,"period_ms":60000}"#);
    assert_eq!((status, &problem["code"]), (409, &json!("no_members")));
    let (status, problem) = allow(&node, "login", 1, 0);
    assert_eq!((status, &problem["code"]), (409, &json!("not_a_member")));
    close(&[&node]);
    let (status, problem) = allow(&node, "login", 1, 0);
    assert_eq!((status, &problem["code"]), (404, &json!("no_limit")));
    for (body, code) in [
        (r#"{"limit":0,"period_ms":60000}"#, "limit_range"),
        (r#"{"limit":1,"period_ms":999}"#, "period_range"),
        (r#"{"limit":1}"#, "body"),
    ] {
        let (status, problem) = node.put(&key, body);
        assert_eq!((status, &problem["code"]), (400, &json!(code)), "{problem}");
    }
    let long = format!("{LIMITS}/{}", "x".repeat(129));
    let (status, problem) = node.put(&long, r#"{"limit":1,"period_ms":1000}"#);
    assert_eq!((status, &problem["code"]), (400, &json!("limit_name")));
    set(&node, "login", 2, 31_622_400_000);
    let key = "login:alice";
    let first = eventually("it may be used", || {
        let (status, answer) = allow(&node, key, 1, 0);
        (status == 200).then_some(answer)
    });
    assert_eq!(
        (&first["key"], &first["name"]),
        (&json!(key), &json!("login"))
    );
    assert_eq!(
        first["left"],
        json!({ "here": "1", "pending": "0", "elsewhere": "0" })
    );
    let path = format!("{LIMITS}/{key}/allow");
    let url = format!("{}{path}", node.url);
    let refused = agent().post(url).send(r#"{"cost":"2"}"#);
    let refused = refused.expect("an answer");
    let headers = refused.headers().clone();
    let (status, problem) = read(refused);
    assert_eq!((status, &problem["code"]), (429, &json!("limit_reached")));
    assert_eq!(problem["ends"], first["ends"], "{problem}");
    assert_eq!(problem["held"]["here"], json!("1"), "{problem}");
    assert_eq!(problem["applied"], json!("no"), "{problem}");
    let wait = headers.get("retry-after").and_then(|it| it.to_str().ok());
    let wait = wait.and_then(|it| it.parse::<u64>().ok());
    assert!(wait.is_some_and(|it| it > 0), "{headers:?}");
    // What was refused changed nothing, and under a key it counts once.
    let once = [("idempotency-key", "k")];
    for _ in 0..2 {
        let (status, answer, _) = post(&node, &path, &once, "");
        assert_eq!(
            (status, &answer["left"]["here"]),
            (200, &json!("0")),
            "{answer}"
        );
    }
    assert_eq!(allow(&node, key, 1, 0).0, 429);
    assert_eq!(allow(&node, "login:bob", 2, 0).0, 200);
    let long = format!("{LIMITS}/login:{}", "x".repeat(440));
    let (status, problem) = node.get(&long);
    assert_eq!((status, &problem["code"]), (400, &json!("limit_key")));
    // No counter, budget or sequence shows any of it.
    for list in ["counters", "budgets", "sequences"] {
        let (_, page) = node.get(&format!("/v1/spaces/default/{list}"));
        assert_eq!(page[list], json!([]), "{page}");
    }
}

#[test]
fn the_command_line_sets_allows_shows_and_removes() {
    let node = Node::start(&[]);
    close(&[&node]);
    let set = ["limit", "set", "login", "--limit", "5", "--period", "366d"];
    assert_eq!(cli(&node, &set), "login\t5 in 1year 18h\n");
    eventually("it may be used", || {
        let output = node.run(&["limit", "allow", "login:alice"], "");
        output.status.success().then_some(())
    });
    assert_eq!(cli(&node, &["limit", "allow", "login:alice", "3"]), "1\n");
    let refused = node.run(&["limit", "allow", "login:alice", "2"], "");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let shown = cli(&node, &["limit", "show", "login:alice"]);
    assert!(
        shown.starts_with("login:alice\tleft: 1 here, 0 elsewhere\tof 5 in "),
        "{shown}"
    );
    let shown = cli(&node, &["limit", "show", "login:alice", "--json"]);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["limit"], json!("5"));
    assert_eq!(cli(&node, &["limit", "remove", "login"]), "");
    let refused = node.run(&["limit", "show", "login:alice"], "");
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
}

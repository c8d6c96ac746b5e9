//! Operations under idempotency keys, and levels, over HTTP on real nodes.

use crate::members::{close, nodes, owner, peers_of};
use crate::process::{Node, agent, eventually, read};
use crate::redis::Redis;
use serde_json::{Value, json};

const LIKES: &str = "/v1/spaces/default/counters/likes";

/// Posts with headers: the status, the JSON, and whether it had been made before.
pub(crate) fn post(
    node: &Node,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, Value, bool) {
    let mut request = agent().post(format!("{}{path}", node.url));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send(body).expect("an answer");
    let again = response.headers().contains_key("idempotent-replayed");
    let (status, answer) = read(response);
    (status, answer, again)
}

pub(crate) fn add_once(node: &Node, key: &str, by: i64) -> (u16, Value, bool) {
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

/// Nobody speaks for others there.
#[test]
fn in_an_open_space_each_node_knows_the_keys_that_it_took() {
    let one = Node::start(&[]);
    let two = Node::start(&["--peer", &one.listen[0]]);
    assert!(!add_once(&one, "a", 5).2);
    eventually("the other has received it", || {
        (two.value("likes") == Some(5)).then_some(())
    });
    assert!(!add_once(&two, "a", 5).2, "it counts again there");
    eventually("both show both", || {
        let both = [&one, &two].map(|node| node.value("likes"));
        (both == [Some(10); 2]).then_some(())
    });
    for node in [&one, &two] {
        assert!(add_once(node, "a", 5).2);
        assert_eq!(node.space()["keyed"], 1);
    }
}

#[test]
fn a_retry_of_what_was_deleted_since_says_that_it_was_made() {
    let node = Node::start(&[]);
    assert_eq!(add_once(&node, "a", 5).0, 200);
    assert_eq!(node.delete(LIKES).0, 200);
    let (status, problem, _) = add_once(&node, "a", 5);
    assert_eq!((status, &problem["code"]), (404, &json!("absent")));
    assert_eq!(problem["applied"], "here", "{problem}");
    let persist = format!("{LIKES}/persist");
    for applied in ["no", "here"] {
        let (_, problem, _) = post(&node, &persist, &[("idempotency-key", "b")], "");
        assert_eq!(problem["applied"], applied, "{problem}");
    }
    assert_eq!(node.value("likes"), None);
}

#[test]
fn what_is_too_much_to_be_remembered_is_refused() {
    let node = Node::start(&[]);
    let line = |at: usize| format!("{at:0500} 1\n");
    let lines: String = (0..300).map(line).collect();
    let bulk = "/v1/spaces/default/add";
    let (status, problem, _) = post(&node, bulk, &[("idempotency-key", "a")], &lines);
    assert_eq!((status, &problem["code"]), (400, &json!("keyed_too_large")));
    assert_eq!(problem["applied"], "no");
    assert_eq!(node.space()["counters"], 0);
    let fewer: String = (0..200).map(line).collect();
    assert_eq!(
        post(&node, bulk, &[("idempotency-key", "a")], &fewer).0,
        200
    );
    assert_eq!(node.space()["counters"], 200);
}

#[test]
fn keys_are_counted_and_known_for_the_window() {
    let mut node = Node::start(&[]);
    for key in ["a", "b", "a", "a"] {
        assert_eq!(add_once(&node, key, 5).0, 200);
    }
    assert_eq!(add_once(&node, "b", 6).0, 422);
    let figures = node.get("/metrics").1;
    let figures = figures.as_str().expect("text");
    for line in [
        "tallymesh_keyed_operations_total{result=\"done\"} 2",
        "tallymesh_keyed_operations_total{result=\"replayed\"} 2",
        "tallymesh_keyed_operations_total{result=\"reused\"} 1",
        "tallymesh_keyed{space=\"default\"} 2",
        "tallymesh_withdrawn{space=\"default\"} 0",
    ] {
        assert!(figures.contains(line), "{line}: {figures}");
    }
    node.terminate();
    node.start_again_with(vec!["--key-window".into(), "1s".into()]);
    eventually("no key is remembered", || {
        (node.space()["keyed"] == 0).then_some(())
    });
    assert!(!add_once(&node, "a", 5).2, "it counts again");
    assert_eq!(node.value("likes"), Some(15));
}

/// A key is dropped once all members have acknowledged it, for which nobody else has to ask.
#[test]
fn members_drop_keys_after_the_window_too() {
    let window = ["--key-window", "1s"];
    let one = Node::start(&window);
    let two = Node::start(&[&window[..], &["--peer", &one.listen[0]]].concat());
    close(&[&one, &two]);
    assert!(!add_once(&one, "a", 5).2);
    assert!(!add_once(&two, "b", 5).2);
    for node in [&one, &two] {
        eventually("no key is remembered", || {
            let done = node.value("likes") == Some(10) && node.space()["keyed"] == 0;
            done.then_some(())
        });
    }
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
    let withdrawn = |node: &&Node| node.space()["withdrawn"].as_u64();
    let withdrawn: u64 = both.iter().filter_map(withdrawn).sum();
    // Either of them, or both at once.
    assert!((1..=2).contains(&withdrawn), "{withdrawn}");
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

/// A member resets and deletes while it is cut off, is killed, and is taken out. Meanwhile the one whose
/// part it had cancelled starts again, so that this part can't be told apart any more. A retry says that,
/// at each member and over each protocol.
#[test]
fn a_retry_of_what_could_not_be_carried_over_says_so() {
    let one = Node::start(&[]);
    let mut two = Node::start(&["--demo", "--resp", "127.0.0.1:0", "--peer", &one.listen[0]]);
    let mut three = Node::start(&["--peer", &one.listen[0], &two.listen[0]]);
    close(&[&one, &two, &three]);
    for key in ["likes", "votes", "stars"] {
        three.add(key, 9);
    }
    eventually("all have it", || {
        let there = |node: &&Node| node.value("stars") == Some(9);
        [&one, &two].iter().all(there).then_some(())
    });
    // A member that is cut off before it has acknowledged the others' starts leaves them without a vote.
    eventually("all have votes", || {
        let headers = [("tallymesh-level", "all"), ("tallymesh-wait-ms", "1000")];
        let (status, _, _) = post(&one, "/v1/spaces/default/counters/any/add", &headers, "");
        (status == 200).then_some(())
    });
    let cut = json!({"cut": true}).to_string();
    assert_eq!(two.post("/v1/demo/cut", &cut).0, 200);
    let reset = |node: &Node| {
        let headers = [
            ("idempotency-key", "a"),
            ("tallymesh-level", "quorum"),
            ("tallymesh-wait-ms", "300"),
        ];
        let (status, answer, _) = post(node, &format!("{LIKES}/reset"), &headers, "");
        (status, answer["code"].clone(), answer["applied"].clone())
    };
    let here = json!("here");
    assert_eq!(reset(&two), (503, json!("level_not_reached"), here.clone()));
    let mut redis = Redis::connect(&two);
    redis.ask(&["ONCE", "b", "DEL", "votes"]);
    let command = ["reset", "stars", "--once", "c"];
    assert!(two.run(&command, "").status.success());
    assert_eq!((two.value("likes"), two.value("votes")), (Some(0), None));
    let out = json!({ "owner": owner(&two), "wait_ms": 20_000 }).to_string();
    two.kill();
    let change = |path: &str| {
        let (status, answer) = one.post(&format!("/v1/spaces/default/members/{path}"), &out);
        assert_eq!(status, 200, "{answer}");
    };
    change("remove");
    three.kill();
    three.start_again_with(peers_of(&[&one]));
    eventually("earlier writers were taken over", || {
        let told = one.get("/v1/spaces/default/writers").1;
        let rows = told["writers"].as_array()?.clone();
        let living = rows.iter().all(|it| it["fate"] == "living");
        (living && rows.len() == 2).then_some(())
    });
    let mut arguments = peers_of(&[&one, &three]);
    arguments.extend(["--resp", "127.0.0.1:0"].map(str::to_owned));
    two.start_again_with(arguments);
    change("add");
    // Before that a retry is made anew, with all of its effect.
    eventually("it has made them again", || {
        two.log().contains("weaker=3").then_some(())
    });
    eventually("all have received it", || {
        let digest = |node: &Node| node.space()["digest"].clone();
        let same = [&one, &three]
            .iter()
            .all(|node| digest(node) == digest(&two));
        same.then_some(())
    });
    let weaker = (409, json!("made_weaker"), here);
    for node in [&two, &one, &three] {
        eventually("the retry says so", || {
            (reset(node) == weaker).then_some(())
        });
        assert_eq!(node.value("likes"), Some(9));
    }
    let output = one.run(&command, "");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && told.contains("begin again"),
        "{told}"
    );
    let mut redis = Redis::connect(&two);
    let told = redis
        .text(&["ONCE", "b", "DEL", "votes"])
        .unwrap_or_default();
    assert!(told.starts_with("MADEWEAKER "), "{told}");
}

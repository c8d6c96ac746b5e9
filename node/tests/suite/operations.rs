//! Cancels, expiries and transactions over HTTP, at one node and at several.

use crate::process::{Node, agent, eventually};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::time::{SystemTime, UNIX_EPOCH};

const SPACE: &str = "/v1/spaces/default";

fn path(key: &str) -> String {
    format!("{SPACE}/counters/{key}")
}

fn transact(node: &Node, ops: Value) -> (u16, Value) {
    let body = json!({ "ops": ops }).to_string();
    node.post(&format!("{SPACE}/transactions"), &body)
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.expect("after 1970").as_millis()).expect("before the end")
}

/// The server-sent events of the default space from now on: the name, if there is one, and the data.
fn events(node: &Node, query: &str) -> impl Iterator<Item = (String, Value)> + use<> {
    let url = format!("{}{SPACE}/events{query}", node.url);
    let response = agent().get(url).call().expect("a stream");
    let mut lines = BufReader::new(response.into_body().into_reader()).lines();
    std::iter::from_fn(move || {
        let mut name = String::new();
        loop {
            let line = lines.next()?.expect("a line");
            if let Some(text) = line.strip_prefix("event: ") {
                name = text.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data).expect("JSON")));
            }
        }
    })
}

#[test]
fn a_counter_is_set_reset_and_deleted() {
    let node = Node::start(&[]);
    let likes = path("likes");
    assert_eq!(
        node.put(&likes, r#"{"value":"10"}"#),
        (
            200,
            json!({"key": "likes", "existed": false, "value": "10"})
        )
    );
    node.add("likes", 5);
    assert_eq!(node.value("likes"), Some(15));
    assert_eq!(
        node.put(&likes, r#"{"value":-3}"#).1,
        json!({"key": "likes", "existed": true, "value": "-3"})
    );
    assert_eq!(
        node.post(&format!("{likes}/reset"), ""),
        (200, json!({"key": "likes", "existed": true, "value": "0"}))
    );
    assert_eq!(node.value("likes"), Some(0));
    assert_eq!(
        node.delete(&likes),
        (200, json!({"key": "likes", "existed": true}))
    );
    assert_eq!(node.get(&likes).1["code"], "absent");
    let digest = node.space()["digest"].clone();
    assert_eq!(
        node.delete(&likes),
        (200, json!({"key": "likes", "existed": false}))
    );
    assert_eq!(node.space()["digest"], digest, "nothing was done");
    node.add("likes", 2);
    assert_eq!(node.value("likes"), Some(2), "nothing is there again");
    assert_eq!(node.space()["counters"], 1);
    let metrics = node.get("/metrics").1.as_str().expect("text").to_owned();
    for line in [
        "tallymesh_operations_total{op=\"set\"} 2\n",
        "tallymesh_operations_total{op=\"reset\"} 1\n",
        "tallymesh_operations_total{op=\"delete\"} 2\n",
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }
}

#[test]
fn an_expiry_shows_and_is_taken_away() {
    let node = Node::start(&[]);
    let likes = path("likes");
    let expire = format!("{likes}/expire");
    let (status, problem) = node.post(&expire, r#"{"in_ms":"60000"}"#);
    assert_eq!((status, &problem["code"]), (404, &json!("absent")));
    assert_eq!(problem["applied"], "no");
    node.add("likes", 5);
    let at = now() + 3_600_000;
    let expected = json!({"key": "likes", "value": "5", "expires_at": at.to_string()});
    let (status, done) = node.post(&expire, &format!(r#"{{"at":"{at}"}}"#));
    assert_eq!((status, &done["existed"]), (200, &json!(true)));
    assert_eq!(done["expires_at"], expected["expires_at"]);
    assert_eq!(node.get(&likes), (200, expected.clone()));
    let page = node.get(&format!("{SPACE}/counters")).1;
    assert_eq!(page["counters"], json!([expected]));
    assert_eq!(node.space()["expiring"], 1);

    let (before, done) = (now(), node.post(&expire, r#"{"in_ms":60000}"#).1);
    let at: u64 = done["expires_at"]
        .as_str()
        .expect("text")
        .parse()
        .expect("a number");
    assert!((before + 60_000..=now() + 60_000).contains(&at), "{at}");

    let persist = format!("{likes}/persist");
    let persisted = |had: bool| json!({"key": "likes", "had_expiry": had, "value": "5"});
    assert_eq!(node.post(&persist, ""), (200, persisted(true)));
    assert_eq!(node.post(&persist, ""), (200, persisted(false)));
    assert_eq!(node.get(&likes).1, json!({"key": "likes", "value": "5"}));
    assert_eq!(
        node.post(&format!("{SPACE}/counters/none/persist"), "").0,
        404
    );
    assert_eq!(node.space()["expiring"], 0);
}

#[test]
fn what_expires_is_deleted_at_every_node_and_told_of() {
    let one = Node::start(&[]);
    let two = Node::start(&["--peer", &one.listen[0]]);
    one.add("short", 5);
    one.add("long", 5);
    eventually("both have it", || {
        (two.value("long") == Some(5)).then_some(())
    });
    let mut told = [&one, &two].map(|node| events(node, "?key=short"));
    let at = now() + 700;
    let body = format!(r#"{{"at":{at}}}"#);
    assert_eq!(one.post(&format!("{}/expire", path("short")), &body).0, 200);
    assert_eq!(
        one.post(&format!("{}/expire", path("long")), r#"{"in_ms":3600000}"#)
            .0,
        200
    );
    for events in &mut told {
        let (_, change) = events.next().expect("the expiry");
        let expected = json!({"key": "short", "value": "5", "expires_at": at.to_string()});
        assert_eq!(change, expected);
        let (_, change) = events.next().expect("the end");
        assert_eq!(change, json!({"key": "short", "value": null}));
        assert!(now() >= at, "it expired too early");
    }
    for node in [&one, &two] {
        assert_eq!((node.value("short"), node.value("long")), (None, Some(5)));
    }
    eventually("both hold the same and expect no more", || {
        let spaces = [one.space(), two.space()];
        let same = spaces[0]["digest"] == spaces[1]["digest"];
        let one_left = spaces.iter().all(|space| space["expiring"] == 1);
        (same && one_left).then_some(())
    });
    // A new life starts from nothing and does not expire.
    two.add("short", 1);
    let (_, change) = told[0].next().expect("the new life");
    assert_eq!(change, json!({"key": "short", "value": "1"}));
}

#[test]
fn what_expired_while_the_node_was_down_is_deleted_at_its_start() {
    let mut node = Node::start(&[]);
    for key in ["short", "long"] {
        node.add(key, 5);
    }
    let at = now() + 300;
    let body = format!(r#"{{"at":{at}}}"#);
    assert_eq!(
        node.post(&format!("{}/expire", path("short")), &body).0,
        200
    );
    assert_eq!(
        node.post(&format!("{}/expire", path("long")), r#"{"in_ms":3600000}"#)
            .0,
        200
    );
    node.kill();
    eventually("the time comes", || (now() > at).then_some(()));
    node.start_again();
    assert_eq!((node.value("short"), node.value("long")), (None, Some(5)));
    eventually("it is deleted", || {
        let metrics = node.get("/metrics").1.as_str()?.to_owned();
        metrics
            .contains("tallymesh_expired_total 1\n")
            .then_some(())
    });
    assert_eq!(node.space()["expiring"], 1);
}

#[test]
fn a_transaction_is_done_as_a_whole() {
    let node = Node::start(&[]);
    node.add("gone", 7);
    node.add("kept", 7);
    let (status, answer) = transact(
        &node,
        json!([
            {"op": "add", "key": "a", "by": "2"},
            {"op": "add", "key": "a"},
            {"op": "set", "key": "b", "value": 2},
            {"op": "delete", "key": "gone"},
            {"op": "reset", "key": "kept"},
            {"op": "expire", "key": "kept", "at": "4102444800000"},
            {"op": "persist", "key": "b"},
            {"op": "delete", "key": "never"},
        ]),
    );
    assert_eq!(status, 200, "{answer}");
    let kept = json!({"key": "kept", "existed": true, "value": "0", "expires_at": "4102444800000"});
    let expected = json!([
        {"key": "a", "existed": false, "value": "3"},
        {"key": "a", "existed": true, "value": "3"},
        {"key": "b", "existed": false, "value": "2"},
        {"key": "gone", "existed": true},
        kept,
        kept,
        {"key": "b", "had_expiry": false, "value": "2"},
        {"key": "never", "existed": false},
    ]);
    assert_eq!(answer["results"], expected);
    assert_eq!(node.space()["clock"], "3", "it is one transaction");
    assert_eq!(transact(&node, json!([])), (200, json!({"results": []})));
}

#[test]
fn a_refused_transaction_names_the_operation_and_changes_nothing() {
    let node = Node::start(&[]);
    node.add("full", i64::MAX);
    let digest = node.space()["digest"].clone();
    let long = "k".repeat(513);
    // The one that is wrong is in the middle of many that are not.
    let filled = |wrong: Value, at: usize, count: usize| -> Value {
        let good = |number: usize| json!({"op": "add", "key": format!("good{number}"), "by": 1});
        let ops = (0..count).map(|n| if n == at { wrong.clone() } else { good(n) });
        ops.collect()
    };
    for (wrong, status, code) in [
        (json!({"op": "add", "key": "full"}), 409, "overflow"),
        (json!({"op": "add", "key": long}), 400, "key_length"),
        (json!({"op": "delete", "key": ""}), 400, "key_length"),
        (
            json!({"op": "expire", "key": "x", "at": "8640000000000001"}),
            400,
            "expiry_range",
        ),
        (json!({"op": "add", "key": "x", "by": 1.5}), 400, "amount"),
        (json!({"op": "incr", "key": "x"}), 400, "body"),
    ] {
        for (at, count) in [
            (0, 1),
            (0, 3),
            (1, 3),
            (2, 3),
            (777, 10_000),
            (9_999, 10_000),
        ] {
            let (got, problem) = transact(&node, filled(wrong.clone(), at, count));
            let said = (got, problem["code"].as_str(), problem["op"].as_u64());
            assert_eq!(said, (status, Some(code), Some(at as u64)), "{problem}");
            assert_eq!(problem["applied"], "no");
        }
    }
    let (status, problem) = transact(&node, filled(json!({"op": "reset", "key": "x"}), 0, 10_001));
    assert_eq!(
        (status, &problem["code"]),
        (400, &json!("transaction_too_large"))
    );
    assert!(
        problem["detail"]
            .as_str()
            .is_some_and(|text| text.contains("10000"))
    );
    assert_eq!(node.space()["digest"], digest);
    assert_eq!(node.space()["counters"], 1);
    assert_eq!(
        transact(&node, filled(json!({"op": "reset", "key": "x"}), 0, 10_000)).0,
        200
    );
}

#[test]
fn what_is_wrong_with_an_operation_is_said() {
    let node = Node::start(&[]);
    node.add("k", 1);
    let key = path("k");
    for (answer, status, code) in [
        (node.put(&key, ""), 400, "body"),
        (node.put(&key, r#"{"value":"ten"}"#), 400, "amount"),
        (node.put(&key, r#"{"value":1,"by":1}"#), 400, "body"),
        (
            node.put(&path(&"k".repeat(513)), r#"{"value":1}"#),
            400,
            "key_length",
        ),
        (node.delete(&path(&"k".repeat(513))), 400, "key_length"),
        (node.post(&format!("{key}/expire"), ""), 400, "body"),
        (
            node.post(&format!("{key}/expire"), r#"{"at":1,"in_ms":1}"#),
            400,
            "body",
        ),
        (
            node.post(&format!("{key}/expire"), r#"{"in_ms":"1h"}"#),
            400,
            "millis",
        ),
        (
            node.post(
                &format!("{key}/expire"),
                r#"{"in_ms":"18446744073709551615"}"#,
            ),
            400,
            "expiry_range",
        ),
        (
            node.put(&format!("{key}/reset"), "{}"),
            405,
            "method_not_allowed",
        ),
    ] {
        let (got, problem) = answer;
        assert_eq!(
            (got, problem["code"].as_str()),
            (status, Some(code)),
            "{problem}"
        );
    }
    assert_eq!(node.value("k"), Some(1));
}

#[test]
fn a_bulk_add_over_the_limit_of_a_transaction_is_still_all_or_none() {
    let node = Node::start(&[]);
    let bulk = format!("{SPACE}/add");
    // What is refused has its place behind more counters than one transaction takes.
    let lines = |count: usize| -> String { (0..count).map(|n| format!("k{n} 1\n")).collect() };
    assert_eq!(node.post(&bulk, &lines(15_000)).0, 200);
    node.add("full", i64::MAX);
    let mut lines = lines(25_000);
    let digest = node.space()["digest"].clone();
    let (status, problem) = node.post(&bulk, &format!("{lines}full 1\n"));
    assert_eq!((status, &problem["code"]), (409, &json!("overflow")));
    assert_eq!(problem["line"], 25_001, "{problem}");
    assert_eq!(node.space()["digest"], digest);
    lines.push_str("k7 5\n");
    assert_eq!(node.post(&bulk, &lines), (200, json!({"lines": 25_001})));
    assert_eq!(node.space()["counters"], 25_001);
    assert_eq!((node.value("k7"), node.value("k24999")), (Some(7), Some(1)));
}

#[test]
fn events_tell_of_what_is_absent_and_of_expiries() {
    let node = Node::start(&[]);
    let mut all = events(&node, "");
    node.add("a", 5);
    assert_eq!(
        all.next().expect("an event").1,
        json!({"key": "a", "value": "5"})
    );
    node.delete(&path("a"));
    let gone = json!({"key": "a", "value": null});
    assert_eq!(all.next().expect("an event"), (String::new(), gone));
    transact(
        &node,
        json!([
            {"op": "set", "key": "a", "value": 1},
            {"op": "expire", "key": "a", "at": 4_102_444_800_000u64}
        ]),
    );
    let expires = json!({"key": "a", "value": "1", "expires_at": "4102444800000"});
    assert_eq!(all.next().expect("an event").1, expires);
    node.post(&format!("{}/persist", path("a")), "");
    assert_eq!(
        all.next().expect("an event").1,
        json!({"key": "a", "value": "1"})
    );
    // Expired at once: never seen again.
    node.post(&format!("{}/expire", path("a")), r#"{"at":0}"#);
    assert_eq!(node.value("a"), None);
    assert_eq!(
        all.next().expect("an event").1,
        json!({"key": "a", "value": null})
    );
}

#[test]
fn a_reader_that_is_too_slow_is_told_the_newest_values_of_what_changed() {
    let node = Node::start(&[]);
    let mut slow = events(&node, "");
    // More than sockets hold, and each time more than is kept for a reader: so it is behind.
    let name = "x".repeat(400);
    for part in 0..4 {
        let lines: String = (0..15_000).map(|n| format!("{part}{name}{n}\n")).collect();
        assert_eq!(node.post(&format!("{SPACE}/add"), &lines).0, 200);
    }
    node.add("deleted", 1);
    node.delete(&path("deleted"));
    for n in 0..300 {
        node.add("busy", n);
    }
    let mut after = std::collections::BTreeMap::new();
    let newest = json!((0..300).sum::<i64>().to_string());
    while after.len() < 60_001 || after.get("busy") != Some(&newest) {
        let (event, data) = slow.next().expect("an event");
        assert_eq!(event, "", "no skip");
        let key = data["key"].as_str().expect("a key").to_owned();
        match &data["value"] {
            Value::Null => after.remove(&key),
            value => after.insert(key, value.clone()),
        };
    }
    assert!(!after.contains_key("deleted"));
    after.remove("busy");
    assert!(after.values().all(|value| *value == "1"));
}

#[test]
fn writers_are_listed_with_their_clocks() {
    let one = Node::start(&[]);
    let two = Node::start(&["--peer", &one.listen[0]]);
    one.add("a", 1);
    one.add("a", 1);
    two.add("a", 1);
    eventually("both counted", || (one.value("a") == Some(3)).then_some(()));
    let rows = one.get(&format!("{SPACE}/writers")).1["writers"].clone();
    let row = |node: &Node, clock: &str, own: bool| json!({"writer": node.space()["writer"], "clock": clock, "own": own});
    let mut expected = [row(&one, "2", true), row(&two, "1", false)];
    expected.sort_by_key(|row| row["writer"].to_string());
    assert_eq!(rows, json!(expected));
}

#[test]
fn cancels_and_transactions_reach_other_nodes() {
    let one = Node::start(&[]);
    let two = Node::start(&["--peer", &one.listen[0]]);
    for key in ["a", "b", "c", "d"] {
        one.add(key, 5);
    }
    eventually("both have them", || {
        (two.value("d") == Some(5)).then_some(())
    });
    let ops = json!([
        {"op": "delete", "key": "a"},
        {"op": "reset", "key": "b"},
        {"op": "set", "key": "c", "value": 9},
        {"op": "add", "key": "d", "by": 1},
    ]);
    assert_eq!(transact(&two, ops).0, 200);
    eventually("all of it is seen", || {
        let values = ["a", "b", "c", "d"].map(|key| one.value(key));
        (values == [None, Some(0), Some(9), Some(6)]).then_some(())
    });
    assert_eq!(one.space()["digest"], two.space()["digest"]);
}

//! Sequences of numbers over HTTP and on the command line, on real nodes.

use crate::events::Stream;
use crate::members::{close, nodes, peers_of};
use crate::once::post;
use crate::process::{Node, eventually};
use crate::redis::Redis;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::thread;

const VISITS: &str = "/v1/spaces/default/sequences/visits";

/// Asks a node for the next number, and waits for one.
fn next(node: &Node) -> (u16, Value) {
    let wait = [("tallymesh-rights-wait-ms", "20000")];
    let (status, answer, _) = post(node, &format!("{VISITS}/next"), &wait, "");
    (status, answer)
}

fn number(answer: &Value) -> u64 {
    let number = answer["number"].as_str().and_then(|it| it.parse().ok());
    number.unwrap_or_else(|| panic!("{answer}"))
}

/// What a command prints.
fn cli(node: &Node, arguments: &[&str]) -> String {
    let output = node.run(arguments, "");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{output:?}");
    printed
}

/// A number of a field of what a node knows.
fn known(node: &Node, field: &str) -> u64 {
    let answer = node.get(VISITS).1;
    let number = answer[field].as_str().and_then(|it| it.parse().ok());
    number.unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn each_number_is_handed_out_once_at_three_nodes_one_of_which_is_killed() {
    let mut nodes = nodes(3);
    close(&nodes.iter().collect::<Vec<_>>());
    let (status, answer) = nodes[0].post(VISITS, "");
    assert_eq!((status, &answer["next"]), (200, &json!("1")), "{answer}");
    for node in &nodes {
        eventually("all have received it", || {
            (node.get(VISITS).0 == 200).then_some(())
        });
    }
    let draw = |nodes: &[Node]| -> Vec<u64> {
        thread::scope(|scope| {
            let clients = nodes.iter().flat_map(|node| [node; 2]).map(|node| {
                scope.spawn(move || {
                    let numbers = (0..50).map(|_| next(node));
                    let good = numbers.map(|(status, answer)| {
                        assert_eq!(status, 200, "{answer}");
                        number(&answer)
                    });
                    good.collect::<Vec<u64>>()
                })
            });
            let clients: Vec<_> = clients.collect();
            clients
                .into_iter()
                .flat_map(|it| it.join().expect("it draws"))
                .collect()
        })
    };
    let mut all = draw(&nodes);
    // The member that gives numbers ends, and starts again.
    nodes[0].kill();
    let peers = peers_of(&[&nodes[1], &nodes[2]]);
    nodes[0].start_again_with(peers);
    let first = eventually("it is a member again", || {
        let (status, answer) = next(&nodes[0]);
        (status == 200).then(|| number(&answer))
    });
    all.push(first);
    all.extend(draw(&nodes));
    let different: BTreeSet<u64> = all.iter().copied().collect();
    assert_eq!((different.len(), all.len()), (601, 601));
    // All agree in the end, on what is true.
    eventually("all know the same", || {
        let known = nodes
            .iter()
            .map(|node| node.get(VISITS).1["issued"].clone());
        let known: BTreeSet<String> = known.map(|it| it.to_string()).collect();
        (known.len() == 1).then_some(())
    });
    let (least, most) = (known(&nodes[1], "issued"), known(&nodes[1], "next") - 1);
    assert!(least <= 601 && 601 <= most, "{least} to {most}");
    assert!(different.last().is_some_and(|last| *last <= most));
}

#[test]
fn what_can_t_be_handed_out_is_refused_with_a_code() {
    let node = Node::start(&[]);
    let (status, problem) = node.post(VISITS, "");
    assert_eq!((status, &problem["code"]), (409, &json!("not_a_member")));
    close(&[&node]);
    let (status, problem) = next(&node);
    assert_eq!((status, &problem["code"]), (404, &json!("no_sequence")));
    assert_eq!(node.get(VISITS).0, 404);
    assert_eq!(node.post(VISITS, "").0, 200);
    let (status, problem) = node.post(VISITS, "");
    assert_eq!((status, &problem["code"]), (409, &json!("sequence_exists")));
    assert_eq!(number(&next(&node).1), 1);
    let key = [("idempotency-key", "k")];
    let (status, problem, _) = post(&node, &format!("{VISITS}/next"), &key, "");
    assert_eq!((status, &problem["code"]), (400, &json!("number_once")));
    let long = format!("/v1/spaces/default/sequences/{}", "x".repeat(462));
    let (status, problem) = node.post(&long, "");
    assert_eq!((status, &problem["code"]), (400, &json!("sequence_name")));
    // With a count, in one transaction; and a number is handed out to one of both only.
    let body = r#"{"ops":[{"op":"add","key":"likes"},{"op":"next","key":"visits"}]}"#;
    let wait = [("tallymesh-rights-wait-ms", "20000")];
    let (status, answer, _) = post(&node, "/v1/spaces/default/transactions", &wait, body);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(
        answer["results"][1],
        json!({ "key": "visits", "number": "2" })
    );
}

#[test]
fn the_command_line_begins_hands_out_and_shows() {
    let node = Node::start(&[]);
    close(&[&node]);
    assert_eq!(
        cli(&node, &["sequence", "begin", "visits"]),
        "visits begins\n"
    );
    assert_eq!(cli(&node, &["sequence", "next", "visits"]), "1\n");
    assert_eq!(cli(&node, &["sequence", "next", "visits"]), "2\n");
    let shown = cli(&node, &["sequence", "show", "visits"]);
    assert!(
        shown.starts_with("visits\thanded out 2 at least, "),
        "{shown}"
    );
    assert_eq!(cli(&node, &["sequence", "list", "v"]), "visits\t2\n");
    assert_eq!(cli(&node, &["sequence", "list", "w"]), "");
}

/// What a node knows of a number that is watched.
fn watch_of(node: &Node, number: &str) -> Option<Value> {
    let answer = node.get(VISITS).1;
    let mut watched = answer["watched"].as_array()?.iter();
    watched.find(|it| it["number"] == number).cloned()
}

#[test]
fn a_watched_number_is_told_of_until_that_is_taken_note_of() {
    let mut nodes = nodes(3);
    close(&nodes.iter().collect::<Vec<_>>());
    assert_eq!(nodes[0].post(VISITS, "").0, 200);
    eventually("the others have received it", || {
        (nodes[2].get(VISITS).0 == 200).then_some(())
    });
    let mut events = Stream::open(&nodes[1], "?key=visits", None);
    let (status, answer) = nodes[2].put(&format!("{VISITS}/watches/9"), "");
    assert_eq!(status, 200, "{answer}");
    assert_eq!(
        answer["watched"],
        json!([{ "number": "9", "state": "open", "own": false }])
    );
    eventually("who gives numbers has received it", || {
        watch_of(&nodes[0], "9")
    });
    // The ninth that asks is the one who gets the number, at whatever node that is.
    for rank in 1..=9 {
        let (status, answer) = next(&nodes[rank % 3]);
        assert_eq!((status, number(&answer)), (200, rank as u64));
        assert_eq!(answer["watched"] == true, rank == 9, "{answer}");
    }
    let told = loop {
        let told = events.next();
        let data = told.data.unwrap_or_default();
        if told.name.as_deref() == Some("sequence") && data["watched"][0]["state"] != "open" {
            break data["watched"][0].clone();
        }
    };
    assert_eq!(
        (&told["state"], &told["below"]),
        (&json!("handed_out"), &json!("0"))
    );
    assert_eq!(
        (&told["number"], &told["own"]),
        (&json!("9"), &json!(false))
    );
    // It was node 0, which is told so until the watch is ended, whatever happens in between.
    let own = watch_of(&nodes[0], "9").expect("it is watched");
    assert_eq!(
        (&own["own"], &own["writer"]),
        (&json!(true), &told["writer"])
    );
    nodes[0].kill();
    let peers = peers_of(&[&nodes[1], &nodes[2]]);
    nodes[0].start_again_with(peers);
    let again = watch_of(&nodes[0], "9").expect("it is watched still");
    assert_eq!(
        (&again["state"], &again["writer"]),
        (&told["state"], &told["writer"])
    );
    let (status, answer) = nodes[1].delete(&format!("{VISITS}/watches/9"));
    assert_eq!((status, &answer["watched"]), (200, &json!([])), "{answer}");
    eventually("all have heard that it is ended", || {
        let open = nodes.iter().any(|it| watch_of(it, "9").is_some());
        (!open).then_some(())
    });
}

#[test]
fn what_can_t_be_watched_is_refused_with_a_code() {
    let node = Node::start(&[]);
    let (status, problem) = node.put(&format!("{VISITS}/watches/5"), "");
    assert_eq!((status, &problem["code"]), (409, &json!("not_a_member")));
    close(&[&node]);
    let (status, problem) = node.put(&format!("{VISITS}/watches/5"), "");
    assert_eq!((status, &problem["code"]), (404, &json!("no_sequence")));
    assert_eq!(node.post(VISITS, "").0, 200);
    for wrong in ["0", "-1", "x", "9223372036854775807"] {
        let (status, problem) = node.put(&format!("{VISITS}/watches/{wrong}"), "");
        assert_eq!((status, &problem["code"]), (400, &json!("number_range")));
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(&format!("`{wrong}`")), "{problem}");
    }
    for number in 1..=64 {
        assert_eq!(node.put(&format!("{VISITS}/watches/{number}"), "").0, 200);
    }
    let (status, problem) = node.put(&format!("{VISITS}/watches/65"), "");
    assert_eq!((status, &problem["code"]), (409, &json!("watches_full")));
    assert_eq!(node.put(&format!("{VISITS}/watches/64"), "").0, 200);
}

#[test]
fn the_command_line_waits_for_a_watched_number() {
    let node = Node::start(&[]);
    close(&[&node]);
    cli(&node, &["sequence", "begin", "visits"]);
    let set = ["sequence", "watch", "visits", "3", "--no-wait"];
    assert_eq!(cli(&node, &set), "3 of visits is watched\n");
    let told = thread::scope(|scope| {
        let waiting = scope.spawn(|| cli(&node, &["sequence", "watch", "visits", "3"]));
        for _ in 0..3 {
            cli(&node, &["sequence", "next", "visits"]);
        }
        waiting.join().expect("it is told")
    });
    assert_eq!(told, "3 of visits was handed out by this node\n");
    let shown = cli(&node, &["sequence", "show", "visits"]);
    assert!(shown.ends_with(&format!("  watch\t{told}")), "{shown}");
    let ended = cli(&node, &["sequence", "unwatch", "visits", "3"]);
    assert_eq!(ended, "3 of visits is not watched\n");
    let refused = node.run(&["sequence", "watch", "visits", "0"], "");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}

#[test]
fn redis_clients_are_handed_numbers() {
    let node = Node::start(&["--resp", "127.0.0.1:0"]);
    close(&[&node]);
    let mut redis = Redis::connect(&node);
    let mut text = |words: &[&str]| redis.text(words).unwrap_or_default();
    assert_eq!(text(&["SEQUENCE.BEGIN", "visits"]), "OK");
    assert_eq!(text(&["SEQUENCE.WATCH", "visits", "2"]), "OK");
    assert_eq!(text(&["CLIENT", "RIGHTS-WAIT", "20000"]), "OK");
    assert_eq!(redis.integer(&["SEQUENCE.NEXT", "visits"]), 1);
    assert_eq!(redis.integer(&["SEQUENCE.NEXT", "visits"]), 2);
    let refused = redis.text(&["ONCE", "k", "SEQUENCE.NEXT", "visits"]);
    assert!(refused.is_some_and(|it| it.contains("anew each time")));
    assert_eq!(
        watch_of(&node, "2").map(|it| it["state"].clone()),
        Some(json!("handed_out"))
    );
    assert_eq!(redis.integer(&["SEQUENCE.NEXT", "visits"]), 3);
}

//! Comparing replicas, of which one tells something else than it heard.

use crate::liar::Liar;
use crate::members::{close, nodes};
use crate::process::{Node, eventually};
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tallymesh_core::wire::{AuditAnswer, AuditQuestion, AuditedPage};
use tallymesh_core::{Encode, Replica, Shard, Space, VersionVector, WriterId};
use tallymesh_node::store::{Kind, Log, Record, Store};

fn audit(node: &Node, arguments: &[&str]) -> (Option<i32>, Vec<Value>, String) {
    let output: Output = Command::new(env!("CARGO_BIN_EXE_tallymesh"))
        .args(["audit", "--json", "--node", &node.url])
        .args(arguments)
        .output()
        .expect("run the command");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), lines.collect(), said)
}

fn bytes_of<const N: usize>(hex: &str) -> [u8; N] {
    let digits = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex digits");
    std::array::from_fn(digits)
}

/// Makes a folder in which a writer, who added 1 to `a` and 2 to `b`, added this to `b`.
fn forge(folder: &Path, writer: &str, second: i64) {
    let id = WriterId::from_bytes(bytes_of(writer));
    let mut replica = Replica::new(Space::default(), id);
    replica.add("a", 1).expect("an add");
    replica.add("b", second).expect("an add");
    let mut log = Log::open(folder, &mut |_| ()).expect("a new folder");
    log.identity([9; 32]).expect("a key");
    let message = replica.delta(&VersionVector::default());
    log.commit(&[Record {
        space: Space::default(),
        kind: Kind::Change,
        bytes: message.encode_stored(),
    }])
    .expect("written");
}

#[test]
fn who_tells_something_else_at_the_same_vector_is_found_and_left_as_it_is() {
    let node = Node::start(&[]);
    node.add("a", 1);
    node.add("b", 2);
    let own = node.data();
    let own = own.to_str().expect("a path in UTF-8");
    let (code, lines, said) = audit(&node, &["--data", own]);
    assert_eq!(code, Some(0), "{lines:?} {said}");
    assert_eq!(
        (&lines[0]["counters"], &lines[0]["differences"]),
        (&2.into(), &0.into())
    );

    let writer = node.space()["writer"].as_str().expect("an id").to_owned();
    let place = tempfile::tempdir().expect("temporary folder");
    let forged = place.path().join("forged");
    forge(&forged, &writer, 20);
    let forged = forged.to_str().expect("a path in UTF-8");
    let other = Node::start_on(&[], |folder| forge(folder, &writer, 20));
    assert_eq!(other.value("b"), Some(20));
    for place in [["--data", forged], ["--with", &other.url]] {
        let (code, lines, said) = audit(&node, &place);
        assert_eq!(code, Some(1), "{lines:?}");
        assert!(said.contains("differs"), "{said}");
        let found = [
            &lines[0]["key"],
            &lines[0]["writer"],
            &lines[0]["here"],
            &lines[0]["there"],
        ];
        assert_eq!(found, ["b", writer.as_str(), "2", "20"], "{lines:?}");
        assert_eq!(lines[1]["differences"], 1);
        // Not among the keys that are asked for.
        let (code, lines, _) = audit(&node, &["a", place[0], place[1]]);
        assert_eq!(
            (code, &lines[0]["counters"]),
            (Some(0), &1.into()),
            "{lines:?}"
        );
    }
    assert_eq!((node.value("b"), other.value("b")), (Some(2), Some(20)));

    // Who holds something else can't be compared.
    other.add("c", 1);
    let (code, lines, said) = audit(&node, &["--with", &other.url]);
    assert_eq!((code, &lines[0]["compared"]), (Some(1), &false.into()));
    assert!(said.contains("not_compared"), "{said}");
}

#[test]
fn connected_nodes_are_compared_by_themselves() {
    let one = Node::start(&["--demo"]);
    let (code, lines, said) = audit(&one, &[]);
    assert_eq!((code, lines.len()), (Some(1), 0), "{lines:?}");
    assert!(said.contains("not_compared"), "{said}");
    let two = Node::start(&["--peer", &one.listen[0]]);
    // More than one page, and one with a prefix.
    let lines: String = (0..1_200).map(|at| format!("k{at:04} 1\n")).collect();
    assert_eq!(one.post("/v1/spaces/default/add", &lines).0, 200);
    two.add("likes", 5);
    eventually("both hold the same", || {
        let same = one.space()["digest"] == two.space()["digest"];
        (same && two.space()["counters"] == 1_201).then_some(())
    });
    for (node, other) in [(&one, &two), (&two, &one)] {
        for (prefix, counters) in [("", 1_201), ("k00", 100), ("x", 0)] {
            let (code, lines, said) = audit(node, &[prefix]);
            assert_eq!(code, Some(0), "{lines:?} {said}");
            let found = (
                &lines[0]["with"],
                &lines[0]["counters"],
                &lines[0]["differences"],
            );
            let expected = (&Value::from(&*other.peer_id), &counters.into(), &0.into());
            assert_eq!((found, lines.len()), (expected, 1), "{lines:?}");
        }
    }
    let path = "/v1/spaces/default/audit?peer=";
    let (status, problem) = one.get(&format!("{path}x"));
    assert_eq!((status, &problem["code"]), (400, &"peer".into()));
    let long = format!("{path}{}&prefix={}", two.peer_id, "k".repeat(513));
    let (status, problem) = one.get(&long);
    assert_eq!((status, &problem["code"]), (400, &"query".into()));
    assert_eq!(one.post("/v1/demo/cut", r#"{"cut":true}"#).0, 200);
    let (status, problem) = one.get(&format!("{path}{}", two.peer_id));
    assert_eq!(
        (status, &problem["code"]),
        (404, &"peer_not_connected".into())
    );
}

/// What a peer claims to show of two counters: 1 in `a`, and this in `b`.
fn claim(digest: [u8; 16], writer: &str, second: i128) -> Vec<u8> {
    let shard = |clock, total| Shard {
        writer: WriterId::from_bytes(bytes_of(writer)),
        clock,
        total,
    };
    let counters = vec![
        ("a".to_owned(), vec![shard(1, 1)]),
        ("b".to_owned(), vec![shard(2, second)]),
    ];
    let more = false;
    AuditAnswer::Page(AuditedPage {
        digest,
        counters,
        more,
    })
    .encode()
}

#[test]
fn a_connected_node_that_tells_something_else_is_found_and_left_as_it_is() {
    let node = Node::start(&[]);
    node.add("a", 1);
    node.add("b", 2);
    let writer = node.space()["writer"].as_str().expect("an id").to_owned();
    let digest = bytes_of(node.space()["digest"].as_str().expect("a digest"));
    let liar = Liar::start(&node);
    liar.send_hello(digest);
    let known = || {
        let row = node.peers().into_iter().next()?;
        (row["peer"] == liar.peer_id() && row["state"] == "ready").then_some(())
    };
    eventually("it has sent its hello", known);

    liar.answers(claim(digest, &writer, 2));
    let (code, lines, said) = audit(&node, &[]);
    assert_eq!(
        (code, &lines[0]["differences"]),
        (Some(0), &0.into()),
        "{said}"
    );

    liar.answers(claim(digest, &writer, 20));
    let (code, lines, said) = audit(&node, &[]);
    assert_eq!(code, Some(1), "{lines:?}");
    assert!(said.contains("differs"), "{said}");
    let found = ["key", "writer", "here", "there", "with"].map(|part| &lines[0][part]);
    assert_eq!(
        found,
        ["b", &writer, "2", "20", &liar.peer_id()],
        "{lines:?}"
    );
    assert_eq!(lines[1]["differences"], 1);
    assert_eq!(node.value("b"), Some(2));
    assert_eq!(node.space()["faults"], 0);

    // What is of another vector, refused, no answer, or not what was asked for, is not compared.
    let refused = AuditAnswer::Refused("busy".into()).encode();
    let bytes = claim(digest, &writer, 2);
    let cases = [
        (claim([7; 16], &writer, 2), "other transactions"),
        (refused, "`busy`"),
        (bytes[..bytes.len() - 1].to_vec(), "truncated"),
        (vec![0; (2 << 20) + 1], "limit"),
        (Vec::new(), "truncated"),
    ];
    for (answer, why) in cases {
        liar.answers(answer);
        let (code, lines, said) = audit(&node, &[]);
        assert_eq!((code, &lines[0]["compared"]), (Some(1), &false.into()));
        assert!(
            lines[0]["why"].as_str().expect("text").contains(why),
            "{lines:?}"
        );
        assert!(said.contains("not_compared"), "{said}");
    }
    liar.answers(claim(digest, &writer, 2));
    let (code, lines, _) = audit(&node, &["b"]);
    assert_eq!(code, Some(1), "{lines:?}");
    assert!(
        lines[0]["why"]
            .as_str()
            .expect("text")
            .contains("not asked for")
    );
}

#[test]
fn a_peer_is_told_no_more_than_it_may_ask_for() {
    let node = Node::start(&[]);
    node.add("a", 1);
    let digest = bytes_of(node.space()["digest"].as_str().expect("a digest"));
    let liar = Liar::start(&node);
    let refusal = |question: &[u8]| -> Result<String, String> {
        match AuditAnswer::decode(&liar.ask(question)?) {
            Ok(AuditAnswer::Refused(code)) => Ok(code),
            other => panic!("{other:?}"),
        }
    };
    let question = |space: &str, prefix: &str| AuditQuestion {
        space: Space::new(space).expect("a name"),
        prefix: prefix.to_owned(),
        after: String::new(),
    };
    let good = question("default", "").encode();
    assert_eq!(refusal(&good), Ok("handshake".into()));
    liar.send_hello(digest);
    let page = eventually("it has sent its hello", || {
        let answer = liar.ask(&good).expect("an answer");
        match AuditAnswer::decode(&answer).expect("an answer") {
            AuditAnswer::Page(page) => Some(page),
            AuditAnswer::Refused(code) => {
                assert_eq!(code, "handshake");
                None
            }
        }
    });
    assert_eq!((page.digest, page.more), (digest, false));
    let shown = page
        .counters
        .iter()
        .map(|(key, shards)| (&**key, shards[0].total));
    assert_eq!(shown.collect::<Vec<_>>(), [("a", 1)]);

    let other = question("other", "").encode();
    assert_eq!(refusal(&other), Ok("space_not_open".into()));
    let mut long = question("default", "").encode();
    long.truncate(long.len() - 2);
    long.extend_from_slice(&[0x81, 4]);
    long.extend_from_slice(&[b'a'; 513]);
    assert_eq!(refusal(&long), Ok("key_length".into()));
    assert_eq!(refusal(b""), Ok("truncated".into()));
    assert_eq!(
        refusal(&[&good[..], b"x"].concat()),
        Ok("trailing_bytes".into())
    );
    assert_eq!(refusal(b"\x01/\x00\x00"), Ok("space_name".into()));
    let unread = liar.ask(&[b'a'; 4096]).unwrap_or_default();
    assert_eq!(unread, b"", "more than is read");
    // And the node goes on.
    assert!(liar.ask(&good).is_ok());
    // Of several questions at once one is open, and each is answered.
    let answers = liar.ask_at_once(&good, 3);
    let pages = answers.iter().filter(|it| it[0] == 0).count();
    let busy = AuditAnswer::Refused("busy".into()).encode();
    let refused = answers.iter().filter(|it| **it == busy).count();
    assert!(pages >= 1 && pages + refused == 3, "{answers:?}");
    assert_eq!(node.value("a"), Some(1));
}

/// A member's folder holds what the member shows, so it is compared while nothing is written, and while
/// little is.
#[test]
fn a_member_s_folder_is_compared_idle_and_under_light_load() {
    let mut alone = Node::start(&[]);
    close(&[&alone]);
    // Its folder has a writer that the node has forgotten.
    assert!(alone.terminate().success());
    alone.start_again();
    eventually("its earlier start is forgotten", || {
        let told = alone.get("/v1/spaces/default/writers").1;
        (told["writers"].as_array().map(Vec::len) == Some(1)).then_some(())
    });
    let all = nodes(3);
    let all: Vec<&Node> = all.iter().collect();
    close(&all);
    let stopped = AtomicBool::new(false);
    let compared = |node: &Node| {
        let folder = node.data();
        let folder = folder.to_str().expect("a path");
        let (code, lines, said) = audit(node, &["--data", folder]);
        assert_eq!(code, Some(0), "{lines:?} {said}");
        assert_eq!(lines.last().map(|it| &it["compared"]), Some(&json!(true)));
    };
    for node in all.iter().chain([&&alone]) {
        node.add("x", 1);
        compared(node);
    }
    thread::scope(|scope| {
        for node in all.iter().chain([&&alone]) {
            scope.spawn(|| {
                while !stopped.load(Ordering::SeqCst) {
                    node.add("x", 1);
                    thread::sleep(Duration::from_millis(200));
                }
            });
        }
        let result = catch_unwind(AssertUnwindSafe(|| {
            all.iter().chain([&&alone]).for_each(|node| compared(node));
        }));
        stopped.store(true, Ordering::SeqCst);
        if let Err(panic) = result {
            resume_unwind(panic);
        }
    });
}

//! Comparing replicas, of which one tells something else than it heard.

use crate::process::Node;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use tallymesh_core::{Replica, Space, VersionVector, WriterId};
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

/// Makes a folder in which a writer, who added 1 to `a` and 2 to `b`, added this to `b`.
fn forge(folder: &Path, writer: &str, second: i64) {
    let bytes: Vec<u8> = (0..writer.len() / 2)
        .map(|at| u8::from_str_radix(&writer[2 * at..2 * at + 2], 16).expect("hex digits"))
        .collect();
    let id = WriterId::from_bytes(bytes.try_into().expect("16 bytes"));
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

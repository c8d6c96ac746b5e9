//! The node that wire format 1 was declared stable with, kept as a file (tests/kept/v1), beside the one of
//! now: members of one space, and one that goes on from the other's data folder.

use crate::members::{close, owner, peers_of, settled};
use crate::once::add_once;
use crate::process::{Node, eventually};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const SPACE: &str = "/v1/spaces/default";

/// The program of then; none for another kind of machine.
fn kept() -> Option<&'static PathBuf> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        println!("skipped: the kept node is for Linux on x86-64");
        return None;
    }
    Some(PROGRAM.get_or_init(|| {
        let packed = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../tests/kept/v1/tallymesh-x86_64-linux.gz"
        );
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kept-v1");
        fs::create_dir_all(&folder).expect("a folder");
        let (part, program) = (folder.join("part"), folder.join("tallymesh"));
        let unpacked = Command::new("gzip")
            .arg("-dc")
            .stdin(File::open(packed).expect("the kept node"))
            .stdout(Stdio::from(File::create(&part).expect("a file")))
            .status();
        assert!(unpacked.expect("gzip").success());
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&part, fs::Permissions::from_mode(0o755)).expect("a program");
        fs::rename(part, &program).expect("a program");
        program
    }))
}

/// A node of then, linked to others.
fn old(others: &[&Node]) -> Option<Node> {
    let program = kept()?;
    let arguments = peers_of(others);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Some(Node::start_of(program, &arguments))
}

fn new(others: &[&Node]) -> Node {
    let arguments = peers_of(others);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Node::start(&arguments)
}

fn done(answer: (u16, Value)) -> Value {
    assert_eq!(answer.0, 200, "{}", answer.1);
    answer.1
}

fn all_show(nodes: &[&Node], path: &str, field: &str, value: &Value) {
    for (at, node) in nodes.iter().enumerate() {
        eventually(&format!("{path} is {value} at {at}"), || {
            let it = node.get(&format!("{SPACE}/{path}")).1;
            (it[field] == *value).then_some(())
        });
    }
}

/// All that is told between members: each operation at a node of then and at one of now.
fn go_through(nodes: &[&Node]) {
    let [first, second, ..] = nodes else {
        unreachable!()
    };
    for (at, node) in nodes.iter().enumerate() {
        node.add("likes", 1 << at);
    }
    all_show(nodes, "counters/likes", "value", &json!("7"));
    for (by, then) in [(first, second), (second, first)] {
        let key = format!("{SPACE}/counters/set-{}", by.peer_id);
        done(by.put(&key, r#"{"value":"7"}"#));
        // A member that has just started awaits the clocks of the others.
        eventually("the time is known, and the counter expires", || {
            let (status, _) = by.post(&format!("{key}/expire"), r#"{"in_ms":"600000"}"#);
            (status == 200).then_some(())
        });
        let path = format!("counters/set-{}", by.peer_id);
        all_show(nodes, &path, "value", &json!("7"));
        done(then.delete(&key));
        all_show(nodes, &path, "code", &json!("absent"));

        // Rights that the other one asks for, a transfer, and a lease.
        let budget = format!("budgets/gift-{}", by.peer_id);
        let base = format!("{SPACE}/{budget}");
        done(by.post(&format!("{base}/mint"), r#"{"amount":"100"}"#));
        all_show(nodes, &budget, "value", &json!("100"));
        eventually("rights move", || {
            let body = r#"{"amount":"30"}"#;
            (then.post(&format!("{base}/spend"), body).0 == 200).then_some(())
        });
        let share = json!({ "to": [{ "key": format!("back-{}", by.peer_id), "amount": "5" }] });
        done(by.post(&format!("{base}/transfer"), &share.to_string()));
        let id = "0a".repeat(16);
        let lease = r#"{"amount":"10","lease_ms":"600000"}"#;
        done(by.put(&format!("{base}/leases/{id}"), lease));
        let spend = json!({ "amount": "4", "lease": id }).to_string();
        done(by.post(&format!("{base}/spend"), &spend));
        all_show(nodes, &budget, "value", &json!("61"));
        all_show(nodes, &budget, "leased", &json!("6"));

        let numbers = format!("{SPACE}/sequences/visits-{}", by.peer_id);
        done(by.post(&numbers, ""));
        let mut drawn: Vec<Value> = Vec::new();
        for node in [by, then] {
            drawn.push(eventually("a number is handed out", || {
                let (status, answer) = node.post(&format!("{numbers}/next"), "");
                (status == 200).then(|| answer["number"].clone())
            }));
        }
        assert_ne!(drawn[0], drawn[1]);

        let limit = format!("{SPACE}/limits/login-{}", by.peer_id);
        let rule = r#"{"limit":"100","period_ms":"3600000","wait_ms":"10000"}"#;
        done(by.put(&limit, rule));
        for node in [by, then] {
            eventually("the limit is known, and allows", || {
                (node.post(&format!("{limit}/allow"), "").0 == 200).then_some(())
            });
        }
    }
    // What counts once does so at both.
    assert_eq!(add_once(first, "once", 5).0, 200);
    all_show(nodes, "counters/likes", "value", &json!("12"));
    let (status, _, again) = add_once(second, "once", 5);
    assert_eq!((status, again), (200, true));
    for node in [first, second] {
        let audited = node.run(&["audit"], "");
        let told = String::from_utf8_lossy(&audited.stdout).into_owned();
        assert!(audited.status.success(), "{told}");
    }
}

#[test]
fn a_node_of_then_and_one_of_now_are_members_of_one_space() {
    let one = new(&[]);
    let Some(two) = old(&[&one]) else {
        return;
    };
    let three = new(&[&one, &two]);
    close(&[&one, &two, &three]);
    go_through(&[&one, &two, &three]);
}

#[test]
fn one_of_now_joins_members_of_then() {
    let Some(one) = old(&[]) else {
        return;
    };
    let Some(two) = old(&[&one]) else {
        return;
    };
    close(&[&one, &two]);
    one.add("before", 3);
    let three = new(&[&one, &two]);
    let added = one.run(&["members", "add", &owner(&three)], "");
    assert!(added.status.success(), "{added:?}");
    all_show(&[&three], "counters/before", "value", &json!("3"));
    settled(&[&one, &two, &three]);
    go_through(&[&three, &one, &two]);
}

#[test]
fn what_a_node_of_then_has_stored_is_read() {
    let Some(mut node) = old(&[]) else {
        return;
    };
    close(&[&node]);
    node.add("likes", 42);
    let gift = format!("{SPACE}/budgets/gift");
    done(node.post(&format!("{gift}/mint"), r#"{"amount":"10"}"#));
    done(node.post(&format!("{gift}/spend"), r#"{"amount":"3"}"#));
    let (status, _, again) = add_once(&node, "once", 5);
    assert_eq!((status, again), (200, false));
    for by_force in [true, false] {
        match by_force {
            true => node.kill(),
            false => assert!(node.terminate().success()),
        }
        node.start_again_now();
        assert_eq!(node.value("likes"), Some(47));
        let (status, _, again) = add_once(&node, "once", 5);
        assert_eq!((status, again), (200, true));
        eventually("all rights are here", || {
            let held = node.get(&gift).1["rights"]["here"].clone();
            (held == "7").then_some(())
        });
    }
}

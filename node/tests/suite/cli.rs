//! The command line against a real node.

use crate::process::Node;
use std::process::{Command, Output};

fn words(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Runs a command that must succeed.
fn done(node: &Node, arguments: &[&str], input: &str) -> String {
    let output = node.run(arguments, input);
    let (out, err) = words(&output);
    assert!(output.status.success(), "{arguments:?}: {err}");
    assert_eq!(err, "", "{arguments:?}");
    out
}

#[test]
fn commands_print_text_and_json() {
    let node = Node::start(&[]);
    assert_eq!(done(&node, &["add", "likes", "5"], ""), "5\n");
    assert_eq!(done(&node, &["add", "likes", "-7"], ""), "-2\n");
    assert_eq!(done(&node, &["add", "a/b c"], ""), "1\n");
    assert_eq!(done(&node, &["get", "likes"], ""), "-2\n");
    assert_eq!(
        done(&node, &["get", "likes", "--json"], ""),
        "{\"key\":\"likes\",\"value\":\"-2\"}\n"
    );
    assert_eq!(done(&node, &["list"], ""), "a/b c\t1\nlikes\t-2\n");
    assert_eq!(done(&node, &["list", "li"], ""), "likes\t-2\n");
    assert!(done(&node, &["status"], "").contains("2 counters"));
    assert!(done(&node, &["status", "--json"], "").contains("\"spaces\":[{"));
    assert!(done(&node, &["peers"], "").starts_with("no peers"));
    assert_eq!(done(&node, &["peers", "--json"], ""), "");
    assert!(done(&node, &["completions", "bash"], "").contains("tallymesh"));
}

#[test]
fn lines_of_standard_input_are_counted() {
    let node = Node::start(&[]);
    let lines: String = (0..30_000)
        .map(|n| format!("k{} {}\n", n % 10, n % 3))
        .collect();
    assert_eq!(done(&node, &["add", "-"], &lines), "30000 lines added\n");
    assert_eq!(
        done(&node, &["add", "-", "--json"], "k0\nk0 2"),
        "{\"lines\":2}\n"
    );
    let expected: i128 = (0..30_000).filter(|n| n % 10 == 0).map(|n| n % 3).sum();
    assert_eq!(node.value("k0"), Some(expected + 3));
    assert_eq!(done(&node, &["add", "-"], ""), "0 lines added\n");
}

#[test]
fn a_wrong_line_is_named_with_what_was_acknowledged() {
    let node = Node::start(&[]);
    let mut lines = "good 1\n".repeat(20_000);
    lines.push_str("bad one\n");
    let output = node.run(&["add", "-", "--json"], &lines);
    let (out, err) = words(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""));
    let problem: serde_json::Value = serde_json::from_str(&err).expect("JSON");
    assert_eq!(
        (&problem["code"], &problem["line"]),
        (&"amount".into(), &20_001.into()),
        "{err}"
    );
    let acknowledged = problem["lines"].as_u64().expect("a number");
    assert!(
        acknowledged >= 8_192,
        "whole batches before it count: {err}"
    );
    assert_eq!(node.value("good"), Some(acknowledged.into()));
    let detail = problem["detail"].as_str().expect("text");
    let advice = format!("none from line {} on", acknowledged + 1);
    assert!(detail.contains(&advice), "{detail}");
}

#[test]
fn failures_have_exit_codes_and_advice() {
    let node = Node::start(&[]);
    let full = "9223372036854775807";
    done(&node, &["add", "full", full], "");
    let table: [(&[&str], i32, &str); 7] = [
        (&["get", "none"], 4, "there is no counter `none`"),
        (&["get", "none", "--space", "x"], 1, "--space x"),
        (&["add", "full"], 1, "64-bit"),
        (
            &["get", "k", "--node", "http://127.0.0.1:9"],
            3,
            "tallymesh up",
        ),
        (
            &["get", "k", "--node", "localhost"],
            2,
            "http://127.0.0.1:4280",
        ),
        (&["add", "k", "much"], 2, "invalid"),
        (&["up", "--http", "0.0.0.0:0"], 2, "--http-open"),
    ];
    for (arguments, code, part) in table {
        let output = node.run(arguments, "");
        let (_, err) = words(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {err}");
        assert!(err.contains(part), "{arguments:?}: {err}");
    }
}

#[test]
fn a_switch_in_the_environment_takes_1_and_0() {
    for value in ["1", "0", "true", ""] {
        let output = Command::new(env!("CARGO_BIN_EXE_tallymesh"))
            .args(["up", "--http", "nowhere"])
            .env("TALLYMESH_DEMO", value)
            .output()
            .expect("run");
        let (_, err) = words(&output);
        assert!(err.contains("--http: `nowhere`"), "{value}: {err}");
    }
}

#[test]
fn watch_prints_changes() {
    use std::io::{BufRead, BufReader};
    let node = Node::start(&[]);
    node.add("likes", 5);
    let mut watch = Command::new(env!("CARGO_BIN_EXE_tallymesh"))
        .args(["watch", "likes", "--node", &node.url])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("run");
    let out = watch.stdout.take().expect("piped");
    let (sender, lines) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(out).lines() {
            let _ = sender.send(line.expect("a line"));
        }
    });
    let first = lines.recv_timeout(crate::process::DEADLINE);
    node.add("other", 1);
    node.add("likes", 2);
    let second = lines.recv_timeout(crate::process::DEADLINE);
    watch.kill().expect("kill");
    watch.wait().expect("wait");
    reader.join().expect("the reader ends with the command");
    assert_eq!(
        (first.as_deref(), second.as_deref()),
        (Ok("likes\t5"), Ok("likes\t7"))
    );
}

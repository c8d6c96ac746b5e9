//! The command line against a real node.

use crate::process::Node;
use std::io::Read;
use std::net::TcpListener;
use std::process::{Command, Output};
use std::thread;

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

#[test]
fn operations_print_text_and_json() {
    let node = Node::start(&[]);
    assert_eq!(done(&node, &["set", "likes", "-10"], ""), "-10\n");
    assert_eq!(
        done(&node, &["set", "likes", "7", "--json"], ""),
        "{\"existed\":true,\"key\":\"likes\",\"value\":\"7\"}\n"
    );
    assert_eq!(done(&node, &["ttl", "likes"], ""), "never\n");
    assert_eq!(
        done(&node, &["ttl", "likes", "--json"], ""),
        "{\"expires_at\":null,\"key\":\"likes\",\"ttl_ms\":null}\n"
    );
    assert_eq!(
        done(
            &node,
            &["expire", "likes", "--at", "2100-01-01T00:00:00Z"],
            ""
        ),
        "2100-01-01T00:00:00.000Z\n"
    );
    let get = done(&node, &["get", "likes", "--json"], "");
    assert!(get.contains("\"expires_at\":\"4102444800000\""), "{get}");
    assert_eq!(done(&node, &["list"], ""), "likes\t7\n");
    done(&node, &["expire", "likes", "1day 12h"], "");
    let ttl = done(&node, &["ttl", "likes"], "");
    assert!(ttl.starts_with("1day 11h 59m"), "{ttl}");
    assert_eq!(done(&node, &["persist", "likes"], ""), "1\n");
    assert_eq!(done(&node, &["persist", "likes"], ""), "0\n");
    assert_eq!(done(&node, &["ttl", "likes"], ""), "never\n");
    done(&node, &["set", "a b/c", "1"], "");
    assert_eq!(done(&node, &["reset", "likes", "a b/c", "new"], ""), "2\n");
    assert_eq!(done(&node, &["list"], ""), "a b/c\t0\nlikes\t0\nnew\t0\n");
    assert_eq!(done(&node, &["del", "likes", "a b/c", "none"], ""), "2\n");
    assert_eq!(
        done(&node, &["del", "likes", "new", "--json"], ""),
        "{\"existed\":false,\"key\":\"likes\"}\n{\"existed\":true,\"key\":\"new\"}\n"
    );
    assert_eq!(done(&node, &["list"], ""), "");
    done(&node, &["set", "short", "1"], "");
    assert_eq!(done(&node, &["expire", "short", "0s"], ""), "expired\n");
    assert_eq!(node.run(&["get", "short"], "").status.code(), Some(4));
}

#[test]
fn transactions_are_read_from_arguments_and_lines() {
    let node = Node::start(&[]);
    assert_eq!(
        done(&node, &["txn", "add from -5", "add to 5", "set b 2"], ""),
        "from\t-5\nto\t5\nb\t2\n"
    );
    let lines = "add from\n\nset\twith blanks\t3\nexpire b 24h\ndel to\nreset none\npersist b\n";
    assert_eq!(
        done(&node, &["txn", "-"], lines),
        "from\t-4\nwith blanks\t3\nb\t2\nto\t-\nnone\t0\nb\t2\n"
    );
    assert_eq!(
        done(&node, &["txn", "del to", "del b", "--json"], ""),
        "{\"existed\":false,\"key\":\"to\"}\n{\"existed\":true,\"key\":\"b\"}\n"
    );
    assert_eq!(done(&node, &["txn", "-"], ""), "");
    let before = done(&node, &["list"], "");
    let full = "set from 1\n\nadd full 9223372036854775807\nadd full 1\n";
    let output = node.run(&["txn", "-"], full);
    let (out, err) = words(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""));
    assert!(
        err.contains("operation 4, `add full 1`: counter `full`"),
        "{err}"
    );
    let output = node.run(&["txn", "-", "--json"], full);
    let problem: serde_json::Value = serde_json::from_slice(&output.stderr).expect("JSON");
    assert_eq!(
        (&problem["code"], &problem["op"]),
        (&"overflow".into(), &3.into())
    );
    assert_eq!(done(&node, &["list"], ""), before);
}

#[test]
fn writers_are_printed_with_this_node_marked() {
    let node = Node::start(&["--space", "default", "other"]);
    assert_eq!(done(&node, &["writers"], ""), "");
    node.add("a", 1);
    node.add("a", 1);
    let writer = node.space()["writer"].as_str().expect("text").to_owned();
    assert_eq!(
        done(&node, &["writers"], ""),
        format!("{writer}\t2\tthis node\n")
    );
    assert_eq!(
        done(&node, &["writers", "--json"], ""),
        format!("{{\"clock\":\"2\",\"own\":true,\"writer\":\"{writer}\"}}\n")
    );
    assert_eq!(done(&node, &["writers", "--space", "other"], ""), "");
}

#[test]
fn failures_of_operations_have_exit_codes_and_advice() {
    let node = Node::start(&[]);
    done(&node, &["set", "k", "1"], "");
    let table: [(&[&str], i32, &str); 12] = [
        (&["ttl", "none"], 4, "there is no counter `none`"),
        (&["persist", "none"], 4, "there is no counter `none`"),
        (&["expire", "none", "5m"], 4, "there is no counter `none`"),
        (&["expire", "k"], 2, "--at"),
        (&["expire", "k", "5"], 2, "15m"),
        (
            &["expire", "k", "--at", "tomorrow"],
            2,
            "2027-01-31T12:00:00Z",
        ),
        (&["expire", "k", "300000years"], 1, "8640000000000000"),
        (&["set", "k"], 2, "VALUE"),
        (&["set", "k", "9223372036854775808"], 2, "VALUE"),
        (&["txn", "add k", "incr k"], 2, "operation 2, `incr k`"),
        (&["del", "k", "--space", "x"], 1, "--space x"),
        (
            &["reset", "k", "--node", "http://127.0.0.1:9"],
            3,
            "tallymesh up",
        ),
    ];
    for (arguments, code, part) in table {
        let output = node.run(arguments, "");
        let (_, err) = words(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {err}");
        assert!(err.contains(part), "{arguments:?}: {err}");
    }
    assert_eq!(done(&node, &["list"], ""), "k\t1\n");
    let completions = done(&node, &["completions", "fish"], "");
    for command in [
        "set", "reset", "del", "expire", "persist", "ttl", "txn", "writers",
    ] {
        assert!(
            completions.contains(&format!("-a \"{command}\"")),
            "{command}"
        );
    }
}

#[test]
fn a_command_counts_once_and_asks_for_a_level() {
    let node = Node::start(&[]);
    let once = ["--once", "a"];
    let with = |words: &[&'static str]| [words, &once].concat();
    for _ in 0..2 {
        assert_eq!(done(&node, &with(&["add", "likes", "5"]), ""), "5\n");
    }
    let output = node.run(&with(&["add", "likes", "6"]), "");
    let (_, err) = words(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("key of its own"), "{err}");
    let output = node.run(&["add", "-", "--once", "b"], "likes 5\n");
    assert_eq!(output.status.code(), Some(2));
    for printed in ["likes\t6\nviews\t1\n"; 2] {
        let txn = ["txn", "add likes", "add views", "--once", "b"];
        assert_eq!(done(&node, &txn, ""), printed);
    }
    for printed in ["2\n", "made before\n"] {
        let reset = ["reset", "likes", "views", "--once", "c"];
        assert_eq!(done(&node, &reset, ""), printed);
    }
    for printed in ["0\n", "made before\n"] {
        assert_eq!(
            done(&node, &["persist", "likes", "--once", "d"], ""),
            printed
        );
    }
    for command in [["add", "views"], ["get", "views"]] {
        let output = node.run(&[&command[..], &["--level", "quorum"]].concat(), "");
        assert_eq!(
            output.status.code(),
            Some(1),
            "{command:?} in an open space"
        );
    }
    done(&node, &["members", "init"], "");
    let all = ["--level", "all", "--wait", "20s"];
    assert_eq!(
        done(&node, &[&["set", "views", "7"], &all[..]].concat(), ""),
        "7\n"
    );
    assert_eq!(
        done(&node, &[&["get", "views"], &all[..]].concat(), ""),
        "7\n"
    );
    // A member that is not there.
    let owner = "11".repeat(32);
    done(&node, &["members", "add", &owner], "");
    let output = node.run(&["add", "views", "--level", "all", "--wait", "10ms"], "");
    let (_, err) = words(&output);
    assert_eq!(output.status.code(), Some(6), "{err}");
    assert!(err.contains(&owner[..8]), "{err}");
    assert_eq!(node.value("views"), Some(8), "it is written all the same");
}

/// The connection breaks before the answer. The advice fits the request: only that about counters speaks of counters.
#[test]
fn a_connection_that_breaks_is_told_with_advice_for_the_command() {
    let node = Node::start(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.expect("a client").read(&mut [0; 4096]);
        }
    });
    let key = "ab".repeat(32);
    for (command, advice) in [
        (&["members", "add", &key][..], "`tallymesh members`"),
        (&["members", "remove", &key], "`tallymesh members`"),
        (&["members", "init"], "`tallymesh members`"),
        (&["members", "force", &key, "--yes"], "`tallymesh members`"),
        (&["retire", &key], "`tallymesh writers`"),
        (&["limit", "remove", "login"], "`tallymesh limit list`"),
        (&["invite", "--role", "reader"], "`tallymesh tickets`"),
        (&["adopt", "--yes"], "`tallymesh status`"),
        (&["add", "likes"], "read the counter"),
    ] {
        let output = node.run(&[command, &["--node", &url]].concat(), "");
        let (_, told) = words(&output);
        assert_eq!(output.status.code(), Some(5), "{command:?}: {told}");
        assert!(told.contains(advice), "{command:?}: {told}");
        let is_of_counter = command[0] == "add";
        assert_eq!(told.contains("counter"), is_of_counter, "{told}");
    }
}

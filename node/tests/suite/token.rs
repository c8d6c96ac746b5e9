//! The operator's token: which commands show it, whom they show it, and which requests are refused for it.

use crate::process::{Node, agent, eventually};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// A command at a node, which finds no token but where it is told.
fn command(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallymesh"));
    command
        .args(arguments)
        .args(["--json", "--node", url])
        .env_remove("TALLYMESH_TOKEN_FILE")
        .env_remove("TALLYMESH_DATA")
        .env("XDG_DATA_HOME", "/nowhere")
        .stdin(Stdio::null());
    command
}

/// The code of what a command reports as its failure; empty if there is none.
fn code(output: &Output) -> String {
    let problem: Value = serde_json::from_slice(&output.stderr).unwrap_or_default();
    problem["code"].as_str().unwrap_or_default().to_owned()
}

/// The names of the commands that talk to a node.
fn remote() -> BTreeSet<String> {
    let printed = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tallymesh"))
            .args(arguments)
            .output()
            .expect("run");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let help = printed(&["--help"]);
    let (_, rest) = help.split_once("Commands:\n").expect("commands");
    let (rows, _) = rest.split_once("\n\n").expect("an end");
    let names = rows
        .lines()
        .filter(|row| row.starts_with("  ") && !row.starts_with("   "))
        .filter_map(|row| row.split_whitespace().next());
    let talks = |name: &&str| *name != "help" && printed(&[name, "-h"]).contains("--token-file");
    names.filter(talks).map(str::to_owned).collect()
}

#[test]
fn every_command_shows_the_token_to_a_node_that_asks_for_tickets() {
    let node = Node::start(&["--http-tickets"]);
    let data = node.data().display().to_string();
    let (owner, writer) = ("11".repeat(32), "22".repeat(16));
    let lines = [
        &["members", "init"][..],
        &["add", "likes", "5"],
        &["get", "likes"],
        &["set", "likes", "7"],
        &["expire", "likes", "1h"],
        &["ttl", "likes"],
        &["persist", "likes"],
        &["txn", "add likes 1"],
        &["budget", "mint", "gift", "5"],
        &["sequence", "begin", "visits"],
        &["limit", "set", "login", "--limit", "9", "--period", "60s"],
        &["limit", "remove", "login"],
        &["list"],
        &["peers"],
        &["writers"],
        &["members"],
        &["invite", "--role", "reader"],
        &["ticket", "a.b.c"],
        &["tickets"],
        &["revoke", &writer],
        &["retire", &owner],
        &["id"],
        &["status"],
        &["doctor"],
        &["audit"],
        &["adopt", "--yes"],
        &["reset", "likes"],
        &["del", "likes"],
    ];
    let mut tried: BTreeSet<String> = ["watch".to_owned()].into();
    for line in lines {
        tried.insert(line[0].to_owned());
        let output = command(&node.url, line).args(["--data", &data]).output();
        let code = code(&output.expect("run"));
        let expected = match line[0] {
            // It looks at the node, and says what is not as it should be.
            "doctor" => ["", "findings"].contains(&&*code),
            "retire" => code == "unknown_owner",
            "ticket" => code == "ticket",
            // It compares with the folder, which a node on it changes meanwhile.
            "audit" => !code.starts_with("ticket") && !code.starts_with("token"),
            _ => code.is_empty(),
        };
        assert!(expected, "{line:?}: {code}");
        let strange = command(&node.url, line).output().expect("run");
        let refused = ["ticket_needed", "token_needed", "ticket"];
        assert!(refused.contains(&&*self::code(&strange)), "{line:?}");
    }
    let mut watch = command(&node.url, &["watch", "--data", &data])
        .stdout(Stdio::piped())
        .spawn()
        .expect("run");
    let mut changes = BufReader::new(watch.stdout.take().expect("a pipe"));
    let (tell, told) = channel();
    thread::spawn(move || {
        let mut first = String::new();
        let bytes = changes.read_line(&mut first);
        let _ = tell.send(bytes.is_ok_and(|bytes| bytes > 0));
    });
    let is_watched = eventually("something is watched, or refused", || {
        let add = command(&node.url, &["add", "likes", "--data", &data]).output();
        assert_eq!(code(&add.expect("run")), "");
        told.recv_timeout(Duration::from_millis(50)).ok()
    });
    watch.kill().expect("it runs");
    watch.wait().expect("its end");
    assert!(is_watched, "nothing is watched");
    assert_eq!(tried, remote(), "not all commands are tried");
    // A ticket that was given is what is tried, and the usual folder may be another node's.
    let output = command(&node.url, &["status", "--ticket", "a.b.c", "--data", &data]).output();
    assert_eq!(code(&output.expect("run")), "ticket");
    let other = tempfile::tempdir().expect("a folder");
    let wrong = format!("tmo_{}\n", "0".repeat(64));
    std::fs::write(other.path().join("token"), wrong).expect("write");
    let output = command(&node.url, &["status"])
        .env("TALLYMESH_DATA", other.path())
        .output();
    assert_eq!(code(&output.expect("run")), "ticket_needed");
    let named = ["status", "--data", &other.path().display().to_string()];
    let output = command(&node.url, &named).output();
    assert_eq!(code(&output.expect("run")), "token_wrong");
    let output = command(&node.url, &["status"])
        .env("TALLYMESH_DATA", node.data())
        .output();
    assert_eq!(code(&output.expect("run")), "");
}

/// A server that gives one of these answers after another, the last for ever, and tells what each request
/// shows.
fn server(answers: Vec<String>) -> (String, Receiver<Option<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (tell, told) = channel();
    thread::spawn(move || {
        for (at, stream) in listener.incoming().flatten().enumerate() {
            let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
            let mut shown = None;
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                let field = line.to_ascii_lowercase();
                shown = shown.or(field.strip_prefix("authorization: ").map(str::to_owned));
                line.clear();
            }
            let _ = tell.send(shown);
            let answer = &answers[at.min(answers.len() - 1)];
            let _ = (&stream).write_all(answer.as_bytes());
        }
    });
    (url, told)
}

fn answered(status: &str, header: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{header}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn the_token_goes_to_the_named_node_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("token"), "tmo_secret\n").expect("write");
    let data = folder.path().display().to_string();
    let asks = answered("401 Unauthorized", "", r#"{"code":"ticket_needed"}"#);
    // Along a redirect nothing is shown.
    let (elsewhere, seen) = server(vec![answered("200 OK", "", "{}")]);
    let moved = answered("302 Found", &format!("location: {elsewhere}/\r\n"), "");
    let (url, told) = server(vec![asks.clone(), moved.clone()]);
    let output = command(&url, &["id", "--data", &data]).output();
    output.expect("run");
    let shown: Vec<_> = told.try_iter().collect();
    assert_eq!(shown, [None, Some("bearer tmo_secret\r\n".to_owned())]);
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), [None]);
    // Nor is it if that asks for it.
    let (elsewhere, seen) = server(vec![asks.clone()]);
    let moved = answered("302 Found", &format!("location: {elsewhere}/\r\n"), "");
    let (url, _) = server(vec![moved]);
    let output = command(&url, &["id", "--data", &data]).output();
    assert_eq!(code(&output.expect("run")), "ticket_needed");
    assert!(seen.try_iter().all(|shown| shown.is_none()));
    // Nor to a node that is only compared with.
    let node = Node::start(&["--http-tickets"]);
    let (other, seen) = server(vec![asks]);
    let data = node.data().display().to_string();
    let audit = ["audit", "--with", &other, "--data", &data];
    let output = command(&node.url, &audit).output().expect("run");
    assert_eq!(code(&output), "ticket_needed", "{output:?}");
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), [None]);
}

/// For each operation that is described: whether a request that shows nothing, or another node's token, is
/// refused as it says.
#[test]
fn each_operation_says_whether_it_is_refused_without_the_token() {
    let node = Node::start(&["--http-tickets"]);
    let document = crate::api::document(&node);
    let wrong = format!("Bearer tmo_{}", "0".repeat(64));
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("methods") {
            let filled = path
                .replace("{space}", "default")
                .replace("{key}", "likes")
                .replace("{id}", &"0".repeat(32))
                .replace("{file}", "index.html");
            let ask = |shown: Option<&str>| {
                let mut request = ureq::http::Request::builder()
                    .method(method.to_uppercase().as_str())
                    .uri(format!("{}{filled}", node.url));
                if let Some(shown) = shown {
                    request = request.header("authorization", shown);
                }
                let request = request.body(String::new()).expect("a request");
                let mut answer = agent().run(request).expect("an answer");
                match answer.status().as_u16() {
                    401 => answer.body_mut().read_json().unwrap_or_default(),
                    _ => Value::Null,
                }
            };
            let refusals = &operation["responses"]["401"]["content"]["application/problem+json"];
            let says = |code: &str| refusals["examples"].get(code).is_some();
            for (shown, code) in [(None, "token_needed"), (Some(&*wrong), "token_wrong")] {
                let refused = ask(shown)["code"] == code;
                assert_eq!(says(code), refused, "{method} {path}: {code}");
            }
        }
    }
}

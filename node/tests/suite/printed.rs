//! Output of commands for keys, names and answers that hold control characters.

use crate::process::{Node, agent, read};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::thread;

/// Colours, a line of its own, a column of its own, a control of one byte, overrides, marks, the byte
/// order mark.
const EVIL: &str = "\u{1b}[31m\nx\ty\r\u{7}\u{7f}\u{9b}1m\u{202e}\u{2066}\u{2028}\u{200f}\u{feff}";

/// Whether a text has anything that a terminal obeys, line breaks and tabs excepted.
fn evil_in(text: &str) -> Option<char> {
    text.chars().find(|c| {
        let layout = matches!(c, '\n' | '\t');
        (c.is_control() && !layout)
            || EVIL.chars().any(|evil| {
                evil == *c && !evil.is_ascii_alphanumeric() && !matches!(evil, '[') && !layout
            })
    })
}

/// Line breaks and tabs, which only the command's own layout has.
fn layout(text: &str) -> (usize, usize) {
    let count = |wanted| text.chars().filter(|c| *c == wanted).count();
    (count('\n'), count('\t'))
}

/// A node whose answers have [`EVIL`] behind every text that is no number, unless programs rely on it.
fn liar(node: &Node) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let honest = node.url.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let honest = honest.clone();
            thread::spawn(move || answer(stream, &honest));
        }
    });
    format!("http://{address}")
}

/// Passes requests on, each with its answer made evil.
fn answer(stream: TcpStream, honest: &str) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let (mut head, mut length) = (String::new(), 0);
        let (mut kind, mut token) = (String::new(), String::new());
        reader.read_line(&mut head).ok()?;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim().split_once(": ") else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().ok()?,
                "content-type" => kind = value.to_owned(),
                "authorization" => token = value.to_owned(),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let mut words = head.split(' ');
        let (method, path) = (words.next()?, words.next()?);
        let url = format!("{honest}{path}");
        if path.contains("/events") {
            let mut change = serde_json::json!({ "key": "k", "value": "1" });
            spoil(&mut change);
            let event = format!("data: {change}\n\n");
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            return stream.write_all(format!("{head}{event}").as_bytes()).ok();
        }
        let told = match method {
            "GET" => agent().get(&url).header("authorization", &token).call(),
            "DELETE" => agent().delete(&url).header("authorization", &token).call(),
            "PUT" => agent()
                .put(&url)
                .header("authorization", &token)
                .content_type(&kind)
                .send(&body),
            _ => agent()
                .post(&url)
                .header("authorization", &token)
                .content_type(&kind)
                .send(&body),
        };
        let (status, mut value) = read(told.ok()?);
        spoil(&mut value);
        let body = match &value {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        let head = format!(
            "HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).ok()?;
    }
}

fn spoil(value: &mut Value) {
    match value {
        Value::String(text) if text.parse::<i128>().is_err() => text.push_str(EVIL),
        Value::Array(all) => all.iter_mut().for_each(spoil),
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                // Programs tell cases apart by them; and where a list goes on is sent back.
                if ![
                    "code", "applied", "state", "fate", "next", "digest", "version",
                ]
                .contains(&name.as_str())
                {
                    spoil(value);
                }
            }
        }
        _ => {}
    }
}

/// Runs a command at an address, with the token of the node that is behind it.
fn ran(node: &Node, url: &str, arguments: &[&str]) -> (Output, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tallymesh"))
        .args(arguments)
        .env("TALLYMESH_NODE", url)
        .env("TALLYMESH_TOKEN_FILE", node.data().join("token"))
        .stdin(Stdio::null())
        .output()
        .expect("run the command");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    (output, out, err)
}

/// A member with something of each kind, under plain keys.
fn furnished() -> Node {
    let node = Node::start(&[]);
    for arguments in [
        ["members", "init"].as_slice(),
        &["add", "likes", "5"],
        &["budget", "mint", "gift", "10"],
        &[
            "budget",
            "lease",
            "gift",
            "2",
            "--for",
            "10m",
            "--id",
            "00112233445566778899aabbccddeeff",
        ],
        &["sequence", "begin", "visits"],
        &["sequence", "next", "visits"],
        &["limit", "set", "login", "--limit", "5", "--period", "60s"],
        &["invite", "--role", "reader"],
    ] {
        let (output, _, err) = ran(&node, &node.url, arguments);
        assert!(output.status.success(), "{arguments:?}: {err}");
    }
    node
}

#[test]
fn no_command_prints_what_an_answer_would_have_the_terminal_do() {
    let node = furnished();
    let liar = liar(&node);
    for arguments in [
        ["get", "likes"].as_slice(),
        &["get", "absent"],
        &["list"],
        &["add", "likes"],
        &["set", "likes", "7"],
        &["expire", "likes", "1h"],
        &["ttl", "likes"],
        &["persist", "likes"],
        &["txn", "add likes 1", "add other 2"],
        &["txn", "add likes 1", "spend gift 500"],
        &["budget", "show", "gift"],
        &["budget", "list"],
        &["budget", "audit"],
        &["budget", "spend", "gift", "1"],
        &["budget", "spend", "gift", "500"],
        &["budget", "transfer", "gift", "other", "1"],
        &["sequence", "show", "visits"],
        &["sequence", "list"],
        &["sequence", "next", "visits"],
        &["sequence", "begin", "visits"],
        &["limit", "list"],
        &["limit", "allow", "login:a"],
        &["limit", "show", "login:a"],
        &["limit", "show", "absent:a"],
        &["peers"],
        &["writers"],
        &["members"],
        &["members", "remove", "00"],
        &["tickets"],
        &["id"],
        &["status"],
        &["doctor"],
        &["audit"],
        &["watch", "likes"],
        &["reset", "likes"],
        &["del", "likes"],
    ] {
        let (_, honest_out, honest_err) = match arguments[0] {
            "watch" => ran(&node, &liar, &["list", "--space", "absent"]),
            _ => ran(&node, &node.url, arguments),
        };
        let (_, out, err) = ran(&node, &liar, arguments);
        assert_eq!(evil_in(&out), None, "{arguments:?}: {out:?}");
        assert_eq!(evil_in(&err), None, "{arguments:?}: {err:?}");
        match arguments[0] {
            "watch" => assert_eq!(layout(&out), (2, 2), "{out:?}"),
            _ => assert_eq!(
                (layout(&out), layout(&err)),
                (layout(&honest_out), layout(&honest_err)),
                "{arguments:?}: {out:?} {err:?}, and of an honest node {honest_out:?} {honest_err:?}"
            ),
        }
        let json = [arguments, &["--json"]].concat();
        let (_, out, err) = ran(&node, &liar, &json);
        for line in out.lines().chain(err.lines()) {
            assert_eq!(evil_in(line), None, "{json:?}: {line:?}");
            serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        }
    }
}

#[test]
fn keys_of_any_text_are_shown_escaped_and_exact_in_json() {
    let node = Node::start(&[]);
    let (output, out, err) = ran(&node, &node.url, &["add", EVIL, "3"]);
    assert!(output.status.success(), "{err}");
    assert_eq!(out, "3\n");
    let shown = "\\u{1b}[31m\\nx\\ty\\r\\u{7}\\u{7f}\\u{9b}1m\\u{202e}\\u{2066}\\u{2028}\\u{200f}\\u{feff}\t3\n";
    assert_eq!(ran(&node, &node.url, &["list"]).1, shown);
    let (_, out, _) = ran(&node, &node.url, &["list", "--json"]);
    assert_eq!(out.lines().count(), 1);
    assert_eq!(evil_in(&out), None, "{out:?}");
    let row: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&row["key"], &row["value"]), (&EVIL.into(), &"3".into()));
    // A refusal that names the key.
    let (output, _, err) = ran(&node, &node.url, &["txn", &format!("spend {EVIL} 1")]);
    assert!(!output.status.success());
    assert_eq!((evil_in(&err), layout(&err)), (None, (1, 0)), "{err:?}");
    // Its events.
    let mut child = Command::new(env!("CARGO_BIN_EXE_tallymesh"))
        .args(["watch", EVIL])
        .env("TALLYMESH_NODE", &node.url)
        .stdout(Stdio::piped())
        .spawn()
        .expect("watch");
    let mut line = String::new();
    let out = child.stdout.take().expect("a pipe");
    let read = BufReader::new(out).read_line(&mut line);
    child.kill().expect("end it");
    child.wait().expect("wait for it");
    read.expect("a line");
    assert_eq!(line, shown);
}

#[test]
fn what_is_typed_or_written_wrongly_is_shown_escaped() {
    let evil = format!("5{EVIL}");
    let typed = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tallymesh"))
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("run the command");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        (
            output.status.code(),
            text(&output.stdout) + &text(&output.stderr),
        )
    };
    for arguments in [
        ["add", "likes", evil.as_str()].as_slice(),
        &["add", "likes", "--level", &evil],
        &[&evil],
        &["add", &format!("--{evil}")],
    ] {
        let (code, told) = typed(arguments);
        assert_eq!(code, Some(2), "{told:?}");
        assert_eq!(evil_in(&told), None, "{told:?}");
        assert!(told.contains("5\\u{1b}[31m\\nx\\ty"), "{told:?}");
    }
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("a\nb\u{1b}.toml");
    std::fs::write(&file, "").expect("written");
    let name = file.to_str().expect("UTF-8");
    let (code, told) = typed(&["config", "check", name]);
    assert_eq!((code, layout(&told)), (Some(0), (1, 0)), "{told:?}");
    std::fs::write(&file, "http = \"x\\n\\u001by\"\nlease = 7\n").expect("written");
    let (code, told) = typed(&["config", "check", name]);
    assert_eq!((code, evil_in(&told)), (Some(1), None), "{told:?}");
    let lines: Vec<&str> = told.lines().collect();
    let (last, problems) = lines.split_last().expect("lines");
    assert!(last.starts_with("error: problems: "), "{told:?}");
    assert!(
        problems
            .iter()
            .all(|line| line.contains("a\\nb\\u{1b}.toml")),
        "{told:?}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn an_add_whose_answer_finds_no_room_has_an_exit_code_of_its_own() {
    let node = Node::start(&[]);
    let full = std::fs::File::options().write(true).open("/dev/full");
    let status = Command::new(env!("CARGO_BIN_EXE_tallymesh"))
        .args(["add", "x", "1"])
        .env("TALLYMESH_NODE", &node.url)
        .stdin(Stdio::null())
        .stdout(full.expect("a device"))
        .output()
        .expect("run the command");
    let told = String::from_utf8_lossy(&status.stderr).into_owned();
    assert_eq!(status.status.code(), Some(7), "{told}");
    assert!(told.contains("a write counts all the same"), "{told}");
    assert_eq!(node.value("x"), Some(1));
}

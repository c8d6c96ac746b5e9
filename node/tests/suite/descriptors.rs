//! A node with few file descriptors, and clients that take all they can get.

use super::process::{self, eventually, up};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// `tallymesh up` with limits on descriptors, as `ulimit` takes them.
fn limited(data: &Path, limits: &str) -> Command {
    let real = up(data);
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{limits} && exec \"$@\""), "sh"])
        .arg(real.get_program())
        .args(real.get_args())
        .args(["--http", "127.0.0.1:0"])
        .env("TALLYMESH_ADDRESS_BOOK", "off")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// A node with limits on descriptors.
struct Limited {
    _folder: TempDir,
    child: Child,
    http: String,
    resp: String,
    log: std::path::PathBuf,
}

impl Limited {
    fn start(limits: &str, arguments: &[&str]) -> Limited {
        let folder = tempfile::tempdir().expect("temporary folder");
        let ready = folder.path().join("ready.json");
        let log = folder.path().join("log");
        let mut child = limited(&folder.path().join("data"), limits)
            .arg("--ready-file")
            .arg(&ready)
            .args(arguments)
            .stderr(fs::File::create(&log).expect("a log"))
            .spawn()
            .expect("start the node");
        let facts: Value = eventually("the node listens", || {
            let ended = child.try_wait().expect("look at the node");
            assert_eq!(ended, None, "the node ended");
            serde_json::from_slice(&fs::read(&ready).ok()?).ok()
        });
        let url = facts["http"].as_str().expect("a text");
        Limited {
            http: url.strip_prefix("http://").expect("HTTP").to_owned(),
            resp: facts["resp"].as_str().unwrap_or_default().to_owned(),
            _folder: folder,
            child,
            log,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.http).expect("connect");
        stream
            .set_read_timeout(Some(process::DEADLINE))
            .expect("a timeout");
        stream
    }

    fn runs(&mut self) {
        let ended = self.child.try_wait().expect("look at the node");
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        assert_eq!(ended, None, "{log}");
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks for something on a connection that stays open, and reads the begin of the answer.
fn ask(stream: &mut TcpStream, head: &str, body: &str) -> String {
    let length = body.len();
    let request =
        format!("{head} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).expect("send");
    let mut answer = vec![0; 1 << 16];
    let read = stream.read(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

#[test]
fn too_few_descriptors_are_told_of_by_number() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let output = limited(&folder.path().join("data"), "ulimit -n 30").output();
    let output = output.expect("run");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("30 open files") && told.contains("at least 40"),
        "{told}"
    );
}

#[test]
fn a_node_takes_the_descriptors_that_it_may_have() {
    let node = Limited::start(
        "ulimit -Sn 64 && ulimit -Hn 512",
        &["--http-clients", "5000"],
    );
    let answer = ask(&mut node.connect(), "GET /metrics", "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let limits = fs::read_to_string(format!("/proc/{}/limits", node.child.id()));
    if let Ok(limits) = limits {
        let line = limits.lines().find(|it| it.starts_with("Max open files"));
        let soft = line.and_then(|it| it.split_whitespace().nth(3));
        assert_eq!(soft, Some("512"));
    }
    eventually("it warns and tells its limit", || {
        let log = fs::read_to_string(&node.log).ok()?;
        let is_it = |it: &str| it.contains("WARN") && it.contains("asked=5000");
        (log.lines().any(is_it) && log.contains("limit=512")).then_some(())
    });
}

/// The store makes one segment after the other while all connections are taken.
#[test]
fn the_store_gets_its_descriptors_before_clients() {
    let mut node = Limited::start("ulimit -n 64", &["--resp", "127.0.0.1:0"]);
    let mut writer = node.connect();
    let answer = ask(&mut writer, "GET /healthz", "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // Further ones wait in the system's queue, or are refused: whatever becomes of them.
    let idle: Vec<TcpStream> = (0..100)
        .map(|number| {
            let mut stream = node.connect();
            let head = match number % 2 {
                0 => "GET /v1/spaces/default/events HTTP/1.1\r\nhost: localhost\r\n\r\n",
                _ => "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
            };
            let _ = stream.write_all(head.as_bytes());
            stream
        })
        .collect();
    let redis: Vec<TcpStream> = (0..100)
        .filter_map(|_| TcpStream::connect(&node.resp).ok())
        .collect();
    // Each is more than a segment has room for.
    let long = "k".repeat(300);
    for round in 0..6 {
        let body: String = (0..4000)
            .map(|number| format!("{long}{round}-{number}\n"))
            .collect();
        let answer = ask(&mut writer, "POST /v1/spaces/default/add", &body);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        node.runs();
    }
    drop((idle, redis));
    eventually("others are let in again", || {
        let mut stream = node.connect();
        let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .ok()?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).ok()?;
        (&answer == b"HTTP/1.1 200").then_some(())
    });
    node.runs();
}

/// A client that is refused often stays, and would hold a place that others need.
#[test]
fn a_stream_that_finds_no_place_leaves_its_connection() {
    let node = Limited::start("true", &["--http-clients", "8"]);
    let mut held = Vec::new();
    let (mut refused, answer) = loop {
        let mut stream = node.connect();
        let answer = ask(&mut stream, "GET /v1/spaces/default/events", "");
        match answer.starts_with("HTTP/1.1 200") {
            true => held.push(stream),
            false => break (stream, answer),
        }
        assert!(held.len() < 8, "all places are streams");
    };
    let head = answer.to_ascii_lowercase();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(head.contains("connection: close"), "{answer}");
    refused.read_to_end(&mut Vec::new()).expect("it is closed");
}

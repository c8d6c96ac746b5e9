//! A node whose log nobody takes, and how it is told to stop.

use super::process::{self, DEADLINE, Node, eventually, up};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A node whose standard output and error are what a test makes them.
struct Loud {
    folder: TempDir,
    child: Child,
    url: String,
    listen: String,
}

impl Loud {
    fn start(command: impl FnOnce(&mut Command) -> &mut Command, arguments: &[&str]) -> Loud {
        let folder = tempfile::tempdir().expect("temporary folder");
        Loud::start_in(folder, command, arguments)
    }

    fn start_in(
        folder: TempDir,
        command: impl FnOnce(&mut Command) -> &mut Command,
        arguments: &[&str],
    ) -> Loud {
        let ready = folder.path().join("ready.json");
        let _ = fs::remove_file(&ready);
        let mut up = up(&folder.path().join("data"));
        up.args(["--http", "127.0.0.1:0", "--ready-file"])
            .arg(&ready)
            .args(arguments);
        command(&mut up);
        let mut child = up.spawn().expect("start the node");
        let facts: Value = eventually("the node listens", || {
            let ended = child.try_wait().expect("look at the node");
            assert_eq!(ended, None, "the node ended");
            serde_json::from_slice(&fs::read(&ready).ok()?).ok()
        });
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        Loud {
            url: text(&facts["http"]),
            listen: text(&facts["listen"][0]),
            folder,
            child,
        }
    }

    fn get(&self, path: &str) -> Option<String> {
        let response = process::agent().get(format!("{}{path}", self.url)).call();
        let mut response = response.ok().filter(|it| it.status() == 200)?;
        response.body_mut().read_to_string().ok()
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.expect("kill").success());
    }

    fn ended(&mut self) -> ExitStatus {
        eventually("the node ends", || self.child.try_wait().expect("wait"))
    }

    /// Lets another node connect and go, and this one write to its log.
    fn meet(&self) {
        let _other = Node::start(&["--peer", &self.listen]);
        eventually("the other is there", || {
            let peers: Value = serde_json::from_str(&self.get("/v1/peers")?).ok()?;
            (!peers["peers"].as_array()?.is_empty()).then_some(())
        });
    }

    /// It answers and counts, lets another node connect, and stops when it is told to.
    fn goes_on(mut self) {
        self.meet();
        let add = format!("{}/v1/spaces/default/counters/a/add", self.url);
        let added = process::agent().post(add).send("").expect("an answer");
        assert_eq!(added.status(), 200);
        self.get("/healthz").expect("it answers");
        self.signal("TERM");
        assert_eq!(self.ended().code(), Some(0));
    }
}

/// Output that is of no interest.
fn quiet(up: &mut Command) -> &mut Command {
    up.stdout(Stdio::null()).stderr(Stdio::null())
}

impl Drop for Loud {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A pipe in which there is no room.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = io::pipe().expect("a pipe");
    let flags = fcntl_getfl(&writer).expect("flags");
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("flags");
    for bytes in [&[b'.'; 4096][..], b"."] {
        while writer.write(bytes).is_ok() {}
    }
    fcntl_setfl(&writer, flags).expect("flags");
    (reader, writer)
}

#[test]
fn a_log_on_a_full_disk_ends_no_node() {
    let full = || File::options().write(true).open("/dev/full").expect("open");
    let node = Loud::start(|up| up.stdout(full()).stderr(full()), &["--log", "debug"]);
    node.goes_on();
}

#[test]
fn a_closed_log_ends_no_node() {
    let node = Loud::start(
        |up| {
            // As a shell does with `2>&-`.
            let shell = Command::new("sh");
            let real = std::mem::replace(up, shell);
            up.args(["-c", "exec \"$@\" >&- 2>&-", "sh"])
                .arg(real.get_program())
                .args(real.get_args());
            for (name, value) in real.get_envs() {
                up.env(name, value.unwrap_or_default());
            }
            up
        },
        &["--log", "debug"],
    );
    node.goes_on();
}

#[test]
fn whoever_reads_the_log_may_go() {
    let (reader, writer) = io::pipe().expect("a pipe");
    let both = writer.try_clone().expect("a pipe");
    let node = Loud::start(
        move |up| up.stdout(both).stderr(writer),
        &["--log", "debug"],
    );
    // As `head -1` does.
    drop(reader);
    node.goes_on();
}

#[test]
fn a_log_that_nobody_reads_holds_up_nothing() {
    let (reader, writer) = full_pipe();
    let both = writer.try_clone().expect("a pipe");
    let node = Loud::start(
        move |up| up.stdout(both).stderr(writer),
        &["--log", "trace"],
    );
    node.goes_on();
    drop(reader);
}

#[test]
fn an_end_by_a_fault_needs_no_reader() {
    let (_reader, writer) = full_pipe();
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut child = up(&folder.path().join("data"))
        .args(["--http", "127.0.0.1:0", "--listen", "nothing"])
        .stderr(writer)
        .spawn()
        .expect("start the node");
    let status = eventually("it ends", || child.try_wait().expect("wait"));
    assert_eq!(status.code(), Some(2));
}

#[test]
fn lines_that_were_dropped_are_counted_and_told_of() {
    let (mut reader, writer) = full_pipe();
    let node = Loud::start(move |up| up.stderr(writer), &["--log", "trace"]);
    let dropped = || {
        let metrics = node.get("/metrics").expect("figures");
        let mut lines = metrics.lines();
        let line = lines.find_map(|it| it.strip_prefix("tallymesh_log_lines_dropped_total "));
        line.expect("the figure").parse::<u64>().expect("a number")
    };
    eventually("lines are dropped", || {
        node.meet();
        (dropped() > 0).then_some(())
    });
    // Somebody reads again.
    let deadline = Instant::now() + DEADLINE;
    let mut log = Vec::new();
    let mut part = [0; 4096];
    while !String::from_utf8_lossy(&log).contains("the log lacks lines here") {
        let read = reader.read(&mut part).expect("the node writes");
        log.extend_from_slice(&part[..read]);
        assert!(Instant::now() < deadline, "it is not told");
    }
}

#[test]
fn each_signal_stops_in_order() {
    let mut folder = tempfile::tempdir().expect("temporary folder");
    for (number, signal) in ["HUP", "INT", "TERM"].into_iter().enumerate() {
        let mut node = Loud::start_in(folder, quiet, &["--durability", "interval:60s"]);
        let path = "/v1/spaces/default/counters/a";
        if number > 0 {
            let counter: Value =
                serde_json::from_str(&node.get(path).expect("the counter")).expect("JSON");
            assert_eq!(counter["value"], number.to_string(), "before SIG{signal}");
        }
        let add = format!("{}{path}/add", node.url);
        let added = process::agent().post(add).send("").expect("an answer");
        assert_eq!(added.status(), 200);
        node.signal(signal);
        assert_eq!(node.ended().code(), Some(0), "SIG{signal}");
        folder = std::mem::replace(&mut node.folder, tempfile::tempdir().expect("a folder"));
    }
}

#[test]
fn a_node_that_is_to_outlive_its_terminal_does() {
    let node = Loud::start(
        |up| {
            let shell = Command::new("sh");
            let real = std::mem::replace(up, shell);
            up.args(["-c", "trap '' HUP; exec \"$@\"", "sh"])
                .arg(real.get_program())
                .args(real.get_args())
                .stderr(Stdio::null())
                .stdout(Stdio::null())
        },
        &[],
    );
    node.signal("HUP");
    node.goes_on();
}

#[test]
fn a_second_signal_ends_a_stop_that_takes_too_long() {
    let mut node = Loud::start(quiet, &[]);
    // A request that is under way is waited for, up to five seconds.
    let address = node.url.strip_prefix("http://").expect("HTTP");
    let mut client = std::net::TcpStream::connect(address).expect("connect");
    let head =
        "POST /v1/spaces/default/add HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\na";
    client.write_all(head.as_bytes()).expect("send");
    eventually("the request is under way", || {
        let metrics = node.get("/metrics")?;
        metrics.contains("tallymesh_http_clients 2").then_some(())
    });
    let begun = Instant::now();
    node.signal("TERM");
    std::thread::sleep(Duration::from_millis(50));
    node.signal("TERM");
    let status = node.ended();
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "it was in no hurry"
    );
    assert_eq!(status.code(), Some(128 + 15), "{:?}", status.signal());
}

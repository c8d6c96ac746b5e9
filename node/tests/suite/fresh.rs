//! The first minutes with a first node: the README's commands, and the refusals on
//! the way.

use crate::process::{DEADLINE, Node, eventually};
use crate::redis::Redis;
use redis_protocol::resp2::types::OwnedFrame;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;

/// The way out, with which the refusal of a fresh node begins.
const MESH: &str = "This needs a mesh: run `tallymesh members init` once";

#[test]
fn a_fresh_node_says_over_each_protocol_how_budgets_begin() {
    let node = Node::start(&["--resp", "127.0.0.1:0"]);
    let mut redis = Redis::connect(&node);
    for (path, body) in [
        ("budgets/gift/spend", r#"{"amount":1}"#),
        ("budgets/gift/mint", r#"{"amount":1}"#),
        ("sequences/visits", ""),
    ] {
        let (status, problem) = node.post(&format!("/v1/spaces/default/{path}"), body);
        let detail = problem["detail"].as_str().expect("text");
        assert_eq!(
            (status, &problem["code"]),
            (409, &json!("not_a_member")),
            "{path}"
        );
        assert!(detail.contains(MESH), "{path}: {detail}");
    }
    for words in [
        ["BUDGET.MINT", "gift", "1"].as_slice(),
        &["BUDGET.SPEND", "gift", "1"],
        &["SEQUENCE.BEGIN", "visits"],
    ] {
        let OwnedFrame::Error(answer) = redis.ask(words) else {
            panic!("{words:?} was not refused");
        };
        assert!(
            answer.starts_with(&format!("ERR {MESH}")),
            "{words:?}: {answer}"
        );
    }
    for words in [
        ["budget", "spend", "gift", "5"].as_slice(),
        &["sequence", "begin", "visits"],
    ] {
        let refused = node.run(words, "");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains(MESH), "{words:?}: {said}");
        assert_eq!(said.matches("members init").count(), 1, "{said}");
    }
}

#[test]
fn a_node_that_came_in_with_a_ticket_is_not_told_to_begin_a_mesh() {
    let first = Node::start(&[]);
    let ticket = crate::tickets::ticket(&first.run(&["invite", "--role", "writer"], ""));
    let writer = Node::start(&["--join", &ticket, "--resp", "127.0.0.1:0"]);
    assert_eq!(writer.space()["role"], "writer");
    let status = writer.get("/v1/status").1;
    let owner = status["owner"].as_str().expect("a key");
    let advised = |words: &[&str]| {
        let refused = writer.run(words, "");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{words:?}: {said}");
        let advised = !said.contains("init") && said.contains("gave you the ticket");
        assert!(advised && !said.contains("Budgets"), "{words:?}: {said}");
    };
    let of_members = [
        ["budget", "spend", "gift", "5"].as_slice(),
        &["sequence", "next", "visits"],
        &["limit", "set", "login", "--limit", "5", "--period", "1m"],
        &["members", "add", owner],
    ];
    of_members.iter().for_each(|words| advised(words));
    advised(&["get", "likes", "--level", "quorum"]);
    let spent = Redis::connect(&writer).ask(&["BUDGET.SPEND", "gift", "1"]);
    assert!(
        matches!(&spent, OwnedFrame::Error(text) if text.contains("gave you the ticket")),
        "{spent:?}"
    );
    crate::members::close(&[&first]);
    eventually("the writer's node knows the member", || {
        let members = writer.get("/v1/spaces/default/members").1;
        (members["members"].as_array()?.len() == 1).then_some(())
    });
    of_members.iter().for_each(|words| advised(words));
    advised(&["invite", "--role", "reader"]);
}

/// A reader of the README: a home, a folder to work in, and the program on the path.
struct Reader {
    folder: TempDir,
    path: OsString,
    /// The nodes that were started, the first one first.
    nodes: Vec<(Child, Value)>,
}

impl Reader {
    fn new() -> Reader {
        let folder = tempfile::tempdir().expect("temporary folder");
        let program = Path::new(env!("CARGO_BIN_EXE_tallymesh"));
        let mut path = program.parent().expect("its folder").as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let log = "a - - [x] \"GET /a HTTP/1.1\" 200\na - - [x] \"GET /b HTTP/1.1\" 200\n";
        fs::write(folder.path().join("access.log"), log).expect("a log");
        Reader {
            folder,
            path,
            nodes: Vec::new(),
        }
    }

    /// A line of the README in a shell. Only addresses differ: every listener takes a free port.
    fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("set -e; {line}")])
            .current_dir(&self.folder)
            .env("PATH", &self.path)
            .env("HOME", self.folder.path())
            .env("XDG_DATA_HOME", self.folder.path())
            .env("TALLYMESH_HTTP", "127.0.0.1:0")
            .env("TALLYMESH_ADDRESS_BOOK", "off")
            .env("TALLYMESH_READY_FILE", self.folder.path().join("ready"))
            .stdin(Stdio::null());
        if let Some((_, facts)) = self.nodes.first() {
            command.env("TALLYMESH_NODE", facts["http"].as_str().expect("a URL"));
        }
        command
    }

    /// Starts a node and waits until it listens.
    fn up(&mut self, line: &str) {
        let ready = self.folder.path().join("ready");
        let _ = fs::remove_file(&ready);
        let name = format!("log-{}", self.nodes.len());
        let log = fs::File::create(self.folder.path().join(&name)).expect("a log");
        let mut command = self.shell(&format!("exec {line}"));
        command.stdout(log.try_clone().expect("a log")).stderr(log);
        let mut child = command.spawn().expect("start the shell");
        let facts = eventually("the node listens", || {
            let ended = child.try_wait().expect("look at the node");
            let log = || fs::read_to_string(self.folder.path().join(&name)).unwrap_or_default();
            assert!(ended.is_none(), "`{line}` ended:\n{}", log());
            serde_json::from_slice(&fs::read(&ready).ok()?).ok()
        });
        self.nodes.push((child, facts));
    }

    /// Runs a command that ends by itself, and returns its output.
    fn done(&self, line: &str) -> String {
        let output = self.shell(line).output().expect("run the shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "`{line}`: {out}{err}");
        assert_eq!(err, "", "`{line}`");
        out
    }

    /// Runs a command until it has printed a line, which it returns.
    fn first_line(&self, line: &str) -> String {
        let mut command = self.shell(&format!("exec {line}"));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("start it");
        let mut said = String::new();
        let out = child.stdout.take().expect("a pipe");
        let read = BufReader::new(out).read_line(&mut said);
        child.kill().expect("end it");
        child.wait().expect("wait for it");
        read.expect("read its line");
        said
    }

    /// Ends the first node in order, as Ctrl-C does.
    fn stop_first(&mut self) {
        let (mut child, _) = self.nodes.remove(0);
        let sent = Command::new("kill").arg(child.id().to_string()).status();
        assert!(sent.expect("kill").success());
        let deadline = Instant::now() + DEADLINE;
        eventually("the node ends", || {
            assert!(Instant::now() < deadline);
            child.try_wait().expect("wait for the node")
        });
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        for (child, _) in &mut self.nodes {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The commands of the README that talk of a node, in their order and without their remarks.
fn commands() -> Vec<String> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = fs::read_to_string(readme).expect("the README");
    let blocks = readme.split("```sh\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().expect("an end"));
    let ours =
        blocks.filter(|block| block.contains("tallymesh up") || block.contains("tallymesh add"));
    let lines = ours.flat_map(str::lines);
    let lines = lines.map(|line| line.split("  #").next().expect("a command").trim());
    lines.map(str::to_owned).collect()
}

#[test]
fn the_commands_of_the_readme_do_what_they_say_on_a_fresh_node() {
    let mut reader = Reader::new();
    let mut outputs = Vec::new();
    for line in commands() {
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["tallymesh", "up", ..] if line.contains("PORT") => {
                let address = reader.nodes[0].1["listen"][0].as_str().expect("an address");
                let placeholder = line.split(' ').find(|word| word.contains("PORT"));
                let line = line.replace(placeholder.expect("an address"), address);
                reader.up(&line);
                let other = reader.nodes[1].1["http"].as_str().expect("a URL");
                let look = format!("tallymesh get likes --node {other}");
                eventually("the other node shows what the first counted", || {
                    let shown = reader.shell(&look).output().expect("run the shell").stdout;
                    (shown == b"5\n").then_some(())
                });
                // The reader looks at it and ends it.
                let (mut other, _) = reader.nodes.pop().expect("the other node");
                other.kill().expect("end the other node");
                other.wait().expect("wait for the other node");
            }
            ["tallymesh", "up", .., "--resp", address] => {
                reader.stop_first();
                let line = line.replace(address, "127.0.0.1:0");
                reader.up(&line);
            }
            ["tallymesh", "up"] => reader.up(&line),
            ["tallymesh", "watch", ..] => outputs.push((line.clone(), reader.first_line(&line))),
            ["redis-cli", words @ ..] => {
                let address = reader.nodes[0].1["resp"].as_str().expect("an address");
                let OwnedFrame::Integer(value) = Redis::connect_to(address).ask(words) else {
                    panic!("`{line}` was refused");
                };
                outputs.push((line.clone(), value.to_string()));
            }
            // It may have something to say of this machine, such as a disk that is nearly full.
            ["tallymesh", "doctor"] => {
                let said = reader.shell(&line).output().expect("run the shell").stdout;
                let said = String::from_utf8_lossy(&said);
                assert!(said.starts_with("ok       ready"), "{said}");
            }
            _ => outputs.push((line.clone(), reader.done(&line))),
        }
    }
    let output = |begin: &str| -> &str {
        let found = outputs.iter().find(|(line, _)| line.starts_with(begin));
        &found
            .unwrap_or_else(|| panic!("the README has no `{begin}`"))
            .1
    };
    assert_eq!(output("tallymesh get likes").trim(), "5");
    assert_eq!(output("cut").trim(), "2 lines added");
    assert_eq!(output("tallymesh watch"), "likes\t5\n");
    assert_eq!(output("tallymesh budget spend").trim(), "15");
    assert_eq!(output("tallymesh sequence next").trim(), "1");
    assert_eq!(output("tallymesh limit allow").trim(), "4");
    assert_eq!(output("redis-cli").trim(), "6");
}

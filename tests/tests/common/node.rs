//! A real `tallymesh up` in a folder of its own, and the requests of a test to it.

use crate::wire::{Connection, Wire, http_answer, http_request};
use serde_json::Value;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// Longest wait for anything.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
pub(crate) const POLL: Duration = Duration::from_millis(10);

pub(crate) const SPACE: &str = "/v1/spaces/default";

/// A node, running or not. It is killed when it is dropped.
pub(crate) struct Node {
    /// Its number among the nodes of a test.
    number: usize,
    pub(crate) folder: TempDir,
    pub(crate) child: Option<Child>,
    /// The address of its HTTP interface, and the one of the Redis protocol if it serves that.
    pub(crate) http: String,
    pub(crate) resp: String,
    pub(crate) peer_id: String,
    /// Its TCP address for other nodes.
    pub(crate) listen: String,
}

impl Node {
    /// A node that has never run.
    pub(crate) fn new(number: usize) -> Result<Node, String> {
        Ok(Node {
            number,
            folder: tempfile::tempdir().map_err(told)?,
            child: None,
            http: String::new(),
            resp: String::new(),
            peer_id: String::new(),
            listen: String::new(),
        })
    }

    /// The folder of its key and state.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts it with this command and more arguments, for the first time or again on its folder. Waits until
    /// it listens.
    pub(crate) async fn start(&mut self, mut command: Command) -> Result<(), String> {
        let ready = self.folder.path().join("ready.json");
        // The file of the last start must not be read as the one of this start.
        let _ = fs::remove_file(&ready);
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join("log"))
            .map_err(told)?;
        command
            .args(["--http", "127.0.0.1:0", "--data"])
            .arg(self.data())
            .arg("--ready-file")
            .arg(&ready)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(told)?)
            .stderr(log)
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(told)?;
        let facts = facts(&mut child, &ready).await;
        let facts = facts.map_err(|why| format!("node {}: {why}:\n{}", self.number, self.log()))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.child = Some(child);
        self.http = text(&facts["http"])
            .trim_start_matches("http://")
            .to_owned();
        self.resp = text(&facts["resp"]);
        self.peer_id = text(&facts["peer_id"]);
        self.listen = text(&facts["listen"][0]);
        Ok(())
    }

    /// The end of its log. If it panicked, the log from the panic on.
    pub(crate) fn log(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines.len().saturating_sub(30);
        let panicked = lines.iter().rposition(|line| line.contains("panicked at"));
        lines[panicked.unwrap_or(last).min(last)..].join("\n")
    }

    /// Ends it without any warning, as `kill -9` does. Returns whether it was running.
    pub(crate) async fn kill(&mut self) -> Result<bool, String> {
        let Some(mut child) = self.child.take() else {
            return Ok(false);
        };
        child.kill().await.map_err(told)?;
        Ok(true)
    }

    /// Whether it sees this many members, and all of them have acknowledged each other's starts.
    pub(crate) async fn is_settled(&self, members: usize) -> Result<bool, String> {
        let answer = self.get(&format!("{SPACE}/members")).await?;
        let rows = answer["members"].as_array().cloned().unwrap_or_default();
        let known = |row: &Value| !row["writer"].is_null() && row["unsure"] == false;
        Ok(rows.len() == members && rows.iter().all(known))
    }

    /// The digest of its state.
    pub(crate) async fn digest(&self) -> Result<String, String> {
        let status = self.get("/v1/status").await?;
        Ok(status["spaces"][0]["digest"].to_string())
    }

    /// Its values of counters, as one view. The value of an absent counter is 0.
    pub(crate) async fn values(&self, names: &[String]) -> Result<Vec<i128>, String> {
        let body = serde_json::json!({ "keys": names });
        let answer = self.post(&format!("{SPACE}/read"), &body).await?;
        let rows = answer["counters"].as_array().ok_or("no counters")?;
        let value = |row: &Value| match row["value"].as_str() {
            None => Ok(0),
            Some(text) => text.parse().map_err(|_| format!("no number: {text}")),
        };
        rows.iter().map(value).collect()
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, String> {
        let body = self.ask("GET", path, "", "").await?;
        serde_json::from_str(&body).map_err(told)
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        let operators = ["/members/", "/v1/tickets"];
        let shown = match operators.iter().any(|part| path.contains(part)) {
            true => self.shown()?,
            false => String::new(),
        };
        let body = self.ask("POST", path, &shown, &body.to_string()).await?;
        serde_json::from_str(&body).map_err(told)
    }

    /// The header with its operator's token. Empty for a version without a token.
    pub(crate) fn shown(&self) -> Result<String, String> {
        let file = self.data().join("token");
        match file.exists() {
            true => {
                let token = fs::read_to_string(file).map_err(told)?;
                Ok(format!("authorization: Bearer {}\r\n", token.trim()))
            }
            false => Ok(String::new()),
        }
    }

    /// Sends it a request, with no proxy between.
    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> Result<String, String> {
        let address = self.http.parse().map_err(told)?;
        let asked = async {
            let mut connection = Connection::open(Wire::Http, address).await?;
            let request = http_request(method, path, headers, body);
            connection.ask(&request).await
        };
        let answer: io::Result<Vec<u8>> = timeout(DEADLINE, asked)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let number = self.number;
        let answer = answer.map_err(|error| {
            format!("{method} {path} at node {number}: {error}\n{}", self.log())
        })?;
        match http_answer(&answer)? {
            (200, body) => Ok(body),
            (status, body) => Err(format!("{method} {path} at node {number}: {status} {body}")),
        }
    }
}

/// The facts that a node writes to its ready file once it listens.
async fn facts(child: &mut Child, ready: &Path) -> Result<Value, String> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let bytes = fs::read(ready).unwrap_or_default();
        if let Ok(facts) = serde_json::from_slice(&bytes) {
            return Ok(facts);
        }
        if let Some(status) = child.try_wait().map_err(told)? {
            return Err(format!("the node ended with {status}"));
        }
        if Instant::now() > deadline {
            return Err("the node does not listen".to_owned());
        }
        sleep(POLL).await;
    }
}

/// The path of the program `tallymesh`: the one in `TALLYMESH_BIN`, or the one of the same build.
pub(crate) fn program() -> Result<PathBuf, String> {
    let built = || {
        let own = std::env::current_exe().ok()?;
        let name = format!("tallymesh{}", std::env::consts::EXE_SUFFIX);
        let path = own.parent()?.parent()?.join(name);
        path.exists().then_some(path)
    };
    let named = std::env::var_os("TALLYMESH_BIN").map(PathBuf::from);
    named.or_else(built).ok_or_else(|| {
        "there is no program `tallymesh` beside this test: run `cargo build --release -p \
         tallymesh-node` first, or set TALLYMESH_BIN"
            .to_owned()
    })
}

pub(crate) fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

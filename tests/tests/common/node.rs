//! A real `tallymesh up` in a folder of its own, and what a test asks it.

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

/// How long anything that is waited for may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
pub(crate) const POLL: Duration = Duration::from_millis(10);

pub(crate) const SPACE: &str = "/v1/spaces/default";

/// A node, running or not. Dropped, it is killed.
pub(crate) struct Node {
    /// Its number among the nodes of a test.
    number: usize,
    pub(crate) folder: TempDir,
    pub(crate) child: Option<Child>,
    /// Where it serves HTTP, and the Redis protocol if it does.
    pub(crate) http: String,
    pub(crate) resp: String,
    pub(crate) peer_id: String,
    /// Where other nodes reach it, over TCP.
    pub(crate) listen: String,
}

impl Node {
    /// One that has never run.
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

    /// Starts it, for the first time or again on its folder, by this command with more arguments, and
    /// waits until it listens.
    pub(crate) async fn start(&mut self, mut command: Command) -> Result<(), String> {
        let ready = self.folder.path().join("ready.json");
        // The file of the last start must not be taken for the new one's.
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

    /// What it has said, the end of it: from where it panicked, if it did.
    pub(crate) fn log(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines.len().saturating_sub(30);
        let panicked = lines.iter().rposition(|line| line.contains("panicked at"));
        lines[panicked.unwrap_or(last).min(last)..].join("\n")
    }

    /// Ends it without any warning, as `kill -9` does. Tells whether it ran.
    pub(crate) async fn kill(&mut self) -> Result<bool, String> {
        let Some(mut child) = self.child.take() else {
            return Ok(false);
        };
        child.kill().await.map_err(told)?;
        Ok(true)
    }

    /// Whether it sees so many members, with starts that all know.
    pub(crate) async fn is_settled(&self, members: usize) -> Result<bool, String> {
        let answer = self.get(&format!("{SPACE}/members")).await?;
        let rows = answer["members"].as_array().cloned().unwrap_or_default();
        let known = |row: &Value| !row["writer"].is_null() && row["unsure"] == false;
        Ok(rows.len() == members && rows.iter().all(known))
    }

    /// What it holds, as a digest.
    pub(crate) async fn digest(&self) -> Result<String, String> {
        let status = self.get("/v1/status").await?;
        Ok(status["spaces"][0]["digest"].to_string())
    }

    /// What it shows for counters, as one view; 0 for those that are absent.
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
        let shown = match path.contains("/members/") {
            true => self.shown()?,
            false => String::new(),
        };
        let body = self.ask("POST", path, &shown, &body.to_string()).await?;
        serde_json::from_str(&body).map_err(told)
    }

    /// The header that shows its operator's token; none of a version that has none.
    fn shown(&self) -> Result<String, String> {
        let file = self.data().join("token");
        match file.exists() {
            true => {
                let token = fs::read_to_string(file).map_err(told)?;
                Ok(format!("authorization: Bearer {}\r\n", token.trim()))
            }
            false => Ok(String::new()),
        }
    }

    /// Asks it, with no proxy between.
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

/// What a node says of itself once it listens.
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

/// The program `tallymesh`: what `TALLYMESH_BIN` names, or what the same build has made.
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

//! Three real nodes, members of one space, that are killed, started again, cut and healed.

use crate::wire::{Connection, Wire, http_answer, http_request};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::sleep;

pub(crate) const NODES: usize = 3;

/// How long anything that is waited for may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

const SPACE: &str = "/v1/spaces/default";

/// The nodes. Dropped, they are killed.
pub(crate) struct Mesh {
    nodes: Vec<Node>,
    wire: Wire,
    /// Pairs whose link is cut, the smaller number first.
    cuts: Vec<(usize, usize)>,
    pub(crate) figures: Figures,
}

/// What befell the nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) kills: u64,
    /// Links that were cut.
    pub(crate) cuts: u64,
    /// Adds that a node made, and did not know to be made before. What nodes made after they were
    /// looked at last, before they were killed, is not among them.
    pub(crate) adds: u64,
    /// Times that a member went on under another writer id, and made again what was not certain.
    pub(crate) renewals: u64,
}

struct Node {
    folder: TempDir,
    child: Option<Child>,
    http: String,
    resp: String,
    peer_id: String,
    /// Where other nodes reach it, over TCP.
    listen: String,
}

impl Mesh {
    /// Starts three nodes, and makes them members of one space.
    pub(crate) async fn start(wire: Wire) -> Result<Mesh, String> {
        let mut mesh = Mesh {
            nodes: Vec::new(),
            wire,
            cuts: Vec::new(),
            figures: Figures::default(),
        };
        for node in 0..NODES {
            mesh.nodes.push(Node {
                folder: tempfile::tempdir().map_err(told)?,
                child: None,
                http: String::new(),
                resp: String::new(),
                peer_id: String::new(),
                listen: String::new(),
            });
            mesh.run(node).await?;
        }
        let members = |change: &str| format!("{SPACE}/members/{change}");
        mesh.post(0, &members("init"), &json!({})).await?;
        for node in 1..NODES {
            let status = mesh.get(node, "/v1/status").await?;
            let body = json!({ "owner": status["owner"], "wait_ms": 20_000 });
            mesh.post(0, &members("add"), &body).await?;
        }
        let deadline = Instant::now() + DEADLINE;
        while !mesh.is_settled().await? {
            if Instant::now() > deadline {
                return Err("the members do not know each other".to_owned());
            }
            sleep(POLL).await;
        }
        Ok(mesh)
    }

    /// Starts a node, for the first time or again on its folder, linked to all that run.
    async fn run(&mut self, node: usize) -> Result<(), String> {
        let peers: Vec<String> = self
            .nodes
            .iter()
            .filter(|other| other.child.is_some())
            .map(|other| other.listen.clone())
            .collect();
        let Node { folder, .. } = &self.nodes[node];
        let ready = folder.path().join("ready.json");
        // The file of the last start must not be taken for the new one's.
        let _ = fs::remove_file(&ready);
        let log = File::options()
            .create(true)
            .append(true)
            .open(folder.path().join("log"))
            .map_err(told)?;
        let mut command = Command::new(binary()?);
        command
            .args(["up", "--demo", "--http", "127.0.0.1:0", "--data"])
            .arg(folder.path().join("data"))
            .arg("--ready-file")
            .arg(&ready)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(told)?)
            .stderr(log)
            .kill_on_drop(true);
        if self.wire == Wire::Resp {
            command.args(["--resp", "127.0.0.1:0"]);
        }
        if !peers.is_empty() {
            command.arg("--peer").args(peers);
        }
        let mut child = command.spawn().map_err(told)?;
        let facts = facts(&mut child, &ready).await;
        let facts = facts.map_err(|why| format!("{why}:\n{}", self.log(node)))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let it = &mut self.nodes[node];
        it.child = Some(child);
        it.http = text(&facts["http"])
            .trim_start_matches("http://")
            .to_owned();
        it.resp = text(&facts["resp"]);
        it.peer_id = text(&facts["peer_id"]);
        it.listen = text(&facts["listen"][0]);
        Ok(())
    }

    /// Where clients reach a node.
    pub(crate) fn address(&self, node: usize) -> Result<SocketAddr, String> {
        let Node { http, resp, .. } = &self.nodes[node];
        let address = match self.wire {
            Wire::Http => http,
            Wire::Resp => resp,
        };
        address
            .parse()
            .map_err(|_| format!("no address: {address}"))
    }

    /// What a node has said, its end.
    pub(crate) fn log(&self, node: usize) -> String {
        let log = fs::read_to_string(self.nodes[node].folder.path().join("log"));
        let log = log.unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// Ends a node without any warning, as `kill -9` does.
    pub(crate) async fn kill(&mut self, node: usize) -> Result<(), String> {
        self.look(node).await?;
        if let Some(mut child) = self.nodes[node].child.take() {
            child.kill().await.map_err(told)?;
            self.figures.kills += 1;
        }
        Ok(())
    }

    /// Starts a killed node again. Its links that are cut stay cut.
    pub(crate) async fn start_again(&mut self, node: usize) -> Result<(), String> {
        self.run(node).await?;
        for (one, two) in self.cuts.clone() {
            if [one, two].contains(&node) {
                self.set_cut(node, one + two - node, true).await?;
            }
        }
        Ok(())
    }

    /// Cuts the link between two nodes, at both of them.
    pub(crate) async fn cut(&mut self, one: usize, two: usize) -> Result<(), String> {
        self.cuts.push((one.min(two), one.max(two)));
        self.figures.cuts += 1;
        self.set_cut(one, two, true).await?;
        self.set_cut(two, one, true).await
    }

    /// Heals all links.
    pub(crate) async fn heal(&mut self) -> Result<(), String> {
        for (one, two) in std::mem::take(&mut self.cuts) {
            self.set_cut(one, two, false).await?;
            self.set_cut(two, one, false).await?;
        }
        Ok(())
    }

    async fn set_cut(&self, node: usize, from: usize, cut: bool) -> Result<(), String> {
        if self.nodes[node].child.is_none() {
            return Ok(());
        }
        let body = json!({ "cut": cut, "peer": self.nodes[from].peer_id });
        self.post(node, "/v1/demo/cut", &body).await.map(|_| ())
    }

    /// Adds a node's figures to those of all, before they are lost with it.
    async fn look(&mut self, node: usize) -> Result<(), String> {
        let metrics = self.ask(node, "GET", "/metrics", "").await?;
        let adds = metrics
            .lines()
            .find_map(|line| line.strip_prefix("tallymesh_adds_total "));
        let adds = adds.and_then(|adds| adds.parse::<u64>().ok());
        self.figures.adds += adds.ok_or("no figure of adds")?;
        let status = self.get(node, "/v1/status").await?;
        self.figures.renewals += status["spaces"][0]["renewals"].as_u64().unwrap_or(0);
        Ok(())
    }

    /// Whether each node sees all of them as members, with starts that all know.
    pub(crate) async fn is_settled(&self) -> Result<bool, String> {
        for node in 0..NODES {
            let answer = self.get(node, &format!("{SPACE}/members")).await?;
            let rows = answer["members"].as_array().cloned().unwrap_or_default();
            let known = |row: &Value| !row["writer"].is_null() && row["unsure"] == false;
            if rows.len() != NODES || !rows.iter().all(known) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What all nodes hold, as a digest, if it is the same.
    pub(crate) async fn digest(&self) -> Result<Option<String>, String> {
        let mut digests = Vec::new();
        for node in 0..NODES {
            let status = self.get(node, "/v1/status").await?;
            digests.push(status["spaces"][0]["digest"].to_string());
        }
        let same = digests.iter().all(|digest| *digest == digests[0]);
        Ok(same.then(|| digests.swap_remove(0)))
    }

    /// What a node shows for counters, as one view; 0 for those that are absent.
    pub(crate) async fn values(&self, node: usize, names: &[String]) -> Result<Vec<i128>, String> {
        let (path, body) = (format!("{SPACE}/read"), json!({ "keys": names }));
        let answer = self.post(node, &path, &body).await?;
        let rows = answer["counters"].as_array().ok_or("no counters")?;
        let value = |row: &Value| match row["value"].as_str() {
            None => Ok(0),
            Some(text) => text.parse().map_err(|_| format!("no number: {text}")),
        };
        rows.iter().map(value).collect()
    }

    async fn get(&self, node: usize, path: &str) -> Result<Value, String> {
        let body = self.ask(node, "GET", path, "").await?;
        serde_json::from_str(&body).map_err(told)
    }

    async fn post(&self, node: usize, path: &str, body: &Value) -> Result<Value, String> {
        let body = self.ask(node, "POST", path, &body.to_string()).await?;
        serde_json::from_str(&body).map_err(told)
    }

    /// Asks a node, with no proxy between.
    async fn ask(
        &self,
        node: usize,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<String, String> {
        let address = self.nodes[node].http.parse().map_err(told)?;
        let asked = async {
            let mut connection = Connection::open(Wire::Http, address).await?;
            connection
                .ask(&http_request(method, path, None, body))
                .await
        };
        let answer: io::Result<Vec<u8>> = asked.await;
        let answer = answer.map_err(|error| {
            format!(
                "{method} {path} at node {node}: {error}\n{}",
                self.log(node)
            )
        })?;
        match http_answer(&answer)? {
            (200, body) => Ok(body),
            (status, body) => Err(format!("{method} {path} at node {node}: {status} {body}")),
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
fn binary() -> Result<PathBuf, String> {
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

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

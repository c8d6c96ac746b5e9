//! Three `tallymesh` processes that are joined to each other on loopback.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tempfile::TempDir;

use crate::run::{Group, go_on};

const NODES: usize = 3;
/// A node opens its store and binds its ports in well under a second.
const READY_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Running nodes with their data. Dropping it ends the processes and removes the data.
#[derive(Debug)]
pub(super) struct Cluster {
    // The order matters: processes end before their folders are removed.
    nodes: Vec<Node>,
    folder: TempDir,
}

/// One running node.
#[derive(Debug)]
pub(super) struct Node {
    process: Group,
    ready: Ready,
    log: PathBuf,
    data: PathBuf,
}

/// The content of a node's ready file.
#[derive(Debug, Deserialize)]
struct Ready {
    http: String,
    listen: Vec<String>,
}

impl Node {
    /// The address of its page and its HTTP interface, without a slash at the end.
    pub(super) fn http(&self) -> &str {
        self.ready.http.trim_end_matches('/')
    }

    /// The file with its operator's token.
    pub(super) fn token_file(&self) -> PathBuf {
        self.data.join("token")
    }
}

impl Cluster {
    /// Starts the nodes one after the other, each with the ones before it as peers, and waits until all
    /// serve.
    ///
    /// # Errors
    /// If a node ends early or is not ready in time. The text has the end of its log.
    pub(super) fn start(binary: &Path) -> Result<Cluster> {
        let mut cluster = Cluster {
            nodes: Vec::new(),
            folder: tempfile::Builder::new()
                .prefix("tallymesh-demo-")
                .tempdir()?,
        };
        for number in 1..=NODES {
            let node = cluster.start_node(binary, number)?;
            cluster.nodes.push(node);
        }
        Ok(cluster)
    }

    /// The nodes, in the order in which they were started.
    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The folder with the logs of this cluster. It is removed with the cluster.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Fails if one of the nodes has ended.
    pub(super) fn all_alive(&mut self) -> Result<()> {
        for node in &mut self.nodes {
            if let Some(status) = node.process.try_wait()? {
                bail!(
                    "the node at {} ended by itself ({status}):\n{}",
                    node.ready.http,
                    end_of(&node.log)
                );
            }
        }
        Ok(())
    }

    fn start_node(&self, binary: &Path, number: usize) -> Result<Node> {
        let folder = self.folder.path();
        let log = folder.join(format!("node-{number}.log"));
        let ready_file = folder.join(format!("node-{number}.json"));
        let output = File::create(&log)?;
        let data = folder.join(format!("node-{number}"));
        let mut command = Command::new(binary);
        command
            .args(["up", "--demo"])
            .arg("--data")
            .arg(&data)
            .args(["--http", "127.0.0.1:0", "--listen", "/ip4/127.0.0.1/tcp/0"])
            .arg("--ready-file")
            .arg(&ready_file)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        for peer in &self.nodes {
            for address in &peer.ready.listen {
                command.args(["--peer", address]);
            }
        }
        let mut process = Group::spawn(&mut command)?;
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            go_on()?;
            // An incomplete file is still being written.
            if let Some(ready) = fs::read_to_string(&ready_file)
                .ok()
                .and_then(|text| serde_json::from_str(&text).ok())
            {
                return Ok(Node {
                    process,
                    ready,
                    log,
                    data,
                });
            }
            if let Some(status) = process.try_wait()? {
                bail!(
                    "node {number} ended before it was ready ({status}):\n{}",
                    end_of(&log)
                );
            }
            if Instant::now() > deadline {
                bail!(
                    "node {number} was not ready after {} s:\n{}",
                    READY_LIMIT.as_secs(),
                    end_of(&log)
                );
            }
            thread::sleep(POLL);
        }
    }
}

/// The last lines of a node's log.
fn end_of(log: &Path) -> String {
    let text = fs::read_to_string(log)
        .with_context(|| format!("no log at {}", log.display()))
        .unwrap_or_else(|error| error.to_string());
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

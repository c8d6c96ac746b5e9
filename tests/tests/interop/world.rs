//! The mesh: native nodes, and replicas behind drivers, each with a gate that leads to one of the nodes.

use crate::answer::{Outcome, Position};
use crate::check::Tell;
use crate::driver::{Driver, Start};
use crate::gate::Gate;
use crate::native::Native;
use crate::node::{DEADLINE, told};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use tallymesh_core::WriterId;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

pub(crate) const NODES: usize = 3;

/// A replica behind a driver.
pub(crate) struct Remote {
    pub(crate) name: String,
    driver: Driver,
    gate: Gate,
    /// Its writer.
    pub(crate) writer: WriterId,
    /// The node that its gate leads to.
    pub(crate) node: Option<usize>,
    /// Whether it has the command to stay apart.
    pub(crate) apart: bool,
}

/// All replicas. The nodes come first.
pub(crate) struct World {
    pub(crate) nodes: Vec<Native>,
    pub(crate) remotes: Vec<Remote>,
    /// Pairs of nodes that are cut from each other.
    pub(crate) parted: Vec<(usize, usize)>,
    /// The process that makes the project of the drivers. It removes the project at the end of its input.
    project: Child,
    /// The folder of the drivers' logs.
    _logs: TempDir,
}

impl World {
    pub(crate) async fn start() -> Result<World, String> {
        let logs = tempfile::tempdir().map_err(told)?;
        let (project, starts) = drivers(&logs).await?;
        let mut world = World {
            nodes: Vec::new(),
            remotes: Vec::new(),
            parted: Vec::new(),
            project,
            _logs: logs,
        };
        // All of them start at once, because browsers take some time.
        for (name, start) in starts {
            world.remotes.push(Remote {
                name,
                driver: Driver::start(start)?,
                gate: Gate::open().await?,
                writer: WriterId::from_bytes([0; 16]),
                node: None,
                apart: false,
            });
        }
        for number in 0..NODES {
            world.nodes.push(Native::new(number)?);
            world.start_node(number).await?;
        }
        for remote in 0..world.remotes.len() {
            world.lead(remote, Some(remote % NODES))?;
            world.begin(remote, None).await?;
        }
        Ok(world)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let nodes = (0..NODES).map(|number| format!("native node {}", number + 1));
        let remotes = self.remotes.iter().map(|remote| remote.name.clone());
        nodes.chain(remotes).collect()
    }

    /// Starts a node, which dials all others that run.
    async fn start_node(&mut self, number: usize) -> Result<(), String> {
        let others = self.nodes.iter().enumerate();
        let others = others.filter(|(other, node)| *other != number && !node.listen().is_empty());
        let peers: Vec<String> = others.map(|(_, node)| node.listen().to_owned()).collect();
        self.nodes[number].start(&peers).await
    }

    /// Kills a node and starts it again on its folder.
    pub(crate) async fn restart_node(&mut self, number: usize) -> Result<(), String> {
        self.nodes[number].kill().await?;
        self.start_node(number).await?;
        // The other nodes still have their cuts.
        for (a, b) in self.parted.clone() {
            if a == number {
                self.part(a, b, true).await?;
            }
        }
        for remote in 0..self.remotes.len() {
            if self.remotes[remote].node == Some(number) {
                self.lead(remote, Some(number))?;
            }
        }
        Ok(())
    }

    /// Cuts two nodes from each other, or ends that.
    pub(crate) async fn part(&mut self, a: usize, b: usize, cut: bool) -> Result<(), String> {
        let peer = self.nodes[b].peer_id().to_owned();
        self.nodes[a].cut(Some(&peer), cut).await
    }

    /// Leads a remote replica's gate to a node, or nowhere.
    pub(crate) fn lead(&mut self, remote: usize, node: Option<usize>) -> Result<(), String> {
        let to = node.map(|node| self.nodes[node].http()).transpose()?;
        self.remotes[remote].gate.lead(to);
        self.remotes[remote].node = node;
        Ok(())
    }

    /// Opens the replica of a driver, with the remaining state of the one before.
    pub(crate) async fn begin(
        &mut self,
        remote: usize,
        state: Option<&str>,
    ) -> Result<Position, String> {
        let remote = &mut self.remotes[remote];
        remote.apart = false;
        let request = json!({ "do": "begin", "node": remote.gate.address, "state": state });
        let position = Position::read(&remote.driver.ask(&request).await?)?;
        remote.writer = position.writer;
        Ok(position)
    }

    /// Ends a driver's replica, and restarts its runtime.
    pub(crate) async fn reload(&mut self, remote: usize) -> Result<(), String> {
        self.remotes[remote].driver.reload().await
    }

    /// Makes a driver's replica stay apart from all nodes, or connect again.
    pub(crate) async fn stay_apart(&mut self, remote: usize, apart: bool) -> Result<(), String> {
        self.remotes[remote].apart = apart;
        let what = if apart { "cut" } else { "heal" };
        self.simple(remote, what).await
    }

    /// A request with an empty answer.
    pub(crate) async fn simple(&mut self, remote: usize, what: &str) -> Result<(), String> {
        let request = json!({ "do": what });
        self.remotes[remote].driver.ask(&request).await.map(drop)
    }

    /// Requests a transaction of a replica. Returns its position just before, the outcome, and its position
    /// after it. A node may receive more in between.
    pub(crate) async fn transact(
        &mut self,
        at: usize,
        clock: u64,
        ops: &Value,
    ) -> Result<(Position, Outcome, Position), String> {
        match at.checked_sub(NODES) {
            None => {
                let before = self.nodes[at].position().await?;
                let outcome = self.nodes[at].transact(ops).await?;
                Ok((before, outcome, self.nodes[at].position().await?))
            }
            Some(remote) => {
                let request = json!({ "do": "transact", "ops": ops });
                let answer = self.remotes[remote].driver.ask(&request).await?;
                let after = Position::read(&answer)?;
                Ok((after.back_to(clock), Outcome::read(&answer)?, after))
            }
        }
    }

    /// The whole state of a replica.
    pub(crate) async fn tell(&mut self, at: usize, keys: &[String]) -> Result<Tell, String> {
        match at.checked_sub(NODES) {
            None => self.nodes[at].tell(keys).await,
            Some(remote) => {
                let request = json!({ "do": "tell", "keys": keys });
                Tell::read(&self.remotes[remote].driver.ask(&request).await?, keys)
            }
        }
    }

    /// Ends the drivers in order. The nodes are killed with the mesh.
    pub(crate) async fn end(mut self) -> Result<(), String> {
        for remote in &mut self.remotes {
            remote.driver.end().await?;
        }
        drop(self.project.stdin.take());
        let ended = timeout(DEADLINE, self.project.wait()).await;
        ended.map_err(told)?.map_err(told)?;
        Ok(())
    }
}

/// Makes the project of all drivers, and returns how to start each of them.
async fn drivers(logs: &TempDir) -> Result<(Child, Vec<(String, Start)>), String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/runtimes/interop");
    let mut child = Command::new("node")
        .arg(format!("{folder}/drivers.mjs"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("node: {error}"))?;
    let output = child.stdout.take().ok_or("no output")?;
    let mut lines = BufReader::new(output).lines();
    let line = timeout(DEADLINE, lines.next_line()).await.map_err(told)?;
    let line = line.map_err(told)?.ok_or("the project was not made")?;
    let told: Value = serde_json::from_str(&line).map_err(told)?;
    let project = PathBuf::from(told["project"].as_str().ok_or("no project")?);
    let mut starts = Vec::new();
    let rows = told["drivers"].as_object().ok_or("no drivers")?;
    for (name, driver) in rows {
        let words = driver["command"].as_array().into_iter().flatten();
        let words = words.filter_map(|word| Some(word.as_str()?.to_owned()));
        let start = Start {
            command: words.collect(),
            folder: project.clone(),
            log: logs.path().join(name),
            reloads: driver["reloads"] == true,
        };
        starts.push((name.clone(), start));
    }
    if let Ok(command) = std::env::var("TALLYMESH_DRIVER") {
        let start = Start {
            command: command.split_whitespace().map(str::to_owned).collect(),
            folder: PathBuf::from("."),
            log: logs.path().join("own"),
            reloads: false,
        };
        starts.push(("own".to_owned(), start));
    }
    Ok((child, starts))
}

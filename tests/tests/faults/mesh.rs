//! Five real nodes, members of one space, and the faults of them.

mod clocks;
mod copies;
mod members;

use crate::disk::Disk;
use crate::links::Links;
use crate::node::{DEADLINE, Node, POLL, SPACE, program, told};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

pub(crate) use copies::Copy;

pub(crate) const NODES: usize = 5;

/// The log level of nodes. It leaves out the messages about each writer that leaves, because there are many.
const LOG: &str = "warn,libp2p_request_response=error,tallymesh_node=info,\
                   tallymesh_node_engine::driver::space::members=warn";

/// The addresses of the nodes that run. Clients look here whenever they connect.
#[derive(Clone, Default)]
pub(crate) struct Addresses(Arc<Mutex<[Option<SocketAddr>; NODES]>>);

impl Addresses {
    fn all(&self) -> MutexGuard<'_, [Option<SocketAddr>; NODES]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn of(&self, node: usize) -> Option<SocketAddr> {
        self.all()[node]
    }
}

/// The nodes. They are killed when they are dropped.
pub(crate) struct Mesh {
    /// The disk of each node. The nodes end before their folders.
    disks: Vec<Disk>,
    nodes: Vec<Node>,
    links: Links,
    /// The owner's key of each node as a member.
    owners: Vec<String>,
    lease: String,
    /// A midnight of UTC by the clocks of the nodes, in milliseconds since 1970.
    midnight: i64,
    /// How far the clocks of the nodes are ahead of the machine's at first, in milliseconds.
    ahead: i64,
    /// HTTP addresses of the nodes that run.
    pub(crate) addresses: Addresses,
}

impl Mesh {
    /// Starts the nodes, and makes them members of one space. By their clocks, midnight is after this time.
    pub(crate) async fn start(lease: String, until_midnight: Duration) -> Result<Mesh, String> {
        let (midnight, ahead) = clocks::midnight_after(until_midnight)?;
        let mut mesh = Mesh {
            disks: Vec::new(),
            nodes: Vec::new(),
            links: Links::start().await.map_err(told)?,
            owners: vec![String::new(); NODES],
            lease,
            midnight,
            ahead,
            addresses: Addresses::default(),
        };
        for number in 0..NODES {
            let node = Node::new(number)?;
            mesh.disks.push(Disk::make(&node.data())?);
            mesh.nodes.push(node);
            mesh.set_clock(number, 0)?;
            mesh.run(number, &program()?).await?;
            mesh.owners[number] = mesh.owner(number).await?;
        }
        let init = format!("{SPACE}/members/init");
        mesh.nodes[0].post(&init, &json!({})).await?;
        for node in 1..NODES {
            mesh.change_members(0, "add", &mesh.owners[node]).await?;
        }
        mesh.settle().await?;
        Ok(mesh)
    }

    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    /// Describes how disks are filled, and how they turn read-only.
    pub(crate) fn how_disks_fail(&self) -> [&'static str; 2] {
        [self.disks[0].how_full(), self.disks[0].how_read_only()]
    }

    /// Starts a node, for the first time or again on its folder. The node gets the ports that lead to all
    /// nodes with known names.
    async fn run(&mut self, node: usize, program: &Path) -> Result<(), String> {
        let command = self.command(node, program);
        self.nodes[node].start(command).await?;
        self.links.route(node, Some(self.listens(node)?));
        self.addresses.all()[node] = Some(self.http(node)?);
        Ok(())
    }

    /// The command of a node, and of a copy of it.
    fn command(&self, node: usize, program: &Path) -> Command {
        let mut command = self.disks[node].command(program);
        command
            .args(["up", "--resp", "127.0.0.1:0"])
            .args(["--listen", "/ip4/127.0.0.1/tcp/0"])
            .args(["--lease", &self.lease])
            .env("TALLYMESH_ADDRESS_BOOK", "off")
            .env("TALLYMESH_LOG", LOG)
            .env("TALLYMESH_TEST_CLOCK", self.clock(node));
        let others = (0..NODES).filter(|other| *other != node);
        let known = others.filter(|other| {
            let other = self.nodes.get(*other);
            other.is_some_and(|other| !other.peer_id.is_empty())
        });
        let peers: Vec<String> = known
            .map(|other| {
                let peer_id = &self.nodes[other].peer_id;
                format!("{}/p2p/{peer_id}", self.links.address(node, other))
            })
            .collect();
        if !peers.is_empty() {
            command.arg("--peer").args(peers);
        }
        command
    }

    /// The file that steps a node's clock.
    fn clock(&self, node: usize) -> PathBuf {
        self.nodes[node].folder.path().join("clock")
    }

    /// The address on which a node listens, from `/ip4/127.0.0.1/tcp/PORT/p2p/ID`.
    fn listens(&self, node: usize) -> Result<SocketAddr, String> {
        let listen = &self.nodes[node].listen;
        let port = listen.split('/').nth(4).and_then(|port| port.parse().ok());
        let port: u16 = port.ok_or_else(|| format!("no port: {listen}"))?;
        Ok(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    pub(crate) fn http(&self, node: usize) -> Result<SocketAddr, String> {
        self.nodes[node].http.parse().map_err(told)
    }

    pub(crate) fn resp(&self, node: usize) -> Result<SocketAddr, String> {
        self.nodes[node].resp.parse().map_err(told)
    }

    async fn owner(&self, node: usize) -> Result<String, String> {
        let status = self.nodes[node].get("/v1/status").await?;
        let owner = status["owner"].as_str().ok_or("no owner")?;
        Ok(owner.to_owned())
    }

    /// Waits until each node sees all of them as members, and all have acknowledged each other's starts.
    pub(crate) async fn settle(&self) -> Result<(), String> {
        let deadline = Instant::now() + DEADLINE;
        while !self.is_settled().await? {
            if Instant::now() > deadline {
                let told = self.members_told().await;
                return Err(format!(
                    "the members do not know each other:\n{told}{}",
                    self.said()
                ));
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    pub(crate) async fn is_settled(&self) -> Result<bool, String> {
        for node in &self.nodes {
            if !node.is_settled(NODES).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Describes each node's view of the members, and its links.
    pub(crate) async fn members_told(&self) -> String {
        let mut told = String::new();
        for (number, node) in self.nodes.iter().enumerate() {
            for path in [format!("{SPACE}/members"), "/v1/peers".to_owned()] {
                let said = node.get(&path).await;
                let said = said.map_or_else(|why| why, |it| it.to_string());
                told += &format!("node {number}, {path}: {said}\n");
            }
        }
        told
    }

    /// The digest of the state, if it is the same at all nodes.
    pub(crate) async fn digest(&self) -> Result<Option<String>, String> {
        let mut digests = Vec::new();
        for node in &self.nodes {
            digests.push(node.digest().await?);
        }
        let same = digests.iter().all(|digest| *digest == digests[0]);
        Ok(same.then(|| digests.swap_remove(0)))
    }

    /// A node's values of counters. The value of an absent counter is 0.
    pub(crate) async fn values(&self, node: usize, names: &[String]) -> Result<Vec<i128>, String> {
        let mut values = Vec::new();
        for names in names.chunks(1_000) {
            values.extend(self.nodes[node].values(names).await?);
        }
        Ok(values)
    }

    /// The end of each node's log.
    pub(crate) fn said(&self) -> String {
        let said = |(number, node): (usize, &Node)| format!("node {number}:\n{}\n", node.log());
        self.nodes.iter().enumerate().map(said).collect()
    }

    /// Sends a node a signal.
    pub(crate) async fn signal(&self, node: usize, signal: &str) -> Result<(), String> {
        let id = self.process(node);
        let id = id.ok_or_else(|| format!("node {node} does not run"))?;
        let sent = Command::new("kill")
            .args([signal, &id.to_string()])
            .status();
        match sent.await.map_err(told)?.success() {
            true => Ok(()),
            false => Err(format!("kill {signal} {id} failed")),
        }
    }

    /// Ends a node without any warning, as `kill -9` does.
    pub(crate) async fn kill(&mut self, node: usize) -> Result<(), String> {
        self.gone(node);
        self.nodes[node].kill().await.map(|_| ())
    }

    fn gone(&mut self, node: usize) {
        self.addresses.all()[node] = None;
        self.links.route(node, None);
    }

    /// Starts a node again that has ended, with this program or the one of the previous version.
    pub(crate) async fn start_again(&mut self, node: usize) -> Result<(), String> {
        self.run(node, &program()?).await
    }

    /// Stops a node in order, and starts its next version.
    pub(crate) async fn upgrade(&mut self, node: usize) -> Result<(), String> {
        self.signal(node, "-TERM").await?;
        let status = self.ended(node).await?;
        if !status.success() {
            let log = self.nodes[node].log();
            return Err(format!("node {node} stopped with {status}:\n{log}"));
        }
        let next = std::env::var_os("TALLYMESH_BIN_NEXT").map(PathBuf::from);
        self.run(node, &next.map_or_else(program, Ok)?).await?;
        self.is_ready(node).await
    }

    /// Waits until a node has ended by itself.
    pub(crate) async fn ended(&mut self, node: usize) -> Result<ExitStatus, String> {
        let Some(mut child) = self.nodes[node].child.take() else {
            return Err(format!("node {node} does not run"));
        };
        let ended = timeout(DEADLINE, child.wait()).await;
        self.gone(node);
        match ended {
            Ok(ended) => ended.map_err(told),
            Err(_) => Err(format!(
                "node {node} does not end:\n{}",
                self.nodes[node].log()
            )),
        }
    }

    /// Whether a node has ended by itself.
    pub(crate) fn has_ended(&mut self, node: usize) -> Result<bool, String> {
        match &mut self.nodes[node].child {
            Some(child) => Ok(child.try_wait().map_err(told)?.is_some()),
            None => Ok(true),
        }
    }

    /// Waits until a node reports that it is ready for requests.
    pub(crate) async fn is_ready(&self, node: usize) -> Result<(), String> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.nodes[node].ask("GET", "/readyz", "", "").await {
                Ok(_) => return Ok(()),
                Err(why) if Instant::now() > deadline => return Err(why),
                Err(_) => sleep(POLL).await,
            }
        }
    }

    /// Makes a node's disk full, or gives it room again.
    pub(crate) async fn fill(&mut self, node: usize, full: bool) -> Result<(), String> {
        self.disks[node].fill(self.process(node), full).await
    }

    /// Makes a node's disk read-only.
    pub(crate) async fn turn_read_only(&mut self, node: usize) -> Result<(), String> {
        self.disks[node].turn_read_only(self.process(node)).await
    }

    /// Starts a node that ended on a disk that is still read-only, which it has to refuse. Then repairs the
    /// disk.
    pub(crate) async fn repair(&mut self, node: usize) -> Result<(), String> {
        if self.disks[node].stays_read_only() {
            let started = self.run(node, &program()?).await;
            self.gone(node);
            match started {
                Err(why) if why.contains("the node ended with exit status: 1:") => {}
                Err(why) => return Err(why),
                Ok(()) => return Err(format!("node {node} runs on a read-only disk")),
            }
        }
        self.disks[node].repair()
    }

    fn process(&self, node: usize) -> Option<u32> {
        let child = self.nodes[node].child.as_ref();
        child.and_then(|child| child.id())
    }

    /// Adds 1 to each of many counters at a node, together.
    pub(crate) async fn add_all(&self, node: usize, lines: &str) -> Result<(), String> {
        let path = format!("{SPACE}/add");
        let headers = "tallymesh-level: local\r\n";
        let asked = self.nodes[node].ask("POST", &path, headers, lines);
        asked.await.map(|_| ())
    }

    /// Waits until a majority has everything that a node has made so far.
    pub(crate) async fn is_held(&self, node: usize) -> Result<(), String> {
        let path = format!("{SPACE}/counters/held/add");
        let headers = "tallymesh-level: quorum\r\ntallymesh-wait-ms: 20000\r\n";
        let deadline = Instant::now() + DEADLINE;
        loop {
            let asked = self.nodes[node].ask("POST", &path, headers, "{\"by\":\"1\"}");
            match asked.await {
                Ok(_) => return Ok(()),
                Err(why) if Instant::now() > deadline => return Err(why),
                Err(_) => sleep(POLL).await,
            }
        }
    }

    /// Compares a node with all nodes that are connected to it, as an operator does. Returns the output of
    /// `tallymesh audit`, with its exit status.
    pub(crate) async fn audit(&self, node: usize) -> Result<Output, String> {
        self.tool(node, &["audit", "--json"]).await
    }

    /// Runs a command of the command line at a node.
    pub(crate) async fn tool(&self, node: usize, words: &[&str]) -> Result<Output, String> {
        let mut audit = Command::new(program()?);
        audit.args(words).env(
            "TALLYMESH_NODE",
            format!("http://{}", self.nodes[node].http),
        );
        timeout(DEADLINE, audit.output())
            .await
            .map_err(told)?
            .map_err(told)
    }

    /// A node's status of the default space.
    pub(crate) async fn space(&self, node: usize) -> Result<Value, String> {
        let status = self.nodes[node].get("/v1/status").await?;
        Ok(status["spaces"][0].clone())
    }

    /// A node's answer to `GET` of a path.
    pub(crate) async fn get(&self, node: usize, path: &str) -> Result<Value, String> {
        self.nodes[node].get(path).await
    }

    /// A node's answer to a request with a body.
    pub(crate) async fn ask(
        &self,
        node: usize,
        (method, path): (&str, &str),
        body: &Value,
    ) -> Result<String, String> {
        let body = body.to_string();
        self.nodes[node].ask(method, path, "", &body).await
    }

    /// The peers that are connected to a node.
    pub(crate) async fn peers(&self, node: usize) -> Result<Value, String> {
        self.nodes[node].get("/v1/peers").await
    }
}

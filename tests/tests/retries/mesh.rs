//! Three real nodes, members of one space. They are killed, restarted, cut and healed.

use crate::node::{DEADLINE, Node, POLL, SPACE, program};
use crate::wire::Wire;
use serde_json::json;
use std::net::SocketAddr;
use std::time::Instant;
use tokio::process::Command;
use tokio::time::sleep;

pub(crate) const NODES: usize = 3;

/// The nodes. They are killed when they are dropped.
pub(crate) struct Mesh {
    nodes: Vec<Node>,
    wire: Wire,
    /// Pairs whose link is cut, the smaller number first.
    cuts: Vec<(usize, usize)>,
    pub(crate) metrics: Metrics,
}

/// Metrics of the nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) kills: u64,
    /// Links that were cut.
    pub(crate) cuts: u64,
    /// Adds that a node made because it had no earlier one of the same key. Adds between a node's last look
    /// and its kill are not included.
    pub(crate) adds: u64,
    /// Times that a member went on under another writer, and replayed the transactions that were not certain.
    pub(crate) renewals: u64,
}

impl Mesh {
    /// Starts three nodes, and makes them members of one space.
    pub(crate) async fn start(wire: Wire) -> Result<Mesh, String> {
        let mut mesh = Mesh {
            nodes: Vec::new(),
            wire,
            cuts: Vec::new(),
            metrics: Metrics::default(),
        };
        for node in 0..NODES {
            mesh.nodes.push(Node::new(node)?);
            mesh.run(node).await?;
        }
        let members = |change: &str| format!("{SPACE}/members/{change}");
        mesh.nodes[0].post(&members("init"), &json!({})).await?;
        for node in 1..NODES {
            let status = mesh.nodes[node].get("/v1/status").await?;
            let body = json!({ "owner": status["owner"], "wait_ms": 20_000 });
            mesh.nodes[0].post(&members("add"), &body).await?;
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

    /// Starts a node, for the first time or again on its folder, linked to all running nodes.
    async fn run(&mut self, node: usize) -> Result<(), String> {
        let peers: Vec<String> = self
            .nodes
            .iter()
            .filter(|other| other.child.is_some())
            .map(|other| other.listen.clone())
            .collect();
        let mut command = Command::new(program()?);
        command.args(["up", "--demo"]);
        if self.wire == Wire::Resp {
            command.args(["--resp", "127.0.0.1:0"]);
        }
        if !peers.is_empty() {
            command.arg("--peer").args(peers);
        }
        self.nodes[node].start(command).await
    }

    /// The address of a node for clients.
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

    /// The end of a node's log.
    pub(crate) fn log(&self, node: usize) -> String {
        self.nodes[node].log()
    }

    /// Ends a node without any warning, as `kill -9` does.
    pub(crate) async fn kill(&mut self, node: usize) -> Result<(), String> {
        self.look(node).await?;
        if self.nodes[node].kill().await? {
            self.metrics.kills += 1;
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
        self.metrics.cuts += 1;
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
        let cut = self.nodes[node].post("/v1/demo/cut", &body).await;
        cut.map(|_| ())
    }

    /// Adds a node's metrics to the sum, before they are lost with its process.
    async fn look(&mut self, node: usize) -> Result<(), String> {
        let node = &self.nodes[node];
        let metrics = node.ask("GET", "/metrics", "", "").await?;
        let adds = metrics
            .lines()
            .find_map(|line| line.strip_prefix("tallymesh_adds_total "));
        let adds = adds.and_then(|adds| adds.parse::<u64>().ok());
        let status = node.get("/v1/status").await?;
        self.metrics.adds += adds.ok_or("no figure of adds")?;
        self.metrics.renewals += status["spaces"][0]["renewals"].as_u64().unwrap_or(0);
        Ok(())
    }

    /// Whether each node sees all of them as members, and all have acknowledged each other's starts.
    pub(crate) async fn is_settled(&self) -> Result<bool, String> {
        for node in &self.nodes {
            if !node.is_settled(NODES).await? {
                return Ok(false);
            }
        }
        Ok(true)
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

    /// A node's values of counters, as one view. The value of an absent counter is 0.
    pub(crate) async fn values(&self, node: usize, names: &[String]) -> Result<Vec<i128>, String> {
        self.nodes[node].values(names).await
    }
}

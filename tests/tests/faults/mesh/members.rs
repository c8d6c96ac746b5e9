//! Members that come and go.

use super::{Mesh, NODES};
use crate::node::{DEADLINE, POLL, SPACE, program};
use serde_json::json;
use std::time::Instant;
use tokio::time::sleep;

impl Mesh {
    /// Adds or removes a member, and repeats the request until it is decided.
    pub(super) async fn change_members(
        &self,
        at: usize,
        change: &str,
        owner: &str,
    ) -> Result<(), String> {
        let path = format!("{SPACE}/members/{change}");
        let body = json!({ "owner": owner, "wait_ms": 20_000 });
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.nodes[at].post(&path, &body).await {
                Ok(_) => return Ok(()),
                Err(why) if Instant::now() > deadline => {
                    return Err(format!("{why}\n{}", self.members_told().await));
                }
                Err(_) => sleep(POLL).await,
            }
        }
    }

    /// Replaces a node whose disk is lost by one with a new name.
    pub(crate) async fn replace(&mut self, node: usize) -> Result<(), String> {
        let owner = self.owners[node].clone();
        self.disks[node].lose()?;
        self.nodes[node].peer_id = String::new();
        self.run(node, &program()?).await?;
        self.owners[node] = self.owner(node).await?;
        if self.owners[node] == owner {
            return Err(format!("node {node} has its old key"));
        }
        let at = (node + 1) % NODES;
        self.change_members(at, "add", &self.owners[node]).await?;
        self.change_members(at, "remove", &owner).await?;
        self.settle().await
    }

    /// Takes members out that are dead for good, and starts a new member in the place of each. Only the
    /// others decide this.
    pub(crate) async fn replace_dead(&mut self, dead: &[usize]) -> Result<(), String> {
        let alive = (0..NODES).find(|node| !dead.contains(node));
        let alive = alive.ok_or("no member is left")?;
        for node in dead {
            let owner = &self.owners[*node];
            self.change_members(alive, "remove", owner).await?;
            self.disks[*node].lose()?;
            self.nodes[*node].peer_id = String::new();
        }
        for node in dead {
            self.run(*node, &program()?).await?;
            self.owners[*node] = self.owner(*node).await?;
            let owner = &self.owners[*node];
            self.change_members(alive, "add", owner).await?;
        }
        self.settle().await
    }
}

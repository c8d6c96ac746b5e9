//! Processes that end, stand still, or are of another version.

use super::{Kind, Storm};
use crate::mesh::NODES;

impl Storm<'_> {
    /// Kills one node, or two at once.
    pub(super) async fn kill(&mut self) -> Result<(), String> {
        self.on_top();
        let first = self.random.index(NODES);
        let mut killed = vec![first];
        if self.random.chance(300) {
            killed.push((first + 1 + self.random.index(NODES - 1)) % NODES);
        }
        for node in &killed {
            self.count(Kind::Kill, *node, "is killed", 1);
            self.mesh.kill(*node).await?;
            self.is_gone(*node);
        }
        self.last().await;
        for node in killed {
            self.start_again(node).await?;
        }
        Ok(())
    }

    /// Stops one node for a while. It does not notice.
    pub(super) async fn stop(&mut self, node: usize) -> Result<(), String> {
        self.on_top();
        self.count(Kind::Stop, node, "is stopped", 1);
        self.mesh.signal(node, "-STOP").await?;
        self.last().await;
        self.mesh.signal(node, "-CONT").await?;
        self.note(node, "goes on");
        Ok(())
    }

    /// Upgrades all nodes, one after the other.
    pub(super) async fn upgrade_all(&mut self) -> Result<(), String> {
        *self.counts.entry(Kind::RollingUpgrade).or_default() += 1;
        for node in 0..NODES {
            self.note(node, "is stopped, and started as its next version");
            self.mesh.upgrade(node).await?;
            self.routes(node)?;
        }
        Ok(())
    }
}

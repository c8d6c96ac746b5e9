//! Members that are gone for good.

use super::{Kind, Storm};
use crate::mesh::NODES;

impl Storm<'_> {
    /// Loses the disk of a node for good, and replaces it by another member.
    ///
    /// An add that was acknowledged at level local is safe once a majority has it. So clients send nothing
    /// until this is true. The vote of a member that started shortly before counts only once enough others
    /// have acknowledged its start. So none of these others may be lost before.
    pub(super) async fn replace(&mut self, node: usize) -> Result<(), String> {
        self.mesh.links().heal(false);
        self.mesh.settle().await?;
        let pause = self.pause.clone();
        let paused = pause.write().await;
        for proxy in self.proxies {
            proxy.drained().await;
        }
        self.mesh.is_held(node).await?;
        self.count(Kind::Replacement, node, "is killed, and its disk lost", 1);
        self.mesh.kill(node).await?;
        self.is_gone(node);
        drop(paused);
        self.last().await;
        self.mesh.replace(node).await?;
        self.note(node, "is another member");
        self.routes(node)
    }

    /// One member or two are dead for good, and all others start again, at once or one after the other. They are a
    /// majority, so they go on, and replace the dead.
    ///
    /// Clients pause for the same reason as in [`replace`](Storm::replace), and while no node runs.
    pub(super) async fn wedge(&mut self) -> Result<(), String> {
        self.mesh.links().heal(false);
        self.mesh.settle().await?;
        let pause = self.pause.clone();
        let mut paused = Some(pause.write().await);
        for proxy in self.proxies {
            proxy.drained().await;
        }
        let mut nodes: Vec<usize> = (0..NODES).collect();
        let count = 1 + self.random.index(2);
        let dead: Vec<usize> = (0..count)
            .map(|_| nodes.swap_remove(self.random.index(nodes.len())))
            .collect();
        for node in &dead {
            self.mesh.is_held(*node).await?;
        }
        for node in &dead {
            self.count(Kind::Wedge, *node, "is dead for good", 1);
            self.mesh.kill(*node).await?;
            self.is_gone(*node);
        }
        if self.random.chance(500) {
            for node in &nodes {
                self.end(*node).await?;
            }
            for node in &nodes {
                self.start_again(*node).await?;
            }
        } else {
            paused = None;
            while let Some(node) = nodes.pop() {
                self.end(node).await?;
                self.start_again(node).await?;
                // It takes all that are left for a majority of five, if two are dead.
                self.mesh.is_held(node).await?;
            }
        }
        drop(paused);
        self.last().await;
        self.mesh.replace_dead(&dead).await?;
        for node in dead {
            self.note(node, "is another member");
            self.routes(node)?;
        }
        Ok(())
    }

    /// Ends a node, by force or in order.
    async fn end(&mut self, node: usize) -> Result<(), String> {
        self.is_gone(node);
        if self.random.chance(500) {
            self.note(node, "is killed");
            return self.mesh.kill(node).await;
        }
        self.note(node, "is told to stop");
        self.mesh.signal(node, "-TERM").await?;
        let status = self.mesh.ended(node).await?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("node {node} stopped with {status}")),
        }
    }
}

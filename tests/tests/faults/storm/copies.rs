//! Copies of data folders that run beside their originals.

use super::{Kind, Storm};
use crate::mesh::Copy;

/// Adds to a copy.
const ADDS: usize = 5;

impl Storm<'_> {
    /// Copies a node's data folder, while the node runs or not, and starts a node on the copy. The copy gives
    /// out nothing that only a member does, whether or not its original runs. Its adds count at most once.
    pub(super) async fn copy(&mut self, node: usize) -> Result<(), String> {
        self.count(Kind::Copy, node, "its data folder is copied", 1);
        let is_stopped = self.random.chance(300);
        if is_stopped {
            self.note(node, "is killed");
            self.mesh.kill(node).await?;
            self.is_gone(node);
        }
        let copy = self.mesh.start_copy(node).await?;
        self.note(node, "a copy of it runs");
        if is_stopped {
            self.start_again(node).await?;
        }
        self.on_top();
        self.asks(&copy).await?;
        if self.random.chance(500) {
            self.note(node, "is killed, with its copy beside it");
            self.mesh.kill(node).await?;
            self.is_gone(node);
            self.last().await;
            self.asks(&copy).await?;
            self.start_again(node).await?;
        }
        self.last().await;
        copy.is_refused().await?;
        copy.kill().await?;
        self.note(node, "its copy is killed");
        Ok(())
    }

    /// Asks a copy for all that a member gives, and for adds that nobody repeats.
    async fn asks(&self, copy: &Copy) -> Result<(), String> {
        copy.is_refused().await?;
        for _ in 0..ADDS {
            let (_, counter, by) = self.ledger.ask();
            copy.add(&counter, by).await?;
        }
        Ok(())
    }
}

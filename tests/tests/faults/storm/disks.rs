//! Disks that are full, or read-only.

use super::{Kind, Storm};
use crate::node::DEADLINE;
use std::time::Instant;

/// Number of counters that fill up a disk. Each has a long name.
const FILLING: usize = 1_000;

/// Number of bulk adds into disks that fail.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filled {
    pub(crate) acknowledged: i128,
    pub(crate) asked: i128,
}

impl Storm<'_> {
    /// Fills up a node's disk, and sends adds that do not fit, until the node ends. The node has to report
    /// the full disk, and to recover once there is room.
    pub(super) async fn full_disk(&mut self, node: usize) -> Result<(), String> {
        self.count(Kind::FullDisk, node, "its disk is full", 1);
        self.mesh.fill(node, true).await?;
        self.ends_by_its_disk(node).await?;
        self.mesh.fill(node, false).await?;
        self.start_again(node).await
    }

    /// Makes a node's disk read-only, and sends adds until the node ends. It must not start on that disk, and
    /// has to recover once the disk is repaired.
    pub(super) async fn read_only(&mut self, node: usize) -> Result<(), String> {
        self.on_top();
        self.count(Kind::ReadOnly, node, "its disk is read-only", 1);
        self.mesh.turn_read_only(node).await?;
        self.ends_by_its_disk(node).await?;
        self.mesh.repair(node).await?;
        self.start_again(node).await
    }

    /// Sends adds to a node whose disk fails, until the node ends with an error.
    async fn ends_by_its_disk(&mut self, node: usize) -> Result<(), String> {
        let lines: String = filling().iter().map(|name| format!("{name}\n")).collect();
        let deadline = Instant::now() + DEADLINE;
        while !self.mesh.has_ended(node)? {
            if Instant::now() > deadline {
                return Err(format!(
                    "node {node} goes on without a disk:\n{}",
                    self.mesh.said()
                ));
            }
            self.filled.asked += 1;
            let made = self.mesh.add_all(node, &lines).await;
            self.filled.acknowledged += i128::from(made.is_ok());
        }
        let status = self.mesh.ended(node).await?;
        self.is_gone(node);
        self.note(node, "ends, as its disk fails");
        match status.code() {
            Some(1) => Ok(()),
            _ => Err(format!(
                "node {node} ended with {status}:\n{}",
                self.mesh.said()
            )),
        }
    }
}

/// The counters that fill up disks.
pub(crate) fn filling() -> Vec<String> {
    (0..FILLING)
        .map(|number| format!("filling-{number:0>480}"))
        .collect()
}

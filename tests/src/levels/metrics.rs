//! Metrics of the scenario with levels.

use crate::sim::Counts;

/// Metrics of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metrics {
    /// Writes made.
    pub writes: u64,
    /// Writes that reached the requested level.
    pub reached: u64,
    /// Reads that requested a level.
    pub reads: u64,
    /// Reads that reached their level.
    pub read: u64,
    /// Reads that ended under another configuration than the one under which they began.
    pub moved: u64,
    /// Reads with a token that succeeded at once.
    pub sessions: u64,
    /// Configurations that took effect.
    pub configurations: u64,
    /// Counts of the mesh.
    pub mesh: Counts,
}

impl Metrics {
    /// Adds the metrics of another run.
    pub fn add(&mut self, other: &Metrics) {
        self.writes += other.writes;
        self.reached += other.reached;
        self.reads += other.reads;
        self.read += other.read;
        self.moved += other.moved;
        self.sessions += other.sessions;
        self.configurations += other.configurations;
        self.mesh.add(&other.mesh);
    }
}

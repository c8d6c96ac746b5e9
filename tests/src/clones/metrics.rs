//! Metrics of the scenario with clones.

use crate::sim::Counts;

/// Metrics of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metrics {
    /// Processes copied while they ran.
    pub copies: u64,
    /// Processes put back to an earlier image.
    pub returns: u64,
    /// Processes that began under an id in use.
    pub reuses: u64,
    /// Runs in which some clock had two contents.
    pub forks: u64,
    /// Faults that were reported.
    pub faults: u64,
    /// Longest virtual time until all processes had the same state, in milliseconds.
    pub healed_ms: u64,
    /// Counts of the mesh.
    pub mesh: Counts,
}

impl Metrics {
    /// Adds the metrics of another run. It takes the longest of the times.
    pub fn add(&mut self, other: &Metrics) {
        self.copies += other.copies;
        self.returns += other.returns;
        self.reuses += other.reuses;
        self.forks += other.forks;
        self.faults += other.faults;
        self.healed_ms = self.healed_ms.max(other.healed_ms);
        self.mesh.add(&other.mesh);
    }
}

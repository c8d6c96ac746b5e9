//! What is counted of a run.

use crate::sim::Counts;

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
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
    /// Longest virtual time until all held the same.
    pub healed_ms: u64,
    /// What happened in the mesh.
    pub mesh: Counts,
}

impl Figures {
    /// Adds another run's figures; of the times the longest stays.
    pub fn add(&mut self, other: &Figures) {
        self.copies += other.copies;
        self.returns += other.returns;
        self.reuses += other.reuses;
        self.forks += other.forks;
        self.faults += other.faults;
        self.healed_ms = self.healed_ms.max(other.healed_ms);
        self.mesh.add(&other.mesh);
    }
}

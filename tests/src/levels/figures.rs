//! What happened in a run.

use crate::sim::Counts;

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Writes made.
    pub writes: u64,
    /// Of them, those that reached the level that was asked for.
    pub reached: u64,
    /// Reads at a level that were asked for.
    pub reads: u64,
    /// Of them, those that reached it.
    pub read: u64,
    /// Of them, those that began under another configuration than they ended under.
    pub moved: u64,
    /// Reads with a token that could be given at once.
    pub sessions: u64,
    /// Configurations that were decided.
    pub configurations: u64,
    /// What happened in the mesh.
    pub mesh: Counts,
}

impl Figures {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Figures) {
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

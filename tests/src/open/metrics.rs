//! Metrics of the scenario with open spaces.

use crate::sim::Counts;

/// Metrics of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metrics {
    /// Operations issued.
    pub ops: u64,
    /// Operations that crashes took back.
    pub lost_ops: u64,
    /// Transactions of several operations.
    pub transactions: u64,
    /// Transactions that did nothing, or had to be rejected.
    pub idle_writes: u64,
    /// Expiries that a replica materialised.
    pub expiries: u64,
    /// Chunks sent that did not complete a transfer.
    pub chunks: u64,
    /// Virtual time from the end of the trouble to convergence.
    pub converged_ms: u64,
    /// The bound on that time, in virtual milliseconds.
    pub bound_ms: u64,
    /// Counts of the mesh.
    pub mesh: Counts,
}

impl Metrics {
    /// Adds the metrics of another run. It takes the longest of the times.
    pub fn add(&mut self, other: &Metrics) {
        self.ops += other.ops;
        self.lost_ops += other.lost_ops;
        self.transactions += other.transactions;
        self.idle_writes += other.idle_writes;
        self.expiries += other.expiries;
        self.chunks += other.chunks;
        self.mesh.add(&other.mesh);
        if other.converged_ms * self.bound_ms.max(1) >= self.converged_ms * other.bound_ms {
            self.converged_ms = other.converged_ms;
            self.bound_ms = other.bound_ms;
        }
    }
}

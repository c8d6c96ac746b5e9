//! Metrics of random histories.

/// Metrics of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metrics {
    /// Steps made.
    pub steps: u64,
    /// Transactions of operations.
    pub transactions: u64,
    /// Messages merged.
    pub merges: u64,
    /// Messages rejected.
    pub refusals: u64,
    /// Keyed transactions that were requested again at a replica that had them.
    pub retries: u64,
    /// Adds that were also made elsewhere under their key, and were withdrawn.
    pub withdrawn: u64,
    /// Writers that left.
    pub leaves: u64,
    /// Writers fenced.
    pub fences: u64,
    /// Members started again.
    pub restarts: u64,
    /// Starts that followed the one before in its place.
    pub follows: u64,
    /// Writers retired.
    pub absorbed: u64,
    /// Replicas that rejoined.
    pub returns: u64,
    /// Transactions that rejoined replicas replayed.
    pub again: u64,
    /// Replicas that rejoined after all others had forgotten them.
    pub unknown: u64,
    /// Collections that removed something.
    pub collections: u64,
    /// Decisions on the ends of expired counters.
    pub decided: u64,
    /// Most writers in the table of one replica.
    pub writers_max: u64,
}

impl Metrics {
    /// Adds the metrics of another run.
    pub fn add(&mut self, other: &Metrics) {
        self.steps += other.steps;
        self.transactions += other.transactions;
        self.merges += other.merges;
        self.refusals += other.refusals;
        self.retries += other.retries;
        self.withdrawn += other.withdrawn;
        self.leaves += other.leaves;
        self.fences += other.fences;
        self.restarts += other.restarts;
        self.follows += other.follows;
        self.absorbed += other.absorbed;
        self.returns += other.returns;
        self.again += other.again;
        self.unknown += other.unknown;
        self.collections += other.collections;
        self.decided += other.decided;
        self.writers_max = self.writers_max.max(other.writers_max);
    }
}

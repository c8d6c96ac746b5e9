//! What happened in histories.

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Steps made.
    pub steps: u64,
    /// Transactions of operations.
    pub transactions: u64,
    /// Messages merged.
    pub merges: u64,
    /// Messages refused.
    pub refusals: u64,
    /// Keyed transactions that were asked for again where they were known.
    pub retries: u64,
    /// Adds that were made under a key elsewhere too, and withdrawn.
    pub withdrawn: u64,
    /// Writers that said goodbye.
    pub farewells: u64,
    /// Writers declared dead.
    pub fences: u64,
    /// Members started again.
    pub restarts: u64,
    /// Writers absorbed.
    pub absorbed: u64,
    /// Replicas that came back late.
    pub returns: u64,
    /// Transactions that they made again.
    pub again: u64,
    /// Replicas that came back when nobody remembered them.
    pub unknown: u64,
    /// Collections that found something.
    pub collections: u64,
    /// Most writers that a replica knew.
    pub writers_max: u64,
}

impl Figures {
    /// Adds another run's.
    pub fn add(&mut self, other: &Figures) {
        self.steps += other.steps;
        self.transactions += other.transactions;
        self.merges += other.merges;
        self.refusals += other.refusals;
        self.retries += other.retries;
        self.withdrawn += other.withdrawn;
        self.farewells += other.farewells;
        self.fences += other.fences;
        self.restarts += other.restarts;
        self.absorbed += other.absorbed;
        self.returns += other.returns;
        self.again += other.again;
        self.unknown += other.unknown;
        self.collections += other.collections;
        self.writers_max = self.writers_max.max(other.writers_max);
    }
}

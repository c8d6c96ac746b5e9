//! What came of a run.

use crate::sim::Counts;

/// What clients met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Units that were spent.
    pub spent: u64,
    /// Of them, those for which nobody had to wait.
    pub at_once: u64,
    /// How long the others waited, in milliseconds.
    pub waits: Vec<u64>,
    /// Clients that gave up.
    pub refused: u64,
    /// Those of them that did while a tenth of the budget was left.
    pub refused_early: u64,
    /// Spends at the member that is cut off, while it is: those that succeeded, and those that were given up.
    pub cut: (u64, u64),
    /// Leases that were given.
    pub leases: u64,
    /// Units that were spent on leases, and told.
    pub told: u64,
    /// Units that were spent on leases by who vanished: they are spent again.
    pub vanished: u64,
    /// Times that what was spent on a lease was refused, as it was not held where that was told.
    pub late: u64,
    /// Units that a member spent that is gone, and told nobody.
    pub lost: u64,
    /// Units that were spent beyond what there was, by the two copies of a process.
    pub overdrawn: u64,
    /// Grants of rights.
    pub moves: u64,
    /// Requests for rights that were sent.
    pub requests: u64,
    /// What happened in the mesh.
    pub mesh: Counts,
    /// When the last unit was spent, in milliseconds.
    pub done_ms: u64,
}

impl Figures {
    /// The share of spends that waited for nothing, in hundredths.
    pub fn at_once_percent(&self) -> u64 {
        100 * self.at_once / self.spent.max(1)
    }

    /// The mean wait of all spends, in microseconds.
    pub fn mean_wait_us(&self) -> u64 {
        1_000 * self.waits.iter().sum::<u64>() / self.spent.max(1)
    }

    /// The wait that all but one in a thousand of all spends were under, in milliseconds.
    pub fn most_wait_ms(&self) -> u64 {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        let over = (self.spent / 1_000) as usize;
        let at = waits.len().checked_sub(over + 1);
        at.map_or(0, |at| waits[at])
    }

    /// The share of the spends at the member that is cut off that succeeded, in hundredths.
    pub fn cut_percent(&self) -> u64 {
        let (served, refused) = self.cut;
        100 * served / (served + refused).max(1)
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Figures) {
        self.spent += other.spent;
        self.at_once += other.at_once;
        self.waits.extend(&other.waits);
        self.refused += other.refused;
        self.refused_early += other.refused_early;
        self.cut.0 += other.cut.0;
        self.cut.1 += other.cut.1;
        self.leases += other.leases;
        self.told += other.told;
        self.vanished += other.vanished;
        self.late += other.late;
        self.lost += other.lost;
        self.overdrawn += other.overdrawn;
        self.moves += other.moves;
        self.requests += other.requests;
        self.mesh.add(&other.mesh);
        self.done_ms += other.done_ms;
    }
}

//! Metrics of the scenario with one budget.

use crate::sim::Counts;

/// Results of the clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Units that were spent.
    pub spent: u64,
    /// Units that were spent without a wait.
    pub at_once: u64,
    /// Milliseconds of each of the other waits.
    pub waits: Vec<u64>,
    /// Clients that gave up.
    pub refused: u64,
    /// Clients that gave up while more than a tenth of the budget was left.
    pub refused_early: u64,
    /// Spends at the member that is cut off, during the cut: those that succeeded, and those that clients
    /// gave up.
    pub cut: (u64, u64),
    /// Leases that were given.
    pub leases: u64,
    /// Units that were spent on leases and reported.
    pub told: u64,
    /// Units spent by holders that vanished. These units are spent again.
    pub vanished: u64,
    /// Reports of spent units that a member rejected, because it had too few rights for them.
    pub late: u64,
    /// Units that a member spent and did not replicate before it was gone.
    pub lost: u64,
    /// Units that the two copies of a process spent beyond the amount that there was.
    pub overdrawn: u64,
    /// Grants of rights.
    pub moves: u64,
    /// Requests for rights that were sent.
    pub requests: u64,
    /// Counts of the mesh.
    pub mesh: Counts,
    /// When the last unit was spent, in milliseconds.
    pub done_ms: u64,
}

impl Metrics {
    /// The share of spends without a wait, in hundredths.
    pub fn at_once_percent(&self) -> u64 {
        100 * self.at_once / self.spent.max(1)
    }

    /// The mean wait of all spends, in microseconds.
    pub fn mean_wait_us(&self) -> u64 {
        1_000 * self.waits.iter().sum::<u64>() / self.spent.max(1)
    }

    /// The wait that 999 in 1000 spends do not exceed, in milliseconds.
    pub fn most_wait_ms(&self) -> u64 {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        let over = (self.spent / 1_000) as usize;
        let at = waits.len().checked_sub(over + 1);
        at.map_or(0, |at| waits[at])
    }

    /// The share of spends that succeeded at the member that is cut off, in hundredths.
    pub fn cut_percent(&self) -> u64 {
        let (served, refused) = self.cut;
        100 * served / (served + refused).max(1)
    }

    /// Adds the metrics of another run.
    pub fn add(&mut self, other: &Metrics) {
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

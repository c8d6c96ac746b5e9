//! Metrics of the scenario with guests.

use crate::sim::Counts;

/// Metrics of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metrics {
    /// Adds made.
    pub adds: u64,
    /// Guests that came.
    pub guests: u64,
    /// Guests that rejoined when no member could tell which of their adds had counted.
    pub unknown: u64,
    /// Starts that took over the stores of two guests.
    pub taken_over: u64,
    /// Most writers in the members' tables at the end.
    pub writers: u64,
    /// Operations that clients requested under keys.
    pub keyed: u64,
    /// Retries at a member that had the key.
    pub retries: u64,
    /// Retries at a member without the key, which made the operation once more.
    pub doubled: u64,
    /// Keys whose transactions only rejoined members had.
    pub lost: u64,
    /// Requests at a member that had received changes through a guest, without their keys.
    pub key_gaps: u64,
    /// Readers, writers and editors among the guests.
    pub limited: [u64; 3],
    /// Counts of the mesh.
    pub mesh: Counts,
}

impl Metrics {
    /// Adds the metrics of another run.
    pub fn add(&mut self, other: &Metrics) {
        self.mesh.add(&other.mesh);
        self.adds += other.adds;
        self.guests += other.guests;
        self.taken_over += other.taken_over;
        self.unknown += other.unknown;
        self.writers = self.writers.max(other.writers);
        self.keyed += other.keyed;
        self.retries += other.retries;
        self.doubled += other.doubled;
        self.key_gaps += other.key_gaps;
        self.lost += other.lost;
        for (sum, more) in self.limited.iter_mut().zip(other.limited) {
            *sum += more;
        }
    }
}

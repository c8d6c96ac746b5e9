//! What is counted of a run.

use crate::sim::Counts;

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Adds made.
    pub adds: u64,
    /// Guests that came.
    pub guests: u64,
    /// Guests that came back, of whom nobody knew which adds had counted.
    pub unknown: u64,
    /// Starts that took over what two guests had stored.
    pub taken_over: u64,
    /// Writers known to the members at the end, at most.
    pub writers: u64,
    /// Operations that were asked for under keys.
    pub keyed: u64,
    /// Retries that were known where they were asked for.
    pub retries: u64,
    /// Those that were not, and made it once more.
    pub doubled: u64,
    /// Keys of which transactions were known to members that came back, and to no others.
    pub lost: u64,
    /// How often a member was asked while it had heard something by a guest, without keys.
    pub lacking: u64,
    /// Readers, writers and editors among the guests.
    pub limited: [u64; 3],
    /// What happened in the mesh.
    pub mesh: Counts,
}

impl Figures {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Figures) {
        self.mesh.add(&other.mesh);
        self.adds += other.adds;
        self.guests += other.guests;
        self.taken_over += other.taken_over;
        self.unknown += other.unknown;
        self.writers = self.writers.max(other.writers);
        self.keyed += other.keyed;
        self.retries += other.retries;
        self.doubled += other.doubled;
        self.lacking += other.lacking;
        self.lost += other.lost;
        for (sum, more) in self.limited.iter_mut().zip(other.limited) {
            *sum += more;
        }
    }
}

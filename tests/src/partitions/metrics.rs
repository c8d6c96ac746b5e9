//! Metrics of the scenario with halves.

use crate::sim::Counts;

/// Results of the clients at one half, during cuts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Half {
    /// Requests that were granted in time.
    pub served: u64,
    /// Requests that the client gave up.
    pub refused: u64,
    /// Rights of its members at the start of a cut, summed up over cuts.
    pub held: u64,
}

impl Half {
    /// The share of granted requests, in hundredths.
    pub fn served_percent(&self) -> f64 {
        100.0 * self.served as f64 / (self.served + self.refused).max(1) as f64
    }
}

/// Metrics of one run, or of several.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Units that were counted or spent, or numbers that were drawn.
    pub made: u64,
    /// How many came twice. In a plain counter, this is a value that a client saw after its own add. In a
    /// sequence, it is a number.
    pub twice: u64,
    /// Units beyond the limit, in each run.
    pub over: Vec<u64>,
    /// The larger half and the smaller one.
    pub halves: [Half; 2],
    /// Units left of a budget at the start of a cut, summed up over cuts.
    pub left: u64,
    /// How many cuts there were.
    pub cuts: u64,
    /// How long the members were cut, in milliseconds.
    pub cut_ms: u64,
    /// How long the runs lasted, in milliseconds.
    pub played_ms: u64,
    /// How long it took to spend all of a budget, in milliseconds, in each run that spent it.
    pub spent_ms: Vec<u64>,
    /// Rights of the member that is gone for good, in each run.
    pub stranded: Vec<u64>,
    /// Time from the proposal to take it out until others could spend its rights, in milliseconds, in each
    /// run.
    pub back_ms: Vec<u64>,
    /// Distance of each number from its place in the order of time.
    pub errors: Vec<u64>,
    /// Difference between the time at which each number was drawn and the time at which that many were drawn,
    /// in milliseconds.
    pub off_ms: Vec<u64>,
    /// Counts of the mesh.
    pub mesh: Counts,
}

impl Metrics {
    /// Adds the metrics of another run.
    pub fn add(&mut self, other: &Metrics) {
        self.made += other.made;
        self.twice += other.twice;
        self.over.extend(&other.over);
        for (half, other) in self.halves.iter_mut().zip(other.halves) {
            half.served += other.served;
            half.refused += other.refused;
            half.held += other.held;
        }
        self.left += other.left;
        self.cuts += other.cuts;
        self.cut_ms += other.cut_ms;
        self.played_ms += other.played_ms;
        self.spent_ms.extend(&other.spent_ms);
        self.stranded.extend(&other.stranded);
        self.back_ms.extend(&other.back_ms);
        self.errors.extend(&other.errors);
        self.off_ms.extend(&other.off_ms);
        self.mesh.add(&other.mesh);
    }
}

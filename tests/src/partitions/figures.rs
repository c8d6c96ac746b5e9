//! What came of a run.

use crate::sim::Counts;

/// What clients at one half met while the members were cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Half {
    /// Those that got what they asked for, within their patience.
    pub served: u64,
    /// Those that gave up.
    pub refused: u64,
    /// How much of what was left of a budget its members held when a cut began, summed up over cuts.
    pub held: u64,
}

impl Half {
    /// The share that was served, in hundredths.
    pub fn served_percent(&self) -> f64 {
        100.0 * self.served as f64 / (self.served + self.refused).max(1) as f64
    }
}

/// What came of a run, or of several.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// What was counted, spent or drawn.
    pub made: u64,
    /// How many came twice: of a plain counter the value that a client saw after its own, of a sequence
    /// its number.
    pub twice: u64,
    /// By how much the limit was passed, in each run.
    pub over: Vec<u64>,
    /// The larger half and the smaller one.
    pub halves: [Half; 2],
    /// What was left of a budget when a cut began, summed up over cuts.
    pub left: u64,
    /// How many cuts there were.
    pub cuts: u64,
    /// For how long members were cut, and for how long it was played, in milliseconds.
    pub cut_ms: u64,
    /// For how long it was played.
    pub played_ms: u64,
    /// How long all of a budget took, in each run in which it was spent, in milliseconds.
    pub spent_ms: Vec<u64>,
    /// How much a member held that was gone for good, in each run.
    pub stranded: Vec<u64>,
    /// How long it took from when it was to be taken out until others could spend that, in milliseconds,
    /// in each run.
    pub back_ms: Vec<u64>,
    /// How far each number was from its place in the order of time.
    pub errors: Vec<u64>,
    /// How much earlier or later each was drawn than as many as it says were, in milliseconds.
    pub off_ms: Vec<u64>,
    /// What happened in the mesh.
    pub mesh: Counts,
}

impl Figures {
    /// Adds another run's.
    pub fn add(&mut self, other: &Figures) {
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

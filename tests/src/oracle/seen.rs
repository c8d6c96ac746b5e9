//! Sets of operations.

/// The number of an operation, in the order of issue.
pub type OpId = usize;

/// A set of operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen(Vec<u64>);

impl Seen {
    /// Adds an operation.
    pub fn insert(&mut self, op: OpId) {
        if op / 64 >= self.0.len() {
            self.0.resize(op / 64 + 1, 0);
        }
        self.0[op / 64] |= 1 << (op % 64);
    }

    /// Whether the operation is in the set.
    pub fn contains(&self, op: OpId) -> bool {
        self.0.get(op / 64).is_some_and(|w| w >> (op % 64) & 1 == 1)
    }

    /// Adds all of another set.
    pub fn union(&mut self, other: &Seen) {
        if other.0.len() > self.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    /// Drops all that is not in another set.
    pub fn intersect(&mut self, other: &Seen) {
        self.0.truncate(other.0.len());
        for (word, kept) in self.0.iter_mut().zip(&other.0) {
            *word &= kept;
        }
    }

    /// The first operation that is here and not in `other`.
    pub fn first_missing_in(&self, other: &Seen) -> Option<OpId> {
        self.0.iter().enumerate().find_map(|(at, word)| {
            let missing = word & !other.0.get(at).copied().unwrap_or(0);
            (missing != 0).then(|| at * 64 + missing.trailing_zeros() as usize)
        })
    }

    /// Number of operations in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

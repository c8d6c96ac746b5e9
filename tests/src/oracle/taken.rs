//! Who took over whom: by that, what a replica sees that names a writer no more.

use super::Dot;
use std::collections::BTreeMap;
use tallymesh_core::{Replica, WriterId};

/// An absorption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    /// The heir's transaction.
    by: Dot,
    /// Up to this clock of the absorbed writer.
    upto: u64,
}

/// All absorptions. There is more than one of a writer where a forced change left two sides that do
/// not know of each other.
#[derive(Clone, Debug, Default)]
pub struct Takeovers(BTreeMap<WriterId, Vec<Taken>>);

impl Takeovers {
    /// Notes the writers that a replica has absorbed since, in its transaction of this clock.
    pub fn note(&mut self, replica: &Replica, before: &[WriterId], clock: u64) {
        let by = (replica.writer(), clock);
        for (writer, upto) in replica.retired().filter(|it| !before.contains(&it.0)) {
            self.add(writer, by, upto);
        }
    }

    /// Notes that a writer was absorbed by this transaction of its heir's, up to this clock.
    pub fn add(&mut self, writer: WriterId, by: Dot, upto: u64) {
        self.0.entry(writer).or_default().push(Taken { by, upto });
    }

    /// Up to which of its clocks somebody took a writer over.
    pub fn ends(&self, writer: &WriterId) -> impl Iterator<Item = u64> {
        let taken = self.0.get(writer).into_iter().flatten();
        taken.map(|it| it.upto)
    }

    /// Whether somebody took a writer over.
    pub fn has(&self, writer: &WriterId) -> bool {
        self.0.contains_key(writer)
    }

    /// What a replica sees: whoever sees an absorption sees what was absorbed, also when the writer
    /// has been forgotten.
    pub fn claimed(&self, replica: &Replica) -> BTreeMap<WriterId, u64> {
        let mut claimed: BTreeMap<WriterId, u64> = replica.writers().collect();
        let mut grows = true;
        while grows {
            grows = false;
            let all = self.0.iter();
            for (writer, taken) in
                all.flat_map(|(writer, by)| by.iter().map(move |it| (writer, it)))
            {
                let (heir, clock) = taken.by;
                let sees = claimed.get(&heir).is_some_and(|held| *held >= clock);
                if sees && claimed.get(writer).copied().unwrap_or(0) < taken.upto {
                    claimed.insert(*writer, taken.upto);
                    grows = true;
                }
            }
        }
        claimed
    }

    /// Whether a cancel up to these dots covers an operation, or the absorption of its writer.
    pub fn keeps(&self, (writer, clock): Dot, cancels: &[Dot]) -> bool {
        let covers = |it: &Dot| it.0 == writer && clock <= it.1;
        let mut by = self.0.get(&writer).into_iter().flatten();
        cancels.iter().any(covers)
            || by.any(|taken| clock <= taken.upto && self.keeps(taken.by, cancels))
    }
}

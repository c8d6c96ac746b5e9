//! Records which writer retired which. From this it computes the view of a replica that has forgotten a
//! writer.

use super::Dot;
use std::collections::BTreeMap;
use tallymesh_core::{Replica, WriterId};

/// A retirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    /// The successor's transaction.
    by: Dot,
    /// The clock of the retired writer up to which it was moved.
    upto: u64,
}

/// All retirements. A writer may have more than one, if a forced change left two sides that do not see each
/// other.
#[derive(Clone, Debug, Default)]
pub struct Takeovers(BTreeMap<WriterId, Vec<Taken>>);

impl Takeovers {
    /// Notes the writers that a replica has retired since `before`, in its transaction of this clock.
    pub fn note(&mut self, replica: &Replica, before: &[WriterId], clock: u64) {
        let by = (replica.writer(), clock);
        for (writer, upto) in replica
            .members()
            .retired()
            .filter(|it| !before.contains(&it.0))
        {
            self.add(writer, by, upto);
        }
    }

    /// Notes that this transaction of the successor retired a writer, up to this clock.
    pub fn add(&mut self, writer: WriterId, by: Dot, upto: u64) {
        self.0.entry(writer).or_default().push(Taken { by, upto });
    }

    /// The clocks up to which a writer was retired.
    pub fn ends(&self, writer: &WriterId) -> impl Iterator<Item = u64> {
        let taken = self.0.get(writer).into_iter().flatten();
        taken.map(|it| it.upto)
    }

    /// Whether a writer was retired.
    pub fn has(&self, writer: &WriterId) -> bool {
        self.0.contains_key(writer)
    }

    /// The vector of a replica's view. A view of a retirement includes the retired writer's transactions,
    /// even after the writer is forgotten.
    pub fn claimed(&self, replica: &Replica) -> BTreeMap<WriterId, u64> {
        let mut claimed: BTreeMap<WriterId, u64> = replica.writers().collect();
        let mut grows = true;
        while grows {
            grows = false;
            let all = self.0.iter();
            for (writer, taken) in
                all.flat_map(|(writer, by)| by.iter().map(move |it| (writer, it)))
            {
                let (successor, clock) = taken.by;
                let sees = claimed.get(&successor).is_some_and(|held| *held >= clock);
                if sees && claimed.get(writer).copied().unwrap_or(0) < taken.upto {
                    claimed.insert(*writer, taken.upto);
                    grows = true;
                }
            }
        }
        claimed
    }

    /// Whether a cancel up to these dots covers an operation, or the retirement of its writer.
    pub fn keeps(&self, (writer, clock): Dot, cancels: &[Dot]) -> bool {
        let covers = |it: &Dot| it.0 == writer && clock <= it.1;
        let mut by = self.0.get(&writer).into_iter().flatten();
        cancels.iter().any(covers)
            || by.any(|taken| clock <= taken.upto && self.keeps(taken.by, cancels))
    }
}

//! Reduces a failed history to the few steps that it needs to fail.

use super::{World, guarded};
use crate::random::Random;

/// A history: the state of the generator before each step, and before the end. If some steps are left out,
/// the others still draw the same numbers.
#[derive(Clone)]
struct Tape {
    seed: u64,
    steps: Vec<Random>,
    end: Random,
}

impl Tape {
    /// The history of a seed, up to where it fails.
    fn record(seed: u64) -> Result<Tape, String> {
        let mut world = World::new(seed, false);
        let count = world.random.range(20, 250);
        world.begin()?;
        let mut steps = Vec::new();
        for _ in 0..count {
            steps.push(world.random.clone());
            if guarded(|| world.turn()).is_err() {
                break;
            }
        }
        let end = world.random.clone();
        Ok(Tape { seed, steps, end })
    }

    fn play(&self, trace: bool) -> Result<(), String> {
        let mut world = World::new(self.seed, trace);
        world.random.range(20, 250);
        world.begin()?;
        guarded(|| {
            for step in &self.steps {
                world.random = step.clone();
                world.turn()?;
            }
            world.random = self.end.clone();
            world.finish()
        })
    }

    /// Leaves out as many steps as possible while the history `fails`.
    fn shorten(&mut self, fails: &dyn Fn(&Tape) -> bool) {
        let mut length = self.steps.len().div_ceil(2);
        while length > 0 {
            let (mut at, before) = (0, self.steps.len());
            while at < self.steps.len() {
                let mut shorter = self.clone();
                let to = self.steps.len().min(at + length);
                shorter.steps.drain(at..to);
                match fails(&shorter) {
                    true => *self = shorter,
                    false => at += length,
                }
            }
            if length > 1 {
                length = length.div_ceil(2);
            } else if self.steps.len() == before {
                length = 0;
            }
        }
    }
}

/// The kind of a failure, by its text.
fn kind(failure: &str) -> &str {
    let kinds = ["no end", "read ", "causal cut", "panicked", "still knows"];
    let kind = kinds.into_iter().find(|kind| failure.contains(kind));
    kind.unwrap_or_default()
}

/// Finds and prints a few steps of a seed's history that fail in the same way. Returns the failure.
pub fn reduce(seed: u64) -> Option<String> {
    let mut tape = Tape::record(seed).ok()?;
    let failure = tape.play(false).err()?;
    let kind = kind(&failure);
    tape.shorten(&|tape| tape.play(false).is_err_and(|it| it.contains(kind)));
    tape.play(true).err()
}

//! What is lost while the members of a space are cut into halves, by the share of time that they are:
//! of a plain counter that is used as a limit, of a budget, and of a sequence. Over real sync machines
//! and links with a delay; time is simulated, so all follows from the seed.

mod clients;
mod figures;
mod world;

pub use figures::{Figures, Half};

use world::World;

/// How many members there are: a cut leaves three on one side, most of them, and two on the other.
pub const MEMBERS: usize = 5;

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Count one more in a plain counter, unless they see that it has reached the limit.
    Limit(u64),
    /// Spend a unit of a budget of so many, which the first member minted.
    Budget(u64),
    /// The same, and one member is gone for good some time after the beginning, and is taken out.
    Retired(u64),
    /// Draw numbers of a sequence that the first member began, of which each so many-th is watched from the
    /// beginning on, as many as can be, and looked at alone; 0 for none, and all are looked at.
    Sequence(u64),
}

/// What clients do, and how often they are cut.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What clients do.
    pub work: Work,
    /// How much of the time the members are in two halves, in hundredths.
    pub cut_percent: u64,
    /// How many clients each member has.
    pub clients: [usize; MEMBERS],
    /// How long clients of a budget or a sequence wait before they are refused, in milliseconds.
    pub patience_ms: u64,
    /// When it ends, if nothing else ends it before.
    pub end_ms: u64,
}

/// Plays a plan: a limit until all see that it is reached, a budget until all is spent, a member that is
/// gone until others may spend what it held, a sequence until the time is over.
///
/// # Errors
/// Says what went wrong, and the seed.
pub fn play(seed: u64, plan: &Plan) -> Result<Figures, String> {
    let mut world = World::new(seed, plan);
    let played = world.play();
    played.map_err(|error| format!("TALLYMESH_SEED={seed}: {} ms: {error}", world.now))?;
    Ok(world.figures)
}

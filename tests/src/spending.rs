//! One budget that clients spend from at three members, over real sync machines, links with a delay,
//! cuts and restarts: how much of it can be spent, where, and after what wait. Time is simulated, so
//! all follows from the seed.
//!
//! Rights move as the members do it by themselves, or by one of two plain policies beside it.

mod clients;
mod figures;
mod holders;
mod strikes;
mod world;

pub use figures::Figures;

use world::World;

/// How rights move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// As the members do it by themselves.
    Members,
    /// Just what is missing, from a random other member that holds some.
    Missing,
    /// Half of what the richest other member holds.
    HalfOfRichest,
}

/// What happens to one of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// It is gone for good, and taken out by an operator.
    TakenOut,
    /// Its process is copied while it runs, and both go on.
    Copied,
}

/// Who spends where, and what happens meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What the first member mints.
    pub minted: u64,
    /// How many clients spend at each member, each a unit at a time.
    pub clients: [usize; 3],
    /// How long a client waits before it is refused, in milliseconds.
    pub patience_ms: u64,
    /// From when to when the last member is cut off, in milliseconds.
    pub cut_ms: Option<(u64, u64)>,
    /// Whether links are cut and members start again now and then, until so many milliseconds.
    pub trouble_ms: u64,
    /// How many in a thousand frames are lost on the way, and how many arrive twice.
    pub lost: u64,
    /// Whether clients ask under idempotency keys, and ask others again when they get no answer.
    pub keyed: bool,
    /// How many in a thousand wishes are to give a unit back, under a cap, before it is quiet.
    pub given_back: u64,
    /// How many spend on leases, with clocks of their own.
    pub holders: usize,
    /// What happens to one of the members while there is trouble.
    pub strike: Option<Strike>,
    /// When it ends, if not all is spent before.
    pub end_ms: u64,
}

/// Plays until all is spent, or the time is over.
///
/// # Errors
/// Says what went wrong, and the seed.
pub fn play(seed: u64, plan: &Plan, policy: Policy) -> Result<Figures, String> {
    let mut world = World::new(seed, plan, policy);
    let played = world.play();
    played.map_err(|error| format!("TALLYMESH_SEED={seed}: {} ms: {error}", world.now))?;
    Ok(world.figures)
}

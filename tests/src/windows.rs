//! Limits for each period at three or four members, over real sync machines, links with a delay, losses,
//! cuts, restarts, and clocks that are apart: what is allowed in a period never adds up to more than its
//! limit, and when all is mended all of it can be used, and nothing is left of periods that are over. Time
//! is simulated, so all follows from the seed.

mod world;

use std::collections::BTreeMap;
use tallymesh_core::{Configuration, Limit, Owner};
use world::World;

/// So many members are played at most.
pub const MEMBERS_MAX: usize = 10;

/// What happens.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many members there are at most.
    pub members: usize,
    /// How many of them there are at first.
    pub founders: usize,
    /// How many clients ask at each.
    pub clients: [usize; MEMBERS_MAX],
    /// How many keys they ask for, at most three.
    pub keys: usize,
    /// Whether they wait for what is not allowed at once.
    pub waits: bool,
    /// Whether all is mended in the end, and looked at what can be used then and what is left.
    pub rests: bool,
    /// How much is allowed in a period, at first.
    pub limit: u64,
    /// How long a period is, in milliseconds.
    pub period_ms: u64,
    /// How far clocks are apart at most, in milliseconds.
    pub skew_ms: u64,
    /// Until when links are cut and members start again, in milliseconds.
    pub trouble_ms: u64,
    /// How many in a thousand frames are lost on the way, and how many arrive twice.
    pub lost: u64,
    /// How many in a thousand restarts are from an old copy of the store.
    pub old: u64,
    /// How many in a thousand troubles are a change of the limits.
    pub rules: u64,
    /// How many in a thousand troubles are a change of the members.
    pub moves: u64,
    /// When it ends, in milliseconds.
    pub end_ms: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// How much was allowed, and how often that was refused.
    pub allowed: u64,
    /// How often it was refused.
    pub refused: u64,
    /// How many of those who were allowed something had waited for it.
    pub waited: u64,
    /// How much a member allowed that others did not count any more.
    pub uncounted: u64,
    /// How many windows there were.
    pub windows: u64,
    /// How many restarts there were.
    pub restarts: u64,
    /// How many links were cut.
    pub cuts: u64,
    /// How many configurations were decided.
    pub decided: u64,
    /// The most counters that a member kept of windows at once.
    pub counters: usize,
    /// What was asked for in each window, by its name, and allowed at once.
    pub periods: BTreeMap<String, Metered>,
}

/// What was asked for in a window.
#[derive(Clone, Debug)]
pub struct Metered {
    /// How much may be allowed.
    pub limit: u64,
    /// How much was asked for at each member.
    pub asked: Vec<u64>,
    /// How much was allowed, at once.
    pub allowed: u64,
}

impl Metered {
    /// The most that anybody could have allowed.
    pub fn most(&self) -> u64 {
        self.limit.min(self.asked.iter().sum())
    }

    /// What members would have allowed that each have a part of the limit which stays theirs.
    pub fn fixed(&self) -> u64 {
        let parts = self.asked.len() as u64;
        let part = |at: u64| self.limit / parts + u64::from(at < self.limit % parts);
        let allowed = self.asked.iter().zip(0..);
        allowed.map(|(asked, at)| part(at).min(*asked)).sum()
    }
}

/// What is known of configurations from outside.
#[derive(Default)]
struct Decided {
    by_number: BTreeMap<u64, Configuration>,
    /// When all members knew of one of this number, or of a later one.
    known: BTreeMap<u64, u64>,
}

impl Decided {
    fn note(&mut self, it: &Configuration) {
        self.by_number.insert(it.number, it.clone());
    }

    /// The most that may be allowed of a limit in a period whose first use was no earlier than `first`.
    fn bound(&self, key: &str, born: u64, first: u64) -> u64 {
        let known = self.known.iter().filter(|it| *it.1 < first);
        let from = known.map(|it| *it.0).max().unwrap_or(0);
        let since = self.by_number.range(from..).map(|it| it.1);
        let of = |it: &Configuration| {
            let limit = it.limit_of(key).filter(|it| it.born == born);
            limit.map_or(0, |it| it.limit)
        };
        since.map(of).max().unwrap_or(0)
    }
}

fn owner(at: usize) -> Owner {
    [at as u8 + 1; 32]
}

fn limit(name: &str, limit: u64, period_ms: u64) -> Limit {
    Limit {
        name: name.into(),
        limit,
        period_ms,
        born: 0,
    }
}

/// Plays a plan.
///
/// # Errors
/// Says what went wrong, and the seed.
pub fn play(seed: u64, plan: &Plan) -> Result<Figures, String> {
    let mut world = World::new(seed, plan);
    let played = world.play().and_then(|()| match plan.rests {
        true => world.rest(),
        false => Ok(()),
    });
    played.map_err(|error| format!("TALLYMESH_SEED={seed}: {} ms: {error}", world.now))?;
    Ok(world.figures)
}

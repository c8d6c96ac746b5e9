//! Limits for each period at three or four members, over real sync machines, links with a delay, losses,
//! cuts, restarts, and clocks that are apart: what is allowed in a period never adds up to more than its
//! limit, and when all is mended all of it can be used, and nothing is left of periods that are over. Time
//! is simulated, so all follows from the seed.

mod world;

use std::collections::BTreeMap;
use tallymesh_core::{Configuration, Limit, Owner};
use world::World;

/// What happens.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many members there are at most; the first three are at first.
    pub members: usize,
    /// How many clients ask at each.
    pub clients: [usize; 4],
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
    /// What members knew, if the last limit was not decided on in time, so that it is not known whether all
    /// can be used.
    pub undecided: Option<String>,
    /// The most counters that a member kept of windows at once.
    pub counters: usize,
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
    // How long it takes until all have heard of changes of members is not looked at.
    let played = world.play().and_then(|()| match plan.moves {
        0 => world.rest(),
        _ => Ok(()),
    });
    played.map_err(|error| format!("TALLYMESH_SEED={seed}: {} ms: {error}", world.now))?;
    Ok(world.figures)
}

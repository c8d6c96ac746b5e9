//! The runs that are hashed.

use crate::sim::Trouble;
use crate::{
    beginnings, clones, closed, draws, explore, levels, majority, mesh, open, open_faults,
    partitions, periods, readers, retirement, spending,
};

/// The path of the file with the hashes.
pub const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/trace.txt");

/// The runs of a scenario, in blocks of seeds. The file has a line for each block, with its place and its
/// hash.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Seeds in a block.
    pub block: u64,
    /// Number of blocks.
    pub blocks: u64,
    run: fn(u64) -> Result<Option<u64>, String>,
}

/// More than 20,000 seeds altogether.
pub const SCENARIOS: [Scenario; 11] = [
    scenario("closed", 500, 20, |seed| closed::trace(seed).map(Some)),
    scenario("open", 25, 160, |seed| {
        open::run(seed, false).map(|it| Some(it.mesh.trace))
    }),
    scenario("clones", 25, 40, |seed| {
        clones::run(seed, false).map(|it| Some(it.mesh.trace))
    }),
    scenario("beginnings", 100, 20, |seed| {
        beginnings::run(seed, false).map(|it| Some(it.mesh.trace))
    }),
    scenario("levels", 50, 40, |seed| {
        let metrics = open_faults::judge("levels", seed, levels::run(seed, false))?;
        Ok(metrics.map(|it| it.mesh.trace))
    }),
    scenario("readers", 50, 40, |seed| {
        readers::run(seed, false).map(|it| Some(it.mesh.trace))
    }),
    scenario("guests", 20, 100, guests),
    scenario("sequences", 10, 80, sequences),
    scenario("budgets", 10, 80, budgets),
    scenario("limits", 4, 50, limits),
    scenario("partitions", 5, 40, partitions),
];

const fn scenario(
    name: &'static str,
    block: u64,
    blocks: u64,
    run: fn(u64) -> Result<Option<u64>, String>,
) -> Scenario {
    Scenario {
        name,
        block,
        blocks,
        run,
    }
}

impl Scenario {
    /// The beginning of a block's line: the scenario and its seeds.
    pub fn place(&self, block: u64) -> String {
        let first = block * self.block;
        let last = first + self.block - 1;
        format!("{} {first}-{last} ", self.name)
    }

    /// The line of a block: the sum of the hashes of its runs, and the seeds that fail by an [open
    /// fault](crate::open_faults).
    ///
    /// # Errors
    /// A seed that fails and is not listed, or that is listed and passes.
    pub fn line(&self, block: u64) -> Result<String, String> {
        let (mut sum, mut failed) = (0u64, String::new());
        for seed in block * self.block..(block + 1) * self.block {
            let hash = (self.run)(seed).map_err(|failure| format!("{}: {failure}", self.name))?;
            match hash {
                Some(hash) => sum = sum.wrapping_add(hash),
                None => failed += &format!(" fails {seed}"),
            }
        }
        Ok(format!("{}{sum:016x}{failed}", self.place(block)))
    }
}

/// Number of states of the explorations that each usual run repeats, one line for each.
///
/// # Errors
/// A wrong answer of an exploration.
pub fn explorations() -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    for (at, config) in explore::share().iter().enumerate() {
        let report = explore::explore(config).map_err(|it| it.to_string())?;
        lines.push(line_of("explore", at, &report));
    }
    for (at, config) in retirement::share().iter().enumerate() {
        let (report, _) = retirement::explore(config).map_err(|it| it.to_string())?;
        lines.push(line_of("retirement", at, &report));
    }
    for (at, config) in majority::share().iter().enumerate() {
        let (report, _) = majority::explore(config).map_err(|it| it.to_string())?;
        lines.push(line_of("majority", at, &report));
    }
    Ok(lines)
}

fn line_of(engine: &str, at: usize, report: &explore::Report) -> String {
    let (states, transitions) = (report.states, report.transitions);
    let name = &report.name;
    format!("states {engine}-{at} {states} states, {transitions} transitions: {name}")
}

/// The faults of a seed.
fn trouble(seed: u64) -> Trouble {
    [Trouble::CUTS, Trouble::LOSSES, Trouble::ALL][(seed % 3) as usize]
}

fn guests(seed: u64) -> Result<Option<u64>, String> {
    let (name, run) = mesh::RUNS[(seed % 4) as usize];
    let metrics = open_faults::judge(name, seed, run(seed, false))?;
    Ok(metrics.map(|it| it.mesh.trace))
}

fn sequences(seed: u64) -> Result<Option<u64>, String> {
    let plan = draws::Plan {
        clients: [4, 3, 2],
        trouble: trouble(seed),
        begins: 1 + 2 * usize::from(seed.is_multiple_of(5)),
        watch_ms: 1_000 * (seed % 2),
        end_ms: 16_000,
    };
    let metrics = draws::play(seed, false, &plan)?;
    Ok(Some(metrics.mesh.trace))
}

fn budgets(seed: u64) -> Result<Option<u64>, String> {
    let strike = (seed % 4 == 2).then_some(spending::Strike::TakenOut);
    let plan = spending::Plan {
        minted: 400,
        clients: [4, 3, 2],
        patience_ms: 1_000,
        cut_ms: None,
        trouble: match strike {
            None if seed % 5 > 1 => trouble(seed),
            _ => Trouble::CUTS,
        },
        keyed: seed.is_multiple_of(5),
        given_back: if seed % 5 == 1 && strike.is_none() {
            300
        } else {
            0
        },
        holders: if seed % 5 == 2 && strike.is_none() {
            6
        } else {
            0
        },
        strike,
        end_ms: 60_000,
    };
    let metrics = spending::play(seed, false, &plan, spending::Policy::Members)?;
    Ok(Some(metrics.mesh.trace))
}

fn limits(seed: u64) -> Result<Option<u64>, String> {
    let plan = periods::Plan {
        members: 4,
        founders: 3,
        clients: [3, 2, 1, 1, 0, 0, 0, 0, 0, 0],
        keys: 3,
        waits: true,
        rests: false,
        limit: 60,
        period_ms: 2_000,
        trouble: Trouble {
            skew_ms: 1_000,
            ..trouble(seed)
        },
        rules: 200,
        moves: if seed.is_multiple_of(2) { 300 } else { 0 },
        end_ms: 18_000,
    };
    let metrics = periods::play(seed, false, &plan)?;
    Ok(Some(metrics.mesh.trace))
}

fn partitions(seed: u64) -> Result<Option<u64>, String> {
    // A seed has cuts alone, or other faults too. No disk of a budget is put back, because the units that it
    // lost would be spent again.
    let others = Trouble {
        old: 0,
        ..Trouble::ALL
    };
    let (work, trouble) = match seed % 5 {
        0 => (partitions::Work::Limit(500), Trouble::NONE),
        1 => (partitions::Work::Budget(500), others),
        2 => (partitions::Work::Retired(2_000), Trouble::NONE),
        3 => (partitions::Work::Sequence(0), Trouble::ALL),
        _ => (partitions::Work::Sequence(200), Trouble::NONE),
    };
    let plan = partitions::Plan {
        work,
        cut_percent: 10 * (seed % 7),
        clients: [3; partitions::MEMBERS],
        patience_ms: 1_000,
        trouble,
        end_ms: match seed % 5 {
            3 | 4 => 20_000,
            _ => 300_000,
        },
    };
    let metrics = partitions::play(seed, false, &plan)?;
    Ok(Some(metrics.mesh.trace))
}

//! Which runs are hashed.

use crate::sim::Trouble;
use crate::{
    closed, explore, levels, mesh, open, partitions, retirement, spending, tickets, windows,
};

/// Where the hashes are.
pub const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/trace.txt");

/// The runs of a scenario, in blocks of seeds: a line of the file for each.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// So many seeds are a block.
    pub block: u64,
    /// So many blocks there are.
    pub blocks: u64,
    run: fn(u64) -> Result<u64, String>,
}

/// 20,000 seeds altogether.
pub const SCENARIOS: [Scenario; 8] = [
    scenario("closed", 1_000, 10, closed::trace),
    scenario("open", 50, 80, |seed| {
        open::run(seed, false).map(|it| it.mesh.trace)
    }),
    scenario("levels", 100, 20, |seed| {
        levels::run(seed, false).map(|it| it.mesh.trace)
    }),
    scenario("guests", 25, 80, guests),
    scenario("sequences", 10, 80, sequences),
    scenario("budgets", 10, 80, budgets),
    scenario("limits", 5, 40, limits),
    scenario("partitions", 5, 40, partitions),
];

const fn scenario(
    name: &'static str,
    block: u64,
    blocks: u64,
    run: fn(u64) -> Result<u64, String>,
) -> Scenario {
    Scenario {
        name,
        block,
        blocks,
        run,
    }
}

impl Scenario {
    /// The line of a block: the sum of the hashes of its runs, and the seeds of those that failed, if any did.
    pub fn line(&self, block: u64) -> String {
        let first = block * self.block;
        let last = first + self.block - 1;
        let (mut sum, mut failed) = (0u64, String::new());
        for seed in first..=last {
            match (self.run)(seed) {
                Ok(hash) => sum = sum.wrapping_add(hash),
                Err(failure) => {
                    eprintln!("{}: {failure}", self.name);
                    failed += &format!(" failed {seed}");
                }
            }
        }
        format!("{} {first}-{last} {sum:016x}{failed}", self.name)
    }
}

/// How many states the explorations have that each usual run repeats: a line for each.
///
/// # Errors
/// Says which answer was wrong.
pub fn explorations() -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    for config in explore::share() {
        let report = explore::explore(&config).map_err(|it| it.to_string())?;
        lines.push(line_of("explore", &report));
    }
    for config in retirement::share() {
        let (report, _) = retirement::explore(&config).map_err(|it| it.to_string())?;
        lines.push(line_of("retirement", &report));
    }
    Ok(lines)
}

fn line_of(name: &str, report: &explore::Report) -> String {
    let (states, transitions) = (report.states, report.transitions);
    format!(
        "{name} {states} states {transitions} transitions: {}",
        report.name
    )
}

/// The troubles of a seed.
fn trouble(seed: u64) -> Trouble {
    [Trouble::CUTS, Trouble::LOSSES, Trouble::ALL][(seed % 3) as usize]
}

fn guests(seed: u64) -> Result<u64, String> {
    let run = [
        mesh::run,
        mesh::run_tabs,
        mesh::run_keyed,
        mesh::run_limited,
    ];
    let figures = run[(seed % 4) as usize](seed, false)?;
    Ok(figures.mesh.trace)
}

fn sequences(seed: u64) -> Result<u64, String> {
    let plan = tickets::Plan {
        clients: [4, 3, 2],
        trouble: trouble(seed),
        begins: 1 + 2 * usize::from(seed.is_multiple_of(5)),
        watch_ms: 1_000 * (seed % 2),
        end_ms: 16_000,
    };
    let figures = tickets::play(seed, false, &plan)?;
    Ok(figures.mesh.trace)
}

fn budgets(seed: u64) -> Result<u64, String> {
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
    let figures = spending::play(seed, false, &plan, spending::Policy::Members)?;
    Ok(figures.mesh.trace)
}

fn limits(seed: u64) -> Result<u64, String> {
    let plan = windows::Plan {
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
    let figures = windows::play(seed, false, &plan)?;
    Ok(figures.mesh.trace)
}

fn partitions(seed: u64) -> Result<u64, String> {
    let works = [
        partitions::Work::Limit(500),
        partitions::Work::Budget(500),
        partitions::Work::Retired(2_000),
        partitions::Work::Sequence(0),
        partitions::Work::Sequence(200),
    ];
    let plan = partitions::Plan {
        work: works[(seed % 5) as usize],
        cut_percent: 10 * (seed % 7),
        clients: [3; partitions::MEMBERS],
        patience_ms: 1_000,
        trouble: Trouble::NONE,
        end_ms: match seed % 5 {
            3 | 4 => 20_000,
            _ => 300_000,
        },
    };
    let figures = partitions::play(seed, false, &plan)?;
    Ok(figures.mesh.trace)
}

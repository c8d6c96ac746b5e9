//! `cargo xtask test`: everything, in stages, each timed against its budget.

mod budget;
mod long;
mod skips;
mod stages;
mod summary;

pub(crate) use summary::Tally;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::repo::Repo;
use crate::run;
use budget::Budget;
use skips::Skips;
use stages::Stage;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only these stages; name several by repeating the option
    #[arg(long = "stage", value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(stages::NAMES))]
    stages: Vec<String>,
    /// Run the longer tests instead and write docs/reports/long.md
    #[arg(long, conflicts_with = "stages")]
    long: bool,
    /// How many seeds the longer tests use
    #[arg(long, default_value_t = 5_000, requires = "long")]
    seeds: u64,
    /// Run only these parts of the longer tests, and write only their rows of the report; repeat the option for
    /// several
    #[arg(long = "part", value_name = "NAME", requires = "long", value_parser = clap::builder::PossibleValuesParser::new(long::PARTS))]
    parts: Vec<String>,
}

pub(crate) fn command(repo: &Repo, args: &Args) -> Result<()> {
    if args.long {
        return long::command(repo, args.seeds, &args.parts);
    }
    let budget = Budget::read(repo)?;
    let skips = Skips::read(repo)?;
    let chosen: Vec<&Stage> = stages::ALL
        .iter()
        .filter(|stage| args.stages.is_empty() || args.stages.iter().any(|name| name == stage.name))
        .collect();
    let begun = Instant::now();
    let mut total = Tally::default();
    for stage in chosen {
        run::go_on()?;
        println!("== {}: {}", stage.name, stage.what);
        let begun = Instant::now();
        let mut tally = stage.run(repo);
        run::go_on()?;
        skips.judge(stage.name, &mut tally);
        for failure in &tally.failures {
            println!("{failure}\n");
        }
        println!(
            "   {tally}; {}",
            budget.stage_line(stage.name, begun.elapsed())?
        );
        total.join(tally);
    }
    finish(&budget, &skips, total, begun.elapsed())
}

fn finish(budget: &Budget, skips: &Skips, mut total: Tally, took: Duration) -> Result<()> {
    println!("== total: {}", budget.total_line(took));
    if budget.is_over(took) {
        total.fail("the whole run took longer than its budget in xtask/budgets.toml".to_owned());
    }
    for (skipped, reason) in skips.reasons(&total) {
        println!("   skipped: {skipped}: {reason}");
    }
    println!("{total}");
    if total.failed > 0 {
        bail!("the test run failed");
    }
    Ok(())
}

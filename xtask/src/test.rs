//! `cargo xtask test`: all tests, in stages. The time of each is compared with its budget.

mod budget;
mod changed;
mod long;
mod native;
mod skips;
mod stages;
mod summary;

pub(crate) use summary::Tally;

use std::thread;
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
    /// Run what the changes of this branch can affect and what answers soon: those since its last commit in
    /// common with main, or since BASE, with all that is not committed. Names what is left out
    #[arg(long, value_name = "BASE", num_args = 0..=1, require_equals = true, conflicts_with_all = ["stages", "long"])]
    changed: Option<Option<String>>,
    /// Run the longer tests instead and write docs/reports/long.md
    #[arg(long, conflicts_with = "stages")]
    long: bool,
    /// How many seeds the longer tests use; the native ones as many times their usual number as this has
    /// thousands
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
    if let Some(base) = &args.changed {
        return changed::command(repo, base.as_deref());
    }
    let budget = Budget::read(repo)?;
    let skips = Skips::read(repo)?;
    let is_chosen = |stage: &&Stage| {
        args.stages.is_empty() || args.stages.iter().any(|name| name == stage.name)
    };
    let mut chosen = stages::ALL.iter().filter(is_chosen).peekable();
    let begun = Instant::now();
    let mut total = Tally::default();
    while let Some(stage) = chosen.next() {
        run::go_on()?;
        let beside = chosen.next_if(|next| next.is_beside);
        for (stage, mut tally, took) in run_together(repo, stage, beside) {
            run::go_on()?;
            skips.judge(stage.name, &mut tally);
            for failure in &tally.failures {
                println!("{failure}\n");
            }
            let line = budget.stage_line(stage.name, took)?;
            println!("   {}: {tally}; {line}", stage.name);
            total.join(tally);
        }
    }
    finish(&budget, &skips, total, begun.elapsed())
}

/// Runs a stage, and another one at the same time if there is one. Returns the counts and the time of each.
fn run_together(
    repo: &Repo,
    stage: &'static Stage,
    beside: Option<&'static Stage>,
) -> Vec<(&'static Stage, Tally, Duration)> {
    let timed = |stage: &'static Stage| {
        println!("== {}: {}", stage.name, stage.what);
        let begun = Instant::now();
        let tally = stage.run(repo);
        (stage, tally, begun.elapsed())
    };
    thread::scope(|scope| {
        let beside = beside.map(|stage| scope.spawn(move || timed(stage)));
        let mut done = vec![timed(stage)];
        // A stage that panicked has printed its message, and ends the run.
        done.extend(beside.map(|it| it.join().expect("a stage that ends")));
        done
    })
}

fn finish(budget: &Budget, skips: &Skips, mut total: Tally, took: Duration) -> Result<()> {
    println!("== total: {}", budget.total_line(took));
    if budget.is_over(took) {
        total.fail("the whole run took longer than its budget in xtask/budgets.toml".to_owned());
    }
    for (skipped, reason) in skips.reasons(&total) {
        println!("   skipped: {skipped}: {reason}");
    }
    println!("{total}{}", crate::check::unchecked(&total));
    if total.failed > 0 {
        bail!("the test run failed");
    }
    Ok(())
}

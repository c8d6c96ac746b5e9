//! `cargo xtask mutants`: checks whether the tests notice when core is wrong.
//!
//! cargo-mutants lists the small changes that may be made to core, and would compile each of them anew. This
//! command compiles all of them at once into a copy of core, each behind a number that the environment turns
//! on. Then it runs the test binaries once for each.

mod build;
mod edit;
mod explanations;
mod list;
mod plant;
mod report;
mod scratch;
mod tests;
mod trial;

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::repo::Repo;
use crate::run::say;
use crate::test::Tally;
use explanations::Explanations;
use report::{Found, Outcome};

/// The files with merge, cancel, retirement, clocks and transfers. A surviving mutant in them must be
/// explained.
const FILES: [&str; 62] = [
    "core/src/forks.rs",
    "core/src/idempotency/gaps.rs",
    "core/src/idempotency/keyed.rs",
    "core/src/idempotency/lifetimes.rs",
    "core/src/idempotency/log.rs",
    "core/src/idempotency/withdrawal.rs",
    "core/src/membership/admission.rs",
    "core/src/membership/forget.rs",
    "core/src/membership/gaps.rs",
    "core/src/membership/members.rs",
    "core/src/membership/records.rs",
    "core/src/membership/retire.rs",
    "core/src/membership/room.rs",
    "core/src/membership/sponsors.rs",
    "core/src/membership/stability.rs",
    "core/src/membership/votes.rs",
    "core/src/membership/writer_state.rs",
    "core/src/message/records.rs",
    "core/src/rejoin/earlier.rs",
    "core/src/rejoin/journal.rs",
    "core/src/replica/absorb.rs",
    "core/src/replica/adds.rs",
    "core/src/replica/admission.rs",
    "core/src/replica/build.rs",
    "core/src/replica/build/since.rs",
    "core/src/replica/collect.rs",
    "core/src/replica/forget.rs",
    "core/src/replica/fork.rs",
    "core/src/replica/keyed.rs",
    "core/src/replica/members.rs",
    "core/src/replica/merge.rs",
    "core/src/replica/ops.rs",
    "core/src/replica/rejoin.rs",
    "core/src/replica/role.rs",
    "core/src/replica/scan.rs",
    "core/src/replica/snapshot.rs",
    "core/src/replica/transaction.rs",
    "core/src/replica/version.rs",
    "core/src/replica/votes.rs",
    "core/src/state.rs",
    "core/src/state/build.rs",
    "core/src/state/changes.rs",
    "core/src/state/counter.rs",
    "core/src/state/join.rs",
    "core/src/state/operation.rs",
    "core/src/state/page.rs",
    "core/src/state/raised.rs",
    "core/src/state/read.rs",
    "core/src/state/slot.rs",
    "core/src/state/sweep.rs",
    "core/src/sync/earlier.rs",
    "core/src/sync/forks.rs",
    "core/src/sync/members.rs",
    "core/src/sync/members/linked.rs",
    "core/src/sync/members/rejoin.rs",
    "core/src/sync/own.rs",
    "core/src/sync/pull.rs",
    "core/src/sync/push.rs",
    "core/src/sync/rights.rs",
    "core/src/vector.rs",
    "core/src/wire/adds.rs",
    "core/src/wire/earlier.rs",
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Change these files only, and write no report; repeat the option for several
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Try mutants with this in their name only, and write no report; repeat it for several
    #[arg(long)]
    only: Vec<String>,
    /// Try those only that survived the last run, and write no report
    #[arg(long)]
    survivors: bool,
    /// Take the word of earlier runs for what they tried: for a run that was interrupted
    #[arg(long)]
    go_on: bool,
    /// Play ten times as many histories against those that would survive without an explanation
    #[arg(long)]
    more: bool,
    /// Also try those that compile, but not together with others, each in a build of its own
    #[arg(long)]
    alone: bool,
    /// How many mutants are tried at a time; 0 reports what earlier runs found
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// Tries all mutants. Fails if one survives without an explanation in xtask/mutants.toml.
pub(crate) fn command(repo: &Repo, args: &Args) -> Result<()> {
    let tally = tried(repo, args)?;
    for failure in &tally.failures {
        println!("{failure}");
    }
    println!("{tally}");
    if tally.failed > 0 {
        bail!("mutants survived without an explanation");
    }
    Ok(())
}

/// Whether all mutants of exactly these sources were tried already, and the report has no complaint.
pub(crate) fn are_tried(repo: &Repo) -> bool {
    report::holds(repo)
}

fn tried(repo: &Repo, args: &Args) -> Result<Tally> {
    let whole = args.files.is_empty() && args.only.is_empty() && !args.survivors;
    let files: Vec<String> = match args.files.is_empty() {
        true => FILES.map(str::to_owned).to_vec(),
        false => args
            .files
            .iter()
            .map(|file| file.display().to_string())
            .collect(),
    };
    let explanations = Explanations::read(repo)?;
    let mut mutants = list::of(repo, &files)?;
    mutants.extend(explanations.own(mutants.len()));
    let planted = build::planted(repo, &mut mutants)?;
    say(&format!(
        "{} mutants, {} of them in one build",
        mutants.len(),
        mutants.iter().filter(|m| planted.holds(m.id)).count()
    ));
    let found = Found::read(repo, &mutants);
    let chosen: Vec<&list::Mutant> = mutants
        .iter()
        .filter(|m| args.only.is_empty() || args.only.iter().any(|t| m.title().contains(t)))
        .filter(|m| !args.survivors || found.of(m).is_some_and(Outcome::survived))
        .collect();
    let tests = tests::Tests::find(repo, &planted)?;
    let explained = explanations.explained();
    let may_survive =
        |mutant: &list::Mutant| !args.more || explained.contains_key(mutant.title().as_str());
    let course = trial::Course {
        repo,
        planted: &planted,
        tests: &tests,
        found: &found,
        jobs: args.jobs,
        trusts: args.go_on,
        alone: args.alone,
        may_survive: &may_survive,
    };
    let outcomes = course.run(&chosen)?;
    let judged = report::judge(&explanations, &outcomes, whole)?;
    if whole {
        report::write(repo, &explanations, &tests, &outcomes)?;
    }
    Ok(judged)
}

//! What became of the mutants.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;

use anyhow::Result;

use super::kept::Kept;
use super::list::{Genre, Mutant};
use super::tests::Tests;
use crate::proofs;
use crate::repo::Repo;
use crate::test::Tally;

const REPORT: &str = "docs/reports/mutants.md";
const SURVIVORS: &str = "mutants/survivors.txt";

/// What became of one mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// This test failed.
    Caught { by: String },
    /// This test took much too long.
    Slow { by: String },
    /// All of so many tests that come by it passed.
    Survived { tests: usize },
    /// It does not compile.
    Unviable,
    /// It was not tried.
    NotRun,
}

impl Outcome {
    pub(super) fn survived(&self) -> bool {
        matches!(self, Outcome::Survived { .. })
    }
}

type Outcomes<'m> = [(&'m Mutant, Outcome)];

/// Keeps the titles of those that survived, for the next run.
pub(super) fn keep_survivors(repo: &Repo, outcomes: &Outcomes<'_>) -> Result<()> {
    let survivors = outcomes.iter().filter(|(_, outcome)| outcome.survived());
    let titles: Vec<String> = survivors.map(|(mutant, _)| mutant.title()).collect();
    Ok(fs::write(repo.target().join(SURVIVORS), titles.join("\n"))?)
}

/// The titles of those that survived the last run.
pub(super) fn last_survivors(repo: &Repo) -> BTreeSet<String> {
    let text = fs::read_to_string(repo.target().join(SURVIVORS)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Counts, and complains of what is not explained; of a whole run also of explanations that
/// explain nothing.
pub(super) fn judge(kept: &Kept, outcomes: &Outcomes<'_>, whole: bool) -> Result<Tally> {
    let explained = kept.explained();
    let mut tally = Tally::default();
    for (mutant, outcome) in outcomes {
        let title = mutant.title();
        match outcome {
            Outcome::Caught { .. } | Outcome::Slow { .. } => tally.join(Tally::pass()),
            Outcome::Unviable if mutant.genre == Genre::Own => {
                tally.fail(format!("does not compile: {title}"));
            }
            Outcome::Unviable => {}
            Outcome::NotRun => tally.skip(&title),
            Outcome::Survived { .. } if explained.contains_key(title.as_str()) => {
                tally.join(Tally::pass());
            }
            Outcome::Survived { tests } => {
                tally.fail(format!("survived {tests} tests: {title}"));
            }
        }
    }
    if whole {
        let titles: BTreeSet<String> = outcomes.iter().map(|(m, _)| m.title()).collect();
        for title in explained.keys().filter(|title| !titles.contains(**title)) {
            tally.fail(format!(
                "xtask/mutants.toml explains what is no mutant: {title}"
            ));
        }
    }
    Ok(tally)
}

/// Writes docs/reports/mutants.md.
pub(super) fn write(
    repo: &Repo,
    kept: &Kept,
    tests: &Tests,
    outcomes: &Outcomes<'_>,
) -> Result<()> {
    let mut text = proofs::head(repo, "Mutation tests of core", "cargo xtask mutants")?;
    writeln!(
        text,
        "Each mutant is one small change to core. {} tests are run against it, the fastest first, \
         until one fails (caught) or takes {} times as long as it should (too slow). Unviable ones \
         do not compile.\n",
        tests.all.len(),
        super::trial::SLOW
    )?;
    let mut rows: BTreeMap<&str, [usize; 5]> = BTreeMap::new();
    for (mutant, outcome) in outcomes {
        let column = match outcome {
            Outcome::Caught { .. } => 0,
            Outcome::Slow { .. } => 1,
            Outcome::Survived { .. } => 2,
            Outcome::Unviable => 3,
            Outcome::NotRun => 4,
        };
        let file = mutant
            .file
            .strip_prefix("core/src/")
            .unwrap_or(&mutant.file);
        rows.entry(file).or_default()[column] += 1;
    }
    writeln!(
        text,
        "| file | mutants | caught | too slow | survived | unviable | not run |"
    )?;
    writeln!(text, "|---|---:|---:|---:|---:|---:|---:|")?;
    let mut all = [0; 5];
    for (file, row) in &rows {
        line(&mut text, file, row)?;
        all.iter_mut().zip(row).for_each(|(sum, n)| *sum += n);
    }
    line(&mut text, "all", &all)?;
    survivors(&mut text, kept, outcomes)?;
    own(&mut text, outcomes)?;
    fs::write(repo.path(REPORT), text)?;
    println!("report: {REPORT}");
    Ok(())
}

fn line(text: &mut String, name: &str, row: &[usize; 5]) -> Result<()> {
    let [caught, slow, survived, unviable, not_run] = row;
    let sum: usize = row.iter().sum();
    writeln!(
        text,
        "| {name} | {sum} | {caught} | {slow} | {survived} | {unviable} | {not_run} |"
    )?;
    Ok(())
}

/// The survivors, by why they may.
fn survivors(text: &mut String, kept: &Kept, outcomes: &Outcomes<'_>) -> Result<()> {
    let explained = kept.explained();
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (mutant, outcome) in outcomes.iter().filter(|(_, outcome)| outcome.survived()) {
        let Outcome::Survived { tests } = outcome else {
            continue;
        };
        let title = mutant.title();
        let why = explained.get(title.as_str()).copied();
        let entry = reasons.entry(why.unwrap_or("NOT EXPLAINED")).or_default();
        entry.push(format!("{title} ({tests} tests come by)"));
    }
    writeln!(text, "\n## Survivors, and why they may")?;
    for (why, titles) in reasons {
        writeln!(text, "\n{why}\n")?;
        for title in titles {
            writeln!(text, "- {title}")?;
        }
    }
    Ok(())
}

/// Mutants of our own, each with the test that noticed.
fn own(text: &mut String, outcomes: &Outcomes<'_>) -> Result<()> {
    writeln!(text, "\n## Mutants of the algebra\n")?;
    writeln!(text, "| mutant | noticed by |\n|---|---|")?;
    for (mutant, outcome) in outcomes {
        if mutant.genre == Genre::Own {
            let by = match outcome {
                Outcome::Caught { by } | Outcome::Slow { by } => by.as_str(),
                _ => "nobody",
            };
            writeln!(text, "| {} | {by} |", mutant.name)?;
        }
    }
    Ok(())
}

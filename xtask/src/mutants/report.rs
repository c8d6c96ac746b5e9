//! The outcomes of the mutants, and their report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::explanations::{Explanations, FILE};
use super::list::{Genre, Mutant};
use super::tests::Tests;
use crate::proofs;
use crate::repo::Repo;
use crate::test::Tally;

const REPORT: &str = "docs/reports/mutants.md";
const NOT_EXPLAINED: &str = "NOT EXPLAINED";

/// The outcome of one mutant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Outcome {
    /// This test failed.
    Caught { by: String },
    /// This test took much too long.
    Slow { by: String },
    /// All tests that reach it passed. `tests` is their number.
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

/// The outcomes that runs found, one line for each mutant. If a mutant has several lines, the last one
/// counts.
#[derive(Debug)]
pub(super) struct Found {
    path: PathBuf,
    /// The outcomes before this run, by title and by the number of earlier mutants with this title.
    known: BTreeMap<(String, usize), Outcome>,
    nth: BTreeMap<u32, usize>,
}

impl Found {
    /// Reads the outcomes of these mutants from earlier runs.
    pub(super) fn read(repo: &Repo, mutants: &[Mutant]) -> Found {
        let path = repo.target().join("mutants").join("found.jsonl");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let line = |line| {
            let (title, nth, outcome) = serde_json::from_str(line).ok()?;
            Some(((title, nth), outcome))
        };
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        let nth = mutants.iter().map(|mutant| {
            let count = count.entry(mutant.title()).or_default();
            *count += 1;
            (mutant.id, *count - 1)
        });
        Found {
            nth: nth.collect(),
            known: text.lines().filter_map(line).collect(),
            path,
        }
    }

    /// The outcome of a mutant in an earlier run.
    pub(super) fn of(&self, mutant: &Mutant) -> Option<&Outcome> {
        self.known.get(&(mutant.title(), self.nth[&mutant.id]))
    }

    /// Writes the outcome of a mutant to the file.
    pub(super) fn note(&self, mutant: &Mutant, outcome: &Outcome) -> Result<()> {
        let line = serde_json::to_string(&(mutant.title(), self.nth[&mutant.id], outcome))?;
        let mut options = fs::OpenOptions::new();
        let mut file = options.create(true).append(true).open(&self.path)?;
        Ok(std::io::Write::write_all(
            &mut file,
            format!("{line}\n").as_bytes(),
        )?)
    }
}

/// Counts the outcomes. A surviving mutant without an explanation is a failure. In a whole run, an
/// explanation without a surviving mutant is a failure too.
pub(super) fn judge(
    explanations: &Explanations,
    outcomes: &Outcomes<'_>,
    whole: bool,
) -> Result<Tally> {
    let explained = explanations.explained();
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
    explanations: &Explanations,
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
    survivors(&mut text, explanations, outcomes)?;
    not_run(&mut text, outcomes)?;
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

/// Whether the report has no complaint, and its sources have not changed since.
pub(super) fn holds(repo: &Repo) -> bool {
    let text = fs::read_to_string(repo.path(REPORT)).unwrap_or_default();
    let commit = text
        .lines()
        .find_map(|line| line.strip_prefix("- commit: "));
    let mut git = Command::new("git");
    git.current_dir(repo.path("")).args(["diff", "--quiet"]);
    git.args([commit.unwrap_or_default(), "--", "core", "tests", FILE]);
    let complains = text.contains(NOT_EXPLAINED) || text.contains("| nobody |");
    !complains && git.status().is_ok_and(|status| status.success())
}

/// Writes the survivors, by their reason.
fn survivors(
    text: &mut String,
    explanations: &Explanations,
    outcomes: &Outcomes<'_>,
) -> Result<()> {
    let explained = explanations.explained();
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (mutant, outcome) in outcomes.iter().filter(|(_, outcome)| outcome.survived()) {
        let Outcome::Survived { tests } = outcome else {
            continue;
        };
        let title = mutant.title();
        let why = explained.get(title.as_str()).copied();
        let entry = reasons.entry(why.unwrap_or(NOT_EXPLAINED)).or_default();
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

/// Writes the mutants that were not tried.
fn not_run(text: &mut String, outcomes: &Outcomes<'_>) -> Result<()> {
    let not_run = outcomes.iter().filter(|(_, it)| *it == Outcome::NotRun);
    let titles: Vec<String> = not_run.map(|(mutant, _)| mutant.title()).collect();
    if titles.is_empty() {
        return Ok(());
    }
    writeln!(
        text,
        "\n## Not run\n\n`cargo xtask mutants --go-on` tries what an interrupted run left, and with \
         `--alone` also what compiles only in a build of its own.\n"
    )?;
    for title in titles {
        writeln!(text, "- {title}")?;
    }
    Ok(())
}

/// Writes the mutants of our own, each with the test that noticed it.
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

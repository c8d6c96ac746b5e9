//! `cargo xtask test --long`: the tests that take longer than a coffee, and their report.

use std::fmt::Write;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::Tally;
use super::stages::{native, tests};
use super::summary::Runner;
use crate::mutants;
use crate::proofs::{self, ExploreArgs, SoakArgs};
use crate::repo::Repo;

const REPORT: &str = "docs/reports/long.md";
/// Attacks for each seed.
const ATTACKS: u64 = 200;
/// How often a node under load is killed.
const KILLS: u64 = 1_000;
/// How many operations clients ask for, again and again, while nodes are killed and cut.
const OPERATIONS: u64 = 100_000;

/// One part of the long run.
struct Part {
    name: &'static str,
    took: Duration,
    tally: Tally,
    /// What it counted.
    figures: String,
}

/// Runs the native tests with many seeds, the random histories, the exploration, the attacks and the
/// clients that ask again, tells whether the report on mutants is of these sources, which takes longer
/// than all of that to make, and writes the reports, also when something failed.
pub(super) fn command(repo: &Repo, seeds: u64) -> Result<()> {
    let mut parts = Vec::new();
    println!("== native tests with TALLYMESH_SEEDS={seeds} and TALLYMESH_KILLS={KILLS}");
    let begun = Instant::now();
    let more = [
        ("TALLYMESH_SEEDS", seeds.to_string()),
        ("TALLYMESH_KILLS", KILLS.to_string()),
    ];
    let tally = native(repo, &more)?;
    parts.push(Part {
        name: "native tests",
        took: begun.elapsed(),
        figures: tally.to_string(),
        tally,
    });
    let mut part = |name: &'static str, run: &dyn Fn() -> Result<Tally>| -> Result<()> {
        println!("== {name}");
        let begun = Instant::now();
        let tally = run()?;
        parts.push(Part {
            name,
            took: begun.elapsed(),
            figures: tally.to_string(),
            tally,
        });
        Ok(())
    };
    part("soak", &|| {
        let args = SoakArgs {
            seeds,
            long: seeds / 100,
            from: 0,
            visitors: seeds * 10,
            only: None,
        };
        proofs::soaked(repo, &args)
    })?;
    part("explore", &|| {
        proofs::explored(repo, &ExploreArgs { only: None })
    })?;
    part("hostile bytes", &|| hostile(repo, seeds))?;
    part("retries", &|| retries(repo))?;
    let figures = match mutants::are_tried(repo) {
        true => "docs/reports/mutants.md is of the same sources",
        false => {
            "docs/reports/mutants.md is of earlier sources: `cargo xtask mutants` tries them anew"
        }
    };
    parts.push(Part {
        name: "mutants",
        took: Duration::ZERO,
        figures: figures.to_owned(),
        tally: Tally::default(),
    });

    fs::create_dir_all(repo.path("docs/reports"))?;
    fs::write(repo.path(REPORT), report(repo, seeds, &parts)?)?;
    let mut total = Tally::default();
    for part in parts {
        total.join(part.tally);
    }
    for failure in &total.failures {
        println!("{failure}\n");
    }
    println!("report: {REPORT}");
    println!("{total}");
    if total.failed > 0 {
        bail!("the long test run failed");
    }
    Ok(())
}

/// Changed bytes against decoders, merge and the sync machine: many more than in a usual run.
fn hostile(repo: &Repo, seeds: u64) -> Result<Tally> {
    let mut command = repo.cargo();
    command
        .args(["test", "--release", "--package", "tallymesh-tests"])
        .args(["--test", "hostile"])
        .env("TALLYMESH_SEEDS", (seeds * ATTACKS).to_string());
    tests(repo, "hostile bytes", Runner::Rust, &mut command)
}

/// Clients that ask again through a proxy which loses and repeats: many more operations than in a usual
/// run.
fn retries(repo: &Repo) -> Result<Tally> {
    let mut command = repo.cargo();
    command
        .args(["test", "--release", "--package", "tallymesh-tests"])
        .args(["--test", "retries"])
        .env("TALLYMESH_BIN", repo.node_binary())
        .env("TALLYMESH_OPS", OPERATIONS.to_string());
    tests(repo, "retries", Runner::Rust, &mut command)
}

fn report(repo: &Repo, seeds: u64, parts: &[Part]) -> Result<String> {
    let command = format!("cargo xtask test --long --seeds {seeds}");
    let mut text = proofs::head(repo, "The last long test run", &command)?;
    writeln!(text, "| part | seconds | result | figures |")?;
    writeln!(text, "|---|---:|---|---|")?;
    for part in parts {
        let result = match &part.tally {
            tally if tally.failed > 0 => "FAILED",
            _ if part.took.is_zero() => "not run",
            _ => "passed",
        };
        writeln!(
            text,
            "| {} | {:.0} | {result} | {} |",
            part.name,
            part.took.as_secs_f32(),
            part.figures.replace('|', "/")
        )?;
    }
    Ok(text)
}

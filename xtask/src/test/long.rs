//! `cargo xtask test --long`: the tests that take longer than a coffee, and their report.

use std::fmt::Write;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::Tally;
use super::stages::native;
use crate::repo::Repo;
use crate::run::{ask, capture};

const REPORT: &str = "docs/reports/long.md";
const LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// One part of the long run.
struct Part {
    name: &'static str,
    took: Duration,
    tally: Tally,
    /// The last line that it printed.
    figures: String,
}

/// Runs the native tests and the simulator with many seeds and writes the report, also when
/// something failed.
pub(super) fn command(repo: &Repo, seeds: u64) -> Result<()> {
    let mut parts = Vec::new();
    println!("== native tests with TALLYMESH_SEEDS={seeds}");
    let begun = Instant::now();
    let tally = native(repo, &[("TALLYMESH_SEEDS", seeds.to_string())])?;
    parts.push(Part {
        name: "native tests",
        took: begun.elapsed(),
        figures: tally.to_string(),
        tally,
    });
    println!("== simulator, {seeds} seeds");
    parts.push(soak(repo, seeds)?);

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

fn soak(repo: &Repo, seeds: u64) -> Result<Part> {
    let begun = Instant::now();
    let mut command = repo.cargo();
    command
        .args([
            "run",
            "--release",
            "--package",
            "tallymesh-tests",
            "--bin",
            "soak",
            "--",
        ])
        .args(["--seeds", &seeds.to_string()]);
    let done = capture(repo, "soak", LIMIT, &mut command)?;
    let mut tally = Tally::default();
    if done.success {
        tally = Tally::pass();
    } else {
        tally.fail(format!("soak:\n{}", done.tail()));
    }
    Ok(Part {
        name: "simulator",
        took: begun.elapsed(),
        tally,
        figures: done
            .text
            .trim_end()
            .lines()
            .last()
            .unwrap_or("")
            .trim()
            .to_owned(),
    })
}

fn report(repo: &Repo, seeds: u64, parts: &[Part]) -> Result<String> {
    let git = |arguments: &[&str]| {
        ask(Command::new("git")
            .current_dir(repo.path(""))
            .args(arguments))
        .unwrap_or_default()
    };
    let dirty = if git(&["status", "--porcelain"]).is_empty() {
        ""
    } else {
        ", with changes that were not committed"
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let compiler = ask(Command::new("rustc")
        .current_dir(repo.path(""))
        .arg("--version"));
    let mut text = String::new();
    writeln!(text, "# The last long test run\n")?;
    writeln!(
        text,
        "Written by `cargo xtask test --long --seeds {seeds}`.\n"
    )?;
    writeln!(text, "- commit: {}{dirty}", git(&["rev-parse", "HEAD"]))?;
    writeln!(text, "- seeds: {seeds}")?;
    writeln!(
        text,
        "- machine: {cores} cores, {} {}, {}\n",
        std::env::consts::OS,
        std::env::consts::ARCH,
        compiler.unwrap_or_default()
    )?;
    writeln!(text, "| part | seconds | result | figures |")?;
    writeln!(text, "|---|---:|---|---|")?;
    for part in parts {
        let result = if part.tally.failed == 0 {
            "passed"
        } else {
            "FAILED"
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

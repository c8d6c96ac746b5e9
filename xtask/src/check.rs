//! `cargo xtask check`: formatting, lints, docs, dependencies, the service and the tidy rules.

mod advisories;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::fuzz;
use crate::repo::{self, Repo};
use crate::run::{Captured, capture};
use crate::setup;
use crate::test::Tally;
use crate::tidy;

const LIMIT: Duration = Duration::from_secs(20 * 60);
/// After this time without an answer, the advisory database counts as out of reach.
const ADVISORIES_LIMIT: Duration = Duration::from_secs(60);

/// The variable that may name a copy of the advisory database, for `check` and for `test`.
const ADVISORIES: &str = "TALLYMESH_ADVISORIES";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A folder with a copy of the RustSec advisory database (it has crates/), to be read in place of the
    /// one on the network
    #[arg(long, value_name = "DIR", env = ADVISORIES)]
    advisories: Option<PathBuf>,
}

pub(crate) fn command(repo: &Repo, args: &Args) -> Result<()> {
    let tally = checked(repo, args.advisories.as_deref())?;
    for failure in &tally.failures {
        eprintln!("{failure}\n");
    }
    if tally.failed > 0 {
        println!("{tally}");
        bail!("{} of the checks failed{}", tally.failed, unchecked(&tally));
    }
    println!("{tally}{}", unchecked(&tally));
    Ok(())
}

/// The end of the last line. It repeats skipped checks, because the lines above are often not read.
pub(crate) fn unchecked(tally: &Tally) -> &'static str {
    match tally.skipped.iter().any(|name| name == "advisories") {
        true => "; advisories not checked",
        false => "",
    }
}

/// Runs every check, even after one has failed, and prints a line for each. The environment may name the
/// advisory database.
pub(crate) fn run(repo: &Repo) -> Result<Tally> {
    let folder = std::env::var_os(ADVISORIES).map(PathBuf::from);
    checked(repo, folder.as_deref())
}

fn checked(repo: &Repo, advisories_in: Option<&Path>) -> Result<Tally> {
    let mut tally = Tally::default();
    let deny = setup::cargo_deny(repo)?;

    let begun = Instant::now();
    let broken = tidy::broken_rules(repo)?;
    report(
        &mut tally,
        "tidy",
        begun,
        broken.is_empty(),
        broken.join("\n"),
    );

    let mut format = repo.cargo();
    format.args(["fmt", "--all", "--check"]);
    external(repo, &mut tally, "format", &mut format)?;

    // Always the release profile, so that build scripts and macros are compiled once.
    let mut lints = repo.cargo();
    lints.args([
        "clippy",
        "--release",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]);
    external(repo, &mut tally, "lints", &mut lints)?;

    let mut targets = fuzz::cargo(repo, "check");
    external(repo, &mut tally, "fuzz targets", targets.args(["--bins"]))?;

    // Before the docs of the public items, which take the same place.
    let mut links = repo.cargo();
    links
        .args([
            "doc",
            "--release",
            "--package",
            "tallymesh-core",
            "--no-deps",
        ])
        .arg("--document-private-items")
        .env(
            "RUSTDOCFLAGS",
            "-D warnings -A rustdoc::private-intra-doc-links",
        );
    external(repo, &mut tally, "private docs", &mut links)?;

    let mut docs = repo.cargo();
    docs.args(["doc", "--release", "--workspace", "--no-deps"])
        .env("RUSTDOCFLAGS", "-D warnings");
    external(repo, &mut tally, "docs", &mut docs)?;

    let mut dependencies = deny_command(repo, &deny);
    dependencies.args(["check", "bans", "licenses", "sources"]);
    external(repo, &mut tally, "dependencies", &mut dependencies)?;
    match advisories_in {
        Some(folder) => advisories_of(repo, &mut tally, folder)?,
        None => advisories(repo, &mut tally, &deny)?,
    }
    service(repo, &mut tally)?;
    Ok(tally)
}

fn deny_command(repo: &Repo, deny: &Path) -> Command {
    let mut command = Command::new(deny);
    command.current_dir(repo.path(""));
    command
}

/// Checks for known vulnerabilities with a copy of their database. A given copy that cannot be read is a
/// failure and not a skip.
fn advisories_of(repo: &Repo, tally: &mut Tally, folder: &Path) -> Result<()> {
    let begun = Instant::now();
    let ignored = advisories::ignored(&repo.path("deny.toml"))?;
    let known = advisories::known(folder, &repo.path("Cargo.lock"), &ignored);
    let said = known.map_or_else(|error| format!("{error:#}"), |found| found.join("\n"));
    report(tally, "advisories", begun, said.is_empty(), said);
    Ok(())
}

/// Checks for known vulnerabilities, if their database is available.
fn advisories(repo: &Repo, tally: &mut Tally, deny: &Path) -> Result<()> {
    let mut fetch = deny_command(repo, deny);
    fetch.args(["fetch", "db"]);
    let fetched = capture(
        repo,
        "check advisories database",
        ADVISORIES_LIMIT,
        &mut fetch,
    );
    crate::run::go_on()?;
    if fetched.is_ok_and(|done| done.success) {
        let mut check = deny_command(repo, deny);
        check.args(["check", "advisories"]);
        return external(repo, tally, "advisories", &mut check);
    }
    println!(
        "  advisories    skipped: their database could not be reached; --advisories DIR reads a copy"
    );
    tally.skip("advisories");
    Ok(())
}

/// Verifies the node's unit with systemd, on a machine with systemd.
fn service(repo: &Repo, tally: &mut Tally) -> Result<()> {
    let begun = Instant::now();
    let there = Command::new("systemd-analyze").arg("--version").output();
    if !there.is_ok_and(|output| output.status.success()) {
        println!("  service       skipped: there is no systemd-analyze");
        tally.skip("service");
        return Ok(());
    }
    // The program that the unit starts must exist. It need not be the node.
    let unit = repo::read(&repo.path("deploy/tallymesh.service"))?;
    let program = std::env::current_exe()?.display().to_string();
    let copy = repo.target().join("tallymesh.service");
    fs::write(
        &copy,
        unit.replace("/usr/local/bin/tallymesh ", &format!("{program} ")),
    )?;
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]).arg(&copy);
    let done = capture(repo, "check service", LIMIT, &mut verify)?;
    // An unknown setting is printed, and systemd does not count it as a failure. This check does.
    let passed = done.success && done.text.trim().is_empty();
    report(tally, "service", begun, passed, done.text);
    Ok(())
}

fn external(repo: &Repo, tally: &mut Tally, name: &str, command: &mut Command) -> Result<()> {
    let begun = Instant::now();
    let done: Captured = capture(repo, &format!("check {name}"), LIMIT, command)?;
    report(tally, name, begun, done.success, done.tail());
    Ok(())
}

fn report(tally: &mut Tally, name: &str, begun: Instant, passed: bool, why: String) {
    let word = if passed { "ok" } else { "FAILED" };
    println!(
        "  {name:<13} {word} ({:.1} s)",
        begun.elapsed().as_secs_f32()
    );
    if passed {
        tally.passed += 1;
    } else {
        tally.fail(format!("{name}:\n{why}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_that_advisories_were_not_checked() {
        let mut tally = Tally::pass();
        assert_eq!(unchecked(&tally), "");
        tally.skip("service");
        assert_eq!(unchecked(&tally), "");
        tally.skip("advisories");
        let line = format!("{tally}{}", unchecked(&tally));
        assert_eq!(
            line,
            "1 passed, 0 failed, 2 skipped; advisories not checked"
        );
    }
}

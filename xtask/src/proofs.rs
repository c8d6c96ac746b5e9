//! `cargo xtask soak` and `explore`: many random histories, and all orders of events of small spaces. Each
//! writes its results to docs/reports.

use std::fmt::Write;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::repo::Repo;
use crate::run::{Captured, ask, capture};
use crate::test::Tally;

const LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(clap::Args)]
pub(crate) struct SoakArgs {
    /// How many short histories of each sort to play; of meshes, a tenth
    #[arg(long, default_value_t = 10_000)]
    pub(crate) seeds: u64,
    /// How many long runs of the simulator
    #[arg(long, default_value_t = 100)]
    pub(crate) long: u64,
    /// The seed to begin with
    #[arg(long, default_value_t = 0)]
    pub(crate) from: u64,
    /// How many tabs come and go
    #[arg(long, default_value_t = 100_000)]
    pub(crate) visitors: u64,
    /// Play this part only, and write no report: meaning, closed, mesh, short or long
    #[arg(long)]
    pub(crate) only: Option<String>,
}

#[derive(clap::Args)]
pub(crate) struct ExploreArgs {
    /// Explore configurations with this in their name only, and write no report
    #[arg(long)]
    pub(crate) only: Option<String>,
}

/// Runs the random histories and the visitors, and writes docs/reports/soak.md.
pub(crate) fn soak(repo: &Repo, args: &SoakArgs) -> Result<()> {
    judge(soaked(repo, args)?)
}

/// Explores all configurations, and writes docs/reports/explore.md.
pub(crate) fn explore(repo: &Repo, args: &ExploreArgs) -> Result<()> {
    judge(explored(repo, args)?)
}

fn judge(tally: Tally) -> Result<()> {
    for failure in &tally.failures {
        println!("{failure}\n");
    }
    println!("{tally}");
    if tally.failed > 0 {
        bail!("not all of it is right");
    }
    Ok(())
}

/// As [`soak`], and returns the counts of tests.
pub(crate) fn soaked(repo: &Repo, args: &SoakArgs) -> Result<Tally> {
    let SoakArgs {
        seeds,
        long,
        from,
        visitors,
        only,
    } = args;
    let mut words = vec![
        format!("--seeds={seeds}"),
        format!("--long={long}"),
        format!("--from={from}"),
    ];
    words.extend(only.iter().map(|part| format!("--only={part}")));
    let done = program(repo, "soak", &words)?;
    let mut tally = counted("soak", &done);
    let mut rows = String::new();
    for line in done.text.lines().filter_map(|line| line.strip_prefix("= ")) {
        println!("{line}");
        writeln!(rows, "| {line} |")?;
    }
    let failed = |line: &&str| line.starts_with("FAILED") || line.starts_with("  replay: ");
    let failed: Vec<&str> = done.text.lines().filter(failed).collect();
    if only.is_some() {
        return Ok(tally);
    }
    let came = program(repo, "visitors", &[visitors.to_string()])?;
    tally.join(counted("visitors", &came));
    let last = came.text.trim_end().lines().last().unwrap_or_default();
    println!("{last}");

    let command = format!(
        "cargo xtask soak --seeds {seeds} --long {long} --from {from} --visitors {visitors}"
    );
    let mut text = head(repo, "Random histories, the last long run", &command)?;
    writeln!(text, "| part | histories | failed | time | figures |")?;
    writeln!(text, "|---|---:|---:|---:|---|\n{rows}")?;
    for line in failed {
        writeln!(text, "    {line}")?;
    }
    writeln!(text, "Tabs that come, count and go: {last}.")?;
    write(repo, "docs/reports/soak.md", &text)?;
    Ok(tally)
}

/// As [`explore`], and returns the counts of tests.
pub(crate) fn explored(repo: &Repo, args: &ExploreArgs) -> Result<Tally> {
    let only: Vec<String> = args.only.iter().cloned().collect();
    let mut tally = Tally::default();
    let mut text = head(
        repo,
        "What was explored exhaustively",
        "cargo xtask explore",
    )?;
    writeln!(
        text,
        "All orders of events of small configurations, on the core itself: each read of each \
         replica is compared with the oracle after each step, and from all states, or from a sample, \
         everything is put in order in the end. A message may be lost, late, and repeated. A run \
         that met its bound on states is marked INCOMPLETE.\n"
    )?;
    for (name, title) in [
        ("explore", "Open spaces"),
        ("retirement", "Spaces with members"),
        ("majority", "Majorities of members"),
    ] {
        let done = program(repo, name, &only)?;
        // This program has no configuration of this name.
        if !only.is_empty() && !done.success && !done.text.contains("states") {
            continue;
        }
        tally.join(counted(name, &done));
        let table = done.text.lines().filter(|line| line.starts_with('|'));
        let table: Vec<&str> = table.collect();
        println!("{}", table.join("\n"));
        writeln!(text, "## {title}\n\n{}\n", table.join("\n"))?;
        let rest = done.text.lines().filter(|line| line.starts_with("- "));
        for line in rest {
            writeln!(text, "{line}")?;
        }
        if !done.success {
            writeln!(
                text,
                "FAILED:\n\n    {}",
                done.tail().replace('\n', "\n    ")
            )?;
        }
    }
    if args.only.is_none() {
        write(repo, "docs/reports/explore.md", &text)?;
    }
    Ok(tally)
}

/// Runs a program of the tests.
fn program(repo: &Repo, name: &str, arguments: &[String]) -> Result<Captured> {
    let mut command = repo.cargo();
    command
        .args(["run", "--release", "--package", "tallymesh-tests", "--bin"])
        .args([name, "--"])
        .args(arguments);
    capture(repo, name, LIMIT, &mut command)
}

/// Counts one test, which passed if the program succeeded.
pub(crate) fn counted(name: &str, done: &Captured) -> Tally {
    let mut tally = Tally::default();
    match done.success {
        true => tally = Tally::pass(),
        false => tally.fail(format!("{name}:\n{}", done.tail())),
    }
    tally
}

fn write(repo: &Repo, path: &str, text: &str) -> Result<()> {
    fs::create_dir_all(repo.path("docs/reports"))?;
    fs::write(repo.path(path), text)?;
    println!("report: {path}");
    Ok(())
}

/// The output of a git command on these sources.
fn git(repo: &Repo, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    ask(git.current_dir(repo.path("")).args(arguments)).unwrap_or_default()
}

/// The short name of the commit that is checked out, and the day.
pub(crate) fn commit_and_day(repo: &Repo) -> (String, String) {
    let dirty = match git(repo, &["status", "--porcelain"]).is_empty() {
        true => "",
        false => " and changes",
    };
    let commit = git(repo, &["rev-parse", "--short", "HEAD"]);
    (format!("{commit}{dirty}"), today())
}

fn today() -> String {
    ask(Command::new("date").args(["-u", "+%Y-%m-%d"])).unwrap_or_default()
}

/// The head of a report: the command, the commit, the day, and the machine.
pub(crate) fn head(repo: &Repo, title: &str, command: &str) -> Result<String> {
    let dirty = match git(repo, &["status", "--porcelain"]).is_empty() {
        true => "",
        false => ", with changes that were not committed",
    };
    let mut text = String::new();
    writeln!(text, "# {title}\n\nWritten by `{command}`.\n")?;
    writeln!(
        text,
        "- commit: {}{dirty}",
        git(repo, &["rev-parse", "HEAD"])
    )?;
    writeln!(text, "- date: {}", today())?;
    writeln!(text, "- machine: {}\n", machine(repo))?;
    Ok(text)
}

/// A description of this machine for reports.
pub(crate) fn machine(repo: &Repo) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let compiler = ask(Command::new("rustc")
        .current_dir(repo.path(""))
        .arg("--version"));
    format!(
        "{cores} cores, {} {}, {}",
        std::env::consts::OS,
        std::env::consts::ARCH,
        compiler.unwrap_or_default()
    )
}

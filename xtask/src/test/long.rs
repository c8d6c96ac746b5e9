//! `cargo xtask test --long`: the tests that take longer than a coffee, and their report.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::Tally;
use super::native;
use super::stages::{interop_with, tests, tests_within, trace_with};
use super::summary::Runner;
use crate::mutants;
use crate::pass_on;
use crate::proofs::{self, ExploreArgs, SoakArgs};
use crate::repo::Repo;
use crate::run::capture;

const REPORT: &str = "docs/reports/long.md";
const FAULTS_REPORT: &str = "docs/reports/faults.md";
const LIARS_REPORT: &str = "docs/reports/hostile.md";
const INTEROP_REPORT: &str = "docs/reports/interop.md";
/// The parts, in their order.
pub(super) const PARTS: [&str; 11] = [
    "native",
    "trace",
    "soak",
    "explore",
    "hostile",
    "retries",
    "faults",
    "liars",
    "endurance",
    "interop",
    "postgres",
];
/// With this many seeds the native tests play as many as in a usual run. Some of these seeds take
/// milliseconds, others seconds.
const USUAL_SEEDS: u64 = 1_000;
/// Attacks for each seed.
const ATTACKS: u64 = 200;
/// Number of times that a node under load is killed.
const KILLS: u64 = 1_000;
/// Number of operations that clients request and repeat, while nodes are killed and cut.
const OPERATIONS: u64 = 100_000;
/// Length of the faults of five nodes, in seconds.
const FAULTS_SECONDS: u64 = 1_800;
/// The variable that sets a shorter length, for a trial.
const FAULTS: &str = "TALLYMESH_FAULTS_SECONDS";
/// Longest time of that test beyond its faults, including the build.
const FAULTS_MORE: Duration = Duration::from_secs(1_800);
/// Length of the load that costs its sender nothing, in seconds. It runs on two nodes, once for each limit on
/// descriptors.
const ENDURANCE_SECONDS: u64 = 600;
/// The variable that sets a shorter length, for a trial.
const ENDURANCE: &str = "TALLYMESH_ENDURANCE_SECONDS";
/// Longest time of the budgets beside PostgreSQL, including the build.
const POSTGRES_LIMIT: Duration = Duration::from_secs(1_800);
/// Number of steps of replicas in all runtimes.
const STEPS: u64 = 3_000;

/// Runs the longer tests, and writes the reports, even if a test fails. The parts are:
/// - the native tests with many seeds, and all hashes of what replicas send, store and read,
/// - the random histories, the exploration, and the attacks,
/// - the clients that repeat requests, and the faults,
/// - the peer that lies, and the load that costs its sender nothing,
/// - the runtimes, and budgets beside PostgreSQL.
///
/// It also checks whether the report on mutants is of these sources. A new report would take longer than all
/// of this. If only some parts are `chosen`, the rows of the others stay as they are.
pub(super) fn command(repo: &Repo, seeds: u64, chosen: &[String]) -> Result<()> {
    let mut total = Tally::default();
    // This comes before the reports, because those are not committed.
    let of = proofs::commit_and_day(repo);
    for name in PARTS {
        if !chosen.is_empty() && chosen.iter().all(|part| part != name) {
            continue;
        }
        println!("== {name}");
        let begun = Instant::now();
        let tally = match name {
            "native" => native_with(repo, seeds)?,
            "trace" => trace_with(repo, &[("TALLYMESH_TRACE", "full".to_owned())])?,
            "soak" => soak(repo, seeds)?,
            "explore" => proofs::explored(repo, &ExploreArgs { only: None })?,
            "hostile" => hostile(repo, seeds)?,
            "retries" => retries(repo)?,
            "faults" => faults(repo)?,
            "liars" => liars(repo)?,
            "endurance" => endurance(repo)?,
            "postgres" => postgres(repo)?,
            _ => interop(repo)?,
        };
        let took = begun.elapsed().as_secs();
        note(repo, &of, (name, seeds, took), &tally)?;
        total.join(tally);
    }
    println!("report: {REPORT}");
    if !mutants::are_tried(repo) {
        println!(
            "docs/reports/mutants.md is of earlier sources: `cargo xtask mutants` tries them anew"
        );
    }
    for failure in &total.failures {
        println!("{failure}\n");
    }
    println!("{total}");
    if total.failed > 0 {
        bail!("the long test run failed");
    }
    Ok(())
}

fn native_with(repo: &Repo, seeds: u64) -> Result<Tally> {
    let times = seeds.div_ceil(USUAL_SEEDS);
    let more = [
        ("TALLYMESH_TIMES", times.to_string()),
        ("TALLYMESH_KILLS", KILLS.to_string()),
    ];
    native::run(repo, &more)
}

fn soak(repo: &Repo, seeds: u64) -> Result<Tally> {
    let args = SoakArgs {
        seeds,
        long: seeds / 100,
        from: 0,
        visitors: seeds * 10,
        only: None,
    };
    proofs::soaked(repo, &args)
}

/// Changed bytes against decoders, merge and the sync machine, many more than in a usual run.
fn hostile(repo: &Repo, seeds: u64) -> Result<Tally> {
    let mut command = repo.cargo();
    command
        .args(["test", "--release", "--package", "tallymesh-tests"])
        .args(["--test", "hostile"])
        .env("TALLYMESH_SEEDS", (seeds * ATTACKS).to_string());
    tests(repo, "hostile bytes", Runner::Rust, &mut command)
}

/// The program of a node, built.
fn built_node(repo: &Repo) -> Result<PathBuf> {
    pass_on::build(repo, "tallymesh-node", &["--bins"])?;
    Ok(repo.node_binary())
}

/// Clients that repeat requests through a proxy that loses and repeats, with many more operations than in a
/// usual run.
fn retries(repo: &Repo) -> Result<Tally> {
    let mut command = repo.cargo();
    command
        .args(["test", "--release", "--package", "tallymesh-tests"])
        .args(["--test", "retries"])
        .env("TALLYMESH_BIN", built_node(repo)?)
        .env("TALLYMESH_OPS", OPERATIONS.to_string());
    tests(repo, "retries", Runner::Rust, &mut command)
}

/// All faults of nodes, with five of them under load, for longer than in a usual run. Writes the report if
/// the nodes passed.
fn faults(repo: &Repo) -> Result<Tally> {
    let table = repo.path("target/faults-table.md");
    // The result of an earlier run must not be read as this one's.
    if table.exists() {
        fs::remove_file(&table)?;
    }
    let seconds = match std::env::var(FAULTS) {
        Ok(seconds) => seconds.parse()?,
        Err(_) => FAULTS_SECONDS,
    };
    let mut command = repo.cargo();
    command
        .args(["test", "--release", "--package", "tallymesh-tests"])
        .args(["--test", "faults"])
        .env("TALLYMESH_BIN", built_node(repo)?)
        .env(FAULTS, seconds.to_string())
        .env("TALLYMESH_FAULTS_TABLE", &table);
    let limit = Duration::from_secs(seconds) + FAULTS_MORE;
    let tally = tests_within(repo, "faults", Runner::Rust, limit, &mut command)?;
    if let Ok(rows) = fs::read_to_string(&table) {
        fs::create_dir_all(repo.path("docs/reports"))?;
        fs::write(repo.path(FAULTS_REPORT), faults_report(repo, &rows)?)?;
        println!("report: {FAULTS_REPORT}");
    }
    Ok(tally)
}

fn faults_report(repo: &Repo, rows: &str) -> Result<String> {
    let title = "Everything that may befall five nodes";
    let command = "cargo xtask test --long --part faults";
    let mut text = proofs::head(repo, title, command)?;
    writeln!(
        text,
        "The test is [tests/tests/faults](../../tests/tests/faults/main.rs). Five nodes, each a \
         process with the default durability, are members of one space. What goes from one to \
         another passes a port of the test's own, and there is no other way. Clients over HTTP and \
         Redis clients, half of them at level quorum, ask again under idempotency keys through \
         proxies that drop, delay and repeat; guests sync over WebSocket, and go from node to node. \
         Others spend of a budget, on lease too, take seats under a cap, draw numbers and ask a limit. \
         Each operation has a number, and a digit of a counter's own. In the end all is healed: each \
         node must count each operation that was acknowledged exactly once, and each other one at \
         most once. No number may be drawn twice, a budget must be what was minted less what counts as \
         spent, and all leases must have come back. The clocks of the nodes are set so that midnight \
         falls into the run.\n\n{rows}"
    )?;
    Ok(text)
}

/// A peer that lies to real nodes at all their listeners. Writes its report if the nodes passed.
fn liars(repo: &Repo) -> Result<Tally> {
    let mut command = repo.cargo();
    command
        .args(["test", "--release", "--package", "tallymesh-node"])
        .args(["--test", "suite", "hostile::", "--", "--ignored"])
        .arg("--test-threads=1")
        .env("TALLYMESH_HOSTILE_REPORT", repo.path(LIARS_REPORT));
    tests(repo, "liars", Runner::Rust, &mut command)
}

/// Idle connections, silence, and endless tickets and proofs, at two nodes whose honest clients must not
/// notice this. Puts the figures into the report on hostile peers, even if they break its promises.
fn endurance(repo: &Repo) -> Result<Tally> {
    let table = repo.path("target/endurance-table.md");
    // The result of an earlier run must not be read as this one's.
    if table.exists() {
        fs::remove_file(&table)?;
    }
    let seconds = std::env::var(ENDURANCE).unwrap_or_else(|_| ENDURANCE_SECONDS.to_string());
    let mut command = repo.cargo();
    command
        .args(["test", "--release", "--package", "tallymesh-node"])
        .args(["--test", "suite", "endurance::", "--", "--ignored"])
        .arg("--test-threads=1")
        .env(ENDURANCE, seconds)
        .env("TALLYMESH_ENDURANCE_TABLE", &table);
    let tally = tests(repo, "endurance", Runner::Rust, &mut command)?;
    if let Ok(rows) = fs::read_to_string(&table) {
        let made = tallymesh_reports::made_by("cargo xtask test --long --part endurance", true);
        let report = repo.path(LIARS_REPORT);
        tallymesh_reports::put(&report, "endurance", &format!("{made}\n\n{rows}"))?;
        println!("report: {LIARS_REPORT}");
    }
    Ok(tally)
}

/// Replicas in all runtimes, compared with one oracle, for longer than in a usual run. Writes the report if
/// the replicas passed.
fn interop(repo: &Repo) -> Result<Tally> {
    let table = repo.path("target/interop-table.md");
    // The result of an earlier run must not be read as this one's.
    if table.exists() {
        fs::remove_file(&table)?;
    }
    let environment = [
        ("TALLYMESH_STEPS", STEPS.to_string()),
        ("TALLYMESH_INTEROP_TABLE", table.display().to_string()),
    ];
    let tally = interop_with(repo, &environment)?;
    if let Ok(rows) = fs::read_to_string(&table) {
        fs::create_dir_all(repo.path("docs/reports"))?;
        fs::write(repo.path(INTEROP_REPORT), interop_report(repo, &rows)?)?;
        println!("report: {INTEROP_REPORT}");
    }
    Ok(tally)
}

fn interop_report(repo: &Repo, rows: &str) -> Result<String> {
    let title = "All runtimes in one mesh, beside one oracle";
    let command = "cargo xtask test --long --part interop";
    let mut text = proofs::head(repo, title, command)?;
    writeln!(
        text,
        "The test is [tests/tests/interop](../../tests/tests/interop/main.rs); what it asks of each \
         runtime is in [tests/runtimes/interop](../../tests/runtimes/interop/README.md). Three native \
         nodes gossip with each other; the others have the packed package, and sync over WebSocket, \
         the one in workerd over single requests. Each of {STEPS} steps is a transaction or a read \
         somewhere, a cut, a heal, or a process, page or worker that is started again. The oracle has all operations, and \
         knows by its version vector which of them a replica sees: each state that a replica tells is \
         compared with that, by each way to read, and so are its bytes, read by the core on this \
         machine; who sees the same has the same bytes. A cut of a replica is one of its link, of a node \
         one of all its links.\n\n{rows}"
    )?;
    Ok(text)
}

/// Compares budgets of nodes with the ways to store one in PostgreSQL, for a short time. No count may be off
/// by one. The figures of such a short run are not published.
fn postgres(repo: &Repo) -> Result<Tally> {
    let args = ["postgres", "--quick", "--rounds", "1"].map(OsString::from);
    let mut command = pass_on::program(repo, &args)?;
    let done = capture(repo, "bench postgres", POSTGRES_LIMIT, &mut command)?;
    Ok(proofs::counted("postgres", &done))
}

/// Writes the row of a part into the report: its result and its commit.
fn note(
    repo: &Repo,
    (commit, day): &(String, String),
    (name, seeds, seconds): (&str, u64, u64),
    tally: &Tally,
) -> Result<()> {
    let path = repo.path(REPORT);
    let before = fs::read_to_string(&path).unwrap_or_default();
    let result = match tally.failed {
        0 => "passed",
        _ => "FAILED",
    };
    let figures = tally.to_string().replace('|', "/");
    let row = format!("| {name} | {commit} | {day} | {seeds} | {seconds} | {result} | {figures} |");
    fs::create_dir_all(repo.path("docs/reports"))?;
    fs::write(path, report(repo, &before, name, row)?)?;
    Ok(())
}

/// The report, with this row in place of the part's earlier one.
fn report(repo: &Repo, before: &str, name: &str, row: String) -> Result<String> {
    let mut text = String::new();
    writeln!(
        text,
        "# The longer tests\n\nWritten by `cargo xtask test --long`, or by `--long --part NAME` row by \
         row; each row says of which commit it is. The machine of the last one: {}.\n",
        proofs::machine(repo)
    )?;
    writeln!(
        text,
        "| part | commit | date | seeds | seconds | result | figures |"
    )?;
    writeln!(text, "|---|---|---|---:|---:|---|---|")?;
    for part in PARTS {
        let is_of = |line: &&str| line.starts_with(&format!("| {part} |"));
        let kept = || before.lines().find(is_of).map(str::to_owned);
        let row = match part == name {
            true => Some(row.clone()),
            false => kept(),
        };
        if let Some(row) = row {
            writeln!(text, "{row}")?;
        }
    }
    Ok(text)
}

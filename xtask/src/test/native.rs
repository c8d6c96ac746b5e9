//! The native tests: what is compiled how, and what runs beside what.
//!
//! The tests of whole parts run the code that is released: scenarios, laws, and nodes. The unit tests would compile
//! each crate a second time. So they have the quick profile, which compiles the crates and their tests in a third of
//! that time.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};

use super::stages::{TEST_THREADS, tests};
use super::summary::{Runner, Tally};
use crate::repo::Repo;
use crate::run::step;

/// The packages with native tests: all except the wasm package, the benchmarks with their large peers, and
/// xtask with its part.
pub(super) const PACKAGES: [&str; 9] = [
    "--workspace",
    "--exclude",
    "tallymesh-wasm",
    "--exclude",
    "tallymesh-bench",
    "--exclude",
    "xtask",
    "--exclude",
    "tallymesh-reports",
];

/// Our packages with tests, and how far they are optimised: as far as tests take longer without it.
const OPTIMISED: [(&str, u8); 14] = [
    ("tallymesh-core", 1),
    ("tallymesh-tests", 1),
    ("tallymesh-state-alone", 1),
    ("tallymesh-demo-members", 1),
    ("tallymesh-node", 0),
    ("tallymesh-node-ground", 0),
    ("tallymesh-node-store", 0),
    ("tallymesh-node-engine", 0),
    ("tallymesh-node-config", 0),
    ("tallymesh-node-gossip", 0),
    ("tallymesh-node-http", 0),
    ("tallymesh-node-resp", 0),
    ("tallymesh-node-server", 0),
    ("tallymesh-node-cli", 0),
];

/// Cargo with the profile of unit tests and of runs after a change. It is the release profile, so that the packages of others are those of
/// the whole run. Ours are compiled in parts, of which only the changed ones are compiled again.
pub(super) fn quick(repo: &Repo, verb: &str) -> Command {
    let mut cargo = repo.cargo();
    cargo.args([verb, "--release", "--config"]);
    cargo.arg("profile.release.incremental=true");
    for (package, level) in OPTIMISED {
        for setting in [format!("opt-level={level}"), "codegen-units=64".to_owned()] {
            let place = format!("profile.release.package.{package}.{setting}");
            cargo.arg("--config").arg(place);
        }
    }
    cargo
}

/// Test files that start processes and wait for them most of the time.
const WAITING: [&str; 3] = ["faults", "retries", "suite"];
/// Test files with a stage of their own, and a part of others that is no test.
const APART: [&str; 3] = ["common", "interop", "trace"];
/// Test files outside tests/tests.
const ELSEWHERE: [&str; 3] = ["json", "laws", "suite"];

/// Builds the `tallymesh` binary, and all but the unit tests. It is one command, so that no dependency is compiled
/// twice.
pub(super) fn build(repo: &Repo) -> Result<()> {
    step(
        repo,
        "native build",
        repo.cargo()
            .args(["build", "--release", "--bins", "--lib", "--test", "*"])
            .args(PACKAGES),
    )
}

/// Runs the native tests, with more environment variables.
pub(super) fn run(repo: &Repo, environment: &[(&str, String)]) -> Result<Tally> {
    build(repo)?;
    let run = |label: &str, mut command: Command| {
        command
            .args(PACKAGES)
            .arg("--no-fail-fast")
            .env("TALLYMESH_BIN", repo.node_binary())
            .env("RUST_TEST_THREADS", TEST_THREADS)
            .envs(environment.iter().map(|(name, value)| (name, value)));
        tests(repo, label, Runner::Rust, &mut command)
    };
    let released = |kinds: &[&str]| {
        let mut command = repo.cargo();
        command.args(["test", "--release"]).args(kinds);
        command
    };
    let of = |names: &BTreeSet<String>| {
        let names = names.iter().flat_map(|name| ["--test", name]);
        released(&names.collect::<Vec<_>>())
    };
    let mut computing = crossing(repo)?;
    computing.extend(ELSEWHERE.map(str::to_owned));
    computing.retain(|name| !WAITING.contains(&name.as_str()) && !APART.contains(&name.as_str()));
    let mut units = quick(repo, "test");
    units.args(["--lib", "--bins"]);

    let mut tally = run("unit tests", units)?;
    tally.join(run("scenarios and laws", of(&computing))?);
    tally.join(run("doc tests", released(&["--doc"]))?);
    let waiting = thread::scope(|scope| {
        let run = &run;
        let waiting = WAITING.map(|name| {
            let command = released(&["--test", name]);
            scope.spawn(move || run(name, command))
        });
        waiting.map(|it| it.join().expect("a run that ends"))
    });
    for waited in waiting {
        tally.join(waited?);
    }
    Ok(tally)
}

/// The names of all test files in tests/tests.
pub(super) fn crossing(repo: &Repo) -> Result<BTreeSet<String>> {
    let folder = repo.path("tests/tests");
    let entries = fs::read_dir(&folder).context("cannot list tests/tests")?;
    let mut names = BTreeSet::new();
    for entry in entries {
        // `rights` is a file and the folder of its modules; the others have one of the two.
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.insert(name.trim_end_matches(".rs").to_owned());
    }
    Ok(names)
}

//! The tests of core, one by one: how long each takes, and which mutants it reaches.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::build::Planted;
use super::scratch::Scratch;
use crate::repo::Repo;
use crate::run::{self, Captured, capture, say};

const LIMIT: Duration = Duration::from_secs(60 * 60);
/// Largest address space of a test process, in kilobytes.
const MEMORY: u64 = 8 << 20;

/// Number of seeds that the tests with random histories play against each mutant. A mutant that survives them
/// gets [`MORE`] times as many.
const SEEDS: [(&str, u64); 12] = [
    ("beginnings", 40),
    ("clones", 40),
    ("closed", 60),
    ("convergence", 20),
    ("hostile", 300),
    ("levels", 20),
    ("meaning", 200),
    ("mesh", 4),
    ("profile", 40),
    ("readers", 40),
    ("stores", 150),
    ("votes", 20),
];
/// Tests that take a minute or more, which is too long for each of a thousand mutants. Also one that starts
/// processes, which use the real time.
const LONG: [&str; 9] = [
    "draws",
    "explore",
    "maelstrom",
    "majority",
    "partitions",
    "periods",
    "retirement",
    "spending",
    "visitors",
];
/// Tests without any of the copy's core: one compares files, the others run nodes or the package. And the trace,
/// which finds any change, also one that is not wrong.
const OTHERS: [&str; 5] = ["faults", "interop", "proofs", "retries", "trace"];
pub(super) const MORE: u64 = 30;

/// All tests, the fastest first.
#[derive(Debug)]
pub(super) struct Tests {
    pub(super) all: Vec<Test>,
}

/// One test.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Test {
    pub(super) binary: PathBuf,
    /// The binary's name without cargo's suffix.
    pub(super) target: String,
    pub(super) name: String,
    pub(super) time: Duration,
    /// The mutants that it reaches.
    pub(super) seen: BTreeSet<u32>,
}

impl Test {
    /// Number of seeds that it plays, if it plays any.
    pub(super) fn seeds(&self) -> Option<u64> {
        seeds_of(&self.target)
    }

    /// Its name for people.
    pub(super) fn title(&self) -> String {
        format!("{}: {}", self.target, self.name)
    }
}

impl Tests {
    /// Builds the tests on the copy, and runs each of them once, unless this was done before.
    pub(super) fn find(repo: &Repo, planted: &Planted) -> Result<Tests> {
        let mut all = Vec::new();
        for (target, binary) in build(repo, &planted.scratch)? {
            if LONG.iter().chain(&OTHERS).any(|it| *it == target) {
                continue;
            }
            let digest = Sha256::digest(fs::read(&binary)?);
            let digest: String = digest.iter().take(8).map(|b| format!("{b:02x}")).collect();
            let seeds = seeds_of(&target).unwrap_or(0);
            let name = format!("mutants/seen-{target}-{seeds}-{digest}.json");
            let cache = repo.target().join(name);
            if let Ok(text) = fs::read_to_string(&cache) {
                all.extend(serde_json::from_str::<Vec<Test>>(&text)?);
                continue;
            }
            let mut tests = Vec::new();
            for name in names(&planted.scratch, &binary)? {
                tests.push(once(repo, &planted.scratch, &target, &binary, name)?);
            }
            fs::write(&cache, serde_json::to_string(&tests)?)?;
            all.extend(tests);
        }
        all.sort_by_key(|test| test.time);
        let total: Duration = all.iter().map(|test| test.time).sum();
        say(&format!(
            "{} tests take {:.0} s",
            all.len(),
            total.as_secs_f32()
        ));
        Ok(Tests { all })
    }
}

fn seeds_of(target: &str) -> Option<u64> {
    let found = SEEDS.iter().find(|(of, _)| *of == target);
    found.map(|(_, seeds)| *seeds)
}

/// Runs one test without a mutant.
fn once(repo: &Repo, scratch: &Scratch, target: &str, binary: &Path, name: String) -> Result<Test> {
    run::go_on()?;
    let seen = repo.target().join("mutants").join("seen");
    let _ = fs::remove_file(&seen);
    let mut command = runner(scratch, binary, &[&name]);
    command.env("TALLYMESH_MUTANTS_SEEN", &seen);
    if let Some(seeds) = seeds_of(target) {
        command.env("TALLYMESH_SEEDS", seeds.to_string());
    }
    let begun = Instant::now();
    let done = capture(repo, "mutants-seen", LIMIT, &mut command)?;
    let time = begun.elapsed();
    if !done.success {
        bail!("{target}: {name} fails without a mutant:\n{}", done.tail());
    }
    let ids = fs::read_to_string(&seen).unwrap_or_default();
    Ok(Test {
        binary: binary.to_owned(),
        target: target.to_owned(),
        name,
        time,
        seen: ids.lines().filter_map(|line| line.parse().ok()).collect(),
    })
}

/// The test binaries of the copy, with their names.
pub(super) fn build(repo: &Repo, scratch: &Scratch) -> Result<Vec<(String, PathBuf)>> {
    let mut command = scratch.cargo(repo, "test");
    command.args(["--no-run", "--workspace", "--lib", "--test", "*"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    let Captured { success, text, log } = capture(repo, "mutants-build", LIMIT, &mut command)?;
    if !success {
        bail!("the tests do not compile; see {}", log.display());
    }
    let mut found = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let json: serde_json::Value = serde_json::from_str(line)?;
        if let (Some(binary), true) = (json["executable"].as_str(), json["profile"]["test"] == true)
        {
            let name = json["target"]["name"]
                .as_str()
                .context("a target has a name")?;
            found.push((name.to_owned(), PathBuf::from(binary)));
        }
    }
    Ok(found)
}

/// The names of the tests in a binary.
pub(super) fn names(scratch: &Scratch, binary: &Path) -> Result<Vec<String>> {
    let mut command = Command::new(binary);
    command.current_dir(scratch.root.join("tests"));
    let output = command.args(["--list", "--format", "terse"]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(names.map(str::to_owned).collect())
}

/// A command for some tests of a binary, with low priority on the machine.
pub(super) fn runner(scratch: &Scratch, binary: &Path, names: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit -v {MEMORY}; exec nice -n 19 \"$0\" \"$@\"");
    command.args(["-c", &script]);
    command.arg(binary).arg("--exact").args(names);
    command.current_dir(scratch.root.join("tests"));
    command.env("RUST_BACKTRACE", "0");
    command
}

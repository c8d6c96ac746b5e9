//! The tests of core, one by one: how long each takes, and which mutants it comes by.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::build::Planted;
use super::scratch::Scratch;
use crate::repo::Repo;
use crate::run::{self, Captured, capture, say};

const LIMIT: Duration = Duration::from_secs(60 * 60);
/// What a test process may take of the address space, in kilobytes.
const MEMORY: u64 = 8 << 20;

/// How many seeds the tests with random histories play against each mutant; whoever survives that
/// meets [`MORE`] times as many.
const SEEDS: [(&str, u64); 8] = [
    ("clones", 100),
    ("closed", 200),
    ("convergence", 40),
    ("hostile", 1_000),
    ("meaning", 1_000),
    ("mesh", 6),
    ("profile", 60),
    ("votes", 60),
];
/// Tests that take a minute and more, which is too long for each of a thousand mutants.
const LONG: [&str; 3] = ["explore", "retirement", "visitors"];
pub(super) const MORE: u64 = 10;

/// All tests, the fastest first.
#[derive(Debug)]
pub(super) struct Tests {
    pub(super) all: Vec<Test>,
}

/// One test.
#[derive(Debug)]
pub(super) struct Test {
    pub(super) binary: PathBuf,
    /// The binary's name without cargo's suffix.
    pub(super) target: String,
    pub(super) name: String,
    pub(super) time: Duration,
    /// The mutants that it comes by.
    pub(super) seen: BTreeSet<u32>,
}

impl Test {
    /// How many seeds it plays, if it plays any.
    pub(super) fn seeds(&self) -> Option<u64> {
        let found = SEEDS.iter().find(|(target, _)| *target == self.target);
        found.map(|(_, seeds)| *seeds)
    }

    /// How people call it.
    pub(super) fn title(&self) -> String {
        format!("{}: {}", self.target, self.name)
    }
}

impl Tests {
    /// Builds the tests on the copy, and runs each of them once.
    pub(super) fn find(repo: &Repo, planted: &Planted) -> Result<Tests> {
        let mut all = Vec::new();
        let seen = repo.target().join("mutants").join("seen");
        for (target, binary) in build(repo, &planted.scratch)? {
            if LONG.contains(&target.as_str()) {
                continue;
            }
            for name in names(&planted.scratch, &binary)? {
                run::go_on()?;
                let _ = fs::remove_file(&seen);
                let mut command = runner(&planted.scratch, &binary, &[&name]);
                command.env("TALLYMESH_MUTANTS_SEEN", &seen);
                if let Some((_, seeds)) = SEEDS.iter().find(|(of, _)| *of == target) {
                    command.env("TALLYMESH_SEEDS", seeds.to_string());
                }
                let begun = Instant::now();
                let done = capture(repo, "mutants-seen", LIMIT, &mut command)?;
                let time = begun.elapsed();
                if !done.success {
                    bail!("{target}: {name} fails without a mutant:\n{}", done.tail());
                }
                let ids = fs::read_to_string(&seen).unwrap_or_default();
                let seen = ids.lines().filter_map(|line| line.parse().ok()).collect();
                let (binary, target) = (binary.clone(), target.clone());
                all.push(Test {
                    binary,
                    target,
                    name,
                    time,
                    seen,
                });
            }
        }
        all.sort_by_key(|test| test.time);
        let total: Duration = all.iter().map(|test| test.time).sum();
        for test in all.iter().rev().take(12) {
            say(&format!(
                "{:.1} s: {}",
                test.time.as_secs_f32(),
                test.title()
            ));
        }
        say(&format!(
            "{} tests take {:.0} s",
            all.len(),
            total.as_secs_f32()
        ));
        Ok(Tests { all })
    }
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

/// A command for some tests of a binary, with little claim to the machine.
pub(super) fn runner(scratch: &Scratch, binary: &Path, names: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit -v {MEMORY}; exec nice -n 19 \"$0\" \"$@\"");
    command.args(["-c", &script]);
    command.arg(binary).arg("--exact").args(names);
    command.current_dir(scratch.root.join("tests"));
    command.env("RUST_BACKTRACE", "0");
    command
}

//! The report: each lie, and what became of it.

use super::mesh::NODES;
use super::slow::Ended;
use super::{Fate, Seen};
use std::process::Command;

impl Fate {
    fn text(self) -> &'static str {
        match self {
            Fate::CutOff => "cut off",
            Fate::Refused => "refused",
            Fate::PassedOver => "passed over",
            Fate::Borne => "borne",
            Fate::Taken => "taken",
        }
    }
}

/// The part of the table that is about lies, for people and for the report.
pub(super) fn lies(seen: &[Seen]) -> String {
    let mut text = String::new();
    let mut row = |line: String| text += &(line + "\n");
    row("| lie | door | by | figures of the attacked node | so it is | MiB before | most | after | may grow by | writes | all agree after |".into());
    row("|---|---|---|---|---|---:|---:|---:|---:|---:|---:|".into());
    for it in seen {
        let told: Vec<String> = it.told.iter().map(|(name, by)| figure(name, *by)).collect();
        let told = match told.is_empty() {
            true => "none".to_owned(),
            false => told.join(", "),
        };
        let mib = |kib: u64| format!("{:.0}", kib as f64 / 1024.0);
        let memory = match it.memory {
            Some((before, after)) => [before, after.most, after.now].map(mib).join(" | "),
            None => "not told | not told | not told".to_owned(),
        };
        row(format!(
            "| {} | {} | {} | {told} | {} | {memory} | {} | {} | {:.2} s |",
            it.row.lie,
            it.row.door,
            it.row.by,
            it.row.fate.text(),
            it.row.grows_mib,
            it.writes,
            it.agreed.as_secs_f64(),
        ));
    }
    text
}

/// A figure by what it is about: `refusals sync malformed +2`.
fn figure(name: &str, by: f64) -> String {
    let words = name.replace("tallymesh_", "").replace("_total", "");
    let words = words.replace(['{', '}', ','], " ");
    let words: Vec<&str> = words
        .split_whitespace()
        .map(|word| {
            word.split_once('=')
                .map_or(word, |(_, value)| value.trim_matches('"'))
        })
        .collect();
    format!("{} {by:+}", words.join(" "))
}

/// The part that is about those who take their time, and what the tests found.
pub(super) fn slow(ended: &[Ended], writes: usize) -> String {
    let mut text = format!(
        "\n## Those who take their time\nAll at once, beside {writes} writes that all nodes came to show.\n\n\
         | lie | door | by | cut off after |\n|---|---|---|---:|\n"
    );
    for it in ended {
        let seconds = it.after.as_secs();
        text += &format!("| {} | {} | {} | {seconds} s |\n", it.lie, it.door, it.by);
    }
    text + "\n" + include_str!("found.md")
}

/// The end of the report, which other tests and people wrote.
const OTHERS: &str = "\n## Beside everything that costs nothing\n";

/// Splits a report into the part of these tests and that of others.
pub(super) fn parts(report: &str) -> (&str, &str) {
    report.split_at(report.find(OTHERS).unwrap_or(report.len()))
}

/// The head of a report: what was run, of which commit, when, and on what.
pub(super) fn head() -> String {
    let ask = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        let text = output.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned());
        text.unwrap_or_default()
    };
    let dirty = match ask("git", &["status", "--porcelain"]).is_empty() {
        true => "",
        false => ", with changes that were not committed",
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    format!(
        "# A peer that lies, at the doors of a real node\n\n\
         Written by the tests of [node/tests/suite/hostile.rs](../../node/tests/suite/hostile.rs):\n\n\
         ```\n\
         TALLYMESH_HOSTILE_REPORT=docs/reports/hostile.md cargo test --release -p tallymesh-node --test suite hostile -- --test-threads=1\n\
         ```\n\n\
         - commit: {}{dirty}\n\
         - date: {}\n\
         - machine: {cores} cores, {system} {machine}, {}\n\n\
         {} nodes, each a process with a folder and the default durability, are members of one \
         space, and a client at each writes all the time.\n",
        ask("git", &["rev-parse", "HEAD"]),
        ask("date", &["-u", "+%Y-%m-%d"]),
        ask("rustc", &["--version"]),
        NODES,
    )
}

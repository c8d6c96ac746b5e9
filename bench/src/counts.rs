//! Instructions of the core's operations, counted by callgrind, which is a part of valgrind.
//!
//! A count is the same in every run on one machine, so a change of one percent shows. `cargo xtask` builds the
//! program that is counted (`src/bin/core_counts.rs`), on demand with the core of another revision too.

use crate::measure::{Report, Target};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An operation may take this much more than at the other revision: two percent.
const MORE: f64 = 1.02;

/// Each row of the program, what one operation of it is, and how many are counted.
const ROWS: [(&str, &str, u64); 11] = [
    ("add", "an add by key", 20_000),
    ("add_at", "an add by id", 20_000),
    ("merge", "a merge of 2,000 counters that are there", 200),
    ("merge_new", "a merge of 2,000 counters into nothing", 50),
    ("delta", "a whole state of 2,000 counters, encoded", 50),
    ("decode", "a decoding of 2,000 counters", 100),
    ("since", "an add and the record of it", 5_000),
    ("transact", "a transaction of two adds", 5_000),
    ("reset", "a reset and an add", 3_000),
    ("value", "a read by key", 20_000),
    (
        "members",
        "an add and an acknowledgement by a member",
        2_000,
    ),
];

/// The programs that are counted.
pub(crate) struct Programs {
    /// With the present core.
    pub(crate) now: PathBuf,
    /// With the core of the revision that `--base` names.
    pub(crate) base: Option<PathBuf>,
}

/// Counts each row, beside the other revision if there is one.
pub(crate) fn run(report: &mut Report, programs: &Programs) -> Result<()> {
    for (row, title, times) in ROWS {
        let mut figures = vec![("now", each(&programs.now, row, times)?)];
        if let Some(program) = &programs.base {
            figures.push(("base", each(program, row, times)?));
        }
        report.table(
            title,
            "instructions",
            &Target::Times(MORE, "base"),
            &figures,
        );
    }
    Ok(())
}

/// Whether there is a valgrind on the path.
pub(crate) fn can_count() -> bool {
    let version = Command::new("valgrind").arg("--version").output();
    version.is_ok_and(|it| it.status.success())
}

/// The instructions of one operation.
fn each(program: &Path, row: &str, times: u64) -> Result<f64> {
    let all = count(program, row, times)?;
    let none = count(program, row, 0)?;
    Ok(all.saturating_sub(none) as f64 / times as f64)
}

fn count(program: &Path, row: &str, times: u64) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(program).args([row, &times.to_string()]);
    let doing = || format!("counting `{row}` of {}", program.display());
    let done = command.output().with_context(doing)?;
    let said = String::from_utf8_lossy(&done.stderr);
    match collected(&said).filter(|_| done.status.success()) {
        Some(count) => Ok(count),
        None => bail!("{}: {}", doing(), said.trim()),
    }
}

/// The instructions that callgrind names at its end.
fn collected(said: &str) -> Option<u64> {
    let (_, count) = said.split_once("Collected : ")?;
    count.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_what_callgrind_prints() {
        let said = "==7== Events    : Ir\n==7== Collected : 4530777\n==7== \n";
        assert_eq!(collected(said), Some(4_530_777));
        assert_eq!(collected("valgrind: no program\n"), None);
    }
}

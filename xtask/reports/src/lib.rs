//! The figures in a report of docs/reports. Each section is a block of its own, so that it can be measured
//! again, and the text around it stays. xtask and the benchmarks write their figures with it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// Replaces the block of a section in a file. A missing block is added at the end.
///
/// # Errors
/// If the file cannot be read or written.
pub fn put(file: &Path, name: &str, text: &str) -> Result<()> {
    let doing = || format!("the report {}", file.display());
    let old = match file.exists() {
        true => fs::read_to_string(file).with_context(doing)?,
        false => String::new(),
    };
    fs::write(file, with_block(&old, name, text.trim_end())).with_context(doing)
}

/// The command, the commit and, if that matters, the machine. Figures have no meaning without them.
pub fn made_by(command: &str, machine: bool) -> String {
    let mut git = Command::new("git");
    git.args([
        "describe",
        "--always",
        "--abbrev=12",
        "--exclude=*",
        "--dirty",
    ]);
    let commit = git.output().ok().filter(|output| output.status.success());
    let commit = commit.and_then(|output| String::from_utf8(output.stdout).ok());
    let commit = commit.map_or_else(|| "unknown".to_owned(), |it| it.trim().to_owned());
    let read = |path: &str| fs::read_to_string(Path::new(path)).unwrap_or_default();
    let made = format!("Measured by `{command}` at commit {commit}");
    if !machine {
        return format!("{made}.");
    }
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim())
    });
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let load = read("/proc/loadavg");
    format!(
        "{made} on {cores} cores of {}, with a load of {} at the start.",
        model.unwrap_or("an unknown processor"),
        load.split_whitespace().next().unwrap_or("an unknown size"),
    )
}

/// `old` with the text in the block of this name. A missing block is added at the end.
fn with_block(old: &str, name: &str, text: &str) -> String {
    let (begin, end) = (
        format!("<!-- measured: {name} -->\n"),
        format!("<!-- end of {name} -->\n"),
    );
    let place = old.find(&begin).and_then(|from| {
        let to = from + old[from..].find(&end)? + end.len();
        Some((&old[..from], &old[to..]))
    });
    let (before, after) = place.unwrap_or((old, ""));
    let gap = match place.is_none() && !old.is_empty() {
        true => "\n",
        false => "",
    };
    format!("{before}{gap}{begin}{text}\n{end}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_added_once_and_replaced_later() {
        let first = with_block("# Title\n", "speed", "1");
        let both = with_block(&first, "memory", "2") + "\nWhat it means.\n";
        let again = with_block(&both, "speed", "3");
        assert_eq!(
            again,
            "# Title\n\n<!-- measured: speed -->\n3\n<!-- end of speed -->\n\n\
             <!-- measured: memory -->\n2\n<!-- end of memory -->\n\nWhat it means.\n"
        );
    }
}

//! Adds, the same in every run, and their expected sums.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Seek, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::Counters;
use crate::run::{Group, go_on};

const KEYS: u64 = 1_000;
const FEED_LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(10);

/// One add.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) key: String,
    pub(super) by: i64,
}

/// Makes adds, and computes their exact sums.
#[derive(Debug)]
pub(super) struct Load {
    random: fastrand::Rng,
    expected: Counters,
}

impl Load {
    /// A load from a fixed seed.
    pub(super) fn new() -> Load {
        Load {
            random: fastrand::Rng::with_seed(0x7a11_6e50_0000_0001),
            expected: Counters::new(),
        }
    }

    /// The next adds: mostly small, some negative, and a few beyond the range of a double.
    pub(super) fn lines(&mut self, count: usize) -> Vec<Line> {
        (0..count)
            .map(|_| {
                let key = format!("check:{:04}", self.random.u64(..KEYS));
                let by = match self.random.u32(..100) {
                    0 => (1 << 53) + 1,
                    1..=9 => -self.random.i64(0..1_000),
                    _ => self.random.i64(1..=10),
                };
                *self.expected.entry(key.clone()).or_default() += i128::from(by);
                Line { key, by }
            })
            .collect()
    }

    /// The expected value of every counter after all adds made so far.
    pub(super) fn expected(&self) -> &Counters {
        &self.expected
    }
}

/// A running `tallymesh add -`.
#[derive(Debug)]
pub(super) struct Feed {
    process: Group,
    output: File,
}

impl Feed {
    /// Starts to send lines to a node.
    pub(super) fn start(binary: &Path, node: &str, lines: &[Line]) -> Result<Feed> {
        let mut text = String::new();
        for line in lines {
            writeln!(text, "{} {}", line.key, line.by)?;
        }
        let mut input = tempfile::tempfile()?;
        input.write_all(text.as_bytes())?;
        input.rewind()?;
        let output = tempfile::tempfile()?;
        let process = Group::spawn(
            Command::new(binary)
                .args(["add", "-", "--node", node])
                .stdin(input)
                .stdout(Stdio::null())
                .stderr(output.try_clone()?),
        )?;
        Ok(Feed { process, output })
    }

    /// Waits until all lines are acknowledged.
    pub(super) fn finish(mut self) -> Result<()> {
        let deadline = Instant::now() + FEED_LIMIT;
        loop {
            go_on()?;
            if let Some(status) = self.process.try_wait()? {
                if status.success() {
                    return Ok(());
                }
                self.output.rewind()?;
                bail!(
                    "tallymesh add - failed ({status}): {}",
                    std::io::read_to_string(&self.output)?.trim()
                );
            }
            if Instant::now() > deadline {
                bail!(
                    "tallymesh add - was not done after {} s",
                    FEED_LIMIT.as_secs()
                );
            }
            thread::sleep(POLL);
        }
    }
}

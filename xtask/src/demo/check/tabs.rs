//! Two browser tabs, driven by a Node script.
//!
//! The script reads commands from its standard input, one JSON object a line. At the end of the input it
//! closes the browser and ends. It writes its answers to a file, a line each.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::Counters;
use super::load::Line;
use crate::repo::Repo;
use crate::run::{Group, go_on};
use crate::setup::Browser;

const TABS: usize = 2;
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);

/// Open tabs. Dropping them closes the browser.
#[derive(Debug)]
pub(super) struct Tabs {
    commands: Option<ChildStdin>,
    process: Group,
    answers: PathBuf,
    errors: PathBuf,
    answered: usize,
}

impl Tabs {
    /// Opens a tab on each of the pages, and waits until both are connected to their node.
    pub(super) fn open(
        repo: &Repo,
        browser: &Browser,
        pages: [&str; TABS],
        folder: &Path,
    ) -> Result<Tabs> {
        let answers = folder.join("tabs.out");
        let errors = folder.join("tabs.log");
        let mut command = Command::new("node");
        command
            .arg(repo.path("xtask/js/tabs.mjs"))
            .arg(&browser.chrome)
            .args(pages)
            .current_dir(repo.path("tests/e2e"))
            .stdin(Stdio::piped())
            .stdout(File::create(&answers)?)
            .stderr(File::create(&errors)?);
        let mut process = Group::spawn(&mut command)?;
        let mut tabs = Tabs {
            commands: process.take_stdin(),
            process,
            answers,
            errors,
            answered: 0,
        };
        tabs.answer().context("opening the tabs")?;
        Ok(tabs)
    }

    /// How many tabs there are.
    pub(super) fn count(&self) -> usize {
        TABS
    }

    /// Adds in a tab, one transaction a line.
    pub(super) fn add(&mut self, tab: usize, lines: &[Line]) -> Result<()> {
        let adds: Vec<_> = lines
            .iter()
            .map(|line| json!([line.key, line.by.to_string()]))
            .collect();
        self.ask(&json!({"do": "add", "tab": tab, "adds": adds}))
            .map(drop)
    }

    /// Switches a tab's network off or on. Returns once the tab is disconnected, or connected again.
    pub(super) fn cut(&mut self, tab: usize, cut: bool) -> Result<()> {
        self.ask(&json!({"do": "cut", "tab": tab, "cut": cut}))
            .map(drop)
    }

    /// All counters of a tab.
    pub(super) fn counters(&mut self, tab: usize) -> Result<Counters> {
        let answer = self.ask(&json!({"do": "counters", "tab": tab}))?;
        let pairs: Vec<(String, String)> =
            serde_json::from_value(answer).context("a tab's list of counters")?;
        pairs
            .into_iter()
            .map(|(key, value)| Ok((key, value.parse()?)))
            .collect()
    }

    fn ask(&mut self, command: &Value) -> Result<Value> {
        let input = self.commands.as_mut().context("the tabs are closed")?;
        writeln!(input, "{command}").context("the browser script has ended")?;
        input.flush()?;
        self.answer()
    }

    /// Waits for the next line of the script's output.
    fn answer(&mut self) -> Result<Value> {
        let deadline = Instant::now() + ANSWER_LIMIT;
        loop {
            go_on()?;
            let text = fs::read_to_string(&self.answers)?;
            // Only a line with its end is complete.
            if let Some(line) = text
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'))
                .nth(self.answered)
            {
                self.answered += 1;
                let answer: Value = serde_json::from_str(line)?;
                if let Some(error) = answer["error"].as_str() {
                    bail!("a tab: {error}");
                }
                return Ok(answer["ok"].clone());
            }
            let ended = self.process.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                bail!(
                    "the browser script {}:\n{}",
                    if ended.is_some() {
                        "ended"
                    } else {
                        "did not answer"
                    },
                    fs::read_to_string(&self.errors).unwrap_or_default().trim()
                );
            }
            thread::sleep(POLL);
        }
    }
}

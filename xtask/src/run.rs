//! Child processes: shown or captured, never left behind.
//!
//! Captured output goes to a file and not to a pipe: a grandchild that outlives its parent
//! and holds a pipe open would hang the run.

use std::fs::{self, File};
use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use crate::repo::Repo;

static STOPPED: AtomicBool = AtomicBool::new(false);

const POLL: Duration = Duration::from_millis(50);
/// Between two signs of life where there is no terminal to draw progress on.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// What a child gets to clean up after the polite signal.
const GRACE: Duration = Duration::from_secs(5);
const TAIL_LINES: usize = 60;
/// What a line has that names a failed test.
const FAILURE: [&str; 4] = [" FAILED", " panicked at ", "not ok ", "\u{2716} "];
/// How many lines are shown from each on.
const FAILURE_LINES: usize = 8;
/// After so many no others are shown.
const FAILURE_LINES_MAX: usize = 80;

/// Makes SIGINT, SIGTERM and SIGHUP end this run in order, with all its children.
pub(crate) fn stop_on_signals() -> Result<()> {
    ctrlc::set_handler(|| STOPPED.store(true, Ordering::SeqCst)).context("cannot handle signals")
}

/// Whether the user asked this run to end.
pub(crate) fn stopped() -> bool {
    STOPPED.load(Ordering::SeqCst)
}

/// Fails when the user asked this run to end.
pub(crate) fn go_on() -> Result<()> {
    if stopped() {
        bail!("interrupted");
    }
    Ok(())
}

/// A child with all that it starts; dropping it ends them.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    done: Option<ExitStatus>,
}

impl Group {
    /// Starts a command as the head of its own process group.
    pub(crate) fn spawn(command: &mut Command) -> Result<Group> {
        let child = command
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", line_of(command)))?;
        Ok(Group { child, done: None })
    }

    /// The exit status, once the head of the group has ended.
    pub(crate) fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        if self.done.is_none() {
            self.done = self.child.try_wait()?;
        }
        Ok(self.done)
    }

    /// The child's standard input, if it was piped and not taken before.
    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // Nobody left to receive it is what is wanted.
        let _ = rustix::process::kill_process_group(pid, signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.done.is_none() {
            self.signal(rustix::process::Signal::TERM);
            let deadline = Instant::now() + GRACE;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                thread::sleep(POLL);
            }
        }
        // Also after a normal end: what the head left behind must not outlive the run.
        self.signal(rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Runs a command on this terminal; fails unless it succeeds.
pub(crate) fn shown(command: &mut Command) -> Result<()> {
    go_on()?;
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {}", line_of(command)))?;
    loop {
        if let Some(status) = child.try_wait()? {
            go_on()?;
            if status.success() {
                return Ok(());
            }
            bail!("{} failed ({status})", line_of(command));
        }
        if stopped() {
            // On a terminal the child had the same Ctrl-C; elsewhere only we were told.
            let _ = child.kill();
            let _ = child.wait();
            bail!("interrupted");
        }
        thread::sleep(POLL);
    }
}

/// What a captured command left.
#[derive(Debug)]
pub(crate) struct Captured {
    /// Whether it ended with status 0.
    pub(crate) success: bool,
    /// All that it wrote to standard output and standard error, in order.
    pub(crate) text: String,
    /// The file that holds the text.
    pub(crate) log: PathBuf,
}

impl Captured {
    /// What is to be shown with an error: the lines that name a failure, each with what follows it,
    /// and the last ones.
    pub(crate) fn tail(&self) -> String {
        let lines: Vec<&str> = self.text.lines().collect();
        let end = lines.len().saturating_sub(TAIL_LINES);
        let mut shown = Vec::new();
        let mut from = 0;
        for (at, line) in lines[..end].iter().enumerate() {
            let names = FAILURE.iter().any(|sign| line.contains(sign));
            if names && shown.len() < FAILURE_LINES_MAX {
                from = from.max(at);
                let to = (at + FAILURE_LINES).min(end);
                shown.extend_from_slice(&lines[from..to.max(from)]);
                from = to;
            }
        }
        shown.extend_from_slice(&lines[end..]);
        shown.join("\n")
    }
}

/// Runs a command with its output in a log file named after `label`.
///
/// # Errors
/// When it cannot be started, runs longer than `limit`, or the user interrupts. A command that
/// fails is an `Ok` with `success: false`.
pub(crate) fn capture(
    repo: &Repo,
    label: &str,
    limit: Duration,
    command: &mut Command,
) -> Result<Captured> {
    go_on()?;
    let folder = repo.target().join("xtask-logs");
    fs::create_dir_all(&folder)?;
    let name: String = label
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let log = folder.join(format!("{name}.log"));
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    let mut group = Group::spawn(command)?;
    let progress = Progress::new(label);
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = group.try_wait()? {
            break status;
        }
        if begun.elapsed() > limit {
            bail!(
                "{label}: not done after {} s; its output is in {}",
                limit.as_secs(),
                log.display()
            );
        }
        go_on()?;
        progress.tick(&log);
        thread::sleep(POLL);
    };
    drop(group);
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    Ok(Captured {
        success: status.success(),
        text,
        log,
    })
}

/// Runs a step that is only of interest when it fails.
pub(crate) fn step(repo: &Repo, label: &str, command: &mut Command) -> Result<()> {
    const LIMIT: Duration = Duration::from_secs(30 * 60);
    let done = capture(repo, label, LIMIT, command)?;
    if !done.success {
        bail!(
            "{label}: {} failed\n{}\n(whole output: {})",
            line_of(command),
            done.tail(),
            done.log.display()
        );
    }
    Ok(())
}

/// Runs a short command and returns its standard output, trimmed; `None` if it fails.
pub(crate) fn ask(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Tells the user what is being done to the machine or the tree.
pub(crate) fn say(text: &str) {
    eprintln!("xtask: {text}");
}

/// The program and arguments, for messages.
fn line_of(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|part| part.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// A spinner on a terminal, a line a minute elsewhere.
struct Progress {
    label: String,
    bar: Option<ProgressBar>,
    begun: Instant,
    beats: std::cell::Cell<u32>,
}

impl Progress {
    fn new(label: &str) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) =
                ProgressStyle::with_template("{spinner} {elapsed:>4} {prefix}: {wide_msg}")
            {
                bar.set_style(style);
            }
            bar.set_prefix(label.to_owned());
            bar
        });
        Progress {
            label: label.to_owned(),
            bar,
            begun: Instant::now(),
            beats: std::cell::Cell::new(0),
        }
    }

    fn tick(&self, log: &Path) {
        if let Some(bar) = &self.bar {
            bar.set_message(last_line(log));
            bar.tick();
        } else if self.begun.elapsed() > HEARTBEAT * (self.beats.get() + 1) {
            self.beats.set(self.beats.get() + 1);
            say(&format!(
                "{}: {} s: {}",
                self.label,
                self.begun.elapsed().as_secs(),
                last_line(log)
            ));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn last_line(log: &Path) -> String {
    use std::io::{Read, Seek, SeekFrom};
    let mut end = String::new();
    if let Ok(mut file) = File::open(log) {
        let length = file.metadata().map_or(0, |m| m.len());
        let _ = file.seek(SeekFrom::Start(length.saturating_sub(400)));
        let mut bytes = Vec::new();
        let _ = file.read_to_end(&mut bytes);
        end = String::from_utf8_lossy(&bytes).into_owned();
    }
    end.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("")
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_shown_and_the_end() {
        let mut lines: Vec<String> = (0..300).map(|it| format!("line {it}")).collect();
        lines[50] = "test one ... FAILED".into();
        lines[53] = "thread 'one' panicked at one.rs:1".into();
        lines[299] = "test two ... FAILED".into();
        let done = Captured {
            success: false,
            text: lines.join("\n"),
            log: PathBuf::new(),
        };
        let mut expected = lines[50..61].to_vec();
        expected.extend_from_slice(&lines[240..]);
        assert_eq!(done.tail(), expected.join("\n"));
    }
}

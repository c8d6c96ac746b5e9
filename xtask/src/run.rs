//! Child processes: shown or captured, and never left behind.
//!
//! Captured output goes to a file and not to a pipe. A grandchild that outlives its parent and keeps a pipe
//! open would block the run.

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
/// Time between two lines of progress without a terminal.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// The time that a child has to clean up after the first signal.
const GRACE: Duration = Duration::from_secs(5);
const TAIL_LINES: usize = 60;
/// Parts of a line that names a failed test.
const FAILURE: [&str; 4] = [" FAILED", " panicked at ", "not ok ", "\u{2716} "];
/// Number of lines that are shown from each such line on.
const FAILURE_LINES: usize = 8;
/// Most lines of failures that are shown.
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

/// A child with all processes that it starts. Dropping it ends them.
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

    /// The exit status, or `None` while the head of the group runs.
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
        // It is fine if no process is left to receive the signal.
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
        // This also runs after a normal end, because processes of the group must not outlive the run.
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
            // On a terminal the child received the same Ctrl-C. Otherwise only this process received the
            // signal.
            let _ = child.kill();
            let _ = child.wait();
            bail!("interrupted");
        }
        thread::sleep(POLL);
    }
}

/// The result of a captured command.
#[derive(Debug)]
pub(crate) struct Captured {
    /// Whether it ended with status 0.
    pub(crate) success: bool,
    /// Its whole standard output and standard error, in order.
    pub(crate) text: String,
    /// The file with the text.
    pub(crate) log: PathBuf,
}

impl Captured {
    /// The part of the output to show with an error: each line that names a failure with the lines after it,
    /// and the last lines.
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
/// If it cannot be started, runs longer than `limit`, or the user interrupts. A command that fails is an `Ok`
/// with `success: false`.
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

/// Runs a step whose output is shown only when it fails.
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

/// Reports a change of the machine or the tree to the user.
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

/// A spinner on a terminal. Otherwise a line a minute.
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

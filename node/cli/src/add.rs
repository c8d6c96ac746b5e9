//! `tallymesh add`: one add, or many from standard input.

use super::asking::WriteArgs;
use super::client::Client;
use super::failure::Failure;
use super::output::{Output, text};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use tallymesh_node_ground::api;

/// The limits of a batch. It is sent when it has this many lines or bytes, or when its first line
/// has waited this long. Larger batches need fewer commits. If one line is wrong, all work of its
/// batch is lost.
const BATCH_LINES: usize = 8_192;
const BATCH_BYTES: usize = 1 << 20;
const BATCH_WAIT: Duration = Duration::from_millis(100);

/// Longest line, in bytes: the longest key, a number, and much room.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Blocks of input that are read ahead while a batch is being sent.
const BLOCKS_AHEAD: usize = 16;

/// The arguments of `tallymesh add`.
#[derive(Args, Debug)]
pub struct AddArgs {
    /// The counter; or `-` to read lines `key`, `key N` or `key TAB N` from standard input
    #[arg(value_name = "KEY")]
    key: String,

    /// What to add
    #[arg(value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    by: i64,

    #[command(flatten)]
    asking: WriteArgs,
}

pub(super) fn run(client: &Client, output: &mut Output, args: AddArgs) -> Result<(), Failure> {
    let client = &client.asking(args.asking.headers());
    if args.key == "-" {
        return match args.asking.once {
            None => add_lines(client, output),
            Some(_) => Err(Failure::Usage {
                problem:
                    "--once is for one add: lines are sent in parts, which are not the same each \
                          time; give a file of operations to `tallymesh txn - --once KEY`"
                        .into(),
            }),
        };
    }
    let body = json!({ "by": args.by.to_string() });
    let counter = client.call(&api::ADD, &[&args.key], Some(&body))?;
    output.line(&counter, || text(&counter["value"]))
}

fn add_lines(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let progress = ProgressBar::new_spinner(); // Hidden unless standard error is a terminal.
    if let Ok(style) = ProgressStyle::with_template("{spinner} {human_pos} lines, {per_sec}") {
        progress.set_style(style);
    }
    let mut input = Batches::new(read_ahead());
    let (mut acknowledged, mut last) = (0, 0);
    while let Some(batch) = input.next() {
        let sent = last + batch.lines;
        let answer = client.post_in_space(api::ADD_MANY.below_space(), "text/plain", &batch.bytes);
        let stopped = |cause| Failure::Bulk {
            cause: Box::new(shifted(cause, last)),
            acknowledged,
            last,
            sent,
        };
        acknowledged += answer.map_err(stopped)?["lines"].as_u64().unwrap_or(0);
        last = sent;
        progress.set_position(acknowledged);
    }
    progress.finish_and_clear();
    if let Some(problem) = input.failed {
        let cause = Failure::Local {
            code: "input",
            problem: format!("can't read standard input: {problem}"),
        };
        return Err(Failure::Bulk {
            cause: Box::new(cause),
            acknowledged,
            last,
            sent: last,
        });
    }
    output.line(&json!({ "lines": acknowledged }), || {
        format!("{acknowledged} lines added")
    })
}

/// Turns the line number in a batch into that in the input.
fn shifted(failure: Failure, before: u64) -> Failure {
    match failure {
        Failure::Refused {
            code,
            detail,
            applied,
            line: Some(line),
            op,
            members,
        } => Failure::Refused {
            code,
            detail,
            applied,
            line: Some(before + line),
            op,
            members,
        },
        other => other,
    }
}

/// Reads standard input on a separate thread, so that the next batch fills while one is sent.
fn read_ahead() -> Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = sync_channel(BLOCKS_AHEAD);
    thread::spawn(move || {
        let mut input = io::BufReader::with_capacity(64 << 10, io::stdin().lock());
        loop {
            let block = input.fill_buf().map(<[u8]>::to_vec);
            let end = block.as_ref().map_or(true, Vec::is_empty);
            input.consume(block.as_ref().map_or(0, Vec::len));
            if sender.send(block).is_err() || end {
                return;
            }
        }
    });
    receiver
}

/// Whole lines that are sent together.
#[derive(Debug, PartialEq, Eq)]
struct Batch {
    bytes: Vec<u8>,
    lines: u64,
}

/// Cuts blocks of input into batches of whole lines.
struct Batches {
    blocks: Receiver<io::Result<Vec<u8>>>,
    /// Whole lines, followed by the read part of the next line.
    pending: Vec<u8>,
    /// Length and number of the whole lines.
    whole: usize,
    lines: usize,
    ended: bool,
    /// The reason for which reading ended, if it was not the end of the input.
    failed: Option<String>,
}

impl Batches {
    fn new(blocks: Receiver<io::Result<Vec<u8>>>) -> Batches {
        Batches {
            blocks,
            pending: Vec::new(),
            whole: 0,
            lines: 0,
            ended: false,
            failed: None,
        }
    }

    /// The next batch. Returns `None` at the end of the input, or when reading fails.
    fn next(&mut self) -> Option<Batch> {
        let mut deadline = None;
        while !self.ended && self.lines < BATCH_LINES && self.whole < BATCH_BYTES {
            if self.lines > 0 && deadline.is_none() {
                deadline = Some(Instant::now() + BATCH_WAIT);
            }
            match self.receive(deadline) {
                Ok(Ok(block)) if block.is_empty() => self.ended = true,
                Ok(Ok(block)) => self.take_in(&block),
                Ok(Err(error)) => self.fail(error.to_string()),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => self.ended = true,
            }
        }
        if self.ended && self.failed.is_none() && self.pending.len() > self.whole {
            // The last line has no line end.
            (self.whole, self.lines) = (self.pending.len(), self.lines + 1);
        }
        if self.lines == 0 {
            return None;
        }
        let rest = self.pending.split_off(self.whole);
        let bytes = std::mem::replace(&mut self.pending, rest);
        let lines = std::mem::take(&mut self.lines) as u64;
        self.whole = 0;
        Some(Batch { bytes, lines })
    }

    fn receive(&self, deadline: Option<Instant>) -> Result<io::Result<Vec<u8>>, RecvTimeoutError> {
        match deadline {
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                self.blocks.recv_timeout(left)
            }
            None => self.blocks.recv().map_err(RecvTimeoutError::from),
        }
    }

    fn take_in(&mut self, block: &[u8]) {
        let before = self.pending.len();
        self.pending.extend_from_slice(block);
        if let Some(end) = block.iter().rposition(|byte| *byte == b'\n') {
            self.whole = before + end + 1;
            self.lines += block.iter().filter(|byte| **byte == b'\n').count();
        }
        if self.pending.len() - self.whole > LINE_BYTES_MAX {
            self.fail(format!(
                "a line is over the limit of {LINE_BYTES_MAX} bytes"
            ));
        }
    }

    fn fail(&mut self, problem: String) {
        self.failed = Some(problem);
        self.ended = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(blocks: &[&[u8]]) -> Vec<(Vec<u8>, u64)> {
        let (sender, receiver) = sync_channel(blocks.len());
        for block in blocks {
            sender.send(Ok(block.to_vec())).expect("room for all");
        }
        drop(sender);
        let mut batches = Batches::new(receiver);
        std::iter::from_fn(|| batches.next())
            .map(|batch| (batch.bytes, batch.lines))
            .collect()
    }

    #[test]
    fn batches_hold_whole_lines() {
        assert_eq!(batches(&[]), []);
        assert_eq!(
            batches(&[b"a 1\nb", b" 2\nc"]),
            [(b"a 1\nb 2\nc".to_vec(), 3)]
        );
        let block = "k 1\n".repeat(BATCH_LINES);
        let cut = batches(&[block.as_bytes(), b"a\nb"]);
        assert_eq!(cut.len(), 2);
        assert_eq!((cut[0].1, cut[1].1), (BATCH_LINES as u64, 2));
        assert_eq!(cut[1].0, b"a\nb");
    }

    #[test]
    fn a_first_line_does_not_wait_for_a_full_batch() {
        let (sender, receiver) = sync_channel(2);
        sender.send(Ok(b"a\nhalf".to_vec())).expect("room");
        let mut batches = Batches::new(receiver);
        let first = batches.next().expect("one whole line");
        assert_eq!((first.bytes.as_slice(), first.lines), (&b"a\n"[..], 1));
        sender.send(Ok(b" 2\n".to_vec())).expect("room");
        assert_eq!(batches.next().expect("the rest").bytes, b"half 2\n");
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let (sender, receiver) = sync_channel(2);
        sender.send(Ok(b"a\n".to_vec())).expect("room");
        sender
            .send(Ok(vec![b'x'; LINE_BYTES_MAX + 1]))
            .expect("room");
        drop(sender);
        let mut batches = Batches::new(receiver);
        assert_eq!(batches.next().expect("the good line").bytes, b"a\n");
        assert_eq!(batches.next(), None);
        assert!(batches.failed.is_some());
    }
}

//! A node for Maelstrom: `maelstrom [--workload=g-counter|pn-counter] [--interval-ms=N]`.
//!
//! Speaks Maelstrom's protocol on standard input and output, and ends with its input.
//! docs/consistency.md tells how to run it.

use std::io::{self, Write};
use std::process::{self, ExitCode};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use tallymesh_core::Millis;
use tallymesh_tests::maelstrom::Workload;
use tallymesh_tests::maelstrom::node::{Config, Node, Said};

fn config() -> Result<Config, String> {
    let mut config = Config::default();
    for word in std::env::args().skip(1) {
        let (name, value) = word.split_once('=').unwrap_or((&word, ""));
        let workload = Workload::ALL.into_iter().find(|it| it.name() == value);
        let number = value.parse::<u32>().ok().filter(|number| *number > 0);
        match (name, workload, number) {
            ("--workload", Some(workload), _) => config.workload = workload,
            ("--interval-ms", _, Some(interval)) => config.interval_ms = interval,
            _ => return Err(word),
        }
    }
    Ok(config)
}

fn main() -> ExitCode {
    let config = match config() {
        Ok(config) => config,
        Err(wrong) => {
            eprintln!(
                "usage: maelstrom [--workload=g-counter|pn-counter] [--interval-ms=N], not {wrong}"
            );
            return ExitCode::from(2);
        }
    };
    match run(Node::new(config, Box::new(nonce))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("standard input or output broke: {error}");
            ExitCode::FAILURE
        }
    }
}

/// 16 bytes from the system. Without them no writer id is safe, so the process ends.
fn nonce() -> [u8; 16] {
    let mut bytes = [0; 16];
    if let Err(error) = getrandom::fill(&mut bytes) {
        eprintln!("the system gives no random bytes: {error}");
        process::exit(1);
    }
    bytes
}

/// Serves until the input ends.
fn run(mut node: Node) -> io::Result<()> {
    let start = Instant::now();
    let now = || start.elapsed().as_millis() as Millis;
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lines() {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut output = io::stdout().lock();
    loop {
        let wait = node.next_deadline().map_or(Duration::MAX, |due| {
            Duration::from_millis(due.saturating_sub(now()))
        });
        match lines.recv_timeout(wait) {
            Ok(line) => node.line(now(), &line?),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        let now = now();
        if node.next_deadline().is_some_and(|due| due <= now) {
            node.tick(now);
        }
        while let Some(said) = node.poll() {
            match said {
                Said::Line(line) => writeln!(output, "{line}")?,
                Said::Note(note) => eprintln!("{note}"),
            }
        }
        output.flush()?;
    }
}

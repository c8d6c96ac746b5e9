//! Nodes for Maelstrom on a network that loses, repeats, reorders and cuts. They run in one process with
//! simulated time, and as the processes that Maelstrom would start. `TALLYMESH_SEED=n` replays one seed of
//! the first kind, `TALLYMESH_SEEDS=n` runs this many.
//!
//! Processes have timers of their own. For them a seed determines the faults, but not exactly which messages
//! these hit.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};
use tallymesh_tests::maelstrom::Workload;
use tallymesh_tests::maelstrom::node::{Config, Node, Said};
use tallymesh_tests::maelstrom::play::{INTERVAL_MS, Metrics, NODES, Play};
use tallymesh_tests::random::Random;
use tallymesh_tests::seeds;

const SEEDS: u64 = 100;
/// Length of the storm in one process, in simulated milliseconds.
const SHORT_STORM_MS: u64 = 500;
/// Length of the storm between processes, in real milliseconds.
const STORM_MS: u64 = 1_500;
/// Longest time of a run with processes. A run without progress ends by its count of rounds. This deadline is
/// for nodes that do not answer.
const DEADLINE: Duration = Duration::from_secs(90);

#[test]
fn nodes_agree_on_the_adds_that_they_acknowledged() {
    let Some((count, total)) = seeds::play(SEEDS, |seed, _| within(seed), Metrics::add) else {
        return;
    };
    // Otherwise the storm had too few faults.
    let happened = total.unknown > 0 && total.made > 0 && total.lost > 0 && total.cut > 0;
    assert!(happened || count < SEEDS, "{total:?}");
}

#[test]
fn processes_that_only_grow_agree() {
    with_processes(Workload::Grow);
}

#[test]
fn processes_that_grow_and_shrink_agree() {
    with_processes(Workload::GrowAndShrink);
}

/// Plays a seed with nodes in this process.
fn within(seed: u64) -> Result<Metrics, String> {
    let workload = Workload::ALL[seed as usize % 2];
    let mut play = Play::new(seed, workload, SHORT_STORM_MS);
    let config = Config {
        workload,
        interval_ms: INTERVAL_MS,
    };
    let mut nodes: Vec<Node> = (0..NODES as u64)
        .map(|at| {
            let mut random = Random::new(seed * NODES as u64 + at);
            Node::new(config, Box::new(move || random.bytes()))
        })
        .collect();
    let mut now = 0;
    while play.over().is_none() {
        now += 1;
        for (to, line) in play
            .tick(now)
            .map_err(|why| format!("seed {seed}: {why}"))?
        {
            nodes[to].line(now, &line);
        }
        for (at, node) in nodes.iter_mut().enumerate() {
            if node.next_deadline().is_some_and(|due| due <= now) {
                node.tick(now);
            }
            while let Some(said) = node.poll() {
                let taken = match said {
                    Said::Line(line) => play.printed(now, at, &line),
                    Said::Note(note) => Err(format!("node {at} does not bear it: {note}")),
                };
                taken.map_err(|why| format!("seed {seed}, {now} ms: {why}"))?;
            }
        }
    }
    Ok(play.over().unwrap_or_default())
}

/// A node's process. It is killed when it is dropped.
struct Process {
    child: Child,
    /// The input of the process, until it is to end.
    input: Option<ChildStdin>,
}

/// A line that a node printed, with the node's number. `None` after its last line.
type Printed = (usize, Option<String>);

impl Process {
    fn start(at: usize, workload: Workload, printed: Sender<Printed>) -> Process {
        let mut child = Command::new(env!("CARGO_BIN_EXE_maelstrom"))
            .arg(format!("--workload={}", workload.name()))
            .arg(format!("--interval-ms={INTERVAL_MS}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start a node");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        thread::spawn(move || {
            // A receiver that is gone has failed already.
            for line in output.lines().map_while(Result::ok) {
                let _ = printed.send((at, Some(line)));
            }
            let _ = printed.send((at, None));
        });
        Process {
            input: child.stdin.take(),
            child,
        }
    }

    fn take(&mut self, line: &str) {
        let input = self.input.as_mut().expect("it is to run");
        let line = format!("{line}\n");
        input.write_all(line.as_bytes()).expect("the node reads");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays with processes, and ends them by the end of their input, as Maelstrom does.
fn with_processes(workload: Workload) {
    let (sender, printed) = mpsc::channel();
    let start = |at| Process::start(at, workload, sender.clone());
    let mut nodes: Vec<Process> = (0..NODES).map(start).collect();
    drop(sender);
    let mut play = Play::new(seeds::chosen().unwrap_or(1), workload, STORM_MS);
    let metrics = follow(&mut play, &mut nodes, &printed).unwrap_or_else(|why| panic!("{why}"));
    println!("{}: {metrics:?}", workload.name());
    assert!(metrics.unknown > 0 && metrics.lost > 0, "{metrics:?}");
    for node in &mut nodes {
        node.input = None;
    }
    // Reads the rest of their lines, until all outputs are closed.
    let deadline = Instant::now() + DEADLINE;
    while printed.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        != Err(RecvTimeoutError::Disconnected)
    {
        assert!(Instant::now() < deadline, "a node does not end");
    }
    for node in &mut nodes {
        let status = node.child.wait().expect("its end");
        assert!(status.success(), "{status}");
    }
}

fn follow(
    play: &mut Play,
    nodes: &mut [Process],
    printed: &Receiver<Printed>,
) -> Result<Metrics, String> {
    let start = Instant::now();
    loop {
        if let Some(metrics) = play.over() {
            return Ok(metrics);
        }
        if start.elapsed() > DEADLINE {
            return Err(format!("not over after {DEADLINE:?}"));
        }
        let now = || start.elapsed().as_millis() as u64;
        for (to, line) in play.tick(now())? {
            nodes[to].take(&line);
        }
        // At least once in a millisecond, the time moves on for messages and clients.
        match printed.recv_timeout(Duration::from_millis(1)) {
            Ok((at, Some(line))) => play.printed(now(), at, &line)?,
            Ok((at, None)) => return Err(format!("node {at} ended")),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err("all nodes ended".to_owned()),
        }
    }
}

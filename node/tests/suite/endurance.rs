//! Everything that costs its sender nothing, at once and for long: two members under idle event streams,
//! silent Redis connections, tickets shown by ever other keys, a reader that proves writers without end, a
//! log that nobody reads, and bodies that never finish. Honest clients must not notice.
//!
//! `TALLYMESH_ENDURANCE_SECONDS` says for how long each test lasts, `TALLYMESH_ENDURANCE_TABLE` names a file
//! for the metrics, and `TALLYMESH_BIN` another build of the node. The tests need the machine and some 8,000
//! file descriptors for themselves, so they are played by `cargo xtask test --long --part endurance`.

mod hold;
mod honest;
mod strangers;

use crate::members;
use crate::process::{Node, agent, eventually};
use crate::tickets::{ask, ticket};
use honest::{Honest, Metrics};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Names another program to play to.
const BIN: &str = "TALLYMESH_BIN";

/// Idle event streams at each node.
const STREAMS: usize = 1_100;
/// Silent Redis connections at each node.
const SILENT: usize = 2_000;
/// Bodies that never finish, at each node.
const BODIES: usize = 40;
/// Keys that show one ticket at the first node.
const KEYS: usize = 4_096;
/// All keys show it in a run of this length, in seconds.
const KEYS_SECONDS: u64 = 80;
/// Honest clients, half of them at each node.
const CLIENTS: usize = 20;
/// The least that the strangers get of the time before the metrics of honest clients count.
const SETTLE: Duration = Duration::from_secs(10);

/// How long honest clients may wait, all but one of a hundred requests.
const P99_MAX: Duration = Duration::from_millis(50);
/// How long an honest client may wait for a new connection and the first answer on it.
const ENTRY_MAX: Duration = Duration::from_secs(5);
/// Most memory of each node, in KiB.
const MEMORY_MAX_KIB: u64 = 512 << 10;

/// How much longer than its seconds a run goes on at most.
const GRACE: Duration = Duration::from_secs(60);

/// What the load comes to, counted while it goes on.
#[derive(Default)]
struct Load {
    over: AtomicBool,
    /// Connections that are open, by kind.
    streams: AtomicUsize,
    silent: AtomicUsize,
    bodies: AtomicUsize,
    /// Connections of these kinds that the nodes closed.
    closed: AtomicUsize,
    /// Keys that have shown the ticket, and those of them that were let in.
    shown: AtomicUsize,
    let_in: AtomicUsize,
    /// The number of keys for each answer of the node.
    told: ReportCounts,
    /// Links of such keys that there are, and were at most; and how those ended, or why there was none.
    links: AtomicUsize,
    links_most: AtomicUsize,
    links_ended: ReportCounts,
    /// Why requests of honest clients failed.
    failures: ReportCounts,
    /// Honest peers over libp2p that got a link, how long the slowest took, and why others got none.
    peers: AtomicUsize,
    slowest_peer: Mutex<Duration>,
    peers_failed: ReportCounts,
    /// Writers that the reader has proved.
    proved: AtomicUsize,
}

/// How often something was told.
type ReportCounts = Mutex<BTreeMap<String, usize>>;

impl Load {
    fn tell(&self, to: &ReportCounts, what: String) {
        let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
        *to.entry(what).or_default() += 1;
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Ends the load however a test ends.
struct Over<'a>(&'a Load);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

/// The tickets of the nodes' space.
struct Tickets {
    reader: String,
    writer: String,
    /// For the operator, in every space.
    every: String,
}

/// Two members, each with a limit on its descriptors and a log that nobody reads.
struct Pair {
    nodes: Vec<Node>,
    tickets: Tickets,
    _folder: TempDir,
}

impl Pair {
    fn start(limit: &str) -> Pair {
        let folder = tempfile::tempdir().expect("a folder");
        let programs = [0, 1].map(|at| program(folder.path(), at, limit));
        let mut nodes = vec![Node::start_of(&programs[0], &[])];
        let peer = nodes[0].listen[0].clone();
        nodes.push(Node::start_of(&programs[1], &["--peer", &peer]));
        members::close(&nodes.iter().collect::<Vec<_>>());
        let invite = |role: &str, more: &[&str]| {
            let arguments = [&["invite", "--role", role], more].concat();
            ticket(&nodes[0].run(&arguments, ""))
        };
        let tickets = Tickets {
            reader: invite("reader", &[]),
            writer: invite("writer", &[]),
            every: invite("member", &["--every-space"]),
        };
        for at in 0..nodes.len() {
            assert!(nodes[at].terminate().success());
            let mut arguments: Vec<String> = Vec::new();
            if at > 0 {
                arguments.extend(["--peer".to_owned(), nodes[0].listen[0].clone()]);
            }
            let closed = "--http-tickets --listen-tickets --resp 127.0.0.1:0 --resp-tickets \
                          --connect-rate 250/s --log debug";
            arguments.extend(closed.split_whitespace().map(str::to_owned));
            nodes[at].start_again_with(arguments);
        }
        let pair = Pair {
            nodes,
            tickets,
            _folder: folder,
        };
        for node in 0..pair.nodes.len() {
            eventually("the members are ready", || {
                let (status, _) = pair.ask(node, "GET", "/readyz");
                (status == 200).then_some(())
            });
        }
        pair
    }

    /// The refusals of the nodes, by kind, and how many lines of the log they dropped.
    fn refused(&self) -> BTreeMap<String, u64> {
        let kinds = ["refusals_total{", "network_refused_total{", "log_dropped"];
        let mut refused = BTreeMap::new();
        for node in &self.nodes {
            let metrics = metrics(node, &self.tickets.every);
            let lines = metrics
                .lines()
                .filter_map(|it| it.strip_prefix("tallymesh_"));
            let lines = lines.filter(|line| kinds.iter().any(|kind| line.starts_with(kind)));
            for (name, count) in lines.filter_map(|line| line.rsplit_once(' ')) {
                *refused.entry(name.to_owned()).or_default() += count.parse().unwrap_or(0);
            }
        }
        refused.retain(|_, count| *count > 0);
        refused
    }

    fn ask(&self, node: usize, method: &str, path: &str) -> (u16, Value) {
        ask(&self.nodes[node], &self.tickets.every, method, path, "")
    }

    /// Waits until a node shows what a client counted: all that was acknowledged, and perhaps the rest.
    fn counted(&self, node: usize, number: usize, (sure, perhaps): (i64, i64)) {
        let path = format!("/v1/spaces/default/counters/honest-{number}");
        let mut shown = 0;
        let waited = catch_unwind(AssertUnwindSafe(|| {
            eventually("all that was acknowledged is counted", || {
                let (status, answer) = self.ask(node, "GET", &path);
                let value = answer["value"].as_str().map_or("0", |it| it);
                shown = value.parse().ok().filter(|_| status != 503)?;
                (sure..=sure + perhaps).contains(&shown).then_some(())
            });
        }));
        let made = format!("{sure} of {}", sure + perhaps);
        assert!(
            waited.is_ok(),
            "node {node} shows {shown}, client {number} made {made}"
        );
    }

    /// Most memory that each node had, in KiB; fails if one has ended.
    fn memory(&self) -> Vec<u64> {
        let most = |node: &Node| {
            let status = format!("/proc/{}/status", node.pid());
            let status = fs::read_to_string(status).expect("the node runs");
            let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
            let number = line.and_then(|it| it.split_whitespace().next());
            number
                .and_then(|it| it.parse().ok())
                .expect("the node runs")
        };
        self.nodes.iter().map(most).collect()
    }
}

fn metrics(node: &Node, ticket: &str) -> String {
    let asked = agent()
        .get(format!("{}/metrics", node.url))
        .header("authorization", format!("Bearer {ticket}"))
        .call();
    let mut answer = asked.expect("metrics");
    answer.body_mut().read_to_string().expect("metrics")
}

/// The program that is played to: what `TALLYMESH_BIN` names, or what was built beside this test.
fn binary() -> PathBuf {
    let named = std::env::var_os(BIN).map(PathBuf::from);
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_tallymesh").into())
}

/// Whether that is a build for debugging, which is several times as slow.
fn is_slow() -> bool {
    cfg!(debug_assertions) && std::env::var_os(BIN).is_none()
}

/// A program that runs a node with this limit on its descriptors, and its log in a pipe that nobody reads.
fn program(folder: &Path, at: usize, limit: &str) -> PathBuf {
    let (path, pipe) = (
        folder.join(format!("up{at}")),
        folder.join(format!("pipe{at}")),
    );
    let text = format!(
        "#!/bin/sh\n{limit}\n[ -p {pipe} ] || mkfifo {pipe}\nexec 9<>{pipe}\nexec {} \"$@\" 2>&9\n",
        binary().display(),
        pipe = pipe.display(),
    );
    fs::write(&path, text).expect("write the program");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("set its mode");
    path
}

/// What a run came to.
struct Run {
    limit: &'static str,
    seconds: u64,
    metrics: Metrics,
    memory: Vec<u64>,
    load: Load,
    notes: String,
}

/// The refusals of strangers and the fate of honest peers, as an entry of a list.
fn notes(limit: &str, load: &Load, refused: &BTreeMap<String, u64>) -> String {
    let all = |told: &ReportCounts| {
        let told = told.lock().unwrap_or_else(PoisonError::into_inner);
        let told: Vec<_> = { told.iter() }
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        match told.is_empty() {
            true => "none".to_owned(),
            false => told.join(", "),
        }
    };
    let refused: Vec<_> = { refused.iter() }
        .map(|(name, count)| format!("`{name}` {count}"))
        .collect();
    let slowest = load.slowest_peer.lock();
    let slowest = slowest.unwrap_or_else(PoisonError::into_inner).as_millis();
    format!(
        "- `{limit}`. The node's answers to the keys: {}. Their links: {}. Peers with a writer's ticket: {} got a link, the \
         slowest after {slowest} ms; failed: {}. Honest requests failed by: {}. The nodes refused: {}.\n",
        all(&load.told),
        all(&load.links_ended),
        load.peers.load(Ordering::Relaxed),
        all(&load.peers_failed),
        all(&load.failures),
        refused.join(", "),
    )
}

fn play(limit: &'static str) -> Run {
    let seconds = std::env::var("TALLYMESH_ENDURANCE_SECONDS").ok();
    let seconds = seconds.map_or(60, |it| it.parse().expect("a number of seconds"));
    let length = Duration::from_secs(seconds);
    let pair = Pair::start(limit);
    let load = Load::default();
    let begun = Instant::now();
    let settled = begun + SETTLE.min(length / 4);
    let metrics = thread::scope(|scope| {
        let over = Over(&load);
        let (load, tickets) = (&load, &pair.tickets);
        for node in &pair.nodes {
            scope.spawn(move || hold::streams(load, node, &tickets.reader, STREAMS));
            scope.spawn(move || hold::silent(load, node, SILENT));
            for _ in 0..BODIES {
                scope.spawn(move || hold::body(load, node, &tickets.reader));
            }
        }
        let first = &pair.nodes[0];
        scope.spawn(move || strangers::prove(load, first, &tickets.reader));
        scope.spawn(move || strangers::show(load, first, &tickets.reader, KEYS, length));
        scope.spawn(move || strangers::join(load, first, &tickets.writer));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let node = &pair.nodes[number % 2];
                let honest = Honest::new(number, node, &tickets.writer);
                scope.spawn(move || honest.work(load, settled))
            })
            .collect();
        while begun.elapsed() < length {
            thread::sleep(Duration::from_secs(1).min(length));
            pair.memory();
        }
        drop(over);
        let mut metrics = Metrics::default();
        for client in clients {
            metrics.join(client.join().expect("the client ends"));
        }
        metrics
    });
    assert!(begun.elapsed() < length + GRACE, "it hangs");
    let memory = pair.memory();
    let run = Run {
        limit,
        seconds,
        metrics,
        memory,
        notes: notes(limit, &load, &pair.refused()),
        load,
    };
    println!("{}{}", run.row(), run.notes);
    run.write();
    for node in 0..pair.nodes.len() {
        for (number, made) in &run.metrics.made {
            pair.counted(node, *number, *made);
        }
    }
    run
}

impl Run {
    const HEAD: &str = "| descriptors | seconds | streams, silent, bodies open at the end | closed by the nodes | keys, let in, links at most | writers proved | honest requests | failed | p50 | p99 | most | slowest entry | MiB |\n\
                        |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";

    fn row(&self) -> String {
        let it = &self.load;
        let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        let metrics = &self.metrics;
        let most = self.memory.iter().max().copied().unwrap_or_default() >> 10;
        format!(
            "| `{}` | {} | {}, {}, {} | {} | {}, {}, {} | {} | {} | {} | {} | {} | {} | {} | {most} |\n",
            self.limit,
            self.seconds,
            count(&it.streams),
            count(&it.silent),
            count(&it.bodies),
            count(&it.closed),
            count(&it.shown),
            count(&it.let_in),
            count(&it.links_most),
            count(&it.proved),
            metrics.times.len(),
            metrics.failed,
            ms(metrics.part(50)),
            ms(metrics.part(99)),
            ms(metrics.part(100)),
            ms(metrics.slowest_entry),
        )
    }

    /// Writes the row, whatever it says: rows in one table, and the notes of all runs below it.
    fn write(&self) {
        if let Some(file) = std::env::var_os("TALLYMESH_ENDURANCE_TABLE") {
            let before = fs::read_to_string(&file).unwrap_or_default();
            let (rows, notes) = before.split_once("\n\n").unwrap_or((Run::HEAD.trim(), ""));
            let text = format!("{rows}\n{}\n{notes}{}", self.row(), self.notes);
            fs::write(file, text).expect("write the table");
        }
    }

    /// Asserts what honest clients are promised.
    fn judge(&self) {
        let mut wrong = String::new();
        let metrics = &self.metrics;
        let mut must = |holds: bool, what: &str| {
            if !holds {
                let _ = writeln!(wrong, "{what}");
            }
        };
        let all = metrics.entered.len() == CLIENTS && metrics.entered.iter().all(|it| *it > 0);
        must(all, "each honest client gets in");
        must(metrics.failed == 0, "no honest request fails");
        must(
            metrics.slowest_entry < ENTRY_MAX,
            "each honest client gets in soon",
        );
        must(metrics.times.len() >= CLIENTS, "honest clients are served");
        let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        let shown = count(&self.load.shown);
        must(
            shown == KEYS || self.seconds < KEYS_SECONDS,
            "each key shows its ticket",
        );
        must(count(&self.load.links_most) > 0, "some keys hold a link");
        let failed = self.load.peers_failed.lock();
        let failed = failed.unwrap_or_else(PoisonError::into_inner);
        must(
            failed.is_empty() && count(&self.load.peers) > 0,
            "each peer with a writer's ticket gets a link",
        );
        let most = self.memory.iter().max().copied().unwrap_or_default();
        must(most < MEMORY_MAX_KIB, "memory stays under 512 MiB");
        let quick = metrics.part(99) < P99_MAX;
        must(quick || is_slow(), "p99 stays under 50 ms");
        assert!(wrong.is_empty(), "{wrong}{}{}", Run::HEAD, self.row());
    }
}

#[test]
#[ignore = "it takes the machine for minutes"]
fn honest_clients_do_not_notice_what_costs_nothing() {
    play("ulimit -Sn 1024").judge();
}

#[test]
#[ignore = "it takes the machine for minutes"]
fn honest_clients_get_in_where_descriptors_are_few() {
    play("ulimit -n 1024").judge();
}

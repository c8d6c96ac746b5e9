//! Three honest nodes, members of one space, that take writes all the time, and what is measured of them.

use crate::members;
use crate::process::{Node, agent, eventually};
use libp2p::identity::Keypair;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tallymesh_core::WriterId;

pub(crate) const NODES: usize = 3;

/// The arguments of a node that asks everybody for a ticket, also on loopback; the honest ones ask over
/// libp2p only.
const CLOSED: [&str; 2] = ["--listen-tickets", "--http-tickets"];

/// Two spaces: all nodes are members of the first, and the second is open.
const SPACES: [&str; 3] = ["--space", "default", "shop"];

/// Counters that the honest ones add to.
const KEYS: usize = 8;

/// Writes that each node takes during an attack, at least.
const WRITES_MIN: usize = 25;

/// How long an honest client pauses between two writes.
const PAUSE: Duration = Duration::from_millis(4);

/// Counters that are there before anybody lies, so that there is something to be asked for.
const OTHERS: usize = 20_000;

/// Metrics that tell what was refused, or that somebody lied.
const TELLING: [&str; 6] = [
    "tallymesh_network_refused_total",
    "tallymesh_network_slowed_total",
    "tallymesh_refusals_total",
    "tallymesh_frames_dropped_total",
    "tallymesh_renewals_total",
    "tallymesh_faults",
];

/// What a figure is called, and its value.
pub(crate) type Metrics = BTreeMap<String, f64>;

pub(crate) struct Mesh {
    nodes: Vec<Node>,
    /// For everything at the nodes.
    ticket: String,
    agent: ureq::Agent,
    /// What acknowledged writes come to, by counter.
    totals: Mutex<BTreeMap<String, i128>>,
}

impl Mesh {
    /// Starts the nodes, makes them members of the space `default`, and fills it a bit.
    pub(crate) fn start() -> Mesh {
        let mut nodes = Vec::new();
        for at in 0..NODES {
            let peers = nodes.iter().map(|node: &Node| node.listen[0].clone());
            let peers: Vec<String> = peers.collect();
            let mut arguments = SPACES.to_vec();
            if at > 0 {
                arguments.push("--peer");
                arguments.extend(peers.iter().map(String::as_str));
            }
            nodes.push(Node::start(&arguments));
        }
        members::close(&nodes.iter().collect::<Vec<_>>());
        let invited = nodes[0].run(
            &[
                "invite",
                "--role",
                "member",
                "--every-space",
                "--expires",
                "never",
            ],
            "",
        );
        let ticket = crate::tickets::ticket(&invited);
        // From now on all doors ask for one. The others come to the attacked node, and it to them.
        for at in 0..NODES {
            assert!(nodes[at].terminate().success(), "{}", nodes[at].log());
            let others = (0..at).map(|other| nodes[other].listen[0].clone());
            let mut arguments: Vec<String> = others.collect();
            if at > 0 {
                arguments.insert(0, "--peer".into());
            }
            arguments.extend(SPACES.map(str::to_owned));
            let asks = if at == 0 { &CLOSED[..] } else { &CLOSED[..1] };
            arguments.extend(asks.iter().map(|&it| it.to_owned()));
            nodes[at].start_again_with(arguments);
        }
        let mesh = Mesh {
            nodes,
            ticket,
            agent: agent(),
            totals: Mutex::default(),
        };
        let lines = (0..OTHERS).map(|at| format!("other/{at:06} 1\n"));
        let lines: String = lines.collect();
        mesh.ask(0, "POST", "/v1/spaces/default/add", &lines);
        mesh.during(0..NODES, || ());
        mesh.agree();
        mesh
    }

    /// The node that is attacked.
    pub(crate) fn attacked(&self) -> &Node {
        &self.nodes[0]
    }

    /// Asks a node as its operator does, and expects to be answered: the text that came.
    pub(crate) fn ask(&self, node: usize, method: &str, path: &str, body: &str) -> String {
        let url = format!("{}{path}", self.nodes[node].url);
        let ticket = format!("Bearer {}", self.ticket);
        let answer = match method {
            "GET" => self.agent.get(&url).header("authorization", ticket).call(),
            _ => self
                .agent
                .post(&url)
                .header("authorization", ticket)
                .send(body),
        };
        let mut answer = answer.unwrap_or_else(|error| {
            panic!(
                "{method} {path} at node {node}: {error}\n{}",
                self.log(node)
            )
        });
        let text = answer.body_mut().read_to_string().expect("a body");
        assert_eq!(
            answer.status(),
            200,
            "{method} {path} at node {node}: {text}"
        );
        text
    }

    pub(crate) fn get(&self, node: usize, path: &str) -> Value {
        let text = self.ask(node, "GET", path, "");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The end of what a node said.
    fn log(&self, node: usize) -> String {
        let log = self.nodes[node].log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// A ticket of the role member in a space, as an operator gives out.
    pub(crate) fn invite(&self, space: &str) -> String {
        let body = json!({"role": "member", "spaces": [space]}).to_string();
        let answer = self.ask(0, "POST", "/v1/tickets", &body);
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        answer["ticket"].as_str().expect("a ticket").to_owned()
    }

    /// Waits until a key is that of a member, at each node.
    pub(crate) fn has_member(&self, key: &Keypair) {
        let owner = key.public().try_into_ed25519().expect("an Ed25519 key");
        let owner: String = owner
            .to_bytes()
            .iter()
            .map(|it| format!("{it:02x}"))
            .collect();
        for node in 0..NODES {
            eventually("the attacker is a member", || {
                let answer = self.get(node, "/v1/spaces/default/members");
                let members = answer["members"].as_array()?.iter();
                members
                    .into_iter()
                    .any(|it| it["owner"] == owner)
                    .then_some(())
            });
        }
    }

    /// The writer under which a node writes now, and the clock up to which the attacked one holds it.
    pub(crate) fn writer(&self, node: usize) -> (WriterId, u64) {
        let status = self.get(node, "/v1/status");
        let writer = status["spaces"][0]["writer"]
            .as_str()
            .expect("an id")
            .to_owned();
        let answer = self.get(0, "/v1/spaces/default/writers");
        let rows = answer["writers"].as_array().expect("a list");
        let row = rows.iter().find(|row| row["writer"] == writer.as_str());
        let clock = row.and_then(|row| row["clock"].as_str()).unwrap_or("0");
        (
            WriterId::parse(&writer).expect("an id"),
            clock.parse().expect("a number"),
        )
    }

    /// What a node shows for a counter.
    pub(crate) fn value(&self, node: usize, key: &str) -> Option<i128> {
        self.values(node, &[key.to_owned()])[0]
    }

    fn values(&self, node: usize, keys: &[String]) -> Vec<Option<i128>> {
        let body = json!({ "keys": keys }).to_string();
        let answer = self.ask(node, "POST", "/v1/spaces/default/read", &body);
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let rows = answer["counters"].as_array().expect("a list");
        let value = |row: &Value| Some(row["value"].as_str()?.parse().expect("a number"));
        rows.iter().map(value).collect()
    }

    /// Whether no node shows a counter.
    pub(crate) fn nobody_shows(&self, key: &str) {
        for node in 0..NODES {
            assert_eq!(self.value(node, key), None, "{key} at node {node}");
        }
    }

    /// Attacks while these nodes take writes: how many these were.
    pub(crate) fn during(&self, nodes: Range<usize>, attack: impl FnOnce()) -> usize {
        /// Ends the writers also if the attack fails.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let (over, writes) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            let guard = Over(&over);
            for node in nodes {
                let (over, writes) = (&over, &writes);
                scope.spawn(move || {
                    let mut made = 0;
                    while made < WRITES_MIN || !over.load(Ordering::Relaxed) {
                        self.write(node, made);
                        made += 1;
                        writes.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(PAUSE);
                    }
                });
            }
            attack();
            drop(guard);
        });
        writes.into_inner()
    }

    fn write(&self, node: usize, number: usize) {
        let key = format!("honest/{}", number % KEYS);
        let by = 1 + number as i64 % 7;
        let path = format!("/v1/spaces/default/counters/honest%2F{}/add", number % KEYS);
        self.ask(node, "POST", &path, &format!("{{\"by\":{by}}}"));
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        *totals.entry(key).or_default() += i128::from(by);
    }

    /// Waits until each node shows exactly what was acknowledged: how long that took.
    pub(crate) fn agree(&self) -> Duration {
        let begun = Instant::now();
        let totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        let keys: Vec<String> = totals.keys().cloned().collect();
        let sums: Vec<Option<i128>> = totals.values().map(|sum| Some(*sum)).collect();
        for node in 0..NODES {
            let mut shown = Vec::new();
            let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                eventually("a node shows what was acknowledged", || {
                    shown = self.values(node, &keys);
                    (shown == sums).then_some(())
                });
            }));
            assert!(
                waited.is_ok(),
                "node {node} shows {shown:?} of {sums:?}\n{}",
                self.log(node)
            );
        }
        begun.elapsed()
    }

    /// The metrics of the attacked node that tell of lies.
    pub(crate) fn metrics(&self) -> Metrics {
        let text = self.ask(0, "GET", "/metrics", "");
        let lines = text
            .lines()
            .filter(|line| TELLING.iter().any(|name| line.starts_with(name)));
        let lines = lines.filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        lines.collect()
    }

    /// Whether no node has ended, nor any of its threads.
    pub(crate) fn all_live(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            let log = node.log();
            assert!(!log.contains("panicked"), "node {at}:\n{}", self.log(at));
            self.ask(at, "GET", "/healthz", "");
        }
    }

    /// The memory that is resident now, and most that was since it was asked for last; in KiB, and
    /// nothing where the system does not tell.
    pub(crate) fn memory(&self) -> Option<Memory> {
        let pid = self.attacked().pid();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let told = |word: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(word))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let memory = Memory {
            now: told("VmRSS:")?,
            most: told("VmHWM:")?,
        };
        // Begins anew with what is resident now.
        fs::write(format!("/proc/{pid}/clear_refs"), "5").ok()?;
        Some(memory)
    }
}

/// Resident memory, in KiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) now: u64,
    pub(crate) most: u64,
}

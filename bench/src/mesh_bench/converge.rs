//! How long a change takes to all nodes of a mesh of real processes, and what they send for it.

use super::Plan;
use super::nodes::{Node, Traffic, traffic_of};
use crate::random::Random;
use crate::resp_client::Client;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How many links a node of a larger mesh has at least: it looks for so many by the address book.
pub(super) const LINKS_MIN: usize = 8;

/// The longest that links may take to come up, and a change to all nodes.
const LINKED: Duration = Duration::from_secs(120);
const TOLD: Duration = Duration::from_secs(60);
/// How often it is looked whether links are up.
const POLL: Duration = Duration::from_millis(500);
/// How long gossip takes to choose its peers, once links are up.
const SETTLE: Duration = Duration::from_secs(20);
/// The least time between two rounds, in milliseconds, and how much longer it may be by chance.
pub(super) const PAUSE_MS: usize = 200;
pub(super) const PAUSE_SPREAD_MS: usize = 200;

/// Changes a second of the whole mesh, where it is not left alone.
pub(super) const RATE: u32 = 10;
/// How many counters these are made in.
pub(super) const STEADY_KEYS: usize = 1_000;

/// What went over all links in a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passed {
    pub(super) seconds: f64,
    pub(super) traffic: Traffic,
}

/// What was found of one mesh.
pub(super) struct Mesh {
    pub(super) nodes: usize,
    /// Links of a node, on average.
    pub(super) links: f64,
    /// Bytes of memory of a node, on average.
    pub(super) resident: f64,
    /// Nobody does anything.
    pub(super) idle: Passed,
    /// One node counts at a time.
    pub(super) one: Rounds,
    /// All nodes count at once.
    pub(super) all: Rounds,
    /// [`RATE`] changes a second, each at a node by chance.
    pub(super) steady: Passed,
}

/// What came of changes that were timed.
#[derive(Default)]
pub(super) struct Rounds {
    /// How many changes there were in all rounds.
    pub(super) changes: usize,
    /// Milliseconds until a node had all changes of a round, of each node that did not make them all.
    pub(super) each: Vec<f64>,
    /// Milliseconds until the last one had, of each round.
    pub(super) last: Vec<f64>,
    pub(super) passed: Passed,
}

/// Measures larger and larger meshes.
pub(super) fn measure(plan: &Plan<'_>) -> Result<Vec<Mesh>> {
    let sizes: &[usize] = match plan.quick {
        true => &[3, 10],
        false => &[3, 10, 50],
    };
    sizes.iter().map(|nodes| mesh(plan, *nodes)).collect()
}

fn mesh(plan: &Plan<'_>, count: usize) -> Result<Mesh> {
    let mut random = Random::new(count as u64);
    let mut nodes: Vec<Node> = Vec::new();
    for _ in 0..count {
        // Each is told of one that is there; the rest it finds by the address book.
        let known: Vec<String> = match nodes.is_empty() {
            true => Vec::new(),
            false => vec![nodes[random.below(nodes.len())].listen.clone()],
        };
        nodes.push(Node::start(plan.node, &known)?);
    }
    let links = linked(&nodes)?;
    thread::sleep(SETTLE);
    println!("{count} nodes have {links:.1} links each");
    let mut told = listen(&nodes)?;
    let mut clients = Vec::new();
    for node in &nodes {
        clients.push(Client::connect(node.resp)?);
    }
    // From here on each of them is a writer.
    all_at_once(&mut clients, &mut told)?;
    let idle = passed(&nodes, || {
        thread::sleep(Duration::from_secs(if plan.quick { 20 } else { 60 }));
        Ok(())
    })?;
    let one = rounds(plan, &nodes, &mut random, |random| {
        let at = random.below(count);
        one_alone(&mut clients, &mut told, at)
    })?;
    let all = rounds(plan, &nodes, &mut random, |_| {
        all_at_once(&mut clients, &mut told)
    })?;
    let seconds = if plan.quick { 15 } else { 60 };
    let steady = passed(&nodes, || {
        steadily(&mut clients, &mut random, RATE * seconds)
    })?;
    let resident: Result<f64> = nodes.iter().map(Node::resident_bytes).sum();
    Ok(Mesh {
        nodes: count,
        links,
        resident: resident? / count as f64,
        idle,
        one,
        all,
        steady,
    })
}

/// Waits until each node has as many links as it looks for, and says how many they have on average.
fn linked(nodes: &[Node]) -> Result<f64> {
    let wanted = LINKS_MIN.min(nodes.len() - 1);
    let begun = Instant::now();
    loop {
        let links: Result<Vec<usize>> = nodes.iter().map(Node::links).collect();
        let links = links?;
        if links.iter().all(|links| *links >= wanted) {
            return Ok(links.iter().sum::<usize>() as f64 / nodes.len() as f64);
        }
        if begun.elapsed() > LINKED {
            bail!("not all nodes have {wanted} links: {links:?}");
        }
        thread::sleep(POLL);
    }
}

/// A node has received another one's change.
struct Heard {
    node: usize,
    at: Instant,
    /// The counter's name, with what its channel has before that.
    channel: String,
}

/// What is received, and in which round.
struct Arrivals {
    heard: Receiver<Heard>,
    round: usize,
}

impl Arrivals {
    /// What the counters of the next round begin with, so that none is taken for one of another.
    fn next(&mut self) -> String {
        self.round += 1;
        format!("told:{:06}:", self.round)
    }
}

/// Listens at each node for changes of counters whose names begin with `told:`.
fn listen(nodes: &[Node]) -> Result<Arrivals> {
    let (sender, heard) = channel();
    for (number, node) in nodes.iter().enumerate() {
        let mut client = Client::connect(node.resp)?;
        client.ask(&["PSUBSCRIBE", "__keyspace@0__:told:*"])?;
        // The name of the pattern, and how many there are: the rest of the answer, of six lines.
        for _ in 0..5 {
            client.line()?;
        }
        let sender: Sender<Heard> = sender.clone();
        // It ends with the node.
        thread::spawn(move || -> Result<()> {
            loop {
                // The word, pattern, channel and event, each after its length, and before that how
                // many these are.
                let mut lines: [String; 9] = Default::default();
                for line in &mut lines {
                    *line = client.line()?;
                }
                let at = Instant::now();
                let [.., channel, _, event] = lines;
                let node = number;
                if event == "merge" {
                    sender.send(Heard { node, at, channel })?;
                }
            }
        });
    }
    Ok(Arrivals { heard, round: 0 })
}

/// Milliseconds until each node had heard as much as it had to.
type Times = Vec<f64>;

/// One node counts; the times of the others.
fn one_alone(clients: &mut [Client], told: &mut Arrivals, at: usize) -> Result<(usize, Times)> {
    let round = told.next();
    let begun = Instant::now();
    clients[at].ask(&["INCR", &format!("{round}{at}")])?;
    let mut times = told.heard(begun, &round, clients.len(), clients.len() - 1)?;
    times.remove(at);
    Ok((1, times))
}

/// All nodes count at once, each in a counter of its own; the times of all.
fn all_at_once(clients: &mut [Client], told: &mut Arrivals) -> Result<(usize, Times)> {
    let (count, round) = (clients.len(), told.next());
    let begun = Instant::now();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&["INCR", &format!("{round}{number}")])?;
    }
    for client in clients.iter_mut() {
        client.line()?;
    }
    let times = told.heard(begun, &round, count, count * (count - 1))?;
    Ok((count, times))
}

impl Arrivals {
    /// When each node heard last, once so much of a round was heard.
    fn heard(&self, begun: Instant, round: &str, nodes: usize, wanted: usize) -> Result<Times> {
        let mut times = vec![0.0; nodes];
        let mut seen = BTreeSet::new();
        while seen.len() < wanted {
            let left = TOLD.saturating_sub(begun.elapsed());
            let heard = self.heard.recv_timeout(left);
            let heard = heard
                .with_context(|| format!("{} of {wanted} changes were received", seen.len()))?;
            if heard.channel.contains(round) && seen.insert((heard.node, heard.channel)) {
                times[heard.node] = heard.at.duration_since(begun).as_secs_f64() * 1e3;
            }
        }
        Ok(times)
    }
}

fn rounds(
    plan: &Plan<'_>,
    nodes: &[Node],
    random: &mut Random,
    mut round: impl FnMut(&mut Random) -> Result<(usize, Times)>,
) -> Result<Rounds> {
    let mut rounds = Rounds::default();
    let passed = passed(nodes, || {
        for _ in 0..plan.rounds {
            // At no fixed place between two digests.
            let pause = PAUSE_MS + random.below(PAUSE_SPREAD_MS);
            thread::sleep(Duration::from_millis(pause as u64));
            let (changes, times) = round(random)?;
            rounds.changes += changes;
            rounds.last.push(times.iter().copied().fold(0.0, f64::max));
            rounds.each.extend(times);
        }
        Ok(())
    })?;
    rounds.passed = passed;
    Ok(rounds)
}

/// So many changes at [`RATE`], each at a node by chance.
fn steadily(clients: &mut [Client], random: &mut Random, changes: u32) -> Result<()> {
    let begun = Instant::now();
    for number in 0..changes {
        let due = Duration::from_secs(1) * number / RATE;
        thread::sleep(due.saturating_sub(begun.elapsed()));
        let key = super::guest::key(random.below(STEADY_KEYS));
        let client = random.below(clients.len());
        clients[client].ask(&["INCR", &key])?;
    }
    Ok(())
}

fn passed(nodes: &[Node], work: impl FnOnce() -> Result<()>) -> Result<Passed> {
    let (begun, before) = (Instant::now(), traffic_of(nodes)?);
    work()?;
    Ok(Passed {
        traffic: traffic_of(nodes)? - before,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

impl Passed {
    /// Bytes of all streams that a node sent, less what it sends in such a time when nothing changes.
    pub(super) fn beyond(&self, idle: &Passed, nodes: usize) -> f64 {
        let quiet = idle.traffic.streams.outbound * self.seconds / idle.seconds;
        (self.traffic.streams.outbound - quiet) / nodes as f64
    }
}

/// Of figures in any order the one that so many percent do not exceed.
pub(super) fn percentile(figures: &[f64], percent: usize) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    figures[(figures.len() * percent / 100).min(figures.len() - 1)]
}

/// What was found, in Markdown.
pub(super) fn table(meshes: &[Mesh]) -> String {
    let mut text = String::from(
        "Nodes that keep their state in memory, all on this machine, each told of one other and linked \
         by the address book. One: a node counts once, alone. All: each node counts once, at the same \
         time. Milliseconds are from the command until a node tells its subscribers, with the 5 ms for \
         which a push waits for more to come; the last: until no node lacks anything. Copies: how often \
         a push comes to a node. Bytes are those of all streams that a node sends for one change, less \
         what it sends anyway.\n\n\
         | nodes | links each | who counts | changes | ms, median | p99 | the last, median | p99 | copies | bytes of a push | bytes a node and change |\n\
         |---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for mesh in meshes {
        for (name, rounds) in [("one", &mesh.one), ("all", &mesh.all)] {
            let push = rounds.passed.traffic.push;
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "| {} | {:.1} | {name} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} |",
                mesh.nodes,
                mesh.links,
                rounds.changes,
                percentile(&rounds.each, 50),
                percentile(&rounds.each, 99),
                percentile(&rounds.last, 50),
                percentile(&rounds.last, 99),
                push.messages.inbound / rounds.passed.traffic.fresh,
                push.bytes.outbound / push.messages.outbound,
                rounds.passed.beyond(&mesh.idle, mesh.nodes) / rounds.changes as f64,
            );
        }
    }
    let _ = write!(
        text,
        "\nThe same nodes when nothing changes, and with {RATE} changes a second in the whole mesh, each \
         at a node by chance. A node's figures; bytes are those of all streams that it sends.\n\n\
         | nodes | memory, MiB | idle: bytes a minute | for each link | CPU, ms a second | {RATE}/s: bytes a second | of these frames | bytes of a push | copies | bytes a change | CPU, ms a second |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for mesh in meshes {
        let (count, idle, steady) = (mesh.nodes as f64, mesh.idle, mesh.steady);
        let push = steady.traffic.push;
        let quiet = idle.traffic.streams.outbound * 60.0 / idle.seconds / count;
        let _ = writeln!(
            text,
            "| {} | {:.1} | {quiet:.0} | {:.0} | {:.2} | {:.0} | {:.0} | {:.0} | {:.1} | {:.0} | {:.2} |",
            mesh.nodes,
            mesh.resident / f64::from(1 << 20),
            quiet / mesh.links,
            idle.traffic.cpu * 1e3 / idle.seconds / count,
            steady.traffic.streams.outbound / steady.seconds / count,
            steady.traffic.frame_bytes() / steady.seconds / count,
            push.bytes.outbound / push.messages.outbound,
            push.messages.inbound / steady.traffic.fresh,
            steady.beyond(&idle, mesh.nodes) / push.messages.outbound,
            steady.traffic.cpu * 1e3 / steady.seconds / count,
        );
    }
    text
}

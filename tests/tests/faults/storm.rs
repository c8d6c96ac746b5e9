//! The faults of the nodes, drawn from a seed: each kind of fault in turn, shuffled, some of them at the same
//! time.

use crate::history::History;
use crate::mesh::{Mesh, NODES};
use crate::node::DEADLINE;
use crate::proxy::Proxy;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tallymesh_tests::random::Random;
use tokio::sync::RwLock;
use tokio::time::sleep;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    CutBothWays,
    CutOneWay,
    Slow,
    Kill,
    Stop,
    FullDisk,
    ClockStep,
    Replacement,
    RollingUpgrade,
}

impl Kind {
    pub(crate) const ALL: [Kind; 9] = [
        Kind::CutBothWays,
        Kind::CutOneWay,
        Kind::Slow,
        Kind::Kill,
        Kind::Stop,
        Kind::FullDisk,
        Kind::ClockStep,
        Kind::Replacement,
        Kind::RollingUpgrade,
    ];

    /// Kinds that may come on top of another one.
    const LINKS: [Kind; 3] = [Kind::CutBothWays, Kind::CutOneWay, Kind::Slow];

    /// Describes the faults that it counts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::CutBothWays => "links cut both ways",
            Kind::CutOneWay => "links cut one way",
            Kind::Slow => "ways made slow",
            Kind::Kill => "kill -9, and started again",
            Kind::Stop => "stopped by SIGSTOP, and continued",
            Kind::FullDisk => "disks filled up, and started again with room",
            Kind::ClockStep => "clocks stepped",
            Kind::Replacement => "members replaced, their disks lost",
            Kind::RollingUpgrade => "rolling upgrades of all five nodes",
        }
    }
}

/// Faults of 1000 of one node that come together with a fault of some links.
const ON_TOP: u64 = 500;
/// How long a fault lasts, in milliseconds. In a long run some faults last longer.
const LASTS_MS: (u64, u64) = (1_000, 3_500);
const LASTS_LONG_MS: (u64, u64) = (8_000, 30_000);
const LONG_RUN: Duration = Duration::from_secs(300);
const LONG: u64 = 150;
/// Time between two faults, in milliseconds.
const REST_MS: (u64, u64) = (100, 700);
/// The size of a clock step, in milliseconds. It is more than the error of the test, and less than the
/// lifetime of keys and counters.
const STEP_MS: (u64, u64) = (300_000, 7_200_000);
/// The latency of a slow way, in milliseconds. `RATE` is its throughput in bytes a second.
const LATENCY_MS: (u64, u64) = (20, 400);
const RATE: (u64, u64) = (32 << 10, 512 << 10);
/// Number of counters that fill up a disk. Each has a long name.
const FILLING: usize = 1_000;

/// Number of bulk adds that fill up disks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filled {
    pub(crate) acknowledged: i128,
    pub(crate) asked: i128,
}

/// The storm.
pub(crate) struct Storm<'a> {
    pub(crate) mesh: &'a mut Mesh,
    /// The proxies of HTTP and of the Redis protocol.
    pub(crate) proxies: &'a [Proxy; 2],
    pub(crate) history: Arc<History>,
    /// See [`Load`](crate::load::Load).
    pub(crate) pause: Arc<RwLock<()>>,
    pub(crate) random: Random,
    pub(crate) length: Duration,
    pub(crate) counts: BTreeMap<Kind, u64>,
    pub(crate) filled: Filled,
    /// Counters that expire long after the run.
    pub(crate) lasting: Vec<String>,
}

impl Storm<'_> {
    /// Makes each kind of fault at least once, and goes on until the time is over. At the end everything but
    /// the clocks is healed.
    pub(crate) async fn rage(&mut self) -> Result<(), String> {
        let end = Instant::now() + self.length;
        let mut dealt = 0;
        let mut deck = Vec::new();
        while dealt < Kind::ALL.len() || Instant::now() < end {
            if deck.is_empty() {
                deck = Kind::ALL.to_vec();
            }
            let kind = deck.swap_remove(self.random.index(deck.len()));
            dealt += 1;
            let begun = self.history.elapsed();
            self.play(kind).await?;
            let (from, upto) = (begun.as_secs_f32(), self.history.elapsed().as_secs_f32());
            println!("{from:>7.1} s to {upto:>7.1} s: {}", kind.name());
            self.wait(REST_MS).await;
        }
        Ok(())
    }

    async fn play(&mut self, kind: Kind) -> Result<(), String> {
        let node = self.random.index(NODES);
        match kind {
            Kind::CutBothWays | Kind::CutOneWay | Kind::Slow => {
                self.links(kind);
                self.last().await;
            }
            Kind::Kill => self.kill().await?,
            Kind::Stop => {
                self.on_top();
                self.count(kind, node, "is stopped", 1);
                self.mesh.signal(node, "-STOP").await?;
                self.last().await;
                self.mesh.signal(node, "-CONT").await?;
                self.note(node, "goes on");
            }
            Kind::FullDisk => self.full_disk(node).await?,
            Kind::ClockStep => {
                let offset = self.random.range(STEP_MS.0, STEP_MS.1) as i64;
                let offset = if self.random.chance(500) {
                    offset
                } else {
                    -offset
                };
                let counter = format!("lasting-{}", self.lasting.len());
                self.count(kind, node, "its clock is stepped", 1);
                self.mesh.step_clock(node, offset, &counter).await?;
                self.lasting.push(counter);
            }
            Kind::Replacement => self.replace(node).await?,
            Kind::RollingUpgrade => {
                *self.counts.entry(kind).or_default() += 1;
                for node in 0..NODES {
                    self.note(node, "is stopped, and started as its next version");
                    self.mesh.upgrade(node).await?;
                    self.routes(node)?;
                }
            }
        }
        let breaks = self.random.chance(500);
        self.mesh.links().heal(breaks);
        Ok(())
    }

    fn note(&self, node: usize, what: &'static str) {
        self.history.note(None, node, what);
    }

    fn count(&mut self, kind: Kind, node: usize, what: &'static str, times: u64) {
        *self.counts.entry(kind).or_default() += times;
        self.note(node, what);
    }

    async fn wait(&mut self, (from, upto): (u64, u64)) {
        sleep(Duration::from_millis(self.random.range(from, upto))).await;
    }

    /// Waits as long as a fault lasts.
    async fn last(&mut self) {
        let long = self.length >= LONG_RUN && self.random.chance(LONG);
        self.wait(if long { LASTS_LONG_MS } else { LASTS_MS }).await;
    }

    /// Sometimes adds a fault of links.
    fn on_top(&mut self) {
        if self.random.chance(ON_TOP) {
            let kind = *self.random.pick(&Kind::LINKS);
            self.links(kind);
        }
    }

    /// Makes a fault of all links of a node, of those between two halves, or of one link.
    fn links(&mut self, kind: Kind) {
        let node = self.random.index(NODES);
        let other = (node + 1 + self.random.index(NODES - 1)) % NODES;
        let half = self.random.range(1, (1 << NODES) - 2);
        let side = |it: usize| half & (1 << it) != 0;
        let style = self.random.below(3);
        for from in 0..NODES {
            for to in 0..NODES {
                let hit = match style {
                    0 => from == node || to == node && kind != Kind::CutOneWay,
                    1 => {
                        side(from) && !side(to)
                            || side(to) && !side(from) && kind != Kind::CutOneWay
                    }
                    _ => {
                        (from, to) == (node, other)
                            || (to, from) == (node, other) && kind != Kind::CutOneWay
                    }
                };
                if from == to || !hit {
                    continue;
                }
                // A link that is cut in both directions has two ways, and counts once.
                let counts = kind != Kind::CutBothWays || from < to;
                self.count(kind, from, kind.name(), u64::from(counts));
                let latency = Duration::from_millis(self.random.range(LATENCY_MS.0, LATENCY_MS.1));
                let rate = self.random.range(RATE.0, RATE.1) as u32;
                self.mesh.links().change(from, to, |way| match kind {
                    Kind::Slow => way.slow = Some((latency, rate)),
                    _ => way.cut = true,
                });
            }
        }
    }

    /// Passes the address of a node to the proxies.
    fn routes(&self, node: usize) -> Result<(), String> {
        self.proxies[0].route(node, Some(self.mesh.http(node)?));
        self.proxies[1].route(node, Some(self.mesh.resp(node)?));
        Ok(())
    }

    fn is_gone(&self, node: usize) {
        for proxy in self.proxies {
            proxy.route(node, None);
        }
    }

    async fn start_again(&mut self, node: usize) -> Result<(), String> {
        self.mesh.start_again(node).await?;
        self.note(node, "runs again");
        self.routes(node)
    }

    /// Kills one node, or two at once.
    async fn kill(&mut self) -> Result<(), String> {
        self.on_top();
        let first = self.random.index(NODES);
        let mut killed = vec![first];
        if self.random.chance(300) {
            killed.push((first + 1 + self.random.index(NODES - 1)) % NODES);
        }
        for node in &killed {
            self.count(Kind::Kill, *node, "is killed", 1);
            self.mesh.kill(*node).await?;
            self.is_gone(*node);
        }
        self.last().await;
        for node in killed {
            self.start_again(node).await?;
        }
        Ok(())
    }

    /// Fills up a node's disk, and sends adds that do not fit, until the node ends. The node has to report
    /// the full disk, and to recover once there is room.
    async fn full_disk(&mut self, node: usize) -> Result<(), String> {
        self.count(Kind::FullDisk, node, "its disk is full", 1);
        self.mesh.fill(node, true).await?;
        let lines: String = filling().iter().map(|name| format!("{name}\n")).collect();
        let deadline = Instant::now() + DEADLINE;
        while !self.mesh.has_ended(node)? {
            if Instant::now() > deadline {
                return Err(format!(
                    "node {node} goes on without a disk:\n{}",
                    self.mesh.said()
                ));
            }
            self.filled.asked += 1;
            let made = self.mesh.add_all(node, &lines).await;
            self.filled.acknowledged += i128::from(made.is_ok());
        }
        let status = self.mesh.ended(node).await?;
        self.is_gone(node);
        self.note(node, "ends, as its disk is full");
        if status.code() != Some(1) {
            return Err(format!(
                "node {node} ended with {status}:\n{}",
                self.mesh.said()
            ));
        }
        self.mesh.fill(node, false).await?;
        self.start_again(node).await
    }

    /// Loses the disk of a node for good, and replaces it by another member.
    ///
    /// An add that was acknowledged at level local is safe once a majority has it. So clients send nothing
    /// until this is true. The vote of a member that started shortly before counts only once enough others
    /// have acknowledged its start. So none of these others may be lost before.
    async fn replace(&mut self, node: usize) -> Result<(), String> {
        self.mesh.links().heal(false);
        self.mesh.settle().await?;
        let pause = self.pause.clone();
        let paused = pause.write().await;
        for proxy in self.proxies {
            proxy.drained().await;
        }
        self.mesh.is_held(node).await?;
        self.count(Kind::Replacement, node, "is killed, and its disk lost", 1);
        self.mesh.kill(node).await?;
        self.is_gone(node);
        drop(paused);
        self.last().await;
        self.mesh.replace(node).await?;
        self.note(node, "is another member");
        self.routes(node)
    }
}

/// The counters that fill up disks.
pub(crate) fn filling() -> Vec<String> {
    (0..FILLING)
        .map(|number| format!("filling-{number:0>480}"))
        .collect()
}

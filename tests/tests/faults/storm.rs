//! The faults of the nodes, drawn from a seed: each kind of fault in turn, shuffled, some of them at the same
//! time. Each kind has a row in the table of [`Kind`] and a function in one of the modules.

mod clocks;
mod copies;
mod disks;
mod kinds;
mod links;
mod members;
mod processes;

use crate::history::History;
use crate::ledger::Ledger;
use crate::mesh::{Mesh, NODES};
use crate::proxy::Proxy;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tallymesh_tests::random::Random;
use tokio::sync::RwLock;
use tokio::time::sleep;

pub(crate) use disks::{Filled, filling};
pub(crate) use kinds::Kind;

/// How long a fault lasts, in milliseconds. In a long run some faults last longer.
const LASTS_MS: (u64, u64) = (1_000, 3_500);
const LASTS_LONG_MS: (u64, u64) = (8_000, 30_000);
const LONG_RUN: Duration = Duration::from_secs(300);
const LONG: u64 = 150;
/// Time between two faults, in milliseconds.
const REST_MS: (u64, u64) = (100, 700);

/// The storm.
pub(crate) struct Storm<'a> {
    pub(crate) mesh: &'a mut Mesh,
    /// The proxies of HTTP and of the Redis protocol.
    pub(crate) proxies: &'a [Proxy; 2],
    pub(crate) history: Arc<History>,
    /// See [`Load`](crate::load::Load).
    pub(crate) pause: Arc<RwLock<()>>,
    pub(crate) random: Random,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) length: Duration,
    pub(crate) counts: BTreeMap<Kind, u64>,
    pub(crate) filled: Filled,
    /// Counters that expire long after the run.
    pub(crate) lasting: Vec<String>,
    /// How far each node's clock is beyond its first setting, in milliseconds.
    pub(crate) offsets: [i64; NODES],
    /// The operations of clients, for those that nobody repeats.
    pub(crate) ledger: Arc<Ledger>,
}

impl Storm<'_> {
    /// Makes each kind of fault at least once, and goes on until the time is over. At the end everything but
    /// the clocks is healed.
    pub(crate) async fn rage(&mut self) -> Result<(), String> {
        let end = Instant::now() + self.length;
        let mut dealt = 0;
        let mut deck = Vec::new();
        while dealt < self.kinds.len() || Instant::now() < end {
            if deck.is_empty() {
                deck = self.kinds.clone();
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
            Kind::CutBothWays | Kind::CutOneWay | Kind::Slow | Kind::DeadLink => {
                self.links(kind);
                self.last().await;
            }
            Kind::Kill => self.kill().await?,
            Kind::Stop => self.stop(node).await?,
            Kind::RollingUpgrade => self.upgrade_all().await?,
            Kind::FullDisk => self.full_disk(node).await?,
            Kind::ReadOnly => self.read_only(node).await?,
            Kind::ClockAhead | Kind::ClockBack => self.step_clock(kind).await?,
            Kind::Midnight => self.midnight().await?,
            Kind::Copy => self.copy(node).await?,
            Kind::Replacement => self.replace(node).await?,
            Kind::Wedge => self.wedge().await?,
        }
        let breaks = self.random.chance(500);
        self.mesh.links().heal(breaks);
        Ok(())
    }

    fn note(&self, node: usize, what: &'static str) {
        self.history.fault(node, what);
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
}

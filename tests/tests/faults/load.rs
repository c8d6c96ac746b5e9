//! Clients over HTTP and the Redis protocol. They repeat requests through proxies that drop, delay and
//! repeat.

use crate::client::{Client, Metrics};
use crate::history::History;
use crate::ledger::Ledger;
use crate::mesh::NODES;
use crate::wire::{Level, Operation, Wire};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tallymesh_tests::random::Random;
use tokio::sync::{RwLock, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// Clients of each protocol. Half of them need a majority.
pub(crate) const CLIENTS: usize = 6;
/// Shortest time between two operations of a client.
const EACH: Duration = Duration::from_millis(120);
/// Operations of 1000 whose client goes away before the answer, within `GOES_AFTER_MS`.
const GOES_AWAY: u64 = 30;
const GOES_AFTER_MS: u64 = 1_000;

/// The state that all clients share.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) history: Arc<History>,
    /// Whether it is over.
    pub(crate) over: watch::Receiver<bool>,
    /// Each client locks this for reading during an operation. A fault that needs a moment without operations
    /// locks it for writing.
    pub(crate) pause: Arc<RwLock<()>>,
}

/// Metrics of the clients of a protocol.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    pub(crate) metrics: Metrics,
    /// Operations that clients abandoned.
    pub(crate) left: u64,
}

impl Load {
    /// Runs the clients of a protocol until all is over and all open requests are acknowledged.
    pub(crate) async fn run(
        self,
        wire: Wire,
        addresses: [SocketAddr; NODES],
        seed: u64,
    ) -> Result<Done, String> {
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let level = match number % 2 {
                0 => Level::Local,
                _ => Level::Quorum,
            };
            let random = Random::new(seed.wrapping_mul(31).wrapping_add(number as u64));
            let history = self.history.clone();
            let client = Client::new(wire, true, level, addresses, random.clone(), history);
            clients.spawn(self.clone().one(client, random));
        }
        let mut done = Done::default();
        while let Some(client) = clients.join_next().await {
            let client = client.map_err(|error| error.to_string())??;
            done.metrics.join(client.metrics);
            done.left += client.left;
        }
        Ok(done)
    }

    async fn one(self, mut client: Client, mut random: Random) -> Result<Done, String> {
        let mut done = Done::default();
        let mut next = Instant::now();
        while !*self.over.borrow() {
            next = (next + EACH).max(Instant::now());
            let asking = self.pause.read().await;
            let (number, counter, by) = self.ledger.ask();
            let key = self.ledger.key(number);
            let operation = Operation { key, counter, by };
            let patience = match random.chance(GOES_AWAY) {
                true => Duration::from_millis(random.range(1, GOES_AFTER_MS)),
                false => Duration::MAX,
            };
            match timeout(patience, client.make(&operation)).await {
                Ok(made) => {
                    made?;
                    self.ledger.acknowledge(number);
                }
                Err(_) => done.left += 1,
            }
            drop(asking);
            sleep_until(next).await;
        }
        done.metrics = client.metrics;
        Ok(done)
    }
}

//! Clients over HTTP and as Redis clients that ask again through proxies which drop, delay and repeat.

use crate::client::{Client, Figures};
use crate::history::History;
use crate::ledger::{self, Ledger};
use crate::mesh::NODES;
use crate::wire::{Level, Operation, Wire};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tallymesh_tests::random::Random;
use tokio::sync::{RwLock, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// Clients of each protocol. Half of them ask for a majority.
pub(crate) const CLIENTS: usize = 6;
/// Each client begins an operation so often, at most.
const EACH: Duration = Duration::from_millis(120);
/// In so many of 1000 cases a client goes away before it is answered, after this at most.
const GOES_AWAY: u64 = 30;
const GOES_AFTER_MS: u64 = 1_000;

/// What all clients share.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) history: Arc<History>,
    /// Whether it is over.
    pub(crate) over: watch::Receiver<bool>,
    /// Taken by each client as long as an operation takes, and by who needs a moment without any.
    pub(crate) pause: Arc<RwLock<()>>,
}

/// What clients of a protocol did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    pub(crate) figures: Figures,
    /// Operations that clients left alone.
    pub(crate) left: u64,
}

impl Load {
    /// Runs the clients of a protocol until all is over, and those who are asking are answered.
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
            done.figures.join(client.figures);
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
            let key = ledger::key(number);
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
        done.figures = client.figures;
        Ok(done)
    }
}

//! A client that repeats a request, at another node, until it gets an answer.

use crate::history::History;
use crate::mesh::NODES;
use crate::wire::{Connection, Level, Operation, Verdict, Wire};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tallymesh_tests::random::Random;
use tokio::time::timeout;

/// How long a client waits for its first answer. Each repetition doubles the wait, up to 8 times this.
const PATIENCE: Duration = Duration::from_millis(200);
/// Most requests for one operation. At most one node is down, so this many never fail one after the other.
const ATTEMPTS_MAX: u32 = 200;

/// Metrics of clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) operations: u64,
    pub(crate) retries: u64,
    pub(crate) timeouts: u64,
    /// Connections that broke before there was an answer.
    pub(crate) broken: u64,
    /// Answers which report that the operation had been made before.
    pub(crate) made_before: u64,
    /// Rejections, by their reason.
    pub(crate) refused: BTreeMap<String, u64>,
}

impl Metrics {
    pub(crate) fn join(&mut self, other: Metrics) {
        self.operations += other.operations;
        self.retries += other.retries;
        self.timeouts += other.timeouts;
        self.broken += other.broken;
        self.made_before += other.made_before;
        for (reason, count) in other.refused {
            *self.refused.entry(reason).or_default() += count;
        }
    }
}

/// One client, which makes one operation after the other.
pub(crate) struct Client {
    wire: Wire,
    /// Whether it gives operations their keys.
    keyed: bool,
    level: Level,
    addresses: [SocketAddr; NODES],
    connections: [Option<Connection>; NODES],
    random: Random,
    history: Arc<History>,
    pub(crate) metrics: Metrics,
}

impl Client {
    pub(crate) fn new(
        wire: Wire,
        keyed: bool,
        level: Level,
        addresses: [SocketAddr; NODES],
        random: Random,
        history: Arc<History>,
    ) -> Client {
        Client {
            wire,
            keyed,
            level,
            addresses,
            connections: Default::default(),
            random,
            history,
            metrics: Metrics::default(),
        }
    }

    /// Requests an operation until an answer acknowledges it.
    ///
    /// # Errors
    /// If an answer is wrong, or no request gets an answer.
    pub(crate) async fn make(&mut self, operation: &Operation) -> Result<(), String> {
        let request = self.wire.request(operation, self.keyed, self.level);
        let mut node = self.random.index(NODES);
        for attempt in 0..ATTEMPTS_MAX {
            let patience = PATIENCE * (1 << attempt.min(3));
            match timeout(patience, self.ask(node, &request)).await {
                Ok(Ok(answer)) => match self.wire.verdict(operation, &answer)? {
                    Verdict::Made { again } => {
                        self.history.note(
                            Some(&operation.key),
                            node,
                            "it is made, the client hears",
                        );
                        self.metrics.operations += 1;
                        self.metrics.made_before += u64::from(again == Some(true));
                        return Ok(());
                    }
                    Verdict::Refused(reason) => {
                        *self.metrics.refused.entry(reason).or_default() += 1;
                    }
                },
                Ok(Err(_)) => self.metrics.broken += 1,
                Err(_) => self.metrics.timeouts += 1,
            }
            self.metrics.retries += 1;
            node = (node + 1 + self.random.index(NODES - 1)) % NODES;
        }
        Err(format!("{}: no answer at all", operation.key))
    }

    /// Sends a request on the node's connection. The connection is kept only if an answer came. Otherwise a
    /// late answer would be taken for the next one.
    async fn ask(&mut self, node: usize, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut connection = match self.connections[node].take() {
            Some(connection) => connection,
            None => {
                let address = self.addresses[node];
                Connection::open_at(self.wire, address, self.level).await?
            }
        };
        let answer = connection.ask(request).await?;
        self.connections[node] = Some(connection);
        Ok(answer)
    }
}

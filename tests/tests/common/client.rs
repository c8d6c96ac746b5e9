//! A client that asks again, at another node, until it is answered.

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

/// How long a client waits for its first answer. Each time it asks again it waits twice as long, up to
/// 8 times.
const PATIENCE: Duration = Duration::from_millis(200);
/// How often it asks for one operation. One node is away at most, so this many never come to nothing.
const ATTEMPTS_MAX: u32 = 200;

/// What clients met.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) operations: u64,
    pub(crate) retries: u64,
    pub(crate) timeouts: u64,
    /// Connections that broke before there was an answer.
    pub(crate) broken: u64,
    /// Answers that said that the operation had been made before.
    pub(crate) made_before: u64,
    /// Refusals, by their reason.
    pub(crate) refused: BTreeMap<String, u64>,
}

impl Figures {
    pub(crate) fn join(&mut self, other: Figures) {
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
    pub(crate) figures: Figures,
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
            figures: Figures::default(),
        }
    }

    /// Asks for an operation until an answer says that it is made.
    ///
    /// # Errors
    /// An answer says what none may say, or there never is one.
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
                        self.figures.operations += 1;
                        self.figures.made_before += u64::from(again == Some(true));
                        return Ok(());
                    }
                    Verdict::Refused(reason) => {
                        *self.figures.refused.entry(reason).or_default() += 1;
                    }
                },
                Ok(Err(_)) => self.figures.broken += 1,
                Err(_) => self.figures.timeouts += 1,
            }
            self.figures.retries += 1;
            node = (node + 1 + self.random.index(NODES - 1)) % NODES;
        }
        Err(format!("{}: no answer at all", operation.key))
    }

    /// Asks on the node's connection, which is kept only if an answer came: what still comes on another
    /// one would be taken for the next answer.
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

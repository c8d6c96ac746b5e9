//! Replicas that sync over WebSocket, as browser tabs do. They are guests of the members. They count at once
//! and offline, move from node to node, and are closed without a leave.
//!
//! A guest counts an operation as acknowledged once a majority of the members has it.

use crate::history::History;
use crate::ledger::Ledger;
use crate::mesh::{Addresses, NODES};
use futures::{SinkExt, StreamExt};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tallymesh_core::{
    Input, Level, Link, Millis, Output, Question, Replica, Returned, Space, SyncConfig,
    SyncMachine, WriterId,
};
use tallymesh_tests::random::Random;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Number of guests at the same time.
pub(crate) const GUESTS: usize = 4;
/// Shortest time between two operations of a guest. `PENDING_MAX` limits the ones that are not acknowledged.
const EACH: Duration = Duration::from_millis(80);
const PENDING_MAX: usize = 200;
/// How long a guest stays at a node, and how long it lives, in milliseconds.
const STAY_MS: (u64, u64) = (2_000, 12_000);
const LIFE_MS: (u64, u64) = (8_000, 30_000);
/// How long a node may take to open a socket or to receive a frame.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two checks of a guest for work.
const TURN: Duration = Duration::from_millis(10);
/// Longest time until the last operations are acknowledged, once all is healed.
const DEADLINE: Duration = Duration::from_secs(120);

/// Metrics of guests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) acknowledged: u64,
    /// Operations of a guest that rejoined when no member could tell whether they count.
    pub(crate) unknown: u64,
    /// Operations that were not acknowledged when their guest was closed.
    pub(crate) left: u64,
    pub(crate) sockets: u64,
    pub(crate) closed: u64,
    /// Times that a guest had to rejoin under another writer. `made_again` is the number of transactions that
    /// guests replayed.
    pub(crate) returns: u64,
    pub(crate) made_again: u64,
    /// The longest time until an operation was acknowledged.
    pub(crate) longest: Duration,
}

impl Metrics {
    pub(crate) fn join(&mut self, other: Metrics) {
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
        self.left += other.left;
        self.sockets += other.sockets;
        self.closed += other.closed;
        self.returns += other.returns;
        self.made_again += other.made_again;
        self.longest = self.longest.max(other.longest);
    }
}

/// The state that all guests share.
#[derive(Clone)]
pub(crate) struct Guests {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) history: Arc<History>,
    pub(crate) over: watch::Receiver<bool>,
    pub(crate) addresses: Addresses,
}

impl Guests {
    /// Runs guests until all is over and their operations are acknowledged.
    pub(crate) async fn run(self, seed: u64) -> Result<Metrics, String> {
        let mut places = JoinSet::new();
        for number in 0..GUESTS {
            let shared = self.clone();
            let mut random = Random::new(seed.wrapping_mul(37).wrapping_add(number as u64));
            places.spawn(async move {
                let mut metrics = Metrics::default();
                while !*shared.over.borrow() {
                    let guest = Guest::new(shared.clone(), Random::new(random.next_u64()));
                    metrics.join(guest.live().await?);
                }
                Ok::<_, String>(metrics)
            });
        }
        let mut metrics = Metrics::default();
        while let Some(place) = places.join_next().await {
            metrics.join(place.map_err(|error| error.to_string())??);
        }
        Ok(metrics)
    }
}

/// An operation that is not acknowledged.
struct Pending {
    number: usize,
    /// Its clock under the guest's writer.
    clock: u64,
    since: Instant,
}

struct Guest {
    shared: Guests,
    random: Random,
    replica: Replica,
    sync: SyncMachine,
    begun: Instant,
    socket: Option<Socket>,
    node: usize,
    link: Link,
    /// In ascending order of clocks.
    pending: Vec<Pending>,
    /// The open question to the members, and the number of pending operations that it is about.
    question: Option<(Question, usize)>,
    metrics: Metrics,
}

impl Guest {
    fn new(shared: Guests, mut random: Random) -> Guest {
        let space = Space::default();
        let writer = mint(&mut random);
        Guest {
            shared,
            replica: Replica::new(space, writer),
            sync: SyncMachine::new(SyncConfig::default(), random.next_u64()),
            random,
            begun: Instant::now(),
            socket: None,
            node: 0,
            link: Link(0),
            pending: Vec::new(),
            question: None,
            metrics: Metrics::default(),
        }
    }

    fn now(&self) -> Millis {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn input(&mut self, input: Input<'_>) {
        self.sync.handle(self.now(), &mut self.replica, input);
    }

    fn draw(&mut self, (from, upto): (u64, u64)) -> Instant {
        Instant::now() + Duration::from_millis(self.random.range(from, upto))
    }

    /// Counts until it is closed, or until all is over and its operations are acknowledged.
    async fn live(mut self) -> Result<Metrics, String> {
        let closes = self.draw(LIFE_MS);
        let (mut moves, mut writes) = (Instant::now(), Instant::now());
        let mut deadline = None;
        loop {
            let now = Instant::now();
            let over = *self.shared.over.borrow();
            if over {
                let deadline = *deadline.get_or_insert(now + DEADLINE);
                if self.pending.is_empty() {
                    return Ok(self.metrics);
                }
                if now > deadline {
                    return Err(self.waits());
                }
            } else if now >= closes {
                self.metrics.closed += 1;
                self.metrics.left += self.pending.len() as u64;
                return Ok(self.metrics);
            }
            if now >= moves {
                self.leave();
                self.come().await;
                moves = self.draw(STAY_MS);
            }
            if !over && now >= writes && self.pending.len() < PENDING_MAX {
                self.write()?;
                writes = now + EACH;
            }
            self.input(Input::Tick);
            self.ask();
            self.turn().await;
        }
    }

    /// Makes an operation on its own replica.
    fn write(&mut self) -> Result<(), String> {
        let (number, counter, by) = self.shared.ledger.ask();
        let made = self.replica.add(&counter, by);
        made.map_err(|error| error.to_string())?;
        self.note(number, "a guest made it");
        self.pending.push(Pending {
            number,
            clock: self.replica.clock(),
            since: Instant::now(),
        });
        self.input(Input::Changed);
        Ok(())
    }

    fn note(&self, number: usize, what: &'static str) {
        let key = self.shared.ledger.key(number);
        self.shared.history.note(Some(&key), self.node, what);
    }

    /// Asks the members whether they have the pending operations, and reads their answers.
    fn ask(&mut self) {
        let Some((question, about)) = self.question else {
            if !self.pending.is_empty() && self.socket.is_some() {
                let (now, written) = (self.now(), self.replica.consistency().written());
                let asked = self
                    .sync
                    .ask_for_write(now, &self.replica, Level::Quorum, written);
                self.question = Some((asked, self.pending.len()));
            }
            return;
        };
        let reach = self.sync.reach(&self.replica, question);
        if !reach.is_some_and(|reach| reach.is_reached()) {
            return;
        }
        self.forget_question();
        for it in self.pending.drain(..about).collect::<Vec<_>>() {
            self.note(it.number, "a guest hears that it is made");
            self.shared.ledger.acknowledge(it.number);
            self.metrics.acknowledged += 1;
            self.metrics.longest = self.metrics.longest.max(it.since.elapsed());
        }
    }

    fn forget_question(&mut self) {
        if let Some((question, _)) = self.question.take() {
            self.sync.end_question(question);
        }
    }

    /// Connects to any node that runs.
    async fn come(&mut self) {
        self.node = self.random.index(NODES);
        let Some(address) = self.shared.addresses.of(self.node) else {
            return;
        };
        if let Some(socket) = open(address).await {
            self.socket = Some(socket);
            self.metrics.sockets += 1;
            self.link = Link(self.link.0 + 1);
            self.input(Input::Connected {
                link: self.link,
                broadcast: false,
            });
        }
    }

    fn leave(&mut self) {
        if self.socket.take().is_some() {
            self.input(Input::Disconnected { link: self.link });
        }
    }

    /// Executes the outputs of the machine, and handles a frame if one arrives soon.
    async fn turn(&mut self) {
        while let Some(output) = self.sync.poll() {
            match output {
                Output::Send { link, bytes } if link == self.link => {
                    self.send(bytes.to_vec()).await
                }
                Output::Renew => {
                    self.forget_question();
                    let writer = mint(&mut self.random);
                    self.input(Input::Renew { writer });
                }
                Output::Returned(returned) => self.returned(&returned),
                Output::Refused { close: Some(_), .. } => self.leave(),
                _ => {}
            }
        }
        let Some(socket) = &mut self.socket else {
            return tokio::time::sleep(TURN).await;
        };
        match timeout(TURN, socket.next()).await {
            Ok(Some(Ok(Message::Binary(bytes)))) => self.input(Input::Frame {
                link: self.link,
                bytes: &bytes,
            }),
            Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) => self.leave(),
            Ok(Some(Ok(_))) | Err(_) => {}
        }
    }

    async fn send(&mut self, bytes: Vec<u8>) {
        let Some(socket) = &mut self.socket else {
            return;
        };
        let sent = timeout(PATIENCE, socket.send(Message::Binary(bytes.into()))).await;
        if !matches!(sent, Ok(Ok(()))) {
            self.leave();
        }
    }

    /// It goes on under another writer. Pending operations have new clocks, or it is unknown whether they
    /// count.
    fn returned(&mut self, returned: &Returned) {
        self.forget_question();
        self.metrics.returns += 1;
        self.metrics.made_again += returned.again.len() as u64;
        let unknown = |clock: u64| {
            let range = returned.unknown;
            range.is_some_and(|(first, last)| (first..=last).contains(&clock))
        };
        for it in std::mem::take(&mut self.pending) {
            if unknown(it.clock) {
                self.metrics.unknown += 1;
                self.note(it.number, "a guest comes back, and can't know of it");
                continue;
            }
            let again = returned.again.iter().find(|again| again.was == it.clock);
            self.note(
                it.number,
                match again {
                    Some(_) => "a guest comes back, and makes it again",
                    None => "a guest comes back, and it counts",
                },
            );
            let clock = again.and_then(|again| again.clock).unwrap_or(0);
            self.pending.push(Pending { clock, ..it });
        }
        self.pending.sort_by_key(|it| it.clock);
    }

    /// Describes a guest whose operations are not acknowledged at the end.
    fn waits(&self) -> String {
        let reach = self
            .question
            .and_then(|(question, _)| self.sync.reach(&self.replica, question));
        let first = self.pending.first();
        let history = first.map(|it| self.shared.history.of(&self.shared.ledger.key(it.number)));
        format!(
            "a guest at node {}, writer {}, clock {}, waits for {} operations; socket: {}, reach: \
             {reach:?}, home: {:?}, links: {:?}\n{}",
            self.node,
            self.replica.writer(),
            self.replica.clock(),
            self.pending.len(),
            self.socket.is_some(),
            self.replica.members().sponsor(),
            self.sync.links().collect::<Vec<_>>(),
            history.unwrap_or_default(),
        )
    }
}

fn mint(random: &mut Random) -> WriterId {
    WriterId::mint(&Space::default(), &random.bytes(), &random.bytes())
}

async fn open(address: SocketAddr) -> Option<Socket> {
    let url = format!("ws://{address}/v1/spaces/default/sync");
    match timeout(PATIENCE, connect_async(url)).await {
        Ok(Ok((socket, _))) => Some(socket),
        _ => None,
    }
}

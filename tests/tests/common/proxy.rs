//! A proxy that drops, delays and repeats. It has a port for each node, between clients and that node. Behind
//! the port, whole requests and answers are lost, late, sent again, or broken off in the middle.

use crate::history::History;
use crate::mesh::NODES;
use crate::wire::{Connection, Side, Wire};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tallymesh_tests::random::Random;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Requests of 1000 that never reach the node.
const DROP_REQUEST: u64 = 30;
/// Answers of 1000 that never reach the client.
const DROP_ANSWER: u64 = 40;
/// Answers of 1000 that are broken off in the middle.
const BREAK_ANSWER: u64 = 30;
const DELAY_REQUEST: u64 = 40;
const DELAY_ANSWER: u64 = 40;
/// Requests of 1000 that reach a node, this one or another, once more.
const REPEAT: u64 = 40;
/// The longest of the short delays, which are half of all delays.
const SHORT_MS: u64 = 20;
/// The longest of the other delays. By then most clients have repeated the request elsewhere.
const LONG_MS: u64 = 1_500;

/// Metrics of a proxy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    /// Whole requests that arrived at the proxy.
    pub(crate) requests: u64,
    pub(crate) dropped_requests: u64,
    pub(crate) dropped_answers: u64,
    pub(crate) broken_answers: u64,
    pub(crate) delayed_requests: u64,
    pub(crate) delayed_answers: u64,
    pub(crate) repeated: u64,
    /// Requests that were sent on to a node, including repeated ones.
    pub(crate) forwarded: u64,
    /// Requests that were sent on and got no answer, because the node was killed.
    pub(crate) unanswered: u64,
    /// Requests to a node that was not running.
    pub(crate) unreachable: u64,
}

/// The proxy. It runs until it is dropped.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    /// The address of each node for clients.
    pub(crate) addresses: [SocketAddr; NODES],
    /// Ends with the proxy.
    _listeners: JoinSet<()>,
}

struct Shared {
    wire: Wire,
    history: Arc<History>,
    state: Mutex<State>,
    /// Number of requests on their way.
    busy: watch::Sender<usize>,
}

struct State {
    random: Random,
    /// The addresses of the nodes that run.
    nodes: [Option<SocketAddr>; NODES],
    metrics: Metrics,
}

/// The fate of a request.
struct Fate {
    reaches: bool,
    late: Option<Duration>,
    answer: Answer,
    answer_late: Option<Duration>,
    /// The node that gets a repetition, and the delay of it.
    again: Option<(usize, Duration)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Comes,
    IsDropped,
    Breaks,
}

impl Fate {
    fn draw(random: &mut Random) -> Fate {
        let fate = random.below(1000);
        let answer = match fate.checked_sub(DROP_REQUEST) {
            Some(fate) if fate < DROP_ANSWER => Answer::IsDropped,
            Some(fate) if fate < DROP_ANSWER + BREAK_ANSWER => Answer::Breaks,
            _ => Answer::Comes,
        };
        let wait = |random: &mut Random| {
            let most = *random.pick(&[SHORT_MS, LONG_MS]);
            Duration::from_millis(random.range(1, most))
        };
        let late = |random: &mut Random, permille| random.chance(permille).then(|| wait(random));
        Fate {
            reaches: fate >= DROP_REQUEST,
            late: late(random, DELAY_REQUEST),
            answer,
            answer_late: late(random, DELAY_ANSWER),
            again: late(random, REPEAT).map(|wait| (random.index(NODES), wait)),
        }
    }
}

impl Proxy {
    pub(crate) async fn start(wire: Wire, seed: u64, history: Arc<History>) -> io::Result<Proxy> {
        let state = State {
            random: Random::new(seed),
            nodes: [None; NODES],
            metrics: Metrics::default(),
        };
        let shared = Arc::new(Shared {
            wire,
            history,
            state: Mutex::new(state),
            busy: watch::Sender::new(0),
        });
        let mut addresses = Vec::new();
        let mut listeners = JoinSet::new();
        for node in 0..NODES {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            addresses.push(listener.local_addr()?);
            let shared = shared.clone();
            listeners.spawn(async move {
                while let Ok((client, _)) = listener.accept().await {
                    let shared = shared.clone();
                    tokio::spawn(async move {
                        // Broken connections are the purpose of this proxy.
                        let _ = shared.serve(client, node).await;
                    });
                }
            });
        }
        Ok(Proxy {
            shared,
            addresses: addresses.try_into().map_err(|_| io::ErrorKind::Other)?,
            _listeners: listeners,
        })
    }

    /// Sets the address of a node, or `None` if it does not run.
    pub(crate) fn route(&self, node: usize, address: Option<SocketAddr>) {
        self.shared.state().nodes[node] = address;
    }

    pub(crate) fn metrics(&self) -> Metrics {
        self.shared.state().metrics.clone()
    }

    /// Waits until no message is on its way any more, including late ones.
    pub(crate) async fn drained(&self) {
        // The proxy itself has the sender.
        let _ = self
            .shared
            .busy
            .subscribe()
            .wait_for(|busy| *busy == 0)
            .await;
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, figure: impl FnOnce(&mut Metrics)) {
        figure(&mut self.state().metrics);
    }

    /// Serves a client's connection until it breaks. The effects of a request go on after the client has gone
    /// away.
    async fn serve(self: &Arc<Shared>, client: TcpStream, node: usize) -> io::Result<()> {
        let mut client = Connection::new(self.wire, client)?;
        let mut upstream = None;
        while let Some(request) = client.next(Side::Client).await? {
            let _busy = Busy::new(self);
            let key = self.wire.key(&request);
            let key = key.as_deref();
            let fate = Fate::draw(&mut self.state().random);
            self.count(|it| it.requests += 1);
            if let Some((other, wait)) = fate.again {
                self.repeat(other, wait, request.clone());
            }
            if !fate.reaches {
                self.history.note(key, node, "the request is dropped");
                self.count(|it| it.dropped_requests += 1);
                continue;
            }
            if let Some(wait) = fate.late {
                self.history.note(key, node, "the request is late");
                self.count(|it| it.delayed_requests += 1);
                sleep(wait).await;
            }
            let answer = self.pass(&mut upstream, node, &request).await?;
            if let Some(wait) = fate.answer_late {
                self.history.note(key, node, "the answer is late");
                self.count(|it| it.delayed_answers += 1);
                sleep(wait).await;
            }
            match fate.answer {
                Answer::Comes => client.send(&answer).await?,
                Answer::IsDropped => {
                    self.history.note(key, node, "the answer is dropped");
                    self.count(|it| it.dropped_answers += 1);
                }
                Answer::Breaks => {
                    self.history.note(key, node, "the answer breaks off");
                    self.count(|it| it.broken_answers += 1);
                    return client.send(&answer[..answer.len() / 2]).await;
                }
            }
        }
        Ok(())
    }

    /// Sends a request on to a node, and receives the answer.
    async fn pass(
        &self,
        upstream: &mut Option<Connection>,
        node: usize,
        request: &[u8],
    ) -> io::Result<Vec<u8>> {
        let key = self.wire.key(request);
        if upstream.is_none() {
            let address = self.state().nodes[node];
            let opened = match address {
                Some(address) => Connection::open(self.wire, address).await,
                None => Err(io::ErrorKind::NotConnected.into()),
            };
            if opened.is_err() {
                self.count(|it| it.unreachable += 1);
            }
            *upstream = Some(opened?);
        }
        let connection = upstream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        self.count(|it| it.forwarded += 1);
        self.history.note(key.as_deref(), node, "is asked");
        let answer = connection.ask(request).await;
        let what = match &answer {
            Ok(_) => "has answered",
            Err(_) => "breaks the connection",
        };
        self.history.note(key.as_deref(), node, what);
        if answer.is_err() {
            self.count(|it| it.unanswered += 1);
        }
        answer
    }

    /// Sends a request once more, and drops the answer.
    fn repeat(self: &Arc<Shared>, node: usize, wait: Duration, request: Vec<u8>) {
        let busy = Busy::new(self);
        tokio::spawn(async move {
            sleep(wait).await;
            let shared = &busy.0;
            shared.count(|it| it.repeated += 1);
            // This may fail without any effect on the test.
            let _ = shared.pass(&mut None, node, &request).await;
        });
    }
}

/// A request that is on its way.
struct Busy(Arc<Shared>);

impl Busy {
    fn new(shared: &Arc<Shared>) -> Busy {
        shared.busy.send_modify(|busy| *busy += 1);
        Busy(shared.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.send_modify(|busy| *busy -= 1);
    }
}

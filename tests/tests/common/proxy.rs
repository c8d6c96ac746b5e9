//! A proxy that drops, delays and repeats: between clients and each node stands a port of its own, and
//! behind it whole requests and answers are lost, late, sent again, or broken off in the middle.

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

/// In so many of 1000 cases a request never reaches the node.
const DROP_REQUEST: u64 = 30;
/// In so many the answer never reaches the client,
const DROP_ANSWER: u64 = 40;
/// or is broken off in the middle.
const BREAK_ANSWER: u64 = 30;
const DELAY_REQUEST: u64 = 40;
const DELAY_ANSWER: u64 = 40;
/// In so many a request reaches a node, this one or another, once more.
const REPEAT: u64 = 40;
/// Half of the delays are short,
const SHORT_MS: u64 = 20;
/// the others are up to this, so that most clients have asked again elsewhere meanwhile.
const LONG_MS: u64 = 1_500;

/// What a proxy did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Whole requests that came.
    pub(crate) requests: u64,
    pub(crate) dropped_requests: u64,
    pub(crate) dropped_answers: u64,
    pub(crate) broken_answers: u64,
    pub(crate) delayed_requests: u64,
    pub(crate) delayed_answers: u64,
    pub(crate) repeated: u64,
    /// Requests that were handed to a node, repeated ones included.
    pub(crate) forwarded: u64,
    /// Of these, the ones that nothing came back to: the node was killed.
    pub(crate) unanswered: u64,
    /// Requests to a node that was not there.
    pub(crate) unreachable: u64,
}

/// The proxy, as long as it is kept.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    /// Where clients reach each node.
    pub(crate) addresses: [SocketAddr; NODES],
    /// Ends with the proxy.
    _listeners: JoinSet<()>,
}

struct Shared {
    wire: Wire,
    history: Arc<History>,
    state: Mutex<State>,
    /// Requests that are still on their way.
    busy: watch::Sender<usize>,
}

struct State {
    random: Random,
    /// Where the nodes are, as far as they run.
    nodes: [Option<SocketAddr>; NODES],
    figures: Figures,
}

/// What befalls a request.
struct Fate {
    reaches: bool,
    late: Option<Duration>,
    answer: Answer,
    answer_late: Option<Duration>,
    /// Where it comes once more, and how much later.
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
            figures: Figures::default(),
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
                        // A connection that breaks is what a proxy is for.
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

    /// Says where a node is from now on, or that it is nowhere.
    pub(crate) fn route(&self, node: usize, address: Option<SocketAddr>) {
        self.shared.state().nodes[node] = address;
    }

    pub(crate) fn figures(&self) -> Figures {
        self.shared.state().figures.clone()
    }

    /// Waits until nothing is on its way any more, however late.
    pub(crate) async fn drained(&self) {
        // The sender is kept by the proxy itself.
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

    fn count(&self, figure: impl FnOnce(&mut Figures)) {
        figure(&mut self.state().figures);
    }

    /// Serves a client's connection until it breaks. What a request brings about goes on when the
    /// client has gone away.
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

    /// Hands a request to a node and takes the answer.
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

    /// Sends a request once more, and throws the answer away.
    fn repeat(self: &Arc<Shared>, node: usize, wait: Duration, request: Vec<u8>) {
        let busy = Busy::new(self);
        tokio::spawn(async move {
            sleep(wait).await;
            let shared = &busy.0;
            shared.count(|it| it.repeated += 1);
            // Whether it gets there is of no concern.
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

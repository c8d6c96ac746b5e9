//! A store that stops in the middle of a commit. The tests check that nothing that depends on the
//! commit leaves the node meanwhile.
//!
//! The tests see that nothing has left without a wait. The driver sends all output of one batch
//! before it takes the next one. So a sign that a later batch was taken is enough. See
//! [`Bench::settle`].

mod contained;
#[path = "../../../engine/src/driver/tests/gate.rs"]
mod gate;
mod shares;

use crate::{RespConfig, Serve};
use futures::FutureExt;
use gate::Gate;
use std::future::Future;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::thread;
use std::time::{Duration, Instant};
use tallymesh_core::wire::{Body, Digests, Frame, Hello, Pull, VERSION};
use tallymesh_core::{KeyedBounds, Level, Op, Replica, SyncConfig, VersionVector, WriterId};
use tallymesh_core::{Link, Space};
use tallymesh_node_engine::driver::replay::Replay;
use tallymesh_node_engine::driver::{Handle, NewLink, NoNews, Order, Running, Start, Watch, start};
use tallymesh_node_engine::metrics::Metrics;
use tallymesh_node_ground::clock::WallClock;
use tallymesh_node_ground::model::SpaceId;
use tallymesh_node_ground::model::{Counter, Demand, News, PeerKind, Refusal, Wanted};
use tallymesh_node_store::{Durability, Store, StoreError};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How long a test waits for something that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

const SPACE: SpaceId = SpaceId(0);

/// How many idempotency keys are remembered, which tests fill.
const KEYED_BOUNDS: KeyedBounds = KeyedBounds {
    all: 300,
    guests: 270,
    ticket: 75,
    address: 150,
};

/// A peer that sends the frames of the test, and merges the frames that it receives.
struct Friend {
    link: Link,
    outbox: mpsc::Receiver<Order>,
    /// Whether it receives the broadcast.
    hears_all: bool,
    replica: Replica,
    pulls: u32,
}

/// Merges a frame.
fn hear(replica: &mut Replica, order: Order) {
    let bytes = match order {
        Order::Send(_, frame) => frame.to_vec(),
        Order::Broadcast(_, bytes) => bytes,
        Order::Close(..) => panic!("{order:?}"),
    };
    let merged = match Frame::decode(&bytes).expect("a frame").body {
        Body::Push(message) => replica.merge(&message),
        Body::Delta(delta) => replica.merge(&delta.message),
        _ => return,
    };
    merged.expect("a good message");
}

/// A driver on a gate, and everything that its clients and peers receive.
struct Bench {
    runtime: Runtime,
    gate: Gate,
    handle: Handle,
    ended: oneshot::Receiver<Result<(), StoreError>>,
    metrics: Metrics,
    /// Commands of Redis clients so far.
    commands: usize,
    /// Two peers, one of which receives pushes by broadcast.
    friends: Vec<Friend>,
    broadcast: mpsc::Receiver<Order>,
    news: Watch,
    client: TcpStream,
    subscriber: TcpStream,
}

/// A request that was sent.
type PendingRequest<T> = Pin<Box<dyn Future<Output = Result<T, Refusal>>>>;

impl Bench {
    /// Starts a node with peers, a reader of events, a Redis client and a subscriber.
    fn new(durability: Durability) -> Bench {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_time().build().expect("a runtime");
        let gate = Gate::new();
        let metrics = Metrics::new();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let redis = listener.local_addr().expect("an address");
        let (orders, broadcast) = mpsc::channel(1024);
        let running = start(Start {
            spaces: vec![Space::default()],
            owner: [7; 32],
            node_table: tallymesh_node_engine::network::NodeTable::default(),
            guest_timeout_ms: 0,
            key_window: Duration::from_secs(60),
            keyed_bounds: KEYED_BOUNDS,
            durability,
            store: Box::new(gate.clone()),
            folder: None,
            ledger: tallymesh_node_engine::access::Ledger::open(None).expect("in memory"),
            sockets: Some(crate::begin(Serve {
                listener: Some(listener),
                port: redis.port(),
                rules: RespConfig::default(),
                clients_max: 16,
                ledger: tallymesh_node_engine::access::Ledger::open(None).expect("in memory"),
                token: tallymesh_node_engine::access::OperatorToken::open(None).expect("drawn"),
            })),
            broadcast: orders,
            used: mpsc::unbounded_channel().0,
            metrics: metrics.clone(),
            clock: WallClock::default(),
        });
        let Running { handle, ended } = running.expect("start");
        let news = runtime.block_on(handle.watch(SPACE, Some(Wanted::default())));
        let connect = || {
            let socket = TcpStream::connect(redis).expect("connect");
            socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            socket
        };
        let mut bench = Bench {
            runtime,
            gate,
            handle,
            ended,
            metrics,
            commands: 0,
            friends: Vec::new(),
            broadcast,
            news: news.expect("a reader"),
            client: connect(),
            subscriber: connect(),
        };
        bench.friends = [false, true].map(|it| bench.hello(it)).into();
        let socket = &mut bench.subscriber;
        socket
            .write_all(b"SUBSCRIBE __keyspace@0__:a\r\n")
            .expect("send");
        expect(socket, "*3|$9|subscribe|$16|__keyspace@0__:a|:1|");
        bench.commands += 1;
        bench.command("PING");
        expect(&mut bench.client, "+PONG|");
        bench.settle();
        bench.take_frames();
        bench
    }

    /// Opens a link on which nothing has been sent yet.
    fn connect(&self, broadcast: bool) -> (Link, mpsc::Receiver<Order>) {
        let (outbox, inbox) = mpsc::channel(1024);
        let link = self.handle.next_link();
        self.runtime.block_on(self.handle.connect(NewLink {
            link,
            spaces: None,
            kind: PeerKind::Libp2p,
            peer: "a test".to_owned(),
            broadcast,
            outbox,
            from: Default::default(),
        }));
        (link, inbox)
    }

    /// A peer that has sent its hello.
    fn hello(&self, broadcast: bool) -> Friend {
        let (link, outbox) = self.connect(broadcast);
        let mut replica = Replica::new(Space::default(), WriterId::from_bytes([9; 16]));
        let digests = Digests {
            vector: replica.digest(),
            contents: replica.forks_mut().content_digest(),
        };
        let hello = Body::Hello(Hello {
            version_min: VERSION,
            version_max: VERSION,
            capabilities: 0,
            session: u64::from(link.0),
            agent: "a test".to_owned(),
            nonce: [0; 16],
            proof: Vec::new(),
            digests,
            writer: replica.writer(),
            clock: 0,
        });
        self.say(link, hello);
        Friend {
            link,
            outbox,
            hears_all: broadcast,
            replica,
            pulls: 0,
        }
    }

    fn say(&self, link: Link, body: Body) {
        let space = Space::default();
        let bytes = Frame { space, body }.encode();
        self.runtime.block_on(self.handle.frame(link, bytes));
    }

    /// Makes each peer request everything.
    fn pull(&mut self) {
        for at in 0..self.friends.len() {
            self.friends[at].pulls += 1;
            let pull = Pull {
                id: self.friends[at].pulls,
                chunk: 0,
                vector: VersionVector::default(),
            };
            self.say(self.friends[at].link, Body::Pull(pull));
        }
    }

    /// Sends a request that can't be answered yet.
    fn ask<T: 'static, F>(&self, request: impl FnOnce(Handle) -> F) -> PendingRequest<T>
    where
        F: Future<Output = Result<T, Refusal>> + 'static,
    {
        let mut asked: PendingRequest<T> = Box::pin(request(self.handle.clone()));
        // The queue has room, so one poll sends it.
        assert!(asked.as_mut().now_or_never().is_none());
        asked
    }

    fn add(&self, key: &'static str) -> PendingRequest<Counter> {
        self.ask(move |handle| async move { handle.add(SPACE, key.to_owned(), 1).await })
    }

    fn read(&self, key: &'static str) -> PendingRequest<Option<Counter>> {
        self.ask(move |handle| async move { handle.read(SPACE, key.to_owned()).await })
    }

    /// Waits for an answer.
    fn answer<T>(&self, future: impl Future<Output = T>) -> T {
        within_patience(&self.runtime, future)
    }

    /// Sends a line from the Redis client, and waits until it is executed.
    fn command(&mut self, line: &str) {
        let line = format!("{line}\r\n");
        self.client.write_all(line.as_bytes()).expect("send");
        self.commands += line.lines().count();
        self.wait_for("resp_commands_total", self.commands);
    }

    /// Requests the stop of the node, and waits until the driver handles it.
    fn ask_to_stop(&self) {
        let taken = self.figure("batch_commands_sum");
        self.runtime.block_on(self.handle.stop());
        self.wait_for("batch_commands_sum", taken + 1);
    }

    /// A metric with a whole number.
    fn figure(&self, name: &str) -> usize {
        let text = self.metrics.text(&[]);
        let name = format!("tallymesh_{name} ");
        let figure = text.lines().find_map(|line| line.strip_prefix(&name));
        let figure = figure.and_then(|figure| figure.trim_end_matches(".0").parse().ok());
        figure.expect("a number")
    }

    fn wait_for(&self, name: &str, wanted: usize) {
        let since = Instant::now();
        while self.figure(name) < wanted {
            assert!(since.elapsed() < PATIENCE, "{name} is below {wanted}");
            thread::yield_now();
        }
    }

    /// Observes that the driver takes a batch after everything that was sent to it. Garbage on a
    /// link makes the driver close the link, which waits for no commit. Returns whether the link
    /// received anything else.
    fn probe(&self) -> bool {
        let (link, mut inbox) = self.connect(false);
        let garbage = self.handle.frame(link, b"garbage".to_vec());
        self.runtime.block_on(garbage);
        let mut sent = false;
        loop {
            match self.answer(inbox.recv()) {
                Some(Order::Close(..)) => return sent,
                Some(_) => sent = true,
                None => panic!("the driver has ended"),
            }
        }
    }

    /// Observes that the driver handles everything that was sent to it and sends what it may. That
    /// includes the changes that the sync machine collects before a push. Returns whether new links
    /// received anything.
    fn settle(&self) -> bool {
        let delay = Duration::from_millis(SyncConfig::default().push_delay_ms.into());
        let since = Instant::now();
        let mut sent = self.probe();
        while since.elapsed() < 2 * delay {
            sent |= self.probe();
        }
        // The first probe is in a batch that begins now, and that batch has ended when the second
        // probe is taken.
        sent | self.probe() | self.probe()
    }

    /// Receives the frames for peers; returns how many there were.
    fn take_frames(&mut self) -> usize {
        let mut count = 0;
        for friend in &mut self.friends {
            while let Ok(order) = friend.outbox.try_recv() {
                hear(&mut friend.replica, order);
                count += 1;
            }
            while friend.hears_all
                && let Ok(order) = self.broadcast.try_recv()
            {
                hear(&mut friend.replica, order);
                count += 1;
            }
        }
        count
    }

    /// Peers have received nothing.
    fn expect_no_frames(&mut self) {
        assert!(!self.settle(), "a new link was told something");
        assert_eq!(self.take_frames(), 0, "peers were told something");
    }

    /// Neither peers nor clients have received anything.
    fn expect_silence(&mut self) {
        self.expect_no_frames();
        assert!(matches!(self.news.try_recv(), Ok(None)));
        for socket in [&mut self.client, &mut self.subscriber] {
            socket.set_nonblocking(true).expect("a setting");
            let read = socket.read(&mut [0]).map_err(|error| error.kind());
            assert_eq!(read, Err(ErrorKind::WouldBlock), "a reply");
            socket.set_nonblocking(false).expect("a setting");
        }
    }

    /// The next event is that this counter is 1.
    fn expect_news(&mut self, key: &str) {
        let Ok(News::Changed(changes, _)) = within_patience(&self.runtime, self.news.recv()) else {
            panic!("something else");
        };
        let told: Vec<_> = changes
            .counters
            .iter()
            .map(|it| (it.key.as_str(), it.now))
            .collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!((told[0].0, told[0].1.map(|now| now.value)), (key, Some(1)));
    }

    /// Waits until both peers have these counters, which are 1.
    fn expect_peers(&mut self, keys: &[&str]) {
        let since = Instant::now();
        let holds = |friend: &Friend| keys.iter().all(|key| friend.replica.value(key) == Some(1));
        while !self.friends.iter().all(holds) {
            assert!(since.elapsed() < PATIENCE, "peers are not told");
            self.take_frames();
            thread::yield_now();
        }
    }

    /// Makes the stopped commit fail. Waiting clients learn only that the node has ended.
    fn fail(mut self, asked: Vec<PendingRequest<Counter>>) {
        self.gate.fail();
        // A waiting client learns at once that the node stopped, and gets no error of the program.
        for asked in asked {
            assert_eq!(self.answer(asked), Err(Refusal::Stopped));
        }
        let ended = within_patience(&self.runtime, &mut self.ended).expect("it tells how it ended");
        assert_eq!(ended.expect_err("failed").code(), "store_io");
        for friend in &mut self.friends {
            assert!(self.runtime.block_on(friend.outbox.recv()).is_none());
        }
        assert!(self.runtime.block_on(self.broadcast.recv()).is_none());
        assert_eq!(self.news.try_recv().err(), Some(NoNews::Stopped));
        for socket in [&mut self.client, &mut self.subscriber] {
            // With unread input the system resets the connection.
            let read = socket.read(&mut [0]).unwrap_or(0);
            assert_eq!(read, 0, "a reply");
        }
        let late = self.runtime.block_on(self.handle.status());
        assert_eq!(late.err(), Some(Refusal::Stopped));
    }

    fn stop(self) {
        self.runtime.block_on(self.handle.stop());
        within_patience(&self.runtime, self.ended)
            .expect("it tells")
            .expect("well");
    }
}

fn within_patience<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    let waited = async { timeout(PATIENCE, future).await };
    runtime.block_on(waited).expect("it comes in time")
}

/// Waits for these bytes, in which `|` is the end of a line.
fn expect(socket: &mut TcpStream, wanted: &str) {
    let wanted = wanted.replace('|', "\r\n");
    let mut read = vec![0; wanted.len()];
    socket.read_exact(&mut read).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&read), wanted);
}

const TOLD_OF_A: &str = "*3|$7|message|$16|__keyspace@0__:a|$6|incrby|";

#[test]
fn nothing_leaves_before_the_commit_that_it_tells_of() {
    let mut bench = Bench::new(Durability::Always);
    bench.gate.hold();
    let mut add = bench.add("a");
    assert_eq!(bench.gate.held(), [Some(1), None]);
    let mut read = bench.read("a");
    // The read shares no turn with the next change, whose commit it would wait for.
    bench.probe();
    bench.command("INCR b\r\nGET a");
    let mut later = bench.read("a");
    bench.pull();
    bench.expect_silence();
    assert!(add.as_mut().now_or_never().is_none());
    assert!(read.as_mut().now_or_never().is_none());
    bench.gate.let_one();
    assert_eq!(bench.answer(add).expect("well").now.value, 1);
    assert_eq!(
        bench.answer(read).expect("well").expect("it is").now.value,
        1
    );
    expect(&mut bench.subscriber, TOLD_OF_A);
    bench.expect_news("a");
    // The changes made meanwhile are in the next commit.
    assert_eq!(bench.gate.held(), [Some(1), Some(1)]);
    bench.expect_silence();
    assert!(later.as_mut().now_or_never().is_none());
    bench.gate.open();
    expect(&mut bench.client, ":1|$1|1|");
    bench.expect_news("b");
    assert!(bench.answer(later).is_ok());
    bench.expect_peers(&["a", "b"]);
    bench.stop();
}

#[test]
fn after_a_failed_commit_nothing_leaves_and_the_node_ends() {
    let mut bench = Bench::new(Durability::Always);
    bench.gate.hold();
    let first = bench.add("a");
    assert_eq!(bench.gate.held(), [Some(1), None]);
    bench.command("INCR b\r\nGET a");
    let second = bench.add("a");
    bench.pull();
    bench.expect_silence();
    bench.fail(vec![first, second]);
}

/// With an interval, clients see changes before the commit, and peers do not.
#[test]
fn with_an_interval_only_peers_wait_for_the_commit() {
    for fails in [false, true] {
        let mut bench = Bench::new(Durability::Interval(PATIENCE * 60));
        bench.gate.hold();
        let add = bench.handle.add(SPACE, "a".to_owned(), 1);
        assert_eq!(bench.answer(add).expect("well").now.value, 1);
        expect(&mut bench.subscriber, TOLD_OF_A);
        bench.expect_news("a");
        bench.command("INCR b\r\nGET a");
        expect(&mut bench.client, ":1|$1|1|");
        bench.expect_news("b");
        bench.pull();
        assert_ne!(bench.gate.held(), [None, None]);
        bench.expect_no_frames();
        if fails {
            bench.fail(Vec::new());
            continue;
        }
        bench.gate.open();
        bench.expect_peers(&["a", "b"]);
        bench.stop();
    }
}

/// A level counts only durable changes, so an interval does not answer such requests earlier.
#[test]
fn a_level_is_told_once_it_is_durable_here() {
    let bench = Bench::new(Durability::Interval(PATIENCE * 60));
    bench.answer(bench.handle.found(SPACE)).expect("well");
    bench.gate.hold();
    let demand = Demand {
        level: Level::Quorum,
        ..Demand::default()
    };
    let ops = vec![("a".to_owned(), Op::Add(1)).into()];
    let mut write =
        bench.ask(move |handle| async move { handle.write(SPACE, ops, None, demand).await });
    while bench.gate.held()[0].is_none() {
        bench.gate.let_one(); // of what was done before
    }
    bench.settle();
    assert!(write.as_mut().now_or_never().is_none());
    bench.gate.open();
    assert_eq!(bench.answer(write).expect("well").done.done.len(), 1);
    bench.stop();
}

/// All writes are durable before the node ends, and their answers leave.
#[test]
fn a_stop_waits_for_all_commits() {
    for durability in [Durability::Always, Durability::Interval(PATIENCE * 60)] {
        let mut bench = Bench::new(durability);
        bench.gate.hold();
        bench.command("INCR a");
        assert_eq!(bench.gate.held(), [Some(1), None]);
        bench.command("INCR b");
        bench.ask_to_stop();
        // A driver that does not wait would most likely have ended by now.
        (0..1000).for_each(|_| thread::yield_now());
        bench.gate.let_one();
        assert_eq!(bench.gate.held(), [Some(1), Some(1)]);
        assert!((&mut bench.ended).now_or_never().is_none());
        bench.gate.open();
        expect(&mut bench.client, ":1|:1|");
        within_patience(&bench.runtime, &mut bench.ended)
            .expect("it tells")
            .expect("well");
        let mut replay = Replay::new(Space::default(), WriterId::from_bytes([2; 16]));
        let mut store = bench.gate.memory.clone();
        let loaded = store.load(&Space::default(), &mut |kept, bytes| {
            replay.take(kept.kind, bytes)
        });
        loaded.expect("what was kept");
        let replica = replay.end();
        assert_eq!(["a", "b"].map(|key| replica.value(key)), [Some(1), Some(1)]);
    }
}

//! The one task that owns every replica of this node, and its sync machines.
//!
//! All work comes through one queue. The driver takes whatever waits there as one batch, applies
//! it, writes what changed to the store with one durable commit, and only then answers the
//! requests and lets frames out. So nothing that others have seen can be lost by a crash, a
//! commit is shared by all who wait for it, and no lock is held anywhere.
//!
//! It runs on a thread of its own, because commits block. After a failed commit it stops: nobody
//! of that batch gets an answer, and no frame of it leaves.
//!
//! Counters expire by the wall clock, which is asked once for each batch. The driver wakes when the
//! next counter that it knows of expires, and deletes it as any user could. The clock may jump:
//! what matters is what it says when the driver looks, and it looks at least once a second while
//! any counter expires.

mod answers;
mod expiries;
mod membership;
mod space;

pub use answers::{
    Change, Comeback, Counter, Done, FaultReport, LinkRow, LinkState, News, Page, Query, Reading,
    Renewal, SpaceStatus, WriterRow,
};

pub use membership::{
    Absorption, ConfigurationRow, MemberChange, MemberRow, Membership, OwnerKey, Retiree,
    Retirement,
};

use crate::clock::WallClock;
use crate::handle::{Handle, NewLink, PeerKind, SpaceId, Sum};
use crate::metrics::Metrics;
use crate::store::{Record, Store, StoreError};
use space::OpenSpace;
pub(crate) use space::Tally;
use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tallymesh_core::{Error, Link, Op, Output, Shard, Space, frame_space};
use tokio::sync::{broadcast, mpsc, oneshot};

/// Most commands that wait in the queue; whoever sends more waits.
const QUEUE_COMMANDS_MAX: usize = 1024;

/// Most commands that share one commit. More would let the first of them wait too long.
const BATCH_COMMANDS_MAX: usize = 4096;

/// Longest sleep while a counter waits to expire. It bounds how late an expiry is noticed when the
/// wall clock jumps ahead, or the machine was suspended.
const EXPIRY_SLEEP_MAX: Duration = Duration::from_secs(1);

/// A request to the driver. See the methods of [`Handle`] for what each does.
pub(crate) enum Command {
    Add {
        space: SpaceId,
        key: String,
        by: i64,
        reply: oneshot::Sender<Result<Counter, crate::handle::Refusal>>,
    },
    AddMany {
        space: SpaceId,
        sums: Vec<Sum>,
        reply: oneshot::Sender<Result<(), crate::handle::Refusal>>,
    },
    Transact {
        space: SpaceId,
        ops: Vec<(String, Op)>,
        reply: oneshot::Sender<Result<Vec<Done>, crate::handle::Refusal>>,
    },
    Read {
        space: SpaceId,
        key: String,
        reply: oneshot::Sender<Option<Counter>>,
    },
    Shards {
        space: SpaceId,
        key: String,
        reply: oneshot::Sender<Option<Vec<Shard>>>,
    },
    List {
        space: SpaceId,
        query: Query,
        reply: oneshot::Sender<Page>,
    },
    Watch {
        space: SpaceId,
        reply: oneshot::Sender<broadcast::Receiver<News>>,
    },
    Writers {
        space: SpaceId,
        reply: oneshot::Sender<Vec<WriterRow>>,
    },
    Members {
        space: SpaceId,
        reply: oneshot::Sender<Membership>,
    },
    Found {
        space: SpaceId,
        reply: oneshot::Sender<Result<Membership, crate::handle::Refusal>>,
    },
    ChangeMembers {
        space: SpaceId,
        change: MemberChange,
        again: bool,
        reply: oneshot::Sender<Result<Membership, crate::handle::Refusal>>,
    },
    ForceMembers {
        space: SpaceId,
        members: Vec<OwnerKey>,
        reply: oneshot::Sender<Result<Membership, crate::handle::Refusal>>,
    },
    Retire {
        space: SpaceId,
        who: Retiree,
        reply: oneshot::Sender<Result<Vec<Retirement>, crate::handle::Refusal>>,
    },
    Status {
        reply: oneshot::Sender<Vec<SpaceStatus>>,
    },
    Links {
        reply: oneshot::Sender<Vec<LinkRow>>,
    },
    Connect(NewLink),
    Disconnect {
        link: Link,
    },
    Frame {
        link: Link,
        bytes: Vec<u8>,
    },
    Broadcast {
        from: Option<Link>,
        bytes: Vec<u8>,
    },
    Stop,
}

/// What the driver tells a transport to do.
#[derive(Debug)]
pub enum Order {
    /// Send one frame on a link.
    Send(Link, Vec<u8>),
    /// Give one frame of a space to the broadcast channel.
    Broadcast(Space, Vec<u8>),
    /// Drop a link: the peer misbehaved, or speaks another version.
    Close(Link, Error),
}

/// What the driver knows of a link.
struct Peer {
    name: String,
    kind: PeerKind,
    space: Option<SpaceId>,
    outbox: mpsc::Sender<Order>,
}

impl Peer {
    fn carries(&self, space: SpaceId) -> bool {
        self.space.is_none_or(|own| own == space)
    }
}

/// An answer that waits for the commit.
type Release = Box<dyn FnOnce() + Send>;

/// The owner of all replicas.
pub(crate) struct Driver {
    spaces: Vec<OpenSpace>,
    store: Box<dyn Store>,
    peers: HashMap<Link, Peer>,
    broadcast: mpsc::Sender<Order>,
    metrics: Metrics,
    clock: WallClock,
    started: Instant,
    releases: Vec<Release>,
    stopping: bool,
}

/// A driver that runs, and how it will end.
pub(crate) struct Running {
    /// Its client.
    pub handle: Handle,
    /// Resolves when it has ended; an error means that the store failed. Dropped without a
    /// message, it panicked.
    pub ended: oneshot::Receiver<Result<(), StoreError>>,
}

/// Replays the store and starts the driver's thread.
///
/// # Errors
/// When the store can't be read, or the thread can't be started.
pub(crate) fn start(
    spaces: Vec<Space>,
    owner: [u8; 32],
    lease_ms: u32,
    store: Box<dyn Store>,
    broadcast: mpsc::Sender<Order>,
    metrics: Metrics,
    clock: WallClock,
) -> Result<Running, StoreError> {
    let io = |doing: &str, error: &dyn std::fmt::Display| StoreError::Io {
        doing: doing.into(),
        problem: error.to_string(),
    };
    let names: Arc<[Space]> = spaces.clone().into();
    let mut driver = Driver {
        spaces: Vec::new(),
        store,
        peers: HashMap::new(),
        broadcast,
        metrics,
        clock,
        started: Instant::now(),
        releases: Vec::new(),
        stopping: false,
    };
    for space in spaces {
        let opened = OpenSpace::load(space, &owner, lease_ms, driver.store.as_mut())?;
        driver.spaces.push(opened);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| io("start the driver's timer", &error))?;
    let (sender, queue) = mpsc::channel(QUEUE_COMMANDS_MAX);
    let (end, ended) = oneshot::channel();
    thread::Builder::new()
        .name("driver".into())
        .spawn(move || {
            let result = runtime.block_on(driver.run(queue));
            let _ = end.send(result);
        })
        .map_err(|error| io("start the driver's thread", &error))?;
    Ok(Running {
        handle: Handle::new(sender, names),
        ended,
    })
}

impl Driver {
    /// Works until it is told to stop, all clients are gone, or the store fails.
    async fn run(mut self, mut queue: mpsc::Receiver<Command>) -> Result<(), StoreError> {
        let mut batch = Vec::with_capacity(BATCH_COMMANDS_MAX);
        while !self.stopping {
            let receive = queue.recv_many(&mut batch, BATCH_COMMANDS_MAX);
            let received = match self.next_deadline() {
                Some(deadline) => tokio::time::timeout_at(deadline.into(), receive).await.ok(),
                None => Some(receive.await),
            };
            if received == Some(0) {
                break; // All clients are gone.
            }
            self.metrics.batch(batch.len());
            let wall = self.clock.now();
            for space in &mut self.spaces {
                space.set_time(wall);
            }
            for command in batch.drain(..) {
                self.apply(command);
            }
            for space in &mut self.spaces {
                self.metrics.expired(space.delete_expired(wall));
            }
            self.tick();
            self.commit()?;
            self.release()?;
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// When the earliest of the sync machines wants to be woken, or a counter is looked at that is
    /// next to expire.
    fn next_deadline(&self) -> Option<Instant> {
        let millis = self.spaces.iter().filter_map(OpenSpace::next_deadline);
        let sync = millis.min().map(Duration::from_millis);
        let expiries = self.spaces.iter().filter_map(OpenSpace::next_expiry);
        let expiry = expiries.min().map(|at| {
            let left = at.saturating_sub(self.clock.now());
            Instant::now() + Duration::from_millis(left).min(EXPIRY_SLEEP_MAX)
        });
        let sync = sync.map(|since_start| self.started + since_start);
        sync.into_iter().chain(expiry).min()
    }

    fn apply(&mut self, command: Command) {
        let now = self.now();
        match command {
            Command::Add {
                space,
                key,
                by,
                reply,
            } => {
                let answer = self.spaces[space.0].add(key, by);
                self.metrics.added(answer.is_ok().into());
                self.answer(reply, answer);
            }
            Command::AddMany { space, sums, reply } => {
                let answer = self.spaces[space.0].add_many(&sums);
                self.metrics
                    .added(if answer.is_ok() { sums.len() } else { 0 });
                self.answer(reply, answer);
            }
            Command::Transact { space, ops, reply } => {
                let answer = self.spaces[space.0].transact(&ops);
                if answer.is_ok() {
                    self.metrics.operations(ops.iter().map(|(_, op)| *op));
                }
                self.answer(reply, answer);
            }
            Command::Read { space, key, reply } => {
                let answer = self.spaces[space.0].read(key);
                self.answer(reply, answer);
            }
            Command::Shards { space, key, reply } => {
                let answer = self.spaces[space.0].shards(&key);
                self.answer(reply, answer);
            }
            Command::List {
                space,
                query,
                reply,
            } => {
                let answer = self.spaces[space.0].list(&query);
                self.answer(reply, answer);
            }
            Command::Watch { space, reply } => {
                let answer = self.spaces[space.0].watchers.subscribe();
                self.answer(reply, answer);
            }
            Command::Writers { space, reply } => {
                let answer = self.spaces[space.0].writers();
                self.answer(reply, answer);
            }
            Command::Members { space, reply } => {
                let answer = self.spaces[space.0].membership(now);
                self.answer(reply, answer);
            }
            Command::Found { space, reply } => {
                let answer = self.spaces[space.0].found(now);
                self.answer(reply, answer);
            }
            Command::ChangeMembers {
                space,
                change,
                again,
                reply,
            } => {
                let answer = self.spaces[space.0].change_members(now, &change, again);
                self.answer(reply, answer);
            }
            Command::ForceMembers {
                space,
                members,
                reply,
            } => {
                let answer = self.spaces[space.0].force_members(now, &members);
                self.answer(reply, answer);
            }
            Command::Retire { space, who, reply } => {
                let answer = self.spaces[space.0].retire(now, who);
                self.answer(reply, answer);
            }
            Command::Status { reply } => {
                let answer = self.spaces.iter_mut().map(|it| it.status(now)).collect();
                self.answer(reply, answer);
            }
            Command::Links { reply } => {
                let answer = self.links(now);
                self.answer(reply, answer);
            }
            Command::Connect(link) => self.connect(now, link),
            Command::Disconnect { link } => self.disconnect(now, link),
            Command::Frame { link, bytes } => self.frame(now, link, &bytes),
            Command::Broadcast { from, bytes } => self.broadcast(now, from, &bytes),
            Command::Stop => self.stopping = true,
        }
    }

    /// Keeps an answer until the commit. Reads wait too, so that nobody sees what a crash could
    /// still take back.
    fn answer<T: Send + 'static>(&mut self, reply: oneshot::Sender<T>, answer: T) {
        self.releases.push(Box::new(move || {
            // Whoever asked may have gone away meanwhile.
            let _ = reply.send(answer);
        }));
    }

    fn connect(&mut self, now: u64, new: NewLink) {
        let peer = Peer {
            name: new.peer,
            kind: new.kind,
            space: new.space,
            outbox: new.outbox,
        };
        for (place, space) in self.spaces.iter_mut().enumerate() {
            if peer.carries(SpaceId(place)) {
                space.connected(now, new.link, new.broadcast);
            }
        }
        self.peers.insert(new.link, peer);
        self.metrics.links(self.peers.len());
    }

    fn disconnect(&mut self, now: u64, link: Link) {
        let Some(peer) = self.peers.remove(&link) else {
            return; // Closed from here before.
        };
        for (place, space) in self.spaces.iter_mut().enumerate() {
            if peer.carries(SpaceId(place)) {
                space.disconnected(now, link);
            }
        }
        self.metrics.links(self.peers.len());
    }

    /// Routes a frame to the space that it names. One of a space that is not open here, or not on
    /// this link, is dropped: the peer may have spaces that this node has not.
    fn frame(&mut self, now: u64, link: Link, bytes: &[u8]) {
        self.metrics.frame_in(bytes.len());
        let Some(peer) = self.peers.get(&link) else {
            return; // It was closed while the frame waited in the queue.
        };
        match frame_space(bytes) {
            Ok(name) => match self.find(name) {
                Some(space) if peer.carries(space) => {
                    self.spaces[space.0].frame(now, link, bytes);
                }
                _ => self.metrics.dropped_frame(),
            },
            Err(error) => self.close(now, link, error),
        }
    }

    fn broadcast(&mut self, now: u64, from: Option<Link>, bytes: &[u8]) {
        self.metrics.frame_in(bytes.len());
        match frame_space(bytes).ok().and_then(|name| self.find(name)) {
            Some(space) => self.spaces[space.0].broadcast(now, from, bytes),
            None => self.metrics.dropped_frame(),
        }
    }

    fn find(&self, name: &str) -> Option<SpaceId> {
        let mut names = self.spaces.iter().map(OpenSpace::name);
        names.position(|space| space.as_str() == name).map(SpaceId)
    }

    fn tick(&mut self) {
        let now = self.now();
        for space in &mut self.spaces {
            space.tick(now);
            self.metrics.tended(space.take_tally());
        }
    }

    /// Makes the batch durable.
    fn commit(&mut self) -> Result<(), StoreError> {
        let records: Vec<Record> = self
            .spaces
            .iter_mut()
            .filter_map(OpenSpace::record)
            .collect();
        if records.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        self.store.commit(&records).inspect_err(|error| {
            tracing::error!(%error, "the store failed, so this node stops");
            // Dropped unsent, the answers tell that the outcome is not known.
            self.releases.clear();
        })?;
        let bytes = records.iter().map(|record| record.bytes.len()).sum();
        self.metrics.commit(begun.elapsed(), bytes);
        Ok(())
    }

    /// Lets out what waited for the commit.
    fn release(&mut self) -> Result<(), StoreError> {
        for release in self.releases.drain(..) {
            release();
        }
        for place in 0..self.spaces.len() {
            while let Some(output) = self.spaces[place].poll() {
                if matches!(output, Output::Renew) {
                    // Changes nothing that would have to be stored before it is told on.
                    let now = self.now();
                    self.spaces[place].renew(now)?;
                }
                self.output(SpaceId(place), output);
            }
            self.spaces[place].settle();
        }
        Ok(())
    }

    fn output(&mut self, space: SpaceId, output: Output) {
        match output {
            Output::Send { link, bytes } => {
                if let Some(peer) = self.peers.get(&link) {
                    let bytes_out = bytes.len();
                    match peer.outbox.try_send(Order::Send(link, bytes)) {
                        Ok(()) => self.metrics.frame_out(bytes_out),
                        Err(_) => self.metrics.dropped_frame(),
                    }
                }
            }
            Output::Broadcast { bytes } => {
                let bytes_out = bytes.len();
                let name = self.spaces[space.0].name().clone();
                match self.broadcast.try_send(Order::Broadcast(name, bytes)) {
                    Ok(()) => self.metrics.frame_out(bytes_out),
                    Err(_) => self.metrics.dropped_frame(),
                }
            }
            Output::Changed { handle } => self.spaces[space.0].changed(handle),
            Output::Merged { shards, .. } => {
                self.metrics.merged(shards);
                let now = self.now();
                self.spaces[space.0].tend_soon(now);
            }
            Output::Renew => self.metrics.renewed(),
            Output::Returned(returned) => self.spaces[space.0].came_back(&returned),
            Output::Refused { close, error } => match close {
                Some(link) => self.close(self.now(), link, error),
                None => tracing::warn!(code = error.code(), %error, "refused a push"),
            },
        }
    }

    /// Forgets a link and asks its transport to drop the connection.
    fn close(&mut self, now: u64, link: Link, error: Error) {
        if let Some(peer) = self.peers.get(&link) {
            tracing::warn!(peer = %peer.name, code = error.code(), %error, "closing a link");
            // If the outbox is full, the transport keeps a connection on which nobody listens,
            // until the peer gives up.
            let _ = peer.outbox.try_send(Order::Close(link, error));
            self.disconnect(now, link);
        }
    }

    fn links(&self, now: u64) -> Vec<LinkRow> {
        let mut rows = Vec::new();
        for space in &self.spaces {
            for status in space.links() {
                let Some(peer) = self.peers.get(&status.link) else {
                    continue;
                };
                rows.push(LinkRow {
                    link: status.link.0,
                    peer: peer.name.clone(),
                    kind: peer.kind,
                    space: space.name().to_string(),
                    state: LinkState::of(&status),
                    agent: status.agent,
                    last_heard_ms: status.last_heard.map(|at| now.saturating_sub(at)),
                    bytes_in: status.bytes_in,
                    bytes_out: status.bytes_out,
                });
            }
        }
        rows.sort_by(|a, b| (a.link, &a.space).cmp(&(b.link, &b.space)));
        rows
    }
}

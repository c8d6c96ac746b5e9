//! The one task that owns every replica of this node and its sync machines.
//!
//! All work arrives through one queue, and through the sockets of the Redis protocol. The driver
//! has a thread of its own. A client that finds the driver idle does its work at once on the
//! client's own thread (`turn`).
//!
//! A request is a closure over one space (`command`): a read over `&OpenSpace`, a write over
//! `&mut OpenSpace`, and a wait over the part of a space that is not stored. The driver takes everything that waits in the queue as one batch and applies
//! it. It then gives the changes to the store as one durable commit. Answers and frames leave the
//! node once the commit that they depend on is durable (`commit_gate`). So with
//! durability `always` a crash loses nothing that a client was answered, and without `memory`
//! nothing that peers have seen. On a slow disk a separate thread makes the commit durable while the driver
//! applies the next batch.
//!
//! After a failed commit the driver stops. It sends no answer and no frame that depends on that
//! commit.
//!
//! # The steps of one turn
//! A turn applies one batch. The steps have this order for these reasons:
//!
//! | step | why it stands here |
//! |---|---|
//! | 1. Set the time, and wake the spaces that are due. | All later steps judge expiries by one time. A later clock would let the requests read counters that have expired. |
//! | 2. `update_roles` | A node whose ticket has ended may not write. After the requests, this step would let one more batch through. |
//! | 3. Apply the batch, in the order of the queue. Put long reads aside. | So a client may send a write and a short read without a wait between them, and the read sees the write. Short requests do not wait for a long read that came before them. |
//! | 4. `check_whole` | A panic may have left a replica half changed. No later step may use it. The check follows step 5, too. |
//! | 5. The clients of sockets | A client whose TLS handshake ended in step 3 is served in the same turn. The opposite order would only serve it later. |
//! | 6. `delete_expired` | Clients come first, because an expired counter is absent for them already. The deletions are writes, so they stand before step 9. |
//! | 7. Bring spaces with first content into use, and `send_hellos` | Steps 3 to 6 bring content and new links. After step 11 the hellos would leave a turn later. |
//! | 8. `resume_writes` | Rights arrive by the frames of step 3. These are writes, too, so they stand before step 9. |
//! | 9. `tick` | It informs the sync machines of all local writes of this turn. Nothing wakes the driver for a write that comes after it, so peers would learn of that write at some later turn. |
//! | 10. `end_waits` | It sees the acknowledgements and the writes of this turn. A wait that needs nothing begins in step 3 and ends here. Before step 3 each such wait would last until another turn. |
//! | 11. `poll_outputs` | All steps above make outputs. It queues the frames and the events behind the commit of step 13. It also lists the changed counters, from which that commit is made. |
//! | 12. `end_turn` | It lists the spaces whose changes step 13 takes. Without the list, the commit would lack the changes of this turn and still release their answers. |
//! | 13. `commit` | It gives the changes to the store. Then it releases every answer and frame whose commit is durable. |
//! | 14. `apply_one_long` | No change and no short answer of this turn waits for it. It is a read: the commit behind it only releases its answer. Only the driver's thread does this step. |
//!
//! `work` has the steps 1 to 12. A failure in one of them ends the turn before its commit, so the turn
//! releases no answer and no frame.
//!
//! # Expiry
//! Counters expire by the time of their space. It is the wall clock, which the driver reads once for
//! each batch, moved to the median clock of the linked members ([`SpaceClock`]). The driver wakes
//! when the next counter expires, and deletes the counter as any user could. Both clocks may
//! jump, and only their values at the time of a look count. While any counter expires, the driver
//! looks at least once a second.
//!
//! [`SpaceClock`]: tallymesh_node_ground::clock::SpaceClock

mod budgets;
mod command;
pub(crate) mod commit_gate;
mod contained;
mod copies;
mod expiries;
mod handle;
mod in_flight;
mod levels;
mod limits;
mod links;
mod nonces;
mod origins;
mod outputs;
mod permit;
mod places;
pub mod replay;
mod roles;
mod sequences;
pub(crate) mod sockets;
mod space;
mod spaces;
#[cfg(test)]
mod tests;
mod turn;
mod watchers;

use command::{Command, Queued, WriteContext, release};
pub use commit_gate::CommitGate;
pub use handle::Admission;
pub use handle::{Handle, NewLink};
pub use in_flight::Outgoing;
pub use permit::Permit;
pub use sockets::{Begin, FIRST_TOKEN, Secured, SocketClients};
pub use spaces::Spaces;
use tallymesh_node_ground::model::{MemberLists, OwnWriters, SpaceId};
use turn::Turn;
pub use watchers::{NoNews, Watch};

use crate::access::Ledger;
use crate::metrics::Metrics;
use crate::network::NodeTable;
use contained::HalfChanged;
use handle::Bell;
use links::{FLUSH_MS, Peer};
use mio::{Poll, Registry, Token, Waker};
use nonces::Nonces;
use origins::Origins;
use places::Places;
pub use space::TELL_PROGRESS;
use space::{OpenSpace, VolatileState};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};
use tallymesh_core::{Error, KeyedBounds, Link, Space, SyncConfig, frame_space};
use tallymesh_node_ground::clock::WallClock;
use tallymesh_node_store::{Committed, Durability, Store, StoreError, Worker};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot, watch};

/// The [`Bell`] among the sources that wake the driver.
const BELL: Token = Token(0);

/// Most commands that wait in the queue. A sender of more commands waits until there is room.
const QUEUE_COMMANDS_MAX: usize = 1024;

/// Most commands that share one commit. More would let the first of them wait too long.
const BATCH_COMMANDS_MAX: usize = 4096;

/// Longest sleep while a counter waits to expire. It bounds how late the driver notices an expiry
/// after the wall clock jumps ahead or the machine was suspended.
const EXPIRY_SLEEP_MAX: Duration = Duration::from_secs(1);

/// An order from the driver to a transport.
#[derive(Debug)]
pub enum Order {
    /// Send one frame on a link.
    Send(Link, Outgoing),
    /// Give one frame of a space to the broadcast channel.
    Broadcast(Space, Vec<u8>),
    /// Close a link: the peer misbehaved, or speaks another version.
    Close(Link, Error),
}

/// Each link receives one digest in this time on average, in milliseconds, however many spaces it
/// carries. A lower value finds lost pushes sooner, and costs more on a node with thousands of
/// spaces in use.
const DIGEST_MS: u32 = 5;

/// The place under which refused frames are counted in the metrics.
const SYNC: &str = "sync";

/// An answer that waits for its commit.
pub type Release = Box<dyn FnOnce() + Send>;

/// The owner of all replicas.
pub(crate) struct Driver {
    spaces: Spaces,
    gate: CommitGate,
    clients: Option<Box<dyn SocketClients>>,
    peers: HashMap<Link, Peer>,
    /// The peers at the other ends of open and of recently closed links.
    origins: Origins,
    /// Links on which the hello of some spaces is still to be sent. `hello_next` is when the next
    /// ones are due, in milliseconds since the start.
    without_hello: BTreeSet<Link>,
    hello_next: u64,
    /// When the driver retries to hand over frames, in milliseconds since the start.
    flush_next: u64,
    /// Whether a link was closed since the driver last looked at all outputs.
    closed: bool,
    broadcast: mpsc::Sender<Order>,
    /// Sends the network part the spaces that are in use.
    used: mpsc::UnboundedSender<SpaceId>,
    member_lists: watch::Sender<MemberLists>,
    writers: watch::Sender<OwnWriters>,
    /// The public key under which writer ids are minted, and the nonces that they were minted with.
    owner: [u8; 32],
    nonces: Nonces,
    /// The starts that a next start of this node may follow.
    starts: Places,
    /// Whether this node runs on a copy of a data folder, for its clients.
    copied: Arc<AtomicBool>,
    /// The tickets of this node. `roles_due` is when the driver next looks at the roles that they
    /// give, in milliseconds since the start. `limited` is whether a role is less than member in
    /// any space.
    ledger: Ledger,
    roles_due: u64,
    limited: bool,
    metrics: Metrics,
    clock: WallClock,
    started: Instant,
    registry: Registry,
    bell: Bell,
    queue: mpsc::Receiver<Queued>,
    /// A buffer for the commands taken from the queue; empty between turns.
    batch: Vec<Queued>,
    /// Commands that read a whole space, the oldest first.
    later: VecDeque<Queued>,
    stopping: bool,
    /// When the sleep of the thread ends; `None` for a sleep without end.
    sleeps_until: Option<Instant>,
    failed: Option<StoreError>,
    /// The spaces that a panic may have left half changed. If it is set, this node stops.
    half_changed: Option<HalfChanged>,
}

/// A running driver, and the channel that reports how it ended.
pub struct Running {
    /// The handle with which clients reach the driver.
    pub handle: Handle,
    /// Resolves when the driver has ended; an error means that the store failed. If it is dropped
    /// without a message, the driver panicked.
    pub ended: oneshot::Receiver<Result<(), StoreError>>,
}

/// Everything that a driver is started with.
pub struct Start {
    /// The spaces to open.
    pub spaces: Vec<Space>,
    /// The public key under which writer ids are minted.
    pub owner: [u8; 32],
    /// The guest timeout: how long a member waits for a silent guest, in milliseconds.
    pub guest_timeout_ms: u32,
    /// How long this node remembers an idempotency key.
    pub key_window: Duration,
    /// How many idempotency keys this node remembers, of all clients and of each.
    pub keyed_bounds: KeyedBounds,
    /// How durable a write is before it is acknowledged.
    pub durability: Durability,
    /// The store, which holds what earlier processes of this node wrote.
    pub store: Box<dyn Store>,
    /// The data folder, if the store has one.
    pub folder: Option<PathBuf>,
    /// The tickets that this node was given.
    pub ledger: Ledger,
    /// Makes the clients whose sockets the driver's thread serves; `None` if there are none.
    pub sockets: Option<Begin>,
    /// The channel for frames of the broadcast channel.
    pub broadcast: mpsc::Sender<Order>,
    /// The channel for spaces that come into use; each is sent at most once.
    pub used: mpsc::UnboundedSender<SpaceId>,
    /// The metrics of the node.
    pub metrics: Metrics,
    /// The addresses of other nodes, by which texts name members.
    pub node_table: NodeTable,
    /// The wall clock of the node.
    pub clock: WallClock,
}

/// Replays the store and starts the driver's thread.
///
/// # Errors
/// When the store can't be read, or the thread can't be started.
pub fn start(start: Start) -> Result<Running, StoreError> {
    let io = |doing: &str, error: &dyn std::fmt::Display| StoreError::Io {
        doing: doing.into(),
        problem: error.to_string(),
    };
    let Start {
        owner,
        guest_timeout_ms,
        key_window,
        durability,
        mut store,
        ..
    } = start;
    let names: Arc<[Space]> = start.spaces.clone().into();
    let mut nonces = Nonces::open(start.folder.clone())?;
    let mut starts = Places::open(start.folder, store.place());
    let mut spaces = Vec::new();
    for space in start.spaces {
        let durable = durability != Durability::Memory && store.is_durable();
        let mut open = OpenSpace::load(
            space,
            &owner,
            guest_timeout_ms,
            key_window,
            store.as_mut(),
            durable,
            (&mut nonces, &mut starts),
        )?;
        open.set_node_table(start.node_table.clone());
        open.set_keyed_bounds(start.keyed_bounds);
        spaces.push(open);
    }
    nonces.save()?;
    starts.save()?;
    starts.tell();
    let copied = Arc::new(AtomicBool::new(starts.is_copied()));
    let doing = "start the driver's poll";
    let poll = Poll::new().map_err(|error| io(doing, &error))?;
    let registry = poll.registry().try_clone();
    let waker = Waker::new(poll.registry(), BELL).map_err(|error| io(doing, &error))?;
    let bell = Bell::new(waker);
    let clients = start.sockets.map(|begin| {
        let clients = begin(poll.registry());
        clients.map_err(|error| io("listen for Redis clients", &error))
    });
    let worker = match durability {
        Durability::Memory => None,
        Durability::Always | Durability::Interval(_) => {
            let (bell, metrics) = (bell.clone(), start.metrics.clone());
            let done = move |committed: Option<Committed>| {
                if let Some(committed) = committed {
                    metrics.commit(committed.took, committed.bytes);
                }
                if !committed.is_some_and(|committed| committed.at_once) {
                    bell.ring();
                }
            };
            Some(Worker::start(store, start.metrics.health().clone(), done)?)
        }
    };
    let (sender, queue) = mpsc::channel(QUEUE_COMMANDS_MAX);
    let member_lists: MemberLists = spaces.iter().map(OpenSpace::member_list).collect();
    let (member_lists, member_list_news) = watch::channel(member_lists);
    let writers: OwnWriters = spaces.iter().map(OpenSpace::writer).collect();
    let (writers, writer_news) = watch::channel(writers);
    let mut spaces = Spaces::new(spaces);
    spaces.set_clock(start.clock.clone());
    let interval =
        (DIGEST_MS * spaces.in_use().count() as u32).max(SyncConfig::default().interval_ms);
    for space in spaces.iter_mut() {
        space.set_interval(interval)?;
        space.prove(nonces.of(space.name()));
    }
    for space in spaces.in_use() {
        let _ = start.used.send(space); // Without a network part there is nobody to tell.
    }
    let mut driver = Driver {
        spaces,
        gate: CommitGate::new(worker, durability),
        clients: clients.transpose()?,
        peers: HashMap::new(),
        origins: Origins::default(),
        without_hello: BTreeSet::new(),
        hello_next: u64::MAX,
        flush_next: u64::MAX,
        closed: false,
        broadcast: start.broadcast,
        used: start.used,
        member_lists,
        writers,
        owner,
        nonces,
        starts,
        copied: copied.clone(),
        ledger: start.ledger,
        roles_due: 0,
        limited: false,
        metrics: start.metrics,
        clock: start.clock,
        started: Instant::now(),
        registry: registry.map_err(|error| io(doing, &error))?,
        bell: bell.clone(),
        queue,
        batch: Vec::with_capacity(BATCH_COMMANDS_MAX),
        later: VecDeque::new(),
        stopping: false,
        sleeps_until: None,
        failed: None,
        half_changed: None,
    };
    driver.update_roles();
    let turn = Turn::new(driver, bell.clone());
    // Clients that wait for the disk share commits. So they leave their work to the driver's
    // thread.
    let own_turns = (durability != Durability::Always).then(|| turn.clone());
    let (end, ended) = oneshot::channel();
    thread::Builder::new()
        .name("driver".into())
        .spawn(move || {
            let _ = end.send(turn.run(poll));
        })
        .map_err(|error| io("start the driver's thread", &error))?;
    Ok(Running {
        handle: Handle::new(
            sender,
            bell,
            names,
            own_turns,
            copied,
            (member_list_news, writer_news),
        ),
        ended,
    })
}

impl Driver {
    /// Takes the commands that wait in the queue. Returns whether there may be more.
    fn take(&mut self, batch: &mut Vec<Queued>) -> bool {
        while batch.len() < BATCH_COMMANDS_MAX {
            match self.queue.try_recv() {
                Ok(command) => batch.push(command),
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => {
                    self.stopping = true; // All clients are gone.
                    return false;
                }
            }
        }
        true
    }

    /// Applies a batch, and does all work that is due, up to the commit. The page of this module
    /// says why the steps have this order.
    fn work(&mut self, batch: &mut Vec<Queued>) -> Result<(), StoreError> {
        self.metrics.batch(batch.len());
        let wall = self.clock.now();
        self.spaces.set_time(wall);
        self.spaces.wake_due(self.now());
        self.update_roles();
        for queued in batch.drain(..) {
            match queued.command.is_long() {
                true => self.later.push_back(queued),
                false => self.apply_contained(queued),
            }
        }
        self.check_whole()?;
        if let Some(clients) = &mut self.clients {
            let since_start = u64::try_from(self.started.elapsed().as_millis());
            clients.work(
                &self.registry,
                &mut self.spaces,
                &mut self.gate,
                &self.metrics,
                wall,
                since_start.unwrap_or(u64::MAX),
            );
            self.half_changed = HalfChanged::later(self.half_changed, clients.half_changed());
        }
        self.check_whole()?;
        self.delete_expired();
        for space in self.spaces.begun() {
            self.use_space(space);
        }
        self.send_hellos(self.now());
        self.resume_writes();
        self.tick();
        self.end_waits();
        self.poll_outputs()?;
        self.spaces.end_turn();
        Ok(())
    }

    /// Ends the counters that have expired by the clock of their space.
    fn delete_expired(&mut self) {
        self.spaces.for_each_awake(|space| {
            let expired = space.delete_expired(space.time());
            self.metrics.expired(expired);
            if expired > 0 {
                self.gate.touch();
            }
        });
    }

    /// Applies the oldest of the long commands for which a client still waits. It applies one in
    /// each turn of the thread, so that a short command waits for one long command at most.
    fn apply_one_long(&mut self) -> Result<(), StoreError> {
        while let Some(queued) = self.later.pop_front() {
            if !queued.command.is_abandoned() {
                self.apply_contained(queued);
                self.check_whole()?;
                return self.commit();
            }
        }
        Ok(())
    }

    /// Makes a commit if one is due, and releases the answers and frames that waited for a durable
    /// one.
    fn commit(&mut self) -> Result<(), StoreError> {
        self.gate.commit(&mut self.spaces, self.stopping)?;
        self.gate.release();
        if let Some(clients) = &mut self.clients {
            clients.release(self.gate.durable(), &self.metrics);
        }
        self.flush();
        while let Some((space, output)) = self.gate.next_output() {
            self.output(space, output);
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The time at which the earliest sync machine is due, or the next counter expires.
    fn next_deadline(&self) -> Option<Instant> {
        let own = [self.hello_next, self.flush_next].into_iter();
        let own = own.filter(|at| *at < u64::MAX);
        let sync = self.spaces.next_deadline().into_iter().chain(own).min();
        let sync = sync.map(Duration::from_millis);
        let expiry = self.spaces.next_expiry().map(|at| {
            let left = at.saturating_sub(self.clock.now());
            Instant::now() + Duration::from_millis(left).min(EXPIRY_SLEEP_MAX)
        });
        let sync = sync.map(|since_start| self.started + since_start);
        sync.into_iter().chain(expiry).min()
    }

    /// Applies a command. The `permit` is the valid ticket of the request, or `None` if the request
    /// needs no ticket.
    fn apply(&mut self, command: Command, permit: Option<Arc<Permit>>) {
        let now = self.now();
        match command {
            Command::Read { space, work, .. } => {
                if !work.is_abandoned() {
                    self.gate.answer(work.read(&self.spaces[space.0], now));
                }
            }
            Command::Wait { space, work } => {
                let space = VolatileState::of(&mut self.spaces[space.0]);
                if let Some(release) = work(space, now) {
                    self.gate.answer(release);
                }
            }
            Command::Write { space, work } => {
                let metrics = &self.metrics;
                let context = WriteContext {
                    now,
                    metrics,
                    permit,
                };
                if let Some(release) = work(&mut self.spaces[space.0], context) {
                    self.gate.answer(release);
                }
            }
            Command::Status { reply } => {
                let spaces = self.spaces.iter_mut();
                let answer: Vec<_> = spaces.map(|it| it.status(now)).collect();
                self.gate.answer(release(reply, answer));
            }
            Command::Links { reply } => {
                let answer = self.links(now);
                self.gate.answer(release(reply, answer));
            }
            Command::Adopt { reply } => {
                let answer = self.adopt();
                self.gate.answer(release(reply, answer));
            }
            Command::Secured(client) => {
                if let Some(clients) = &mut self.clients {
                    clients.secured(*client, &self.registry, &self.metrics);
                }
            }
            Command::Connect(link) => self.connect(now, link),
            Command::Disconnect { link } => self.disconnect(now, link),
            Command::Compare { link } => self.compare(now, link),
            Command::Frame { link, bytes } => self.frame(now, link, &bytes),
            Command::Broadcast { from, bytes } => self.broadcast(now, from, &bytes),
            Command::Stop => self.stopping = true,
        }
    }

    /// Routes a frame to the space that it names. The driver drops a frame of a space that is not
    /// open here or not on this link. The peer may have spaces that this node has not.
    fn frame(&mut self, now: u64, link: Link, bytes: &[u8]) {
        self.metrics.frame_in(bytes.len());
        let Some(peer) = self.peers.get(&link) else {
            return; // It was closed while the frame waited in the queue.
        };
        match frame_space(bytes) {
            Ok(name) => match self.spaces.find(name) {
                Some(space) if peer.carries(space) => {
                    self.use_space(space);
                    self.send_hello(now, link, space);
                    self.spaces[space.0].frame(now, link, bytes);
                }
                _ => self.metrics.dropped_frame(),
            },
            Err(error) => self.close(now, link, error),
        }
    }

    fn broadcast(&mut self, now: u64, from: Option<Link>, bytes: &[u8]) {
        self.metrics.frame_in(bytes.len());
        match frame_space(bytes)
            .ok()
            .and_then(|name| self.spaces.find(name))
        {
            Some(space) => {
                self.use_space(space);
                self.spaces[space.0].broadcast(now, from, bytes);
            }
            None => self.metrics.dropped_frame(),
        }
    }

    /// Lets each space do its duties. Informs the sync machines of local writes and of the time.
    fn tick(&mut self) {
        let now = self.now();
        let mut replaced = false;
        let peers = &self.peers;
        self.spaces.for_each_awake(|space| {
            space.note_busy(
                now,
                peers.iter().map(|(link, peer)| (*link, peer.is_busy())),
            );
            if space.tick(now) {
                self.gate.touch();
            }
            replaced |= space.is_replaced();
            self.metrics.tended(space.take_tally());
        });
        if replaced {
            self.stand_aside();
        }
    }
}

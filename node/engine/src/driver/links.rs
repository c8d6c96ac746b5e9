//! The links: which spaces each carries, where the hello is still to be sent, and the frames on
//! their way to the transport.

use super::in_flight::InFlight;
use super::space::LinkEnd;
use super::{Driver, Order, SYNC};
use crate::access;
use crate::driver::NewLink;
use crate::metrics::Metrics;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use tallymesh_core::{Error, Link, Party};
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{Carried, LinkRow, LinkState, PeerKind, PeerScope, SpaceId};
use tallymesh_node_ground::rate::LogPace;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Paces the log lines about links that were closed because of their peers, because any stranger
/// can cause them.
static CLOSED_LOG: LogPace = LogPace::new();

/// Most spaces in which the driver sends the hello at a time. A higher value delays other work.
const HELLOS_AT_ONCE: usize = 256;

/// The pause before the next ones, in milliseconds.
const HELLO_MS: u64 = 5;

/// Most bytes that wait for the network part. Frames beyond it are dropped.
const BACKLOG_BYTES_MAX: usize = 16 << 20;

/// How soon the driver retries to hand over waiting frames, in milliseconds.
pub(super) const FLUSH_MS: u64 = 5;

/// The state of a link.
pub(super) struct Peer {
    name: String,
    kind: PeerKind,
    spaces: Option<Vec<Carried>>,
    broadcast: bool,
    /// The party that the writers of the peer count for.
    party: Party,
    /// The owner whose key it has proved.
    owner: Option<OwnerKey>,
    /// The spaces in which the hello is still to be sent.
    without_hello: BTreeSet<SpaceId>,
    outbox: mpsc::Sender<Order>,
    /// Frames that found the outbox full. Only frames for other nodes wait here. One task accepts
    /// the frames for all of them, and is never delayed for long. A slow client loses the frames
    /// that do not fit.
    backlog: VecDeque<Arc<[u8]>>,
    backlog_bytes: usize,
    in_flight: InFlight,
}

impl Peer {
    /// Queues a frame after the waiting ones and hands over as many as possible. Returns false if
    /// any still waits.
    pub(super) fn send(&mut self, link: Link, bytes: Arc<[u8]>, metrics: &Metrics) -> bool {
        if self.backlog_bytes + bytes.len() > BACKLOG_BYTES_MAX {
            metrics.dropped_frame();
            return false;
        }
        self.backlog_bytes += bytes.len();
        self.backlog.push_back(bytes);
        self.flush(link, metrics)
    }

    /// Hands over the waiting frames. Returns false if any still waits.
    fn flush(&mut self, link: Link, metrics: &Metrics) -> bool {
        while let Some(bytes) = self.backlog.pop_front() {
            let length = bytes.len();
            let is_client = self.kind != PeerKind::Libp2p;
            if is_client && !self.in_flight.has_room(&bytes) {
                metrics.dropped_frame();
            } else {
                let order = Order::Send(link, self.in_flight.count(bytes));
                match self.outbox.try_send(order) {
                    Ok(()) => metrics.frame_out(length),
                    Err(TrySendError::Full(Order::Send(_, frame))) if !is_client => {
                        self.backlog.push_front(frame.open().0);
                        return false;
                    }
                    Err(_) => metrics.dropped_frame(),
                }
            }
            self.backlog_bytes -= length;
        }
        true
    }

    /// Whether frames wait for the transport, so that more of them would make a queue.
    pub(super) fn is_busy(&self) -> bool {
        match self.kind {
            PeerKind::Libp2p => !self.backlog.is_empty(),
            _ => self.in_flight.is_busy(),
        }
    }

    pub(super) fn carries(&self, space: SpaceId) -> bool {
        self.spaces.is_none() || self.carried(space).is_some()
    }

    fn carried(&self, space: SpaceId) -> Option<&Carried> {
        let spaces = self.spaces.as_ref()?;
        let found = spaces.binary_search_by_key(&space, |it| it.space);
        found.ok().map(|at| &spaces[at])
    }

    fn seen_in(&self, space: SpaceId) -> LinkEnd {
        LinkEnd {
            limits: self.limits(space),
            party: self.party,
            owner: self.owner,
        }
    }

    /// The peer scope in a space that the link carries, if the peer may do less than a member.
    fn limits(&self, space: SpaceId) -> Option<PeerScope> {
        self.carried(space).and_then(|it| it.limits)
    }
}

impl Driver {
    pub(super) fn connect(&mut self, now: u64, new: NewLink) {
        self.origins.connected(&new);
        let mut peer = Peer {
            name: new.peer,
            kind: new.kind,
            spaces: new.spaces,
            broadcast: new.broadcast,
            party: access::of_sender(&new.from),
            owner: new.from.owner,
            without_hello: BTreeSet::new(),
            outbox: new.outbox,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            in_flight: InFlight::new(self.metrics.in_flight()),
        };
        let in_use = self.spaces.in_use();
        peer.without_hello = in_use.filter(|space| peer.carries(*space)).collect();
        if !peer.without_hello.is_empty() {
            self.without_hello.insert(new.link);
        }
        self.peers.insert(new.link, peer);
        self.hello_next = self.hello_next.min(now);
        self.links_changed();
    }

    pub(super) fn disconnect(&mut self, now: u64, link: Link) {
        let Some(peer) = self.peers.remove(&link) else {
            return; // Closed from here before.
        };
        self.origins.disconnected(link);
        let in_use: Vec<SpaceId> = self.spaces.in_use().collect();
        let has_hello =
            |space: &SpaceId| peer.carries(*space) && !peer.without_hello.contains(space);
        for space in in_use.into_iter().filter(has_hello) {
            self.spaces[space.0].disconnected(now, link);
        }
        self.links_changed();
    }

    /// Compares what the ends of a link hold, because frames on it may have been lost: in its first spaces.
    /// In further ones that is left to the next digests.
    pub(super) fn compare(&mut self, now: u64, link: Link) {
        let Some(peer) = self.peers.get(&link) else {
            return;
        };
        let in_use: Vec<SpaceId> = self.spaces.in_use().collect();
        let carried = in_use.into_iter().filter(|space| peer.carries(*space));
        for space in carried.take(HELLOS_AT_ONCE) {
            self.spaces[space.0].compare(now, link);
        }
    }

    /// Sends the hello to new peers in the next spaces that their links carry.
    pub(super) fn send_hellos(&mut self, now: u64) {
        if self.hello_next > now {
            return;
        }
        let mut left = HELLOS_AT_ONCE;
        while left > 0
            && let Some(link) = self.without_hello.first().copied()
        {
            let Some(peer) = self.peers.get_mut(&link) else {
                self.without_hello.remove(&link);
                continue;
            };
            while left > 0
                && let Some(space) = peer.without_hello.pop_first()
            {
                left -= 1;
                let (broadcast, from) = (peer.broadcast, peer.seen_in(space));
                self.spaces[space.0].connected(now, link, broadcast, from);
            }
            if peer.without_hello.is_empty() {
                self.without_hello.remove(&link);
            }
        }
        self.hello_next = match self.without_hello.is_empty() {
            true => u64::MAX,
            false => now + HELLO_MS,
        };
    }

    /// Sends the hello to a peer in a space that both have, if that is still to be done.
    pub(super) fn send_hello(&mut self, now: u64, link: Link, space: SpaceId) {
        if let Some(peer) = self.peers.get_mut(&link)
            && peer.without_hello.remove(&space)
        {
            let (broadcast, from) = (peer.broadcast, peer.seen_in(space));
            self.spaces[space.0].connected(now, link, broadcast, from);
        }
    }

    /// Brings a space into use: it is synced from now on, on all links that carry it.
    pub(super) fn use_space(&mut self, space: SpaceId) {
        if !self.spaces.use_it(space) {
            return;
        }
        let now = self.now();
        let mut links: Vec<(Link, bool, LinkEnd)> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.carries(space))
            .map(|(link, peer)| (*link, peer.broadcast, peer.seen_in(space)))
            .collect();
        links.sort_unstable_by_key(|it| it.0);
        for (link, broadcast, from) in links {
            self.spaces[space.0].connected(now, link, broadcast, from);
        }
        // Without a network part there is no receiver.
        let _ = self.used.send(space);
    }

    fn links_changed(&mut self) {
        self.metrics.links(self.peers.len());
        if let Some(clients) = &mut self.clients {
            clients.set_links(self.peers.len());
        }
    }

    /// Hands over the frames that found the queue of the network part full.
    pub(super) fn flush(&mut self) {
        let now = self.now();
        if self.flush_next > now {
            return;
        }
        let mut done = true;
        for (link, peer) in &mut self.peers {
            done &= peer.flush(*link, &self.metrics);
        }
        self.flush_next = if done { u64::MAX } else { now + FLUSH_MS };
    }

    /// Forgets a link and orders its transport to close the connection.
    pub(super) fn close(&mut self, now: u64, link: Link, error: Error) {
        if let Some(peer) = self.peers.get(&link) {
            self.metrics.refused(SYNC, error.code());
            if let Some(left_out) = CLOSED_LOG.admit(Instant::now()) {
                let (peer, code) = (&peer.name, error.code());
                tracing::warn!(%peer, code, left_out, %error, "closing a link");
            }
            // If the outbox is full, the order is lost. The transport then keeps an unused
            // connection until the peer closes it.
            let _ = peer.outbox.try_send(Order::Close(link, error));
            self.disconnect(now, link);
            self.closed = true;
        }
    }

    pub(super) fn links(&self, now: u64) -> Vec<LinkRow> {
        let mut rows = Vec::new();
        for space in self.spaces.iter() {
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

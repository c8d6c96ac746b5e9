//! Frames and pushes in both directions, and their rates.

use super::Network;
use crate::behaviour;
use crate::codec::{self, Framed};
use crate::network_metrics::{Direction, NetworkMetrics, Protocol, TOPIC, count_with};
use crate::peer_directory::PeerDirectory;
use crate::peers::{self, Fate, Peer, WaitingRequest};
use crate::reason::Reason;
use libp2p::PeerId;
use libp2p::gossipsub::{self, MessageAcceptance, PublishError};
use libp2p::request_response::{self, OutboundRequestId};
use libp2p::swarm::ConnectionId;
use std::time::{Duration, Instant};
use tallymesh_core::{Space, frame_space, push_changes_writer};
use tallymesh_node_engine::driver::{Handle, Order};
use tallymesh_node_engine::network::{NodeRow, NodeTable};
use tallymesh_node_ground::model::SpaceId;

/// A request needs a stream of its own, which costs both ends more than its frames. So pushes alone
/// are gathered for this time, multiplied by the number of peers. In all, this node then sends a
/// thousand requests a second. The second constant is the longest time.
const GATHER_FOR_EACH: Duration = Duration::from_millis(1);
const GATHER_MAX: Duration = Duration::from_millis(250);

type FrameEvent = request_response::Event<Framed, ()>;

/// Counts a frame of the sync machine.
fn count(
    metrics: &NetworkMetrics,
    node_table: &NodeTable,
    handle: &Handle,
    peer: &PeerId,
    direction: Direction,
    frame: &[u8],
) {
    metrics.count(Protocol::Sync, direction, frame.len());
    if let Ok(space) = frame_space(frame) {
        let is_open = |space: &str| handle.space(space).is_ok();
        metrics.count_space(space, direction, frame.len(), is_open);
    }
    node_table.with(peer, |row| {
        count_with(row, Protocol::Sync, direction, frame.len())
    });
}

/// The result for a frame of a peer.
fn fate(
    peer: &mut Peer,
    connection: ConnectionId,
    frame: Vec<u8>,
    handle: &Handle,
    peer_directory: Option<&PeerDirectory>,
) -> Fate {
    // The hello of the book is the first. So it shows that a second process has the same key.
    let is_book =
        |space: &Space| peer_directory.is_some_and(|peer_directory| peer_directory.is_of(space));
    let is_open = |space: &Space| handle.space(space.as_str()).is_ok();
    peer.frame(connection, frame, is_open, is_book)
}

impl Network {
    pub(super) async fn frame_event(&mut self, event: FrameEvent) {
        match event {
            request_response::Event::Message {
                peer,
                connection_id,
                message:
                    request_response::Message::Request {
                        request, channel, ..
                    },
                ..
            } => {
                let held = WaitingRequest {
                    connection: connection_id,
                    request,
                    channel,
                };
                self.arrived(peer, held).await;
            }
            request_response::Event::Message {
                peer,
                message: request_response::Message::Response { request_id, .. },
                ..
            } => self.frame_done(peer, request_id),
            request_response::Event::OutboundFailure {
                peer,
                request_id,
                error,
                ..
            } => {
                tracing::debug!(%peer, %error, "frames did not arrive");
                let failed = self.peers.get_mut(&peer);
                match failed.is_some_and(|peer| peer.failed(request_id, &error)) {
                    true => self.drop_peer(peer),
                    false => self.send_next(peer),
                }
            }
            request_response::Event::InboundFailure { peer, error, .. } => {
                tracing::debug!(%peer, %error, "frames could not be read");
            }
            request_response::Event::ResponseSent { .. } => {}
        }
    }

    /// Handles received frames. They wait without an answer if their peer is above its rate. A peer
    /// that continues to send without waiting for answers is disconnected.
    async fn arrived(&mut self, id: PeerId, held: WaitingRequest) {
        let (metrics, node_table, handle) = (&self.metrics, &self.node_table, &self.handle);
        for frame in codec::frames(&held.request.bytes) {
            count(metrics, node_table, handle, &id, Direction::In, frame);
        }
        self.take(id, held).await;
    }

    /// Passes a request on, or lets it wait.
    pub(super) async fn take(&mut self, id: PeerId, held: WaitingRequest) {
        let now = Instant::now();
        let wait = self.wait(&id, held.size(), now);
        let Some(peer) = self.peers.get_mut(&id).filter(|peer| !peer.dropped) else {
            return; // It is gone, or will be.
        };
        if wait.is_none() && peer.next_held().is_none() {
            return self.deliver(id, held, now).await;
        }
        let is_held = peer.hold(held);
        self.metrics.slowed();
        if !is_held {
            self.refusals.refused(Reason::Flood, &id, now);
            self.redial.avoid(id, now);
            self.drop_peer(id);
        }
    }

    /// Passes on the requests that have waited for long enough.
    pub(super) async fn release(&mut self, now: Instant) {
        for id in self.peers.ids() {
            loop {
                let next = self.peers.get_mut(&id).and_then(|peer| peer.next_held());
                let Some(size) = next.map(WaitingRequest::size) else {
                    break;
                };
                if self.wait(&id, size, now).is_some() {
                    break;
                }
                let held = self.peers.get_mut(&id).and_then(|peer| peer.take_held());
                if let Some(held) = held {
                    self.deliver(id, held, now).await;
                }
            }
        }
    }

    /// The wait until a peer may send so many frames and bytes, if it may not now.
    pub(super) fn wait(
        &self,
        peer: &PeerId,
        (frames, bytes): (u64, usize),
        now: Instant,
    ) -> Option<Duration> {
        let frames = self.frame_pace.wait(peer, frames, now);
        frames.max(self.byte_pace.wait(peer, bytes as u64, now))
    }

    pub(super) fn spend(&mut self, peer: PeerId, (frames, bytes): (u64, usize), now: Instant) {
        self.frame_pace.spend(peer, frames, now);
        self.byte_pace.spend(peer, bytes as u64, now);
    }

    /// Acknowledges a request, and passes its frames on.
    async fn deliver(&mut self, id: PeerId, held: WaitingRequest, now: Instant) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        let Some(held) = peer.hold_for_twin(held) else {
            return;
        };
        self.spend(id, held.size(), now);
        // Sending fails if the connection is gone, which another event reports.
        let behaviour = &mut self.swarm.behaviour_mut().frames;
        let _ = behaviour.send_response(held.channel, ());
        for frame in codec::frames(&held.request.bytes) {
            self.frame(id, held.connection, frame.to_vec()).await;
        }
    }

    pub(super) async fn frame(&mut self, id: PeerId, connection: ConnectionId, frame: Vec<u8>) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        let (handle, peer_directory) = (&self.handle, &self.peer_directory);
        let open = frame_space(&frame).ok().map(|name| handle.space(name));
        let may = match open {
            Some(Ok(space)) => peer.takes_part(space),
            // The frame is of the book, or of a space that only the peer has.
            _ => !peer.is_stranger(),
        };
        if !may {
            match peer.is_stranger() {
                // The refusal is logged when the peer is disconnected, unless it shows a ticket
                // before.
                true => self.metrics.refused(Reason::Stranger),
                false => self.refusals.refused(Reason::Space, &id, Instant::now()),
            }
            return;
        }
        if let Some(is_copy) = peers::is_of_copy(&frame) {
            let (others, now) = (peer.others(connection), Instant::now());
            let hello = (connection, is_copy);
            if !self.same_key.admits(id, hello, &others, now) {
                self.refused_same_key(&id);
                self.swarm.close_connection(connection);
                return;
            }
        }
        let mut fate = fate(peer, connection, frame, handle, peer_directory.as_ref());
        if let Fate::Anew(frame) = fate {
            tracing::debug!(peer = %id, "it was started again: its link begins anew");
            self.begin_anew(id, connection).await;
            let Some(peer) = self.peers.get_mut(&id) else {
                return;
            };
            let (handle, peer_directory) = (&self.handle, &self.peer_directory);
            fate = self::fate(peer, connection, frame, handle, peer_directory.as_ref());
        }
        match fate {
            // A new peer has no session.
            Fate::Anew(_) => {}
            Fate::Deliver(link, frame) => {
                let now = Instant::now();
                match (&mut self.peer_directory, frame_space(&frame)) {
                    (Some(peer_directory), Ok(space)) if PeerDirectory::has(space) => {
                        peer_directory.frame(link, space, &frame, now);
                        self.send_book(now);
                    }
                    _ => self.handle.frame(link, frame).await,
                }
            }
            Fate::Close(connections) => {
                if !connections.is_empty() {
                    self.refused_same_key(&id);
                }
                for connection in connections {
                    self.swarm.close_connection(connection);
                }
            }
        }
    }

    /// Counts that another process has the key of a peer. If one of the two said that it is a copy, the driver logs
    /// that with all that is known of it.
    fn refused_same_key(&mut self, id: &PeerId) {
        match self.same_key.is_copied(id) {
            true => self.metrics.refused(Reason::SameKey),
            false => self.refusals.refused(Reason::SameKey, id, Instant::now()),
        }
    }

    fn frame_done(&mut self, id: PeerId, request: OutboundRequestId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.done(request);
            self.send_next(id);
        }
    }

    fn send_next(&mut self, id: PeerId) {
        let now = Instant::now();
        let gather = GATHER_FOR_EACH * self.peers.len() as u32; // at most some thousands
        let gather = gather.min(GATHER_MAX);
        let frames = &mut self.swarm.behaviour_mut().frames;
        if let Some(peer) = self.peers.get_mut(&id) {
            let (metrics, node_table, handle) = (&self.metrics, &self.node_table, &self.handle);
            let until = peer.send_next(
                (now, gather),
                |frame| count(metrics, node_table, handle, &id, Direction::Out, frame),
                |request| frames.send_request(&id, request),
            );
            if let Some(until) = until.filter(|_| !peer.gathers) {
                peer.gathers = true;
                self.gathering.push_back((until, id));
            }
        }
    }

    /// Sends the pushes that have waited for long enough.
    pub(super) fn send_gathered(&mut self, now: Instant) {
        while let Some((_, id)) = self.gathering.front().copied().filter(|it| it.0 <= now) {
            self.gathering.pop_front();
            if let Some(peer) = self.peers.get_mut(&id) {
                peer.gathers = false;
                self.send_next(id);
            }
        }
    }

    /// Handles a push from gossip. The push is passed on if it belongs to its topic and changes
    /// only writers of others.
    pub(super) async fn pushed(
        &mut self,
        source: PeerId,
        id: &gossipsub::MessageId,
        message: gossipsub::Message,
    ) {
        let (now, bytes) = (Instant::now(), message.data.len());
        self.metrics.fresh();
        let count = |row: &mut NodeRow| count_with(row, Protocol::Push, Direction::In, bytes);
        self.node_table.with(&source, count);
        let space = frame_space(&message.data).ok();
        let topic = message.topic.as_str().strip_prefix(TOPIC);
        let place = space.and_then(|name| self.handle.space(name).ok());
        let fits = space == topic && place.is_some();
        // Others would take this node for the source of such a push. They have its true changes
        // from this node itself.
        let is_own = place.is_some_and(|place| {
            push_changes_writer(&message.data, &self.handle.own_writer(place))
        });
        let has_room = self.wait(&source, (1, bytes), now).is_none();
        if has_room {
            self.spend(source, (1, bytes), now);
        }
        let acceptance = match (fits, has_room) {
            (true, true) if !is_own => MessageAcceptance::Accept,
            (true, _) => MessageAcceptance::Ignore,
            (false, _) => MessageAcceptance::Reject,
        };
        let gossipsub = &mut self.swarm.behaviour_mut().gossipsub;
        gossipsub.report_message_validation_result(id, &source, acceptance);
        if fits && !has_room {
            // Sync brings a change whose push is not passed on here.
            self.refusals.refused(Reason::Pushes, &source, now);
        } else if fits {
            let link = self.peers.link(&source);
            if !is_own {
                self.unicast(topic.unwrap_or_default(), &message.data);
            }
            self.handle.broadcast(link, message.data).await;
        } else {
            self.refusals.refused(Reason::Topic, &source, now);
        }
    }

    /// Sends a push as a frame to the peers with which this node would gossip and that do not
    /// support it. It does not, if peers may accept only this node's own changes.
    fn unicast(&mut self, space: &str, bytes: &[u8]) {
        let Ok(place) = self.handle.space(space) else {
            return;
        };
        if !self.rights.passes_on(place) {
            return;
        }
        for id in self.peers.ids() {
            let peer = self.peers.get_mut(&id);
            if peer.is_some_and(|peer| {
                peer.unicast && peer.takes_part(place) && peer.push(bytes.to_vec())
            }) {
                self.send_next(id);
            }
        }
    }

    /// Subscribes to the pushes of a space.
    pub(super) fn subscribe(&mut self, space: SpaceId) {
        let name = &self.handle.spaces()[space.0];
        let gossipsub = &mut self.swarm.behaviour_mut().gossipsub;
        if let Err(error) = gossipsub.subscribe(&behaviour::topic(name)) {
            // Digests find the same changes, later.
            tracing::warn!(%name, %error, "no pushes of this space come here");
        }
    }

    pub(super) fn order(&mut self, order: Order) {
        match order {
            Order::Send(link, frame) => {
                let bytes = frame.to_vec();
                let Some(id) = self.peers.id(link) else {
                    return; // Gone meanwhile.
                };
                let queued = self.peers.get_mut(&id).is_some_and(|peer| peer.push(bytes));
                if !queued {
                    tracing::debug!(peer = %id, "a slow peer: dropped a frame");
                }
                self.send_next(id);
            }
            Order::Broadcast(space, bytes) => {
                self.unicast(space.as_str(), &bytes);
                let topic = behaviour::topic(&space);
                let gossipsub = &mut self.swarm.behaviour_mut().gossipsub;
                match gossipsub.publish(topic, bytes) {
                    // A peer that connects later pulls the missing changes.
                    Ok(_) | Err(PublishError::NoPeersSubscribedToTopic) => {}
                    Err(error) => tracing::debug!(%space, %error, "a push was not sent"),
                }
            }
            Order::Close(link, _) => {
                if let Some(peer) = self.peers.id(link) {
                    self.redial.avoid(peer, Instant::now());
                    self.drop_peer(peer);
                }
            }
        }
    }
}

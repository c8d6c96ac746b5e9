//! The loop that owns the swarm: events in, frames out, links kept up or cut.

use super::audit::{Audits, Done, Next};
use super::behaviour::{self, Behaviour, BehaviourEvent};
use super::peers::{Fate, Peers};
use super::redial::Redial;
use super::{Address, Cuts, GossipError, Peer};
use crate::driver::Order;
use crate::handle::{Handle, NewLink, PeerKind};
use futures::StreamExt;
use libp2p::core::transport::ListenerId;
use libp2p::gossipsub::{self, MessageAcceptance, PublishError};
use libp2p::request_response::OutboundRequestId;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::swarm::{ConnectionId, Swarm, SwarmEvent};
use libp2p::{Multiaddr, PeerId, identify, mdns, request_response};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tallymesh_core::wire::AuditQuestion;
use tallymesh_core::{Error, frame_space};
use tokio::sync::{mpsc, watch};

/// How often the list of nodes to dial is looked through.
const REDIAL_INTERVAL: Duration = Duration::from_millis(100);

/// How long all listeners together may take to be bound.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);

type FrameEvent = request_response::Event<Vec<u8>, ()>;
type AuditEvent = request_response::Event<Vec<u8>, Vec<u8>>;

/// The swarm and what goes with it.
pub(super) struct Network {
    swarm: Swarm<Behaviour>,
    handle: Handle,
    peers: Peers,
    redial: Redial,
    orders: mpsc::Sender<Order>,
    inbox: mpsc::Receiver<Order>,
    cuts: watch::Receiver<Cuts>,
    audits: Audits,
    /// The cuts that are in effect.
    cut: Cuts,
    /// The peers that were connected when they were cut off, and where they listened.
    cut_off: HashMap<PeerId, Vec<Multiaddr>>,
}

impl Network {
    pub(super) fn new(
        swarm: Swarm<Behaviour>,
        peers: Vec<Address>,
        handle: Handle,
        orders: mpsc::Sender<Order>,
        inbox: mpsc::Receiver<Order>,
        cuts: watch::Receiver<Cuts>,
        audits: Audits,
    ) -> Network {
        let addresses = peers.into_iter().map(|address| address.0);
        Network {
            swarm,
            handle,
            peers: Peers::default(),
            redial: Redial::new(addresses, Instant::now()),
            orders,
            inbox,
            cuts,
            audits,
            cut: Cuts::default(),
            cut_off: HashMap::new(),
        }
    }

    /// Binds all listeners and returns the addresses they got, in the same order.
    pub(super) async fn listen(
        &mut self,
        addresses: &[Address],
    ) -> Result<Vec<Multiaddr>, GossipError> {
        let failed = |address: &Address, problem: String| GossipError::Listen {
            address: address.to_string(),
            problem,
        };
        let mut unbound: HashMap<ListenerId, (usize, &Address)> = HashMap::new();
        for (place, address) in addresses.iter().enumerate() {
            let listener = self.swarm.listen_on(address.0.clone());
            let listener = listener.map_err(|error| failed(address, error.to_string()))?;
            unbound.insert(listener, (place, address));
        }
        let mut bound = Vec::new();
        let deadline = tokio::time::Instant::now() + LISTEN_TIMEOUT;
        while let Some((_, waiting)) = unbound.values().next().copied() {
            let event = tokio::time::timeout_at(deadline, self.swarm.select_next_some()).await;
            match event {
                Ok(SwarmEvent::NewListenAddr {
                    listener_id,
                    address,
                }) => {
                    // A wildcard has an address for each interface; the first one does.
                    if let Some((place, _)) = unbound.remove(&listener_id) {
                        bound.push((place, address));
                    }
                }
                Ok(SwarmEvent::ListenerClosed {
                    listener_id,
                    reason,
                    ..
                }) => {
                    if let Some((_, address)) = unbound.get(&listener_id) {
                        return Err(failed(address, format!("{reason:?}")));
                    }
                }
                Ok(other) => self.event(other).await,
                Err(_) => return Err(failed(waiting, "it took too long".into())),
            }
        }
        bound.sort_by_key(|(place, _)| *place);
        Ok(bound.into_iter().map(|(_, address)| address).collect())
    }

    /// Runs until the node stops, which it tells by dropping the sender of the cuts.
    pub(super) async fn run(mut self) {
        let mut redial = tokio::time::interval(REDIAL_INTERVAL);
        redial.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = self.swarm.select_next_some() => self.event(event).await,
                Some(order) = self.inbox.recv() => self.order(order),
                next = self.audits.next() => self.audit(next),
                _ = redial.tick() => self.dial(),
                changed = self.cuts.changed() => match changed {
                    Ok(()) => self.apply_cuts(),
                    Err(_) => return,
                },
            }
        }
    }

    async fn event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        let now = Instant::now();
        match event {
            SwarmEvent::ConnectionEstablished {
                peer_id,
                connection_id,
                num_established,
                ..
            } => {
                self.redial.reached(connection_id, peer_id, now);
                if num_established.get() == 1 {
                    self.connected(peer_id).await;
                }
                if let Some(peer) = self.peers.get_mut(&peer_id) {
                    peer.opened(connection_id);
                }
            }
            SwarmEvent::ConnectionClosed {
                peer_id,
                num_established: 0,
                cause,
                ..
            } => {
                self.redial.lost(peer_id, now);
                if let Some(link) = self.peers.remove(&peer_id) {
                    tracing::info!(peer = %peer_id, ?cause, "disconnected");
                    self.handle.disconnect(link).await;
                }
            }
            SwarmEvent::ConnectionClosed {
                peer_id,
                connection_id,
                ..
            } => {
                let peer = self.peers.get_mut(&peer_id);
                if let Some((twin, frames)) = peer.and_then(|peer| peer.closed(connection_id)) {
                    self.take_over(peer_id, twin, frames).await;
                }
            }
            SwarmEvent::OutgoingConnectionError {
                connection_id,
                error,
                ..
            } => {
                tracing::debug!(%error, "dialling failed");
                self.redial.failed(connection_id, now);
            }
            SwarmEvent::Behaviour(event) => self.behaviour_event(event).await,
            _ => {}
        }
    }

    async fn connected(&mut self, peer: PeerId) {
        let link = self.handle.next_link();
        tracing::info!(%peer, link = link.0, "connected");
        self.peers.insert(peer, link);
        let new = NewLink {
            link,
            space: None,
            kind: PeerKind::Libp2p,
            peer: peer.to_string(),
            broadcast: true,
            outbox: self.orders.clone(),
        };
        self.handle.connect(new).await;
    }

    /// Another process with the same key has the link from now on.
    async fn take_over(&mut self, peer: PeerId, connection: ConnectionId, frames: Vec<Vec<u8>>) {
        if let Some(link) = self.peers.remove(&peer) {
            self.handle.disconnect(link).await;
        }
        self.connected(peer).await;
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.opened(connection);
        }
        for frame in frames {
            self.frame(peer, connection, frame).await;
        }
    }

    async fn frame(&mut self, id: PeerId, connection: ConnectionId, frame: Vec<u8>) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        match peer.frame(connection, frame) {
            Fate::Deliver(link, frame) => self.handle.frame(link, frame).await,
            Fate::Close(connections) => {
                if !connections.is_empty() {
                    tracing::warn!(
                        peer = %id,
                        "two processes have this key: the newer one gets the link. If both run, one \
                         is a copy of the other's data folder: give it a folder of its own"
                    );
                }
                for connection in connections {
                    self.swarm.close_connection(connection);
                }
            }
        }
    }

    async fn behaviour_event(&mut self, event: BehaviourEvent) {
        match event {
            BehaviourEvent::Frames(event) => self.frame_event(event).await,
            BehaviourEvent::Audits(event) => self.audit_event(event),
            BehaviourEvent::Gossipsub(gossipsub::Event::Message {
                propagation_source,
                message_id,
                message,
            }) => self.pushed(propagation_source, &message_id, message).await,
            BehaviourEvent::Identify(identify::Event::Received { peer_id, info, .. }) => {
                if let Some(peer) = self.peers.get_mut(&peer_id) {
                    peer.listen = info.listen_addrs;
                }
            }
            BehaviourEvent::Ping(event) => {
                if let Err(failure) = event.result {
                    tracing::debug!(peer = %event.peer, %failure, "no answer to a ping");
                    self.swarm.close_connection(event.connection);
                }
            }
            BehaviourEvent::Mdns(mdns::Event::Discovered(found)) => {
                for (_, address) in found {
                    self.redial.add(address, Instant::now());
                }
            }
            BehaviourEvent::Mdns(mdns::Event::Expired(expired)) => {
                for (_, address) in expired {
                    self.redial.remove(&address);
                }
            }
            _ => {}
        }
    }

    async fn frame_event(&mut self, event: FrameEvent) {
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
                // It fails when the connection is gone, of which another event tells.
                let _ = self.swarm.behaviour_mut().frames.send_response(channel, ());
                self.frame(peer, connection_id, request).await;
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
                tracing::debug!(%peer, %error, "a frame did not arrive");
                self.frame_done(peer, request_id);
            }
            request_response::Event::InboundFailure { peer, error, .. } => {
                tracing::debug!(%peer, %error, "a frame could not be read");
            }
            request_response::Event::ResponseSent { .. } => {}
        }
    }

    fn audit(&mut self, next: Next) {
        let audits = &mut self.swarm.behaviour_mut().audits;
        match next {
            Next::Ask(request) => self.audits.ask(request, |peer, question| {
                self.peers.link(peer)?;
                Some(audits.send_request(peer, question))
            }),
            // It fails when the connection is gone, of which another event tells.
            Next::Answer(Done { answer, channel }) => {
                let _ = audits.send_response(channel, answer);
            }
        }
    }

    fn audit_event(&mut self, event: AuditEvent) {
        match event {
            request_response::Event::Message {
                peer,
                message:
                    request_response::Message::Request {
                        request_id,
                        request,
                        channel,
                    },
                ..
            } => {
                let (handle, peers) = (&self.handle, &mut self.peers);
                let may = |question: &AuditQuestion| {
                    let space = handle.space(question.space.as_str());
                    space.map_err(|refusal| refusal.code())?;
                    let from = peers.get_mut(&peer);
                    match from.is_some_and(|from| from.has_greeted(&question.space)) {
                        true => Ok(()),
                        false => Err(Error::Handshake.code()),
                    }
                };
                let audits = &mut self.audits;
                if let Some(refused) = audits.question(peer, request_id, &request, channel, may) {
                    self.audit(Next::Answer(refused));
                }
            }
            request_response::Event::Message {
                message:
                    request_response::Message::Response {
                        request_id,
                        response,
                    },
                ..
            } => self.audits.answered(request_id, &response),
            request_response::Event::OutboundFailure {
                request_id, error, ..
            } => self.audits.failed(request_id, error.to_string()),
            request_response::Event::InboundFailure {
                peer, request_id, ..
            }
            | request_response::Event::ResponseSent {
                peer, request_id, ..
            } => self.audits.closed(&peer, request_id),
        }
    }

    fn frame_done(&mut self, id: PeerId, request: OutboundRequestId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.done(request);
            self.send_next(id);
        }
    }

    fn send_next(&mut self, id: PeerId) {
        let frames = &mut self.swarm.behaviour_mut().frames;
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.send_next(|frame| frames.send_request(&id, frame));
        }
    }

    /// A push came by gossip. It is passed on if it belongs to its topic.
    async fn pushed(
        &mut self,
        source: PeerId,
        id: &gossipsub::MessageId,
        message: gossipsub::Message,
    ) {
        let space = frame_space(&message.data).ok();
        let spaces = self.handle.spaces().iter();
        let fits = spaces
            .filter(|open| space == Some(open.as_str()))
            .any(|open| behaviour::topic(open).hash() == message.topic);
        let acceptance = match fits {
            true => MessageAcceptance::Accept,
            false => MessageAcceptance::Reject,
        };
        let gossipsub = &mut self.swarm.behaviour_mut().gossipsub;
        gossipsub.report_message_validation_result(id, &source, acceptance);
        if fits {
            let link = self.peers.link(&source);
            self.handle.broadcast(link, message.data).await;
        } else {
            tracing::warn!(peer = %source, "a push does not belong to its topic");
        }
    }

    fn order(&mut self, order: Order) {
        match order {
            Order::Send(link, bytes) => {
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
                let topic = behaviour::topic(&space);
                let gossipsub = &mut self.swarm.behaviour_mut().gossipsub;
                match gossipsub.publish(topic, bytes) {
                    // Whoever connects later asks for what is missing.
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

    fn drop_peer(&mut self, peer: PeerId) {
        // It fails when there is no connection, which is what is wanted.
        let _ = self.swarm.disconnect_peer_id(peer);
    }

    fn dial(&mut self) {
        if self.cut.all {
            return;
        }
        let now = Instant::now();
        let swarm = &self.swarm;
        for (place, address) in self.redial.due(now, |peer| swarm.is_connected(peer)) {
            let options = DialOpts::from(address);
            let attempt = options.connection_id();
            let dialled = self.swarm.dial(options).map(|()| attempt).ok();
            self.redial.dialling(place, dialled, now);
        }
    }

    /// Makes the wanted cuts the ones in effect.
    fn apply_cuts(&mut self) {
        let wanted = self.cuts.borrow_and_update().clone();
        let before = std::mem::replace(&mut self.cut, wanted.clone());
        *self.swarm.behaviour_mut().limits.limits_mut() = behaviour::limits(wanted.all);
        for Peer(id) in &before.peers {
            self.swarm.behaviour_mut().blocked.unblock_peer(*id);
        }
        for Peer(id) in &wanted.peers {
            self.swarm.behaviour_mut().blocked.block_peer(*id);
        }
        for id in self.peers.ids() {
            if wanted.all || wanted.peers.contains(&Peer(id)) {
                if let Some(peer) = self.peers.get_mut(&id) {
                    self.cut_off.insert(id, peer.listen.clone());
                }
                self.drop_peer(id);
            }
        }
        tracing::info!(all = wanted.all, peers = wanted.peers.len(), "links cut");
        if !wanted.all {
            self.heal(&wanted);
        }
    }

    /// Dials at once whoever should be connected or was connected before the cut.
    fn heal(&mut self, still: &Cuts) {
        self.redial.hurry(Instant::now());
        self.dial();
        let healed = |peer: &PeerId, _: &mut Vec<Multiaddr>| !still.peers.contains(&Peer(*peer));
        for (peer, addresses) in self.cut_off.extract_if(healed) {
            let options = DialOpts::peer_id(peer).addresses(addresses).build();
            // It fails for one that is being dialled already, or told no address.
            if let Err(error) = self.swarm.dial(options) {
                tracing::debug!(%peer, %error, "not dialled after a cut");
            }
        }
    }
}

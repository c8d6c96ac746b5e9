//! The loop that owns the swarm: it handles events, sends frames, and maintains or cuts links.

mod asks;
mod finds;
mod frames;
mod joins;
mod links;

use super::addresses::Addresses;
use super::admissions::Admissions;
use super::audit::Audits;
use super::behaviour::{self, Behaviour, BehaviourEvent};
use super::browser_check::BrowserCheck;
use super::connection_policy::source;
use super::node_info::NodeInfos;
use super::peer_directory::PeerDirectory;
use super::peers::Peers;
use super::reason::Reason;
use super::redial::{Chance, Redial};
use super::refusals::Refusals;
use super::relay::{Circuits, Relayed};
use super::rights::Rights;
use super::same_key::{Aside, SameKey};
use super::unreached::Unreached;
use super::waiting::Waiting;
use super::{GossipError, NetworkMetrics, Start};
use futures::StreamExt;
use libp2p::core::transport::ListenerId;
use libp2p::multiaddr::Protocol;
use libp2p::request_response::OutboundRequestId;
use libp2p::swarm::{ConnectionDenied, DialError, ListenError, Swarm, SwarmEvent};
use libp2p::{Multiaddr, PeerId, gossipsub, identify, mdns, memory_connection_limits, relay};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, TcpListener};
use std::time::{Duration, Instant};
use tallymesh_node_engine::access::Ledger;
use tallymesh_node_engine::driver::{Handle, Order};
use tallymesh_node_engine::network::{Cuts, NodeTable, Request};
use tallymesh_node_engine::settings::GossipLimits;
use tallymesh_node_ground::clock::WallClock;
use tallymesh_node_ground::identity::{Address, relay_of};
use tallymesh_node_ground::model::{MemberLists, SpaceId};
use tallymesh_node_ground::rate::{LogPace, Pace};
use tokio::sync::{mpsc, watch};

/// How often the loop checks for due work: nodes to dial, waiting frames, silent peers.
const TICK_INTERVAL: Duration = Duration::from_millis(100);

/// Paces the log lines about connections that open and close.
static PEERS_LOG: LogPace = LogPace::new();

/// How long all listeners together may take to bind.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);

/// The swarm and the state around it.
pub(super) struct Network {
    swarm: Swarm<Behaviour>,
    handle: Handle,
    peers: Peers,
    redial: Redial,
    unreached: Unreached,
    unreached_next: Instant,
    waiting: Waiting,
    waiting_next: Instant,
    orders: mpsc::Sender<Order>,
    inbox: mpsc::Receiver<Order>,
    spaces_used: mpsc::UnboundedReceiver<SpaceId>,
    cuts: watch::Receiver<Cuts>,
    audits: Audits,
    node_infos: NodeInfos,
    /// The address book, while it can be maintained.
    peer_directory: Option<PeerDirectory>,
    /// The addresses from the book.
    addresses: Addresses,
    chance: Chance,
    /// When to look next for nodes to dial among them.
    find_next: Instant,
    /// The rights of peers. `member_lists` reports changes of the members.
    rights: Rights,
    /// The attempts to make ticket holders members.
    admissions: Admissions,
    /// The tickets that were shown and have no answer yet.
    tickets_sent: HashMap<OutboundRequestId, String>,
    /// Records which connections are of browsers.
    browser_check: BrowserCheck,
    member_lists: watch::Receiver<MemberLists>,
    /// The members of spaces of which this node is a member, which need links to each other.
    fellows: BTreeSet<PeerId>,
    clock: WallClock,
    /// The ledger; `revoked_seen` is its generation at the last look.
    ledger: Ledger,
    revoked_seen: u64,
    /// When to check next whether rights have ended.
    review_next: Instant,
    node_table: NodeTable,
    metrics: NetworkMetrics,
    refusals: Refusals,
    /// The turns of nodes and of copies of their folders.
    same_key: SameKey,
    /// When this node drops the links from before it stood aside.
    aside: Aside,
    limits: GossipLimits,
    /// The peers whose pushes wait for more, and until when.
    gathering: VecDeque<(Instant, PeerId)>,
    /// Rates of the frames and pushes of each peer, and of their bytes.
    frame_pace: Pace<PeerId>,
    byte_pace: Pace<PeerId>,
    /// The peers that use this node as a relay.
    relayed: Relayed,
    /// The listeners of this node at relays.
    circuits: Circuits,
    /// Whether others may use this node as a relay, and so need the addresses of its listeners.
    is_relay: bool,
    /// The cuts in effect.
    cut: Cuts,
    /// The peers that were connected when they were cut off, and the addresses on which they
    /// listened.
    cut_off: HashMap<PeerId, Vec<Multiaddr>>,
}

/// Checks that no program listens at an address over TCP. libp2p's listeners share a port with
/// others that allow it. So a second node would get some of the connections to the first.
fn is_free(address: &Multiaddr) -> std::io::Result<()> {
    let mut parts = address.iter();
    let ip = match parts.next() {
        Some(Protocol::Ip4(ip)) => IpAddr::V4(ip),
        Some(Protocol::Ip6(ip)) => IpAddr::V6(ip),
        _ => return Ok(()),
    };
    match parts.next() {
        // For port 0 the system finds a free one.
        Some(Protocol::Tcp(port)) if port != 0 => TcpListener::bind((ip, port)).map(|_| ()),
        _ => Ok(()),
    }
}

/// The texts of an error and its causes, each once. Some errors of libp2p have no text of their
/// own.
fn causes(error: &dyn std::error::Error) -> String {
    let all = std::iter::successors(Some(error), |error| error.source());
    let mut parts: Vec<String> = Vec::new();
    for text in all.map(ToString::to_string) {
        if !text.is_empty() && !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
    }
    match parts.is_empty() {
        true => format!("{error:?}"),
        false => parts.join(": "),
    }
}

impl Network {
    /// Makes the swarm, which does not listen yet. `questions` receives the audits to send to
    /// peers.
    pub(super) async fn new(
        start: Start<'_>,
        questions: mpsc::Receiver<Request>,
    ) -> Result<Network, GossipError> {
        let (config, handle) = (&start.config, &start.handle);
        let metrics = start.metrics.register(NetworkMetrics::register);
        let mut member_lists = handle.member_lists();
        let known = member_lists.borrow_and_update().clone();
        let public_key = start.identity.public_key();
        let ledger = start.ledger.clone();
        let (spaces, wall) = (handle.spaces(), start.clock.now());
        let rights = Rights::new(config.open, public_key, spaces, known, ledger, wall);
        let browser_check = BrowserCheck::new(config.pages.clone(), start.admit);
        let swarm = behaviour::build(
            start.identity,
            config,
            handle,
            &rights,
            browser_check.clone(),
            start.clock.clone(),
            &start.metrics,
            &metrics,
        )?;
        let held = start.ledger.held();
        let joining = held.iter().flat_map(|(_, grant)| &grant.nodes);
        let of_tickets = joining.clone().filter(|it| !config.peers.contains(it));
        let of_tickets = of_tickets.map(|address| address.0.clone()).collect();
        let peers = config.peers.iter().chain(joining);
        let peers = peers.map(|address| address.0.clone());
        let (own, now) = (*swarm.local_peer_id(), Instant::now());
        let redial = Redial::new(peers, seed(&own), now);
        let peer_directory = finds::peer_directory(&start, own, now)?;
        let folder = start
            .folder
            .clone()
            .filter(|_| peer_directory.has_addresses());
        let addresses = Addresses::load(folder, &own, start.clock.now());
        for (peer, address) in addresses.latest() {
            let address = address.to_string();
            start.node_table.note_address(peer, address, false);
        }
        let limits = config.limits;
        let mut network = Network {
            swarm,
            audits: Audits::start(handle.clone(), questions),
            node_infos: NodeInfos::new(start.clock.clone(), start.folder),
            handle: start.handle,
            peers: Peers::default(),
            redial,
            unreached: Unreached::new(of_tickets),
            unreached_next: now,
            waiting: Waiting::default(),
            waiting_next: now,
            orders: start.orders,
            inbox: start.inbox,
            spaces_used: start.spaces_used,
            cuts: start.cuts,
            peer_directory: Some(peer_directory),
            addresses,
            chance: Chance::new(seed(&own)),
            find_next: now,
            fellows: BTreeSet::new(),
            rights,
            admissions: Admissions::default(),
            tickets_sent: HashMap::new(),
            browser_check,
            member_lists,
            clock: start.clock,
            revoked_seen: start.ledger.generation(),
            ledger: start.ledger,
            review_next: now,
            node_table: start.node_table,
            refusals: Refusals::new(metrics.clone()),
            same_key: SameKey::default(),
            aside: Aside::default(),
            metrics,
            limits,
            gathering: VecDeque::new(),
            frame_pace: Pace::new(limits.frames),
            byte_pace: Pace::new(limits.bytes),
            relayed: Relayed::default(),
            circuits: Circuits::default(),
            is_relay: start.config.relay.is_some(),
            cut: Cuts::default(),
            cut_off: HashMap::new(),
        };
        for peer in network.redial.configured() {
            network.swarm.behaviour_mut().policy.reserve(peer);
        }
        for address in &start.config.peers {
            if let Some(Protocol::P2p(peer)) = address.0.iter().last() {
                network.rights.name(&peer);
            }
        }
        network.learn_members();
        network.look_at_places(now);
        Ok(network)
    }

    /// Binds all listeners and returns their addresses, in the same order. Listeners at relays are
    /// not awaited, because a relay may start later, and does not change the address.
    pub(super) async fn listen(
        &mut self,
        addresses: &[Address],
    ) -> Result<Vec<Multiaddr>, GossipError> {
        let failed = |address: &Address, problem: String| GossipError::Listen {
            address: address.to_string(),
            problem,
        };
        let mut unbound: HashMap<ListenerId, (usize, &Address)> = HashMap::new();
        let mut bound = Vec::new();
        for (place, address) in addresses.iter().enumerate() {
            if let Some(relay) = relay_of(&address.0) {
                self.swarm.behaviour_mut().policy.reserve(relay);
                self.circuits.add(address.0.clone(), Instant::now());
                bound.push((place, address.0.clone()));
                continue;
            }
            is_free(&address.0).map_err(|error| failed(address, error.to_string()))?;
            let listener = self.swarm.listen_on(address.0.clone());
            let listener = listener.map_err(|error| failed(address, causes(&error)))?;
            unbound.insert(listener, (place, address));
        }
        let deadline = tokio::time::Instant::now() + LISTEN_TIMEOUT;
        while let Some((_, waiting)) = unbound.values().next().copied() {
            let event = tokio::time::timeout_at(deadline, self.swarm.select_next_some()).await;
            match event {
                Ok(SwarmEvent::NewListenAddr {
                    listener_id,
                    address,
                }) => {
                    self.listening(listener_id, &address);
                    // A wildcard has an address for each interface; the first one is returned.
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
                        let problem = match reason {
                            Ok(()) => "the listener ended".to_owned(),
                            Err(error) => causes(&error),
                        };
                        return Err(failed(address, problem));
                    }
                }
                Ok(other) => self.event(other).await,
                Err(_) => return Err(failed(waiting, "it took too long".into())),
            }
        }
        bound.sort_by_key(|(place, _)| *place);
        Ok(bound.into_iter().map(|(_, address)| address).collect())
    }

    /// Runs until the node stops, which drops the sender of the cuts.
    pub(super) async fn run(mut self) {
        let mut ticks = tokio::time::interval(TICK_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = self.swarm.select_next_some() => self.event(event).await,
                Some(order) = self.inbox.recv() => self.order(order),
                Some(space) = self.spaces_used.recv() => self.subscribe(space),
                next = self.audits.next() => self.audit(next),
                Ok(()) = self.member_lists.changed() => self.members_changed(),
                () = due(self.gathering.front()) => self.send_gathered(Instant::now()),
                _ = ticks.tick() => self.tick().await,
                changed = self.cuts.changed() => match changed {
                    Ok(()) => self.apply_cuts(),
                    Err(_) => return,
                },
            }
        }
    }

    async fn tick(&mut self) {
        let now = Instant::now();
        self.dial();
        self.look_at_unreached(now);
        self.look_at_places(now);
        self.release(now).await;
        self.ask_about(now);
        self.drop_silent(now);
        self.end_turns(now);
        for peer in self.swarm.behaviour_mut().policy.take_gave_way() {
            self.refusals.refused(Reason::GaveWay, &peer, now);
        }
        self.review(now);
        self.show_again(now);
        self.tend_book(now);
        self.find(now);
        let swarm = &mut self.swarm;
        self.circuits
            .listen(now, |address| swarm.listen_on(address).ok());
    }

    async fn event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        let now = Instant::now();
        match event {
            SwarmEvent::ConnectionEstablished {
                peer_id,
                connection_id,
                num_established,
                endpoint,
                ..
            } => {
                // This must happen before the peer gets rights. A peer that already has some
                // connects again with fewer.
                let news = self.browser_check.is_browser(&endpoint)
                    && self.rights.set_browser(&peer_id, true);
                if news && num_established.get() > 1 {
                    return self.drop_peer(peer_id);
                }
                if self.redial.reached(connection_id, peer_id, now) {
                    self.swarm.behaviour_mut().policy.reserve(peer_id);
                }
                let (address, dialled) = (endpoint.get_remote_address(), endpoint.is_dialer());
                self.node_table
                    .note_address(&peer_id, address.to_string(), dialled);
                if num_established.get() == 1 {
                    self.connected(peer_id, Some(address)).await;
                }
                if let Some(peer) = self.peers.get_mut(&peer_id) {
                    let is_late = peer.opened(connection_id);
                    peer.note_remote(connection_id, address.clone());
                    peer.from = Some(source(endpoint.get_remote_address()));
                    if is_late {
                        self.swarm.close_connection(connection_id);
                    }
                }
            }
            SwarmEvent::ConnectionClosed {
                peer_id,
                num_established: 0,
                cause,
                ..
            } => {
                if let Some(left_out) = PEERS_LOG.admit(now) {
                    tracing::info!(peer = %peer_id, ?cause, left_out, "disconnected");
                }
                self.rights.set_browser(&peer_id, false);
                self.disconnected(peer_id, now).await;
            }
            SwarmEvent::ConnectionClosed {
                peer_id,
                connection_id,
                ..
            } => {
                let peer = self.peers.get_mut(&peer_id);
                if let Some(twin) = peer.and_then(|peer| peer.closed(connection_id)) {
                    self.take_over(peer_id, twin).await;
                } else if let Some(link) = self.peers.link(&peer_id) {
                    // What was under way on this connection is lost, pushes too.
                    self.handle.compare(link).await;
                }
            }
            SwarmEvent::OutgoingConnectionError {
                connection_id,
                peer_id,
                error,
            } => {
                tracing::debug!(%error, "dialling failed");
                if let Some(address) = self.redial.failed(connection_id, now) {
                    self.unreached.failed(address, &error, now);
                }
                if let (DialError::Denied { cause }, Some(peer)) = (&error, peer_id) {
                    self.denied(cause, &peer, now);
                }
            }
            SwarmEvent::IncomingConnectionError {
                send_back_addr,
                peer_id,
                error: ListenError::Denied { cause },
                ..
            } => match peer_id {
                Some(peer) => self.denied(&cause, &peer, now),
                None => self.denied(&cause, &machine(&send_back_addr), now),
            },
            SwarmEvent::NewListenAddr {
                listener_id,
                address,
            } => self.listening(listener_id, &address),
            SwarmEvent::ListenerClosed {
                listener_id,
                reason,
                ..
            } => {
                if let Some(address) = self.circuits.ended(listener_id, now) {
                    tracing::info!(%address, ?reason, "does not listen at a relay any more");
                }
            }
            SwarmEvent::Behaviour(event) => self.behaviour_event(event).await,
            _ => {}
        }
    }

    /// Records that this node refused a connection.
    fn denied(&mut self, cause: &ConnectionDenied, who: &dyn fmt::Display, now: Instant) {
        let memory = cause.downcast_ref::<memory_connection_limits::MemoryUsageLimitExceeded>();
        let reason = cause.downcast_ref::<Reason>().copied();
        match reason.or(memory.map(|_| Reason::Memory)) {
            // A refusal because of a cut is expected.
            Some(Reason::Cut) | None => {}
            Some(reason) => self.refusals.refused(reason, who, now),
        }
    }

    fn listening(&mut self, listener: ListenerId, address: &Multiaddr) {
        if relay_of(address).is_some() {
            tracing::info!(%address, "listens at a relay");
            self.circuits.bound(listener);
        } else if self.is_relay {
            // A node that listens at this relay is reached at these addresses.
            self.swarm.add_external_address(address.clone());
        }
    }

    async fn behaviour_event(&mut self, event: BehaviourEvent) {
        match event {
            BehaviourEvent::Frames(event) => self.frame_event(event).await,
            BehaviourEvent::Audits(event) => self.audit_event(event),
            BehaviourEvent::NodeInfos(event) => self.node_info_event(event),
            BehaviourEvent::Joins(event) => self.join_event(event),
            BehaviourEvent::Gossipsub(gossipsub::Event::Message {
                propagation_source,
                message_id,
                message,
            }) => self.pushed(propagation_source, &message_id, message).await,
            BehaviourEvent::Gossipsub(gossipsub::Event::GossipsubNotSupported { peer_id }) => {
                if let Some(peer) = self.peers.get_mut(&peer_id) {
                    peer.unicast = true;
                }
            }
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
                    self.redial.found(address, Instant::now());
                }
            }
            BehaviourEvent::Mdns(mdns::Event::Expired(expired)) => {
                for (_, address) in expired {
                    self.redial.lost_address(&address);
                }
            }
            BehaviourEvent::Relay(event) => self.relay_event(event),
            _ => {}
        }
    }

    fn relay_event(&mut self, event: relay::Event) {
        let now = Instant::now();
        let over = match event {
            relay::Event::ReservationReqAccepted {
                src_peer_id,
                renewed: false,
            }
            | relay::Event::CircuitReqAccepted { src_peer_id, .. } => {
                let policy = &mut self.swarm.behaviour_mut().policy;
                policy.set_relayed(&src_peer_id, true);
                return self.relayed.began(src_peer_id);
            }
            relay::Event::ReservationReqDenied { src_peer_id, .. } => {
                let reason = Reason::Reservation;
                return self.refusals.refused(reason, &src_peer_id, now);
            }
            relay::Event::CircuitReqDenied { src_peer_id, .. } => {
                return self.refusals.refused(Reason::Circuit, &src_peer_id, now);
            }
            relay::Event::ReservationClosed { src_peer_id }
            | relay::Event::ReservationTimedOut { src_peer_id }
            | relay::Event::CircuitClosed { src_peer_id, .. } => src_peer_id,
            _ => return,
        };
        if self.relayed.ended(&over) {
            self.swarm.behaviour_mut().policy.set_relayed(&over, false);
            if let Some(peer) = self.peers.get_mut(&over) {
                peer.since = now;
            }
        }
    }
}

/// Waits until the first waiting peer is due. Without one it never returns.
async fn due(first: Option<&(Instant, PeerId)>) {
    match first {
        Some((at, _)) => tokio::time::sleep_until((*at).into()).await,
        None => std::future::pending().await,
    }
}

/// An address without its port, which differs each time.
fn machine(address: &Multiaddr) -> Multiaddr {
    address.iter().take(1).collect()
}

/// A seed that differs from node to node, so that their waits differ.
fn seed(own: &PeerId) -> u64 {
    let bytes = own.to_bytes();
    let last = bytes.last_chunk::<8>().copied().unwrap_or_default();
    u64::from_le_bytes(last)
}

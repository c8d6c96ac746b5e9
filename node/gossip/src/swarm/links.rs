//! Links: opened, taken over, closed, dialled and cut.

use super::{Network, PEERS_LOG};
use crate::peers::{self, Twin};
use crate::reason::Reason;
use crate::unreached::{PeerState, Why};
use libp2p::swarm::ConnectionId;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::{Multiaddr, PeerId};
use std::time::{Duration, Instant};
use tallymesh_core::Space;
use tallymesh_node_engine::driver::NewLink;
use tallymesh_node_engine::network::Cuts;
use tallymesh_node_ground::identity::{Peer, owner_of};
use tallymesh_node_ground::model::{PeerKind, Sender};
use tallymesh_node_ground::rate::LogPace;

/// Paces the log lines about strangers, which may be many.
static STRANGERS_LOG: LogPace = LogPace::new();

/// How often to check which of the configured peers are not linked.
const UNREACHED_INTERVAL: Duration = Duration::from_secs(1);

/// How often to check whether this node takes part in its spaces.
const PLACES_INTERVAL: Duration = Duration::from_millis(250);

/// How long after it connected a peer has sent the members, if there are any.
const TELLS_AFTER: Duration = Duration::from_secs(1);

impl Network {
    pub(super) async fn connected(&mut self, peer: PeerId, address: Option<&Multiaddr>) {
        let link = self.handle.next_link();
        let now = Instant::now();
        self.peers.insert(peer, link, now);
        self.node_table.insert(peer);
        let spaces = self.give_rights(&peer);
        self.show_tickets(&peer);
        self.tell_removed(&peer);
        if spaces.is_empty() {
            if let Some(left_out) = STRANGERS_LOG.admit(now) {
                tracing::info!(%peer, left_out, "connected with a stranger");
            }
            return;
        }
        if let Some(left_out) = PEERS_LOG.admit(now) {
            tracing::info!(%peer, link = link.0, left_out, "connected");
        }
        self.node_infos.connected(peer, now);
        if let Some(owner) = owner_of(&peer) {
            // Before anything arrives over this link that has expired by a wrong clock.
            self.clock.note_link(owner.0);
        }
        let ticket = self.rights.ticket_of(&peer, self.clock.now());
        let new = NewLink {
            link,
            spaces: Some(spaces),
            kind: PeerKind::Libp2p,
            peer: peer.to_string(),
            broadcast: self.swarm.behaviour().gossipsub.has(&peer),
            outbox: self.orders.clone(),
            from: Sender {
                owner: owner_of(&peer),
                address: address.map(Multiaddr::to_string),
                ticket: ticket.map(|ticket| ticket.to_string()),
            },
        };
        self.handle.connect(new).await;
        self.addresses.reached(&peer);
        if let Some(peer_directory) = &mut self.peer_directory {
            let trusted = self.peers.get_mut(&peer).is_some_and(|it| it.is_trusted());
            let limited = owner_of(&peer).filter(|_| !trusted);
            peer_directory.set_copied(self.handle.is_copied());
            peer_directory.connected(link, limited, now);
            self.send_book(now);
        }
    }

    /// Handles the end of the last connection to a peer.
    pub(super) async fn disconnected(&mut self, peer: PeerId, now: Instant) {
        self.redial.lost(peer, now);
        self.rights.gone(&peer);
        self.node_table.remove(&peer);
        if let Some(owner) = owner_of(&peer) {
            self.clock.note_lost(&owner.0);
        }
        self.node_infos.disconnected(&peer);
        self.relayed.disconnected(&peer);
        self.unlink(&peer, now).await;
    }

    async fn unlink(&mut self, peer: &PeerId, now: Instant) {
        if let Some(link) = self.peers.remove(peer) {
            if let Some(peer_directory) = &mut self.peer_directory {
                peer_directory.disconnected(link, now);
            }
            self.handle.disconnect(link).await;
        }
    }

    /// Disconnects the peers that have not sent a hello in time, except configured peers and users
    /// of the relay.
    pub(super) fn drop_silent(&mut self, now: Instant) {
        let is_late = |since: Instant| now.duration_since(since) >= self.limits.hello_timeout;
        let late: Vec<PeerId> = self
            .peers
            .iter()
            .filter(|(_, peer)| !peer.has_hello && !peer.dropped && is_late(peer.since))
            .map(|(id, _)| *id)
            .filter(|id| !self.relayed.uses(id))
            .collect();
        for id in late {
            let peer = self.peers.get_mut(&id);
            let is_stranger = peer.is_some_and(|peer| peer.is_stranger());
            let reason = match is_stranger {
                true => Reason::Stranger,
                false if self.swarm.behaviour().policy.is_reserved(&id) => continue,
                false => Reason::Silent,
            };
            self.refusals.refused(reason, &id, now);
            if is_stranger {
                self.redial.avoid(id, now);
            }
            self.drop_peer(id);
        }
    }

    /// Disconnects the copies of data folders whose turns are over, so that their originals can connect again.
    pub(super) fn end_turns(&mut self, now: Instant) {
        let peers = &self.peers;
        let is_open = |id: &PeerId, it| peers.get(id).is_some_and(|peer| peer.has(it));
        for id in self.same_key.take_over(now, is_open) {
            self.drop_peer(id);
        }
        if self.aside.is_due(self.handle.is_copied(), now) {
            // A link has one hello, which is to say that this node stands aside.
            for id in self.peers.ids() {
                self.drop_peer(id);
            }
        }
    }

    /// Gives the link to another process with the same key.
    pub(super) async fn take_over(&mut self, peer: PeerId, twin: Twin) {
        let connection = twin.connection;
        self.begin_anew(peer, connection).await;
        for frame in twin.frames {
            self.frame(peer, connection, frame).await;
        }
        let held = twin.held.into_iter();
        for held in held.filter(|held| held.connection == connection) {
            self.take(peer, held).await;
        }
    }

    /// Ends the link with a peer and opens a new one, on the one connection that is left.
    pub(super) async fn begin_anew(&mut self, id: PeerId, connection: ConnectionId) {
        let before = self.peers.get_mut(&id).map(|peer| {
            let (listen, held) = (&mut peer.listen, &mut peer.held);
            (
                std::mem::take(listen),
                std::mem::take(held),
                peer.from,
                peer.unicast,
            )
        });
        let peer = self.peers.get_mut(&id);
        let address = peer.and_then(|peer| peer.take_remote(connection));
        self.unlink(&id, Instant::now()).await;
        self.connected(id, address.as_ref()).await;
        if let Some(peer) = self.peers.get_mut(&id) {
            if let Some(address) = address {
                peer.note_remote(connection, address);
            }
            (peer.listen, peer.held, peer.from, peer.unicast) = before.unwrap_or_default();
            peer.held.retain(|held| held.connection == connection);
            let _ = peer.opened(connection); // it is the only one
        }
    }

    pub(super) fn drop_peer(&mut self, peer: PeerId) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.dropped = true;
        }
        // Closing fails if there is no connection, which is the wanted state.
        let _ = self.swarm.disconnect_peer_id(peer);
    }

    pub(super) fn dial(&mut self) {
        if self.cut.all {
            return;
        }
        let now = Instant::now();
        let swarm = &self.swarm;
        let due = self.redial.due(now, |peer| swarm.is_connected(peer));
        for (place, address) in due {
            let is_configured = self.redial.is_configured(place);
            let options = DialOpts::from(address.clone());
            let attempt = options.connection_id();
            let dialled = self.swarm.dial(options);
            if let Err(error) = &dialled
                && is_configured
            {
                self.unreached.failed(address, error, now);
            }
            let dialled = dialled.map(|()| attempt).ok();
            self.redial.dialling(place, dialled, now);
        }
    }

    /// Checks at intervals which of the configured peers are not linked.
    pub(super) fn look_at_unreached(&mut self, now: Instant) {
        if now < self.unreached_next || self.cut.all {
            return;
        }
        self.unreached_next = now + UNREACHED_INTERVAL;
        let (peers, cut) = (&self.peers, &self.cut);
        let state = |peer: Option<PeerId>| match peer.and_then(|peer| peers.get(&peer)) {
            None => PeerState::Away,
            Some(peer) if peer.is_stranger() => PeerState::Connected(Why::stranger()),
            Some(peer) if !peer.has_hello => PeerState::Connected(Why::silent()),
            Some(peer) if !peer.has_hello_here() => PeerState::Connected(Why::elsewhere()),
            Some(_) => PeerState::Well,
        };
        let expected = self.redial.expected();
        let expected = expected.filter(|it| it.1.is_none_or(|it| !cut.peers.contains(&Peer(it))));
        let expected = expected.map(|(address, peer)| (address, state(peer)));
        let circuits = self.circuits.iter().map(|(address, is_bound)| {
            let state = match is_bound {
                true => PeerState::Well,
                false => PeerState::Connected(Why::no_circuit()),
            };
            (address.clone(), state)
        });
        let expected = expected.chain(circuits);
        let rows = self.unreached.look(expected, now);
        self.node_table.set_unreached(rows);
    }

    /// Checks at intervals whether this node takes part in its spaces as it should.
    pub(super) fn look_at_places(&mut self, now: Instant) {
        if now < self.waiting_next {
            return;
        }
        self.waiting_next = now + PLACES_INTERVAL;
        let all = &self.peers;
        // A newer peer may not have sent the members yet.
        let tells = |peer: &&peers::Peer| now.duration_since(peer.since) >= TELLS_AFTER;
        let with_hello = |space: &Space| {
            let peers = all.iter().filter(|it| tells(&it.1));
            let peers = peers.filter(|it| it.1.has_hello_in(space));
            peers.map(|it| *it.0).collect()
        };
        let places = self.rights.places(with_hello, self.clock.now());
        let outside = self.waiting.look(places.into_iter(), now);
        self.node_table.set_outside(outside);
    }

    /// Puts the wanted cuts into effect.
    pub(super) fn apply_cuts(&mut self) {
        let wanted = self.cuts.borrow_and_update().clone();
        let before = std::mem::replace(&mut self.cut, wanted.clone());
        self.swarm.behaviour_mut().policy.close(wanted.all);
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

    /// Dials at once the peers that should be connected, or were connected before the cut.
    fn heal(&mut self, still: &Cuts) {
        self.redial.hurry(Instant::now());
        self.circuits.hurry(Instant::now());
        self.addresses.hurry();
        self.dial();
        let healed = |peer: &PeerId, _: &mut Vec<Multiaddr>| !still.peers.contains(&Peer(*peer));
        for (peer, addresses) in self.cut_off.extract_if(healed) {
            let options = DialOpts::peer_id(peer).addresses(addresses).build();
            // Dialling fails for a peer that is already being dialled, or has no address.
            if let Err(error) = self.swarm.dial(options) {
                tracing::debug!(%peer, %error, "not dialled after a cut");
            }
        }
    }
}

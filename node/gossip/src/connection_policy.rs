//! The connection policy: which peers may connect.
//!
//! It is a libp2p behaviour without a protocol, which only judges connections. Configured peers,
//! and the members of spaces of which this node is a member, are *reserved*. They are always
//! admitted, and use no shared room. All other peers share the room. Incoming connections get only
//! a part of it, so that there is always room for peers that this node dials.
//!
//! Guests by one ticket get half of the incoming connections, and all guests get three quarters. So
//! a peer that still has to show its ticket finds room. A newcomer is a peer that has not shown
//! one. If there is no room, the newcomer that has waited longest gives way, at the address with
//! the most newcomers.

use super::reason::Reason;
use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::{
    CloseConnection, ConnectionClosed, ConnectionDenied, ConnectionId, DialFailure, FromSwarm,
    ListenFailure, NetworkBehaviour, THandler, THandlerInEvent, THandlerOutEvent, ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};
use std::collections::{HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tallymesh_node_engine::access::TicketId;
use tallymesh_node_engine::settings::GossipLimits;
use tallymesh_node_ground::rate::{Pace, client};

/// Most connections that are being set up from one address, so that no address uses all of them.
const PENDING_PER_ADDRESS_MAX: usize = 64;

/// The kind of a peer without a reserved place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// It has no rights here, and has to show a ticket.
    Newcomer,
    /// It has rights by this ticket, which does not make it a member.
    Guest(TicketId),
    /// It is a member by a ticket, or it uses the relay, or this node is open.
    Trusted,
}

/// The kind of a peer when it connects.
pub(super) type Classes = Arc<dyn Fn(&PeerId) -> Class + Send + Sync>;

/// Judges connections.
pub(super) struct ConnectionPolicy {
    limits: GossipLimits,
    classes: Classes,
    arrivals: Pace<IpAddr>,
    /// Configured peers.
    reserved: HashSet<PeerId>,
    /// Members of this node's spaces.
    members: HashSet<PeerId>,
    /// Whether no peer may connect, because the links are cut on purpose.
    closed: bool,
    pending_in: HashMap<ConnectionId, IpAddr>,
    pending_out: HashSet<ConnectionId>,
    established: HashMap<ConnectionId, Established>,
    /// The number of connections so far.
    count: u64,
    /// Connections that give way.
    closing: VecDeque<(PeerId, ConnectionId)>,
    /// Peers whose connections gave way and are still to be reported.
    gave_way: Vec<PeerId>,
}

struct Established {
    peer: PeerId,
    incoming: bool,
    from: IpAddr,
    class: Class,
    /// Its place among all connections, in the order in which they were made.
    number: u64,
    /// Whether it is being closed, because it gives way.
    closing: bool,
}

impl ConnectionPolicy {
    pub(super) fn new(limits: GossipLimits, classes: Classes) -> ConnectionPolicy {
        ConnectionPolicy {
            limits,
            classes,
            arrivals: Pace::new(limits.arrivals),
            reserved: HashSet::new(),
            members: HashSet::new(),
            closed: false,
            pending_in: HashMap::new(),
            pending_out: HashSet::new(),
            established: HashMap::new(),
            count: 0,
            closing: VecDeque::new(),
            gave_way: Vec::new(),
        }
    }

    /// Records that a peer begins or stops to use the relay. While it uses the relay, it does not
    /// give way.
    pub(super) fn set_relayed(&mut self, peer: &PeerId, relayed: bool) {
        let class = match relayed {
            true => Class::Trusted,
            false => (self.classes)(peer),
        };
        let all = self.established.values_mut();
        all.filter(|it| it.peer == *peer)
            .for_each(|it| it.class = class);
    }

    /// The peers whose connections have given way since the last call.
    pub(super) fn take_gave_way(&mut self) -> Vec<PeerId> {
        std::mem::take(&mut self.gave_way)
    }

    /// Reserves a place for this peer, however many others there are.
    pub(super) fn reserve(&mut self, peer: PeerId) {
        self.reserved.insert(peer);
    }

    /// Reserves places for these members. Earlier members lose theirs, unless they are configured
    /// peers.
    pub(super) fn reserve_members(&mut self, members: impl Iterator<Item = PeerId>) {
        self.members = members.collect();
    }

    pub(super) fn is_reserved(&self, peer: &PeerId) -> bool {
        self.reserved.contains(peer) || self.members.contains(peer)
    }

    /// Refuses all connections, or judges them again as before.
    pub(super) fn close(&mut self, closed: bool) {
        self.closed = closed;
    }

    fn arrives(&mut self, from: IpAddr, now: Instant) -> Result<(), Reason> {
        if self.closed {
            return Err(Reason::Cut);
        }
        if self.arrivals.wait(&from, 1, now).is_some() {
            return Err(Reason::Arrivals);
        }
        self.arrivals.spend(from, 1, now);
        let same = self.pending_in.values().filter(|it| **it == from);
        match self.pending_in.len() >= self.limits.pending as usize
            || same.count() >= PENDING_PER_ADDRESS_MAX
        {
            true => Err(Reason::Pending),
            false => Ok(()),
        }
    }

    fn leaves(&self, peer: Option<PeerId>) -> Result<(), Reason> {
        let reserved = peer.is_some_and(|peer| self.is_reserved(&peer));
        match self.closed {
            true => Err(Reason::Cut),
            false if !reserved && self.pending_out.len() >= self.limits.pending as usize => {
                Err(Reason::Pending)
            }
            false => Ok(()),
        }
    }

    /// Judges a new connection of a peer of this class. Returns the connection that gives way for
    /// it, if one does.
    fn established(
        &self,
        peer: &PeerId,
        incoming: bool,
        class: Class,
    ) -> Result<Option<ConnectionId>, Reason> {
        if self.closed {
            return Err(Reason::Cut);
        }
        let others = self.established.values();
        if others.filter(|it| it.peer == *peer).count() >= self.limits.per_peer as usize {
            return Err(Reason::PerPeer);
        }
        if self.is_reserved(peer) {
            return Ok(None);
        }
        let (mut came, mut all, mut guests, mut same) = (0, 0, 0, 0);
        for it in self.established.values() {
            if it.closing || self.is_reserved(&it.peer) {
                continue;
            }
            all += 1;
            came += u32::from(it.incoming);
            guests += u32::from(it.incoming && matches!(it.class, Class::Guest(_)));
            same += u32::from(it.incoming && it.class == class);
        }
        if !incoming {
            return match all >= self.limits.connections {
                true => Err(Reason::Connections),
                false => Ok(None),
            };
        }
        let most = self.limits.incoming;
        if matches!(class, Class::Guest(_))
            && (same >= most.div_ceil(2) || guests >= GossipLimits::incoming_of(most).max(1))
        {
            return Err(Reason::Guests);
        }
        let full = match (came >= most, all >= self.limits.connections) {
            (true, _) => Reason::Incoming,
            (false, true) => Reason::Connections,
            (false, false) => return Ok(None),
        };
        self.gives_way().map(Some).ok_or(full)
    }

    /// The newcomer that has waited longest, at the address with the most newcomers.
    fn gives_way(&self) -> Option<ConnectionId> {
        let newcomers = || {
            let all = self.established.iter();
            all.filter(|(_, it)| it.incoming && !it.closing && it.class == Class::Newcomer)
                .filter(|(_, it)| !self.is_reserved(&it.peer))
        };
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for (_, it) in newcomers() {
            *counts.entry(it.from).or_default() += 1;
        }
        let first = newcomers().max_by_key(|(_, it)| (counts[&it.from], u64::MAX - it.number));
        first.map(|(id, _)| *id)
    }

    fn close_for_another(&mut self, id: ConnectionId) {
        if let Some(it) = self.established.get_mut(&id) {
            it.closing = true;
            self.closing.push_back((it.peer, id));
            self.gave_way.push(it.peer);
        }
    }
}

/// The address by which a peer is counted. Peers through relays have none, and so share one.
pub(super) fn source(address: &Multiaddr) -> IpAddr {
    let relayed = address.iter().any(|part| part == Protocol::P2pCircuit);
    let ip = address.iter().find_map(|part| match part {
        Protocol::Ip4(ip) => Some(IpAddr::V4(ip)),
        Protocol::Ip6(ip) => Some(IpAddr::V6(ip)),
        _ => None,
    });
    match ip {
        Some(ip) if !relayed => client(ip),
        _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    }
}

impl NetworkBehaviour for ConnectionPolicy {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_pending_inbound_connection(
        &mut self,
        connection: ConnectionId,
        _: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        let from = source(remote);
        self.arrives(from, Instant::now())
            .map_err(ConnectionDenied::new)?;
        self.pending_in.insert(connection, from);
        Ok(())
    }

    fn handle_established_inbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.pending_in.remove(&connection);
        let judged = self.established(&peer, true, (self.classes)(&peer));
        if let Some(other) = judged.map_err(ConnectionDenied::new)? {
            self.close_for_another(other);
        }
        Ok(dummy::ConnectionHandler)
    }

    fn handle_pending_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: Option<PeerId>,
        _: &[Multiaddr],
        _: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        self.leaves(peer).map_err(ConnectionDenied::new)?;
        self.pending_out.insert(connection);
        Ok(Vec::new())
    }

    fn handle_established_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.pending_out.remove(&connection);
        self.established(&peer, false, Class::Trusted)
            .map_err(ConnectionDenied::new)?;
        Ok(dummy::ConnectionHandler)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(event) => {
                self.count += 1;
                let new = Established {
                    peer: event.peer_id,
                    incoming: event.endpoint.is_listener(),
                    from: source(event.endpoint.get_remote_address()),
                    class: (self.classes)(&event.peer_id),
                    number: self.count,
                    closing: false,
                };
                self.established.insert(event.connection_id, new);
            }
            FromSwarm::ConnectionClosed(ConnectionClosed { connection_id, .. }) => {
                self.established.remove(&connection_id);
            }
            FromSwarm::DialFailure(DialFailure { connection_id, .. }) => {
                self.pending_out.remove(&connection_id);
            }
            FromSwarm::ListenFailure(ListenFailure { connection_id, .. }) => {
                self.pending_in.remove(&connection_id);
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(
        &mut self,
        _: PeerId,
        _: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Infallible, THandlerInEvent<Self>>> {
        // The swarm judges connections, and polls this behaviour after each.
        let Some((peer_id, id)) = self.closing.pop_front() else {
            return Poll::Pending;
        };
        Poll::Ready(ToSwarm::CloseConnection {
            peer_id,
            connection: CloseConnection::One(id),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tallymesh_node_ground::rate::Rate;

    fn policy(connections: u32, incoming: u32) -> ConnectionPolicy {
        let limits = GossipLimits {
            connections,
            incoming,
            per_peer: 2,
            arrivals: Rate::new(1, 3).expect("a rate"),
            ..GossipLimits::default()
        };
        ConnectionPolicy::new(limits, Arc::new(|_| Class::Trusted))
    }

    fn open(
        policy: &mut ConnectionPolicy,
        number: usize,
        peer: PeerId,
        incoming: bool,
    ) -> Result<(), Reason> {
        open_as(policy, number, (peer, Class::Trusted, 1), incoming)
    }

    /// Opens a connection of a peer of this class, from this address.
    fn open_as(
        policy: &mut ConnectionPolicy,
        number: usize,
        (peer, class, from): (PeerId, Class, u8),
        incoming: bool,
    ) -> Result<(), Reason> {
        if let Some(other) = policy.established(&peer, incoming, class)? {
            policy.close_for_another(other);
        }
        let new = Established {
            peer,
            incoming,
            from: Ipv4Addr::new(10, 0, 0, from).into(),
            class,
            number: number as u64,
            closing: false,
        };
        let id = ConnectionId::new_unchecked(number);
        policy.established.insert(id, new);
        Ok(())
    }

    #[test]
    fn guests_by_one_ticket_leave_room_for_others_and_all_of_them_for_newcomers() {
        let mut policy = policy(16, 8);
        let guest = |id| Class::Guest(TicketId::new([id; 16]));
        let mut number = 0;
        let mut next = |policy: &mut ConnectionPolicy, class| {
            number += 1;
            open_as(policy, number, (PeerId::random(), class, 1), true)
        };
        for _ in 0..4 {
            assert_eq!(next(&mut policy, guest(1)), Ok(()));
        }
        assert_eq!(next(&mut policy, guest(1)), Err(Reason::Guests));
        for _ in 0..2 {
            assert_eq!(next(&mut policy, guest(2)), Ok(()));
        }
        assert_eq!(next(&mut policy, guest(3)), Err(Reason::Guests));
        for _ in 0..2 {
            assert_eq!(next(&mut policy, Class::Newcomer), Ok(()));
        }
        assert_eq!(policy.closing.len(), 0);
        assert_eq!(next(&mut policy, Class::Newcomer), Ok(()));
        assert_eq!(policy.closing.len(), 1, "the first newcomer gives way");
        // Members by a ticket get the places of newcomers. After that, no connection gives way.
        for _ in 0..2 {
            assert_eq!(next(&mut policy, Class::Trusted), Ok(()));
        }
        assert_eq!(policy.closing.len(), 3);
        for class in [Class::Trusted, Class::Newcomer] {
            assert_eq!(next(&mut policy, class), Err(Reason::Incoming));
        }
        assert_eq!(policy.take_gave_way().len(), 3);
    }

    #[test]
    fn the_newcomer_gives_way_that_waits_longest_at_the_address_with_most() {
        let mut policy = policy(16, 4);
        let [relayed, other] = [0; 2].map(|_| PeerId::random());
        for (number, peer, from) in [
            (1, relayed, 2),
            (2, other, 1),
            (3, PeerId::random(), 2),
            (4, PeerId::random(), 2),
        ] {
            let opened = open_as(&mut policy, number, (peer, Class::Newcomer, from), true);
            assert_eq!(opened, Ok(()));
        }
        policy.set_relayed(&relayed, true);
        let mut gone = Vec::new();
        for number in 5..8 {
            let comer = (PeerId::random(), Class::Newcomer, 3);
            assert_eq!(open_as(&mut policy, number, comer, true), Ok(()));
            gone.extend(policy.closing.drain(..).map(|(_, id)| id));
        }
        // First the older one at the address with two gives way, then the oldest at the addresses
        // with one.
        let id = ConnectionId::new_unchecked;
        assert_eq!(gone, [id(3), id(2), id(5)]);
    }

    #[test]
    fn strangers_leave_room_for_those_that_are_dialled_and_for_configured_peers() {
        let mut policy = policy(4, 2);
        let mut number = 0;
        let mut next = |policy: &mut ConnectionPolicy, peer, incoming| {
            number += 1;
            open(policy, number, peer, incoming)
        };
        let one = PeerId::random();
        policy.reserve(one);
        for _ in 0..2 {
            assert_eq!(next(&mut policy, PeerId::random(), true), Ok(()));
        }
        let refused = next(&mut policy, PeerId::random(), true);
        assert_eq!(refused, Err(Reason::Incoming));
        for _ in 0..2 {
            assert_eq!(next(&mut policy, PeerId::random(), false), Ok(()));
        }
        let refused = next(&mut policy, PeerId::random(), false);
        assert_eq!(refused, Err(Reason::Connections));
        assert_eq!(next(&mut policy, one, true), Ok(()));
        assert_eq!(next(&mut policy, one, false), Ok(()));
        assert_eq!(next(&mut policy, one, false), Err(Reason::PerPeer));
        // Its connections use no shared room.
        let gone = ConnectionId::new_unchecked(1);
        policy.established.remove(&gone);
        assert_eq!(next(&mut policy, PeerId::random(), true), Ok(()));
        policy.close(true);
        assert_eq!(next(&mut policy, one, true), Err(Reason::Cut));
        assert_eq!(policy.leaves(Some(one)), Err(Reason::Cut));
    }

    #[test]
    fn a_member_that_was_removed_has_no_place_of_its_own_any_more() {
        let mut policy = policy(1, 1);
        let [configured, stays, gone] = [0; 3].map(|_| PeerId::random());
        policy.reserve(configured);
        policy.reserve_members([configured, stays, gone].into_iter());
        assert_eq!(open(&mut policy, 1, PeerId::random(), true), Ok(()));
        assert_eq!(open(&mut policy, 2, gone, true), Ok(()));
        policy.established.remove(&ConnectionId::new_unchecked(2));
        policy.reserve_members([stays].into_iter());
        assert_eq!(open(&mut policy, 3, gone, true), Err(Reason::Incoming));
        assert_eq!(open(&mut policy, 4, stays, true), Ok(()));
        assert_eq!(open(&mut policy, 5, configured, true), Ok(()));
    }

    #[test]
    fn an_address_that_comes_too_often_waits() {
        let mut policy = policy(100, 100);
        let now = Instant::now();
        let [one, other]: [Multiaddr; 2] =
            ["/ip4/10.0.0.1/tcp/9", "/ip4/10.0.0.2/tcp/9"].map(|it| it.parse().expect(it));
        for _ in 0..3 {
            assert_eq!(policy.arrives(source(&one), now), Ok(()));
        }
        assert_eq!(policy.arrives(source(&one), now), Err(Reason::Arrivals));
        assert_eq!(policy.arrives(source(&other), now), Ok(()));
        let later = now + Duration::from_secs(1);
        assert_eq!(policy.arrives(source(&one), later), Ok(()));
    }

    #[test]
    fn one_address_can_not_take_all_places_of_those_being_set_up() {
        let mut policy = policy(1000, 1000);
        policy.arrivals = Pace::new(Rate::new(1000, 1000).expect("a rate"));
        let address: Multiaddr = "/ip4/10.0.0.1/tcp/9".parse().expect("an address");
        for number in 0..PENDING_PER_ADDRESS_MAX {
            let id = ConnectionId::new_unchecked(number);
            let judged = policy.handle_pending_inbound_connection(id, &address, &address);
            assert!(judged.is_ok());
        }
        let now = Instant::now();
        assert_eq!(policy.arrives(source(&address), now), Err(Reason::Pending));
        let other: IpAddr = "10.0.0.2".parse().expect("an address");
        assert_eq!(policy.arrives(other, now), Ok(()));
    }

    #[test]
    fn whoever_comes_through_a_relay_has_no_address() {
        for (text, from) in [
            ("/ip4/10.0.0.1/tcp/9", "10.0.0.1"),
            ("/ip6/2001:db8::7/udp/9/quic-v1", "2001:db8::"),
            ("/ip4/10.0.0.1/tcp/9/p2p-circuit", "0.0.0.0"),
            ("/dns4/a.example/tcp/9", "0.0.0.0"),
        ] {
            let address: Multiaddr = text.parse().expect(text);
            assert_eq!(source(&address).to_string(), from, "{text}");
        }
    }
}

//! Gossip with some peers only: with all others this node does not speak that protocol.
//!
//! Gossipsub tells a peer its subscriptions on the first connection. That may be one to a process which
//! has ended since, while its next start is on the second one: it would hear of none, and push nothing
//! here for as long as that lasts. So each connection is shown to it as a first one, and whenever one is
//! closed and others are left, it is shown those again: messages to a peer go out on any of its
//! connections, and so may have gone out on the closed one. It does nothing else with first ones while it
//! keeps no scores, as here.

use either::Either;
use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::behaviour::{ConnectionClosed, ConnectionEstablished};
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
    THandlerOutEvent, ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};
use std::collections::{HashMap, HashSet};
use std::ops::{Deref, DerefMut};
use std::task::{Context, Poll};

/// `B`, for those peers that `F` lets through when they connect. `B` does not hear of the others.
pub(super) struct Only<B, F> {
    inner: B,
    may: F,
    /// The connections that it is to have, once they are there.
    let_through: HashSet<ConnectionId>,
    /// How many it has with each.
    connections: HashMap<PeerId, usize>,
}

impl<B, F: Fn(&PeerId, Option<&Multiaddr>) -> bool> Only<B, F> {
    pub(super) fn new(inner: B, may: F) -> Only<B, F> {
        Only {
            inner,
            may,
            let_through: HashSet::new(),
            connections: HashMap::new(),
        }
    }

    /// Whether it is spoken with a peer.
    pub(super) fn has(&self, peer: &PeerId) -> bool {
        self.connections.contains_key(peer)
    }

    /// `from` is where a connection came from, if it came in.
    fn lets_through(
        &mut self,
        connection: ConnectionId,
        peer: &PeerId,
        from: Option<&Multiaddr>,
    ) -> bool {
        let may = (self.may)(peer, from);
        if may {
            self.let_through.insert(connection);
        }
        may
    }
}

impl<B, F> Deref for Only<B, F> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.inner
    }
}

impl<B, F> DerefMut for Only<B, F> {
    fn deref_mut(&mut self) -> &mut B {
        &mut self.inner
    }
}

impl<B, F> NetworkBehaviour for Only<B, F>
where
    B: NetworkBehaviour,
    F: Fn(&PeerId, Option<&Multiaddr>) -> bool + 'static,
{
    type ConnectionHandler = Either<THandler<B>, dummy::ConnectionHandler>;
    type ToSwarm = B::ToSwarm;

    fn handle_established_inbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        if !self.lets_through(connection, &peer, Some(remote)) {
            return Ok(Either::Right(dummy::ConnectionHandler));
        }
        let inner = &mut self.inner;
        let handler = inner.handle_established_inbound_connection(connection, peer, local, remote);
        handler.map(Either::Left)
    }

    fn handle_established_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        address: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        if !self.lets_through(connection, &peer, None) {
            return Ok(Either::Right(dummy::ConnectionHandler));
        }
        let inner = &mut self.inner;
        let handler =
            inner.handle_established_outbound_connection(connection, peer, address, role, port);
        handler.map(Either::Left)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        let event = match event {
            FromSwarm::ConnectionEstablished(event) => {
                if !self.let_through.contains(&event.connection_id) {
                    return;
                }
                *self.connections.entry(event.peer_id).or_default() += 1;
                FromSwarm::ConnectionEstablished(ConnectionEstablished {
                    other_established: 0,
                    ..event
                })
            }
            FromSwarm::ConnectionClosed(event) => {
                if !self.let_through.remove(&event.connection_id) {
                    return;
                }
                let connections = self.connections.get_mut(&event.peer_id);
                let left = connections.map_or(0, |connections| {
                    *connections -= 1;
                    *connections
                });
                let closed = FromSwarm::ConnectionClosed(ConnectionClosed {
                    remaining_established: left,
                    ..event
                });
                if left == 0 {
                    self.connections.remove(&event.peer_id);
                    return self.inner.on_swarm_event(closed);
                }
                self.inner.on_swarm_event(closed);
                FromSwarm::ConnectionEstablished(ConnectionEstablished {
                    peer_id: event.peer_id,
                    connection_id: event.connection_id,
                    endpoint: event.endpoint,
                    failed_addresses: &[],
                    other_established: 0,
                })
            }
            FromSwarm::AddressChange(event) => {
                if !self.let_through.contains(&event.connection_id) {
                    return;
                }
                FromSwarm::AddressChange(event)
            }
            FromSwarm::DialFailure(event) => {
                self.let_through.remove(&event.connection_id);
                FromSwarm::DialFailure(event)
            }
            FromSwarm::ListenFailure(event) => {
                self.let_through.remove(&event.connection_id);
                FromSwarm::ListenFailure(event)
            }
            other => other,
        };
        self.inner.on_swarm_event(event);
    }

    fn on_connection_handler_event(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        match event {
            Either::Left(event) => self
                .inner
                .on_connection_handler_event(peer, connection, event),
            Either::Right(never) => match never {},
        }
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        let polled = self.inner.poll(context);
        polled.map(|event| event.map_in(Either::Left))
    }
}

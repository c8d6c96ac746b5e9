//! Restricts gossip to some peers. With all others, this node does not speak that protocol.
//!
//! Gossipsub sends a peer its subscriptions on the first connection. The process on it may since
//! have ended, while its next start is on the second connection. The new process would receive no
//! subscriptions, and push nothing here.
//!
//! So this wrapper shows each connection to gossipsub as a first one. Whenever a connection is
//! closed and others are left, it shows those again. Gossipsub sends messages on any connection of
//! a peer, so some may have been lost with the closed one. Gossipsub does nothing else on a first
//! connection while it keeps no scores, as here.

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

/// The behaviour `B`, for the peers that `F` accepts when they connect. `B` does not see the
/// others.
pub(super) struct Restricted<B, F> {
    inner: B,
    may: F,
    /// The accepted connections that are not established yet.
    let_through: HashSet<ConnectionId>,
    /// The number of connections that it has with each peer.
    connections: HashMap<PeerId, usize>,
}

impl<B, F: Fn(&PeerId, Option<&Multiaddr>) -> bool> Restricted<B, F> {
    pub(super) fn new(inner: B, may: F) -> Restricted<B, F> {
        Restricted {
            inner,
            may,
            let_through: HashSet::new(),
            connections: HashMap::new(),
        }
    }

    /// Whether this node speaks the protocol with a peer.
    pub(super) fn has(&self, peer: &PeerId) -> bool {
        self.connections.contains_key(peer)
    }

    /// Decides whether `inner` gets a connection. `from` is the remote address of an incoming one.
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

impl<B, F> Deref for Restricted<B, F> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.inner
    }
}

impl<B, F> DerefMut for Restricted<B, F> {
    fn deref_mut(&mut self) -> &mut B {
        &mut self.inner
    }
}

impl<B, F> NetworkBehaviour for Restricted<B, F>
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

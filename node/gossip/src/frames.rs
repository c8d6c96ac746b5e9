//! The behaviour of frames, which gives the codec of a connection its peer.

use super::codec::FrameCodec;
use super::frame_room::FrameRoom;
use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::request_response;
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
    THandlerOutEvent, ToSwarm,
};
use libp2p::{Multiaddr, PeerId};
use std::ops::{Deref, DerefMut};
use std::task::{Context, Poll};

/// Requests with frames. libp2p clones the codec of a behaviour for each connection, and that clone
/// for each stream, without naming the peer. So this behaviour records the peer while libp2p makes
/// a connection.
pub(super) struct Frames {
    inner: request_response::Behaviour<FrameCodec>,
    room: FrameRoom,
}

impl Frames {
    pub(super) fn new(inner: request_response::Behaviour<FrameCodec>, room: FrameRoom) -> Frames {
        Frames { inner, room }
    }
}

impl Deref for Frames {
    type Target = request_response::Behaviour<FrameCodec>;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl DerefMut for Frames {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.inner
    }
}

impl NetworkBehaviour for Frames {
    type ConnectionHandler = THandler<request_response::Behaviour<FrameCodec>>;
    type ToSwarm = <request_response::Behaviour<FrameCodec> as NetworkBehaviour>::ToSwarm;

    fn handle_established_inbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.room.arrives(Some(peer));
        let inner = &mut self.inner;
        let handler = inner.handle_established_inbound_connection(connection, peer, local, remote);
        self.room.arrives(None);
        handler
    }

    fn handle_established_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        address: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.room.arrives(Some(peer));
        let inner = &mut self.inner;
        let handler =
            inner.handle_established_outbound_connection(connection, peer, address, role, port);
        self.room.arrives(None);
        handler
    }

    fn handle_pending_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: Option<PeerId>,
        addresses: &[Multiaddr],
        role: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        let inner = &mut self.inner;
        inner.handle_pending_outbound_connection(connection, peer, addresses, role)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        self.inner.on_swarm_event(event);
    }

    fn on_connection_handler_event(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        self.inner
            .on_connection_handler_event(peer, connection, event);
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        self.inner.poll(context)
    }
}

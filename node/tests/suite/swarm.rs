//! Peers over libp2p with protocols of the tests' choice.

use libp2p::identity::Keypair;
use libp2p::swarm::{NetworkBehaviour, Swarm};
use libp2p::{SwarmBuilder, noise, tcp, yamux};
use std::time::Duration;

/// How long a connection may be idle: longer than any test.
const IDLE: Duration = Duration::from_secs(3600);

/// A swarm over TCP under this key. It closes no connection by itself.
pub(crate) fn swarm<B: NetworkBehaviour>(key: Keypair, behaviour: B) -> Swarm<B> {
    SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_tcp(
            tcp::Config::default(),
            noise::Config::new,
            yamux::Config::default,
        )
        .expect("TCP")
        .with_behaviour(|_| behaviour)
        .expect("a behaviour")
        .with_swarm_config(|it| it.with_idle_connection_timeout(IDLE))
        .build()
}

//! The libp2p behaviours of a node, and their limits.

use super::audit::{self, AuditCodec};
use super::codec::{FrameCodec, PROTOCOL};
use super::{GossipError, Identity};
use libp2p::allow_block_list::{self, BlockedPeers};
use libp2p::connection_limits::{self, ConnectionLimits};
use libp2p::gossipsub::{self, MessageAuthenticity, MessageId, ValidationMode};
use libp2p::request_response::{self, ProtocolSupport};
use libp2p::swarm::behaviour::toggle::Toggle;
use libp2p::swarm::{NetworkBehaviour, Swarm};
use libp2p::{SwarmBuilder, identify, mdns, noise, ping, tcp, yamux};
use sha2::{Digest, Sha256};
use std::fmt::Display;
use std::time::Duration;
use tallymesh_core::Space;
use tallymesh_core::limits::FRAME_BYTES_MAX;

/// Most peers that may be connected.
pub(super) const PEERS_MAX: u32 = 256;

/// Most connections to one peer: two nodes that dial each other at once, over two transports.
const CONNECTIONS_PER_PEER_MAX: u32 = 4;

/// Most connections that are still being set up, in each direction.
const PENDING_MAX: u32 = 64;

/// Room for gossipsub's own fields around a frame.
const GOSSIP_OVERHEAD_BYTES: usize = 4096;

/// A frame that is not taken within this time is given up; sync repairs what that leaves open.
const FRAME_TIMEOUT: Duration = Duration::from_secs(20);

/// A question of an audit that is not answered within this time is given up.
const AUDIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Most streams of audits on one connection, in both directions.
const AUDIT_STREAMS_MAX: usize = 4;

/// How often a silent connection is probed, and how long an answer may take.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections are kept as long as they answer pings, whether or not they carry streams.
const IDLE_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

#[derive(NetworkBehaviour)]
pub(super) struct Behaviour {
    pub(super) limits: connection_limits::Behaviour,
    pub(super) blocked: allow_block_list::Behaviour<BlockedPeers>,
    pub(super) ping: ping::Behaviour,
    pub(super) identify: identify::Behaviour,
    pub(super) mdns: Toggle<mdns::tokio::Behaviour>,
    pub(super) gossipsub: gossipsub::Behaviour,
    pub(super) frames: request_response::Behaviour<FrameCodec>,
    pub(super) audits: request_response::Behaviour<AuditCodec>,
}

/// The limits on connections; none at all are allowed when this node is cut off on purpose.
pub(super) fn limits(cut: bool) -> ConnectionLimits {
    let most = |limit| Some(if cut { 0 } else { limit });
    ConnectionLimits::default()
        .with_max_pending_incoming(most(PENDING_MAX))
        .with_max_pending_outgoing(most(PENDING_MAX))
        .with_max_established_per_peer(most(CONNECTIONS_PER_PEER_MAX))
        .with_max_established(most(PEERS_MAX))
}

/// The topic on which fresh changes of a space are pushed.
pub(super) fn topic(space: &Space) -> gossipsub::IdentTopic {
    gossipsub::IdentTopic::new(format!("/tallymesh/space/1/{space}"))
}

/// Makes the swarm, subscribed to the topics of `spaces` and not yet listening.
pub(super) async fn build(
    identity: &Identity,
    mdns: bool,
    spaces: &[Space],
) -> Result<Swarm<Behaviour>, GossipError> {
    let key = identity.0.clone();
    let behaviour = Behaviour {
        limits: connection_limits::Behaviour::new(limits(false)),
        blocked: allow_block_list::Behaviour::default(),
        ping: ping::Behaviour::new(
            ping::Config::new()
                .with_interval(PING_INTERVAL)
                .with_timeout(PING_TIMEOUT),
        ),
        identify: identify::Behaviour::new(
            identify::Config::new("tallymesh/1".into(), key.public())
                .with_agent_version(format!("tallymesh-node/{}", env!("CARGO_PKG_VERSION"))),
        ),
        mdns: discovery(identity, mdns)?,
        gossipsub: broadcast(spaces)?,
        frames: request_response::Behaviour::new(
            [(PROTOCOL, ProtocolSupport::Full)],
            request_response::Config::default().with_request_timeout(FRAME_TIMEOUT),
        ),
        audits: request_response::Behaviour::new(
            [(audit::PROTOCOL, ProtocolSupport::Full)],
            request_response::Config::default()
                .with_request_timeout(AUDIT_TIMEOUT)
                .with_max_concurrent_streams(AUDIT_STREAMS_MAX),
        ),
    };
    let builder = SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_tcp(
            tcp::Config::default().nodelay(true),
            noise::Config::new,
            yamux::Config::default,
        )
        .map_err(|error| start("TCP", error))?
        .with_quic()
        .with_dns()
        .map_err(|error| start("DNS", error))?
        .with_websocket(noise::Config::new, yamux::Config::default)
        .await
        .map_err(|error| start("WebSocket", error))?;
    let swarm = builder
        .with_behaviour(|_| behaviour)
        .map_err(|error| start("libp2p", error))?
        .with_swarm_config(|config| config.with_idle_connection_timeout(IDLE_TIMEOUT))
        .build();
    Ok(swarm)
}

fn discovery(
    identity: &Identity,
    wanted: bool,
) -> Result<Toggle<mdns::tokio::Behaviour>, GossipError> {
    let own = identity.0.public().to_peer_id();
    let mdns = wanted
        .then(|| mdns::tokio::Behaviour::new(mdns::Config::default(), own))
        .transpose()
        .map_err(|error| start("mDNS", error))?;
    Ok(mdns.into())
}

/// Pushes are not signed by their author: links are authenticated, whoever relays a push answers
/// for it, and any replica may pass on any shard. Equal frames are one message.
fn broadcast(spaces: &[Space]) -> Result<gossipsub::Behaviour, GossipError> {
    let config = gossipsub::ConfigBuilder::default()
        .validation_mode(ValidationMode::Anonymous)
        .validate_messages()
        .max_transmit_size(FRAME_BYTES_MAX + GOSSIP_OVERHEAD_BYTES)
        .message_id_fn(|message| MessageId::from(&Sha256::digest(&message.data)[..20]))
        .build()
        .map_err(|error| start("gossipsub", error))?;
    let mut gossipsub = gossipsub::Behaviour::new(MessageAuthenticity::Anonymous, config)
        .map_err(|error| start("gossipsub", error))?;
    for space in spaces {
        gossipsub
            .subscribe(&topic(space))
            .map_err(|error| start("gossipsub", error))?;
    }
    Ok(gossipsub)
}

fn start(what: &'static str, problem: impl Display) -> GossipError {
    GossipError::Start {
        what,
        problem: problem.to_string(),
    }
}

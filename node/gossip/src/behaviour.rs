//! The libp2p behaviours of a node, and their limits.

use super::audit::{self, AuditCodec};
use super::browser_check::BrowserCheck;
use super::codec::{FrameCodec, PROTOCOL, REQUEST_BYTES_MAX};
use super::connection_policy::{Classes, ConnectionPolicy};
use super::frame_room::FrameRoom;
use super::frames::Frames;
use super::join::{self, JoinCodec};
use super::network_metrics::{NetworkMetrics, Pushes, TOPIC};
use super::node_info::{self, NodeInfoCodec};
use super::relay::relaying;
use super::restricted::Restricted;
use super::rights::Rights;
use super::{GossipError, transports};
use libp2p::allow_block_list::{self, BlockedPeers};
use libp2p::gossipsub::{
    self, AllowAllSubscriptionFilter, MaxCountSubscriptionFilter, MessageAuthenticity, MessageId,
    ValidationMode,
};
use libp2p::request_response::{self, ProtocolSupport};
use libp2p::swarm::behaviour::toggle::Toggle;
use libp2p::swarm::{NetworkBehaviour, Swarm};
use libp2p::{
    Multiaddr, PeerId, SwarmBuilder, identify, mdns, memory_connection_limits, noise, ping, relay,
    yamux,
};
use sha2::{Digest, Sha256};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tallymesh_core::Space;
use tallymesh_core::bounds::FRAME_BYTES_MAX;
use tallymesh_node_engine::driver::Handle;
use tallymesh_node_engine::metrics::Metrics;
use tallymesh_node_engine::settings::{GossipConfig, MemoryMax};
use tallymesh_node_ground::clock::WallClock;
use tallymesh_node_ground::identity::Identity;

/// Room for gossipsub's own fields around a frame.
const GOSSIP_OVERHEAD_BYTES: usize = 4096;

/// Most topics to which a peer may subscribe: more than the topics of all spaces that a node may
/// have open.
const TOPICS_MAX: usize = 16_384;

/// A frame that is not accepted within this time is dropped, and sync repairs the gap.
const FRAME_TIMEOUT: Duration = Duration::from_secs(20);

/// Most streams of frames on one connection, in both directions. Normally there is one each way;
/// others may have been dropped before. Each may have a frame in memory.
const FRAME_STREAMS_MAX: usize = 8;

/// A question of an audit without an answer within this time is dropped.
const AUDIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Most streams of audits on one connection, in both directions.
const AUDIT_STREAMS_MAX: usize = 4;

/// A node that does not send its info within this time is asked later.
const ABOUT_TIMEOUT: Duration = Duration::from_secs(10);

/// Most streams of such questions on one connection, in both directions.
const ABOUT_STREAMS_MAX: usize = 4;

/// A ticket without an answer within this time is shown again at the next connection.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Most streams of tickets on one connection, in both directions.
const JOIN_STREAMS_MAX: usize = 4;

/// How often a connection is probed, and how long an answer may take. So something arrives at both ends
/// that often, and [`silence`](super::silence) ends a connection on which nothing does. A shorter
/// interval costs work while nothing happens.
const PING_INTERVAL: Duration = Duration::from_secs(2);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections stay open while they answer pings, whether or not they have streams.
const IDLE_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Gossipsub, which counts pushes as they pass.
pub(super) type Gossip =
    gossipsub::Behaviour<Pushes, MaxCountSubscriptionFilter<AllowAllSubscriptionFilter>>;

/// Decides with which peers pushes are gossiped. Topics are no secret, and every peer that learns
/// of one may subscribe. So this node gossips only with peers that may have all pushes.
pub(super) type MayGossip = Box<dyn Fn(&PeerId, Option<&Multiaddr>) -> bool + Send>;

#[derive(NetworkBehaviour)]
pub(super) struct Behaviour {
    pub(super) policy: ConnectionPolicy,
    pub(super) memory: Toggle<memory_connection_limits::Behaviour>,
    pub(super) blocked: allow_block_list::Behaviour<BlockedPeers>,
    pub(super) ping: ping::Behaviour,
    pub(super) identify: identify::Behaviour,
    pub(super) mdns: Toggle<mdns::tokio::Behaviour>,
    pub(super) gossipsub: Restricted<Gossip, MayGossip>,
    pub(super) frames: Frames,
    pub(super) audits: request_response::Behaviour<AuditCodec>,
    pub(super) node_infos: request_response::Behaviour<NodeInfoCodec>,
    pub(super) joins: request_response::Behaviour<JoinCodec>,
    pub(super) relay: Toggle<relay::Behaviour>,
    pub(super) circuits: relay::client::Behaviour,
}

/// The topic on which fresh changes of a space are pushed.
pub(super) fn topic(space: &Space) -> gossipsub::IdentTopic {
    gossipsub::IdentTopic::new(format!("{TOPIC}{space}"))
}

/// Makes the swarm, subscribed to the topics of the open spaces and not yet listening.
#[expect(
    clippy::too_many_arguments,
    reason = "all that a node's network is made of"
)]
pub(super) fn build(
    identity: &Identity,
    config: &GossipConfig,
    handle: &Handle,
    rights: &Rights,
    browser_check: BrowserCheck,
    clock: WallClock,
    metrics: &Metrics,
    network_metrics: &NetworkMetrics,
) -> Result<Swarm<Behaviour>, GossipError> {
    let key = identity.0.clone();
    let own = key.public().to_peer_id();
    let limits = config.limits;
    let memory = limits.memory.map(|most| match most {
        MemoryMax::Bytes(bytes) => memory_connection_limits::Behaviour::with_max_bytes(bytes),
        MemoryMax::Percent(percent) => {
            let share = f64::from(percent) / 100.0;
            memory_connection_limits::Behaviour::with_max_percentage(share)
        }
    });
    let mdns = discovery(identity, config.mdns)?;
    let gossipsub = broadcast(handle, network_metrics)?;
    let (known, now) = (rights.clone(), clock.clone());
    let classes: Classes = Arc::new(move |peer| known.class(peer, now.now()));
    let room = FrameRoom::new(limits.frame_memory, REQUEST_BYTES_MAX, classes.clone());
    let (rights, now) = (rights.clone(), clock.clone());
    let looked = browser_check.clone();
    // The node learns that a peer is a page only after libp2p has made the connection.
    let may_gossip: MayGossip = Box::new(move |peer, from| {
        !from.is_some_and(|from| looked.came_by_browser(from)) && rights.is_full(peer, now.now())
    });
    let behaviour = |circuits| Behaviour {
        policy: ConnectionPolicy::new(limits, classes),
        memory: memory.into(),
        blocked: allow_block_list::Behaviour::default(),
        ping: ping::Behaviour::new(
            ping::Config::new()
                .with_interval(PING_INTERVAL)
                .with_timeout(PING_TIMEOUT),
        ),
        identify: identify::Behaviour::new(
            identify::Config::new("tallymesh/1".into(), key.public())
                // Strangers receive this, too. So it has no version, and no address except a
                // relay's.
                .with_agent_version("tallymesh".into())
                .with_hide_listen_addrs(true),
        ),
        mdns,
        gossipsub: Restricted::new(gossipsub, may_gossip),
        frames: Frames::new(
            request_response::Behaviour::with_codec(
                FrameCodec::new(room.clone(), network_metrics.clone()),
                [(PROTOCOL, ProtocolSupport::Full)],
                request_response::Config::default()
                    .with_request_timeout(FRAME_TIMEOUT)
                    .with_max_concurrent_streams(FRAME_STREAMS_MAX),
            ),
            room,
        ),
        audits: request_response::Behaviour::new(
            [(audit::PROTOCOL, ProtocolSupport::Full)],
            request_response::Config::default()
                .with_request_timeout(AUDIT_TIMEOUT)
                .with_max_concurrent_streams(AUDIT_STREAMS_MAX),
        ),
        node_infos: request_response::Behaviour::with_codec(
            NodeInfoCodec::new(clock),
            [(node_info::PROTOCOL, ProtocolSupport::Full)],
            request_response::Config::default()
                .with_request_timeout(ABOUT_TIMEOUT)
                .with_max_concurrent_streams(ABOUT_STREAMS_MAX),
        ),
        joins: request_response::Behaviour::new(
            [(join::PROTOCOL, ProtocolSupport::Full)],
            request_response::Config::default()
                .with_request_timeout(JOIN_TIMEOUT)
                .with_max_concurrent_streams(JOIN_STREAMS_MAX),
        ),
        relay: config.relay.map(|limits| relaying(limits, own)).into(),
        circuits,
    };
    let builder = SwarmBuilder::with_existing_identity(identity.0.clone())
        .with_tokio()
        .with_other_transport(|key| transports::build(key, browser_check))
        .map_err(|error| start("transports", error))?
        .with_relay_client(noise::Config::new, yamux::Config::default)
        .map_err(|error| start("circuits", error))?;
    // The builder borrows the registry until the swarm is made.
    metrics.register(|registry| {
        let swarm = builder
            .with_bandwidth_metrics(registry)
            .with_behaviour(|_, circuits| behaviour(circuits))
            .map_err(|error| start("libp2p", error))?
            .with_swarm_config(|config| config.with_idle_connection_timeout(IDLE_TIMEOUT))
            .build();
        Ok(swarm)
    })
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

/// Pushes are not signed by their author. Links are authenticated, the peer that passes a push on
/// is responsible for it, and any replica may pass on any shard. Equal frames are one message.
fn broadcast(handle: &Handle, metrics: &NetworkMetrics) -> Result<Gossip, GossipError> {
    let config = gossipsub::ConfigBuilder::default()
        .validation_mode(ValidationMode::Anonymous)
        .validate_messages()
        .max_transmit_size(FRAME_BYTES_MAX + GOSSIP_OVERHEAD_BYTES)
        .message_id_fn(|message| MessageId::from(&Sha256::digest(&message.data)[..20]))
        .build()
        .map_err(|error| start("gossipsub", error))?;
    let filter = MaxCountSubscriptionFilter {
        filter: AllowAllSubscriptionFilter {},
        max_subscribed_topics: TOPICS_MAX,
        max_subscriptions_per_request: TOPICS_MAX,
    };
    Gossip::new_with_subscription_filter_and_transform(
        MessageAuthenticity::Anonymous,
        config,
        filter,
        Pushes::new(metrics.clone(), handle.clone()),
    )
    .map_err(|error| start("gossipsub", error))
}

fn start(what: &'static str, problem: impl Display) -> GossipError {
    GossipError::Start {
        what,
        problem: problem.to_string(),
    }
}

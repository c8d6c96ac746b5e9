//! The network part of a node: libp2p over TCP, QUIC and WebSocket.
//!
//! Only this module and its submodules use libp2p's types. Fresh changes are pushed through
//! gossipsub, with one topic for each space. Every other message (hello, digest, pull) goes from
//! peer to peer as a frame of the sync machine.
//!
//! The frames that wait for a peer form one request of the protocol `/tallymesh/sync/2`, with an
//! empty response. One request is in flight for each peer. So frames keep their order, and a slow
//! peer delays no other. Audits and node info have protocols of their own.
//!
//! - `connection_policy` decides which peers may connect.
//! - `rights` decides what a connected peer may do; `join` gives it rights by a ticket.
//! - `peer_directory` is a space of the network itself. There nodes publish their addresses, and
//!   which tickets are revoked.

mod addresses;
mod admissions;
mod audit;
mod behaviour;
mod browser_check;
mod codec;
mod connection_policy;
mod frame_room;
mod frames;
mod join;
mod network_metrics;
mod node_info;
mod peer_directory;
mod peers;
mod reason;
mod redial;
mod refusals;
mod relay;
mod removals;
mod restricted;
mod revocations;
mod rights;
mod same_key;
mod silence;
mod swarm;
mod transports;
mod unreached;
mod waiting;

use tallymesh_node_engine::network::{Auditor, Cuts, NodeTable};

use axum::http::HeaderMap;
use axum::http::uri::Authority;
use libp2p::multiaddr::Protocol;
use network_metrics::NetworkMetrics;
use std::fmt;
use std::path::PathBuf;
use tallymesh_node_engine::access::Ledger;
use tallymesh_node_engine::browser::{Comer, Pages, Refused};
use tallymesh_node_engine::driver::{Handle, Order};
use tallymesh_node_engine::metrics::Metrics;
use tallymesh_node_engine::network;
use tallymesh_node_engine::settings::GossipConfig;
use tallymesh_node_ground::clock::WallClock;
use tallymesh_node_ground::identity::{Address, Identity};
use tallymesh_node_ground::model::SpaceId;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Most addresses that are given to other nodes to try, as in tickets.
const REACH_MAX: usize = 16;

/// The reason why the network part could not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum GossipError {
    /// An address can't be listened on.
    Listen {
        /// The address.
        address: String,
        /// The reason.
        problem: String,
    },
    /// A part of libp2p refused its configuration or the system its resources.
    Start {
        /// The part that was being started.
        what: &'static str,
        /// The reason.
        problem: String,
    },
}

impl fmt::Display for GossipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GossipError::Listen { address, problem } => write!(
                f,
                "can't listen on {address}: {problem}. Is another program there? Choose another \
                 address with --listen; port 0 takes a free one"
            ),
            GossipError::Start { what, problem } => write!(f, "can't start {what}: {problem}"),
        }
    }
}

impl std::error::Error for GossipError {}

/// The network part of a node, listening.
pub struct Running {
    /// The bound addresses, each with this node's peer id at its end.
    pub listen: Vec<String>,
    /// The addresses among them, and among the announced ones, that others should try.
    pub reach: Vec<Address>,
    /// Sends audits to peers.
    pub auditor: Auditor,
    /// The task of the network. It ends when the sender of the cuts is dropped.
    pub task: JoinHandle<()>,
}

/// Judges a request by its headers, and by the host in its target if it has one.
pub(crate) type Admit = fn(&Pages, &HeaderMap, Option<&Authority>) -> Result<Comer, Refused>;

/// The parts with which the network part starts.
pub struct Start<'a> {
    /// The key pair of the node.
    pub identity: &'a Identity,
    /// The settings of the network.
    pub config: GossipConfig,
    /// Judges the requests that open WebSockets.
    pub admit: Admit,
    /// The client of the driver.
    pub handle: Handle,
    /// The sending end of the queue of orders, which the driver uses; `inbox` is the receiving end.
    pub orders: mpsc::Sender<Order>,
    /// Frames that the driver broadcasts to all peers.
    pub inbox: mpsc::Receiver<Order>,
    /// Receives each space that comes into use.
    pub spaces_used: mpsc::UnboundedReceiver<SpaceId>,
    /// Peers and tickets whose connections must end.
    pub cuts: watch::Receiver<Cuts>,
    /// The node table, which this part fills.
    pub node_table: NodeTable,
    /// The wall clock of the node.
    pub clock: WallClock,
    /// The metrics of the node.
    pub metrics: Metrics,
    /// The ledger, with the tickets with which this node joins, and the revocations.
    pub ledger: Ledger,
    /// A folder on the disk of the state, if the state is on a disk.
    pub folder: Option<PathBuf>,
}

/// Starts listening and dialling. Returns when each listener is bound, except those at relays.
///
/// # Errors
/// When a listener can't be bound, or libp2p can't be started.
pub async fn start(start: Start<'_>) -> Result<Running, GossipError> {
    let own = Protocol::P2p(start.identity.0.public().to_peer_id());
    let (listen, announce) = (start.config.listen.clone(), start.config.announce.clone());
    let (auditor, questions) = network::channel();
    let mut network = swarm::Network::new(start, questions).await?;
    let bound = network.listen(&listen).await?;
    let bound = bound.into_iter().map(|address| address.with(own.clone()));
    let listen: Vec<Address> = bound.map(Address).collect();
    let is_far = |it: &&Address| !it.is_loopback();
    let far: Vec<&Address> = listen.iter().filter(is_far).collect();
    let told = match far.is_empty() {
        true => listen.iter().collect(),
        false => far,
    };
    let announced = announce.iter().map(|it| match it.0.iter().last() {
        Some(Protocol::P2p(_)) => it.clone(),
        _ => Address(it.0.clone().with(own.clone())),
    });
    let reach = announced.chain(told.into_iter().cloned());
    Ok(Running {
        reach: reach.take(REACH_MAX).collect(),
        listen: listen.iter().map(ToString::to_string).collect(),
        auditor,
        task: tokio::spawn(network.run()),
    })
}

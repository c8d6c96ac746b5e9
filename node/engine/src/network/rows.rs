//! The rows that show connected nodes, and expected ones that are not connected.

use crate::access::Participation;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A node on a copy of another one's data folder, as a third node tells the original of it. The two have one key, and
/// can't connect to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyTold {
    /// The space in which it was heard last.
    pub space: String,
    /// Its writer there, as 32 hex digits.
    pub writer: String,
    /// Its address, as the third node saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// Messages of one protocol, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Flow {
    /// Messages received.
    pub messages_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Messages sent.
    pub messages_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
}

/// Pushes received by gossip. Only gossipsub has a record of the pushes that were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Pushed {
    /// Pushes that this node received first.
    pub messages_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
}

/// The traffic between this node and another since they connected, by protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Traffic {
    /// Frames from peer to peer, of all spaces.
    pub sync: Flow,
    /// Pushes.
    pub push: Pushed,
    /// Audits.
    pub audit: Flow,
    /// Node info that the two exchanged.
    pub about: Flow,
    /// Tickets that one has shown to the other.
    pub join: Flow,
}

/// A connected node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct NodeRow {
    /// The traffic with it.
    pub traffic: Traffic,
    /// Its node info, once it has arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub about: Option<AboutRow>,
}

/// The node info of a peer, as this node sees it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct AboutRow {
    /// Its version.
    pub version: String,
    /// How far its wall clock is ahead of this node's, in milliseconds; negative if it is behind.
    pub clock_offset_ms: i64,
    /// The uncertainty of that offset, in milliseconds: half of the round trip, and a clock's tick.
    pub clock_error_ms: u64,
    /// The round trip of the question, in microseconds.
    pub rtt_us: u64,
    /// How long ago it started, in milliseconds.
    pub uptime_ms: u64,
    /// The free share of the disk that its state is on, if it is on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, maximum = 100)]
    pub disk_free_percent: Option<u8>,
}

/// A peer that is not linked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct UnreachedRow {
    /// Its address, as it was configured.
    pub address: String,
    /// The setting that names it: `peer` for `--peer`, `listen` for a relay in `--listen`, or
    /// `ticket`. The last one stands for an address in a ticket to join with that no `--peer`
    /// names.
    pub from: &'static str,
    /// A stable name of the reason: `refused`, `not_resolved`, `other_identity`, `own_address`,
    /// `no_answer`, `silent`, `no_space`, `relay`, `stranger`, `unsupported`, `denied` or `unreachable`.
    pub code: &'static str,
    /// The reason.
    pub detail: String,
    /// How long it has not been linked, in milliseconds.
    pub for_ms: u64,
}

/// The reason why a node is not in one of its spaces.
#[derive(Clone, Debug)]
pub struct Outside {
    /// The place of the node.
    pub place: Participation,
    /// The state in a sentence, and what to do.
    pub detail: String,
}

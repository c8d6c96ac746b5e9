//! A space that is open at this node, by its place in the configuration, and its state.

use super::{Decimal, FaultReport, Membership, Role, StuckRow, decimal};
use crate::identity::OwnerKey;
use serde::Serialize;
use utoipa::ToSchema;

/// One open space of this node, by its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub usize);

/// The first character of the names of the node's own spaces; user spaces can't have it.
pub const RESERVED: char = '_';

/// The state of one space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SpaceStatus {
    /// Its name.
    pub space: String,
    /// The node's role in the space, if its tickets give it less than a member's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The writer id of this start of the node, as 32 hex digits.
    pub writer: String,
    /// The clock of that writer.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub clock: u64,
    /// How many counters exist.
    pub counters: usize,
    /// How many of them expire.
    pub expiring: usize,
    /// How many shards they have.
    pub shards: usize,
    /// Bytes that keys take in the table of keys, which has room for at most 2^32.
    pub key_bytes: usize,
    /// How many writers this node has a record of.
    pub writers: usize,
    /// The digest of the version vector, as 32 hex digits: equal at replicas with the same state.
    pub digest: String,
    /// The digest of the contents, as 16 hex digits. With equal vectors it differs only where a
    /// writer was forked.
    pub contents: String,
    /// How often this node found that two processes had used one writer id.
    pub faults: u64,
    /// The evidence of the newest faults that differ, the oldest first; a bounded number for each
    /// peer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<FaultReport>,
    /// How often the node continued under another writer id since its start, because of such
    /// faults.
    pub renewals: u64,
    /// How many operations under idempotency keys are remembered.
    pub keyed: usize,
    /// How many adds this node has withdrawn since it started, because another node had made them
    /// under the same idempotency key.
    pub withdrawn: u64,
    /// What members hold of budgets and sequences that are away. Nobody can use it until they are back or
    /// removed. It is up to some seconds old.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub stuck: Vec<StuckRow>,
    /// Whether this node runs on a copy of another one's data folder, and stands aside until it is adopted.
    /// Left out if it does not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub copied: bool,
    /// The other nodes that said within the last ten minutes that they run on such copies, and stand aside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub copies: Vec<CopyRow>,
    /// The members, if the space has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub membership: Option<Membership>,
}

impl SpaceStatus {
    /// Whether the node takes part in the space. A member does so once it has caught up with the
    /// others and announced its start. Every other node does so at once.
    pub fn takes_part(&self) -> bool {
        let waits = |it: &Membership| !it.announced;
        !self.membership.as_ref().is_some_and(waits)
    }
}

/// A node that runs on a copy of another one's data folder, and stands aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CopyRow {
    /// The name of the copy, which is also that of its original: a libp2p peer id, `ws-N` or `post-N`.
    pub peer: String,
    /// The key of both, as 64 hex digits, if the copy has proved it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub owner: Option<OwnerKey>,
    /// The address of the copy, as this node saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub address: Option<String>,
    /// The writer of the copy, as 32 hex digits.
    pub writer: String,
    /// The writer of the original's newest start, if it is a member's and this node knows one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub original: Option<String>,
    /// Milliseconds since the copy was last heard.
    pub last_heard_ms: u64,
}

/// The numbers of counters in a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// All existing counters.
    pub counters: usize,
    /// Those that expire.
    pub expiring: usize,
}

/// Counts of the work for writers that are gone, and of operations under idempotency keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many writers this node took over.
    pub absorbed: usize,
    /// How many writers were forgotten, because nothing is left of them.
    pub forgotten: usize,
    /// Operations under a key that were made.
    pub keyed: usize,
    /// Operations that had been made before, and were only answered.
    pub replayed: usize,
    /// Operations that were refused, because another request was made under their key.
    pub reused: usize,
}

/// One entry of the version vector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct WriterRow {
    /// The writer, as 32 hex digits.
    pub writer: String,
    /// This node has everything of the writer up to this clock.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub clock: u64,
    /// Whether this node has written under it since the node was started.
    pub own: bool,
    /// Only in a space with members: the state of the writer, which is `living`, `left`, `dead` or
    /// `absorbed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fate: Option<&'static str>,
    /// The key of its owner, if it is or was a writer of a member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerKey>,
    /// Its sponsor: the writer of the member that admitted it, if a member has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// Its successor: the writer that takes over or took over its totals, once it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heir: Option<String>,
}

//! The peer directory: the traffic with each connected node, and its node info.

use super::about::AboutRow;
use super::figures::{Direction, Protocol};
use super::unreached::UnreachedRow;
use super::waiting::Outside;
use libp2p::PeerId;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use utoipa::ToSchema;

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

impl NodeRow {
    pub(super) fn count(&mut self, protocol: Protocol, direction: Direction, bytes: usize) {
        let bytes = bytes as u64;
        let flow = match protocol {
            Protocol::Sync => &mut self.traffic.sync,
            Protocol::Audit => &mut self.traffic.audit,
            Protocol::About => &mut self.traffic.about,
            Protocol::Join => &mut self.traffic.join,
            Protocol::Push => {
                self.traffic.push.messages_in += 1;
                self.traffic.push.bytes_in += bytes;
                return;
            }
        };
        match direction {
            Direction::In => {
                flow.messages_in += 1;
                flow.bytes_in += bytes;
            }
            Direction::Out => {
                flow.messages_out += 1;
                flow.bytes_out += bytes;
            }
        }
    }
}

/// The connected nodes, and the expected ones that are not connected. The network writes it, and
/// answers to requests are read from it.
#[derive(Clone, Default)]
pub(crate) struct Directory {
    nodes: Arc<Mutex<HashMap<PeerId, NodeRow>>>,
    /// Each with the time since which it is not connected.
    unreached: Arc<Mutex<Vec<(UnreachedRow, Instant)>>>,
    /// The spaces in which this node does not take part as it should.
    outside: Arc<Mutex<Vec<Outside>>>,
}

impl Directory {
    /// All rows, by the peer id as text.
    pub(crate) fn rows(&self) -> HashMap<String, NodeRow> {
        let nodes = self.nodes();
        let rows = nodes
            .iter()
            .map(|(peer, row)| (peer.to_string(), row.clone()));
        rows.collect()
    }

    /// The configured nodes that are not connected.
    pub(crate) fn unreached(&self) -> Vec<UnreachedRow> {
        let (rows, now) = (self.unreached.lock(), Instant::now());
        let rows = rows.unwrap_or_else(PoisonError::into_inner);
        let row = |(row, since): &(UnreachedRow, Instant)| UnreachedRow {
            for_ms: u64::try_from(now.duration_since(*since).as_millis()).unwrap_or(u64::MAX),
            ..row.clone()
        };
        rows.iter().map(row).collect()
    }

    /// The first space in which this node does not take part as it should.
    pub(crate) fn outside(&self) -> Option<Outside> {
        let outside = self.outside.lock();
        outside
            .unwrap_or_else(PoisonError::into_inner)
            .first()
            .cloned()
    }

    pub(super) fn set_outside(&self, outside: Vec<Outside>) {
        *self.outside.lock().unwrap_or_else(PoisonError::into_inner) = outside;
    }

    pub(super) fn set_unreached(&self, rows: Vec<(UnreachedRow, Instant)>) {
        *self
            .unreached
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = rows;
    }

    pub(super) fn insert(&self, peer: PeerId) {
        self.nodes().insert(peer, NodeRow::default());
    }

    pub(super) fn remove(&self, peer: &PeerId) {
        self.nodes().remove(peer);
    }

    /// Changes the row of a node, if it is connected.
    pub(super) fn with(&self, peer: &PeerId, change: impl FnOnce(&mut NodeRow)) {
        if let Some(row) = self.nodes().get_mut(peer) {
            change(row);
        }
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<PeerId, NodeRow>> {
        // No code panics while it has the lock. Even then the rows would be whole.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The node table: the traffic with each connected node, and its node info.

use crate::network::{NodeRow, Outside, UnreachedRow};
use libp2p_identity::PeerId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The connected nodes, and the expected ones that are not connected. The network writes it, and
/// answers to requests are read from it.
#[derive(Clone, Default)]
pub struct NodeTable {
    nodes: Arc<Mutex<HashMap<PeerId, NodeRow>>>,
    /// Each with the time since which it is not connected.
    unreached: Arc<Mutex<Vec<(UnreachedRow, Instant)>>>,
    /// The spaces in which this node does not take part as it should.
    outside: Arc<Mutex<Vec<Outside>>>,
}

impl NodeTable {
    /// All rows, by the peer id as text.
    pub fn rows(&self) -> HashMap<String, NodeRow> {
        let nodes = self.nodes();
        let rows = nodes
            .iter()
            .map(|(peer, row)| (peer.to_string(), row.clone()));
        rows.collect()
    }

    /// The configured nodes that are not connected.
    pub fn unreached(&self) -> Vec<UnreachedRow> {
        let (rows, now) = (self.unreached.lock(), Instant::now());
        let rows = rows.unwrap_or_else(PoisonError::into_inner);
        let row = |(row, since): &(UnreachedRow, Instant)| UnreachedRow {
            for_ms: u64::try_from(now.duration_since(*since).as_millis()).unwrap_or(u64::MAX),
            ..row.clone()
        };
        rows.iter().map(row).collect()
    }

    /// The first space in which this node does not take part as it should.
    pub fn outside(&self) -> Option<Outside> {
        let outside = self.outside.lock();
        outside
            .unwrap_or_else(PoisonError::into_inner)
            .first()
            .cloned()
    }

    /// Replaces the list of the spaces in which this node does not take part as it should.
    pub fn set_outside(&self, outside: Vec<Outside>) {
        *self.outside.lock().unwrap_or_else(PoisonError::into_inner) = outside;
    }

    /// Replaces the list of the peers that are not linked, each with the time since when.
    pub fn set_unreached(&self, rows: Vec<(UnreachedRow, Instant)>) {
        *self
            .unreached
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = rows;
    }

    /// Adds a connected peer.
    pub fn insert(&self, peer: PeerId) {
        self.nodes().insert(peer, NodeRow::default());
    }

    /// Removes a peer that is no longer connected.
    pub fn remove(&self, peer: &PeerId) {
        self.nodes().remove(peer);
    }

    /// Changes the row of a node, if it is connected.
    pub fn with(&self, peer: &PeerId, change: impl FnOnce(&mut NodeRow)) {
        if let Some(row) = self.nodes().get_mut(peer) {
            change(row);
        }
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<PeerId, NodeRow>> {
        // No code panics while it has the lock. Even then the rows would be whole.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

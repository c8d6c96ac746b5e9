//! The node table: the traffic with each connected node, and its node info.

use crate::network::{CopyTold, NodeRow, Outside, UnreachedRow};
use libp2p_identity::PeerId;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tallymesh_node_ground::identity::{OwnerKey, owner_of};

/// Most owners whose addresses are remembered. Members are few; what goes beyond is of guests.
const ADDRESSES_MAX: usize = 4096;

/// Most peers of whose copies others are told.
const COPIES_MAX: usize = 64;

/// For how long a copy is told of that is not heard any more.
const COPY_LISTED: Duration = Duration::from_secs(600);

/// The last known address of a node.
struct Place {
    address: String,
    /// Whether this node reached it there. The port of a connection that came in is not one to dial.
    dialled: bool,
}

/// The connected nodes, and the expected ones that are not connected. The network writes it, and
/// answers to requests are read from it.
#[derive(Clone, Default)]
pub struct NodeTable {
    nodes: Arc<Mutex<HashMap<PeerId, NodeRow>>>,
    /// Each with the time since which it is not connected.
    unreached: Arc<Mutex<Vec<(UnreachedRow, Instant)>>>,
    /// The last address of each owner's node, whether or not it is connected.
    addresses: Arc<Mutex<BTreeMap<OwnerKey, Place>>>,
    /// The spaces in which this node does not take part as it should.
    outside: Arc<Mutex<Vec<Outside>>>,
    /// The last copy of each peer's data folder, by the name of the peer.
    copies: Arc<Mutex<HashMap<String, (CopyTold, Instant)>>>,
    /// The last copy of this node's data folder that a peer told of.
    own_copy: Arc<Mutex<Option<(CopyTold, Instant)>>>,
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

    /// Records the address of a connection to a peer. An address that was dialled goes before one that
    /// the peer came from.
    pub fn note_address(&self, peer: &PeerId, address: String, dialled: bool) {
        let Some(owner) = owner_of(peer) else {
            return;
        };
        let mut addresses = self.addresses();
        let before = addresses.get(&owner);
        let is_full = before.is_none() && addresses.len() >= ADDRESSES_MAX;
        if !is_full && (dialled || !before.is_some_and(|it| it.dialled)) {
            addresses.insert(owner, Place { address, dialled });
        }
    }

    /// The last known address of an owner's node.
    pub fn address_of(&self, owner: &OwnerKey) -> Option<String> {
        self.addresses().get(owner).map(|it| it.address.clone())
    }

    fn addresses(&self) -> MutexGuard<'_, BTreeMap<OwnerKey, Place>> {
        self.addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a node runs on a copy of a peer's data folder.
    pub fn note_copy(&self, peer: &str, told: CopyTold) {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.retain(|_, (_, at)| at.elapsed() < COPY_LISTED);
        if copies.len() < COPIES_MAX || copies.contains_key(peer) {
            copies.insert(peer.to_owned(), (told, Instant::now()));
        }
    }

    /// The copy of a peer's data folder that was heard lately, which the peer itself can't hear.
    pub fn copy_of(&self, peer: &PeerId) -> Option<CopyTold> {
        let copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let (told, at) = copies.get(&peer.to_string())?;
        (at.elapsed() < COPY_LISTED).then(|| told.clone())
    }

    /// Notes that a peer heard a copy of this node's data folder.
    pub fn note_own_copy(&self, told: CopyTold) {
        let mut own = self.own_copy.lock().unwrap_or_else(PoisonError::into_inner);
        *own = Some((told, Instant::now()));
    }

    /// The copy of this node's data folder in a space, and when a peer told of it last.
    pub fn own_copy(&self, space: &str) -> Option<(CopyTold, Instant)> {
        let own = self.own_copy.lock().unwrap_or_else(PoisonError::into_inner);
        own.clone().filter(|(told, _)| told.space == space)
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

#[cfg(test)]
mod tests {
    use super::*;
    use tallymesh_node_ground::identity::Identity;

    #[test]
    fn the_last_address_that_was_dialled_is_known() {
        let table = NodeTable::default();
        let identity = Identity::from_secret([1; 32]);
        let peer: PeerId = identity.peer_id().parse().expect("a peer id");
        let owner = OwnerKey(identity.public_key());
        let note = |address: &str, dialled| {
            table.note_address(&peer, address.to_owned(), dialled);
            table.address_of(&owner).expect("an address")
        };
        assert_eq!(note("in 1", false), "in 1");
        assert_eq!(note("in 2", false), "in 2");
        assert_eq!(note("out 1", true), "out 1");
        assert_eq!(note("in 3", false), "out 1");
        assert_eq!(note("out 2", true), "out 2");
    }
}

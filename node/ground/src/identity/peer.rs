//! The names of nodes in the network, and the keys in them.

use super::{OwnerKey, keys};
use libp2p_identity::PeerId;
use libp2p_identity::{PublicKey, ed25519};
use std::str::FromStr;

/// The name of a node in the network: the hash of its public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer(pub PeerId);

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Peer, String> {
        let parsed = text.parse().map(Peer);
        parsed.map_err(|error| format!("`{text}` is no libp2p peer id: {error}"))
    }
}

/// The key of a peer, which is part of its name if it is an Ed25519 key, as of nodes. A weak key
/// has no owner.
pub fn owner_of(peer: &PeerId) -> Option<OwnerKey> {
    key_of(peer).filter(|key| keys::is_sound(&key.0))
}

/// Whether the key in a peer's name is weak, and so has no owner.
pub(super) fn is_weak(peer: &PeerId) -> bool {
    key_of(peer).is_some_and(|key| !keys::is_sound(&key.0))
}

fn key_of(peer: &PeerId) -> Option<OwnerKey> {
    const IDENTITY: u64 = 0;
    let hash = peer.as_ref();
    if hash.code() != IDENTITY {
        return None;
    }
    let key = PublicKey::try_decode_protobuf(hash.digest()).ok()?;
    let key = key.try_into_ed25519().ok()?;
    Some(OwnerKey(key.to_bytes()))
}

/// The peer that has this key.
pub fn peer_of(owner: &OwnerKey) -> Option<PeerId> {
    let key = ed25519::PublicKey::try_from_bytes(&owner.0).ok()?;
    Some(PublicKey::from(key).to_peer_id())
}

//! Identities: keys, the names that follow from them, and the addresses at which a node with a key
//! is found. Nothing here does I/O.
//!
//! A node has one Ed25519 key pair ([`Identity`]). Its public half names the node as an owner of writers
//! ([`OwnerKey`]), and its hash names the node in the network ([`Peer`]).

mod address;
mod key_pair;
pub mod keys;
mod owner_key;
mod peer;

pub use address::Address;
pub use address::relay_of;
pub use key_pair::Identity;
pub use owner_key::OwnerKey;
pub use peer::Peer;
pub use peer::{owner_of, peer_of};

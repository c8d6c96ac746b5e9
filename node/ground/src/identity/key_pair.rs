//! The key pair of a node.

use libp2p_identity::{Keypair, ed25519};

/// The key pair of a node.
#[derive(Clone)]
pub struct Identity(pub Keypair);

impl Identity {
    /// The key pair of an Ed25519 secret key.
    pub fn from_secret(mut secret: [u8; 32]) -> Identity {
        // Any 32 bytes are a secret key, so this does not fail.
        let secret = ed25519::SecretKey::try_from_bytes(&mut secret)
            .expect("32 bytes are an Ed25519 secret key");
        Identity(Keypair::from(ed25519::Keypair::from(secret)))
    }

    /// The public key, 32 bytes.
    pub fn public_key(&self) -> [u8; 32] {
        let public = self.0.public().try_into_ed25519();
        public.expect("made from an Ed25519 key").to_bytes()
    }

    /// The secret key, 32 bytes.
    pub fn secret(&self) -> [u8; 32] {
        let pair = self.0.clone().try_into_ed25519();
        let pair = pair.expect("made from an Ed25519 key").to_bytes();
        std::array::from_fn(|at| pair[at])
    }

    /// The Ed25519 signature of a message, `None` if it can't be made.
    pub fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.0.sign(message).ok()
    }

    /// The name of the node that has this key.
    pub fn peer_id(&self) -> String {
        self.0.public().to_peer_id().to_string()
    }
}

//! The proof of a client's identity on a link over HTTP, if its role is below member. The client
//! signs random bytes of the node with its owner's key. By that key the node recognizes the
//! client's writers.

use super::App;
use super::problem::Problem;
use serde::{Deserialize, Serialize};
use tallymesh_core::Role as Limit;
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::identity::keys::is_signed_by;
use tallymesh_node_ground::model::{PeerScope, Role};
use tallymesh_node_ground::problems;

/// The prefix of the signed bytes. It keeps other signatures of the key from passing for a proof.
const DOMAIN: &[u8] = b"tallymesh-link-1";

const CHALLENGE_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;

/// The bytes that a client has to sign, and its role after that.
#[derive(Clone, Copy)]
pub(super) struct Challenge {
    bytes: [u8; CHALLENGE_BYTES],
    /// This node's key, which is part of the signed bytes. So a signature for one node is invalid
    /// at another.
    node: OwnerKey,
    pub(super) limit: Limit,
}

/// A challenge, as it is sent on a socket.
#[derive(Serialize)]
struct ChallengeMessage {
    challenge: String,
    node: String,
    /// The role of the client, which it need not try to exceed.
    role: Role,
}

/// The answer to a challenge.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Proof {
    /// The public key, as 64 hex digits.
    pub(super) owner: String,
    /// The signature, as 128 hex digits.
    pub(super) signature: String,
}

impl Challenge {
    pub(super) fn draw(app: &App, limit: Limit) -> Result<Challenge, Problem> {
        let mut bytes = [0; CHALLENGE_BYTES];
        getrandom::fill(&mut bytes)
            .map_err(|error| Problem::new(&problems::INTERNAL, error.to_string()))?;
        let node = app.owner;
        Ok(Challenge { bytes, node, limit })
    }

    /// The challenge as hex digits.
    pub(super) fn digits(&self) -> String {
        self.bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// The challenge in its form on a socket.
    pub(super) fn text(&self) -> String {
        let asked = ChallengeMessage {
            challenge: self.digits(),
            node: self.node.to_string(),
            role: Role::from(self.limit),
        };
        // Texts always make JSON.
        serde_json::to_string(&asked).unwrap_or_default()
    }

    /// Checks the answer to this challenge. Returns the peer scope of the client.
    pub(super) fn check(&self, proof: &Proof) -> Result<PeerScope, Problem> {
        let owner = OwnerKey::parse(&proof.owner);
        let owner =
            owner.ok_or_else(|| unproved("`owner` is no key of 64 hex digits, or a weak one"))?;
        let signature = unhex(&proof.signature);
        let signature =
            signature.ok_or_else(|| unproved("`signature` is none of 128 hex digits"))?;
        let signed = [DOMAIN, &self.bytes, &self.node.0].concat();
        match is_signed_by(&owner.0, &signed, &signature) {
            true => Ok(PeerScope {
                owner,
                role: self.limit,
            }),
            false => Err(unproved(
                "the owner has not signed this challenge for this node",
            )),
        }
    }
}

/// The refusal of a link whose owner is not proved.
pub(super) fn unproved(detail: &str) -> Problem {
    let detail = format!("{detail}; docs/http.md tells what is to be signed");
    Problem::new(&problems::OWNER_PROOF, detail)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 2 * SIGNATURE_BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let bytes = (0..SIGNATURE_BYTES).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16));
    bytes.collect::<Result<_, _>>().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallymesh_node_ground::identity::Identity;

    #[test]
    fn only_what_the_owner_signed_for_this_node_and_now_is_taken() {
        let node = OwnerKey([7; 32]);
        let challenge = Challenge {
            bytes: [1; CHALLENGE_BYTES],
            node,
            limit: Limit::Writer,
        };
        let identity = Identity::from_secret([3; 32]);
        let owner = OwnerKey(identity.public_key());
        let signed = |parts: &[&[u8]]| {
            let signature = identity.sign(&parts.concat()).expect("signed");
            Proof {
                owner: owner.to_string(),
                signature: signature.iter().map(|byte| format!("{byte:02x}")).collect(),
            }
        };
        let good = signed(&[DOMAIN, &[1; 32], &[7; 32]]);
        let role = Limit::Writer;
        assert_eq!(
            challenge.check(&good).expect("good"),
            PeerScope { owner, role }
        );
        let other = OwnerKey(Identity::from_secret([4; 32]).public_key());
        for wrong in [
            signed(&[DOMAIN, &[2; 32], &[7; 32]]),
            signed(&[DOMAIN, &[1; 32], &[8; 32]]),
            signed(&[b"tallymesh-link-0", &[1; 32], &[7; 32]]),
            Proof {
                owner: other.to_string(),
                ..good.clone()
            },
            Proof {
                owner: "x".into(),
                ..good.clone()
            },
            Proof {
                signature: good.signature[2..].to_owned(),
                ..good.clone()
            },
            Proof {
                signature: "+1".repeat(SIGNATURE_BYTES),
                ..good.clone()
            },
        ] {
            let problem = challenge.check(&wrong).expect_err("refused");
            assert_eq!(problem.code(), "owner_proof");
        }
    }
}

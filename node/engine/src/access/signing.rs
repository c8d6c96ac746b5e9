//! The signature of tickets: Ed25519, with the keys that nodes already have.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Signer, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use tallymesh_node_ground::identity::{Identity, keys};

/// The provider to install before a ticket is signed or read. Its keys are bare: 32 bytes each.
pub(super) static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

struct Secret(Identity);

struct Public([u8; 32]);

fn signer(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    let secret = bare(algorithm, key.as_bytes())?;
    Ok(Box::new(Secret(Identity::from_secret(secret))))
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let public = bare(algorithm, key.try_get_as_bytes()?)?;
    Ok(Box::new(Public(public)))
}

fn bare(algorithm: &Algorithm, key: &[u8]) -> Result<[u8; 32], Error> {
    if *algorithm != Algorithm::EdDSA {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    key.try_into()
        .map_err(|_| ErrorKind::InvalidEddsaKey.into())
}

impl Signer<Vec<u8>> for Secret {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, signature::Error> {
        self.0.sign(message).ok_or_else(signature::Error::new)
    }
}

impl JwtSigner for Secret {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}

impl Verifier<Vec<u8>> for Public {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        match keys::is_signed_by(&self.0, message, signature) {
            true => Ok(()),
            false => Err(signature::Error::new()),
        }
    }
}

impl JwtVerifier for Public {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}

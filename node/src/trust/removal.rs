//! Removals: statements that an owner was taken out of the members of a space, signed by a member.
//!
//! A ticket that was signed before its holder was removed gives that holder nothing any more: otherwise a
//! member that joined by a ticket would join again as soon as it is removed. Members see a removal in the
//! configuration itself. A removal is stated as well for members that come later, or that were away and
//! see only the configuration after the next. It travels as a key of the address book, as a
//! [`super::Revocation`] does.

use super::signing::PROVIDER;
use crate::driver::OwnerKey;
use crate::gossip::Identity;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, dangerous};
use serde::{Deserialize, Serialize};
use tallymesh_core::Space;
use tallymesh_core::limits::KEY_BYTES_MAX;

/// The prefix of keys of the address book that are removals.
pub(crate) const REMOVED_KEY: &str = "removed/";

/// Longest statement, in bytes: one with the longest name of a space fits.
const REMOVAL_BYTES_MAX: usize = KEY_BYTES_MAX - REMOVED_KEY.len();

/// The type in the header, so that no other token signed with the same key passes for a removal.
const TYPE: &str = "tallymesh-removal+jwt";

/// The statement that an owner was removed from the members of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    /// The removed owner.
    pub(crate) owner: OwnerKey,
    /// The issuer. The statement counts if the issuer is a member of the space.
    pub(crate) issuer: OwnerKey,
    /// From which space.
    pub(crate) space: Space,
    /// When, in seconds since 1970: tickets that were signed later count again.
    pub(crate) at: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    sub: String,
    iss: String,
    space: String,
    iat: u64,
}

impl Removal {
    /// The statement that says this, signed by its issuer, whose key `identity` is.
    pub(crate) fn sign(&self, identity: &Identity) -> Option<String> {
        let _ = PROVIDER.install_default();
        let claims = Claims {
            sub: self.owner.to_string(),
            iss: OwnerKey(identity.public_key()).to_string(),
            space: self.space.to_string(),
            iat: self.at,
        };
        let header = Header {
            typ: Some(TYPE.into()),
            ..Header::new(Algorithm::EdDSA)
        };
        let key = EncodingKey::from_ed_der(&identity.secret());
        let statement = jsonwebtoken::encode(&header, &claims, &key).ok()?;
        (statement.len() <= REMOVAL_BYTES_MAX).then_some(statement)
    }

    /// Reads a statement; nothing if it is none, or if its issuer has not signed it.
    pub(crate) fn read(statement: &str) -> Option<Removal> {
        let _ = PROVIDER.install_default();
        if statement.len() > REMOVAL_BYTES_MAX {
            return None;
        }
        let claimed: Claims = dangerous::insecure_decode_claims(statement).ok()?;
        let issuer = OwnerKey::parse(&claimed.iss)?;
        let mut validation = Validation::new(Algorithm::EdDSA);
        (validation.validate_exp, validation.validate_aud) = (false, false);
        validation.required_spec_claims.clear();
        let key = DecodingKey::from_ed_der(&issuer.0);
        let token = jsonwebtoken::decode::<Claims>(statement, &key, &validation).ok()?;
        if token.header.typ.as_deref() != Some(TYPE) {
            return None;
        }
        Some(Removal {
            owner: OwnerKey::digits(&token.claims.sub)?,
            issuer,
            space: Space::new(&token.claims.space).ok()?,
            at: token.claims.iat,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_is_read_as_it_was_signed_and_fits_a_key() {
        let identity = Identity::from_secret([7; 32]);
        let removal = Removal {
            owner: OwnerKey([0xff; 32]),
            issuer: OwnerKey(identity.public_key()),
            space: Space::new(&"s".repeat(64)).expect("a name"),
            at: u64::from(u32::MAX),
        };
        let statement = removal.sign(&identity).expect("it fits");
        assert_eq!(Removal::read(&statement), Some(removal.clone()));
        assert_eq!(Removal::read(&statement[..statement.len() - 1]), None);
        assert_eq!(Removal::read("nonsense"), None);
        let other = Identity::from_secret([8; 32]);
        let parts: Vec<&str> = statement.split('.').collect();
        let foreign = removal.sign(&other).expect("it fits");
        let foreign = foreign.rsplit('.').next().expect("a signature").to_owned();
        let forged = format!("{}.{}.{foreign}", parts[0], parts[1]);
        assert_eq!(Removal::read(&forged), None, "signed by somebody else");
    }
}

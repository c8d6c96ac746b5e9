//! Removals: statements that an owner was removed from the members of a space, signed by a member.
//!
//! A ticket that was signed before its holder was removed gives the holder no rights any more.
//! Otherwise a member that joined by a ticket would join again as soon as it is removed. Members
//! see a removal in the configuration itself. It is also stated for members that join later, or
//! that were away and see only a later configuration. It is a key of the address book, as a
//! [`super::Revocation`] is.

use super::Grant;
use super::signing::PROVIDER;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, dangerous};
use serde::{Deserialize, Serialize};
use tallymesh_core::Space;
use tallymesh_core::bounds::KEY_BYTES_MAX;
use tallymesh_node_ground::identity::{Identity, OwnerKey};

/// The prefix of keys of the address book that are removals.
pub const REMOVED_KEY: &str = "removed/";

/// Longest statement, in bytes. A statement with the longest name of a space fits.
const REMOVAL_BYTES_MAX: usize = KEY_BYTES_MAX - REMOVED_KEY.len();

/// The type in the header. It keeps other tokens signed with the same key from passing for a
/// removal.
const TYPE: &str = "tallymesh-removal+jwt";

/// The statement that an owner was removed from the members of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The removed owner.
    pub owner: OwnerKey,
    /// The issuer. The statement counts if the issuer is a member of the space.
    pub issuer: OwnerKey,
    /// The space.
    pub space: Space,
    /// The time and the configuration of the removal.
    pub gone: Gone,
}

/// The time of a removal. A newer ticket counts again, if its issuer had the removal when it
/// signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// The time in seconds since 1970, by the clock of the node that saw it. A ticket that does not
    /// name the configuration of its issuer counts if it was signed later than this.
    pub at: u64,
    /// Era and number of a configuration without the owner; (0, 0) if unknown.
    pub by: (u64, u64),
    /// How many configurations before `by` the owner was still a member: 1 if `by` is the first one
    /// without it. A node that was away has only this range.
    pub width: u64,
}

impl Gone {
    /// Whether a ticket counts for the removed owner.
    pub fn lets_in(&self, grant: &Grant, space: &Space) -> bool {
        match grant.knew.get(space) {
            Some(knew) if self.by > (0, 0) => *knew >= self.by,
            _ => grant.issued > self.at,
        }
    }

    /// Combines this and another statement about one owner. If both can be of one removal, the more
    /// exact configuration counts. The later time counts in each case.
    pub fn and(self, other: Gone) -> Gone {
        let (early, late) = match self.by <= other.by {
            true => (self, other),
            false => (other, self),
        };
        let after = |it: &Gone| it.by.1.saturating_sub(it.width);
        let is_one = early.by.0 == late.by.0 && early.by > (0, 0) && after(&late) < early.by.1;
        let known = match is_one {
            true => Gone {
                width: early.by.1 - after(&early).max(after(&late)),
                ..early
            },
            false => late,
        };
        Gone {
            at: self.at.max(other.at),
            ..known
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    sub: String,
    iss: String,
    space: String,
    iat: u64,
    /// Era and number.
    by: (u64, u64),
    /// The width; left out if it is 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    w: u64,
}

fn one() -> u64 {
    1
}

fn is_one(width: &u64) -> bool {
    *width == 1
}

impl Removal {
    /// The statement, signed by its issuer, whose key is `identity`.
    pub fn sign(&self, identity: &Identity) -> Option<String> {
        let _ = PROVIDER.install_default();
        let claims = Claims {
            sub: self.owner.to_string(),
            iss: OwnerKey(identity.public_key()).to_string(),
            space: self.space.to_string(),
            iat: self.gone.at,
            by: self.gone.by,
            w: self.gone.width,
        };
        let header = Header {
            typ: Some(TYPE.into()),
            ..Header::new(Algorithm::EdDSA)
        };
        let key = EncodingKey::from_ed_der(&identity.secret());
        let statement = jsonwebtoken::encode(&header, &claims, &key).ok()?;
        (statement.len() <= REMOVAL_BYTES_MAX).then_some(statement)
    }

    /// Reads a statement. Returns `None` if it is invalid, or its issuer has not signed it.
    pub fn read(statement: &str) -> Option<Removal> {
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
            gone: Gone {
                at: token.claims.iat,
                by: token.claims.by,
                width: token.claims.w,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_one_removal_are_put_together_and_a_later_removal_counts_more() {
        let gone = |at, by, width| Gone { at, by, width };
        let exact = gone(10, (0, 5), 1);
        for (other, both) in [
            // A late node saw the removal late, and a node that was away has only the range.
            (gone(90, (0, 5), 1), gone(90, (0, 5), 1)),
            (gone(90, (0, 8), 4), gone(90, (0, 5), 1)),
            (gone(9, (0, 8), 9), gone(10, (0, 5), 1)),
            // The owner was a member again in between.
            (gone(9, (0, 8), 3), gone(10, (0, 8), 3)),
            (gone(9, (0, 3), 1), gone(10, (0, 5), 1)),
            (gone(9, (1, 6), 6), gone(10, (1, 6), 6)),
            (gone(9, (0, 0), 0), gone(10, (0, 5), 1)),
        ] {
            assert_eq!(exact.and(other), both, "{other:?}");
            assert_eq!(other.and(exact), both, "{other:?}");
        }
        let wide = gone(9, (0, 8), 9).and(gone(9, (0, 9), 4));
        assert_eq!(wide, gone(9, (0, 8), 3));
    }

    #[test]
    fn a_removal_is_read_as_it_was_signed_and_fits_a_key() {
        let identity = Identity::from_secret([7; 32]);
        let removal = Removal {
            owner: OwnerKey([0xff; 32]),
            issuer: OwnerKey(identity.public_key()),
            space: Space::new(&"s".repeat(64)).expect("a name"),
            gone: Gone {
                at: u64::from(u32::MAX),
                by: (9, u64::from(u32::MAX)),
                width: 9,
            },
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

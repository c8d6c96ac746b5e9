//! Revocations: statements that a ticket is no longer valid, each signed by its issuer.
//!
//! A statement is a JSON Web Token, as tickets are, with a type of its own. Because it is signed,
//! any node may pass it on. It travels as a key of the address book, so its length has to fit one.

use super::signing::PROVIDER;
use super::ticket::{CLOCK_SKEW_MAX, TicketId, named, spaces_named};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, dangerous};
use serde::{Deserialize, Serialize};
use tallymesh_core::Space;
use tallymesh_core::bounds::KEY_BYTES_MAX;
use tallymesh_node_ground::identity::{Identity, OwnerKey};

/// The prefix of keys of the address book that are revocations.
pub const KEY: &str = "revoked/";

/// Longest statement, in bytes. A statement with one space fits, however long its name is.
pub const REVOCATION_BYTES_MAX: usize = KEY_BYTES_MAX - KEY.len();

/// The type in the header. It keeps other tokens signed with the same key from passing for a
/// revocation.
const TYPE: &str = "tallymesh-revocation+jwt";

/// The revocation of a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// The ticket.
    pub id: TicketId,
    /// The issuer. The revocation counts where the issuer is trusted.
    pub issuer: OwnerKey,
    /// Its spaces; `None` for all in which the issuer is trusted.
    pub spaces: Option<Vec<Space>>,
    /// When it was signed, in seconds since 1970.
    pub issued: u64,
    /// When the ticket ends, in seconds since 1970. The revocation is needed until then; without an
    /// end, for ever.
    pub expires: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    jti: String,
    iss: String,
    spaces: Vec<String>,
    iat: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    exp: Option<u64>,
}

impl Revocation {
    /// The signed statements for this revocation, whose issuer's key is `identity`. There are
    /// several if the spaces do not fit into one.
    pub fn sign(&self, identity: &Identity) -> Vec<(String, Revocation)> {
        let of = |spaces: Option<&[Space]>| {
            let part = Revocation {
                issuer: OwnerKey(identity.public_key()),
                spaces: spaces.map(<[Space]>::to_vec),
                ..self.clone()
            };
            let statement = part.statement(identity)?;
            (statement.len() <= REVOCATION_BYTES_MAX).then_some((statement, part))
        };
        let Some(mut rest) = self.spaces.as_deref() else {
            return of(None).into_iter().collect();
        };
        let mut statements = Vec::new();
        while !rest.is_empty() {
            // Each statement has as many spaces as fit; one always does.
            let fitting = (1..=rest.len()).map_while(|count| of(Some(&rest[..count])));
            let Some((statement, part)) = fitting.last() else {
                break;
            };
            rest = &rest[part.spaces.as_ref().map_or(rest.len(), Vec::len)..];
            statements.push((statement, part));
        }
        statements
    }

    fn statement(&self, identity: &Identity) -> Option<String> {
        let _ = PROVIDER.install_default();
        let claims = Claims {
            jti: self.id.to_string(),
            iss: self.issuer.to_string(),
            spaces: named(self.spaces.as_deref()),
            iat: self.issued,
            exp: self.expires,
        };
        let header = Header {
            typ: Some(TYPE.into()),
            ..Header::new(Algorithm::EdDSA)
        };
        let key = EncodingKey::from_ed_der(&identity.secret());
        jsonwebtoken::encode(&header, &claims, &key).ok()
    }

    /// Reads a statement. Returns `None` if it is invalid, or the named issuer has not signed it.
    /// Whether the issuer is trusted, and whether the revocation is over, is judged elsewhere.
    pub fn read(statement: &str) -> Option<Revocation> {
        let _ = PROVIDER.install_default();
        if statement.len() > REVOCATION_BYTES_MAX {
            return None;
        }
        let claimed: Claims = dangerous::insecure_decode_claims(statement).ok()?;
        let issuer = OwnerKey::parse(&claimed.iss)?;
        let mut validation = Validation::new(Algorithm::EdDSA);
        // After its end, a statement is still valid, but no longer needed. It has no audience.
        (validation.validate_exp, validation.validate_aud) = (false, false);
        validation.required_spec_claims.clear();
        let key = DecodingKey::from_ed_der(&issuer.0);
        let token = jsonwebtoken::decode::<Claims>(statement, &key, &validation).ok()?;
        if token.header.typ.as_deref() != Some(TYPE) {
            return None;
        }
        Some(Revocation {
            id: token.claims.jti.parse().ok()?,
            issuer,
            spaces: spaces_named(&token.claims.spaces).ok()?,
            issued: token.claims.iat,
            expires: token.claims.exp,
        })
    }

    /// Whether it covers this space.
    pub fn covers(&self, space: &Space) -> bool {
        let spaces = self.spaces.as_ref();
        spaces.is_none_or(|spaces| spaces.contains(space))
    }

    /// Whether the ticket has ended everywhere at a time, in milliseconds since 1970, so that no
    /// node needs the revocation.
    pub fn is_over(&self, now_ms: u64) -> bool {
        // The clocks of two nodes may differ from the true time by the skew, each in its own
        // direction.
        let skew = 2 * CLOCK_SKEW_MAX.as_secs();
        let end = self.expires.map(|end| end.saturating_add(skew));
        end.is_some_and(|end| end <= now_ms / 1000)
    }
}

#[cfg(test)]
mod tests;

//! Tickets: rights that a member gives to the holder, signed with the key of the member's node.

use super::signing::PROVIDER;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, dangerous};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use tallymesh_core::Space;
use tallymesh_node_ground::identity::{Address, Identity, OwnerKey};
use tallymesh_node_ground::model::Role;

/// Longest ticket, in bytes: 64 spaces and 16 addresses fit.
pub const TICKET_BYTES_MAX: usize = 8 << 10;

/// Most spaces that one ticket names.
const SPACES_MAX: usize = 64;

/// Most addresses that one ticket names.
const NODES_MAX: usize = 16;

/// How far the clocks of the issuer and of the checking node may differ.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(60);

/// The type in the header. It keeps other tokens signed with the same key from passing for a
/// ticket.
const TYPE: &str = "tallymesh-ticket+jwt";

/// The field of the header with the configurations that the issuer had. Unlike claims, programs may
/// ignore it if they do not support it, because it restricts nothing.
const KNEW: &str = "members";

/// Most spaces in that field. With more, the field is left out, and only the clocks are compared.
const KNEW_MAX: usize = 16;

/// Stands for all spaces in which the issuer of the ticket is a member.
const EVERY_SPACE: &str = "*";

/// The id by which a ticket is revoked: 16 random bytes, 32 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketId([u8; 16]);

impl TicketId {
    /// The id with these bytes, which must be drawn at random.
    pub fn new(random: [u8; 16]) -> TicketId {
        TicketId(random)
    }

    /// The id as a number.
    pub(crate) fn number(&self) -> u128 {
        u128::from_be_bytes(self.0)
    }
}

impl fmt::Display for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for TicketId {
    type Err = String;

    fn from_str(text: &str) -> Result<TicketId, String> {
        let wrong = || format!("`{text}` is no ticket's id, which has 32 hex digits");
        let number = u128::from_str_radix(text, 16).map_err(|_| wrong())?;
        let id = TicketId(number.to_be_bytes());
        // This refuses a sign and every other spelling.
        (id.to_string() == text).then_some(id).ok_or_else(wrong)
    }
}

/// The content of a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The id by which it is revoked.
    pub id: TicketId,
    /// The member that signed it.
    pub issuer: OwnerKey,
    /// The only key that may use it; `None` if any holder may.
    pub holder: Option<OwnerKey>,
    /// The role of the holder.
    pub role: Role,
    /// Its spaces; `None` for all in which the issuer is a member.
    pub spaces: Option<Vec<Space>>,
    /// When it was signed, in seconds since 1970.
    pub issued: u64,
    /// When it ends, in seconds since 1970.
    pub expires: Option<u64>,
    /// Addresses of members.
    pub nodes: Vec<Address>,
    /// For each space that it covers, the configuration that its issuer had when it signed, by era
    /// and number. It is empty in tickets of earlier versions. It shows more surely than clocks
    /// whether the issuer had a removal.
    pub knew: BTreeMap<Space, (u64, u64)>,
}

/// The reason why a ticket is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TicketError {
    /// It is longer than any ticket.
    TooLong {
        /// Its bytes.
        bytes: usize,
    },
    /// It is no ticket.
    Malformed {
        /// The problem with it.
        problem: String,
    },
    /// The named issuer has not signed it.
    Signature {
        /// The named issuer.
        issuer: OwnerKey,
    },
    /// It has ended.
    Expired {
        /// Its end, in seconds since 1970.
        at: u64,
        /// The time of this node's clock.
        now: u64,
    },
    /// It was signed in the future.
    Early {
        /// Its signing time, in seconds since 1970.
        issued: u64,
        /// The time of this node's clock.
        now: u64,
    },
}

impl TicketError {
    /// A stable name of the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            TicketError::TooLong { .. } | TicketError::Malformed { .. } => "ticket",
            TicketError::Signature { .. } => "ticket_signature",
            TicketError::Expired { .. } => "ticket_expired",
            TicketError::Early { .. } => "ticket_early",
        }
    }
}

impl fmt::Display for TicketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TicketError::TooLong { bytes } => write!(
                f,
                "this is no ticket: it has {bytes} bytes, over the limit of {TICKET_BYTES_MAX}"
            ),
            TicketError::Malformed { problem } => write!(
                f,
                "this is no ticket: {problem}; take all that `tallymesh invite` printed"
            ),
            TicketError::Signature { issuer } => write!(
                f,
                "the ticket says that {issuer} signed it, who has not: it was changed; ask for another"
            ),
            TicketError::Expired { at, now } => write!(
                f,
                "the ticket ended {} ago; ask a member for another",
                ago(*at, *now)
            ),
            TicketError::Early { issued, now } => write!(
                f,
                "the ticket was signed {} in the future: one of the two clocks is wrong",
                ago(*now, *issued)
            ),
        }
    }
}

impl std::error::Error for TicketError {}

fn ago(then: u64, now: u64) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(now.saturating_sub(then)))
}

/// The claims of the token. An older program must not ignore a restriction of a newer one. So it
/// refuses unknown claims.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    jti: String,
    iss: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub: Option<String>,
    role: Role,
    spaces: Vec<String>,
    iat: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    exp: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<String>,
}

impl Grant {
    /// The signed text of this ticket, whose issuer's key is `identity`.
    ///
    /// # Errors
    /// [`TicketError::TooLong`] if it names too much.
    pub fn sign(&self, identity: &Identity) -> Result<String, TicketError> {
        install();
        let claims = Claims {
            jti: self.id.to_string(),
            iss: OwnerKey(identity.public_key()).to_string(),
            sub: self.holder.map(|holder| holder.to_string()),
            role: self.role,
            spaces: named(self.spaces.as_deref()),
            iat: self.issued,
            exp: self.expires,
            nodes: self.nodes.iter().map(Address::to_string).collect(),
        };
        grant(&claims)?;
        let mut header = Header {
            typ: Some(TYPE.into()),
            ..Header::new(Algorithm::EdDSA)
        };
        let knew = self.knew.iter().map(|(space, at)| (space.to_string(), *at));
        let knew: BTreeMap<String, (u64, u64)> = knew.collect();
        if !knew.is_empty() && knew.len() <= KNEW_MAX {
            header.extras.insert(KNEW, knew);
        }
        let key = EncodingKey::from_ed_der(&identity.secret());
        let encode = |header: &Header| {
            let ticket = jsonwebtoken::encode(header, &claims, &key);
            let ticket = ticket.map_err(|error| malformed(error.to_string()))?;
            short(&ticket).map(|()| ticket)
        };
        encode(&header).or_else(|_| {
            header.extras = Default::default();
            encode(&header)
        })
    }

    /// Reads a ticket. Checks that the named issuer has signed it, and that it is valid at a time
    /// in milliseconds since 1970. Whether the issuer is trusted is judged elsewhere.
    ///
    /// # Errors
    /// [`TicketError`], for each way in which it may be invalid.
    pub fn read(ticket: &str, now_ms: u64) -> Result<Grant, TicketError> {
        let grant = Grant::parse(ticket)?;
        grant.is_timely(now_ms)?;
        Ok(grant)
    }

    /// Reads a ticket, even one that has ended, and checks that the named issuer has signed it.
    ///
    /// # Errors
    /// [`TicketError`], for each way in which it may be no ticket.
    pub fn parse(ticket: &str) -> Result<Grant, TicketError> {
        install();
        let ticket = ticket.trim();
        short(ticket)?;
        // The ticket itself names its issuer.
        let claimed: Claims = dangerous::insecure_decode_claims(ticket).map_err(unreadable)?;
        let issuer = owner(&claimed.iss)?;
        let mut validation = Validation::new(Algorithm::EdDSA);
        // Times are checked below, by the given clock. A ticket has no audience.
        (validation.validate_exp, validation.validate_aud) = (false, false);
        validation.required_spec_claims.clear();
        let key = DecodingKey::from_ed_der(&issuer.0);
        let token = jsonwebtoken::decode::<Claims>(ticket, &key, &validation);
        let token = token.map_err(|error| match error.kind() {
            ErrorKind::InvalidSignature => TicketError::Signature { issuer },
            _ => unreadable(error),
        })?;
        if token.header.typ.as_deref() != Some(TYPE) {
            let typ = token.header.typ.unwrap_or_default();
            return Err(malformed(format!("its type is `{typ}`, not `{TYPE}`")));
        }
        let knew = token.header.extras.get(KNEW).ok().flatten();
        let knew: BTreeMap<String, (u64, u64)> = knew.unwrap_or_default();
        let knew = knew.into_iter().take(KNEW_MAX);
        let knew = knew.filter_map(|(space, at)| Some((Space::new(&space).ok()?, at)));
        Ok(Grant {
            knew: knew.collect(),
            ..grant(&token.claims)?
        })
    }

    /// Checks that it has begun and has not ended.
    ///
    /// # Errors
    /// [`TicketError::Expired`], [`TicketError::Early`].
    pub fn is_timely(&self, now_ms: u64) -> Result<(), TicketError> {
        let (now, skew) = (now_ms / 1000, CLOCK_SKEW_MAX.as_secs());
        if let Some(at) = self.expires.filter(|at| at.saturating_add(skew) <= now) {
            return Err(TicketError::Expired { at, now });
        }
        match self.issued > now.saturating_add(skew) {
            true => Err(TicketError::Early {
                issued: self.issued,
                now,
            }),
            false => Ok(()),
        }
    }

    /// How long it is still valid.
    pub fn lasts(&self, now_ms: u64) -> Duration {
        let skew = CLOCK_SKEW_MAX.as_secs();
        let end = self
            .expires
            .map(|at| at.saturating_add(skew).saturating_mul(1000));
        end.map_or(Duration::MAX, |end| {
            Duration::from_millis(end.saturating_sub(now_ms))
        })
    }

    /// Whether it covers this space.
    pub fn covers(&self, space: &str) -> bool {
        let spaces = self.spaces.as_ref();
        spaces.is_none_or(|spaces| spaces.iter().any(|it| it.as_str() == space))
    }
}

/// Reads the content of claims.
fn grant(claims: &Claims) -> Result<Grant, TicketError> {
    let spaces = spaces_named(&claims.spaces).map_err(malformed)?;
    if claims.nodes.len() > NODES_MAX {
        let count = claims.nodes.len();
        return Err(malformed(format!(
            "it names {count} addresses, over the limit of {NODES_MAX}"
        )));
    }
    let nodes: Result<Vec<Address>, _> = claims.nodes.iter().map(|it| it.parse()).collect();
    Ok(Grant {
        id: claims.jti.parse().map_err(malformed)?,
        issuer: owner(&claims.iss)?,
        holder: claims.sub.as_deref().map(owner).transpose()?,
        role: claims.role,
        spaces,
        issued: claims.iat,
        expires: claims.exp,
        nodes: nodes.map_err(malformed)?,
        knew: BTreeMap::new(),
    })
}

/// The names for these spaces; `None` stands for all.
pub(super) fn named(spaces: Option<&[Space]>) -> Vec<String> {
    match spaces {
        None => vec![EVERY_SPACE.to_owned()],
        Some(spaces) => spaces.iter().map(Space::to_string).collect(),
    }
}

/// The spaces of these names; `None` stands for all.
pub(super) fn spaces_named(names: &[String]) -> Result<Option<Vec<Space>>, String> {
    match names {
        [name] if name == EVERY_SPACE => Ok(None),
        [] => Err("it names no space".into()),
        names if names.len() > SPACES_MAX => {
            let count = names.len();
            Err(format!(
                "it names {count} spaces, over the limit of {SPACES_MAX}"
            ))
        }
        names => {
            let spaces: Result<Vec<Space>, _> = names.iter().map(|it| Space::new(it)).collect();
            spaces.map(Some).map_err(|error| error.to_string())
        }
    }
}

fn owner(text: &str) -> Result<OwnerKey, TicketError> {
    let owner = OwnerKey::parse(text);
    owner.ok_or_else(|| {
        malformed(format!(
            "`{text}` is no owner's key of 64 hex digits, or a weak one"
        ))
    })
}

fn short(ticket: &str) -> Result<(), TicketError> {
    match ticket.len() {
        0..=TICKET_BYTES_MAX => Ok(()),
        bytes => Err(TicketError::TooLong { bytes }),
    }
}

fn malformed(problem: String) -> TicketError {
    TicketError::Malformed { problem }
}

fn unreadable(error: jsonwebtoken::errors::Error) -> TicketError {
    malformed(error.to_string())
}

/// Makes the library sign and verify with the keys of nodes. More calls than one are harmless.
fn install() {
    let _ = PROVIDER.install_default();
}

#[cfg(test)]
mod tests;

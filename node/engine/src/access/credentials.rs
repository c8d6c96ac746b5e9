//! The tickets that connections have shown, and whether they are valid now.

use crate::access::places::PlaceGuard;
use crate::access::{Grant, Ledger, TicketError, TicketId};
use std::sync::Arc;
use tallymesh_core::Space;
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{Place, Role, Turned};

/// A space in which tickets are judged.
pub trait Authority {
    /// Its name.
    fn name(&self) -> &Space;

    /// Whether an owner may decide on the rights of others there.
    fn trusts(&self, owner: OwnerKey) -> bool;
}

/// All open spaces, by their places in the configuration.
pub trait Authorities {
    /// One of them.
    type One: Authority;

    /// The space at a place.
    fn at(&self, place: usize) -> &Self::One;

    /// All of them, in the order of their places.
    fn all(&self) -> impl Iterator<Item = &Self::One>;
}

/// The ticket of a connection. Its signature was checked once; everything else about it may change
/// at any time.
pub struct Credentials {
    grant: Arc<Grant>,
    /// The ledger, which records whether the ticket is revoked.
    ledger: Ledger,
    /// The place of its connection, if it has one.
    pub place: Option<PlaceGuard>,
}

impl Credentials {
    /// The pass for a ticket that was read and checked.
    pub(crate) fn new(grant: Arc<Grant>, ledger: Ledger) -> Credentials {
        Credentials {
            grant,
            ledger,
            place: None,
        }
    }

    /// Reads a ticket, which must be valid in at least one space.
    pub fn read(
        ticket: &[u8],
        ledger: &Ledger,
        spaces: &impl Authorities,
        unix_ms: u64,
    ) -> Result<Credentials, Turned> {
        let text = str::from_utf8(ticket).map_err(|_| TicketError::Malformed {
            problem: "it is not UTF-8".into(),
        });
        let grant = Grant::read(text?, unix_ms)?;
        if grant.holder.is_some() {
            return Err(Turned {
                code: "ticket_holder",
                text:
                    "the ticket is for the node that it names, not for Redis clients; ask for one \
                       without a holder"
                        .into(),
            });
        }
        let pass = Credentials::new(Arc::new(grant), ledger.clone());
        let mut refused = None;
        for space in spaces.all() {
            match pass.judge_in(space) {
                Ok(()) => return Ok(pass),
                // An error about a space that the ticket covers says more than one about another
                // space.
                Err(turned) if !turned.is_forbidden() => refused = Some(turned),
                Err(_) => {}
            }
        }
        Err(refused.unwrap_or_else(|| {
            Turned::forbidden(
                "the ticket speaks of no space that is open at this node; ask for one that does",
            )
        }))
    }

    /// The grant of the ticket.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// The ticket's number.
    pub fn ticket(&self) -> TicketId {
        self.grant.id
    }

    /// The role that the ticket grants.
    pub fn role(&self) -> Role {
        self.grant.role
    }

    /// Judges the ticket without checking its signature again, which takes some tens of
    /// nanoseconds.
    pub fn judge(
        &self,
        place: Place,
        spaces: &impl Authorities,
        unix_ms: u64,
    ) -> Result<(), Turned> {
        self.grant.is_timely(unix_ms)?;
        match place {
            Place::Nowhere => Ok(()),
            Place::Space(at) => self.judge_in(spaces.at(at)),
            Place::Everywhere if self.grant.spaces.is_some() => Err(Turned::forbidden(
                "this is about the node as a whole, and takes a ticket for every space: \
                 `tallymesh invite --every-space`",
            )),
            Place::Everywhere => spaces.all().try_for_each(|space| self.judge_in(space)),
        }
    }

    /// Judges whether the ticket is still valid: in the given space, or else in any other.
    pub fn judge_any(
        &self,
        space: usize,
        spaces: &impl Authorities,
        unix_ms: u64,
    ) -> Result<(), Turned> {
        self.grant.is_timely(unix_ms)?;
        let Err(turned) = self.judge_in(spaces.at(space)) else {
            return Ok(());
        };
        match spaces.all().any(|it| self.judge_in(it).is_ok()) {
            true => Ok(()),
            false => Err(turned),
        }
    }

    /// Judges the ticket in one space, at a time.
    pub(crate) fn judge_timely_in(
        &self,
        space: &impl Authority,
        unix_ms: u64,
    ) -> Result<(), Turned> {
        self.grant.is_timely(unix_ms)?;
        self.judge_in(space)
    }

    /// Judges the ticket in one space. Every reason that can make it invalid there is checked here.
    fn judge_in(&self, space: &impl Authority) -> Result<(), Turned> {
        let (grant, name) = (&self.grant, space.name());
        if !grant.covers(name.as_str()) {
            return Err(Turned::forbidden(format!(
                "the ticket does not speak of space `{name}`; SELECT one of which it does, or ask for \
                 another"
            )));
        }
        if self.ledger.is_revoked(grant.id, name.as_str()) {
            return Err(Turned {
                code: "ticket_revoked",
                text: format!("the ticket is revoked in space `{name}`; ask a member for another"),
            });
        }
        if !space.trusts(grant.issuer) {
            return Err(Turned {
                code: "ticket_issuer",
                text: format!(
                    "{} signed the ticket, who has no say in space `{name}` at this node; ask a \
                     member of it for another",
                    grant.issuer
                ),
            });
        }
        Ok(())
    }
}

impl From<TicketError> for Turned {
    fn from(error: TicketError) -> Turned {
        Turned {
            code: error.code(),
            text: error.to_string(),
        }
    }
}

//! Sample tickets and revocations for tests.

use super::{Grant, Revocation, Revoked, TicketId};
use crate::identity::OwnerKey;
use crate::model::Role;
use tallymesh_core::Space;

/// A ticket for every holder and every space, without an end.
pub(crate) fn ticket(id: u8, issuer: OwnerKey, role: Role) -> Grant {
    Grant {
        id: TicketId::new([id; 16]),
        issuer,
        holder: None,
        role,
        spaces: None,
        issued: 1,
        expires: None,
        nodes: Vec::new(),
        knew: Default::default(),
    }
}

/// The revocation of a ticket, which counts in one space.
pub(crate) fn revoked(id: u8, issuer: OwnerKey, space: &str) -> Revoked {
    Revoked {
        statement: "x".into(),
        revocation: Revocation {
            id: TicketId::new([id; 16]),
            issuer,
            spaces: None,
            issued: 1,
            expires: None,
        },
        spaces: [Space::new(space).expect("a name")].into(),
    }
}

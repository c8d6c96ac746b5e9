//! Sample tickets and revocations for tests. Those of the network use this file, too.

use super::{Grant, Revocation, Revoked, TicketId};
use tallymesh_core::Space;
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::Role;

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

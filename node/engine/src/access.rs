//! Access: who may do what. The tickets by which members give roles in spaces to others, what clients
//! show to be let in, and the places that they take.
//!
//! A ticket is a JSON Web Token (RFC 7519) that a member of a space signs with its node's key
//! (EdDSA with Ed25519, RFC 8037). A node that has the members of the space can check a ticket
//! without asking another. A revocation is a statement that a member signs in the same way
//! ([`Revocation`]). A node keeps the revocations and its own tickets in its [`Ledger`].

mod auth_throttle;
mod client;
mod credentials;
mod known;
mod ledger;
mod own_roles;
mod participation;
pub mod places;
mod removal;
mod revocation;
#[cfg(test)]
pub(crate) mod samples;
mod signing;
mod ticket;
mod token;

pub use auth_throttle::AuthThrottle;
pub use client::{Client, network, of_sender};
pub use credentials::{Authorities, Authority, Credentials};
pub use known::KnownTickets;
pub use ledger::{
    HELD_MAX, ISSUED_MAX, Issued, Ledger, LedgerError, REVOKED_MAX, Revoked, TicketState,
};
pub use ledger::{REMOVED_MAX, Seen};
pub use own_roles::OwnRoles;
pub use participation::{Flaw, OwnTickets, Participation};
pub use removal::{Gone, REMOVED_KEY, Removal};
pub use revocation::KEY as REVOKED_KEY;
pub use revocation::{REVOCATION_BYTES_MAX, Revocation};
pub use ticket::{CLOCK_SKEW_MAX, Grant, TICKET_BYTES_MAX, TicketError, TicketId};
pub use token::{FILE as TOKEN_FILE, PREFIX as TOKEN_PREFIX};
pub use token::{OperatorToken, TokenError};

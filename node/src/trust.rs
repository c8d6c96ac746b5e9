//! Who may do what: roles in spaces, and the tickets by which members give them to others.
//!
//! A ticket is a JSON Web Token (RFC 7519) that a member of a space signs with its node's key
//! (EdDSA with Ed25519, RFC 8037). Whoever knows the members of the space can tell what it is worth,
//! without asking anybody. That one is revoked is a statement that a member signs in the same way
//! ([`Revocation`]); what a node knows of that, and of its own tickets, is in its [`Ledger`].

pub(crate) mod keys;
mod known;
mod ledger;
mod place;
mod removal;
mod revocation;
mod role;
#[cfg(test)]
pub(crate) mod samples;
mod signing;
mod standing;
mod ticket;
mod token;

pub(crate) use known::KnownTickets;
pub(crate) use ledger::{FILE as LEDGER_FILE, FILE_BYTES_MAX as LEDGER_BYTES_MAX};
pub use ledger::{
    HELD_MAX, ISSUED_MAX, Issued, Ledger, LedgerError, REVOKED_MAX, Revoked, TicketState,
};
pub(crate) use ledger::{REMOVED_MAX, Seen};
pub(crate) use place::{Flaw, Given, Place};
pub(crate) use removal::{Gone, REMOVED_KEY, Removal};
pub(crate) use revocation::KEY as REVOKED_KEY;
pub use revocation::{REVOCATION_BYTES_MAX, Revocation};
pub use role::Role;
pub(crate) use standing::Standing;
pub use ticket::{CLOCK_SKEW_MAX, Grant, TICKET_BYTES_MAX, TicketError, TicketId};
pub(crate) use token::{FILE as TOKEN_FILE, PREFIX as TOKEN_PREFIX};
pub use token::{OperatorToken, TokenError};

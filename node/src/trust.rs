//! Who may do what: roles in spaces, and the tickets by which members give them to others.
//!
//! A ticket is a JSON Web Token (RFC 7519) that a member of a space signs with its node's key
//! (EdDSA with Ed25519, RFC 8037). Whoever knows the members of the space can tell what it is worth,
//! without asking anybody.

mod signing;
mod ticket;

pub use ticket::{CLOCK_SKEW_MAX, Grant, Role, TICKET_BYTES_MAX, TicketError, TicketId};

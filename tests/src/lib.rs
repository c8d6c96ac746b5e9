//! What crosses crates: the oracle that says what every read must answer, and the deterministic
//! simulator that compares the core's sync machine with it.
//!
//! # Rules of determinism
//! A run follows from its seed alone. So: one generator ([`random::Random`]), ordered maps and
//! vectors only, no clock but the simulated one, and nothing that iterates in the order of a hash.

pub mod beginnings;
pub mod clones;
pub mod closed;
pub mod explore;
pub mod hostile;
pub mod ledger;
pub mod levels;
pub mod maelstrom;
pub mod meaning;
pub mod mesh;
pub mod open;
pub mod open_faults;
pub mod oracle;
pub mod partitions;
pub mod random;
pub mod retirement;
pub mod search;
pub mod seeds;
pub mod sim;
pub mod spending;
pub mod store;
pub mod tickets;
pub mod trace;
pub mod vectors;
pub mod visitors;
pub mod windows;

//! Test code that several crates share. The oracle computes the result that every read must return. The
//! deterministic simulator compares the core's sync machine with the oracle.
//!
//! # Rules of determinism
//! A run follows from its seed alone. Therefore it has one generator ([`random::Random`]), ordered maps and
//! vectors only, and no clock but the simulated one. Nothing iterates in the order of a hash.

pub mod beginnings;
pub mod clones;
pub mod closed;
pub mod draws;
pub mod explore;
pub mod hostile;
pub mod ledger;
pub mod levels;
pub mod maelstrom;
pub mod majority;
pub mod meaning;
pub mod mesh;
pub mod open;
pub mod open_faults;
pub mod oracle;
pub mod partitions;
pub mod periods;
pub mod random;
pub mod readers;
pub mod retirement;
pub mod search;
pub mod seeds;
pub mod sim;
pub mod spending;
pub mod store;
pub mod trace;
pub mod vectors;
pub mod visitors;

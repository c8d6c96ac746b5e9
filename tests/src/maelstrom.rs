//! A node for Maelstrom, and a small workbench of our own that makes the same requests.
//!
//! Maelstrom is a workbench for distributed systems. It runs them as processes that exchange JSON on standard
//! input and output (<https://github.com/jepsen-io/maelstrom>, doc/protocol.md and doc/workloads.md there).
//! Its network loses, delays and reorders messages, and has no connections.
//!
//! - [`node::Node`] is one counter of a core replica behind the requests of two workloads.
//! - `shared` makes links of single messages, and drives the core's sync machine over them.
//! - [`play::Play`] is the network, the clients and the judge.
//! - [`sums::Sums`] is the knowledge of a judge that sees only the messages of clients.
//!
//! None of them has a clock, a process or a source of randomness. The program `maelstrom` has these, and so
//! has the test of that name. The test plays with nodes in one process, and with real ones.

pub mod message;
pub mod node;
pub mod play;
mod shared;
pub mod sums;

/// The requests that a node serves. Both workloads have the requests `add` and `read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// `g-counter`: the counter only grows. The node rejects an add of less than 0.
    Grow,
    /// `pn-counter`: the node accepts every add.
    GrowAndShrink,
}

impl Workload {
    /// Both.
    pub const ALL: [Workload; 2] = [Workload::Grow, Workload::GrowAndShrink];

    /// Maelstrom's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Grow => "g-counter",
            Workload::GrowAndShrink => "pn-counter",
        }
    }
}

//! A node for Maelstrom, the workbench that tests distributed systems as processes which speak JSON
//! on standard input and output (<https://github.com/jepsen-io/maelstrom>, doc/protocol.md and
//! doc/workloads.md there), and a small workbench of our own that asks the same of it.
//!
//! Maelstrom's network loses, delays and reorders; a connection is nowhere. [`node::Node`] is one
//! counter of a core replica behind the requests of two workloads. `shared` makes links of single
//! messages, and drives the core's sync machine over them. [`play::Play`] is the network, the
//! clients and the judge; [`sums::Sums`] is what a judge knows who sees only what clients see.
//!
//! None of them has a clock, a process or a source of randomness: the program `maelstrom` has, and
//! the test of that name, which plays with nodes in one process and with real ones.

pub mod message;
pub mod node;
pub mod play;
mod shared;
pub mod sums;

/// What is asked of a node. Both workloads have the requests `add` and `read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// `g-counter`: the counter only grows; an add of less than 0 is refused.
    Grow,
    /// `pn-counter`: anything may be added.
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

//! The node's view of its network: who is connected, which links are cut on purpose, and questions
//! to peers. The face `gossip` fills and answers it,
//! and other faces show it.

mod audits;
mod node_table;
mod rows;

pub use audits::{Auditor, Reply, Request, Unanswered, channel};
pub use node_table::NodeTable;
pub use rows::Outside;
pub use rows::{AboutRow, CopyTold, Flow, NodeRow, Pushed, Traffic, UnreachedRow};

use std::collections::BTreeSet;
use tallymesh_node_ground::identity::Peer;

/// The links that are cut on purpose, for a demonstration or a test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    /// All links.
    pub all: bool,
    /// The links to these nodes.
    pub peers: BTreeSet<Peer>,
}

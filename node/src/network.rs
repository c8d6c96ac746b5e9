//! The node's view of its network: who is connected, which links are cut on purpose, and questions
//! to peers. The network part ([`crate::gossip`]) fills and answers it, and other faces show it.

mod audits;
mod directory;
mod rows;

pub(crate) use audits::{Auditor, Reply, Request, Unanswered, channel};
pub(crate) use directory::Directory;
pub(crate) use rows::Outside;
pub use rows::{AboutRow, Flow, NodeRow, Pushed, Traffic, UnreachedRow};

use crate::identity::Peer;
use std::collections::BTreeSet;

/// The links that are cut on purpose, for a demonstration or a test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    /// All links.
    pub all: bool,
    /// The links to these nodes.
    pub peers: BTreeSet<Peer>,
}

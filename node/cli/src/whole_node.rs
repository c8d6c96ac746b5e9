//! What the commands `up`, `init` and `openapi` need of a whole node. The program hands it in, so that the
//! command line names no face, and compiles without them.

use super::failure::Failure;
use futures::future::LocalBoxFuture;
use serde_json::Value;
use std::net::SocketAddr;
use tallymesh_node_config::Config;
use tallymesh_node_engine::driver::Handle;

/// The functions of a whole node.
#[derive(Clone, Copy, Debug)]
pub struct WholeNode {
    /// Starts a node on its data folder. The future ends when each listener is bound.
    pub start: fn(Config) -> LocalBoxFuture<'static, Result<RunningNode, NodeFailure>>,
    /// The description of the HTTP interface, OpenAPI 3.1.
    pub http_description: fn() -> Value,
}

/// Runs a node until a future ends, and stops it in order.
type Run = Box<
    dyn FnOnce(LocalBoxFuture<'static, ()>) -> LocalBoxFuture<'static, Result<(), NodeFailure>>,
>;

/// A node whose listeners are bound.
pub struct RunningNode {
    /// The address of HTTP with its scheme.
    pub url: String,
    /// The address at which the Redis protocol is served, if it is.
    pub resp: Option<SocketAddr>,
    /// The name of the node in the network.
    pub peer_id: String,
    /// The addresses for other nodes, with the node's name at the end.
    pub listen: Vec<String>,
    /// A client of the node that does not use HTTP.
    pub handle: Handle,
    /// Runs the node until the future ends, and stops it in order.
    pub run: Run,
}

/// The reason for which a node could not start, or stopped by itself.
#[derive(Debug)]
pub struct NodeFailure {
    /// A stable name of the kind of failure.
    pub code: &'static str,
    /// The error, and the advice.
    pub problem: String,
}

impl From<NodeFailure> for Failure {
    fn from(failure: NodeFailure) -> Failure {
        Failure::Local {
            code: failure.code,
            problem: failure.problem,
        }
    }
}

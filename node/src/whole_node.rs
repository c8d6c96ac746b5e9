//! The whole node, as the command line needs it.

use tallymesh_node_cli::{NodeFailure, RunningNode, WholeNode};
use tallymesh_node_server::node::{Node, NodeError, http_description};

/// The functions of a node that the commands run.
pub const WHOLE_NODE: WholeNode = WholeNode {
    start: |config| {
        Box::pin(async {
            let node = Node::start(config).await.map_err(failed)?;
            Ok(RunningNode {
                url: node.url(),
                resp: node.resp(),
                peer_id: node.peer_id().to_owned(),
                listen: node.listen().to_vec(),
                handle: node.handle().clone(),
                run: Box::new(|stop| Box::pin(async { node.run(stop).await.map_err(failed) })),
            })
        })
    },
    http_description,
};

fn failed(error: NodeError) -> NodeFailure {
    NodeFailure {
        code: error.code(),
        problem: error.to_string(),
    }
}

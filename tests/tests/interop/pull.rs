//! The state of a node in its own bytes. A peer pulls it over WebSocket.

use crate::node::{DEADLINE, Node, SPACE, told};
use futures::{SinkExt, StreamExt};
use tallymesh_core::wire::{Body, Digests, Frame, Hello, Pull};
use tallymesh_core::{Message, Space, VersionVector, WriterId};
use tokio::time::timeout;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message as Data;

/// Requests everything from the node, and returns its state.
pub(crate) async fn pull(node: &Node) -> Result<Message, String> {
    let writer = WriterId::mint(&Space::default(), &[1; 32], &[1; 16]);
    let nothing = VersionVector::default();
    let hello = Hello {
        version_min: 1,
        version_max: 1,
        capabilities: 0,
        session: 1,
        agent: "interop".to_owned(),
        nonce: [0; 16],
        proof: Vec::new(),
        digests: Digests {
            vector: nothing.digest(),
            contents: 0,
        },
        writer,
        clock: 0,
    };
    let everything = Pull {
        id: 1,
        chunk: 0,
        vector: nothing,
    };
    let asked = ask(node, [Body::Hello(hello), Body::Pull(everything)]);
    timeout(DEADLINE, asked).await.map_err(told)?
}

/// Sends frames, and waits for the state.
async fn ask(node: &Node, frames: [Body; 2]) -> Result<Message, String> {
    let address = format!("ws://{}{SPACE}/sync", node.http);
    let (mut socket, _) = connect_async(address).await.map_err(told)?;
    for body in frames {
        let space = Space::default();
        let frame = Frame { space, body }.encode();
        let sent = socket.send(Data::binary(frame)).await;
        sent.map_err(told)?;
    }
    while let Some(data) = socket.next().await {
        let Data::Binary(frame) = data.map_err(told)? else {
            continue;
        };
        if let Body::Delta(delta) = Frame::decode(&frame).map_err(told)?.body {
            if delta.chunk != 0 || !delta.last {
                return Err("the state comes in parts".to_owned());
            }
            return Ok(delta.message);
        }
    }
    Err("the node does not tell its state".to_owned())
}

//! The least that a server of many pages can be in the node's WebSocket library, to measure the node
//! beside: it passes each message on to all other sockets. It keeps nothing, checks nothing and merges
//! nothing.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::TcpListener;
use tokio::sync::broadcast::{Receiver, Sender, channel};

/// Messages that wait for the slowest socket. A socket that is further behind is closed.
const WAITING_MAX: usize = 1 << 16;
/// Bytes that a socket reads at a time, as the node has it.
const READ_BYTES: usize = 16 << 10;

/// A message, and the number of the socket that sent it.
type Passed = (u64, Bytes);

struct Floor {
    messages: Sender<Passed>,
    sockets: AtomicU64,
}

async fn upgrade(State(floor): State<Arc<Floor>>, upgrade: WebSocketUpgrade) -> Response {
    // Before the page is told that its socket is open: it misses nothing from then on.
    let inbox = floor.messages.subscribe();
    upgrade
        .read_buffer_size(READ_BYTES)
        .on_upgrade(move |socket| async move {
            let number = floor.sockets.fetch_add(1, Ordering::Relaxed);
            serve(number, socket, &floor.messages, inbox).await;
        })
}

async fn serve(
    number: u64,
    mut socket: WebSocket,
    messages: &Sender<Passed>,
    mut inbox: Receiver<Passed>,
) {
    loop {
        tokio::select! {
            message = socket.recv() => match message {
                // Nobody listens if this is the only socket.
                Some(Ok(Message::Binary(bytes))) => drop(messages.send((number, bytes))),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => return,
            },
            passed = inbox.recv() => match passed {
                Ok((from, _)) if from == number => {}
                Ok((_, bytes)) => {
                    if socket.send(Message::Binary(bytes)).await.is_err() {
                        return;
                    }
                }
                Err(_) => return,
            },
        }
    }
}

/// Listens on any port, and writes its address to the file that is named.
fn main() -> std::io::Result<()> {
    let file: Option<PathBuf> = std::env::args_os().nth(1).map(Into::into);
    let file = file.ok_or_else(|| std::io::Error::other("name the file for the address"))?;
    // As the node has it.
    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let http = format!("http://{}", listener.local_addr()?);
        // A reader that waits for the file must not read half of it.
        let part = file.with_extension("part");
        std::fs::write(&part, json!({ "http": http }).to_string())?;
        std::fs::rename(&part, &file)?;
        let (messages, sockets) = (channel(WAITING_MAX).0, AtomicU64::new(0));
        let floor = Arc::new(Floor { messages, sockets });
        let router = Router::new()
            .route("/v1/spaces/{space}/sync", get(upgrade))
            .with_state(floor);
        let listener = listener.tap_io(|stream| {
            // So no message waits for the acknowledgement of the one before. An error means that the socket is
            // closed already.
            let _ = stream.set_nodelay(true);
        });
        axum::serve(listener, router).await
    })
}

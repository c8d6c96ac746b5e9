//! WebSockets that take little memory.
//!
//! A node may have thousands of idle sockets. What a socket allocates for its largest message it keeps. So it
//! reads a few kilobytes at a time, and sends a large message in fragments (RFC 6455, section 5.4).

use super::problem::Problem;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures::{SinkExt, StreamExt};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use tallymesh_core::bounds::FRAME_BYTES_MAX;
use tallymesh_node_ground::problems;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

/// Bytes that a socket reads at a time. Each socket allocates them, and the library clears them
/// before each read. A higher value costs time and memory for each socket. A lower one costs more
/// reads for a large frame.
const READ_BYTES: usize = 4 << 10;

/// Bytes of a fragment of a message. Each socket keeps as many. A lower value costs more writes for a
/// large message.
const FRAGMENT_BYTES: usize = 4 << 10;

/// The subprotocol that a client may offer. A page has to, beside the one with its ticket, because
/// browsers close a socket that accepts none of the offered ones.
const PROTOCOL: &str = "tallymesh";

/// A request for a WebSocket, which was not accepted yet.
pub(super) struct Handshake {
    answer: Response,
    connection: OnUpgrade,
}

impl Handshake {
    /// What a request asks for, unless it is not well formed.
    ///
    /// # Errors
    /// `websocket`.
    pub(super) fn of(parts: &Parts) -> Result<Handshake, Problem> {
        let mut asked = Request::new(());
        *asked.method_mut() = parts.method.clone();
        *asked.version_mut() = parts.version;
        *asked.headers_mut() = parts.headers.clone();
        let answer = create_response(&asked).map_err(|error| refused(&error.to_string()))?;
        let mut answer = answer.map(|()| Body::empty());
        let offers = parts.headers.get_all(header::SEC_WEBSOCKET_PROTOCOL);
        let mut offers = offers.iter().filter_map(|it| it.to_str().ok());
        if offers.any(|it| it.split(',').any(|it| it.trim() == PROTOCOL)) {
            let protocol = HeaderValue::from_static(PROTOCOL);
            let headers = answer.headers_mut();
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        let connection: Option<&OnUpgrade> = parts.extensions.get();
        let connection =
            connection.ok_or_else(|| refused("the connection has another protocol"))?;
        let connection = connection.clone();
        Ok(Handshake { answer, connection })
    }

    /// Accepts the socket. `serve` gets it once the answer was sent.
    pub(super) fn accept<F>(self, serve: impl FnOnce(Socket) -> F + Send + 'static) -> Response
    where
        F: Future<Output = ()> + Send,
    {
        let Handshake { answer, connection } = self;
        tokio::spawn(async move {
            // The client may be gone already.
            if let Ok(upgraded) = connection.await {
                serve(Socket::of(upgraded).await).await;
            }
        });
        answer
    }
}

fn refused(why: &str) -> Problem {
    let detail = format!("{why}; open this address as a WebSocket");
    Problem::new(&problems::WEBSOCKET, detail)
}

/// A request for a WebSocket, or the problem with it.
pub(super) struct MaybeHandshake(pub(super) Result<Handshake, Problem>);

impl<S: Sync> FromRequestParts<S> for MaybeHandshake {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<MaybeHandshake, Infallible> {
        Ok(MaybeHandshake(Handshake::of(parts)))
    }
}

/// An open socket.
pub(super) struct Socket(WebSocketStream<TokioIo<Upgraded>>);

impl Socket {
    async fn of(upgraded: Upgraded) -> Socket {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(0)
            .max_message_size(Some(FRAME_BYTES_MAX))
            .max_frame_size(Some(FRAME_BYTES_MAX));
        let io = TokioIo::new(upgraded);
        Socket(WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await)
    }

    /// The next message; `None` once the socket is closed.
    pub(super) async fn recv(&mut self) -> Option<Result<Message, Error>> {
        self.0.next().await
    }

    /// Sends a message. If this is given up halfway, the socket is of no use any more.
    pub(super) async fn send(&mut self, message: Message) -> Result<(), Error> {
        let Message::Binary(mut rest) = message else {
            return self.0.send(message).await;
        };
        let mut kind = Data::Binary;
        while rest.len() > FRAGMENT_BYTES {
            let fragment = rest.split_to(FRAGMENT_BYTES);
            let frame = Frame::message(fragment, OpCode::Data(kind), false);
            self.0.feed(Message::Frame(frame)).await?;
            kind = Data::Continue;
        }
        let last = Frame::message(rest, OpCode::Data(kind), true);
        self.0.send(Message::Frame(last)).await
    }
}

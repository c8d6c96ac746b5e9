//! WebSocket sync: a browser tab, or any other replica, as a peer of this node.

use super::access::{Caller, Pass, SentBy, Serving};
use super::bodies::Charge;
use super::link_pace::LinkPace;
use super::problem::{self, Problem, Route};
use super::proof::{Challenge, Proof, unproved};
use super::requests::InSpace;
use super::socket::{Handshake, MaybeHandshake, Socket};
use super::{App, idle_timeout};
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{Extensions, header};
use axum::response::Response;
use std::sync::Arc;
use std::time::Duration;
use tallymesh_core::Link;
use tallymesh_node_engine::driver::{NewLink, Order};
use tallymesh_node_engine::network::Cuts;
use tallymesh_node_ground::model::{Carried, PeerKind, PeerScope, Role, Sender, SpaceId};
use tallymesh_node_ground::problems;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};

/// Frames that wait for one peer. Frames beyond are dropped, and sync repairs the gap later.
pub(super) const OUTBOX_FRAMES_MAX: usize = 64;

/// How often a ping is sent. A socket without input for three of these is closed.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A peer that does not accept a frame within this time is closed.
const SEND_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a client may take to close its side after the node has. A socket that is dropped with
/// unread bytes is reset, and its client may never read the reason.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a client may take to prove its key.
const PROOF_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that the protocol allows for the reason of a close.
const REASON_BYTES_MAX: usize = 123;

/// Refusals of a request that may mean more than one thing, or reached this node by a name that is not its own.
const AMBIGUOUS: [&str; 3] = [
    problems::HEADER_TWICE.code,
    problems::TRANSFER_ENCODING.code,
    problems::HOST.code,
];

/// Close codes. `AWAY` means that the node stops or was cut off, and `UNSUPPORTED` that a message
/// was not binary (both RFC 6455). `REFUSED` is this project's own: the request was refused, or the
/// peer broke the protocol.
const AWAY: u16 = 1001;
const UNSUPPORTED: u16 = 1003;
const REFUSED: u16 = 4000;

/// Syncs over a WebSocket
///
/// Each binary message is one frame of docs/protocol.md. With a ticket below the role member, the
/// client proves its owner's key first, as docs/http.md describes.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/sync", operation_id = "sync_socket", tag = "sync",
    params(InSpace),
    responses((status = 101, description = "The socket is open.")),
    extensions(("x-problems" = json!(["beyond_role", "cut", "websocket"]))),
)]
pub(super) async fn upgrade(
    app: Serving,
    Route(space): Route<String>,
    caller: Caller,
    from: SentBy,
    parts: Extensions,
    MaybeHandshake(handshake): MaybeHandshake,
) -> Result<Response, Problem> {
    let space = app.handle.space(&space)?;
    passes_on(&app, space)?;
    let handshake = handshake?;
    if app.cuts.borrow().all {
        let detail = "this node's links are cut; heal them with POST /v1/demo/cut";
        return Err(Problem::new(&problems::CUT, detail));
    }
    let challenge = caller
        .link()
        .limit()
        .map(|limit| Challenge::draw(&app, limit));
    let (challenge, pass) = (challenge.transpose()?, caller.pass(space));
    let charge = app.bodies.charge(caller.client(from.address));
    let from = from.sender;
    if let Some(connection) = parts.get::<Arc<idle_timeout::Client>>() {
        connection.charge(charge.clone());
    }
    Ok(handshake.accept(move |socket| serve(app, space, (challenge, pass, from, charge), socket)))
}

/// The socket that a request to this route asks for, to be closed if the request is refused.
pub(super) fn asked(request: &mut Request) -> Option<Handshake> {
    let asks =
        request.headers().contains_key(header::UPGRADE) && request.uri().path().ends_with("/sync");
    if !asks {
        return None;
    }
    let (parts, body) = std::mem::take(request).into_parts();
    let handshake = Handshake::of(&parts).ok();
    *request = Request::from_parts(parts, body);
    handshake
}

/// Accepts the socket of a refused request, and closes it with the reason. Browsers show a page no
/// answer but a close code, so a page could not learn the reason in another way. A proxy in front of
/// the node may take an ambiguous request for another one, so that gets no socket.
pub(super) fn refuse(handshake: Handshake, response: Response) -> Response {
    let problem = problem::of(&response).filter(|it| !AMBIGUOUS.contains(&it.code()));
    let Some(problem) = problem.cloned() else {
        return response;
    };
    let reason = problem.fits(REASON_BYTES_MAX);
    let mut response = handshake.accept(move |socket| end(socket, close(REFUSED, &reason)));
    response.extensions_mut().insert(problem);
    response
}

/// Refuses other replicas if this node is less than a member, because their changes would stay
/// here.
pub(super) fn passes_on(app: &App, space: SpaceId) -> Result<(), Problem> {
    let role = app.role(space);
    if role == Role::Member {
        return Ok(());
    }
    let detail = format!(
        "this node has the role {role} in the space, and passes on nothing but what it counts itself; \
         sync with a member's node"
    );
    Err(Problem::new(&problems::BEYOND_ROLE, detail))
}

/// Serves one socket until either side ends it.
async fn serve(
    app: Serving,
    space: SpaceId,
    (challenge, pass, from, charge): (Option<Challenge>, Pass, Sender, Arc<Charge>),
    mut socket: Socket,
) {
    let limits = match challenge {
        None => None,
        Some(challenge) => match prove(&mut socket, &challenge).await {
            Ok(limits) => Some(limits),
            Err(problem) => {
                let full = charge.refused();
                let code = full.map_or(problem.code(), |_| problems::BODIES_FULL.code);
                app.metrics.refused("http", code);
                let advice = full.map_or("sign the challenge".into(), |it| it.to_string());
                end(socket, close(REFUSED, &format!("{code}: {advice}"))).await;
                return;
            }
        },
    };
    charge.again();
    let pace = LinkPace::new(limits.as_ref());
    let link = app.node.next_link();
    let (outbox, inbox) = mpsc::channel(OUTBOX_FRAMES_MAX);
    let new = NewLink {
        link,
        spaces: Some(vec![Carried { space, limits }]),
        kind: PeerKind::WebSocket,
        peer: format!("ws-{}", link.0),
        broadcast: false,
        outbox,
        from,
    };
    app.node.connect(new).await;
    let close = exchange(&app, (link, pass, &charge, pace), &mut socket, inbox).await;
    app.node.disconnect(link).await;
    if let Some(frame) = close {
        end(socket, frame).await;
    }
}

/// Closes a socket, and continues to read until its client has closed its side, too.
async fn end(mut socket: Socket, frame: CloseFrame) {
    let closed = async {
        socket.send(Message::Close(Some(frame))).await.ok()?;
        while let Some(Ok(_)) = socket.recv().await {}
        Some(())
    };
    // The client may already be gone.
    let _ = timeout(CLOSE_TIMEOUT, closed).await;
}

/// Lets a client prove its owner's key.
async fn prove(socket: &mut Socket, challenge: &Challenge) -> Result<PeerScope, Problem> {
    let asked = Message::Text(challenge.text().into());
    let answer = async {
        socket.send(asked).await.ok()?;
        loop {
            match socket.recv().await {
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Text(text))) => return Some(text),
                _ => return None,
            }
        }
    };
    let answer = timeout(PROOF_TIMEOUT, answer).await.ok().flatten();
    let answer = answer.ok_or_else(|| unproved("no text came"))?;
    let proof: Result<Proof, _> = serde_json::from_str(&answer);
    challenge.check(&proof.map_err(|error| unproved(&error.to_string()))?)
}

/// The next event on a socket.
enum Next {
    Came(Option<Result<Message, Error>>),
    Order(Option<Order>),
    Ping,
}

/// Passes frames both ways. Returns how to close the socket, if it is still open.
async fn exchange(
    app: &Serving,
    (link, pass, charge, mut pace): (Link, Pass, &Charge, LinkPace),
    socket: &mut Socket,
    mut inbox: mpsc::Receiver<Order>,
) -> Option<CloseFrame> {
    let mut cuts = app.cuts.subscribe();
    let mut pings = interval(PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard = Instant::now();
    let stopped = app.stopped();
    let ended = pass.ended(Arc::clone(app));
    tokio::pin!(stopped, ended);
    loop {
        let next = async {
            tokio::select! {
                message = socket.recv() => Next::Came(message),
                order = inbox.recv() => Next::Order(order),
                _ = pings.tick() => Next::Ping,
            }
        };
        let next = tokio::select! {
            // This comes first: after the ticket has ended, no frame is accepted or sent.
            biased;
            problem = &mut ended => {
                return Some(close(REFUSED, &format!("{}: ask for another", problem.code())));
            }
            () = &mut stopped => return Some(close(AWAY, "the node stops")),
            () = cut_off(&mut cuts) => {
                return Some(close(AWAY, "the node's links were cut"));
            }
            next = next => next,
        };
        let mut _counted = None; // the frame is in flight until it is sent
        let outgoing = match next {
            Next::Came(message) => {
                heard = Instant::now();
                if let Some(full) = charge.refused() {
                    let code = problems::BODIES_FULL.code;
                    app.metrics.refused("http", code);
                    return Some(close(REFUSED, &format!("{code}: {full}")));
                }
                charge.again();
                match message {
                    Some(Ok(Message::Binary(bytes))) => {
                        pace.one().await;
                        app.handle.frame(link, bytes.into()).await;
                    }
                    Some(Ok(Message::Text(_))) => {
                        return Some(close(UNSUPPORTED, "frames are binary messages"));
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                }
                continue;
            }
            Next::Order(Some(Order::Send(_, frame))) => {
                let (bytes, counted) = frame.open();
                _counted = Some(counted);
                Message::Binary(Bytes::from_owner(bytes))
            }
            Next::Order(Some(Order::Close(_, error))) => {
                return Some(close(REFUSED, &format!("{}: {error}", error.code())));
            }
            Next::Order(Some(Order::Broadcast(..))) => continue, // Only the gossip part gets these.
            Next::Order(None) => return Some(close(AWAY, "the link was closed")),
            Next::Ping if heard.elapsed() > SILENCE_MAX => {
                return Some(close(AWAY, "nothing was heard for too long"));
            }
            Next::Ping => Message::Ping(Bytes::new()),
        };
        match timeout(SEND_TIMEOUT, socket.send(outgoing)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return None,
        }
    }
}

/// Resolves when all links are cut.
pub(super) async fn cut_off(cuts: &mut watch::Receiver<Cuts>) {
    // An error means that the node stops, which cuts all links, too.
    let _ = cuts.wait_for(|cuts| cuts.all).await;
}

/// A close frame.
fn close(code: u16, reason: &str) -> CloseFrame {
    let mut end = reason.len().min(REASON_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    CloseFrame {
        code: code.into(),
        reason: reason[..end].into(),
    }
}

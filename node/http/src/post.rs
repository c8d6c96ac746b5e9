//! Sync over plain requests, for programs that can't keep a socket open: workers that run for one
//! request, and hosts that block WebSocket.
//!
//! Each request brings frames and receives the frames that wait for it. In both directions each
//! frame follows its length, in four bytes with the most significant first. The first request opens
//! a link, and the answer has its name in the header `tallymesh-session`; later requests send that
//! header. A link without a request for a minute ends, or sooner if its client said when it comes
//! again. So the writer of a worker that is gone is retired soon. If an answer is lost, the client
//! opens a new link. The lost answer may have held the hello, which is sent once per link.
//!
//! With a ticket below the role member, the first request brings no frames and receives a
//! challenge. The second request proves the owner's key. Both are in headers.

use super::access::{Caller, Pass, SentBy, Serving};
use super::link_pace::LinkPace;
use super::problem::{Problem, QueryString, Route};
use super::proof::{Challenge, Proof, unproved};
use super::requests::{Frames, InSpace};
use super::sync::{OUTBOX_FRAMES_MAX, cut_off, passes_on};
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tallymesh_core::bounds::FRAME_BYTES_MAX;
use tallymesh_node_engine::access::{Client, places};
use tallymesh_node_engine::driver::{NewLink, Order};
use tallymesh_node_ground::model::bounds::BULK_BYTES_MAX;
use tallymesh_node_ground::model::{Carried, PeerKind, Role, Sender, SpaceId};
use tallymesh_node_ground::problems;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use utoipa::IntoParams;

/// The header that names a link.
pub(super) const SESSION: HeaderName = HeaderName::from_static("tallymesh-session");

/// The headers by which a client proves its owner's key. The node sends the challenge to sign, and
/// its own key. The client answers with the owner and the signature.
pub(super) const CHALLENGE: HeaderName = HeaderName::from_static("tallymesh-challenge");
pub(super) const NODE: HeaderName = HeaderName::from_static("tallymesh-node");
pub(super) const OWNER: HeaderName = HeaderName::from_static("tallymesh-owner");
pub(super) const SIGNATURE: HeaderName = HeaderName::from_static("tallymesh-signature");

/// Most links over requests. One client gets five sixths of them, so that a thousand workers behind one address fit.
const SESSIONS_MAX: usize = 2048;

/// Most frames in one request.
const FRAMES_MAX: usize = 256;

/// An answer of this length receives no further frame, in bytes. The rest waits for the next one.
const ANSWER_BYTES_MAX: usize = BULK_BYTES_MAX - FRAME_BYTES_MAX;

/// The longest wait for frames.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// How long after the time that the client named a link still waits for its next request.
const LATE_MAX: Duration = Duration::from_secs(2);

/// Bytes of the length before a frame.
const LENGTH_BYTES: usize = 4;

/// Options of an exchange of frames.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExchangeQuery {
    /// How long to wait for a frame, in milliseconds, at most 20,000; 0 if it is left out.
    #[serde(default)]
    #[param(maximum = 20_000)]
    wait_ms: u64,
    /// In how many milliseconds at most the next request comes. The link ends two seconds after
    /// that. If this is left out, it ends a minute after its last request, which is the longest.
    again_ms: Option<u64>,
}

/// One request on a link.
struct Exchange {
    frames: Vec<Vec<u8>>,
    proof: Option<Proof>,
    wait: Duration,
    /// In which time the next request comes, if the client said so.
    again: Option<Duration>,
    reply: oneshot::Sender<Result<Vec<u8>, Problem>>,
}

/// A link, as requests see it.
#[derive(Clone)]
struct Session {
    space: SpaceId,
    /// The role of its ticket when it began.
    role: Role,
    requests: mpsc::Sender<Exchange>,
}

/// The links over requests, by their names.
pub struct Sessions {
    open: Mutex<HashMap<String, Session>>,
    idle: Duration,
    places: places::Shared,
}

impl Sessions {
    /// No session yet; each ends after so long without a request.
    pub fn new(idle: Duration) -> Sessions {
        Sessions {
            open: Mutex::default(),
            idle,
            places: places::Shared::new(SESSIONS_MAX),
        }
    }

    /// How long a link waits for its next request, of which the client may have said when it comes.
    fn idle_after(&self, again: Option<Duration>) -> Duration {
        again.map_or(self.idle, |again| {
            again.saturating_add(LATE_MAX).min(self.idle)
        })
    }

    /// A link of this space, for a client with the role that the link began with.
    fn find(&self, name: &str, space: SpaceId, role: Role) -> Option<Session> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |it: &&Session| it.space == space && it.role == role;
        open.get(name).filter(fits).cloned()
    }

    fn end(&self, name: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(name);
    }

    /// Opens a link. Its name is a secret of the client that opened it.
    fn begin(
        &self,
        app: &Serving,
        space: SpaceId,
        (client, from): (Client, Sender),
        pass: Pass,
        challenge: Option<Challenge>,
    ) -> Result<(String, Session), Problem> {
        let place = self.places.begin(client).map_err(|full| {
            let detail = format!(
                "{}; they end {} s after their last request",
                full.told("links over POST"),
                self.idle.as_secs()
            );
            Problem::new(&problems::SYNC_SESSIONS_FULL, detail)
        })?;
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)
            .map_err(|error| Problem::new(&problems::INTERNAL, error.to_string()))?;
        let name = format!("{:032x}", u128::from_be_bytes(secret));
        let (requests, inbox) = mpsc::channel(1);
        let session = Session {
            space,
            role: client.role,
            requests,
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(name.clone(), session.clone());
        drop(open);
        let link = (space, challenge, name.clone(), from);
        let expired = pass.ended(Arc::clone(app));
        let serving = serve(app.clone(), link, inbox, expired);
        tokio::spawn(async move {
            serving.await;
            drop(place);
        });
        Ok((name, session))
    }
}

/// Exchanges frames with another replica
///
/// The body and the answer are frames of docs/protocol.md, each after its length: four bytes, the
/// most significant first. Without the header this opens a link; the answer has its name in the
/// same header. A link ends a minute after its last request, or two seconds after the time at which
/// its client said that it comes again (`again_ms`). With a ticket below the role member,
/// the client proves its owner's key in the second request, as docs/http.md describes.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/sync", operation_id = "sync_post", tag = "sync",
    params(
        InSpace,
        ExchangeQuery,
        ("tallymesh-session" = Option<String>, Header, description = "The link, unless it is to begin."),
        ("tallymesh-owner" = Option<String>, Header, description = "The owner's key that is proved."),
        ("tallymesh-signature" = Option<String>, Header, description = "The owner's signature of the challenge."),
    ),
    request_body(
        content = Frames, content_type = "application/octet-stream",
        description = "At most 256 frames and 8 MiB.",
    ),
    responses((
        status = 200, description = "The frames that waited.", body = Frames,
        content_type = "application/octet-stream",
        headers(
            ("tallymesh-session" = String, description = "The name of the link."),
            ("tallymesh-challenge" = String, description = "What is to be signed."),
            ("tallymesh-node" = String, description = "The key of the node, which is signed along."),
        ),
    )),
    extensions(("x-problems" = json!([
        "beyond_role", "cut", "handshake", "malformed", "not_a_frame", "not_yours", "owner_proof", "query", "sync_frames", "sync_session",
        "sync_sessions_full", "too_large", "trailing_bytes", "truncated", "version", "wrong_space",
    ]))),
)]
pub(super) async fn exchange(
    app: Serving,
    Route(space): Route<String>,
    QueryString(query): QueryString<ExchangeQuery>,
    caller: Caller,
    from: SentBy,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<(HeaderMap, Vec<u8>), Problem> {
    let space = app.handle.space(&space)?;
    passes_on(&app, space)?;
    let frames = frames(&body?)?;
    if app.cuts.borrow().all {
        return Err(cut());
    }
    let (role, pass) = (caller.link(), caller.pass(space));
    let client = Client {
        role,
        ..caller.client(from.address)
    };
    let from = from.sender;
    let (name, session) = match headers.get(SESSION) {
        None => match role.limit() {
            None => app
                .sessions
                .begin(&app, space, (client, from), pass, None)?,
            Some(limit) if frames.is_empty() => {
                let challenge = Challenge::draw(&app, limit)?;
                let (name, _) =
                    app.sessions
                        .begin(&app, space, (client, from), pass, Some(challenge))?;
                let asked = [
                    (CHALLENGE, challenge.digits()),
                    (NODE, app.owner.to_string()),
                ];
                return Ok((answer_headers(name, asked)?, Vec::new()));
            }
            Some(_) => return Err(unproved("the first request of a link brings no frames")),
        },
        Some(name) => {
            let name = name.to_str().unwrap_or_default();
            let session = app.sessions.find(name, space, role).ok_or_else(over)?;
            (name.to_owned(), session)
        }
    };
    let (reply, answer) = oneshot::channel();
    let exchange = Exchange {
        frames,
        proof: proof(&headers),
        wait: Duration::from_millis(query.wait_ms).min(WAIT_MAX),
        again: query.again_ms.map(Duration::from_millis),
        reply,
    };
    // The link may have ended because the ticket of this request has.
    let gone = || caller.judge(&app).err().unwrap_or_else(over);
    let sent = session.requests.send(exchange).await;
    sent.map_err(|_| gone())?;
    let answer = answer.await.map_err(|_| gone())??;
    Ok((answer_headers(name, [])?, answer))
}

/// The headers of an answer with frames.
fn answer_headers<const N: usize>(
    name: String,
    more: [(HeaderName, String); N],
) -> Result<HeaderMap, Problem> {
    let kind = HeaderValue::from_static("application/octet-stream");
    let mut headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]);
    for (header, value) in more.into_iter().chain([(SESSION, name)]) {
        let value = HeaderValue::try_from(value);
        let value = value.map_err(|error| Problem::new(&problems::INTERNAL, error.to_string()))?;
        headers.insert(header, value);
    }
    Ok(headers)
}

/// The proof of the owner in a request, if there is one.
fn proof(headers: &HeaderMap) -> Option<Proof> {
    let text = |header| Some(headers.get(header)?.to_str().ok()?.to_owned());
    Some(Proof {
        owner: text(OWNER)?,
        signature: text(SIGNATURE)?,
    })
}

fn over() -> Problem {
    let detail = "there is no such link in this space; leave the header tallymesh-session out to \
        begin another";
    Problem::new(&problems::SYNC_SESSION, detail)
}

fn cut() -> Problem {
    let detail = "this node's links are cut; heal them with POST /v1/demo/cut";
    Problem::new(&problems::CUT, detail)
}

/// Splits the body of a request into its frames.
fn frames(mut body: &[u8]) -> Result<Vec<Vec<u8>>, Problem> {
    let wrong = |detail| Err(Problem::new(&problems::SYNC_FRAMES, detail));
    let mut frames = Vec::new();
    while !body.is_empty() {
        let Some((length, rest)) = body.split_first_chunk::<LENGTH_BYTES>() else {
            let left = body.len();
            return wrong(format!(
                "{left} bytes are left at the end, and a frame's length has {LENGTH_BYTES}"
            ));
        };
        let length = u32::from_be_bytes(*length) as usize;
        if !(1..=FRAME_BYTES_MAX).contains(&length) {
            return wrong(format!(
                "a frame of {length} bytes is announced, and a frame has 1 to {FRAME_BYTES_MAX}"
            ));
        }
        let Some((frame, rest)) = rest.split_at_checked(length) else {
            let left = rest.len();
            return wrong(format!(
                "a frame of {length} bytes is announced, and {left} are left"
            ));
        };
        if frames.len() == FRAMES_MAX {
            return wrong(format!(
                "a request has at most {FRAMES_MAX} frames; send the rest in the next one"
            ));
        }
        frames.push(frame.to_vec());
        body = rest;
    }
    Ok(frames)
}

/// Serves one link until it is idle for too long, its ticket ends, or the node stops.
async fn serve(
    app: Serving,
    (space, challenge, name, from): (SpaceId, Option<Challenge>, String, Sender),
    mut requests: mpsc::Receiver<Exchange>,
    expired: impl Future<Output = Problem>,
) {
    let (mut first, mut limits) = (None, None);
    if let Some(challenge) = challenge {
        let Ok(Some(exchange)) = timeout(app.sessions.idle, requests.recv()).await else {
            return app.sessions.end(&name);
        };
        let proof = exchange.proof.as_ref();
        let proof = proof.ok_or_else(|| unproved("the headers with the proof are missing"));
        match proof.and_then(|proof| challenge.check(proof)) {
            Ok(proved) => limits = Some(proved),
            Err(problem) => {
                app.sessions.end(&name);
                // The client may have gone away.
                let _ = exchange.reply.send(Err(problem));
                return;
            }
        }
        first = Some(exchange);
    }
    let mut pace = LinkPace::new(limits.as_ref());
    let link = app.node.next_link();
    let (outbox, mut inbox) = mpsc::channel(OUTBOX_FRAMES_MAX);
    let new = NewLink {
        link,
        spaces: Some(vec![Carried { space, limits }]),
        kind: PeerKind::Post,
        peer: format!("post-{}", link.0),
        broadcast: false,
        outbox,
        from,
    };
    app.node.connect(new).await;
    let mut cuts = app.cuts.subscribe();
    let ended = async {
        tokio::select! {
            () = cut_off(&mut cuts) => {}
            () = app.stopped() => {}
            _ = expired => {}
        }
    };
    let exchanges = async {
        let mut idle = app.sessions.idle;
        loop {
            let exchange = match first.take() {
                Some(exchange) => exchange,
                None => match timeout(idle, requests.recv()).await {
                    Ok(Some(exchange)) => exchange,
                    _ => break,
                },
            };
            let Exchange {
                frames,
                wait,
                again,
                mut reply,
                ..
            } = exchange;
            idle = app.sessions.idle_after(again);
            for frame in frames {
                pace.one().await;
                app.handle.frame(link, frame).await;
            }
            let answer = tokio::select! {
                answer = gather(&mut inbox, wait) => answer,
                () = reply.closed() => continue, // The client has gone away.
            };
            let over = answer.is_err();
            // The client may have gone away, and then opens another link.
            let _ = reply.send(answer);
            if over {
                break;
            }
        }
    };
    tokio::select! {
        // This comes first: after the ticket has ended, the node accepts and sends no frame.
        biased;
        () = ended => {}
        () = exchanges => {}
    }
    app.sessions.end(&name);
    app.node.disconnect(link).await;
}

/// Collects the waiting frames, or waits for one if there is none.
async fn gather(inbox: &mut mpsc::Receiver<Order>, wait: Duration) -> Result<Vec<u8>, Problem> {
    let mut answer = Vec::new();
    let mut next = timeout(wait, inbox.recv()).await.ok();
    while let Some(order) = next {
        match order {
            Some(Order::Send(_, frame)) => {
                let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
                answer.extend_from_slice(&length.to_be_bytes());
                answer.extend_from_slice(&frame); // it is in flight no longer
            }
            Some(Order::Close(_, error)) => return Err(Problem::from(&error)),
            Some(Order::Broadcast(..)) => {} // Only the gossip part gets these.
            None => return Err(over()),
        }
        next = match answer.len() < ANSWER_BYTES_MAX {
            true => inbox.try_recv().ok().map(Some),
            false => None,
        };
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallymesh_core::Party;
    use tallymesh_node_engine::settings::SYNC_IDLE;

    #[test]
    fn a_link_waits_until_its_client_said_and_a_minute_at_most() {
        let sessions = Sessions::new(SYNC_IDLE);
        for (again_ms, idle_ms) in [
            (None, 60_000),
            (Some(0), 2_000),
            (Some(1_000), 3_000),
            (Some(58_001), 60_000),
            (Some(u64::MAX), 60_000),
        ] {
            let idle = sessions.idle_after(again_ms.map(Duration::from_millis));
            assert_eq!(idle, Duration::from_millis(idle_ms));
        }
    }

    #[test]
    fn links_of_one_ticket_leave_places_to_others() {
        let sessions = Sessions::new(SYNC_IDLE);
        let mut held = Vec::new();
        let mut fill = |ticket: u128, role: Role| {
            let address = Some(1);
            let ticket = Some(ticket);
            let client = Client {
                party: Party { ticket, address },
                role,
            };
            let before = held.len();
            while let Ok(place) = sessions.places.begin(client) {
                held.push(place);
            }
            held.len() - before
        };
        assert_eq!(fill(1, Role::Reader), 1366);
        assert_eq!(fill(2, Role::Reader), 341);
        assert_eq!(fill(3, Role::Writer), 171);
        assert_eq!(fill(4, Role::Member), SESSIONS_MAX - 1366 - 341 - 171);
    }

    fn body(frames: &[&[u8]]) -> Vec<u8> {
        let mut body = Vec::new();
        for frame in frames {
            let length = u32::try_from(frame.len()).expect("short");
            body.extend_from_slice(&length.to_be_bytes());
            body.extend_from_slice(frame);
        }
        body
    }

    #[test]
    fn frames_are_taken_apart() {
        assert_eq!(frames(&[]).expect("nothing"), Vec::<Vec<u8>>::new());
        let long = vec![7; FRAME_BYTES_MAX];
        let all = [b"a".as_slice(), b"bc", &long];
        assert_eq!(frames(&body(&all)).expect("frames"), all);
        assert_eq!(
            frames(&body(&[b"a".as_slice(); FRAMES_MAX]))
                .expect("the most")
                .len(),
            FRAMES_MAX
        );
    }

    #[test]
    fn what_is_no_list_of_frames_is_refused_before_anything_is_kept() {
        let long = vec![7; FRAME_BYTES_MAX + 1];
        for wrong in [
            vec![0],
            vec![0, 0, 0],
            body(&[b""]),
            body(&[b"a", b""]),
            vec![0, 0, 0, 2, 1],
            vec![255, 255, 255, 255, 1],
            body(&[&long]),
            body(&[b"a".as_slice(); FRAMES_MAX + 1]),
        ] {
            let problem = frames(&wrong).expect_err("refused");
            assert_eq!(problem.code(), "sync_frames");
        }
    }
}

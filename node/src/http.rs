//! HTTP on loopback: counters, events, sync for browsers, health, figures and the page.
//!
//! | request | what it does |
//! |---|---|
//! | `GET /v1/spaces/{space}/counters/{key}` | one counter: `{"key":"likes","value":"12"}`, with `expires_at` if it expires |
//! | `PUT`, `DELETE` of the same | sets it to `{"value":"10"}`; deletes it |
//! | `POST .../{key}/reset`, `/expire`, `/persist` | one operation; `expire` takes `{"at"}` or `{"in_ms"}` |
//! | `POST /v1/spaces/{space}/transactions` | `{"ops":[...]}`, seen everywhere all together or not at all |
//! | `POST /v1/spaces/{space}/counters/{key}/add` | adds `{"by":"5"}`, or 1 without a body; answers like the above |
//! | `GET /v1/spaces/{space}/counters/{key}/shards` | what each writer says of it |
//! | `GET /v1/spaces/{space}/counters?prefix=&after=&limit=` | counters by key, a page at a time |
//! | `POST /v1/spaces/{space}/add` | many adds, one `key [n]` a line, all or none |
//! | `GET /v1/spaces/{space}/events?key=` | changed counters as server-sent events |
//! | `GET /v1/spaces/{space}/writers` | the version vector, and what became of each writer |
//! | `GET /v1/spaces/{space}/members` | the members, what they acknowledged, what waits |
//! | `POST .../members/init` | makes this node the first member |
//! | `POST .../members/add`, `/remove` | proposes `{"owner"}` in or out and waits `wait_ms`, at most 20000, for the decision; harmless to repeat |
//! | `POST .../members/force` | replaces all by `{"members":[...]}` without asking them |
//! | `POST /v1/spaces/{space}/retire` | declares a `{"writer"}` dead, or all of an `{"owner"}` who is no member |
//! | `GET /v1/spaces/{space}/sync` | WebSocket: each binary message is one frame |
//! | `GET /v1/status`, `GET /v1/peers` | this node, and its links |
//! | `POST /v1/demo/cut` | cuts and heals links, with `up --demo` only |
//! | `GET /healthz`, `/readyz`, `/metrics` | for operators |
//! | `GET /` | the page |
//!
//! Values, clocks and totals are decimal strings, since JavaScript's numbers end at 2^53. An
//! answer to a write means that it is durable here. Errors are `application/problem+json` with a
//! stable `code`, a `detail` that says what to do next, and, on writes, `applied`: `no` or
//! `unknown`. See [`guard`] for which requests are let in at all.

mod body;
mod bulk;
mod counters;
mod demo;
mod events;
pub mod guard;
mod members;
mod operations;
mod page;
mod problem;
mod status;
mod sync;

use crate::clock::WallClock;
use crate::driver::OwnerKey;
use crate::gossip::Cuts;
use crate::handle::Handle;
use crate::metrics::Metrics;
use crate::store::Durability;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use problem::Problem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Largest body of a request for one counter, in bytes.
const BODY_BYTES_MAX: usize = 4 << 10;

/// Largest body of a bulk add or a transaction, in bytes.
pub const BULK_BYTES_MAX: usize = 8 << 20;

/// A request that is not answered within this time is given up. Streams have no such limit once
/// they have begun.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What the handlers share.
pub(crate) struct App {
    pub(crate) handle: Handle,
    pub(crate) metrics: Metrics,
    pub(crate) clock: WallClock,
    pub(crate) peer_id: String,
    pub(crate) owner: OwnerKey,
    pub(crate) listen: Vec<String>,
    pub(crate) resp: Option<SocketAddr>,
    pub(crate) durability: Durability,
    pub(crate) demo: bool,
    /// Whether any host name is let in, not only loopback's.
    pub(crate) open: bool,
    pub(crate) cuts: watch::Sender<Cuts>,
    /// True when the node stops: streams end then.
    pub(crate) stopping: watch::Receiver<bool>,
}

impl App {
    /// Resolves when the node stops.
    async fn stopped(&self) {
        // An error means that the node is gone, which is a stop too.
        let _ = self.stopping.clone().wait_for(|stopping| *stopping).await;
    }
}

/// All routes of a node.
pub(crate) fn router(app: Arc<App>) -> Router {
    let large = || DefaultBodyLimit::max(BULK_BYTES_MAX);
    let space = Router::new()
        .route("/counters", get(counters::list))
        .route(
            "/counters/{key}",
            get(counters::read)
                .put(operations::set)
                .delete(operations::delete),
        )
        .route("/counters/{key}/reset", post(operations::reset))
        .route("/counters/{key}/expire", post(operations::expire))
        .route("/counters/{key}/persist", post(operations::persist))
        .route("/counters/{key}/add", post(counters::add))
        .route("/counters/{key}/shards", get(counters::shards))
        .route("/add", post(bulk::add).layer(large()))
        .route("/transactions", post(operations::transact).layer(large()))
        .route("/writers", get(status::writers))
        .route("/members", get(members::list))
        .route("/members/init", post(members::init))
        .route("/members/add", post(members::add))
        .route("/members/remove", post(members::remove))
        .route("/members/force", post(members::force).layer(large()))
        .route("/retire", post(members::retire))
        .route("/events", get(events::stream))
        .route("/sync", get(sync::upgrade));
    Router::new()
        .nest("/v1/spaces/{space}", space)
        .route("/v1/status", get(status::status))
        .route("/v1/peers", get(status::peers))
        .route("/v1/demo/cut", post(demo::cut))
        .route("/healthz", get(status::healthy))
        .route("/readyz", get(status::ready))
        .route("/metrics", get(status::metrics))
        .fallback(page::serve)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn(give_up))
        .layer(middleware::from_fn_with_state(app.clone(), guard::check))
        .with_state(app)
}

async fn method_not_allowed() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this address takes another method; the `allow` header names it",
    )
}

/// Ends a request that takes too long.
async fn give_up(request: Request, next: Next) -> Response {
    match tokio::time::timeout(REQUEST_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "timeout",
            format!(
                "no answer within {} s; read the counter before you try again",
                REQUEST_TIMEOUT.as_secs()
            ),
        )
        .applied("unknown")
        .into_response(),
    }
}

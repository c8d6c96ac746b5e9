//! HTTP on loopback: counters, events, sync for browsers, health, figures and the page.
//!
//! | request | what it does |
//! |---|---|
//! | `GET /v1/spaces/{space}/counters/{key}` | one counter: `{"key":"likes","value":"12"}`, with `expires_at` if it expires |
//! | `PUT`, `DELETE` of the same | sets it to `{"value":"10"}`; deletes it |
//! | `POST .../{key}/reset`, `/expire`, `/persist` | one operation; `expire` takes `{"at"}` or `{"in_ms"}` |
//! | `POST /v1/spaces/{space}/transactions` | `{"ops":[...]}`, seen everywhere all together or not at all |
//! | `GET /v1/spaces/{space}/budgets/{key}`, `.../budgets?prefix=&after=&limit=` | a budget with its holders, and all of them |
//! | `GET /v1/spaces/{space}/sequences/{key}`, `.../sequences?prefix=&after=&limit=` | a sequence of numbers, and all of them |
//! | `GET /v1/spaces/{space}/limits`, `.../limits/{key}` | the rate limits, and the rest of a key's present period |
//! | `PUT` and `DELETE .../limits/{name}`, `POST .../limits/{key}/allow` | sets and removes a rate limit, and allows an amount |
//! | `POST .../sequences/{key}`, `.../sequences/{key}/next` | begins one, and hands out its next number |
//! | `PUT`, `DELETE .../sequences/{key}/watches/{number}` | watches a number, and ends that |
//! | `POST .../budgets/{key}/mint`, `/spend` | one operation: `{"amount":"5"}` |
//! | `PUT .../budgets/{key}/leases/{id}`, `DELETE` of it | leases rights, which the holder spends without asking: `{"amount","lease_ms"}`; ends the lease |
//! | `POST .../budgets/{key}/grant`, `/transfer` | moves rights: `{"to","amount"}`; spends, and pays into others: `{"to":[{"key","amount"}]}` |
//! | `POST /v1/spaces/{space}/counters/{key}/add` | adds `{"by":"5"}`, or 1 without a body; answers like the above |
//! | `GET /v1/spaces/{space}/counters/{key}/shards` | its shards, one for each writer |
//! | `GET /v1/spaces/{space}/counters?prefix=&after=&limit=` | counters by key, a page at a time |
//! | `POST /v1/spaces/{space}/read` | many counters of one view: `{"keys":["a","b"]}` |
//! | `POST /v1/spaces/{space}/add` | many adds, one `key [n]` a line, all or none |
//! | `GET /v1/spaces/{space}/events?key=` | changed counters as server-sent events |
//! | `GET /v1/spaces/{space}/writers` | the version vector, and the state of each writer |
//! | `GET /v1/spaces/{space}/audit?prefix=&after=&peer=` | the shards of counters, a page at a time, with the digest of the vector; with a peer id, those of a connected node |
//! | `GET /v1/spaces/{space}/members` | the members, their acknowledgements, and pending decisions |
//! | `POST .../members/init` | makes this node the first member |
//! | `POST .../members/add`, `/remove` | proposes `{"owner"}` in or out and waits `wait_ms`, at most 20000, for the decision; harmless to repeat |
//! | `POST /v1/adopt` | lets a node on a copy of a data folder take the place of the original |
//! | `POST .../members/force` | replaces all by `{"members":[...]}` without asking them |
//! | `POST /v1/spaces/{space}/retire` | declares a `{"writer"}` dead, or all of an `{"owner"}` that is no member |
//! | `GET /v1/spaces/{space}/sync` | WebSocket: each binary message is one frame |
//! | `POST /v1/spaces/{space}/sync?wait_ms=` | the same over single requests, see [`post`] |
//! | `POST /v1/tickets` | makes a ticket: `{"role","spaces"}`, see [`tallymesh_node_engine::access`] |
//! | `GET /v1/tickets` | the tickets that this node signed or was given, and which are revoked |
//! | `DELETE /v1/tickets/{id}?spaces=&expires_at=` | revokes a ticket |
//! | `GET /v1/status`, `GET /v1/peers` | this node, and its links |
//! | `POST /v1/demo/cut` | cuts and heals links, with `up --demo` only |
//! | `GET /healthz`, `/readyz`, `/metrics` | for operators |
//! | `GET /openapi.json`, `GET /api/` | all of this for programs, and a page to try it |
//! | `GET /` | the page |
//!
//! Values, clocks and totals are decimal strings, because JavaScript's numbers are exact only up to
//! 2^53. An answer to a write means that the write is durable here. Errors are
//! `application/problem+json` with a stable `code`, and a `detail` with advice. On writes they also
//! have `applied`: see [`problems`]. [`guard`] decides which requests are accepted at all.

mod access;
mod adopt;
mod asking;
mod audit;
pub mod bodies;
mod body;
mod budgets;
mod bulk;
mod counters;
mod demo;
mod events;
mod framing;
pub mod guard;
mod idle_timeout;
mod limits;
mod link_pace;
mod members;
mod op_fields;
pub mod openapi;
mod operations;
mod page;
pub mod post;
mod problem;
mod proof;
pub mod rate;
mod requests;
mod rows;
mod sequences;
mod socket;
mod status;
mod sync;
mod tickets;
mod try_it;
mod unread;

use axum::body::HttpBody;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request};
use axum::http::header::{CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::serve::{IncomingStream, Listener};
use framing::OneLength;
use futures::FutureExt;
use idle_timeout::IdleTimeoutListener;
use problem::Problem;
use std::convert::Infallible;
use std::future::{poll_fn, ready};
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tallymesh_node_engine::access::{Client, KnownTickets, Ledger, OperatorToken, OwnRoles};
use tallymesh_node_engine::contain::Panicked;
use tallymesh_node_engine::driver::Handle;
use tallymesh_node_engine::metrics::Metrics;
use tallymesh_node_engine::network::{Auditor, Cuts, NodeTable};
use tallymesh_node_engine::settings::HttpRules;
use tallymesh_node_ground::clock::{OwnClock, SpaceClock, WallClock};
use tallymesh_node_ground::identity::{Address, Identity, OwnerKey};
use tallymesh_node_ground::model::bounds::BULK_BYTES_MAX;
use tallymesh_node_ground::model::{Refusal, Role, SpaceId};
use tallymesh_node_ground::problems;
use tallymesh_node_ground::problems::INTERNAL_TEXT;
use tallymesh_node_store::Durability;
use tokio::sync::watch;
use tower::{Layer, Service, ServiceExt, service_fn};
use unread::Unread;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

/// Largest body of a request for one counter, in bytes.
const BODY_BYTES_MAX: usize = 4 << 10;

/// A request without an answer within this time is ended. Streams have no such limit once they have
/// begun.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The state that the handlers share.
pub struct App {
    /// For work of the node itself. Requests of clients use `access::Serving`.
    pub node: Handle,
    /// The figures of the node.
    pub metrics: Metrics,
    /// The wall clock of the node.
    pub clock: WallClock,
    /// The libp2p peer ID of the node.
    pub peer_id: String,
    /// The owner key of the node.
    pub owner: OwnerKey,
    /// The key that signs tickets.
    pub identity: Identity,
    /// The record of tickets.
    pub ledger: Ledger,
    /// The cache of tickets that clients have shown.
    pub tickets: KnownTickets,
    /// The token that proves that a request is the operator's.
    pub token: OperatorToken,
    /// The addresses at which the network listens.
    pub listen: Vec<String>,
    /// Addresses at which others should try to reach this node.
    pub reach: Vec<Address>,
    /// Whether every peer that connects there is trusted.
    pub listen_open: bool,
    /// The address of this listener.
    pub http: SocketAddr,
    /// When the node started, by its clock, in milliseconds since 1970.
    pub started: u64,
    /// The address of the Redis face, if it is open.
    pub resp: Option<SocketAddr>,
    /// Whether Redis clients need neither a ticket nor a password.
    pub resp_open: bool,
    /// How durable a write is before it is acknowledged.
    pub durability: Durability,
    /// Whether the demo page is served.
    pub demo: bool,
    /// The rules for requests.
    pub rules: HttpRules,
    /// The rate limit of requests, if there is one.
    pub rate: Option<rate::Rate>,
    /// Asks peers for audits.
    pub auditor: Auditor,
    /// The connected peers.
    pub node_table: NodeTable,
    /// Sync sessions over plain requests.
    pub sessions: post::Sessions,
    /// Counts the bytes of unfinished bodies.
    pub bodies: Arc<bodies::Bodies>,
    /// Peers and tickets whose connections must end.
    pub cuts: watch::Sender<Cuts>,
    /// True when the node stops, which ends all streams.
    pub stopping: watch::Receiver<bool>,
}

impl App {
    /// Resolves when the node stops.
    async fn stopped(&self) {
        // An error means that the node is gone, which is a stop, too.
        let _ = self.stopping.clone().wait_for(|stopping| *stopping).await;
    }

    /// The time of a space, by which its counters expire, in milliseconds since 1970.
    ///
    /// # Errors
    /// [`problems::CATCHING_UP`] while this member awaits the clock of another one.
    fn time_in(&self, space: SpaceId) -> Result<u64, Problem> {
        let member_lists = self.node.member_lists().borrow().clone();
        let owners = member_lists.get(space.0).and_then(Option::as_deref);
        let is_member = |owner: &[u8; 32]| {
            owners.is_some_and(|owners| owners.binary_search(&OwnerKey(*owner)).is_ok())
        };
        let mut clock = SpaceClock::default();
        let wall = self.clock.now();
        let own = OwnClock::of(is_member(&self.owner.0), owners.map_or(0, <[_]>::len));
        clock.judge(wall, &self.clock, own, is_member);
        match own != OwnClock::Guest && !clock.is_known() {
            true => Err(Refusal::CatchingUp.into()),
            false => Ok(clock.time(wall)),
        }
    }

    /// The role of this node in a space.
    fn role(&self, space: SpaceId) -> Role {
        let own_roles = OwnRoles::of(self.owner, &self.ledger);
        let member_lists = self.node.member_lists().borrow().clone();
        let member_list = member_lists.get(space.0).and_then(Option::as_deref);
        let name = self.node.spaces()[space.0].as_str();
        own_roles.role(name, member_list, self.clock.now())
    }
}

/// All routes of a node, each with its description. No route is nested in another, because a nested
/// router cuts the path at each request.
fn routes() -> OpenApiRouter<Arc<App>> {
    let large = || DefaultBodyLimit::max(BULK_BYTES_MAX);
    OpenApiRouter::with_openapi(openapi::head())
        .routes(routes!(counters::list))
        .routes(routes!(counters::read, operations::set, operations::delete))
        .routes(routes!(operations::reset))
        .routes(routes!(operations::expire))
        .routes(routes!(operations::persist))
        .routes(routes!(counters::add))
        .routes(routes!(counters::shards))
        .routes(routes!(counters::read_many).layer(large()))
        .routes(routes!(bulk::add).layer(large()))
        .routes(routes!(operations::transact).layer(large()))
        .routes(routes!(budgets::list))
        .routes(routes!(budgets::read))
        .routes(routes!(budgets::mint))
        .routes(routes!(budgets::spend))
        .routes(routes!(budgets::grant))
        .routes(routes!(budgets::lease, budgets::end_lease))
        .routes(routes!(budgets::transfer).layer(large()))
        .routes(routes!(sequences::list))
        .routes(routes!(sequences::read, sequences::begin))
        .routes(routes!(sequences::next))
        .routes(routes!(sequences::watch, sequences::end_watch))
        .routes(routes!(limits::list))
        .routes(routes!(limits::read, limits::set, limits::remove))
        .routes(routes!(limits::allow))
        .routes(routes!(status::writers))
        .routes(routes!(audit::page))
        .routes(routes!(members::list))
        .routes(routes!(members::init))
        .routes(routes!(members::add))
        .routes(routes!(members::remove))
        .routes(routes!(members::force).layer(large()))
        .routes(routes!(members::retire))
        .routes(routes!(adopt::adopt))
        .routes(routes!(events::stream))
        .routes(routes!(sync::upgrade))
        .routes(routes!(post::exchange).layer(large()))
        .routes(routes!(tickets::list, tickets::make))
        .routes(routes!(tickets::revoke))
        .routes(routes!(status::status))
        .routes(routes!(status::peers))
        .routes(routes!(demo::cut))
        .routes(routes!(status::healthy))
        .routes(routes!(status::ready))
        .routes(routes!(status::metrics))
        .routes(routes!(openapi::serve))
        .routes(routes!(try_it::redirect))
        .routes(routes!(try_it::index))
        .routes(routes!(try_it::file))
}

/// The paths of all routes, with `{name}` for their variable parts.
pub fn paths() -> Vec<String> {
    let paths = routes().into_openapi().paths.paths;
    paths.into_keys().collect()
}

/// Serves all routes of a node until it stops.
pub async fn serve<L>(listener: L, app: Arc<App>) -> io::Result<()>
where
    L: Listener<Addr = SocketAddr>,
{
    let (router, _) = routes().split_for_parts();
    let routes = router
        .fallback(page::serve)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(app.clone());
    // These layers surround all routes together, because layers of a route are copied for each
    // request. A request that is not from a page needs no CORS.
    let routes = DefaultBodyLimit::max(BODY_BYTES_MAX).layer(routes);
    let shared = app.clone();
    let programs = move |request| inside(shared.clone(), request, routes.clone());
    let pages = guard::cors().layer(service_fn(programs.clone()));
    let listener = OneLength(listener);
    let listener = IdleTimeoutListener::new(listener, app.rules.clients_max, app.metrics.clone());
    let (node, door) = (app.clone(), Arc::new((app, programs, pages)));
    let clients = service_fn(
        move |stream: IncomingStream<'_, IdleTimeoutListener<OneLength<L>>>| {
            let (door, client) = (door.clone(), *stream.remote_addr());
            let connection = stream.io().client();
            let client = service_fn(move |mut request: Request| {
                let (door, connection) = (door.clone(), connection.clone());
                async move {
                    connection.asked();
                    let (app, programs, pages) = &*door;
                    request.extensions_mut().insert(connection.clone());
                    // A link stores the address of its sender, so that the sender can be named later.
                    // Keys and bodies count by the address.
                    let counts = request.headers().contains_key(asking::KEY)
                        || !request.body().is_end_stream();
                    if counts || app.rate.is_some() || request.uri().path().ends_with("/sync") {
                        request.extensions_mut().insert(ConnectInfo(client));
                    }
                    let writes = !request.method().is_safe();
                    let requests = app.metrics.requests();
                    let (begun, place) = (
                        Instant::now(),
                        requests.place(request.method(), request.uri().path()),
                    );
                    let socket = sync::asked(&mut request);
                    let unread = Unread::of(&mut request);
                    let answered = AssertUnwindSafe(async {
                        Ok::<Response, Infallible>(match guard::judge(app, &request) {
                            Err(refusal) => *refusal,
                            Ok(comer) => {
                                request.extensions_mut().insert(comer);
                                match guard::is_of_a_page(&request) {
                                    true => pages.clone().oneshot(request).await?,
                                    false => programs(request).await?,
                                }
                            }
                        })
                    });
                    let response = match answered.catch_unwind().await {
                        Ok(answered) => answered?,
                        Err(thrown) => {
                            Panicked::of(&*thrown).tell(&app.metrics, "http");
                            Problem::new(&problems::INTERNAL, INTERNAL_TEXT).into_response()
                        }
                    };
                    let response = match socket {
                        Some(socket) => sync::refuse(socket, response),
                        None => response,
                    };
                    let streams = match is_stream(&response) {
                        true => {
                            let of = response.extensions().get().copied();
                            connection.streams(of.unwrap_or_default())
                        }
                        false => Ok(()),
                    };
                    let response = match streams {
                        Ok(()) => response,
                        Err(full) => {
                            // The connection leaves its place to others at once.
                            let close = [(CONNECTION, HeaderValue::from_static("close"))];
                            let detail = full.told("streams of events and sockets");
                            (close, Problem::new(&problems::STREAMS_FULL, detail)).into_response()
                        }
                    };
                    let mut response = guard::closed(response);
                    if let Some(unread) = unread
                        && !is_stream(&response)
                        && !unread.take_rest().await
                    {
                        let close = HeaderValue::from_static("close");
                        response.headers_mut().insert(CONNECTION, close);
                    }
                    if let Some(problem) = problem::of(&response) {
                        app.metrics.refused("http", problem.code());
                    }
                    requests.answered(place, response.status(), begun.elapsed());
                    if !is_stream(&response) {
                        connection.answered();
                    }
                    Ok::<Response, Infallible>(problem::tell_applied(response, writes))
                }
            });
            ready(Ok::<_, Infallible>(client))
        },
    );
    axum::serve(listener, clients)
        .with_graceful_shutdown(async move { node.stopped().await })
        .await
}

/// The checks within CORS: the rate, the ticket, and the time limit.
async fn inside<S>(
    app: Arc<App>,
    mut request: Request,
    mut routes: S,
) -> Result<Response, Infallible>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    if let Some(refusal) = rate::refusal(&app, &request) {
        return Ok(refusal);
    }
    if let Some(refusal) = access::refusal(&app, &mut request) {
        return Ok(refusal);
    }
    let client = client(&request);
    if client.is_limited()
        && let Some(connection) = request.extensions().get::<Arc<idle_timeout::Client>>()
    {
        connection.is_guest();
    }
    let charge = charge(&app, client, &mut request);
    let whole = access::judged_whole(&app, &mut request);
    // Routes are always ready.
    let answered = give_up(routes.call(request)).await;
    // No operation was made from a body that did not arrive completely.
    if let Some(refusal) = whole.and_then(|whole| whole.refused()) {
        return Ok(refusal);
    }
    match charge.and_then(|charge| charge.refused()) {
        Some(full) => Ok(Problem::from(full).into_response()),
        None => answered.map(|mut response| {
            if is_stream(&response) {
                response.extensions_mut().insert(client);
            }
            response
        }),
    }
}

/// The client that a request counts for. A request without a judged caller counts as an unknown
/// client.
fn client(request: &Request) -> Client {
    let address = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let address = address.map(|it| it.0.ip());
    match request.extensions().get::<access::Caller>() {
        Some(caller) => caller.client(address),
        None => Client::new(address, Role::Reader, None),
    }
}

/// Counts a request's body as it arrives, until the returned charge is dropped.
fn charge(app: &App, client: Client, request: &mut Request) -> Option<Arc<bodies::Charge>> {
    match request.body().is_end_stream() {
        true => None,
        false => Some(app.bodies.count(client, request)),
    }
}

/// Whether an answer continues for as long as the client reads it.
fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    response.status() == StatusCode::SWITCHING_PROTOCOLS
        || kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

async fn method_not_allowed() -> Problem {
    Problem::new(
        &problems::METHOD_NOT_ALLOWED,
        "this address takes another method; the `allow` header names it",
    )
}

/// Ends a request that takes too long.
async fn give_up(
    answer: impl Future<Output = Result<Response, Infallible>>,
) -> Result<Response, Infallible> {
    let mut answer = pin!(answer);
    // Most requests are answered at once, and need no timer.
    let at_once = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
    if let Poll::Ready(answered) = at_once {
        return answered;
    }
    let answered = tokio::time::timeout(REQUEST_TIMEOUT, answer).await;
    answered.unwrap_or_else(|_| {
        let problem = Problem::new(
            &problems::TIMEOUT,
            format!(
                "no answer within {} s; read the counter before you try again",
                REQUEST_TIMEOUT.as_secs()
            ),
        );
        Ok(problem.into_response())
    })
}

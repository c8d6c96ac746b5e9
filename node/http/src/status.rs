//! Answers for operators and for the page: status, peers, health, metrics.

use super::App;
use super::access::Serving;
use super::problem::{Problem, Route};
use super::requests::InSpace;
use axum::Json;
use axum::http::{HeaderName, header};
use serde::Serialize;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;
use tallymesh_node_engine::access::Participation;
use tallymesh_node_engine::network::{NodeRow, UnreachedRow};
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{Decimal, LinkRow, SpaceStatus, WriterRow, decimal};
use tallymesh_node_ground::problems;
use tallymesh_node_store::Trouble;
use tokio::time::timeout;
use utoipa::ToSchema;

/// How often to check whether the store still does not answer, while a request waits for the
/// driver.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// This node.
#[derive(Serialize, ToSchema)]
pub(super) struct Status {
    version: &'static str,
    peer_id: String,
    /// This node's own key, which makes it a member.
    owner: OwnerKey,
    listen: Vec<String>,
    /// Whether every peer that connects at those addresses is trusted as a member of all spaces.
    listen_open: bool,
    /// The address of HTTP.
    #[schema(value_type = String)]
    http: SocketAddr,
    /// Whether clients of HTTP need tickets.
    tickets: bool,
    /// The time of the node's clock, in milliseconds since 1970.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    time: u64,
    /// When the node started, by that clock.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    started: u64,
    /// The address of the Redis protocol, if it is served.
    #[schema(value_type = Option<String>)]
    resp: Option<SocketAddr>,
    /// Whether Redis clients are served without a ticket or a password.
    resp_open: bool,
    /// The durability setting: which failures an acknowledged write survives.
    durability: String,
    demo: bool,
    /// Whether all links are cut on purpose.
    cut: bool,
    spaces: Vec<SpaceStatus>,
}

/// The links of this node.
#[derive(Serialize, ToSchema)]
pub(super) struct Peers {
    peers: Vec<PeerRow>,
    /// Nodes that were named by `--peer`, or by a ticket to join with, and are not linked.
    unreached: Vec<UnreachedRow>,
}

/// A link in one space, and the record of the node at its other end.
#[derive(Serialize, ToSchema)]
pub(super) struct PeerRow {
    #[serde(flatten)]
    link: LinkRow,
    /// The node, in all spaces together; left out for clients that sync over WebSocket or single
    /// requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    node: Option<NodeRow>,
}

/// The version vector of a space.
#[derive(Serialize, ToSchema)]
pub(super) struct Writers {
    writers: Vec<WriterRow>,
}

/// This node
#[utoipa::path(
    get, path = "/v1/status", operation_id = "status", tag = "node",
    responses((
        status = 200, description = "Its addresses, and the state of its spaces.",
        body = Status,
    )),
    extensions(("x-problems" = json!(["stopped"]))),
)]
pub(super) async fn status(app: Serving) -> Result<Json<Status>, Problem> {
    let cut = app.cuts.borrow().all;
    let spaces = app.handle.status().await?;
    Ok(Json(Status {
        version: env!("CARGO_PKG_VERSION"),
        peer_id: app.peer_id.clone(),
        owner: app.owner,
        listen: app.listen.clone(),
        listen_open: app.listen_open,
        http: app.http,
        tickets: app.rules.tickets,
        time: app.clock.now(),
        started: app.started,
        resp: app.resp,
        resp_open: app.resp_open,
        durability: app.durability.to_string(),
        demo: app.demo,
        cut,
        spaces,
    }))
}

/// The links of this node
#[utoipa::path(
    get, path = "/v1/peers", operation_id = "peers", tag = "node",
    responses((status = 200, description = "One row for each link and space.", body = Peers)),
    extensions(("x-problems" = json!(["stopped"]))),
)]
pub(super) async fn peers(app: Serving) -> Result<Json<Peers>, Problem> {
    let links = app.handle.links().await?;
    let nodes = app.node_table.rows();
    let peers = links.into_iter().map(|link| PeerRow {
        node: nodes.get(&link.peer).cloned(),
        link,
    });
    let peers = peers.collect();
    let unreached = app.node_table.unreached();
    Ok(Json(Peers { peers, unreached }))
}

/// The writers of a space
///
/// Up to which clock this node has each, and the state of each.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/writers", operation_id = "writers", tag = "spaces",
    params(InSpace),
    responses((status = 200, description = "The version vector.", body = Writers)),
)]
pub(super) async fn writers(
    app: Serving,
    Route(space): Route<String>,
) -> Result<Json<Writers>, Problem> {
    let space = app.handle.space(&space)?;
    let writers = app.handle.writers(space).await?;
    Ok(Json(Writers { writers }))
}

/// Whether the process answers
#[utoipa::path(
    get, path = "/healthz", operation_id = "healthy", tag = "node",
    responses((status = 200, description = "It does.", body = String, example = "ok\n")),
)]
pub(super) async fn healthy() -> &'static str {
    "ok\n"
}

/// The driver's answer, unless the driver waits for a store that hangs.
async fn answered<T>(app: &App, answer: impl Future<Output = T>) -> Result<T, Problem> {
    let mut answer = pin!(answer);
    loop {
        match app.metrics.health().trouble() {
            None => {}
            Some(Trouble::Lost(why)) => return Err(Problem::new(&problems::STORE_LOST, why)),
            Some(Trouble::Waits(waited)) => {
                let detail = format!(
                    "the store has not answered for {} s: its disk hangs, or is very slow",
                    waited.as_secs()
                );
                return Err(Problem::new(&problems::STORE_WAITS, detail));
            }
        }
        if let Ok(answer) = timeout(LOOK_INTERVAL, &mut answer).await {
            return Ok(answer);
        }
    }
}

/// Whether the node is to be sent requests
///
/// It is ready, except in these cases: it stops, or its store has failed. It is a member of a space
/// and has not caught up with the others yet. It waits to join a space, was removed from the
/// members of one, or has no valid ticket for one.
#[utoipa::path(
    get, path = "/readyz", operation_id = "ready", tag = "node",
    responses((status = 200, description = "It does.", body = String, example = "ready\n")),
    extensions(("x-problems" = json!(["stopped", "catching_up", "joining", "removed", "store_lost", "store_waits", "ticket_worthless"]))),
)]
pub(super) async fn ready(app: Serving) -> Result<&'static str, Problem> {
    if *app.stopping.borrow() {
        return Err(Problem::new(
            &problems::STOPPED,
            "the node stops; ask another one",
        ));
    }
    let spaces = answered(&app, app.handle.status()).await??;
    match spaces.iter().find(|space| !space.takes_part()) {
        Some(space) => {
            let detail = format!(
                "the space `{}` has not caught up with other members yet, which takes some seconds \
                 after a start; ask again",
                space.space
            );
            Err(Problem::new(&problems::CATCHING_UP, detail))
        }
        None => match app.node_table.outside() {
            Some(it) => {
                let kind = match it.place {
                    Participation::Removed => &problems::REMOVED,
                    Participation::Without(_) => &problems::TICKET_WORTHLESS,
                    _ => &problems::JOINING,
                };
                Err(Problem::new(kind, it.detail))
            }
            None => Ok("ready\n"),
        },
    }
}

/// Metrics for a monitor
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "node",
    responses((
        status = 200, description = "OpenMetrics.",
        body = String, content_type = "application/openmetrics-text",
    )),
    extensions(("x-problems" = json!(["stopped"]))),
)]
pub(super) async fn metrics(
    app: Serving,
) -> Result<([(HeaderName, &'static str); 1], String), Problem> {
    // Without the driver, all metrics except those of spaces are up to date.
    let spaces = match answered(&app, app.handle.status()).await {
        Ok(spaces) => spaces?,
        Err(_) => Vec::new(),
    };
    let text = app.metrics.text(&spaces);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text))
}

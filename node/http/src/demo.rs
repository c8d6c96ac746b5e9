//! Cutting and healing links over HTTP, for demonstrations and tests.

use super::App;
use super::access::Serving;
use super::problem::Problem;
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tallymesh_node_ground::identity::Peer;
use tallymesh_node_ground::model::PeerKind;
use tallymesh_node_ground::problems;
use tokio::time::Instant;
use utoipa::ToSchema;

/// How long links may take to close after a cut.
const CUT_TIMEOUT: Duration = Duration::from_secs(5);

/// How often to check whether they are closed.
const CUT_POLL: Duration = Duration::from_millis(5);

/// The links to cut or heal.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"cut": false}))]
struct CutBody {
    cut: bool,
    /// The libp2p peer id of one node; without it, all links.
    peer: Option<String>,
}

/// Whether links are cut now.
#[derive(Serialize, ToSchema)]
pub(super) struct CutState {
    cut: bool,
}

/// Cuts or heals links
///
/// Only at a node for demonstrations. Answers when the links to cut are closed, or when healing has
/// begun.
#[utoipa::path(
    post, path = "/v1/demo/cut", operation_id = "cut_links", tag = "node",
    request_body(content = CutBody, description = "What to cut or heal."),
    responses((
        status = 200, description = "What is cut now.", body = CutState,
        example = json!({"cut": true}),
    )),
    extensions(("x-problems" = json!(["cut_timeout", "not_demo", "peer", "stopped"]))),
)]
pub(super) async fn cut(
    app: Serving,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<CutState>, Problem> {
    if !app.demo {
        let detail = "links can be cut only at a node that was started with `tallymesh up --demo`";
        return Err(Problem::new(&problems::NOT_DEMO, detail));
    }
    let request: CutBody = serde_json::from_slice(&body?).map_err(|error| {
        let detail = format!("{error}; send {{\"cut\":true}} or {{\"cut\":false}}");
        Problem::new(&problems::BODY, detail)
    })?;
    match &request.peer {
        None => {
            app.cuts.send_if_modified(|cuts| {
                let changed = cuts.all != request.cut;
                cuts.all = request.cut;
                changed
            });
        }
        Some(name) => {
            let peer: Peer = name
                .parse()
                .map_err(|problem: String| Problem::new(&problems::PEER, problem))?;
            app.cuts.send_if_modified(|cuts| match request.cut {
                true => cuts.peers.insert(peer),
                false => cuts.peers.remove(&peer),
            });
        }
    }
    if request.cut {
        links_closed(&app, request.peer.as_deref()).await?;
    }
    Ok(Json(CutState { cut: request.cut }))
}

/// Waits until all cut links are closed.
async fn links_closed(app: &App, peer: Option<&str>) -> Result<(), Problem> {
    let deadline = Instant::now() + CUT_TIMEOUT;
    loop {
        let mut links = app.node.links().await?.into_iter();
        let open = match peer {
            None => links.next(),
            Some(name) => links.find(|row| row.kind == PeerKind::Libp2p && row.peer == name),
        };
        let Some(row) = open else { return Ok(()) };
        if Instant::now() > deadline {
            let detail = format!("the link to {} did not close in time", row.peer);
            return Err(Problem::new(&problems::CUT_TIMEOUT, detail));
        }
        tokio::time::sleep(CUT_POLL).await;
    }
}

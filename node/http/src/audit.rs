//! The shards of counters, a page at a time, for comparing replicas.

use super::App;
use super::access::Serving;
use super::problem::{Problem, QueryString, Route};
use super::requests::InSpace;
use axum::Json;
use serde::Deserialize;
use tallymesh_core::Space;
use tallymesh_core::bounds::KEY_BYTES_MAX;
use tallymesh_core::wire::AuditQuestion;
use tallymesh_node_engine::network::Unanswered;
use tallymesh_node_ground::identity::Peer;
use tallymesh_node_ground::model::{AuditPage, Audited, Query};
use tallymesh_node_ground::problems;
use utoipa::IntoParams;

/// Most counters of one page. Each may have a shard of every writer.
const PAGE_MAX: usize = 1_000;

/// Selects the page.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditQuery {
    /// Only keys with this prefix.
    #[serde(default)]
    prefix: String,
    /// Only keys after this one, by their bytes: the `next` of the previous page.
    after: Option<String>,
    /// The libp2p peer id of a node that is connected to this one, to read its shards.
    peer: Option<String>,
}

/// Lists the shards of counters
///
/// For comparing replicas: replicas with equal digests must show the same values.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/audit", operation_id = "audit", tag = "node",
    params(InSpace, AuditQuery),
    responses((
        status = 200, description = "A page of at most 1,000 counters.", body = AuditPage,
    )),
    extensions(("x-problems" = json!(["peer", "peer_no_answer", "peer_not_connected", "query"]))),
)]
pub(super) async fn page(
    app: Serving,
    Route(space): Route<String>,
    QueryString(query): QueryString<AuditQuery>,
) -> Result<Json<AuditPage>, Problem> {
    let id = app.handle.space(&space)?;
    if let Some(peer) = query.peer {
        let question = AuditQuestion {
            space: Space::new(&space).map_err(|error| Problem::from(&error))?,
            prefix: query.prefix,
            after: query.after.unwrap_or_default(),
        };
        return Ok(Json(asked(&app, &peer, question).await?));
    }
    let query = Query {
        prefix: query.prefix,
        after: query.after,
        limit: PAGE_MAX,
    };
    Ok(Json(app.handle.audit(id, query).await?))
}

/// Reads the page from a connected node.
async fn asked(app: &App, name: &str, question: AuditQuestion) -> Result<AuditPage, Problem> {
    let peer: Peer = name
        .parse()
        .map_err(|problem: String| Problem::new(&problems::PEER, problem))?;
    for (what, text) in [("prefix", &question.prefix), ("after", &question.after)] {
        if text.len() > KEY_BYTES_MAX {
            let detail = format!(
                "`{what}` has {} bytes, and a key has at most {KEY_BYTES_MAX}",
                text.len()
            );
            return Err(Problem::new(&problems::QUERY, detail));
        }
    }
    let told = app.auditor.ask(peer, question).await.map_err(|why| {
        let kind = match why {
            Unanswered::NotConnected => &problems::PEER_NOT_CONNECTED,
            Unanswered::Refused(_) | Unanswered::Broken(_) => &problems::PEER_NO_ANSWER,
        };
        Problem::new(kind, format!("{name} told nothing: {why}"))
    })?;
    let last = told.counters.last().filter(|_| told.more);
    Ok(AuditPage {
        digest: told.digest,
        next: last.map(|it| it.0.clone()),
        counters: told
            .counters
            .into_iter()
            .map(|(key, shards)| Audited { key, shards })
            .collect(),
    })
}

//! What every writer says of counters, a page at a time, for whoever compares replicas.

use super::App;
use super::problem::{Asked, Problem, Route};
use super::requests::InSpace;
use crate::driver::{AuditPage, Query};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// Most counters of one page. Each may have a shard of every writer.
const PAGE_MAX: usize = 1_000;

/// Which page.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditQuery {
    /// Only keys that begin so.
    #[serde(default)]
    prefix: String,
    /// Only keys after this one, by their bytes: the `next` of the page before.
    after: Option<String>,
}

/// What each writer says of counters
///
/// For comparing replicas: those of which the digests are equal must show the same.
#[utoipa::path(
    get, path = "/audit", operation_id = "audit", tag = "node",
    params(InSpace, AuditQuery),
    responses((
        status = 200, description = "A page of at most 1,000 counters.", body = AuditPage,
    )),
    extensions(("x-problems" = json!(["query"]))),
)]
pub(super) async fn page(
    State(app): State<Arc<App>>,
    Route(space): Route<String>,
    Asked(query): Asked<AuditQuery>,
) -> Result<Json<AuditPage>, Problem> {
    let space = app.handle.space(&space)?;
    let query = Query {
        prefix: query.prefix,
        after: query.after,
        limit: PAGE_MAX,
    };
    Ok(Json(app.handle.audit(space, query).await?))
}

//! The adoption of a copied data folder over HTTP.

use super::access::Serving;
use super::problem::Problem;
use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

/// Whether the node was adopted.
#[derive(Serialize, ToSchema)]
pub(super) struct Adopted {
    /// Whether it stood aside before. If not, nothing was changed.
    adopted: bool,
}

/// Lets a copy take the place of its original
///
/// For a node whose data folder is a copy, when the original is gone for good. It becomes a member in its place.
/// If the original runs after all, that one is declared dead, and what it acknowledges from then on is lost.
/// Harmless to repeat.
#[utoipa::path(
    post, path = "/v1/adopt", operation_id = "adopt_copy", tag = "node",
    responses((
        status = 200, description = "Whether the node stood aside before.", body = Adopted,
        example = json!({"adopted": true}),
    )),
    extensions(("x-problems" = json!(["stopped"]))),
)]
pub(super) async fn adopt(app: Serving) -> Result<Json<Adopted>, Problem> {
    let adopted = app.handle.adopt().await?;
    Ok(Json(Adopted { adopted }))
}

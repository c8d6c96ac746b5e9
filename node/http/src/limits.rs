//! Rate limits: amounts that are allowed in each period, in the whole mesh.

use super::access::Serving;
use super::asking::Asking;
use super::body::Fields;
use super::members::{WAIT_DEFAULT, wait};
use super::op_fields::{Body, Key, make};
use super::problem::{Problem, Route};
use super::requests::{
    AskingOnce, AskingRead, AskingWrite, CostBody, InSpace, LimitBody, OfLimit, OfPeriod,
};
use super::rows::Answer;
use axum::Json;
use tallymesh_node_ground::api;
use tallymesh_node_ground::model::{LimitList, LimitRow, MemberChange, PeriodRow, Refusal};

const LIMIT: &str = r#"{"limit":"100","period_ms":60000}, and "wait_ms" if you like"#;
const COST: &str = r#"nothing, or {"cost":"1"}"#;

/// Lists the limits of a space
#[utoipa::path(
    get, path = api::LIST_LIMITS.path(), operation_id = api::LIST_LIMITS.name, tag = "limits",
    params(InSpace),
    responses((status = 200, description = "The limits.", body = LimitList)),
)]
pub(super) async fn list(
    app: Serving,
    Route(space): Route<String>,
) -> Result<Json<LimitList>, Problem> {
    let space = app.handle.space(&space)?;
    Ok(Json(app.handle.limits(space).await?))
}

/// Reads the present period of a key
///
/// The rest of it here and elsewhere, and when it ends.
#[utoipa::path(
    get, path = api::READ_LIMIT.path(), operation_id = api::READ_LIMIT.name, tag = "limits",
    params(InSpace, OfPeriod, AskingRead),
    responses((status = 200, description = "The period.", body = PeriodRow)),
)]
pub(super) async fn read(
    app: Serving,
    Route((space, key)): Key,
    asking: Asking,
) -> Answer<PeriodRow> {
    let space = app.handle.space(&space)?;
    let seen = asking.wait(&app, space).await?;
    let period = app.handle.period(space, key).await;
    let period = period.map_err(|it| Problem::from(it).without_op())?;
    Ok(seen.map(|()| Json(period)))
}

/// Sets a limit
///
/// A change of the configuration, which a majority of the members decides; the request waits for
/// that. Harmless to repeat. A raised limit allows more from the first period that begins after all
/// members have it.
#[utoipa::path(
    put, path = api::SET_LIMIT.path(), operation_id = api::SET_LIMIT.name, tag = "limits",
    params(InSpace, OfLimit),
    request_body(content = LimitBody, description = "How much is allowed, and in how long a period."),
    responses((status = 200, description = "The limits.", body = LimitList)),
)]
pub(super) async fn set(
    app: Serving,
    Route((space, name)): Key,
    body: Body,
) -> Result<Json<LimitList>, Problem> {
    let space = app.handle.space(&space)?;
    let body = body?;
    let mut fields = Fields::parse(&body, LIMIT)?;
    let limit = fields.quantity("limit")?;
    let period_ms = fields.quantity("period_ms")?;
    let wait = wait(&mut fields)?;
    fields.end()?;
    let change = MemberChange::SetLimit(LimitRow {
        name,
        limit,
        period_ms,
        since: 0,
    });
    app.handle.change_members(space, &change, wait).await?;
    Ok(Json(app.node.limits(space).await?))
}

/// Removes a limit
///
/// A change of the configuration, as setting one. After that nothing is allowed for its keys,
/// because no limit covers them.
#[utoipa::path(
    delete, path = api::REMOVE_LIMIT.path(), operation_id = api::REMOVE_LIMIT.name, tag = "limits",
    params(InSpace, OfLimit),
    responses((status = 200, description = "The limits.", body = LimitList)),
)]
pub(super) async fn remove(
    app: Serving,
    Route((space, name)): Key,
) -> Result<Json<LimitList>, Problem> {
    let space = app.handle.space(&space)?;
    let change = MemberChange::RemoveLimit(name);
    app.handle
        .change_members(space, &change, WAIT_DEFAULT)
        .await?;
    Ok(Json(app.node.limits(space).await?))
}

/// Allows an amount, if it is left in this period
///
/// Uses the share of this node. If it is too small, the request is refused at once, or waits as
/// long as `tallymesh-rights-wait-ms` allows. Meanwhile this node requests more from other members.
/// A refusal has the status 429, and `retry-after` has the time until the next period.
#[utoipa::path(
    post, path = api::ALLOW.path(), operation_id = api::ALLOW.name, tag = "limits",
    params(InSpace, OfPeriod, AskingOnce, AskingWrite),
    request_body(content = Option<CostBody>, description = "How much; 1 if it is left out."),
    responses((status = 200, description = "It is allowed; what is left.", body = PeriodRow)),
)]
pub(super) async fn allow(app: Serving, of: Key, asking: Asking, body: Body) -> Answer<PeriodRow> {
    let (space, key) = of.0.clone();
    match make(&app, &api::ALLOW, of, asking, (body, COST)).await {
        Ok(done) => {
            let period = done.answer.period.clone().ok_or(Refusal::Stopped)?;
            Ok(done.map(|_| Json(period)))
        }
        Err(problem) if problem.code() == "limit_reached" => {
            let space = app.handle.space(&space)?;
            let ends = app.node.period(space, key).await.map(|it| it.ends);
            Err(problem.ends(ends.ok()))
        }
        Err(problem) => Err(problem),
    }
}

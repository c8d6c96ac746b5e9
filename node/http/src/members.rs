//! The members of a space, and writers that are gone.

use super::access::Serving;
use super::body::Fields;
use super::problem::{Problem, Route};
use super::requests::{ForceBody, InSpace, MemberBody, RetireBody};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;
use tallymesh_core::WriterId;
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{MemberChange, Membership, Retiree, Retirement};
use tallymesh_node_ground::problems;
use utoipa::ToSchema;

/// The default wait of a request for a decision.
pub(super) const WAIT_DEFAULT: Duration = Duration::from_secs(10);

/// The longest wait. A client that needs more repeats the request, which is harmless.
const WAIT_MAX: Duration = Duration::from_secs(20);

const CHANGE: &str = r#"{"owner":"64 hex digits"}, and "wait_ms" if you like"#;
const FORCE: &str = r#"{"members":["64 hex digits"]}"#;
const RETIRE: &str =
    r#"{"writer":"32 hex digits"} or {"owner":"64 hex digits"}, and "wait_ms" if you like"#;

/// The states of writers that were declared dead.
#[derive(Serialize, ToSchema)]
pub(super) struct Retirements {
    writers: Vec<Retirement>,
}

type Body = Result<Bytes, BytesRejection>;

/// A parser for the text of a key.
type Parse = fn(&str) -> Option<OwnerKey>;

/// The members of a space
#[utoipa::path(
    get, path = "/v1/spaces/{space}/members", operation_id = "list_members", tag = "members",
    params(InSpace),
    responses((
        status = 200, description = "The members as this node sees them.",
        body = Membership,
    )),
)]
pub(super) async fn list(
    app: Serving,
    Route(space): Route<String>,
) -> Result<Json<Membership>, Problem> {
    let space = app.handle.space(&space)?;
    Ok(Json(app.handle.members(space).await?))
}

/// Makes this node the first member
#[utoipa::path(
    post, path = "/v1/spaces/{space}/members/init", operation_id = "init_members", tag = "members",
    params(InSpace),
    responses((
        status = 200, description = "The members as this node sees them.",
        body = Membership,
    )),
    extensions(("x-problems" = json!(["beyond_role", "closed", "folder_copied", "memory_only"]))),
)]
pub(super) async fn init(
    app: Serving,
    Route(space): Route<String>,
) -> Result<Json<Membership>, Problem> {
    let space = app.handle.space(&space)?;
    Ok(Json(app.handle.found(space).await?))
}

/// Makes an owner a member
///
/// Waits for the decision of the members; harmless to repeat.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/members/add", operation_id = "add_member", tag = "members",
    params(InSpace),
    request_body(content = MemberBody, description = "Whom."),
    responses((
        status = 200, description = "The members as this node sees them.",
        body = Membership,
    )),
    extensions(("x-problems" = json!([
        "catching_up", "folder_copied", "owner", "millis", "members_full", "memory_only", "no_members", "not_a_member",
        "undecided",
    ]))),
)]
pub(super) async fn add(
    app: Serving,
    Route(space): Route<String>,
    body: Body,
) -> Result<Json<Membership>, Problem> {
    change(&app, &space, body, (MemberChange::Add, OwnerKey::parse)).await
}

/// Removes an owner from the members
///
/// Waits for the decision of the members; harmless to repeat.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/members/remove", operation_id = "remove_member", tag = "members",
    params(InSpace),
    request_body(content = MemberBody, description = "Whom."),
    responses((
        status = 200, description = "The members as this node sees them.",
        body = Membership,
    )),
    extensions(("x-problems" = json!([
        "catching_up", "folder_copied", "owner", "millis", "members_full", "memory_only", "no_members", "not_a_member",
        "undecided",
    ]))),
)]
pub(super) async fn remove(
    app: Serving,
    Route(space): Route<String>,
    body: Body,
) -> Result<Json<Membership>, Problem> {
    // A weak key may have become a member before keys were checked, and can be removed.
    change(&app, &space, body, (MemberChange::Remove, OwnerKey::digits)).await
}

async fn change(
    app: &Serving,
    space: &str,
    body: Body,
    (change, parse): (fn(OwnerKey) -> MemberChange, Parse),
) -> Result<Json<Membership>, Problem> {
    let space = app.handle.space(space)?;
    let read = Fields::parse(&body?, CHANGE).and_then(|mut fields| {
        let owner = owner(&fields.text("owner")?, parse)?;
        let wait = wait(&mut fields)?;
        fields.end()?;
        Ok((owner, wait))
    });
    let (owner, wait) = read?;
    let change = change(owner);
    let members = app.handle.change_members(space, &change, wait).await?;
    Ok(Json(members))
}

/// Replaces all members without asking them
///
/// For a majority that is lost for ever.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/members/force", operation_id = "force_members", tag = "members",
    params(InSpace),
    request_body(content = ForceBody, description = "All members that there are to be."),
    responses((
        status = 200, description = "The members as this node sees them.",
        body = Membership,
    )),
    extensions(("x-problems" = json!(["folder_copied", "owner", "members_full", "memory_only", "no_members"]))),
)]
pub(super) async fn force(
    app: Serving,
    Route(space): Route<String>,
    body: Body,
) -> Result<Json<Membership>, Problem> {
    let space = app.handle.space(&space)?;
    let read = Fields::parse(&body?, FORCE).and_then(|mut fields| {
        let members = fields.list("members")?.into_iter();
        let members = members.map(|member| match member {
            Value::String(text) => owner(&text, OwnerKey::parse),
            other => owner(&other.to_string(), OwnerKey::parse),
        });
        let members = members.collect::<Result<Vec<OwnerKey>, Problem>>()?;
        fields.end()?;
        Ok(members)
    });
    let members = read?;
    Ok(Json(app.handle.force_members(space, members).await?))
}

/// Declares writers dead that are gone for good
///
/// Their totals stay.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/retire", operation_id = "retire_writer", tag = "members",
    params(InSpace),
    request_body(content = RetireBody, description = "Whom."),
    responses((status = 200, description = "What became of them.", body = Retirements)),
    extensions(("x-problems" = json!([
        "catching_up", "folder_copied", "writer", "owner", "millis", "is_member", "no_members", "not_a_member",
        "unknown_owner", "unknown_writer",
    ]))),
)]
pub(super) async fn retire(
    app: Serving,
    Route(space): Route<String>,
    body: Body,
) -> Result<Json<Retirements>, Problem> {
    let space = app.handle.space(&space)?;
    let read = Fields::parse(&body?, RETIRE).and_then(|mut fields| {
        let who = retiree(&mut fields)?;
        let wait = wait(&mut fields)?;
        fields.end()?;
        Ok((who, wait))
    });
    let (who, wait) = read?;
    let writers = app.handle.retire(space, who, wait).await?;
    Ok(Json(Retirements { writers }))
}

fn retiree(fields: &mut Fields) -> Result<Retiree, Problem> {
    if let Some(text) = fields.text_if_any("owner")? {
        return owner(&text, OwnerKey::digits).map(Retiree::Owner);
    }
    let text = fields.text("writer")?;
    let writer = WriterId::parse(&text.to_ascii_lowercase());
    writer.map(Retiree::Writer).ok_or_else(|| {
        let shown: String = text.chars().take(80).collect();
        let detail = format!(
            "`{shown}` is no writer: it has 32 hex digits, as `tallymesh writers` shows them"
        );
        Problem::new(&problems::WRITER, detail)
    })
}

fn owner(text: &str, parse: Parse) -> Result<OwnerKey, Problem> {
    parse(text).ok_or_else(|| {
        let shown: String = text.chars().take(80).collect();
        let detail = format!(
            "`{shown}` is no owner's key, or a weak one that nobody has: a key has 64 hex digits, as \
             `tallymesh id` shows them"
        );
        Problem::new(&problems::OWNER, detail)
    })
}

pub(super) fn wait(fields: &mut Fields) -> Result<Duration, Problem> {
    let wait = fields.millis("wait_ms")?.map(Duration::from_millis);
    Ok(wait.unwrap_or(WAIT_DEFAULT).min(WAIT_MAX))
}

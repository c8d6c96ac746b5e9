//! Tickets: what a member gives to others, so that they may count.

use super::App;
use super::body::Fields;
use super::problem::Problem;
use super::requests::TicketBody;
use crate::driver::{Decimal, OwnerKey};
use crate::gossip::Address;
use crate::problems;
use crate::trust::{Grant, Role, TicketId};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use serde::Serialize;
use std::sync::Arc;
use tallymesh_core::{Error, Space};
use utoipa::ToSchema;

const TICKET: &str =
    r#"{"role":"writer","spaces":["default"]}, and "expires_in_ms" or "holder" if you like"#;

/// How long a ticket is good for, if nobody says.
const EXPIRES_DEFAULT_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// A new ticket.
#[derive(Serialize, ToSchema)]
pub(super) struct Ticket {
    /// All of it: whoever has this may do what it says.
    ticket: String,
    /// By which it is revoked.
    #[schema(pattern = "^[0-9a-f]{32}$")]
    id: String,
    role: Role,
    /// Where; `*` for every space in which this node is a member.
    spaces: Vec<String>,
    /// The only node that may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    holder: Option<OwnerKey>,
    /// When it ends, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Decimal, required = false)]
    expires_at: Option<String>,
}

/// Makes a ticket
///
/// This node signs it, so it is worth something where this node is a member, and in spaces without
/// members at this node. It is good for 30 days if `expires_in_ms` does not say; for ever if that is 0.
#[utoipa::path(
    post, path = "/v1/tickets", operation_id = "make_ticket", tag = "tickets",
    request_body(content = TicketBody, description = "What the holder may do."),
    responses((status = 200, description = "The ticket.", body = Ticket)),
    extensions(("x-problems" = json!([
        "millis", "not_a_member", "owner", "role", "space_name", "space_not_open", "stopped", "ticket",
    ]))),
)]
pub(super) async fn make(
    State(app): State<Arc<App>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Ticket>, Problem> {
    let mut fields = Fields::parse(&body?, TICKET)?;
    let role = fields.text("role")?;
    let role: Role = role
        .parse()
        .map_err(|problem: String| Problem::new(&problems::ROLE, problem))?;
    let spaces = spaces(&mut fields)?;
    let lasts = fields
        .millis("expires_in_ms")?
        .unwrap_or(EXPIRES_DEFAULT_MS);
    let holder = fields.text_if_any("holder")?;
    let holder = holder.map(|text| {
        OwnerKey::parse(&text).ok_or_else(|| {
            let detail = format!("`{text}` is no owner's key, which has 64 hex digits");
            Problem::new(&problems::OWNER, detail)
        })
    });
    fields.end()?;
    for space in spaces.iter().flatten() {
        let open = app.handle.space(space.as_str())?;
        if !app.handle.trusts(open, app.owner).await? {
            return Err(Problem::from(&Error::NotAMember));
        }
    }
    let issued = app.clock.now() / 1000;
    let grant = Grant {
        id: TicketId::new(random()?),
        issuer: app.owner,
        holder: holder.transpose()?,
        role,
        spaces,
        issued,
        expires: (lasts > 0).then(|| issued.saturating_add(lasts.div_ceil(1000))),
        nodes: app
            .listen
            .iter()
            .filter_map(|it| it.parse::<Address>().ok())
            .collect(),
    };
    let ticket = grant.sign(&app.identity)?;
    Ok(Json(Ticket {
        ticket,
        id: grant.id.to_string(),
        role,
        spaces: match &grant.spaces {
            None => vec!["*".into()],
            Some(spaces) => spaces.iter().map(Space::to_string).collect(),
        },
        holder: grant.holder,
        expires_at: grant.expires.map(|at| at.saturating_mul(1000).to_string()),
    }))
}

/// The spaces that are named, or none for `*`.
fn spaces(fields: &mut Fields) -> Result<Option<Vec<Space>>, Problem> {
    let names = fields.list("spaces")?;
    let names: Option<Vec<&str>> = names.iter().map(|it| it.as_str()).collect();
    match names.as_deref() {
        Some(["*"]) => Ok(None),
        Some(names) if !names.is_empty() => {
            let spaces = names.iter().map(|name| Space::new(name));
            let spaces: Result<Vec<Space>, Error> = spaces.collect();
            Ok(Some(spaces.map_err(|error| Problem::from(&error))?))
        }
        _ => Err(fields.invalid("`spaces` is no list of names")),
    }
}

fn random() -> Result<[u8; 16], Problem> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        Problem::new(&problems::INTERNAL, format!("no random numbers: {error}"))
    })?;
    Ok(bytes)
}

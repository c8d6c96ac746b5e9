//! Tickets: a member gives them to others, so that they may count, and revokes them.

use super::access::Serving;
use super::body::Fields;
use super::problem::{Problem, QueryString, Route};
use super::requests::{OfTicket, TicketBody};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tallymesh_core::{Error, MemberError, Space};
use tallymesh_node_engine::access::{
    Grant, Issued, Ledger, LedgerError, Revocation, Revoked, TicketId, TicketState,
};
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{Decimal, Role};
use tallymesh_node_ground::problems;
use utoipa::{IntoParams, ToSchema};

const TICKET: &str =
    r#"{"role":"writer","spaces":["default"]}, and "expires_in_ms" or "holder" if you like"#;

/// How long a ticket is valid by default.
const EXPIRES_DEFAULT_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// A new ticket.
#[derive(Serialize, ToSchema)]
pub(super) struct Ticket {
    /// The text of the ticket. Its holder has the rights in it.
    ticket: String,
    /// The id by which it is revoked.
    #[schema(pattern = "^[0-9a-f]{32}$")]
    id: String,
    role: Role,
    /// Its spaces; `*` for every space in which this node is a member.
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

/// A ticket that this node signed, or was given.
#[derive(Serialize, ToSchema)]
pub(super) struct TicketRow {
    #[schema(pattern = "^[0-9a-f]{32}$")]
    id: String,
    role: Role,
    /// The member that signed it.
    issuer: OwnerKey,
    /// The spaces in which it is valid; `*` for every space in which its issuer is a member.
    spaces: Vec<String>,
    /// The only node that may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    holder: Option<OwnerKey>,
    /// When it was signed, in milliseconds since 1970.
    #[schema(value_type = Decimal)]
    issued_at: String,
    /// When it ends, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Decimal, required = false)]
    expires_at: Option<String>,
    state: TicketState,
    /// The spaces in which it is revoked.
    revoked_in: Vec<String>,
}

/// The revocation of a ticket.
#[derive(Serialize, ToSchema)]
pub(super) struct RevokedRow {
    #[schema(pattern = "^[0-9a-f]{32}$")]
    id: String,
    /// The member that revoked it.
    by: OwnerKey,
    /// The spaces in which the revocation counts here.
    spaces: Vec<String>,
    /// When it was revoked, in milliseconds since 1970.
    #[schema(value_type = Decimal)]
    revoked_at: String,
    /// When the ticket ends. The revocation is needed until then; without an end, for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Decimal, required = false)]
    expires_at: Option<String>,
}

/// The tickets in this node's record.
#[derive(Serialize, ToSchema)]
pub(super) struct Tickets {
    /// The tickets that it signed, until a week after their end; the oldest first.
    issued: Vec<TicketRow>,
    /// The tickets that it was given.
    held: Vec<TicketRow>,
    /// All tickets that are revoked here, of any issuer, until their end.
    revoked: Vec<RevokedRow>,
}

/// How to revoke a ticket that this node has not signed, or has forgotten.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RevokeQuery {
    /// The spaces, with commas between; all in which this node is trusted if it is left out.
    #[param(example = "default", required = false)]
    spaces: Option<String>,
    /// When the ticket ends, in milliseconds since 1970. The revocation is not needed for longer.
    #[param(pattern = "^[0-9]+$", required = false)]
    expires_at: Option<String>,
}

/// Lists the tickets of this node
///
/// The tickets that it signed, with their states, the ones that it was given, and those that are
/// revoked. The answer never has the text of a ticket.
#[utoipa::path(
    get, path = "/v1/tickets", operation_id = "list_tickets", tag = "tickets",
    responses((status = 200, description = "The tickets.", body = Tickets)),
)]
pub(super) async fn list(app: Serving) -> Json<Tickets> {
    let (ledger, now) = (&app.ledger, app.clock.now());
    let row = |it: &Issued, issuer| row(it, issuer, ledger, now);
    let mut issued = ledger.issued();
    issued.sort_by_key(|it| it.issued);
    let held = ledger.held();
    Json(Tickets {
        issued: issued.iter().map(|it| row(it, app.owner)).collect(),
        held: held
            .iter()
            .map(|(_, grant)| row(&Issued::from(grant), grant.issuer))
            .collect(),
        revoked: ledger.revoked().iter().map(revoked_row).collect(),
    })
}

/// Revokes a ticket
///
/// From now on the ticket is invalid here. At all nodes that trust this one, it is invalid as soon
/// as they receive the revocation. This node signs the revocation, and the address book carries it.
///
/// The revocation is needed until the ticket's end. For a ticket that this node signed, this node
/// has the end. For others, `expires_at` gives it; without it the revocation is stored for ever. A
/// revocation can't be undone, and is harmless to repeat.
#[utoipa::path(
    delete, path = "/v1/tickets/{id}", operation_id = "revoke_ticket", tag = "tickets",
    params(OfTicket, RevokeQuery),
    responses((status = 200, description = "Where it is revoked now.", body = RevokedRow)),
    extensions(("x-problems" = json!([
        "not_a_member", "path", "query", "space_name", "space_not_open", "stopped", "ticket_id", "tickets_full",
        "tickets_io",
    ]))),
)]
pub(super) async fn revoke(
    app: Serving,
    Route(id): Route<String>,
    QueryString(query): QueryString<RevokeQuery>,
) -> Result<Json<RevokedRow>, Problem> {
    let id: TicketId = id
        .parse()
        .map_err(|problem: String| Problem::new(&problems::TICKET_ID, problem))?;
    let issued = app.ledger.issued().into_iter().find(|it| it.id == id);
    let expires = match issued {
        Some(issued) => issued.expires,
        None => query.expires_at.as_deref().map(seconds).transpose()?,
    };
    let named = query.spaces.as_deref().map(names).transpose()?;
    let revocation = Revocation {
        id,
        issuer: app.owner,
        issued: app.clock.now() / 1000,
        spaces: named,
        expires,
    };
    let spaces = with_a_say(&app, revocation.spaces.as_deref()).await?;
    let known = app.ledger.revoked().into_iter().filter(|it| {
        let known = &it.revocation;
        let lasts = known.expires.is_none() || known.expires >= expires && expires.is_some();
        known.id == id && known.issuer == app.owner && lasts
    });
    let known: BTreeSet<Space> = known.flat_map(|it| it.spaces).collect();
    if !spaces.is_subset(&known) {
        let statements = revocation.sign(&app.identity).into_iter();
        let new = statements.map(|(statement, revocation)| Revoked {
            statement,
            spaces: spaces
                .iter()
                .filter(|it| revocation.covers(it))
                .cloned()
                .collect(),
            revocation,
        });
        let new: Vec<Revoked> = new.collect();
        let ledger = app.ledger.clone();
        keep(move || ledger.revoke(new)).await?;
        tracing::info!(ticket = %id, "a ticket was revoked here");
    }
    Ok(Json(RevokedRow {
        spaces: spaces.iter().map(Space::to_string).collect(),
        ..revoked_row(&Revoked {
            statement: String::new(),
            revocation,
            spaces: BTreeSet::new(),
        })
    }))
}

/// The spaces in which this node is trusted, among these or among all open ones. Returns an error
/// if there is none, or if a named one is not among them.
async fn with_a_say(app: &Serving, named: Option<&[Space]>) -> Result<BTreeSet<Space>, Problem> {
    let mut with_a_say = BTreeSet::new();
    for space in named.unwrap_or(app.handle.spaces()) {
        let open = app.handle.space(space.as_str())?;
        match app.handle.trusts(open, app.owner).await? {
            true => _ = with_a_say.insert(space.clone()),
            false if named.is_some() => {
                return Err(Problem::from(&Error::Member(MemberError::NotAMember)));
            }
            false => {}
        }
    }
    match with_a_say.is_empty() {
        true => Err(Problem::from(&Error::Member(MemberError::NotAMember))),
        false => Ok(with_a_say),
    }
}

/// The spaces of a query.
fn names(text: &str) -> Result<Vec<Space>, Problem> {
    let spaces = text.split(',').map(Space::new);
    let spaces: Result<Vec<Space>, Error> = spaces.collect();
    spaces.map_err(|error| Problem::from(&error))
}

/// A time of a query, in seconds. A part of a second counts as one, so that nothing is forgotten
/// too early.
fn seconds(millis: &str) -> Result<u64, Problem> {
    let parsed = millis.parse::<u64>();
    parsed.map(|millis| millis.div_ceil(1000)).map_err(|_| {
        let shown: String = millis.chars().take(40).collect();
        let detail = format!("`expires_at` is `{shown}` and must be milliseconds since 1970");
        Problem::new(&problems::QUERY, detail)
    })
}

fn row(ticket: &Issued, issuer: OwnerKey, ledger: &Ledger, now: u64) -> TicketRow {
    let revoked = ledger.revoked_in(ticket.id);
    TicketRow {
        id: ticket.id.to_string(),
        role: ticket.role,
        issuer,
        spaces: shown(ticket.spaces.as_deref()),
        holder: ticket.holder,
        issued_at: millis(ticket.issued),
        expires_at: ticket.expires.map(millis),
        state: TicketState::at(now, ticket.issued, ticket.expires, !revoked.is_empty()),
        revoked_in: shown(Some(&revoked)),
    }
}

fn revoked_row(revoked: &Revoked) -> RevokedRow {
    RevokedRow {
        id: revoked.revocation.id.to_string(),
        by: revoked.revocation.issuer,
        spaces: revoked.spaces.iter().map(Space::to_string).collect(),
        revoked_at: millis(revoked.revocation.issued),
        expires_at: revoked.revocation.expires.map(millis),
    }
}

fn shown(spaces: Option<&[Space]>) -> Vec<String> {
    match spaces {
        None => vec!["*".into()],
        Some(spaces) => spaces.iter().map(Space::to_string).collect(),
    }
}

fn millis(seconds: u64) -> String {
    seconds.saturating_mul(1000).to_string()
}

/// Stores an entry on a thread where the wait for the disk delays no other request.
async fn keep<T: Send + 'static>(
    keep: impl FnOnce() -> Result<T, LedgerError> + Send + 'static,
) -> Result<T, Problem> {
    let kept = tokio::task::spawn_blocking(keep).await;
    let kept = kept.map_err(|error| Problem::new(&problems::INTERNAL, error.to_string()))?;
    kept.map_err(|error| {
        let kind = match error {
            LedgerError::Full { .. } => &problems::TICKETS_FULL,
            _ => &problems::TICKETS_IO,
        };
        Problem::new(kind, error.to_string())
    })
}

/// Makes a ticket
///
/// This node signs it. So it is valid where this node is a member, and in spaces without members at
/// this node. It is valid for 30 days if `expires_in_ms` is left out, and for ever if that is 0.
#[utoipa::path(
    post, path = "/v1/tickets", operation_id = "make_ticket", tag = "tickets",
    request_body(content = TicketBody, description = "What the holder may do."),
    responses((status = 200, description = "The ticket.", body = Ticket)),
    extensions(("x-problems" = json!([
        "millis", "not_a_member", "owner", "role", "space_name", "space_not_open", "stopped", "ticket",
        "tickets_full", "tickets_io",
    ]))),
)]
pub(super) async fn make(
    app: Serving,
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
            let detail = format!("`{text}` is no owner's key of 64 hex digits, or a weak one");
            Problem::new(&problems::OWNER, detail)
        })
    });
    fields.end()?;
    for space in spaces.iter().flatten() {
        let open = app.handle.space(space.as_str())?;
        if !app.handle.trusts(open, app.owner).await? {
            return Err(Problem::from(&Error::Member(MemberError::NotAMember)));
        }
    }
    let issued = app.ledger.signing_time(app.clock.now() / 1000);
    let covers = |space: &Space| spaces.as_ref().is_none_or(|it| it.contains(space));
    let member_lists = app.handle.member_lists().borrow().clone();
    let members = app.handle.spaces().iter().zip(member_lists.iter());
    let members = members.filter(|(space, _)| covers(space));
    let knew =
        members.filter_map(|(space, member_list)| Some((space.clone(), member_list.as_ref()?.at)));
    let knew = knew.collect();
    let grant = Grant {
        id: TicketId::new(random()?),
        issuer: app.owner,
        holder: holder.transpose()?,
        role,
        spaces,
        issued,
        expires: (lasts > 0).then(|| issued.saturating_add(lasts.div_ceil(1000))),
        nodes: app.reach.clone(),
        knew,
    };
    let ticket = grant.sign(&app.identity)?;
    // Only a recorded ticket can be listed, and revoked without its text.
    let (ledger, noted) = (app.ledger.clone(), grant.clone());
    keep(move || ledger.note(&noted)).await?;
    Ok(Json(Ticket {
        ticket,
        id: grant.id.to_string(),
        role,
        spaces: shown(grant.spaces.as_deref()),
        holder: grant.holder,
        expires_at: grant.expires.map(millis),
    }))
}

/// The named spaces, or `None` for `*`.
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

//! Who may ask for what: tickets, as bearer tokens (RFC 6750).
//!
//! Where tickets are asked for, a request to a space takes a role there, and one about the node as a
//! whole takes it in every space. The word of a ticket's issuer is worth something in the spaces of
//! which it is a member, and in those without members only if it is this node.

use super::App;
use super::problem::Problem;
use crate::handle::{Sender, SpaceId};
use crate::problems;
use crate::trust::{Grant, Role, TicketError};
use axum::extract::{ConnectInfo, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

/// What the subprotocol of a WebSocket begins with that carries a ticket.
const TICKET_OFFER: &str = "tallymesh.ticket.";

/// What a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs<'a> {
    /// Nothing: it tells nothing of counters.
    Nothing,
    /// A role in one space.
    InSpace(&'a str, Role),
    /// A role in every space.
    Everywhere(Role),
}

/// The role of whoever asks; where no tickets are asked for, everybody speaks as a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller(pub(super) Role);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Infallible> {
        let caller = parts.extensions.get().copied();
        Ok(caller.unwrap_or(Caller(Role::Member)))
    }
}

impl Caller {
    /// Checks for a role that only the body of the request shows to be needed.
    pub(super) fn has(self, role: Role) -> Result<(), Problem> {
        enough(self.0, role)
    }
}

/// Who sends a request, for whoever later asks who brought something on its link.
pub(super) struct SentBy(pub(super) Sender);

impl FromRequestParts<Arc<App>> for SentBy {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<SentBy, Infallible> {
        let address = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let ticket = bearer(&parts.headers).ok();
        let grant = ticket.and_then(|it| Grant::read(it, app.clock.now()).ok());
        Ok(SentBy(Sender {
            owner: None,
            address: address.map(|it| it.0.to_string()),
            ticket: grant.map(|it| it.id.to_string()),
        }))
    }
}

/// What a request to this path takes. Whatever is not named here takes the most, if it is under `/v1`; all
/// else but the figures tells nothing of counters.
pub(super) fn needs<'a>(method: &Method, path: &'a str) -> Needs<'a> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let mut parts = path.split('/').skip(1);
    match (parts.next(), parts.next()) {
        (Some("v1"), Some("spaces")) => {
            let space = parts.next().unwrap_or_default();
            let rest: Vec<&str> = parts.collect();
            let role = match (rest.as_slice(), reads) {
                (_, true) | (["read" | "sync"], _) => Role::Reader,
                (["add" | "transactions"] | ["counters", _, "add"], _) => Role::Writer,
                (["budgets", _, "spend" | "transfer"] | ["budgets", _, "leases", _], _) => {
                    Role::Writer
                }
                (["sequences", _, "next"] | ["limits", _, "allow"], _) => Role::Writer,
                (["counters" | "budgets" | "sequences", ..], _) => Role::Editor,
                _ => Role::Member,
            };
            Needs::InSpace(space, role)
        }
        // Whoever may revoke tickets may see which there are, and nobody else.
        (Some("v1"), Some("tickets")) => Needs::Everywhere(Role::Member),
        (Some("v1"), _) => Needs::Everywhere(match reads {
            true => Role::Reader,
            false => Role::Member,
        }),
        (Some("metrics"), _) => Needs::Everywhere(Role::Reader),
        _ => Needs::Nothing,
    }
}

/// Looks at the ticket of a request, if one is needed, and notes its role; or gives the answer to one
/// that is not let in.
pub(super) async fn refusal(app: &App, request: &mut Request) -> Option<Response> {
    let path = request.uri().path();
    let (space, role) = match needs(request.method(), path) {
        Needs::Nothing => return None,
        Needs::InSpace(space, role) => (Some(space), role),
        Needs::Everywhere(role) => (None, role),
    };
    match caller(app, request.headers(), space, role).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            None
        }
        Err(problem) => Some(challenged(problem)),
    }
}

/// An answer that says how to come in.
fn challenged(problem: Problem) -> Response {
    let mut response = problem.into_response();
    if response.status() == 401 {
        let challenge = HeaderValue::from_static("Bearer realm=\"tallymesh\"");
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// Looks whether the ticket of a link is good yet.
pub(super) async fn check(app: &App, headers: &HeaderMap, space: &str) -> Result<(), Problem> {
    caller(app, headers, Some(space), Role::Reader).await?;
    Ok(())
}

async fn caller(
    app: &App,
    headers: &HeaderMap,
    space: Option<&str>,
    role: Role,
) -> Result<Caller, Problem> {
    let grant = Grant::read(bearer(headers)?, app.clock.now())?;
    if grant.holder.is_some() {
        let detail = "the ticket is for the node that it names, not for clients of HTTP; ask for one \
                      without a holder";
        return Err(Problem::new(&problems::TICKET_HOLDER, detail));
    }
    let spaces: Vec<SpaceId> = match space {
        Some(name) if grant.covers(name) => vec![app.handle.space(name)?],
        None if grant.spaces.is_none() => (0..app.handle.spaces().len()).map(SpaceId).collect(),
        Some(name) => {
            let shown: String = name.chars().take(64).collect();
            let detail =
                format!("the ticket does not speak of space `{shown}`; ask for one that does");
            return Err(Problem::new(&problems::FORBIDDEN, detail));
        }
        None => {
            let detail = "this is about the node as a whole, and takes a ticket for every space: \
                          `tallymesh invite --every-space`";
            return Err(Problem::new(&problems::FORBIDDEN, detail));
        }
    };
    for space in spaces {
        let name = &app.handle.spaces()[space.0];
        if app.ledger.is_revoked(grant.id, name.as_str()) {
            let detail = format!(
                "ticket {} is revoked in space `{name}`; ask a member for another",
                grant.id
            );
            return Err(Problem::new(&problems::TICKET_REVOKED, detail));
        }
        if !app.handle.trusts(space, grant.issuer).await? {
            let detail = format!(
                "{} signed the ticket, who has no say in space `{name}` at this node; ask a member \
                 of it for another",
                grant.issuer
            );
            return Err(Problem::new(&problems::TICKET_ISSUER, detail));
        }
    }
    enough(grant.role, role)?;
    Ok(Caller(grant.role))
}

fn enough(has: Role, needed: Role) -> Result<(), Problem> {
    if has >= needed {
        return Ok(());
    }
    let detail =
        format!("this takes the role {needed}, and the ticket gives {has}; ask for another");
    Err(Problem::new(&problems::FORBIDDEN, detail))
}

/// The ticket of a request.
fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let header = headers.get(header::AUTHORIZATION);
    let text = header.and_then(|it| it.to_str().ok()).unwrap_or_default();
    match text.split_once(' ') {
        Some((scheme, ticket)) if scheme.eq_ignore_ascii_case("bearer") => Ok(ticket),
        _ if text.is_empty() => offered(headers).ok_or_else(needed),
        _ => Err(needed()),
    }
}

/// The ticket that a page offers as a subprotocol, since it can give a socket no other header.
fn offered(headers: &HeaderMap) -> Option<&str> {
    let offers = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter();
    let names = offers
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','));
    names
        .map(str::trim)
        .find_map(|name| name.strip_prefix(TICKET_OFFER))
}

fn needed() -> Problem {
    let detail = "this node asks for a ticket; send what `tallymesh invite` printed, in the header \
                  `authorization: Bearer TICKET`; a page offers a WebSocket the subprotocol \
                  `tallymesh.ticket.TICKET`";
    Problem::new(&problems::TICKET_NEEDED, detail)
}

impl From<TicketError> for Problem {
    fn from(error: TicketError) -> Problem {
        Problem::new(problems::of(error.code()), error.to_string())
    }
}

#[cfg(test)]
mod tests;

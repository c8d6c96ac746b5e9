//! Authorization of requests: tickets, and the operator's token, as bearer tokens (RFC 6750).
//!
//! Where tickets are required, a request to a space needs a role there. A request about the node as
//! a whole needs the role in every space. A ticket's issuer is trusted in the spaces of which it is
//! a member. In a space without members, only this node is trusted.
//!
//! Where tickets are not required, a program has the role member, and a browser the role editor.
//! Tickets and membership always belong to the operator. They need the token in the data folder, or
//! a member's ticket that is not from a browser.
//!
//! A ticket is judged three times:
//!
//! - When the head of a request has arrived.
//! - When the body of the request is complete ([`judged_whole`]), which may take half a minute.
//! - By the driver right before the work, because the request may have waited ([`Serving`]).

use super::App;
use super::problem::Problem;
use axum::body::{Body, HttpBody};
use axum::extract::{ConnectInfo, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tallymesh_node_engine::access::{Client, Grant, TOKEN_PREFIX, TicketError};
use tallymesh_node_engine::browser::Comer;
use tallymesh_node_engine::driver::{Handle, Permit};
use tallymesh_node_ground::api;
use tallymesh_node_ground::model::{Role, Sender, SpaceId};
use tallymesh_node_ground::problems;

/// The prefix of the subprotocol of a WebSocket that carries a ticket.
const TICKET_OFFER: &str = "tallymesh.ticket.";

/// The authorization that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs<'a> {
    /// None: its answer reveals nothing about counters.
    Nothing,
    /// A role in one space.
    InSpace(&'a str, Role),
    /// A role in every space.
    Everywhere(Role),
    /// The operator's token, or the role member in this space, or in every one.
    Operator(Option<&'a str>),
}

/// The caller of a request, and its rights.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    role: Role,
    comer: Comer,
    /// The ticket that gives the role, if one does.
    grant: Option<Arc<Grant>>,
    /// The place where the ticket has to be valid: one space, or every one if it is `None`.
    space: Option<SpaceId>,
}

/// The node, as it serves one request. Work requested through [`handle`](Serving::handle) is done
/// only if the request's ticket is still valid at that time.
#[derive(Clone)]
pub(super) struct Serving {
    app: Arc<App>,
    pub(super) handle: Handle,
}

impl Deref for Serving {
    type Target = Arc<App>;

    fn deref(&self) -> &Arc<App> {
        &self.app
    }
}

impl FromRequestParts<Arc<App>> for Serving {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Serving, Infallible> {
        let caller: Option<&Caller> = parts.extensions.get();
        let permit = caller.and_then(|caller| {
            let (grant, ledger) = (caller.grant.clone()?, app.ledger.clone());
            Some(Arc::new(Permit::new(grant, ledger, caller.space)))
        });
        let (app, handle) = (app.clone(), app.node.by(permit));
        Ok(Serving { app, handle })
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Infallible> {
        let caller = parts.extensions.get().cloned();
        // Each request to a space has a caller.
        Ok(caller.unwrap_or(Caller {
            role: Role::Reader,
            comer: Comer::Browser,
            grant: None,
            space: None,
        }))
    }
}

impl Caller {
    /// Checks for a role whose need is clear only from the body of the request.
    pub(super) fn has(&self, role: Role) -> Result<(), Problem> {
        match self.role >= role {
            true => Ok(()),
            false => Err(short(role, self.role, self.comer)),
        }
    }

    /// The role of a link. In a browser it is never member, whatever ticket it shows.
    pub(super) fn link(&self) -> Role {
        self.role.min(most(self.comer))
    }

    /// The client that its resources are charged to.
    pub(super) fn client(&self, address: Option<IpAddr>) -> Client {
        Client::new(address, self.role, self.grant.as_deref())
    }

    /// Judges the ticket again, if there is one.
    pub(super) fn judge(&self, app: &App) -> Result<(), Problem> {
        match &self.grant {
            Some(grant) => is_good_in(app, grant, self.space),
            None => Ok(()),
        }
    }

    /// The ticket of something that stays open in a space.
    pub(super) fn pass(&self, space: SpaceId) -> Pass {
        Pass {
            grant: self.grant.clone(),
            space,
        }
    }
}

/// The highest role without the operator's token.
fn most(comer: Comer) -> Role {
    match comer {
        Comer::Program => Role::Member,
        Comer::OwnPage | Comer::Browser => Role::Editor,
    }
}

/// The ticket of something that stays open, which may end or be revoked meanwhile.
#[derive(Clone)]
pub(super) struct Pass {
    grant: Option<Arc<Grant>>,
    space: SpaceId,
}

/// The longest wait between two looks at the clock, which may be set.
const LOOK_MAX: Duration = Duration::from_secs(5);

impl Pass {
    /// Resolves with the reason once the ticket is invalid: when it ends, is revoked, or its issuer
    /// is no longer trusted. Without a ticket it never resolves.
    pub(super) async fn ended(self, app: Arc<App>) -> Problem {
        let Some(grant) = self.grant else {
            return std::future::pending().await;
        };
        let mut revoked = app.ledger.changes();
        let mut member_lists = app.node.member_lists();
        loop {
            // Later changes cause another look.
            revoked.mark_unchanged();
            member_lists.mark_unchanged();
            if let Err(problem) = is_good(&app, &grant, self.space) {
                return problem;
            }
            let left = grant.lasts(app.clock.now()).min(LOOK_MAX);
            tokio::select! {
                Ok(()) = revoked.changed() => {}
                Ok(()) = member_lists.changed() => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }
}

/// The sender of a request. A later report can name it as the source of content on its link.
pub(super) struct SentBy {
    pub(super) sender: Sender,
    pub(super) address: Option<IpAddr>,
}

impl FromRequestParts<Arc<App>> for SentBy {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<SentBy, Infallible> {
        let address = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let ticket = shown(&parts.headers).ok().flatten();
        let grant = ticket.and_then(|it| Grant::read(it, app.clock.now()).ok());
        Ok(SentBy {
            sender: Sender {
                owner: None,
                address: address.map(|it| it.0.to_string()),
                ticket: grant.map(|it| it.id.to_string()),
            },
            address: address.map(|it| it.0.ip()),
        })
    }
}

/// The authorization that a request to this path needs: the role of its call in [`api`]. Under
/// `/v1`, paths that are neither there nor listed here need the most. Other paths, except the
/// metrics, reveal nothing about counters.
pub(super) fn needs<'a>(method: &Method, path: &'a str) -> Needs<'a> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let mut parts = path.split('/').skip(1);
    match (parts.next(), parts.next()) {
        (Some("v1"), Some("spaces")) => {
            let space = parts.next().unwrap_or_default();
            let rest: Vec<&str> = parts.collect();
            let role = match (rest.as_slice(), reads) {
                (_, true) | (["sync"], _) => Role::Reader,
                (["members" | "retire", ..], _) => return Needs::Operator(Some(space)),
                (rest, false) => api::role_at(rest),
            };
            Needs::InSpace(space, role)
        }
        // A caller that may revoke tickets may see the list, and no other caller.
        (Some("v1"), Some("tickets" | "adopt")) => Needs::Operator(None),
        (Some("v1"), _) => Needs::Everywhere(match reads {
            true => Role::Reader,
            false => Role::Member,
        }),
        (Some("metrics"), _) => Needs::Everywhere(Role::Reader),
        _ => Needs::Nothing,
    }
}

/// Judges the authorization of a request, if it needs any, and records the caller. Returns the
/// answer to a refused request.
pub(super) fn refusal(app: &App, request: &mut Request) -> Option<Response> {
    let needs = needs(request.method(), request.uri().path());
    if needs == Needs::Nothing {
        return None;
    }
    let comer = request.extensions().get().copied();
    // A request that was not judged counts as a browser's, which has the fewest rights.
    let comer = match comer.unwrap_or(Comer::Browser) {
        // The page of a demonstration passes on the changes of other replicas in it.
        Comer::OwnPage if app.demo => Comer::Program,
        comer => comer,
    };
    match caller(app, request.headers(), comer, needs) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            None
        }
        Err(problem) => Some(challenged(problem)),
    }
}

/// The reason why a request was refused after its body was complete.
pub(super) struct Whole(OnceLock<Problem>);

impl Whole {
    /// The refusal, if there is one. Then no part of the request was done.
    pub(super) fn refused(&self) -> Option<Response> {
        self.0.get().cloned().map(challenged)
    }
}

/// Makes a request's body end in an error if its ticket is invalid when the body is complete. Then
/// no handler receives the body.
pub(super) fn judged_whole(app: &Arc<App>, request: &mut Request) -> Option<Arc<Whole>> {
    let caller: &Caller = request.extensions().get()?;
    if caller.grant.is_none() || request.body().is_end_stream() {
        return None;
    }
    let (caller, app) = (caller.clone(), app.clone());
    let whole = Arc::new(Whole(OnceLock::new()));
    let told = whole.clone();
    let judged = stream::once(async move {
        let problem = caller.judge(&app).err()?;
        let error = axum::Error::new(problem.code());
        let _ = told.0.set(problem); // It is the only one.
        Some(Err(error))
    });
    let judged = judged.filter_map(std::future::ready);
    let body = std::mem::take(request.body_mut()).into_data_stream();
    *request.body_mut() = Body::from_stream(body.chain(judged));
    Some(whole)
}

/// An answer that names the required authorization.
fn challenged(problem: Problem) -> Response {
    let mut response = problem.into_response();
    if response.status() == 401 {
        let challenge = HeaderValue::from_static("Bearer realm=\"tallymesh\"");
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

fn caller(
    app: &App,
    headers: &HeaderMap,
    comer: Comer,
    needs: Needs<'_>,
) -> Result<Caller, Problem> {
    let (space, role) = match needs {
        Needs::Nothing => (None, Role::Reader),
        Needs::InSpace(space, role) => (Some(space), role),
        Needs::Everywhere(role) => (None, role),
        Needs::Operator(space) => (space, Role::Member),
    };
    let of_operator = matches!(needs, Needs::Operator(_));
    let asks = app.rules.tickets || of_operator;
    let shown = match shown(headers) {
        // Where no ticket is required, a needless one is ignored.
        Err(_) if !asks => None,
        shown => shown?,
    };
    if let Some(token) = shown.filter(|it| it.starts_with(TOKEN_PREFIX)) {
        return match app.token.is(token.as_bytes()) {
            true => Ok(Caller {
                role: Role::Member,
                comer,
                grant: None,
                space: None,
            }),
            false => Err(wrong_token()),
        };
    }
    let (has, grant, space) = match shown {
        _ if !asks => (Role::Member, None, None),
        Some(ticket) => {
            let (grant, space) = judged(app, ticket, space)?;
            (grant.role, Some(grant), space)
        }
        None if of_operator => return Err(no_token()),
        None => return Err(needed()),
    };
    if of_operator && comer != Comer::Program {
        return Err(no_token());
    }
    let caller = Caller {
        role: has.min(most(comer)),
        comer,
        grant,
        space,
    };
    caller.has(role)?;
    Ok(caller)
}

/// The content of a ticket, if it is valid in a space, or in every one if `space` is `None`.
fn judged(
    app: &App,
    ticket: &str,
    space: Option<&str>,
) -> Result<(Arc<Grant>, Option<SpaceId>), Problem> {
    let grant = match app.tickets.get(ticket) {
        Some(grant) => grant,
        None => Arc::new(Grant::read(ticket, app.clock.now())?),
    };
    if grant.holder.is_some() {
        let detail = "the ticket is for the node that it names, not for clients of HTTP; ask for one \
                      without a holder";
        return Err(Problem::new(&problems::TICKET_HOLDER, detail));
    }
    let space = match space {
        Some(name) if grant.covers(name) => Some(app.node.space(name)?),
        None if grant.spaces.is_none() => None,
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
    is_good_in(app, &grant, space)?;
    app.tickets.keep(ticket, &grant);
    Ok((grant, space))
}

/// Checks that a ticket is valid now in a space, or in every one if `space` is `None`.
fn is_good_in(app: &App, grant: &Grant, space: Option<SpaceId>) -> Result<(), Problem> {
    let spaces = match space {
        Some(space) => space.0..space.0 + 1,
        None => 0..app.node.spaces().len(),
    };
    spaces
        .map(SpaceId)
        .try_for_each(|space| is_good(app, grant, space))
}

/// Checks that a ticket is valid now in a space.
fn is_good(app: &App, grant: &Grant, space: SpaceId) -> Result<(), Problem> {
    grant.is_timely(app.clock.now())?;
    let name = &app.node.spaces()[space.0];
    if app.ledger.is_revoked(grant.id, name.as_str()) {
        let detail = format!(
            "ticket {} is revoked in space `{name}`; ask a member for another",
            grant.id
        );
        return Err(Problem::new(&problems::TICKET_REVOKED, detail));
    }
    let member_lists = app.node.member_lists().borrow().clone();
    let has_say = match member_lists.get(space.0).and_then(Option::as_ref) {
        Some(members) => members.binary_search(&grant.issuer).is_ok(),
        None => grant.issuer == app.owner,
    };
    match has_say {
        true => Ok(()),
        false => {
            let detail = format!(
                "{} signed the ticket, who has no say in space `{name}` at this node; ask a member \
                 of it for another",
                grant.issuer
            );
            Err(Problem::new(&problems::TICKET_ISSUER, detail))
        }
    }
}

fn short(needed: Role, has: Role, comer: Comer) -> Problem {
    let detail = match comer {
        Comer::OwnPage | Comer::Browser if has == Role::Editor => format!(
            "this takes the role {needed}, and a page has at most the role {has}, whatever its ticket \
             gives; use a program, or the operator's token"
        ),
        _ => format!("this takes the role {needed}, and the ticket gives {has}; ask for another"),
    };
    Problem::new(&problems::FORBIDDEN, detail)
}

/// The ticket or the token of a request.
fn shown(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let header = headers.get(header::AUTHORIZATION);
    let text = header.map(|it| it.to_str().unwrap_or_default());
    let borne = match text.map(|it| it.split_once(' ').unwrap_or((it, ""))) {
        None | Some(("", _)) => None,
        Some((scheme, shown)) if scheme.eq_ignore_ascii_case("bearer") => Some(shown.trim()),
        Some(_) => return Err(needed()),
    };
    let mut offers = offered(headers);
    let first = borne.filter(|it| !it.is_empty()).or_else(|| offers.next());
    match first {
        Some(first) if offers.any(|other| other != first) => {
            let detail = "two different tickets are shown; send one";
            Err(Problem::new(&problems::HEADER_TWICE, detail))
        }
        first => Ok(first),
    }
}

/// The tickets that a page offers as subprotocols, because it can't set other headers of a socket.
fn offered(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let offers = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter();
    let names = offers
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','));
    names
        .map(str::trim)
        .filter_map(|name| name.strip_prefix(TICKET_OFFER))
}

fn no_token() -> Problem {
    let detail = "tickets and membership are the operator's: send what is in the file `token` of the \
                  node's data folder in the header `authorization: Bearer TOKEN`. `tallymesh` reads it \
                  there: run it as the node's user, with --data DIR or --token-file FILE if the folder is \
                  not the usual one. A member's ticket is good too, but not from a browser";
    Problem::new(&problems::TOKEN_NEEDED, detail)
}

fn wrong_token() -> Problem {
    let detail = "this is not the token of this node's operator; take the one in the file `token` of \
                  this node's data folder, with --data DIR or --token-file FILE";
    Problem::new(&problems::TOKEN_WRONG, detail)
}

fn needed() -> Problem {
    let detail = "this node asks for a ticket; send what `tallymesh invite` printed, in the header \
                  `authorization: Bearer TICKET`; a page offers a WebSocket the subprotocol \
                  `tallymesh.ticket.TICKET`. The node's operator may show the token of its data folder: \
                  `tallymesh` does, with --data DIR or --token-file FILE";
    Problem::new(&problems::TICKET_NEEDED, detail)
}

impl From<TicketError> for Problem {
    fn from(error: TicketError) -> Problem {
        Problem::new(problems::of(error.code()), error.to_string())
    }
}

#[cfg(test)]
mod tests;

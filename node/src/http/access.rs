//! Who may ask for what: tickets, and the operator's token, as bearer tokens (RFC 6750).
//!
//! Where tickets are asked for, a request to a space takes a role there, and one about the node as a
//! whole takes it in every space. The word of a ticket's issuer is worth something in the spaces of
//! which it is a member, and in those without members only if it is this node.
//!
//! Where none are asked for, a program speaks as a member, and a browser as an editor. Tickets and
//! membership are the operator's everywhere: they take the token in the data folder, or a member's
//! ticket that is not a browser's.
//!
//! A ticket is judged three times: when the head of a request has come; when its body is whole
//! ([`judged_whole`]), which may take half a minute; and by the driver right before it does what is asked
//! for, because the request may have waited ([`Serving`]).

use super::App;
use super::problem::Problem;
use crate::browser::Comer;
use crate::driver::Permit;
use crate::handle::{Handle, Sender, SpaceId};
use crate::party::Client;
use crate::problems;
use crate::trust::{Grant, Role, TOKEN_PREFIX, TicketError};
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
    /// The operator's token, or the role member in this space, or in every one.
    Operator(Option<&'a str>),
}

/// Who asks, and what that may do.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    role: Role,
    comer: Comer,
    /// The ticket that gives the role, if one does.
    grant: Option<Arc<Grant>>,
    /// Where it has to be good: in one space, or else in every one.
    space: Option<SpaceId>,
}

/// The node, as it serves one request: what is asked of [`handle`](Serving::handle) is done only if the
/// request's ticket is good at that time, too.
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
        // Each request to a space has one.
        Ok(caller.unwrap_or(Caller {
            role: Role::Reader,
            comer: Comer::Browser,
            grant: None,
            space: None,
        }))
    }
}

impl Caller {
    /// Checks for a role that only the body of the request shows to be needed.
    pub(super) fn has(&self, role: Role) -> Result<(), Problem> {
        match self.role >= role {
            true => Ok(()),
            false => Err(short(role, self.role, self.comer)),
        }
    }

    /// The role of a link: never a member's in a browser, whatever it shows.
    pub(super) fn link(&self) -> Role {
        self.role.min(most(self.comer))
    }

    /// Whom what it takes counts for.
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

    /// What ends the rights of something that stays open in a space.
    pub(super) fn pass(&self, space: SpaceId) -> Pass {
        Pass {
            grant: self.grant.clone(),
            space,
        }
    }
}

/// The most that somebody may do without the operator's token.
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

/// How long is waited at most between two looks at the clock, which may be set.
const LOOK_MAX: Duration = Duration::from_secs(5);

impl Pass {
    /// Resolves with the reason once the ticket is worth nothing: when it ends, is revoked, or who
    /// signed it has no say any more. Without a ticket it never does.
    pub(super) async fn ended(self, app: Arc<App>) -> Problem {
        let Some(grant) = self.grant else {
            return std::future::pending().await;
        };
        let mut revoked = app.ledger.changes();
        let mut rosters = app.node.rosters();
        loop {
            // What changes from here on is looked at again.
            revoked.mark_unchanged();
            rosters.mark_unchanged();
            if let Err(problem) = is_good(&app, &grant, self.space) {
                return problem;
            }
            let left = grant.lasts(app.clock.now()).min(LOOK_MAX);
            tokio::select! {
                Ok(()) = revoked.changed() => {}
                Ok(()) = rosters.changed() => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }
}

/// The sender of a request, for a later report of who brought something on its link.
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
                (["members" | "retire", ..], _) => return Needs::Operator(Some(space)),
                _ => Role::Member,
            };
            Needs::InSpace(space, role)
        }
        // Whoever may revoke tickets may see which there are, and nobody else.
        (Some("v1"), Some("tickets")) => Needs::Operator(None),
        (Some("v1"), _) => Needs::Everywhere(match reads {
            true => Role::Reader,
            false => Role::Member,
        }),
        (Some("metrics"), _) => Needs::Everywhere(Role::Reader),
        _ => Needs::Nothing,
    }
}

/// Looks at what a request shows, if it takes something, and notes who asks; or gives the answer to one
/// that is not let in.
pub(super) fn refusal(app: &App, request: &mut Request) -> Option<Response> {
    let needs = needs(request.method(), request.uri().path());
    if needs == Needs::Nothing {
        return None;
    }
    let comer = request.extensions().get().copied();
    // What was not judged is trusted least.
    let comer = match comer.unwrap_or(Comer::Browser) {
        // The page of a demonstration passes on what other replicas in it count.
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

/// Why a request was refused once its body was whole.
pub(super) struct Whole(OnceLock<Problem>);

impl Whole {
    /// The refusal, if there is one. Nothing was done of the request then.
    pub(super) fn refused(&self) -> Option<Response> {
        self.0.get().cloned().map(challenged)
    }
}

/// Has a request's body end in an error if its ticket is worth nothing by the time that it has all come:
/// then nobody gets a body to work on.
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
        // Where nothing is asked for, what is shown needlessly is not looked at.
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

/// What a ticket says, if it is worth something in a space, or in every one.
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

/// Looks whether a ticket is worth something now in a space, or else in every one.
fn is_good_in(app: &App, grant: &Grant, space: Option<SpaceId>) -> Result<(), Problem> {
    let spaces = match space {
        Some(space) => space.0..space.0 + 1,
        None => 0..app.node.spaces().len(),
    };
    spaces
        .map(SpaceId)
        .try_for_each(|space| is_good(app, grant, space))
}

/// Looks whether a ticket is worth something in a space now.
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
    let rosters = app.node.rosters().borrow().clone();
    let has_say = match rosters.get(space.0).and_then(Option::as_ref) {
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

/// The tickets that a page offers as subprotocols, since it can give a socket no other header.
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

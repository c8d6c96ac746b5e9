//! The options of a request beside its operation. They set whether it counts once, how far it has
//! to reach, and the state on which the session depends.
//!
//! | header | meaning |
//! |---|---|
//! | `idempotency-key` | the operation counts once, however often and at whichever member it is requested; a read does not look at it |
//! | `tallymesh-level` | `local`, `quorum` or `all`: how many members store a write before it is answered, or are asked by a read |
//! | `tallymesh-wait-ms` | the longest wait for that, 5000 by default, at most 20000 |
//! | `tallymesh-rights-wait-ms` | the longest wait of a write for rights of a budget, or room, 0 by default, at most 20000 |
//! | `tallymesh-token` | the state on which the session depends; empty begins one. The answer has the next one |
//!
//! A write with `if-match` or `if-none-match` is refused, because no replica has the present values
//! of the others.
//!
//! An answer to an operation that was made before has `idempotent-replayed: true`.

use super::access::{Caller, Serving};
use super::body::digits;
use super::problem::Problem;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;
use std::time::Duration;
use tallymesh_core::{Error, Level, Once, QuotaError, Token};
use tallymesh_node_engine::access::Client;
use tallymesh_node_ground::api::{Call, Idempotency};
use tallymesh_node_ground::model::bounds::{LEVEL_WAIT_MS_MAX, ONCE_KEY_BYTES_MAX};
use tallymesh_node_ground::model::{Centre, Demand, Done, Operation, Refusal, SpaceId, Transacted};
use tallymesh_node_ground::problems;

pub(super) const KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(super) const LEVEL: HeaderName = HeaderName::from_static("tallymesh-level");
pub(super) const WAIT: HeaderName = HeaderName::from_static("tallymesh-wait-ms");
pub(super) const RIGHTS_WAIT: HeaderName = HeaderName::from_static("tallymesh-rights-wait-ms");
pub(super) const TOKEN: HeaderName = HeaderName::from_static("tallymesh-token");
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The longest wait; a request ends after 30 s.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// The longest time for which one request waits for rights and then for a level, together.
const WAITS_MAX: Duration = Duration::from_secs(25);

// Redis clients have the same bound.
const _: () = assert!(WAIT_MAX.as_secs() * 1000 == LEVEL_WAIT_MS_MAX);

/// The options of a request beside its operation.
#[derive(Default)]
pub(super) struct Asking {
    /// The idempotency key as it was sent, with the method and the path, which are part of the
    /// request under it. A read does not look at it.
    key: Option<(HeaderValue, String)>,
    /// The client that the key counts for.
    client: Client,
    demand: Demand,
    /// Whether it has a condition on the present value. Reads ignore that, because they have no tag
    /// to compare.
    conditional: bool,
}

/// An answer, with the present state on which the session depends, and whether the operation was
/// made before.
pub(super) struct Answered<T> {
    pub(super) answer: T,
    pub(super) token: Option<Token>,
    pub(super) again: bool,
}

impl Asking {
    /// Whether it has no options.
    pub(super) fn is_plain(&self) -> bool {
        self.key.is_none() && self.demand == Demand::default() && !self.conditional
    }

    /// Refuses an idempotency key if the call takes none.
    pub(super) fn check_key(&self, call: &Call, refusal: QuotaError) -> Result<(), Problem> {
        match call.idempotency {
            Idempotency::Never(_) if self.key.is_some() => {
                Err(Problem::from(&Error::Quota(refusal)))
            }
            _ => Ok(()),
        }
    }

    /// Makes operations with these options. `body` is the body of the request, by which a retry is
    /// recognized.
    pub(super) async fn transact(
        self,
        app: &Serving,
        space: SpaceId,
        body: &[u8],
        ops: Vec<Operation>,
    ) -> Result<Answered<Vec<Done>>, Problem> {
        if self.conditional {
            return Err(Refusal::NeedsCentre(Centre::CompareAndSet).into());
        }
        let once = match &self.key {
            Some((key, what)) => {
                let content = [what.as_bytes(), b"\0", body].concat();
                Some(self.client.keyed(Once::new(key_bytes(key)?, &content)))
            }
            None => None,
        };
        let written = app.handle.write(space, ops, once, self.demand).await?;
        let Transacted { done, again } = written.done;
        Ok(Answered {
            answer: done,
            token: written.token,
            again,
        })
    }

    /// Makes one operation with these options.
    pub(super) async fn apply(
        self,
        app: &Serving,
        space: SpaceId,
        body: &[u8],
        operation: Operation,
    ) -> Result<Answered<Done>, Problem> {
        let only = |problem: Problem| problem.without_op();
        let done = self.transact(app, space, body, vec![operation]).await;
        let done = done.map_err(only)?;
        // There is an answer for each operation. If it is missing, the result is unclear.
        let answer = done.answer.into_iter().next().ok_or(Refusal::Stopped)?;
        Ok(Answered {
            answer,
            token: done.token,
            again: done.again,
        })
    }

    /// Waits until this node has the demanded state, so that a later read includes it.
    pub(super) async fn wait(self, app: &Serving, space: SpaceId) -> Result<Answered<()>, Problem> {
        let token = match self.demand == Demand::default() {
            true => None,
            false => {
                let read = app.handle.read_back(space, Vec::new(), self.demand);
                read.await?.token
            }
        };
        Ok(Answered {
            answer: (),
            token,
            again: false,
        })
    }
}

impl<T> Answered<T> {
    /// An answer to a request without options.
    pub(super) fn plain(answer: T) -> Answered<T> {
        Answered {
            answer,
            token: None,
            again: false,
        }
    }

    /// Replaces the answer.
    pub(super) fn map<U>(self, map: impl FnOnce(T) -> U) -> Answered<U> {
        Answered {
            answer: map(self.answer),
            token: self.token,
            again: self.again,
        }
    }
}

impl<T: IntoResponse> IntoResponse for Answered<T> {
    fn into_response(self) -> Response {
        let mut response = self.answer.into_response();
        let headers = response.headers_mut();
        let token = self.token.map(|token| token.to_string());
        if let Some(token) = token.and_then(|token| HeaderValue::try_from(token).ok()) {
            headers.insert(TOKEN, token);
        }
        if self.again {
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}

impl<S: Sync> FromRequestParts<S> for Asking {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Asking, Problem> {
        // Most requests have no options, and few headers.
        if !parts.headers.keys().any(is_asking) {
            return Ok(Asking::default());
        }
        let conditions = [header::IF_MATCH, header::IF_NONE_MATCH];
        // The stores use the path in this form: without the space.
        let path = parts.uri.path();
        let below = path.match_indices('/').nth(3);
        let below = below.map_or(path, |(at, _)| &path[at..]);
        let what = || format!("{} {below}", parts.method);
        let address = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let caller = parts.extensions.get::<Caller>();
        let client = caller.map(|it| it.client(address.map(|it| it.0.ip())));
        Ok(Asking {
            client: client.unwrap_or_default(),
            key: parts.headers.get(KEY).map(|key| (key.clone(), what())),
            demand: demand(&parts.headers)?,
            conditional: conditions.iter().any(|it| parts.headers.contains_key(it)),
        })
    }
}

/// Whether a header is one of these options.
fn is_asking(name: &HeaderName) -> bool {
    [&KEY, &LEVEL, &WAIT, &RIGHTS_WAIT, &TOKEN].contains(&name)
        || [&header::IF_MATCH, &header::IF_NONE_MATCH].contains(&name)
}

/// The bytes of an idempotency key, if it is a valid one.
fn key_bytes(value: &HeaderValue) -> Result<&[u8], Problem> {
    let text = value.to_str().ok();
    match text.filter(|text| (1..=ONCE_KEY_BYTES_MAX).contains(&text.len())) {
        Some(text) => Ok(text.as_bytes()),
        None => Err(Problem::new(
            &problems::IDEMPOTENCY_KEY,
            format!(
                "this idempotency key has {} bytes; it has 1 to {ONCE_KEY_BYTES_MAX} bytes of ASCII that \
                 can be seen",
                value.len()
            ),
        )),
    }
}

fn millis(name: &HeaderName, wait: &str) -> Result<Duration, Problem> {
    let millis = digits(wait).and_then(|it| it.parse().ok());
    let millis: u64 = millis.ok_or_else(|| {
        let shown: String = wait.chars().take(40).collect();
        let detail =
            format!("`{name}` is `{shown}` and must be a whole number of milliseconds from 0 on");
        Problem::new(&problems::MILLIS, detail)
    })?;
    Ok(Duration::from_millis(millis))
}

fn demand(headers: &HeaderMap) -> Result<Demand, Problem> {
    let text = |name| {
        headers
            .get(name)
            .map(|value| value.to_str().unwrap_or("\u{fffd}"))
    };
    let mut demand = Demand::default();
    if let Some(level) = text(LEVEL) {
        demand.level = match level {
            "local" => Level::Local,
            "quorum" => Level::Quorum,
            "all" => Level::All,
            _ => {
                let shown: String = level.chars().take(40).collect();
                let detail =
                    format!("`{shown}` is no level: there are `local`, `quorum` and `all`");
                return Err(Problem::new(&problems::LEVEL, detail));
            }
        };
    }
    if let Some(wait) = text(RIGHTS_WAIT) {
        let wait = millis(&RIGHTS_WAIT, wait)?.min(WAIT_MAX);
        demand.rights_wait_ms = wait.as_millis() as u32; // At most WAIT_MAX.
    }
    if let Some(wait) = text(WAIT) {
        demand.wait = millis(&WAIT, wait)?.min(WAIT_MAX);
    }
    let rights = Duration::from_millis(demand.rights_wait_ms.into());
    demand.wait = demand.wait.min(WAITS_MAX.saturating_sub(rights));
    if let Some(token) = text(TOKEN) {
        let token = match token {
            "" => Token::default(),
            token => token.parse().map_err(|error| Problem::from(&error))?,
        };
        demand.token = Some(token);
    }
    Ok(demand)
}

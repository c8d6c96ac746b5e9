//! Errors over HTTP: `application/problem+json` (RFC 9457) with stable codes.

use axum::Json;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::{SystemTime, UNIX_EPOCH};
use tallymesh_core::Error;
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{Decimal, HoldingRow, Refusal, decimal_if_any};
use tallymesh_node_ground::problems::{self, Applied, Kind};
use utoipa::ToSchema;

/// The content type of a refusal.
pub(super) const PROBLEM_JSON: &str = "application/problem+json";

/// One refused request.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    /// The status in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// The stable name of the kind of problem; docs/errors.md lists them.
    code: &'static str,
    /// The problem with this request, and advice.
    #[schema(value_type = String)]
    detail: Box<str>,
    /// On requests that may write: the result of the write.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    applied: Option<Applied>,
    /// On bulk writes: the line that was refused, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    line: Option<u32>,
    /// On transactions: the place of the operation that was refused, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    op: Option<u32>,
    /// With `rights_short`, `room_short` and `limit_reached`: how much this node and others have,
    /// as far as this node can tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    held: Option<Box<HoldingRow>>,
    /// With the same codes: the amount requested from other members, if they have as much.
    #[serde(
        serialize_with = "decimal_if_any",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Decimal, required = false)]
    asked: Option<u64>,
    /// The whole keys of the members that `detail` names, of which something is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<OwnerKey>, required = false, nullable = false)]
    members: Option<Box<Members>>,
    /// With `limit_reached`: when the period ends, in milliseconds since 1970.
    #[serde(
        serialize_with = "decimal_if_any",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Decimal, required = false)]
    ends: Option<u64>,
}

/// The keys of members, behind a pointer, because each answer may be a problem.
#[derive(Clone, Debug, Serialize)]
struct Members(Vec<OwnerKey>);

impl Problem {
    pub(super) fn new(kind: &'static Kind, detail: impl Into<String>) -> Problem {
        let status = kind
            .status
            .and_then(|status| StatusCode::from_u16(status).ok());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Problem {
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            code: kind.code,
            detail: detail.into().into(),
            applied: None,
            line: None,
            op: None,
            held: None,
            asked: None,
            members: None,
            ends: None,
        }
    }

    /// Adds the end of the period after which the request may be repeated.
    pub(super) fn ends(mut self, ends: Option<u64>) -> Problem {
        self.ends = ends;
        self
    }

    pub(super) fn line(mut self, line: u64) -> Problem {
        self.line = u32::try_from(line).ok();
        self
    }

    /// Removes the place of the operation, because the request has only one.
    pub(super) fn without_op(mut self) -> Problem {
        self.op = None;
        self
    }

    /// Marks the write as applied, when it was first requested.
    pub(super) fn applied_before(mut self) -> Problem {
        self.applied = Some(Applied::Here);
        self
    }

    pub(super) fn op(mut self, index: usize) -> Problem {
        self.op = u32::try_from(index).ok();
        self
    }

    pub(super) fn code(&self) -> &'static str {
        self.code
    }

    /// The code and what is to be said, in at most this number of bytes if it can be that short.
    pub(super) fn fits(&self, bytes: usize) -> String {
        let Problem { code, detail, .. } = self;
        let kind = problems::of(code);
        let told = [
            format!("{code}: {detail}"),
            format!("{code}: {} {}", kind.means, kind.advice),
        ];
        let short = told.into_iter().find(|it| it.len() <= bytes);
        short.unwrap_or_else(|| format!("{code}: {}", kind.means))
    }

    #[cfg(test)]
    pub(super) fn at_line(&self) -> Option<u64> {
        self.line.map(u64::from)
    }

    #[cfg(test)]
    pub(super) fn at_op(&self) -> Option<usize> {
        self.op.map(|op| op as usize)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(&self)).into_response();
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        let wait = problems::of(self.code).wait_s.map(u64::from);
        if let Some(wait) = self.ends.and_then(until).or(wait) {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(wait));
        }
        // `tell_applied` uses it.
        response.extensions_mut().insert(self);
        response
    }
}

/// The number of seconds until a time, rounded up.
fn until(ends: u64) -> Option<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let left = u128::from(ends).saturating_sub(now.as_millis());
    u64::try_from(left.div_ceil(1_000)).ok()
}

/// The problem of an answer that is a refusal.
pub(super) fn of(response: &Response) -> Option<&Problem> {
    response.extensions().get()
}

/// Adds the result of the write to the refusal of a request that may write.
pub(super) fn tell_applied(mut response: Response, writes: bool) -> Response {
    match response.extensions_mut().remove::<Problem>() {
        Some(mut problem) if writes => {
            problem.applied = problem.applied.or(problems::of(problem.code).applied);
            let (body, headers) = (problem.into_response().into_body(), response.headers_mut());
            headers.remove(header::CONTENT_LENGTH);
            *response.body_mut() = body;
            response
        }
        _ => response,
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Problem {
        Problem::new(problems::of(error.code()), problems::text(error))
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let kind = problems::of(refusal.code());
        let members = refusal.members();
        let members = (!members.is_empty()).then(|| Box::new(Members(members)));
        let problem = match refusal {
            // The place is in a field of its own.
            Refusal::Line { line, key, error } => {
                Problem::new(kind, format!("counter `{key}`: {}", problems::text(&error)))
                    .line(line)
            }
            Refusal::Op {
                index,
                on,
                key,
                error,
            } => {
                let (held, asked) = (error.held().map(|it| Box::new(it.into())), error.asked());
                let problem = Problem::new(kind, format!("{on} `{key}`: {error}"));
                Problem {
                    held,
                    asked,
                    ..problem
                }
                .op(index)
            }
            other => Problem::new(kind, other.to_string()),
        };
        Problem { members, ..problem }
    }
}

impl From<BytesRejection> for Problem {
    fn from(rejection: BytesRejection) -> Problem {
        let (kind, advice) = match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => (&problems::BODY_TOO_LARGE, "; send less at a time"),
            _ => (&problems::BODY, ""),
        };
        Problem::new(kind, format!("{}{advice}", rejection.body_text()))
    }
}

/// Parts of the path, with this module's errors.
pub(super) struct Route<T>(pub(super) T);

impl<T, S> FromRequestParts<S> for Route<T>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Route<T>, Problem> {
        let path: Result<Path<T>, PathRejection> = Path::from_request_parts(parts, state).await;
        match path {
            Ok(Path(route)) => Ok(Route(route)),
            Err(rejection) => Err(Problem::new(&problems::PATH, rejection.body_text())),
        }
    }
}

/// The query string, with this module's errors.
pub(super) struct QueryString<T>(pub(super) T);

impl<T, S> FromRequestParts<S> for QueryString<T>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<QueryString<T>, Problem> {
        let query: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, state).await;
        match query {
            Ok(Query(asked)) => Ok(QueryString(asked)),
            Err(rejection) => Err(Problem::new(&problems::QUERY, rejection.body_text())),
        }
    }
}

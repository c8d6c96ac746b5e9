//! Errors over HTTP: `application/problem+json` (RFC 9457) with stable codes.

use crate::handle::Refusal;
use axum::Json;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// One refused request.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    title: &'static str,
    status: u16,
    code: &'static str,
    detail: String,
    /// On writes: whether the write counts, `no` or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<&'static str>,
    /// On bulk writes: the line that was refused, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// On transactions: the place of the operation that was refused, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<usize>,
}

impl Problem {
    pub(super) fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<String>,
    ) -> Problem {
        Problem {
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            code,
            detail: detail.into(),
            applied: None,
            line: None,
            op: None,
        }
    }

    pub(super) fn bad_request(code: &'static str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub(super) fn applied(mut self, applied: &'static str) -> Problem {
        self.applied = Some(applied);
        self
    }

    pub(super) fn line(mut self, line: u64) -> Problem {
        self.line = Some(line);
        self
    }

    pub(super) fn op(mut self, index: usize) -> Problem {
        self.op = Some(index);
        self
    }

    #[cfg(test)]
    pub(super) fn code(&self) -> &'static str {
        self.code
    }

    #[cfg(test)]
    pub(super) fn at_line(&self) -> Option<u64> {
        self.line
    }

    #[cfg(test)]
    pub(super) fn at_op(&self) -> Option<usize> {
        self.op
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self)).into_response();
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        response
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let status = match &refusal {
            Refusal::SpaceNotOpen { .. } | Refusal::UnknownOwner { .. } => StatusCode::NOT_FOUND,
            Refusal::NoMembers { .. } | Refusal::MemoryOnly | Refusal::IsMember { .. } => {
                StatusCode::CONFLICT
            }
            Refusal::Undecided { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Stopped => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Core(_) | Refusal::Line { .. } | Refusal::Op { .. } => match refusal.code() {
                "overflow" | "closed" | "not_a_member" | "members_full" => StatusCode::CONFLICT,
                "unknown_writer" => StatusCode::NOT_FOUND,
                "counters_full" | "writers_full" | "clock_exhausted" => {
                    StatusCode::INSUFFICIENT_STORAGE
                }
                _ => StatusCode::BAD_REQUEST,
            },
        };
        let detail = match &refusal {
            // The place has a field of its own.
            Refusal::Line { key, error, .. } | Refusal::Op { key, error, .. } => {
                format!("counter `{key}`: {error}")
            }
            other => other.to_string(),
        };
        let problem = Problem::new(status, refusal.code(), detail);
        match refusal {
            Refusal::Line { line, .. } => problem.applied("no").line(line),
            Refusal::Op { index, .. } => problem.applied("no").op(index),
            Refusal::Core(_) => problem.applied("no"),
            Refusal::Stopped | Refusal::Undecided { .. } => problem.applied("unknown"),
            Refusal::NoMembers { .. }
            | Refusal::MemoryOnly
            | Refusal::IsMember { .. }
            | Refusal::UnknownOwner { .. } => problem.applied("no"),
            Refusal::SpaceNotOpen { .. } => problem,
        }
    }
}

impl From<BytesRejection> for Problem {
    fn from(rejection: BytesRejection) -> Problem {
        let status = rejection.status();
        let (code, advice) = match status {
            StatusCode::PAYLOAD_TOO_LARGE => ("body_too_large", "; send less at a time"),
            _ => ("body", ""),
        };
        Problem::new(status, code, format!("{}{advice}", rejection.body_text())).applied("no")
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
            Err(rejection) => Err(Problem::bad_request("path", rejection.body_text())),
        }
    }
}

/// The query string, with this module's errors.
pub(super) struct Asked<T>(pub(super) T);

impl<T, S> FromRequestParts<S> for Asked<T>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Asked<T>, Problem> {
        let query: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, state).await;
        match query {
            Ok(Query(asked)) => Ok(Asked(asked)),
            Err(rejection) => Err(Problem::bad_request("query", rejection.body_text())),
        }
    }
}

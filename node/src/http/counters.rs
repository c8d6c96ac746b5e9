//! One counter: read, add, shards. And the list of all.

use super::App;
use super::body::Fields;
use super::problem::{Asked, Problem, Route};
use crate::driver::{Counter, Page, Query};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tallymesh_core::Shard;

/// Most counters of one page of the list, and how many if the request does not say.
pub(super) const LIST_MAX: usize = 10_000;
const LIST_DEFAULT: usize = 1_000;

const ADD: &str = r#"{"by":"5"}, or no body to add 1"#;

/// The shards of a counter, by writer.
#[derive(Serialize)]
pub(super) struct Shards {
    key: String,
    shards: Vec<Shard>,
}

/// Which page of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    #[serde(default)]
    prefix: String,
    after: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn read(
    State(app): State<Arc<App>>,
    Route((space, key)): Route<(String, String)>,
) -> Result<Json<Counter>, Problem> {
    let space = app.handle.space(&space)?;
    let counter = app.handle.read(space, key.clone()).await?;
    counter.map(Json).ok_or_else(|| absent(&key))
}

pub(super) async fn add(
    State(app): State<Arc<App>>,
    Route((space, key)): Route<(String, String)>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Counter>, Problem> {
    let space = app.handle.space(&space)?;
    let by = amount(&body?).map_err(|problem| problem.applied("no"))?;
    Ok(Json(app.handle.add(space, key, by).await?))
}

pub(super) async fn shards(
    State(app): State<Arc<App>>,
    Route((space, key)): Route<(String, String)>,
) -> Result<Json<Shards>, Problem> {
    let space = app.handle.space(&space)?;
    let Some(shards) = app.handle.shards(space, key.clone()).await? else {
        return Err(absent(&key));
    };
    Ok(Json(Shards { key, shards }))
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Route(space): Route<String>,
    Asked(query): Asked<ListQuery>,
) -> Result<Json<Page>, Problem> {
    let space = app.handle.space(&space)?;
    let limit = query.limit.unwrap_or(LIST_DEFAULT);
    if !(1..=LIST_MAX).contains(&limit) {
        let detail = format!("limit is {limit} and must be 1 to {LIST_MAX}");
        return Err(Problem::bad_request("query", detail));
    }
    let query = Query {
        prefix: query.prefix,
        after: query.after,
        limit,
    };
    Ok(Json(app.handle.list(space, query).await?))
}

/// The problem of a counter that does not exist.
pub(super) fn absent(key: &str) -> Problem {
    let detail = format!("there is no counter `{key}` here; the first add makes it");
    Problem::new(StatusCode::NOT_FOUND, "absent", detail)
}

/// Reads `{"by":"5"}` or `{"by":5}`; without a body, or without `by`, it is 1.
fn amount(body: &[u8]) -> Result<i64, Problem> {
    let mut fields = Fields::parse(body, ADD)?;
    let by = fields.amount("by")?.unwrap_or(1);
    fields.end()?;
    Ok(by)
}

#[cfg(test)]
mod tests {
    use super::amount;

    #[test]
    fn amounts_are_integers_in_either_form() {
        for (body, by) in [
            ("", 1),
            (" \n", 1),
            ("{}", 1),
            (r#"{"by":"5"}"#, 5),
            (r#"{"by":-5}"#, -5),
            (r#"{"by":0}"#, 0),
            (r#"{"by":"-9223372036854775808"}"#, i64::MIN),
            (r#"{"by":9223372036854775807}"#, i64::MAX),
        ] {
            assert_eq!(amount(body.as_bytes()).expect(body), by, "{body}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for (body, code) in [
            ("5", "body"),
            ("nonsense", "body"),
            (r#"["by"]"#, "body"),
            (r#"{"by":1,"to":2}"#, "body"),
            (r#"{"by":"1.5"}"#, "amount"),
            (r#"{"by":1.5}"#, "amount"),
            (r#"{"by":1e3}"#, "amount"),
            (r#"{"by":null}"#, "amount"),
            (r#"{"by":true}"#, "amount"),
            (r#"{"by":""}"#, "amount"),
            (r#"{"by":" 5"}"#, "amount"),
            (r#"{"by":9223372036854775808}"#, "amount"),
            (r#"{"by":"-9223372036854775809"}"#, "amount"),
        ] {
            let problem = amount(body.as_bytes()).expect_err(body);
            assert_eq!(problem.code(), code, "{body}");
        }
    }
}

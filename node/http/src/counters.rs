//! One counter: read, add, shards. And the list of all counters.

use super::access::Serving;
use super::asking::{Answered, Asking};
use super::body::{Content, Fields};
use super::problem::{Problem, QueryString, Route};
use super::requests::{AddBody, AskingOnce, AskingRead, AskingWrite, InSpace, OfCounter, ReadBody};
use super::rows::{self, Answer, ListQuery};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use serde::Serialize;
use serde_json::Value;
use tallymesh_core::{Op, Shard};
use tallymesh_node_engine::driver::Handle;
use tallymesh_node_ground::api::{self, READ_MANY_MAX};
use tallymesh_node_ground::model::{Counter, Done, Page, ShardRow};
use tallymesh_node_ground::problems;
use utoipa::ToSchema;

const ADD: &str = r#"{"by":"5"}, or no body to add 1"#;

const READ_MANY: &str = r#"{"keys":["a","b"]}"#;

/// The shards of a counter, by writer.
#[derive(Serialize, ToSchema)]
pub(super) struct Shards {
    key: String,
    #[schema(value_type = Vec<ShardRow>)]
    shards: Vec<Shard>,
}

/// Counters in the order of the request.
#[derive(Serialize, ToSchema)]
pub(super) struct Counters {
    /// Each counter, or null if it is absent.
    counters: Vec<Option<Counter>>,
}

/// Reads a counter
#[utoipa::path(
    get, path = api::READ_COUNTER.path(), operation_id = api::READ_COUNTER.name, tag = "counters",
    params(InSpace, OfCounter, AskingRead),
    responses((
        status = 200, description = "The counter.", body = Counter,
        example = json!({"key": "likes", "value": "12"}),
    )),
)]
pub(super) async fn read(
    app: Serving,
    of: Route<(String, String)>,
    asking: Asking,
) -> Answer<Counter> {
    rows::read(app, of, asking, Handle::read, absent).await
}

/// Adds to a counter
///
/// Without a body it adds 1.
#[utoipa::path(
    post, path = api::ADD.path(), operation_id = api::ADD.name, tag = "counters",
    params(InSpace, OfCounter, AskingOnce, AskingWrite),
    request_body(content = Option<AddBody>, description = "How much."),
    responses((
        status = 200, description = "The counter.", body = Counter,
        example = json!({"key": "likes", "value": "12"}),
    )),
)]
pub(super) async fn add(
    app: Serving,
    Route((space, key)): Route<(String, String)>,
    asking: Asking,
    Content(body): Content,
) -> Answer<Counter> {
    let (space, body) = (app.handle.space(&space)?, body?);
    let by = amount(&body)?;
    if asking.is_plain() {
        let counter = app.handle.add(space, key, by).await?;
        return Ok(Answered::plain(Json(counter)));
    }
    let op = (key, Op::Add(by)).into();
    let done = asking.apply(&app, space, &body, op).await?;
    let Done { key, now, .. } = &done.answer;
    let now = now.ok_or_else(|| deleted_since(key))?;
    Ok(done.map(|Done { key, .. }| Json(Counter { key, now })))
}

/// Lists the shards of a counter
#[utoipa::path(
    get, path = api::COUNTER_SHARDS.path(), operation_id = api::COUNTER_SHARDS.name, tag = "counters",
    params(InSpace, OfCounter, AskingRead),
    responses((status = 200, description = "One shard for each writer.", body = Shards)),
)]
pub(super) async fn shards(
    app: Serving,
    of: Route<(String, String)>,
    asking: Asking,
) -> Answer<Shards> {
    let key = of.0.1.clone();
    let read = rows::read(app, of, asking, Handle::shards, absent).await?;
    Ok(read.map(|Json(shards)| Json(Shards { key, shards })))
}

/// Lists counters by key
#[utoipa::path(
    get, path = api::LIST_COUNTERS.path(), operation_id = api::LIST_COUNTERS.name, tag = "counters",
    params(InSpace, ListQuery, AskingRead),
    responses((
        status = 200, description = "A page of them.", body = Page,
        example = json!({"counters": [{"key": "likes", "value": "12"}], "next": null}),
    )),
)]
pub(super) async fn list(
    app: Serving,
    of: Route<String>,
    asking: Asking,
    query: QueryString<ListQuery>,
) -> Answer<Page> {
    rows::list(app, of, asking, query, Handle::list).await
}

/// Reads many counters at once
///
/// All at one moment: either all of a transaction, or none of it.
#[utoipa::path(
    post, path = api::READ_COUNTERS.path(), operation_id = api::READ_COUNTERS.name, tag = "counters",
    params(InSpace, AskingRead),
    request_body(content = ReadBody, description = "Their keys."),
    responses((
        status = 200, description = "The counters in the order asked.", body = Counters,
        example = json!({"counters": [{"key": "likes", "value": "12"}, null]}),
    )),
)]
pub(super) async fn read_many(
    app: Serving,
    Route(space): Route<String>,
    asking: Asking,
    body: Result<Bytes, BytesRejection>,
) -> Answer<Counters> {
    let space = app.handle.space(&space)?;
    let keys = keys(&body?)?;
    let seen = asking.wait(&app, space).await?;
    let counters = app.handle.read_many(space, keys).await?;
    Ok(seen.map(|()| Json(Counters { counters })))
}

/// Reads `{"keys":["a","b"]}`.
fn keys(body: &[u8]) -> Result<Vec<String>, Problem> {
    let mut fields = Fields::parse(body, READ_MANY)?;
    let list = fields.list("keys")?;
    if list.len() > READ_MANY_MAX {
        let detail = format!(
            "{} counters are asked for, and at most {READ_MANY_MAX} can be read at once; ask for \
             the rest in another request",
            list.len()
        );
        return Err(Problem::new(&problems::TOO_MANY_KEYS, detail));
    }
    let keys = list.into_iter().map(|key| match key {
        Value::String(key) => Ok(key),
        other => Err(fields.invalid(&format!("`{other}` is no key"))),
    });
    let keys = keys.collect::<Result<Vec<String>, Problem>>()?;
    fields.end()?;
    Ok(keys)
}

/// The problem of a counter that does not exist.
pub(super) fn absent(key: &str) -> Problem {
    let detail = format!("there is no counter `{key}` here; the first add makes it");
    Problem::new(&problems::ABSENT, detail)
}

/// The problem of a counter that was written before, under the same idempotency key, and no longer
/// exists.
pub(super) fn deleted_since(key: &str) -> Problem {
    let detail = format!(
        "this was made before, under its idempotency key, and there is no counter `{key}` here by now: \
         it was deleted, or has expired"
    );
    Problem::new(&problems::ABSENT, detail).applied_before()
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
    use super::{READ_MANY_MAX, amount, keys};

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
    fn keys_are_read_in_their_order_up_to_the_limit() {
        let body = |count| {
            let keys: Vec<String> = (0..count).rev().map(|n| format!("k{n}")).collect();
            (serde_json::json!({ "keys": keys }).to_string(), keys)
        };
        let (text, expected) = body(READ_MANY_MAX);
        assert_eq!(keys(text.as_bytes()).expect("the most"), expected);
        let (text, _) = body(READ_MANY_MAX + 1);
        let problem = keys(text.as_bytes()).expect_err("too many");
        assert_eq!(problem.code(), "too_many_keys");
        for body in [
            "",
            "[]",
            r#"{"keys":"a"}"#,
            r#"{"keys":[1]}"#,
            r#"{"keys":[],"x":1}"#,
        ] {
            assert_eq!(keys(body.as_bytes()).expect_err(body).code(), "body");
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

//! Operations beyond a plain add, one at a time or as a transaction.

use super::access::{Caller, Serving};
use super::asking::Asking;
use super::body::Fields;
use super::counters::{absent, deleted_since};
use super::op_fields::{Body, Key, NO_BODY, make, operation};
use super::problem::{Problem, Route};
use super::requests::{
    AskingOnce, AskingWrite, ExpireBody, InSpace, OfCounter, SetBody, TransactionBody,
};
use super::rows::Answer;
use axum::Json;
use serde::Serialize;
use serde_json::Value;
use tallymesh_core::bounds::TRANSACTION_OPS_MAX;
use tallymesh_core::{Error, QuotaError, WriteError};
use tallymesh_node_ground::api;
use tallymesh_node_ground::model::{Done, Operation};
use tallymesh_node_ground::problems;
use utoipa::ToSchema;

const SET: &str = r#"{"value":"5"}"#;
const EXPIRE: &str = r#"{"in_ms":"60000"}, or {"at":"1767225600000"} in milliseconds since 1970"#;
const TRANSACTION: &str = r#"{"ops":[{"op":"add","key":"a","by":"1"}]}"#;
const OPERATION: &str = r#"{"op","key"} with op one of add ("by"), set ("value"), reset, delete, expire ("at" or "in_ms") and persist, or, of a budget, mint, spend, lower_floor, raise_floor, raise_cap, lower_cap ("amount"), lease ("id", "amount", "lease_ms"), end_lease ("id"), grant, grant_room ("to", "amount") and transfer ("to", a list of {"key","amount"}), or, of a sequence, next, or, of a limit, allow ("cost")"#;

/// The result of a transaction.
#[derive(Serialize, ToSchema)]
pub(super) struct Results {
    /// One for each operation, in their order.
    results: Vec<Done>,
}

/// The result of a deletion.
#[derive(Serialize, ToSchema)]
pub(super) struct Deleted {
    key: String,
    /// Whether it existed; left out for a deletion that was made before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    existed: Option<bool>,
}

/// Sets a counter
///
/// Cancels everything that this node has observed of it, and nothing else.
#[utoipa::path(
    put, path = api::SET.path(), operation_id = api::SET.name, tag = "counters",
    params(InSpace, OfCounter, AskingOnce, AskingWrite),
    request_body(content = SetBody, description = "The value."),
    responses((
        status = 200, description = "What became of it.", body = Done,
        example = json!({"key": "likes", "existed": true, "value": "10"}),
    )),
)]
pub(super) async fn set(app: Serving, of: Key, asking: Asking, body: Body) -> Answer<Done> {
    let done = make(&app, &api::SET, of, asking, (body, SET)).await?;
    Ok(done.map(Json))
}

/// Deletes a counter
///
/// Changes that this node has not observed survive.
#[utoipa::path(
    delete, path = api::DELETE.path(), operation_id = api::DELETE.name, tag = "counters",
    params(InSpace, OfCounter, AskingOnce, AskingWrite),
    responses((
        status = 200, description = "Whether it existed.", body = Deleted,
        example = json!({"key": "likes", "existed": true}),
    )),
)]
pub(super) async fn delete(app: Serving, of: Key, asking: Asking) -> Answer<Deleted> {
    let done = make(&app, &api::DELETE, of, asking, NO_BODY).await?;
    let deleted = |done: Done| Deleted {
        key: done.key,
        existed: done.existed,
    };
    Ok(done.map(|done| Json(deleted(done))))
}

/// Sets a counter to 0
#[utoipa::path(
    post, path = api::RESET.path(), operation_id = api::RESET.name, tag = "counters",
    params(InSpace, OfCounter, AskingOnce, AskingWrite),
    responses((
        status = 200, description = "What became of it.", body = Done,
        example = json!({"key": "likes", "existed": true, "value": "10"}),
    )),
)]
pub(super) async fn reset(app: Serving, of: Key, asking: Asking) -> Answer<Done> {
    let done = make(&app, &api::RESET, of, asking, NO_BODY).await?;
    Ok(done.map(Json))
}

/// Lets a counter expire
///
/// The longest of concurrent expiries counts.
#[utoipa::path(
    post, path = api::EXPIRE.path(), operation_id = api::EXPIRE.name, tag = "counters",
    params(InSpace, OfCounter, AskingOnce, AskingWrite),
    request_body(content = ExpireBody, description = "When."),
    responses((
        status = 200, description = "What became of it.", body = Done,
        example = json!({"key": "likes", "existed": true, "value": "10"}),
    )),
)]
pub(super) async fn expire(app: Serving, of: Key, asking: Asking, body: Body) -> Answer<Done> {
    let done = make(&app, &api::EXPIRE, of, asking, (body, EXPIRE)).await?;
    match done.answer.existed {
        Some(false) => Err(absent(&done.answer.key)),
        _ => Ok(done.map(Json)),
    }
}

/// Removes the expiry of a counter
#[utoipa::path(
    post, path = api::PERSIST.path(), operation_id = api::PERSIST.name, tag = "counters",
    params(InSpace, OfCounter, AskingOnce, AskingWrite),
    responses((
        status = 200, description = "What became of it.", body = Done,
        example = json!({"key": "likes", "had_expiry": true, "value": "10"}),
    )),
)]
pub(super) async fn persist(app: Serving, of: Key, asking: Asking) -> Answer<Done> {
    let done = make(&app, &api::PERSIST, of, asking, NO_BODY).await?;
    match done.answer.now {
        None if done.again => Err(deleted_since(&done.answer.key)),
        None => Err(absent(&done.answer.key)),
        Some(_) => Ok(done.map(Json)),
    }
}

/// Makes several operations, all or none
///
/// Each replica applies either all of them or none.
#[utoipa::path(
    post, path = api::TRANSACT.path(), operation_id = api::TRANSACT.name, tag = "counters",
    params(InSpace, AskingOnce, AskingWrite),
    request_body(content = TransactionBody, description = "The operations."),
    responses((status = 200, description = "What became of each.", body = Results)),
)]
pub(super) async fn transact(
    app: Serving,
    Route(space): Route<String>,
    caller: Caller,
    asking: Asking,
    body: Body,
) -> Answer<Results> {
    let (space, body) = (app.handle.space(&space)?, body?);
    let ops = ops(&body, &|| app.time_in(space))?;
    for op in &ops {
        caller.has(api::role_of_op(op.name()))?;
    }
    for (index, op) in ops.iter().enumerate() {
        let checked = match op {
            Operation::Lease { .. } => asking.check_key(&api::LEASE, QuotaError::LeaseOnce),
            Operation::Next { .. } => asking.check_key(&api::NEXT, QuotaError::NumberOnce),
            _ => Ok(()),
        };
        checked.map_err(|problem| problem.op(index))?;
    }
    let done = asking.transact(&app, space, &body, ops).await?;
    Ok(done.map(|results| Json(Results { results })))
}

fn ops(body: &[u8], now: &dyn Fn() -> Result<u64, Problem>) -> Result<Vec<Operation>, Problem> {
    let mut fields = Fields::parse(body, TRANSACTION)?;
    let list = fields.list("ops")?;
    fields.end()?;
    if list.len() > TRANSACTION_OPS_MAX {
        let error = Error::Write(WriteError::TransactionTooLarge { ops: list.len() });
        let detail = format!("{error}; send fewer at a time, if they may be seen apart");
        return Err(Problem::new(&problems::TRANSACTION_TOO_LARGE, detail));
    }
    let ops = list.into_iter().enumerate();
    ops.map(|(index, value)| op(value, now).map_err(|problem| problem.op(index)))
        .collect()
}

fn op(value: Value, now: &dyn Fn() -> Result<u64, Problem>) -> Result<Operation, Problem> {
    let mut fields = Fields::of(value, OPERATION)?;
    let (name, key) = (fields.text("op")?, fields.text("key")?);
    let operation = operation(&name, key, &mut fields, now)?;
    fields.end()?;
    Ok(operation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallymesh_core::Op;

    #[test]
    fn each_operation_is_read() {
        let body = br#"{"ops":[
            {"op":"add","key":"a"},
            {"op":"add","key":"a","by":"-2"},
            {"op":"set","key":"b","value":3},
            {"op":"reset","key":"c"},
            {"op":"delete","key":"d"},
            {"op":"expire","key":"e","at":"50"},
            {"op":"expire","key":"e","in_ms":7},
            {"key":"f","op":"persist"}
        ]}"#;
        let read = ops(body, &|| Ok(1000)).expect("valid");
        let expected = [
            ("a", Op::Add(1)),
            ("a", Op::Add(-2)),
            ("b", Op::Set(3)),
            ("c", Op::Reset),
            ("d", Op::Delete),
            ("e", Op::Expire(50)),
            ("e", Op::Expire(1007)),
            ("f", Op::Persist),
        ];
        assert_eq!(read, expected.map(|(key, op)| (key.to_owned(), op).into()));
        assert_eq!(ops(br#"{"ops":[]}"#, &|| Ok(0)).expect("valid"), []);
    }

    #[test]
    fn what_is_no_transaction_is_refused_at_its_place() {
        let good = r#"{"op":"reset","key":"a"}"#;
        for (body, code, index) in [
            ("".to_owned(), "body", None),
            ("[]".to_owned(), "body", None),
            (r#"{"ops":{}}"#.to_owned(), "body", None),
            (r#"{"ops":[],"if":1}"#.to_owned(), "body", None),
            (format!(r#"{{"ops":[{good},7]}}"#), "body", Some(1)),
            (
                format!(r#"{{"ops":[{good},{good},{{"op":"reset"}}]}}"#),
                "body",
                Some(2),
            ),
            (
                r#"{"ops":[{"op":"incr","key":"a"}]}"#.to_owned(),
                "body",
                Some(0),
            ),
            (
                r#"{"ops":[{"op":"set","key":"a"}]}"#.to_owned(),
                "body",
                Some(0),
            ),
            (
                r#"{"ops":[{"op":"set","key":"a","value":"x"}]}"#.to_owned(),
                "amount",
                Some(0),
            ),
            (
                r#"{"ops":[{"op":"reset","key":"a","by":1}]}"#.to_owned(),
                "body",
                Some(0),
            ),
            (
                r#"{"ops":[{"op":"expire","key":"a"}]}"#.to_owned(),
                "body",
                Some(0),
            ),
            (
                r#"{"ops":[{"op":"expire","key":"a","at":1,"in_ms":1}]}"#.to_owned(),
                "body",
                Some(0),
            ),
            (
                r#"{"ops":[{"op":"expire","key":"a","in_ms":-1}]}"#.to_owned(),
                "millis",
                Some(0),
            ),
            (
                r#"{"ops":[{"op":"expire","key":"a","at":"1.5"}]}"#.to_owned(),
                "millis",
                Some(0),
            ),
            (
                r#"{"ops":[{"op":"add","key":"a","by":"+5"}]}"#.to_owned(),
                "amount",
                Some(0),
            ),
            (
                r#"{"ops":[{"op":"spend","key":"a","amount":"+5"}]}"#.to_owned(),
                "amount",
                Some(0),
            ),
            (
                r#"{"ops":[{"op":"expire","key":"a","at":"+5"}]}"#.to_owned(),
                "millis",
                Some(0),
            ),
        ] {
            let problem = ops(body.as_bytes(), &|| Ok(0)).expect_err(&body);
            assert_eq!((problem.code(), problem.at_op()), (code, index), "{body}");
        }
        let many = vec![good; TRANSACTION_OPS_MAX + 1].join(",");
        let problem =
            ops(format!(r#"{{"ops":[{many}]}}"#).as_bytes(), &|| Ok(0)).expect_err("too many");
        assert_eq!(problem.code(), "transaction_too_large");
    }
}

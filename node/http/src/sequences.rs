//! Sequences of numbers, each handed out at most once in the whole mesh.

use super::access::Serving;
use super::asking::Asking;
use super::op_fields::{Key, NO_BODY, make};
use super::problem::{Problem, QueryString, Route};
use super::requests::{AskingOnce, AskingRead, AskingWrite, InSpace, OfNumber, OfSequence};
use super::rows::{self, Answer, ListQuery};
use axum::Json;
use serde::Serialize;
use tallymesh_core::bounds::SEQUENCE_NUMBER_MAX;
use tallymesh_core::{Error, QuotaError};
use tallymesh_node_engine::driver::Handle;
use tallymesh_node_ground::api;
use tallymesh_node_ground::model::{
    Decimal, Done, Operation, SequencePage, SequenceRow, SpaceId, decimal,
};
use tallymesh_node_ground::problems;
use utoipa::ToSchema;

/// A number that was handed out.
#[derive(Serialize, ToSchema)]
pub(super) struct Number {
    /// The sequence.
    key: String,
    /// The number, from 1 on.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    number: u64,
    /// Whether it was watched; left out if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    watched: bool,
}

/// Reads a sequence
///
/// How many numbers were handed out, at least and at most, which member has which, and which were
/// lost.
#[utoipa::path(
    get, path = api::READ_SEQUENCE.path(), operation_id = api::READ_SEQUENCE.name, tag = "sequences",
    params(InSpace, OfSequence, AskingRead),
    responses((status = 200, description = "The sequence.", body = SequenceRow)),
)]
pub(super) async fn read(app: Serving, of: Key, asking: Asking) -> Answer<SequenceRow> {
    rows::read(app, of, asking, Handle::sequence, no_sequence).await
}

/// Lists sequences by name
#[utoipa::path(
    get, path = api::LIST_SEQUENCES.path(), operation_id = api::LIST_SEQUENCES.name, tag = "sequences",
    params(InSpace, ListQuery, AskingRead),
    responses((status = 200, description = "A page of them.", body = SequencePage)),
)]
pub(super) async fn list(
    app: Serving,
    of: Route<String>,
    asking: Asking,
    query: QueryString<ListQuery>,
) -> Answer<SequencePage> {
    rows::list(app, of, asking, query, Handle::sequences).await
}

/// Begins a sequence
///
/// Its first number is 1. It is handed out once most members have stored the begin of the sequence.
/// If two are begun under one name at the same time, at most one continues.
#[utoipa::path(
    post, path = api::BEGIN.path(), operation_id = api::BEGIN.name, tag = "sequences",
    params(InSpace, OfSequence, AskingOnce, AskingWrite),
    responses((status = 200, description = "The sequence.", body = SequenceRow)),
)]
pub(super) async fn begin(
    app: Serving,
    Route((space, key)): Key,
    asking: Asking,
) -> Answer<SequenceRow> {
    let space = app.handle.space(&space)?;
    changed(&app, space, asking, Operation::Begin { key }).await
}

/// Hands out the next number of a sequence
///
/// No other client gets the same number, at any member, in any case. If this node has none, the
/// request is refused at once, or waits as long as `tallymesh-rights-wait-ms` allows. Meanwhile the
/// member that gives out numbers is asked for more. It accepts no idempotency key: a number whose
/// answer is lost is gone.
#[utoipa::path(
    post, path = api::NEXT.path(), operation_id = api::NEXT.name, tag = "sequences",
    params(InSpace, OfSequence, AskingWrite),
    responses((status = 200, description = "The number.", body = Number)),
)]
pub(super) async fn next(app: Serving, of: Key, asking: Asking) -> Answer<Number> {
    asking.check_key(&api::NEXT, QuotaError::NumberOnce)?;
    let done = make(&app, &api::NEXT, of, asking, NO_BODY).await?;
    let number = done.answer.number;
    let number = number.ok_or_else(|| Problem::from(&Error::Quota(QuotaError::NumberOnce)))?;
    Ok(done.map(|Done { key, watched, .. }| {
        Json(Number {
            key,
            number,
            watched,
        })
    }))
}

/// Watches a number of a sequence
///
/// All members see when and by which writer it was handed out, until the watch is ended. The watch
/// is part of the sequence, and readers of events receive the sequence when it changes. So a reader
/// receives each notice at least once; the number and the sequence show whether a notice is a
/// repetition. A number that is already watched is unchanged.
///
/// A watched number is handed out in the order of its rank, without counting lost numbers. The
/// exception is that members with lower numbers can't be reached for a second.
#[utoipa::path(
    put, path = api::WATCH.path(), operation_id = api::WATCH.name, tag = "sequences",
    params(InSpace, OfNumber, AskingOnce, AskingWrite),
    responses((status = 200, description = "The sequence.", body = SequenceRow)),
)]
pub(super) async fn watch(
    app: Serving,
    Route(of): Route<(String, String, String)>,
    asking: Asking,
) -> Answer<SequenceRow> {
    set_watch(&app, of, asking, true).await
}

/// Ends the watch of a number
///
/// It causes no notices any more. If it is not watched, nothing changes.
#[utoipa::path(
    delete, path = api::END_WATCH.path(), operation_id = api::END_WATCH.name, tag = "sequences",
    params(InSpace, OfNumber, AskingOnce, AskingWrite),
    responses((status = 200, description = "The sequence.", body = SequenceRow)),
)]
pub(super) async fn end_watch(
    app: Serving,
    Route(of): Route<(String, String, String)>,
    asking: Asking,
) -> Answer<SequenceRow> {
    set_watch(&app, of, asking, false).await
}

async fn set_watch(
    app: &Serving,
    (space, key, text): (String, String, String),
    asking: Asking,
    watched: bool,
) -> Answer<SequenceRow> {
    let space = app.handle.space(&space)?;
    let number = text.parse().ok().filter(|it: &u64| it.to_string() == text);
    let number = number.filter(|it| (1..=SEQUENCE_NUMBER_MAX).contains(it));
    let number = number.ok_or_else(|| {
        let detail = format!("a number is from 1 to {SEQUENCE_NUMBER_MAX}, not `{text}`");
        Problem::new(&problems::NUMBER_RANGE, detail)
    })?;
    let operation = Operation::Watch {
        key,
        number,
        watched,
    };
    changed(app, space, asking, operation).await
}

/// Makes one operation, and returns the sequence.
async fn changed(
    app: &Serving,
    space: SpaceId,
    asking: Asking,
    operation: Operation,
) -> Answer<SequenceRow> {
    let key = operation.key().to_owned();
    let done = asking.apply(app, space, &[], operation).await?;
    let sequence = app.node.sequence(space, key.clone()).await?;
    let sequence = sequence.ok_or_else(|| no_sequence(&key))?;
    Ok(done.map(|_| Json(sequence)))
}

fn no_sequence(_: &str) -> Problem {
    Problem::from(&Error::Quota(QuotaError::NoSequence))
}

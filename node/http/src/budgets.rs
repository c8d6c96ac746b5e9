//! Budgets: reads, lists, and the most frequent operations. All others are operations of a
//! transaction.

use super::access::Serving;
use super::asking::{Answered, Asking};
use super::body::Fields;
use super::op_fields::{Body, Key, lease_id, lease_op, make};
use super::problem::{Problem, QueryString, Route};
use super::requests::{
    AmountBody, AskingOnce, AskingRead, AskingWrite, GrantBody, InSpace, LeaseBody, OfBudget,
    OfLease, SpendBody, TransferBody,
};
use super::rows::{self, Answer, ListQuery};
use axum::Json;
use tallymesh_core::{Error, Flow, QuotaError};
use tallymesh_node_engine::driver::Handle;
use tallymesh_node_ground::api::{self, Call};
use tallymesh_node_ground::model::{BudgetPage, BudgetRow, Done, Operation, Refusal};

const AMOUNT: &str = r#"{"amount":"5"}"#;
const SPEND: &str = r#"{"amount":"5"}, or {"amount":"5","lease":"<the lease's id>"}"#;
const LEASE: &str = r#"{"amount":"5","lease_ms":"60000"}"#;
const GRANT: &str = r#"{"to":"<a member's key, or its writer>","amount":"5"}"#;
const TRANSFER: &str = r#"{"to":[{"key":"cashback","amount":"5"}]}"#;

/// Reads a budget
///
/// With its holders.
#[utoipa::path(
    get, path = api::READ_BUDGET.path(), operation_id = api::READ_BUDGET.name, tag = "budgets",
    params(InSpace, OfBudget, AskingRead),
    responses((status = 200, description = "The budget.", body = BudgetRow)),
)]
pub(super) async fn read(app: Serving, of: Key, asking: Asking) -> Answer<BudgetRow> {
    let no = |_: &str| Problem::from(&Error::Quota(QuotaError::NoBudget));
    rows::read(app, of, asking, Handle::budget, no).await
}

/// Lists budgets by name
///
/// With their holders.
#[utoipa::path(
    get, path = api::LIST_BUDGETS.path(), operation_id = api::LIST_BUDGETS.name, tag = "budgets",
    params(InSpace, ListQuery, AskingRead),
    responses((status = 200, description = "A page of them.", body = BudgetPage)),
)]
pub(super) async fn list(
    app: Serving,
    of: Route<String>,
    asking: Asking,
    query: QueryString<ListQuery>,
) -> Answer<BudgetPage> {
    rows::list(app, of, asking, query, Handle::budgets).await
}

/// Pays into a budget, or returns rights that were spent
///
/// Creates a budget without a cap if none has this name. Under a cap it uses room that this node
/// has.
#[utoipa::path(
    post, path = api::MINT.path(), operation_id = api::MINT.name, tag = "budgets",
    params(InSpace, OfBudget, AskingOnce, AskingWrite),
    request_body(content = AmountBody, description = "How much."),
    responses((status = 200, description = "The budget.", body = BudgetRow)),
)]
pub(super) async fn mint(app: Serving, of: Key, asking: Asking, body: Body) -> Answer<BudgetRow> {
    made(&app, &api::MINT, of, asking, (body, AMOUNT)).await
}

/// Spends from a budget
///
/// Uses rights that this node has. If they are too few, the request is refused at once, or waits as
/// long as `tallymesh-rights-wait-ms` allows. Meanwhile this node requests more from other members.
///
/// With `lease` the request reports the spending of the lease's holder. It uses the rest of the
/// lease here. For the remaining amount it uses rights that this node has, for example if the lease
/// is over or was given elsewhere.
#[utoipa::path(
    post, path = api::SPEND.path(), operation_id = api::SPEND.name, tag = "budgets",
    params(InSpace, OfBudget, AskingOnce, AskingWrite),
    request_body(content = SpendBody, description = "How much."),
    responses((status = 200, description = "The budget.", body = BudgetRow)),
)]
pub(super) async fn spend(app: Serving, of: Key, asking: Asking, body: Body) -> Answer<BudgetRow> {
    made(&app, &api::SPEND, of, asking, (body, SPEND)).await
}

/// Leases rights of a budget
///
/// Sets rights of this node aside for a holder, which may spend them without asking while the lease
/// lasts. The holder reports its spending by `spend` with the lease's id, at this node. The rest
/// returns when the holder ends the lease. Otherwise it returns after the lease, a hundredth
/// of it and 2 s.
///
/// A repeated request under the same id gives no second lease: the answer has the rest of the first
/// one.
#[utoipa::path(
    put, path = api::LEASE.path(), operation_id = api::LEASE.name, tag = "budgets",
    params(InSpace, OfLease, AskingWrite),
    request_body(content = LeaseBody, description = "How many, and for how long."),
    responses((status = 200, description = "The lease, and the budget.", body = Done)),
)]
pub(super) async fn lease(
    app: Serving,
    Route((space, key, id)): Route<(String, String, String)>,
    asking: Asking,
    body: Body,
) -> Answer<Done> {
    let (space, body) = (app.handle.space(&space)?, body?);
    asking.check_key(&api::LEASE, QuotaError::LeaseOnce)?;
    let id = lease_id(&id)?;
    let mut fields = Fields::parse(&body, LEASE)?;
    let operation = lease_op(&mut fields, key, id)?;
    fields.end()?;
    let done = asking.apply(&app, space, &body, operation).await?;
    Ok(done.map(Json))
}

/// Ends a lease
///
/// The rest of it returns at once. The holder has reported all its spending, and spends no more.
#[utoipa::path(
    delete, path = api::END_LEASE.path(), operation_id = api::END_LEASE.name, tag = "budgets",
    params(InSpace, OfLease, AskingOnce, AskingWrite),
    responses((status = 200, description = "The budget.", body = BudgetRow)),
)]
pub(super) async fn end_lease(
    app: Serving,
    Route((space, key, id)): Route<(String, String, String)>,
    asking: Asking,
) -> Answer<BudgetRow> {
    let id = lease_id(&id)?;
    let space = app.handle.space(&space)?;
    let flow = Flow::EndLease { id };
    let done = asking.apply(&app, space, &[], Operation::Flow { key, flow });
    budget_of(done.await?)
}

/// Moves rights of a budget to another member
#[utoipa::path(
    post, path = api::GRANT.path(), operation_id = api::GRANT.name, tag = "budgets",
    params(InSpace, OfBudget, AskingOnce, AskingWrite),
    request_body(content = GrantBody, description = "To whom, and how much."),
    responses((status = 200, description = "The budget.", body = BudgetRow)),
)]
pub(super) async fn grant(app: Serving, of: Key, asking: Asking, body: Body) -> Answer<BudgetRow> {
    made(&app, &api::GRANT, of, asking, (body, GRANT)).await
}

/// Spends from one budget and pays the amount into others
///
/// Each replica applies either all of it or nothing, so the sum over the budgets stays the same.
#[utoipa::path(
    post, path = api::TRANSFER.path(), operation_id = api::TRANSFER.name, tag = "budgets",
    params(InSpace, OfBudget, AskingOnce, AskingWrite),
    request_body(content = TransferBody, description = "Which others, and how much each gets."),
    responses((status = 200, description = "The budgets.", body = Done)),
)]
pub(super) async fn transfer(app: Serving, of: Key, asking: Asking, body: Body) -> Answer<Done> {
    let done = make(&app, &api::TRANSFER, of, asking, (body, TRANSFER)).await?;
    Ok(done.map(Json))
}

/// Makes one operation, and returns the budget.
async fn made(
    app: &Serving,
    call: &Call,
    of: Key,
    asking: Asking,
    body: (Body, &'static str),
) -> Answer<BudgetRow> {
    budget_of(make(app, call, of, asking, body).await?)
}

/// The result of an operation on a budget includes the budget.
fn budget_of(done: Answered<Done>) -> Answer<BudgetRow> {
    let budget = done.answer.budget.clone().ok_or(Refusal::Stopped)?;
    Ok(done.map(|_| Json(budget)))
}

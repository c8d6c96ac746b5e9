//! Budgets: reads, lists, and the most frequent operations. All others are operations of a
//! transaction.

use super::access::Serving;
use super::asking::{Answered, Asking};
use super::body::Fields;
use super::counters::{ListQuery, page_query};
use super::problem::{Asked, Problem, Route};
use super::requests::{
    AmountBody, AskingRead, AskingWrite, GrantBody, InSpace, LeaseBody, OfBudget, OfLease,
    SpendBody, TransferBody,
};
use crate::model::{BudgetPage, BudgetRow, Done, Operation, Recipient, Refusal};
use crate::problems;
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use serde_json::Value;
use tallymesh_core::{Error, Flow, LeaseId, QuotaError, Stock};

const AMOUNT: &str = r#"{"amount":"5"}"#;
const SPEND: &str = r#"{"amount":"5"}, or {"amount":"5","lease":"<the lease's id>"}"#;
const LEASE: &str = r#"{"amount":"5","lease_ms":"60000"}"#;
const GRANT: &str = r#"{"to":"<a member's key, or its writer>","amount":"5"}"#;
const TRANSFER: &str = r#"{"to":[{"key":"cashback","amount":"5"}]}"#;
const SHARE: &str = r#"{"key":"cashback","amount":"5"}"#;

type Key = Route<(String, String)>;
type Body = Result<Bytes, BytesRejection>;

/// Reads a budget
///
/// With its holders.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/budgets/{key}", operation_id = "read_budget", tag = "budgets",
    params(OfBudget, AskingRead),
    responses((status = 200, description = "The budget.", body = BudgetRow)),
    extensions(("x-problems" = json!(["no_budget"]))),
)]
pub(super) async fn read(
    app: Serving,
    Route((space, key)): Key,
    asking: Asking,
) -> Result<Answered<Json<BudgetRow>>, Problem> {
    let space = app.handle.space(&space)?;
    let seen = asking.wait(&app, space).await?;
    let budget = app.handle.budget(space, key).await?;
    let budget = budget.ok_or_else(|| Problem::from(&Error::Quota(QuotaError::NoBudget)))?;
    Ok(seen.map(|()| Json(budget)))
}

/// Lists budgets by name
///
/// With their holders.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/budgets", operation_id = "list_budgets", tag = "budgets",
    params(InSpace, ListQuery, AskingRead),
    responses((status = 200, description = "A page of them.", body = BudgetPage)),
    extensions(("x-problems" = json!(["query"]))),
)]
pub(super) async fn list(
    app: Serving,
    Route(space): Route<String>,
    asking: Asking,
    Asked(query): Asked<ListQuery>,
) -> Result<Answered<Json<BudgetPage>>, Problem> {
    let space = app.handle.space(&space)?;
    let query = page_query(query)?;
    let seen = asking.wait(&app, space).await?;
    let page = app.handle.budgets(space, query).await?;
    Ok(seen.map(|()| Json(page)))
}

/// Pays into a budget, or returns rights that were spent
///
/// Creates a budget without a cap if none has this name. Under a cap it uses room that this node
/// has.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/budgets/{key}/mint", operation_id = "mint", tag = "budgets",
    params(OfBudget, AskingWrite),
    request_body(content = AmountBody, description = "How much."),
    responses((status = 200, description = "The budget.", body = BudgetRow)),
    extensions(("x-problems" = json!(["amount", "amount_range", "budget_name", "not_a_member", "overflow", "room_short"]))),
)]
pub(super) async fn mint(
    app: Serving,
    Route((space, key)): Key,
    asking: Asking,
    body: Body,
) -> Result<Answered<Json<BudgetRow>>, Problem> {
    let body = body?;
    let flow = Flow::Mint(amount_only(&body)?);
    flowed(&app, &space, asking, &body, Operation::Flow { key, flow }).await
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
    post, path = "/v1/spaces/{space}/budgets/{key}/spend", operation_id = "spend", tag = "budgets",
    params(OfBudget, AskingWrite),
    request_body(content = SpendBody, description = "How much."),
    responses((status = 200, description = "The budget.", body = BudgetRow)),
    extensions(("x-problems" = json!(["amount", "amount_range", "budget_name", "lease_id", "no_budget", "not_a_member", "overflow", "rights_short"]))),
)]
pub(super) async fn spend(
    app: Serving,
    Route((space, key)): Key,
    asking: Asking,
    body: Body,
) -> Result<Answered<Json<BudgetRow>>, Problem> {
    let body = body?;
    let mut fields = Fields::parse(&body, SPEND)?;
    let flow = spend_flow(&mut fields)?;
    fields.end()?;
    flowed(&app, &space, asking, &body, Operation::Flow { key, flow }).await
}

/// Leases rights of a budget
///
/// Sets rights of this node aside for a holder, which may spend them without asking while the lease
/// lasts. The holder reports its spending by `spend` with the lease's id, at this node. The rest
/// comes back when the holder ends the lease. Otherwise it comes back after the lease, a hundredth
/// of it and 2 s.
///
/// A repeated request under the same id gives no second lease: the answer has the rest of the first
/// one.
#[utoipa::path(
    put, path = "/v1/spaces/{space}/budgets/{key}/leases/{id}", operation_id = "lease", tag = "budgets",
    params(OfLease, AskingWrite),
    request_body(content = LeaseBody, description = "How many, and for how long."),
    responses((status = 200, description = "The lease, and the budget.", body = Done)),
    extensions(("x-problems" = json!([
        "amount", "amount_range", "lease_id", "lease_once", "lease_range", "leased_name", "no_budget", "not_a_member",
        "overflow", "rights_short",
    ]))),
)]
pub(super) async fn lease(
    app: Serving,
    Route((space, key, id)): Route<(String, String, String)>,
    asking: Asking,
    body: Body,
) -> Result<Answered<Json<Done>>, Problem> {
    let (space, body) = (app.handle.space(&space)?, body?);
    let id = lease_id(&id)?;
    let mut fields = Fields::parse(&body, LEASE)?;
    let operation = lease_op(&mut fields, key, id)?;
    fields.end()?;
    let done = asking.apply(&app, space, &body, operation).await?;
    Ok(done.map(Json))
}

/// Ends a lease
///
/// The rest of it comes back at once. The holder has reported all its spending, and spends no more.
#[utoipa::path(
    delete, path = "/v1/spaces/{space}/budgets/{key}/leases/{id}", operation_id = "end_lease", tag = "budgets",
    params(OfLease, AskingWrite),
    responses((status = 200, description = "The budget.", body = BudgetRow)),
    extensions(("x-problems" = json!(["budget_name", "lease_id", "no_budget", "no_lease", "not_a_member"]))),
)]
pub(super) async fn end_lease(
    app: Serving,
    Route((space, key, id)): Route<(String, String, String)>,
    asking: Asking,
) -> Result<Answered<Json<BudgetRow>>, Problem> {
    let id = lease_id(&id)?;
    let flow = Flow::EndLease { id };
    flowed(&app, &space, asking, &[], Operation::Flow { key, flow }).await
}

/// Moves rights of a budget to another member
#[utoipa::path(
    post, path = "/v1/spaces/{space}/budgets/{key}/grant", operation_id = "grant", tag = "budgets",
    params(OfBudget, AskingWrite),
    request_body(content = GrantBody, description = "To whom, and how much."),
    responses((status = 200, description = "The budget.", body = BudgetRow)),
    extensions(("x-problems" = json!(["amount", "amount_range", "budget_name", "no_budget", "no_recipient", "not_a_member", "overflow", "recipient", "rights_short"]))),
)]
pub(super) async fn grant(
    app: Serving,
    Route((space, key)): Key,
    asking: Asking,
    body: Body,
) -> Result<Answered<Json<BudgetRow>>, Problem> {
    let body = body?;
    let mut fields = Fields::parse(&body, GRANT)?;
    let operation = grant_op(&mut fields, key, Stock::Rights)?;
    fields.end()?;
    flowed(&app, &space, asking, &body, operation).await
}

/// Spends from one budget and pays the amount into others
///
/// Each replica applies either all of it or nothing, so the sum over the budgets stays the same.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/budgets/{key}/transfer", operation_id = "transfer", tag = "budgets",
    params(OfBudget, AskingWrite),
    request_body(content = TransferBody, description = "Which others, and how much each gets."),
    responses((status = 200, description = "The budgets.", body = Done)),
    extensions(("x-problems" = json!([
        "amount", "amount_range", "budget_name", "no_budget", "not_a_member", "overflow", "rights_short", "room_short",
        "transaction_too_large",
    ]))),
)]
pub(super) async fn transfer(
    app: Serving,
    Route((space, key)): Key,
    asking: Asking,
    body: Body,
) -> Result<Answered<Json<Done>>, Problem> {
    let (space, body) = (app.handle.space(&space)?, body?);
    let mut fields = Fields::parse(&body, TRANSFER)?;
    let operation = transfer_op(&mut fields, key)?;
    fields.end()?;
    let done = asking.apply(&app, space, &body, operation).await?;
    Ok(done.map(Json))
}

/// Makes one operation, and returns the budget.
async fn flowed(
    app: &Serving,
    space: &str,
    asking: Asking,
    body: &[u8],
    operation: Operation,
) -> Result<Answered<Json<BudgetRow>>, Problem> {
    let space = app.handle.space(space)?;
    let done = asking.apply(app, space, body, operation).await?;
    // The result of an operation on a budget includes the budget.
    let budget = done.answer.budget.clone().ok_or(Refusal::Stopped)?;
    Ok(done.map(|_| Json(budget)))
}

fn amount_only(body: &[u8]) -> Result<u64, Problem> {
    let mut fields = Fields::parse(body, AMOUNT)?;
    let amount = fields.quantity("amount")?;
    fields.end()?;
    Ok(amount)
}

/// Reads an operation on a budget by its name, in its form in a transaction. Returns `None` if no
/// operation has this name.
pub(super) fn op(name: &str, fields: &mut Fields, key: &str) -> Result<Option<Operation>, Problem> {
    let key = key.to_owned();
    let flow = match name {
        "grant" => return grant_op(fields, key, Stock::Rights).map(Some),
        "grant_room" => return grant_op(fields, key, Stock::Room).map(Some),
        "transfer" => return transfer_op(fields, key).map(Some),
        "spend" => {
            let flow = spend_flow(fields)?;
            return Ok(Some(Operation::Flow { key, flow }));
        }
        "lease" => {
            let id = lease_id(&fields.text("id")?)?;
            return lease_op(fields, key, id).map(Some);
        }
        "end_lease" => {
            let id = lease_id(&fields.text("id")?)?;
            let flow = Flow::EndLease { id };
            return Ok(Some(Operation::Flow { key, flow }));
        }
        "mint" => Flow::Mint,
        "lower_floor" => Flow::LowerFloor,
        "raise_floor" => Flow::RaiseFloor,
        "raise_cap" => Flow::RaiseCap,
        "lower_cap" => Flow::LowerCap,
        _ => return Ok(None),
    };
    let flow = flow(fields.quantity("amount")?);
    Ok(Some(Operation::Flow { key, flow }))
}

fn lease_id(text: &str) -> Result<LeaseId, Problem> {
    LeaseId::parse(text).map_err(|error| Problem::from(&error))
}

fn spend_flow(fields: &mut Fields) -> Result<Flow, Problem> {
    let amount = fields.quantity("amount")?;
    Ok(match fields.text_if_any("lease")? {
        Some(id) => {
            let id = lease_id(&id)?;
            Flow::SpendLeased { id, amount }
        }
        None => Flow::Spend(amount),
    })
}

fn lease_op(fields: &mut Fields, key: String, id: LeaseId) -> Result<Operation, Problem> {
    let (amount, ms) = (fields.quantity("amount")?, fields.millis("lease_ms")?);
    let ms = fields.required("lease_ms", ms)?;
    Ok(Operation::Lease {
        key,
        id,
        ms,
        amount,
    })
}

fn grant_op(fields: &mut Fields, key: String, stock: Stock) -> Result<Operation, Problem> {
    let text = fields.text("to")?;
    let to = Recipient::parse(&text).ok_or_else(|| {
        let shown: String = text.chars().take(80).collect();
        let detail = format!(
            "`{shown}` is no member's key, which has 64 hex digits, nor a writer, which has 32; \
             `tallymesh members` shows both"
        );
        Problem::new(&problems::RECIPIENT, detail)
    })?;
    let amount = fields.quantity("amount")?;
    Ok(Operation::Grant {
        key,
        to,
        stock,
        amount,
    })
}

fn transfer_op(fields: &mut Fields, from: String) -> Result<Operation, Problem> {
    let shares = fields.list("to")?.into_iter();
    let to: Result<Vec<(String, u64)>, Problem> = shares.map(share).collect();
    Ok(Operation::Transfer { from, to: to? })
}

fn share(value: Value) -> Result<(String, u64), Problem> {
    let mut fields = Fields::of(value, SHARE)?;
    let share = (fields.text("key")?, fields.quantity("amount")?);
    fields.end()?;
    Ok(share)
}

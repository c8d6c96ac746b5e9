//! Operations as requests write them: by a name, with fields in JSON.

use super::access::Serving;
use super::asking::{Answered, Asking};
use super::body::Fields;
use super::problem::{Problem, Route};
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use serde_json::Value;
use tallymesh_core::{Flow, LeaseId, Op, RightKind};
use tallymesh_node_ground::api::Call;
use tallymesh_node_ground::model::{Done, Operation, Recipient};
use tallymesh_node_ground::problems;

const SHARE: &str = r#"{"key":"cashback","amount":"5"}"#;

pub(super) type Key = Route<(String, String)>;
pub(super) type Body = Result<Bytes, BytesRejection>;

/// For an operation without fields, whose body is not looked at.
pub(super) const NO_BODY: (Body, &str) = (Ok(Bytes::new()), "");

/// Makes the one operation of a request. Its fields are in the body, of this form.
pub(super) async fn make(
    app: &Serving,
    call: &Call,
    Route((space, key)): Key,
    asking: Asking,
    (body, form): (Body, &'static str),
) -> Result<Answered<Done>, Problem> {
    let (space, body) = (app.handle.space(&space)?, body?);
    let mut fields = Fields::parse(&body, form)?;
    let name = call.op.unwrap_or(call.name);
    let operation = operation(name, key, &mut fields, &|| app.time_in(space))?;
    fields.end()?;
    asking.apply(app, space, &body, operation).await
}

/// Reads an operation by its name, in its form in a transaction. `now` returns the time of the space.
pub(super) fn operation(
    name: &str,
    key: String,
    fields: &mut Fields,
    now: &dyn Fn() -> Result<u64, Problem>,
) -> Result<Operation, Problem> {
    let op = match name {
        "add" => Op::Add(fields.amount("by")?.unwrap_or(1)),
        "set" => {
            let value = fields.amount("value")?;
            Op::Set(fields.required("value", value)?)
        }
        "reset" => Op::Reset,
        "delete" => Op::Delete,
        "expire" => expire_op(fields, now)?,
        "persist" => Op::Persist,
        "allow" => {
            let cost = fields.quantity_if_any("cost")?.unwrap_or(1);
            return Ok(Operation::Allow { key, cost });
        }
        "next" => return Ok(Operation::Next { key }),
        _ => {
            return budget_op(name, fields, &key)?.ok_or_else(|| {
                let shown: String = name.chars().take(40).collect();
                fields.invalid(&format!("there is no operation `{shown}`"))
            });
        }
    };
    Ok((key, op).into())
}

/// Reads either the time, or the duration from `now`.
fn expire_op(fields: &mut Fields, now: &dyn Fn() -> Result<u64, Problem>) -> Result<Op, Problem> {
    match (fields.millis("at")?, fields.millis("in_ms")?) {
        (Some(at), None) => Ok(Op::Expire(at)),
        (None, Some(millis)) => Ok(Op::Expire(now()?.saturating_add(millis))),
        _ => Err(fields.invalid("an expiry has either `at` or `in_ms`")),
    }
}

/// Reads an operation on a budget by its name, in its form in a transaction. Returns `None` if no
/// operation has this name.
fn budget_op(name: &str, fields: &mut Fields, key: &str) -> Result<Option<Operation>, Problem> {
    let key = key.to_owned();
    let flow = match name {
        "grant" => return grant_op(fields, key, RightKind::Rights).map(Some),
        "grant_room" => return grant_op(fields, key, RightKind::Room).map(Some),
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

/// Reads the id of a lease.
pub(super) fn lease_id(text: &str) -> Result<LeaseId, Problem> {
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

/// Reads a lease of this id.
pub(super) fn lease_op(
    fields: &mut Fields,
    key: String,
    id: LeaseId,
) -> Result<Operation, Problem> {
    let (amount, ms) = (fields.quantity("amount")?, fields.millis("lease_ms")?);
    let ms = fields.required("lease_ms", ms)?;
    Ok(Operation::Lease {
        key,
        id,
        ms,
        amount,
    })
}

fn grant_op(fields: &mut Fields, key: String, kind: RightKind) -> Result<Operation, Problem> {
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
        kind,
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

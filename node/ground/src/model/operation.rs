//! Operations on counters, budgets, sequences and limits, and their results.

use super::{BudgetRow, Decimal, LeaseRow, OperationError, PeriodRow, Reading, decimal_if_any};
use crate::identity::OwnerKey;
use serde::Serialize;
use std::fmt;
use tallymesh_core::{
    Error, Flow, Lease, LeaseId, MemberError, Op, QuotaError, Replica, RightKind, Transaction,
    WriterId,
};
use utoipa::ToSchema;

/// The sum of several input lines for one counter. A request has at most one for each key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The counter.
    pub key: String,
    /// The sum of the lines.
    pub by: i64,
    /// The last line that named the counter, from 1.
    pub line: u64,
}

/// An operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// On a counter.
    Count {
        /// Its key.
        key: String,
        /// The operation.
        op: Op,
    },
    /// On a budget.
    Flow {
        /// Its name.
        key: String,
        /// The operation.
        flow: Flow,
    },
    /// Gives a lease of rights, or returns the one that was given earlier under its id.
    Lease {
        /// The budget.
        key: String,
        /// The lease's id.
        id: LeaseId,
        /// How long its holder may spend from it, in milliseconds.
        ms: u64,
        /// How many rights.
        amount: u64,
    },
    /// Moves rights or room of a budget to another member.
    Grant {
        /// Its name.
        key: String,
        /// The recipient.
        to: Recipient,
        /// Whether rights or room is moved.
        kind: RightKind,
        /// How much.
        amount: u64,
    },
    /// Spends from one budget, and pays the amount into others.
    Transfer {
        /// The budget that is spent from.
        from: String,
        /// The others, and how much each gets.
        to: Vec<(String, u64)>,
    },
    /// Begins a sequence of numbers.
    Begin {
        /// Its name.
        key: String,
    },
    /// Hands out the next number of a sequence, from the numbers that this node has.
    Next {
        /// Its name.
        key: String,
    },
    /// Allows an amount in the present period of a key that a rate limit covers.
    Allow {
        /// The key.
        key: String,
        /// How much.
        cost: u64,
    },
    /// Starts or stops watching a number of a sequence.
    Watch {
        /// The sequence.
        key: String,
        /// The number.
        number: u64,
        /// Whether the number is to be watched.
        watched: bool,
    },
}

impl From<(String, Op)> for Operation {
    fn from((key, op): (String, Op)) -> Operation {
        Operation::Count { key, op }
    }
}

impl Operation {
    /// The counter, the budget or the sequence. For a transfer, it is the budget that is spent
    /// from.
    pub fn key(&self) -> &str {
        match self {
            Operation::Count { key, .. }
            | Operation::Flow { key, .. }
            | Operation::Lease { key, .. }
            | Operation::Grant { key, .. }
            | Operation::Begin { key }
            | Operation::Next { key }
            | Operation::Allow { key, .. }
            | Operation::Watch { key, .. } => key,
            Operation::Transfer { from, .. } => from,
        }
    }

    /// The kind of thing that it changes, as error messages name it.
    pub fn on(&self) -> &'static str {
        match self {
            Operation::Count { .. } => "counter",
            Operation::Begin { .. } | Operation::Next { .. } | Operation::Watch { .. } => {
                "sequence"
            }
            Operation::Allow { .. } => "limit of",
            _ => "budget",
        }
    }

    /// The operation on a counter, if it is one.
    pub fn op(&self) -> Option<Op> {
        match self {
            Operation::Count { op, .. } => Some(*op),
            _ => None,
        }
    }

    /// Its name in requests.
    pub fn name(&self) -> &'static str {
        match self {
            Operation::Count { op, .. } => match op {
                Op::Add(_) => "add",
                Op::Reset => "reset",
                Op::Delete => "delete",
                Op::Set(_) => "set",
                Op::Expire(_) => "expire",
                Op::Persist => "persist",
            },
            Operation::Flow { flow, .. } => match flow {
                Flow::Mint(_) => "mint",
                Flow::Spend(_) | Flow::SpendLeased { .. } => "spend",
                Flow::Grant { .. } => "grant",
                Flow::GrantRoom { .. } => "grant_room",
                Flow::LowerFloor(_) => "lower_floor",
                Flow::RaiseFloor(_) => "raise_floor",
                Flow::RaiseCap(_) => "raise_cap",
                Flow::LowerCap(_) => "lower_cap",
                Flow::Lease { .. } => "lease",
                Flow::EndLease { .. } => "end_lease",
            },
            Operation::Lease { .. } => "lease",
            Operation::Grant { kind, .. } => match kind {
                RightKind::Rights | RightKind::Period => "grant",
                RightKind::Room => "grant_room",
            },
            Operation::Transfer { .. } => "transfer",
            Operation::Begin { .. } => "begin",
            Operation::Next { .. } => "next",
            Operation::Allow { .. } => "allow",
            Operation::Watch { .. } => "watch",
        }
    }

    /// Makes the operation, after the earlier operations of the same transaction.
    pub fn make(&self, transaction: &mut Transaction<'_>) -> Result<Made, OperationError> {
        match self {
            Operation::Count { key, op } => return Ok(Made::Told(transaction.apply(key, *op)?)),
            Operation::Next { key } => {
                let number = transaction.quota_mut().draw(key)?;
                let watched = transaction.quota().is_watched(key, number);
                return Ok(Made::Number { number, watched });
            }
            Operation::Begin { key } => transaction.quota_mut().begin_sequence(key)?,
            Operation::Allow { key, cost } => transaction.quota_mut().allow(key, *cost)?,
            Operation::Watch {
                key,
                number,
                watched,
            } => match watched {
                true => transaction.quota_mut().watch_number(key, *number)?,
                false => transaction.quota_mut().end_watch(key, *number)?,
            },
            Operation::Flow { key, flow } => transaction.quota_mut().flow(key, *flow)?,
            Operation::Lease {
                key,
                id,
                ms,
                amount,
            } => {
                return Ok(Made::Leased(
                    transaction.quota_mut().lease(key, *id, *ms, *amount)?,
                ));
            }
            Operation::Grant {
                key,
                to,
                kind,
                amount,
            } => grant(transaction, key, to, *kind, *amount)?,
            Operation::Transfer { from, to } => {
                let to: Vec<(&str, u64)> = to.iter().map(|(key, it)| (key.as_str(), *it)).collect();
                transaction.quota_mut().transfer(from, &to)?;
            }
        }
        Ok(Made::Done)
    }
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// For a counter, the result of [`Transaction::apply`].
    Told(bool),
    /// The number that was handed out, and whether it was watched.
    Number {
        /// The number.
        number: u64,
        /// Whether it was watched.
        watched: bool,
    },
    /// The lease.
    Leased(Lease),
    /// No further result.
    Done,
}

/// The recipient of rights or room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// A member, under any writer.
    Member(OwnerKey),
    /// A member's present writer.
    Writer(WriterId),
}

impl Recipient {
    /// Reads a member's key of 64 hex digits, or a writer of 32.
    pub fn parse(text: &str) -> Option<Recipient> {
        let member = OwnerKey::digits(text).map(Recipient::Member);
        member.or_else(|| WriterId::parse(text).map(Recipient::Writer))
    }

    /// The present writer of the recipient, if it has one.
    fn writer(&self, replica: &Replica) -> Option<WriterId> {
        match self {
            Recipient::Writer(writer) => Some(*writer),
            Recipient::Member(owner) => {
                let members = replica.members().list();
                members.iter().find(|it| it.owner == owner.0)?.writer
            }
        }
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Recipient::Member(owner) => owner.fmt(f),
            Recipient::Writer(writer) => writer.fmt(f),
        }
    }
}

/// The result of one operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Done {
    /// The counter, or the budget.
    pub key: String,
    /// Whether the counter existed just before; left out for a `persist`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub existed: Option<bool>,
    /// Only for a `persist`: whether there was an expiry to remove.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub had_expiry: Option<bool>,
    /// The counter after the whole transaction; `None` if it is absent.
    #[schema(value_type = ReadingIfAny)]
    #[serde(flatten)]
    pub now: Option<Reading>,
    /// Only for an operation on a budget: the budget after the whole transaction. For a transfer it
    /// is the budget that was spent from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub budget: Option<BudgetRow>,
    /// Only for a transfer: the budgets that were paid into, in the order of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub to: Option<Vec<BudgetRow>>,
    /// Only for a `lease`: the rest of the lease. Left out for a lease that was given earlier and
    /// has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub lease: Option<LeaseRow>,
    /// Only for an `allow`: the present period of the key, after the whole transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub period: Option<PeriodRow>,
    /// Only for a `next`: whether the number that was handed out was watched; left out if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub watched: bool,
    /// Only for a `next`: the number that was handed out, from 1 on.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "decimal_if_any"
    )]
    #[schema(value_type = Decimal, nullable = false)]
    pub number: Option<u64>,
}

/// The result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transacted {
    /// The result of each operation, in the order of the request.
    pub done: Vec<Done>,
    /// Whether the transaction had been made before under its idempotency key. Then `done` has the
    /// present values of the counters, and not the values before the transaction.
    pub again: bool,
}

/// The JSON form of a counter that may be absent: its fields, or none.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what is written, and is never made")]
struct ReadingIfAny {
    /// The value, if the counter exists.
    #[schema(value_type = Decimal, required = false)]
    value: i128,
    /// When it expires, in milliseconds since 1970, if it does.
    #[schema(value_type = Decimal, required = false)]
    expires_at: u64,
}

/// Moves rights or room to the present writer of the recipient.
pub fn grant(
    transaction: &mut Transaction<'_>,
    key: &str,
    to: &Recipient,
    kind: RightKind,
    amount: u64,
) -> Result<(), OperationError> {
    let nobody = || OperationError::NoRecipient(*to);
    let writer = to.writer(transaction.replica()).ok_or_else(nobody);
    // If this node is no member, that error comes first.
    let writer = match transaction.replica().members().is_member() {
        true => writer?,
        false => return Err(Error::Member(MemberError::NotAMember).into()),
    };
    // For rate limits, only the requests of members move anything.
    let flow = Flow::grant(kind, writer, amount).ok_or(Error::Quota(QuotaError::NoBudget))?;
    let moved = transaction.quota_mut().flow(key, flow);
    moved.map_err(|error| match error {
        Error::Member(MemberError::UnknownWriter { .. }) => nobody(),
        error => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipient_is_a_key_or_a_writer() {
        let (key, writer) = ("ab".repeat(32), "cd".repeat(16));
        for text in [&key, &writer] {
            let recipient = Recipient::parse(text).expect(text);
            assert_eq!(recipient.to_string(), *text);
        }
        for wrong in ["", "me", &key[1..], &writer[1..], &"zz".repeat(16)] {
            assert_eq!(Recipient::parse(wrong), None, "{wrong}");
        }
    }
}

//! Operations on budgets, beside those on counters, and the rows that show budgets.

use super::Query;
use super::answers::{Decimal, decimal, decimal_if_any};
use super::grants::{OperationError, Recipient, grant};
use super::leases::LeaseRow;
use super::space::OpenSpace;
use crate::identity::OwnerKey;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use tallymesh_core::{Budget, Flow, Holding, Lease, LeaseId, Op, Stock, Transaction, WriterId};
use utoipa::ToSchema;

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
        stock: Stock,
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
    pub(crate) fn on(&self) -> &'static str {
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
    pub(crate) fn op(&self) -> Option<Op> {
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
            Operation::Grant { stock, .. } => match stock {
                Stock::Rights | Stock::Period => "grant",
                Stock::Room => "grant_room",
            },
            Operation::Transfer { .. } => "transfer",
            Operation::Begin { .. } => "begin",
            Operation::Next { .. } => "next",
            Operation::Allow { .. } => "allow",
            Operation::Watch { .. } => "watch",
        }
    }

    /// Whether the role writer may request it. Every other operation needs the role editor.
    pub(crate) fn is_for_writers(&self) -> bool {
        match self {
            Operation::Count { op, .. } => matches!(op, Op::Add(_)),
            Operation::Flow { flow, .. } => matches!(
                flow,
                Flow::Spend(_) | Flow::SpendLeased { .. } | Flow::EndLease { .. }
            ),
            Operation::Lease { .. }
            | Operation::Transfer { .. }
            | Operation::Next { .. }
            | Operation::Allow { .. } => true,
            Operation::Grant { .. } | Operation::Begin { .. } | Operation::Watch { .. } => false,
        }
    }

    /// Makes the operation, after the earlier operations of the same transaction.
    pub(crate) fn make(&self, transaction: &mut Transaction<'_>) -> Result<Made, OperationError> {
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
                stock,
                amount,
            } => grant(transaction, key, to, *stock, *amount)?,
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
pub(crate) enum Made {
    /// For a counter, the result of [`Transaction::apply`].
    Told(bool),
    /// The number that was handed out, and whether it was watched.
    Number { number: u64, watched: bool },
    /// The lease.
    Leased(Lease),
    /// No further result.
    Done,
}

/// How much of a budget this node and others have, as far as this node can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Holding)]
pub struct HoldingRow {
    /// The amount that this node may use now.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub here: i128,
    /// The amount that it may use once all members have acknowledged it, because it arrived under
    /// idempotency keys.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub pending: i128,
    /// The amount that others have.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub elsewhere: i128,
}

impl From<Holding> for HoldingRow {
    fn from(it: Holding) -> HoldingRow {
        HoldingRow {
            here: it.here,
            pending: it.pending,
            elsewhere: it.elsewhere,
        }
    }
}

/// Whether an amount is 0, and so left out of the JSON.
fn is_none(amount: &i128) -> bool {
    *amount == 0
}

/// One writer's part of a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Holder)]
pub struct HolderRow {
    /// The writer, as 32 hex digits. The part of a retired writer goes to its successor.
    pub writer: String,
    /// The key of its present or former owner, if this node has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerKey>,
    /// Whether it is the writer of this start of this node.
    pub own: bool,
    /// The amount that it may spend, without the amount on lease.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub rights: i128,
    /// The amount on lease, if there is any.
    #[serde(serialize_with = "decimal", skip_serializing_if = "is_none")]
    #[schema(value_type = Decimal, required = false)]
    pub leased: i128,
    /// The amount that it may mint, under a cap.
    #[schema(value_type = Decimal, required = false)]
    #[serde(
        serialize_with = "decimal_if_any",
        skip_serializing_if = "Option::is_none"
    )]
    pub room: Option<i128>,
}

/// A budget, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Budget)]
pub struct BudgetRow {
    /// Its name.
    pub key: String,
    /// The sum of all mints less the sum of all spends.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub value: i128,
    /// The value never goes below it.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub floor: i128,
    /// The value never goes above it, if the budget has a cap.
    #[schema(value_type = Decimal, required = false)]
    #[serde(
        serialize_with = "decimal_if_any",
        skip_serializing_if = "Option::is_none"
    )]
    pub cap: Option<i128>,
    /// The rights to spend. Their sum over all writers is the value less the floor.
    pub rights: HoldingRow,
    /// The amount on lease at all members, if there is any. It counts as held elsewhere.
    #[serde(serialize_with = "decimal", skip_serializing_if = "is_none")]
    #[schema(value_type = Decimal, required = false)]
    pub leased: i128,
    /// The room to mint, if the budget has a cap. Its sum over all writers is the cap less the
    /// value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub room: Option<HoldingRow>,
    /// The part of each writer, by writer. Left out in answers to operations and in events.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub holders: Option<Vec<HolderRow>>,
    /// The leases with rights left, if there are any, ordered by the time at which their rights
    /// come back. Present where `holders` is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub leases: Vec<LeaseRow>,
}

impl BudgetRow {
    pub(super) fn new(key: String, it: Budget) -> BudgetRow {
        BudgetRow {
            key,
            value: it.value,
            floor: it.floor,
            cap: it.cap,
            rights: it.rights.into(),
            leased: it.leased,
            room: it.room.map(HoldingRow::from),
            holders: None,
            leases: Vec::new(),
        }
    }
}

/// Budgets by name, and where the next page begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BudgetPage {
    /// The budgets, sorted by the bytes of their names.
    pub budgets: Vec<BudgetRow>,
    /// The name to ask for the next page with, if there may be more.
    #[schema(required)]
    pub next: Option<String>,
}

impl OpenSpace {
    /// A budget without its holders; `None` if no budget has this name.
    pub(super) fn budget_row(&self, name: &str) -> Option<BudgetRow> {
        let budget = self.replica.quota().budget(name)?;
        Some(BudgetRow::new(name.to_owned(), budget))
    }

    /// A budget with its holders; `None` if no budget has this name.
    pub(super) fn budget(&self, name: &str) -> Option<BudgetRow> {
        let mut rows = self.with_holders(self.budget_row(name).into_iter().collect());
        rows.pop()
    }

    /// Looks at each budget and keeps the first `limit`.
    pub(super) fn budgets(&self, query: &Query) -> BudgetPage {
        let mut names: BTreeSet<String> = BTreeSet::new();
        let mut more = false;
        self.replica.quota().each_budget(&mut |name| {
            let fits =
                || names.len() < query.limit || names.last().is_some_and(|it| name < it.as_str());
            if !query.wants(name) {
                return;
            }
            if !fits() {
                // A name under which there are budgets of two kinds occurs twice.
                more |= !names.contains(name);
                return;
            }
            names.insert(name.to_owned());
            if names.len() > query.limit {
                names.pop_last();
                more = true;
            }
        });
        let next = names.last().filter(|_| more).cloned();
        let rows = names.iter().filter_map(|name| self.budget_row(name));
        BudgetPage {
            budgets: self.with_holders(rows.collect()),
            next,
        }
    }

    fn with_holders(&self, mut rows: Vec<BudgetRow>) -> Vec<BudgetRow> {
        if rows.is_empty() {
            return rows;
        }
        let roster = self.replica.members().writer_table();
        let owners = roster.filter_map(|it| Some((it.writer, OwnerKey(it.owner?))));
        let owners: HashMap<WriterId, OwnerKey> = owners.collect();
        let own = self.replica.writer();
        for row in &mut rows {
            let holders = self.replica.quota().holders_of(&row.key).into_iter();
            let holders = holders.map(|it| HolderRow {
                writer: it.writer.to_string(),
                owner: owners.get(&it.writer).copied(),
                own: it.writer == own,
                rights: it.rights,
                leased: it.leased,
                room: row.cap.map(|_| it.room),
            });
            row.holders = Some(holders.collect());
            let mut leases = self.replica.quota().leases_of(&row.key);
            leases.sort_unstable_by_key(|it| (it.until, it.id));
            row.leases = leases.into_iter().map(LeaseRow::from).collect();
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_adds_and_spends_may_not_pay_in_nor_move_rights() {
        let flow = |flow| Operation::Flow {
            key: "a".to_owned(),
            flow,
        };
        let grant = Operation::Grant {
            key: "a".to_owned(),
            to: Recipient::Member(OwnerKey([1; 32])),
            stock: Stock::Rights,
            amount: 1,
        };
        let id = LeaseId::from_bytes([1; 16]);
        let lease = Operation::Lease {
            key: "a".to_owned(),
            id,
            ms: 1,
            amount: 1,
        };
        let transfer = Operation::Transfer {
            from: "a".to_owned(),
            to: Vec::new(),
        };
        for (operation, expected) in [
            (("a".to_owned(), Op::Add(1)).into(), true),
            (("a".to_owned(), Op::Delete).into(), false),
            (flow(Flow::Spend(1)), true),
            (flow(Flow::SpendLeased { id, amount: 1 }), true),
            (flow(Flow::EndLease { id }), true),
            (lease, true),
            (flow(Flow::Mint(1)), false),
            (flow(Flow::LowerFloor(1)), false),
            (flow(Flow::RaiseCap(1)), false),
            (transfer, true),
            (grant, false),
        ] {
            assert_eq!(operation.is_for_writers(), expected, "{operation:?}");
        }
    }

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

//! Operations on budgets beside those on counters, and what budgets show.

use super::answers::{Decimal, decimal, decimal_if_any};
use super::grants::{OperationError, Recipient, grant};
use super::leases::LeaseRow;
use super::space::OpenSpace;
use super::{OwnerKey, Query};
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
        /// What is done.
        op: Op,
    },
    /// On a budget.
    Flow {
        /// Its name.
        key: String,
        /// What is done.
        flow: Flow,
    },
    /// Gives a lease of rights, or tells of the one that was given under its id.
    Lease {
        /// The budget.
        key: String,
        /// The lease's id.
        id: LeaseId,
        /// How long its holder may spend of it, in milliseconds.
        ms: u64,
        /// How many rights.
        amount: u64,
    },
    /// Moves rights or room of a budget to another member.
    Grant {
        /// Its name.
        key: String,
        /// To whom.
        to: Recipient,
        /// What is moved.
        stock: Stock,
        /// How much.
        amount: u64,
    },
    /// Spends of one budget, and pays that into others.
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
    /// Hands out the next number of a sequence that is here.
    Next {
        /// Its name.
        key: String,
    },
    /// Allows something in the present period of a key that a limit covers.
    Allow {
        /// The key.
        key: String,
        /// How much.
        cost: u64,
    },
    /// Watches a number of a sequence, or ends that.
    Watch {
        /// The sequence.
        key: String,
        /// The number.
        number: u64,
        /// Whether it is to be watched.
        watched: bool,
    },
}

impl From<(String, Op)> for Operation {
    fn from((key, op): (String, Op)) -> Operation {
        Operation::Count { key, op }
    }
}

impl Operation {
    /// The counter, the budget or the sequence; of a transfer the budget that is spent from.
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

    /// What it is on.
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

    /// What is done to a counter, if it is one.
    pub(crate) fn op(&self) -> Option<Op> {
        match self {
            Operation::Count { op, .. } => Some(*op),
            _ => None,
        }
    }

    /// Its name.
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

    /// Whether whoever adds and spends may ask for it: all else is for editors.
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

    /// Makes it, on what the operations before it did.
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

/// What an operation tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// Of a counter, what [`Transaction::apply`] does.
    Told(bool),
    /// The number that was handed out, and whether it was watched.
    Number { number: u64, watched: bool },
    /// The lease.
    Leased(Lease),
    /// Nothing more.
    Done,
}

/// What of a budget is held where, as far as this node knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Holding)]
pub struct HoldingRow {
    /// What this node may use now.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub here: i128,
    /// What it may use once all members have acknowledged it: it came under idempotency keys.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub pending: i128,
    /// What others hold.
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

/// Whether there is nothing to be told.
fn is_none(amount: &i128) -> bool {
    *amount == 0
}

/// What one writer holds of a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Holder)]
pub struct HolderRow {
    /// The writer, as 32 hex digits. What one holds that is over falls to whoever takes it over.
    pub writer: String,
    /// Whose it is or was, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerKey>,
    /// Whether it is this start of this node.
    pub own: bool,
    /// What it may spend, without what is on lease.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub rights: i128,
    /// What of it is on lease, if anything is.
    #[serde(serialize_with = "decimal", skip_serializing_if = "is_none")]
    #[schema(value_type = Decimal, required = false)]
    pub leased: i128,
    /// What it may mint, under a cap.
    #[schema(value_type = Decimal, required = false)]
    #[serde(
        serialize_with = "decimal_if_any",
        skip_serializing_if = "Option::is_none"
    )]
    pub room: Option<i128>,
}

/// What a budget comes to at this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Budget)]
pub struct BudgetRow {
    /// Its name.
    pub key: String,
    /// What was minted less what was spent.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub value: i128,
    /// What the value never goes under.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub floor: i128,
    /// What the value never goes over, if it has a cap.
    #[schema(value_type = Decimal, required = false)]
    #[serde(
        serialize_with = "decimal_if_any",
        skip_serializing_if = "Option::is_none"
    )]
    pub cap: Option<i128>,
    /// What can be spent: all of it together is the value less the floor.
    pub rights: HoldingRow,
    /// What is on lease, at all members, if anything is; it counts as held elsewhere.
    #[serde(serialize_with = "decimal", skip_serializing_if = "is_none")]
    #[schema(value_type = Decimal, required = false)]
    pub leased: i128,
    /// What can be minted, if it has a cap: all of it together is the cap less the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub room: Option<HoldingRow>,
    /// Who holds what, by writer; not told in answers to operations, nor in events.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub holders: Option<Vec<HolderRow>>,
    /// The leases of which something is left, if any, those first that come back first; told where `holders`
    /// are.
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

/// Budgets by name, and where to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BudgetPage {
    /// The budgets, sorted by the bytes of their names.
    pub budgets: Vec<BudgetRow>,
    /// The name to ask for the next page with, if there may be more.
    #[schema(required)]
    pub next: Option<String>,
}

impl OpenSpace {
    /// A budget without who holds what, `None` if there is none of this name.
    pub(super) fn budget_row(&self, name: &str) -> Option<BudgetRow> {
        let budget = self.replica.quota().budget(name)?;
        Some(BudgetRow::new(name.to_owned(), budget))
    }

    /// A budget with who holds what, `None` if there is none of this name.
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
                // One of which there are two kinds is named twice.
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

//! The rows that show budgets and leases of their rights.

use super::{Decimal, decimal, decimal_if_any};
use crate::identity::OwnerKey;
use serde::Serialize;
use tallymesh_core::{Budget, Holding, Lease};
use utoipa::ToSchema;

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
    /// return. Present where `holders` is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub leases: Vec<LeaseRow>,
}

impl BudgetRow {
    /// The row of a budget.
    pub fn new(key: String, it: Budget) -> BudgetRow {
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

/// The rest of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Lease)]
pub struct LeaseRow {
    /// Its id, as 32 hex digits.
    pub id: String,
    /// The writer of the member that gave it or took it over, as 32 hex digits.
    pub writer: String,
    /// How many rights are left of it.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub left: i128,
    /// When the rights that are left return to the member, in milliseconds since 1970 by its
    /// clock. They return after the end of the lease and the bound on its holder's clock.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub until: u64,
}

impl From<Lease> for LeaseRow {
    fn from(it: Lease) -> LeaseRow {
        LeaseRow {
            id: it.id.to_string(),
            writer: it.writer.to_string(),
            left: it.left,
            until: it.until,
        }
    }
}

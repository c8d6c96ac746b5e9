//! The rows that show rate limits and their periods.

use super::{Decimal, HoldingRow, decimal};
use serde::Serialize;
use tallymesh_core::{Limit, Period};
use utoipa::ToSchema;

/// How much is allowed in each period of the keys that it covers. It covers the key equal to its
/// name, and every key that begins with its name and a colon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Limit)]
pub struct LimitRow {
    /// Its name.
    pub name: String,
    /// How much is allowed in a period, in the whole mesh.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub limit: u64,
    /// How long a period is. Periods are counted since 1970.
    pub period_ms: u64,
    /// The number of the configuration in which it was set, or in which its period changed.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub since: u64,
}

impl From<&Limit> for LimitRow {
    fn from(it: &Limit) -> LimitRow {
        LimitRow {
            name: it.name.clone(),
            limit: it.limit,
            period_ms: it.period_ms,
            since: it.since,
        }
    }
}

impl From<&LimitRow> for Limit {
    fn from(it: &LimitRow) -> Limit {
        Limit {
            name: it.name.clone(),
            limit: it.limit,
            period_ms: it.period_ms,
            since: it.since,
        }
    }
}

/// The limits of a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Limits)]
pub struct LimitList {
    /// The number of the configuration that they are part of.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub number: u64,
    /// The limits, by name.
    pub limits: Vec<LimitRow>,
}

/// The present period of a key, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Period)]
pub struct PeriodRow {
    /// The key.
    pub key: String,
    /// The limit that covers it.
    pub name: String,
    /// How much is allowed in a period, in the whole mesh.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub limit: u64,
    /// The amount that is left of it.
    pub left: HoldingRow,
    /// When the period began, in milliseconds since 1970, by this node's clock.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub begins: u64,
    /// When it is over.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub ends: u64,
}

impl PeriodRow {
    /// The row of the present period of a key.
    pub fn new(key: &str, it: Period) -> PeriodRow {
        PeriodRow {
            key: key.to_owned(),
            name: it.limit.name,
            limit: it.limit.limit,
            left: it.left.into(),
            begins: it.begins,
            ends: it.ends,
        }
    }
}

//! The rows that show counters and their shards, and what selects the counters of a list.

use super::decimal::hex_digits;
use super::{BudgetRow, Decimal, SequenceRow, decimal, decimal_if_any};
use serde::{Serialize, Serializer};
use tallymesh_core::Shard;
use utoipa::ToSchema;

/// The value of a counter that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Reading {
    /// Its value.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub value: i128,
    /// When it expires, in milliseconds since 1970.
    #[schema(value_type = Decimal, required = false)]
    #[serde(
        serialize_with = "decimal_if_any",
        skip_serializing_if = "Option::is_none"
    )]
    pub expires_at: Option<u64>,
}

/// A counter that exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Counter {
    /// Its key.
    pub key: String,
    /// Its value and expiry.
    #[serde(flatten)]
    pub now: Reading,
}

/// A counter that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its key.
    pub key: String,
    /// Its value and expiry; `None` if the counter has become absent.
    pub now: Option<Reading>,
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Absent<'a> {
            key: &'a str,
            value: (),
        }
        match self.now {
            Some(now) => {
                let key = self.key.clone();
                Counter { key, now }.serialize(serializer)
            }
            None => {
                let key = self.key.as_str();
                Absent { key, value: () }.serialize(serializer)
            }
        }
    }
}

/// Selects the counters of a list.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Only keys with this prefix.
    pub prefix: String,
    /// Only keys after this one, by their bytes.
    pub after: Option<String>,
    /// Most counters to return.
    pub limit: usize,
}

impl Query {
    /// Whether the query selects a key.
    pub fn wants(&self, key: &str) -> bool {
        let after = self.after.as_deref();
        key.starts_with(&self.prefix) && after.is_none_or(|after| key > after)
    }
}

/// Counters by key, and where the next page begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Page {
    /// The counters, sorted by the bytes of their keys.
    pub counters: Vec<Counter>,
    /// The key to ask for the next page with, if there may be more.
    #[schema(required)]
    pub next: Option<String>,
}

/// Counters, budgets and sequences that changed together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The counters.
    pub counters: Vec<Change>,
    /// The budgets, without who holds what.
    pub budgets: Vec<BudgetRow>,
    /// The sequences.
    pub sequences: Vec<SequenceRow>,
}

/// One part of the changes since a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedPart {
    /// The changes, perhaps with some entries that did not change.
    pub changes: Changes,
    /// Where the next part begins, if there is one.
    pub next: Option<u32>,
}

/// One writer's shard of a counter.
#[derive(ToSchema)]
#[schema(as = Shard)]
#[expect(dead_code, reason = "it describes a type of the core")]
pub struct ShardRow {
    /// The writer.
    writer: String,
    /// Its clock when it last changed the counter.
    #[schema(value_type = Decimal)]
    clock: u64,
    /// The sum of what it added.
    #[schema(value_type = Decimal)]
    total: i128,
}

/// The shards of counters, and where the next page begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AuditPage {
    /// The digest of the version vector. Replicas with an equal digest must show the same values.
    #[serde(serialize_with = "hex_digits")]
    #[schema(value_type = String)]
    pub digest: [u8; 16],
    /// The counters, sorted by the bytes of their keys.
    pub counters: Vec<Audited>,
    /// The key to ask for the next page with, if there may be more.
    pub next: Option<String>,
}

/// All shards of one counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Audited {
    /// Its key.
    pub key: String,
    /// Its shards, by writer.
    #[schema(value_type = Vec<ShardRow>)]
    pub shards: Vec<Shard>,
}

//! The rows that show sequences of numbers.

use super::{Decimal, decimal, decimal_if_any};
use crate::identity::OwnerKey;
use serde::Serialize;
use utoipa::ToSchema;

/// A sequence of numbers, each of which is handed out at most once in the whole mesh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Sequence)]
pub struct SequenceRow {
    /// Its name.
    pub key: String,
    /// The lowest number that no member has been given yet, as far as this node can tell.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub next: u64,
    /// How many numbers were handed out, at least. The other numbers below `next` are held or lost,
    /// and may have been handed out, too.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub issued: u64,
    /// How many numbers were lost, including those of the gaps.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub lost: u64,
    /// Numbers that members were given and may not have handed out yet, ascending.
    pub held: Vec<HeldRow>,
    /// The last numbers that were lost with the process that held them, ascending. No member hands
    /// them out any more. Some of them may have been handed out before.
    pub gaps: Vec<GapRow>,
    /// The numbers that are watched, ascending.
    pub watched: Vec<WatchRow>,
}

/// A number that is watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Watch)]
pub struct WatchRow {
    /// The number. A notice may arrive more than once, and the number with the sequence's name
    /// identifies it.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub number: u64,
    /// `open` until it was `handed_out` or is `lost`. `passed` if a member that did not have the
    /// watch yet handed it out, or if it was lost long ago.
    pub state: &'static str,
    /// The writer that handed it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub writer: Option<String>,
    /// The key of that writer's member, if this node has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false)]
    pub owner: Option<OwnerKey>,
    /// Whether this node handed it out since it was started.
    pub own: bool,
    /// At most how many lower numbers were neither handed out nor lost at that time.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "decimal_if_any"
    )]
    #[schema(value_type = Decimal, nullable = false)]
    pub below: Option<u64>,
}

/// Numbers that a member was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Held)]
pub struct HeldRow {
    /// The first of them.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub first: u64,
    /// The last of them.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub last: u64,
    /// The writer that hands them out.
    pub writer: String,
    /// The member's key, if this node has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false)]
    pub owner: Option<OwnerKey>,
    /// Whether that is this node's present writer.
    pub own: bool,
}

/// Numbers that no member hands out any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Gap)]
pub struct GapRow {
    /// The first of them.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub first: u64,
    /// The last of them.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub last: u64,
}

/// Sequences by name, and where the next page begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SequencePage {
    /// The sequences, sorted by the bytes of their names.
    pub sequences: Vec<SequenceRow>,
    /// The name after which the next page begins, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next: Option<String>,
}

//! The rows that show sequences of numbers.

use super::Query;
use super::answers::{Decimal, decimal, decimal_if_any};
use super::space::OpenSpace;
use crate::identity::OwnerKey;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use tallymesh_core::{Reached, Sequence, WriterId};
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

fn ends(range: &Range<u64>) -> (u64, u64) {
    (range.start, range.end.saturating_sub(1))
}

impl OpenSpace {
    /// A sequence; `None` if there is none of this name.
    pub(super) fn sequence(&self, key: &str) -> Option<SequenceRow> {
        let Sequence {
            next,
            issued,
            held,
            gaps,
            lost,
            watched,
        } = self.replica.quota().sequence(key)?;
        let roster = self.replica.members().writer_table();
        let owners = roster.filter_map(|it| Some((it.writer, OwnerKey(it.owner?))));
        let owners: HashMap<WriterId, OwnerKey> = owners.collect();
        let own = self.replica.writer();
        let in_gaps: u64 = gaps.iter().map(|it| it.end - it.start).sum();
        let held = held.into_iter().map(|(range, writer)| {
            let (first, last) = ends(&range);
            HeldRow {
                first,
                last,
                writer: writer.to_string(),
                owner: owners.get(&writer).copied(),
                own: writer == own,
            }
        });
        let gaps = gaps.iter().map(|range| {
            let (first, last) = ends(range);
            GapRow { first, last }
        });
        let watched = watched.into_iter().map(|it| {
            let (state, by, below) = match it.reached {
                Reached::NotYet => ("open", None, None),
                Reached::HandedOut { by, below } => ("handed_out", Some(by), Some(below)),
                Reached::Passed => ("passed", None, None),
                Reached::Lost => ("lost", None, None),
            };
            WatchRow {
                number: it.number,
                state,
                writer: by.map(|by| by.to_string()),
                owner: by.and_then(|by| owners.get(&by).copied()),
                own: by == Some(own),
                below,
            }
        });
        Some(SequenceRow {
            key: key.to_owned(),
            next,
            issued,
            lost: lost + in_gaps,
            held: held.collect(),
            gaps: gaps.collect(),
            watched: watched.collect(),
        })
    }

    /// The first sequences by name that the query selects.
    pub(super) fn sequences(&self, query: &Query) -> SequencePage {
        let mut names: BTreeSet<String> = BTreeSet::new();
        let mut more = false;
        self.replica.quota().each_sequence(&mut |name| {
            if query.wants(name) {
                names.insert(name.to_owned());
            }
            if names.len() > query.limit {
                names.pop_last();
                more = true;
            }
        });
        let next = names.last().filter(|_| more).cloned();
        SequencePage {
            sequences: names
                .iter()
                .filter_map(|name| self.sequence(name))
                .collect(),
            next,
        }
    }
}

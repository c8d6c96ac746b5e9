//! The members of a space, and the changes of them that can be requested.

use super::{Decimal, LimitRow, MemberName, decimal, decimal_if_any};
use crate::identity::OwnerKey;
use serde::Serialize;
use std::ops::Deref;
use std::sync::Arc;
use tallymesh_core::{Configuration, Fate, Limit, Listed, Owner, WriterId};
use utoipa::ToSchema;

/// The members of each open space, by its place in the configuration; `None` for a space without
/// members.
pub type MemberLists = Arc<[Option<MemberList>]>;

/// The writer under which this node writes in each open space, by its place in the configuration.
pub type OwnWriters = Arc<[WriterId]>;

/// The members of a space, ascending, with the configuration that names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberList {
    /// The era of the configuration and its number.
    pub at: (u64, u64),
    /// The owners that are members.
    pub owners: Arc<[OwnerKey]>,
    /// The previous configurations, the oldest first. A busy reader must not miss a member that was
    /// one only for a moment.
    pub earlier: Earlier,
}

/// Configurations, each with its era, its number and its members.
pub(crate) type Earlier = Arc<[((u64, u64), Arc<[OwnerKey]>)]>;

/// Most previous configurations that are passed on.
const EARLIER_MAX: usize = 16;

impl MemberList {
    /// This list as the successor of another one.
    pub fn after(self, before: Option<&MemberList>) -> MemberList {
        let Some(before) = before.filter(|before| before.at != self.at) else {
            let earlier = before.map_or_else(Earlier::default, |before| before.earlier.clone());
            return MemberList { earlier, ..self };
        };
        let skipped = before.earlier.len().saturating_sub(EARLIER_MAX - 1);
        let last = (before.at, before.owners.clone());
        let earlier = before.earlier.iter().skip(skipped).cloned().chain([last]);
        MemberList {
            earlier: earlier.collect(),
            ..self
        }
    }
}

impl Deref for MemberList {
    type Target = [OwnerKey];

    fn deref(&self) -> &[OwnerKey] {
        &self.owners
    }
}

/// A change of the members, or of the limits for each period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// Makes an owner a member.
    Add(OwnerKey),
    /// Makes an owner a member by a ticket. The ticket was judged by the configuration of this era
    /// and number, because later ones may have removed its issuer.
    Admit(OwnerKey, (u64, u64)),
    /// Removes an owner from the members.
    Remove(OwnerKey),
    /// Sets a limit for each period.
    SetLimit(LimitRow),
    /// Removes the rate limit of this name.
    RemoveLimit(String),
}

impl MemberChange {
    /// Whether a configuration already has the result of this change.
    pub fn is_in(&self, present: &ConfigurationRow) -> bool {
        let (members, mut limits) = (&present.members, present.limits.iter());
        match self {
            MemberChange::Add(owner) | MemberChange::Admit(owner, _) => {
                members.binary_search(owner).is_ok()
            }
            MemberChange::Remove(owner) => members.binary_search(owner).is_err(),
            MemberChange::SetLimit(limit) => limits.any(|it| {
                (&it.name, it.limit, it.period_ms) == (&limit.name, limit.limit, limit.period_ms)
            }),
            MemberChange::RemoveLimit(name) => limits.all(|it| it.name != *name),
        }
    }

    /// The rate limits after it, if it changes them.
    pub fn limits_after(&self, present: &ConfigurationRow) -> Option<Vec<Limit>> {
        let (name, new) = match self {
            MemberChange::SetLimit(limit) => (&limit.name, Some(Limit::from(limit))),
            MemberChange::RemoveLimit(name) => (name, None),
            MemberChange::Add(_) | MemberChange::Admit(..) | MemberChange::Remove(_) => {
                return None;
            }
        };
        let others = present.limits.iter().filter(|it| it.name != *name);
        let mut limits: Vec<Limit> = others.map(Limit::from).chain(new).collect();
        limits.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Some(limits)
    }

    /// Whether it was judged by another configuration than this.
    pub fn is_stale(&self, present: &ConfigurationRow) -> bool {
        matches!(self, MemberChange::Admit(_, at) if *at != (present.era, present.number))
    }

    /// The members after it.
    pub fn applied_to(&self, members: &[OwnerKey]) -> Vec<Owner> {
        let mut members: Vec<Owner> = members.iter().map(|owner| owner.0).collect();
        match self {
            MemberChange::Add(owner) | MemberChange::Admit(owner, _) => members.push(owner.0),
            MemberChange::Remove(owner) => members.retain(|member| *member != owner.0),
            MemberChange::SetLimit(_) | MemberChange::RemoveLimit(_) => {}
        }
        members.sort_unstable();
        members.dedup();
        members
    }
}

/// The writers that are to be declared dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retiree {
    /// One writer.
    Writer(WriterId),
    /// All living writers of an owner that is no member.
    Owner(OwnerKey),
}

/// One member as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct MemberRow {
    /// Its owner's key, as 64 hex digits.
    pub owner: OwnerKey,
    /// The writer of its newest start, as 32 hex digits; `None` if this node has received none.
    pub writer: Option<String>,
    /// This node has everything of that writer up to this clock.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub clock: u64,
    /// How many transactions of members that this node has it has not acknowledged yet.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub behind: u64,
    /// The last address at which this node reached the member's node, or from which that came. Before that, one
    /// from the address book; left out if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub address: Option<String>,
    /// Whether some other member may not have received its newest start yet.
    pub unsure: bool,
    /// Whether it is this node.
    pub own: bool,
    /// Whether this node reaches it: something came in the last 30 s if a link leads to it, and else in the last 5 s.
    pub reached: bool,
    /// Milliseconds since anything arrived from it, over its own link or through others. `None` if
    /// nothing has arrived since this node was started.
    pub last_heard_ms: Option<u64>,
}

/// A configuration of members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ConfigurationRow {
    /// How many forced changes there were before it.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub era: u64,
    /// Its number, from 1.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub number: u64,
    /// The owners' keys, ascending.
    pub members: Vec<OwnerKey>,
    /// The limits for each period, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub limits: Vec<LimitRow>,
}

impl From<&Configuration> for ConfigurationRow {
    fn from(it: &Configuration) -> ConfigurationRow {
        ConfigurationRow {
            era: it.era,
            number: it.number,
            members: it.members.iter().copied().map(OwnerKey).collect(),
            limits: it.limits.iter().map(LimitRow::from).collect(),
        }
    }
}

/// Most writers of a kind that are listed beside the members.
pub const LISTED_MAX: usize = 100;

/// The members of a space as this node sees them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Membership {
    /// This node's own key.
    pub owner: OwnerKey,
    /// Whether this node is a member.
    pub member: bool,
    /// Whether this start of the node votes on changes, and counts for the levels `quorum` and `all`.
    pub votes: bool,
    /// Whether a change of the members can be decided, as far as this node can tell: it votes itself if it is a
    /// member, and reaches enough others for a majority. True while the space is open.
    pub decides: bool,
    /// Whether this start of the node takes part. A member announces itself once it has caught up
    /// with others, or could not for 5 s. Always true for a node that is not to be a member.
    pub announced: bool,
    /// The present configuration; `None` while the space is open.
    pub configuration: Option<ConfigurationRow>,
    /// Its members.
    pub members: Vec<MemberRow>,
    /// The writers that this node sponsors: guests, and nodes that are no members. At most 100 are
    /// listed.
    pub attached: Vec<String>,
    /// How many writers this node sponsors in all.
    pub attached_count: usize,
    /// Writers that are gone and have not been retired yet. At most 100 are listed.
    pub waiting: Vec<String>,
    /// How many of these writers there are in all.
    pub waiting_count: usize,
    /// How many of them this node can't take over, because their totals do not fit into its own.
    pub stuck: usize,
    /// The members of a change that was proposed here, until it is decided.
    pub proposal: Option<Vec<OwnerKey>>,
    /// While a decision is pending: the members that have not answered, as far as this node can
    /// tell.
    pub unanswered: Vec<OwnerKey>,
}

impl Membership {
    /// How texts name these members.
    pub fn named(&self, owners: &[OwnerKey]) -> Vec<MemberName> {
        let named = |owner: &OwnerKey| MemberName {
            owner: *owner,
            address: {
                let row = self.members.iter().find(|row| row.owner == *owner);
                row.and_then(|row| row.address.clone())
            },
        };
        owners.iter().map(named).collect()
    }
}

/// The state of a writer that was to be declared dead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Retirement {
    /// The writer, as 32 hex digits.
    pub writer: String,
    /// `absorbed` once its totals have been taken over, `dead` until then.
    pub fate: &'static str,
    /// Once it is absorbed: the last of its clocks that counts.
    #[schema(value_type = Decimal, required = false)]
    #[serde(
        serialize_with = "decimal_if_any",
        skip_serializing_if = "Option::is_none"
    )]
    pub upto: Option<u64>,
}

/// A writer was retired, and its totals were taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Absorption {
    /// The writer, as 32 hex digits.
    pub writer: String,
    /// Its successor, the writer that has taken its totals over.
    pub heir: Option<String>,
}

/// The word for the state of a writer.
pub fn fate(it: &Listed) -> &'static str {
    match it.fate {
        Fate::Living => "living",
        Fate::Left => "left",
        Fate::Dead => "dead",
        Fate::Absorbed => "absorbed",
    }
}

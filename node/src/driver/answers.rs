//! The answers of the driver, and their form in JSON. Numbers of 64 bits and more are decimal
//! strings, because JavaScript's numbers are exact only up to 2^53.

use super::budgets::BudgetRow;
use super::leases::LeaseRow;
use super::limits::PeriodRow;
use super::membership::{Absorption, ConfigurationRow, Membership};
use super::origins::Origin;
use super::position::Position;
use super::sequences::SequenceRow;
use crate::handle::PeerKind;
use crate::identity::OwnerKey;
use crate::trust::Role;
use serde::{Serialize, Serializer};
use std::fmt::Display;
use std::sync::Arc;
use tallymesh_core::{Evidence, Fault, LinkStatus, Shard};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

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

/// A writer id that two processes wrote under, or whose shards were damaged, with the evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FaultReport {
    /// When the fault was found, in milliseconds since 1970, by the node's clock.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub at: u64,
    /// The kind of evidence:
    ///
    /// - `totals`: two shards with this clock differ.
    /// - `late`: something with this clock arrived although this node had everything up to it.
    /// - `contents`: two digests of everything up to this clock differ.
    /// - `ahead`: this node received this clock of the writer, and the writer itself reports that
    ///   it has not reached it.
    /// - `overdrawn`: more was taken from the writer's part of a budget than was ever there.
    pub kind: &'static str,
    /// The writer, as 32 hex digits.
    pub writer: String,
    /// The clock.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub clock: u64,
    /// The counter or budget with the fault, if the fault is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The total, the digest, the clock or the rights that this node stored.
    #[serde(
        serialize_with = "decimal_if_any",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Decimal, required = false)]
    pub ours: Option<i128>,
    /// The total or the digest that this node received.
    #[serde(
        serialize_with = "decimal_if_any",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Decimal, required = false)]
    pub theirs: Option<i128>,
    /// The link that first brought the stored content, if this node has recorded it since its
    /// start. For a clock of the node's own writer, it is the link that contradicts the node. The
    /// node at its other end may have received the content from another.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Origin, required = false)]
    pub brought_by: Option<Arc<Origin>>,
    /// The link whose peer contradicts the stored content, if it was not this node itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Origin, required = false)]
    pub denied_by: Option<Arc<Origin>>,
    /// The side that contradicts the writer's own node, if this node can tell which one it is. The
    /// peer on that side may only have passed the content on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Side, required = false)]
    pub suspect: Option<Side>,
    /// How often the same peer has shown a fault of this kind and writer.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub times: u64,
}

/// One of the two sides of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The link that first brought the stored content.
    BroughtBy,
    /// The link that contradicts the stored content.
    DeniedBy,
}

impl FaultReport {
    pub(super) fn of(
        fault: &Fault,
        [brought_by, denied_by]: [Option<Arc<Origin>>; 2],
        at: u64,
    ) -> FaultReport {
        let (kind, key, ours, theirs) = match &fault.evidence {
            Evidence::Totals { key, ours, theirs } => {
                ("totals", Some(key.to_string()), Some(*ours), Some(*theirs))
            }
            Evidence::Late { key } => ("late", Some(key.to_string()), None, None),
            Evidence::Contents { ours, theirs } => {
                let [ours, theirs] = [ours, theirs].map(|digest| Some(i128::from(*digest)));
                ("contents", None, ours, theirs)
            }
            Evidence::Ahead { own } => ("ahead", None, Some(i128::from(*own)), None),
            Evidence::Overdrawn { name, held } => {
                ("overdrawn", Some(name.to_string()), Some(*held), None)
            }
        };
        FaultReport {
            at,
            kind,
            writer: fault.writer.to_string(),
            clock: fault.clock,
            key,
            ours,
            theirs,
            brought_by,
            denied_by,
            suspect: None,
            times: 1,
        }
    }

    /// The link on one side of the fault.
    pub fn side(&self, side: Side) -> Option<&Origin> {
        let link = match side {
            Side::BroughtBy => &self.brought_by,
            Side::DeniedBy => &self.denied_by,
        };
        link.as_deref()
    }
}

/// The node continues under another writer id in a space, because another process writes under the
/// earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Renewal {
    /// The earlier writer, as 32 hex digits.
    pub was: String,
    /// The present writer, as 32 hex digits.
    pub writer: String,
}

/// The node rejoined a space in which its writer had been retired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comeback {
    /// The present writer, as 32 hex digits.
    pub writer: String,
    /// How many transactions of the earlier writer were made again.
    pub again: usize,
    /// The first and the last clock of the earlier writer's transactions that may or may not count.
    /// They were sent, and no member can tell whether they arrived.
    pub unknown: Option<(u64, u64)>,
    /// How many resets, deletes and sets cancel less now than they had observed. The rest is part
    /// of totals that other writers have taken over.
    pub weaker: usize,
    /// How many transactions spent rights that this node does not have now. They do not count.
    pub refused: usize,
}

/// An event for the readers of an event stream.
#[derive(Clone, Debug)]
pub enum News {
    /// These counters, budgets and sequences changed together. A reader of this event has received
    /// every change up to the position.
    Changed(Arc<Changes>, Position),
    /// A fault was found.
    Fault(Arc<FaultReport>),
    /// The node continues under another writer id.
    Renewed(Arc<Renewal>),
    /// The node rejoined under the writer id of the last `Renewed`.
    Returned(Arc<Comeback>),
    /// The space has these members from now on.
    Members(Arc<ConfigurationRow>),
    /// A writer was retired, and its successor has taken its totals over.
    Absorbed(Arc<Absorption>),
}

/// One entry of the version vector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct WriterRow {
    /// The writer, as 32 hex digits.
    pub writer: String,
    /// This node has everything of the writer up to this clock.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub clock: u64,
    /// Whether this node has written under it since the node was started.
    pub own: bool,
    /// Only in a space with members: the state of the writer, which is `living`, `left`, `dead` or
    /// `absorbed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fate: Option<&'static str>,
    /// The key of its owner, if it is or was a writer of a member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerKey>,
    /// Its sponsor: the writer of the member that admitted it, if a member has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// Its successor: the writer that takes over or took over its totals, once it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heir: Option<String>,
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
    pub(super) fn wants(&self, key: &str) -> bool {
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
pub(crate) struct ShardRow {
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

/// The state of one space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SpaceStatus {
    /// Its name.
    pub space: String,
    /// The node's role in the space, if its tickets give it less than a member's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The writer id of this start of the node, as 32 hex digits.
    pub writer: String,
    /// The clock of that writer.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub clock: u64,
    /// How many counters exist.
    pub counters: usize,
    /// How many of them expire.
    pub expiring: usize,
    /// How many shards they have.
    pub shards: usize,
    /// Bytes that keys take in the table of keys, which has room for at most 2^32.
    pub key_bytes: usize,
    /// How many writers this node has a record of.
    pub writers: usize,
    /// The digest of the version vector, as 32 hex digits: equal at replicas with the same state.
    pub digest: String,
    /// The digest of the contents, as 16 hex digits. With equal vectors it differs only where a
    /// writer was forked.
    pub contents: String,
    /// How often this node found that two processes had used one writer id.
    pub faults: u64,
    /// The evidence of the newest faults that differ, the oldest first; a bounded number for each
    /// peer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<FaultReport>,
    /// How often the node continued under another writer id since its start, because of such
    /// faults.
    pub renewals: u64,
    /// How many operations under idempotency keys are remembered.
    pub keyed: usize,
    /// How many adds this node has withdrawn since it started, because another node had made them
    /// under the same idempotency key.
    pub withdrawn: u64,
    /// The members, if the space has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub membership: Option<Membership>,
}

impl SpaceStatus {
    /// Whether the node takes part in the space. A member does so once it has caught up with the
    /// others and announced its start. Every other node does so at once.
    pub fn takes_part(&self) -> bool {
        let waits = |it: &Membership| !it.announced;
        !self.membership.as_ref().is_some_and(waits)
    }
}

/// How far the exchange between two replicas has come on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// The peer has not sent its hello yet; it may not have the space open.
    Greeting,
    /// This node lacks something, and requested it on this link.
    Pulling,
    /// This node lacks nothing that other nodes have announced to it.
    Ready,
}

impl LinkState {
    pub(super) fn of(status: &LinkStatus) -> LinkState {
        match (&status.agent, status.pulling) {
            (None, _) => LinkState::Greeting,
            (Some(_), true) => LinkState::Pulling,
            (Some(_), false) => LinkState::Ready,
        }
    }
}

/// The state of one link in one space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LinkRow {
    /// Its number.
    pub link: u32,
    /// The name of the other end: a libp2p peer id, or `ws-N`.
    pub peer: String,
    /// The kind of peer at the other end.
    pub kind: PeerKind,
    /// The space.
    pub space: String,
    /// How far the exchange has come.
    pub state: LinkState,
    /// The program at the other end, as it calls itself.
    pub agent: Option<String>,
    /// Milliseconds since this node last received a frame on the link, if it received one.
    pub last_heard_ms: Option<u64>,
    /// Bytes of frames received on this link.
    pub bytes_in: u64,
    /// Bytes of frames sent on this link.
    pub bytes_out: u64,
}

/// The JSON form of a number of 64 bits and more.
pub struct Decimal;

impl ToSchema for Decimal {}

impl PartialSchema for Decimal {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("A whole number as a decimal string."))
            .pattern(Some("^-?[0-9]+$"))
            .examples(["12"])
            .into()
    }
}

/// Writes a digest as hex digits.
fn hex_digits<S: Serializer>(digest: &[u8; 16], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{:032x}", u128::from_be_bytes(*digest)))
}

/// Writes a number as a decimal string.
pub(crate) fn decimal<S: Serializer>(
    number: &impl Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

pub(crate) fn decimal_if_any<S: Serializer>(
    number: &Option<impl Display>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => decimal(number, serializer),
        None => serializer.serialize_none(),
    }
}

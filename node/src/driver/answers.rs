//! What the driver answers, and how it looks in JSON: numbers of 64 bits and more are decimal
//! strings, since JavaScript's numbers end at 2^53.

use super::OwnerKey;
use super::budgets::BudgetRow;
use super::leases::LeaseRow;
use super::limits::PeriodRow;
use super::membership::{Absorption, ConfigurationRow, Membership};
use super::origins::Origin;
use super::position::Position;
use super::sequences::SequenceRow;
use crate::handle::PeerKind;
use crate::trust::Role;
use serde::{Serialize, Serializer};
use std::fmt::Display;
use std::sync::Arc;
use tallymesh_core::{Evidence, Fault, LinkStatus, Shard};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// What a counter that exists shows.
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
    /// What it shows.
    #[serde(flatten)]
    pub now: Reading,
}

/// A counter that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its key.
    pub key: String,
    /// What it shows; `None` if it has become absent.
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

/// What became of one operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Done {
    /// The counter, or the budget.
    pub key: String,
    /// Whether the counter existed just before; not told of a `persist`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub existed: Option<bool>,
    /// Of a `persist`: whether there was an expiry to take away.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub had_expiry: Option<bool>,
    /// What it shows after the whole transaction; `None` if it is absent.
    #[schema(value_type = ReadingIfAny)]
    #[serde(flatten)]
    pub now: Option<Reading>,
    /// Of an operation on a budget: what that comes to after the whole transaction; of a transfer, the
    /// one that was spent from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub budget: Option<BudgetRow>,
    /// Of a transfer: the budgets that were paid into, in their order.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub to: Option<Vec<BudgetRow>>,
    /// Of a `lease`: what is left of it. Not told of one that was given before, and has come to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub lease: Option<LeaseRow>,
    /// Of an `allow`: the period that it is in, after the whole transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub period: Option<PeriodRow>,
    /// Of a `next`: whether the number that was handed out was watched; left out if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub watched: bool,
    /// Of a `next`: the number that was handed out, from 1 on.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "decimal_if_any"
    )]
    #[schema(value_type = Decimal, nullable = false)]
    pub number: Option<u64>,
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transacted {
    /// What became of each operation, in their order.
    pub done: Vec<Done>,
    /// Whether it had been made before, under its idempotency key: then `done` tells what the counters
    /// show now, and not what was there before.
    pub again: bool,
}

/// How the reading of a counter that may be absent looks in JSON: its fields, or none.
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

/// A writer id that two processes wrote under, or whose shards have rotted, with the evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FaultReport {
    /// When it showed, in milliseconds since 1970, by the node's clock.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub at: u64,
    /// What the evidence is: `totals`, two shards of this clock that differ; `late`, something of
    /// this clock that came although everything up to it was held; `contents`, two digests of all up
    /// to this clock; `ahead`, this clock of the writer, which had not come to it by its own word;
    /// `overdrawn`, more was taken from what the writer held of a budget than was ever there.
    pub kind: &'static str,
    /// The writer, as 32 hex digits.
    pub writer: String,
    /// The clock.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub clock: u64,
    /// The counter or budget where it showed, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The total, the digest, the clock or the rights that were held here.
    #[serde(
        serialize_with = "decimal_if_any",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Decimal, required = false)]
    pub ours: Option<i128>,
    /// The total or the digest that came.
    #[serde(
        serialize_with = "decimal_if_any",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Decimal, required = false)]
    pub theirs: Option<i128>,
    /// The link that first brought what is held here, if this node knows since it started. For a clock of
    /// the node's own writer it is the link that contradicts it, whose node may have it from another.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Origin, required = false)]
    pub brought_by: Option<Arc<Origin>>,
    /// The link whose peer said otherwise, if it was not this node itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Origin, required = false)]
    pub denied_by: Option<Arc<Origin>>,
    /// The side that contradicts the writer's own node, if this node knows which that is. That side may have
    /// passed on what another made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Side, required = false)]
    pub suspect: Option<Side>,
    /// How often the peer that showed it has shown the like: of this kind and writer.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub times: u64,
}

/// One of the two sides of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The link that first brought what is held.
    BroughtBy,
    /// The link that contradicts it.
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

    /// The link at one of its sides.
    pub fn side(&self, side: Side) -> Option<&Origin> {
        let link = match side {
            Side::BroughtBy => &self.brought_by,
            Side::DeniedBy => &self.denied_by,
        };
        link.as_deref()
    }
}

/// The node goes on under another writer id in a space, since somebody else writes under the former.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Renewal {
    /// The former writer, as 32 hex digits.
    pub was: String,
    /// The present writer, as 32 hex digits.
    pub writer: String,
}

/// The node came back in a space where its writer had been retired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comeback {
    /// The present writer, as 32 hex digits.
    pub writer: String,
    /// How many of the former writer's transactions were made again.
    pub again: usize,
    /// The first and the last clock of transactions of the former writer of which it is not known
    /// whether they count: they were sent, and nobody remembers whether they arrived.
    pub unknown: Option<(u64, u64)>,
    /// Resets, deletes and sets that cancel less now than they had seen: the rest is part of what
    /// others have taken over.
    pub weaker: usize,
    /// Transactions that spent of a budget what is not held here now. They do not count.
    pub refused: usize,
}

/// What the readers of events are told.
#[derive(Clone, Debug)]
pub enum News {
    /// These counters, budgets and sequences changed together; whoever has heard of that has heard of everything
    /// up to the position.
    Changed(Arc<Changes>, Position),
    /// A fault was found.
    Fault(Arc<FaultReport>),
    /// The node goes on under another writer id.
    Renewed(Arc<Renewal>),
    /// The node came back under the writer id that was told of last.
    Returned(Arc<Comeback>),
    /// The space has these members from now on.
    Members(Arc<ConfigurationRow>),
    /// A writer was absorbed.
    Absorbed(Arc<Absorption>),
}

/// One entry of the version vector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct WriterRow {
    /// The writer, as 32 hex digits.
    pub writer: String,
    /// Everything of it up to this clock is held here.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub clock: u64,
    /// Whether this node writes under it since it was started.
    pub own: bool,
    /// In a space with members what became of it: `living`, `left`, `dead` or `absorbed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fate: Option<&'static str>,
    /// Whose it is, if it is or was a member's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerKey>,
    /// The member that speaks for it, if a member has taken it in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// Who takes over or took over, once it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heir: Option<String>,
}

/// Which counters to list.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Only keys that begin so.
    pub prefix: String,
    /// Only keys after this one, by their bytes.
    pub after: Option<String>,
    /// Most counters to return.
    pub limit: usize,
}

impl Query {
    /// Whether a key is one of them.
    pub(super) fn wants(&self, key: &str) -> bool {
        let after = self.after.as_deref();
        key.starts_with(&self.prefix) && after.is_none_or(|after| key > after)
    }
}

/// Counters by key, and where to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Page {
    /// The counters, sorted by the bytes of their keys.
    pub counters: Vec<Counter>,
    /// The key to ask for the next page with, if there may be more.
    #[schema(required)]
    pub next: Option<String>,
}

/// What changed together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The counters.
    pub counters: Vec<Change>,
    /// The budgets, without who holds what.
    pub budgets: Vec<BudgetRow>,
    /// The sequences.
    pub sequences: Vec<SequenceRow>,
}

/// A part of what changed since a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedPart {
    /// What changed, and perhaps some that did not.
    pub changes: Changes,
    /// Where to go on, if there are more.
    pub next: Option<u32>,
}

/// What one writer says of a counter.
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

/// What every writer says of counters, and where to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AuditPage {
    /// The digest of the version vector. Replicas of which it is equal must show the same.
    #[serde(serialize_with = "hex_digits")]
    #[schema(value_type = String)]
    pub digest: [u8; 16],
    /// The counters, sorted by the bytes of their keys.
    pub counters: Vec<Audited>,
    /// The key to ask for the next page with, if there may be more.
    pub next: Option<String>,
}

/// What every writer says of one counter.
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
    /// What the node may do here, if its tickets let it do less than a member.
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
    /// Bytes that keys take in the table of keys, which holds at most 2^32.
    pub key_bytes: usize,
    /// How many writers are known.
    pub writers: usize,
    /// The digest of the version vector, as 32 hex digits: equal at replicas that hold the same.
    pub digest: String,
    /// The digest of the contents, as 16 hex digits: with equal vectors it differs only where a
    /// writer was forked.
    pub contents: String,
    /// How often it showed that a writer id was used by two processes.
    pub faults: u64,
    /// The evidence of the newest of these that differ, the oldest first: of each peer so many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<FaultReport>,
    /// How often the node went on under another writer id since it started, because of that.
    pub renewals: u64,
    /// How many operations under idempotency keys are remembered.
    pub keyed: usize,
    /// How many adds this node has withdrawn since it started, as another node had taken them under
    /// the same key.
    pub withdrawn: u64,
    /// The members, if the space has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub membership: Option<Membership>,
}

impl SpaceStatus {
    /// Whether the node does its part here: a member does so once it has caught up with others and
    /// announced its start, all else at once.
    pub fn takes_part(&self) -> bool {
        let waits = |it: &Membership| !it.announced;
        !self.membership.as_ref().is_some_and(waits)
    }
}

/// How far two replicas have come on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// The other end has not greeted yet; it may not have the space open.
    Greeting,
    /// Something is missing here, and this link was asked for it.
    Pulling,
    /// Nothing is known to be missing.
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
    /// What is at the other end.
    pub kind: PeerKind,
    /// The space.
    pub space: String,
    /// How far the two have come.
    pub state: LinkState,
    /// The program at the other end, as it calls itself.
    pub agent: Option<String>,
    /// Milliseconds since the last frame came from there, if one did.
    pub last_heard_ms: Option<u64>,
    /// Bytes of frames that came from there on this link.
    pub bytes_in: u64,
    /// Bytes of frames that went there on this link.
    pub bytes_out: u64,
}

/// How a number of 64 bits and more looks in JSON.
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

//! Writer ids that two processes wrote under, or whose shards were damaged, with the evidence.

use super::{Decimal, PeerKind, decimal, decimal_if_any};
use crate::identity::OwnerKey;
use serde::Serialize;
use std::sync::Arc;
use tallymesh_core::{Evidence, Fault};
use utoipa::ToSchema;

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
    /// The row of a fault.
    pub fn of(
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

/// The peer that is, or was, at the other end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Origin {
    /// The link's number, as in `GET /v1/peers`.
    pub link: u32,
    /// The name of the other end: a libp2p peer id, `ws-N` or `post-N`.
    pub peer: String,
    /// The peer at the other end.
    pub kind: PeerKind,
    /// The key that it has proved to be its owner's, as 64 hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerKey>,
    /// Its address, as this node saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The id of the ticket that it showed, if it used HTTP with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
}

impl Origin {
    /// The name that distinguishes it from others: its ticket, its owner, or its machine's
    /// address.
    pub fn party(&self) -> String {
        let machine = || {
            self.address
                .as_deref()?
                .rsplit_once(':')
                .map(|it| it.0.to_owned())
        };
        let owner = self.owner.map(|it| it.to_string());
        let party = self.ticket.clone().or(owner).or_else(machine);
        party.unwrap_or_else(|| self.peer.clone())
    }
}

//! Rights, numbers and shares of limits that a member holds which is away, so that nobody can use them.

use super::{Decimal, MemberName, decimal};
use crate::identity::OwnerKey;
use serde::Serialize;
use std::fmt;
use utoipa::ToSchema;

/// What a member that is away holds of budgets, sequences and limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Stuck)]
pub struct StuckRow {
    /// The member's key.
    pub owner: OwnerKey,
    /// How long this node has heard nothing from it, in milliseconds; left out if it heard nothing
    /// since its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub silent_ms: Option<u64>,
    /// The rights to spend that it holds, of all budgets together.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub rights: i128,
    /// The number of these budgets.
    pub budgets: usize,
    /// The rights of all budgets that nobody can spend before it has acknowledged them: paid in under idempotency
    /// keys, or held by starts that are over.
    #[serde(serialize_with = "decimal")]
    #[schema(value_type = Decimal)]
    pub awaited: i128,
    /// How many sequences there are whose numbers it gives out to others.
    pub sequences: usize,
    /// How many limits there are, of which its share is missing in each period.
    pub limits: usize,
    /// Whether only a part of all budgets and sequences was looked at, because there are many.
    pub more: bool,
}

/// What a request lacks, and a member that is away holds or has not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckPart {
    /// The member.
    pub member: MemberName,
    /// How long this node has heard nothing from it, in milliseconds, if it heard anything.
    pub silent_ms: Option<u64>,
    /// The share.
    pub what: StuckShare,
    /// Whether the share waits for the member's acknowledgement. Otherwise the member holds it.
    pub awaited: bool,
    /// Whether a removal of the member can be decided, as far as this node can tell.
    pub removable: bool,
}

/// A share of a budget, of a sequence or of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StuckShare {
    /// So many rights of the budget.
    Rights(i128),
    /// So much room under its cap.
    Room(i128),
    /// All numbers of the sequence from this one on.
    Numbers(u64),
    /// So much of what the limit allows in the present period.
    Period(i128),
}

impl fmt::Display for StuckPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.what {
            StuckShare::Rights(amount) => write!(f, "{amount} rights").map(|()| ("are", "wait")),
            StuckShare::Room(amount) => write!(f, "room for {amount}").map(|()| ("is", "waits")),
            StuckShare::Numbers(first) => {
                write!(f, "all numbers from {first} on").map(|()| ("are", "wait"))
            }
            StuckShare::Period(amount) => {
                write!(f, "{amount} of the limit").map(|()| ("are", "wait"))
            }
        }?;
        match self.awaited {
            true => write!(f, " {} for the acknowledgement of", verb.1),
            false => write!(f, " {} with", verb.0),
        }?;
        let (member, owner) = (&self.member, self.member.owner);
        match self.silent_ms {
            Some(ms) => write!(
                f,
                " member {member}, of which nothing was heard for {} s",
                ms / 1000
            ),
            None => write!(
                f,
                " member {member}, of which nothing was heard since this start"
            ),
        }?;
        match self.removable {
            true => write!(
                f,
                ": start it, or, if it is gone for good, free them with `tallymesh members remove {owner}`"
            ),
            false => f.write_str(
                ": start it; no removal can be decided now, and `tallymesh doctor` says what is missing",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_told_with_the_command_that_frees_it() {
        let owner = OwnerKey([0xab; 32]);
        let part_of = |what, silent_ms, awaited| {
            StuckPart {
                member: MemberName {
                    owner,
                    address: Some("/ip4/127.0.0.1/tcp/1".to_owned()),
                },
                silent_ms,
                what,
                awaited,
                removable: silent_ms.is_some(),
            }
            .to_string()
        };
        let part = |what, silent_ms| part_of(what, silent_ms, false);
        let key = "ab".repeat(32);
        assert_eq!(
            part(StuckShare::Rights(40), Some(25_900)),
            format!(
                "40 rights are with member abababab… at /ip4/127.0.0.1/tcp/1, of which nothing was heard for 25 s: \
                 start it, or, if it is gone for good, free them with `tallymesh members remove {key}`"
            )
        );
        let told = part(StuckShare::Numbers(7), None);
        assert!(
            told.starts_with("all numbers from 7 on are with member ab"),
            "{told}"
        );
        let cure = "since this start: start it; no removal can be decided now";
        assert!(told.contains(cure) && !told.contains("remove "), "{told}");
        let told = part_of(StuckShare::Room(5), None, true);
        assert!(
            told.starts_with("room for 5 waits for the acknowledgement of member ab"),
            "{told}"
        );
        let told = part(StuckShare::Period(10), None);
        assert!(
            told.starts_with("10 of the limit are with member ab"),
            "{told}"
        );
    }
}

//! Rights, numbers and shares of limits that a member holds which is away, so that nobody can use them.

use super::{Decimal, decimal};
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
    /// How many sequences there are whose numbers it gives out to others.
    pub sequences: usize,
    /// How many limits there are, of which its share is missing in each period.
    pub limits: usize,
    /// Whether only a part of all budgets and sequences was looked at, because there are many.
    pub more: bool,
}

/// What a request lacks, and a member holds that is away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckPart {
    /// The member's key.
    pub owner: OwnerKey,
    /// How long this node has heard nothing from it, in milliseconds, if it heard anything.
    pub silent_ms: Option<u64>,
    /// What it holds.
    pub what: StuckShare,
}

/// The share of a budget, of a sequence or of a limit that a member holds.
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
        match self.what {
            StuckShare::Rights(amount) => write!(f, "{amount} rights are"),
            StuckShare::Room(amount) => write!(f, "room for {amount} is"),
            StuckShare::Numbers(first) => write!(f, "all numbers from {first} on are"),
            StuckShare::Period(amount) => write!(f, "{amount} of the limit are"),
        }?;
        let owner = self.owner;
        match self.silent_ms {
            Some(ms) => write!(
                f,
                " with member {owner}, of which nothing was heard for {} s",
                ms / 1000
            ),
            None => write!(
                f,
                " with member {owner}, of which nothing was heard since this start"
            ),
        }?;
        write!(
            f,
            ": start it, or, if it is gone for good, free them with `tallymesh members remove {owner}`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_told_with_the_command_that_frees_it() {
        let owner = OwnerKey([0xab; 32]);
        let part = |what, silent_ms| {
            StuckPart {
                owner,
                silent_ms,
                what,
            }
            .to_string()
        };
        let key = "ab".repeat(32);
        assert_eq!(
            part(StuckShare::Rights(40), Some(25_900)),
            format!(
                "40 rights are with member {key}, of which nothing was heard for 25 s: start it, or, if it \
                 is gone for good, free them with `tallymesh members remove {key}`"
            )
        );
        let told = part(StuckShare::Numbers(7), None);
        assert!(
            told.starts_with("all numbers from 7 on are with member ab"),
            "{told}"
        );
        assert!(told.contains("since this start: "), "{told}");
        let told = part(StuckShare::Period(10), None);
        assert!(
            told.starts_with("10 of the limit are with member ab"),
            "{told}"
        );
    }
}

//! The removals of owners from the members of a space, with their times, as far as this node has
//! them.
//!
//! A node compares each configuration that it sees with the last one, which is on the disk for
//! that. If one follows the other, the difference is exact. Otherwise a configuration in between
//! may have had further members. The node then receives their removals by the address book.

use super::{Ledger, LedgerError, LedgerState};
use crate::access::{CLOCK_SKEW_MAX, Gone};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tallymesh_core::Space;
use tallymesh_node_ground::identity::OwnerKey;

/// Most removals that a node remembers. The oldest is forgotten first.
pub const REMOVED_MAX: usize = 4_096;

/// The members of a space in the configuration of this era and number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The era of the configuration.
    pub era: u64,
    /// The number of the configuration in its era.
    pub number: u64,
    /// The members.
    pub owners: BTreeSet<OwnerKey>,
}

/// The difference between a configuration and the one seen before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// The owners that it removes.
    pub removed: Vec<OwnerKey>,
    /// Whether configurations in between were not seen, or none was seen before.
    pub skipped: bool,
}

/// The stored removals.
#[derive(Debug, Default)]
pub(super) struct Removals {
    seen: BTreeMap<Space, Seen>,
    /// The removal of each owner.
    removed: BTreeMap<(Space, OwnerKey), Gone>,
}

impl Removals {
    fn note(&mut self, space: &Space, owner: OwnerKey, gone: Gone) -> bool {
        let place = (space.clone(), owner);
        let known = self.removed.get(&place).copied();
        let both = known.map_or(gone, |known| known.and(gone));
        if known == Some(both) {
            return false;
        }
        self.removed.insert(place, both);
        while self.removed.len() > REMOVED_MAX {
            let oldest = self.removed.iter().min_by_key(|(_, it)| it.at);
            let Some(oldest) = oldest.map(|(place, _)| place.clone()) else {
                break;
            };
            self.removed.remove(&oldest);
        }
        true
    }
}

impl Ledger {
    /// Records the members of a space in successive configurations, at a time in seconds since
    /// 1970. Returns the difference to the last one seen before, and stores the removals in it.
    /// `signed` returns when the newest known ticket of an owner was signed.
    ///
    /// # Errors
    /// [`LedgerError::Io`]: they are remembered only while this process runs.
    pub fn see(
        &self,
        space: &Space,
        all: impl Iterator<Item = Seen>,
        now: u64,
        signed: impl Fn(&OwnerKey) -> u64,
    ) -> (Difference, Result<(), LedgerError>) {
        let mut state = self.state();
        let mut difference = Difference::default();
        let mut is_new = false;
        for seen in all {
            let removals = &mut state.removals;
            let before = removals.seen.get(space);
            let is_later = |it: &Seen| (it.era, it.number) < (seen.era, seen.number);
            if !before.is_none_or(is_later) {
                continue;
            }
            is_new = true;
            difference.skipped |= before
                .is_none_or(|it| it.era != seen.era || it.number.saturating_add(1) != seen.number);
            let removed: Vec<OwnerKey> = before.map_or_else(Vec::new, |it| {
                it.owners.difference(&seen.owners).copied().collect()
            });
            let by = (seen.era, seen.number);
            let width = match before {
                Some(it) if it.era == seen.era => seen.number - it.number,
                _ => 1,
            };
            removals.seen.insert(space.clone(), seen);
            for owner in removed {
                let at = now.max(signed(&owner));
                removals.note(space, owner, Gone { at, by, width });
                difference.removed.push(owner);
            }
        }
        match is_new {
            true => (difference, state.save()),
            false => (difference, Ok(())),
        }
    }

    /// Records removals that a member of the space has stated. A time far ahead of this clock is
    /// reduced, because tickets that are signed now must count.
    ///
    /// # Errors
    /// [`LedgerError::Io`]: they are remembered only while this process runs.
    pub fn remove(
        &self,
        removals: &[(Space, OwnerKey, Gone)],
        now: u64,
    ) -> Result<bool, LedgerError> {
        let latest = now.saturating_add(CLOCK_SKEW_MAX.as_secs());
        let mut state = self.state();
        let mut is_new = false;
        for (space, owner, gone) in removals {
            let at = gone.at.min(latest);
            is_new |= state.removals.note(space, *owner, Gone { at, ..*gone });
        }
        match is_new {
            true => state.save().map(|()| true),
            false => Ok(false),
        }
    }

    /// Whether an owner is a member of a space, by the members that this node saw last; `None` if
    /// it has seen none.
    pub(crate) fn is_seen_member(&self, space: &Space, owner: &OwnerKey) -> Option<bool> {
        let state = self.state();
        let seen = state.removals.seen.get(space)?;
        let gone = state.removals.removed.get(&(space.clone(), *owner));
        let is_out = gone.is_some_and(|it| it.by > (seen.era, seen.number));
        Some(seen.owners.contains(owner) && !is_out)
    }

    /// The last removal of an owner from the members of a space.
    pub fn removed(&self, space: &Space, owner: &OwnerKey) -> Option<Gone> {
        let state = self.state();
        let removed = &state.removals.removed;
        if removed.is_empty() {
            return None;
        }
        removed.get(&(space.clone(), *owner)).copied()
    }

    /// All removals: the space, the owner, and the time.
    pub fn removals(&self) -> Vec<(Space, OwnerKey, Gone)> {
        let state = self.state();
        let removed = state.removals.removed.iter();
        removed
            .map(|((space, owner), gone)| (space.clone(), *owner, *gone))
            .collect()
    }

    /// The signing time for a ticket that is signed now, in seconds since 1970. It is later than
    /// each removal, so that the ticket counts for an owner that was removed in the same second. A
    /// removal by a clock that is far ahead does not count here.
    pub fn signing_time(&self, now: u64) -> u64 {
        let state = self.state();
        let latest = state.removals.removed.values().map(|it| it.at).max();
        let after = latest.map_or(0, |at| at.saturating_add(1));
        after
            .min(now.saturating_add(CLOCK_SKEW_MAX.as_secs() / 2))
            .max(now)
    }
}

/// The form in the file of the members of a space.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeenRow {
    space: String,
    era: u64,
    number: u64,
    owners: Vec<String>,
}

/// The form in the file of a removal.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemovedRow {
    space: String,
    owner: String,
    at: u64,
    #[serde(default)]
    by: (u64, u64),
    #[serde(default)]
    width: u64,
}

impl Removals {
    pub(super) fn of(seen: Vec<SeenRow>, removed: Vec<RemovedRow>) -> Result<Removals, String> {
        let owner = |text: &String| {
            OwnerKey::digits(text).ok_or_else(|| format!("`{text}` is no owner's key"))
        };
        let space = |name: &str| Space::new(name).map_err(|error| error.to_string());
        let mut removals = Removals::default();
        for row in seen {
            let owners: Result<BTreeSet<OwnerKey>, String> = row.owners.iter().map(owner).collect();
            let seen = Seen {
                era: row.era,
                number: row.number,
                owners: owners?,
            };
            removals.seen.insert(space(&row.space)?, seen);
        }
        for row in removed {
            let gone = Gone {
                at: row.at,
                by: row.by,
                width: row.width,
            };
            removals.note(&space(&row.space)?, owner(&row.owner)?, gone);
        }
        Ok(removals)
    }

    pub(super) fn rows(&self) -> (Vec<SeenRow>, Vec<RemovedRow>) {
        let seen = self.seen.iter().map(|(space, it)| SeenRow {
            space: space.to_string(),
            era: it.era,
            number: it.number,
            owners: it.owners.iter().map(OwnerKey::to_string).collect(),
        });
        let removed = self.removed.iter();
        let removed = removed.map(|((space, owner), gone)| RemovedRow {
            space: space.to_string(),
            owner: owner.to_string(),
            at: gone.at,
            by: gone.by,
            width: gone.width,
        });
        (seen.collect(), removed.collect())
    }
}

impl LedgerState {
    /// Whether there are entries that earlier builds can't read.
    pub(super) fn has_removals(&self) -> bool {
        !self.removals.seen.is_empty() || !self.removals.removed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        Space::new("shop").expect("a name")
    }

    fn gone(at: u64) -> Gone {
        Gone {
            at,
            by: (0, 1),
            width: 1,
        }
    }

    fn seen(number: u64, owners: &[u8]) -> Seen {
        Seen {
            era: 0,
            number,
            owners: owners.iter().map(|it| OwnerKey([*it; 32])).collect(),
        }
    }

    #[test]
    fn who_is_not_in_the_next_configuration_was_removed_also_over_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = Ledger::open(Some(folder.path())).expect("a ledger");
        let see = |ledger: &Ledger, number, owners: &[u8], now| {
            let (difference, saved) =
                ledger.see(&space(), [seen(number, owners)].into_iter(), now, |_| 0);
            saved.expect("saved");
            let removed = difference
                .removed
                .iter()
                .map(|it| it.0[0])
                .collect::<Vec<u8>>();
            (removed, difference.skipped)
        };
        assert_eq!(see(&ledger, 3, &[1, 2, 3], 10), (vec![], true), "the first");
        assert_eq!(see(&ledger, 3, &[1, 2, 3], 11), (vec![], false), "the same");
        assert_eq!(see(&ledger, 4, &[1, 2], 12), (vec![3], false));
        let at = |ledger: &Ledger, owner: u8| {
            let gone = ledger.removed(&space(), &OwnerKey([owner; 32]));
            gone.map(|it| it.at)
        };
        assert_eq!((at(&ledger, 3), at(&ledger, 2)), (Some(12), None));
        drop(ledger);
        let ledger = Ledger::open(Some(folder.path())).expect("a ledger");
        assert_eq!(at(&ledger, 3), Some(12));
        assert_eq!(
            see(&ledger, 6, &[1], 20),
            (vec![2], true),
            "one was skipped"
        );
        assert_eq!(ledger.signing_time(19), 21);
        assert_eq!(ledger.signing_time(30), 30);
        // The time of a member whose clock is far ahead is reduced.
        let far = [(space(), OwnerKey([9; 32]), gone(u64::MAX))];
        assert!(ledger.remove(&far, 40).expect("saved"));
        assert_eq!(at(&ledger, 9), Some(40 + CLOCK_SKEW_MAX.as_secs()));
        assert_eq!(ledger.signing_time(40), 40 + CLOCK_SKEW_MAX.as_secs() / 2);
    }

    #[test]
    fn who_was_a_member_for_a_moment_only_was_removed_all_the_same() {
        let ledger = Ledger::open(None).expect("a ledger");
        let _ = ledger.see(&space(), [seen(1, &[1])].into_iter(), 10, |_| 0);
        let both = [seen(1, &[1]), seen(2, &[1, 2]), seen(3, &[1])];
        let (difference, _) = ledger.see(&space(), both.clone().into_iter(), 20, |_| 0);
        let expected = Difference {
            removed: vec![OwnerKey([2; 32])],
            skipped: false,
        };
        assert_eq!(difference, expected);
        let (again, _) = ledger.see(&space(), both.into_iter(), 30, |_| 0);
        assert_eq!(again, Difference::default(), "it is seen once");
        let gone = Gone {
            by: (0, 3),
            ..gone(20)
        };
        assert_eq!(ledger.removed(&space(), &OwnerKey([2; 32])), Some(gone));
    }

    #[test]
    fn a_ticket_of_a_clock_that_is_ahead_was_signed_before_the_removal() {
        let ledger = Ledger::open(None).expect("a ledger");
        let _ = ledger.see(&space(), [seen(1, &[1, 2])].into_iter(), 10, |_| 0);
        let _ = ledger.see(&space(), [seen(2, &[1])].into_iter(), 20, |_| 45);
        let gone = ledger.removed(&space(), &OwnerKey([2; 32]));
        assert_eq!(gone.map(|it| it.at), Some(45));
    }

    #[test]
    fn removals_are_bounded_and_the_oldest_goes() {
        let ledger = Ledger::open(None).expect("a ledger");
        let owner = |number: usize| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
            OwnerKey(bytes)
        };
        let all: Vec<_> = (0..=REMOVED_MAX)
            .map(|at| (space(), owner(at), gone(at as u64 + 1)))
            .collect();
        assert!(ledger.remove(&all, 1 << 40).expect("in memory"));
        assert_eq!(ledger.removals().len(), REMOVED_MAX);
        assert_eq!(ledger.removed(&space(), &owner(0)), None);
        assert_eq!(ledger.removed(&space(), &owner(1)), Some(gone(2)));
    }
}

//! Removals of members in the address book: reads them, decides which of them count, and states
//! this node's own.
//!
//! A removal counts if its issuer is a member of the space when it is received. Each member ensures
//! that every removal that it has is in the book, signed by a present member.

use super::redial::Chance;
use super::revocations::Say;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tallymesh_core::Space;
use tallymesh_node_engine::access::{Gone, Ledger, REMOVED_KEY, Removal};
use tallymesh_node_ground::identity::{Identity, OwnerKey};

/// Most signatures that are verified in one look, because the work is done between frames.
const VERIFIED_MAX: usize = 256;

/// How often the node checks whether other removals count or are to be stated.
const JUDGE_INTERVAL: Duration = Duration::from_secs(5);

/// A member waits a random time, up to this one, before it states a removal that all members saw.
/// All but the first of them then find it in the book. It is shorter than
/// [`super::rights::UNSURE`].
const TELL_WAIT_SPREAD_MS: usize = 1_500;

/// The owner that was removed, and the space.
type Whom = (Space, OwnerKey);

/// The removals in the book.
pub(super) struct Removals {
    ledger: Ledger,
    identity: Identity,
    own: OwnerKey,
    /// Each verified statement of the book; `None` if it is not one. No signature is verified twice.
    read: BTreeMap<String, Option<Removal>>,
    /// For each removal that this node has: the statement, and when this node signs it, unless
    /// others do before.
    told: BTreeMap<Whom, RemovalEntry>,
    chance: Chance,
    is_new: bool,
    judge_next: Instant,
}

struct RemovalEntry {
    gone: Gone,
    due: Instant,
    /// The key in the book, once the statement is signed.
    key: Option<String>,
}

impl Removals {
    pub(super) fn new(ledger: Ledger, identity: Identity, now: Instant) -> Removals {
        let own = OwnerKey(identity.public_key());
        let seed = own.0.last_chunk::<8>().copied().unwrap_or_default();
        Removals {
            ledger,
            identity,
            own,
            read: BTreeMap::new(),
            told: BTreeMap::new(),
            chance: Chance::new(u64::from_le_bytes(seed)),
            is_new: true,
            judge_next: now,
        }
    }

    /// Records that the book has changed to another day.
    pub(super) fn turn_over(&mut self) {
        self.read.clear();
        self.is_new = true;
    }

    /// Reads the keys of the book. Returns whether there are more than one look can verify.
    pub(super) fn read<'a>(&mut self, keys: impl Iterator<Item = &'a str>) -> bool {
        let mut verified = 0;
        for statement in keys.filter_map(|key| key.strip_prefix(REMOVED_KEY)) {
            if self.read.contains_key(statement) {
                continue;
            }
            if verified == VERIFIED_MAX {
                return true;
            }
            verified += 1;
            let read = Removal::read(statement);
            self.is_new |= read.is_some();
            self.read.insert(statement.to_owned(), read);
        }
        false
    }

    /// Records that the members of a space have changed, so that one may have been removed.
    pub(super) fn members_changed(&mut self) {
        self.is_new = true;
    }

    /// Whether a judgement is due.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.is_new || now >= self.judge_next;
        if is_due {
            (self.judge_next, self.is_new) = (now + JUDGE_INTERVAL, false);
        }
        is_due
    }

    /// Applies the removals that members state, and decides which this node has to state.
    pub(super) fn judge(&mut self, says: &[Say], wall_ms: u64, now: Instant) {
        let says: BTreeMap<&Space, &[OwnerKey]> =
            says.iter().map(|it| (&it.space, &it.owners[..])).collect();
        let has_say =
            |owner: &OwnerKey, space: &Space| says.get(space).is_some_and(|it| it.contains(owner));
        let stated = self.read.values().flatten();
        let stated = stated.filter(|it| has_say(&it.issuer, &it.space));
        let mut known: BTreeMap<Whom, Gone> = BTreeMap::new();
        for removal in stated {
            known
                .entry((removal.space.clone(), removal.owner))
                .and_modify(|gone| *gone = gone.and(removal.gone))
                .or_insert(removal.gone);
        }
        let counts: Vec<(Space, OwnerKey, Gone)> = known
            .iter()
            .map(|((space, owner), gone)| (space.clone(), *owner, *gone))
            .collect();
        if let Err(error) = self.ledger.remove(&counts, wall_ms / 1000) {
            tracing::warn!(%error, "who was removed is not kept on the disk");
        }
        let mut told = BTreeMap::new();
        for (space, owner, gone) in self.ledger.removals() {
            let whom = (space, owner);
            // A node that reads the statement has the same information as this one.
            let is_stated = known
                .get(&whom)
                .is_some_and(|stated| stated.and(gone) == *stated);
            if !has_say(&self.own, &whom.0) {
                continue;
            }
            let before = self.told.remove(&whom).filter(|told| told.gone == gone);
            let row = match before {
                // This node renews its own statements.
                Some(known) if known.key.is_some() || !is_stated => known,
                _ if is_stated => continue,
                _ => {
                    let wait = self.chance.below(TELL_WAIT_SPREAD_MS) as u64;
                    let due = now + Duration::from_millis(wait);
                    RemovalEntry {
                        gone,
                        due,
                        key: None,
                    }
                }
            };
            if row.key.is_none() {
                self.judge_next = self.judge_next.min(row.due);
            }
            told.insert(whom, row);
        }
        self.told = told;
    }

    /// Signs the statements that are due. Returns whether there are any.
    pub(super) fn has_more_to_tell(&mut self, now: Instant) -> bool {
        let mut is_more = false;
        for ((space, owner), told) in &mut self.told {
            if told.key.is_some() || now < told.due {
                continue;
            }
            let removal = Removal {
                owner: *owner,
                issuer: self.own,
                space: space.clone(),
                gone: told.gone,
            };
            let statement = removal.sign(&self.identity);
            told.key = statement.map(|statement| format!("{REMOVED_KEY}{statement}"));
            is_more |= told.key.is_some();
        }
        is_more
    }

    /// The keys that this node maintains in the book.
    pub(super) fn to_tell(&self) -> impl Iterator<Item = &str> {
        self.told.values().filter_map(|told| told.key.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: u64 = 1_000_000_000;

    struct Member {
        removals: Removals,
        ledger: Ledger,
        owner: OwnerKey,
    }

    fn member(number: u8, now: Instant) -> Member {
        let ledger = Ledger::open(None).expect("in memory");
        let identity = Identity::from_secret([number; 32]);
        Member {
            owner: OwnerKey(identity.public_key()),
            removals: Removals::new(ledger.clone(), identity, now),
            ledger,
        }
    }

    #[test]
    fn a_removal_counts_by_the_word_of_members_who_tell_it_on() {
        let now = Instant::now();
        let space = Space::new("shop").expect("a name");
        let (mut one, mut two, mut three) = (member(1, now), member(2, now), member(3, now));
        let gone = OwnerKey([9; 32]);
        let stated = Gone {
            at: 77,
            by: (0, 3),
            width: 1,
        };
        let says = |owners: &[OwnerKey]| {
            vec![Say {
                space: space.clone(),
                owners: owners.to_vec(),
            }]
        };
        let all = [one.owner, two.owner];
        one.ledger
            .remove(&[(space.clone(), gone, stated)], WALL / 1000)
            .expect("in memory");
        one.removals.judge(&says(&all), WALL, now);
        let later = now + Duration::from_millis(TELL_WAIT_SPREAD_MS as u64);
        let tell = |member: &mut Member| {
            member.removals.has_more_to_tell(later);
            let told = member.removals.to_tell();
            told.map(String::from).collect::<Vec<String>>()
        };
        let keys = tell(&mut one);
        assert_eq!(keys.len(), 1);
        let read = |member: &mut Member, keys: &[String], owners: &[OwnerKey]| {
            member.removals.read(keys.iter().map(String::as_str));
            member.removals.judge(&says(owners), WALL, now);
            member.ledger.removed(&space, &gone)
        };
        assert_eq!(
            read(&mut three, &keys, &[two.owner]),
            None,
            "it is no member's word"
        );
        assert_eq!(read(&mut two, &keys, &all), Some(stated));
        assert!(tell(&mut two).is_empty(), "it is told already");
        // If the issuer is removed, too, another member states the removal.
        let rest = [two.owner, three.owner];
        two.removals.judge(&says(&rest), WALL, now);
        let keys = tell(&mut two);
        assert_eq!(read(&mut three, &keys, &rest), Some(stated));
        // The same holds in the book of the next day.
        three.removals.turn_over();
        three.removals.judge(&says(&rest), WALL, now);
        assert_eq!(tell(&mut three).len(), 1);
    }
}

//! Revocations of tickets in the address book: reads them, decides which of them count, and
//! publishes them.
//!
//! A revocation counts in a space if its issuer is trusted there when it is received. From then on
//! it is in the ledger, and stays there as long as it is needed. If the issuer is removed later,
//! another member signs it again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tallymesh_core::Space;
use tallymesh_node_engine::access::{Ledger, REVOKED_KEY, Revocation, Revoked, TicketId};
use tallymesh_node_ground::identity::{Identity, OwnerKey};

/// Most signatures that are verified in one look, because the work is done between frames.
const VERIFIED_MAX: usize = 256;

/// How often the node checks whether more revocations count, because their issuers became members.
const JUDGE_INTERVAL: Duration = Duration::from_secs(5);

/// The trusted owners of an open space: its members, or this node alone if it has none.
pub(super) struct Say {
    pub(super) space: Space,
    pub(super) owners: Vec<OwnerKey>,
}

/// An entry that this node maintains in the book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RevocationEntry {
    pub(super) key: String,
    /// The revocation in it.
    pub(super) revocation: Revocation,
    /// Whether this node signed it, and so is the first to publish it.
    pub(super) is_own: bool,
}

/// The revocations in the book.
pub(super) struct Revocations {
    ledger: Ledger,
    identity: Identity,
    own: OwnerKey,
    /// The content of each statement in the book; `None` if it is invalid. No signature is verified
    /// twice.
    read: BTreeMap<String, Option<Revocation>>,
    /// The entries that this node maintains, at this generation of the ledger.
    told: (u64, Arc<[RevocationEntry]>),
    /// Whether a statement was read that is not judged yet.
    is_new: bool,
    judge_next: Instant,
    /// When this node signs revocations again whose issuers are no longer trusted.
    vouch_at: BTreeMap<TicketId, Instant>,
}

impl Revocations {
    pub(super) fn new(ledger: Ledger, identity: Identity, now: Instant) -> Revocations {
        let mut revocations = Revocations {
            ledger,
            own: OwnerKey(identity.public_key()),
            identity,
            read: BTreeMap::new(),
            told: (0, Arc::default()),
            is_new: true,
            judge_next: now,
            vouch_at: BTreeMap::new(),
        };
        revocations.look_up_told();
        revocations
    }

    /// Records that the book has changed to another day.
    pub(super) fn turn_over(&mut self) {
        self.read.clear();
    }

    /// Reads the keys of the book. Returns whether there are more than one look can verify.
    pub(super) fn read<'a>(&mut self, keys: impl Iterator<Item = &'a str>) -> bool {
        let statements = keys.filter_map(|key| key.strip_prefix(REVOKED_KEY));
        let mut verified = 0;
        for statement in statements {
            if self.read.contains_key(statement) {
                continue;
            }
            if verified == VERIFIED_MAX {
                return true;
            }
            verified += 1;
            let read = Revocation::read(statement);
            self.is_new |= read.is_some();
            self.read.insert(statement.to_owned(), read);
        }
        false
    }

    /// The entries that this node maintains, and whether they have changed.
    pub(super) fn told(&mut self) -> (Arc<[RevocationEntry]>, bool) {
        let changed = self.ledger.generation() != self.told.0;
        if changed {
            self.look_up_told();
        }
        (self.told.1.clone(), changed)
    }

    fn look_up_told(&mut self) {
        let generation = self.ledger.generation();
        let told = self.ledger.revoked().into_iter().map(|it| RevocationEntry {
            key: format!("{REVOKED_KEY}{}", it.statement),
            is_own: it.revocation.issuer == self.own,
            revocation: it.revocation,
        });
        self.told = (generation, told.collect());
    }

    /// Whether a judgement is due, and there is any revocation.
    pub(super) fn is_due(&mut self, wall_ms: u64, now: Instant) -> bool {
        if now < self.judge_next && !self.is_new {
            return false;
        }
        (self.judge_next, self.is_new) = (now + JUDGE_INTERVAL, false);
        // Revocations that are over are dropped here, too, because no other code checks as often.
        if let Err(error) = self.ledger.tend(wall_ms) {
            tracing::warn!(%error, "what is over is not taken off the disk");
        }
        let known = self.known();
        self.candidates(&known, wall_ms).next().is_some()
    }

    /// Applies the revocations whose issuers are trusted. `wait` is how long this node leaves it to
    /// others to sign again.
    pub(super) fn judge(&mut self, says: &[Say], wait: Duration, wall_ms: u64, now: Instant) {
        let known = self.known();
        let counts = |(statement, revocation): (&String, &Revocation)| {
            let says = says.iter().filter(|it| {
                revocation.covers(&it.space) && it.owners.contains(&revocation.issuer)
            });
            let mut spaces: BTreeSet<Space> = says.map(|it| it.space.clone()).collect();
            if let Some(known) = known.get(statement) {
                spaces.retain(|space| !known.spaces.contains(space));
            }
            (!spaces.is_empty()).then(|| Revoked {
                statement: statement.clone(),
                revocation: revocation.clone(),
                spaces,
            })
        };
        let mut new: Vec<Revoked> = self
            .candidates(&known, wall_ms)
            .filter_map(counts)
            .collect();
        for revoked in &new {
            let (id, issuer) = (revoked.revocation.id, revoked.revocation.issuer);
            tracing::info!(ticket = %id, by = %issuer, "a ticket is revoked");
        }
        new.extend(self.vouched(&known, says, wait, wall_ms, now));
        if new.is_empty() {
            return;
        }
        if let Err(error) = self.ledger.revoke(new) {
            tracing::warn!(%error, "not all that others revoked is kept");
        }
    }

    /// Signs revocations again whose issuer is no longer trusted in a space where this node is. A
    /// node that joins later would not accept the first issuer's signature. Each node does so at
    /// its own time, and a revocation that one has signed need not be signed by others.
    fn vouched(
        &mut self,
        known: &BTreeMap<String, Revoked>,
        says: &[Say],
        wait: Duration,
        wall_ms: u64,
        now: Instant,
    ) -> Vec<Revoked> {
        let has_say = |owner: &OwnerKey, space: &Space| {
            let mut says = says.iter();
            says.any(|it| it.space == *space && it.owners.contains(owner))
        };
        let all = || {
            let rows = known.values().filter(|it| !it.revocation.is_over(wall_ms));
            rows.flat_map(|it| it.spaces.iter().map(move |space| (&it.revocation, space)))
        };
        let stands = all().filter(|(it, space)| has_say(&it.issuer, space));
        let stands: BTreeSet<(TicketId, &Space)> =
            stands.map(|(it, space)| (it.id, space)).collect();
        let mut orphans: BTreeMap<TicketId, Revocation> = BTreeMap::new();
        for (it, space) in all() {
            if has_say(&self.own, space) && !stands.contains(&(it.id, space)) {
                let orphan = orphans.entry(it.id).or_insert_with(|| Revocation {
                    issuer: self.own,
                    spaces: Some(Vec::new()),
                    issued: wall_ms / 1000,
                    ..it.clone()
                });
                // A revocation without an end lasts longest.
                orphan.expires = orphan
                    .expires
                    .zip(it.expires)
                    .map(|(one, other)| one.max(other));
                let spaces = orphan.spaces.get_or_insert_default();
                if !spaces.contains(space) {
                    spaces.push(space.clone());
                }
            }
        }
        self.vouch_at.retain(|id, _| orphans.contains_key(id));
        let mut vouched = Vec::new();
        for (id, orphan) in orphans {
            let at = *self.vouch_at.entry(id).or_insert(now + wait);
            if at > now {
                self.judge_next = self.judge_next.min(at);
                continue;
            }
            tracing::info!(ticket = %id, "a ticket stays revoked, as who revoked it has no say any more");
            let statements = orphan.sign(&self.identity).into_iter();
            vouched.extend(statements.map(|(statement, revocation)| Revoked {
                statement,
                spaces: revocation.spaces.iter().flatten().cloned().collect(),
                revocation,
            }));
        }
        vouched
    }

    fn known(&self) -> BTreeMap<String, Revoked> {
        let known = self.ledger.revoked().into_iter();
        known.map(|it| (it.statement.clone(), it)).collect()
    }

    /// All revocations in the book or in the ledger that are not over. A revocation that counts in
    /// one space may now count in another, too.
    fn candidates<'a>(
        &'a self,
        known: &'a BTreeMap<String, Revoked>,
        wall_ms: u64,
    ) -> impl Iterator<Item = (&'a String, &'a Revocation)> {
        let read = self.read.iter();
        let read = read.filter_map(|(statement, it)| Some((statement, it.as_ref()?)));
        let others = known
            .iter()
            .filter(|(statement, _)| !self.read.contains_key(*statement))
            .map(|(statement, it)| (statement, &it.revocation));
        read.chain(others)
            .filter(move |(_, it)| !it.is_over(wall_ms))
    }
}

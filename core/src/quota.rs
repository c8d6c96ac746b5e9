//! Quota: budgets, leases, sequences and rate limits. This layer stands above the replica.
//!
//! # What it adds
//! Four things that need a promise across members, made of plain counters:
//!
//! | thing | meaning |
//! |---|---|
//! | budget ([`budget`], `rights`) | an amount that many writers spend from at once |
//! | lease ([`lease`]) | rights set aside for a client, which spends them without asking |
//! | sequence ([`sequence`]) | numbers from 1 on |
//! | rate limit ([`period`]) | an amount for each period of a key |
//!
//! # What it guarantees
//! - **Budget.** No causal cut shows its value below its floor or above its cap.
//! - **Lease.** Its rights return only after the client has stopped, if clocks keep the bounds of
//!   [`lease_until`](lease::lease_until).
//! - **Sequence.** No number is handed out twice.
//! - **Rate limit.** All members together bring in no more than the limit.
//!
//! All four need correct writers. Two processes with one writer id can overdraw an account. A replica that
//! merges such an account reports a fault ([`overdrawn`]).
//!
//! # What it follows, and where it departs
//! | source | used here | departure |
//! |---|---|---|
//! | Bounded counters (Balegas et al., "Extending Eventually Consistent Cloud Databases for Enforcing Numeric Invariants", 2015) | rights that each writer holds, and moves to others | a plain counter for each holder, in place of a matrix of transfers; a successor inherits |
//! | Leases (Gray and Cheriton, "Leases: An Efficient Fault-Tolerant Mechanism for Distributed File Cache Consistency", 1989) | a term after which the giver may use the thing itself | on rights, and not on cached data |
//! | Majority quorums (Gifford 1979) | one process uses a range of a sequence after a majority has acknowledged the range | the range is a counter of the state |
//!
//! # How it works
//!
//! Rights, room, ranges and shares are plain counters under reserved keys (`ledger`). Members move them by
//! transactions. Joins, the wire, stores and collection treat these counters like any other. Three
//! rules go beyond bounded counters:
//!
//! - **Inheritance** ([`inherit`]). A writer that ends leaves its rights to the writer that absorbs it. A start
//!   that follows another one in its place has them before that.
//! - **Pending amounts** ([`pending`]). A replica may spend an amount that came in under an idempotency key
//!   only once it is stable. Until then the amount can still be withdrawn as a duplicate.
//! - **Rejoin** (`again`). A replica that rejoins makes operations of the earlier writer again, as far as its
//!   rights allow.
//!
//! [`Quota`] owns the rest, which is not part of the state: pending amounts, the amounts used of late, the
//! ranges that this process may hand out, and the last configurations.
//!
//! # Where it meets the replica
//!
//! A replica calls its quota at six points, by the hooks of the trait `QuotaHooks` (`replica/quota.rs`):
//!
//! | point | hooks | effect |
//! |---|---|---|
//! | a key | `owns`, `owned` | no list of counters has a reserved key |
//! | a plain operation | `check`, `check_at` | an operation on counters may not write to a reserved key, or to the name of a budget |
//! | a commit | `check_once`, `note_once`, `committed` | the quota notes pending amounts, uses and draws; it refuses an idempotency key for draws and leases |
//! | a merge | `merged`, `report` | an overdrawn account becomes a fault |
//! | members | `absorbed`, `keeps`, `waits`, `configured` | the successor takes over rights; a writer with rights is not forgotten; rate limits follow the configuration |
//! | a new start | `cleared`, `begun_again`, `made_again` | the new writer makes operations of the earlier one again, as far as its rights allow |
//!
//! A program without the feature `budgets` has a null object instead, whose hooks do nothing. Members request
//! rights and numbers from each other in `sync/wants`.
//!
//! # Why it is no crate of its own
//! A writer that retires, a duplicate that is withdrawn and a replica that rejoins take their rights along.
//! So this layer needs the parts of a replica and the six points, which are private to the crate. A crate of
//! its own would make all of them public, for one user. The arrows between folders hold the
//! boundary instead (`xtask/src/tidy/arrows.rs`), and a program without it leaves out the feature.

pub(crate) mod budget;
pub(crate) mod lease;
pub(crate) mod period;
pub(crate) mod sequence;

mod again;
mod inherit;
mod overdrawn;
mod pending;
mod rights;

use crate::error::{Error, QuotaError};
use crate::forks::ForkLog;
use crate::indexed_state::State;
use crate::ledger::account::is_reserved;
use crate::membership::Membership;
use crate::message::Message;
use crate::message::journal::{Did, Dids};
use crate::message::records::Owner;
use crate::replica::{QuotaHooks, Replica, Transaction};
use crate::state::keys::KeyId;
use crate::state::operation::{Draft, Op};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use pending::Pending;
use period::Periods;
use sequence::{Draw, Sequences};

/// The part of quota that one process keeps beside the state.
#[derive(Clone, Default)]
pub(crate) struct Quota {
    /// Amounts that came in under idempotency keys and can't be used yet.
    pending: Pending,
    /// How much was used of own accounts, for the sync machine to take.
    used: BTreeMap<KeyId, u64>,
    sequences: Sequences,
    periods: Periods,
    /// Whether this writer follows one of a member's, and is to be announced as its next start.
    is_next_start: bool,
}

/// The notes that a transaction keeps until its commit.
#[derive(Default)]
pub(crate) struct Noted {
    /// Amounts that were used of own accounts of budgets and periods.
    uses: Vec<(KeyId, u64)>,
    /// Whether a lease was given.
    leases: bool,
    /// Numbers of sequences that are handed out.
    draws: Vec<Draw>,
}

impl Noted {
    /// The present place in the notes.
    pub(crate) fn place(&self) -> (usize, bool, usize) {
        (self.uses.len(), self.leases, self.draws.len())
    }

    /// Goes back to a place in the notes.
    pub(crate) fn go_back(&mut self, (uses, leases, draws): (usize, bool, usize)) {
        self.uses.truncate(uses);
        self.leases = leases;
        self.draws.truncate(draws);
    }
}

/// Reads of budgets, leases, sequences and rate limits in a replica: see
/// [`Replica::quota`](crate::Replica::quota).
#[derive(Clone, Copy)]
pub struct QuotaRef<'a> {
    state: &'a State,
    membership: &'a Membership,
    quota: &'a Quota,
}

impl<'a> QuotaRef<'a> {
    pub(crate) fn new(
        state: &'a State,
        membership: &'a Membership,
        quota: &'a Quota,
    ) -> QuotaRef<'a> {
        QuotaRef {
            state,
            membership,
            quota,
        }
    }
}

/// The operations on budgets, leases, sequences and rate limits of a replica: see
/// [`Replica::quota_mut`](crate::Replica::quota_mut). Each is a transaction of its own.
///
/// ```
/// use tallymesh_core::{Flow, Replica, Space, WriterId};
/// # fn main() -> Result<(), tallymesh_core::Error> {
/// let (space, owner, nonce) = (Space::default(), [7; 32], [1; 16]);
/// let mut replica = Replica::new(space.clone(), WriterId::mint(&space, &owner, &nonce));
/// replica.members_mut().found(&owner, &nonce, 0)?;
/// replica.quota_mut().flow("gift", Flow::Mint(10))?;
/// replica.quota_mut().flow("gift", Flow::Spend(4))?;
/// assert_eq!(replica.quota().budget("gift").map(|it| it.value), Some(6));
/// # Ok(())
/// # }
/// ```
pub struct QuotaMut<'a> {
    replica: &'a mut Replica,
}

impl<'a> QuotaMut<'a> {
    pub(crate) fn new(replica: &'a mut Replica) -> QuotaMut<'a> {
        QuotaMut { replica }
    }

    fn read(&self) -> QuotaRef<'_> {
        self.replica.quota()
    }

    /// One transaction on counters that are no plain ones; adds each that changed to `changed`.
    pub(crate) fn make(
        &mut self,
        steps: &[(String, Op)],
        changed: &mut Vec<KeyId>,
    ) -> Result<(), Error> {
        let replica = &mut *self.replica;
        let clock = replica.membership.next_clock(&replica.state)?;
        let mut drafts: Vec<Draft> = Vec::new();
        let mut did = Dids::default();
        let mut done = Ok(());
        for (key, op) in steps {
            done = replica.state.key_id(key).and_then(|key_id| {
                let at = replica.state.draft_of(&mut drafts, key_id);
                let step = replica.step(&mut drafts[at], clock, *op, &mut did);
                step.map(|_| ())
            });
            if done.is_err() {
                break;
            }
        }
        for draft in &mut drafts {
            if done.is_ok() {
                changed.push(draft.key_id);
                replica.commit(clock, draft);
            }
            replica.state.forget_unused(draft.key_id);
        }
        if done.is_ok() {
            replica.rejoin.keep(clock, did);
        }
        done
    }
}

/// Reads of budgets, sequences and rate limits in a transaction that is being made: see
/// [`Transaction::quota`](crate::Transaction::quota).
#[derive(Clone, Copy)]
pub struct QuotaPreview<'t, 'a> {
    transaction: &'t Transaction<'a>,
}

impl<'t, 'a> QuotaPreview<'t, 'a> {
    pub(crate) fn new(transaction: &'t Transaction<'a>) -> QuotaPreview<'t, 'a> {
        QuotaPreview { transaction }
    }
}

/// The operations on budgets, leases, sequences and rate limits as a part of a transaction: see
/// [`Transaction::quota_mut`](crate::Transaction::quota_mut).
pub struct QuotaTransaction<'t, 'a> {
    transaction: &'t mut Transaction<'a>,
}

impl<'t, 'a> QuotaTransaction<'t, 'a> {
    pub(crate) fn new(transaction: &'t mut Transaction<'a>) -> QuotaTransaction<'t, 'a> {
        QuotaTransaction { transaction }
    }

    /// Reads after the operations so far.
    fn preview(&self) -> QuotaPreview<'_, 'a> {
        self.transaction.quota()
    }

    /// Reads without this transaction.
    fn read(&self) -> QuotaRef<'_> {
        self.transaction.replica().quota()
    }
}

impl QuotaHooks for Quota {
    type Noted = Noted;
    type Accounts = Vec<KeyId>;

    fn owns(state: &State, key_id: KeyId) -> bool {
        !state.index().are_plain() && state.keys().get(key_id).is_some_and(is_reserved)
    }

    fn owned(state: &State) -> impl Iterator<Item = KeyId> {
        let reserved = state.index().reserved(state.keys());
        reserved.map(|(key_id, _)| key_id)
    }

    fn check(state: &State, key: &str) -> Result<(), Error> {
        budget::check_plain(state, key)
    }

    fn check_at(state: &State, key_id: KeyId) -> Result<(), Error> {
        budget::check_plain_at(state, key_id)
    }

    fn check_once(noted: &Noted) -> Result<(), Error> {
        if !noted.draws.is_empty() {
            return Err(QuotaError::NumberOnce.into());
        }
        match noted.leases {
            true => Err(QuotaError::LeaseOnce.into()),
            false => Ok(()),
        }
    }

    fn note_once(&mut self, state: &State, clock: u64, drafts: &[Draft]) {
        self.note_pending(state, clock, drafts);
    }

    fn committed(&mut self, noted: Noted) {
        for (key_id, amount) in noted.uses {
            let used = self.used.entry(key_id).or_default();
            *used = used.saturating_add(amount);
        }
        for draw in noted.draws {
            self.sequences.note_drawn(draw);
        }
    }

    fn merged(state: &State, message: &Message, accounts: &mut Vec<KeyId>) {
        overdrawn::note_accounts(state, message, accounts);
    }

    fn report(state: &State, forks: &mut ForkLog, accounts: Vec<KeyId>) {
        overdrawn::report(state, forks, accounts);
    }

    fn absorbed(replica: &mut Replica) -> Result<(), Error> {
        replica.quota_mut().inherit()
    }

    fn keeps(state: &State, number: u32) -> bool {
        inherit::has_accounts(state, number)
    }

    fn waits(&self, state: &State, membership: &Membership) -> bool {
        let known = QuotaRef::new(state, membership, self);
        !self.pending.is_empty() || known.awaits_known() || known.keeps_spent_leases()
    }

    fn configured(&mut self, membership: &Membership) {
        self.periods.note_configuration(membership);
    }

    fn cleared(&mut self) {
        self.pending.clear();
    }

    fn begun_again(&mut self, owner: Option<Owner>, membership: &Membership) {
        let members = membership.configuration();
        self.is_next_start = owner.is_some_and(|it| members.is_some_and(|all| all.has(&it)));
    }

    fn made_again(replica: &Replica, did: Vec<Did>) -> Option<Vec<Did>> {
        replica.quota().flows_again(did)
    }

    #[cfg(feature = "explore")]
    fn local_text(&self, state: &State) -> String {
        let key = |key_id| state.keys().get(key_id);
        let pending = self.pending.iter().map(|it| (key(*it.0), it.1));
        alloc::format!(" {:?}", pending.collect::<Vec<_>>())
    }
}

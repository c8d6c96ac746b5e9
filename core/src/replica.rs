//! The replica: one copy of a space's state, composed of the layers.
//!
//! # What it adds
//! A replica owns one part of each layer: the [state](crate::state), the [log of forks](crate::forks), the
//! [membership](crate::membership), what a [rejoin](crate::rejoin) replays, the [log of idempotency
//! keys](crate::idempotency), and the quota. Each part owns its rule. This folder has the public operations,
//! and the order in which parts act when one operation spans several.
//!
//! | operation | order |
//! |---|---|
//! | a local write (`ops`, `transaction`) | room and clock, drafts of the counters, then all drafts at once |
//! | a write under an idempotency key (`keyed`) | look the key up, then a local write that carries it |
//! | a message in (`merge`, `admission`) | judge it, make room, join, records and keys, then the version vector |
//! | a message out (`build`, `scan`) | select, gather, records and keys, assemble |
//! | duties of a member (`votes`, `absorb`, `expiries`, `collect`, `forget`) | vote, fence, retire, acknowledge, decide on expiries, collect, forget: `SyncMachine::tend` |
//! | changes of the members (`members`, `role`, `aside`) | a record about a writer, as a local write; what this replica may write; a start on a copy |
//! | another writer id (`fork`, `rejoin`) | leave the id behind; or take a member's whole state, then make unconfirmed transactions again |
//! | a store (`snapshot`, `adds`, `restore`) | records since a mark; or the state in parts; and back |
//! | a read (`version`, the rest in the state) | the counter's slots |
//! | a call of the layer above (`quota`) | the six points at which a replica calls its quota |
//! | tests (`local`) | private state as text, with the feature `explore` |
//!
//! # What it guarantees
//! - **All or nothing.** An operation or a message that is refused has changed nothing.
//! - **A reader sees whole transactions.** Their effects become visible at once.
//! - **Each part is changed by its own methods.** A part gets the state as an argument, and never the
//!   replica. The quota is the exception: two of its points get the replica, because they make transactions.
//!
//! # What it follows
//! The order of layers is its own. Algorithms have their sources in the layers, and at the head of the file
//! where one stands here: the ballots of `votes`, the fuzzy checkpoint of `scan`.

mod absorb;
#[cfg(feature = "members")]
mod adds;
mod admission;
mod aside;
mod build;
#[cfg(all(test, feature = "members"))]
mod changes_tests;
pub(crate) mod collect;
pub(crate) mod expiries;
mod forget;
mod fork;
#[cfg(feature = "members")]
mod keyed;
#[cfg(any(test, feature = "explore"))]
pub mod local;
mod members;
mod merge;
mod ops;
mod quota;
mod rejoin;
mod restore;
#[cfg(feature = "guests")]
mod role;
#[cfg(test)]
mod room_tests;
mod scan;
#[cfg(feature = "members")]
mod snapshot;
mod transaction;
mod version;
mod votes;

pub use build::Mark;
pub(crate) use build::Push;
pub use fork::ForksMut;
pub use members::MembersMut;
pub use merge::Merged;
pub(crate) use quota::QuotaHooks;
pub use rejoin::RejoinMut;
pub(crate) use scan::Scan;
#[cfg(feature = "members")]
pub use snapshot::{Part, Restoring, Snapshot};
#[cfg(feature = "budgets")]
pub(crate) use transaction::Savepoint;
pub use transaction::Transaction;

use crate::consistency::Consistency;
use crate::error::{Error, WriteError, detail};
use crate::forks::{ForkLog, Forks};
use crate::idempotency::{IdempotencyLog, Keyed, KeyedMut};
use crate::indexed_state::State;
use crate::membership::Membership;
use crate::membership::listing::Members;
use crate::optional::MemberPart;
use crate::rejoin::Rejoin;
use crate::state::keys::KeyId;
#[cfg(feature = "members")]
use crate::state::moment::Moment;
use crate::state::operation::Op;
use crate::state::page::Shard;
use crate::state::vector::VersionVector;
use crate::writer_id::{Space, WriterId};
use alloc::vec::Vec;
use quota::Quota;

/// One copy of a space's state, written under one writer id.
///
/// It accepts writes without a network, and merges messages of other replicas. For each counter and writer,
/// the shard with the greater clock stays. It does no I/O. The caller moves the bytes, by hand with
/// [`delta`](Replica::delta) and [`merge`](Replica::merge), or with
/// [`SyncMachine`](crate::sync::SyncMachine).
///
/// ```
/// use tallymesh_core::{Replica, Space, VersionVector, WriterId};
/// # fn main() -> Result<(), tallymesh_core::Error> {
/// let space = Space::default();
/// let writer = |nonce| WriterId::mint(&Space::default(), &[7; 32], &[nonce; 16]);
/// let mut here = Replica::new(space.clone(), writer(1));
/// let mut there = Replica::new(space, writer(2));
/// here.add("likes", 2)?;
/// there.add("likes", 3)?;
/// here.merge(&there.delta(&here.vector()))?;
/// assert_eq!(here.value("likes"), Some(5));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Replica {
    pub(crate) state: State,
    pub(crate) forks: ForkLog,
    pub(crate) membership: Membership,
    pub(crate) rejoin: Rejoin,
    pub(crate) idempotency: IdempotencyLog,
    pub(crate) quota: Quota,
    /// Whether this replica only adds: see [`set_adds_only`](crate::MembersMut::set_adds_only).
    #[cfg(feature = "guests")]
    adds_only: bool,
    /// Whether the time is only a guest's own clock: see
    /// [`set_time_unsure`](crate::MembersMut::set_time_unsure).
    #[cfg(feature = "guests")]
    time_unsure: bool,
    /// The counters on whose expiries this replica is about to decide.
    deciding: MemberPart<expiries::Deciding>,
    /// The original's writers, if this replica [stands aside](crate::MembersMut::stand_aside).
    pub(crate) aside: MemberPart<Option<Vec<WriterId>>>,
}

impl Replica {
    /// An empty replica. `writer` must be freshly [minted](WriterId::mint) at each start.
    pub fn new(space: Space, writer: WriterId) -> Replica {
        Replica {
            state: State::new(space, writer),
            forks: ForkLog::new(),
            membership: Membership::new(),
            rejoin: Rejoin::default(),
            idempotency: IdempotencyLog::default(),
            quota: Quota::default(),
            #[cfg(feature = "guests")]
            adds_only: false,
            #[cfg(feature = "guests")]
            time_unsure: false,
            deciding: MemberPart::default(),
            aside: MemberPart::default(),
        }
    }

    /// The space it is a copy of.
    pub fn space(&self) -> &Space {
        self.state.space()
    }

    /// The writer it writes under.
    pub fn writer(&self) -> WriterId {
        self.state.writer()
    }

    /// Its own logical clock: how many transactions it has made.
    pub fn clock(&self) -> u64 {
        self.state.clock()
    }

    /// Adds `by`, which may be negative or 0, to a counter. A counter that is absent begins at 0.
    ///
    /// # Errors
    /// [`WriteError::KeyLength`], [`WriteError::Overflow`] if this writer's total would leave `i64`,
    /// [`WriteError::ClockExhausted`], [`WriteError::CountersFull`], [`WriteError::WritersFull`] for a
    /// writer's first transaction in a full space. Nothing is changed then.
    #[inline]
    pub fn add(&mut self, key: &str, by: i64) -> Result<KeyId, Error> {
        if let Some(key_id) = self.state.keys().find(key)
            && self.add_again(key_id, by)
        {
            return Ok(key_id);
        }
        self.add_new(key, by)
    }

    /// Adds `by` to the counter that has this id: the fastest way to count.
    ///
    /// # Errors
    /// As [`add`](Replica::add), and [`WriteError::UnknownKeyId`].
    #[inline]
    pub fn add_at(&mut self, key_id: KeyId, by: i64) -> Result<(), Error> {
        if self.add_again(key_id, by) {
            return Ok(());
        }
        self.add_first(key_id, by)
    }

    /// Adds to a counter that this writer has a plain shard of already. False, with nothing
    /// changed, if it has none or something is wrong.
    #[inline(always)]
    fn add_again(&mut self, key_id: KeyId, by: i64) -> bool {
        !self.membership.keeps_journal() && self.state.add_again(key_id, by)
    }

    /// An add to a counter whose key may be new.
    #[cold]
    fn add_new(&mut self, key: &str, by: i64) -> Result<KeyId, Error> {
        self.membership.next_clock(&self.state)?;
        Quota::check(&self.state, key)?;
        let key_id = self.state.key_id(key)?;
        self.add_first(key_id, by)?;
        Ok(key_id)
    }

    /// This writer's first add to a counter, one to a counter that is not plain, or one that fails.
    #[cold]
    fn add_first(&mut self, key_id: KeyId, by: i64) -> Result<(), Error> {
        if self.state.keys().get(key_id).is_none() {
            return Err(WriteError::UnknownKeyId {
                key_id: detail(key_id.0),
            }
            .into());
        }
        Quota::check_at(&self.state, key_id)?;
        let clock = self.membership.next_clock(&self.state)?;
        // A journal is kept wherever anything was ever collected, so a plain row never begins a lifetime anew.
        if self.membership.keeps_journal() || !self.state.add_first(key_id, clock, by)? {
            return self.apply_at(key_id, Op::Add(by)).map(|_| ());
        }
        self.membership.made(&mut self.state, clock);
        Ok(())
    }

    /// An id for `key` that stays valid until it is [released](Replica::release) as often as
    /// it was interned, whether the counter exists or not.
    ///
    /// # Errors
    /// [`WriteError::KeyLength`], [`WriteError::CountersFull`].
    pub fn intern(&mut self, key: &str) -> Result<KeyId, Error> {
        let key_id = self.state.key_id(key)?;
        self.state.pin(key_id);
        Ok(key_id)
    }

    /// Gives an interned id back. The counter, if it exists, stays.
    ///
    /// # Errors
    /// [`WriteError::UnknownKeyId`] if it is not interned.
    pub fn release(&mut self, key_id: KeyId) -> Result<(), Error> {
        self.state.release(key_id)
    }

    /// The counter's value, `None` if it is absent or has expired by [`set_time`](Replica::set_time).
    pub fn value(&self, key: &str) -> Option<i128> {
        self.state.value(key)
    }

    /// The value of the counter that has this id, as [`value`](Replica::value).
    pub fn value_at(&self, key_id: KeyId) -> Option<i128> {
        self.state.value_at(key_id)
    }

    /// When the counter expires, in milliseconds since 1970; `None` if it is absent or stays.
    pub fn expiry_at(&self, key_id: KeyId) -> Option<u64> {
        let expiry = self.effective_expiry(key_id);
        expiry.filter(|_| !self.is_past(expiry))
    }

    /// When the counter expires or expired, in milliseconds since 1970, whatever the time is; `None`
    /// if it is absent or stays.
    pub fn effective_expiry(&self, key_id: KeyId) -> Option<u64> {
        self.state.effective_expiry(key_id)
    }

    /// Sets the wall clock by which counters expire, in milliseconds since 1970, until the next
    /// call. A new replica's stands at 0, when nothing has expired. It may go back.
    pub fn set_time(&mut self, unix_ms: u64) {
        self.state.set_time(unix_ms)
    }

    fn is_past(&self, expiry: Option<u64>) -> bool {
        self.state.is_past(expiry)
    }

    /// The id of a key that is known here, without interning it.
    pub fn key_id(&self, key: &str) -> Option<KeyId> {
        self.state.keys().find(key)
    }

    /// The key that has this id.
    pub fn key(&self, key_id: KeyId) -> Option<&str> {
        self.state.keys().get(key_id)
    }

    /// Calls `take` with each counter that exists, in no stated order.
    pub fn each_counter(&self, take: &mut dyn FnMut(KeyId)) {
        self.state.each_counter(|key_id| {
            if !Quota::owns(&self.state, key_id) {
                take(key_id);
            }
        });
    }

    /// Whether this writer holds anything of a budget.
    #[cfg(feature = "guests")]
    pub(crate) fn has_accounts(&self) -> bool {
        Quota::keeps(&self.state, crate::state::page::OWN)
    }

    /// Each counter that exists, in no stated order.
    pub fn counters(&self) -> impl Iterator<Item = (KeyId, &str)> {
        self.state.counters().filter_map(|key_id| {
            if Quota::owns(&self.state, key_id) {
                return None;
            }
            Some((key_id, self.state.keys().get(key_id)?))
        })
    }

    /// How many counters exist.
    pub fn len(&self) -> usize {
        let mut count = self.state.counter_count();
        for key_id in Quota::owned(&self.state) {
            count -= usize::from(self.value_at(key_id).is_some());
        }
        count
    }

    /// One more than the greatest id.
    pub fn key_ids_end(&self) -> u32 {
        self.state.key_ids_end()
    }

    /// Bytes of all keys that are known. At [`KEY_TABLE_BYTES_MAX`](crate::bounds::KEY_TABLE_BYTES_MAX)
    /// no new key has room any more ([`WriteError::CountersFull`]).
    pub fn key_bytes(&self) -> usize {
        self.state.keys().bytes() as usize
    }

    /// Goes up when a whole state takes the place of all that was held: its counters have other
    /// ids.
    pub fn generation(&self) -> u64 {
        self.state.generation()
    }

    /// Whether no counter exists.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shards of one counter, ascending by writer. Shards of a retired writer are part of its
    /// successor's.
    pub fn shards(&self, key_id: KeyId) -> impl Iterator<Item = Shard> {
        self.state.shards(key_id)
    }

    /// Calls `take` with each of the [`shards`](Replica::shards) of one counter.
    pub fn each_shard(&self, key_id: KeyId, take: &mut dyn FnMut(Shard)) {
        self.state.each_shard(key_id, take)
    }

    /// How many shards are held.
    pub fn shard_count(&self) -> usize {
        self.state.shard_count()
    }

    /// The version vector, ascending by writer.
    pub fn writers(&self) -> impl Iterator<Item = (WriterId, u64)> {
        self.state.writers()
    }

    /// The version vector: what is held and visible here.
    pub fn vector(&self) -> VersionVector {
        self.state.vector()
    }

    /// The members of the space, and what is known of its writers.
    #[inline]
    pub fn members(&self) -> Members<'_> {
        Members::new(&self.membership, &self.state)
    }

    /// Changes of the members, this replica's statements about writers, and garbage collection.
    #[inline]
    pub fn members_mut(&mut self) -> MembersMut<'_> {
        MembersMut { replica: self }
    }

    /// How far transactions are held: here, by members, and for the reads of a session.
    #[inline]
    pub fn consistency(&self) -> Consistency<'_> {
        Consistency::new(&self.membership, &self.state, &self.rejoin)
    }

    /// The operations that were made under idempotency keys.
    #[inline]
    pub fn keyed(&self) -> Keyed<'_> {
        Keyed::new(&self.idempotency, &self.membership, &self.state)
    }

    /// Changes of the idempotency log.
    #[inline]
    pub fn keyed_mut(&mut self) -> KeyedMut<'_> {
        KeyedMut::new(&mut self.idempotency, &mut self.membership, &mut self.state)
    }

    /// Going on under a fresh writer after this one was passed over.
    #[inline]
    pub fn rejoin_mut(&mut self) -> RejoinMut<'_> {
        RejoinMut { replica: self }
    }

    /// Evidence of forks, and the digests by which forks are found.
    #[inline]
    pub fn forks(&self) -> Forks<'_> {
        let closed = self.membership.configuration().is_some();
        Forks::new(&self.forks, &self.state, closed)
    }

    /// Looks for forks, and leaves a forked writer id behind.
    #[inline]
    pub fn forks_mut(&mut self) -> ForksMut<'_> {
        ForksMut { replica: self }
    }

    /// The digest of the version vector. It takes time for each writer once something changed.
    pub fn digest(&self) -> [u8; 16] {
        self.state.digest()
    }

    /// The same digest. The replica keeps it for the next call.
    pub(crate) fn cached_digest(&mut self) -> [u8; 16] {
        self.state.cached_digest()
    }

    /// The present moment.
    #[cfg(feature = "members")]
    pub fn moment(&mut self) -> Moment {
        self.state.moment()
    }

    /// The counters that changed since a moment, and perhaps some that did not. They ascend, from the id
    /// with the number `from` on. Returns `None` if they can't be told apart any more: another state replaced
    /// everything, or absent counters were dropped.
    ///
    /// Its cost follows the changes, not the state.
    #[cfg(feature = "members")]
    pub fn changed_since(&self, moment: Moment, from: u32) -> Option<impl Iterator<Item = KeyId>> {
        self.state.changed_since(moment, from)
    }

    /// Gives back memory that growth has set aside. Worth its time after a large load.
    pub fn shrink(&mut self) {
        self.state.shrink()
    }

    /// The heap bytes that the shards and their keys take, as allocated.
    pub fn heap_bytes(&self) -> usize {
        self.state.heap_bytes() + self.forks.heap_bytes()
    }
}

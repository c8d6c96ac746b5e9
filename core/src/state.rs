//! The state: the CRDT and its memory. This folder knows keys, writers and clocks, and no member.
//!
//! # What it adds
//! A space is a map from keys to counters. A counter is a map from writers to slots. A plain slot is a
//! *shard*: `(clock, total)`, with the clock of the writer's last transaction that touched the counter.
//! Only the slot's own writer changes its shard, and each of its transactions has a greater clock. So of
//! two copies of a shard the one with the greater clock is the later one, and the join keeps that.
//!
//! Five more operations need more than a shard, and [`slot`] has their records: reset, delete, set, expire
//! and persist. [`counter`] says what slots with such records come to, and [`operation`] what each operation
//! does.
//!
//! # What it guarantees
//! `state/tests.rs` has these as laws over random histories.
//! - **The join is commutative, associative and idempotent**, so replicas that saw the same transactions
//!   have the same state, in any order of deltas. [`join`] says which of two records wins.
//! - **A cancel removes exactly what its writer had seen.** Adds that it had not seen survive.
//!
//! Two more hold because the layers above keep the [order of a join](join): the low clocks checked, all
//! chunks installed, then normalized, and then the clocks moved.
//! - **A replica always shows a causal cut.** A [delta interval](delta::Delta) is `(low, high, records)`:
//!   everything stamped in `high` and not in `low`. A replica joins it only where `low` is covered, and its
//!   version vector then covers `high`. The [admission rules](crate::membership::admission) check that.
//! - **No transaction is seen in part.** All of its records have one clock, and the chunks of a long transfer
//!   are joined together.
//!
//! # What it follows, and where it departs
//! | source | used here | departure |
//! |---|---|---|
//! | State-based CRDTs and the PN-Counter (Shapiro, Preguiça, Baquero, Zawirski 2011) | the state is a join semilattice, with one entry for each writer | one total for each writer, ordered by the writer's clock, in place of two sums that only grow; so adds may be negative, and a total can be cancelled |
//! | Delta-state CRDTs, delta intervals (Almeida, Shoker, Baquero 2018) | the causal delta-merging condition: join an interval only where its begin is covered | no buffer of deltas: each shard carries its clock, so [`build`] makes any interval out of the state itself |
//! | Observed-remove (Shapiro et al. 2011, the OR-Set) | a cancel removes the adds that it observed, and concurrent adds win | no tag for each add: a view is a causal cut, so what a cancel saw of one writer is a prefix, and one clock with one total names it |
//! | Version vectors (Parker et al. 1983) | [`vector`] compares what two replicas have | they count transactions of writers, not updates of one file at sites; concurrent writes are no conflict, since they add up |
//!
//! # An afternoon's reading
//! The folder has some 5,000 lines without its tests. Read the files in this order, and skip the last row the
//! first time.
//!
//! | hour | files | question that they answer |
//! |---|---|---|
//! | 1 | [`vector`], [`operation`] to `Draft`, [`delta`], [`page`] to the end of `Column` | what can a user do, what travels, and where does a shard lie? |
//! | 2 | [`slot`], [`counter`], the rest of [`operation`] | what do cancels, lifetimes and expiries mean, what is a counter's value, and what does an operation do? |
//! | 3 | [`join`], [`read`], `state.rs` to the fields `keys`, `pages`, `ids` and `clocks` | how does a delta get in, and how is a value read? |
//! | 4 | [`build`], [`changes`], [`sweep`], then `tests/world.rs` and `tests.rs` | how is a delta found, and what is not needed any more? The tests are the shortest whole description of the folder |
//! | later | [`keys`], [`writers`], [`sheet`](crate::sheet), [`recent`](crate::recent), `raised`, `moment`, the other fields of `State` | how is all that fast and small? |
//!
//! A writer has a *local number*, which indexes `ids` and `clocks`. The own writer's is 0 (`OWN`).
//!
//! Some parts serve layers above, and may be skipped at first. [Retirement](crate::membership::retire) has
//! the records [`Moved`](slot::Moved) and [`Fold`](slot::Fold), `take_over` and `retire` in [`counter`], and
//! `forget`, `restamp` and `rework` in [`writers`]. [Idempotency](crate::idempotency) has the record
//! [`Withdrawal`](slot::Withdrawal), and `withdraw` in [`operation`]. [Forks](crate::forks) have `late` and
//! `forked` in [`join`]. [Expiries](crate::replica::expiries) of spaces with members have the record
//! [`Expired`](slot::Expired), and `judged` in [`ends`]. [Collection](crate::membership::stability) has all of [`sweep`]. They lie here
//! because each read of a counter has to respect them. The layers above decide when such a record is made,
//! and which stamps are stable.
//!
//! # What it needs
//! It names modules of the ground, and no other of the core: `error`, `bounds`, `hash`, `sort`, `list`,
//! `sheet`, `recent`, `writer_id`, `vector`, `expired`, which judges ends, and `optional`, whose parts are empty
//! in a program that lacks their layer. The crate `tests/state-alone` compiles it with these alone, and runs
//! its laws, without any feature and with `members`.

pub(crate) mod build;
pub(crate) mod changes;
pub(crate) mod counter;
pub(crate) mod delta;
mod ends;
pub(crate) mod join;
pub(crate) mod keys;
#[cfg(feature = "members")]
pub(crate) mod moment;
pub(crate) mod operation;
pub(crate) mod page;
mod raised;
mod read;
pub(crate) mod slot;
pub(crate) mod sweep;
pub(crate) mod writers;

pub(crate) use crate::vector;

use crate::error::Error;
use crate::numbers::Numbers;
use crate::optional::{GUESTS, GuestPart, MemberPart, Optional};
use crate::writer_id::{Space, WriterId};
use alloc::vec::Vec;
use changes::Touched;
use counter::Act;
use keys::{KeyId, KeyIndex, Keys, NoIndex};
use page::{OWN, PAGE, Page, bits};
use slot::Slot;

/// The shards of a space, and the version vector up to which this replica has them.
#[derive(Clone)]
pub(crate) struct State<I = NoIndex> {
    space: Space,
    keys: Keys<I>,
    pages: Vec<Page>,
    touched: Touched,
    /// The number of the present epoch. Each mark raises it by one.
    ///
    /// A page that was touched in an epoch has changed since the mark that began the epoch.
    epoch: u64,
    /// The writers by local number.
    ids: Vec<WriterId>,
    /// The version vector by local number. The own writer's entry is its logical clock.
    clocks: Vec<u64>,
    /// For each writer, the own clock when the writer's entry in `clocks` last grew. Own transactions up to
    /// this clock do not build on that growth. Later ones do.
    merged_at: Vec<u64>,
    /// For each writer, its entry in `clocks` at the last own transaction. The entry is valid only if the
    /// replica has merged something of the writer since.
    seen_at_last: GuestPart<Vec<u64>>,
    numbers: Numbers,
    /// The local numbers of forgotten writers.
    free: GuestPart<Vec<u32>>,
    /// The epoch in which each local number was given to its writer.
    assigned: GuestPart<Vec<u64>>,
    /// The epoch in which a whole state last replaced everything in this one.
    began: u64,
    /// Whether this replica ever collected anything. Then a new own slot has to say that it begins a lifetime,
    /// because another replica may still have an earlier one.
    collected: bool,
    /// How often scans of the state in parts became void, modulo 2^64.
    ///
    /// A scan becomes void if a local number is given to another writer. It also becomes void if a record
    /// comes or goes without a newer clock.
    voided: GuestPart<u64>,
    /// How often counters were dropped because nothing was left of them.
    dropped: GuestPart<u64>,
    /// The wall clock by which counters expire, in milliseconds since 1970.
    time: u64,
    /// The writers that were raised last, and the digest of all.
    raised: MemberPart<raised::Raised>,
}

impl<I: KeyIndex> State<I> {
    /// The state of an empty replica, which writes under `writer`.
    pub(crate) fn new(space: Space, writer: WriterId) -> State<I> {
        let seed = u64::from_le_bytes(core::array::from_fn(|i| writer.as_bytes()[i]));
        let mut state = State {
            space,
            keys: Keys::new(seed),
            pages: Vec::new(),
            touched: Touched::default(),
            epoch: 1,
            ids: Vec::from([writer]),
            clocks: Vec::from([0]),
            merged_at: Vec::from([0]),
            seen_at_last: GuestPart::default(),
            numbers: Numbers::new(writer, OWN),
            free: GuestPart::default(),
            assigned: GuestPart::default(),
            began: 0,
            collected: false,
            voided: GuestPart::default(),
            dropped: GuestPart::default(),
            time: 0,
            raised: MemberPart::default(),
        };
        state.seen_at_last.update(|it| it.push(0));
        state.assigned.update(|it| it.push(0));
        state
    }

    /// Drops all shards and all writers, and continues as `writer`. Interned keys stay.
    pub(crate) fn clear(&mut self, writer: WriterId) {
        let pages = core::mem::take(&mut self.pages);
        self.touched.resize(0);
        for (at, page) in pages.iter().enumerate() {
            for bit in bits(page.present()) {
                self.forget_unused(KeyId((at * PAGE) as u32 + bit));
            }
        }
        self.void_scans();
        self.epoch += 1;
        self.began = self.epoch;
        self.ids = Vec::from([writer]);
        self.clocks = Vec::from([0]);
        self.merged_at = Vec::from([0]);
        self.seen_at_last.update(|it| *it = Vec::from([0]));
        self.free.take();
        self.assigned.update(|it| *it = Vec::from([0]));
        self.numbers = Numbers::new(writer, OWN);
        self.all_raised();
    }

    /// Returns the page. Creates it if it does not exist.
    pub(crate) fn page_mut(&mut self, page_at: usize) -> &mut Page {
        if page_at >= self.pages.len() {
            self.pages.resize_with(page_at + 1, Page::default);
            self.touched.resize(page_at + 1);
        }
        &mut self.pages[page_at]
    }

    /// Marks counters of a page as changed.
    #[inline]
    pub(crate) fn touch(&mut self, page_at: usize, slots: u64) {
        if self.pages[page_at].touch.note(slots, self.epoch) {
            self.touched.note(page_at, self.epoch);
        }
    }

    /// Returns the key's id. A key without an id receives one.
    ///
    /// # Errors
    /// [`WriteError::KeyLength`](crate::WriteError::KeyLength),
    /// [`WriteError::CountersFull`](crate::WriteError::CountersFull).
    #[inline]
    pub(crate) fn key_id(&mut self, key: &str) -> Result<KeyId, Error> {
        self.keys.find_or_insert(key)
    }

    /// Lets a key's id stay valid until it is [released](State::release).
    #[inline]
    pub(crate) fn pin(&mut self, key_id: KeyId) {
        self.keys.pin(key_id);
    }

    /// Takes one pin of a key back. Removes the key with the last pin, if no slot has it.
    ///
    /// # Errors
    /// [`WriteError::UnknownKeyId`](crate::WriteError::UnknownKeyId) if the key has no pin.
    #[inline]
    pub(crate) fn release(&mut self, key_id: KeyId) -> Result<(), Error> {
        if self.keys.unpin(key_id)? {
            self.forget_unused(key_id);
        }
        Ok(())
    }

    /// Reserves memory for so many more keys.
    #[cfg(feature = "members")]
    pub(crate) fn reserve_keys(&mut self, keys: usize) {
        self.keys.reserve(keys);
    }

    /// Removes the key if no slot has it and nobody has it interned.
    pub(crate) fn forget_unused(&mut self, key_id: KeyId) {
        if !self.has_slots(key_id) && !self.keys.is_pinned(key_id) {
            self.keys.remove(key_id);
        }
    }

    /// Whether this replica ever collected anything.
    #[cfg(any(test, feature = "explore"))]
    pub(crate) fn has_collected(&self) -> bool {
        self.collected
    }

    /// Bounds the bytes of all keys.
    #[cfg(any(test, feature = "explore"))]
    pub(crate) fn set_key_bytes_max(&mut self, bytes: u32) {
        self.keys.set_bytes_max(bytes);
    }

    /// Frees the memory that growth has reserved. It is worth its time after a large load.
    pub(crate) fn shrink(&mut self) {
        for page in &mut self.pages {
            page.own.rows.shrink_to_fit();
            page.others.shrink_to_fit();
            for column in &mut page.others {
                column.rows.shrink_to_fit();
            }
        }
        self.pages.shrink_to_fit();
        self.touched.shrink();
        self.keys.shrink();
    }

    /// Moves the own clock to that of a transaction that was made.
    #[inline]
    pub(crate) fn made(&mut self, clock: u64) {
        self.clocks[OWN as usize] = clock;
    }

    /// Lets the next own transaction build on everything here, as after a restart, when merges before and
    /// after the last transaction can't be told apart.
    pub(crate) fn build_on_all(&mut self) {
        self.merged_at.fill(self.clocks[OWN as usize]);
        if GUESTS {
            self.seen_at_last.set(self.clocks.clone());
        }
    }

    /// A transaction of this clock.
    pub(crate) fn act(&self, clock: u64) -> Act<'_> {
        Act {
            clock,
            ids: &self.ids,
            reuses: self.collected,
        }
    }

    /// Replaces a counter's slots.
    pub(crate) fn put_slots(&mut self, key_id: KeyId, slots: Vec<Slot>) {
        let (page_at, bit) = place(key_id);
        self.page_mut(page_at).set_slots(bit, slots);
        self.touch(page_at, 1 << bit);
    }
}

/// Returns the page of a key's local number, and the place in that page.
#[inline]
pub(crate) fn place(key_id: KeyId) -> (usize, u32) {
    (key_id.0 as usize / PAGE, key_id.0 % PAGE as u32)
}

#[cfg(test)]
mod tests;

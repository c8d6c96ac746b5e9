//! The state: the CRDT and its memory. This folder knows keys, writers and clocks, and no member.
//!
//! # What it adds
//! A space is a map from keys to counters. A counter is a map from writers to slots. A plain slot is a
//! *shard*: `(clock, total)`, with the clock of the writer's last transaction that touched the counter.
//! Only the slot's own writer changes its shard, and each of its transactions has a greater clock. So of
//! two copies of a shard the one with the greater clock is the later one, and the join keeps that.
//!
//! Five more operations need more than a shard, and [`slot`] has their records: reset, delete, set, expire
//! and persist. [`counter`] says what slots with such records come to.
//!
//! # What it guarantees
//! - **The join is commutative, associative and idempotent**, so replicas that saw the same transactions
//!   have the same state, in any order of messages. `core/tests/laws/merge.rs` checks it on random states.
//! - **A replica always shows a causal cut.** A [delta interval](delta::Delta) is `(low, high, records)`:
//!   everything stamped in `high` and not in `low`. A replica joins it only where `low` is covered,
//!   and its version vector then covers `high`. (The [admission rules](crate::membership::admission) check
//!   that before the join.) `core/tests/laws/deltas.rs` checks that any order of deltas gives
//!   the full state.
//! - **A cancel removes exactly what its writer had seen.** Adds that it had not seen survive.
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
//! The folder has some 4,300 lines. Read the files in this order, and skip the last row the first time.
//!
//! | hour | files | question that they answer |
//! |---|---|---|
//! | 1 | [`vector`], [`page`] to the end of `Column`, `state.rs` | what does a replica store, and where does a shard lie? |
//! | 2 | [`slot`], [`counter`] | what do cancels, lives and expiries mean, and what is a counter's value? |
//! | 3 | [`delta`], [`join`] | what travels, and how does it get in? |
//! | 4 | [`operation`], [`read`], [`build`], [`changes`] | how is a transaction worked out, a value read, and a delta found? |
//! | later | [`keys`], [`writers`], [`sheet`], [`recent`], [`version`], `moved`, `unmoved`, `moment`, `table` | how is all that fast and small? |
//!
//! Two parts of [`slot`] belong to layers above: [`Moved`](slot::Moved) and [`Fold`](slot::Fold) to
//! [retirement](crate::membership::retire), and [`Withdrawal`](slot::Withdrawal) to
//! [idempotency](crate::idempotency). They lie here because each read of a counter has to respect them.
//!
//! # What it needs
//! It names no module of the core but seven of the ground: `error` (four variants), `bounds`, `hash`, `sort`,
//! `list`, `layers` (its optional parts) and `writer_id`. The crate `tests/state-alone` compiles it with these
//! alone, without any feature, and runs its laws, which are in `state/tests.rs`.

pub(crate) mod build;
pub(crate) mod changes;
pub(crate) mod counter;
pub(crate) mod delta;
pub(crate) mod join;
pub(crate) mod keys;
#[cfg(feature = "members")]
pub(crate) mod moment;
#[cfg(feature = "members")]
mod moved;
pub(crate) mod operation;
pub(crate) mod page;
mod read;
pub(crate) mod recent;
pub(crate) mod sheet;
pub(crate) mod slot;
#[cfg(any(test, target_family = "wasm"))]
mod table;
#[cfg(not(feature = "members"))]
mod unmoved;
pub(crate) mod vector;
mod version;
pub(crate) mod writers;

use crate::layers::{GuestPart, MEMBERS, Optional};
use crate::writer_id::{Space, WriterId};
use alloc::vec::Vec;
use changes::{StateMark, Touched};
use counter::Act;
use keys::{KeyId, KeyIndex, Keys, NoIndex};
use page::{OWN, PAGE, Page, bits};
use slot::{Slot, Stamp, absorption};
use writers::Numbers;

/// The shards of a space, and the version vector up to which this replica has them.
#[derive(Clone)]
pub(crate) struct State<I = NoIndex> {
    pub(crate) space: Space,
    pub(crate) keys: Keys<I>,
    pub(crate) pages: Vec<Page>,
    pub(crate) touched: Touched,
    /// The number of the present epoch. Each mark raises it by one.
    ///
    /// A page that was touched in an epoch has changed since the mark that began the epoch.
    pub(crate) epoch: u64,
    /// The writers by local number.
    pub(crate) writers: Vec<WriterId>,
    /// The version vector by local number. The own writer's entry is its logical clock.
    pub(crate) clocks: Vec<u64>,
    /// For each writer, the own clock when the writer's entry in `clocks` last grew. Own transactions up to
    /// this clock do not build on that growth. Later ones do.
    pub(crate) merged_at: Vec<u64>,
    /// For each writer, its entry in `clocks` at the last own transaction. The entry is valid only if the
    /// replica has merged something of the writer since.
    pub(crate) seen_at_last: GuestPart<Vec<u64>>,
    pub(crate) numbers: Numbers,
    /// The local numbers of forgotten writers.
    pub(crate) free: GuestPart<Vec<u32>>,
    /// The epoch in which each local number was given to its writer.
    pub(crate) assigned: GuestPart<Vec<u64>>,
    /// The epoch in which a whole state last replaced everything in this one.
    pub(crate) began: u64,
    /// Whether this replica ever collected anything. If it did, a merge does not install a record that is
    /// covered and absent. If it did not, only a forked writer's record can be covered and absent.
    pub(crate) collected: bool,
    /// How often scans of the state in parts became void, modulo 2^64.
    ///
    /// A scan becomes void if a local number is given to another writer. It also becomes void if a record
    /// comes or goes without a newer clock.
    pub(crate) voided: GuestPart<u64>,
    /// How often counters were dropped because nothing was left of them.
    pub(crate) dropped: GuestPart<u64>,
    /// The wall clock by which counters expire, in milliseconds since 1970.
    pub(crate) time: u64,
    #[cfg(feature = "members")]
    pub(crate) moved: moved::Moved,
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
            writers: Vec::from([writer]),
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
            #[cfg(feature = "members")]
            moved: moved::Moved::NONE,
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
            for slot in bits(page.present()) {
                self.forget_unused(KeyId((at * PAGE) as u32 + slot));
            }
        }
        self.void_scans();
        self.epoch += 1;
        self.began = self.epoch;
        self.writers = Vec::from([writer]);
        self.clocks = Vec::from([0]);
        self.merged_at = Vec::from([0]);
        self.seen_at_last.update(|it| *it = Vec::from([0]));
        self.free.take();
        self.assigned.update(|it| *it = Vec::from([0]));
        self.numbers = Numbers::new(writer, OWN);
        self.all_moved();
    }

    /// Returns the writer's local number. A writer without a number receives one.
    pub(crate) fn number(&mut self, writer: WriterId) -> u32 {
        if let Some(number) = self.numbers.get(&writer) {
            return number;
        }
        let number = self.assign(writer);
        self.numbers.insert(writer, number);
        number
    }

    /// A number for a writer that has none.
    pub(crate) fn assign(&mut self, writer: WriterId) -> u32 {
        if let Some(number) = self.free.update(Vec::pop).flatten() {
            self.writers[number as usize] = writer;
            self.assigned.update(|it| it[number as usize] = self.epoch);
            self.note_moved(number);
            return number;
        }
        self.writers.push(writer);
        self.clocks.push(0);
        self.merged_at.push(0);
        self.seen_at_last.update(|it| it.push(0));
        self.assigned.update(|it| it.push(self.epoch));
        let number = self.writers.len() as u32 - 1;
        self.note_moved(number);
        number
    }

    /// Returns the clock that a mark has for a local number. Returns 0 if another writer received the number
    /// since the mark.
    pub(crate) fn low(&self, mark: &StateMark, number: usize) -> u64 {
        // In a program without guests no number changes hands, and `assigned` is empty.
        let since = self.assigned.get(number).copied().unwrap_or(self.began);
        match since >= mark.epoch {
            true => 0,
            false => mark.clocks.get(number).copied().unwrap_or(0),
        }
    }

    /// The clocks that a mark has, by local number.
    pub(crate) fn lows(&self, mark: &StateMark) -> Vec<u64> {
        let numbers = 0..self.writers.len();
        numbers.map(|number| self.low(mark, number)).collect()
    }

    /// The writer under which this replica writes.
    pub(crate) fn writer(&self) -> WriterId {
        self.writers[OWN as usize]
    }

    /// The own logical clock: how many transactions the own writer has made.
    pub(crate) fn clock(&self) -> u64 {
        self.clocks[OWN as usize]
    }

    /// Returns the page. Creates it if it does not exist.
    pub(crate) fn page_mut(&mut self, page_at: usize) -> &mut Page {
        if page_at >= self.pages.len() {
            self.pages.resize_with(page_at + 1, Page::default);
            self.touched.resize(page_at + 1);
        }
        &mut self.pages[page_at]
    }

    /// Makes scans of the state in parts void.
    pub(crate) fn void_scans(&mut self) {
        self.voided.update(|it| *it = it.wrapping_add(1));
    }

    /// Marks counters of a page as changed.
    #[inline]
    pub(crate) fn touch(&mut self, page_at: usize, slots: u64) {
        if self.pages[page_at].touch.note(slots, self.epoch) {
            self.touched.note(page_at, self.epoch);
        }
    }

    /// Removes the key if no slot has it and nobody has it interned.
    pub(crate) fn forget_unused(&mut self, handle: KeyId) {
        let (page_at, slot) = place(handle);
        let page = self.pages.get(page_at);
        let used = page.is_some_and(|page| page.rows(slot).next().is_some());
        if !used && !self.keys.is_pinned(handle) {
            self.keys.remove(handle);
        }
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

    /// A transaction of this clock.
    pub(crate) fn act(&self, clock: u64) -> Act<'_> {
        Act {
            clock,
            ids: &self.writers,
            reuses: self.collected,
        }
    }

    /// Replaces a counter's slots.
    pub(crate) fn put_slots(&mut self, handle: KeyId, slots: Vec<Slot>) {
        let (page_at, slot) = place(handle);
        self.page_mut(page_at).set_slots(slot, slots);
        self.touch(page_at, 1 << slot);
    }

    /// Drops the columns of forgotten writers, and replaces their stamps by the stamps of their absorptions.
    pub(crate) fn restamp(&mut self, gone: &[(u32, Stamp, u64)]) {
        let is_gone = |number: u32| absorption(gone, number).is_some();
        let again = |stamp: &mut Stamp| {
            if let Some(to) = absorption(gone, stamp.writer) {
                *stamp = to;
            }
        };
        for page in &mut self.pages {
            for side in page.sides_mut() {
                if let Some(cut) = &mut side.cut {
                    again(&mut cut.by);
                }
                if let Some(lift) = &mut side.lift {
                    again(&mut lift.by);
                }
                if let Some(withdrawals) = side.withdrawals.get_mut() {
                    for withdrawal in withdrawals {
                        again(&mut withdrawal.by);
                    }
                }
            }
            page.others.retain(|column| !is_gone(column.writer));
        }
    }

    /// Lets the next stored record contain the changed shards of these writers, although their clocks were
    /// stored already.
    ///
    /// Without the members layer it contains the changed shards of all writers.
    pub(crate) fn rework(&mut self, writers: &[WriterId]) {
        if !MEMBERS {
            let all = self.assigned.update(|it| it.fill(self.epoch));
            if all.is_none() {
                self.began = self.epoch;
            }
            return;
        }
        self.void_scans();
        for writer in writers {
            if let Some(number) = self.numbers.get(writer) {
                self.assigned.update(|it| it[number as usize] = self.epoch);
                self.note_moved(number);
            }
        }
    }
}

/// Returns the page of a key's local number, and the place in that page.
#[inline]
pub(crate) fn place(handle: KeyId) -> (usize, u32) {
    (handle.0 as usize / PAGE, handle.0 % PAGE as u32)
}

#[cfg(test)]
mod tests;

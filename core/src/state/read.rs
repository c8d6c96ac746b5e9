//! Reads: values, shards, and the version vector.

use super::delta::Delta;
use super::keys::{KeyId, KeyIndex, Keys};
#[cfg(feature = "members")]
use super::page::Row;
use super::page::{PAGE, Page, Shard, bits};
#[cfg(feature = "members")]
use super::slot::Side;
use super::slot::Slot;
use super::vector::VersionVector;
use super::{State, counter, place};
#[cfg(feature = "members")]
use crate::bounds::TRANSACTION_OPS_MAX;
use crate::error::Error;
use crate::optional::GUESTS;
use crate::sort::sort_by;
use crate::writer_id::{Space, WriterId};
use alloc::vec::Vec;

impl<I: KeyIndex> State<I> {
    /// The counter's value, `None` if it is absent or has expired by [`set_time`](State::set_time).
    pub(crate) fn value(&self, key: &str) -> Option<i128> {
        self.value_at(self.keys.find(key)?)
    }

    /// The value of the counter with this number, as [`value`](State::value).
    pub(crate) fn value_at(&self, key_id: KeyId) -> Option<i128> {
        let (page_at, bit) = place(key_id);
        let page = self.pages.get(page_at)?;
        if page.is_odd(bit) {
            return self.odd_value(page, bit);
        }
        let mut rows = page.rows(bit);
        let (_, first) = rows.next()?;
        Some(rows.fold(i128::from(first.total), |sum, (_, row)| {
            sum + i128::from(row.total)
        }))
    }

    #[cold]
    pub(crate) fn odd_value(&self, page: &Page, bit: u32) -> Option<i128> {
        let sum = counter::sum(&page.slots(bit), &self.ids);
        match self.is_past(sum.expiry()) {
            true => None,
            false => sum.value(),
        }
    }

    /// When the counter expires or expired, in milliseconds since 1970, whatever the time is. `None` if it is
    /// absent or does not expire.
    pub(crate) fn effective_expiry(&self, key_id: KeyId) -> Option<u64> {
        let (page_at, bit) = place(key_id);
        let page = self.pages.get(page_at)?;
        if !page.is_odd(bit) {
            return None;
        }
        counter::sum(&page.slots(bit), &self.ids).expiry()
    }

    /// Sets the wall clock by which counters expire, in milliseconds since 1970, until the next
    /// call. A new replica's stands at 0, when nothing has expired. It may go back.
    pub(crate) fn set_time(&mut self, unix_ms: u64) {
        self.time = unix_ms;
    }

    /// The wall clock by which counters expire, in milliseconds since 1970.
    #[cfg(feature = "guests")]
    #[inline]
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    pub(crate) fn is_past(&self, expiry: Option<u64>) -> bool {
        expiry.is_some_and(|at| at <= self.time)
    }

    /// An upper bound of the keys' numbers: all are below it.
    pub(crate) fn key_ids_end(&self) -> u32 {
        (self.pages.len() * PAGE) as u32
    }

    /// Which counters of a page exist.
    pub(crate) fn existing(&self, page: &Page) -> u64 {
        let odd = page.odd();
        let mut set = page.present();
        for bit in bits(odd & set) {
            if self.odd_value(page, bit).is_none() {
                set &= !(1 << bit);
            }
        }
        set
    }

    /// Returns the shards of one counter, ascending by writer. A retired writer's shards are part of its
    /// successor's.
    pub(crate) fn shards(&self, key_id: KeyId) -> impl Iterator<Item = Shard> {
        let mut shards = Vec::new();
        self.each_shard(key_id, &mut |shard| shards.push(shard));
        shards.into_iter()
    }

    /// Calls `take` with each of the [`shards`](State::shards) of one counter.
    pub(crate) fn each_shard(&self, key_id: KeyId, take: &mut dyn FnMut(Shard)) {
        let (page_at, bit) = place(key_id);
        let page = self.pages.get(page_at);
        let slots = page.map_or(Vec::new(), |page| page.slots(bit));
        let sums = counter::sums(&slots, &self.ids);
        let winner = counter::sum(&slots, &self.ids).assignment;
        let id = |at: u32| self.ids[slots[at as usize].writer() as usize];
        let mut order: Vec<u32> = (0..slots.len() as u32).collect();
        sort_by(&mut order, &|a, b| id(a).cmp(&id(b)));
        for at in order.iter().copied() {
            let (slot, sum) = (&slots[at as usize], &sums[at as usize]);
            if slot.side.moved.is_some() || !sum.exists() {
                continue;
            }
            let assignment = sum
                .assignment
                .filter(|assignment| Some(*assignment) == winner);
            take(Shard {
                writer: id(at),
                clock: slot.row.clock,
                total: sum.amount + assignment.map_or(0, |assignment| i128::from(assignment.value)),
            });
        }
    }

    /// Calls `take` with each counter that exists, in no stated order.
    #[inline]
    pub(crate) fn each_counter(&self, mut take: impl FnMut(KeyId)) {
        for (at, page) in self.pages.iter().enumerate() {
            for bit in bits(self.existing(page)) {
                take(KeyId((at * PAGE) as u32 + bit));
            }
        }
    }

    /// Each counter that exists, in no stated order.
    pub(crate) fn counters(&self) -> impl Iterator<Item = KeyId> {
        let pages = self.pages.iter().enumerate();
        pages.flat_map(|(at, page)| {
            bits(self.existing(page)).map(move |bit| KeyId((at * PAGE) as u32 + bit))
        })
    }

    /// How many counters exist.
    #[inline]
    pub(crate) fn counter_count(&self) -> usize {
        let mut count = 0;
        for page in &self.pages {
            count += self.existing(page).count_ones() as usize;
        }
        count
    }

    /// How many shards the state has.
    pub(crate) fn shard_count(&self) -> usize {
        let mut count = 0;
        for page in &self.pages {
            for column in page.columns() {
                count += column.rows.len();
            }
        }
        count
    }

    /// The version vector, ascending by writer.
    pub(crate) fn writers(&self) -> impl Iterator<Item = (WriterId, u64)> {
        self.numbers
            .iter()
            .map(|(writer, number)| (writer, self.clocks[number as usize]))
            .filter(|(_, clock)| *clock > 0)
    }

    /// Returns the version vector: everything that this replica has and shows.
    pub(crate) fn vector(&self) -> VersionVector {
        let mut entries = crate::list(self.numbers.len());
        for (writer, number) in self.numbers.iter() {
            let clock = self.clocks[number as usize];
            if clock > 0 {
                entries.push((writer, clock));
            }
        }
        VersionVector::from_sorted(entries)
    }

    /// The slot of one writer in one counter.
    #[cfg(feature = "members")]
    pub(crate) fn slot_of(&self, key: &str, writer: &WriterId) -> Option<Slot> {
        let number = self.numbers.get(writer)?;
        let (page_at, bit) = super::place(self.keys.find(key)?);
        let page = self.pages.get(page_at)?;
        let row = *page.column(number)?.get(bit)?;
        let sides = page.sides(bit);
        let side = match sides.binary_search_by_key(&number, |side| side.writer) {
            Ok(at) => sides[at].clone(),
            Err(_) => Side::new(number),
        };
        Some(Slot { row, side })
    }

    /// Whether this writer has a plain shard of the counter that cannot overflow. A transaction may add the
    /// amount as often as its bound allows.
    #[cfg(feature = "members")]
    pub(crate) fn is_small(&self, key_id: KeyId, by: i64) -> bool {
        const HALF: u64 = i64::MAX as u64 / 2;
        let row = self.plain_own_row(key_id);
        row.is_some_and(|row| row.total.unsigned_abs() <= HALF)
            && by.unsigned_abs() <= HALF / TRANSACTION_OPS_MAX as u64
    }

    /// Returns a version vector by local number, no higher than the clocks here.
    pub(crate) fn clocks_in(&self, since: &VersionVector) -> Vec<u64> {
        let mut clocks = self.clocks.clone();
        for (clock, writer) in clocks.iter_mut().zip(&self.ids) {
            *clock = since.get(writer).min(*clock);
        }
        clocks
    }

    /// The clock up to which the replica has a writer's transactions.
    pub(crate) fn held(&self, writer: &WriterId) -> u64 {
        let number = self.numbers.get(writer);
        number.map_or(0, |number| self.clocks[number as usize])
    }

    /// The version vector by local number.
    #[inline]
    pub(crate) fn clocks(&self) -> &[u64] {
        &self.clocks
    }

    /// The clock up to which the replica has the transactions of the writer with this local number.
    #[inline]
    pub(crate) fn clock_at(&self, number: u32) -> u64 {
        self.clocks[number as usize]
    }

    /// Whether the replica merged something of the writer after its own transaction of the clock `own`.
    #[inline]
    pub(crate) fn is_merged_since(&self, number: u32, own: u64) -> bool {
        self.merged_at[number as usize] >= own
    }

    /// The writer's clock that the last own transaction has seen.
    pub(crate) fn seen_at_last(&self, number: u32) -> u64 {
        match self.is_merged_since(number, self.clock()) {
            true => self.seen_at_last[number as usize],
            false => self.clock_at(number),
        }
    }

    /// The space that this is a state of.
    #[inline]
    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    /// All keys.
    #[inline]
    pub(crate) fn keys(&self) -> &Keys<I> {
        &self.keys
    }

    /// The index by which a layer above finds keys.
    #[cfg(feature = "budgets")]
    #[inline]
    pub(crate) fn index(&self) -> &I {
        self.keys.index()
    }

    /// Checks that there is room for the keys of a delta.
    ///
    /// # Errors
    /// [`WriteError::CountersFull`](crate::WriteError::CountersFull).
    pub(crate) fn room_for_keys(&self, delta: &Delta, stored: bool) -> Result<(), Error> {
        match stored {
            true => self.keys.room_for_stored(&delta.keys),
            false => self.keys.room_for(self.keys.new_bytes(&delta.keys)),
        }
    }

    /// The pages: 64 counters each.
    #[inline]
    pub(crate) fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// The row of one writer in one counter.
    #[cfg(feature = "members")]
    pub(crate) fn row(&self, key_id: KeyId, number: u32) -> Option<&Row> {
        let (page_at, bit) = place(key_id);
        self.pages.get(page_at)?.column(number)?.get(bit)
    }

    /// The own writer's row of a counter, if no slot of the counter has more than a row.
    #[cfg(feature = "members")]
    #[inline]
    pub(crate) fn plain_own_row(&self, key_id: KeyId) -> Option<&Row> {
        let (page_at, bit) = place(key_id);
        let page = self.pages.get(page_at)?;
        page.own.get(bit).filter(|_| !page.is_odd(bit))
    }

    /// Whether any writer has a slot in the counter.
    #[inline]
    pub(crate) fn has_slots(&self, key_id: KeyId) -> bool {
        let (page_at, bit) = place(key_id);
        let page = self.pages.get(page_at);
        page.is_some_and(|page| page.rows(bit).next().is_some())
    }

    /// The counters of a page in which a slot has more than a row.
    #[inline]
    pub(crate) fn odd_counters(&self, page_at: usize) -> impl Iterator<Item = KeyId> + use<I> {
        bits(self.pages[page_at].odd()).map(move |bit| KeyId((page_at * PAGE) as u32 + bit))
    }

    /// Marks by local number the writers with a slot in a page where some slot has more than a row, and those
    /// that an expiry names. A retired writer has slots nowhere else.
    pub(crate) fn owners_in_odd_pages(&self) -> Vec<bool> {
        let mut owners = alloc::vec![false; self.ids.len()];
        for page in self.pages.iter().filter(|page| page.odd.is_some()) {
            for column in page.columns().filter(|column| column.present != 0) {
                owners[column.writer as usize] = true;
            }
            if GUESTS && let Some(odd) = &page.odd {
                for (_, side) in odd.iter() {
                    for it in side.expired.iter() {
                        for upto in &it.upto {
                            owners[upto.writer as usize] = true;
                        }
                    }
                }
            }
        }
        owners
    }

    /// Heap bytes of the shards and their keys, as allocated.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.pages.iter().map(Page::heap_bytes).sum::<usize>()
            + self.pages.capacity() * size_of::<Page>()
            + self.touched.heap_bytes()
            + self.keys.heap_bytes()
    }

    /// Returns the counters in which one of these writers has a slot.
    pub(crate) fn slots_of(&self, writers: &[u32]) -> Vec<KeyId> {
        let mut key_ids = Vec::new();
        for (at, page) in self.pages.iter().enumerate() {
            let columns = writers.iter().filter_map(|writer| page.column(*writer));
            let present = columns.fold(0, |set, column| set | column.present);
            key_ids.extend(bits(present).map(|bit| KeyId((at * PAGE) as u32 + bit)));
        }
        key_ids
    }

    pub(crate) fn slots(&self, key_id: KeyId) -> Vec<Slot> {
        let (page_at, bit) = place(key_id);
        let page = self.pages.get(page_at);
        page.map_or(Vec::new(), |page| page.slots(bit))
    }

    /// Returns the writers of which a delta has something newer, each with its clock here.
    #[cfg(feature = "members")]
    pub(crate) fn raised_by(&self, delta: &Delta) -> Vec<(WriterId, u64)> {
        let held = delta
            .writers
            .iter()
            .map(|entry| (entry, self.held(&entry.writer)));
        held.filter(|(entry, held)| entry.hi > *held)
            .map(|(entry, held)| (entry.writer, held))
            .collect()
    }
}

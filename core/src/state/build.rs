//! Delta intervals out of a state: which shards are newer than given clocks, and how they are written.
//!
//! The state keeps no deltas for its neighbours. Each row has the clock at which it changed, so any interval
//! can be selected from the state itself. Three steps make a delta, so that the layers above can add what
//! they record of the same writers:
//! 1. [`select`](State::select) finds the counters;
//! 2. [`gather`](State::gather) collects their keys, and what slots have beside their rows;
//! 3. [`assemble`](State::assemble) makes the table of writers and the columns.

use super::delta::{Delta, Entry, KeySide};
use super::keys::{KeyId, KeyIndex};
use super::page::{Column, PAGE, Page, bits, find_or_insert};
use super::{State, place};
use crate::sheet::Sheet;
use crate::sort::{sort_by, sort_by_text};
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// A low clock that excludes every shard of a writer.
pub(crate) const NOTHING: u64 = u64::MAX;
/// The approximate bytes of a shard in an encoded delta.
pub(crate) const ROW_BYTES: usize = 5;
/// The approximate bytes of a slot's records beside its row in an encoded delta.
pub(crate) const SIDE_BYTES: usize = 24;
/// The approximate bytes of the end of an expired counter, and of each slot that it names, in an encoded delta.
pub(crate) const END_BYTES: usize = 12;

/// The next page and writer of a transfer in chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cursor {
    pub(crate) page: u32,
    pub(crate) writer: u32,
}

/// The position after the last page.
pub(crate) const END: Cursor = Cursor {
    page: u32::MAX,
    writer: 0,
};

/// Which shards go into a delta: those of `from..to` that are newer than `lows`, by local number.
#[derive(Clone, Copy)]
pub(crate) struct Selection<'a, L> {
    pub(crate) lows: &'a L,
    pub(crate) from: Cursor,
    pub(crate) to: Cursor,
    /// The epoch from which on a page counts as changed.
    pub(crate) epoch: u64,
}

impl<'a, L> Selection<'a, L> {
    /// All that is newer than `lows`.
    pub(crate) fn all(lows: &'a L) -> Selection<'a, L> {
        Selection {
            lows,
            from: Cursor::default(),
            to: END,
            epoch: 0,
        }
    }
}

impl<I: KeyIndex> State<I> {
    /// Selects the counters that have selected shards, from the selection's begin to its end. It stops
    /// earlier where they exceed `budget` bytes, which they do by less than one column.
    pub(crate) fn select<L: Sheet<u64>>(
        &self,
        selection: &Selection<'_, L>,
        budget: usize,
    ) -> Picked<L::Like<u64>> {
        let mut picked = Picked {
            key_ids: Vec::new(),
            lows: selection.lows.like(self.clocks.len(), NOTHING),
            bytes: 0,
            stopped: END,
        };
        let mut from = selection.from.page as usize;
        while let Some((at, changed)) = self.touched.next(&self.pages, from, selection.epoch) {
            let page = &self.pages[at];
            let news = side_news(page, selection.lows);
            let mut slots = 0u64;
            for column in page.columns() {
                let writer = column.writer;
                let low = selection.lows.at(writer);
                let mut mask = crate::sheet::of(&news, writer);
                if !selection.has(at, writer) || column.newest <= low && mask == 0 {
                    continue;
                }
                mask |= column.newer(low, changed);
                if mask == 0 {
                    continue;
                }
                if picked.bytes > budget {
                    let page = at as u32;
                    picked.stopped = Cursor { page, writer };
                    break;
                }
                // Looking at keys takes time.
                let fresh = if budget == usize::MAX {
                    0
                } else {
                    mask & !slots
                };
                for bit in bits(fresh) {
                    picked.bytes += self.key_of(at, bit).len() + 2;
                }
                picked.bytes += mask.count_ones() as usize * ROW_BYTES;
                picked.bytes += (mask & page.odd()).count_ones() as usize * SIDE_BYTES;
                picked.bytes += page.newer_ends(writer, low, mask) * END_BYTES;
                slots |= mask;
                picked.lows.set(writer, low);
            }
            for bit in bits(slots) {
                picked.key_ids.push((at * PAGE) as u32 + bit);
            }
            if picked.stopped != END {
                break;
            }
            from = at + 1;
        }
        picked
    }

    pub(crate) fn key_of(&self, page: usize, bit: u32) -> &str {
        let key_id = KeyId((page * PAGE) as u32 + bit);
        self.keys.get(key_id).unwrap_or_default()
    }

    /// Appends the keys of these counters to a delta, in the order of the wire. It also appends the
    /// selected records of their slots beside rows, with local numbers.
    ///
    /// Returns the low clocks of the writers that these records name.
    #[inline(always)]
    pub(crate) fn gather<L: Sheet<u64>>(
        &self,
        selection: &Selection<'_, L>,
        key_ids: &mut [u32],
        delta: &mut Delta,
    ) -> L::Like<u64> {
        let key = |key_id: u32| self.keys.get(KeyId(key_id)).unwrap_or_default();
        sort_by_text(key_ids, &key);
        let mut named = selection.lows.like(self.clocks.len(), NOTHING);
        for (at, key_id) in key_ids.iter().enumerate() {
            delta.keys.push(key(*key_id));
            self.assemble_sides(selection, at as u32, KeyId(*key_id), delta, &mut named);
        }
        named
    }

    /// Makes the writer table and the columns of a delta that was [gathered](State::gather). `lows` has the low
    /// clocks of the writers that the delta is about, and `named` those of the writers that its sides name.
    ///
    /// Returns the place of each writer in that table, by local number.
    #[inline(always)]
    pub(crate) fn assemble<L: Sheet<u64>>(
        &self,
        selection: &Selection<'_, L>,
        key_ids: &[u32],
        delta: &mut Delta,
        (lows, named): (&L::Like<u64>, &L::Like<u64>),
        also: &dyn Fn(u32) -> bool,
    ) -> L::Like<u32> {
        let writers = self.clocks.len();
        delta.writers = self.entries(lows, named, also);
        let mut index = selection.lows.like(writers, 0u32);
        for (at, entry) in delta.writers.iter().enumerate() {
            if let Some(number) = self.numbers.get(&entry.writer) {
                index.set(number, at as u32);
            }
        }
        for KeySide { side, .. } in &mut delta.sides {
            side.renumber(|number| index.at(number));
        }
        let mut hints = selection.lows.like(writers, 0u32);
        for chunk in key_ids.chunks(PAGE) {
            let mut out = Vec::new();
            for (nth, key_id) in chunk.iter().enumerate() {
                let (page_at, bit) = place(KeyId(*key_id));
                for column in self.pages[page_at].columns() {
                    let number = column.writer;
                    if !selection.has(page_at, column.writer) {
                        continue;
                    }
                    let Some(row) = column
                        .get(bit)
                        .filter(|r| r.clock > selection.lows.at(number))
                    else {
                        continue;
                    };
                    let writer = index.at(number);
                    let mut hint = hints.at(number) as usize;
                    if out.get(hint).is_none_or(|c: &Column| c.writer != writer) {
                        hint = find_or_insert(&mut out, writer);
                        hints.set(number, hint as u32);
                    }
                    out[hint].insert(nth as u32, *row);
                }
            }
            delta.pages.push(out);
        }
        index
    }

    /// Returns the writer table of a delta. It contains the writers that have a low clock in `lows`. It
    /// also contains the writers that the sides name, from their low clock in `named` on.
    ///
    /// A writer that made no transaction yet is included if `also` accepts it or a side names it.
    fn entries(
        &self,
        lows: &impl Sheet<u64>,
        named: &impl Sheet<u64>,
        also: &dyn Fn(u32) -> bool,
    ) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut take = |writer: WriterId, number: u32| {
            let is_named = named.at(number) != NOTHING;
            let lo = match lows.at(number) {
                NOTHING => named.at(number),
                lo => lo,
            };
            if lo == NOTHING {
                return;
            }
            let hi = self.clocks[number as usize];
            if hi > 0 || is_named || also(number) {
                entries.push(Entry { writer, lo, hi });
            }
        };
        match lows.few() {
            None => self.numbers.iter().for_each(|it| take(it.0, it.1)),
            Some(mut few) => {
                few.extend(named.few().unwrap_or_default());
                let id = |number: u32| self.ids[number as usize];
                sort_by(&mut few, &|a, b| id(a).cmp(&id(b)));
                few.dedup();
                // A number that is no longer assigned may be among those that were set.
                let known = |it: &u32| self.numbers.get(&self.ids[*it as usize]) == Some(*it);
                let few = few.into_iter().filter(known);
                few.for_each(|number| take(self.ids[number as usize], number));
            }
        }
        entries
    }

    /// Appends the selected records of a counter beside its rows, with local numbers. It notes the writers
    /// that these records name.
    fn assemble_sides<L: Sheet<u64>>(
        &self,
        selection: &Selection<'_, L>,
        key: u32,
        key_id: KeyId,
        delta: &mut Delta,
        named: &mut L::Like<u64>,
    ) {
        let (page_at, bit) = place(key_id);
        let sides = self.pages[page_at].sides(bit);
        // The delta's writers ascend by their ids.
        let id = |at: u32| self.ids[sides[at as usize].writer as usize];
        let mut order: Vec<u32> = (0..sides.len() as u32).collect();
        sort_by(&mut order, &|a, b| id(a).cmp(&id(b)));
        for at in &order {
            let side = &sides[*at as usize];
            if !selection.has(page_at, side.writer) {
                continue;
            }
            let low = selection.lows.at(side.writer);
            let column = self.pages[page_at].column(side.writer);
            let row = column.and_then(|column| column.get(bit));
            let mut side = side.clone();
            if row.is_none_or(|row| row.clock <= low) {
                side.extra = None;
            }
            side.keep_newer(selection.lows);
            if !side.is_empty() {
                side.stamps(&mut |by| {
                    named.set(by.writer, selection.lows.at(by.writer));
                });
                // The delta builds on the slots that its sides name.
                let mut build_on = |writer: u32| {
                    if named.at(writer) == NOTHING {
                        named.set(writer, self.clocks[writer as usize]);
                    }
                };
                build_on(side.writer);
                for it in side.expired.iter() {
                    for upto in &it.upto {
                        build_on(upto.writer);
                    }
                }
                delta.sides.push(KeySide { key, side });
            }
        }
    }
}

/// The result of [`State::select`].
pub(crate) struct Picked<L> {
    /// The counters, ascending by page and slot.
    pub(crate) key_ids: Vec<u32>,
    /// The low clocks of the writers that have selected shards, by local number. The other writers have
    /// [`NOTHING`].
    pub(crate) lows: L,
    /// Their approximate bytes when they are encoded.
    pub(crate) bytes: usize,
    /// Where the next selection continues, or [`END`].
    pub(crate) stopped: Cursor,
}

impl<L> Selection<'_, L> {
    /// Whether a column is between the cursors.
    fn has(&self, page: usize, writer: u32) -> bool {
        let page = page as u32;
        let here = Cursor { page, writer };
        here >= self.from && here < self.to
    }
}

/// Which slots of a page have records beside their rows that are newer than `lows`, by writer.
fn side_news(page: &Page, lows: &impl Sheet<u64>) -> Vec<(u32, u64)> {
    let mut news: Vec<(u32, u64)> = Vec::new();
    let Some(odd) = &page.odd else { return news };
    for bit in bits(odd.mask) {
        for side in odd.sides(bit) {
            let mut newer = false;
            side.stamps(&mut |by| newer |= by.clock > lows.at(by.writer));
            if newer {
                let set = 1 << bit;
                match news.binary_search_by_key(&side.writer, |it| it.0) {
                    Ok(at) => news[at].1 |= set,
                    Err(at) => news.insert(at, (side.writer, set)),
                }
            }
        }
    }
    news
}

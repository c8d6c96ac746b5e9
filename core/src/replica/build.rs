//! Making messages out of a replica.

mod since;

use super::former::OfFormer;
use super::keyed::{KeyedMark, KeyedOps, KeyedWalk};
use super::{Replica, place};
use crate::closed::Closed;
use crate::delta::{Entry, KeySide, KeyedOp, Message};
use crate::keys::Handle;
use crate::roster::{Fact, Says};
use crate::shard::{Column, PAGE, Page, bits, find_or_insert};
use crate::sheet::Sheet;
use crate::sort::{sort_by, sort_by_text};
use crate::vector::VersionVector;
use crate::writer_id::WriterId;
use crate::{DUTIES, MEMBERS};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A low-water mark that lets no shard of a writer through.
pub(super) const NOTHING: u64 = u64::MAX;
/// What a shard takes in an encoded message, about.
const ROW_BYTES: usize = 5;
/// What a slot that has more than a row takes beside it, about.
const SIDE_BYTES: usize = 24;

/// A place in a replica's history of changes: see [`Replica::since`].
#[derive(Clone, Debug, Default)]
pub struct Mark {
    /// The version vector by local number.
    pub(super) clocks: Vec<u64>,
    pub(super) epoch: u64,
    /// How many writers had been forgotten.
    pub(super) remembered: u64,
    /// Up to which own clock others may have been told.
    pub(super) told: u64,
    /// What was known of former writers.
    pub(super) former: u64,
    /// Whether the own writer was told of as one of a start that has not announced itself.
    pub(super) early: bool,
    pub(super) keyed: KeyedMark,
}

/// The next page and writer of a transfer in chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cursor {
    pub(super) page: u32,
    pub(super) writer: u32,
}

/// Behind the last page, where keyed operations are told.
const END: Cursor = Cursor {
    page: u32::MAX,
    writer: 0,
};

/// Fresh local changes. It is taken apart at once: a box would only be more to download.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Push {
    Nothing,
    Message(Message),
    /// More than a push may carry.
    TooLarge,
}

/// Which shards go into a message: those of `from..to` that are newer than `lows`, by local number.
struct Selection<'a, L> {
    lows: &'a L,
    from: Cursor,
    to: Cursor,
    /// The epoch from which on a page counts as changed.
    epoch: u64,
    /// What is said of writers goes in that is newer than this, if anything.
    said: Option<&'a L>,
    /// The epoch from which on something of it may be newer than that.
    changed: u64,
}

impl Replica {
    /// Everything that is held here and not in `since`, from
    /// [`VersionVector::default`] the full state.
    pub fn delta(&self, since: &VersionVector) -> Message {
        let lows = self.lows(since);
        let mut message = self.build(&self.all(&lows), &lows);
        self.tell_horizon(&mut message);
        if self.configuration().is_some() {
            self.tell_keyed(&mut message, &KeyedMark::default(), &lows, usize::MAX);
        }
        message
    }

    /// Everything that a store keeps of this replica: it stands for all messages before it.
    pub fn snapshot(&self) -> Message {
        let lows = alloc::vec![0; self.clocks.len()];
        let mut message = self.build(&self.all(&lows), &lows);
        self.tell_horizon(&mut message);
        self.tell_keyed(&mut message, &KeyedMark::default(), &lows, usize::MAX);
        self.tell_store(&mut message);
        message
    }

    /// Adds to a whole state what only a store keeps.
    pub(super) fn tell_store(&self, message: &mut Message) {
        if MEMBERS {
            *message.returns = self.remembered(u64::MAX);
            message.gaps = self.configuration().map(|_| self.roster.gaps);
            *message.kept = self.to_keep(0, OfFormer::All);
        }
    }

    /// Makes a message complete: it names all writers, and says what may have been collected here.
    fn tell_horizon(&self, message: &mut Message) {
        message.complete = message.closed;
        if !message.is_complete() {
            return;
        }
        for (writer, entry) in message.writers.iter().enumerate() {
            let number = self.numbers.get(&entry.writer);
            if let Some(clock) = number.map(|number| self.horizon(number)).filter(|c| *c > 0) {
                let writer = writer as u32;
                let says = Says::Floor(clock);
                message.facts.push(Fact { writer, says });
            }
        }
        message.facts.sort_by_key(Fact::place);
    }

    /// The next chunk, of about `budget` bytes, of what is newer than `lows`, from `cursor` on; the
    /// cursor after it, or `None` if that was the last one. Behind all pages, keyed operations are
    /// told from the place `keyed` on, which is moved, if they are newer than the clocks that come with
    /// it. The last chunk carries the table of all
    /// writers, from `since` up to now, or from below if the chunk has older shards: `since` may have
    /// been ahead of this replica when the transfer began. The others only name the writers they have
    /// shards of. If `only` some writers are told of, it builds on all that is held of the others.
    pub(super) fn chunk(
        &self,
        since: &VersionVector,
        (lows, only): (&Vec<u64>, bool),
        cursor: Cursor,
        keyed: &mut KeyedWalk,
        budget: usize,
    ) -> (Message, Option<Cursor>) {
        let mut selection = Selection {
            from: cursor,
            said: None,
            ..self.all(lows)
        };
        let mut picked = self.select(&selection, budget);
        selection.to = picked.stopped;
        let mut ops = KeyedOps::default();
        let mut more = false;
        if picked.stopped == END {
            let rest = budget.saturating_sub(picked.bytes);
            (ops, more) = keyed.step(self, &mut picked.lows, rest);
        }
        if picked.stopped == END && !more {
            let mut base = match only {
                true => self.told_of(since, lows),
                false => self.lows(since),
            };
            for (base, low) in base.iter_mut().zip(lows) {
                *base = (*low).min(*base);
            }
            // One that came late may be older than that.
            for by in ops.iter().filter_map(|op| op.by) {
                let base = &mut base[by.writer as usize];
                *base = (by.clock - 1).min(*base);
            }
            if only {
                let said = base.clone();
                let seen = self.built_on(since, lows);
                for (base, seen) in base.iter_mut().zip(&seen) {
                    *base = (*seen).min(*base);
                }
                selection.said = Some(&said);
                let message = self.assemble(&selection, picked.handles, &base);
                return (self.build_on(message, lows, &seen), None);
            }
            // All of them, not only what is new since this walk began.
            selection.said = Some(&base);
            let mut message = self.assemble(&selection, picked.handles, &base);
            self.tell_horizon(&mut message);
            self.put_keyed(&mut message, ops);
            message.keyless |= message.is_closed() && !keyed.is_wanted();
            return (message, None);
        }
        let mut message = self.assemble(&selection, picked.handles, &picked.lows);
        if only {
            message = self.build_on(message, lows, &self.built_on(since, lows));
        }
        self.put_keyed(&mut message, ops);
        (message, Some(picked.stopped))
    }

    /// The version vector by local number.
    pub(super) fn clocks(&self) -> &[u64] {
        &self.clocks
    }

    /// A version vector by local number, no higher than what is held here; nothing if it lacks what
    /// was collected here, as then only the whole state will do.
    pub(super) fn lows(&self, since: &VersionVector) -> Vec<u64> {
        let mut lows = self.clocks_in(since);
        if !self.covers_floor(&lows) {
            lows.fill(0);
        }
        lows
    }

    /// A version vector by local number, no higher than what is held here.
    pub(super) fn clocks_in(&self, since: &VersionVector) -> Vec<u64> {
        let mut clocks = self.clocks.clone();
        for (clock, writer) in clocks.iter_mut().zip(&self.writers) {
            *clock = since.get(writer).min(*clock);
        }
        clocks
    }

    /// Adds keyed operations to a message, whose table names their writers.
    fn put_keyed(&self, message: &mut Message, mut ops: KeyedOps) {
        if !DUTIES {
            return;
        }
        for by in ops.iter_mut().filter_map(|op| op.by.as_mut()) {
            let id = &self.writers[by.writer as usize];
            let at = message.writers.binary_search_by_key(id, |it| it.writer);
            by.writer = at.map_or(u32::MAX, |at| at as u32);
        }
        ops.retain(|op| op.by.is_none_or(|by| by.writer != u32::MAX));
        ops.sort_unstable_by_key(KeyedOp::place);
        // Of several that were absorbed only the key is left.
        ops.dedup_by_key(|op| op.place());
        message.keyed = ops;
    }

    /// Adds the keyed operations to a message that came since a mark and are newer than `lows`; false,
    /// with some left out, if they take more than `budget` bytes.
    fn tell_keyed(
        &self,
        message: &mut Message,
        since: &KeyedMark,
        lows: &impl Sheet<u64>,
        budget: usize,
    ) -> bool {
        let (ops, all) = self.keyed_since(since, lows, budget);
        self.put_keyed(message, ops);
        all
    }

    fn all<'a, L>(&self, lows: &'a L) -> Selection<'a, L> {
        Selection {
            lows,
            from: Cursor::default(),
            to: END,
            epoch: 0,
            said: Some(lows),
            changed: 0,
        }
    }

    /// The table of a message: the writers that have a low clock in `base`, and others that its
    /// sides name, from their low clock in `named` on.
    fn entries(&self, base: &impl Sheet<u64>, named: &impl Sheet<u64>) -> Vec<Entry> {
        let mut entries = Vec::new();
        let closed = MEMBERS && self.configuration().is_some();
        let mut take = |writer: WriterId, number: u32| {
            let is_named = named.at(number) != NOTHING;
            let lo = match base.at(number) {
                NOTHING => named.at(number),
                lo => lo,
            };
            if lo == NOTHING {
                return;
            }
            let hi = self.clocks[number as usize];
            // One that was taken in may have made nothing yet.
            let taken_in = || closed && self.roster.cards[number as usize].intro.is_some();
            if hi > 0 || is_named || taken_in() {
                entries.push(Entry { writer, lo, hi });
            }
        };
        match base.few() {
            None => self.numbers.iter().for_each(|it| take(it.0, it.1)),
            Some(mut few) => {
                few.extend(named.few().unwrap_or_default());
                few.sort_unstable_by_key(|number| self.writers[*number as usize]);
                few.dedup();
                // A number that was given up may be among those that were set.
                let known = |it: &u32| self.numbers.get(&self.writers[*it as usize]) == Some(*it);
                let few = few.into_iter().filter(known);
                few.for_each(|number| take(self.writers[number as usize], number));
            }
        }
        entries
    }

    fn build<L: Sheet<u64>>(&self, selection: &Selection<'_, L>, base: &L::Like<u64>) -> Message {
        let picked = self.select(selection, usize::MAX);
        self.assemble(selection, picked.handles, base)
    }

    /// The counters that have selected shards, from the selection's begin up to its end or to where
    /// `budget` bytes were exceeded, by less than one column.
    fn select<L: Sheet<u64>>(
        &self,
        selection: &Selection<'_, L>,
        budget: usize,
    ) -> Picked<L::Like<u64>> {
        let mut picked = Picked {
            handles: Vec::new(),
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
                let mut mask = crate::roster::of(&news, writer);
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
                for slot in bits(fresh) {
                    picked.bytes += self.key_of(at, slot).len() + 2;
                }
                picked.bytes += mask.count_ones() as usize * ROW_BYTES;
                picked.bytes += (mask & page.odd()).count_ones() as usize * SIDE_BYTES;
                slots |= mask;
                picked.lows.set(writer, low);
            }
            for slot in bits(slots) {
                picked.handles.push((at * PAGE) as u32 + slot);
            }
            if picked.stopped != END {
                break;
            }
            from = at + 1;
        }
        picked
    }

    fn key_of(&self, page: usize, slot: u32) -> &str {
        let handle = Handle((page * PAGE) as u32 + slot);
        self.keys.get(handle).unwrap_or_default()
    }

    /// Puts what is selected of these counters into the order of the wire. `base` as in
    /// [`entries`](Replica::entries).
    fn assemble<L: Sheet<u64>>(
        &self,
        selection: &Selection<'_, L>,
        mut handles: Vec<u32>,
        base: &L::Like<u64>,
    ) -> Message {
        let key = |handle: u32| self.keys.get(Handle(handle)).unwrap_or_default();
        sort_by_text(&mut handles, &key);
        let mut message = Message::default();
        let writers = self.clocks.len();
        let mut named = selection.lows.like(writers, NOTHING);
        for (at, handle) in handles.iter().enumerate() {
            message.keys.push(key(*handle));
            self.assemble_sides(
                selection,
                at as u32,
                Handle(*handle),
                &mut message,
                &mut named,
            );
        }
        let mut facts: Closed<Vec<Fact>> = Closed::default();
        // Before the space has members nothing is said of writers, whatever a peer has told of them.
        let closed = MEMBERS && self.configuration().is_some();
        if let Some(lows) = selection.said.filter(|_| closed) {
            *facts = self.facts_since(selection.changed, lows);
            for fact in facts.iter() {
                let by = fact.stamp().writer;
                named.set(by, lows.at(by));
                fact.clone().renumber(|number| {
                    let held = self.clocks[number as usize];
                    named.set(number, held.min(named.at(number)));
                    number
                });
            }
        }
        message.writers = self.entries(base, &named);
        let mut index = selection.lows.like(writers, 0u32);
        for (at, entry) in message.writers.iter().enumerate() {
            if let Some(number) = self.numbers.get(&entry.writer) {
                index.set(number, at as u32);
            }
        }
        for KeySide { side, .. } in &mut message.sides {
            side.renumber(|number| index.at(number));
        }
        if MEMBERS {
            for fact in facts.iter_mut() {
                fact.renumber(|number| index.at(number));
            }
            facts.sort_by_key(Fact::place);
            message.facts = facts;
            message.closed = closed;
            message.keyless = closed && !DUTIES;
            if closed {
                self.tell_lacking(&mut message);
            }
        }
        let mut hints = selection.lows.like(writers, 0u32);
        for chunk in handles.chunks(PAGE) {
            let mut out = Vec::new();
            for (bit, handle) in chunk.iter().enumerate() {
                let (page_at, slot) = place(Handle(*handle));
                for column in self.pages[page_at].columns() {
                    let number = column.writer;
                    if !selection.has(page_at, column.writer) {
                        continue;
                    }
                    let Some(row) = column
                        .get(slot)
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
                    out[hint].insert(bit as u32, *row);
                }
            }
            message.pages.push(out);
        }
        message
    }

    /// The facts about writers that are newer than `lows`, by local numbers. All of these must have been
    /// noted in this epoch or later.
    pub(super) fn facts_since(&self, epoch: u64, lows: &impl Sheet<u64>) -> Vec<Fact> {
        if !MEMBERS {
            return Vec::new();
        }
        let numbers = self.roster.changed_since(epoch).into_iter();
        let closed = self.configuration().is_some();
        let facts = numbers
            .flat_map(|number| self.roster.cards[number as usize].facts(number))
            .filter(|fact| closed || !fact.is_local());
        let configuration = self.roster.configuration.as_ref().map(|(by, it)| Fact {
            writer: by.writer,
            says: Says::Configuration(by.clock, Box::new(it.clone())),
        });
        let newer = |fact: &Fact| {
            let by = fact.stamp();
            by.clock > lows.at(by.writer)
        };
        let gone = self.roster.gone.iter().map(|(owner, generation, by)| Fact {
            writer: by.writer,
            says: Says::Gone(by.clock, Box::new((*owner, *generation))),
        });
        facts
            .chain(configuration)
            .chain(gone)
            .filter(newer)
            .collect()
    }

    /// Adds what is selected of a counter beside its rows, with local numbers, and notes whom it
    /// names.
    fn assemble_sides<L: Sheet<u64>>(
        &self,
        selection: &Selection<'_, L>,
        key: u32,
        handle: Handle,
        message: &mut Message,
        named: &mut L::Like<u64>,
    ) {
        let (page_at, slot) = place(handle);
        let sides = self.pages[page_at].sides(slot);
        // The message's writers ascend by their ids.
        let id = |at: u32| self.writers[sides[at as usize].writer as usize];
        let mut order: Vec<u32> = (0..sides.len() as u32).collect();
        sort_by(&mut order, &|a, b| id(a).cmp(&id(b)));
        for at in &order {
            let side = &sides[*at as usize];
            if !selection.has(page_at, side.writer) {
                continue;
            }
            let low = selection.lows.at(side.writer);
            let column = self.pages[page_at].column(side.writer);
            let row = column.and_then(|column| column.get(slot));
            let mut side = side.clone();
            if row.is_none_or(|row| row.clock <= low) {
                side.extra = None;
            }
            side.keep_newer(selection.lows);
            if !side.is_empty() {
                side.stamps(&mut |by| {
                    named.set(by.writer, selection.lows.at(by.writer));
                });
                // The message builds on what its sides speak of.
                if named.at(side.writer) == NOTHING {
                    named.set(side.writer, self.clocks[side.writer as usize]);
                }
                message.sides.push(KeySide { key, side });
            }
        }
    }
}

/// What was selected.
struct Picked<L> {
    /// The counters, ascending by page and slot.
    handles: Vec<u32>,
    /// The low clocks of the writers that have selected shards, by local number; of others
    /// [`NOTHING`].
    lows: L,
    /// What they take when they are encoded, about.
    bytes: usize,
    /// Where it goes on, or [`END`].
    stopped: Cursor,
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
    for slot in bits(odd.mask) {
        for side in odd.sides(slot) {
            let mut newer = false;
            side.stamps(&mut |by| newer |= by.clock > lows.at(by.writer));
            if newer {
                let bit = 1 << slot;
                match news.binary_search_by_key(&side.writer, |it| it.0) {
                    Ok(at) => news[at].1 |= bit,
                    Err(at) => news.insert(at, (side.writer, bit)),
                }
            }
        }
    }
    news
}

#[cfg(test)]
mod tests;

//! Making messages out of a replica.

use super::{Replica, SUMMARY, place};
use crate::MEMBERS;
use crate::delta::{Entry, KeySide, Message};
use crate::keys::Handle;
use crate::limits::PUSH_BYTES_MAX;
use crate::roster::{Fact, Says};
use crate::shard::{Column, OWN, PAGE, Page, Row, bits, find_or_insert};
use crate::slot::Side;
use crate::vector::VersionVector;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A low-water mark that lets no shard of a writer through.
const NOTHING: u64 = u64::MAX;
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
}

/// The next page and writer of a transfer in chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cursor {
    pub(crate) page: u32,
    pub(crate) writer: u32,
}

const END: Cursor = Cursor {
    page: u32::MAX,
    writer: 0,
};

/// Fresh local changes.
pub(crate) enum Push {
    Nothing,
    Message(Message),
    /// More than a push may carry.
    TooLarge,
}

/// Which shards go into a message: those of `from..to` that are newer than `lows`, by local number.
struct Selection<'a> {
    lows: &'a [u64],
    from: Cursor,
    to: Cursor,
    /// The epoch from which on a page counts as changed.
    epoch: u64,
    /// What is said of writers goes in that is newer than this, if anything.
    said: Option<&'a [u64]>,
}

impl Replica {
    /// Everything that is held here and not in `since`, from
    /// [`VersionVector::default`] the full state.
    pub fn delta(&self, since: &VersionVector) -> Message {
        let lows = self.lows(since);
        let mut message = self.build(&self.all(&lows), &|number| Some(lows[number]));
        self.tell_horizon(&mut message);
        message
    }

    /// Everything that a store keeps of this replica: it stands for all messages before it.
    pub fn snapshot(&self) -> Message {
        let mut message = self.delta(&VersionVector::default());
        message.returns = self.remembered(u64::MAX);
        message
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

    /// Everything that was changed, by whomever, after `mark`, which is moved to now; `None` if
    /// nothing was. Its cost follows the changes, not the state. A store that appends each such
    /// message can [restore](Replica::restore) them in order into an empty replica.
    ///
    /// In a space with members a state may have taken the place of all that was held. Then it is
    /// [whole](Message::is_whole), and stands for all messages before it.
    pub fn since(&mut self, mark: &mut Mark) -> Option<Message> {
        if MEMBERS && self.began >= mark.epoch && self.configuration().is_some() {
            self.move_mark(mark);
            return Some(self.snapshot());
        }
        let forgotten = self.roster.remembered.saturating_sub(mark.remembered);
        let lows: Vec<u64> = (0..self.clocks.len()).map(|n| self.low(mark, n)).collect();
        let changed = lows != self.clocks || forgotten > 0;
        let mut message = changed.then(|| {
            let selection = Selection {
                epoch: mark.epoch,
                ..self.all(&lows)
            };
            let grew = |number: usize| Some(lows[number]).filter(|lo| *lo < self.clocks[number]);
            self.build(&selection, &grew)
        });
        if let Some(message) = message.as_mut().filter(|_| forgotten > 0) {
            message.returns = self.remembered(forgotten);
        }
        self.move_mark(mark);
        message
    }

    /// The present place in this replica's history, for whoever keeps nothing of it.
    pub fn mark(&mut self) -> Mark {
        let mut mark = Mark::default();
        self.move_mark(&mut mark);
        mark
    }

    /// The local transactions after `mark`, to be pushed: it builds on the mark's own clock and on
    /// what was merged since that clock's transaction, which by causality implies the rest. What
    /// was merged after that transaction and before the last push counts too: whoever holds the
    /// transaction may have it from elsewhere, without what the last push built on.
    pub(crate) fn push(&mut self, mark: &mut Mark) -> Push {
        let own = self.low(mark, OWN as usize);
        if own == self.clock() {
            return Push::Nothing;
        }
        let mut lows = alloc::vec![NOTHING; self.clocks.len()];
        lows[OWN as usize] = own;
        let selection = Selection {
            epoch: mark.epoch,
            ..self.all(&lows)
        };
        let base = |number: usize| match number as u32 {
            OWN => Some(own),
            _ => (self.merged_at[number] >= own).then_some(self.clocks[number]),
        };
        let (handles, stopped) = self.select(&selection, PUSH_BYTES_MAX);
        let writers = (0..self.clocks.len()).filter(|number| base(*number).is_some());
        let fits = stopped == END && writers.count() * 20 <= PUSH_BYTES_MAX;
        let push = if fits {
            Push::Message(self.assemble(&selection, handles, &base))
        } else {
            Push::TooLarge
        };
        self.move_mark(mark);
        push
    }

    /// The next chunk, of about `budget` bytes, of what is newer than `lows`, from `cursor` on; the
    /// cursor after it, or
    /// `None` if that was the last one. The last chunk carries the table of all writers, from
    /// `since` up to now, or from below if the chunk has older shards: `since` may have been ahead
    /// of this replica when the transfer began. The others only name the writers they have shards
    /// of.
    pub(crate) fn chunk(
        &self,
        since: &VersionVector,
        lows: &[u64],
        cursor: Cursor,
        budget: usize,
    ) -> (Message, Option<Cursor>) {
        let mut selection = Selection {
            from: cursor,
            said: None,
            ..self.all(lows)
        };
        let (handles, stopped) = self.select(&selection, budget);
        selection.to = stopped;
        if stopped == END {
            let base = self.lows(since).into_iter().zip(lows);
            let base: Vec<u64> = base.map(|(base, low)| base.min(*low)).collect();
            // All of them, not only what is new since this walk began.
            selection.said = Some(&base);
            let base = |number: usize| Some(base[number]);
            let mut message = self.assemble(&selection, handles, &base);
            self.tell_horizon(&mut message);
            return (message, None);
        }
        let mut used = alloc::vec![false; self.clocks.len()];
        self.visit(&selection, &mut |_, number, _, _| {
            used[number as usize] = true;
            true
        });
        let base = |number: usize| used[number].then_some(lows[number]);
        let message = self.assemble(&selection, handles, &base);
        (message, Some(stopped))
    }

    /// The version vector by local number.
    pub(crate) fn clocks(&self) -> &[u64] {
        &self.clocks
    }

    /// A version vector by local number, no higher than what is held here; nothing if it lacks what
    /// was collected here, as then only the whole state will do.
    pub(crate) fn lows(&self, since: &VersionVector) -> Vec<u64> {
        let of = |(writer, clock): (_, &u64)| since.get(writer).min(*clock);
        let mut lows: Vec<u64> = self.writers.iter().zip(&self.clocks).map(of).collect();
        if !self.covers_floor(&lows) {
            lows.fill(0);
        }
        lows
    }

    fn move_mark(&mut self, mark: &mut Mark) {
        self.epoch += 1;
        mark.epoch = self.epoch;
        mark.remembered = self.roster.remembered;
        mark.clocks.clone_from(&self.clocks);
    }

    fn all<'a>(&self, lows: &'a [u64]) -> Selection<'a> {
        Selection {
            lows,
            from: Cursor::default(),
            to: END,
            epoch: 0,
            said: Some(lows),
        }
    }

    /// The table of a message: the writers for which `lo` gives a low clock, and others that its
    /// sides name, from their `lows` on.
    fn entries(&self, lo: &dyn Fn(usize) -> Option<u64>, named: &[Option<u64>]) -> Vec<Entry> {
        let of = |(writer, number)| {
            let number = number as usize;
            let hi = self.clocks[number];
            // One that was taken in may have made nothing yet.
            let taken_in = MEMBERS && self.roster.cards[number].intro.is_some();
            let is_named = named[number].is_some() || taken_in;
            let lo = lo(number).or(named[number])?;
            (hi > 0 || is_named).then_some(Entry { writer, lo, hi })
        };
        self.numbers.iter().filter_map(of).collect()
    }

    fn build(&self, selection: &Selection<'_>, lo: &dyn Fn(usize) -> Option<u64>) -> Message {
        let (handles, _) = self.select(selection, usize::MAX);
        self.assemble(selection, handles, lo)
    }

    /// Calls `visit` with page, writer, the mask of selected slots of each column that has any, and
    /// how many of them may be more than a row, until it returns false.
    fn visit(
        &self,
        selection: &Selection<'_>,
        visit: &mut dyn FnMut(usize, u32, u64, usize) -> bool,
    ) {
        let mut at = selection.from.page as usize;
        while at < self.pages.len() && at <= selection.to.page as usize {
            if at.is_multiple_of(SUMMARY) && self.summary[at / SUMMARY] < selection.epoch {
                at += SUMMARY;
                continue;
            }
            let page = &self.pages[at];
            if page.touched >= selection.epoch {
                let news = side_news(page, selection.lows);
                for column in page.columns() {
                    let low = selection.lows[column.writer as usize];
                    if !selection.has(at, column.writer) {
                        continue;
                    }
                    let beside = crate::roster::of(&news, column.writer);
                    if column.newest <= low && beside == 0 {
                        continue;
                    }
                    let newer = |(slot, row): (u32, &Row)| u64::from(row.clock > low) << slot;
                    let mask = column.iter().map(newer).fold(beside, |set, bit| set | bit);
                    let odd = (mask & page.odd()).count_ones() as usize;
                    if mask != 0 && !visit(at, column.writer, mask, odd) {
                        return;
                    }
                }
            }
            at += 1;
        }
    }

    /// The counters that have selected shards, and where the selection stopped because of `budget`
    /// bytes, which it exceeds by less than one column.
    fn select(&self, selection: &Selection<'_>, budget: usize) -> (Vec<u32>, Cursor) {
        let mut handles: Vec<u32> = Vec::new();
        let mut stopped = END;
        let mut bytes = 0;
        let mut open = (usize::MAX, 0u64); // the page at hand, and its slots
        let mut close = |(page, slots): (usize, u64)| {
            handles.extend(bits(slots).map(|slot| (page * PAGE) as u32 + slot));
        };
        self.visit(selection, &mut |page, writer, mask, odd| {
            if bytes > budget {
                let page = page as u32;
                stopped = Cursor { page, writer };
                return false;
            }
            if page != open.0 {
                close(core::mem::replace(&mut open, (page, 0)));
            }
            let fresh = bits(mask & !open.1).map(|slot| self.key_of(page, slot).len() + 2);
            bytes += fresh.sum::<usize>() + mask.count_ones() as usize * ROW_BYTES;
            bytes += odd * SIDE_BYTES;
            open.1 |= mask;
            true
        });
        close(open);
        (handles, stopped)
    }

    fn key_of(&self, page: usize, slot: u32) -> &str {
        let handle = Handle((page * PAGE) as u32 + slot);
        self.keys.get(handle).unwrap_or_default()
    }

    /// Puts what is selected of these counters into the order of the wire. `lo` as in
    /// [`entries`](Replica::entries).
    fn assemble(
        &self,
        selection: &Selection<'_>,
        mut handles: Vec<u32>,
        lo: &dyn Fn(usize) -> Option<u64>,
    ) -> Message {
        let key = |handle: &u32| self.keys.get(Handle(*handle)).unwrap_or_default();
        handles.sort_unstable_by(|a, b| key(a).cmp(key(b)));
        let mut message = Message::default();
        let mut named = alloc::vec![None; self.clocks.len()];
        for (at, handle) in handles.iter().enumerate() {
            message.keys.push(key(handle));
            self.assemble_sides(
                selection,
                at as u32,
                Handle(*handle),
                &mut message,
                &mut named,
            );
        }
        let said = selection.said.filter(|_| MEMBERS);
        let mut facts = said.map_or(Vec::new(), |lows| self.facts(lows));
        for fact in &facts {
            let stamp = fact.stamp();
            let low = said.map(|lows| lows[stamp.writer as usize]);
            named[stamp.writer as usize] = low;
            fact.clone().renumber(|number| {
                named[number as usize].get_or_insert(self.clocks[number as usize]);
                number
            });
        }
        message.writers = self.entries(lo, &named);
        let mut index = alloc::vec![0u32; self.writers.len()];
        for (at, entry) in message.writers.iter().enumerate() {
            if let Some(number) = self.numbers.get(&entry.writer) {
                index[number as usize] = at as u32;
            }
        }
        for KeySide { side, .. } in &mut message.sides {
            side.renumber(|number| index[number as usize]);
        }
        message
            .sides
            .sort_unstable_by_key(|s| (s.key, s.side.writer));
        if MEMBERS {
            for fact in &mut facts {
                fact.renumber(|number| index[number as usize]);
            }
            facts.sort_by_key(Fact::place);
            message.facts = facts;
            message.closed = self.configuration().is_some();
        }
        let mut hints = alloc::vec![0usize; self.writers.len()];
        for chunk in handles.chunks(PAGE) {
            let mut out = Vec::new();
            for (bit, handle) in chunk.iter().enumerate() {
                let (page_at, slot) = place(Handle(*handle));
                for column in self.pages[page_at].columns() {
                    let number = column.writer as usize;
                    if !selection.has(page_at, column.writer) {
                        continue;
                    }
                    let Some(row) = column
                        .get(slot)
                        .filter(|r| r.clock > selection.lows[number])
                    else {
                        continue;
                    };
                    let hint = &mut hints[number];
                    let writer = index[number];
                    if out.get(*hint).is_none_or(|c: &Column| c.writer != writer) {
                        *hint = find_or_insert(&mut out, writer);
                    }
                    out[*hint].insert(bit as u32, *row);
                }
            }
            message.pages.push(out);
        }
        message
    }

    /// What is known of writers and newer than `lows`, by local numbers.
    fn facts(&self, lows: &[u64]) -> Vec<Fact> {
        if !MEMBERS {
            return Vec::new();
        }
        let cards = self.roster.cards.iter().zip(0..);
        let closed = self.configuration().is_some();
        let facts = cards
            .flat_map(|(card, number)| card.facts(number))
            .filter(|fact| closed || !fact.is_local());
        let configuration = self.roster.configuration.as_ref().map(|(by, it)| Fact {
            writer: by.writer,
            says: Says::Configuration(by.clock, Box::new(it.clone())),
        });
        let newer = |fact: &Fact| {
            let by = fact.stamp();
            by.clock > lows[by.writer as usize]
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
    fn assemble_sides(
        &self,
        selection: &Selection<'_>,
        key: u32,
        handle: Handle,
        message: &mut Message,
        named: &mut [Option<u64>],
    ) {
        let (page_at, slot) = place(handle);
        for side in self.pages[page_at].sides(slot) {
            if !selection.has(page_at, side.writer) {
                continue;
            }
            let low = selection.lows[side.writer as usize];
            let column = self.pages[page_at].column(side.writer);
            let row = column.and_then(|column| column.get(slot));
            let mut side = side.clone();
            if row.is_none_or(|row| row.clock <= low) {
                side.extra = None;
            }
            side.keep_newer(selection.lows);
            if !side.is_empty() {
                for stamp in side.stamps() {
                    named[stamp.writer as usize] = Some(selection.lows[stamp.writer as usize]);
                }
                // The message builds on what its sides speak of.
                let number = side.writer as usize;
                named[number].get_or_insert(self.clocks[number]);
                message.sides.push(KeySide { key, side });
            }
        }
    }
}

impl Selection<'_> {
    /// Whether a column is between the cursors.
    fn has(&self, page: usize, writer: u32) -> bool {
        let page = page as u32;
        let here = Cursor { page, writer };
        here >= self.from && here < self.to
    }
}

/// Which slots of a page have records beside their rows that are newer than `lows`, by writer.
fn side_news(page: &Page, lows: &[u64]) -> Vec<(u32, u64)> {
    let mut news: Vec<(u32, u64)> = Vec::new();
    for (slot, side) in page.odd.iter().flat_map(|odd| odd.iter()) {
        if has_newer(side, lows) {
            let bit = 1 << slot;
            match news.binary_search_by_key(&side.writer, |it| it.0) {
                Ok(at) => news[at].1 |= bit,
                Err(at) => news.insert(at, (side.writer, bit)),
            }
        }
    }
    news
}

fn has_newer(side: &Side, lows: &[u64]) -> bool {
    side.stamps().any(|by| by.clock > lows[by.writer as usize])
}

//! Making messages out of a replica.

use super::{Replica, SUMMARY, place};
use crate::delta::{Entry, Message};
use crate::keys::Handle;
use crate::limits::PUSH_BYTES_MAX;
use crate::shard::{Column, OWN, PAGE, Row, bits, find_or_insert};
use crate::vector::VersionVector;
use alloc::vec::Vec;

/// A low-water mark that lets no shard of a writer through.
const NOTHING: u64 = u64::MAX;
/// What a shard takes in an encoded message, about.
const ROW_BYTES: usize = 5;

/// A place in a replica's history of changes: see [`Replica::since`].
#[derive(Clone, Debug, Default)]
pub struct Mark {
    /// The version vector by local number.
    clocks: Vec<u64>,
    epoch: u64,
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
}

impl Replica {
    /// Everything that is held here and not in `since`, from
    /// [`VersionVector::default`] the full state.
    pub fn delta(&self, since: &VersionVector) -> Message {
        let lows = self.lows(since);
        let entries = self.entries(|number| Some(lows[number]));
        self.build(&self.all(&lows), entries)
    }

    /// Everything that was changed, by whomever, after `mark`, which is moved to now; `None` if
    /// nothing was. Its cost follows the changes, not the state. A store that appends each such
    /// message can merge them in order into an empty replica.
    pub fn since(&mut self, mark: &mut Mark) -> Option<Message> {
        let mut lows = core::mem::take(&mut mark.clocks);
        lows.resize(self.clocks.len(), 0);
        let changed = lows != self.clocks;
        let message = changed.then(|| {
            let selection = Selection {
                epoch: mark.epoch,
                ..self.all(&lows)
            };
            let grew = |number: usize| Some(lows[number]).filter(|lo| *lo < self.clocks[number]);
            self.build(&selection, self.entries(grew))
        });
        self.move_mark(mark);
        message
    }

    /// The local transactions after `mark`, to be pushed: it builds on the mark's own clock and on
    /// what was merged since that clock's transaction, which by causality implies the rest. What
    /// was merged after that transaction and before the last push counts too: whoever holds the
    /// transaction may have it from elsewhere, without what the last push built on.
    pub(crate) fn push(&mut self, mark: &mut Mark) -> Push {
        mark.clocks.resize(self.clocks.len(), 0);
        let own = mark.clocks[OWN as usize];
        if own == self.clock() {
            return Push::Nothing;
        }
        let mut lows = alloc::vec![NOTHING; self.clocks.len()];
        lows[OWN as usize] = own;
        let selection = Selection {
            epoch: mark.epoch,
            ..self.all(&lows)
        };
        let entries = self.entries(|number| match number as u32 {
            OWN => Some(own),
            _ => (self.merged_at[number] >= own).then_some(self.clocks[number]),
        });
        let (handles, stopped) = self.select(&selection, PUSH_BYTES_MAX);
        let fits = stopped == END && entries.len() * 20 <= PUSH_BYTES_MAX;
        let push = if fits {
            Push::Message(self.assemble(&selection, handles, entries))
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
            ..self.all(lows)
        };
        let (handles, stopped) = self.select(&selection, budget);
        selection.to = stopped;
        if stopped == END {
            let base = self.lows(since);
            let entries = self.entries(|number| Some(base[number].min(lows[number])));
            return (self.assemble(&selection, handles, entries), None);
        }
        let mut used = alloc::vec![false; self.clocks.len()];
        self.visit(&selection, &mut |_, number, _| {
            used[number as usize] = true;
            true
        });
        let entries = self.entries(|number| used[number].then_some(lows[number]));
        (self.assemble(&selection, handles, entries), Some(stopped))
    }

    /// The version vector by local number.
    pub(crate) fn clocks(&self) -> &[u64] {
        &self.clocks
    }

    /// A version vector by local number, no higher than what is held here.
    pub(crate) fn lows(&self, since: &VersionVector) -> Vec<u64> {
        let of = |(writer, clock): (_, &u64)| since.get(writer).min(*clock);
        self.writers.iter().zip(&self.clocks).map(of).collect()
    }

    fn move_mark(&mut self, mark: &mut Mark) {
        self.epoch += 1;
        mark.epoch = self.epoch;
        mark.clocks.clone_from(&self.clocks);
    }

    fn all<'a>(&self, lows: &'a [u64]) -> Selection<'a> {
        Selection {
            lows,
            from: Cursor::default(),
            to: END,
            epoch: 0,
        }
    }

    /// The table of a message: the writers for which `lo` gives a low clock.
    fn entries(&self, lo: impl Fn(usize) -> Option<u64>) -> Vec<Entry> {
        let of = |(writer, number)| {
            let hi = self.clocks[number as usize];
            let lo = lo(number as usize)?;
            (hi > 0).then_some(Entry { writer, lo, hi })
        };
        self.numbers.iter().filter_map(of).collect()
    }

    fn build(&self, selection: &Selection<'_>, entries: Vec<Entry>) -> Message {
        let (handles, _) = self.select(selection, usize::MAX);
        self.assemble(selection, handles, entries)
    }

    /// Calls `visit` with page, writer and the mask of selected slots of each column that has any,
    /// until it returns false.
    fn visit(&self, selection: &Selection<'_>, visit: &mut dyn FnMut(usize, u32, u64) -> bool) {
        let mut at = selection.from.page as usize;
        while at < self.pages.len() && at <= selection.to.page as usize {
            if at.is_multiple_of(SUMMARY) && self.summary[at / SUMMARY] < selection.epoch {
                at += SUMMARY;
                continue;
            }
            let page = &self.pages[at];
            if page.touched >= selection.epoch {
                for column in page.columns() {
                    let here = Cursor {
                        page: at as u32,
                        writer: column.writer,
                    };
                    let low = selection.lows[column.writer as usize];
                    if here < selection.from || here >= selection.to || column.newest <= low {
                        continue;
                    }
                    let newer = |(slot, row): (u32, &Row)| u64::from(row.clock > low) << slot;
                    let mask = column.iter().map(newer).fold(0, |set, bit| set | bit);
                    if mask != 0 && !visit(at, column.writer, mask) {
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
        self.visit(selection, &mut |page, writer, mask| {
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

    /// Puts the selected shards of these counters into the order of the wire.
    fn assemble(
        &self,
        selection: &Selection<'_>,
        mut handles: Vec<u32>,
        entries: Vec<Entry>,
    ) -> Message {
        let key = |handle: &u32| self.keys.get(Handle(*handle)).unwrap_or_default();
        handles.sort_unstable_by(|a, b| key(a).cmp(key(b)));
        let mut message = Message::default();
        let mut index = alloc::vec![0u32; self.writers.len()];
        for (at, entry) in entries.iter().enumerate() {
            if let Some(number) = self.numbers.get(&entry.writer) {
                index[number as usize] = at as u32;
            }
        }
        message.writers = entries;
        let mut hints = alloc::vec![0usize; self.writers.len()];
        for chunk in handles.chunks(PAGE) {
            let mut out = Vec::new();
            for (bit, handle) in chunk.iter().enumerate() {
                message.keys.push(key(handle));
                let (page_at, slot) = place(Handle(*handle));
                for column in self.pages[page_at].columns() {
                    let number = column.writer as usize;
                    let here = Cursor {
                        page: page_at as u32,
                        writer: column.writer,
                    };
                    if here < selection.from || here >= selection.to {
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
}

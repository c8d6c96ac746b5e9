//! Merge: the only way in which another replica's shards get in.

use super::{Fault, Replica, place};
use crate::delta::Message;
use crate::error::{Error, Missing, Rule};
use crate::keys::Handle;
use crate::limits::{FAULTS_KEPT_MAX, WRITERS_MAX};
use crate::shard::{Column, Joined, OWN, PAGE, Row, Shard, bits};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What a merge did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// How many shards were installed: those newer than what was held.
    pub shards: usize,
    /// Whether the version vector grew.
    pub new: bool,
}

/// A fork found while merging: the counter, the writer's local number, both rows.
type Fork = (Handle, u32, Row, Row);

/// Collects what a merge finds while pages are borrowed.
struct Found<'a> {
    installed: usize,
    forks: Vec<Fork>,
    changed: &'a mut dyn FnMut(Handle),
}

impl Replica {
    /// Merges a message: for each counter and writer the shard with the greater clock stays.
    ///
    /// Merging is commutative, associative and idempotent, and the whole message becomes visible
    /// at once. Shards of equal clock and different content, which no correct writer makes, are
    /// reported as a [`Fault`] and the greater total stays.
    ///
    /// # Errors
    /// [`Error::NotCovered`] if something that the message builds on is missing here,
    /// [`Error::OwnClockAhead`], [`Error::WritersFull`], [`Error::CountersFull`]. Nothing is
    /// changed then.
    pub fn merge(&mut self, message: &Message) -> Result<Merged, Error> {
        self.merge_with(message, &mut |_| ())
    }

    /// Merges a message, and names each counter that changed.
    ///
    /// # Errors
    /// As [`merge`](Replica::merge).
    pub fn merge_with(
        &mut self,
        message: &Message,
        changed: &mut dyn FnMut(Handle),
    ) -> Result<Merged, Error> {
        self.check(message)?;
        let new = self.news(message);
        let shards = self.install(message, changed)?;
        self.advance(message);
        Ok(Merged { shards, new })
    }

    /// Merges a transfer that came in encoded chunks, all of them at once.
    pub(crate) fn merge_staged(
        &mut self,
        staged: &[Vec<u8>],
        last: &Message,
        changed: &mut dyn FnMut(Handle),
    ) -> Result<usize, Error> {
        self.check(last)?;
        // What the last chunk's table does not cover must not become visible.
        let covered = |entry: &crate::delta::Entry| {
            let at = last
                .writers
                .binary_search_by_key(&entry.writer, |e| e.writer);
            at.is_ok_and(|at| entry.hi <= last.writers[at].hi)
        };
        let mut key_bytes = 0;
        for bytes in staged {
            let chunk = Message::decode(bytes)?;
            key_bytes += chunk.keys.bytes();
            if !chunk.writers.iter().all(covered) {
                let rule = Rule::ChunkCovered;
                return Err(Error::Malformed { rule });
            }
        }
        self.keys.room_for(key_bytes)?;
        let mut shards = 0;
        for bytes in staged {
            shards += self.install(&Message::decode(bytes)?, changed)?;
        }
        shards += self.install(last, changed)?;
        self.advance(last);
        Ok(shards)
    }

    /// Whether the message holds anything that is not held here.
    pub(crate) fn news(&self, message: &Message) -> bool {
        message
            .writers
            .iter()
            .any(|entry| entry.hi > self.clock_of(entry))
    }

    fn clock_of(&self, entry: &crate::delta::Entry) -> u64 {
        match self.numbers.get(&entry.writer) {
            Some(number) => self.clocks[number as usize],
            None => 0,
        }
    }

    /// Refuses what must not be merged, before anything is changed.
    pub(crate) fn check(&self, message: &Message) -> Result<(), Error> {
        let mut strangers = 0;
        for entry in &message.writers {
            let held = self.clock_of(entry);
            if entry.lo > held {
                let missing = Missing {
                    writer: entry.writer,
                    needed: entry.lo,
                    held,
                };
                return Err(Error::NotCovered(Box::new(missing)));
            }
            match self.numbers.get(&entry.writer) {
                Some(OWN) if entry.hi > held => {
                    return Err(Error::OwnClockAhead {
                        heard: entry.hi,
                        own: held,
                    });
                }
                Some(_) => {}
                None => strangers += 1,
            }
        }
        let writers = self.writers.len() + strangers;
        if writers > WRITERS_MAX {
            return Err(Error::WritersFull { writers });
        }
        self.keys.room_for(message.keys.bytes())
    }

    /// Joins the message's shards without moving the version vector: visible to nobody who reads
    /// only after [`advance`](Replica::advance), which must follow before anything else.
    pub(crate) fn install(
        &mut self,
        message: &Message,
        changed: &mut dyn FnMut(Handle),
    ) -> Result<usize, Error> {
        let numbers: Vec<u32> = message
            .writers
            .iter()
            .map(|e| self.number(e.writer))
            .collect();
        let mut found = Found {
            installed: 0,
            forks: Vec::new(),
            changed,
        };
        let mut hints = alloc::vec![0; message.writers.len()];
        let mut handles = [Handle(0); PAGE];
        let mut expected = Handle(0);
        for (at, columns) in message.pages.iter().enumerate() {
            let (text, ends, base) = message.keys.page_text(at);
            if place(expected).1 == 0 && self.keys.is_run(expected, text, ends, base) {
                self.join_aligned(expected, columns, &numbers, &mut hints, &mut found);
                expected = Handle(expected.0 + ends.len() as u32);
                continue;
            }
            let keys = message.keys.page(at);
            let count = keys.len();
            for (handle, key) in handles.iter_mut().zip(keys) {
                *handle = self.keys.find_or_insert(key)?;
                expected = Handle(handle.0 + 1);
            }
            self.join_scattered(&handles[..count], columns, &numbers, &mut hints, &mut found);
        }
        let Found {
            installed, forks, ..
        } = found;
        for fork in forks {
            self.report(fork);
        }
        Ok(installed)
    }

    /// Moves the version vector up to the message's `hi`.
    pub(crate) fn advance(&mut self, message: &Message) {
        for entry in &message.writers {
            let number = self.number(entry.writer) as usize;
            if entry.hi > self.clocks[number] {
                self.clocks[number] = entry.hi;
                self.merged_at[number] = self.clock();
            }
        }
    }

    /// The writer's local number, given to it if it has none.
    fn number(&mut self, writer: crate::WriterId) -> u32 {
        let next = self.writers.len() as u32;
        let number = self.numbers.get_or_insert(writer, next);
        if number == next {
            self.writers.push(writer);
            self.clocks.push(0);
            self.merged_at.push(0);
        }
        number
    }

    /// Joins a page whose keys are the first ones of one page here, in the same order.
    fn join_aligned(
        &mut self,
        first: Handle,
        columns: &[Column],
        numbers: &[u32],
        hints: &mut [usize],
        found: &mut Found<'_>,
    ) {
        let page_at = place(first).0;
        let page = self.page_mut(page_at);
        let mut changed = 0;
        for theirs in columns {
            let number = numbers[theirs.writer as usize];
            let ours = page.column_mut(number, &mut hints[theirs.writer as usize]);
            changed |= join_columns(ours, theirs, first, found);
        }
        if changed != 0 {
            self.touch(page_at);
        }
        for slot in bits(changed) {
            (found.changed)(Handle(first.0 + slot));
        }
    }

    /// Joins a page whose keys stand anywhere here, counter by counter.
    fn join_scattered(
        &mut self,
        handles: &[Handle],
        columns: &[Column],
        numbers: &[u32],
        hints: &mut [usize],
        found: &mut Found<'_>,
    ) {
        let lane = |column| Lane::new(column, numbers, hints);
        let mut lanes: Vec<Lane<'_>> = columns.iter().map(lane).collect();
        for (bit, &handle) in handles.iter().enumerate() {
            let (page_at, slot) = place(handle);
            let page = self.page_mut(page_at);
            let mut changed = 0;
            for lane in &mut lanes {
                if lane.present >> bit & 1 == 1
                    && let Some(theirs) = lane.rows.next()
                {
                    let column = page.column_mut(lane.number, &mut lane.hint);
                    changed |= join_row(column, handle, slot, *theirs, found);
                }
            }
            if changed != 0 {
                self.touch(page_at);
                (found.changed)(handle);
            }
        }
        for (lane, column) in lanes.iter().zip(columns) {
            hints[column.writer as usize] = lane.hint;
        }
    }

    #[cold]
    fn report(&mut self, (handle, writer, ours, theirs): Fork) {
        self.fault_count += 1;
        if self.faults.len() >= FAULTS_KEPT_MAX {
            return;
        }
        let writer = self.writers[writer as usize];
        let shard = |row: Row| Shard {
            writer,
            clock: row.clock,
            total: row.total,
        };
        if let Some(key) = self.keys.get(handle) {
            let key = key.into();
            let (ours, theirs) = (shard(ours), shard(theirs));
            self.faults.push(Fault { key, ours, theirs });
        }
    }
}

/// A column of a message on its way into pages of other counters.
struct Lane<'a> {
    present: u64,
    rows: core::slice::Iter<'a, Row>,
    /// The writer's local number, and where its column stood in the page before.
    number: u32,
    hint: usize,
}

impl<'a> Lane<'a> {
    fn new(column: &'a Column, numbers: &[u32], hints: &[usize]) -> Lane<'a> {
        Lane {
            present: column.present,
            rows: column.rows.iter(),
            number: numbers[column.writer as usize],
            hint: hints[column.writer as usize],
        }
    }
}

/// Joins one row of one counter; 1 if that changed the counter, else 0.
#[inline]
fn join_row(
    column: &mut Column,
    handle: Handle,
    slot: u32,
    theirs: Row,
    found: &mut Found<'_>,
) -> u64 {
    match column.join(slot, theirs) {
        Joined::Known => return 0,
        Joined::Installed => found.installed += 1,
        Joined::Forked { ours } => found.forks.push((handle, column.writer, ours, theirs)),
    }
    1
}

/// Joins two columns of the same 64 counters in one pass; which counters that changed.
fn join_columns(ours: &mut Column, theirs: &Column, first: Handle, found: &mut Found<'_>) -> u64 {
    let count = ours.rows.len();
    if ours.present != theirs.present || theirs.rows.len() != count {
        return join_unlike(ours, theirs, first, found);
    }
    let mut newer = 0;
    let mut bit = 1u64;
    let mut forked = 0;
    for (row, new) in ours.rows.iter_mut().zip(&theirs.rows) {
        forked |= u64::from(row.forks(*new));
        // Leaves a fork as it is: what comes below needs both sides of it.
        newer |= bit & row.take_newer(*new);
        bit = bit.rotate_left(1);
    }
    ours.newest = ours.newest.max(theirs.newest);
    found.installed += newer.count_ones() as usize;
    let changed = match forked {
        0 => 0,
        _ => join_unlike(ours, theirs, first, found),
    };
    if ours.present == u64::MAX {
        return changed | newer;
    }
    let of_rank = |(rank, slot)| (newer >> rank & 1) << slot;
    bits(ours.present)
        .enumerate()
        .map(of_rank)
        .fold(changed, |a, b| a | b)
}

/// Joins two columns of the same 64 counters, row by row.
fn join_unlike(ours: &mut Column, theirs: &Column, first: Handle, found: &mut Found<'_>) -> u64 {
    let mut changed = 0;
    for (slot, row) in theirs.iter() {
        let handle = Handle(first.0 + slot);
        changed |= join_row(ours, handle, slot, *row, found) << slot;
    }
    changed
}

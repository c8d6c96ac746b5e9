//! The shard map's memory: pages of 64 counters, in each page one packed column a writer.
//!
//! A plain shard is a row of 16 bytes, `(clock, total)`. Which of the page's 64 counters have a
//! row is a bit set, and a row's place is the number of bits below its own; so a dense column
//! costs 16.9 bytes a shard, and merging two columns of the same shape is one linear pass.
//! What later joins a slot (lives, cuts, absorbed writers) is rare and belongs in a side table
//! beside the pages, keyed by counter and writer, so that plain shards stay this small.

use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// Counters in a page.
pub(crate) const PAGE: usize = 64;
/// The local number of a replica's own writer.
pub(crate) const OWN: u32 = 0;

/// What one writer says of one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    /// Who owns it.
    pub writer: WriterId,
    /// The owner's clock at its last change.
    pub clock: u64,
    /// The sum of the owner's increments and decrements.
    pub total: i64,
}

/// A shard without its writer. The order is the merge's: by clock, then, for a forked writer's
/// equal clocks, by total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) clock: u64,
    pub(crate) total: i64,
}

impl Row {
    /// Keeps the row of the greater clock; all ones if that is theirs, else zero. Free of
    /// branches: which one is greater is anybody's guess in a merge.
    #[inline]
    pub(crate) fn take_newer(&mut self, theirs: Row) -> u64 {
        let mask = u64::from(theirs.clock > self.clock).wrapping_neg();
        self.clock ^= (self.clock ^ theirs.clock) & mask;
        self.total ^= (self.total ^ theirs.total) & mask as i64;
        mask
    }

    /// Whether the two are of one clock and say different things, which no correct writer does.
    #[inline]
    pub(crate) fn forks(self, theirs: Row) -> bool {
        (theirs.clock == self.clock) & (theirs.total != self.total)
    }
}

/// One writer's shards of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Bit `i` is set if the page's counter `i` has a row.
    pub(crate) present: u64,
    /// The greatest clock of all rows, so that a delta skips what did not change.
    pub(crate) newest: u64,
    /// The rows, in the order of their bits.
    pub(crate) rows: Vec<Row>,
    /// The writer's local number.
    pub(crate) writer: u32,
}

/// What [`Column::join`] came to.
pub(crate) enum Joined {
    /// The row held here was at least as new.
    Known,
    /// The row was installed.
    Installed,
    /// Same clock, other content: the greater one of the two stands now.
    Forked { ours: Row },
}

impl Column {
    pub(crate) fn new(writer: u32) -> Column {
        Column {
            present: 0,
            newest: 0,
            rows: Vec::new(),
            writer,
        }
    }

    /// How many rows stand before `slot`.
    #[inline]
    fn rank(&self, slot: u32) -> usize {
        (self.present & ((1u64 << slot) - 1)).count_ones() as usize
    }

    #[inline]
    pub(crate) fn has(&self, slot: u32) -> bool {
        self.present >> slot & 1 == 1
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&Row> {
        if !self.has(slot) {
            return None;
        }
        self.rows.get(self.rank(slot))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Row> {
        if !self.has(slot) {
            return None;
        }
        let rank = self.rank(slot);
        self.rows.get_mut(rank)
    }

    /// Adds a row for a slot that has none.
    pub(crate) fn insert(&mut self, slot: u32, row: Row) {
        debug_assert!(!self.has(slot));
        if self.rows.len() == self.rows.capacity() {
            // Small steps at first: most columns of short-lived writers hold a row or two.
            let capacity = self.rows.len();
            self.rows
                .reserve_exact((capacity / 2).clamp(1, PAGE - capacity));
        }
        self.rows.insert(self.rank(slot), row);
        self.present |= 1 << slot;
        self.newest = self.newest.max(row.clock);
    }

    /// Merges one row: the greater clock wins.
    #[inline]
    pub(crate) fn join(&mut self, slot: u32, theirs: Row) -> Joined {
        let Some(row) = self.get_mut(slot) else {
            self.insert(slot, theirs);
            return Joined::Installed;
        };
        let ours = *row;
        if ours.forks(theirs) {
            *row = ours.max(theirs);
            return Joined::Forked { ours };
        }
        let newer = row.take_newer(theirs) != 0;
        self.newest = self.newest.max(theirs.clock);
        if newer {
            Joined::Installed
        } else {
            Joined::Known
        }
    }

    /// Each row with its slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Row)> {
        bits(self.present).zip(&self.rows)
    }
}

/// The positions of the bits that are set, ascending.
pub(crate) fn bits(mut set: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        if set == 0 {
            return None;
        }
        let bit = set.trailing_zeros();
        set &= set - 1;
        Some(bit)
    })
}

/// 64 counters with consecutive handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// The own writer's column, at hand for local adds.
    pub(crate) own: Column,
    /// The other writers' columns, ascending by local number.
    pub(crate) others: Vec<Column>,
    /// The replica's epoch at the last change of anything in it.
    pub(crate) touched: u64,
}

impl Default for Page {
    fn default() -> Page {
        Page {
            own: Column::new(OWN),
            others: Vec::new(),
            touched: 0,
        }
    }
}

impl Page {
    /// The column of a writer, which is made if there is none. `hint` is where it stood in the
    /// page before, and is moved.
    #[inline]
    pub(crate) fn column_mut(&mut self, writer: u32, hint: &mut usize) -> &mut Column {
        if writer == OWN {
            return &mut self.own;
        }
        if self.others.get(*hint).is_none_or(|c| c.writer != writer) {
            *hint = find_or_insert(&mut self.others, writer);
        }
        &mut self.others[*hint]
    }

    /// The columns, ascending by the writer's local number.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &Column> {
        core::iter::once(&self.own).chain(&self.others)
    }

    /// The writer's local number and the row of each shard of one counter.
    pub(crate) fn rows(&self, slot: u32) -> impl Iterator<Item = (u32, &Row)> {
        self.columns()
            .filter_map(move |column| Some((column.writer, column.get(slot)?)))
    }

    /// Which of its counters exist.
    pub(crate) fn present(&self) -> u64 {
        self.columns().fold(0, |set, column| set | column.present)
    }
}

/// Where a writer's column stands among `columns`, which ascend; it is made if there is none.
pub(crate) fn find_or_insert(columns: &mut Vec<Column>, writer: u32) -> usize {
    match columns.binary_search_by_key(&writer, |c| c.writer) {
        Ok(at) => at,
        Err(at) => {
            columns.reserve_exact(if columns.len() < 8 { 1 } else { 8 });
            columns.insert(at, Column::new(writer));
            at
        }
    }
}

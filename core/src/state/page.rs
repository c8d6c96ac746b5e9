//! The memory of the shards: pages of 64 counters, and in each page one packed column for each writer.
//!
//! A plain shard is a row of 16 bytes, `(clock, total)`. A bit set says which of the page's 64 counters have
//! a row. A row's place is the number of bits below its own, as in the nodes of hash array mapped tries
//! (Bagwell 2001). A dense column of 64 shards costs 16.75 bytes a shard, and joining
//! two columns of the same shape is one linear pass.
//!
//! Everything else that a slot may have is rare, and lies beside the columns: lifetimes, watermarks, retired
//! writers. So plain shards stay this small.

use crate::optional::{GUESTS, MEMBERS};
use crate::state::changes::Touch;
use crate::state::counter::find;
use crate::state::slot::{Side, Slot};
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Counters in a page.
pub(crate) const PAGE: usize = 64;
/// The local number of a replica's own writer.
pub(crate) const OWN: u32 = 0;

/// The result of one writer's operations on one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    /// The writer that owns the shard. Only its transactions change the shard.
    pub writer: WriterId,
    /// The owner's clock at its last change.
    pub clock: u64,
    /// The sum of the owner's increments and decrements that survive, and the value that it set if
    /// that is the one that counts. The totals of a counter's shards add up to its value.
    pub total: i128,
}

/// A slot's clock, and the lower half of its total with cancelled adds included. The order is the merge's
/// order: by clock first. A forked writer's rows of one clock are ordered by total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) clock: u64,
    pub(crate) total: i64,
}

impl Row {
    /// Keeps the row of the greater clock. Returns all ones if that is `theirs`, else zero.
    ///
    /// It has no branches, because a merge cannot predict which row is greater.
    #[inline]
    pub(crate) fn keep_greater(&mut self, theirs: Row) -> u64 {
        let mask = u64::from(theirs.clock > self.clock).wrapping_neg();
        self.clock ^= (self.clock ^ theirs.clock) & mask;
        self.total ^= (self.total ^ theirs.total) & mask as i64;
        mask
    }

    /// Whether the two rows have one clock and different totals. No correct writer makes such rows.
    #[inline]
    pub(crate) fn forks(self, theirs: Row) -> bool {
        (theirs.clock == self.clock) & (theirs.total != self.total)
    }
}

/// One writer's shards of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Bit `i` is set if the page's counter `i` has a row. Such a number of a counter in its page is called
    /// its `bit`.
    pub(crate) present: u64,
    /// No row has a greater clock, so a delta skips what did not change. It stays when rows go.
    pub(crate) newest: u64,
    /// The rows, in the order of their bits.
    pub(crate) rows: Vec<Row>,
    /// The writer's local number in a state, and its place in the writer table in a delta.
    pub(crate) writer: u32,
}

/// The result of [`Column::join`].
pub(crate) enum Joined {
    /// The row here was at least as new.
    Known,
    /// The row was installed.
    Installed,
    /// Same clock, other content. The column now has the greater one of the two.
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

    /// How many rows lie before that of the counter `bit`.
    #[inline]
    fn rank(&self, bit: u32) -> usize {
        (self.present & ((1u64 << bit) - 1)).count_ones() as usize
    }

    #[inline]
    pub(crate) fn has(&self, bit: u32) -> bool {
        self.present >> bit & 1 == 1
    }

    #[inline]
    pub(crate) fn get(&self, bit: u32) -> Option<&Row> {
        if !self.has(bit) {
            return None;
        }
        self.rows.get(self.rank(bit))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, bit: u32) -> Option<&mut Row> {
        if !self.has(bit) {
            return None;
        }
        let rank = self.rank(bit);
        self.rows.get_mut(rank)
    }

    /// Returns the counters in `among` that have a row newer than `low`.
    pub(crate) fn newer(&self, low: u64, among: u64) -> u64 {
        let mut newer = 0;
        if MEMBERS && among != u64::MAX {
            for bit in bits(among & self.present) {
                let row = &self.rows[self.rank(bit)];
                newer |= u64::from(row.clock > low) << bit;
            }
            return newer;
        }
        for (bit, row) in self.iter() {
            newer |= u64::from(row.clock > low) << bit;
        }
        newer
    }

    /// Adds a row for a counter that has none.
    pub(crate) fn insert(&mut self, bit: u32, row: Row) {
        debug_assert!(!self.has(bit));
        if self.rows.len() == self.rows.capacity() {
            // Small steps at first: most columns of short-lived writers have one row or two.
            let capacity = self.rows.len();
            self.rows
                .reserve_exact((capacity / 2).clamp(1, PAGE - capacity));
        }
        self.rows.insert(self.rank(bit), row);
        self.present |= 1 << bit;
        self.newest = self.newest.max(row.clock);
    }

    /// Puts a row in the place of a counter's row, whatever was there.
    pub(crate) fn put(&mut self, bit: u32, row: Row) {
        match self.get_mut(bit) {
            Some(old) => *old = row,
            None => self.insert(bit, row),
        }
        self.newest = self.newest.max(row.clock);
    }

    /// Removes the row of a counter.
    pub(crate) fn remove(&mut self, bit: u32) {
        if self.has(bit) {
            self.rows.remove(self.rank(bit));
            self.present &= !(1 << bit);
        }
    }

    /// Joins one row: the greater clock wins. A row up to the clock `covered` that is absent here was
    /// collected.
    #[inline]
    pub(crate) fn join(&mut self, bit: u32, theirs: Row, covered: u64) -> Joined {
        let Some(row) = self.get_mut(bit) else {
            if theirs.clock <= covered {
                return Joined::Known;
            }
            self.insert(bit, theirs);
            return Joined::Installed;
        };
        let ours = *row;
        if ours.forks(theirs) {
            *row = ours.max(theirs);
            return Joined::Forked { ours };
        }
        let newer = row.keep_greater(theirs) != 0;
        self.newest = self.newest.max(theirs.clock);
        if newer {
            Joined::Installed
        } else {
            Joined::Known
        }
    }

    /// Each row with its counter's bit.
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

/// 64 counters with consecutive numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// The own writer's column, at hand for local adds.
    pub(crate) own: Column,
    /// The other writers' columns, ascending by local number.
    pub(crate) others: Vec<Column>,
    /// When its counters changed.
    pub(crate) touch: Touch,
    /// The counters that have a slot with more than a row.
    pub(crate) odd: Option<Box<Odd>>,
}

/// Counters of a page with slots that have more than a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Odd {
    /// Bit `i` is set if counter `i` is one.
    pub(crate) mask: u64,
    /// For each of them, in the order of the bits, its sides, ascending by writer.
    sides: Vec<Vec<Side>>,
}

impl Odd {
    /// Whether the counter is one.
    #[cold]
    #[inline(never)]
    fn has(&self, bit: u32) -> bool {
        self.mask >> bit & 1 == 1
    }

    fn rank(&self, bit: u32) -> usize {
        (self.mask & ((1u64 << bit) - 1)).count_ones() as usize
    }

    pub(crate) fn sides(&self, bit: u32) -> &[Side] {
        match self.mask >> bit & 1 {
            1 => self.sides.get(self.rank(bit)).map_or(&[], Vec::as_slice),
            _ => &[],
        }
    }

    /// Each side with its counter's bit, ascending by bit and writer.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Side)> {
        bits(self.mask)
            .zip(&self.sides)
            .flat_map(|(bit, sides)| sides.iter().map(move |side| (bit, side)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Side> {
        self.sides.iter_mut().flatten()
    }

    /// Gives the own writer a local number above all others.
    pub(crate) fn renumber_own(&mut self, number: u32) {
        for sides in &mut self.sides {
            for side in sides.iter_mut() {
                side.renumber(|old| if old == OWN { number } else { old });
            }
            if sides[0].writer == number {
                let own = sides.remove(0);
                sides.push(own);
            }
        }
    }

    fn set(&mut self, bit: u32, sides: Vec<Side>) {
        let rank = self.rank(bit);
        match (self.mask >> bit & 1 == 1, sides.is_empty()) {
            (true, true) => {
                self.sides.remove(rank);
                self.mask &= !(1 << bit);
            }
            (true, false) => self.sides[rank] = sides,
            (false, true) => {}
            (false, false) => {
                self.sides.insert(rank, sides);
                self.mask |= 1 << bit;
            }
        }
    }

    fn heap_bytes(&self) -> usize {
        let counters = self.sides.iter();
        let sides = counters.map(|sides| sides.capacity() * size_of::<Side>());
        size_of::<Odd>() + self.sides.capacity() * size_of::<Vec<Side>>() + sides.sum::<usize>()
    }
}

impl Default for Page {
    fn default() -> Page {
        Page {
            own: Column::new(OWN),
            others: Vec::new(),
            touch: Touch::default(),
            odd: None,
        }
    }
}

impl Page {
    /// Which counters have slots with more than a row.
    #[inline]
    pub(crate) fn odd(&self) -> u64 {
        self.odd.as_ref().map_or(0, |odd| odd.mask)
    }

    /// Whether some slot of the counter has more than a row. In a page without such slots this only tests a
    /// null pointer.
    #[inline]
    pub(crate) fn is_odd(&self, bit: u32) -> bool {
        match &self.odd {
            None => false,
            Some(odd) => odd.has(bit),
        }
    }

    /// Returns the records of the counter's slots beside their rows, ascending by writer.
    pub(crate) fn sides(&self, bit: u32) -> &[Side] {
        self.odd.as_ref().map_or(&[], |odd| odd.sides(bit))
    }

    /// How many ends a writer made of these counters after its clock `low`, and how many slots these name.
    pub(crate) fn newer_ends(&self, writer: u32, low: u64, counters: u64) -> usize {
        let mut named = 0;
        if GUESTS && let Some(odd) = &self.odd {
            for (bit, side) in odd.iter() {
                if side.writer == writer && counters >> bit & 1 == 1 {
                    let newer = side.expired.iter().filter(|it| it.clock > low);
                    named += newer.map(|it| 1 + it.upto.len()).sum::<usize>();
                }
            }
        }
        named
    }

    /// All records of its slots beside their rows.
    pub(crate) fn sides_mut(&mut self) -> impl Iterator<Item = &mut Side> {
        self.odd.iter_mut().flat_map(|odd| odd.iter_mut())
    }

    /// The counter's slots, ascending by writer.
    pub(crate) fn slots(&self, bit: u32) -> Vec<Slot> {
        let mut sides = self.sides(bit);
        let mut slots = Vec::new();
        for (writer, row) in self.rows(bit) {
            let mut taken = Side::new(writer);
            if let Some((side, rest)) = sides.split_first()
                && side.writer == writer
            {
                taken = side.clone();
                sides = rest;
            }
            slots.push(Slot {
                row: *row,
                side: taken,
            });
        }
        slots
    }

    /// Replaces the counter's slots, which ascend by writer.
    pub(crate) fn set_slots(&mut self, bit: u32, mut slots: Vec<Slot>) {
        let has = |writer| find(&slots, writer).is_ok();
        if !has(OWN) {
            self.own.remove(bit);
        }
        for column in &mut self.others {
            if column.has(bit) && !has(column.writer) {
                column.remove(bit);
            }
        }
        self.others.retain(|column| column.present != 0);
        let mut sides = Vec::new();
        let mut hint = 0;
        for Slot { row, side } in &mut slots {
            self.column_mut(side.writer, &mut hint).put(bit, *row);
            if !side.is_empty() {
                sides.push(core::mem::take(side));
            }
        }
        if self.odd.is_some() || !sides.is_empty() {
            sides.shrink_to_fit();
            let odd = self.odd.get_or_insert_default();
            odd.set(bit, sides);
            if odd.mask == 0 {
                self.odd = None;
            }
        }
    }

    /// Heap bytes as allocated.
    pub(crate) fn heap_bytes(&self) -> usize {
        let rows = self.columns().map(|column| column.rows.capacity());
        rows.sum::<usize>() * size_of::<Row>()
            + self.others.capacity() * size_of::<Column>()
            + self.odd.as_ref().map_or(0, |odd| odd.heap_bytes())
    }

    /// Returns the column of a writer, and creates it if there is none. `hint` is the column's place in the
    /// page before, and is updated.
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

    /// The column of a writer.
    pub(crate) fn column(&self, writer: u32) -> Option<&Column> {
        if writer == OWN {
            return Some(&self.own);
        }
        let at = self
            .others
            .binary_search_by_key(&writer, |c| c.writer)
            .ok()?;
        Some(&self.others[at])
    }

    /// The columns, ascending by the writer's local number.
    #[inline]
    pub(crate) fn columns(&self) -> Columns<'_> {
        Columns {
            own: Some(&self.own),
            others: self.others.iter(),
        }
    }

    /// The writer's local number and the row of each shard of one counter.
    #[inline]
    pub(crate) fn rows(&self, bit: u32) -> Rows<'_> {
        Rows {
            columns: self.columns(),
            bit,
        }
    }

    /// Which of its counters have rows.
    pub(crate) fn present(&self) -> u64 {
        self.columns().fold(0, |set, column| set | column.present)
    }
}

/// The columns of a page. In WebAssembly all loops over them share one function.
pub(crate) struct Columns<'a> {
    own: Option<&'a Column>,
    others: core::slice::Iter<'a, Column>,
}

impl<'a> Iterator for Columns<'a> {
    type Item = &'a Column;

    #[cfg_attr(target_family = "wasm", inline(never))]
    #[cfg_attr(not(target_family = "wasm"), inline)]
    fn next(&mut self) -> Option<&'a Column> {
        self.own.take().or_else(|| self.others.next())
    }
}

/// The rows of one counter.
pub(crate) struct Rows<'a> {
    columns: Columns<'a>,
    bit: u32,
}

impl<'a> Iterator for Rows<'a> {
    type Item = (u32, &'a Row);

    #[cfg_attr(target_family = "wasm", inline(never))]
    #[cfg_attr(not(target_family = "wasm"), inline)]
    fn next(&mut self) -> Option<(u32, &'a Row)> {
        loop {
            let column = self.columns.next()?;
            if let Some(row) = column.get(self.bit) {
                return Some((column.writer, row));
            }
        }
    }
}

/// Returns the place of a writer's column among `columns`, which ascend. Creates the column if there is none.
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

#[cfg(test)]
mod tests;

//! The join: the only way in which another replica's shards get in.
//!
//! For each counter and writer the shard with the greater clock stays. It is the join of a state-based CRDT
//! whose entries have one writer each (Shapiro et al. 2011). The rest of a slot joins record by record: the
//! longer watermark, the longer lift, and all withdrawals. A fixed order of stamps decides ties.
//! So the join is commutative, associative and idempotent.
//!
//! Columns of the same shape are joined in one pass without branches. Everything else is looked up counter
//! by counter.
//!
//! Two things are judged before the join, by the layers above, and passed in as [`Judged`]:
//! - Whether the space collects. If it does, a shard that is covered and absent was collected, and the join
//!   does not install it again.
//! - Which writers of the message are forgotten here. Everything that they made is covered.
//!
//! A shard whose clock was held already and whose content is new shows a fork. The join notes it in
//! [`Found`], and [`forks`](crate::forks) decides what it means.

use super::delta::{Delta, KeySide};
use super::keys::{KeyId, KeyIndex};
use super::page::{Column, Joined, PAGE, Row, bits};
use super::slot::{Slot, Stamp, Withdrawal};
use super::{State, counter, place};
use crate::error::Error;
use crate::layers::{GUESTS, MEMBERS, MemberPart, Optional};
use crate::sort::sort_by;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// Whether two runs of equal keys are merged as a whole. In WebAssembly, where the code is downloaded, each
/// counter is looked up instead.
const ALIGNED: bool = !cfg!(target_family = "wasm");

/// A record that arrived although its clock was covered: the counter, the writer's local number, the clock,
/// and both totals if two contents differ.
pub(crate) type Fork = (KeyId, u32, u64, Option<[i128; 2]>);

/// The verdicts of the layers above on a message. They are made before the join.
#[derive(Clone, Copy)]
pub(crate) struct Judged<'a> {
    /// Whether garbage is collected in this space. If so, a record that is covered and absent was collected,
    /// and the join does not install it again.
    pub(crate) collects: bool,
    /// The places of the message's writers that are forgotten here. Everything of them is covered.
    pub(crate) forgotten: &'a [usize],
}

/// Collects what a merge finds while pages are borrowed.
pub(crate) struct Found<'a> {
    pub(crate) installed: usize,
    pub(crate) forks: MemberPart<Vec<Fork>>,
    /// How often the join found two contents of one clock.
    pub(crate) fork_count: u64,
    /// Counters that changed and have more than rows. They are normalized after all records are installed.
    pub(crate) odd: Vec<u32>,
    /// Whether this replica had nothing of other writers before.
    pub(crate) fresh: bool,
    pub(crate) changed: &'a mut dyn FnMut(KeyId),
}

impl<'a> Found<'a> {
    /// Counts a pair of two contents of one clock, and notes it.
    fn forked(&mut self, fork: Fork) {
        self.fork_count += 1;
        self.forks.update(|it| it.push(fork));
    }

    /// Notes a record that was installed although its clock was covered. If several such records of one
    /// writer follow each other, it notes the first one.
    #[cold]
    fn late(&mut self, handle: KeyId, writer: u32, clock: u64) {
        // Where forks are not detected, no clock counts as covered before.
        let again = self.forks.last().is_some_and(|last| last.1 == writer);
        if !again {
            self.forks
                .update(|it| it.push((handle, writer, clock, None)));
        }
    }

    pub(crate) fn new(fresh: bool, changed: &'a mut dyn FnMut(KeyId)) -> Found<'a> {
        Found {
            fresh,
            installed: 0,
            forks: MemberPart::default(),
            fork_count: 0,
            odd: Vec::new(),
            changed,
        }
    }
}

/// The local number of a writer that was forgotten.
const FORGOTTEN: u32 = u32::MAX;

/// A writer of a message, as this replica has it.
#[derive(Clone, Copy)]
struct Known {
    number: u32,
    /// The clock up to which an absent record is not installed.
    ///
    /// - In a closed space it is the writer's clock before the message: an absent record up to it was
    ///   collected.
    /// - For a forgotten writer it is the greatest clock: everything is covered.
    /// - In an open space it is 0, because nothing is collected. Only a forked writer's record is covered and
    ///   absent there.
    covered: u64,
    /// In an open space the writer's clock before the message, if the message repeats a part before it. A
    /// record up to this clock that was absent is a forked writer's. Otherwise 0.
    held: u64,
    /// The place of its column in the page before.
    hint: usize,
}

impl<I: KeyIndex> State<I> {
    /// Brings counters into their normal form that received more than rows. Calls `changed` with each.
    #[inline(always)]
    pub(crate) fn normalize(&mut self, mut odd: Vec<u32>, changed: &mut dyn FnMut(KeyId)) {
        sort_by(&mut odd, &|a, b| a.cmp(&b));
        odd.dedup();
        for handle in &odd {
            let handle = KeyId(*handle);
            let mut slots = self.slots(handle);
            counter::normalize(&mut slots);
            self.put_slots(handle, slots);
            changed(handle);
        }
    }

    /// Makes the joined records of a writer visible, up to the clock `hi`.
    #[inline(always)]
    pub(crate) fn advance(&mut self, number: usize, hi: u64) {
        if hi > self.clocks[number] {
            if MEMBERS && self.merged_at[number] < self.clock() {
                self.seen_at_last
                    .update(|it| it[number] = self.clocks[number]);
            }
            self.clocks[number] = hi;
            self.note_moved(number as u32);
            self.merged_at[number] = self.clock();
        }
    }

    /// Joins the message's shards without moving the version vector. The caller must move the clocks next,
    /// before anything else. Only then do reads see the shards.
    pub(crate) fn install(
        &mut self,
        message: &Delta,
        judged: Judged<'_>,
        found: &mut Found<'_>,
    ) -> Result<(), Error> {
        let closed = judged.collects;
        let mut writers = crate::list(message.writers.len());
        for (at, entry) in message.writers.iter().enumerate() {
            if GUESTS && judged.forgotten.contains(&at) {
                writers.push(Known {
                    number: FORGOTTEN,
                    covered: u64::MAX,
                    held: 0,
                    hint: 0,
                });
                continue;
            }
            let clock = self.held(&entry.writer);
            let (covered, held) = match closed {
                true => (clock, 0),
                false if MEMBERS && entry.lo < clock => (0, clock),
                false => (0, 0),
            };
            writers.push(Known {
                number: self.number(entry.writer),
                covered,
                held,
                hint: 0,
            });
        }
        let mut handles = [KeyId(0); PAGE];
        let mut expected = KeyId(0);
        let mut sides = message.sides.iter().peekable();
        for (at, columns) in message.pages.iter().enumerate() {
            let (text, ends, base) = message.keys.page_text(at);
            let first_key = (at * PAGE) as u32;
            // Which of the page's keys have shards with more than a row.
            let mut odd = 0u64;
            while let Some(next) = sides.next_if(|s| s.key < first_key + PAGE as u32) {
                odd |= u64::from(next.side.extra.is_some()) << (next.key - first_key);
            }
            let (page_at, first) = place(expected);
            let plain = self.pages.get(page_at).is_none_or(|page| page.odd() == 0);
            if ALIGNED
                && first == 0
                && odd == 0
                && plain
                && self.keys.is_run(expected, text, ends, base)
            {
                self.join_aligned(expected, columns, &mut writers, found);
                expected = KeyId(expected.0 + ends.len() as u32);
                continue;
            }
            let keys = message.keys.page(at);
            let count = keys.len();
            for (handle, key) in handles.iter_mut().zip(keys) {
                *handle = self.keys.find_or_take(key)?;
                expected = KeyId(handle.0 + 1);
            }
            // Which of them have no more than rows, in the message and here.
            let mut plain = 0u64;
            for (bit, &handle) in handles[..count].iter().enumerate() {
                let (page_at, slot) = place(handle);
                if odd >> bit & 1 == 1 || self.page_mut(page_at).is_odd(slot) {
                    let at = (at, bit as u32);
                    self.join_odd((message, closed), columns, at, handle, &writers, found);
                } else {
                    plain |= 1 << bit;
                }
            }
            self.join_scattered(&handles[..count], plain, columns, &writers, found);
            if closed {
                for &handle in &handles[..count] {
                    self.forget_unused(handle); // Collected records are not installed.
                }
            }
        }
        for side in &message.sides {
            self.join_side(message, side, &writers, found);
        }
        Ok(())
    }

    /// Joins a page whose keys are the first ones of one page here, in the same order. All of them are plain.
    fn join_aligned(
        &mut self,
        first: KeyId,
        columns: &[Column],
        writers: &mut [Known],
        found: &mut Found<'_>,
    ) {
        let page_at = place(first).0;
        let page = self.page_mut(page_at);
        let mut changed = 0;
        for theirs in columns {
            let known = &mut writers[theirs.writer as usize];
            if known.number == FORGOTTEN {
                continue;
            }
            let ours = page.column_mut(known.number, &mut known.hint);
            changed |= join_columns(ours, theirs, first, *known, found);
        }
        if changed != 0 {
            self.touch(page_at, changed);
        }
        for slot in bits(changed) {
            (found.changed)(KeyId(first.0 + slot));
        }
    }

    /// Joins the rows of those of 64 counters that are `plain`. Their keys may lie anywhere here.
    fn join_scattered(
        &mut self,
        handles: &[KeyId],
        plain: u64,
        columns: &[Column],
        writers: &[Known],
        found: &mut Found<'_>,
    ) {
        let mut lanes = crate::list(columns.len());
        for column in columns {
            let known = writers[column.writer as usize];
            if known.number != FORGOTTEN {
                lanes.push((column.present, column.rows.iter(), known));
            }
        }
        for (bit, &handle) in handles.iter().enumerate() {
            let (page_at, slot) = place(handle);
            let page = self.page_mut(page_at);
            let is_plain = plain >> bit & 1 == 1;
            let mut changed = 0;
            for (present, rows, known) in &mut lanes {
                if *present >> bit & 1 == 1
                    && let Some(row) = rows.next()
                    && is_plain
                {
                    let ours = page.column_mut(known.number, &mut known.hint);
                    changed |= join_row(ours, handle, slot, *row, *known, found);
                }
            }
            if changed != 0 {
                self.touch(page_at, 1 << slot);
                (found.changed)(handle);
            }
        }
    }

    /// Joins the shards of one counter that has more than rows, here or in the message. `at` is its place in
    /// the message: the page, and which of the 64.
    #[cold]
    fn join_odd(
        &mut self,
        (message, closed): (&Delta, bool),
        columns: &[Column],
        at: (usize, u32),
        handle: KeyId,
        writers: &[Known],
        found: &mut Found<'_>,
    ) {
        let (page_at, slot) = place(handle);
        let mut slots = self.page_mut(page_at).slots(slot);
        let key = (at.0 * PAGE) as u32 + at.1;
        let mut changed = false;
        for column in columns {
            let Some(&row) = column.get(at.1) else {
                continue;
            };
            let Known {
                number,
                covered,
                held,
                ..
            } = writers[column.writer as usize];
            let theirs = Slot::new(number, row, message.extra(key, column.writer));
            match counter::find(&slots, number) {
                _ if number == FORGOTTEN => continue,
                Err(_) if row.clock <= covered => continue,
                Err(at) => slots.insert(at, theirs),
                Ok(at) => {
                    let ours = &mut slots[at];
                    let order = theirs.rank().cmp(&ours.rank());
                    // Parts of an extra may have been collected, here or at the sender.
                    let same =
                        closed && (row.clock, theirs.total()) == (ours.row.clock, ours.total());
                    if same || order == Ordering::Equal || row.clock < ours.row.clock {
                        continue;
                    }
                    if row.clock == ours.row.clock {
                        let totals = [ours.total(), theirs.total()];
                        found.forked((handle, number, row.clock, Some(totals)));
                    }
                    if order == Ordering::Greater {
                        ours.set_shard(row.clock, theirs.total(), theirs.extra());
                    }
                }
            }
            changed = true;
            found.installed += 1;
            if row.clock <= held {
                found.late(handle, number, row.clock);
            }
        }
        if changed {
            self.put_slots(handle, slots);
            found.odd.push(handle.0);
        }
    }

    /// Joins the records of a slot beside its shard. The shard that they describe is here, or was collected.
    #[cold]
    fn join_side(
        &mut self,
        message: &Delta,
        KeySide { key, side }: &KeySide,
        writers: &[Known],
        found: &mut Found<'_>,
    ) {
        let Known {
            number, covered, ..
        } = writers[side.writer as usize];
        let Some(handle) = self.keys.find(message.keys.get(*key as usize)) else {
            return;
        };
        let (page_at, at) = place(handle);
        let Some(page) = self.pages.get(page_at) else {
            return;
        };
        let mut slots = page.slots(at);
        let Ok(at) = counter::find(&slots, number) else {
            return;
        };
        let fresh = |by: Stamp| by.clock > writers[by.writer as usize].covered;
        let here = |by: Stamp| Stamp {
            writer: writers[by.writer as usize].number,
            ..by
        };
        // Records of equal clocks have seen the same, so any fixed order of their writers decides between
        // them.
        let rank = |by: Stamp| (self.ids[by.writer as usize], by.clock);
        let slot = &mut slots[at];
        let mut changed = false;
        let late = |by: Stamp| by.clock <= writers[by.writer as usize].held;
        if let Some(mut cut) = side.cut.filter(|cut| fresh(cut.by)) {
            // A cut of an earlier life was dropped when the new life arrived.
            let late = late(cut.by) && cut.clock >= slot.born();
            cut.by = here(cut.by);
            let longer = |old: &super::slot::Cut| {
                (cut.clock, rank(cut.by), cut.total) > (old.clock, rank(old.by), old.total)
            };
            if slot.side.cut.as_ref().is_none_or(longer) {
                slot.side.cut = Some(cut);
                changed = true;
                if late {
                    found.late(handle, cut.by.writer, cut.by.clock);
                }
            }
        }
        if let Some(lift) = side.lift.as_ref().filter(|lift| fresh(lift.by)) {
            let mut lift = lift.clone();
            let expiry = slot.extra().expiry;
            let late = late(lift.by) && expiry.is_some_and(|it| it.clock <= lift.clock);
            lift.by = here(lift.by);
            let longer =
                |old: &super::slot::Lift| (lift.clock, rank(lift.by)) > (old.clock, rank(old.by));
            if slot.side.lift.as_deref().is_none_or(longer) {
                let by = lift.by;
                slot.side.lift = Some(lift);
                changed = true;
                if late {
                    found.late(handle, by.writer, by.clock);
                }
            }
        }
        if let Some(moved) = side.moved.as_ref().filter(|moved| fresh(moved.to)) {
            let mut moved = moved.clone();
            moved.to = here(moved.to);
            changed |= slot.side.moved.as_ref() != Some(&moved);
            slot.side.moved.set(Some(moved));
        }
        if side.fold.as_ref().is_some_and(|fold| fold.clock > covered) {
            changed |= slot.side.fold != side.fold;
            slot.side.fold.clone_from(&side.fold);
        }
        for withdrawal in side.withdrawals.iter().filter(|it| fresh(it.by)) {
            let by = here(withdrawal.by);
            let withdrawal = Withdrawal { by, ..*withdrawal };
            changed |= slot.side.withdraw(withdrawal, &|a, b| rank(a) > rank(b));
        }
        if changed {
            self.put_slots(handle, slots);
            found.installed += 1;
            found.odd.push(handle.0);
        }
    }
}

/// Joins one row of one counter. Returns 1 if the counter changed, else 0.
#[inline]
fn join_row(
    column: &mut Column,
    handle: KeyId,
    slot: u32,
    theirs: Row,
    known: Known,
    found: &mut Found<'_>,
) -> u64 {
    match column.join(slot, theirs, known.covered) {
        Joined::Known => return 0,
        Joined::Installed => {
            found.installed += 1;
            if theirs.clock <= known.held {
                found.late(handle, column.writer, theirs.clock);
            }
        }
        Joined::Forked { ours } => {
            let totals = [i128::from(ours.total), i128::from(theirs.total)];
            let fork = (handle, column.writer, theirs.clock, Some(totals));
            found.forked(fork);
        }
    }
    1
}

/// Joins two columns of the same 64 counters in one pass. Returns the counters that changed.
fn join_columns(
    ours: &mut Column,
    theirs: &Column,
    first: KeyId,
    known: Known,
    found: &mut Found<'_>,
) -> u64 {
    let count = ours.rows.len();
    if ours.present != theirs.present || theirs.rows.len() != count {
        return join_unlike(ours, theirs, first, known, found);
    }
    let mut newer = 0u64;
    let mut forked = 0;
    // The bound is also our newest row, so that every row beyond it is newer. An earlier chunk of the same
    // state may have brought rows that the clocks do not cover yet.
    let (held, mut beyond) = (known.held.max(ours.newest), 0u64);
    for (row, new) in ours.rows.iter_mut().zip(&theirs.rows) {
        forked |= u64::from(row.forks(*new));
        // A fork stays as it is, because the code below needs both sides of it.
        newer = newer << 1 | row.take_newer(*new) & 1;
        if MEMBERS {
            beyond = beyond.wrapping_add(u64::from(new.clock > held));
        }
    }
    // The first row's bit came first, and is the highest.
    newer = newer
        .reverse_bits()
        .checked_shr(64 - count as u32)
        .unwrap_or(0);
    ours.newest = ours.newest.max(theirs.newest);
    found.installed += newer.count_ones() as usize;
    // No branch for each row decides whether any other row is newer, because the processor would mispredict
    // half of them.
    if MEMBERS && known.held > 0 && u64::from(newer.count_ones()) != beyond {
        for (rank, (slot, row)) in theirs.iter().enumerate() {
            if newer >> rank & 1 == 1 && row.clock <= known.held {
                found.late(KeyId(first.0 + slot), ours.writer, row.clock);
            }
        }
    }
    let changed = match forked {
        0 => 0,
        _ => join_unlike(ours, theirs, first, known, found),
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
fn join_unlike(
    ours: &mut Column,
    theirs: &Column,
    first: KeyId,
    known: Known,
    found: &mut Found<'_>,
) -> u64 {
    let mut changed = 0;
    for (slot, row) in theirs.iter() {
        let handle = KeyId(first.0 + slot);
        changed |= join_row(ours, handle, slot, *row, known, found) << slot;
    }
    changed
}

#[cfg(test)]
#[cfg(feature = "members")]
mod tests {
    use super::*;

    /// The clocks show which rows are late, also after an earlier chunk brought rows of the same state.
    #[test]
    fn a_late_row_is_noticed_beside_a_new_one_that_came_before() {
        let column = |clocks: [u64; 2]| {
            let mut column = Column::new(7);
            for (slot, clock) in (0..).zip(clocks) {
                column.insert(slot, Row { clock, total: 1 });
            }
            column
        };
        let known = Known {
            number: 7,
            covered: 0,
            held: 10,
            hint: 0,
        };
        for (ours, late) in [([20, 3], true), ([20, 7], false), ([9, 7], false)] {
            let mut ignore = |_| ();
            let mut found = Found::new(false, &mut ignore);
            let (mut ours, theirs) = (column(ours), column([20, 7]));
            join_columns(&mut ours, &theirs, KeyId(0), known, &mut found);
            assert_eq!(!found.forks.is_empty(), late, "{ours:?}");
        }
    }
}

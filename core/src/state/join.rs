//! The join: the only way in which another replica's shards get in.
//!
//! For each counter and writer the shard with the greater clock stays. It is the join of a state-based CRDT
//! whose entries have one writer each (Shapiro et al. 2011). The rest of a slot joins record by record:
//!
//! | record | wins | because |
//! |---|---|---|
//! | row and [`Extra`](super::slot::Extra) | the greater clock; of two contents of one clock, the greater content | the owner alone writes them, in the order of its clocks; two contents of one clock show a fork. A begin of a lifetime that arrives collected stays as it is here, for replicas that were told nothing of that lifetime yet |
//! | [`Watermark`](super::slot::Watermark) | the greater clock up to which it cancels, then the greater stamp, then the total | a cancel is a prefix, so the longer one contains the shorter one |
//! | [`Lift`](super::slot::Lift) | the greater clock up to which it lifts, then the greater stamp | the same |
//! | [`Moved`](super::slot::Moved) | the one that arrives | there is only one: [one writer alone](crate::membership::retire) may take over, and it does so once |
//! | [`Fold`](super::slot::Fold) | the one here, if the owner's clock covers the other one; else the one that arrives | all replicas fold the same children, in the order of their retirements, once these are stable; so the fold with the later clock contains the earlier one |
//! | [`Expired`](super::slot::Expired) | all stay; of two transactions that spared one, the least | each is an operation of its own; its time never changes, and what it says of earlier lifetimes and of forgotten writers goes everywhere |
//! | [`Withdrawal`] | all stay; of two for one transaction, the greater stamp; one that stands for several replaces these | each takes out another add, and two for one add take it out once |
//!
//! So the join is commutative, associative and idempotent. Where a space collects, that holds up to the
//! [sweep](super::sweep): two orders may leave different garbage, and the sweep leaves equal slots of both.
//!
//! Columns of the same shape are joined in one pass without branches. Everything else is looked up counter
//! by counter.
//!
//! The layers above judge two things before the join, and pass them in as [`Judged`]:
//! - Whether the space collects. If it does, a shard that is covered and absent was collected, and the join
//!   does not install it again.
//! - Which writers of the delta are forgotten here. Everything that they made is covered.
//!
//! A whole join is four steps, and `join_parts` in `state/tests/world.rs` is its shortest version:
//! 1. the caller checks that the state covers the low clock of each writer that the delta names;
//! 2. [`install`](State::install) joins the shards and records, of one delta or of all chunks of a transfer.
//!    A layer above then drops the slots of retired writers that their successors did not take over;
//! 3. [`normalize`](State::normalize) drops what is void by now;
//! 4. [`advance`](State::advance) moves the clock of each writer to its high clock.
//!
//! From the second step to the fourth, rows lie in the pages above the clocks of their writers. Nobody reads
//! them, because the caller borrows the state exclusively until then.
//!
//! A shard whose clock was held already and whose content is new shows a fork. The join notes it in
//! [`Found`], and [`forks`](crate::forks) decides what it means.

use super::delta::{Delta, KeySide};
use super::keys::{KeyId, KeyIndex};
use super::page::{Column, Joined, PAGE, Row, bits};
use super::slot::{Side, Slot, Stamp, Withdrawal};
use super::{State, counter, place};
use crate::error::Error;
use crate::optional::{GUESTS, MEMBERS, MemberPart, Optional};
use crate::sort::sort_by;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// Whether two runs of equal keys are merged as a whole. In WebAssembly, where the code is downloaded, each
/// counter is looked up instead.
const ALIGNED: bool = !cfg!(target_family = "wasm");

/// A record that arrived although its clock was covered: the counter, the writer's local number, the clock,
/// and both totals if two contents differ.
pub(crate) type Fork = (KeyId, u32, u64, Option<[i128; 2]>);

/// The verdicts of the layers above on a delta. They are made before the join.
#[derive(Clone, Copy)]
pub(crate) struct Judged<'a> {
    /// Whether garbage is collected in this space. If so, a record that is covered and absent was collected,
    /// and the join does not install it again.
    pub(crate) collects: bool,
    /// The places of the delta's writers that are forgotten here. Everything of them is covered.
    pub(crate) forgotten: &'a [usize],
}

/// Gathers what a join finds while pages are borrowed.
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
    fn late(&mut self, key_id: KeyId, writer: u32, clock: u64) {
        // Where forks are not detected, no clock counts as covered before.
        let again = self.forks.last().is_some_and(|last| last.1 == writer);
        if !again {
            self.forks
                .update(|it| it.push((key_id, writer, clock, None)));
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

/// A writer of a delta, as this replica has it.
///
/// | | `skip_to` | `late_to` |
/// |---|---|---|
/// | the space collects | the writer's clock before the delta | 0 |
/// | the writer is forgotten here | the greatest clock | 0 |
/// | nothing is collected | 0 | the writer's clock before the delta, if the delta repeats a part before it; else 0 |
#[derive(Clone, Copy)]
struct Known {
    number: u32,
    /// A record up to this clock that is absent here is not installed, because it was collected.
    skip_to: u64,
    /// A record up to this clock that was absent here is a forked writer's.
    late_to: u64,
    /// The place of its column in the page before.
    hint: usize,
}

impl<I: KeyIndex> State<I> {
    /// Brings counters into their normal form that received more than rows. Calls `changed` with each.
    #[inline(always)]
    pub(crate) fn normalize(&mut self, mut odd: Vec<u32>, changed: &mut dyn FnMut(KeyId)) {
        sort_by(&mut odd, &|a, b| a.cmp(&b));
        odd.dedup();
        for key_id in &odd {
            let key_id = KeyId(*key_id);
            let mut slots = self.slots(key_id);
            counter::normalize(&mut slots);
            self.put_slots(key_id, slots);
            changed(key_id);
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
            self.note_raised(number as u32);
            self.merged_at[number] = self.clock();
        }
    }

    /// Joins the delta's shards without moving the version vector. The caller must take the other steps of a
    /// join next, and let nobody read before the clocks have moved.
    pub(crate) fn install(
        &mut self,
        delta: &Delta,
        judged: Judged<'_>,
        found: &mut Found<'_>,
    ) -> Result<(), Error> {
        let mut writers = crate::list(delta.writers.len());
        for (at, entry) in delta.writers.iter().enumerate() {
            if GUESTS && judged.forgotten.contains(&at) {
                writers.push(Known {
                    number: FORGOTTEN,
                    skip_to: u64::MAX,
                    late_to: 0,
                    hint: 0,
                });
                continue;
            }
            let clock = self.held(&entry.writer);
            let (skip_to, late_to) = match judged.collects {
                true => (clock, 0),
                false if MEMBERS && entry.lo < clock => (0, clock),
                false => (0, 0),
            };
            writers.push(Known {
                number: self.number(entry.writer),
                skip_to,
                late_to,
                hint: 0,
            });
        }
        let mut key_ids = [KeyId(0); PAGE];
        let mut expected = KeyId(0);
        let mut sides = delta.sides.iter().peekable();
        for (at, columns) in delta.pages.iter().enumerate() {
            let (text, ends, start) = delta.keys.page_text(at);
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
                && self.keys.is_run(expected, text, ends, start)
            {
                self.join_aligned(expected, columns, &mut writers, found);
                expected = KeyId(expected.0 + ends.len() as u32);
                continue;
            }
            let keys = delta.keys.page(at);
            let count = keys.len();
            for (key_id, key) in key_ids.iter_mut().zip(keys) {
                *key_id = self.keys.find_or_take(key)?;
                expected = KeyId(key_id.0 + 1);
            }
            // Which of them have no more than rows, in the delta and here.
            let mut plain = 0u64;
            for (nth, &key_id) in key_ids[..count].iter().enumerate() {
                let (page_at, bit) = place(key_id);
                if odd >> nth & 1 == 1 || self.page_mut(page_at).is_odd(bit) {
                    let at = (at, nth as u32);
                    self.join_odd(
                        (delta, judged.collects),
                        columns,
                        at,
                        key_id,
                        &writers,
                        found,
                    );
                } else {
                    plain |= 1 << nth;
                }
            }
            self.join_scattered(&key_ids[..count], plain, columns, &writers, found);
            if judged.collects {
                for &key_id in &key_ids[..count] {
                    self.forget_unused(key_id); // Collected records are not installed.
                }
            }
        }
        for sides in delta.sides.chunk_by(|a, b| a.key == b.key) {
            self.join_sides(delta, sides, &writers, found);
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
        for bit in bits(changed) {
            (found.changed)(KeyId(first.0 + bit));
        }
    }

    /// Joins the rows of those of 64 counters that are `plain`. Their keys may lie anywhere here.
    fn join_scattered(
        &mut self,
        key_ids: &[KeyId],
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
        for (nth, &key_id) in key_ids.iter().enumerate() {
            let (page_at, bit) = place(key_id);
            let page = self.page_mut(page_at);
            let is_plain = plain >> nth & 1 == 1;
            let mut changed = 0;
            for (present, rows, known) in &mut lanes {
                if *present >> nth & 1 == 1
                    && let Some(row) = rows.next()
                    && is_plain
                {
                    let ours = page.column_mut(known.number, &mut known.hint);
                    changed |= join_row(ours, key_id, bit, *row, *known, found);
                }
            }
            if changed != 0 {
                self.touch(page_at, 1 << bit);
                (found.changed)(key_id);
            }
        }
    }

    /// Joins the shards of one counter that has more than rows, here or in the delta. `at` is its place in
    /// the delta: the page, and which of the 64.
    #[cold]
    fn join_odd(
        &mut self,
        (delta, collects): (&Delta, bool),
        columns: &[Column],
        at: (usize, u32),
        key_id: KeyId,
        writers: &[Known],
        found: &mut Found<'_>,
    ) {
        let (page_at, bit) = place(key_id);
        let mut slots = self.page_mut(page_at).slots(bit);
        let key = (at.0 * PAGE) as u32 + at.1;
        let mut changed = false;
        for column in columns {
            let Some(&row) = column.get(at.1) else {
                continue;
            };
            let known = writers[column.writer as usize];
            let number = known.number;
            let theirs = Slot::new(number, row, delta.extra(key, column.writer));
            match counter::find(&slots, number) {
                _ if number == FORGOTTEN => continue,
                Err(_) if row.clock <= known.skip_to => continue,
                Err(at) => slots.insert(at, theirs),
                Ok(at) => {
                    let ours = &mut slots[at];
                    let order = theirs.rank().cmp(&ours.rank());
                    // Parts of an extra may have been collected, here or at the sender.
                    let same =
                        collects && (row.clock, theirs.total()) == (ours.row.clock, ours.total());
                    if same || order == Ordering::Equal || row.clock < ours.row.clock {
                        continue;
                    }
                    if row.clock == ours.row.clock {
                        let totals = [ours.total(), theirs.total()];
                        found.forked((key_id, number, row.clock, Some(totals)));
                    }
                    if order == Ordering::Greater {
                        let mut extra = theirs.extra();
                        if collects && extra.began == 0 {
                            extra.began = ours.began(); // The owner alone has collected it.
                        }
                        ours.set_shard(row.clock, theirs.total(), extra);
                    }
                }
            }
            changed = true;
            found.installed += 1;
            if row.clock <= known.late_to {
                found.late(key_id, number, row.clock);
            }
        }
        if changed {
            self.put_slots(key_id, slots);
            found.odd.push(key_id.0);
        }
    }

    /// Joins the records that slots of one counter have beside their shards. A shard that they describe is here, or was
    /// collected.
    #[cold]
    fn join_sides(
        &mut self,
        delta: &Delta,
        sides: &[KeySide],
        writers: &[Known],
        found: &mut Found<'_>,
    ) {
        let Some(key_id) = self.keys.find(delta.keys.get(sides[0].key as usize)) else {
            return;
        };
        let (page_at, at) = place(key_id);
        let Some(page) = self.pages.get(page_at) else {
            return;
        };
        let mut slots = page.slots(at);
        let before = found.installed;
        for it in sides {
            let known = writers[it.side.writer as usize];
            if let Ok(at) = counter::find(&slots, known.number) {
                let changed =
                    self.join_side(key_id, &mut slots[at], &it.side, (writers, known), found);
                found.installed += usize::from(changed);
            }
        }
        if found.installed > before {
            self.put_slots(key_id, slots);
            found.odd.push(key_id.0);
        }
    }

    /// Joins the records of a slot beside its shard. Returns whether it changed.
    fn join_side(
        &self,
        key_id: KeyId,
        slot: &mut Slot,
        side: &Side,
        (writers, Known { skip_to, .. }): (&[Known], Known),
        found: &mut Found<'_>,
    ) -> bool {
        let fresh = |by: Stamp| by.clock > writers[by.writer as usize].skip_to;
        let here = |by: Stamp| Stamp {
            writer: writers[by.writer as usize].number,
            ..by
        };
        // Records of equal clocks have seen the same, so any fixed order of their writers decides between
        // them.
        let rank = |by: Stamp| (self.ids[by.writer as usize], by.clock);
        let mut changed = false;
        let late = |by: Stamp| by.clock <= writers[by.writer as usize].late_to;
        if let Some(mut watermark) = side.watermark.filter(|watermark| fresh(watermark.by)) {
            // A watermark of an earlier lifetime was dropped when the new lifetime arrived.
            let late = late(watermark.by) && watermark.clock >= slot.began();
            watermark.by = here(watermark.by);
            let longer = |old: &super::slot::Watermark| {
                (watermark.clock, rank(watermark.by), watermark.total)
                    > (old.clock, rank(old.by), old.total)
            };
            if slot.side.watermark.as_ref().is_none_or(longer) {
                slot.side.watermark = Some(watermark);
                changed = true;
                if late {
                    found.late(key_id, watermark.by.writer, watermark.by.clock);
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
                    found.late(key_id, by.writer, by.clock);
                }
            }
        }
        if let Some(moved) = side.moved.as_ref().filter(|moved| fresh(moved.to)) {
            let mut moved = moved.clone();
            moved.to = here(moved.to);
            changed |= slot.side.moved.as_ref() != Some(&moved);
            slot.side.moved.set(Some(moved));
        }
        if side.fold.as_ref().is_some_and(|fold| fold.clock > skip_to) {
            changed |= slot.side.fold != side.fold;
            slot.side.fold.clone_from(&side.fold);
        }
        // One that stands for several comes before those that are apart from it.
        for withdrawal in side.withdrawals.iter().rev().filter(|it| fresh(it.by)) {
            let by = here(withdrawal.by);
            let withdrawal = Withdrawal { by, ..*withdrawal };
            changed |= slot.side.withdraw(withdrawal, &|a, b| rank(a) > rank(b));
        }
        for it in side.expired.iter() {
            let spared = it.spared.filter(|by| fresh(*by)).map(here);
            let place = slot
                .side
                .expired
                .binary_search_by_key(&it.clock, |it| it.clock);
            match (place, slot.side.expired.get_mut()) {
                (Ok(at), Some(expired)) => {
                    let before = expired[at].spared;
                    let least = before.into_iter().chain(spared).min_by_key(|by| rank(*by));
                    changed |= least != before;
                    expired[at].spared = least;
                }
                (Err(at), Some(expired)) if it.clock > skip_to => {
                    let mut it = it.clone();
                    it.spared = spared;
                    for upto in &mut it.upto {
                        upto.writer = writers[upto.writer as usize].number;
                    }
                    it.upto.retain(|it| it.writer != FORGOTTEN);
                    expired.insert(at, it);
                    changed = true;
                }
                _ => {}
            }
        }
        changed
    }
}

/// Joins one row of one counter. Returns 1 if the counter changed, or if the row shows a fork and ours stays.
/// Otherwise returns 0.
#[inline]
fn join_row(
    column: &mut Column,
    key_id: KeyId,
    bit: u32,
    theirs: Row,
    known: Known,
    found: &mut Found<'_>,
) -> u64 {
    match column.join(bit, theirs, known.skip_to) {
        Joined::Known => return 0,
        Joined::Installed => {
            found.installed += 1;
            if theirs.clock <= known.late_to {
                found.late(key_id, column.writer, theirs.clock);
            }
        }
        Joined::Forked { ours } => {
            let totals = [i128::from(ours.total), i128::from(theirs.total)];
            let fork = (key_id, column.writer, theirs.clock, Some(totals));
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
    let (covered, mut beyond) = (known.late_to.max(ours.newest), 0u64);
    for (row, new) in ours.rows.iter_mut().zip(&theirs.rows) {
        forked |= u64::from(row.forks(*new));
        // A fork stays as it is, because the code below needs both sides of it.
        newer = newer << 1 | row.keep_greater(*new) & 1;
        if MEMBERS {
            beyond = beyond.wrapping_add(u64::from(new.clock > covered));
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
    if MEMBERS && known.late_to > 0 && u64::from(newer.count_ones()) != beyond {
        for (rank, (bit, row)) in theirs.iter().enumerate() {
            if newer >> rank & 1 == 1 && row.clock <= known.late_to {
                found.late(KeyId(first.0 + bit), ours.writer, row.clock);
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
    let of_rank = |(rank, bit)| (newer >> rank & 1) << bit;
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
    for (bit, row) in theirs.iter() {
        let key_id = KeyId(first.0 + bit);
        changed |= join_row(ours, key_id, bit, *row, known, found) << bit;
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
            for (bit, clock) in (0..).zip(clocks) {
                column.insert(bit, Row { clock, total: 1 });
            }
            column
        };
        let known = Known {
            number: 7,
            skip_to: 0,
            late_to: 10,
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

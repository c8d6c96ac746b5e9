//! The meaning of one counter: what its slots come to, and what an operation does to them.
//!
//! Plain slots, which have a row and nothing else, are summed and added to where they lie: in
//! [`read`](super::read) and [`operation`](super::operation). This file is for the others. A caller takes the
//! slots of one counter out of their page, ascending by the writer's local number, and puts them back.
//!
//! - **A cancel is a prefix.** It is an observed-remove (Shapiro et al. 2011). In each slot that it sees
//!   alive it notes a [`Watermark`]: up to which clock it saw the slot, and the total there. A view is
//!   a causal cut, so everything below that clock was seen, and no tags for single adds are needed.
//!   The longer one of two watermarks stands for both.
//! - **A slot has lifetimes.** When its owner writes and nothing in the slot survives, the slot starts again
//!   from zero at a new `began`. Watermarks below `began` are void. So a deleted key can be used again at
//!   once, and watermarks do not pile up.
//! - **Concurrent assignments.** If several sets and resets survive, one counts: a set before a reset,
//!   then the greater clock, then the greater writer id ([`RankedAssignment`]). This order never changes.
//! - **A retired writer is a child** of its successor's slot. Its amount was added to the successor's total. A
//!   read adds what the child comes to by now, less that amount. A watermark that reaches the retirement
//!   covers the amount and makes the child void. So retirement changes no value.
//! - **A withdrawal takes one add out** that counts under another writer too. Totals stay as they are, and so
//!   do the watermarks that note them. A read subtracts the withdrawn amount where no watermark reaches it.
//!   [The log of idempotency keys](crate::idempotency#withdrawal) says why that is exact.
//! - **An expiry hides what its issuer saw**, while it is in force. Each slot has a [`Reach`]: the longer one of
//!   its watermark and of the expiries in force. Reads go by that. Whatever drops or replaces a record, or
//!   begins a lifetime, goes by watermarks alone, because an expiry may still turn out to be void.
//!
//! [`normalize`] drops records that can mean nothing any more, whatever arrives later. It needs no agreement.
//! Records that may still matter to somebody wait until they are
//! [stable](crate::membership::stability#collection).

use crate::bounds::{EXPIRED_MAX, EXPIRED_SLOTS_MAX};
use crate::optional::{GUESTS, Optional};
use crate::sort::sort_by;
use crate::state::ends::drop_earlier;
pub(crate) use crate::state::ends::{floor, is_open, judged};
use crate::state::page::{OWN, Row};
use crate::state::slot::{
    Assignment, Expired, Expiry, Extra, Lift, Moved, NEVER, RankedAssignment, Side, Slot, Stamp,
    Upto, WIDE_MAX, Watermark, Withdrawal,
};
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The sum of one slot or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    /// The adds that survive.
    pub(crate) amount: i128,
    /// Whether any add survives, be it of 0.
    pub(crate) adds: bool,
    /// The greatest assignment that survives.
    pub(crate) assignment: Option<RankedAssignment>,
    /// The longest expiry that survives.
    pub(crate) until: Option<u64>,
}

impl Sum {
    fn take(&mut self, other: &Sum) {
        self.amount += other.amount;
        self.adds |= other.adds;
        self.assignment = self.assignment.max(other.assignment);
        self.until = self.until.max(other.until);
    }

    /// Whether it makes the counter exist.
    pub(crate) fn exists(&self) -> bool {
        self.adds || self.assignment.is_some()
    }

    /// Whether a cancel has anything to cancel.
    pub(crate) fn is_alive(&self) -> bool {
        self.exists() || self.until.is_some()
    }

    pub(crate) fn value(&self) -> Option<i128> {
        let assignment = self
            .assignment
            .map_or(0, |assignment| i128::from(assignment.value));
        self.exists().then_some(self.amount + assignment)
    }

    /// When the counter expires, in milliseconds since 1970. `None` if it does not.
    pub(crate) fn expiry(&self) -> Option<u64> {
        self.until.filter(|until| self.exists() && *until != NEVER)
    }
}

/// Where the slot of a writer is.
pub(crate) fn find(slots: &[Slot], writer: u32) -> Result<usize, usize> {
    slots.binary_search_by_key(&writer, Slot::writer)
}

/// The clock up to which a slot is cancelled, and its total there. Both are 0 if it is not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reach {
    pub(crate) clock: u64,
    pub(crate) total: i128,
}

/// How far a slot's watermark cancels it.
fn certain_reach(slot: &Slot) -> Reach {
    slot.valid_watermark().map_or(Reach::default(), |it| Reach {
        clock: it.clock,
        total: it.total,
    })
}

/// How far each slot is cancelled by watermarks, or by expiries in force.
fn reaches(slots: &[Slot], ids: &[WriterId]) -> Vec<Reach> {
    let mut reaches: Vec<Reach> = slots.iter().map(certain_reach).collect();
    for (_, expired, _) in judged(slots, ids).iter().filter(|it| it.2) {
        for it in &expired.upto {
            if let Ok(at) = find(slots, it.writer)
                && it.clock >= slots[at].began()
                && it.clock > reaches[at].clock
            {
                let Upto { clock, total, .. } = *it;
                reaches[at] = Reach { clock, total };
            }
        }
    }
    reaches
}

/// Returns the sum of each slot, its children included, as a read shows it.
pub(crate) fn sums(slots: &[Slot], ids: &[WriterId]) -> Vec<Sum> {
    match is_open(slots) {
        true => sums_to(slots, ids, Some(&reaches(slots, ids))),
        false => certain_sums(slots, ids),
    }
}

/// Returns the sum of each slot, its children included, as if no expiry were in force.
pub(crate) fn certain_sums(slots: &[Slot], ids: &[WriterId]) -> Vec<Sum> {
    sums_to(slots, ids, None)
}

/// Returns the sum of each slot, its children included, where the slots are cancelled so far. Without `reaches`,
/// these are their watermarks.
fn sums_to(slots: &[Slot], ids: &[WriterId], reaches: Option<&[Reach]>) -> Vec<Sum> {
    let reach = |at: usize| Some(&reaches?[at]);
    let mut sums = crate::list(slots.len());
    for (at, slot) in slots.iter().enumerate() {
        sums.push(alone(slot, ids, reach(at)));
    }
    if !GUESTS {
        return sums;
    }
    let parents: Vec<Option<usize>> = slots.iter().map(|slot| parent(slots, slot)).collect();
    let mut children = alloc::vec![0u32; slots.len()];
    for parent in parents.iter().flatten() {
        children[*parent] += 1;
    }
    // A slot that waits for no child can be added to its parent. No correct writer makes a circle. Slots in a
    // circle wait for ever and count for nothing.
    let mut ready: Vec<usize> = (0..slots.len()).filter(|at| children[*at] == 0).collect();
    while let Some(at) = ready.pop() {
        let (Some(up), Some(moved)) = (parents[at], &*slots[at].side.moved) else {
            continue;
        };
        let upto = reach(up).map_or(slots[up].watermark_clock(), |it| it.clock);
        let parent = (&slots[up], upto);
        if let Some(child) = as_child(parent, moved.to.clock, sums[at], moved.amount) {
            sums[up].take(&child);
        }
        children[up] -= 1;
        if children[up] == 0 {
            ready.push(up);
        }
    }
    sums
}

/// Returns the sum of all slots together.
pub(crate) fn sum(slots: &[Slot], ids: &[WriterId]) -> Sum {
    let mut total = Sum::default();
    if !GUESTS {
        for slot in slots {
            total.take(&alone(slot, ids, None));
        }
        return total;
    }
    for (slot, sum) in slots.iter().zip(&sums(slots, ids)) {
        if slot.side.moved.is_none() {
            total.take(sum);
        }
    }
    if is_open(slots) && !total.exists() {
        // An add would take these expiries away.
        let hidden = certain_sums(slots, ids);
        total.until = hidden.iter().filter_map(|sum| sum.until).max();
    }
    total
}

/// Returns the place of the slot that has a retired writer's slot as a child.
fn parent(slots: &[Slot], slot: &Slot) -> Option<usize> {
    let moved = slot.side.moved.as_ref()?;
    find(slots, moved.to.writer).ok()
}

/// Returns the sum that a child adds to its parent, which is cancelled up to a clock. The child was retired at
/// `clock`, the parent's clock. Returns `None` if the child is void.
fn as_child((parent, upto): (&Slot, u64), clock: u64, sum: Sum, moved: i128) -> Option<Sum> {
    let live = clock >= parent.began() && clock > upto;
    live.then(|| Sum {
        amount: sum.amount - moved,
        until: sum.until.filter(|_| clock > parent.lift_clock()),
        ..sum
    })
}

/// Returns the sum of a slot without its children, where the slot is cancelled so far. Without a `reach`, this is
/// its watermark.
fn alone(slot: &Slot, ids: &[WriterId], reach: Option<&Reach>) -> Sum {
    let extra = slot.extra();
    let reach = match reach {
        Some(reach) if GUESTS => *reach,
        _ => certain_reach(slot),
    };
    let watermark = reach.clock;
    let lifted = watermark.max(slot.lift_clock());
    let assignment = extra
        .assignment
        .filter(|_| watermark == 0)
        .map(|assignment| RankedAssignment {
            set: matches!(assignment, Assignment::Set(_)),
            clock: extra.began,
            writer: ids[slot.writer() as usize],
            value: assignment.value(),
        });
    let mut sum = Sum {
        amount: slot.total() - reach.total,
        adds: slot.last_add() > watermark,
        assignment,
        until: extra.expiry.filter(|e| e.clock > lifted).map(|e| e.until),
    };
    sum.amount -= slot.withdrawn(watermark);
    if let Some(fold) = slot.side.fold.as_ref() {
        let folded = Sum {
            amount: fold.amount,
            adds: fold.adds,
            assignment: fold.assignment,
            until: fold.until,
        };
        if let Some(folded) = as_child((slot, watermark), fold.clock, folded, 0) {
            sum.take(&folded);
        }
    }
    sum
}

/// A local transaction that is being made, with its clock.
#[derive(Clone, Copy)]
pub(crate) struct Act<'a> {
    pub(crate) clock: u64,
    pub(crate) ids: &'a [WriterId],
    /// Whether this replica may have dropped a slot of this writer that another replica still stores. If so,
    /// a new slot has to say that it begins a lifetime.
    pub(crate) reuses: bool,
}

impl Act<'_> {
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp {
            writer: OWN,
            clock: self.clock,
        }
    }

    /// Begins a new, empty lifetime of the own slot, and returns the slot.
    fn begin<'s>(&self, slots: &'s mut Vec<Slot>) -> &'s mut Slot {
        let found = find(slots, OWN);
        let again = found.is_ok() || self.reuses;
        let at = found.unwrap_or_else(|at| {
            let row = Row { clock: 0, total: 0 };
            let side = Side::new(OWN);
            slots.insert(at, Slot { row, side });
            at
        });
        let slot = &mut slots[at];
        let mut side = Side::new(OWN);
        core::mem::swap(&mut side.expired, &mut slot.side.expired);
        slot.side = side;
        let extra = Extra {
            began: if again { self.clock } else { 0 },
            ..Extra::default()
        };
        slot.set_shard(self.clock, 0, extra);
        slot
    }

    /// Adds `by` to the own slot.
    ///
    /// # Errors
    /// On overflow it returns the slot's present amount, and changes nothing.
    pub(crate) fn add(&self, slots: &mut Vec<Slot>, by: i64) -> Result<(), i128> {
        let sums = certain_sums(slots, self.ids);
        let exists = match is_open(slots) {
            true => sum(slots, self.ids).exists(),
            false => {
                (slots.iter().zip(&sums)).any(|(it, sum)| it.side.moved.is_none() && sum.exists())
            }
        };
        let own = find(slots, OWN);
        let sum = own.map_or(Sum::default(), |at| sums[at]);
        let goes_on = sum.exists() || exists && sum.until.is_some();
        if !goes_on {
            self.begin_lifetime(slots, &sums, exists);
            let slot = self.begin(slots);
            let extra = Extra {
                added: self.clock,
                ..slot.extra()
            };
            slot.set_shard(self.clock, i128::from(by), extra);
            return Ok(());
        }
        let Ok(at) = own else { return Ok(()) }; // It is here, because it goes on.
        let slot = &slots[at];
        let extra = slot.extra();
        let total = slot.total() + i128::from(by);
        let left = sum.amount + i128::from(by);
        let fits = i64::try_from(left).is_ok() || extra.absorbed && left.abs() < WIDE_MAX;
        if !fits || total.abs() >= WIDE_MAX {
            return Err(sum.amount);
        }
        self.begin_lifetime(slots, &sums, exists);
        let slot = &mut slots[at];
        let extra = Extra {
            added: self.clock,
            ..slot.living_extra()
        };
        slot.set_shard(self.clock, total, extra);
        Ok(())
    }

    /// Lets an add begin a lifetime of a counter that does not exist. It does not inherit the expiries of
    /// earlier lifetimes.
    fn begin_lifetime(&self, slots: &mut [Slot], sums: &[Sum], exists: bool) {
        if !exists {
            self.spare(slots);
            self.lift(slots, sums);
        }
    }

    /// Ends an expired counter, or its own slot alone, by a record of its own. The counter expired at `until`.
    /// Returns the time of the end. It is 0, and nothing changes, if there is nothing to end, or if so much is
    /// undecided that only a delete is left.
    pub(crate) fn carry_out(&self, slots: &mut Vec<Slot>, until: u64, alone: bool) -> u64 {
        let sums = certain_sums(slots, self.ids);
        let id = |at: u32| self.ids[slots[at as usize].writer() as usize];
        let mut order: Vec<u32> = (0..slots.len() as u32).collect();
        sort_by(&mut order, &|a, b| id(a).cmp(&id(b)));
        let mut upto = Vec::new();
        let (mut open, mut named) = (0, 0);
        for at in order {
            let (slot, sum) = (&slots[at as usize], &sums[at as usize]);
            let named_by_it = !alone || slot.writer() == OWN;
            if named_by_it && slot.side.moved.is_none() && sum.is_alive() {
                upto.push(Upto {
                    writer: slot.writer(),
                    clock: slot.row.clock,
                    total: slot.total(),
                });
            }
            open += slot.side.expired.len();
            for it in slot.side.expired.iter() {
                named += it.upto.len();
            }
        }
        let is_full = open >= EXPIRED_MAX || named + upto.len() > EXPIRED_SLOTS_MAX;
        if is_full || upto.is_empty() {
            return 0;
        }
        let time = until.max(floor(slots, self.ids).saturating_add(1));
        let time = time.min(NEVER - 1);
        self.spare(slots);
        let own = find(slots, OWN).ok().filter(|at| sums[*at].is_alive());
        let slot = match own {
            Some(at) => &mut slots[at],
            // A dead slot may have been collected elsewhere, and would not carry the record there.
            None => self.begin(slots),
        };
        let expired = Expired {
            clock: self.clock,
            time,
            upto,
            spared: None,
        };
        slot.side.expired.update(|it| it.push(expired));
        time
    }

    /// Marks the expiries that this replica sees void, because what it does now relies on that.
    pub(crate) fn spare(&self, slots: &mut [Slot]) {
        if !is_open(slots) {
            return;
        }
        let mut void = Vec::new();
        for (by, it, holds) in judged(slots, self.ids) {
            if !holds && it.spared.is_none() {
                void.push(by);
            }
        }
        for slot in slots {
            let writer = slot.writer();
            slot.side.expired.update(|expired| {
                for it in expired {
                    let clock = it.clock;
                    if void.contains(&Stamp { writer, clock }) {
                        it.spared = Some(self.stamp());
                    }
                }
            });
        }
    }

    /// Adds the amount of a retired writer's slot to the own slot. Returns false if the total would not fit.
    pub(crate) fn take_over(&self, slots: &mut Vec<Slot>, amount: i128) -> bool {
        let alive = find(slots, OWN).is_ok_and(|at| certain_sums(slots, self.ids)[at].is_alive());
        let slot = match find(slots, OWN) {
            Ok(at) if alive => &mut slots[at],
            _ => self.begin(slots),
        };
        let extra = Extra {
            absorbed: true,
            ..slot.living_extra()
        };
        let total = slot.total() + amount;
        if total.abs() >= WIDE_MAX {
            return false;
        }
        slot.set_shard(self.clock, total, extra);
        true
    }

    /// Retires writers: moves the amounts of their slots into the own slot. `taken` has the writers,
    /// ascending, each with its amount. If nothing of a slot survives, its amount is `None`, and the slot
    /// goes.
    ///
    /// The sum of the amounts fits the own total.
    pub(crate) fn retire(&self, slots: &mut Vec<Slot>, taken: &[(u32, Option<i128>)]) {
        let amount = |writer: u32| {
            let at = taken.binary_search_by_key(&writer, |it| it.0).ok()?;
            Some(taken[at].1)
        };
        slots.retain(|slot| amount(slot.writer()) != Some(None));
        let alive: Vec<i128> = taken.iter().filter_map(|it| it.1).collect();
        if !alive.is_empty() {
            let fits = self.take_over(slots, alive.iter().sum());
            debug_assert!(fits, "it was judged before");
        }
        let to = self.stamp();
        for slot in slots.iter_mut() {
            if let Some(amount) = amount(slot.writer()).flatten() {
                slot.side.moved.set(Some(Box::new(Moved { to, amount })));
            }
        }
        normalize(slots);
    }

    /// Cancels each slot that is alive, and leaves `assignment` if there is one.
    pub(crate) fn cancel(&self, slots: &mut Vec<Slot>, assignment: Option<Assignment>) {
        let sums = certain_sums(slots, self.ids);
        for (slot, sum) in slots.iter_mut().zip(&sums) {
            if slot.writer() != OWN && slot.side.moved.is_none() && sum.is_alive() {
                slot.side.watermark = Some(Watermark {
                    clock: slot.row.clock,
                    total: slot.total(),
                    by: self.stamp(),
                });
            }
        }
        let own = find(slots, OWN);
        self.cancel_own(slots, assignment, own.is_ok_and(|at| sums[at].is_alive()));
    }

    /// Cancels the own slot, if it is alive, and leaves `assignment` if there is one.
    pub(crate) fn cancel_own(
        &self,
        slots: &mut Vec<Slot>,
        assignment: Option<Assignment>,
        own_alive: bool,
    ) {
        if own_alive || assignment.is_some() {
            let slot = self.begin(slots);
            let began = self.clock;
            slot.set_shard(
                self.clock,
                0,
                Extra {
                    began,
                    assignment,
                    ..Extra::default()
                },
            );
        }
    }

    /// Replaces the expiries that this replica sees. The counter exists.
    pub(crate) fn expire(&self, slots: &mut Vec<Slot>, until: u64) {
        let sums = certain_sums(slots, self.ids);
        let floor = floor(slots, self.ids);
        self.spare(slots);
        self.lift(slots, &sums);
        let own = find(slots, OWN).ok().filter(|at| sums[*at].is_alive());
        let slot = match own {
            Some(at) => &mut slots[at],
            None => self.begin(slots),
        };
        let clock = self.clock;
        let mut refresh = Expiry::new(clock, until);
        refresh.floor.set(floor);
        let expiry = Some(refresh);
        slot.set_shard(
            clock,
            slot.total(),
            Extra {
                expiry,
                ..slot.extra()
            },
        );
    }

    /// Removes the expiries that this replica sees.
    fn lift(&self, slots: &mut [Slot], sums: &[Sum]) {
        for (slot, sum) in slots.iter_mut().zip(sums) {
            if slot.side.moved.is_none() && sum.until.is_some() {
                let clock = match slot.writer() {
                    // An expiry of this very transaction stays.
                    OWN => slot.row.clock.min(self.clock - 1),
                    _ => slot.row.clock,
                };
                slot.side.lift = Some(Box::new(Lift {
                    clock,
                    by: self.stamp(),
                }));
            }
        }
    }
}

/// Drops records that can mean nothing any more, whatever arrives later. These are void children, watermarks
/// of earlier lifetimes, cancelled folds and withdrawals, and lifts that lift nothing.
pub(crate) fn normalize(slots: &mut Vec<Slot>) {
    let mut children = Vec::new();
    if GUESTS {
        drop_void(slots);
        let to = |slot: &Slot| Some(slot.side.moved.as_ref()?.to);
        let kept = slots.iter().filter(|slot| !is_void(slots, slot));
        children = kept.filter_map(to).collect();
        drop_earlier(slots);
    }
    for slot in slots {
        let (began, watermark) = (slot.began(), slot.watermark_clock());
        let expiry = slot.extra().expiry;
        let side = &mut slot.side;
        if watermark == 0 {
            side.watermark = None;
        }
        side.fold.update(|it| {
            it.take_if(|fold| fold.clock < began || fold.clock <= watermark);
        });
        let is_valid = |it: &Withdrawal| it.clock >= began && it.clock > watermark;
        side.withdrawals.update(|it| it.retain(is_valid));
        let writer = side.writer;
        let fold = side.fold.as_ref().filter(|fold| fold.until.is_some());
        let fold = fold.map(|fold| fold.clock);
        side.lift.take_if(|lift| {
            let lifts = |clock: u64| clock <= lift.clock;
            let child = |to: &Stamp| to.writer == writer && lifts(to.clock);
            !expiry.is_some_and(|it| lifts(it.clock))
                && !fold.is_some_and(lifts)
                && !children.iter().any(child)
        });
    }
}

/// Whether a slot is a child that counts for nothing: it has no parent, or the parent began a new lifetime or was
/// cancelled since the retirement.
fn is_void(slots: &[Slot], slot: &Slot) -> bool {
    match (&*slot.side.moved, parent(slots, slot)) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(moved), Some(up)) => {
            let clock = moved.to.clock;
            clock < slots[up].began() || clock <= slots[up].watermark_clock()
        }
    }
}

/// Drops each [void](is_void) child. One with the record of an end stays until that is decided, and is cancelled
/// as a whole: the clock at which its parent's lifetime began may be collected elsewhere before that, and the
/// child would seem to count again.
fn drop_void(slots: &mut Vec<Slot>) {
    loop {
        let void: Vec<bool> = slots.iter().map(|slot| is_void(slots, slot)).collect();
        let (mut void, mut done) = (void.into_iter(), true);
        slots.retain_mut(|slot| {
            let void = void.next() == Some(true);
            let changes = void && (slot.side.expired.is_empty() || cancel_child(slot));
            done &= !changes;
            !void || !slot.side.expired.is_empty()
        });
        if done {
            break;
        }
    }
}

/// Cancels a child, and the amount that its parent took over from it. Returns false if it was cancelled before.
fn cancel_child(slot: &mut Slot) -> bool {
    let (clock, total) = (slot.row.clock, slot.total());
    let cancels = slot.watermark_clock() < clock;
    if let Some(moved) = slot.side.moved.get_mut().and_then(Option::as_mut) {
        moved.amount = 0;
        if cancels {
            let by = moved.to;
            slot.side.watermark = Some(Watermark { clock, total, by });
        }
    }
    cancels
}

#[cfg(test)]
mod tests;

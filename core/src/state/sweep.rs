//! The sweep of one counter: which slots go, and what is left of them. The table in
//! [stability](crate::membership::stability#collection) has each case.
//!
//! The layers above say which stamps are *stable*: everybody who counts has them, and all that was made
//! without them is here. This file says what is not needed then. All replicas sweep alike, so they come to
//! equal slots, each in its own time. Nothing of a counter is swept beside an expiry that is not decided.

use crate::optional::Optional;
use crate::state::counter;
use crate::state::slot::{Fold, Slot, Stamp, WIDE_MAX, Withdrawal};
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Collects the stable parts of one counter. Returns whether there were any, and whether anything waits.
pub(crate) fn sweep(
    slots: &mut Vec<Slot>,
    ids: &[WriterId],
    stable: &dyn Fn(Stamp) -> bool,
    waits: &mut bool,
) -> bool {
    let mut changed = false;
    if counter::is_open(slots) {
        *waits = true;
        return false;
    }
    loop {
        let sums = counter::sums(slots, ids);
        let successors = first_children(slots);
        let are_sides_stable = |slot: &Slot| {
            slot.side
                .watermark
                .is_none_or(|watermark| stable(watermark.by))
                && slot.side.lift.as_ref().is_none_or(|lift| stable(lift.by))
                && slot.side.withdrawals.iter().all(|it| stable(it.by))
        };
        let mut done = true;
        for at in 0..slots.len() {
            let slot = &slots[at];
            if successors
                .iter()
                .any(|successor| successor.writer == slot.writer())
            {
                continue; // its children first
            }
            let stamp = Stamp {
                writer: slot.writer(),
                clock: slot.row.clock,
            };
            let collected = match &*slot.side.moved {
                // Slots fold in order, and only once the cancel of their expiry is stable, so that all
                // replicas fold alike.
                Some(moved) => {
                    let up = counter::find(slots, moved.to.writer);
                    let lift = up.ok().and_then(|up| slots[up].side.lift.as_ref());
                    let is_known = lift.is_none_or(|lift| stable(lift.by));
                    is_known
                        && successors.contains(&moved.to)
                        && stable(moved.to)
                        && are_sides_stable(slot)
                }
                None => !sums[at].is_alive() && stable(stamp) && are_sides_stable(slot),
            };
            if collected {
                let child = slots.remove(at);
                if let Some(moved) = &*child.side.moved
                    && let Ok(up) = counter::find(slots, moved.to.writer)
                {
                    fold(&mut slots[up], moved.to.clock, &sums[at], moved.amount);
                }
                done = false;
                break;
            }
            *waits |= slot.side.moved.is_some() || !sums[at].is_alive();
        }
        if done {
            break;
        }
        changed = true;
        *waits = false;
    }
    let successors = first_children(slots);
    for slot in slots {
        let has_children = successors
            .iter()
            .any(|successor| successor.writer == slot.writer());
        changed |= sweep_slot(slot, has_children, stable, waits);
    }
    changed
}

/// The slots that have children, each with the clock of the first of these.
fn first_children(slots: &[Slot]) -> Vec<Stamp> {
    let mut first: Vec<Stamp> = Vec::new();
    for moved in slots.iter().filter_map(|slot| slot.side.moved.as_ref()) {
        match first.iter_mut().find(|it| it.writer == moved.to.writer) {
            Some(it) => it.clock = moved.to.clock.min(it.clock),
            None => first.push(moved.to),
        }
    }
    first
}

/// Folds the amount of a child into its parent.
pub(crate) fn fold(parent: &mut Slot, clock: u64, sum: &counter::Sum, moved: i128) {
    let lift = parent.lift_clock();
    let mut fold = Fold {
        clock,
        amount: sum.amount - moved,
        adds: sum.adds,
        assignment: sum.assignment,
        until: sum.until,
    };
    if fold.is_empty() {
        return;
    }
    // A cancelled one counts for the clock, because other replicas may have folded it before.
    fold.until.take_if(|_| clock <= lift);
    if let Some(old) = &*parent.side.fold {
        fold.clock = fold.clock.max(old.clock);
        fold.amount += old.amount;
        fold.adds |= old.adds;
        fold.assignment = fold.assignment.max(old.assignment);
        fold.until = fold.until.max(old.until.filter(|_| old.clock > lift));
    }
    let fold = Some(Box::new(fold)).filter(|fold| !fold.is_empty());
    parent.side.fold.set(fold);
}

/// Removes the parts of a slot that are stable and not needed: the begin of its lifetime, its assignment,
/// cancelled expiries, and lifts. Withdrawals are joined into one.
fn sweep_slot(
    slot: &mut Slot,
    has_children: bool,
    stable: &dyn Fn(Stamp) -> bool,
    waits: &mut bool,
) -> bool {
    let before = slot.clone();
    let own = |clock| Stamp {
        writer: slot.writer(),
        clock,
    };
    let mut extra = slot.extra();
    if let Some(expiry) = extra.expiry {
        // A live expiry may still be needed where it beats others.
        let dead = expiry.clock <= slot.watermark_clock().max(slot.lift_clock());
        let lifted = slot.side.lift.as_ref().is_none_or(|lift| stable(lift.by));
        // The expiry keeps its floor. A replica that makes an end again names its own slot alone in it, so the end
        // does not show which refreshes that replica had seen.
        if dead && lifted && stable(own(expiry.clock)) {
            extra.expiry = None;
        } else {
            *waits |= dead;
        }
    }
    if extra.assignment.is_some()
        && let Some(watermark) = slot.valid_watermark()
    {
        match stable(watermark.by) {
            true => extra.assignment = None,
            false => *waits = true,
        }
    }
    if extra.began > 0 && extra.assignment.is_none() {
        match stable(own(extra.began)) {
            true => extra.began = 0,
            false => *waits = true,
        }
    }
    let (clock, total) = (slot.row.clock, slot.total());
    slot.set_shard(clock, total, extra);
    let writer = slot.writer();
    let withdrawals = &mut slot.side.withdrawals;
    let joined = withdrawals.update(|it| join_withdrawals(it, writer, stable));
    *waits |= joined == Some(false);
    if let Some(lift) = &slot.side.lift {
        if has_children || !stable(lift.by) {
            *waits = true;
        } else {
            // The expiry that it cancels is gone, or goes now.
            let clock = lift.clock;
            slot.side.fold.update(|it| {
                if let Some(fold) = it.as_mut().filter(|fold| fold.clock <= clock) {
                    fold.until = None;
                }
                it.take_if(|fold| fold.is_empty());
            });
            if slot
                .extra()
                .expiry
                .is_none_or(|expiry| expiry.clock > clock)
            {
                slot.side.lift = None;
            }
        }
    }
    *slot != before
}

/// Joins stable withdrawals into one: from now on a cancel of one of them cancels all. Returns false if some
/// are not stable yet. Withdrawals whose sum fits no message stay apart. The slot's transactions up to there
/// must be stable, too. So all members know them with their keys, and can tell a later withdrawal from these.
fn join_withdrawals(
    withdrawals: &mut Vec<Withdrawal>,
    writer: u32,
    stable: &dyn Fn(Stamp) -> bool,
) -> bool {
    let [.., _, Withdrawal { clock, .. }] = withdrawals[..] else {
        return true;
    };
    if !stable(Stamp { writer, clock }) || !withdrawals.iter().all(|it| stable(it.by)) {
        return false;
    }
    let sum: i128 = withdrawals.iter().map(|it| it.amount).sum();
    if sum.abs() >= WIDE_MAX {
        return true;
    }
    let mut joined = withdrawals.remove(withdrawals.len() - 1);
    (joined.several, joined.amount) = (true, sum);
    for it in withdrawals.drain(..).rev() {
        if joined.before == it.clock {
            joined.before = it.before;
        }
    }
    withdrawals.push(joined);
    true
}

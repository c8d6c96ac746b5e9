//! The ends of an expired counter among its slots: which of them are in force here. [The rule](crate::expired) is
//! in a file of its own.

use super::counter::find;
use super::slot::{Expired, Expiry, Slot, Stamp};
use crate::expired::{Ended, Refresh, in_force};
use crate::optional::{GUESTS, Optional};
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// Returns the expiries of a counter that are not decided. Each has its stamp, and whether it is in force.
pub(crate) fn judged<'s>(slots: &'s [Slot], ids: &[WriterId]) -> Vec<(Stamp, &'s Expired, bool)> {
    let (mut all, mut ended) = (Vec::new(), Vec::new());
    let (mut lasting, mut refreshes) = (Vec::new(), Vec::new());
    if !is_open(slots) {
        return all;
    }
    for slot in slots {
        let writer = slot.writer();
        for it in slot.side.expired.iter() {
            let clock = it.clock;
            ended.push(Ended {
                time: it.time,
                clock,
                issuer: ids[writer as usize],
                spared: it.spared.is_some(),
            });
            all.push((Stamp { writer, clock }, it, false));
        }
        if let Some(it) = self::lasting(slots, slot) {
            lasting.push((slot, it.clock));
            let (until, floor) = (it.until, *it.floor);
            refreshes.push(Refresh { until, floor });
        }
    }
    let saw = |at: usize, nth: usize| {
        let (slot, clock) = lasting[nth];
        saw(slots, all[at].1, slot, clock)
    };
    for (at, holds) in in_force(&ended, &refreshes, &saw).into_iter().enumerate() {
        all[at].2 = holds;
    }
    all
}

/// The expiry of a slot, unless a cancel or a later refresh took it away.
fn lasting(slots: &[Slot], slot: &Slot) -> Option<Expiry> {
    let expiry = slot.extra().expiry?;
    let (mut at, mut clock) = (slot, expiry.clock);
    for _ in slots {
        if clock < at.began() || clock <= at.watermark_clock().max(at.lift_clock()) {
            return None;
        }
        let Some(moved) = &*at.side.moved else {
            return Some(expiry);
        };
        at = &slots[find(slots, moved.to.writer).ok()?];
        clock = moved.to.clock;
    }
    None
}

/// Whether the issuer of an expiry had seen a slot's transaction of this clock, or the retirement of its writer.
fn saw(slots: &[Slot], expired: &Expired, slot: &Slot, clock: u64) -> bool {
    let (mut at, mut clock) = (slot, clock);
    for _ in slots {
        if clock <= expired.upto(at.writer()) {
            return true;
        }
        let Some(moved) = &*at.side.moved else {
            return false;
        };
        let Ok(up) = find(slots, moved.to.writer) else {
            return false;
        };
        (at, clock) = (&slots[up], moved.to.clock);
    }
    false
}

/// Whether an expiry of the counter is not decided. Until then nothing of the counter is dropped.
pub(crate) fn is_open(slots: &[Slot]) -> bool {
    GUESTS && slots.iter().any(|slot| !slot.side.expired.is_empty())
}

/// Returns the greatest time of an expiry in force that is not decided, 0 for none.
pub(crate) fn floor(slots: &[Slot], ids: &[WriterId]) -> u64 {
    let mut floor = 0;
    if is_open(slots) {
        for (_, it, holds) in judged(slots, ids) {
            floor = if holds { it.time.max(floor) } else { floor };
        }
    }
    floor
}

/// Drops from ends what they say of earlier lifetimes of slots. The clock at which a lifetime began may be
/// collected elsewhere while an end is not decided here, and these would then seem to be of this lifetime.
pub(super) fn drop_earlier(slots: &mut [Slot]) {
    if !is_open(slots) {
        return;
    }
    let began: Vec<(u32, u64)> = slots.iter().map(|it| (it.writer(), it.began())).collect();
    let began = |writer: u32| crate::sheet::of(&began, writer);
    for slot in slots {
        slot.side.expired.update(|expired| {
            for it in expired {
                it.upto.retain(|it| it.clock >= began(it.writer));
            }
        });
    }
}

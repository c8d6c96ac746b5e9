//! Decisions on expiries that were carried out: when their records go, and what stays of them.
//!
//! Whether such an expiry is in force depends on refreshes that may still be unknown here:
//! [`expired`](crate::expired) has the rule. It is final after two rounds of acknowledgements, by causal
//! stability (Baquero, Almeida, Shoker 2014):
//! 1. All expiries of the counter are [stable](crate::membership::stability). The replica notes its version
//!    vector.
//! 2. The vector is stable, too, and no other expiry of the counter has arrived. So each transaction that is
//!    unknown here was made by a writer that had seen all of that vector, and with it each refresh that can
//!    make one of these expiries void.
//!
//! Then a member decides, by a transaction of its own. An expiry in force becomes watermarks, and its record
//! goes. An expiry that is void gets a mark. Its record goes once a mark is stable, and needs no
//! rounds. The transaction is needed, because others may not have decided: watermarks of the earlier stamp
//! could be collected before they do.
//!
//! A replica that is no member drops the records of a counter after the first round, once watermarks cover all
//! that they would cancel, in force or void. It needs no second round, because it decides nothing: from the first round on, each end that is
//! unknown here has a greater time, so it does not depend on these. In an open space nothing is ever stable, so
//! no such record is made there.

use super::{Mark, MembersMut, Replica};
use crate::error::Error;
use crate::layers::{GUESTS, Optional};
use crate::membership::stability::Quorum;
use crate::state::counter;
use crate::state::keys::KeyId;
use crate::state::page::OWN;
use crate::state::slot::{Expired, Slot, Stamp, Upto, Watermark};
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The expiries of one counter: their writers and clocks.
type Dots = Vec<(WriterId, u64)>;

/// The counters whose expiries were all stable at one time, with the version vector then. There is one such
/// round at a time, and further counters wait for the next one.
#[derive(Clone, Debug, Default)]
pub(super) struct Deciding {
    held: VersionVector,
    counters: BTreeMap<KeyId, Dots>,
}

/// The transactions that all who count have acknowledged, and those that the store has.
struct Seen {
    quorum: Quorum,
    /// By local number.
    stored: Vec<u64>,
}

/// A counter with undecided expiries, and how far they are.
enum Progress {
    /// Some expiry is not stable yet.
    Unstable,
    /// All expiries are stable, and the counter waits for a round.
    Stable(Dots),
    /// The counter is in the present round.
    InRound,
}

impl MembersMut<'_> {
    /// Decides on expiries that were carried out, and drops their records, as far as that is final. Returns
    /// whether anything changed.
    ///
    /// A decision is a transaction of a member. Another replica only drops records. Nothing counts as stable
    /// that is newer than `stored`, the mark of the store's last write. Dropping makes snapshots in parts void,
    /// so no scan may span it.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted).
    pub fn decide_expiries(&mut self, stored: &Mark) -> Result<bool, Error> {
        match GUESTS && self.replica.membership.configuration().is_some() {
            true => self.replica.decide_expiries(stored),
            false => Ok(false),
        }
    }
}

impl Replica {
    fn decide_expiries(&mut self, stored: &Mark) -> Result<bool, Error> {
        let open = self.state.open_counters();
        if open.is_empty() {
            self.deciding = Deciding::default();
            return Ok(false);
        }
        let quorum = self.membership.quorum(&self.state);
        self.membership.raise_stable(&self.state, &quorum);
        let seen = Seen {
            stored: self.state.lows(&stored.state),
            quorum,
        };
        let mut next = BTreeMap::new();
        let mut present = BTreeMap::new();
        for key_id in &open {
            match self.progress(*key_id, &seen) {
                Progress::Unstable => {}
                Progress::Stable(dots) => {
                    next.insert(*key_id, dots);
                }
                Progress::InRound => {
                    let dots = self.deciding.counters.remove(key_id);
                    present.extend(dots.map(|dots| (*key_id, dots)));
                }
            }
        }
        self.deciding.counters = present;
        let due = match self.is_round_over(&seen) {
            _ if !self.membership.is_member() => core::mem::take(&mut next),
            true => core::mem::take(&mut self.deciding.counters),
            false => BTreeMap::new(),
        };
        let changed = self.conclude_expiries(&open, &due, &seen)?;
        if self.deciding.counters.is_empty() && !next.is_empty() {
            self.deciding = Deciding {
                held: self.state.vector(),
                counters: next,
            };
        }
        Ok(changed)
    }

    /// Whether a transaction is stable and stored.
    fn is_final(&self, seen: &Seen, by: Stamp) -> bool {
        let stored = seen.stored.get(by.writer as usize);
        stored.is_some_and(|stored| by.clock <= *stored)
            && self.membership.is_stable(&seen.quorum, by)
    }

    /// How far the expiries of a counter are.
    fn progress(&self, key_id: KeyId, seen: &Seen) -> Progress {
        let slots = self.state.slots(key_id);
        let judged = counter::judged(&slots, self.state.ids());
        if !judged.iter().all(|it| self.is_final(seen, it.0)) {
            return Progress::Unstable;
        }
        let dots = judged
            .iter()
            .map(|it| (self.state.id(it.0.writer), it.0.clock));
        let dots: Dots = dots.collect();
        match self.deciding.counters.get(&key_id) == Some(&dots) {
            true => Progress::InRound,
            false => Progress::Stable(dots),
        }
    }

    /// Whether everything is stable that was here when the round began.
    fn is_round_over(&self, seen: &Seen) -> bool {
        let mut held = self.deciding.held.iter();
        held.all(|(writer, clock)| match self.state.number_of(&writer) {
            Some(writer) => self.is_final(seen, Stamp { writer, clock }),
            // It was retired, and all have seen that.
            None => true,
        })
    }

    /// Decides on the counters that are `due`, and drops what is not needed of all counters.
    fn conclude_expiries(
        &mut self,
        open: &[KeyId],
        due: &BTreeMap<KeyId, Dots>,
        seen: &Seen,
    ) -> Result<bool, Error> {
        let clock = self.membership.next_clock(&self.state)?;
        let by = Stamp { writer: OWN, clock };
        let decides = self.membership.is_member();
        let (mut made, mut dropped) = (false, false);
        for key_id in open {
            let before = self.state.slots(*key_id);
            let mut slots = before.clone();
            let mut writes = false;
            if due.contains_key(key_id) {
                match decides {
                    true => writes = decide(&mut slots, self.state.ids(), by),
                    false => drop_covered(&mut slots),
                }
            }
            for slot in &mut slots {
                slot.side.expired.update(|it| {
                    it.retain(|it| {
                        let mark = it.spared.filter(|mark| *mark != by);
                        !mark.is_some_and(|mark| self.is_final(seen, mark))
                    });
                });
            }
            if slots != before {
                made |= writes;
                dropped = true;
                counter::normalize(&mut slots);
                self.state.put_slots(*key_id, slots);
            }
        }
        if made {
            self.membership.made(&mut self.state, clock);
        }
        if dropped {
            self.state.note_collected();
            self.membership.note_collected(&self.state, &seen.quorum);
        }
        Ok(dropped)
    }
}

#[cfg(feature = "explore")]
impl Replica {
    /// The round of decisions as text.
    pub(super) fn deciding_text(&self) -> alloc::string::String {
        let names = self.deciding.counters.iter();
        let names = names.map(|(key_id, dots)| (self.state.keys().get(*key_id), dots));
        let counters: BTreeMap<_, _> = names.collect();
        let held = Some(&self.deciding.held).filter(|_| !counters.is_empty());
        alloc::format!("{held:?} {counters:?}")
    }
}

/// Turns the expiries of a counter that are in force into watermarks, and drops their records. Marks those
/// that are void. Returns whether it wrote a mark or a watermark.
fn decide(slots: &mut [Slot], ids: &[WriterId], by: Stamp) -> bool {
    let mut writes = false;
    let judged = counter::judged(slots, ids).into_iter();
    let judged: Vec<_> = judged
        .map(|(of, it, holds)| (of, it.upto.clone(), holds))
        .collect();
    for (of, upto, holds) in judged {
        for it in upto.iter().filter(|_| holds) {
            let Ok(at) = counter::find(slots, it.writer) else {
                continue;
            };
            let slot = &mut slots[at];
            if it.clock >= slot.began() && it.clock > slot.watermark_clock() {
                slot.side.watermark = Some(Watermark {
                    clock: it.clock,
                    total: it.total,
                    by,
                });
                writes = true;
            }
        }
        let Ok(at) = counter::find(slots, of.writer) else {
            continue;
        };
        let expired = &mut slots[at].side.expired;
        if holds {
            expired.update(|it| it.retain(|it| it.clock != of.clock));
            continue;
        }
        for it in expired.get_mut().into_iter().flatten() {
            if it.clock == of.clock && it.spared.is_none() {
                it.spared = Some(by);
                writes = true;
            }
        }
    }
    writes
}

/// Drops the expiries of a counter if watermarks, or later lifetimes, cover all that they would cancel. Whether
/// they are in force makes no difference then.
fn drop_covered(slots: &mut [Slot]) {
    let counts = |it: &Upto| {
        let at = counter::find(slots, it.writer);
        at.is_ok_and(|at| {
            let slot = &slots[at];
            it.clock >= slot.began() && it.clock > slot.watermark_clock() && !is_void(slots, slot)
        })
    };
    let is_covered = |it: &Expired| !it.upto.iter().any(counts);
    if slots
        .iter()
        .all(|slot| slot.side.expired.iter().all(is_covered))
    {
        for slot in slots {
            slot.side.expired.take();
        }
    }
}

/// Whether a slot is a child that a watermark of its parent, or of the parent's parent, has reached. A replica
/// that decided before may have dropped it.
fn is_void(slots: &[Slot], slot: &Slot) -> bool {
    let mut slot = slot;
    for _ in slots {
        let Some(moved) = &*slot.side.moved else {
            return false;
        };
        let Ok(up) = counter::find(slots, moved.to.writer) else {
            return true;
        };
        slot = &slots[up];
        if moved.to.clock < slot.began() || moved.to.clock <= slot.watermark_clock() {
            return true;
        }
    }
    true
}

#[cfg(all(test, feature = "members"))]
mod tests;

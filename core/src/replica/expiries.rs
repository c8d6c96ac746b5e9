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
use crate::membership::stability::Quorum;
use crate::optional::{Empty, GUESTS, MEMBERS, Optional};
use crate::state::counter;
use crate::state::keys::KeyId;
use crate::state::page::{OWN, PAGE};
use crate::state::slot::{Slot, Stamp, Upto, Watermark};
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// A counter, and its expiries: their writers and clocks.
type Open = (KeyId, Vec<(WriterId, u64)>);

/// The counters whose expiries were all stable at one time, ascending, with the version vector then. There is
/// one such round at a time, and further counters wait for the next one.
#[derive(Clone, Debug)]
pub(super) struct Deciding {
    held: VersionVector,
    counters: Vec<Open>,
}

impl Empty for Deciding {
    const EMPTY: Deciding = Deciding {
        held: VersionVector::EMPTY,
        counters: Vec::new(),
    };
    const NOTHING: &'static Deciding = &Deciding::EMPTY;
}

/// The transactions that all who count have acknowledged, and those that the store has.
struct Seen {
    quorum: Quorum,
    /// By local number.
    stored: Vec<u64>,
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
    /// The counters that have an expiry which is not decided, ascending.
    fn open_counters(&self) -> Vec<KeyId> {
        let mut open = Vec::new();
        for (at, page) in self.state.pages().iter().enumerate() {
            let sides = page.odd.iter().flat_map(|odd| odd.iter());
            for (bit, _) in sides.filter(|(_, side)| !side.expired.is_empty()) {
                let key_id = KeyId((at * PAGE) as u32 + bit);
                open.extend(Some(key_id).filter(|it| open.last() != Some(it)));
            }
        }
        open
    }

    fn decide_expiries(&mut self, stored: &Mark) -> Result<bool, Error> {
        let open = self.open_counters();
        if open.is_empty() {
            self.deciding.take();
            return Ok(false);
        }
        let quorum = self.membership.quorum(&self.state);
        self.membership.raise_stable(&self.state, &quorum);
        let seen = Seen {
            stored: self.state.lows(&stored.state),
            quorum,
        };
        let mut stable = Vec::new();
        for key_id in &open {
            stable.extend(self.all_stable(*key_id, &seen));
        }
        if !MEMBERS || !self.membership.is_member() {
            return self.conclude_expiries(&open, &stable, &seen);
        }
        let (due, next) = self.split_round(stable, &seen);
        let changed = self.conclude_expiries(&open, &due, &seen)?;
        let held = self.state.vector();
        self.deciding.update(|it| {
            if it.counters.is_empty() {
                (it.held, it.counters) = (held, next);
            }
        });
        Ok(changed)
    }

    /// Whether a transaction is stable and stored.
    fn is_final(&self, seen: &Seen, by: Stamp) -> bool {
        let stored = seen.stored.get(by.writer as usize);
        stored.is_some_and(|stored| by.clock <= *stored)
            && self.membership.is_stable(&seen.quorum, by)
    }

    /// A counter with its expiries, if all of these are stable.
    fn all_stable(&self, key_id: KeyId, seen: &Seen) -> Option<Open> {
        let mut dots = Vec::new();
        for slot in self.state.slots(key_id) {
            let writer = slot.writer();
            for it in slot.side.expired.iter() {
                let clock = it.clock;
                if !self.is_final(seen, Stamp { writer, clock }) {
                    return None;
                }
                dots.push((self.state.id(writer), clock));
            }
        }
        Some((key_id, dots))
    }

    /// Returns the counters of the round, if it is over, and those that wait for the next one. A counter leaves
    /// the round if it has another expiry by now.
    fn split_round(&mut self, stable: Vec<Open>, seen: &Seen) -> (Vec<Open>, Vec<Open>) {
        let is_in_round = |it: &Open| self.deciding.counters.contains(it);
        let (present, next) = stable.into_iter().partition(is_in_round);
        match self.is_round_over(seen) {
            true => {
                self.deciding.update(|it| it.counters.clear());
                (present, next)
            }
            false => {
                self.deciding.update(|it| it.counters = present);
                (Vec::new(), next)
            }
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
        due: &[Open],
        seen: &Seen,
    ) -> Result<bool, Error> {
        let clock = self.membership.next_clock(&self.state)?;
        let by = Stamp { writer: OWN, clock };
        let decides = MEMBERS && self.membership.is_member();
        let (mut made, mut dropped) = (false, false);
        for key_id in open {
            let mut slots = self.state.slots(*key_id);
            let (mut writes, mut drops) = (false, false);
            if due.binary_search_by_key(key_id, |it| it.0).is_ok() {
                match decides {
                    true => (writes, drops) = decide(&mut slots, self.state.ids(), by),
                    false => drops = drop_covered(&mut slots),
                }
            }
            for slot in &mut slots {
                slot.side.expired.update(|it| {
                    let before = it.len();
                    it.retain(|it| {
                        let mark = it.spared.filter(|mark| *mark != by);
                        !mark.is_some_and(|mark| self.is_final(seen, mark))
                    });
                    drops |= it.len() < before;
                });
            }
            if writes || drops {
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
        let counters: alloc::collections::BTreeMap<_, _> = names.collect();
        let held = Some(&self.deciding.held).filter(|_| !counters.is_empty());
        alloc::format!("{held:?} {counters:?}")
    }
}

/// Turns the expiries of a counter that are in force into watermarks, and drops their records. Marks those
/// that are void. Returns whether it wrote a mark or a watermark, and whether it dropped a record.
fn decide(slots: &mut [Slot], ids: &[WriterId], by: Stamp) -> (bool, bool) {
    let (mut writes, mut drops) = (false, false);
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
        slots[at].side.expired.update(|expired| {
            if holds {
                expired.retain(|it| it.clock != of.clock);
                drops = true;
                return;
            }
            for it in expired {
                if it.clock == of.clock && it.spared.is_none() {
                    it.spared = Some(by);
                    writes = true;
                }
            }
        });
    }
    (writes, drops)
}

/// Drops the expiries of a counter if watermarks, or later lifetimes, cover all that they would cancel. Whether
/// they are in force makes no difference then. Returns whether it did.
fn drop_covered(slots: &mut [Slot]) -> bool {
    for slot in slots.iter() {
        for it in slot.side.expired.iter() {
            if it.upto.iter().any(|it| is_left(slots, it)) {
                return false;
            }
        }
    }
    for slot in slots {
        slot.side.expired.take();
    }
    true
}

/// Whether a slot up to a clock is neither cancelled nor of an earlier lifetime.
fn is_left(slots: &[Slot], it: &Upto) -> bool {
    let Ok(at) = counter::find(slots, it.writer) else {
        return false;
    };
    let slot = &slots[at];
    it.clock >= slot.began() && it.clock > slot.watermark_clock()
}

#[cfg(all(test, feature = "members"))]
mod tests;

//! The records of a slot beyond its plain row `(clock, total)`.
//!
//! A slot is all that is known of one writer in one counter. Most slots are *plain*: a row and no [`Side`].
//! The others are *odd*, and their sides lie beside the rows of the page.
//!
//! | record | written by | says |
//! |---|---|---|
//! | [`Extra`] | the slot's owner | when this lifetime of the slot began, its last add, its assignment, its expiry, the upper half of a wide total |
//! | [`Watermark`] | any writer | everything in the slot up to this clock is cancelled |
//! | [`Lift`] | any writer | expiries of the slot up to this clock are taken away |
//! | [`Moved`] | a successor | the slot's writer was retired, and this amount moved to the successor's slot |
//! | [`Fold`] | a replica that collects | what retired writers' slots still came to when they were dropped |
//! | [`Withdrawal`] | any writer | one add of the owner's counts under another writer too, and is taken out |
//! | [`Expired`] | the slot's owner | the counter expired, and this is what the owner saw of all its slots |
//!
//! An [`Extra`] is part of the owner's shard and travels with its clock. Every other record has a [`Stamp`],
//! which names the transaction that made it. An [`Expired`] has the clock alone, because its writer is the slot's. A delta contains a record if it contains its stamp. No
//! transaction makes a [`Fold`], because each replica makes the same one. It travels under its owner's last
//! absorption.
//!
//! The [join](super::join) says which of two records of a kind wins. A retired writer is *absorbed* by its
//! successor: these are two words for one event, seen from both ends.

use crate::optional::{GuestPart, Optional};
use crate::sheet::Sheet;
use crate::state::page::Row;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// An expiry that never comes. Persist leaves it.
pub(crate) const NEVER: u64 = u64::MAX;
/// The bound of the magnitude of totals, watermarks and moved amounts. It keeps their sums within `i128`:
/// only the sum of 2^27 of them could leave it.
pub(crate) const WIDE_MAX: i128 = 1 << 100;

/// The transaction that made a record: its writer and its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The writer's local number in a state, and its place in the writer table in a delta.
    pub(crate) writer: u32,
    pub(crate) clock: u64,
}

/// Returns the stamp of a writer's absorption, if the writer is one of the forgotten writers in `gone`.
///
/// They ascend by local number. Each entry has the stamp, and the last clock that was taken over.
pub(crate) fn absorption(gone: &[(u32, Stamp, u64)], number: u32) -> Option<Stamp> {
    let at = gone.binary_search_by_key(&number, |it| it.0).ok()?;
    Some(gone[at].1)
}

/// The value that a reset or a set left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Assignment {
    Reset,
    Set(i64),
}

impl Assignment {
    pub(crate) fn value(self) -> i64 {
        match self {
            Assignment::Reset => 0,
            Assignment::Set(value) => value,
        }
    }
}

/// An assignment with the fields that decide between concurrent ones: the greatest counts. A set wins over a
/// reset. Then the clock and the writer id of the operation decide.
///
/// None of these fields ever changes, even if the writer is absorbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RankedAssignment {
    pub(crate) set: bool,
    pub(crate) clock: u64,
    pub(crate) writer: WriterId,
    pub(crate) value: i64,
}

/// When a counter expires, as one writer set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Expiry {
    /// The owner's clock at the operation.
    pub(crate) clock: u64,
    /// Milliseconds since 1970, or [`NEVER`].
    pub(crate) until: u64,
    /// The greatest time of an [`Expired`] record in force that the writer saw, 0 for none.
    pub(crate) floor: GuestPart<u64>,
}

impl Expiry {
    /// An expiry whose writer saw no such record.
    pub(crate) fn new(clock: u64, until: u64) -> Expiry {
        let floor = GuestPart::default();
        Expiry {
            clock,
            until,
            floor,
        }
    }
}

/// The rare part of a shard. Only the owner writes it, and it travels with the row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Extra {
    /// The upper half of the total. The row has the lower half, signed.
    pub(crate) high: i64,
    /// The clock at which this lifetime of the slot began, 0 for a first lifetime. Everything before it was
    /// cancelled. Watermarks below it belong to an earlier lifetime.
    pub(crate) began: u64,
    /// The clock of the owner's last add in this lifetime, 0 for none.
    pub(crate) added: u64,
    /// The assignment. The owner made it at `began`.
    pub(crate) assignment: Option<Assignment>,
    pub(crate) expiry: Option<Expiry>,
    /// Whether another writer's amount was moved here in this lifetime.
    pub(crate) absorbed: bool,
}

/// A cancel of everything in the slot up to a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watermark {
    /// The slot's clock as the canceller saw it.
    pub(crate) clock: u64,
    /// The slot's total as the canceller saw it.
    pub(crate) total: i128,
    pub(crate) by: Stamp,
}

/// The removal of the slot's expiries up to a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lift {
    pub(crate) clock: u64,
    pub(crate) by: Stamp,
}

/// The record of an absorbed writer: this slot is a child of its successor's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    /// The successor and its transaction.
    pub(crate) to: Stamp,
    /// The amount that was added to the successor's total.
    pub(crate) amount: i128,
}

/// The sum of earlier children of the slot, folded into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fold {
    /// The owner's clock at the last absorption that was folded.
    pub(crate) clock: u64,
    /// The children's surviving amounts, less the amounts that were moved.
    pub(crate) amount: i128,
    pub(crate) adds: bool,
    pub(crate) assignment: Option<RankedAssignment>,
    /// The longest of the children's expiries.
    pub(crate) until: Option<u64>,
}

impl Fold {
    /// Whether nothing is left of the children.
    pub(crate) fn is_empty(&self) -> bool {
        self.amount == 0 && !self.adds && self.assignment.is_none() && self.until.is_none()
    }
}

/// The removal of one add of the slot's owner, because the same keyed operation counts under another writer.
///
/// A watermark that reaches the add's transaction covers it, and makes this record void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Withdrawal {
    /// The owner's clock at the transaction. If the record stands for several withdrawals that every member
    /// has seen, the clock of the last one. One that comes later stays apart.
    pub(crate) clock: u64,
    /// The amount that the transaction added. The sum, if the record stands for several.
    pub(crate) amount: i128,
    /// The clock of the owner's add before it in this lifetime, 0 if it was the first.
    pub(crate) before: u64,
    /// Whether it stands for several withdrawals.
    pub(crate) several: bool,
    pub(crate) by: Stamp,
}

/// The end of an expired counter, in a space with members. It lies in its issuer's slot.
///
/// Whether it is in force depends on the other records of the counter: [`expired`](crate::expired) has the
/// rule. It stays until that is [decided](crate::replica::expiries).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expired {
    /// The issuer's clock.
    pub(crate) clock: u64,
    /// The time that is compared with refreshes.
    pub(crate) time: u64,
    /// The slots that the issuer saw alive, ascending by the ids of their writers.
    pub(crate) upto: Vec<Upto>,
    /// The least transaction that saw it void, and that later ones rely on.
    pub(crate) spared: Option<Stamp>,
}

impl Expired {
    /// The clock up to which it saw a writer's slot, 0 if it did not.
    pub(crate) fn upto(&self, writer: u32) -> u64 {
        let it = self.upto.iter().find(|it| it.writer == writer);
        it.map_or(0, |it| it.clock)
    }
}

/// A slot as the issuer of an [`Expired`] record saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Upto {
    /// The slot's writer, as in [`Stamp`].
    pub(crate) writer: u32,
    pub(crate) clock: u64,
    pub(crate) total: i128,
}

/// The records of one slot beside its row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Side {
    /// The slot's writer: its local number in a state, and its place in the writer table in a delta.
    pub(crate) writer: u32,
    pub(crate) extra: Option<Box<Extra>>,
    pub(crate) watermark: Option<Watermark>,
    pub(crate) lift: Option<Box<Lift>>,
    pub(crate) moved: GuestPart<Option<Box<Moved>>>,
    pub(crate) fold: GuestPart<Option<Box<Fold>>>,
    /// Ascending by clock.
    pub(crate) withdrawals: GuestPart<Vec<Withdrawal>>,
    /// Ascending by clock.
    pub(crate) expired: GuestPart<Vec<Expired>>,
}

impl Side {
    pub(crate) fn new(writer: u32) -> Side {
        Side {
            writer,
            ..Side::default()
        }
    }

    /// Whether it adds nothing to the row.
    pub(crate) fn is_empty(&self) -> bool {
        self.extra.is_none()
            && self.watermark.is_none()
            && self.lift.is_none()
            && self.moved.is_none()
            && self.fold.is_none()
            && self.withdrawals.is_empty()
            && self.expired.is_empty()
    }

    /// Calls `take` with the stamp of each record that is not part of the shard.
    pub(crate) fn stamps(&self, take: &mut dyn FnMut(Stamp)) {
        if let Some(watermark) = &self.watermark {
            take(watermark.by);
        }
        if let Some(lift) = &self.lift {
            take(lift.by);
        }
        if let Some(moved) = &*self.moved {
            take(moved.to);
        }
        if let Some(fold) = &*self.fold {
            take(Stamp {
                writer: self.writer,
                clock: fold.clock,
            });
        }
        for withdrawal in self.withdrawals.iter() {
            take(withdrawal.by);
        }
        for it in self.expired.iter() {
            take(Stamp {
                writer: self.writer,
                clock: it.clock,
            });
            it.spared.into_iter().for_each(&mut *take);
        }
    }

    /// Drops the records beside the shard that are not newer than `lows`, by local number.
    pub(crate) fn keep_newer(&mut self, lows: &impl Sheet<u64>) {
        let old = |by: Stamp| by.clock <= lows.at(by.writer);
        let writer = self.writer;
        self.watermark.take_if(|watermark| old(watermark.by));
        self.lift.take_if(|lift| old(lift.by));
        self.moved.update(|it| {
            it.take_if(|moved| old(moved.to));
        });
        self.fold.update(|it| {
            it.take_if(|fold| {
                old(Stamp {
                    writer,
                    clock: fold.clock,
                })
            });
        });
        self.withdrawals.update(|it| it.retain(|it| !old(it.by)));
        self.expired.update(|it| {
            it.retain_mut(|it| {
                let clock = it.clock;
                it.spared.take_if(|by| old(*by));
                it.spared.is_some() || !old(Stamp { writer, clock })
            });
        });
    }

    /// Adds a withdrawal, and returns whether that changed anything.
    ///
    /// If two withdrawals are of one transaction, the one whose stamp is `above` the other's stays. A
    /// withdrawal that stands for several replaces these.
    pub(crate) fn withdraw(
        &mut self,
        withdrawal: Withdrawal,
        above: &dyn Fn(Stamp, Stamp) -> bool,
    ) -> bool {
        let Some(withdrawals) = self.withdrawals.get_mut() else {
            return false;
        };
        if withdrawal.several {
            withdrawals.retain(|it| it.clock > withdrawal.clock);
        }
        match withdrawals.binary_search_by_key(&withdrawal.clock, |it| it.clock) {
            Ok(at) if !above(withdrawal.by, withdrawals[at].by) => return false,
            Ok(at) => withdrawals[at] = withdrawal,
            Err(at) => withdrawals.insert(at, withdrawal),
        }
        true
    }

    /// Calls `map` on each local number in it.
    pub(crate) fn renumber(&mut self, mut map: impl FnMut(u32) -> u32) {
        self.writer = map(self.writer);
        if let Some(watermark) = &mut self.watermark {
            watermark.by.writer = map(watermark.by.writer);
        }
        if let Some(lift) = &mut self.lift {
            lift.by.writer = map(lift.by.writer);
        }
        if let Some(Some(moved)) = self.moved.get_mut() {
            moved.to.writer = map(moved.to.writer);
        }
        if let Some(withdrawals) = self.withdrawals.get_mut() {
            for withdrawal in withdrawals {
                withdrawal.by.writer = map(withdrawal.by.writer);
            }
        }
        self.expired.update(|expired| {
            for it in expired {
                if let Some(by) = &mut it.spared {
                    by.writer = map(by.writer);
                }
                for upto in &mut it.upto {
                    upto.writer = map(upto.writer);
                }
            }
        });
    }
}

/// A slot, taken out of its page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) row: Row,
    pub(crate) side: Side,
}

impl Slot {
    /// A slot of this shard. Without `extra` it is plain.
    pub(crate) fn new(writer: u32, row: Row, extra: Option<&Extra>) -> Slot {
        let mut side = Side::new(writer);
        side.extra = extra.map(|extra| Box::new(*extra));
        Slot { row, side }
    }

    pub(crate) fn writer(&self) -> u32 {
        self.side.writer
    }

    /// Returns the rare part of the shard. A plain slot has the default with its row's clock as the last add.
    pub(crate) fn extra(&self) -> Extra {
        match &self.side.extra {
            Some(extra) => **extra,
            None => Extra {
                added: self.row.clock,
                ..Extra::default()
            },
        }
    }

    /// Returns the rare part of the shard without an expiry that was removed. Otherwise the expiry could come
    /// back after every replica has dropped the record of the removal.
    pub(crate) fn living_extra(&self) -> Extra {
        let extra = self.extra();
        let lifted = self.watermark_clock().max(self.lift_clock());
        Extra {
            expiry: extra.expiry.filter(|expiry| expiry.clock > lifted),
            ..extra
        }
    }

    /// Replaces the shard.
    pub(crate) fn set_shard(&mut self, clock: u64, total: i128, extra: Extra) {
        let extra = Extra {
            high: ((total - i128::from(total as i64)) >> 64) as i64,
            ..extra
        };
        self.row = Row {
            clock,
            total: total as i64,
        };
        self.side.extra = None;
        if extra != self.extra() {
            self.side.extra = Some(Box::new(extra));
        }
    }

    /// The sum of the owner's adds since this lifetime began and of the amounts that were moved here.
    pub(crate) fn total(&self) -> i128 {
        let high = self.side.extra.as_ref().map_or(0, |extra| extra.high);
        (i128::from(high) << 64) + i128::from(self.row.total)
    }

    /// Returns the words by which two contents of the slot are distinguished and ordered. The clock and the
    /// total come first, then the other fields in their order.
    pub(crate) fn rank(&self) -> [u64; 12] {
        let extra = self.extra();
        let total = self.total();
        let signed = |value: i64| value as u64 ^ 1 << 63; // keeps the order
        let (kind, value) = match extra.assignment {
            None => (0, 0),
            Some(Assignment::Reset) => (1, 0),
            Some(Assignment::Set(value)) => (2, signed(value)),
        };
        let expiry = extra.expiry.map_or([0; 2], |it| [it.clock, it.until]);
        [
            self.row.clock,
            signed((total >> 64) as i64),
            total as u64,
            signed(extra.high),
            extra.began,
            extra.added,
            kind,
            value,
            u64::from(extra.expiry.is_some()),
            expiry[0],
            expiry[1],
            u64::from(extra.absorbed),
        ]
    }

    pub(crate) fn began(&self) -> u64 {
        self.side.extra.as_ref().map_or(0, |extra| extra.began)
    }

    /// The watermark, if it belongs to this lifetime.
    pub(crate) fn valid_watermark(&self) -> Option<&Watermark> {
        let began = self.began();
        self.side
            .watermark
            .as_ref()
            .filter(|watermark| watermark.clock >= began)
    }

    /// The clock up to which this lifetime is cancelled, 0 if it is not.
    pub(crate) fn watermark_clock(&self) -> u64 {
        self.valid_watermark()
            .map_or(0, |watermark| watermark.clock)
    }

    /// The sum of the withdrawals of this lifetime after the clock `upto`, up to which it is cancelled.
    pub(crate) fn withdrawn(&self, upto: u64) -> i128 {
        let withdrawals = self.side.withdrawals.iter();
        let valid = withdrawals.filter(|it| it.clock >= self.began() && it.clock > upto);
        valid.map(|it| it.amount).sum()
    }

    /// The clock of the owner's last add in this lifetime that was not withdrawn, 0 for none.
    pub(crate) fn last_add(&self) -> u64 {
        let mut last = self.extra().added;
        for withdrawal in self.side.withdrawals.iter().rev() {
            if withdrawal.clock == last {
                last = withdrawal.before;
            }
        }
        last
    }

    /// The clock up to which expiries are removed.
    pub(crate) fn lift_clock(&self) -> u64 {
        self.side.lift.as_ref().map_or(0, |lift| lift.clock)
    }
}

#[cfg(test)]
mod tests;

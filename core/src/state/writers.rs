//! Writer ids to local numbers. A number indexes the columns of pages and all vectors inside a replica.
//!
//! A number is assigned when something names the writer, and is free again once the writer is forgotten.

use super::State;
use super::keys::KeyIndex;
use super::page::{Column, OWN};
use super::slot::{Stamp, absorption};
use crate::optional::{MEMBERS, Optional};
use crate::writer_id::WriterId;
use alloc::vec::Vec;

impl<I: KeyIndex> State<I> {
    /// The writer under which this replica writes.
    pub(crate) fn writer(&self) -> WriterId {
        self.ids[OWN as usize]
    }

    /// The own logical clock: how many transactions the own writer has made.
    pub(crate) fn clock(&self) -> u64 {
        self.clocks[OWN as usize]
    }

    /// The writers by local number.
    #[inline]
    pub(crate) fn ids(&self) -> &[WriterId] {
        &self.ids
    }

    /// The writer with this local number.
    #[inline]
    pub(crate) fn id(&self, number: u32) -> WriterId {
        self.ids[number as usize]
    }

    /// The writer's local number, if it has one.
    #[inline]
    pub(crate) fn number_of(&self, writer: &WriterId) -> Option<u32> {
        self.numbers.get(writer)
    }

    /// Whether the writer has a number here.
    #[inline]
    pub(crate) fn knows(&self, writer: &WriterId) -> bool {
        self.numbers.get(writer).is_some()
    }

    /// Each writer with its local number, ascending by writer.
    #[inline]
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (WriterId, u32)> + '_ {
        self.numbers.iter()
    }

    /// The only writer with a number from the first one of these ids to the last one.
    #[cfg(feature = "guests")]
    pub(crate) fn only_within(&self, first: &WriterId, last: &WriterId) -> Option<WriterId> {
        self.numbers.only_within(first, last)
    }

    /// How many writers have a number.
    #[inline]
    pub(crate) fn writer_count(&self) -> usize {
        self.numbers.len()
    }

    /// Whether no other writer than the own one has a number.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.numbers.len() == 1
    }

    /// Returns the writer's local number. A writer without a number receives one.
    pub(crate) fn number(&mut self, writer: WriterId) -> u32 {
        if let Some(number) = self.numbers.get(&writer) {
            return number;
        }
        let number = self.assign(writer);
        self.numbers.insert(writer, number);
        number
    }

    /// A number for a writer that has none.
    fn assign(&mut self, writer: WriterId) -> u32 {
        if let Some(number) = self.free.update(Vec::pop).flatten() {
            self.ids[number as usize] = writer;
            self.assigned.update(|it| it[number as usize] = self.epoch);
            self.note_raised(number);
            return number;
        }
        self.ids.push(writer);
        self.clocks.push(0);
        self.merged_at.push(0);
        self.seen_at_last.update(|it| it.push(0));
        self.assigned.update(|it| it.push(self.epoch));
        let number = self.ids.len() as u32 - 1;
        self.note_raised(number);
        number
    }

    /// Continues under another writer id. Earlier records stay under the old id, which becomes one writer
    /// among others. Returns its new local number.
    pub(crate) fn renew(&mut self, writer: WriterId) -> u32 {
        self.void_scans();
        let old = self.writer();
        let number = self.assign(old);
        self.numbers.remove(&old);
        self.numbers.insert(old, number);
        self.numbers.insert(writer, OWN);
        self.ids[OWN as usize] = writer;
        // A mark with the earlier owner of the number is void.
        self.assigned.update(|it| it[OWN as usize] = self.epoch);
        self.clocks[number as usize] = core::mem::take(&mut self.clocks[OWN as usize]);
        self.all_raised();
        // The new writer's first transaction builds on everything here.
        self.merged_at.fill(0);
        for page in &mut self.pages {
            if page.own.present != 0 {
                let mut column = core::mem::replace(&mut page.own, Column::new(OWN));
                column.writer = number;
                page.others.push(column);
            }
            if let Some(odd) = &mut page.odd {
                odd.renumber_own(number);
            }
        }
        number
    }

    /// Forgets writers, which ascend, each with the stamp of its retirement and its last clock. None of them
    /// is the successor of another one. Their stamps become those of their retirements, and their numbers are
    /// free.
    pub(crate) fn forget(&mut self, gone: &[(u32, Stamp, u64)]) {
        self.restamp(gone);
        for (number, ..) in gone {
            self.clocks[*number as usize] = 0;
            self.merged_at[*number as usize] = 0;
            self.note_raised(*number);
            self.free.update(|it| it.push(*number));
        }
        self.numbers
            .retain(|number| absorption(gone, number).is_none());
    }

    /// Drops the columns of forgotten writers, and replaces their stamps by the stamps of their absorptions.
    fn restamp(&mut self, gone: &[(u32, Stamp, u64)]) {
        let is_gone = |number: u32| absorption(gone, number).is_some();
        let again = |stamp: &mut Stamp| {
            if let Some(to) = absorption(gone, stamp.writer) {
                *stamp = to;
            }
        };
        for page in &mut self.pages {
            for side in page.sides_mut() {
                if let Some(watermark) = &mut side.watermark {
                    again(&mut watermark.by);
                }
                if let Some(lift) = &mut side.lift {
                    again(&mut lift.by);
                }
                if let Some(withdrawals) = side.withdrawals.get_mut() {
                    for withdrawal in withdrawals {
                        again(&mut withdrawal.by);
                    }
                }
                side.expired.update(|expired| {
                    for it in expired {
                        if let Some(by) = &mut it.spared {
                            again(by);
                        }
                    }
                });
            }
            page.others.retain(|column| !is_gone(column.writer));
        }
    }

    /// Lets the next stored record contain the changed shards of these writers, although their clocks were
    /// stored already.
    ///
    /// In a program without members it contains the changed shards of all writers.
    pub(crate) fn rework(&mut self, writers: &[WriterId]) {
        if !MEMBERS {
            let all = self.assigned.update(|it| it.fill(self.epoch));
            if all.is_none() {
                self.began = self.epoch;
            }
            return;
        }
        self.void_scans();
        for writer in writers {
            if let Some(number) = self.numbers.get(writer) {
                self.assigned.update(|it| it[number as usize] = self.epoch);
                self.note_raised(number);
            }
        }
    }
}

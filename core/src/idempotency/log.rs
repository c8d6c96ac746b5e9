//! The log itself: the stored transactions, by key and in the order in which they arrived.

use super::lifetimes::NewLifetimes;
use super::shares::{Asker, Group, Room, Shares};
use crate::error::{Error, ScopeError};
use crate::once::Once;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Stands for a writer that was retired and forgotten. All members have acknowledged its operations.
pub(crate) const ABSORBED: u32 = u32::MAX;
/// Stands for a writer whose counted operations are not known any more, because this replica began again.
pub(crate) const UNSURE: u32 = u32::MAX - 2;

/// An operation that was made under a key.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub(crate) once: Once,
    pub(crate) writer: u32,
    /// Meaningless if the writer is one of these two.
    pub(crate) clock: u64,
    /// Its adds, encoded.
    pub(crate) adds: Box<[u8]>,
    /// Whether it arrived before all members were known to have it. Then this log records what is forgotten
    /// about the slots that it added to.
    pub(crate) watched: bool,
    /// Whether it has been withdrawn, as far as necessary. All members receive the withdrawal in time, and
    /// may collect it. After that, the adds of a later lifetime of the slot can't be told apart.
    pub(crate) withdrawn: bool,
    /// Whether it certainly counts, whatever arrives later. This is so if its writer was forgotten while no
    /// other operation with its key was known and no keys were missing here. A later one was made by a writer
    /// that lacked this one, although all counted members had it.
    pub(crate) sole: bool,
    /// The number of the share in which it counts.
    pub(crate) share: u32,
}

/// The keyed operations in the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdempotencyLog {
    /// By place, in the order in which they arrived.
    pub(super) instances: BTreeMap<u64, Instance>,
    /// The place after the last one that ever arrived.
    pub(super) end: u64,
    /// The callers and writers in whose shares they count.
    pub(super) shares: Shares,
    /// Their keys, each with its place.
    pub(super) places: BTreeSet<([u8; 16], u64)>,
    /// For each writer: the number of its operations, and the last clock.
    pub(super) of_writer: BTreeMap<u32, (u64, u64)>,
    /// Keys with several operations, to be checked for duplicates.
    pub(super) due: Vec<[u8; 16]>,
    /// The places of the operations in the message that is being merged.
    pub(super) told: BTreeSet<u64>,
    /// Since when slots have their present lifetimes. Earlier begins and ends of lifetimes are forgotten.
    pub(super) new_lifetimes: NewLifetimes,
    /// The own transaction that asks for more keys of writers that are over, and the clocks up to which these
    /// writers' keys were known then.
    pub(super) asked: Option<(u64, Vec<(u32, u64)>)>,
    /// How many adds this replica has withdrawn.
    pub(super) withdrawn: u64,
    /// How many operations were visited to forget writers.
    #[cfg(test)]
    pub(super) looked_at: usize,
}

impl IdempotencyLog {
    pub(crate) fn at(&self, place: u64) -> &Instance {
        &self.instances[&place]
    }

    pub(crate) fn at_mut(&mut self, place: u64) -> Option<&mut Instance> {
        self.instances.get_mut(&place)
    }

    /// Records that an operation is withdrawn as far as necessary.
    pub(crate) fn mark_withdrawn(&mut self, place: u64) {
        if let Some(instance) = self.at_mut(place) {
            instance.withdrawn = true;
        }
    }

    /// The places of the operations with a key.
    pub(crate) fn of(&self, key: &[u8; 16]) -> impl Iterator<Item = u64> {
        let places = self.places.range((*key, 0)..=(*key, u64::MAX));
        places.map(|(_, place)| *place)
    }

    /// Makes room for a caller's operation by dropping older ones.
    ///
    /// # Errors
    /// [`ScopeError::KeyedFull`] if that would drop an operation that this caller got a reply for recently.
    pub(crate) fn make_room(&mut self, asker: &Asker) -> Result<(), Error> {
        let group = Group::of(asker);
        while let (Room::Drop(place, number), max) = self.shares.room(group, asker.limited) {
            if place >= asker.settled && self.shares.is(number, group, asker.limited) {
                return Err(ScopeError::KeyedFull { max }.into());
            }
            self.remove(place);
        }
        Ok(())
    }

    /// Adds an operation of a caller, after [room](IdempotencyLog::make_room) was made for it.
    pub(crate) fn insert_for(&mut self, asker: &Asker, instance: Instance) {
        self.insert_in(Group::of(asker), asker.limited, instance);
    }

    /// Adds an operation, in the share of its writer. Returns its place, or `None` if the log had it.
    pub(crate) fn insert(&mut self, instance: Instance) -> Option<u64> {
        self.insert_in(Group::Writer(instance.writer), false, instance)
    }

    fn insert_in(&mut self, group: Group, limited: bool, mut instance: Instance) -> Option<u64> {
        let mut others = false;
        let mut unsure = None;
        for place in self.of(&instance.once.key) {
            let other = self.at(place);
            if other.once.content != instance.once.content {
                continue;
            }
            let same = (other.writer, other.clock) == (instance.writer, instance.clock);
            if other.writer == UNSURE {
                unsure = Some(place);
            } else if same || instance.writer == ABSORBED {
                return None;
            } else {
                others = true;
            }
        }
        if let Some(place) = unsure.filter(|_| !others) {
            // A peer that has received everything up to here has not received this one.
            self.remove(place);
        }
        if others {
            self.due.push(instance.once.key);
        }
        self.count(instance.writer, instance.clock);
        while let Room::Drop(place, _) = self.shares.room(group, limited).0 {
            self.remove(place);
        }
        let place = self.end;
        self.end += 1;
        instance.share = self.shares.number(group, limited);
        self.shares.add(instance.share, place);
        self.places.insert((instance.once.key, place));
        self.instances.insert(place, instance);
        Some(place)
    }

    /// Removes an operation.
    fn remove(&mut self, place: u64) {
        let Some(instance) = self.instances.remove(&place) else {
            return;
        };
        self.places.remove(&(instance.once.key, place));
        self.uncount(instance.writer);
        let instances = &self.instances;
        let is_there = |place: u64| instances.contains_key(&place);
        self.shares.remove(instance.share, place, is_there);
    }

    pub(crate) fn drop_upto(&mut self, upto: u64) {
        while let Some((&place, _)) = self.instances.first_key_value()
            && place < upto
        {
            self.remove(place);
        }
    }

    pub(crate) fn count(&mut self, writer: u32, clock: u64) {
        let (count, last) = self.of_writer.entry(writer).or_default();
        *count += 1;
        *last = clock.max(*last);
    }

    pub(crate) fn uncount(&mut self, writer: u32) {
        if let Some((count, _)) = self.of_writer.get_mut(&writer) {
            *count -= 1;
            if *count == 0 {
                self.of_writer.remove(&writer);
            }
        }
    }

    /// Replaces the number of these writers, which ascend, by another one.
    pub(crate) fn renumber(&mut self, from: &[u32], to: u32) {
        let (mut count, mut last) = (0, 0);
        for (more, clock) in from.iter().filter_map(|it| self.of_writer.remove(it)) {
            count += more;
            last = clock.max(last);
        }
        if count == 0 {
            return;
        }
        let of = self.of_writer.entry(to).or_default();
        *of = (of.0 + count, of.1.max(last));
        let is_from = |it: &&mut Instance| from.binary_search(&it.writer).is_ok();
        for instance in self.instances.values_mut().filter(is_from) {
            instance.writer = to;
        }
    }
}

#[cfg(test)]
impl IdempotencyLog {
    pub(crate) fn shares(&self) -> &Shares {
        &self.shares
    }

    pub(crate) fn instances(&mut self) -> &mut BTreeMap<u64, Instance> {
        &mut self.instances
    }

    pub(crate) fn new_lifetimes(&mut self) -> &mut NewLifetimes {
        &mut self.new_lifetimes
    }

    pub(crate) fn asked_mut(&mut self) -> &mut Option<(u64, Vec<(u32, u64)>)> {
        &mut self.asked
    }
}

#[cfg(test)]
mod tests;

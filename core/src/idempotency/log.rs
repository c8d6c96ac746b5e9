//! The log itself: the remembered transactions, by key and in the order in which they came.

use super::shares::{Asker, Group, Room, Shares};
use crate::error::Error;
use crate::once::Once;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Stands for a writer that was absorbed and forgotten: what it did is part of what all have seen.
pub(crate) const ABSORBED: u32 = u32::MAX;
/// Stands for a writer of which it is not known any more what counts: this replica began again.
pub(crate) const UNSURE: u32 = u32::MAX - 2;

/// An operation that was made under a key.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub(crate) once: Once,
    pub(crate) writer: u32,
    /// Of a writer that is not told apart any more it means nothing.
    pub(crate) clock: u64,
    /// What it added, encoded.
    pub(crate) adds: Box<[u8]>,
    /// Whether it came before all were known to have seen it: then whatever became of the slots that it
    /// added to is noted here when it is forgotten.
    pub(crate) watched: bool,
    /// Whether it has been withdrawn, as far as that is to be done at all. All have seen that by and
    /// by, and may collect it; which add of a later life of the slot is which is not told then.
    pub(crate) withdrawn: bool,
    /// Of one whose writer is forgotten: whether it was the only one of its key then, and no keys were
    /// missing here. Then it counts, whatever else is heard of: that was made by somebody who had not seen
    /// this one, though all who count had.
    pub(crate) sole: bool,
    /// The number of whom it counts for.
    pub(crate) share: u32,
}

/// The keyed operations that are remembered.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdempotencyLog {
    /// By their places, in the order in which they came.
    pub(super) instances: BTreeMap<u64, Instance>,
    /// The place after the last that ever came.
    pub(super) end: u64,
    /// For whom they count.
    pub(super) shares: Shares,
    /// By key, and where they are.
    pub(super) places: BTreeSet<([u8; 16], u64)>,
    /// How many of each writer there are, and its last clock.
    pub(super) of_writer: BTreeMap<u32, (u64, u64)>,
    /// Keys under which several were met, to be looked at.
    pub(super) due: Vec<[u8; 16]>,
    /// Where those are that the message told which is being taken in.
    pub(super) told: BTreeSet<u64>,
    /// Of each writer, from which clock on its slots' lives are the ones that they have now: what began
    /// or ended a life before is forgotten.
    pub(super) reborn: BTreeMap<u32, u64>,
    /// The own transaction that asks who knows more of writers that are over, and up to where these
    /// were held then.
    pub(super) asked: Option<(u64, Vec<(u32, u64)>)>,
    /// How many adds were withdrawn here.
    pub(super) withdrawn: u64,
    /// How many operations were looked at to forget writers.
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

    /// Notes that all is withdrawn of one that is to be.
    pub(crate) fn mark_withdrawn(&mut self, place: u64) {
        if let Some(instance) = self.at_mut(place) {
            instance.withdrawn = true;
        }
    }

    /// Where the operations of a key are.
    pub(crate) fn of(&self, key: &[u8; 16]) -> impl Iterator<Item = u64> {
        let places = self.places.range((*key, 0)..=(*key, u64::MAX));
        places.map(|(_, place)| *place)
    }

    /// Makes room for what is asked for, by dropping what is older.
    ///
    /// # Errors
    /// [`Error::KeyedFull`] if that would be what this caller was answered lately.
    pub(crate) fn make_room(&mut self, asker: &Asker) -> Result<(), Error> {
        let group = Group::of(asker);
        while let (Room::Drop(place, number), max) = self.shares.room(group, asker.limited) {
            if place >= asker.settled && self.shares.is(number, group, asker.limited) {
                return Err(Error::KeyedFull { max });
            }
            self.remove(place);
        }
        Ok(())
    }

    /// Remembers what a caller has made, for which there is [room](IdempotencyLog::make_room).
    pub(crate) fn insert_for(&mut self, asker: &Asker, instance: Instance) {
        self.insert_in(Group::of(asker), asker.limited, instance);
    }

    /// Where it is now, if it was not known. It counts for its writer.
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
            // Whoever has been told all up to here has not been told of this one.
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

    /// Drops one.
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

    /// Puts another number in the place of those of these writers, which ascend.
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

    pub(crate) fn reborn(&mut self) -> &mut BTreeMap<u32, u64> {
        &mut self.reborn
    }

    pub(crate) fn asked_mut(&mut self) -> &mut Option<(u64, Vec<(u32, u64)>)> {
        &mut self.asked
    }
}

#[cfg(test)]
mod tests;

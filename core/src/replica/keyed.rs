//! Keyed operations: each counts once, however often and at however many replicas it is asked for.
//!
//! A replica remembers the keys of the operations that it has made or heard of, for as long as its
//! caller wants. A retry is answered from that. If two replicas took an operation before they heard
//! of each other, whoever hears of both withdraws the later one: takes out what that very transaction
//! added, and nothing else. What it cancelled stays cancelled, and its base is one of two equal ones.
//!
//! A withdrawal is an operation of its own, with the stamp of whoever made it, so it travels and
//! merges like a cancel. Several replicas may make the same one. It is made only where the
//! transaction's writer has not been absorbed yet; whoever absorbs a writer waits until all have
//! acknowledged its keyed operations, and so knows of all that are to be withdrawn.

mod lacking;
mod shares;
mod table;
mod withdrawals;

use super::{Replica, Transaction};
use crate::closed::Closed;
use crate::error::Error;
use crate::membership::admission::Forgotten;
use crate::membership::room::room_for_keyed;
use crate::membership::stability::Quorum;
use crate::once::Once;
use crate::replica::ops::Draft;
use crate::state::counter;
use crate::state::delta::{KeyedAdd, KeyedOp, Message};
use crate::state::keys::Handle;
use crate::state::page::OWN;
use crate::state::sheet::Sheet;
use crate::state::slot::Stamp;
use crate::state::vector::VersionVector;
use crate::wire::{decode_adds, encode_adds};
use crate::writer_id::WriterId;
use alloc::vec::Vec;
use table::{ABSORBED, UNSURE};

pub use shares::{Asker, KeyedBounds};
pub(super) use table::{Instance, Table};

/// What an encoded keyed operation takes beside what it added, about.
const OP_BYTES: usize = 30;

/// What is known of a keyed operation that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nobody has made it, as far as is known here.
    New,
    /// It counts already: made by this writer at this clock, if that is still told apart.
    Before(Option<(WriterId, u64)>),
    /// Something else was made under its key.
    Reused,
}

/// Keyed operations for a message.
pub(super) type KeyedOps = Closed<Vec<KeyedOp>>;

/// Of a [`Mark`](super::Mark), what had come of keyed operations.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyedMark {
    /// How many.
    place: u64,
    /// The writers, by local number, of which some were missing, and up to where they were known.
    lacking: Vec<(u32, u64)>,
}

impl KeyedMark {
    /// Whether no keyed operation came since.
    pub(super) fn is_last(&self, replica: &Replica) -> bool {
        self.place == replica.keyed.end
    }

    /// From where on a writer has to be told again, as some came that had been missing.
    pub(super) fn low(&self, replica: &Replica, writer: u32) -> u64 {
        let lacked = self.lacking.binary_search_by_key(&writer, |it| it.0);
        let lacked = lacked.ok().map(|at| &self.lacking[at]);
        let came = lacked
            .filter(|(_, upto)| replica.membership.held_with_keys(&replica.state, writer) > *upto);
        came.map_or(u64::MAX, |(_, upto)| *upto)
    }

    /// The writers, by local number, of which some had been missing.
    pub(super) fn writers(&self) -> impl Iterator<Item = u32> {
        self.lacking.iter().map(|it| it.0)
    }
}

/// A [walk](super::Walk) over keyed operations, in the order in which they came: each is told once if
/// it is newer than what the walk began with, also if it comes late.
#[derive(Clone, Debug)]
pub(super) struct KeyedWalk {
    /// The next one, if they are wanted.
    place: Option<u64>,
    since: Vec<u64>,
}

impl KeyedWalk {
    pub(super) fn new(since: &[u64], wanted: bool) -> KeyedWalk {
        KeyedWalk {
            place: wanted.then_some(0),
            since: since.to_vec(),
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.place.is_some()
    }

    /// The next ones, of about `budget` bytes, and whether there are more; `lows` is lowered to what
    /// they are newer than.
    pub(super) fn step(
        &mut self,
        replica: &Replica,
        lows: &mut [u64],
        budget: usize,
    ) -> (KeyedOps, bool) {
        let Some(place) = &mut self.place else {
            return (KeyedOps::default(), false);
        };
        self.since.resize(lows.len(), 0);
        let (ops, next) = replica.keyed_from(*place, &self.since, budget);
        for by in ops.iter().filter_map(|op| op.by) {
            lows[by.writer as usize] = self.since[by.writer as usize];
        }
        *place = next;
        let more = !replica.keyed_from(next, &self.since, 0).0.is_empty();
        (ops, more)
    }
}

impl Transaction<'_> {
    /// As [`commit`](Transaction::commit), remembering that it was made under a key, which the caller
    /// has found to be [new](Replica::asked). It is a transaction also if nothing changed.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if what it adds, with the keys, takes more than
    /// [`KEYED_BYTES_MAX`](crate::limits::KEYED_BYTES_MAX); with the feature `budgets` `NumberOnce` and `LeaseOnce`. Nothing is done then.
    pub fn commit_once(self, once: Once, changed: &mut Vec<Handle>) -> Result<(), Error> {
        self.commit_once_for(once, None, changed)
    }

    /// As [`commit_once`](Transaction::commit_once), for a caller with whose other operations it shares
    /// room.
    ///
    /// # Errors
    /// Also [`Error::KeyedFull`] if it would push out what this caller was answered lately.
    pub fn commit_once_for(
        mut self,
        once: Once,
        asker: Option<&Asker>,
        changed: &mut Vec<Handle>,
    ) -> Result<(), Error> {
        #[cfg(feature = "budgets")]
        if !self.draws.is_empty() {
            return Err(Error::NumberOnce);
        }
        #[cfg(feature = "budgets")]
        if self.leases {
            return Err(Error::LeaseOnce);
        }
        self.replica
            .remember_keyed_for(self.clock, (once, asker), &self.drafts)?;
        self.finish(changed);
        self.replica
            .membership
            .made(&mut self.replica.state, self.clock);
        Ok(())
    }
}

impl Replica {
    /// What is known of a keyed operation.
    pub fn asked(&self, once: &Once) -> Asked {
        let of_key = || self.keyed.of(&once.key).map(|place| self.keyed.at(place));
        let same = of_key().filter(|it| it.once == *once);
        let maker = |it: &Instance| {
            let writer = self.state.writers.get(it.writer as usize)?;
            Some((*writer, it.clock))
        };
        // Of several, the one that counts.
        let order = |maker: &Option<(WriterId, u64)>| (maker.is_none(), *maker);
        match same.map(maker).min_by_key(order) {
            Some(maker) => Asked::Before(maker),
            None if of_key().next().is_some() => Asked::Reused,
            None => Asked::New,
        }
    }

    /// What to ask members for when a retry asks for a level: the own transactions so far, and the one
    /// that counts, whoever made it. `None` if nobody has told yet whether any does, as this replica
    /// began again.
    pub fn written_before(&self, once: &Once) -> Option<VersionVector> {
        let own = self.written();
        match self.asked(once) {
            Asked::Before(Some(maker)) => {
                Some(own.joined(&VersionVector::from_sorted(Vec::from([maker]))))
            }
            // All who count have seen one whose writer is forgotten.
            _ => self.is_made(once).then_some(own),
        }
    }

    /// By whom, and at which clock, it is known that an operation was made.
    #[cfg(any(test, feature = "explore"))]
    pub fn makers(&self, once: &Once) -> Vec<(WriterId, u64)> {
        let instances = self.keyed.of(&once.key).map(|place| self.keyed.at(place));
        let same = instances.filter(|it| it.once == *once);
        let dot = |it: &Instance| Some((*self.state.writers.get(it.writer as usize)?, it.clock));
        same.filter_map(dot).collect()
    }

    /// All that is remembered, as text, whichever local numbers and places it has.
    #[cfg(feature = "explore")]
    pub(super) fn keyed_text(&self) -> alloc::string::String {
        let id = |number: u32| {
            self.state
                .writers
                .get(number as usize)
                .copied()
                .ok_or(number)
        };
        let Table {
            instances,
            end: _,
            shares: _,
            places: _,
            of_writer: _,
            due: _,
            told: _,
            reborn,
            asked,
            withdrawn: _,
            #[cfg(test)]
                looked_at: _,
        } = &self.keyed;
        let text = |it: &Instance| {
            let adds = (it.adds.clone(), it.watched, it.withdrawn);
            (it.once, id(it.writer), it.clock, adds)
        };
        let mut instances: Vec<_> = instances.values().map(text).collect();
        instances.sort_unstable();
        let lacking: alloc::collections::BTreeMap<_, u64> = self
            .membership
            .table
            .held_back
            .iter()
            .map(|it| (id(it.0), it.1))
            .collect();
        let asked = asked.as_ref().map(|(clock, asked)| {
            let asked = asked.iter().map(|it| (id(it.0), it.1));
            (
                *clock,
                asked.collect::<alloc::collections::BTreeMap<_, _>>(),
            )
        });
        let reborn: alloc::collections::BTreeMap<_, u64> =
            reborn.iter().map(|it| (id(*it.0), *it.1)).collect();
        alloc::format!("{instances:?} {lacking:?} {reborn:?} {asked:?}")
    }

    /// Whether any keyed operation is remembered.
    pub(super) fn has_keyed(&self) -> bool {
        !self.keyed.places.is_empty()
    }

    /// How many keyed operations are remembered.
    pub fn keyed_count(&self) -> usize {
        self.keyed.places.len()
    }

    /// How many keyed operations were ever remembered here: a place in their order.
    pub fn keyed_end(&self) -> u64 {
        self.keyed.end
    }

    /// Has less room for keyed operations, for tests that fill it.
    #[doc(hidden)]
    pub fn bound_keyed(&mut self, bounds: KeyedBounds) {
        self.keyed.shares.bounds = bounds;
    }

    /// Drops the keyed operations that came before this place, so that a retry of one of them is taken
    /// for new. In a space with members it stops before the first that not all who count have
    /// acknowledged: another may have been made under its key, and is to be withdrawn. Tells whether
    /// all that came before the place are dropped.
    pub fn drop_keyed(&mut self, before: u64) -> bool {
        let before = before.min(self.keyed.end);
        let upto = match self.membership.configuration() {
            Some(_) => self.stable_keyed(before),
            None => before,
        };
        self.keyed.drop_upto(upto);
        upto == before
    }

    /// The place of the first keyed operation that is not stable, or `before`. Of one whose writer is
    /// not told apart any more nothing is to be withdrawn.
    fn stable_keyed(&self, before: u64) -> u64 {
        let quorum = self.membership.quorum(&self.state);
        let open = |(_, it): &(&u64, &Instance)| {
            let Instance { writer, clock, .. } = **it;
            writer < UNSURE && !self.membership.is_stable(&quorum, Stamp { writer, clock })
        };
        let mut older = self.keyed.instances.range(..before);
        older.find(open).map_or(before, |it| *it.0)
    }

    /// Remembers a transaction of this clock, which is not visible yet, as one that was made under a
    /// key.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub(super) fn remember_keyed(
        &mut self,
        clock: u64,
        once: Once,
        drafts: &[Draft],
    ) -> Result<(), Error> {
        self.remember_keyed_for(clock, (once, None), drafts)
    }

    /// The same for a caller with whose other operations it shares room.
    ///
    /// # Errors
    /// Also [`Error::KeyedFull`].
    fn remember_keyed_for(
        &mut self,
        clock: u64,
        (once, asker): (Once, Option<&Asker>),
        drafts: &[Draft],
    ) -> Result<(), Error> {
        let changed = drafts.iter().filter(|draft| draft.changed);
        let mut adds: Vec<KeyedAdd> = changed.filter_map(|it| self.keyed_add(clock, it)).collect();
        adds.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let adds = encode_adds(&adds);
        room_for_keyed(adds.len())?;
        if let Some(asker) = asker {
            self.keyed.make_room(asker)?;
        }
        #[cfg(feature = "budgets")]
        self.note_pending(clock, drafts);
        let instance = Instance {
            once,
            writer: OWN,
            clock,
            adds,
            watched: true,
            withdrawn: false,
            sole: false,
            share: 0,
        };
        match asker {
            Some(asker) => self.keyed.insert_for(asker, instance),
            None => drop(self.keyed.insert(instance)),
        }
        if self.membership.keeps_journal() {
            self.journal.keyed.push((clock, once));
        }
        Ok(())
    }

    /// What a transaction adds to a counter, if any of its adds survives it.
    fn keyed_add(&self, clock: u64, draft: &Draft) -> Option<KeyedAdd> {
        let own = counter::find(&draft.slots, OWN).ok()?;
        let own = &draft.slots[own];
        if own.extra().added != clock {
            return None;
        }
        let before = self.membership.slots(&self.state, draft.handle);
        let before = counter::find(&before, OWN).ok().map(|at| &before[at]);
        // Else the transaction began a life.
        let before = before.filter(|before| before.born() == own.born());
        Some(KeyedAdd {
            key: self.state.keys.get(draft.handle)?.into(),
            amount: own.total() - before.map_or(0, |before| before.total()),
            before: before.map_or(0, |before| before.extra().added),
        })
    }

    /// Takes in the keyed operations of a message, whose clocks have not been moved yet.
    pub(super) fn take_keyed(&mut self, message: &Message, forgotten: &Forgotten) {
        for KeyedOp { once, by, adds } in message.keyed.iter() {
            let mut known = (ABSORBED, 0);
            if let Some(by) = by.filter(|by| !forgotten.contains(&(by.writer as usize))) {
                let number = self
                    .membership
                    .number(&mut self.state, message.writers[by.writer as usize].writer);
                if by.clock <= self.membership.held_with_keys(&self.state, number) {
                    continue;
                }
                known = (number, by.clock);
            }
            let watched = known.1 > self.membership.known_to_all(known.0);
            let place = self.keyed.insert(Instance {
                once: *once,
                writer: known.0,
                clock: known.1,
                adds: encode_adds(adds),
                watched,
                withdrawn: false,
                sole: false,
                share: 0,
            });
            self.keyed.told.extend(place);
        }
    }

    /// The place in the order of keyed operations where it stands now.
    pub(super) fn keyed_mark(&self) -> KeyedMark {
        KeyedMark {
            place: self.keyed.end,
            lacking: self.membership.table.held_back.clone(),
        }
    }

    /// The keyed operations that came since a mark and are newer than `lows`, by local number, as many
    /// as fit in about `budget` bytes, and whether these are all.
    pub(super) fn keyed_since(
        &self,
        mark: &KeyedMark,
        lows: &impl Sheet<u64>,
        budget: usize,
    ) -> (KeyedOps, bool) {
        let (ops, next) = self.keyed_from(mark.place, lows, budget);
        (ops, next == self.keyed.end)
    }

    /// The keyed operations from the place `from` on that are newer than `lows`, in the order in which
    /// they came, as many as fit in about `budget` bytes, and the place after them. Those of writers
    /// that are forgotten are told to who has nothing.
    fn keyed_from(&self, from: u64, lows: &impl Sheet<u64>, budget: usize) -> (KeyedOps, u64) {
        let mut ops = KeyedOps::default();
        if from >= self.keyed.end {
            return (ops, self.keyed.end);
        }
        let writers = lows.writers(self.state.clocks.len());
        let low = |writer: u32| (writer < writers).then(|| lows.at(writer));
        let whole = (0..writers).all(|writer| lows.at(writer) == 0);
        let newer =
            |(writer, (_, last)): (&u32, &(u64, u64))| low(*writer).is_some_and(|low| *last > low);
        if !whole && !self.keyed.of_writer.iter().any(newer) {
            return (ops, self.keyed.end);
        }
        let mut bytes = 0;
        for (&place, instance) in self.keyed.instances.range(from..) {
            let Instance {
                once,
                writer,
                clock,
                ..
            } = *instance;
            let by = match low(writer) {
                Some(low) if clock > low => Some(Stamp { writer, clock }),
                None if whole && writer == ABSORBED => None,
                _ => continue,
            };
            bytes += OP_BYTES + instance.adds.len();
            if bytes > budget && !ops.is_empty() {
                return (ops, place);
            }
            let adds = decode_adds(&instance.adds);
            ops.push(KeyedOp { once, by, adds });
        }
        (ops, self.keyed.end)
    }

    /// Whether everybody who counts has seen a writer's keyed operations, as far as they are
    /// remembered: then whatever else was made under their keys is known here.
    pub(super) fn is_keyed_stable(&self, quorum: &Quorum, writer: u32) -> bool {
        let last = self.keyed.of_writer.get(&writer);
        last.is_none_or(|&(_, clock)| self.membership.is_stable(quorum, Stamp { writer, clock }))
    }

    /// Whether a writer that is over is not absorbed yet since not all have seen its keyed operations.
    pub(super) fn waits_for_keyed(&self, quorum: &Quorum, writer: u32) -> bool {
        let card = &self.membership.table.cards[writer as usize];
        card.is_over() && card.retired.is_none() && !self.is_keyed_stable(quorum, writer)
    }

    /// Keeps the keyed operations of writers that are forgotten, which ascend, but for those of which there is
    /// another: of these one counts, and it need not be the one that is told of for good. Of the others
    /// it is certain that they count, if no keys are missing here: whoever absorbed the writer waited until
    /// all had acknowledged them, and would have heard of another one by that.
    pub(super) fn forget_keyed(&mut self, gone: &[u32]) {
        let is_gone = |writer: u32| gone.binary_search(&writer).is_ok();
        if gone.iter().any(|it| self.keyed.of_writer.contains_key(it)) {
            self.settle_keys_of(gone);
        }
        self.membership.table.held_back.retain(|it| !is_gone(it.0));
        self.keyed.reborn.retain(|writer, _| !is_gone(*writer));
        if let Some((_, asked)) = &mut self.keyed.asked {
            asked.retain(|it| !is_gone(it.0));
        }
    }

    /// Keeps the keyed operations of these writers, which ascend, as those of none. All that are
    /// remembered are looked at once, however many writers go together.
    fn settle_keys_of(&mut self, gone: &[u32]) {
        #[cfg(test)]
        (self.keyed.looked_at += self.keyed.instances.len());
        let is_gone = |it: &(&u64, &Instance)| gone.binary_search(&it.1.writer).is_ok();
        let instances = self.keyed.instances.iter().filter(is_gone);
        let all: Vec<(u64, u32, Once)> = instances
            .map(|(place, it)| (*place, it.writer, it.once))
            .collect();
        for (place, writer, once) in all {
            let others = |it: &Instance| it.once == once && ![writer, UNSURE].contains(&it.writer);
            let mut of_key = self.keyed.of(&once.key).map(|place| self.keyed.at(place));
            let another = of_key.any(others);
            drop(of_key);
            let mut lacking = self.membership.table.held_back.iter();
            let sole = lacking.all(|it| it.0 == writer);
            let Some(instance) = self.keyed.at_mut(place) else {
                continue;
            };
            match another {
                true => {
                    instance.writer = UNSURE;
                    self.keyed.uncount(writer);
                    self.keyed.count(UNSURE, 0);
                }
                false => instance.sole = sole,
            }
        }
        self.keyed.renumber(gone, ABSORBED);
    }

    /// Keeps the keyed operations of all writers, of which it is to be told anew what counts.
    pub(super) fn doubt_keyed(&mut self) {
        let writers: Vec<u32> = self.keyed.of_writer.keys().copied().collect();
        self.keyed.renumber(&writers, UNSURE);
        self.keyed.due.clear();
        self.membership.table.held_back.clear();
        self.keyed.reborn.clear();
        self.keyed.asked = None;
    }

    /// The keyed operations of each writer, and up to which of its clocks all of them are known, before all
    /// that is held is dropped for another whole state.
    pub(super) fn known_keyed(&self) -> Vec<(WriterId, u64, Vec<Instance>)> {
        let of = |(writer, number): (WriterId, u32)| {
            let made = self
                .keyed
                .instances
                .values()
                .filter(|it| it.writer == number);
            (
                writer,
                self.membership.held_with_keys(&self.state, number),
                made.cloned().collect(),
            )
        };
        let known = self.state.numbers.iter().map(of);
        known
            .filter(|(_, _, made): &(_, _, Vec<_>)| !made.is_empty())
            .collect()
    }

    /// Tells of the keyed operations of a writer, known up to its clock `last`, as far as a whole state has
    /// what they made: whoever it comes from may have that without the keys.
    pub(super) fn claim_keyed(&mut self, before: WriterId, last: u64, made: Vec<Instance>) {
        let number = self.state.numbers.get(&before);
        let number =
            number.filter(|it| self.membership.table.cards[*it as usize].retired.is_none());
        let (as_writer, upto) = match number {
            Some(number) => (number, self.state.clocks[number as usize]),
            None => (ABSORBED, self.membership.taken_over(&before).unwrap_or(0)),
        };
        for it in made.into_iter().filter(|it| it.clock <= upto) {
            self.keyed.insert(Instance {
                writer: as_writer,
                watched: false,
                withdrawn: false,
                ..it
            });
        }
        if upto <= last {
            self.membership.table.stop_holding_back(as_writer);
        }
    }

    /// Gives the own keyed operations to the number under which the own writer goes on as another. In an
    /// open space nothing else is known of them.
    pub(super) fn renumber_own_keyed(&mut self, number: u32) {
        self.keyed.renumber(&[OWN], number);
    }

    /// Whether it is certain that an operation counts.
    pub(super) fn is_made(&self, once: &Once) -> bool {
        let mut of_key = self.keyed.of(&once.key).map(|place| self.keyed.at(place));
        of_key.any(|it| it.once == *once && it.writer != UNSURE)
    }
}

#[cfg(test)]
mod tests;

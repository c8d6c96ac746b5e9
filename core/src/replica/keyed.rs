//! Keyed operations: each counts once, however often and at however many replicas it is asked for.
//!
//! A replica remembers the keys of the operations that it has made or heard of, for as long as its
//! caller wants. A retry is answered from that. If two replicas took an operation before they heard
//! of each other, whoever hears of both withdraws the later one: takes out what that very transaction
//! added, and nothing else. What it cancelled stays cancelled, and its base is one of two equal ones.
//!
//! A withdrawal is an operation of its own, with the stamp of whoever made it, so it travels and
//! merges like a cancel. Several replicas may make the same one. It is made only where the
//! transaction's writer has not been absorbed yet; whoever absorbs a writer that left waits until all
//! have acknowledged its keyed operations, and so knows of all that are to be withdrawn.

mod table;

use super::{Replica, Transaction};
use crate::closed::Closed;
use crate::counter;
use crate::delta::{Entry, KeyedAdd, KeyedOp, Message};
use crate::error::{Error, Limited};
use crate::keys::Handle;
use crate::limits::KEYED_BYTES_MAX;
use crate::once::Once;
use crate::replica::collect::Quorum;
use crate::replica::ops::Draft;
use crate::replica::standing::Forgotten;
use crate::shard::OWN;
use crate::slot::{Stamp, Withdrawal};
use crate::vector::VersionVector;
use crate::wire::{decode_adds, encode_adds};
use crate::writer_id::WriterId;
use alloc::vec::Vec;
use table::{ABSORBED, Instance, UNSURE};

pub(super) use table::Table;

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
        self.place == replica.keyed.end()
    }

    /// From where on a writer has to be told again, as some came that had been missing.
    pub(super) fn low(&self, replica: &Replica, writer: u32) -> u64 {
        let lacked = self.lacking.iter().find(|it| it.0 == writer);
        let came = lacked.filter(|(_, upto)| replica.held_with_keys(writer) > *upto);
        came.map_or(u64::MAX, |(_, upto)| *upto)
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
    /// [`KEYED_BYTES_MAX`]. Nothing is done then.
    pub fn commit_once(mut self, once: Once, changed: &mut Vec<Handle>) -> Result<(), Error> {
        self.replica
            .remember_keyed(self.clock, once, &self.drafts)?;
        self.finish(changed);
        self.replica.made(self.clock);
        Ok(())
    }
}

impl Replica {
    /// What is known of a keyed operation.
    pub fn asked(&self, once: &Once) -> Asked {
        let of_key = || self.keyed.of(&once.key).map(|place| self.keyed.at(place));
        let same = of_key().filter(|it| it.once == *once);
        let maker = |it: &Instance| {
            let writer = self.writers.get(it.writer as usize)?;
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
        let dot = |it: &Instance| Some((*self.writers.get(it.writer as usize)?, it.clock));
        same.filter_map(dot).collect()
    }

    /// All that is remembered, as text, whichever local numbers and places it has.
    #[cfg(feature = "explore")]
    pub(super) fn keyed_text(&self) -> alloc::string::String {
        let id = |number: u32| self.writers.get(number as usize).copied().ok_or(number);
        let Table {
            instances,
            dropped: _,
            places: _,
            of_writer: _,
            due: _,
            told: _,
            lacking,
            withdrawn: _,
        } = &self.keyed;
        let text = |it: &Instance| {
            let adds = (it.adds.clone(), it.withdrawn);
            (it.once, id(it.writer), it.clock, adds)
        };
        let mut instances: Vec<_> = instances.iter().map(text).collect();
        instances.sort_unstable();
        let lacking: alloc::collections::BTreeMap<_, u64> =
            lacking.iter().map(|it| (id(*it.0), *it.1)).collect();
        alloc::format!("{instances:?} {lacking:?}")
    }

    /// How many keyed operations are remembered.
    pub fn keyed_count(&self) -> usize {
        self.keyed.instances.len()
    }

    /// How many keyed operations were ever remembered here: a place in their order.
    pub fn keyed_end(&self) -> u64 {
        self.keyed.end()
    }

    /// How many adds this replica has withdrawn, since it was made; what others withdrew is not counted.
    pub fn withdrawn_count(&self) -> u64 {
        self.keyed.withdrawn
    }

    /// Drops the keyed operations that came before this place, so that a retry of one of them is taken
    /// for new. In a space with members it stops before the first that not all who count have
    /// acknowledged: another may have been made under its key, and is to be withdrawn. Tells whether
    /// all that came before the place are dropped.
    pub fn drop_keyed(&mut self, before: u64) -> bool {
        let before = before.min(self.keyed.end());
        let upto = match self.configuration() {
            Some(_) => self.stable_keyed(before),
            None => before,
        };
        self.keyed.drop_upto(upto);
        upto == before
    }

    /// The place of the first keyed operation that is not stable, or `before`. Of one whose writer is
    /// not told apart any more nothing is to be withdrawn.
    fn stable_keyed(&self, before: u64) -> u64 {
        let quorum = self.quorum();
        let open = |place: &u64| {
            let Instance { writer, clock, .. } = *self.keyed.at(*place);
            writer < UNSURE && !self.is_stable(&quorum, Stamp { writer, clock })
        };
        (self.keyed.dropped..before).find(open).unwrap_or(before)
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
        let changed = drafts.iter().filter(|draft| draft.changed);
        let mut adds: Vec<KeyedAdd> = changed.filter_map(|it| self.keyed_add(clock, it)).collect();
        adds.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let adds = encode_adds(&adds);
        if adds.len() > KEYED_BYTES_MAX {
            return Err(Error::TooLarge {
                what: Limited::Keyed,
                size: adds.len(),
                max: KEYED_BYTES_MAX,
            });
        }
        self.keyed.insert(Instance {
            once,
            writer: OWN,
            clock,
            adds,
            withdrawn: false,
        });
        if self.keeps_journal() {
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
        let before = self.slots(draft.handle);
        let before = counter::find(&before, OWN).ok().map(|at| &before[at]);
        // Else the transaction began a life.
        let before = before.filter(|before| before.born() == own.born());
        Some(KeyedAdd {
            key: self.keys.get(draft.handle)?.into(),
            amount: own.total() - before.map_or(0, |before| before.total()),
            before: before.map_or(0, |before| before.extra().added),
        })
    }

    /// Takes in the keyed operations of a message, whose clocks have not been moved yet.
    pub(super) fn take_keyed(&mut self, message: &Message, forgotten: &Forgotten) {
        for KeyedOp { once, by, adds } in message.keyed.iter() {
            let mut known = (ABSORBED, 0);
            if let Some(by) = by.filter(|by| !forgotten.contains(&(by.writer as usize))) {
                let number = self.number(message.writers[by.writer as usize].writer);
                if by.clock <= self.held_with_keys(number) {
                    continue;
                }
                known = (number, by.clock);
            }
            let place = self.keyed.insert(Instance {
                once: *once,
                writer: known.0,
                clock: known.1,
                adds: encode_adds(adds),
                withdrawn: false,
            });
            self.keyed.told.extend(place);
        }
    }

    /// The place in the order of keyed operations where it stands now.
    pub(super) fn keyed_mark(&self) -> KeyedMark {
        let lacking = self.keyed.lacking.iter();
        KeyedMark {
            place: self.keyed.end(),
            lacking: lacking.map(|it| (*it.0, *it.1)).collect(),
        }
    }

    /// The keyed operations that came since a mark and are newer than `lows`, by local number, as many
    /// as fit in about `budget` bytes, and whether these are all.
    pub(super) fn keyed_since(
        &self,
        mark: &KeyedMark,
        lows: &[u64],
        budget: usize,
    ) -> (KeyedOps, bool) {
        let (ops, next) = self.keyed_from(mark.place, lows, budget);
        (ops, next == self.keyed.end())
    }

    /// The keyed operations from the place `from` on that are newer than `lows`, in the order in which
    /// they came, as many as fit in about `budget` bytes, and the place after them. Those of writers
    /// that are forgotten are told to who has nothing.
    fn keyed_from(&self, from: u64, lows: &[u64], budget: usize) -> (KeyedOps, u64) {
        let mut ops = KeyedOps::default();
        let whole = lows.iter().all(|low| *low == 0);
        let newer = |(writer, (_, last)): (&u32, &(u64, u64))| {
            lows.get(*writer as usize).is_some_and(|low| last > low)
        };
        if !whole && !self.keyed.of_writer.iter().any(newer) {
            return (ops, self.keyed.end());
        }
        let mut bytes = 0;
        for place in from.max(self.keyed.dropped)..self.keyed.end() {
            let instance = self.keyed.at(place);
            let Instance {
                once,
                writer,
                clock,
                ..
            } = *instance;
            let by = match lows.get(writer as usize) {
                Some(low) if clock > *low => Some(Stamp { writer, clock }),
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
        (ops, self.keyed.end())
    }

    /// Tells in a message of which writers keyed operations may be missing.
    pub(super) fn tell_lacking(&self, message: &mut Message) {
        for writer in self.keyed.lacking.keys() {
            let id = &self.writers[*writer as usize];
            if let Ok(at) = message.writers.binary_search_by_key(id, |it| it.writer) {
                message.lacking.push(at as u32);
            }
        }
        message.lacking.sort_unstable();
    }

    /// Notes up to where the keyed operations of a writer are known once this part of a message is
    /// taken in. Only members take keyed operations so that they are known elsewhere.
    pub(super) fn note_keys_of(&mut self, writer: u32, entry: &Entry, lacking: bool) {
        let held = self.clocks[writer as usize];
        let known = &mut self.keyed.lacking;
        if lacking {
            let announced = self.roster.cards[writer as usize].announce.is_some();
            if announced && entry.hi > held {
                known.entry(writer).or_insert(held);
            }
        } else if let Some(upto) = known.get_mut(&writer)
            && entry.lo <= *upto
        {
            *upto = entry.hi.max(*upto);
            if *upto >= held {
                known.remove(&writer);
            }
        }
    }

    /// Whether there may be keyed operations of what is held here that are not known here.
    pub fn lacks_keys(&self) -> bool {
        !self.keyed.lacking.is_empty()
    }

    /// Up to which clock a writer is held with its keyed operations.
    pub(super) fn held_with_keys(&self, writer: u32) -> u64 {
        let held = self.clocks[writer as usize];
        self.keyed
            .lacking
            .get(&writer)
            .map_or(held, |upto| held.min(*upto))
    }

    /// Up to which clock a writer may be acknowledged: its keyed operations are known, or it is over
    /// and they may be gone with it.
    pub(super) fn held_for_good(&self, writer: u32) -> u64 {
        match self.roster.cards[writer as usize].is_over() {
            true => self.clocks[writer as usize],
            false => self.held_with_keys(writer),
        }
    }

    /// What a node is to be asked for: all but what is held here with its keyed operations.
    pub fn vector_with_keys(&self) -> VersionVector {
        let clocks = self.numbers.iter();
        let clocks = clocks.map(|(writer, number)| (writer, self.held_with_keys(number)));
        VersionVector::from_sorted(clocks.filter(|it| it.1 > 0).collect())
    }

    /// Withdraws what was made more than once under one key, as far as that was heard of since this
    /// was last called, and names each add that was withdrawn: its counter, and whose transaction made
    /// it. Tells whether there was any.
    ///
    /// Whoever merges by hand calls this after each merge; [`Sync`](crate::Sync) does so by itself.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`].
    pub fn withdraw(
        &mut self,
        withdrawn: &mut dyn FnMut(Handle, (WriterId, u64)),
    ) -> Result<bool, Error> {
        if self.keyed.due.is_empty() {
            return Ok(false);
        }
        let clock = self.next_clock()?;
        let mut any = false;
        for key in core::mem::take(&mut self.keyed.due) {
            for place in self.duplicates(&key) {
                let instance = self.keyed.at(place);
                let (writer, at) = (instance.writer, instance.clock);
                let adds = decode_adds(&instance.adds);
                self.keyed.at_mut(place).withdrawn = true;
                for add in adds {
                    if let Some(handle) = self.withdraw_add(clock, (writer, at), &add) {
                        withdrawn(handle, (self.writers[writer as usize], at));
                        self.keyed.withdrawn += 1;
                        any = true;
                    }
                }
            }
        }
        if any {
            self.made(clock);
        }
        Ok(any)
    }

    /// Notes that all is withdrawn that is to be: it was before it was stored.
    pub(super) fn drop_due(&mut self) {
        for key in core::mem::take(&mut self.keyed.due) {
            for place in self.duplicates(&key) {
                self.keyed.at_mut(place).withdrawn = true;
            }
        }
    }

    /// The operations that were made under a key, but for the one that counts: the least by writer
    /// and clock, which never change.
    fn duplicates(&self, key: &[u8; 16]) -> Vec<u64> {
        self.duplicates_of(key, &|_| true)
    }

    /// The same, of those that are meant.
    fn duplicates_of(&self, key: &[u8; 16], meant: &dyn Fn(u64) -> bool) -> Vec<u64> {
        let known = |place: &u64| self.keyed.at(*place).writer < UNSURE && meant(*place);
        let mut places: Vec<u64> = self.keyed.of(key).filter(known).collect();
        let rank = |place: &u64| {
            let it = self.keyed.at(*place);
            (it.once, self.writers[it.writer as usize], it.clock)
        };
        places.sort_unstable_by_key(rank);
        let again = |pair: &&[u64]| {
            let [first, later] = [pair[0], pair[1]].map(|place| self.keyed.at(place));
            first.once == later.once && !later.withdrawn
        };
        let pairs = places.windows(2).filter(again);
        pairs.map(|pair| pair[1]).collect()
    }

    /// Notes of the transactions under keys that were told together that all but one of them are
    /// withdrawn: whoever knows of several does that at once, in what it told or earlier.
    pub(super) fn note_withdrawn(&mut self) {
        let told = core::mem::take(&mut self.keyed.told);
        for at in 0..self.keyed.due.len() {
            let key = self.keyed.due[at];
            for place in self.duplicates_of(&key, &|place| told.contains(&place)) {
                self.keyed.at_mut(place).withdrawn = true;
            }
        }
    }

    /// Withdraws what a writer's transaction added to one counter, unless that is done, void, or part
    /// of another writer's total by now.
    fn withdraw_add(
        &mut self,
        clock: u64,
        (writer, at): (u32, u64),
        add: &KeyedAdd,
    ) -> Option<Handle> {
        let handle = self.keys.find(&add.key)?;
        let mut slots = self.slots(handle);
        let found = counter::find(&slots, writer).ok()?;
        let slot = &mut slots[found];
        // Where a life began is forgotten when all know: this may be a later one.
        let unsure = slot.born() == 0 && at <= self.known_to_all(writer);
        let void = at < slot.born() || at <= slot.cut_clock() || slot.row.clock < at || unsure;
        let mut withdrawals = slot.side.withdrawals.iter();
        let done = withdrawals.any(|it| it.clock == at || it.several && it.clock > at);
        if slot.side.moved.is_some() || void || done {
            return None;
        }
        let by = Stamp { writer: OWN, clock };
        let withdrawal = Withdrawal {
            clock: at,
            amount: add.amount,
            before: add.before,
            several: false,
            by,
        };
        slot.side.withdraw(withdrawal, &|_, _| false);
        self.put_slots(handle, slots);
        Some(handle)
    }

    /// Whether everybody who counts has seen a writer's keyed operations, as far as they are
    /// remembered: then whatever else was made under their keys is known here.
    pub(super) fn is_keyed_stable(&self, quorum: &Quorum, writer: u32) -> bool {
        let last = self.keyed.of_writer.get(&writer);
        last.is_none_or(|&(_, clock)| self.is_stable(quorum, Stamp { writer, clock }))
    }

    /// Whether a writer that left is not absorbed yet since not all have seen its keyed operations.
    pub(super) fn waits_for_keyed(&self, quorum: &Quorum, writer: u32) -> bool {
        let card = &self.roster.cards[writer as usize];
        card.bye.is_some() && card.retired.is_none() && !self.is_keyed_stable(quorum, writer)
    }

    /// Up to which clock a writer's part may lack what all have seen to be over.
    fn known_to_all(&self, writer: u32) -> u64 {
        let of = |clocks: &[u64]| clocks.get(writer as usize).copied().unwrap_or(0);
        of(&self.roster.floor).max(of(&self.roster.settled))
    }

    /// Keeps the keyed operations of a writer that is forgotten, but for those of which there is
    /// another: of these one counts, and it need not be the one that is told of for good.
    pub(super) fn forget_keyed(&mut self, writer: u32) {
        self.keyed.lacking.remove(&writer);
        if !self.keyed.of_writer.contains_key(&writer) {
            return;
        }
        for at in 0..self.keyed.instances.len() {
            let Instance {
                once, writer: of, ..
            } = self.keyed.instances[at];
            let others = |it: &Instance| it.once == once && ![writer, UNSURE].contains(&it.writer);
            let mut of_key = self.keyed.of(&once.key).map(|place| self.keyed.at(place));
            let another = of == writer && of_key.any(others);
            drop(of_key);
            if another {
                self.keyed.instances[at].writer = UNSURE;
                self.keyed.uncount(writer);
                self.keyed.count(UNSURE, 0);
            }
        }
        self.keyed.renumber(writer, ABSORBED);
    }

    /// Keeps the keyed operations of all writers, of which it is to be told anew what counts.
    pub(super) fn doubt_keyed(&mut self) {
        let writers: Vec<u32> = self.keyed.of_writer.keys().copied().collect();
        for writer in writers {
            self.keyed.renumber(writer, UNSURE);
        }
        self.keyed.due.clear();
        self.keyed.lacking.clear();
    }

    /// Gives the own keyed operations to the number under which the own writer goes on as another.
    pub(super) fn renumber_own_keyed(&mut self, number: u32) {
        self.keyed.renumber(OWN, number);
    }

    /// Whether it is certain that an operation counts.
    pub(super) fn is_made(&self, once: &Once) -> bool {
        let mut of_key = self.keyed.of(&once.key).map(|place| self.keyed.at(place));
        of_key.any(|it| it.once == *once && it.writer != UNSURE)
    }
}

#[cfg(test)]
mod tests;

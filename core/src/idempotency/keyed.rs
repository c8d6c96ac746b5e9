//! Keyed transactions: what the log stores of one, and how replicas send and receive them.
//!
//! A key travels in the message that has its transaction, and ends where the version vector ends. So a
//! replica knows a writer's keys up to the writer's clock, unless a guest passed the transaction on
//! ([gaps](super::gaps)).

use super::lifetimes::NewLifetimes;
use super::log::IdempotencyLog;
use crate::error::Error;
use crate::idempotency::log::{ABSORBED, UNSURE};
use crate::idempotency::{Asker, Instance, KeyedBounds};
use crate::indexed_state::State;
use crate::membership::Membership;
use crate::membership::admission::Forgotten;
use crate::membership::stability::Quorum;
use crate::message::{KeyedAdd, KeyedOp, Message};
use crate::once::Once;
use crate::optional::{GuestPart, Optional};
use crate::sheet::Sheet;
use crate::state::counter;
use crate::state::operation::Draft;
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use crate::wire::{decode_adds, encode_adds, room_for_keyed};
use crate::writer_id::WriterId;
#[cfg(feature = "budgets")]
use alloc::boxed::Box;
#[cfg(feature = "budgets")]
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Approximate size in bytes of an encoded keyed operation, without its adds.
pub(crate) const OP_BYTES: usize = 30;

/// The log's answer about a keyed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStatus {
    /// No writer has made it, according to this replica.
    New,
    /// It counts already. This writer made it at this clock, if the log still has that.
    Before(Option<(WriterId, u64)>),
    /// Another request was made under its key.
    Reused,
}

/// The key of the mark among a transaction's adds which says that the transaction was made again with less
/// effect. No counter has this key. So a replica that does not know the mark passes it on, and finds nothing
/// to withdraw.
const WEAKER: &str = "\0o";
/// The key of the mark which says that keys were missing where the transaction was made.
const DOUBTFUL: &str = "\0d";

fn mark(key: &str) -> KeyedAdd {
    KeyedAdd {
        key: key.into(),
        amount: 0,
        before: 0,
    }
}

impl Instance {
    /// Whether the transaction was made again, and lacks an effect that it had the first time.
    fn is_weaker(&self) -> bool {
        decode_adds(&self.adds).contains(&mark(WEAKER))
    }

    /// Whether its replica lacked keys when it made the transaction. All may have had another one for the same
    /// request by then, and its writer may have been retired.
    pub(crate) fn is_doubtful(&self) -> bool {
        decode_adds(&self.adds).contains(&mark(DOUBTFUL))
    }
}

/// Keyed operations for a message.
pub(crate) type KeyedOps = GuestPart<Vec<KeyedOp>>;

/// The keyed operations of one writer.
pub(crate) type Made = Vec<Instance>;

/// The keyed operations of each writer, and the clock up to which all of them are known.
pub(crate) type Known = Vec<(WriterId, u64, Made)>;

/// The part of a mark about keyed operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyedMark {
    /// The place after the last one.
    pub(crate) place: u64,
    /// The writers, by local number, with missing keyed operations, and the clock up to which theirs were
    /// known.
    pub(crate) key_gaps: Vec<(u32, u64)>,
}

impl KeyedMark {
    /// Whether no keyed operation has arrived since.
    pub(crate) fn is_last(&self, log: &IdempotencyLog) -> bool {
        self.place == log.end
    }

    /// The clock from which a writer's operations have to be sent again, because missing ones arrived.
    pub(crate) fn low(&self, members: &Membership, state: &State, writer: u32) -> u64 {
        let lacked = self.key_gaps.binary_search_by_key(&writer, |it| it.0);
        let lacked = lacked.ok().map(|at| &self.key_gaps[at]);
        let came = lacked.filter(|(_, upto)| members.clock_with_keys(state, writer) > *upto);
        came.map_or(u64::MAX, |(_, upto)| *upto)
    }

    /// The writers, by local number, with keyed operations that were missing.
    pub(crate) fn writers(&self) -> impl Iterator<Item = u32> {
        self.key_gaps.iter().map(|it| it.0)
    }
}

/// A scan over keyed operations, in the order in which they arrived. It sends each one that is newer than its
/// begin once, even one that arrives late.
#[derive(Clone, Debug)]
pub(crate) struct KeyedScan {
    /// The next place, or `None` if keyed operations are not wanted.
    place: Option<u64>,
    since: Vec<u64>,
}

impl KeyedScan {
    pub(crate) fn new(since: &[u64], wanted: bool) -> KeyedScan {
        KeyedScan {
            place: wanted.then_some(0),
            since: since.to_vec(),
        }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.place.is_some()
    }

    /// The next ones, of about `budget` bytes, and whether there are more. Lowers `lows` to the clocks that
    /// they are newer than.
    pub(crate) fn step(
        &mut self,
        (log, state): (&IdempotencyLog, &State),
        lows: &mut [u64],
        budget: usize,
    ) -> (KeyedOps, bool) {
        let Some(place) = &mut self.place else {
            return (KeyedOps::default(), false);
        };
        self.since.resize(lows.len(), 0);
        let (ops, next) = log.keyed_from(state, *place, &self.since, budget);
        for by in ops.iter().filter_map(|op| op.by) {
            lows[by.writer as usize] = self.since[by.writer as usize];
        }
        *place = next;
        let more = !log.keyed_from(state, next, &self.since, 0).0.is_empty();
        (ops, more)
    }
}

impl IdempotencyLog {
    /// Records that a transaction of this clock was made under a key. It is not visible yet. With an `asker`,
    /// it shares room with other operations of this caller.
    ///
    /// # Errors
    /// [`DecodeError::TooLarge`](crate::DecodeError::TooLarge), and
    /// [`ScopeError::KeyedFull`](crate::ScopeError::KeyedFull) if it shares room and there is none.
    pub(crate) fn remember(
        &mut self,
        state: &State,
        clock: u64,
        (once, asker): (Once, Option<&Asker>),
        drafts: &[Draft],
        [doubtful, weaker]: [bool; 2],
    ) -> Result<(), Error> {
        let changed = drafts.iter().filter(|draft| draft.changed);
        let mut adds: Vec<KeyedAdd> = changed
            .filter_map(|it| self.keyed_add(state, clock, it))
            .collect();
        adds.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let mut encoded = encode_adds(&adds);
        room_for_keyed(encoded.len())?;
        for (key, is_set) in [(WEAKER, weaker), (DOUBTFUL, doubtful)] {
            if is_set {
                let at = adds.partition_point(|add| *add.key < *key);
                adds.insert(at, mark(key));
                let marked = encode_adds(&adds);
                // Peers refuse what is too large.
                if room_for_keyed(marked.len()).is_ok() {
                    encoded = marked;
                }
            }
        }
        if let Some(asker) = asker {
            self.make_room(asker)?;
        }
        let instance = Instance {
            once,
            writer: OWN,
            clock,
            adds: encoded,
            watched: true,
            withdrawn: false,
            sole: false,
            share: 0,
        };
        match asker {
            Some(asker) => self.insert_for(asker, instance),
            None => drop(self.insert(instance)),
        }
        Ok(())
    }

    /// The present place in the order of keyed operations.
    pub(crate) fn keyed_mark(&self, members: &Membership) -> KeyedMark {
        KeyedMark {
            place: self.end,
            key_gaps: members.key_gaps().to_vec(),
        }
    }

    /// The keyed operations that arrived since a mark and are newer than `lows`, by local number. They take
    /// about `budget` bytes. The flag says whether these are all.
    pub(crate) fn keyed_since(
        &self,
        state: &State,
        mark: &KeyedMark,
        lows: &impl Sheet<u64>,
        budget: usize,
    ) -> (KeyedOps, bool) {
        let (ops, next) = self.keyed_from(state, mark.place, lows, budget);
        (ops, next == self.end)
    }

    /// Adds the keyed operations of a message to the log, before the message moves the clocks.
    pub(crate) fn merge_keyed(
        &mut self,
        state: &mut State,
        members: &mut Membership,
        message: &Message,
        forgotten: &Forgotten,
    ) {
        for KeyedOp { once, by, adds } in message.keyed.iter() {
            let mut known = (ABSORBED, 0);
            if let Some(by) = by.filter(|by| !forgotten.contains(&(by.writer as usize))) {
                let number =
                    members.number(state, message.delta.writers[by.writer as usize].writer);
                if by.clock <= members.clock_with_keys(state, number) {
                    continue;
                }
                known = (number, by.clock);
            }
            let watched = known.1 > members.collected_upto(known.0);
            let place = self.insert(Instance {
                once: *once,
                writer: known.0,
                clock: known.1,
                adds: encode_adds(adds),
                watched,
                withdrawn: false,
                sole: false,
                share: 0,
            });
            self.told.extend(place);
        }
    }

    /// Whether a writer's keyed operations, as far as the log has them, are stable. Then this replica has
    /// every other operation under their keys, too.
    pub(crate) fn is_keyed_stable(
        &self,
        members: &Membership,
        quorum: &Quorum,
        writer: u32,
    ) -> bool {
        let last = self.of_writer.get(&writer);
        last.is_none_or(|&(_, clock)| members.is_stable(quorum, Stamp { writer, clock }))
    }

    /// The amounts that a writer's keyed operations added to counters and that a duplicate may still withdraw,
    /// by key. Amounts that they took are left out.
    #[cfg(feature = "budgets")]
    pub(crate) fn uncertain_of(
        &self,
        members: &Membership,
        quorum: &Quorum,
        writer: u32,
    ) -> BTreeMap<Box<str>, i128> {
        let mut uncertain: BTreeMap<Box<str>, i128> = BTreeMap::new();
        if self.is_keyed_stable(members, quorum, writer) {
            return uncertain;
        }
        let open = |it: &&Instance| {
            let clock = it.clock;
            it.writer == writer
                && !it.withdrawn
                && !members.is_stable(quorum, Stamp { writer, clock })
        };
        for instance in self.instances.values().filter(open) {
            let adds = decode_adds(&instance.adds);
            for add in adds.into_iter().filter(|it| it.amount > 0) {
                *uncertain.entry(add.key).or_default() += add.amount;
            }
        }
        uncertain
    }

    /// Whether the log has any keyed operation.
    pub(crate) fn has_keyed(&self) -> bool {
        !self.places.is_empty()
    }

    /// Whether a writer that is over has not been retired yet, because its keyed operations are not stable.
    pub(crate) fn waits_for_keyed(
        &self,
        members: &Membership,
        quorum: &Quorum,
        writer: u32,
    ) -> bool {
        let writer_state = members.writer(writer);
        writer_state.is_over()
            && writer_state.retired.is_none()
            && !self.is_keyed_stable(members, quorum, writer)
    }

    /// Whether an operation certainly counts.
    pub(crate) fn is_made(&self, once: &Once) -> bool {
        let mut of_key = self.of(&once.key).map(|place| self.at(place));
        of_key.any(|it| it.once == *once && it.writer != UNSURE)
    }

    /// Keeps the keyed operations of forgotten writers, which ascend, except those with a duplicate. Only one
    /// duplicate counts, and it need not be the one that stays recorded.
    ///
    /// The others certainly count if no keys are missing here. The successor waited until all members had
    /// acknowledged them, and would have received a duplicate by then.
    pub(crate) fn forget_keyed(&mut self, members: &mut Membership, gone: &[u32]) {
        let is_gone = |writer: u32| gone.binary_search(&writer).is_ok();
        if gone.iter().any(|it| self.of_writer.contains_key(it)) {
            self.detach_keys_of(members, gone);
        }
        members.drop_gaps_of(is_gone);
        self.new_lifetimes.forget(is_gone);
        if let Some((_, asked)) = &mut self.asked {
            asked.retain(|it| !is_gone(it.0));
        }
    }

    /// Keeps the keyed operations of all writers. It is not known any more which of them count.
    pub(crate) fn doubt_keyed(&mut self, members: &mut Membership) {
        let writers: Vec<u32> = self.of_writer.keys().copied().collect();
        self.renumber(&writers, UNSURE);
        self.due.clear();
        members.drop_gaps();
        self.new_lifetimes = NewLifetimes::default();
        self.asked = None;
    }

    /// The keyed operations of each writer, and the clock up to which all of them are known. It is read
    /// before another whole state replaces this one.
    pub(crate) fn known_keyed(&self, state: &State, members: &Membership) -> Known {
        let of = |(writer, number): (WriterId, u32)| {
            let made = self.instances.values().filter(|it| it.writer == number);
            (
                writer,
                members.clock_with_keys(state, number),
                made.cloned().collect(),
            )
        };
        let known = state.numbered().map(of);
        known
            .filter(|(_, _, made): &(_, _, Vec<_>)| !made.is_empty())
            .collect()
    }

    /// Adds the keyed operations of a writer as far as a whole state has what they made. They are known up to
    /// its clock `last`. The source of the state may lack the keys.
    pub(crate) fn claim_keyed(
        &mut self,
        state: &State,
        members: &mut Membership,
        before: WriterId,
        last: u64,
        made: Made,
    ) {
        let number = state.number_of(&before);
        let number = number.filter(|it| members.writer(*it).retired.is_none());
        let (as_writer, upto) = match number {
            Some(number) => (number, state.clock_at(number)),
            None => (ABSORBED, members.forgotten_upto(&before).unwrap_or(0)),
        };
        for it in made.into_iter().filter(|it| it.clock <= upto) {
            self.insert(Instance {
                writer: as_writer,
                watched: false,
                withdrawn: false,
                ..it
            });
        }
        if upto <= last {
            members.close_gap(as_writer);
        }
    }

    /// Whether an operation was made again with less effect, wherever it was made.
    pub(crate) fn is_weaker(&self, once: &Once) -> bool {
        let mut of_key = self.of(&once.key).map(|place| self.at(place));
        let mut same = of_key.by_ref().filter(|it| it.once == *once).peekable();
        same.peek().is_some() && same.all(Instance::is_weaker)
    }

    /// The log's answer about a keyed operation.
    pub(crate) fn asked(&self, state: &State, once: &Once) -> KeyStatus {
        let of_key = || self.of(&once.key).map(|place| self.at(place));
        let same = of_key().filter(|it| it.once == *once);
        let maker = |it: &Instance| {
            let writer = state.ids().get(it.writer as usize)?;
            Some((*writer, it.clock))
        };
        // The one that counts comes first.
        let order = |it: &&Instance| (maker(it).is_none(), it.is_doubtful(), maker(it));
        match same.min_by_key(order) {
            Some(it) => KeyStatus::Before(maker(it)),
            None if of_key().next().is_some() => KeyStatus::Reused,
            None => KeyStatus::New,
        }
    }

    /// The writers that made an operation, with the clocks, according to this replica.
    #[cfg(any(test, feature = "explore"))]
    pub(crate) fn makers(&self, state: &State, once: &Once) -> Vec<(WriterId, u64)> {
        let instances = self.of(&once.key).map(|place| self.at(place));
        let same = instances.filter(|it| it.once == *once);
        let dot = |it: &Instance| Some((*state.ids().get(it.writer as usize)?, it.clock));
        same.filter_map(dot).collect()
    }

    /// The whole log as text, independent of local numbers and places.
    #[cfg(feature = "explore")]
    pub(crate) fn keyed_text(&self, state: &State, members: &Membership) -> alloc::string::String {
        let id = |number: u32| state.ids().get(number as usize).copied().ok_or(number);
        let IdempotencyLog {
            instances,
            end: _,
            shares: _,
            places: _,
            of_writer: _,
            due: _,
            told: _,
            new_lifetimes,
            asked,
            withdrawn: _,
            #[cfg(test)]
                looked_at: _,
        } = self;
        let text = |it: &Instance| {
            let adds = (it.adds.clone(), it.watched, it.withdrawn);
            (it.once, id(it.writer), it.clock, adds)
        };
        let mut instances: Vec<_> = instances.values().map(text).collect();
        instances.sort_unstable();
        let key_gaps: alloc::collections::BTreeMap<_, u64> = members
            .key_gaps()
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
        let new_lifetimes = new_lifetimes.text(id);
        alloc::format!("{instances:?} {key_gaps:?} {new_lifetimes} {asked:?}")
    }

    /// Number of keyed operations in the log.
    pub(crate) fn keyed_count(&self) -> usize {
        self.places.len()
    }

    /// Number of keyed operations that were ever added here: a place in their order.
    pub(crate) fn keyed_end(&self) -> u64 {
        self.end
    }

    /// Lowers the room for keyed operations, for tests that fill it.
    #[doc(hidden)]
    pub(crate) fn bound_keyed(&mut self, bounds: KeyedBounds) {
        self.shares.bounds = bounds;
    }

    /// Drops the keyed operations before this place, so that a retry of one of them counts as new. In a space
    /// with members, it stops before the first one that is not stable. Another operation may exist under this
    /// key, and would have to be withdrawn. Returns whether all operations before the place are dropped.
    pub(crate) fn drop_keyed(&mut self, state: &State, members: &Membership, before: u64) -> bool {
        let before = before.min(self.end);
        let upto = match members.configuration() {
            Some(_) => self.stable_keyed(state, members, before),
            None => before,
        };
        self.drop_upto(upto);
        upto == before
    }

    /// The place of the first keyed operation that is not stable, or `before`. An operation whose writer is
    /// no longer known can't be withdrawn, so it does not count here.
    pub(crate) fn stable_keyed(&self, state: &State, members: &Membership, before: u64) -> u64 {
        let quorum = members.quorum(state);
        let open = |(_, it): &(&u64, &Instance)| {
            let Instance { writer, clock, .. } = **it;
            writer < UNSURE && !members.is_stable(&quorum, Stamp { writer, clock })
        };
        let mut older = self.instances.range(..before);
        older.find(open).map_or(before, |it| *it.0)
    }

    /// The amount that a transaction adds to a counter, if any of its adds survives it.
    pub(crate) fn keyed_add(&self, state: &State, clock: u64, draft: &Draft) -> Option<KeyedAdd> {
        let own = counter::find(&draft.slots, OWN).ok()?;
        let own = &draft.slots[own];
        if own.extra().added != clock {
            return None;
        }
        let before = state.slots(draft.key_id);
        let before = counter::find(&before, OWN).ok().map(|at| &before[at]);
        // Otherwise the transaction began a lifetime.
        let before = before.filter(|before| before.began() == own.began());
        Some(KeyedAdd {
            key: state.keys().get(draft.key_id)?.into(),
            amount: own.total() - before.map_or(0, |before| before.total()),
            before: before.map_or(0, |before| before.extra().added),
        })
    }

    /// The keyed operations from the place `from` on that are newer than `lows`, in the order in which they
    /// arrived. They take about `budget` bytes. Also returns the place after them. Operations of forgotten
    /// writers are sent only to a replica that has nothing.
    pub(crate) fn keyed_from(
        &self,
        state: &State,
        from: u64,
        lows: &impl Sheet<u64>,
        budget: usize,
    ) -> (KeyedOps, u64) {
        let mut ops = KeyedOps::default();
        if from >= self.end {
            return (ops, self.end);
        }
        let writers = lows.writers(state.clocks().len());
        let low = |writer: u32| (writer < writers).then(|| lows.at(writer));
        let whole = (0..writers).all(|writer| lows.at(writer) == 0);
        let newer =
            |(writer, (_, last)): (&u32, &(u64, u64))| low(*writer).is_some_and(|low| *last > low);
        if !whole && !self.of_writer.iter().any(newer) {
            return (ops, self.end);
        }
        let mut bytes = 0;
        for (&place, instance) in self.instances.range(from..) {
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
            ops.update(|it| it.push(KeyedOp { once, by, adds }));
        }
        (ops, self.end)
    }

    /// Keeps the keyed operations of these writers, which ascend, under no writer. It looks at the whole log
    /// once, however many writers there are.
    pub(crate) fn detach_keys_of(&mut self, members: &Membership, gone: &[u32]) {
        #[cfg(test)]
        (self.looked_at += self.instances.len());
        let is_gone = |it: &(&u64, &Instance)| gone.binary_search(&it.1.writer).is_ok();
        let instances = self.instances.iter().filter(is_gone);
        let all: Vec<(u64, u32, Once)> = instances
            .map(|(place, it)| (*place, it.writer, it.once))
            .collect();
        for (place, writer, once) in all {
            let others = |it: &Instance| it.once == once && ![writer, UNSURE].contains(&it.writer);
            let mut of_key = self.of(&once.key).map(|place| self.at(place));
            let another = of_key.any(others);
            drop(of_key);
            let mut key_gaps = members.key_gaps().iter();
            let sole = key_gaps.all(|it| it.0 == writer);
            let Some(instance) = self.at_mut(place) else {
                continue;
            };
            match another {
                true => {
                    instance.writer = UNSURE;
                    self.uncount(writer);
                    self.count(UNSURE, 0);
                }
                false => instance.sole = sole,
            }
        }
        self.renumber(gone, ABSORBED);
    }

    /// Gives the own keyed operations to the number that the present writer gets when this replica goes on as
    /// another one. In an open space, nothing else is recorded about them.
    pub(crate) fn renumber_own_keyed(&mut self, number: u32) {
        self.renumber(&[OWN], number);
    }
}

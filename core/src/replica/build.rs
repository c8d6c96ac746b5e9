//! Messages out of a replica: a [delta interval](crate::state::build), with membership records and keys.

mod since;

use super::Replica;
use crate::idempotency::{KeyedMark, KeyedOps, KeyedScan};
use crate::message::records::{MembershipRecord, Statement};
use crate::message::{KeyedOp, Message};
use crate::optional::{GUESTS, GuestPart, MEMBERS, Optional};
use crate::rejoin::OfEarlier;
use crate::sheet::Sheet;
use crate::sort::sort_by_key;
use crate::state::build::{Cursor, END, Selection};
use crate::state::changes::StateMark;
use crate::state::delta::Entry;
use crate::state::page::OWN;
use crate::state::vector::VersionVector;
use crate::wire::Encode;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A place in a replica's history of changes: see [`Replica::since`].
#[derive(Clone, Debug, Default)]
pub struct Mark {
    pub(super) state: StateMark,
    /// How many writers had been forgotten.
    pub(super) remembered: u64,
    /// The own clock up to which peers may have received transactions.
    pub(super) told: u64,
    /// The state of the records of earlier writers, as one number.
    pub(super) earlier: u64,
    /// Whether the own writer was stored as one of a start that has not announced itself.
    pub(super) early: bool,
    pub(super) keyed: KeyedMark,
}

/// Fresh local changes. It is taken apart at once: a box would only add to the download.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Push {
    Nothing,
    Message(Message),
    /// More than a push may carry.
    TooLarge,
}

/// Selects the membership records that go into a message.
struct Said<'a, L> {
    /// Records newer than this are selected, by local number.
    lows: &'a L,
    /// The epoch from which on records may be newer than that.
    changed: u64,
}

/// The parts of the last chunk of a transfer, beside its counters.
struct LastChunk<'a> {
    /// The vector that the transfer is for.
    since: &'a VersionVector,
    /// The clocks beyond which the transfer has records, by local number.
    lows: &'a Vec<u64>,
    /// Whether the transfer has some writers only.
    only: bool,
    /// The keyed operations of this chunk.
    ops: KeyedOps,
    /// Whether the receiver stores keyed operations.
    wanted: bool,
}

impl Replica {
    /// Everything that this replica has beyond `since`. From [`VersionVector::default`], this is the full
    /// state.
    pub fn delta(&self, since: &VersionVector) -> Message {
        let lows = self.membership.lows(&self.state, since);
        let mut message = self.build_all(&lows, &lows);
        self.membership.add_horizon(&self.state, &mut message);
        if self.membership.configuration().is_some() {
            self.add_keyed(&mut message, &KeyedMark::default(), &lows, usize::MAX);
        }
        message
    }

    /// Everything that a store keeps of this replica. It replaces all messages before it.
    pub fn snapshot(&self) -> Message {
        let lows = alloc::vec![0; self.state.clocks().len()];
        let mut message = self.build_all(&lows, &lows);
        self.membership.add_horizon(&self.state, &mut message);
        self.add_keyed(&mut message, &KeyedMark::default(), &lows, usize::MAX);
        self.add_stored_records(&mut message);
        message
    }

    /// One encoding for one state, however the state came about: the full state as a message. It leaves out
    /// this replica's local records. It also leaves out keyed operations, because each replica stores as many
    /// as it can.
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let mut state = self.delta(&VersionVector::default());
        state
            .records
            .update(|it| it.retain(|record| !record.is_local()));
        state.keyed = GuestPart::default();
        state.encode()
    }

    /// Adds the records that only a store keeps to a whole state.
    pub(super) fn add_stored_records(&self, message: &mut Message) {
        if GUESTS {
            message.returns.set(self.membership.remembered(u64::MAX));
            message.gaps = self.membership.memory_gaps();
            let earlier = self
                .rejoin
                .to_store(&self.state, &self.membership, 0, OfEarlier::All);
            message.earlier.set(earlier);
        }
    }

    /// The next chunk, of about `budget` bytes, of everything newer than `lows`, from `cursor` on. Also
    /// returns the cursor after it, or `None` after the last chunk.
    ///
    /// After all pages, it adds keyed operations from the place of `keyed` on, and moves this place. They are
    /// those newer than the clocks that `keyed` began with.
    ///
    /// The last chunk has the table of all writers, from `since` up to now. The table begins lower if the
    /// chunk has older shards, because `since` may have been ahead of this replica when the transfer began.
    /// Other chunks only name the writers whose shards they have. If `only` is set, the message has some
    /// writers only, and builds on everything here of the others.
    pub(super) fn chunk(
        &self,
        since: &VersionVector,
        (lows, only): (&Vec<u64>, bool),
        cursor: Cursor,
        keyed: &mut KeyedScan,
        budget: usize,
    ) -> (Message, Option<Cursor>) {
        let mut selection = Selection {
            from: cursor,
            ..Selection::all(lows)
        };
        let mut picked = self.state.select(&selection, budget);
        selection.to = picked.stopped;
        let mut ops = KeyedOps::default();
        let mut more = false;
        if picked.stopped == END {
            let rest = budget.saturating_sub(picked.bytes);
            (ops, more) = keyed.step((&self.idempotency, &self.state), &mut picked.lows, rest);
        }
        if picked.stopped == END && !more {
            let last = LastChunk {
                since,
                lows,
                only,
                ops,
                wanted: keyed.is_wanted(),
            };
            return (self.last_chunk(&selection, picked.key_ids, last), None);
        }
        let mut message = self.assemble(&selection, None, picked.key_ids, &picked.lows);
        if only {
            message = self.build_on(message, lows, &self.built_on(since, lows));
        }
        self.put_keyed(&mut message, ops);
        (message, Some(picked.stopped))
    }

    /// The last chunk of a transfer, with these counters.
    #[inline(always)]
    fn last_chunk(
        &self,
        selection: &Selection<'_, Vec<u64>>,
        key_ids: Vec<u32>,
        last: LastChunk<'_>,
    ) -> Message {
        let base = self.base_of(&last);
        if last.only {
            return self.last_of_some(selection, key_ids, &last, base);
        }
        // All records, not only those that are new since this scan began.
        let said = Said {
            lows: &base,
            changed: 0,
        };
        let mut message = self.assemble(selection, Some(said), key_ids, &base);
        self.membership.add_horizon(&self.state, &mut message);
        self.put_keyed(&mut message, last.ops);
        if message.is_closed() && !last.wanted {
            message.without_keys = true;
            message.key_gaps = GuestPart::default();
        }
        message
    }

    /// The low clocks of the table in a last chunk. They are lower than `since` where the transfer has older
    /// records.
    #[inline(always)]
    fn base_of(&self, last: &LastChunk<'_>) -> Vec<u64> {
        let mut base = match last.only {
            true => self.part_since(last.since, last.lows),
            false => self.membership.lows(&self.state, last.since),
        };
        for (base, low) in base.iter_mut().zip(last.lows) {
            *base = (*low).min(*base);
        }
        // A keyed operation that arrived late may be older than that.
        for by in last.ops.iter().filter_map(|op| op.by) {
            let base = &mut base[by.writer as usize];
            *base = (by.clock - 1).min(*base);
        }
        base
    }

    /// The last chunk of a message that has some writers only, from the low clocks `base`.
    #[inline(always)]
    fn last_of_some(
        &self,
        selection: &Selection<'_, Vec<u64>>,
        key_ids: Vec<u32>,
        last: &LastChunk<'_>,
        mut base: Vec<u64>,
    ) -> Message {
        let lows = base.clone();
        let seen = self.built_on(last.since, last.lows);
        for (base, seen) in base.iter_mut().zip(&seen) {
            *base = (*seen).min(*base);
        }
        let said = Said {
            lows: &lows,
            changed: 0,
        };
        let message = self.assemble(selection, Some(said), key_ids, &base);
        self.build_on(message, last.lows, &seen)
    }

    /// The version vector by local number.
    pub(super) fn clocks(&self) -> &[u64] {
        self.state.clocks()
    }

    /// Adds keyed operations to a message whose table names their writers.
    fn put_keyed(&self, message: &mut Message, mut ops: KeyedOps) {
        if !MEMBERS {
            return;
        }
        let Some(named) = ops.get_mut() else {
            return;
        };
        for by in named.iter_mut().filter_map(|op| op.by.as_mut()) {
            let id = &self.state.id(by.writer);
            let at = message
                .delta
                .writers
                .binary_search_by_key(id, |it| it.writer);
            by.writer = at.map_or(u32::MAX, |at| at as u32);
        }
        named.retain(|op| op.by.is_none_or(|by| by.writer != u32::MAX));
        named.sort_unstable_by_key(KeyedOp::place);
        // Only the key is left of several operations whose writers were retired.
        named.dedup_by_key(|op| op.place());
        message.keyed = ops;
    }

    /// Adds the keyed operations to a message that arrived since a mark and are newer than `lows`. Returns
    /// false, with some left out, if they take more than `budget` bytes.
    fn add_keyed(
        &self,
        message: &mut Message,
        since: &KeyedMark,
        lows: &impl Sheet<u64>,
        budget: usize,
    ) -> bool {
        let (ops, all) = self
            .idempotency
            .keyed_since(&self.state, since, lows, budget);
        self.put_keyed(message, ops);
        all
    }

    /// Everything newer than `lows`, with `base` as in [`assemble`](Replica::assemble).
    fn build_all(&self, lows: &Vec<u64>, base: &Vec<u64>) -> Message {
        let selection = Selection::all(lows);
        let picked = self.state.select(&selection, usize::MAX);
        let said = Said { lows, changed: 0 };
        self.assemble(&selection, Some(said), picked.key_ids, base)
    }

    /// Puts the selected records of these counters into wire order, and adds membership records. `base` has
    /// the low clocks of the message's writers.
    fn assemble<L: Sheet<u64>>(
        &self,
        selection: &Selection<'_, L>,
        said: Option<Said<'_, L>>,
        mut key_ids: Vec<u32>,
        base: &L::Like<u64>,
    ) -> Message {
        let mut message = Message::default();
        let mut named = self
            .state
            .gather(selection, &mut key_ids, &mut message.delta);
        // Before the space has members, a message has no membership records, whatever peers have sent.
        let closed = GUESTS && self.membership.configuration().is_some();
        let said = said.filter(|_| closed);
        let records = said.map(|said| self.selected_records(&said, &mut named));
        // An admitted writer may have made nothing yet.
        let taken_in = |number: u32| closed && self.membership.writer(number).intro.is_some();
        let table = (base, &named);
        let index = self
            .state
            .assemble(selection, &key_ids, &mut message.delta, table, &taken_in);
        if GUESTS {
            self.put_records(&mut message, records.unwrap_or_default(), closed, &index);
        }
        message
    }

    /// The selected membership records. Enters the writers that they name into `named`, with low clocks.
    #[inline(always)]
    fn selected_records<L: Sheet<u64>>(
        &self,
        said: &Said<'_, L>,
        named: &mut L::Like<u64>,
    ) -> Vec<MembershipRecord> {
        let records = self.membership.records_since(said.changed, said.lows);
        for record in &records {
            let by = record.stamp().writer;
            named.set(by, said.lows.at(by));
            record.clone().renumber(|number| {
                let held = self.state.clock_at(number);
                named.set(number, held.min(named.at(number)));
                number
            });
        }
        records
    }

    /// Whether an entry of a message is about an earlier writer that no member has admitted, as far as is known
    /// here. A receiver can't tell such a writer from one that it has forgotten, so the message says it: it would
    /// take the rest, and later lack all records beside that writer's rows.
    fn is_unplaced(&self, entry: &Entry) -> bool {
        let number = self.state.number_of(&entry.writer);
        entry.lo == 0 && entry.hi > 0 && number != Some(OWN) && !self.membership.is_placed(number)
    }

    /// Puts membership records into a message, whose table has each writer at the place that `index` says.
    #[inline(always)]
    fn put_records(
        &self,
        message: &mut Message,
        mut records: Vec<MembershipRecord>,
        closed: bool,
        index: &impl Sheet<u32>,
    ) {
        for record in &mut records {
            record.renumber(|number| index.at(number));
        }
        if MEMBERS && closed && self.membership.is_early() {
            let named = message.delta.writers.iter().zip(0u32..);
            let strange = named.filter(|(entry, _)| self.is_unplaced(entry));
            records.extend(strange.map(|(_, writer)| MembershipRecord {
                writer,
                statement: Statement::Base(Box::default(), false),
            }));
        }
        sort_by_key(&mut records, MembershipRecord::place);
        message.records.set(records);
        message.closed = closed;
        message.without_keys = closed && !MEMBERS;
        if closed {
            self.membership.add_key_gaps(&self.state, message);
        }
    }
}

#[cfg(test)]
mod tests;

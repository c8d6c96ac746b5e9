//! Merge: the only way in which another replica's shards get in.

use super::quota::Accounts;
use super::{QuotaHooks, Replica};
use crate::MEMBERS;
use crate::error::{Error, Rule, detail};
use crate::layers::Quota;
use crate::membership::admission::Forgotten;
use crate::message::Message;
use crate::sort::sort_by;
use crate::state::counter;
use crate::state::delta::Entry;
use crate::state::join::{Found, Judged};
use crate::state::keys::KeyId;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// What a merge did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// How many shards and cuts were installed: those newer than what was held.
    pub shards: usize,
    /// Whether the version vector grew.
    pub new: bool,
    /// Whether the message took the place of all that was held: nobody had waited for this replica,
    /// and things that it held had been collected.
    pub replaced: bool,
}

impl Replica {
    /// Merges a message: for each counter and writer the shard with the greater clock stays.
    ///
    /// Merging is commutative, associative and idempotent, and the whole message becomes visible
    /// at once. Shards of equal clock and different content, which no correct writer makes, are
    /// reported as a [`Fault`](crate::forks::Fault) and the greater total stays.
    ///
    /// # Errors
    /// [`Error::NotCovered`] if something that the message builds on is missing here,
    /// [`Error::OwnClockAhead`], [`Error::WritersFull`] where peers bring too many
    /// (see [`limits`](crate::limits)), [`Error::CountersFull`]. Nothing is changed then.
    pub fn merge(&mut self, message: &Message) -> Result<Merged, Error> {
        self.merge_with(message, &mut |_| ())
    }

    /// Merges a message, and names each counter that changed.
    ///
    /// # Errors
    /// As [`merge`](Replica::merge).
    pub fn merge_with(
        &mut self,
        message: &Message,
        changed: &mut dyn FnMut(KeyId),
    ) -> Result<Merged, Error> {
        self.merge_live(message, None, changed)
    }

    /// Merges a message that came in a session of the writer `live` itself, which may be new.
    ///
    /// # Errors
    /// As [`merge`](Replica::merge).
    pub fn merge_live(
        &mut self,
        message: &Message,
        live: Option<WriterId>,
        changed: &mut dyn FnMut(KeyId),
    ) -> Result<Merged, Error> {
        self.merge_staged(&[], message, live, changed)
    }

    /// Merges a transfer, all of it at once: the chunks that came before the last one, encoded,
    /// and the last one.
    pub(crate) fn merge_staged(
        &mut self,
        staged: &[Vec<u8>],
        last: &Message,
        live: Option<WriterId>,
        changed: &mut dyn FnMut(KeyId),
    ) -> Result<Merged, Error> {
        self.membership.check(&self.state, last, live)?;
        // What the last chunk's table does not cover must not become visible.
        let covered = |entry: &Entry| {
            let at = last
                .delta
                .writers
                .binary_search_by_key(&entry.writer, |e| e.writer);
            at.is_ok_and(|at| entry.hi <= last.delta.writers[at].hi)
        };
        let mut key_bytes = 0;
        for bytes in staged {
            let chunk = Message::decode(bytes)?;
            key_bytes += self.state.keys.new_bytes(&chunk.delta.keys);
            if !chunk.delta.writers.iter().all(covered) {
                let rule = Rule::ChunkCovered;
                return Err(Error::Malformed { rule: detail(rule) });
            }
        }
        self.state.keys.room_for(key_bytes)?;
        let newcomer = self.membership.newcomer(&self.state, last, live)?;
        let new = self.membership.news(&self.state, last);
        let open = self.membership.configuration().is_none();
        let replaced = self.make_way(last, new, changed)?;
        let mut found = Found::new(self.state.numbers.len() == 1, changed);
        let forgotten = self.membership.forgotten(&self.state, last, live);
        let mut ids: Vec<WriterId> = Vec::new();
        if MEMBERS {
            let id = |at: &usize| last.delta.writers[*at].writer;
            ids = forgotten.iter().map(id).collect();
        }
        let mut accounts = Accounts::default();
        for bytes in staged {
            let chunk = Message::decode(bytes)?;
            let mut gone_here = Forgotten::default();
            if MEMBERS {
                let writers = chunk.delta.writers.iter().enumerate();
                let gone = writers.filter(|(_, entry)| ids.contains(&entry.writer));
                *gone_here = gone.map(|(at, _)| at).collect();
            }
            self.install(&chunk, &gone_here, &mut found)?;
            self.idempotency
                .take_keyed(&mut self.state, &mut self.membership, &chunk, &gone_here);
            Quota::merged(&self.state, &chunk, &mut accounts);
        }
        self.install(last, &forgotten, &mut found)?;
        let shards = self.conclude(last, &forgotten, found);
        Quota::merged(&self.state, last, &mut accounts);
        Quota::report(&self.state, &mut self.forks, accounts);
        self.membership
            .greet(&mut self.state, last, live, newcomer)?;
        if MEMBERS && self.membership.configuration().is_some() {
            self.membership
                .take_memory(&self.state, last, open || replaced);
        }
        Ok(Merged {
            shards,
            new,
            replaced,
        })
    }

    /// Whether the message holds anything that is not held here.
    pub(crate) fn news(&self, message: &Message) -> bool {
        self.membership.news(&self.state, message)
    }

    pub(super) fn clock_of(&self, entry: &Entry) -> u64 {
        self.state.clock_of(entry)
    }

    /// Joins the message's shards without moving the version vector: visible to nobody who reads
    /// only after [`conclude`](Replica::conclude), which must follow before anything else.
    pub(super) fn install(
        &mut self,
        message: &Message,
        forgotten: &Forgotten,
        found: &mut Found<'_>,
    ) -> Result<(), Error> {
        let judged = Judged {
            collects: self.membership.configuration().is_some(),
            forgotten,
        };
        self.state.install(&message.delta, judged, found)?;
        self.membership.fit(self.state.writers.len());
        Ok(())
    }

    /// Ends what [`install`](Replica::install) began: takes in what is said of writers, moves the
    /// version vector up to the message's `hi`, and tells how much was installed.
    pub(super) fn conclude(
        &mut self,
        message: &Message,
        forgotten: &Forgotten,
        found: Found<'_>,
    ) -> usize {
        let Found {
            installed,
            forks,
            fork_count,
            mut odd,
            fresh,
            changed,
        } = found;
        self.idempotency
            .take_keyed(&mut self.state, &mut self.membership, message, forgotten);
        self.idempotency.note_withdrawn(&self.state);
        if MEMBERS {
            let retired = self.take_facts(message, forgotten);
            self.membership.drop_unmoved(&mut self.state, &retired);
            self.membership.establish();
        }
        sort_by(&mut odd, &|a, b| a.cmp(&b));
        odd.dedup();
        for handle in &odd {
            let handle = KeyId(*handle);
            let mut slots = self.state.slots(handle);
            counter::normalize(&mut slots);
            self.put_slots(handle, slots);
            changed(handle);
        }
        self.forks.fault_count += fork_count;
        for fork in forks.iter() {
            self.forks.report(&mut self.state, *fork);
        }
        for (at, entry) in message.delta.writers.iter().enumerate() {
            if MEMBERS && forgotten.contains(&at) {
                continue;
            }
            let number = self.membership.number(&mut self.state, entry.writer) as usize;
            if message.is_closed() {
                let lacking = message.keyless || message.lacking.contains(&(at as u32));
                self.membership
                    .note_keys_of(&self.state, number as u32, entry, lacking);
            }
            if entry.hi > self.state.clocks[number] {
                if MEMBERS && self.state.merged_at[number] < self.clock() {
                    self.state.seen_at_last[number] = self.state.clocks[number];
                }
                self.state.clocks[number] = entry.hi;
                self.state.note_moved(number as u32);
                self.state.merged_at[number] = self.clock();
            }
        }
        if MEMBERS && fresh && message.is_closed() {
            self.take_floor(message, forgotten);
            self.state.began = self.state.epoch;
        }
        installed
    }
}

#[cfg(test)]
mod tests;

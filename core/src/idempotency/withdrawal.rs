//! The search for duplicates, and their withdrawal: [the rule and why it is exact](super#withdrawal).

use super::log::IdempotencyLog;
use super::log::{ABSORBED, UNSURE};
use crate::error::Error;
use crate::indexed_state::State;
use crate::membership::Membership;
use crate::message::KeyedAdd;
use crate::once::Once;
use crate::sort::{sort, sort_by_key};
use crate::state::counter;
use crate::state::keys::KeyId;
use crate::state::page::OWN;
use crate::state::slot::{Slot, Stamp, Withdrawal};
use crate::wire::decode_adds;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

impl IdempotencyLog {
    /// Records what was collected of one counter: where slots began another lifetime, and where they ended.
    pub(crate) fn note_new_lifetimes(&mut self, key: &str, before: &[Slot], slots: &[Slot]) {
        for old in before {
            let writer = old.writer();
            let new = counter::find(slots, writer).ok().map(|at| &slots[at]);
            let upto = match new {
                Some(new) if new.began() < old.began() => old.began(),
                Some(_) => continue,
                None => old.row.clock + 1,
            };
            if self.of_writer.contains_key(&writer) {
                self.new_lifetimes.note(writer, key, upto);
            }
        }
    }

    /// Records that the later history of some slots is unknown: of those to which keyed operations added, as
    /// far as it may have been collected before this state arrived here.
    pub(crate) fn note_unwatched(&mut self, members: &Membership) {
        for instance in self.instances.values_mut() {
            if instance.clock <= members.collected_upto(instance.writer) {
                instance.watched = false;
            }
        }
    }

    /// Records that these transactions were withdrawn, before their withdrawals can't be told apart any more.
    pub(crate) fn note_joined(&mut self, mut joined: Vec<(u32, u64)>) {
        if joined.is_empty() {
            return;
        }
        sort(&mut joined);
        for instance in self.instances.values_mut() {
            let of = (instance.writer, instance.clock);
            instance.withdrawn |= joined.binary_search(&of).is_ok();
        }
    }

    /// Withdraws duplicates under one key that became known since the last call. Calls `withdrawn` with each
    /// withdrawn add: its counter, and the writer and clock of its transaction. Returns whether there was
    /// any.
    ///
    /// A program that merges by hand calls this after each merge. [`SyncMachine`](crate::sync::SyncMachine)
    /// calls it by itself.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted).
    pub(crate) fn withdraw(
        &mut self,
        state: &mut State,
        members: &mut Membership,
        withdrawn: &mut dyn FnMut(KeyId, (WriterId, u64)),
    ) -> Result<bool, Error> {
        if self.due.is_empty() {
            return Ok(false);
        }
        let clock = members.next_clock(state)?;
        let mut any = false;
        for key in core::mem::take(&mut self.due) {
            for place in self.duplicates(state, &key) {
                let instance = self.at(place);
                let (writer, at) = (instance.writer, instance.clock);
                let watched = instance.watched;
                let uncollected = at > members.collected_upto(writer);
                let adds = decode_adds(&instance.adds);
                self.mark_withdrawn(place);
                for add in adds {
                    let began = self.new_lifetimes.of(writer, &add.key);
                    let sure = watched && at >= began || uncollected;
                    if let Some(key_id) = self.withdraw_add(state, clock, (writer, at), &add, sure)
                    {
                        withdrawn(key_id, (state.id(writer), at));
                        self.withdrawn += 1;
                        any = true;
                    }
                }
            }
        }
        if any {
            members.made(state, clock);
        }
        Ok(any)
    }

    /// Records that each duplicate is withdrawn: this was done before the state was stored.
    pub(crate) fn drop_due(&mut self, state: &State) {
        for key in core::mem::take(&mut self.due) {
            for place in self.duplicates(state, &key) {
                self.mark_withdrawn(place);
            }
        }
    }

    /// Records that all duplicates but one in a message are withdrawn. A replica that has several under one
    /// key withdraws them at once, in this message or an earlier one.
    pub(crate) fn note_withdrawn(&mut self, state: &State) {
        let told = core::mem::take(&mut self.told);
        for at in 0..self.due.len() {
            let key = self.due[at];
            for place in self.duplicates_of(state, &key, &|place| told.contains(&place), &[]) {
                self.mark_withdrawn(place);
            }
        }
    }

    /// The duplicates under a key, without the one that counts. This is the least by writer and clock of those that
    /// are not doubtful, or else of all. None of that ever changes. Or it is one of a forgotten writer that certainly
    /// counts.
    pub(crate) fn duplicates(&self, state: &State, key: &[u8; 16]) -> Vec<u64> {
        let of_key = self.of(key).map(|place| self.at(place));
        let sole = of_key.filter(|it| it.sole && it.writer == ABSORBED);
        let sole: Vec<Once> = sole.map(|it| it.once).collect();
        self.duplicates_of(state, key, &|_| true, &sole)
    }

    /// The same for the places that `meant` selects. All operations for the requests in `sole` are
    /// duplicates.
    pub(crate) fn duplicates_of(
        &self,
        state: &State,
        key: &[u8; 16],
        meant: &dyn Fn(u64) -> bool,
        sole: &[Once],
    ) -> Vec<u64> {
        let known = |place: &u64| self.at(*place).writer < UNSURE && meant(*place);
        let mut places: Vec<u64> = self.of(key).filter(known).collect();
        let rank = |place: &u64| {
            let it = self.at(*place);
            (it.once, it.is_doubtful(), state.id(it.writer), it.clock)
        };
        sort_by_key(&mut places, rank);
        let mut before = None;
        places.retain(|place| {
            let it = self.at(*place);
            let again = before.replace(it.once) == Some(it.once) || sole.contains(&it.once);
            again && !it.withdrawn
        });
        places
    }

    /// Withdraws the amount that a writer's transaction added to one counter. It does nothing if this is
    /// done, void, or part of another writer's total by now. It is void if the counter's slot is in a later
    /// lifetime. `sure` tells whether this replica knows that when the begin of the lifetime is stable.
    pub(crate) fn withdraw_add(
        &mut self,
        state: &mut State,
        clock: u64,
        (writer, at): (u32, u64),
        add: &KeyedAdd,
        sure: bool,
    ) -> Option<KeyId> {
        let key_id = state.keys().find(&add.key)?;
        let withdrawal = Withdrawal {
            clock: at,
            amount: add.amount,
            before: add.before,
            several: false,
            by: Stamp { writer: OWN, clock },
        };
        let done = state.withdraw(key_id, writer, withdrawal, sure);
        done.then_some(key_id)
    }

    /// How many adds this replica has withdrawn since it was made. Withdrawals of other replicas are not
    /// counted.
    pub(crate) fn withdrawn_count(&self) -> u64 {
        self.withdrawn
    }
}

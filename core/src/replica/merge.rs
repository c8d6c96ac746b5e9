//! Merge: the only way in which another replica's shards get in.
//!
//! A message is rejected whole or merged whole. `Replica::merge_staged` takes these steps, in this order:
//!
//! 1. [`Membership::check`] refuses a message that builds on something missing here, or whose sender must not
//!    say it.
//! 2. `check_chunks` refuses chunks that the last one does not cover, or whose keys have no room.
//! 3. [`Membership::newcomer`] finds the writer that is to be admitted, or refuses it.
//! 4. `make_way` drops what is held here, if a whole state takes its place.
//! 5. `install` joins the shards of each chunk and of the last one ([`State::install`]). No reader sees them
//!    yet, because the version vector has not moved.
//! 6. `conclude` makes all of it visible:
//!    1. [`IdempotencyLog::merge_keyed`] remembers the operations under keys, and marks those that were
//!       withdrawn.
//!    2. `merge_records` merges the membership records.
//!    3. [`State::normalize`] brings counters with more than rows into their normal form.
//!    4. [`ForkLog::report_all`] keeps the evidence of forks.
//!    5. [`Membership::advance`] moves the version vector.
//!    6. [`Membership::apply_horizon`] takes over the GC horizon of a whole state, where it is the first one
//!       here.
//! 7. [`Membership::admit_sender`] admits the newcomer, and notes what the sender has seen.
//! 8. [`Membership::merge_memory`] remembers which writers were forgotten elsewhere.
//!
//! [`Membership::check`]: crate::membership::Membership::check
//! [`Membership::newcomer`]: crate::membership::Membership::newcomer
//! [`Membership::advance`]: crate::membership::Membership::advance
//! [`Membership::apply_horizon`]: crate::membership::Membership::apply_horizon
//! [`Membership::admit_sender`]: crate::membership::Membership::admit_sender
//! [`Membership::merge_memory`]: crate::membership::Membership::merge_memory
//! [`State::install`]: crate::state::State::install
//! [`State::normalize`]: crate::state::State::normalize
//! [`IdempotencyLog::merge_keyed`]: crate::idempotency::IdempotencyLog::merge_keyed
//! [`ForkLog::report_all`]: crate::forks::ForkLog::report_all

use super::quota::{Accounts, Quota};
use super::{QuotaHooks, Replica};
use crate::error::{DecodeError, Error, Rule, detail};
use crate::membership::admission::{Forgotten, forgotten_in};
use crate::message::Message;
use crate::optional::GUESTS;
use crate::state::delta::Entry;
use crate::state::join::{Found, Judged};
use crate::state::keys::KeyId;
use crate::wire::Encode;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// The result of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// How many shards and watermarks were installed: those newer than the ones here.
    pub shards: usize,
    /// Whether the version vector grew.
    pub new: bool,
    /// Whether the message replaced the whole state. Members had not waited for this replica, and had
    /// collected records that it still had.
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
    /// [`MergeError::NotCovered`](crate::MergeError::NotCovered) if something that the message builds on is
    /// missing here, [`MergeError::OwnClockAhead`](crate::MergeError::OwnClockAhead),
    /// [`WriteError::WritersFull`](crate::WriteError::WritersFull) where peers bring too many (see
    /// [`bounds`](crate::bounds)), [`WriteError::CountersFull`](crate::WriteError::CountersFull). Nothing is
    /// changed then.
    pub fn merge(&mut self, message: &Message) -> Result<Merged, Error> {
        self.merge_with(message, None, &mut |_| ())
    }

    /// Merges a message, and calls `changed` with each counter that changed. `live` is the writer in whose
    /// own session the message arrived, or `None`. This writer may be new.
    ///
    /// # Errors
    /// As [`merge`](Replica::merge).
    pub fn merge_with(
        &mut self,
        message: &Message,
        live: Option<WriterId>,
        changed: &mut dyn FnMut(KeyId),
    ) -> Result<Merged, Error> {
        self.merge_staged(&[], message, live, changed)
    }

    /// Merges a whole transfer at once: the encoded chunks before the last one, and the last one.
    pub(crate) fn merge_staged(
        &mut self,
        staged: &[Vec<u8>],
        last: &Message,
        live: Option<WriterId>,
        changed: &mut dyn FnMut(KeyId),
    ) -> Result<Merged, Error> {
        self.membership.check(&self.state, last, live)?;
        self.check_chunks(staged, last)?;
        let newcomer = self.membership.newcomer(&self.state, last, live)?;
        let new = self.membership.news(&self.state, last);
        let open = self.membership.configuration().is_none();
        let replaced = self.make_way(last, new, changed)?;
        // A member's state is one already, even where no other writer has made anything yet.
        let fresh = self.state.is_alone() && !self.membership.is_member();
        let mut found = Found::new(fresh, changed);
        let forgotten = self.membership.forgotten(&self.state, last, live);
        let mut accounts = Accounts::default();
        for bytes in staged {
            let chunk = Message::decode(bytes)?;
            self.install_chunk(&chunk, (last, &forgotten), &mut found)?;
            Quota::merged(&self.state, &chunk, &mut accounts);
        }
        self.install(last, &forgotten, &mut found)?;
        let shards = self.conclude(last, &forgotten, found);
        Quota::merged(&self.state, last, &mut accounts);
        Quota::report(&self.state, &mut self.forks, accounts);
        self.membership
            .admit_sender(&mut self.state, last, live, newcomer)?;
        if GUESTS && self.membership.configuration().is_some() {
            self.membership
                .merge_memory(&self.state, last, open || replaced);
        }
        Ok(Merged {
            shards,
            new,
            replaced,
        })
    }

    /// Rejects the chunks of a transfer if the table of the last one does not cover them, or if there is no
    /// room for their keys. An uncovered record must not become visible.
    #[inline(always)]
    fn check_chunks(&self, staged: &[Vec<u8>], last: &Message) -> Result<(), Error> {
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
            key_bytes += self.state.keys().new_bytes(&chunk.delta.keys);
            if !chunk.delta.writers.iter().all(covered) {
                let rule = Rule::ChunkCovered;
                return Err(DecodeError::Malformed { rule: detail(rule) }.into());
            }
        }
        self.state.keys().room_for(key_bytes)
    }

    /// Joins the shards of a chunk before the last one of its transfer, and stores its operations under keys.
    /// `forgotten` has the entries of the last chunk whose writers are forgotten here.
    #[inline(always)]
    fn install_chunk(
        &mut self,
        chunk: &Message,
        (last, forgotten): (&Message, &Forgotten),
        found: &mut Found<'_>,
    ) -> Result<(), Error> {
        let forgotten = forgotten_in(chunk, last, forgotten);
        self.install(chunk, &forgotten, found)?;
        self.idempotency
            .merge_keyed(&mut self.state, &mut self.membership, chunk, &forgotten);
        Ok(())
    }

    /// Joins the message's shards without moving the version vector. They are visible only after
    /// [`conclude`](Replica::conclude), which must follow before anything else.
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
        self.membership.fit(self.state.ids().len());
        Ok(())
    }

    /// Completes [`install`](Replica::install). Merges the membership records, moves the version vector up to
    /// the message's `hi`, and returns how much was installed.
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
            odd,
            fresh,
            changed,
        } = found;
        self.idempotency
            .merge_keyed(&mut self.state, &mut self.membership, message, forgotten);
        self.idempotency.note_withdrawn(&self.state);
        if GUESTS {
            let retired = self.merge_records(message, forgotten);
            self.membership.drop_unmoved(&mut self.state, &retired);
            self.membership.establish();
        }
        self.state.normalize(odd, changed);
        self.forks.report_all(&mut self.state, &forks, fork_count);
        self.membership.advance(&mut self.state, message, forgotten);
        if GUESTS && fresh && message.is_closed() {
            self.membership
                .apply_horizon(&mut self.state, message, forgotten);
            self.membership.raise_gaps(&self.state, message);
            self.idempotency.note_unwatched(&self.membership);
            self.state.note_replaced();
        }
        installed
    }
}

#[cfg(test)]
mod tests;

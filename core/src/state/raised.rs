//! The writers whose clocks were raised, and the digest of all clocks.
//!
//! A space may have tens of thousands of writers, and most changes come from few of them. A mark, a record
//! and a push look only at those. The digest is the first half of SHA-256 over the sorted version vector. It
//! is computed when somebody needs it, and kept until a clock moves. A program that is never a member has none
//! of this. It looks at all writers, which are few there.

use super::State;
use super::changes::StateMark;
use super::keys::KeyIndex;
use crate::optional::{Empty, MEMBERS, Optional};
use crate::recent::Recent;
use crate::state::page::OWN;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// The writers that were raised last, and the digest of all.
#[derive(Clone, Debug)]
pub(crate) struct Raised {
    /// The writers whose clocks or numbers changed, without changes of the own clock.
    writers: Recent,
    /// How often that happened.
    times: u64,
    /// The digest of the version vector, with the number of changes and the own clock then.
    digest: Option<([u8; 16], (u64, u64, WriterId))>,
    /// How often the replica computed the digest and kept it.
    #[cfg(test)]
    worked_out: usize,
}

impl Empty for Raised {
    const EMPTY: Raised = Raised {
        writers: Recent::EMPTY,
        times: 0,
        digest: None,
        #[cfg(test)]
        worked_out: 0,
    };
    const NOTHING: &'static Raised = &Raised::EMPTY;
}

impl<I: KeyIndex> State<I> {
    /// Notes that a writer's clock changed, or that another writer received its number.
    pub(crate) fn note_raised(&mut self, number: u32) {
        if let Some(raised) = self.raised.get_mut() {
            raised.times += 1;
            raised.writers.note(number, self.epoch);
        }
    }

    /// Notes that anything may have changed.
    pub(crate) fn all_raised(&mut self) {
        if let Some(raised) = self.raised.get_mut() {
            raised.times += 1;
            raised.writers.all(self.epoch);
        }
    }

    /// Returns the writers whose clocks or numbers changed since a mark, the own one included, ascending.
    /// Returns `None` if the list does not reach back that far, or if the program has none. Then the caller
    /// looks at all writers.
    pub(crate) fn raised_since(&self, mark: &StateMark) -> Option<Vec<u32>> {
        if !MEMBERS {
            return None;
        }
        let mut raised = self.raised.writers.since(mark.epoch)?;
        if raised.first() != Some(&OWN) {
            raised.insert(0, OWN);
        }
        Some(raised)
    }

    /// The digest of the version vector. It takes time for each writer once something changed.
    pub(crate) fn digest(&self) -> [u8; 16] {
        match self.raised.digest {
            Some((digest, of)) if of == self.digest_of() => digest,
            _ => self.vector().digest(),
        }
    }

    /// The same digest. The replica keeps it for the next call.
    pub(crate) fn cached_digest(&mut self) -> [u8; 16] {
        let digest = self.digest();
        let of = self.digest_of();
        self.raised.update(|it| {
            let news = it.digest.replace((digest, of)) != Some((digest, of));
            #[cfg(test)]
            (it.worked_out += usize::from(news));
            let _ = news;
        });
        digest
    }

    /// How often the replica computed the digest and kept it.
    #[cfg(test)]
    pub(crate) fn digests_worked_out(&self) -> usize {
        self.raised.worked_out
    }

    /// Whether the digest is stored, or there are few writers to compute it from.
    #[cfg(feature = "members")]
    pub(crate) fn is_digest_near(&self, writers_max: usize) -> bool {
        let of = self.raised.digest.map(|it| it.1);
        self.numbers.len() <= writers_max || of == Some(self.digest_of())
    }

    /// Returns the state to which a digest belongs.
    fn digest_of(&self) -> (u64, u64, WriterId) {
        (self.raised.times, self.clock(), self.writer())
    }
}

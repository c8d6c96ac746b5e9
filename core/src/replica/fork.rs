//! Going on under another writer id, because another process writes under the present one:
//! [forks](crate::forks).

use super::Replica;
use crate::layers::Optional;
use crate::state::page::{Column, OWN};
use crate::writer_id::WriterId;

/// Looks for forks, and leaves a forked writer id behind: see [`Replica::forks_mut`].
pub struct ForksMut<'a> {
    pub(super) replica: &'a mut Replica,
}

impl ForksMut<'_> {
    /// A digest of everything here. It is equal at replicas with equal version vectors, unless a writer was
    /// forked. It looks only at changes since the last call. It is 0 in a program built without forks.
    #[inline]
    pub fn content_digest(self) -> u64 {
        let closed = self.replica.membership.configuration().is_some();
        self.replica
            .forks
            .content_digest(&mut self.replica.state, closed)
    }

    /// Goes on under another writer id, freshly [minted](WriterId::mint), because another process writes
    /// under the present one. Earlier records stay under the old id, which becomes one writer among others.
    ///
    /// Returns false and does nothing if the id is already in use. It does the same in a space with members,
    /// which decide such changes together.
    pub fn renew(self, writer: WriterId) -> bool {
        if self.replica.state.numbers.get(&writer).is_some()
            || self.replica.membership.configuration().is_some()
        {
            return false;
        }
        self.replica.state.void_scans();
        let old = self.replica.writer();
        let number = self.replica.state.assign(old);
        self.replica
            .membership
            .fit(self.replica.state.writers.len());
        #[cfg(feature = "members")]
        self.replica.idempotency.renumber_own_keyed(number);
        self.replica.state.numbers.remove(&old);
        self.replica.state.numbers.insert(old, number);
        self.replica.state.numbers.insert(writer, OWN);
        self.replica.state.writers[OWN as usize] = writer;
        // A mark with the earlier owner of the number is void.
        let epoch = self.replica.state.epoch;
        self.replica
            .state
            .assigned
            .update(|it| it[OWN as usize] = epoch);
        self.replica.state.clocks[number as usize] =
            core::mem::take(&mut self.replica.state.clocks[OWN as usize]);
        self.replica.state.all_moved();
        // The new writer's first transaction builds on everything here.
        self.replica.state.merged_at.fill(0);
        for page in &mut self.replica.state.pages {
            if page.own.present != 0 {
                let mut column = core::mem::replace(&mut page.own, Column::new(OWN));
                column.writer = number;
                page.others.push(column);
            }
            if let Some(odd) = &mut page.odd {
                odd.renumber_own(number);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;

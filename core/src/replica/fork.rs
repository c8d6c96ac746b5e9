//! Going on under another writer id, because another process writes under the present one:
//! [forks](crate::forks).

use super::Replica;
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
        if self.replica.state.knows(&writer) || self.replica.membership.configuration().is_some() {
            return false;
        }
        let number = self.replica.state.renew(writer);
        self.replica.membership.fit(self.replica.state.ids().len());
        #[cfg(feature = "members")]
        self.replica.idempotency.renumber_own_keyed(number);
        #[cfg(not(feature = "members"))]
        let _ = number;
        true
    }
}

#[cfg(test)]
mod tests;

//! Sponsors of guests, as a program sees them: [the rules](crate::membership::sponsors).

use super::Replica;
use crate::error::Error;
use crate::message::records::Owner;
use crate::writer_id::WriterId;

impl Replica {
    /// Takes in a writer that has asked for it and has made no transaction yet, so that it is waited
    /// for from the first one on. Whatever it is sent must be of afterwards.
    ///
    /// # Errors
    /// [`Error::NotAMember`] if this replica is none, [`Error::Gone`] if the writer is over,
    /// [`Error::WritersFull`].
    pub fn admit(&mut self, writer: &WriterId) -> Result<(), Error> {
        self.membership.admit(&mut self.state, writer)
    }

    /// Takes in a writer as [`admit`](Replica::admit) does, of a program that never is a member. Such come
    /// and go, and many never tell what they took. So it is taken to have what it is sent, which is no
    /// less than what is held now: if it has less, it may not go on once it is heard of. A member that
    /// starts again should not have to face that.
    pub(crate) fn admit_guest(&mut self, writer: &WriterId) -> Result<(), Error> {
        self.membership.admit_guest(&mut self.state, writer)
    }

    /// The writers that this member speaks for: those it took in, and those whose homes it took over.
    pub fn attached(&self) -> impl Iterator<Item = WriterId> {
        self.membership.attached(&self.state)
    }

    /// Whether this member speaks for a writer.
    pub(crate) fn is_attached(&self, writer: &WriterId) -> bool {
        self.membership.is_attached(&self.state, writer)
    }

    /// The writers that this member speaks for, how far each has got, and whether it has seen all that is
    /// held here: as [`progress`](Replica::progress) of each.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (WriterId, u64, bool)> {
        self.membership.levels(&self.state)
    }

    /// The member by whom this replica's writer was taken in; `None` before that, and of a member.
    pub fn home(&self) -> Option<WriterId> {
        self.membership.home(&self.state)
    }

    /// Whose incarnation a writer is, and of which generation, if it is a member's.
    pub(crate) fn incarnation(&self, writer: &WriterId) -> Option<(Owner, u64)> {
        self.membership.incarnation(&self.state, writer)
    }
}

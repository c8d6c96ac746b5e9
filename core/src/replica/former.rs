//! Earlier writers, as the sync machine and stores see them: [the rules](crate::rejoin::earlier).

use super::Replica;
use crate::error::Error;
use crate::message::journal::Former;
use crate::message::records::{Intro, Owner};
use crate::state::keys::KeyId;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

impl Replica {
    /// What is known of the present writer, which is about to be a former one.
    pub(crate) fn to_leave(&self, before: u64) -> Former {
        self.rejoin.to_leave(&self.state, &self.membership, before)
    }

    /// Keeps what a former writer made until it is certain what of it counts.
    pub(crate) fn keep_former(&mut self, former: Former) {
        self.rejoin.keep_former(former)
    }

    /// Notes whether this is a start of a member's that has not announced itself yet: others take it in
    /// as a guest until then.
    pub(crate) fn note_early(&mut self, early: bool) {
        self.membership.note_early(early)
    }

    /// Notes that the store was an old copy, as a later start of its owner is known: what was kept of
    /// former writers may have been made again by then.
    pub(crate) fn doubt_former(&mut self) {
        self.rejoin.doubt_former()
    }

    /// The newest start that is known of an owner, but for this one.
    pub(crate) fn newest_start(&self, owner: &Owner) -> u64 {
        self.membership.newest_start(owner)
    }

    /// Notes that others may be told of all that is held here, as by one whose owner is a member or not.
    pub(crate) fn note_told(&mut self, member: bool) {
        self.rejoin.note_told(&self.state, member)
    }

    /// Notes that others may be told of all that is held here of former writers.
    pub(crate) fn note_former_told(&mut self) {
        self.rejoin.note_former_told(&self.state)
    }

    /// How many of the transactions that were made here, under this and former writers, no member is
    /// known to hold; 0 while the space is open.
    pub fn unheld(&self) -> usize {
        self.rejoin.unheld(&self.membership)
    }

    /// Whether a writer is a former one of this replica, and what it made is kept.
    pub(crate) fn is_former(&self, writer: &WriterId) -> bool {
        self.rejoin.is_former(writer)
    }

    /// Notes that a member holds former writers' transactions up to `clock`: for good, if the place of
    /// such a writer is certain.
    pub(crate) fn former_held(&mut self, clock: impl Fn(&WriterId) -> u64) {
        self.rejoin
            .former_held(&self.state, &self.membership, clock)
    }

    /// Whether a writer is a member's incarnation whose place is not certain here.
    pub(crate) fn is_unsure(&self, writer: &WriterId) -> bool {
        self.membership.is_unsure(&self.state, writer)
    }

    /// Forgets what the former writers made of whom it is certain that all counts, and those of whom
    /// there is nothing more to know; `early` as for [`Self::note_early`].
    pub(crate) fn drop_former(&mut self, early: bool) {
        self.rejoin
            .drop_former(&self.state, &self.membership, early)
    }

    /// The former writers that members wait for, though nobody writes under them any more, and who
    /// took them in.
    pub(crate) fn left_behind(&self) -> Vec<(WriterId, Option<Intro>)> {
        self.rejoin.left_behind(&self.state, &self.membership)
    }

    /// Whether something is held of a former writer that is certain not to count: nobody had heard of it
    /// when it was declared dead.
    pub(crate) fn holds_buried(&self) -> bool {
        self.rejoin.holds_buried(&self.state, &self.membership)
    }

    /// The former writers whose transactions are not all part of this replica's state.
    pub(crate) fn lost(&self) -> impl Iterator<Item = &Former> {
        self.rejoin.lost(&self.state, &self.membership)
    }

    /// Gives those away, to be made again.
    pub(crate) fn take_lost(&mut self) -> Vec<Former> {
        self.rejoin.take_lost(&self.state, &self.membership)
    }

    /// Notes who took in the former writers, where that is known by now.
    pub(crate) fn note_intros(&mut self) {
        self.rejoin.note_intros(&self.state, &self.membership)
    }

    /// Takes over what another process of the same owner left behind, which is gone: `left` is the
    /// replica that was [restored](Replica::restore) from its store under a writer that never wrote.
    /// What it had made and nobody may hold is made again in time, as what was made by earlier starts of
    /// this replica's own; in an open space, all that it held is merged. A store has to have a
    /// [snapshot](Replica::snapshot) of what comes of it, and the other store to be gone, before anybody
    /// is told anything. Names each counter that changed.
    ///
    /// # Errors
    /// [`Error::Closed`] if the space has members there and is open here: then this one is to be taken
    /// over by that one, or to wait until it has heard of them; and as [`merge`](Replica::merge). Nothing
    /// is taken over then.
    pub fn take_over(
        &mut self,
        left: &mut Replica,
        changed: &mut dyn FnMut(KeyId),
    ) -> Result<(), Error> {
        if self.membership.configuration().is_none() {
            if left.configuration().is_some() {
                return Err(Error::Closed);
            }
            self.merge_with(&left.delta(&self.vector()), changed)?;
        }
        left.rejoin.note_former(&left.state, &left.membership);
        for former in left.rejoin.former.iter() {
            self.rejoin.take_kept(&self.state, former);
        }
        Ok(())
    }

    /// Who took this replica's writer in, if that is known; of a member, its own announcement, once
    /// others have taken it in.
    pub(crate) fn intro(&self) -> Option<Intro> {
        self.membership.intro(&self.state)
    }
}

#[cfg(test)]
mod tests;

//! Starts that follow an earlier one in its place.
//!
//! A *place* is where a member's process keeps its store, and one process at a time has it: the system's lock
//! says so. A start in the place of the one before proves that the earlier start has ended. If the store has
//! everything that the earlier start ever published, the new one also has its votes. So the new start
//! continues the register of the earlier one, and asks nobody whether it may. A replaced disk, an older copy
//! and a copy in another place prove neither.
//!
//! The program knows the place, and whether its store is whole. It names the earlier start
//! ([`Predecessor`]) when it [announces](crate::MembersMut::announce_after) the new one. The core checks the
//! rest: the earlier start is the owner's only living one here, and nobody knows more of it than the store
//! did. If others turn out to know more, or know another start of the owner, the store was an older copy or
//! the folder was copied. Then the start is one like any other, which
//! [votes](super::Membership::has_vote) once enough others know of it.

use super::Membership;
use crate::indexed_state::State;
use crate::message::records::Owner;
use crate::optional::{MEMBERS, Optional};
use crate::state::page::OWN;
use crate::writer_id::WriterId;
#[cfg(feature = "members")]
use alloc::vec::Vec;

/// An earlier start of a member, as the store of its place has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// Its writer.
    pub writer: WriterId,
    /// The clock up to which the store has its transactions.
    pub clock: u64,
    /// The [generation](crate::Replica::generation) of the state. In another one the state is not the store's,
    /// but what another member had.
    pub generation: u64,
}

impl Membership {
    /// The only living start of an owner here, with the clock up to which its transactions are here. `None` if
    /// there are several, or none.
    pub(crate) fn only_start(&self, state: &State, owner: &Owner) -> Option<Predecessor> {
        let mut living = self
            .incarnations(owner)
            .filter(|number| !self.writer(*number).is_over());
        let only = living.next().filter(|_| living.next().is_none())?;
        let newest = self.generation_of(only) >= self.newest_start(owner);
        newest.then(|| Predecessor {
            writer: state.id(only),
            clock: state.clock_at(only),
            generation: state.generation(),
        })
    }

    /// Notes which start this one follows in its place. It is called right before the announcement, which ends
    /// that start. Nothing is noted if others know more of the start, or of its owner, than the store did.
    pub(crate) fn follow(&mut self, state: &State, owner: &Owner, before: Option<Predecessor>) {
        let follows = before.filter(|it| self.only_start(state, owner) == Some(*it));
        self.table.update(|it| it.follows = follows);
    }

    /// Notes that another start of this replica's owner became known, so this one does not follow the last one.
    pub(crate) fn note_other_start(&mut self, owner: &Owner) {
        if MEMBERS && self.owner_of(OWN) == Some(*owner) {
            self.table.update(|it| it.follows = None);
        }
    }

    /// Whether this start continues the votes of an earlier one in its place, as far as others have said by
    /// now.
    pub(crate) fn follows(&self, state: &State) -> bool {
        let is_whole = |it: Predecessor| state.held(&it.writer) <= it.clock;
        self.table.follows.is_some_and(is_whole)
    }

    /// The start that this one follows, by local number, if this one has its vote and that one is not retired
    /// yet.
    #[cfg(feature = "budgets")]
    pub(crate) fn followed(&self, state: &State) -> Option<u32> {
        let before = self.table.follows.filter(|_| self.follows(state))?;
        let number = state.number_of(&before.writer)?;
        let is_left = self.writer(number).retired.is_none();
        (is_left && self.has_vote(state)).then_some(number)
    }

    /// Notes how many other members are linked.
    pub(crate) fn note_linked(&mut self, members: usize) {
        self.table.update(|it| it.linked = members);
    }

    /// Notes which of the members' transactions those pages have that no member has admitted.
    #[cfg(feature = "members")]
    pub(crate) fn note_pages(&mut self, have: Option<Vec<(WriterId, u64)>>) {
        self.table.update(|it| it.pages = have);
    }

    /// The number of other members that must know of this start before it votes, out of `members`.
    ///
    /// A start that does not follow the one before needs one of each majority that the earlier one can have
    /// been part of. A start that does needs as many as a majority has beside itself: they say whether they
    /// know more of the earlier one. It waits for one more where so many are linked.
    pub(crate) fn knowing_needed(&self, state: &State, members: usize) -> usize {
        let all = members - members / 2;
        match self.follows(state) {
            true => (members / 2).max(self.table.linked.min(all)),
            false => all,
        }
    }
}

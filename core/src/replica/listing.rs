//! Views of a space with members, for people.

use super::Replica;
use crate::membership::listing::{Listed, Member};
use crate::message::records::Owner;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

impl Replica {
    /// The members of the present configuration, ascending by owner; none while the space is open.
    pub fn members(&self) -> Vec<Member> {
        self.membership.members(&self.state)
    }

    /// How many other members have said that they hold all of a writer up to a clock. A member says
    /// so of members' writers only, when somebody [asks](Replica::ask_for_acknowledgement) or waits
    /// for it, and only once those whom it speaks for hold it too.
    pub fn holders(&self, writer: &WriterId, clock: u64) -> usize {
        self.membership.holders(&self.state, writer, clock)
    }

    /// Has the next [acknowledgement](Replica::acknowledge) be made also if nobody waits, and ask
    /// the other members for theirs.
    pub fn ask_for_acknowledgement(&mut self) {
        self.membership.ask_for_acknowledgement()
    }

    /// Whose incarnation a writer is, if it is or was a member's.
    pub fn owner_of_writer(&self, writer: &WriterId) -> Option<Owner> {
        self.membership.owner_of_writer(&self.state, writer)
    }

    /// How many writers are known here.
    pub fn writer_count(&self) -> usize {
        self.membership.writer_count(&self.state)
    }

    /// The writers that are known here, ascending, with what became of them.
    pub fn roster(&self) -> impl Iterator<Item = Listed> {
        self.membership.roster(&self.state)
    }

    /// Whether this replica's writer has announced itself as an incarnation of its owner, or can't
    /// do so any more because it left or was declared dead.
    pub fn is_announced(&self) -> bool {
        self.membership.is_announced()
    }

    /// Whether this writer announced itself after this clock.
    pub(crate) fn is_announced_after(&self, clock: u64) -> bool {
        self.membership.is_announced_after(clock)
    }

    /// The members that have not taken part yet in deciding on the next configuration, as far as is
    /// known here; none if nothing is to be decided.
    pub fn silent_voters(&self) -> Vec<Owner> {
        self.membership.silent_voters()
    }
}

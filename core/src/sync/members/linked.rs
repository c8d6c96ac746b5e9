//! The other members that links lead to, and when this replica has caught up with them.

use crate::message::records::Owner;
use crate::optional::MEMBERS;
use crate::replica::Replica;
use crate::sort::sort;
use crate::sync::{Link, Session, SyncMachine};
use alloc::vec::Vec;

impl SyncMachine {
    /// Whether this replica has caught up with all linked members since their links opened or it began again.
    /// These members and itself must be a majority. Its state may have no [stranger](Self::has_strangers). A member
    /// whose start has not announced itself yet counts if its link has [its owner](SyncMachine::set_owner). So members that start together wait for nobody
    /// else, and not [for each other](SyncMachine::are_both_early) if they have written.
    ///
    /// A replica that begins from its store should wait for this before it
    /// [announces](crate::MembersMut::announce) itself. Its store may be an old copy, and each other member
    /// may have dropped something that it lacks.
    pub fn has_caught_up(&self, replica: &Replica) -> bool {
        let Some(members) = replica.members().configuration() else {
            return true;
        };
        let linked = self.linked_members(replica);
        linked.iter().all(|it| it.1)
            && 2 * (linked.len() + 1) > members.members.len()
            && !self.has_strangers(replica)
    }

    /// Whether this is a member's start with transactions of others whom no member has admitted. They are from before
    /// the space had members. As a member it would seem to have them for all members, which refuse them. So it first
    /// pulls a member's whole state, which takes the place of its own.
    pub(in crate::sync) fn has_strangers(&self, replica: &Replica) -> bool {
        MEMBERS && replica.clock() == 0 && self.is_early(replica) && replica.has_strangers()
    }

    /// The owner of a link's peer, if the peer is a member's start that need not have announced itself. A copy of a
    /// member's data is no start of the member.
    fn beginning_at(&self, replica: &Replica, peer: &Session) -> Option<Owner> {
        let members = replica.members().configuration()?;
        let owner = peer.owner.filter(|_| !peer.is_copy())?;
        let is_other = self.config.owner != Some(owner);
        (is_other && members.has(&owner)).then_some(owner)
    }

    /// Whether this replica and a link's peer both are members' starts that have not announced themselves. Neither
    /// merges what the other has while the other has written something. So neither waits for the other.
    pub(in crate::sync) fn are_both_early(&self, replica: &Replica, link: Link) -> bool {
        if !MEMBERS || cfg!(target_family = "wasm") {
            return false; // a page does not start again as a member
        }
        let peer = self.peer(link).filter(|_| self.is_early(replica));
        let begins = peer.is_some_and(|peer| self.beginning_at(replica, peer).is_some());
        let writer = self.writer_of(link);
        begins && writer.is_some_and(|it| !replica.members().is_counted_member(&it))
    }

    /// The other members that links lead to, ascending, each with whether this replica has caught up with it.
    pub(super) fn linked_members(&self, replica: &Replica) -> Vec<(Owner, bool)> {
        let mut linked: Vec<(Owner, bool)> = Vec::new();
        for peer in self.open_sessions() {
            let writer = self.writer_of(peer.link);
            let writer = writer.filter(|writer| replica.members().is_counted_member(writer));
            let counted = writer.and_then(|it| replica.members().incarnation(&it));
            let begins = || self.beginning_at(replica, peer);
            if let Some(owner) = counted.map(|it| it.0).or_else(begins) {
                linked.push((owner, peer.level));
            }
        }
        sort(&mut linked);
        linked.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 &= next.1 || !same;
            same
        });
        linked
    }

    /// Whether a link leads to this other member, or to its start that has not announced itself yet.
    #[cfg(feature = "members")]
    pub fn is_linked_to(&self, replica: &Replica, owner: &Owner) -> bool {
        self.linked_members(replica).iter().any(|it| it.0 == *owner)
    }

    /// How many other members links lead to.
    #[cfg(feature = "members")]
    pub fn linked_member_count(&self, replica: &Replica) -> usize {
        self.linked_members(replica).len()
    }
}

//! The members of a space as this node sees them.

use super::OpenSpace;
use std::collections::BTreeMap;
use std::sync::Arc;
use tallymesh_core::{Fate, Listed, WriterId};
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{
    ConfigurationRow, LISTED_MAX, MemberList, MemberRow, Membership,
};

/// The time in milliseconds without a message from a member, after which this node does not reach it any more. Linked
/// nodes exchange messages every 5 s.
const LINKED_MS: u64 = 30_000;

/// The same for a member to which no link leads. A member takes part 5 s after its start at the latest.
const UNLINKED_MS: u64 = 5_000;

/// Whether this node reaches another member. `linked` is when something came over a link that leads to it, and
/// `last` when something came in any way.
fn is_reached(linked: Option<u64>, last: Option<u64>, now: u64) -> bool {
    let within = match linked {
        Some(_) => LINKED_MS,
        None => UNLINKED_MS,
    };
    last.is_some_and(|at| now.saturating_sub(at) < within)
}

/// Whether these members can decide on a change. One of them is this node, if it is a member.
fn decide(members: &[MemberRow], has_vote: bool) -> bool {
    let votes = |row: &&MemberRow| row.reached && (has_vote || !row.own);
    members.is_empty() || members.iter().filter(votes).count() > members.len() / 2
}

impl OpenSpace {
    /// Whether a change of the members can be decided, as far as this node can tell.
    pub(super) fn decides(&self, now: u64) -> bool {
        self.membership(now).decides
    }

    /// The members, if there are any.
    pub fn member_list(&self) -> Option<MemberList> {
        let present = self.replica.members().configuration()?;
        Some(MemberList {
            at: (present.era, present.number),
            owners: present.members.iter().copied().map(OwnerKey).collect(),
            earlier: Arc::default(),
        })
    }

    /// The members as they are seen from here.
    pub(in crate::driver) fn membership(&self, now: u64) -> Membership {
        let present = self.replica.members().configuration();
        // Several links may lead to one member.
        let mut heard: BTreeMap<WriterId, u64> = BTreeMap::new();
        let ends = self.links();
        for (writer, at) in ends.filter_map(|link| Some((link.writer?, link.last_heard?))) {
            let last = heard.entry(writer).or_insert(at);
            *last = at.max(*last);
        }
        let row = |member: tallymesh_core::Member| {
            let linked = member.writer.and_then(|writer| heard.get(&writer).copied());
            let before = self.part.heard_at(&member.owner);
            let before = before.filter(|_| member.writer.is_some());
            let last = linked.max(before).filter(|_| !member.own);
            MemberRow {
                owner: OwnerKey(member.owner),
                writer: member.writer.map(|writer| writer.to_string()),
                clock: member.clock,
                behind: member.behind,
                address: self.node_table.address_of(&OwnerKey(member.owner)),
                unsure: member.unsure,
                own: member.own,
                reached: member.own || is_reached(linked, last, now),
                last_heard_ms: last.map(|at| now.saturating_sub(at)),
            }
        };
        let waits = |it: &Listed| matches!(it.fate, Fate::Left | Fate::Dead);
        let waiting = self
            .replica
            .members()
            .writer_table()
            .filter(waits)
            .map(|it| it.writer);
        let (waiting, waiting_count) = listed(waiting);
        let attached = self
            .replica
            .members()
            .sponsored()
            .filter(|_| self.replica.members().is_member());
        let (attached, attached_count) = listed(attached);
        let proposal = self.replica.members().proposal();
        let members: Vec<MemberRow> = self.replica.members().list().into_iter().map(row).collect();
        let votes = self.replica.members().has_vote();
        Membership {
            owner: OwnerKey(self.owner),
            member: self.replica.members().is_member(),
            votes,
            decides: decide(&members, votes),
            announced: self.replica.members().is_announced()
                || self.is_copied()
                || !present.is_some_and(|it| it.has(&self.owner)),
            configuration: present.map(ConfigurationRow::from),
            members,
            attached,
            attached_count,
            waiting,
            waiting_count,
            stuck: self.replica.members().stuck_writers(),
            proposal: proposal.map(|it| it.iter().copied().map(OwnerKey).collect()),
            unanswered: {
                let silent = self.replica.members().silent_voters().into_iter();
                silent.map(OwnerKey).collect()
            },
        }
    }
}

/// The first writers for a list, and how many there are in all.
fn listed(mut writers: impl Iterator<Item = WriterId>) -> (Vec<String>, usize) {
    let first = writers.by_ref().take(LISTED_MAX);
    let first: Vec<String> = first.map(|writer| writer.to_string()).collect();
    let count = first.len() + writers.count();
    (first, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(own: bool, reached: bool) -> MemberRow {
        MemberRow {
            owner: OwnerKey([1; 32]),
            writer: None,
            clock: 0,
            behind: 0,
            address: None,
            unsure: false,
            own,
            reached,
            last_heard_ms: None,
        }
    }

    #[test]
    fn a_majority_that_is_reached_and_votes_decides() {
        let (own, there, away) = (
            || row(true, true),
            || row(false, true),
            || row(false, false),
        );
        assert!(decide(&[], false), "an open space has nothing to decide");
        assert!(decide(&[own()], true));
        assert!(decide(&[own(), there(), away()], true));
        assert!(
            !decide(&[own(), there(), away()], false),
            "without its own vote"
        );
        assert!(decide(&[own(), there(), there()], false));
        assert!(!decide(&[own(), away(), away()], true));
        assert!(!decide(&[own(), away()], true));
    }

    #[test]
    fn a_member_without_a_link_is_missed_sooner() {
        assert!(is_reached(Some(0), Some(0), 29_999) && !is_reached(Some(0), Some(0), 30_000));
        assert!(is_reached(None, Some(0), 4_999) && !is_reached(None, Some(0), 5_000));
        assert!(!is_reached(None, None, 0));
    }
}

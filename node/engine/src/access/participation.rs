//! The place of this node by its tickets and by the members: in a space, on its way there, or out.

use super::{Grant, Ledger, TicketError, TicketId};
use std::collections::BTreeMap;
use tallymesh_core::Space;
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::Role;

/// The place of this node in a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Participation {
    /// It takes part, as a member or with the role of its ticket.
    In,
    /// None of its tickets covers the space: it joins nothing.
    Alone,
    /// It has a ticket, and no node has admitted it.
    Waits,
    /// It has a member's ticket and is linked, and the members have not made it a member yet.
    Admitted,
    /// It was removed from the members, and has no newer ticket.
    Removed,
    /// None of its tickets admits it any more, or ever did. The flaw is that of the ticket that was
    /// signed last.
    Without(Flaw),
}

/// The reason why a ticket of this node admits it nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It has ended.
    Ended,
    /// It was signed in the future.
    Early,
    /// It was revoked.
    Revoked,
    /// Its signer is no member.
    Issuer,
    /// It was signed before this node was removed from the members.
    Removed,
    /// It is for another node.
    Holder,
    /// The nodes that received it do not have its spaces.
    Space,
    /// The nodes that received it report that it is no ticket.
    Unread,
}

impl Flaw {
    /// The flaw for a code from another node, if it is one that stays.
    pub fn told(code: &str) -> Option<Flaw> {
        Some(match code {
            "ticket_expired" => Flaw::Ended,
            "ticket_early" => Flaw::Early,
            "ticket_revoked" => Flaw::Revoked,
            "ticket_issuer" => Flaw::Issuer,
            "ticket_removed" => Flaw::Removed,
            "ticket_holder" => Flaw::Holder,
            "space_not_open" => Flaw::Space,
            "ticket" | "ticket_signature" => Flaw::Unread,
            _ => return None,
        })
    }
}

/// The tickets of this node and their state.
#[derive(Clone, Copy)]
pub struct OwnTickets<'a> {
    /// The owner of this node.
    pub own: OwnerKey,
    /// The revocations that this node knows.
    pub ledger: &'a Ledger,
    /// The tickets that the last node to receive them refused, and why.
    pub refused: &'a BTreeMap<TicketId, Flaw>,
}

impl Participation {
    /// The place of a node in a space with these members, which ascend; `None` if it is unknown.
    /// `linked` is whether a member has sent its hello in the space, or any node if the list is
    /// unknown.
    pub fn of(
        given: OwnTickets<'_>,
        space: &Space,
        member_list: Option<&[OwnerKey]>,
        linked: bool,
        now_ms: u64,
    ) -> Participation {
        let is_in = |owner: &OwnerKey| member_list.map(|it| it.binary_search(owner).is_ok());
        if is_in(&given.own) == Some(true) {
            return Participation::In;
        }
        let removed = given.ledger.removed(space, &given.own);
        let flaw = |grant: &Grant| match grant.is_timely(now_ms) {
            _ if removed.is_some_and(|it| !it.lets_in(grant, space)) => Some(Flaw::Removed),
            Err(TicketError::Early { .. }) => Some(Flaw::Early),
            Err(_) => Some(Flaw::Ended),
            Ok(()) if given.ledger.is_revoked(grant.id, space.as_str()) => Some(Flaw::Revoked),
            Ok(()) if is_in(&grant.issuer) == Some(false) => Some(Flaw::Issuer),
            Ok(()) => given.refused.get(&grant.id).copied(),
        };
        let held = given.ledger.held().into_iter().map(|it| it.1);
        let held: Vec<Grant> = held.filter(|it| it.covers(space.as_str())).collect();
        let good = held.iter().filter(|grant| flaw(grant).is_none());
        match good.map(|it| it.role).max() {
            Some(_) if !linked && member_list.is_none() => return Participation::Waits,
            Some(Role::Member) if member_list.is_some() && linked => {
                return Participation::Admitted;
            }
            Some(Role::Member) if member_list.is_some() => return Participation::Waits,
            Some(_) => return Participation::In,
            None => {}
        }
        let flawed = held.iter().filter(|it| flaw(it) != Some(Flaw::Removed));
        let newest = flawed.max_by_key(|grant| grant.issued);
        match newest.and_then(|grant| Some((grant.role, flaw(grant)?))) {
            None if removed.is_none() && held.is_empty() => Participation::Alone,
            None => Participation::Removed,
            // Members that require no tickets, or have another reason, count together with this
            // node.
            Some((role, _)) if linked && role < Role::Member => Participation::In,
            Some((_, flaw)) => Participation::Without(flaw),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Seen, samples};

    const OWN: OwnerKey = OwnerKey([9; 32]);
    const MEMBER: OwnerKey = OwnerKey([1; 32]);
    const NOW: u64 = 1_000_000;

    fn ticket(id: u8, role: Role, issued: u64) -> Grant {
        let ticket = samples::ticket(id, MEMBER, role);
        Grant { issued, ..ticket }
    }

    fn place(
        ledger: &Ledger,
        refused: &[(u8, Flaw)],
        member_list: Option<&[OwnerKey]>,
        linked: bool,
    ) -> Participation {
        let refused = refused
            .iter()
            .map(|(id, flaw)| (TicketId::new([*id; 16]), *flaw));
        let given = OwnTickets {
            own: OWN,
            ledger,
            refused: &refused.collect(),
        };
        let space = Space::new("shop").expect("a name");
        Participation::of(given, &space, member_list, linked, NOW)
    }

    const WITHOUT: &[OwnerKey] = &[MEMBER];
    const WITH: &[OwnerKey] = &[MEMBER, OWN];

    #[test]
    fn a_node_waits_until_it_is_let_in_and_knows_that_it_was_removed() {
        let space = Space::new("shop").expect("a name");
        let ledger = Ledger::open(None).expect("in memory");
        let place =
            |member_list: Option<&[OwnerKey]>, linked| place(&ledger, &[], member_list, linked);
        assert_eq!(place(None, false), Participation::Alone, "it joins nothing");
        assert_eq!(place(Some(WITHOUT), false), Participation::Alone, "a guest");
        let hold = |id, role, issued| {
            let held = ledger.hold(&id_text(id), &ticket(id, role, issued));
            held.expect("room");
        };
        hold(1, Role::Reader, 900);
        assert_eq!(place(None, false), Participation::Waits);
        assert_eq!(place(None, true), Participation::In);
        assert_eq!(
            place(Some(WITHOUT), false),
            Participation::In,
            "it was there before"
        );
        hold(2, Role::Member, 900);
        assert_eq!(place(Some(WITHOUT), false), Participation::Waits);
        assert_eq!(place(Some(WITHOUT), true), Participation::Admitted);
        assert_eq!(place(Some(WITH), false), Participation::In);
        let seen = |number, owners: &[OwnerKey]| Seen {
            era: 0,
            number,
            owners: owners.iter().copied().collect(),
        };
        let _ = ledger.see(&space, [seen(1, WITH)].into_iter(), 950, |_| 0);
        let _ = ledger.see(&space, [seen(2, WITHOUT)].into_iter(), 950, |_| 0);
        assert_eq!(place(Some(WITHOUT), true), Participation::Removed);
        hold(3, Role::Member, 951);
        assert_eq!(place(Some(WITHOUT), true), Participation::Admitted);
    }

    fn id_text(id: u8) -> String {
        format!("ticket {id}")
    }

    /// Each flaw, of a member's ticket and of a reader's, for a node that was never admitted and
    /// for one that was.
    #[test]
    fn a_node_whose_tickets_are_worth_nothing_says_so_and_does_not_join_by_it() {
        let over = NOW / 1000 - 100;
        let stranger: &[OwnerKey] = &[OwnerKey([2; 32])];
        for role in [Role::Reader, Role::Writer, Role::Editor, Role::Member] {
            let given = |change: &dyn Fn(&mut Grant)| {
                let ledger = Ledger::open(None).expect("in memory");
                let mut grant = ticket(1, role, 800);
                change(&mut grant);
                ledger.hold(&id_text(1), &grant).expect("room");
                ledger
            };
            let ended = given(&|it| it.expires = Some(over));
            let early = given(&|it| it.issued = NOW);
            let good = given(&|_| ());
            let revoked = given(&|_| ());
            let revocation = samples::revoked(1, MEMBER, "shop");
            revoked.revoke(vec![revocation]).expect("room");
            for member_list in [None, Some(WITHOUT)] {
                let without = |ledger, refused: &[_], flaw| {
                    let place = |linked| place(ledger, refused, member_list, linked);
                    assert_eq!(
                        place(false),
                        Participation::Without(flaw),
                        "{role:?} {member_list:?}"
                    );
                    // A node that admits it in spite of that counts together with it.
                    let linked = match role {
                        Role::Member => Participation::Without(flaw),
                        _ => Participation::In,
                    };
                    assert_eq!(place(true), linked, "{role:?} {member_list:?}");
                };
                without(&ended, &[], Flaw::Ended);
                without(&early, &[], Flaw::Early);
                without(&revoked, &[], Flaw::Revoked);
                for flaw in [Flaw::Revoked, Flaw::Issuer, Flaw::Space, Flaw::Unread] {
                    without(&good, &[(1, flaw)], flaw);
                }
            }
            let gone = place(&good, &[], Some(stranger), false);
            assert_eq!(gone, Participation::Without(Flaw::Issuer));
            let removed = place(&good, &[(1, Flaw::Removed)], Some(WITHOUT), false);
            assert_eq!(removed, Participation::Removed);
            // Only a newer ticket that is valid counts.
            let newer = ticket(2, role, 850);
            revoked.hold(&id_text(2), &newer).expect("room");
            assert_eq!(place(&revoked, &[], None, false), Participation::Waits);
        }
    }
}

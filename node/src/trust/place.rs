//! Whether this node is where its tickets and the members put it: in a space, on its way there, or out.

use super::{Grant, Ledger, Role};
use crate::driver::OwnerKey;
use tallymesh_core::Space;

/// Where this node is in a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where it should be.
    In,
    /// It has a ticket, and nobody has let it in.
    Waits,
    /// It has a member's ticket, is linked, and the members have not made it one yet.
    Admitted,
    /// It was removed from the members, and has no ticket from after that.
    Removed,
}

impl Place {
    /// The place of the node with this key in a space with this roster, which ascends; `None` if none is
    /// known. `linked` tells whether another node greeted in the space.
    pub(crate) fn of(
        own: OwnerKey,
        ledger: &Ledger,
        space: &Space,
        roster: Option<&[OwnerKey]>,
        linked: bool,
        now_ms: u64,
    ) -> Place {
        if roster.is_some_and(|it| it.binary_search(&own).is_ok()) {
            return Place::In;
        }
        let removed = ledger.removed(space, &own);
        let is_good = |grant: &Grant| {
            grant.covers(space.as_str())
                && grant.is_timely(now_ms).is_ok()
                && !ledger.is_revoked(grant.id, space.as_str())
                && removed.is_none_or(|it| it.lets_in(grant, space))
        };
        let held = ledger.held().into_iter().map(|it| it.1).filter(is_good);
        match held.map(|it| it.role).max() {
            Some(_) if !linked && roster.is_none() => Place::Waits,
            Some(Role::Member) if roster.is_some() && linked => Place::Admitted,
            Some(Role::Member) if roster.is_some() => Place::Waits,
            Some(_) => Place::In,
            None if removed.is_some() => Place::Removed,
            None => Place::In,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::{Seen, TicketId};

    const OWN: OwnerKey = OwnerKey([9; 32]);
    const MEMBER: OwnerKey = OwnerKey([1; 32]);
    const NOW: u64 = 1_000_000;

    #[test]
    fn a_node_waits_until_it_is_let_in_and_knows_that_it_was_removed() {
        let space = Space::new("shop").expect("a name");
        let ledger = Ledger::open(None).expect("in memory");
        let place = |roster: Option<&[OwnerKey]>, linked| {
            Place::of(OWN, &ledger, &space, roster, linked, NOW)
        };
        let without: &[OwnerKey] = &[MEMBER];
        let with: &[OwnerKey] = &[MEMBER, OWN];
        assert_eq!(place(None, false), Place::In, "it joins nothing");
        assert_eq!(place(Some(without), false), Place::In, "a guest");
        let ticket = |id: u8, role, issued| Grant {
            id: TicketId::new([id; 16]),
            issuer: MEMBER,
            holder: None,
            role,
            spaces: None,
            issued,
            expires: None,
            nodes: Vec::new(),
            knew: Default::default(),
        };
        ledger
            .hold("r", &ticket(1, Role::Reader, 900))
            .expect("room");
        assert_eq!(place(None, false), Place::Waits);
        assert_eq!(place(None, true), Place::In);
        assert_eq!(
            place(Some(without), false),
            Place::In,
            "it was there before"
        );
        ledger
            .hold("m", &ticket(2, Role::Member, 900))
            .expect("room");
        assert_eq!(place(Some(without), false), Place::Waits);
        assert_eq!(place(Some(without), true), Place::Admitted);
        assert_eq!(place(Some(with), false), Place::In);
        let seen = |number, owners: &[OwnerKey]| Seen {
            era: 0,
            number,
            owners: owners.iter().copied().collect(),
        };
        let _ = ledger.see(&space, [seen(1, with)].into_iter(), 950, |_| 0);
        let _ = ledger.see(&space, [seen(2, without)].into_iter(), 950, |_| 0);
        assert_eq!(place(Some(without), true), Place::Removed);
        ledger
            .hold("n", &ticket(3, Role::Member, 951))
            .expect("room");
        assert_eq!(place(Some(without), true), Place::Admitted);
    }
}

//! The role of this node itself in a space: unlimited, or as its tickets allow.

use super::{Grant, Ledger};
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::Role;

/// The tickets that this node was given, at one moment.
pub struct OwnRoles {
    own: OwnerKey,
    held: Vec<Grant>,
    ledger: Ledger,
}

impl OwnRoles {
    /// The standing of the node with this key.
    pub fn of(own: OwnerKey, ledger: &Ledger) -> OwnRoles {
        OwnRoles {
            own,
            held: ledger.held().into_iter().map(|it| it.1).collect(),
            ledger: ledger.clone(),
        }
    }

    /// Whether it has no tickets, and so has no limit anywhere.
    pub(crate) fn is_free(&self) -> bool {
        self.held.is_empty()
    }

    /// The role of the node in a space with these members, which ascend; `None` if the space has no
    /// members.
    ///
    /// A member has no limit. Neither has a node without a ticket that covers the space, because
    /// others decide what they accept from it. Otherwise the highest role of the valid tickets
    /// counts. If none is valid, the highest role of all counts, because the node must not write
    /// more than others will accept later.
    pub fn role(&self, space: &str, member_list: Option<&[OwnerKey]>, now_ms: u64) -> Role {
        let is_member = |owner: &OwnerKey| member_list.map(|it| it.binary_search(owner).is_ok());
        if is_member(&self.own) == Some(true) {
            return Role::Member;
        }
        let covering = || self.held.iter().filter(|grant| grant.covers(space));
        let is_good = |grant: &&Grant| {
            let has_say = is_member(&grant.issuer) != Some(false);
            has_say && grant.is_timely(now_ms).is_ok() && !self.ledger.is_revoked(grant.id, space)
        };
        let good = covering().filter(is_good).map(|it| it.role).max();
        let any = || covering().map(|it| it.role).max();
        good.or_else(any).unwrap_or(Role::Member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::samples::{revoked, ticket};
    use tallymesh_core::Space;

    const NOW: u64 = 1_000_000;
    const OWN: OwnerKey = OwnerKey([9; 32]);
    const MEMBER: OwnerKey = OwnerKey([1; 32]);
    const FORMER: OwnerKey = OwnerKey([2; 32]);

    fn grant(id: u8, issuer: OwnerKey, role: Role, expires: Option<u64>) -> Grant {
        Grant {
            spaces: Some(vec![Space::new("shop").expect("a name")]),
            expires,
            ..ticket(id, issuer, role)
        }
    }

    #[test]
    fn the_greatest_good_ticket_counts_and_of_ended_ones_the_greatest() {
        let ledger = Ledger::open(None).expect("a ledger");
        let of = |held: &[Grant], space, member_list: Option<&[OwnerKey]>| {
            let own_roles = OwnRoles {
                own: OWN,
                held: held.to_vec(),
                ledger: ledger.clone(),
            };
            own_roles.role(space, member_list, NOW)
        };
        let role = |held: &[Grant], space| of(held, space, Some(&[MEMBER]));
        let reader = grant(1, MEMBER, Role::Reader, None);
        let writer = grant(2, MEMBER, Role::Writer, None);
        let ended = grant(3, MEMBER, Role::Editor, Some(10));
        let foreign = grant(4, FORMER, Role::Editor, None);
        assert_eq!(role(&[], "shop"), Role::Member);
        assert_eq!(role(std::slice::from_ref(&reader), "other"), Role::Member);
        let all = [reader.clone(), writer.clone(), ended.clone(), foreign];
        assert_eq!(role(&all, "shop"), Role::Writer);
        assert_eq!(role(&[reader.clone(), ended.clone()], "shop"), Role::Reader);
        assert_eq!(role(std::slice::from_ref(&ended), "shop"), Role::Editor);
        let revoked = revoked(2, MEMBER, "shop");
        ledger.revoke(vec![revoked]).expect("room");
        assert_eq!(role(&all, "shop"), Role::Reader);
        let own = of(&all, "shop", Some(&[MEMBER, OWN]));
        assert_eq!(own, Role::Member, "a member needs no ticket");
        let open = of(&all, "shop", None);
        assert_eq!(open, Role::Editor, "without members all are believed");
    }
}

//! The number of tickets that the node signed or was given, by state. They are counted when the
//! metrics are requested.

use crate::access::{Grant, Ledger, TicketId, TicketState};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use tallymesh_core::Space;
use tallymesh_node_ground::clock::WallClock;
use tallymesh_node_ground::identity::OwnerKey;

/// The state of a ticket that the node was given and no longer needs. It has ended or is about to
/// end, and the node has access without it.
const NOT_NEEDED: &str = "not_needed";

/// The tickets that a node has, judged by its clock.
#[derive(Debug)]
pub struct Tickets {
    /// The tickets and revocations.
    pub ledger: Ledger,
    /// The wall clock of the node.
    pub clock: WallClock,
    /// The node's own key.
    pub own: OwnerKey,
    /// The spaces that the node opens.
    pub spaces: Vec<Space>,
}

impl Tickets {
    fn state(&self, id: TicketId, issued: u64, expires: Option<u64>, now: u64) -> TicketState {
        let is_revoked = !self.ledger.revoked_in(id).is_empty();
        TicketState::at(now, issued, expires, is_revoked)
    }

    /// The states of the tickets that the node was given.
    fn held(&self, now: u64) -> Vec<&'static str> {
        let held = self.ledger.held().into_iter().map(|(_, grant)| grant);
        let with_state = |grant: Grant| {
            let state = self.state(grant.id, grant.issued, grant.expires, now);
            (grant, state)
        };
        let held: Vec<(Grant, TicketState)> = held.map(with_state).collect();
        let shown = |(grant, state): &(Grant, TicketState)| match state {
            TicketState::Good => state.name(),
            _ if self.does_without(grant, *state, &held) => NOT_NEEDED,
            _ => state.name(),
        };
        held.iter().map(shown).collect()
    }

    /// Whether the node has access to all its spaces of a ticket without it. It does if it is a
    /// member there, or has another valid ticket. In place of an ended ticket, one with a lower
    /// role is enough.
    fn does_without(
        &self,
        grant: &Grant,
        state: TicketState,
        held: &[(Grant, TicketState)],
    ) -> bool {
        let is_enough = |it: &Grant| state != TicketState::Ending || it.role >= grant.role;
        let is_let_in = |space: &Space| {
            let is_member = |owner: &OwnerKey| self.ledger.is_seen_member(space, owner);
            let is_good = |(other, state): &(Grant, TicketState)| {
                let removed = self.ledger.removed(space, &self.own);
                *state == TicketState::Good
                    && other.covers(space.as_str())
                    && is_enough(other)
                    && is_member(&other.issuer) != Some(false)
                    && removed.is_none_or(|it| it.lets_in(other, space))
            };
            is_member(&self.own) == Some(true) || held.iter().any(is_good)
        };
        let mut covered = self.spaces.iter().filter(|it| grant.covers(it.as_str()));
        covered.clone().next().is_some() && covered.all(is_let_in)
    }
}

impl Collector for Tickets {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = self.clock.now();
        let issued = self.ledger.issued().into_iter();
        let issued = issued.map(|it| self.state(it.id, it.issued, it.expires, now).name());
        let issued: Vec<&str> = issued.collect();
        let held = self.held(now);
        let mut rows = encoder.encode_descriptor(
            "tickets",
            "Tickets that the node signed or was given, by how they stand",
            None,
            MetricType::Gauge,
        )?;
        let states = TicketState::ALL.map(TicketState::name);
        for (kind, tickets, more) in [("issued", issued, None), ("held", held, Some(NOT_NEEDED))] {
            for state in states.into_iter().chain(more) {
                let labels = [("kind", kind), ("state", state)];
                let count = tickets.iter().filter(|it| **it == state).count();
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                ConstGauge::new(count).encode(rows.encode_family(&labels)?)?;
            }
        }
        let revoked = i64::try_from(self.ledger.revoked().len()).unwrap_or(i64::MAX);
        let row = encoder.encode_descriptor(
            "revocations",
            "Revocations of tickets that count here, at most 4096",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(revoked).encode(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Seen, samples};
    use tallymesh_node_ground::model::Role;

    const OWN: OwnerKey = OwnerKey([9; 32]);
    const MEMBER: OwnerKey = OwnerKey([1; 32]);

    /// A node with the spaces `shop` and `bar`, 1,000 s after 1970.
    fn node() -> Tickets {
        let spaces = ["shop", "bar"].map(|it| Space::new(it).expect("a name"));
        let clock = WallClock::new(|| 1_000_000);
        Tickets {
            ledger: Ledger::open(None).expect("in memory"),
            clock,
            own: OWN,
            spaces: spaces.to_vec(),
        }
    }

    impl Tickets {
        fn hold(&self, id: u8, spaces: &[&str], role: Role, expires: Option<u64>) {
            let mut grant = samples::ticket(id, MEMBER, role);
            (grant.issued, grant.expires) = (0, expires);
            let spaces = spaces.iter().map(|it| Space::new(it).expect("a name"));
            grant.spaces = Some(spaces.collect());
            self.ledger
                .hold(&format!("ticket {id}"), &grant)
                .expect("room");
        }

        fn see(&self, space: &str, number: u64, owners: &[OwnerKey]) {
            let space = Space::new(space).expect("a name");
            let seen = Seen {
                era: 0,
                number,
                owners: owners.iter().copied().collect(),
            };
            let (_, saved) = self.ledger.see(&space, [seen].into_iter(), 900, |_| 0);
            saved.expect("in memory");
        }

        fn states(&self) -> Vec<&'static str> {
            self.held(1_000_000)
        }
    }

    #[test]
    fn a_member_needs_no_ticket_of_its_spaces_any_more() {
        let node = node();
        node.hold(1, &["shop"], Role::Member, Some(500));
        node.hold(2, &["shop", "bar"], Role::Member, Some(1_001));
        node.hold(3, &["shop"], Role::Member, Some(100_000_000));
        let revocation = samples::revoked(3, MEMBER, "shop");
        node.ledger.revoke(vec![revocation]).expect("room");
        node.see("shop", 1, &[MEMBER]);
        assert_eq!(node.states(), ["ended", "ending", "revoked"]);
        node.see("shop", 2, &[MEMBER, OWN]);
        let member = ["not_needed", "ending", "not_needed"];
        assert_eq!(node.states(), member, "it is no member of the other space");
        node.see("bar", 1, &[MEMBER, OWN]);
        assert_eq!(node.states(), ["not_needed"; 3]);
        node.see("shop", 3, &[MEMBER]);
        assert_eq!(node.states(), ["ended", "ending", "revoked"], "removed");
    }

    #[test]
    fn a_good_ticket_takes_the_place_of_one_that_is_over() {
        let node = node();
        node.hold(1, &["shop"], Role::Editor, Some(500));
        node.hold(2, &["shop"], Role::Editor, Some(1_001));
        assert_eq!(
            node.states(),
            ["ended", "ending"],
            "one about to end is none"
        );
        node.hold(3, &["shop"], Role::Reader, None);
        assert_eq!(
            node.states(),
            ["not_needed", "ending", "good"],
            "it allows less"
        );
        node.hold(4, &["shop"], Role::Editor, None);
        assert_eq!(node.states(), ["not_needed", "not_needed", "good", "good"]);
        node.see("shop", 1, &[OwnerKey([2; 32])]);
        assert_eq!(
            node.states()[..2],
            ["ended", "ending"],
            "its signer has no say"
        );
    }

    #[test]
    fn a_ticket_of_spaces_that_the_node_does_not_open_stays_as_it_is() {
        let node = node();
        node.hold(1, &["cellar"], Role::Member, Some(500));
        assert_eq!(node.states(), ["ended"]);
    }
}

//! How many tickets the node signed and holds, and how they stand, counted when somebody asks.

use crate::clock::WallClock;
use crate::trust::{Issued, Ledger, TicketState};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;

/// What a node knows of tickets, by its clock.
#[derive(Debug)]
pub(crate) struct Tickets {
    pub(crate) ledger: Ledger,
    pub(crate) clock: WallClock,
}

impl Tickets {
    fn count(&self, tickets: &[Issued], state: TicketState, now: u64) -> i64 {
        let is_it = |it: &&Issued| {
            let is_revoked = !self.ledger.revoked_in(it.id).is_empty();
            TicketState::at(now, it.issued, it.expires, is_revoked) == state
        };
        i64::try_from(tickets.iter().filter(is_it).count()).unwrap_or(i64::MAX)
    }
}

impl Collector for Tickets {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = self.clock.now();
        let held = self.ledger.held();
        let held: Vec<Issued> = held.iter().map(|(_, grant)| Issued::from(grant)).collect();
        let mut rows = encoder.encode_descriptor(
            "tickets",
            "Tickets that the node signed or was given, by how they stand",
            None,
            MetricType::Gauge,
        )?;
        for (kind, tickets) in [("issued", self.ledger.issued()), ("held", held)] {
            for state in TicketState::ALL {
                let labels = [("kind", kind), ("state", state.name())];
                let count = self.count(&tickets, state, now);
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

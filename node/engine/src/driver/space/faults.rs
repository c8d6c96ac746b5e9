//! Faults, in which two processes used one writer id, as a space reports them: to the log, to event
//! streams, on request.
//!
//! A fault has two sides: the link that brought the stored content, and the link that contradicts
//! it. Only one side is certain to be right: the writer's own node, whose key its links have
//! proved.

use super::OpenSpace;
use crate::driver::origins::Origins;
use std::sync::Arc;
use tallymesh_core::bounds::FAULTS_KEPT_MAX;
use tallymesh_core::{Accusation, Evidence};
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{FaultReport, News, Origin, PeerKind, Side};

/// Most reports that are kept of one peer: one ticket, owner or machine. With fewer, a second
/// forger behind the same peer could be missed. With more, a few peers fill the room of all.
const OF_PARTY_MAX: usize = 8;

/// The stored evidence, the oldest first.
#[derive(Default)]
pub(super) struct FaultReports(Vec<FaultEntry>);

struct FaultEntry {
    /// The peer that showed the fault, and the peer on the other side.
    parties: [String; 2],
    report: FaultReport,
}

impl FaultReports {
    /// Stores a report, or counts it if the same peer has already shown this kind and writer.
    /// Returns the report if it is new.
    fn keep(&mut self, parties: [String; 2], report: FaultReport) -> Option<&FaultReport> {
        let same = |it: &&mut FaultEntry| {
            let kind = |report: &FaultReport| (report.kind, report.writer.clone());
            it.parties == parties && kind(&it.report) == kind(&report)
        };
        if let Some(known) = self.0.iter_mut().find(same) {
            known.report.times = known.report.times.saturating_add(report.times);
            return None;
        }
        let of = |party: &str| self.0.iter().filter(|it| it.parties[0] == party).count();
        let most = || self.0.iter().max_by_key(|it| of(&it.parties[0]));
        let over = match (
            of(&parties[0]) >= OF_PARTY_MAX,
            self.0.len() >= FAULTS_KEPT_MAX,
        ) {
            (true, _) => Some(parties[0].clone()),
            (false, true) => most().map(|it| it.parties[0].clone()),
            (false, false) => None,
        };
        let oldest = over.and_then(|party| self.0.iter().position(|it| it.parties[0] == party));
        if let Some(oldest) = oldest {
            self.0.remove(oldest);
        }
        self.0.push(FaultEntry { parties, report });
        self.0.last().map(|it| &it.report)
    }
}

impl OpenSpace {
    /// Reports each new fault with both of its sides, because the operator must learn that two
    /// processes use one writer id.
    pub(super) fn tell_faults(&mut self, origins: &Origins) {
        for accusation in self.sync.take_accusations() {
            let named = |link| origins.of(link);
            let sides = [accusation.first, accusation.denied].map(|it| it.and_then(named));
            let mut report = FaultReport::of(&accusation.fault, sides, self.unix_ms);
            report.suspect = self.suspect(&accusation, &report, origins);
            report.times = accusation.times;
            let party = |side: Option<&Origin>| side.map(Origin::party).unwrap_or_default();
            let [first, denied] =
                [Side::BroughtBy, Side::DeniedBy].map(|it| party(report.side(it)));
            let parties = match accusation.denied {
                Some(_) => [denied, first],
                None => [first, denied],
            };
            let Some(report) = self.fault_reports.keep(parties, report) else {
                continue;
            };
            tell(
                self.replica.space().as_str(),
                self.replica.forks().fault_count(),
                report,
            );
            self.news.push(News::Fault(Arc::new(report.clone())));
        }
    }

    /// The side that contradicts the writer's own node, if that is clear.
    fn suspect(
        &self,
        accusation: &Accusation,
        report: &FaultReport,
        origins: &Origins,
    ) -> Option<Side> {
        // A digest covers all content of a writer, so it does not show which link brought the part
        // that differs.
        let is_of_one_clock = matches!(
            accusation.fault.evidence,
            Evidence::Totals { .. } | Evidence::Late { .. } | Evidence::Ahead { .. }
        );
        if !is_of_one_clock {
            return None;
        }
        if accusation.denied.is_none() {
            // A node may have passed it on. A page or a program has made it itself.
            let first = report.side(Side::BroughtBy)?;
            return (first.kind != PeerKind::Libp2p).then_some(Side::BroughtBy);
        }
        let owner = self.replica.members().owner_of(&accusation.fault.writer);
        let owner = OwnerKey(owner?);
        let is_its = |side| report.side(side).is_some_and(|it| it.owner == Some(owner));
        match (is_its(Side::BroughtBy), is_its(Side::DeniedBy)) {
            (true, false) => Some(Side::DeniedBy),
            (false, true) => Some(Side::BroughtBy),
            (true, true) => None,
            // An earlier start of this node made it. Or the writer's node is linked, compares
            // digests with this one all the time, and does not deny the stored content.
            (false, false) => {
                let is_confirmed = owner.0 == self.owner || origins.is_linked(owner);
                let writer = &report.writer;
                let denies = |it: &FaultEntry| {
                    let by = it.report.side(Side::DeniedBy);
                    it.report.writer == *writer && by.is_some_and(|it| it.owner == Some(owner))
                };
                let is_denied = self.fault_reports.0.iter().any(denies);
                (is_confirmed && !is_denied).then_some(Side::DeniedBy)
            }
        }
    }

    /// The stored evidence of faults.
    pub(super) fn evidence(&self) -> Vec<FaultReport> {
        self.fault_reports
            .0
            .iter()
            .map(|it| it.report.clone())
            .collect()
    }
}

/// Logs a fault with both sides.
fn tell(space: &str, count: u64, report: &FaultReport) {
    let shown = |side: Side| {
        let link = report.side(side);
        let owner = link.and_then(|it| it.owner).map(|it| it.to_string());
        (link, owner)
    };
    let (first, first_owner) = shown(Side::BroughtBy);
    let (denied, denied_owner) = shown(Side::DeniedBy);
    let suspect = report.suspect.map(|side| match side {
        Side::BroughtBy => "brought_by",
        Side::DeniedBy => "denied_by",
    });
    tracing::error!(
        space,
        count,
        kind = report.kind,
        key = report.key,
        writer = %report.writer,
        clock = report.clock,
        ours = report.ours,
        theirs = report.theirs,
        brought_by = first.map(|it| it.peer.as_str()),
        owner = first_owner,
        address = first.and_then(|it| it.address.as_deref()),
        ticket = first.and_then(|it| it.ticket.as_deref()),
        denied_by = denied.map(|it| it.peer.as_str()),
        denied_owner,
        denied_address = denied.and_then(|it| it.address.as_deref()),
        denied_ticket = denied.and_then(|it| it.ticket.as_deref()),
        suspect,
        "two wrote under one writer id: a copied process, or a peer that speaks in another's name; \
         docs/trust.md tells what to do"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallymesh_core::{Fault, WriterId};

    fn report(writer: u8) -> FaultReport {
        let fault = Fault {
            writer: WriterId::from_bytes([writer; 16]),
            clock: 1,
            evidence: Evidence::Ahead { own: 0 },
        };
        FaultReport::of(&fault, [None, None], 0)
    }

    #[test]
    fn what_one_peer_shows_again_is_counted_and_what_it_shows_without_end_hides_no_other() {
        let mut fault_reports = FaultReports::default();
        let mut keep = |party: &str, writer| {
            let parties = [party.to_owned(), "honest".to_owned()];
            fault_reports.keep(parties, report(writer)).is_some()
        };
        assert!(keep("honest", 1));
        for writer in 0..60 {
            assert!(keep("liar", writer));
            assert!(!keep("liar", writer), "it is the same again");
        }
        assert!(keep("other", 1));
        let of = |fault_reports: &FaultReports, party: &str| {
            let its = fault_reports.0.iter().filter(|it| it.parties[0] == party);
            its.map(|it| (it.report.writer.clone(), it.report.times))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of(&fault_reports, "honest").len() + of(&fault_reports, "other").len(),
            2
        );
        let lies = of(&fault_reports, "liar");
        let newest = (60 - OF_PARTY_MAX as u8..60).map(|it| (report(it).writer, 2));
        assert_eq!(lies, newest.collect::<Vec<_>>());
        for party in 0..FAULTS_KEPT_MAX {
            let parties = [party.to_string(), String::new()];
            assert!(fault_reports.keep(parties, report(1)).is_some());
        }
        assert_eq!(fault_reports.0.len(), FAULTS_KEPT_MAX);
        assert!(
            of(&fault_reports, "liar").len() <= 1,
            "who has most makes room"
        );
    }
}

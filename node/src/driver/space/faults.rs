//! Faults of writer ids in two hands, as a space tells them: to the log, to event streams, on request.

use super::OpenSpace;
use crate::driver::origins::Origins;
use crate::driver::{FaultReport, News};
use std::sync::Arc;
use tallymesh_core::limits::FAULTS_KEPT_MAX;

/// The evidence that was told of.
#[derive(Default)]
pub(super) struct Told {
    /// How many faults there were.
    count: u64,
    /// How many of them the replica kept the evidence of.
    kept: usize,
    reports: Vec<Arc<FaultReport>>,
}

impl OpenSpace {
    /// A fault is a writer id in two hands: the operator must hear of it, and of who brought it.
    pub(super) fn tell_faults(&mut self, origins: &Origins) {
        let count = self.replica.fault_count();
        if count == self.told.count {
            return;
        }
        let faults = self.replica.faults();
        let fresh = faults.get(self.told.kept..).unwrap_or(faults);
        let mut reports = Vec::new();
        for fault in fresh {
            let brought = self.sync.brought(fault);
            let named = |link| origins.of(link);
            let first = brought.and_then(|it| it.first).and_then(named);
            let denied = brought.and_then(|it| it.denied).and_then(named);
            let report = FaultReport::of(fault, first, denied, self.unix_ms);
            let brought_by = report.brought_by.as_ref();
            tracing::error!(
                space = self.name().as_str(),
                count,
                kind = report.kind,
                key = report.key,
                writer = %report.writer,
                clock = report.clock,
                ours = report.ours,
                theirs = report.theirs,
                brought_by = brought_by.map(|it| it.peer.as_str()),
                owner = brought_by.and_then(|it| it.owner).map(|it| it.to_string()),
                address = brought_by.and_then(|it| it.address.as_deref()),
                ticket = brought_by.and_then(|it| it.ticket.as_deref()),
                denied_by = report.denied_by.as_ref().map(|it| it.peer.as_str()),
                "two wrote under one writer id: a copied process, or a peer that speaks in another's name; \
                 docs/trust.md tells what to do"
            );
            reports.push(Arc::new(report));
        }
        let kept = faults.len();
        if count > kept as u64 {
            tracing::error!(
                space = self.name().as_str(),
                count,
                kept,
                "two wrote under one writer id; the evidence of the first faults is kept"
            );
        }
        for report in &reports {
            self.news.push(News::Fault(report.clone()));
        }
        let all = &mut self.told.reports;
        all.extend(reports);
        all.truncate(FAULTS_KEPT_MAX);
        (self.told.count, self.told.kept) = (count, kept);
    }

    /// The evidence of the first faults.
    pub(super) fn evidence(&self) -> Vec<FaultReport> {
        let reports = self.told.reports.iter();
        reports.map(|report| FaultReport::clone(report)).collect()
    }
}

//! The results of a run, and the table of the report.

use crate::client;
use crate::guests;
use crate::load::Done;
use crate::play::Plan;
use crate::proxy;
use crate::rights;
use crate::storm::{Filled, Kind};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The results of a run.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    pub(crate) plan: Plan,
    /// How disks are filled, and how they turn read-only.
    pub(crate) disks: [&'static str; 2],
    pub(crate) counts: BTreeMap<Kind, u64>,
    /// Clients of HTTP and of the Redis protocol.
    pub(crate) clients: [Done; 2],
    pub(crate) proxies: [proxy::Metrics; 2],
    pub(crate) guests: guests::Metrics,
    pub(crate) rights: rights::Metrics,
    pub(crate) filled: Filled,
    pub(crate) acknowledged: usize,
    /// Operations that no node acknowledged. `unasked` of them count.
    pub(crate) unacknowledged: usize,
    pub(crate) unasked: usize,
    /// Time until the end of the faults.
    pub(crate) stormed: Duration,
    /// Time from then on until all clients were answered. `settled` is the time until all nodes were right.
    pub(crate) answered: Duration,
    pub(crate) settled: Duration,
    /// Pairs of nodes that `tallymesh audit` found equal, and nodes whose budgets `tallymesh budget audit` found
    /// right.
    pub(crate) audited: usize,
}

impl Metrics {
    /// Whether clients of all protocols worked, and met faults.
    pub(crate) fn is_busy(&self) -> bool {
        let asked = |done: &Done| done.metrics.operations > 0 && done.metrics.retries > 0;
        self.clients.iter().all(asked) && self.guests.acknowledged > 0 && self.rights.is_busy()
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| | |\n|---|---:|")?;
        writeln!(f, "| seed | {} |", self.plan.seed)?;
        writeln!(
            f,
            "| seconds of faults | {:.0} |",
            self.stormed.as_secs_f32()
        )?;
        writeln!(f, "| lease of guests | {} |", self.plan.lease)?;
        writeln!(f, "| how disks are full | {} |", self.disks[0])?;
        writeln!(f, "| how disks turn read-only | {} |", self.disks[1])?;
        writeln!(f, "| **done to the cluster** | |")?;
        for (kind, count) in &self.counts {
            writeln!(f, "| {} | {count} |", kind.name())?;
        }
        for (name, done, proxy) in [
            ("HTTP", &self.clients[0], &self.proxies[0]),
            ("RESP", &self.clients[1], &self.proxies[1]),
        ] {
            let client::Metrics {
                operations,
                retries,
                timeouts,
                broken,
                made_before,
                refused,
            } = &done.metrics;
            writeln!(f, "| **over {name}** | |")?;
            let refused: u64 = refused.values().sum();
            let rows = [
                ("operations acknowledged", *operations),
                ("left by their client before an answer", done.left),
                ("asked again by clients", *retries),
                ("of these, after a timeout", *timeouts),
                ("of these, after a broken connection", *broken),
                ("of these, after a refusal", refused),
                ("answers that it was made before", *made_before),
                ("requests at the proxy", proxy.requests),
                ("requests dropped", proxy.dropped_requests),
                ("requests delayed", proxy.delayed_requests),
                ("requests repeated", proxy.repeated),
                ("answers dropped", proxy.dropped_answers),
                ("answers delayed", proxy.delayed_answers),
                ("answers broken off", proxy.broken_answers),
                ("requests handed to nodes", proxy.forwarded),
                ("of these, not answered", proxy.unanswered),
                ("requests to a node that was not there", proxy.unreachable),
            ];
            for (name, count) in rows {
                writeln!(f, "| {name} | {count} |")?;
            }
        }
        let guests = &self.guests;
        writeln!(f, "| **over WebSocket** | |")?;
        let rows = [
            ("operations acknowledged", guests.acknowledged),
            ("not acknowledged when their guest was closed", guests.left),
            ("unknown when their guest came back", guests.unknown),
            ("sockets opened", guests.sockets),
            ("guests closed without a word", guests.closed),
            ("guests that came back under a new writer", guests.returns),
            ("transactions that they made again", guests.made_again),
        ];
        for (name, count) in rows {
            writeln!(f, "| {name} | {count} |")?;
        }
        let longest = guests.longest.as_secs_f32();
        writeln!(
            f,
            "| longest wait for an acknowledgement, s | {longest:.1} |"
        )?;
        writeln!(f, "| **budgets, leases, caps, sequences and limits** | |")?;
        for (name, count) in self.rights.rows() {
            writeln!(f, "| {name} | {count} |")?;
        }
        let (answered, settled) = (self.answered.as_secs_f32(), self.settled.as_secs_f32());
        writeln!(f, "| **in the end** | |")?;
        writeln!(f, "| operations acknowledged | {} |", self.acknowledged)?;
        writeln!(f, "| lost | 0 |\n| counted twice | 0 |")?;
        writeln!(
            f,
            "| operations not acknowledged | {} |",
            self.unacknowledged
        )?;
        writeln!(f, "| of these, counted once | {} |", self.unasked)?;
        let Filled {
            acknowledged,
            asked,
        } = self.filled;
        writeln!(
            f,
            "| bulk adds into disks that fail, acknowledged | {acknowledged} |"
        )?;
        writeln!(f, "| of these, asked for | {asked} |")?;
        writeln!(
            f,
            "| seconds from healing until all clients were answered | {answered:.1} |"
        )?;
        writeln!(
            f,
            "| seconds from healing until all nodes were right | {settled:.1} |"
        )?;
        write!(
            f,
            "| pairs and nodes that the audits found right | {} |",
            self.audited
        )
    }
}

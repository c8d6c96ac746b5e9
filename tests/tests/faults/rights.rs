//! Clients of budgets, leases, caps, sequences, limits and counters that expire. What they spend goes together with
//! an add to a counter, in one transaction. So a digit of this counter shows whether the spend counts.

mod clients;
mod expiries;
mod judge;

use crate::ledger::Ledger;
use crate::mesh::{Addresses, Mesh, NODES};
use crate::node::{DEADLINE, POLL, SPACE};
use expiries::Expiring;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::{RwLock, watch};
use tokio::time::sleep;

/// The units of the budget `gift` at first. Clients can't spend all of them.
pub(crate) const MINTED: i128 = 1_000_000;
/// The cap of the budget `seats`.
pub(crate) const CAP: i128 = 40;
/// How much of a key the limit `login` allows in its period.
const LIMIT: u64 = 7;
/// The period of the limit, in milliseconds. It is the longest one, so that no period ends during the run: a
/// clock that is hours off would use another one.
const PERIOD_MS: u64 = 366 * 24 * 3_600_000;

/// Metrics of these clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) spent: u64,
    pub(crate) leases: u64,
    pub(crate) spent_on_lease: u64,
    /// Leases that their holders ended, and those that holders left with units on them.
    pub(crate) ended: u64,
    pub(crate) abandoned: u64,
    pub(crate) taken: u64,
    pub(crate) given_back: u64,
    /// Refusals for want of room under the cap.
    pub(crate) full: u64,
    /// Refusals for want of rights.
    pub(crate) short: u64,
    pub(crate) numbers: u64,
    pub(crate) no_numbers: u64,
    pub(crate) allowed: u64,
    pub(crate) limited: u64,
    /// Counters that were refreshed while the asked node still had them. `late` of them had expired by the
    /// machine's clock before they were asked for.
    pub(crate) refreshed: u64,
    pub(crate) late: u64,
    /// Counters that the asked node did not have when they were to be refreshed, and those that nobody refreshed.
    pub(crate) absent: u64,
    pub(crate) expired: u64,
    pub(crate) retries: u64,
}

impl Metrics {
    fn join(&mut self, mut other: Metrics) {
        let both = self.all_mut().into_iter().zip(other.all_mut());
        for (own, other) in both {
            *own += *other;
        }
    }

    fn all_mut(&mut self) -> [&mut u64; 18] {
        [
            &mut self.spent,
            &mut self.leases,
            &mut self.spent_on_lease,
            &mut self.ended,
            &mut self.abandoned,
            &mut self.taken,
            &mut self.given_back,
            &mut self.full,
            &mut self.short,
            &mut self.numbers,
            &mut self.no_numbers,
            &mut self.allowed,
            &mut self.limited,
            &mut self.refreshed,
            &mut self.late,
            &mut self.absent,
            &mut self.expired,
            &mut self.retries,
        ]
    }

    /// The rows of the report.
    pub(crate) fn rows(&self) -> [(&'static str, u64); 18] {
        [
            ("units spent", self.spent),
            ("leases given", self.leases),
            ("units spent on lease", self.spent_on_lease),
            ("leases ended by their holders", self.ended),
            ("leases left to run out", self.abandoned),
            ("seats taken under the cap", self.taken),
            ("seats given back", self.given_back),
            ("refused for want of room under the cap", self.full),
            ("refused for want of rights", self.short),
            ("numbers drawn", self.numbers),
            ("refused for want of numbers", self.no_numbers),
            ("allowed by limits", self.allowed),
            ("refused by limits", self.limited),
            ("counters refreshed before they ended there", self.refreshed),
            (
                "of these, after their time by the machine's clock",
                self.late,
            ),
            ("counters to refresh that were absent there", self.absent),
            ("counters left to expire", self.expired),
            ("asked again by clients", self.retries),
        ]
    }

    /// Whether clients met leases, caps, limits, refreshes and expiries.
    pub(crate) fn is_busy(&self) -> bool {
        let met = [
            self.spent,
            self.spent_on_lease,
            self.abandoned,
            self.taken,
            self.full,
            self.numbers,
            self.allowed,
            self.limited,
            self.refreshed,
            self.expired,
        ];
        met.iter().all(|count| *count > 0)
    }
}

/// The state that all these clients share.
#[derive(Clone)]
pub(crate) struct Rights {
    pub(crate) over: watch::Receiver<bool>,
    /// See [`Load`](crate::load::Load).
    pub(crate) pause: Arc<RwLock<()>>,
    pub(crate) ledgers: Arc<Ledgers>,
    /// The nodes themselves, without the proxies.
    pub(crate) nodes: Addresses,
}

/// What clients asked for, and what was given to them.
pub(crate) struct Ledgers {
    /// Spends of rights, and on lease.
    spent: Ledger,
    leased: Ledger,
    /// Seats that were taken, and given back.
    taken: Ledger,
    given_back: Ledger,
    /// The numbers of the sequence that clients heard.
    numbers: Mutex<BTreeSet<u64>>,
    expiring: Mutex<Vec<Expiring>>,
}

impl Default for Ledgers {
    fn default() -> Ledgers {
        Ledgers {
            spent: Ledger::new("s"),
            leased: Ledger::new("l"),
            taken: Ledger::new("t"),
            given_back: Ledger::new("g"),
            numbers: Mutex::default(),
            expiring: Mutex::default(),
        }
    }
}

/// Makes the budgets, the sequence and the limit, and waits until each node knows them.
pub(crate) async fn set_up(mesh: &Mesh) -> Result<(), String> {
    let mint = json!({ "amount": MINTED.to_string() });
    let cap = json!({ "ops": [{ "op": "raise_cap", "key": "seats", "amount": CAP.to_string() }] });
    let limit = json!({ "limit": LIMIT.to_string(), "period_ms": PERIOD_MS });
    for (node, method, path, body) in [
        (0, "POST", "budgets/gift/mint", mint),
        (1, "POST", "transactions", cap),
        (2, "POST", "sequences/visits", json!({})),
        (3, "PUT", "limits/login", limit),
    ] {
        let path = format!("{SPACE}/{path}");
        mesh.ask(node, (method, &path), &body).await?;
    }
    for node in 0..NODES {
        for path in [
            "budgets/gift",
            "budgets/seats",
            "sequences/visits",
            "limits/login",
        ] {
            let path = format!("{SPACE}/{path}");
            let deadline = Instant::now() + DEADLINE;
            loop {
                match mesh.get(node, &path).await {
                    Ok(_) => break,
                    Err(why) if Instant::now() > deadline => return Err(why),
                    Err(_) => sleep(POLL).await,
                }
            }
        }
    }
    Ok(())
}

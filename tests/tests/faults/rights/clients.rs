//! The clients. They repeat requests over HTTP, through the proxy that drops, delays and repeats.

use super::{CAP, LIMIT, Metrics, Rights};
use crate::ledger::Ledger;
use crate::mesh::NODES;
use crate::node::SPACE;
use crate::wire::{Connection, Level, Wire, http_answer, http_request};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::PoisonError;
use std::time::Duration;
use tallymesh_tests::random::Random;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

const CLIENTS: usize = 8;
/// Shortest time between two turns of a client.
const EACH: Duration = Duration::from_millis(250);
/// How long a client waits for an answer, and a node for rights.
pub(super) const PATIENCE: Duration = Duration::from_millis(1_200);
const RIGHTS_WAIT_MS: u32 = 300;
const QUORUM_WAIT_MS: u32 = 700;
/// Most requests for one operation.
const ATTEMPTS_MAX: u32 = 400;
/// The rest after a request that no node took, or that has to be repeated.
const REST: Duration = Duration::from_millis(20);

/// The units of a lease, and its length in milliseconds.
const LEASE_UNITS: usize = 10;
const LEASE_MS: (u64, u64) = (2_000, 20_000);

impl Rights {
    /// Runs the clients until all is over, and all open requests are answered.
    pub(crate) async fn run(
        self,
        addresses: [SocketAddr; NODES],
        seed: u64,
    ) -> Result<Metrics, String> {
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let client = Client {
                shared: self.clone(),
                number,
                level: match number % 2 {
                    0 => Level::Local,
                    _ => Level::Quorum,
                },
                addresses,
                random: Random::new(seed.wrapping_mul(41).wrapping_add(number as u64)),
                keys: 0,
                metrics: Metrics::default(),
            };
            clients.spawn(client.run());
        }
        let mut metrics = Metrics::default();
        while let Some(client) = clients.join_next().await {
            metrics.join(client.map_err(|error| error.to_string())??);
        }
        Ok(metrics)
    }
}

/// An answer that ends an operation.
enum Answer {
    Done(Value),
    Refused(String),
}

pub(super) struct Client {
    pub(super) shared: Rights,
    pub(super) number: usize,
    level: Level,
    /// The proxies, one for each node.
    pub(super) addresses: [SocketAddr; NODES],
    pub(super) random: Random,
    /// Number of the limit's keys and of the expiring counters that it used.
    pub(super) keys: u64,
    pub(super) metrics: Metrics,
}

impl Client {
    async fn run(mut self) -> Result<Metrics, String> {
        let mut next = Instant::now();
        let pause = self.shared.pause.clone();
        while !*self.shared.over.borrow() {
            next = (next + EACH).max(Instant::now());
            let asking = pause.read().await;
            match self.random.below(13) {
                0..=3 => self.spend().await?,
                4..=5 => self.lease().await?,
                6..=7 => self.seat().await?,
                8 => self.draw().await?,
                9 => self.allow().await?,
                _ => self.expire().await?,
            }
            drop(asking);
            sleep_until(next).await;
        }
        Ok(self.metrics)
    }

    /// Spends a unit of rights.
    async fn spend(&mut self) -> Result<(), String> {
        let op = json!({ "op": "spend", "key": "gift", "amount": "1" });
        let is_made = self.operation(op, |ledgers| &ledgers.spent).await?;
        self.metrics.spent += u64::from(is_made);
        Ok(())
    }

    /// Has units on lease, spends some of them, and ends the lease or goes away.
    async fn lease(&mut self) -> Result<(), String> {
        let id = format!("{:032x}", u128::from_be_bytes(self.random.bytes()));
        let path = format!("{SPACE}/budgets/gift/leases/{id}");
        let length = self.random.range(LEASE_MS.0, LEASE_MS.1).to_string();
        let lease = json!({ "amount": LEASE_UNITS.to_string(), "lease_ms": length });
        match self.ask(("PUT", &path), "", &lease.to_string()).await? {
            Answer::Done(_) => self.metrics.leases += 1,
            Answer::Refused(_) => {
                self.metrics.short += 1;
                return Ok(());
            }
        }
        for _ in 0..self.random.index(LEASE_UNITS / 2) {
            let op = json!({ "op": "spend", "key": "gift", "amount": "1", "lease": id });
            let is_made = self.operation(op, |ledgers| &ledgers.leased).await?;
            self.metrics.spent_on_lease += u64::from(is_made);
        }
        if self.random.chance(500) {
            // If it was refused, it is over already, or another member gave it.
            let _ = self.ask(("DELETE", &path), "", "").await?;
            self.metrics.ended += 1;
        } else {
            self.metrics.abandoned += 1;
        }
        Ok(())
    }

    /// Takes a seat under the cap, or gives one back. More are taken, so that the cap is met.
    async fn seat(&mut self) -> Result<(), String> {
        if self.random.chance(650) {
            let op = json!({ "op": "mint", "key": "seats", "amount": "1" });
            let is_made = self.operation(op, |ledgers| &ledgers.taken).await?;
            self.metrics.taken += u64::from(is_made);
        } else {
            let op = json!({ "op": "spend", "key": "seats", "amount": "1" });
            let is_made = self.operation(op, |ledgers| &ledgers.given_back).await?;
            self.metrics.given_back += u64::from(is_made);
        }
        Ok(())
    }

    /// Draws a number, which nobody else may have.
    async fn draw(&mut self) -> Result<(), String> {
        let path = format!("{SPACE}/sequences/visits/next");
        match self.ask(("POST", &path), &rights_wait(), "").await? {
            Answer::Done(answer) => {
                let number = answer["number"].as_str().and_then(|it| it.parse().ok());
                let number: u64 = number.ok_or_else(|| format!("no number: {answer}"))?;
                let numbers = self.shared.ledgers.numbers.lock();
                let mut numbers = numbers.unwrap_or_else(PoisonError::into_inner);
                if !numbers.insert(number) {
                    return Err(format!("number {number} was drawn twice"));
                }
                self.metrics.numbers += 1;
            }
            Answer::Refused(_) => self.metrics.no_numbers += 1,
        }
        Ok(())
    }

    /// Asks for more of a key than its limit allows, and counts what was allowed.
    async fn allow(&mut self) -> Result<(), String> {
        let key = format!("login:{}-{}", self.number, self.keys);
        self.keys += 1;
        let path = format!("{SPACE}/limits/{key}/allow");
        let mut allowed = 0;
        for number in 0..LIMIT + 3 {
            let headers = format!("idempotency-key: {key}-{number}\r\n{}", rights_wait());
            match self.ask(("POST", &path), &headers, "").await? {
                Answer::Done(_) => allowed += 1,
                Answer::Refused(_) => self.metrics.limited += 1,
            }
        }
        self.metrics.allowed += allowed;
        match allowed <= LIMIT {
            true => Ok(()),
            false => Err(format!("{key}: {allowed} were allowed, more than {LIMIT}")),
        }
    }

    /// Makes an operation of a budget together with an add to a counter of this ledger. Returns whether it is
    /// made.
    async fn operation(
        &mut self,
        op: Value,
        ledger: impl Fn(&super::Ledgers) -> &Ledger,
    ) -> Result<bool, String> {
        let ledgers = self.shared.ledgers.clone();
        let ledger = ledger(&ledgers);
        let (number, counter, by) = ledger.ask();
        let key = ledger.key(number);
        let add = json!({ "op": "add", "key": counter, "by": by.to_string() });
        let body = json!({ "ops": [op, add] }).to_string();
        let headers = format!(
            "idempotency-key: {key}\r\n{}{}",
            rights_wait(),
            self.level()
        );
        let path = format!("{SPACE}/transactions");
        match self.ask(("POST", &path), &headers, &body).await? {
            Answer::Done(answer) => {
                is_within_bounds(&answer["results"][0]["budget"])?;
                ledger.acknowledge(number);
                Ok(true)
            }
            Answer::Refused(code) if code == "room_short" => {
                self.metrics.full += 1;
                Ok(false)
            }
            Answer::Refused(_) => {
                self.metrics.short += 1;
                Ok(false)
            }
        }
    }

    /// The headers of a transaction at this client's level.
    pub(super) fn level(&self) -> String {
        match self.level {
            Level::Local => String::new(),
            Level::Quorum => {
                format!("tallymesh-level: quorum\r\ntallymesh-wait-ms: {QUORUM_WAIT_MS}\r\n")
            }
        }
    }

    /// Sends a request, at one node after the other, until an answer ends the operation.
    async fn ask(
        &mut self,
        (method, path): (&str, &str),
        headers: &str,
        body: &str,
    ) -> Result<Answer, String> {
        let request = http_request(method, path, headers, body);
        let mut node = self.random.index(NODES);
        let mut last = String::new();
        for _ in 0..ATTEMPTS_MAX {
            let asked = async {
                let mut connection = Connection::open(Wire::Http, self.addresses[node]).await?;
                connection.ask(&request).await
            };
            if let Ok(Ok(answer)) = timeout(PATIENCE, asked).await {
                let (status, body) = http_answer(&answer)?;
                let value: Value = serde_json::from_str(&body).unwrap_or_default();
                let code = value["code"].as_str().unwrap_or_default();
                last = format!("{status} {body}");
                let is_member = code != "not_a_member";
                match (status, code) {
                    (200, _) => return Ok(Answer::Done(value)),
                    (_, "rights_short" | "room_short" | "numbers_short" | "limit_reached")
                    | (404, "no_lease") => return Ok(Answer::Refused(code.to_owned())),
                    (503, _) => {}
                    _ if !is_member => {}
                    _ => return Err(format!("{method} {path} {headers:?} {body}: {last}")),
                }
            }
            self.metrics.retries += 1;
            tokio::time::sleep(REST).await;
            node = (node + 1 + self.random.index(NODES - 1)) % NODES;
        }
        Err(format!("{method} {path}: no answer at all, last {last}"))
    }
}

fn rights_wait() -> String {
    format!("tallymesh-rights-wait-ms: {RIGHTS_WAIT_MS}\r\n")
}

/// Checks what an answer says of a budget: never less than nothing, and never more than its cap.
fn is_within_bounds(budget: &Value) -> Result<(), String> {
    let number = |of: &Value| of.as_str().and_then(|text| text.parse::<i128>().ok());
    let value = number(&budget["value"]).ok_or_else(|| format!("no budget: {budget}"))?;
    let cap = match budget["key"] == "seats" {
        true => CAP,
        false => i128::MAX,
    };
    match (0..=cap).contains(&value) {
        true => Ok(()),
        false => Err(format!("beyond its bounds: {budget}")),
    }
}

//! Counters that expire soon. Most of them are refreshed, by a persist or a later expiry.
//!
//! A refresh is in time if the asked node acknowledges it, and still had the counter. Then the counter keeps what it
//! had counted, whoever ends it by whatever clock:
//! - The asked node had seen the first add with its expiry, which are one transaction. It had seen no end.
//! - Each end is concurrent to the refresh, because with the refresh the counter does not expire any more.
//! - Each end has the time of the first expiry. A later expiry is later by any two clocks: [`LATER`] is longer than
//!   they differ.
//!
//! A counter that nobody refreshed is gone in the end: then all clocks are beyond its time.
//!
//! The first transaction goes to one node, and not through its proxy, which repeats requests at other nodes. Only
//! the add of a repetition would be withdrawn, and not its expiry. Then the counter would have two ends of its own,
//! and a refresh by a node that had seen one of them would not save it from the other.

use super::Ledgers;
use super::clients::{Client, PATIENCE};
use crate::mesh::{Mesh, NODES};
use crate::node::SPACE;
use crate::wire::{Connection, Wire, http_answer, http_request};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};

/// When a counter expires at first, in milliseconds from its beginning. It is refreshed before that, or shortly
/// after it, and mostly within the last [`CLOSE_MS`].
const EXPIRES_MS: (u64, u64) = (50, 600);
const CLOSE_MS: u64 = 40;
const CLOSE: u64 = 600;
/// The later expiry, from the refresh on. It is longer than all steps of clocks and the run.
const LATER: Duration = Duration::from_secs(24 * 3600);
/// Counters of 1000 that nobody refreshes.
const LEFT: u64 = 250;
/// The add that a refresh must save, and the one after it.
const FIRST: i128 = 1;
const AFTER: i128 = 10;

/// A counter that expired or was refreshed, and the values that it may have in the end.
#[derive(Clone)]
pub(super) struct Expiring {
    key: String,
    values: Vec<i128>,
}

impl Client {
    /// Counts in a counter, lets it expire soon, and mostly refreshes it and counts in it again.
    pub(super) async fn expire(&mut self) -> Result<(), String> {
        let key = format!("expiring-{}-{}", self.number, self.keys);
        self.keys += 1;
        let in_ms = self.random.range(EXPIRES_MS.0, EXPIRES_MS.1);
        let begin = [add(&key, FIRST), expire(&key, in_ms)];
        let node = self.random.index(NODES);
        let Some(address) = self.shared.nodes.of(node) else {
            return Ok(());
        };
        let begun = Instant::now();
        if self.ask_once(address, &begin).await?.is_none() {
            return Ok(());
        }
        let expires = Instant::now() + Duration::from_millis(in_ms);
        if self.random.chance(LEFT) {
            self.metrics.expired += 1;
            self.expect(key, vec![0]);
            return Ok(());
        }
        let after_ms = match self.random.chance(CLOSE) {
            true => in_ms - self.random.below(CLOSE_MS),
            false => self.random.below(in_ms * 5 / 4),
        };
        sleep_until(begun + Duration::from_millis(after_ms)).await;
        let late = Instant::now() > expires;
        let (refresh, had) = match self.random.chance(500) {
            true => (json!({ "op": "persist", "key": key }), "had_expiry"),
            false => (expire(&key, LATER.as_millis() as u64), "existed"),
        };
        let address = self.addresses[self.random.index(NODES)];
        let Some(answer) = self.ask_once(address, &[refresh]).await? else {
            return Ok(());
        };
        let done = &answer["results"][0];
        match done[had].as_bool() {
            Some(true) if done["value"] == FIRST.to_string() => {}
            Some(true) => return Err(format!("{key} was refreshed at {answer}")),
            Some(false) => {
                self.metrics.absent += 1;
                return Ok(());
            }
            // The node knew the request already, which the proxy had repeated.
            None => return Ok(()),
        }
        self.metrics.refreshed += 1;
        self.metrics.late += u64::from(late);
        let address = self.addresses[self.random.index(NODES)];
        let values = match self.ask_once(address, &[add(&key, AFTER)]).await? {
            Some(_) => vec![FIRST + AFTER],
            None => vec![FIRST, FIRST + AFTER],
        };
        self.expect(key, values);
        Ok(())
    }

    fn expect(&self, key: String, values: Vec<i128>) {
        let expiring = self.shared.ledgers.expiring.lock();
        let mut expiring = expiring.unwrap_or_else(PoisonError::into_inner);
        expiring.push(Expiring { key, values });
    }

    /// Sends a transaction once. `None` if it is not acknowledged in time.
    async fn ask_once(
        &mut self,
        address: SocketAddr,
        ops: &[Value],
    ) -> Result<Option<Value>, String> {
        let once = u128::from_be_bytes(self.random.bytes());
        let headers = format!("idempotency-key: {once:032x}\r\n{}", self.level());
        let body = json!({ "ops": ops }).to_string();
        let path = format!("{SPACE}/transactions");
        let request = http_request("POST", &path, &headers, &body);
        let asked = async {
            let mut connection = Connection::open(Wire::Http, address).await?;
            connection.ask(&request).await
        };
        let Ok(Ok(answer)) = timeout(PATIENCE, asked).await else {
            return Ok(None);
        };
        match http_answer(&answer)? {
            (200, body) => Ok(serde_json::from_str(&body).ok()),
            _ => Ok(None),
        }
    }
}

impl Ledgers {
    /// Which expiring counters are wrong at a node; empty if none is.
    pub(super) async fn expiring_wrong(&self, mesh: &Mesh, node: usize) -> Result<String, String> {
        let expiring = self.expiring.lock();
        let expiring = expiring.unwrap_or_else(PoisonError::into_inner).clone();
        let keys: Vec<String> = expiring.iter().map(|it| it.key.clone()).collect();
        let values = mesh.values(node, &keys).await?;
        let mut wrong = String::new();
        for (Expiring { key, values }, value) in expiring.iter().zip(values) {
            if !values.contains(&value) {
                wrong += &format!("node {node}: {key} is {value}, and not one of {values:?}\n");
            }
        }
        Ok(wrong)
    }
}

fn add(key: &str, by: i128) -> Value {
    json!({ "op": "add", "key": key, "by": by.to_string() })
}

fn expire(key: &str, in_ms: u64) -> Value {
    json!({ "op": "expire", "key": key, "in_ms": in_ms.to_string() })
}

//! The clocks of the nodes. All of them are ahead of the machine's by the same time at first, so that midnight
//! is within the run.

use super::{Mesh, NODES};
use crate::node::{DEADLINE, POLL, SPACE, told};
use serde_json::json;
use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::sleep;

const DAY_MS: i64 = 24 * 3600 * 1000;
/// Lifetime of a counter that expires. It is longer than all steps of clocks and the run.
const LIFE: Duration = Duration::from_secs(24 * 3600);
/// Largest difference between a node's clock and the time to which it was set, in milliseconds.
const CLOCK_ERROR_MS: i64 = 60_000;

fn now() -> Result<i64, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(now.map_err(told)?.as_millis()).map_err(told)
}

/// The next midnight, and how far a clock has to be ahead so that this is after a time.
pub(super) fn midnight_after(time: Duration) -> Result<(i64, i64), String> {
    let now = now()?;
    let midnight = (now / DAY_MS + 1) * DAY_MS;
    let time = i64::try_from(time.as_millis()).map_err(told)?;
    Ok((midnight, midnight - now - time))
}

impl Mesh {
    /// Sets a node's clock to this many milliseconds beyond its first setting.
    pub(crate) fn set_clock(&self, node: usize, offset_ms: i64) -> Result<(), String> {
        let ahead = self.ahead + offset_ms;
        fs::write(self.clock(node), ahead.to_string()).map_err(told)
    }

    /// Sets a node's clock to so long before midnight. Returns the milliseconds beyond its first setting.
    pub(crate) fn set_before_midnight(&self, node: usize, before: Duration) -> Result<i64, String> {
        let before = i64::try_from(before.as_millis()).map_err(told)?;
        let offset = self.midnight - before - now()? - self.ahead;
        self.set_clock(node, offset)?;
        Ok(offset)
    }

    /// Waits until it is after midnight by a node's clock.
    pub(crate) async fn is_after_midnight(&self, node: usize) -> Result<(), String> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let status = self.nodes[node].get("/v1/status").await?;
            let time = &status["time"];
            let text = time
                .as_str()
                .map_or_else(|| time.to_string(), str::to_owned);
            let time: i64 = text.parse().map_err(told)?;
            if time >= self.midnight {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("node {node}: midnight does not come, it is {time}"));
            }
            sleep(POLL).await;
        }
    }

    /// Makes and revokes a ticket at a node. Returns its id.
    pub(crate) async fn revoke_ticket(&self, node: usize) -> Result<String, String> {
        let node = &self.nodes[node];
        let ticket = json!({ "role": "reader", "spaces": ["default"] });
        let ticket = node.post("/v1/tickets", &ticket).await?;
        let id = ticket["id"].as_str().ok_or("a ticket without an id")?;
        let path = format!("/v1/tickets/{id}");
        let headers = node.shown()?;
        node.ask("DELETE", &path, &headers, "").await?;
        Ok(id.to_owned())
    }

    /// Waits until each node has heard that a ticket is revoked. The book of the day tells it.
    pub(crate) async fn is_revoked(&self, ticket: &str) -> Result<(), String> {
        let deadline = Instant::now() + DEADLINE;
        for number in 0..NODES {
            let node = &self.nodes[number];
            loop {
                let headers = node.shown()?;
                let listed = node.ask("GET", "/v1/tickets", &headers, "").await?;
                let listed: serde_json::Value = serde_json::from_str(&listed).map_err(told)?;
                if listed["revoked"].to_string().contains(ticket) {
                    break;
                }
                if Instant::now() > deadline {
                    return Err(format!(
                        "node {number} does not hear that {ticket} is revoked: {listed}\n{}",
                        self.said()
                    ));
                }
                sleep(POLL).await;
            }
        }
        Ok(())
    }

    /// Steps a node's clock to this many milliseconds beyond its first setting, and waits until the node shows that.
    /// Then lets it make a counter that expires by the median clock of the members that it is linked to.
    pub(crate) async fn step_clock(
        &self,
        node: usize,
        offset_ms: i64,
        counter: &str,
    ) -> Result<(), String> {
        self.set_clock(node, offset_ms)?;
        let add = json!({ "ops": [{ "op": "add", "key": counter, "by": "1" }] });
        let transactions = format!("{SPACE}/transactions");
        self.nodes[node].post(&transactions, &add).await?;
        let life_ms = i64::try_from(LIFE.as_millis()).map_err(told)?;
        let expire = json!({ "in_ms": life_ms.to_string() });
        let path = format!("{SPACE}/counters/{counter}/expire");
        self.nodes[node].post(&path, &expire).await?;
        let deadline = Instant::now() + DEADLINE;
        loop {
            let status = self.nodes[node].get("/v1/status").await?;
            let time = status["time"].as_str().and_then(|time| time.parse().ok());
            let time: i64 = time.ok_or_else(|| format!("no time: {status}"))?;
            if (time - now()? - self.ahead - offset_ms).abs() < CLOCK_ERROR_MS {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "node {node}: its clock was not stepped by {offset_ms} ms"
                ));
            }
            sleep(POLL).await;
        }
    }
}

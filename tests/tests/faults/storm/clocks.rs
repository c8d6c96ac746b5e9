//! Wall clocks that jump while their nodes run.

use super::{Kind, Storm};
use crate::mesh::NODES;
use std::time::Duration;

/// The size of a step, in milliseconds. It is more than the error of the test.
const STEP_MS: (u64, u64) = (300_000, 5 * HOUR_MS);
const HOUR_MS: u64 = 3_600_000;
/// How far a clock may be from its first setting. Twice of it is less than the lifetime of keys and counters.
const OFFSET_MAX_MS: i64 = 6 * HOUR_MS as i64;
/// A time that no clock comes to before the end, beyond its first setting.
const END_MS: i64 = OFFSET_MAX_MS + HOUR_MS as i64;
/// How long before midnight a clock is set, in milliseconds.
const BEFORE_MIDNIGHT_MS: (u64, u64) = (300, 5_000);

impl Storm<'_> {
    /// Steps the clock of a node by up to some hours, ahead or back.
    pub(super) async fn step_clock(&mut self, kind: Kind) -> Result<(), String> {
        let size = self.random.range(STEP_MS.0, STEP_MS.1) as i64;
        let step = if kind == Kind::ClockAhead {
            size
        } else {
            -size
        };
        let offsets = self.offsets;
        let fits = |node: &usize| (offsets[*node] + step).abs() <= OFFSET_MAX_MS;
        let nodes: Vec<usize> = (0..NODES).filter(fits).collect();
        let node = match nodes.is_empty() {
            true => self.random.index(NODES),
            false => *self.random.pick(&nodes),
        };
        let offset = (offsets[node] + step).clamp(-OFFSET_MAX_MS, OFFSET_MAX_MS);
        self.on_top();
        let counter = format!("lasting-{}", self.lasting.len());
        self.count(kind, node, "its clock is stepped", 1);
        self.mesh.step_clock(node, offset, &counter).await?;
        self.offsets[node] = offset;
        self.lasting.push(counter);
        Ok(())
    }

    /// Sets all clocks to shortly before midnight, each to another time, and waits until midnight is over at
    /// all nodes. The book of the day begins anew at each node then. A ticket that is revoked meanwhile is known
    /// to all, as the book tells.
    pub(super) async fn midnight(&mut self) -> Result<(), String> {
        self.on_top();
        let early = self.random.chance(500);
        let by = self.random.index(NODES);
        *self.counts.entry(Kind::Midnight).or_default() += 1;
        for node in 0..NODES {
            let (from, upto) = BEFORE_MIDNIGHT_MS;
            let before = Duration::from_millis(self.random.range(from, upto));
            self.note(node, "its clock is set to before midnight");
            self.offsets[node] = self.mesh.set_before_midnight(node, before)?;
        }
        let ticket = match early {
            true => Some(self.mesh.revoke_ticket(by).await?),
            false => None,
        };
        self.mesh.is_after_midnight(by).await?;
        let ticket = match ticket {
            Some(ticket) => ticket,
            None => self.mesh.revoke_ticket(by).await?,
        };
        for node in 0..NODES {
            self.mesh.is_after_midnight(node).await?;
            self.note(node, "midnight is over");
        }
        let breaks = self.random.chance(500);
        self.mesh.links().heal(breaks);
        self.mesh.is_revoked(&ticket).await
    }

    /// Sets all clocks to one time that is after all that they showed before. What waits for a time comes then.
    pub(crate) fn agree_on_time(&mut self) -> Result<(), String> {
        for node in 0..NODES {
            self.mesh.set_clock(node, END_MS)?;
        }
        Ok(())
    }
}

//! The steps of a turn that continue and end waiting requests. Such a request has a demand, which
//! says how far it has to reach.

use super::Driver;
use super::space::Ended;
use std::time::Duration;
use tallymesh_node_ground::model::Refusal;
use tokio::sync::oneshot;

/// The channel for an answer.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

impl Driver {
    /// Makes the writes whose rights have arrived, and refuses those that have waited for too long.
    pub(super) fn resume_writes(&mut self) {
        let now = self.now();
        self.spaces.for_each_awake(|space| {
            for write in space.take_due_writes(now) {
                self.gate.touch();
                if let Some(told) = space.write(now, write, &self.metrics) {
                    self.gate.answer(told);
                }
            }
            for told in space.end_due_commands(now) {
                self.gate.answer(told);
            }
        });
    }

    /// Ends the waits for a level, or for the state on which a session depends, that are met or too
    /// long.
    pub(super) fn end_waits(&mut self) {
        let now = self.now();
        self.spaces.for_each_awake(|space| {
            for ended in space.take_ended_waits(now) {
                match ended {
                    Ended::Told(release) => self.gate.answer(release),
                    Ended::WhenDurable(release) => self.gate.answer_when_durable(release),
                }
            }
        });
    }
}

/// The time after a wait, in milliseconds since the start.
pub(super) fn after(now: u64, wait: Duration) -> u64 {
    let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    now.saturating_add(wait)
}

#[cfg(test)]
mod tests;

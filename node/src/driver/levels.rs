//! Requests with a demand, which says how far they have to reach, and their answers.

use super::space::{Ended, Write};
use super::{Driver, Permit};
use crate::model::{
    Completeness, Demand, Keyed, Operation, ReadBack, Refusal, SpaceId, Transacted, Written,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The channel for an answer.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

/// A request. See the methods of [`Handle`](crate::driver::Handle) for what each does.
pub(crate) enum Request {
    Write {
        ops: Vec<Operation>,
        once: Option<Keyed>,
        demand: Demand,
        reply: Reply<Written<Transacted>>,
    },
    Reach {
        demand: Demand,
        reply: Reply<Written<()>>,
    },
    Check {
        demand: Demand,
        reply: Reply<()>,
    },
    ReadBack {
        keys: Vec<String>,
        demand: Demand,
        reply: Reply<ReadBack>,
    },
    Completeness {
        reply: oneshot::Sender<Completeness>,
    },
}

impl Driver {
    pub(super) fn demand(
        &mut self,
        now: u64,
        space: SpaceId,
        request: Request,
        permit: Option<Arc<Permit>>,
    ) {
        let space = &mut self.spaces[space.0];
        let told = match request {
            Request::Write {
                ops,
                once,
                demand,
                reply,
            } => {
                let until = now.saturating_add(demand.rights_wait_ms.into());
                let write = Write {
                    ops,
                    once,
                    demand,
                    reply,
                    until,
                    permit,
                    want: None,
                };
                space.write(now, write, &self.metrics)
            }
            Request::Reach { demand, reply } => {
                let done = space.check(&demand);
                space.reach(now, done, None, &demand, reply)
            }
            Request::Check { demand, reply } => {
                let answer = space.check(&demand);
                return self.answer(reply, answer);
            }
            Request::ReadBack {
                keys,
                demand,
                reply,
            } => return space.read_back(now, keys, &demand, reply),
            Request::Completeness { reply } => {
                let answer = space.completeness(now);
                return self.answer(reply, answer);
            }
        };
        if let Some(told) = told {
            self.gate.answer(told);
        }
    }

    /// Makes the writes whose rights have arrived, and refuses those that have waited for too long.
    pub(super) fn look_at_writes(&mut self) {
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
    pub(super) fn look_at_waits(&mut self) {
        let now = self.now();
        self.spaces.for_each_awake(|space| {
            for ended in space.look_at_waits(now) {
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

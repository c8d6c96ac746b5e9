//! Ends connections that their clients would keep: those that do not authenticate, and those whose
//! ticket has ended.

use super::{Clients, LINGER};
use crate::protocol::ReplyError;
use std::time::{Duration, Instant};
use tallymesh_node_engine::driver::{CommitGate, Spaces};
use tallymesh_node_engine::metrics::Metrics;

/// How often the driver judges the tickets of all connections, whether or not they send. It bounds
/// how long subscribers and waiting clients continue after their ticket has ended.
const JUDGE_INTERVAL: Duration = Duration::from_secs(1);

impl Clients {
    /// When the time of the next unauthenticated connection is over, or the tickets are to be
    /// judged.
    pub(super) fn ends_due(&self) -> Option<Instant> {
        let judge = (self.config.tickets && !self.connections.is_empty()).then_some(self.judge_due);
        self.strangers_due().into_iter().chain(judge).min()
    }

    /// Ends every connection whose time is over.
    pub(super) fn look_at_ends(
        &mut self,
        spaces: &Spaces,
        gate: &CommitGate,
        metrics: &Metrics,
        unix_ms: u64,
    ) {
        let now = Instant::now();
        if self.config.tickets && self.judge_due <= now {
            self.judge_due = now + JUDGE_INTERVAL;
            self.judge_all(spaces, gate, unix_ms, now);
        }
        while let Some(at) = self.overdue_stranger(now) {
            self.dismiss(at, &ReplyError::AuthTime, gate, metrics);
        }
        self.end_greedy(gate, metrics);
    }

    /// Judges all tickets. Subscribers and waiting clients are closed when their ticket ends. Other
    /// clients have some time to show another ticket.
    fn judge_all(&mut self, spaces: &Spaces, gate: &CommitGate, unix_ms: u64, now: Instant) {
        for at in 0..self.connections.capacity() {
            let Some(connection) = self.connection(at) else {
                continue;
            };
            let Some(pass) = connection
                .pass
                .as_ref()
                .filter(|_| connection.ending.is_none())
            else {
                continue;
            };
            let judged = pass.judge_any(connection.session.space(), spaces, unix_ms);
            connection.lapsed = judged.is_err();
            if let Err(turned) = judged
                && (connection.subscribed || connection.wait.is_some())
            {
                let unasked = connection.unasked();
                connection.wait = None;
                connection
                    .session
                    .turn_out(turned, connection.out.filling());
                connection.ending = Some(now + LINGER);
                let held = connection.held(at, gate.commit_of_answer());
                self.unasked.extend(unasked);
                self.timed.push(at);
                self.held.push_back(held);
            }
            self.note_stranger(at, now);
        }
    }

    /// Ends a connection with an error, which the client may still read.
    pub(super) fn dismiss(
        &mut self,
        at: usize,
        error: &ReplyError<'_>,
        gate: &CommitGate,
        metrics: &Metrics,
    ) {
        let Some(connection) = self.connections.get_mut(at).and_then(Option::as_deref_mut) else {
            return;
        };
        metrics.refused("redis", error.code());
        if connection.ending.is_some() {
            return;
        }
        self.unasked.extend(connection.unasked());
        connection.wait = None;
        connection.session.end(error, connection.out.filling());
        connection.ending = Some(Instant::now() + LINGER);
        self.held
            .push_back(connection.held(at, gate.commit_of_answer()));
        self.timed.push(at);
        let (was, from) = (connection.stranger.take(), connection.ends.address);
        self.forget_stranger(was, from);
    }
}

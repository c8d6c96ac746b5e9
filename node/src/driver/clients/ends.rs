//! When connections are ended that their clients would keep: those that do not authenticate, and those whose
//! ticket has ended.

use super::{Clients, LINGER};
use crate::driver::kept::Kept;
use crate::driver::spaces::Spaces;
use crate::metrics::Metrics;
use crate::resp::ReplyError;
use std::time::{Duration, Instant};

/// How often the tickets of all connections are judged, whatever these send. It bounds for how long
/// subscribers and those that wait go on after a ticket has ended.
const JUDGE_INTERVAL: Duration = Duration::from_secs(1);

impl Clients {
    /// When the next stranger's time is over, or tickets are judged.
    pub(super) fn ends_due(&self) -> Option<Instant> {
        let judge = (self.config.tickets && !self.connections.is_empty()).then_some(self.judge_due);
        self.strangers_due().into_iter().chain(judge).min()
    }

    /// Ends whatever is to be ended by now.
    pub(super) fn look_at_ends(
        &mut self,
        spaces: &Spaces,
        kept: &Kept,
        metrics: &Metrics,
        unix_ms: u64,
    ) {
        let now = Instant::now();
        if self.config.tickets && self.judge_due <= now {
            self.judge_due = now + JUDGE_INTERVAL;
            self.judge_all(spaces, kept, unix_ms, now);
        }
        while let Some(at) = self.overdue_stranger(now) {
            self.dismiss(at, &ReplyError::AuthTime, kept, metrics);
        }
        self.end_greedy(kept, metrics);
    }

    /// Judges all tickets. Subscribers and those that wait are ended with their tickets; others have a time
    /// to show another one.
    fn judge_all(&mut self, spaces: &Spaces, kept: &Kept, unix_ms: u64, now: Instant) {
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
                let held = connection.held(at, kept.answer_ticket());
                self.unasked.extend(unasked);
                self.timed.push(at);
                self.held.push_back(held);
            }
            self.note_stranger(at, now);
        }
    }

    /// Ends a connection with a refusal, which it may read still.
    pub(super) fn dismiss(
        &mut self,
        at: usize,
        error: &ReplyError<'_>,
        kept: &Kept,
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
            .push_back(connection.held(at, kept.answer_ticket()));
        self.timed.push(at);
        let (was, from) = (connection.stranger.take(), connection.ends.address);
        self.forget_stranger(was, from);
    }
}

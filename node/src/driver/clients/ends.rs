//! When connections are ended that their clients would keep: those that do not authenticate, those whose
//! ticket has ended, and those that hold too much.

use super::{Clients, LINGER};
use crate::driver::kept::Kept;
use crate::driver::spaces::Spaces;
use crate::metrics::Metrics;
use crate::resp::ReplyError;
use crate::resp::limits::HELD_TOTAL_BYTES_MAX;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long a connection may take to authenticate, where that is asked for, and to show another ticket once
/// its own has ended. Shorter, and clients far away are closed while they do; longer, and strangers that say
/// nothing hold their places for so long.
const STRANGER_TIME: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 10_000 });

/// Most connections that have not authenticated; beyond, the oldest of them goes. More lets strangers take
/// more descriptors; fewer makes a pool that comes back at once push out itself.
const STRANGERS_MAX: usize = 1024;

/// How often the tickets of all connections are judged, whatever these send. It bounds for how long
/// subscribers and those that wait go on after a ticket has ended.
const JUDGE_INTERVAL: Duration = Duration::from_secs(1);

/// [`HELD_TOTAL_BYTES_MAX`], and less in tests.
const HELD_BYTES: usize = if cfg!(test) {
    2 << 20
} else {
    HELD_TOTAL_BYTES_MAX
};

/// Bytes that a connection may still hold after it is told to send less, before it is closed at once.
const SMALL_BYTES: usize = 64 << 10;

/// The connections that have to authenticate, or to show another ticket, the longest waiting first. Entries
/// stay when their connections have done so, until their time comes.
#[derive(Default)]
pub(super) struct Strangers {
    queue: VecDeque<Stranger>,
    count: usize,
}

struct Stranger {
    since: Instant,
    at: usize,
    id: u64,
}

impl Clients {
    /// Takes note of whether a connection has to authenticate still.
    pub(super) fn note_stranger(&mut self, at: usize, now: Instant) {
        let Some(connection) = self.connection(at) else {
            return;
        };
        let (is, was) = (
            !connection.session.is_known() || connection.lapsed,
            connection.stranger,
        );
        match (is, was) {
            (true, None) => {
                connection.stranger = Some(now);
                let id = connection.session.id();
                self.strangers
                    .queue
                    .push_back(Stranger { since: now, at, id });
                self.strangers.count += 1;
            }
            (false, Some(_)) => {
                connection.stranger = None;
                self.strangers.count -= 1;
            }
            _ => {}
        }
    }

    /// A connection is closed that was, or was not, a stranger.
    pub(super) fn forget_stranger(&mut self, was: Option<Instant>) {
        self.strangers.count -= usize::from(was.is_some());
    }

    /// When the next stranger's time is over, or tickets are judged.
    pub(super) fn ends_due(&self) -> Option<Instant> {
        let stranger = self
            .strangers
            .queue
            .front()
            .map(|it| it.since + STRANGER_TIME);
        let judge = (self.config.tickets && !self.connections.is_empty()).then_some(self.judge_due);
        stranger.into_iter().chain(judge).min()
    }

    /// The stranger that is one for longest, if there is any.
    fn oldest_stranger(&mut self) -> Option<(Instant, usize)> {
        while let Some(Stranger { since, at, id }) = self.strangers.queue.front() {
            let (since, at, id) = (*since, *at, *id);
            let connection = self.connections.get(at).and_then(Option::as_deref);
            if connection.is_some_and(|it| it.session.id() == id && it.stranger == Some(since)) {
                return Some((since, at));
            }
            self.strangers.queue.pop_front();
        }
        None
    }

    /// Closes the oldest stranger if there are too many of them, or too many connections in all; tells
    /// whether there is room for another connection.
    pub(super) fn make_room(&mut self, metrics: &Metrics) -> bool {
        let many = STRANGERS_MAX.min(self.clients_max / 2).max(1);
        while self.strangers.count >= many || self.connections.len() >= self.clients_max {
            let Some((_, at)) = self.oldest_stranger() else {
                break;
            };
            metrics.refused("redis", ReplyError::AuthTime.code());
            self.close(at, metrics);
        }
        self.connections.len() < self.clients_max
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
        while let Some((since, at)) = self.oldest_stranger()
            && since + STRANGER_TIME <= now
        {
            self.strangers.queue.pop_front();
            self.dismiss(at, &ReplyError::AuthTime, kept, metrics);
        }
        while self.held_bytes > HELD_BYTES {
            let all = self.connections.iter();
            let all = all.filter_map(|(at, it)| it.as_deref().map(|it| (it.footprint, at)));
            let Some((bytes, at)) = all.max().filter(|most| most.0 > 0) else {
                break;
            };
            self.dismiss(at, &ReplyError::HeldFull(bytes), kept, metrics);
            self.weigh(at);
            if self
                .connection(at)
                .is_some_and(|it| it.footprint > SMALL_BYTES)
            {
                self.close(at, metrics);
            }
        }
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
    fn dismiss(&mut self, at: usize, error: &ReplyError<'_>, kept: &Kept, metrics: &Metrics) {
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
        if let Some(since) = connection.stranger.take() {
            self.forget_stranger(Some(since));
        }
    }

    /// Takes note of how many bytes a connection holds.
    pub(super) fn weigh(&mut self, at: usize) {
        let Some(connection) = self.connections.get_mut(at).and_then(Option::as_deref_mut) else {
            return;
        };
        let bytes = connection.session.heap_bytes() + connection.out.unsent();
        let before = std::mem::replace(&mut connection.footprint, bytes);
        self.held_bytes = self.held_bytes - before + bytes;
    }
}

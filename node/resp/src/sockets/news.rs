//! Events for subscribers. They wait in one queue, and each subscriber has its own place in it.
//!
//! To compare an event with patterns may take long, because subscribers choose the patterns. So
//! each subscriber has turns, and all subscribers together have a share of each batch. Subscribers
//! with many patterns fall behind, and neither writes nor other subscribers wait for them. A
//! subscriber that falls too far behind is disconnected, as is one that does not read.

use super::{Clients, Connection, LINGER};
use crate::protocol::Midway;
use crate::protocol::limits::{STEPS_FOR_WORK, TURN_WORK_MAX};
use std::collections::VecDeque;
use std::time::Instant;
use tallymesh_node_engine::driver::{CommitGate, Spaces};
use tallymesh_node_engine::metrics::Metrics;
use tallymesh_node_ground::clock::WallClock;
use tallymesh_node_ground::model::{Notice, Place, Turned};

/// Steps of comparison in one turn of a subscriber.
const TURN_STEPS: usize = if cfg!(test) {
    20_000
} else {
    TURN_WORK_MAX * STEPS_FOR_WORK
};

/// Steps of comparison in one batch, for all subscribers together. With a higher value, patterns
/// delay all writes for longer. With a lower value, subscribers with many patterns fall behind
/// sooner.
const BATCH_STEPS: usize = 2 * TURN_STEPS;

/// Most bytes of events that wait for subscribers that are behind. A higher value takes that much
/// memory. A lower value disconnects subscribers that are slow for a moment.
const NEWS_BYTES_MAX: usize = if cfg!(test) { 64 << 10 } else { 16 << 20 };

/// Events that some subscribers have not received.
#[derive(Default)]
pub(super) struct News {
    /// Each event with its space.
    notices: VecDeque<(usize, Notice)>,
    bytes: usize,
    /// The number of the first waiting event, counted from the start.
    first: u64,
    /// Connections that are behind, in the order of their turns.
    behind: VecDeque<usize>,
    /// Steps used in the present batch.
    steps: usize,
}

impl News {
    fn end(&self) -> u64 {
        self.first + self.notices.len() as u64
    }
}

/// How far a connection has received events.
#[derive(Default)]
pub(super) struct NewsPosition {
    /// The number of the next event.
    next: u64,
    midway: Midway,
    /// Whether the connection is in the queue of those that are behind.
    pub(super) behind: bool,
}

/// The bytes that an event takes while it waits.
fn bytes_of(notice: &Notice) -> usize {
    size_of::<(usize, Notice)>() + notice.heap_bytes()
}

impl Clients {
    /// Queues the events of a space for subscribers, and sends as many as the batch's share allows.
    pub(super) fn queue_notices(
        &mut self,
        notices: Vec<Notice>,
        (space, spaces): (usize, &Spaces),
        clock: &WallClock,
        (gate, metrics): (&CommitGate, &Metrics),
    ) {
        if notices.is_empty() || self.subscribers == 0 {
            return;
        }
        let next = self.news.end();
        for notice in notices {
            self.news.bytes += bytes_of(&notice);
            self.news.notices.push_back((space, notice));
        }
        for (at, connection) in &mut self.connections {
            let Some(connection) = connection.as_deref_mut() else {
                continue;
            };
            let is_due = connection.subscribed && connection.ending.is_none();
            if is_due && !connection.news.behind {
                (connection.news.next, connection.news.behind) = (next, true);
                connection.news.midway = Midway::default();
                self.news.behind.push_back(at);
            }
        }
        self.tell(spaces, clock.now(), gate);
        self.cut_off_behind(metrics);
    }

    /// Continues to send events to subscribers, in a new batch.
    pub(super) fn go_on_telling(&mut self, spaces: &Spaces, unix_ms: u64, gate: &CommitGate) {
        self.news.steps = 0;
        self.tell(spaces, unix_ms, gate);
    }

    /// Whether some subscribers have not received all events.
    pub(super) fn is_telling(&self) -> bool {
        !self.news.behind.is_empty()
    }

    /// Gives each subscriber that is behind a turn, until the batch's share is used up.
    fn tell(&mut self, spaces: &Spaces, unix_ms: u64, gate: &CommitGate) {
        for _ in 0..self.news.behind.len() {
            if self.news.steps >= BATCH_STEPS {
                break;
            }
            let Some(at) = self.news.behind.pop_front() else {
                break;
            };
            let connection = self.connections.get_mut(at).and_then(Option::as_deref_mut);
            // The connection may have ended, and another one may have its place.
            let Some(connection) = connection.filter(|it| it.news.behind) else {
                continue;
            };
            connection.news.behind = false;
            if !connection.subscribed || connection.ending.is_some() {
                continue;
            }
            let before = connection.out.end();
            let (steps, turned) = connection.hear(&self.news, spaces, unix_ms);
            self.news.steps += steps;
            if let Some(turned) = turned {
                let out = connection.out.filling();
                connection.session.turn_out(turned, out);
                connection.ending = Some(Instant::now() + LINGER);
                self.timed.push(at);
            } else if connection.news.next < self.news.end() {
                connection.news.behind = true;
                self.news.behind.push_back(at);
            }
            if connection.out.end() > before {
                self.held
                    .push_back(connection.held(at, gate.commit_of_answer()));
            }
        }
        self.forget_told();
    }

    /// Drops the events that all subscribers have received.
    fn forget_told(&mut self) {
        let behind = self.news.behind.iter();
        let next = behind.filter_map(|at| {
            let connection = self.connections.get(*at)?.as_deref()?;
            connection.news.behind.then_some(connection.news.next)
        });
        let next = next.min().unwrap_or(self.news.end());
        while self.news.first < next {
            let Some((_, notice)) = self.news.notices.pop_front() else {
                break;
            };
            self.news.bytes -= bytes_of(&notice);
            self.news.first += 1;
        }
    }

    /// Disconnects the subscribers that are furthest behind, while too much waits for them.
    fn cut_off_behind(&mut self, metrics: &Metrics) {
        while self.news.bytes > NEWS_BYTES_MAX {
            let first = self.news.first;
            let furthest = self.connections.iter().find(|(_, it)| {
                let connection = it.as_deref();
                connection.is_some_and(|it| it.news.behind && it.news.next == first)
            });
            let Some((at, _)) = furthest else {
                return;
            };
            if let Some(connection) = self.connection(at) {
                let peer = &connection.ends.peer;
                tracing::warn!(%peer, "a subscriber's patterns take longer than the changes, and it is cut off");
            }
            metrics.resp_cut_off();
            self.close(at, metrics);
            self.forget_told();
        }
    }
}

impl Connection {
    /// Receives events for one turn. Returns the number of steps, and the error if its ticket is no
    /// longer valid in the selected space.
    fn hear(&mut self, news: &News, spaces: &Spaces, unix_ms: u64) -> (usize, Option<Turned>) {
        let (mut steps, mut judged) = (0, None);
        while steps < TURN_STEPS {
            let at = usize::try_from(self.news.next - news.first).unwrap_or(usize::MAX);
            let Some((space, notice)) = news.notices.get(at) else {
                break;
            };
            if judged != Some(*space) {
                let pass = self.pass.as_ref();
                let place = Place::Space(*space);
                match pass.map_or(Ok(()), |it| it.judge(place, spaces, unix_ms)) {
                    Ok(()) => judged = Some(*space),
                    Err(turned) if *space == self.session.space() => return (steps, Some(turned)),
                    // Its ticket may still be valid in other spaces, so it receives the events of
                    // those.
                    Err(_) => {
                        self.news.next += 1;
                        self.news.midway = Midway::default();
                        steps += 1;
                        continue;
                    }
                }
            }
            let out = self.out.filling();
            let midway = &mut self.news.midway;
            if self
                .session
                .notify(notice, midway, (&mut steps, TURN_STEPS), out)
            {
                self.news.next += 1;
            }
        }
        (steps, None)
    }
}

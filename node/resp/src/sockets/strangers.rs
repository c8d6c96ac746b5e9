//! Strangers: connections that have to authenticate, or to show another ticket. This module bounds
//! their time and their number.
//!
//! Each address has its own queue. If there are too many strangers, the oldest one of the address
//! with the most strangers is closed, once it has had [`GRACE`]. So an address can push out only
//! its own connections, and a client that is slow to authenticate has its time. A client that
//! connects meanwhile waits in the lobby.

use super::stream::Stream;
use super::{Clients, Connection};
use crate::protocol::ReplyError;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use tallymesh_node_engine::metrics::Metrics;
use tallymesh_node_ground::rate::client;

/// How long a connection may take to authenticate, where that is required, or to show another
/// ticket after its own has ended. With a shorter time, distant clients are closed too early. With
/// a longer one, silent strangers occupy their places for longer.
pub(super) const STRANGER_TIME: Duration =
    Duration::from_millis(if cfg!(test) { 500 } else { 10_000 });

/// Most connections that have not authenticated. Above it, the oldest one of the address with the
/// most is closed. A higher value lets strangers take more descriptors. A lower one makes a pool
/// wait that reconnects at once.
const STRANGERS_MAX: usize = 1024;

/// How long a connection may authenticate before it has to give way to another. With a shorter
/// time, distant clients are closed while many strangers connect. With a longer one, every client
/// then waits longer for a place.
const GRACE: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 300 });

/// Most connections that wait for a place. The listener needs one, because its other connections
/// wait in the system's queue. Connections after a TLS handshake come from elsewhere, and need the
/// rest.
const LOBBY_MAX: usize = 64;

/// The connections that have to authenticate, the longest waiting first. An entry stays after its
/// connection has authenticated, until its time is over.
#[derive(Default)]
pub(super) struct Strangers {
    queue: VecDeque<Stranger>,
    of: HashMap<IpAddr, Crowd>,
    count: usize,
    /// Connections that wait for a place.
    lobby: VecDeque<(Stream, SocketAddr)>,
    /// When the next place becomes free at the latest.
    free_at: Option<Instant>,
}

/// The strangers of one address.
#[derive(Default)]
struct Crowd {
    queue: VecDeque<Stranger>,
    count: usize,
}

#[derive(Clone, Copy)]
struct Stranger {
    since: Instant,
    at: usize,
    id: u64,
}

impl Stranger {
    /// Whether the connection still has to authenticate, as the same stranger.
    fn is_one(self, clients: &Clients) -> bool {
        let connection = clients.connections.get(self.at).and_then(Option::as_deref);
        connection.is_some_and(|it| it.session.id() == self.id && it.stranger == Some(self.since))
    }
}

/// Whether there is room for another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Yes,
    /// Once this time has come.
    At(Instant),
    No,
}

impl Clients {
    /// Records whether a connection still has to authenticate.
    pub(super) fn note_stranger(&mut self, at: usize, now: Instant) {
        let Some(connection) = self.connection(at) else {
            return;
        };
        let is = connection.is_stranger();
        let (was, from) = (connection.stranger, client(connection.ends.address));
        match (is, was) {
            (true, None) => {
                connection.stranger = Some(now);
                let id = connection.session.id();
                let stranger = Stranger { since: now, at, id };
                self.strangers.queue.push_back(stranger);
                self.strangers.count += 1;
                let mut crowd = self.strangers.of.remove(&from).unwrap_or_default();
                while crowd.queue.front().is_some_and(|it| !it.is_one(self)) {
                    crowd.queue.pop_front();
                }
                crowd.queue.push_back(stranger);
                crowd.count += 1;
                self.strangers.of.insert(from, crowd);
            }
            (false, Some(_)) => {
                connection.stranger = None;
                self.forget_stranger(was, from);
            }
            _ => {}
        }
    }

    /// Uncounts a connection of this address that is closed or has authenticated. `was` is its time
    /// as a stranger, or `None` if it was none.
    pub(super) fn forget_stranger(&mut self, was: Option<Instant>, from: IpAddr) {
        if was.is_none() {
            return;
        }
        self.strangers.count -= 1;
        let from = client(from);
        if let Some(crowd) = self.strangers.of.get_mut(&from) {
            crowd.count -= 1;
            if crowd.count == 0 {
                self.strangers.of.remove(&from);
            }
        }
    }

    /// When the time of the next stranger is over, or a connection in the lobby gets its place.
    pub(super) fn strangers_due(&self) -> Option<Instant> {
        let first = self.strangers.queue.front();
        let lobby = self.strangers.free_at;
        first
            .map(|it| it.since + STRANGER_TIME)
            .into_iter()
            .chain(lobby)
            .min()
    }

    /// The stranger that has waited longest, if there is any.
    fn oldest_stranger(&mut self) -> Option<Stranger> {
        while let Some(stranger) = self.strangers.queue.front().copied() {
            if stranger.is_one(self) {
                return Some(stranger);
            }
            self.strangers.queue.pop_front();
        }
        None
    }

    /// Removes a stranger whose time is over, if there is one, and returns its place.
    pub(super) fn overdue_stranger(&mut self, now: Instant) -> Option<usize> {
        let stranger = self.oldest_stranger()?;
        if stranger.since + STRANGER_TIME > now {
            return None;
        }
        self.strangers.queue.pop_front();
        Some(stranger.at)
    }

    /// The longest waiting stranger of the address with the most strangers.
    fn oldest_of_most(&mut self) -> Option<Stranger> {
        // The address breaks ties, so that the choice is the same each time.
        let crowds = self.strangers.of.iter();
        let (from, _) = crowds.max_by_key(|(from, crowd)| (crowd.count, **from))?;
        let from = *from;
        loop {
            let crowd = self.strangers.of.get_mut(&from)?;
            let stranger = crowd.queue.front().copied()?;
            if stranger.is_one(self) {
                return Some(stranger);
            }
            self.strangers.of.get_mut(&from)?.queue.pop_front();
        }
    }

    fn is_full(&self) -> bool {
        let many = STRANGERS_MAX.min(self.clients_max / 2).max(1);
        self.strangers.count >= many || self.connections.len() >= self.clients_max
    }

    /// Makes room for another connection, if there are too many strangers, or too many connections
    /// in all.
    pub(super) fn make_room(&mut self, now: Instant, metrics: &Metrics) -> Room {
        while self.is_full() {
            let Some(stranger) = self.oldest_of_most() else {
                break;
            };
            let until = stranger.since + GRACE;
            if until > now {
                return Room::At(until);
            }
            metrics.refused("redis", ReplyError::AuthTime.code());
            self.close(stranger.at, metrics);
        }
        match self.connections.len() < self.clients_max {
            true => Room::Yes,
            false => Room::No,
        }
    }

    /// Puts a connection into the lobby until there is a place for it. Returns it as the error if
    /// the lobby is full.
    pub(super) fn wait_in_lobby(
        &mut self,
        stream: Stream,
        from: SocketAddr,
        until: Instant,
    ) -> Result<(), Stream> {
        if self.strangers.lobby.len() >= LOBBY_MAX {
            return Err(stream);
        }
        self.strangers.lobby.push_back((stream, from));
        self.strangers.free_at = Some(until);
        Ok(())
    }

    /// Whether a connection waits in the lobby. Then the listener's other connections wait, too.
    pub(super) fn has_lobby(&self) -> bool {
        !self.strangers.lobby.is_empty()
    }

    /// Whether the first connection in the lobby may try again.
    pub(super) fn may_leave_lobby(&self, now: Instant) -> bool {
        self.has_lobby() && (self.strangers.free_at.is_none_or(|it| it <= now) || !self.is_full())
    }

    /// Removes the first connection from the lobby.
    pub(super) fn leave_lobby(&mut self) -> Option<(Stream, SocketAddr)> {
        self.strangers.free_at = None;
        self.strangers.lobby.pop_front()
    }
}

impl Connection {
    /// Whether the connection has to authenticate, or to show another ticket.
    pub(super) fn is_stranger(&self) -> bool {
        !self.session.is_known() || self.lapsed
    }
}

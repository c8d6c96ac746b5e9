//! Connections that have to authenticate, or to show another ticket: how long they may, and who gives way
//! if there are too many.
//!
//! Each address has its own queue. The address with most of them gives way, with its oldest, and only once
//! that had [`GRACE`]: so one address pushes out nobody but itself, and a client that is slow to
//! authenticate has its time. A client that comes meanwhile waits in the lobby.

use super::line::Line;
use super::{Clients, Connection};
use crate::http::rate::client;
use crate::metrics::Metrics;
use crate::resp::ReplyError;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// How long a connection may take to authenticate, where that is asked for, and to show another ticket once
/// its own has ended. Shorter, and clients far away are closed while they do; longer, and strangers that say
/// nothing hold their places for so long.
pub(super) const STRANGER_TIME: Duration =
    Duration::from_millis(if cfg!(test) { 500 } else { 10_000 });

/// Most connections that have not authenticated; beyond, the oldest of the address with most of them goes.
/// More lets strangers take more descriptors; fewer makes a pool that comes back at once wait.
const STRANGERS_MAX: usize = 1024;

/// How long a connection has to authenticate before it gives way to another. Shorter, and clients far away
/// are closed while strangers come in great numbers; longer, and everybody waits longer for a place then.
const GRACE: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 300 });

/// Most connections that wait for a place. One is enough for the listener, whose others wait with the
/// system; those with keys agreed on come from elsewhere.
const LOBBY_MAX: usize = 64;

/// The connections that have to authenticate, the longest waiting first. Entries stay when their connections
/// have done so, until their time comes.
#[derive(Default)]
pub(super) struct Strangers {
    queue: VecDeque<Stranger>,
    of: HashMap<IpAddr, Crowd>,
    count: usize,
    /// Connections that wait for a place.
    lobby: VecDeque<(Line, SocketAddr)>,
    /// When the next place becomes free at the latest.
    free_at: Option<Instant>,
}

/// Those of one address.
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
    /// The connection, if it is one that has to authenticate still.
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
    /// Takes note of whether a connection has to authenticate still.
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

    /// A connection from there is closed, or has authenticated, that was, or was not, a stranger.
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

    /// When the next stranger's time is over, or somebody in the lobby gets its place.
    pub(super) fn strangers_due(&self) -> Option<Instant> {
        let first = self.strangers.queue.front();
        let lobby = self.strangers.free_at;
        first
            .map(|it| it.since + STRANGER_TIME)
            .into_iter()
            .chain(lobby)
            .min()
    }

    /// The stranger that is one for longest, if there is any.
    fn oldest_stranger(&mut self) -> Option<Stranger> {
        while let Some(stranger) = self.strangers.queue.front().copied() {
            if stranger.is_one(self) {
                return Some(stranger);
            }
            self.strangers.queue.pop_front();
        }
        None
    }

    /// Takes out a stranger whose time is over, if there is one; tells where it is.
    pub(super) fn overdue_stranger(&mut self, now: Instant) -> Option<usize> {
        let stranger = self.oldest_stranger()?;
        if stranger.since + STRANGER_TIME > now {
            return None;
        }
        self.strangers.queue.pop_front();
        Some(stranger.at)
    }

    /// The stranger of the address with most of them that is one for longest there.
    fn oldest_of_most(&mut self) -> Option<Stranger> {
        // By the address too, so that it is the same one of several.
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

    /// Makes room for another connection, if there are too many strangers, or connections in all.
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

    /// Lets a connection wait until there is a place for it. Gives it back if too many do.
    pub(super) fn wait_in_lobby(
        &mut self,
        line: Line,
        from: SocketAddr,
        until: Instant,
    ) -> Result<(), Line> {
        if self.strangers.lobby.len() >= LOBBY_MAX {
            return Err(line);
        }
        self.strangers.lobby.push_back((line, from));
        self.strangers.free_at = Some(until);
        Ok(())
    }

    /// Whether anybody waits for a place, so that the listener's others do too.
    pub(super) fn has_lobby(&self) -> bool {
        !self.strangers.lobby.is_empty()
    }

    /// Whether the first in the lobby may try again.
    pub(super) fn may_leave_lobby(&self, now: Instant) -> bool {
        self.has_lobby() && (self.strangers.free_at.is_none_or(|it| it <= now) || !self.is_full())
    }

    /// Takes the first out of the lobby.
    pub(super) fn leave_lobby(&mut self) -> Option<(Line, SocketAddr)> {
        self.strangers.free_at = None;
        self.strangers.lobby.pop_front()
    }
}

impl Connection {
    /// Whether it has to authenticate, or to show another ticket.
    pub(super) fn is_stranger(&self) -> bool {
        !self.session.is_known() || self.lapsed
    }
}

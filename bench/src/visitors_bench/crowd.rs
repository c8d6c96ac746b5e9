//! Many pages in one thread: their sockets, their timers, and how many of them show the sum.

use super::client::Client;
use super::socket::{Arrival, Socket};
use crate::random::Random;
use anyhow::Result;
use mio::{Events, Interest, Poll, Token};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tallymesh_core::Millis;

/// Sockets that wait for the server to accept them at a time. More would wait in the listener's backlog.
const OPENING_MAX: usize = 256;
/// A page connects again after so many milliseconds, doubled with each failure, half of it by chance.
const RETRY_MIN_MS: Millis = 250;
const RETRY_MAX_MS: Millis = 15_000;
/// The longest that the thread waits for sockets.
const TURN: Duration = Duration::from_millis(5);
const BUFFER_BYTES: usize = 1 << 16;

/// A page and its socket.
struct Seat {
    client: Box<dyn Client>,
    server: SocketAddr,
    socket: Option<Socket>,
    /// Whether the server has accepted the socket.
    is_up: bool,
    /// Whether it goes, or is gone: it neither counts nor connects again.
    is_gone: bool,
    /// The value that it showed last, and whether it was online then.
    value: i128,
    is_online: bool,
    /// Bytes that it received by earlier sockets.
    received: u64,
    failures: u32,
    /// When it connects again.
    retry: Option<Millis>,
    /// Its tick in the list of what is due.
    due: Option<Millis>,
}

/// Pages at one server, or at several.
pub(super) struct Crowd {
    poll: Poll,
    events: Events,
    seats: Vec<Seat>,
    due: BinaryHeap<Reverse<(Millis, usize)>>,
    /// Pages that are to connect, and how many are connecting.
    waiting: VecDeque<usize>,
    opening: usize,
    began: Instant,
    random: Random,
    buffer: Vec<u8>,
    expected: i128,
    present: usize,
    online: usize,
    agreeing: usize,
    /// Why links ended that no page had closed, and how often.
    lost: BTreeMap<String, usize>,
}

impl Crowd {
    pub(super) fn new() -> Result<Crowd> {
        Ok(Crowd {
            poll: Poll::new()?,
            events: Events::with_capacity(1_024),
            seats: Vec::new(),
            due: BinaryHeap::new(),
            waiting: VecDeque::new(),
            opening: 0,
            began: Instant::now(),
            random: Random::new(38),
            buffer: vec![0; BUFFER_BYTES],
            expected: 0,
            present: 0,
            online: 0,
            agreeing: 0,
            lost: BTreeMap::new(),
        })
    }

    pub(super) fn now(&self) -> Millis {
        self.began.elapsed().as_millis() as Millis
    }

    /// A page comes, and connects. Returns its number.
    pub(super) fn open(&mut self, client: Box<dyn Client>, server: SocketAddr) -> usize {
        let seat = Seat {
            client,
            server,
            socket: None,
            is_up: false,
            is_gone: false,
            value: 0,
            is_online: false,
            received: 0,
            failures: 0,
            retry: None,
            due: None,
        };
        let free = self
            .seats
            .iter()
            .position(|it| it.is_gone && it.socket.is_none());
        let at = match free {
            Some(at) => {
                self.seats[at] = seat;
                at
            }
            None => {
                self.seats.push(seat);
                self.seats.len() - 1
            }
        };
        self.present += 1;
        self.agreeing += usize::from(self.expected == 0);
        self.waiting.push_back(at);
        at
    }

    /// A page goes: with a goodbye, which is sent before its socket is closed, or killed.
    pub(super) fn leave(&mut self, at: usize, goodbye: bool) {
        let now = self.now();
        if goodbye {
            self.seats[at].client.leave(now);
            self.settle(at);
        }
        let expected = self.expected;
        let seat = &mut self.seats[at];
        if std::mem::replace(&mut seat.is_gone, true) {
            return;
        }
        self.present -= 1;
        self.online -= usize::from(seat.is_online);
        self.agreeing -= usize::from(seat.value == expected);
        let socket = seat.socket.as_mut().filter(|_| seat.is_up && goodbye);
        if socket.is_none_or(|socket| socket.close().is_err()) {
            self.hang_up(at);
        }
    }

    /// Drops a socket without a word.
    fn hang_up(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        if let Some(socket) = seat.socket.take() {
            seat.received += socket.received;
            self.opening -= usize::from(!seat.is_up);
            seat.is_up = false;
            socket.reset();
        }
    }

    /// A page adds 1 to the counter, which all are to show.
    pub(super) fn add(&mut self, at: usize) -> Result<()> {
        self.expect(self.expected + 1);
        let now = self.now();
        self.seats[at].client.add(now)?;
        self.settle(at);
        Ok(())
    }

    /// All pages that are there add 1, in one loop.
    pub(super) fn add_all(&mut self) -> Result<()> {
        let now = self.now();
        let all: Vec<usize> = self.numbers().collect();
        self.expect(self.expected + all.len() as i128);
        for &at in &all {
            self.seats[at].client.add(now)?;
        }
        for at in all {
            self.settle(at);
        }
        Ok(())
    }

    /// Sets the value that all are to show.
    pub(super) fn expect(&mut self, value: i128) {
        self.expected = value;
        let agrees = |it: &&Seat| !it.is_gone && it.value == value;
        self.agreeing = self.seats.iter().filter(agrees).count();
    }

    pub(super) fn expected(&self) -> i128 {
        self.expected
    }

    /// The numbers of the pages that are there.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        (0..self.seats.len()).filter(|at| !self.seats[*at].is_gone)
    }

    pub(super) fn present(&self) -> usize {
        self.present
    }

    pub(super) fn online(&self) -> usize {
        self.online
    }

    /// How many show the sum.
    pub(super) fn agreeing(&self) -> usize {
        self.agreeing
    }

    pub(super) fn is_online(&self, at: usize) -> bool {
        self.seats[at].is_online
    }

    /// Whether a page has a socket that the server has accepted.
    pub(super) fn is_up(&self, at: usize) -> bool {
        self.seats[at].is_up
    }

    pub(super) fn is_acknowledged(&self, at: usize) -> Option<bool> {
        self.seats[at].client.is_acknowledged()
    }

    pub(super) fn value(&self, at: usize) -> i128 {
        self.seats[at].value
    }

    /// The least and the greatest value that a page shows.
    pub(super) fn values(&self) -> (i128, i128) {
        let values = self.numbers().map(|at| self.seats[at].value);
        values.fold((i128::MAX, 0), |it, value| {
            (it.0.min(value), it.1.max(value))
        })
    }

    /// Bytes that these pages have received so far.
    pub(super) fn received(&self, pages: &[usize]) -> u64 {
        let of = |at: &usize| {
            let seat = &self.seats[*at];
            seat.received + seat.socket.as_ref().map_or(0, |it| it.received)
        };
        pages.iter().map(of).sum()
    }

    /// Why links ended, with how often, or nothing if none did.
    pub(super) fn take_lost(&mut self) -> Option<String> {
        let lost = std::mem::take(&mut self.lost);
        let parts = lost.iter().map(|(why, count)| format!("{count} x `{why}`"));
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Handles what has arrived and what is due, and waits a little if that is nothing.
    pub(super) fn turn(&mut self) -> Result<()> {
        self.connect_more()?;
        let now = self.now();
        let next = self.due.peek().map_or(Millis::MAX, |it| it.0.0);
        let wait = TURN.min(Duration::from_millis(next.saturating_sub(now)));
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            done => done?,
        }
        let ready: Vec<usize> = self.events.iter().map(|it| it.token().0).collect();
        for at in ready {
            self.read(at);
        }
        let now = self.now();
        while let Some(Reverse((due, at))) = self.due.peek().copied()
            && due <= now
        {
            self.due.pop();
            self.tick(at, due, now);
        }
        Ok(())
    }

    fn tick(&mut self, at: usize, due: Millis, now: Millis) {
        let seat = &mut self.seats[at];
        if seat.is_gone {
            return;
        }
        if seat.retry == Some(due) {
            seat.retry = None;
            self.waiting.push_back(at);
        }
        if seat.due == Some(due) {
            seat.due = None;
            seat.client.tick(now);
            self.settle(at);
        }
    }

    fn connect_more(&mut self) -> Result<()> {
        while self.opening < OPENING_MAX
            && let Some(at) = self.waiting.pop_front()
        {
            let seat = &mut self.seats[at];
            if seat.is_gone || seat.socket.is_some() {
                continue;
            }
            let mut socket = Socket::open(seat.server, &seat.client.path(), at)?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            let registry = self.poll.registry();
            registry.register(&mut socket.stream, Token(at), interest)?;
            seat.socket = Some(socket);
            self.opening += 1;
        }
        Ok(())
    }

    fn read(&mut self, at: usize) {
        let Some(socket) = &mut self.seats[at].socket else {
            return;
        };
        let mut arrivals = Vec::new();
        // The request is written before anything is read.
        let flushed = socket.flush();
        let read = flushed.and_then(|()| socket.read(&mut self.buffer, &mut arrivals));
        let now = self.now();
        for arrival in arrivals {
            let seat = &mut self.seats[at];
            let done = match arrival {
                Arrival::Up => {
                    self.opening -= 1;
                    seat.is_up = true;
                    seat.client.opened(now);
                    Ok(())
                }
                Arrival::Closed(why) => Err(anyhow::Error::msg(why)),
                // It reads no more, and waits for the end of its socket.
                _ if seat.is_gone => Ok(()),
                Arrival::Text(text) => seat.client.text(now, &text),
                Arrival::Frame(bytes) => seat.client.frame(now, &bytes),
            };
            if let Err(error) = done {
                return self.end(at, &error.to_string());
            }
        }
        match read {
            Ok(()) => self.settle(at),
            Err(error) => self.end(at, &error.to_string()),
        }
    }

    /// The socket of a page has ended. It connects again later.
    fn end(&mut self, at: usize, why: &str) {
        let now = self.now();
        let is_gone = self.seats[at].is_gone;
        self.hang_up(at);
        if is_gone {
            return;
        }
        let why: String = why.chars().take(80).collect();
        *self.lost.entry(why).or_default() += 1;
        let half = self.random.below(1_000) as Millis;
        let seat = &mut self.seats[at];
        seat.client.closed(now);
        let wait = RETRY_MAX_MS.min(RETRY_MIN_MS << seat.failures.min(6));
        seat.failures += 1;
        let retry = now + wait / 2 + wait * half / 2_000;
        seat.retry = Some(retry);
        self.due.push(Reverse((retry, at)));
        self.settle(at);
    }

    /// Sends what a page has to send, and takes note of what it shows and of its next tick.
    fn settle(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        while let Some(message) = seat.client.poll() {
            let sent = seat.socket.as_mut().map(|socket| socket.send(&message));
            if let Some(Err(error)) = sent {
                return self.end(at, &error.to_string());
            }
        }
        if seat.is_gone {
            return;
        }
        let (value, is_online) = (seat.client.value(), seat.is_up && seat.client.is_online());
        self.agreeing -= usize::from(seat.value == self.expected);
        self.agreeing += usize::from(value == self.expected);
        self.online -= usize::from(seat.is_online);
        self.online += usize::from(is_online);
        (seat.value, seat.is_online) = (value, is_online);
        if is_online {
            seat.failures = 0;
        }
        // At least a millisecond from now, as in a page. A tick may leave its own deadline behind.
        let soonest = self.began.elapsed().as_millis() as Millis + 1;
        let deadline = seat.client.deadline().map(|it| it.max(soonest));
        if let Some(due) = deadline.filter(|due| seat.due.is_none_or(|it| *due < it)) {
            seat.due = Some(due);
            self.due.push(Reverse((due, at)));
        }
    }
}

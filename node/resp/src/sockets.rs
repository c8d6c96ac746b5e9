//! The sockets of the Redis protocol, on the driver's own thread ([`SocketClients`]). Commands are
//! executed at once on the replicas themselves, and they share the batch's commit.
//!
//! If a client sends faster than it reads, the driver reads no more from it until the client has
//! received its answers. A subscriber can't be slowed down like that, so the driver closes the
//! connection of one that lets its messages pile up.

mod ends;
mod entry;
mod host;
mod news;
mod output;
mod shares;
mod strangers;
mod stream;
#[cfg(test)]
mod tests;
mod waits;

pub use entry::Serve;
use tallymesh_node_engine::access::Credentials;
use tallymesh_node_engine::driver::{
    Begin, CommitGate, FIRST_TOKEN, Secured, SocketClients, Spaces,
};
use tallymesh_node_ground::clock::WallClock;
use tallymesh_node_ground::model::Notice;

use crate::protocol::limits::{OUT_BYTES_MAX, OUT_BYTES_PAUSE, TURN_WORK_MAX};
use crate::protocol::{Flow, RespConfig, Seen, Session};
use host::{ConnectionView, ServerState};
use mio::event::Event;
use mio::net::TcpListener;
use mio::{Interest, Registry, Token};
use news::News;
use output::Output;
use shares::{Footprint, OccupiedBytes};
use slab::Slab;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::net::IpAddr;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use strangers::Strangers;
use stream::Stream;
use tallymesh_core::Question;
use tallymesh_node_engine::contain::contain;
use tallymesh_node_engine::metrics::Metrics;
use waits::{End, Teller, WaitEnded, Waiting};

/// The token of the listener; the tokens of connections come after it.
const LISTENER: Token = FIRST_TOKEN;
const CONNECTIONS: usize = FIRST_TOKEN.0 + 1;

/// Bytes read from one connection before others have their turn.
const READ_BYTES: usize = 64 << 10;

/// Work of all connections together after which other work of the driver has its turn, in the unit of
/// [`TURN_WORK_MAX`]. More lets many busy clients hold up HTTP and other nodes; less makes more commits.
const ROUND_WORK_MAX: usize = 10 * TURN_WORK_MAX;

/// How long a connection that is over may take to read its last answers.
const LINGER: Duration = Duration::from_secs(5);

/// The connections of the Redis protocol.
pub(crate) struct Clients {
    listener: Option<TcpListener>,
    config: Arc<RespConfig>,
    clients_max: usize,
    /// An entry is empty while its connection has its turn.
    connections: Slab<Option<Box<Connection>>>,
    /// Connections with possibly more to read or to execute.
    ready: VecDeque<usize>,
    /// Output that the driver may send once its commit is durable.
    held: VecDeque<GatedOutput>,
    /// Connections that wait for members, for a pause or for their end, and so have a deadline.
    timed: Vec<usize>,
    /// Questions to members whose connections are gone, each with its space.
    unasked: Vec<(usize, Question)>,
    /// How waits for levels have ended; `teller` and `inbox` are the channel on which spaces report
    /// it.
    told: VecDeque<WaitEnded>,
    teller: mpsc::Sender<WaitEnded>,
    inbox: mpsc::Receiver<WaitEnded>,
    subscribers: usize,
    news: News,
    strangers: Strangers,
    /// When the driver next judges all tickets.
    judge_due: Instant,
    /// Bytes that connections occupy.
    held_bytes: OccupiedBytes,
    /// A space that a panic may have left half changed.
    half_changed: Option<usize>,
    server: ServerState,
    buffer: Vec<u8>,
    accepting: bool,
}

/// A part of a connection's output that depends on a commit.
struct GatedOutput {
    /// The number of the commit.
    commit: u64,
    /// The connection, and the number of its session, because another connection may get its place.
    at: usize,
    id: u64,
    /// Where the part ends, counted in bytes from the first one ever sent on the connection.
    end: u64,
}

/// The facts about a connection that are fixed from its beginning.
struct Ends {
    peer: String,
    address: IpAddr,
    local: String,
    made: Instant,
}

impl Ends {
    /// The connection as `CLIENT` commands show it, if it last sent at the given time.
    fn seen(&self, heard: Instant) -> Seen {
        Seen {
            peer: self.peer.clone(),
            local: self.local.clone(),
            age_s: self.made.elapsed().as_secs(),
            idle_s: heard.elapsed().as_secs(),
        }
    }
}

/// One connection.
struct Connection {
    stream: Stream,
    session: Session,
    /// The ticket of the connection, if tickets are required.
    pass: Option<Box<Credentials>>,
    ends: Arc<Ends>,
    /// When it last sent something.
    heard: Instant,
    out: Output,
    readable: bool,
    /// Whether the other end has closed its side.
    read_closed: bool,
    /// Whether the session may have received commands that it has not executed.
    again: bool,
    writable: bool,
    /// Whether it is in the queue of ready connections.
    queued: bool,
    /// The wait of the connection, if it waits.
    wait: Option<Waiting>,
    /// When to drop the connection at the latest. If it is set, the connection is ending, and is
    /// dropped once its output is sent.
    ending: Option<Instant>,
    subscribed: bool,
    /// How far it has received events.
    news: news::NewsPosition,
    /// Since when it has to authenticate, if it has to.
    stranger: Option<Instant>,
    /// Whether its ticket was not valid at the last look.
    lapsed: bool,
    /// Bytes that it occupies, as they were last counted.
    footprint: Footprint,
}

impl Connection {
    /// Whether it may execute more commands now.
    fn is_ready(&self) -> bool {
        self.ending.is_none() && self.wait.is_none() && self.out.unsent() < OUT_BYTES_PAUSE
    }

    /// Whether it is ending and all its output is sent.
    fn is_over(&self) -> bool {
        self.ending.is_some() && self.out.unsent() == 0 && !self.stream.is_unsent()
    }

    /// The connection as `CLIENT` commands show it.
    fn seen(&self) -> Seen {
        self.ends.seen(self.heard)
    }
}

/// A function that makes the clients, for the driver.
pub fn begin(serve: Serve) -> Begin {
    Box::new(|registry| Ok(Box::new(Clients::start(serve, registry)?)))
}

impl SocketClients for Clients {
    fn wake(&mut self, event: &Event) {
        self.note_event(event);
    }

    fn secured(&mut self, client: Secured, registry: &Registry, metrics: &Metrics) {
        self.accept_secured(client, registry, metrics);
    }

    fn is_ready(&self) -> bool {
        self.has_work()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.due()
    }

    fn work(
        &mut self,
        registry: &Registry,
        spaces: &mut Spaces,
        gate: &mut CommitGate,
        metrics: &Metrics,
        unix_ms: u64,
        since_start: u64,
    ) {
        self.serve(registry, spaces, gate, metrics, unix_ms, since_start);
    }

    fn half_changed(&self) -> Option<usize> {
        self.half_changed
    }

    fn set_links(&mut self, links: usize) {
        self.server.links = links;
    }

    fn are_listening(&self) -> bool {
        self.subscribers > 0
    }

    fn notify(
        &mut self,
        notices: Vec<Notice>,
        space: (usize, &Spaces),
        clock: &WallClock,
        gate: (&CommitGate, &Metrics),
    ) {
        self.queue_notices(notices, space, clock, gate);
    }

    fn release(&mut self, durable: u64, metrics: &Metrics) {
        self.send_durable(durable, metrics);
    }
}

impl Clients {
    fn start(serve: Serve, registry: &Registry) -> io::Result<Clients> {
        let listener = serve.listener.map(|listener| {
            listener.set_nonblocking(true)?;
            let mut listener = TcpListener::from_std(listener);
            registry.register(&mut listener, LISTENER, Interest::READABLE)?;
            Ok::<_, io::Error>(listener)
        });
        let (teller, inbox) = mpsc::channel();
        Ok(Clients {
            listener: listener.transpose()?,
            config: Arc::new(serve.rules),
            clients_max: serve.clients_max,
            connections: Slab::new(),
            ready: VecDeque::new(),
            held: VecDeque::new(),
            timed: Vec::new(),
            unasked: Vec::new(),
            told: VecDeque::new(),
            teller,
            inbox,
            subscribers: 0,
            news: News::default(),
            strangers: Strangers::default(),
            judge_due: Instant::now(),
            held_bytes: OccupiedBytes::default(),
            half_changed: None,
            server: ServerState::new(serve.port, serve.ledger, serve.token, serve.clients_max),
            buffer: vec![0; READ_BYTES],
            accepting: false,
        })
    }

    /// Records that a socket can be read from or written to.
    fn note_event(&mut self, event: &Event) {
        if event.token() == LISTENER {
            self.accepting = true;
            return;
        }
        let Some(at) = event.token().0.checked_sub(CONNECTIONS) else {
            return; // the bell
        };
        let Some(connection) = self.connection(at) else {
            return; // It was closed in the same batch.
        };
        connection.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        connection.read_closed |= event.is_read_closed() || event.is_error();
        connection.writable |= event.is_writable();
        self.queue(at);
    }

    fn connection(&mut self, at: usize) -> Option<&mut Connection> {
        self.connections.get_mut(at)?.as_deref_mut()
    }

    fn queue(&mut self, at: usize) {
        if let Some(connection) = self.connection(at)
            && !std::mem::replace(&mut connection.queued, true)
        {
            self.ready.push_back(at);
        }
    }

    /// Whether there is something to do at once.
    fn has_work(&self) -> bool {
        self.accepting || !self.ready.is_empty() || !self.told.is_empty() || self.is_telling()
    }

    /// When something is due without any input.
    fn due(&self) -> Option<Instant> {
        let deadlines = self.timed.iter().filter_map(|at| {
            let connection = self.connections.get(*at)?.as_deref()?;
            let wait = connection.wait.as_ref().and_then(Waiting::until);
            connection.ending.or(wait)
        });
        deadlines.chain(self.ends_due()).min()
    }

    /// Receives commands and executes them. Each ready connection has one turn. `since_start` is in
    /// milliseconds.
    fn serve(
        &mut self,
        registry: &Registry,
        spaces: &mut Spaces,
        gate: &mut CommitGate,
        metrics: &Metrics,
        unix_ms: u64,
        since_start: u64,
    ) {
        if self.accepting || self.may_leave_lobby(Instant::now()) {
            self.accepting = true;
            self.accept(registry, metrics);
        }
        for (space, question) in self.unasked.drain(..) {
            spaces[space].end_question(question);
        }
        self.answer_told(gate);
        self.go_on_telling(spaces, unix_ms, gate);
        let now = Instant::now();
        let mut work = 0;
        for _ in 0..self.ready.len() {
            if work >= ROUND_WORK_MAX {
                break; // The others have their turn first in the next batch.
            }
            let Some(at) = self.ready.pop_front() else {
                break;
            };
            let Some(mut connection) = self.connections.get_mut(at).and_then(Option::take) else {
                continue;
            };
            connection.queued = false;
            let mut view = ConnectionView {
                spaces,
                others: &self.connections,
                own: (
                    connection.session.id(),
                    connection.ends.clone(),
                    connection.heard,
                ),
                pass: connection.pass.take(),
                server: &mut self.server,
                metrics,
                unix_ms,
                since_start,
                now,
                wrote: false,
                changing: None,
                shown: false,
            };
            let before = connection.session.commands();
            let turn = contain(|| connection.turn((at, &self.teller), &mut self.buffer, &mut view));
            if view.wrote {
                gate.touch();
            }
            if turn.is_err() {
                self.half_changed = self.half_changed.or(view.changing);
            }
            connection.lapsed &= !view.shown;
            connection.pass = view.pass;
            work += connection.session.work();
            let commands = connection.session.commands() - before;
            self.server.commands += commands;
            metrics.resp_commands(commands);
            let turn = turn.unwrap_or_else(|panicked| {
                panicked.tell(metrics, "redis");
                Ok(connection.fail(now))
            });
            self.connections[at] = Some(connection);
            if self.half_changed.is_some() {
                return; // The node stops.
            }
            self.after(at, turn, gate, metrics);
        }
        self.look_at_time(spaces, gate, metrics, since_start);
        self.look_at_ends(spaces, gate, metrics, unix_ms);
    }

    /// Handles the result of a turn.
    fn after(&mut self, at: usize, turn: io::Result<Turn>, gate: &CommitGate, metrics: &Metrics) {
        let Ok(turn) = turn else {
            return self.close(at, metrics);
        };
        let Some(connection) = self.connections.get_mut(at).and_then(Option::as_deref_mut) else {
            return;
        };
        if connection.subscribed != connection.session.is_subscribed() {
            connection.subscribed = !connection.subscribed;
            match connection.subscribed {
                true => self.subscribers += 1,
                false => self.subscribers -= 1,
            }
        }
        if connection.is_over() {
            return self.close(at, metrics);
        }
        self.weigh(at);
        self.note_stranger(at, Instant::now());
        let Some(connection) = self.connections.get_mut(at).and_then(Option::as_deref_mut) else {
            return;
        };
        if connection.ending.is_some() || connection.wait.is_some() {
            self.timed.push(at);
        }
        if turn.wrote {
            self.held
                .push_back(connection.held(at, gate.commit_of_answer()));
        }
        if turn.more {
            self.queue(at);
        }
    }

    /// Answers the clients that waited for a level, and lets the clients that waited for rights
    /// execute their command again.
    fn answer_told(&mut self, gate: &CommitGate) {
        while let Some(WaitEnded { at, id, end }) = self.told.pop_front() {
            let Some(connection) = self.connections.get_mut(at).and_then(Option::as_deref_mut)
            else {
                continue;
            };
            // The connection may have ended, and another one may have its place.
            if connection.session.id() == id && connection.wait.take().is_some() {
                connection.again = true;
                let out = connection.out.filling();
                match end {
                    End::Level(met) => connection.session.answer_level(met, out),
                    End::Rights(left_ms) => connection.session.answer_rights(left_ms),
                }
                self.held
                    .push_back(connection.held(at, gate.commit_of_answer()));
                self.queue(at);
            }
        }
    }

    /// Ends the waits whose time is over.
    fn look_at_time(
        &mut self,
        spaces: &mut Spaces,
        gate: &CommitGate,
        metrics: &Metrics,
        since_start: u64,
    ) {
        let now = Instant::now();
        let mut timed = std::mem::take(&mut self.timed);
        timed.sort_unstable();
        timed.dedup();
        for at in timed {
            let Some(connection) = self.connections.get_mut(at).and_then(Option::as_deref_mut)
            else {
                continue;
            };
            if connection.ending.is_some_and(|until| until <= now) {
                self.close(at, metrics);
                continue;
            }
            if connection
                .wait
                .as_ref()
                .is_some_and(|wait| wait.has_paused(now))
            {
                (connection.wait, connection.again) = (None, true);
                connection.session.answer_pause();
                self.queue(at);
                continue;
            }
            let writes = connection.session.writes();
            let (wait, ended) = (connection.wait.as_mut(), connection.read_closed);
            let over = wait.and_then(|it| it.holders(writes, spaces, (now, since_start), ended));
            if let Some(holders) = over {
                self.unasked.extend(connection.unasked());
                (connection.wait, connection.again) = (None, true);
                let out = connection.out.filling();
                connection.session.answer_wait(holders, out);
                self.held
                    .push_back(connection.held(at, gate.commit_of_answer()));
                self.queue(at);
                continue;
            }
            if connection.ending.is_some() || connection.wait.is_some() {
                self.timed.push(at);
            }
        }
    }

    /// Sends the output whose commit is durable.
    fn send_durable(&mut self, durable: u64, metrics: &Metrics) {
        self.told.extend(self.inbox.try_iter());
        while self.held.front().is_some_and(|held| held.commit <= durable) {
            let Some(held) = self.held.pop_front() else {
                break;
            };
            let connection = self.connection(held.at);
            if let Some(connection) = connection.filter(|it| it.session.id() == held.id) {
                connection.out.free(held.end);
                self.send(held.at, metrics);
            }
        }
    }

    fn send(&mut self, at: usize, metrics: &Metrics) {
        let Some(connection) = self.connection(at) else {
            return;
        };
        let was_ready = connection.is_ready();
        let sent = connection.send();
        let unsent = connection.out.unsent();
        let over = connection.is_over();
        let slow = unsent > OUT_BYTES_MAX;
        if slow {
            let peer = &connection.ends.peer;
            tracing::warn!(%peer, unsent, "a Redis client does not read, and is cut off");
            metrics.resp_cut_off();
        }
        if sent.is_err() || over || slow {
            self.close(at, metrics);
        } else {
            if !was_ready && connection.is_ready() {
                self.queue(at);
            }
            self.weigh(at);
        }
    }

    fn close(&mut self, at: usize, metrics: &Metrics) {
        if let Some(mut connection) = self.connections.try_remove(at).flatten() {
            connection.stream.end();
            self.subscribers -= usize::from(connection.subscribed);
            self.held_bytes.forget(connection.footprint);
            self.forget_stranger(connection.stranger, connection.ends.address);
            self.unasked.extend(connection.unasked());
            metrics.resp_clients(self.connections.len());
        }
    }
}

/// The result of a turn.
struct Turn {
    /// Whether there is more to be read or executed.
    more: bool,
    /// Whether something is to be sent.
    wrote: bool,
}

impl Connection {
    /// Ends the connection, because its turn panicked.
    fn fail(&mut self, now: Instant) -> Turn {
        self.session.fail(self.out.filling());
        self.ending = Some(now + LINGER);
        Turn {
            more: false,
            wrote: true,
        }
    }

    /// All its output so far, as a part that depends on a commit.
    fn held(&self, at: usize, commit: u64) -> GatedOutput {
        GatedOutput {
            commit,
            at,
            id: self.session.id(),
            end: self.out.end(),
        }
    }

    /// The questions that members were asked for this connection, each with its space.
    fn unasked(&self) -> Vec<(usize, Question)> {
        let wait = self.wait.as_ref();
        wait.map_or(Vec::new(), |wait| wait.questions(self.session.writes()))
    }

    /// Sends the output that is free, reads up to a buffer of input, and executes it.
    fn turn(
        &mut self,
        (at, teller): (usize, &mpsc::Sender<WaitEnded>),
        buffer: &mut [u8],
        view: &mut ConnectionView<'_>,
    ) -> io::Result<Turn> {
        self.send()?;
        let before = self.out.end();
        let mut flow = Flow::Open;
        if self.is_ready() && std::mem::take(&mut self.again) {
            flow = self.session.feed(&[], view, self.out.filling());
        }
        if flow == Flow::Open && self.readable && self.is_ready() {
            flow = match self.read(buffer)? {
                Some(read) => {
                    self.heard = view.now;
                    self.session.feed(&buffer[..read], view, self.out.filling())
                }
                // The client sends no more, but some answers may still wait to be sent.
                None => Flow::Close,
            };
        }
        match flow {
            Flow::Open => {}
            Flow::Full | Flow::Turn => self.again = true,
            Flow::Waits => {
                let id = self.session.id();
                let teller = Teller { at, id, to: teller };
                let (session, now) = (&self.session, view.since_start);
                let wait = session.wait();
                self.wait =
                    wait.map(|wait| Waiting::begin(wait, session, view.spaces, now, &teller));
            }
            Flow::Close => self.ending = Some(view.now + LINGER),
        }
        Ok(Turn {
            more: (self.readable || self.again) && self.is_ready(),
            wrote: self.out.end() > before,
        })
    }

    /// Sends the output that is free, as far as the socket accepts it.
    fn send(&mut self) -> io::Result<()> {
        if self.writable {
            self.writable = self.out.send(&mut self.stream)?;
        }
        Ok(())
    }

    /// Reads up to the buffer's length; `None` at the end of the stream.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Ok(None),
                Ok(count) => {
                    // A short read means that there is no more input now. The system will not
                    // report the end of the stream a second time.
                    self.readable =
                        count == buffer.len() || self.read_closed || self.stream.is_unread();
                    return Ok(Some(count));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Ok(Some(0));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

//! The idle timeout of connections, and the bound on their number.
//!
//! The node closes a connection that sends nothing, does not finish its request, or does not read
//! its answer. Otherwise such connections would keep some of the few places for ever. To a stream
//! of events or a socket, the node writes at intervals, even if nothing happens.
//!
//! If all places are taken, the connections that have been silent longest give way, first those at
//! the address with the most. If none is silent, slow requests of clients below the role member
//! give way: their bodies do not end, or they wait. Streams never give way. Instead they have at
//! most three quarters of the places ([`Places`]). The rest is for requests, which end.

use super::REQUEST_TIMEOUT;
use super::bodies::Charge;
use axum::serve::Listener;
use futures::task::AtomicWaker;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tallymesh_node_engine::access;
use tallymesh_node_engine::access::places::{Full, Places};
use tallymesh_node_engine::metrics::{HttpClient, Metrics};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// How long a new connection may be silent, and how long the head of a request may take. With a
/// shorter time, distant clients are refused.
const HEAD_MAX: Duration = Duration::from_secs(10);

/// How long a connection may be silent after an answer. With a shorter time, clients connect more
/// often.
const SILENT_MAX: Duration = Duration::from_secs(60);

/// How long a request may be without an answer, and a message of a socket unfinished. It is longer
/// than the timeout of a request, so that the error for a slow request is still sent.
const UNANSWERED_MAX: Duration = REQUEST_TIMEOUT.saturating_add(Duration::from_secs(5));

/// How long a client may read nothing of its output.
const UNREAD_MAX: Duration = match cfg!(test) {
    false => Duration::from_secs(30),
    true => Duration::from_millis(100),
};

/// How long a connection must be silent before it gives way if there is no place. With a shorter
/// time, many connections push out clients that are about to send a request.
const GIVES_WAY: Duration = match cfg!(test) {
    false => Duration::from_secs(1),
    true => Duration::from_millis(200),
};

/// How long a request must take before it gives way if there is no place, and no connection is
/// silent. With a shorter time, slow clients are closed. With a longer one, many clients whose
/// bodies never end keep others out.
const REQUEST_GIVES_WAY: Duration = match cfg!(test) {
    false => Duration::from_secs(3),
    true => Duration::from_millis(200),
};

/// How often the listener looks for a connection that gives way.
const LOOK: Duration = Duration::from_millis(50);

/// A listener that closes connections that never finish their requests, and accepts no more than it
/// has places. If there is none, a new connection waits until a silent one has given way.
pub(super) struct IdleTimeoutListener<L> {
    listener: L,
    room: Arc<Room>,
    metrics: Metrics,
}

/// The present connections, and places for more.
struct Room {
    begun: Instant,
    places: Arc<Semaphore>,
    streams: Mutex<Places>,
    clients: Mutex<(u64, BTreeMap<u64, Arc<Client>>)>,
}

impl<L> IdleTimeoutListener<L> {
    pub(super) fn new(listener: L, clients_max: usize, metrics: Metrics) -> IdleTimeoutListener<L> {
        let clients_max = clients_max.min(Semaphore::MAX_PERMITS);
        let room = Arc::new(Room {
            begun: Instant::now(),
            places: Arc::new(Semaphore::new(clients_max)),
            streams: Mutex::new(Places::new(clients_max - clients_max / 4)),
            clients: Mutex::default(),
        });
        IdleTimeoutListener {
            listener,
            room,
            metrics,
        }
    }
}

/// The origin of a client.
pub(super) trait Comes {
    /// The number of its address.
    fn network(&self) -> u128;
}

impl Comes for SocketAddr {
    fn network(&self) -> u128 {
        access::network(self.ip())
    }
}

impl<L: Listener<Addr: Comes>> Listener for IdleTimeoutListener<L> {
    type Io = IdleTimeoutStream<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // No connection gives way before a new one arrives.
        let (io, address) = self.listener.accept().await;
        let place = match self.room.places.clone().try_acquire_owned() {
            Ok(place) => Some(place),
            Err(_) => {
                self.metrics.http_full();
                self.room.place().await
            }
        };
        let place = Place {
            _permit: place,
            _figure: self.metrics.http_client(),
        };
        let client = Client::enter(&self.room, address.network());
        (IdleTimeoutStream::new(io, client, place), address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

impl Room {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn clients(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Arc<Client>>)> {
        // No code panics while it has the lock.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn streams(&self) -> MutexGuard<'_, Places> {
        // No code panics while it has the lock.
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place, and makes silent connections give way for it.
    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            self.make_way();
            tokio::select! {
                // It fails only if the semaphore is closed, which never happens.
                place = self.places.clone().acquire_owned() => return place.ok(),
                () = sleep(LOOK) => {}
            }
        }
    }

    /// Closes some of the connections that have been silent longest. It closes several at once,
    /// because a search takes time, and many waiting clients need more than one place.
    fn make_way(&self) {
        let now = self.now();
        let clients = self.clients();
        let mut of_address: HashMap<u128, usize> = HashMap::new();
        for client in clients.1.values() {
            *of_address.entry(client.address).or_default() += 1;
        }
        let of = |since: fn(&Client, u64) -> Option<u64>| {
            let may = clients.1.values().filter_map(|client| {
                let count = of_address.get(&client.address).copied();
                Some((Reverse(count), since(client, now)?, client))
            });
            may.collect::<Vec<_>>()
        };
        let mut may = of(Client::silent_since);
        if may.is_empty() {
            may = of(Client::slow_since);
        }
        may.sort_by_key(|it| (it.0, it.1));
        let some = clients.1.len().div_ceil(64);
        for (_, _, client) in may.into_iter().take(some) {
            client.gives_way.store(true, Ordering::Relaxed);
            client.waker.wake();
        }
    }
}

/// The place that a connection occupies while it exists.
struct Place {
    _permit: Option<OwnedSemaphorePermit>,
    _figure: HttpClient,
}

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// It was accepted, and has sent no request.
    New,
    /// The head of a request has arrived, and the request has no answer yet.
    Asked,
    /// The request is answered.
    Answered,
    /// A stream of events, or a socket.
    Stream,
}

/// The state of one connection, shared by its reader, its writer and the handler.
pub(super) struct Client {
    room: Arc<Room>,
    number: u64,
    address: u128,
    phase: AtomicU8,
    /// Whether it is below the role member, as far as its present request shows.
    limited: AtomicBool,
    /// When its present request arrived, in milliseconds of the room.
    asked: AtomicU64,
    /// The client that its place as a stream is charged to.
    stream: Mutex<Option<access::Client>>,
    /// When it was accepted, or something was last written, in milliseconds of the room.
    since: AtomicU64,
    /// When the first unanswered byte was read, plus one; 0 if there is none.
    heard: AtomicU64,
    gives_way: AtomicBool,
    waker: AtomicWaker,
    /// Counts the bytes on a socket until they are a whole message.
    charge: OnceLock<Arc<Charge>>,
}

impl Client {
    fn enter(room: &Arc<Room>, address: u128) -> Arc<Client> {
        let mut clients = room.clients();
        let number = clients.0;
        clients.0 += 1;
        let client = Arc::new(Client {
            room: room.clone(),
            number,
            address,
            phase: AtomicU8::new(Phase::New as u8),
            limited: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            stream: Mutex::default(),
            since: AtomicU64::new(room.now()),
            heard: AtomicU64::new(0),
            gives_way: AtomicBool::new(false),
            waker: AtomicWaker::new(),
            charge: OnceLock::new(),
        });
        clients.1.insert(number, client.clone());
        client
    }

    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::New,
            1 => Phase::Asked,
            2 => Phase::Answered,
            _ => Phase::Stream,
        }
    }

    fn set(&self, phase: Phase) {
        let before = self.phase();
        self.phase.store(phase as u8, Ordering::Relaxed);
        if before == Phase::Stream
            && let Some(of) = self.stream().take()
        {
            self.room.streams().end(of);
        }
    }

    /// Records that the head of a request has arrived.
    pub(super) fn asked(&self) {
        self.limited.store(false, Ordering::Relaxed);
        self.asked.store(self.room.now(), Ordering::Relaxed);
        self.set(Phase::Asked);
    }

    /// Records that the request is from a client below the role member.
    pub(super) fn is_guest(&self) {
        self.limited.store(true, Ordering::Relaxed);
    }

    fn stream(&self) -> MutexGuard<'_, Option<access::Client>> {
        // No code panics while it has the lock.
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the request is answered.
    pub(super) fn answered(&self) {
        self.set(Phase::Answered);
        self.wrote();
    }

    /// Records that a stream begins.
    ///
    /// # Errors
    /// If such clients already have their most streams.
    pub(super) fn streams(&self, of: access::Client) -> Result<(), Full> {
        self.room.streams().begin(of)?;
        *self.stream() = Some(of);
        self.phase.store(Phase::Stream as u8, Ordering::Relaxed);
        Ok(())
    }

    /// Counts further received bytes in a share of the bytes of unfinished messages.
    pub(super) fn charge(&self, charge: Arc<Charge>) {
        // A connection becomes a socket once.
        let _ = self.charge.set(charge);
    }

    fn wrote(&self) {
        self.heard.store(0, Ordering::Relaxed);
        self.since.store(self.room.now(), Ordering::Relaxed);
    }

    fn read(&self) {
        if self.heard.load(Ordering::Relaxed) == 0 {
            self.heard.store(self.room.now() + 1, Ordering::Relaxed);
        }
    }

    /// The time until which some input has to arrive.
    fn due(&self) -> Option<Instant> {
        let at = |millis: u64| self.room.begun + Duration::from_millis(millis);
        let since = || at(self.since.load(Ordering::Relaxed));
        let heard = self.heard.load(Ordering::Relaxed).checked_sub(1).map(at);
        match (self.phase(), heard) {
            (Phase::New | Phase::Answered, Some(heard)) => Some(heard + HEAD_MAX),
            (Phase::New, None) => Some(since() + HEAD_MAX),
            (Phase::Answered, None) => Some(since() + SILENT_MAX),
            (Phase::Asked | Phase::Stream, heard) => heard.map(|heard| heard + UNANSWERED_MAX),
        }
    }

    /// Since when it has been silent, if that is long enough to give way.
    fn silent_since(&self, now: u64) -> Option<u64> {
        if !matches!(self.phase(), Phase::New | Phase::Answered) {
            return None;
        }
        let heard = self.heard.load(Ordering::Relaxed).checked_sub(1);
        let since = heard.unwrap_or_else(|| self.since.load(Ordering::Relaxed));
        (now.saturating_sub(since) >= GIVES_WAY.as_millis() as u64).then_some(since)
    }
}

impl Client {
    /// Since when its request has been running, if its client is below the role member and that is
    /// long enough to give way.
    fn slow_since(&self, now: u64) -> Option<u64> {
        let since = self.asked.load(Ordering::Relaxed);
        let is_slow = now.saturating_sub(since) >= REQUEST_GIVES_WAY.as_millis() as u64;
        let gives_way = self.phase() == Phase::Asked && self.limited.load(Ordering::Relaxed);
        (gives_way && is_slow).then_some(since)
    }
}

/// A connection that is closed if it takes too long.
pub(super) struct IdleTimeoutStream<T> {
    io: T,
    client: Arc<Client>,
    /// Wakes the reader. It is created at the first wait, and reused.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Wakes the writer of bytes that the client does not read.
    unread: Option<Pin<Box<Sleep>>>,
    _place: Place,
}

impl<T> IdleTimeoutStream<T> {
    fn new(io: T, client: Arc<Client>, place: Place) -> IdleTimeoutStream<T> {
        IdleTimeoutStream {
            io,
            client,
            alarm: None,
            unread: None,
            _place: place,
        }
    }

    /// The state of this connection.
    pub(super) fn client(&self) -> Arc<Client> {
        self.client.clone()
    }

    /// Records the result of a write. Returns an error if the client has read nothing for too long.
    fn written(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(_) => {
                self.unread = None;
                if matches!(written, Poll::Ready(Ok(1..))) {
                    self.client.wrote();
                }
                written
            }
            Poll::Pending => {
                let unread = self
                    .unread
                    .get_or_insert_with(|| Box::pin(sleep(UNREAD_MAX)));
                let over = unread.as_mut().poll(context);
                over.map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl<T> Drop for IdleTimeoutStream<T> {
    fn drop(&mut self) {
        self.client.set(Phase::Answered);
        let room = &self.client.room;
        room.clients().1.remove(&self.client.number);
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for IdleTimeoutStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.io).poll_read(context, buffer);
        let came = buffer.filled().len() - before;
        if came > 0 {
            this.client.read();
            if let Some(charge) = this.client.charge.get()
                && charge.add(came).is_err()
            {
                return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
            }
        }
        if read.is_ready() {
            return read;
        }
        this.client.waker.register(context.waker());
        if this.client.gives_way.load(Ordering::Relaxed) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        loop {
            let Some(due) = this.client.due() else {
                return Poll::Pending;
            };
            let alarm = this.alarm.get_or_insert_with(|| Box::pin(sleep_until(due)));
            // An alarm that is too early is set again when it fires, which is rare.
            if alarm.deadline() > due {
                alarm.as_mut().reset(due);
            }
            match alarm.as_mut().poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) if Instant::now() >= due => {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                Poll::Ready(()) => alarm.as_mut().reset(due),
            }
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for IdleTimeoutStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.written(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, slices);
        self.written(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;

//! How long somebody may take to ask, and how many may be there.
//!
//! Whoever says something is answered within the time that a request may take, or it has not finished:
//! it sends its header or its body a byte at a time, or has opened a connection and says nothing. Such
//! connections would be held for ever, and there are only so many. A stream of events or of a socket is
//! written to before, also while nothing happens.

use super::REQUEST_TIMEOUT;
use crate::metrics::{HttpClient, Metrics};
use axum::serve::Listener;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};

/// How long a connection may be read from with nothing written to it. It is longer than a request may
/// take, so that the answer to one that takes too long gets out.
const UNANSWERED_MAX: Duration = REQUEST_TIMEOUT.saturating_add(Duration::from_secs(5));

/// A listener that closes the connections of those that never finish what they ask, and takes no more
/// of them than there is room for: who comes then waits in the system's queue.
pub(super) struct Patient<L> {
    listener: L,
    room: Arc<Semaphore>,
    metrics: Metrics,
}

impl<L> Patient<L> {
    pub(super) fn new(listener: L, clients_max: usize, metrics: Metrics) -> Patient<L> {
        let room = Arc::new(Semaphore::new(clients_max.min(Semaphore::MAX_PERMITS)));
        Patient {
            listener,
            room,
            metrics,
        }
    }
}

impl<L: Listener> Listener for Patient<L> {
    type Io = Patience<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let place = match self.room.clone().try_acquire_owned() {
            Ok(place) => Some(place),
            Err(_) => {
                self.metrics.http_full();
                // It fails only if the room is closed, which it never is.
                self.room.clone().acquire_owned().await.ok()
            }
        };
        let (io, address) = self.listener.accept().await;
        let place = (place, self.metrics.http_client());
        (Patience::new(io, UNANSWERED_MAX, place), address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// What a connection takes as long as it is there.
type Place = (Option<OwnedSemaphorePermit>, HttpClient);

/// A connection that is closed if it is read from for too long with nothing written to it.
pub(super) struct Patience<T> {
    io: T,
    most: Duration,
    /// When it has to be answered; nothing if it has been.
    due: Option<Instant>,
    /// Wakes whoever reads; made when somebody waits, and kept.
    alarm: Option<Pin<Box<Sleep>>>,
    _place: Place,
}

impl<T> Patience<T> {
    fn new(io: T, most: Duration, place: Place) -> Patience<T> {
        Patience {
            io,
            most,
            due: Some(Instant::now() + most),
            alarm: None,
            _place: place,
        }
    }

    fn answered(&mut self, written: &Poll<io::Result<usize>>) {
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.due = None;
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Patience<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.io).poll_read(context, buffer);
        if buffer.filled().len() > before {
            this.due.get_or_insert_with(|| Instant::now() + this.most);
        }
        let (Poll::Pending, Some(due)) = (&read, this.due) else {
            return read;
        };
        let alarm = this.alarm.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if alarm.deadline() != due {
            alarm.as_mut().reset(due);
        }
        match alarm.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Patience<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.answered(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, slices);
        self.answered(&written);
        written
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
mod tests {
    use super::*;
    use futures::poll;
    use std::pin::pin;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    fn place() -> Place {
        (None, Metrics::new().http_client())
    }

    #[tokio::test]
    async fn whoever_is_answered_may_be_silent() {
        let (mut client, node) = duplex(64);
        let mut node = Patience::new(node, UNANSWERED_MAX, place());
        assert!(node.due.is_some(), "it has said nothing yet");
        for _ in 0..2 {
            client.write_all(b"ab").await.expect("write");
            assert_eq!(node.read_u8().await.expect("it is read"), b'a');
            let due = node.due;
            assert!(due.is_some());
            assert_eq!(node.read_u8().await.expect("it is read"), b'b');
            assert_eq!(node.due, due, "more of the same does not put it off");
            node.write_all(b"c").await.expect("write");
            assert_eq!(node.due, None);
        }
    }

    #[tokio::test]
    async fn whoever_never_finishes_is_cut_off() {
        let (mut client, node) = duplex(1 << 16);
        let mut node = Patience::new(node, Duration::from_millis(50), place());
        let said = async {
            while client.write_all(b"a").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let mut all = Vec::new();
        let error = tokio::select! {
            read = node.read_to_end(&mut all) => read.expect_err("it is cut off"),
            () = said => unreachable!("it goes on for ever"),
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    /// Somebody always wants to come in.
    struct Crowd(Vec<DuplexStream>);

    impl Listener for Crowd {
        type Io = DuplexStream;
        type Addr = ();

        async fn accept(&mut self) -> (DuplexStream, ()) {
            let (client, node) = duplex(64);
            self.0.push(client);
            (node, ())
        }

        fn local_addr(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn whoever_finds_no_room_waits_until_somebody_goes() {
        let metrics = Metrics::new();
        let figure = |name: &str| {
            let text = metrics.text(&[]);
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map(|it| it.trim().to_owned()).expect("a figure")
        };
        let mut door = Patient::new(Crowd(Vec::new()), 2, metrics.clone());
        let (first, ()) = door.accept().await;
        let (_second, ()) = door.accept().await;
        assert_eq!(figure("tallymesh_http_clients "), "2");
        assert_eq!(figure("tallymesh_http_full_total "), "0");
        let mut third = pin!(door.accept());
        assert!(poll!(&mut third).is_pending());
        assert_eq!(figure("tallymesh_http_full_total "), "1");
        drop(first);
        assert_eq!(figure("tallymesh_http_clients "), "1");
        let (_third, ()) = third.await;
        assert_eq!(figure("tallymesh_http_clients "), "2");
    }
}

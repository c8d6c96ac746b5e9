//! The end of connections on which nothing arrives any more.
//!
//! A network may drop all that is sent on a connection, in one direction or in both, and tell neither
//! end. Each end pings the other every [`PING_INTERVAL`](super::behaviour), so on a sound connection
//! something arrives at each end that often, beside the frames. An end at which nothing arrives for
//! [`SILENCE_MAX`] closes the connection, and it is dialled again.
//!
//! Any byte counts, and not only a whole frame or an answer to a ping. On a slow connection a ping may
//! wait for long behind a large frame, whose bytes arrive all the while.
//!
//! QUIC has the same by itself, with the times in [`transports`](super::transports).

use futures::io::{AsyncRead, AsyncWrite, IoSlice, IoSliceMut};
use libp2p::core::muxing::{StreamMuxer, StreamMuxerEvent};
use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The longest time for which nothing may arrive on a connection. Over a link of 400 ms, pings of each
/// end arrive every 2.4 s. With a lower value, connections of busy machines end. With a higher one, it
/// takes longer to replace a dead connection.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(4);

/// If a look comes later than that, this process was stopped or had no processor. What arrived
/// meanwhile is not read yet, so the time begins anew.
const LATE_MAX: Duration = Duration::from_millis(500);

/// When something last arrived, in milliseconds since the connection was made.
#[derive(Clone)]
struct Heard {
    begun: Instant,
    last: Arc<AtomicU64>,
    /// The longest silence.
    max: Duration,
}

impl Heard {
    fn note(&self, now: Instant) {
        let since = now.duration_since(self.begun).as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.last.fetch_max(since, Ordering::Relaxed);
    }

    /// The time at which the connection has been silent for too long.
    fn due(&self) -> Instant {
        self.begun + Duration::from_millis(self.last.load(Ordering::Relaxed)) + self.max
    }
}

/// A connection that ends when nothing arrives.
pub(super) struct Watched<M> {
    muxer: M,
    heard: Heard,
    look: Pin<Box<Sleep>>,
}

impl<M> Watched<M> {
    pub(super) fn new(muxer: M) -> Watched<M> {
        Watched::for_at_most(SILENCE_MAX, muxer)
    }

    fn for_at_most(max: Duration, muxer: M) -> Watched<M> {
        let heard = Heard {
            begun: Instant::now(),
            last: Arc::default(),
            max,
        };
        let look = Box::pin(sleep_until(heard.due()));
        Watched { muxer, heard, look }
    }

    fn stream<S>(&self, stream: S) -> WatchedStream<S> {
        self.heard.note(Instant::now());
        let heard = self.heard.clone();
        WatchedStream { stream, heard }
    }

    /// Ready when the connection was silent for too long.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let planned = self.look.deadline();
            ready!(self.look.as_mut().poll(cx));
            let now = Instant::now();
            if now > planned + LATE_MAX {
                self.heard.note(now);
            }
            let due = self.heard.due();
            if due <= now {
                return Poll::Ready(());
            }
            self.look.as_mut().reset(due);
        }
    }
}

impl<M> StreamMuxer for Watched<M>
where
    M: StreamMuxer + Unpin,
    M::Substream: Unpin,
    M::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Substream = WatchedStream<M::Substream>;
    type Error = io::Error;

    fn poll_inbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::Substream, Self::Error>> {
        let stream = ready!(Pin::new(&mut self.muxer).poll_inbound(cx));
        Poll::Ready(stream.map(|it| self.stream(it)).map_err(io::Error::other))
    }

    fn poll_outbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::Substream, Self::Error>> {
        let stream = ready!(Pin::new(&mut self.muxer).poll_outbound(cx));
        let heard = self.heard.clone();
        let watched = stream.map(|stream| WatchedStream { stream, heard });
        Poll::Ready(watched.map_err(io::Error::other))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let closed = ready!(Pin::new(&mut self.muxer).poll_close(cx));
        Poll::Ready(closed.map_err(io::Error::other))
    }

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<StreamMuxerEvent, Self::Error>> {
        if let Poll::Ready(event) = Pin::new(&mut self.muxer).poll(cx) {
            return Poll::Ready(event.map_err(io::Error::other));
        }
        ready!(self.poll_silence(cx));
        let problem = format!("nothing arrived for {} ms", SILENCE_MAX.as_millis());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, problem)))
    }
}

/// A stream of such a connection.
pub(super) struct WatchedStream<S> {
    stream: S,
    heard: Heard,
}

impl<S> WatchedStream<S> {
    fn read(&self, read: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(read, Poll::Ready(Ok(1..))) {
            self.heard.note(Instant::now());
        }
        read
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        self.read(read)
    }

    fn poll_read_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let read = Pin::new(&mut self.stream).poll_read_vectored(cx, into);
        self.read(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::poll_fn;
    use std::convert::Infallible;
    use tokio::time::timeout;

    /// A connection on which nothing happens by itself.
    struct Quiet;

    impl StreamMuxer for Quiet {
        type Substream = futures::io::Cursor<Vec<u8>>;
        type Error = Infallible;

        fn poll_inbound(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Result<Self::Substream, Infallible>> {
            Poll::Pending
        }

        fn poll_outbound(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Result<Self::Substream, Infallible>> {
            Poll::Ready(Ok(futures::io::Cursor::new(vec![7; 10_000])))
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn poll(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Result<StreamMuxerEvent, Infallible>> {
            Poll::Pending
        }
    }

    const MAX: Duration = Duration::from_millis(200);

    async fn end(watched: &mut Watched<Quiet>) -> io::ErrorKind {
        let ended = poll_fn(|cx| Pin::new(&mut *watched).poll(cx)).await;
        ended.expect_err("it ends").kind()
    }

    #[tokio::test]
    async fn a_connection_ends_when_nothing_arrives() {
        let begun = Instant::now();
        let mut watched = Watched::for_at_most(MAX, Quiet);
        assert_eq!(end(&mut watched).await, io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= MAX);
    }

    #[tokio::test]
    async fn each_byte_lets_it_live_and_what_is_sent_does_not() {
        let mut watched = Watched::for_at_most(MAX, Quiet);
        let opened = poll_fn(|cx| Pin::new(&mut watched).poll_outbound(cx)).await;
        let mut stream = opened.expect("a stream");
        let begun = Instant::now();
        while begun.elapsed() < MAX * 2 {
            let read = poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut [0])).await;
            assert_eq!(read.expect("a byte"), 1);
            let early = timeout(MAX / 20, end(&mut watched)).await;
            assert!(early.is_err(), "{early:?}");
        }
        let writes = async {
            loop {
                let wrote = poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, &[1])).await;
                wrote.expect("room");
                tokio::time::sleep(MAX / 20).await;
            }
        };
        tokio::select! {
            () = writes => {}
            ended = end(&mut watched) => assert_eq!(ended, io::ErrorKind::TimedOut),
        }
    }

    /// The process was stopped. It reads after that what arrived meanwhile.
    #[tokio::test]
    async fn a_process_that_was_stopped_ends_nothing_at_once() {
        let mut watched = Watched::for_at_most(MAX, Quiet);
        std::thread::sleep(MAX + LATE_MAX * 2);
        let resumed = Instant::now();
        assert_eq!(end(&mut watched).await, io::ErrorKind::TimedOut);
        assert!(resumed.elapsed() >= MAX);
    }
}

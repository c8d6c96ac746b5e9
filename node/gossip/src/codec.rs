//! The encoding of frames in requests: one frame after another up to the end of the stream, with an
//! empty response.
//!
//! A stream costs a round trip, and some tenths of a millisecond at both ends, whatever its size.
//! So small waiting frames share a stream.

use super::frame_room::{FrameRoom, Room};
use super::network_metrics::NetworkMetrics;
use super::reason::Reason;
use futures::prelude::*;
use libp2p::request_response;
use libp2p::{PeerId, StreamProtocol};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tallymesh_core::bounds::FRAME_BYTES_MAX;

/// The protocol's name and version.
pub(super) const PROTOCOL: StreamProtocol = StreamProtocol::new("/tallymesh/sync/2");

/// Bytes of a frame that are read without a share of the memory, so that small frames always pass.
const FREE_BYTES: usize = 64 << 10;

/// Most bytes of a request with several frames.
pub(super) const BATCH_BYTES_MAX: usize = FREE_BYTES - 1;

/// Bytes of the length before each frame.
pub(super) const PREFIX_BYTES: usize = 4;

/// Most bytes of a request.
pub(super) const REQUEST_BYTES_MAX: usize = PREFIX_BYTES + FRAME_BYTES_MAX;

/// Adds a frame to a request.
pub(super) fn put(request: &mut Vec<u8>, frame: &[u8]) {
    // A frame is shorter than 2^32.
    request.extend_from_slice(&(frame.len() as u32).to_le_bytes());
    request.extend_from_slice(frame);
}

/// The frames of a request. The rest that is no whole frame is the last one, and will not decode.
pub(super) fn frames(mut request: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if request.is_empty() {
            return None;
        }
        let whole = request
            .split_first_chunk()
            .and_then(|(length, rest)| rest.split_at_checked(u32::from_le_bytes(*length) as usize));
        let (frame, rest) = whole.unwrap_or((request, &[]));
        request = rest;
        Some(frame)
    })
}

/// A request, and its share of the memory for large frames, which is free again when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Framed {
    pub(super) bytes: Arc<Vec<u8>>,
    #[expect(dead_code, reason = "it is free again when this is dropped")]
    room: Option<Room>,
    begun: Arc<AtomicBool>,
}

impl From<Vec<u8>> for Framed {
    fn from(bytes: Vec<u8>) -> Framed {
        Framed {
            bytes: bytes.into(),
            ..Framed::default()
        }
    }
}

impl Framed {
    /// The frames of a request, kept by its sender until it has arrived.
    pub(super) fn in_flight(&self) -> InFlightFrames {
        InFlightFrames {
            bytes: self.bytes.clone(),
            begun: self.begun.clone(),
        }
    }
}

/// The frames of a request that is under way.
#[derive(Debug)]
pub(super) struct InFlightFrames {
    bytes: Arc<Vec<u8>>,
    begun: Arc<AtomicBool>,
}

impl InFlightFrames {
    pub(super) fn frames(&self) -> impl Iterator<Item = &[u8]> {
        frames(&self.bytes)
    }

    /// Whether any of it was written. A request without a written byte can't have arrived.
    pub(super) fn is_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }
}

/// Frames as requests, with an empty response that acknowledges their arrival.
pub(super) struct FrameCodec {
    room: FrameRoom,
    /// The peer of its connection, if it belongs to one.
    peer: Option<PeerId>,
    metrics: NetworkMetrics,
}

impl Clone for FrameCodec {
    /// The codec of a new connection, or of another stream of its connection.
    fn clone(&self) -> FrameCodec {
        FrameCodec {
            room: self.room.clone(),
            peer: self.peer.or_else(|| self.room.arriving()),
            metrics: self.metrics.clone(),
        }
    }
}

impl FrameCodec {
    /// Makes a codec that takes memory for arriving large frames from `room`.
    pub(super) fn new(room: FrameRoom, metrics: NetworkMetrics) -> FrameCodec {
        FrameCodec {
            room,
            peer: None,
            metrics,
        }
    }

    /// Reads a request, in steps that double. A request that finds no room is dropped at once, and
    /// sync repairs the gap. If it waited instead, frames that are sent slowly on purpose could
    /// make all others wait.
    async fn read<T>(&self, io: &mut T) -> io::Result<Framed>
    where
        T: AsyncRead + Unpin + Send,
    {
        let (mut bytes, mut room) = (Vec::new(), None::<Room>);
        let mut step = FREE_BYTES;
        loop {
            let end = bytes.len() + step;
            bytes.reserve_exact(step);
            io.take(step as u64).read_to_end(&mut bytes).await?;
            if bytes.len() < end {
                return Ok(Framed {
                    room,
                    ..Framed::from(bytes)
                });
            }
            step = end.min((REQUEST_BYTES_MAX + 1).saturating_sub(end));
            if step == 0 {
                return Err(too_long(REQUEST_BYTES_MAX));
            }
            let more = self.peer.is_some_and(|peer| {
                let room = room.get_or_insert_with(|| self.room.of(peer));
                room.grow(step)
            });
            if !more {
                self.metrics.refused(Reason::FrameMemory);
                return Err(io::Error::other(Reason::FrameMemory));
            }
        }
    }
}

impl request_response::Codec for FrameCodec {
    type Protocol = StreamProtocol;
    type Request = Framed;
    type Response = ();

    async fn read_request<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Framed>
    where
        T: AsyncRead + Unpin + Send,
    {
        self.read(io).await
    }

    async fn read_response<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<()>
    where
        T: AsyncRead + Unpin + Send,
    {
        read_up_to(io, 0).await.map(|_| ())
    }

    async fn write_request<T>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
        frame: Framed,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        frame.begun.store(true, Ordering::Relaxed);
        io.write_all(&frame.bytes).await?;
        io.close().await
    }

    async fn write_response<T>(&mut self, _: &StreamProtocol, io: &mut T, (): ()) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        io.close().await
    }
}

/// Reads to the end of the stream. Fails as soon as there is more than `bytes_max`.
pub(super) async fn read_up_to<T>(io: &mut T, bytes_max: usize) -> io::Result<Vec<u8>>
where
    T: AsyncRead + Unpin + Send,
{
    let mut bytes = Vec::new();
    io.take(bytes_max as u64 + 1)
        .read_to_end(&mut bytes)
        .await?;
    match bytes.len() > bytes_max {
        true => Err(too_long(bytes_max)),
        false => Ok(bytes),
    }
}

fn too_long(bytes_max: usize) -> io::Error {
    let problem = format!("a message is over the limit of {bytes_max} bytes");
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection_policy::Class;
    use futures::executor::block_on;
    use futures::io::Cursor;
    use prometheus_client::registry::Registry;

    #[test]
    fn a_stream_is_read_up_to_its_limit_and_not_beyond() {
        let read = |bytes: &[u8], max| block_on(read_up_to(&mut Cursor::new(bytes), max));
        assert_eq!(read(b"abc", 3).expect("fits"), b"abc");
        assert_eq!(read(b"", 0).expect("fits"), b"");
        let error = read(b"abcd", 3).expect_err("one byte too many");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(read(b"x", 0).is_err());
    }

    #[test]
    fn a_request_has_its_frames_one_after_the_other() {
        let mut request = Vec::new();
        for frame in [&b"one"[..], b"", b"three"] {
            put(&mut request, frame);
        }
        let read = |bytes: &[u8]| frames(bytes).map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!(read(&request), [&b"one"[..], b"", b"three"]);
        assert!(read(&[]).is_empty());
        // A request that is cut short, or has no length, is one frame as it is.
        let rest = &request[PREFIX_BYTES + 3 + PREFIX_BYTES..];
        assert_eq!(
            read(&request[..request.len() - 1])[2],
            &rest[..rest.len() - 1]
        );
        assert_eq!(read(&[1, 0, 0]), [[1, 0, 0]]);
        assert_eq!(read(&[255; 9]), [[255; 9]]);
    }

    #[test]
    fn large_frames_share_a_memory_and_small_ones_need_none() {
        let metrics = NetworkMetrics::register(&mut Registry::default());
        let all = FRAME_BYTES_MAX + FREE_BYTES;
        let room = FrameRoom::new(all, REQUEST_BYTES_MAX, Arc::new(|_| Class::Trusted));
        let mut codec = FrameCodec::new(room, metrics);
        codec.peer = Some(PeerId::random());
        let read = |bytes: usize| {
            let bytes = vec![7; bytes];
            let read = block_on(codec.read(&mut Cursor::new(&bytes)));
            read.inspect(|framed| assert!(*framed.bytes == bytes))
        };
        assert!(read(REQUEST_BYTES_MAX + 1).is_err(), "over the limit");
        for bytes in [0, 1, FREE_BYTES - 1, FREE_BYTES, FREE_BYTES + 1] {
            assert!(read(bytes).is_ok(), "{bytes}");
        }
        let held = read(FRAME_BYTES_MAX).expect("there is room for one");
        let error = read(FRAME_BYTES_MAX).expect_err("and for no other");
        assert!(error.to_string().contains("memory"), "{error}");
        assert!(read(FREE_BYTES - 1).is_ok(), "small ones need none");
        drop(held);
        assert!(read(FRAME_BYTES_MAX).is_ok(), "there is room again");
    }
}

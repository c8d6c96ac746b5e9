//! How one frame travels: its bytes up to the end of the stream, answered by nothing.

use futures::prelude::*;
use libp2p::StreamProtocol;
use libp2p::request_response;
use std::io;
use tallymesh_core::limits::FRAME_BYTES_MAX;

/// The protocol's name and version.
pub(super) const PROTOCOL: StreamProtocol = StreamProtocol::new("/tallymesh/sync/1");

/// Frames as requests, and an empty response that says that the frame has arrived.
#[derive(Clone, Default)]
pub(super) struct FrameCodec;

impl request_response::Codec for FrameCodec {
    type Protocol = StreamProtocol;
    type Request = Vec<u8>;
    type Response = ();

    async fn read_request<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Vec<u8>>
    where
        T: AsyncRead + Unpin + Send,
    {
        read_up_to(io, FRAME_BYTES_MAX).await
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
        frame: Vec<u8>,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        io.write_all(&frame).await?;
        io.close().await
    }

    async fn write_response<T>(&mut self, _: &StreamProtocol, io: &mut T, (): ()) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        io.close().await
    }
}

/// Reads to the end of the stream, and fails as soon as there is more than `bytes_max`.
pub(super) async fn read_up_to<T>(io: &mut T, bytes_max: usize) -> io::Result<Vec<u8>>
where
    T: AsyncRead + Unpin + Send,
{
    let mut bytes = Vec::new();
    io.take(bytes_max as u64 + 1)
        .read_to_end(&mut bytes)
        .await?;
    if bytes.len() > bytes_max {
        let problem = format!("a frame is over the limit of {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use futures::io::Cursor;

    #[test]
    fn a_stream_is_read_up_to_its_limit_and_not_beyond() {
        let read = |bytes: &[u8], max| block_on(read_up_to(&mut Cursor::new(bytes), max));
        assert_eq!(read(b"abc", 3).expect("fits"), b"abc");
        assert_eq!(read(b"", 0).expect("fits"), b"");
        let error = read(b"abcd", 3).expect_err("one byte too many");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(read(b"x", 0).is_err());
    }
}

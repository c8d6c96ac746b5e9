//! Whole streams as they are, and streams as no honest peer writes them.

use futures::prelude::*;
use libp2p::StreamProtocol;
use libp2p::request_response::Codec;
use std::io;
use std::time::Duration;

/// What is said on a stream.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    /// These bytes, and no more.
    Bytes(Vec<u8>),
    /// These bytes, and then one after each such time, for ever.
    Slowly(Vec<u8>, Duration),
    /// So many zeros.
    Zeros(usize),
}

/// How many zeros are written at once.
const ZEROS: usize = 64 << 10;

#[derive(Clone, Default)]
pub(crate) struct Raw;

impl Codec for Raw {
    type Protocol = StreamProtocol;
    type Request = Said;
    type Response = Vec<u8>;

    async fn read_request<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Said>
    where
        T: AsyncRead + Unpin + Send,
    {
        let mut bytes = Vec::new();
        io.read_to_end(&mut bytes).await?;
        Ok(Said::Bytes(bytes))
    }

    async fn read_response<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Vec<u8>>
    where
        T: AsyncRead + Unpin + Send,
    {
        let mut bytes = Vec::new();
        io.read_to_end(&mut bytes).await.map(|_| bytes)
    }

    async fn write_request<T>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
        said: Said,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        match said {
            Said::Bytes(bytes) => io.write_all(&bytes).await?,
            Said::Slowly(bytes, each) => {
                io.write_all(&bytes).await?;
                loop {
                    io.flush().await?;
                    tokio::time::sleep(each).await;
                    io.write_all(&[0]).await?;
                }
            }
            Said::Zeros(count) => {
                for _ in 0..count / ZEROS {
                    io.write_all(&[0; ZEROS]).await?;
                }
            }
        }
        io.close().await
    }

    async fn write_response<T>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
        bytes: Vec<u8>,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        io.write_all(&bytes).await?;
        io.close().await
    }
}

//! The socket of a connection, plain or encrypted.
//!
//! The TLS handshake happens elsewhere, before a connection arrives here. The remaining work is
//! cheap enough for the driver's thread.

use mio::net::TcpStream;
use rustls::ServerConnection;
use std::io::{self, ErrorKind, Read, Write};

/// The line to a client. Reading and writing never block.
pub(super) enum Stream {
    /// Without encryption.
    Plain(TcpStream),
    /// With TLS.
    Secured(Box<Secured>),
}

/// A socket with TLS.
pub(super) struct Secured {
    socket: TcpStream,
    tls: ServerConnection,
    /// Whether the other end has closed its side.
    ended: bool,
}

impl Stream {
    /// A connection after its TLS handshake.
    pub(super) fn secured(socket: TcpStream, tls: ServerConnection) -> Stream {
        let ended = false;
        Stream::Secured(Box::new(Secured { socket, tls, ended }))
    }

    pub(super) fn socket(&mut self) -> &mut TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Secured(secured) => &mut secured.socket,
        }
    }

    /// Whether there may be input that the socket does not report.
    pub(super) fn is_unread(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Secured(secured) => secured.ended,
        }
    }

    /// Whether written bytes still wait in the TLS buffers.
    pub(super) fn is_unsent(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Secured(secured) => secured.tls.wants_write(),
        }
    }

    /// Whether it is by TLS.
    pub(super) fn is_secured(&self) -> bool {
        matches!(self, Stream::Secured(_))
    }

    /// Sends the TLS close alert, if the socket accepts it at once.
    pub(super) fn end(&mut self) {
        if let Stream::Secured(secured) = self {
            secured.tls.send_close_notify();
            // The connection is over either way.
            let _ = secured.push();
        }
    }
}

impl Secured {
    /// Writes all encrypted bytes to the socket. Returns whether the socket accepted all of them.
    fn push(&mut self) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads as a plain socket does: a read that does not fill the buffer returns all that there is
    /// now.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.tls.reader().read(&mut buffer[filled..]) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    filled += count;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The socket ended without a close alert. The input before that is complete all the
                // same.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => self.ended = true,
                Err(error) => return Err(error),
            }
            if self.ended {
                break;
            }
            match self.tls.read_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock && filled > 0 => break,
                Err(error) => return Err(error),
            }
            if let Err(error) = self.tls.process_new_packets() {
                // Sends the client the TLS alert with the reason, if the socket accepts it.
                let _ = self.push();
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
        }
        Ok(filled)
    }
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Secured(secured) => secured.read(buffer),
        }
    }
}

impl Write for Stream {
    /// Accepts bytes only once the socket has accepted all earlier ones. So few bytes wait here,
    /// and the rest waits in the output buffer, where it is counted.
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Secured(secured) => {
                if !secured.push()? {
                    return Err(ErrorKind::WouldBlock.into());
                }
                let count = secured.tls.writer().write(bytes)?;
                secured.push()?;
                Ok(count)
            }
        }
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Secured(secured) => match secured.push()? {
                true => Ok(()),
                false => Err(ErrorKind::WouldBlock.into()),
            },
        }
    }
}

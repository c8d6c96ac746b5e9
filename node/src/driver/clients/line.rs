//! The socket of a connection, in the clear or encrypted.
//!
//! Keys are agreed on elsewhere, before a connection comes here. What is left is cheap enough for the
//! driver's thread.

use mio::net::TcpStream;
use rustls::ServerConnection;
use std::io::{self, ErrorKind, Read, Write};

/// The line to a client. Reading and writing never block.
pub(super) enum Line {
    /// As it is.
    Plain(TcpStream),
    /// By TLS.
    Secured(Box<Secured>),
}

/// A socket with TLS.
pub(super) struct Secured {
    socket: TcpStream,
    tls: ServerConnection,
    /// The other end sends no more.
    ended: bool,
}

impl Line {
    /// A connection on which keys are agreed on.
    pub(super) fn secured(socket: TcpStream, tls: ServerConnection) -> Line {
        let ended = false;
        Line::Secured(Box::new(Secured { socket, tls, ended }))
    }

    pub(super) fn socket(&mut self) -> &mut TcpStream {
        match self {
            Line::Plain(socket) => socket,
            Line::Secured(secured) => &mut secured.socket,
        }
    }

    /// Whether there may be something to read of which the socket will not tell.
    pub(super) fn is_unread(&self) -> bool {
        match self {
            Line::Plain(_) => false,
            Line::Secured(secured) => secured.ended,
        }
    }

    /// Whether bytes that were written are still here.
    pub(super) fn is_unsent(&self) -> bool {
        match self {
            Line::Plain(_) => false,
            Line::Secured(secured) => secured.tls.wants_write(),
        }
    }

    /// Whether it is by TLS.
    pub(super) fn is_secured(&self) -> bool {
        matches!(self, Line::Secured(_))
    }

    /// Says that no more comes, if the socket takes that at once.
    pub(super) fn end(&mut self) {
        if let Line::Secured(secured) = self {
            secured.tls.send_close_notify();
            // The connection is over either way.
            let _ = secured.push();
        }
    }
}

impl Secured {
    /// Hands all that was written to the socket; tells whether it took all.
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

    /// Reads as a plain socket does: fewer bytes than there is room for are all there are now.
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
                // The socket ended without a word: what came before is whole all the same.
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
                // It is told why, if the socket takes that.
                let _ = self.push();
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
        }
        Ok(filled)
    }
}

impl Read for Line {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Line::Plain(socket) => socket.read(buffer),
            Line::Secured(secured) => secured.read(buffer),
        }
    }
}

impl Write for Line {
    /// Takes bytes only once all before are on their way: few wait here, and the rest where they are
    /// counted.
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Line::Plain(socket) => socket.write(bytes),
            Line::Secured(secured) => {
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
            Line::Plain(_) => Ok(()),
            Line::Secured(secured) => match secured.push()? {
                true => Ok(()),
                false => Err(ErrorKind::WouldBlock.into()),
            },
        }
    }
}

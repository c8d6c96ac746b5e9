//! A WebSocket (RFC 6455) of the load process that never blocks, since one thread serves all of them.

use anyhow::{Result, bail};
use mio::net::TcpStream;
use socket2::{Domain, Protocol, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// How many addresses of the loopback network the sockets come from in turn. A node gives each address a
/// share of its places only, and an address has 28,000 ports.
const SOURCES: usize = 32;

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// A sign of life from the server.
#[derive(Debug)]
pub(super) enum Arrival {
    /// The server has accepted the socket.
    Up,
    Text(String),
    Frame(Vec<u8>),
    /// The server closes the socket, with this code and reason.
    Closed(String),
}

/// A message of a page or of a server.
#[derive(Debug)]
pub(super) enum Message {
    Text(String),
    Frame(Vec<u8>),
}

/// A socket to a server.
pub(super) struct Socket {
    pub(super) stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// The parts of a message of which the last one has not arrived.
    parts: Vec<u8>,
    is_up: bool,
    /// Bytes that arrived so far.
    pub(super) received: u64,
}

impl Socket {
    /// Begins to connect, and asks for a WebSocket as a page of the server's own origin does.
    pub(super) fn open(server: SocketAddr, path: &str, number: usize) -> Result<Socket> {
        let socket = socket2::Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        let source = Ipv4Addr::new(127, 0, 0, (1 + number % SOURCES) as u8);
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::from((source, 0)).into())?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        match socket.connect(&server.into()) {
            Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => return Err(error.into()),
            _ => {}
        }
        // The answer's key is not checked: it protects from caches, and there are none here.
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {server}\r\norigin: http://{server}\r\n\
             connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGFsbHltZXNoLWJlbmNoLg==\r\n\r\n"
        );
        Ok(Socket {
            stream: TcpStream::from_std(socket.into()),
            input: Vec::new(),
            output: request.into_bytes(),
            parts: Vec::new(),
            is_up: false,
            received: 0,
        })
    }

    /// Sends a message, as far as the socket has room. The rest follows with [`Socket::flush`].
    pub(super) fn send(&mut self, message: &Message) -> Result<()> {
        match message {
            Message::Text(text) => self.put(TEXT, text.as_bytes()),
            Message::Frame(bytes) => self.put(BINARY, bytes),
        }
        self.flush()
    }

    fn put(&mut self, kind: u8, bytes: &[u8]) {
        self.output.push(0x80 | kind);
        // A client masks its frames; here the mask is zero.
        match bytes.len() {
            length @ 0..=125 => self.output.push(0x80 | length as u8),
            length @ 126..=0xffff => {
                self.output.push(0x80 | 126);
                self.output.extend((length as u16).to_be_bytes());
            }
            length => {
                self.output.push(0x80 | 127);
                self.output.extend((length as u64).to_be_bytes());
            }
        }
        self.output.extend([0; 4]);
        self.output.extend_from_slice(bytes);
    }

    /// Writes what waits, as far as the socket has room.
    pub(super) fn flush(&mut self) -> Result<()> {
        let mut written = 0;
        while written < self.output.len() {
            match self.stream.write(&self.output[written..]) {
                Ok(0) => bail!("the server takes no more"),
                Ok(count) => written += count,
                // Before it is connected, too.
                Err(error) if is_later(error.kind()) => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.output.drain(..written);
        if self.output.is_empty() {
            // A page of ten thousand keeps no room for what it sent once.
            self.output = Vec::new();
        }
        Ok(())
    }

    /// Reads all that has arrived, through a buffer that all sockets share.
    ///
    /// # Errors
    /// If the socket is closed without a word.
    pub(super) fn read(&mut self, buffer: &mut [u8], arrivals: &mut Vec<Arrival>) -> Result<()> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => bail!("closed without a word"),
                Ok(count) => {
                    self.received += count as u64;
                    self.input.extend_from_slice(&buffer[..count]);
                    self.parse(arrivals)?;
                }
                Err(error) if is_later(error.kind()) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if self.input.is_empty() {
            self.input = Vec::new();
        }
        self.flush()
    }

    fn parse(&mut self, arrivals: &mut Vec<Arrival>) -> Result<()> {
        if !self.is_up {
            let end = self.input.windows(4).position(|it| it == b"\r\n\r\n");
            let Some(end) = end else { return Ok(()) };
            let head = String::from_utf8_lossy(&self.input[..end]).into_owned();
            if !head.starts_with("HTTP/1.1 101") {
                bail!("{}", head.lines().next().unwrap_or_default());
            }
            self.input.drain(..end + 4);
            self.is_up = true;
            arrivals.push(Arrival::Up);
        }
        let mut done = 0;
        while let Some((first, body)) = frame(&self.input[done..]) {
            let bytes = self.input[done + body.start..done + body.end].to_vec();
            done += body.end;
            self.take(first, bytes, arrivals);
        }
        self.input.drain(..done);
        Ok(())
    }

    /// Handles a WebSocket frame whose first byte is `first`.
    fn take(&mut self, first: u8, bytes: Vec<u8>, arrivals: &mut Vec<Arrival>) {
        match first & 0xf {
            PING => self.put(PONG, &bytes),
            CLOSE => {
                let code = bytes
                    .first_chunk()
                    .map_or(1005, |it| u16::from_be_bytes(*it));
                let reason = String::from_utf8_lossy(bytes.get(2..).unwrap_or_default());
                arrivals.push(Arrival::Closed(format!("{code} {reason}")));
            }
            TEXT => arrivals.push(Arrival::Text(String::from_utf8_lossy(&bytes).into_owned())),
            0 | BINARY => {
                self.parts.extend(bytes);
                if first & 0x80 != 0 {
                    arrivals.push(Arrival::Frame(std::mem::take(&mut self.parts)));
                }
            }
            _ => {}
        }
    }

    /// Says that this end closes the socket. The server closes it after that.
    pub(super) fn close(&mut self) -> Result<()> {
        self.put(CLOSE, &1_000u16.to_be_bytes());
        self.flush()
    }

    /// Ends the connection as a page does whose process is killed: the server gets a reset.
    pub(super) fn reset(self) {
        // An error means that it is closed already.
        let _ = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }
}

/// The answer of a connection attempt that does not block.
const IN_PROGRESS: i32 = 115;

fn is_later(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock | ErrorKind::NotConnected | ErrorKind::Interrupted
    )
}

/// The first byte of a whole WebSocket frame of a server, and where its content is.
fn frame(bytes: &[u8]) -> Option<(u8, std::ops::Range<usize>)> {
    let (first, rest) = bytes.split_first()?;
    let (length, start): (usize, usize) = match *rest.first()? {
        126 => (u16::from_be_bytes(*rest[1..].first_chunk()?) as usize, 4),
        127 => (u64::from_be_bytes(*rest[1..].first_chunk()?) as usize, 10),
        length => (usize::from(length), 2),
    };
    let end = start.checked_add(length)?;
    (bytes.len() >= end).then_some((*first, start..end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_once_it_is_whole() {
        assert_eq!(frame(&[0x82, 3, 1, 2]), None);
        assert_eq!(frame(&[0x82, 3, 1, 2, 3, 9]), Some((0x82, 2..5)));
        let mut long = vec![0x82, 126, 1, 0];
        long.extend([7; 256]);
        assert_eq!(frame(&long[..259]), None);
        assert_eq!(frame(&long), Some((0x82, 4..260)));
    }
}

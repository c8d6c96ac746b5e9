//! A Redis client of a few lines: what is sent and what is received, with nothing between.

use crate::process::{DEADLINE, Node};
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

/// What a connection is made of.
enum Stream {
    Plain(TcpStream),
    Secured(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Secured(stream) => &stream.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Secured(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Secured(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Secured(stream) => stream.flush(),
        }
    }
}

/// A connection to a node's Redis port.
pub(crate) struct Redis {
    stream: Stream,
    /// What came and was not taken yet.
    buffer: Vec<u8>,
}

impl Redis {
    pub(crate) fn connect(node: &Node) -> Redis {
        Redis::connect_to(&node.resp)
    }

    pub(crate) fn connect_to(address: &str) -> Redis {
        Redis::over(Stream::Plain(socket(address)))
    }

    /// Connects by TLS, and trusts who has this certificate.
    pub(crate) fn secured(node: &Node, certificate: &str) -> io::Result<Redis> {
        Redis::secured_and_send(node, certificate, b"")
    }

    /// The same; what is sent first goes out along with the last that keys take.
    pub(crate) fn secured_and_send(
        node: &Node,
        certificate: &str,
        first: &[u8],
    ) -> io::Result<Redis> {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM");
        roots.add(certificate).expect("a certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        let mut tls = ClientConnection::new(Arc::new(config), name).expect("TLS");
        tls.writer().write_all(first)?;
        let mut stream = StreamOwned::new(tls, socket(&node.resp));
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Redis::over(Stream::Secured(Box::new(stream))))
    }

    fn over(stream: Stream) -> Redis {
        Redis {
            stream,
            buffer: Vec::new(),
        }
    }

    /// Another one that sends on this connection, which is in the clear.
    pub(crate) fn split(&self) -> Redis {
        let socket = self.stream.socket().try_clone();
        Redis::over(Stream::Plain(socket.expect("a second handle")))
    }

    /// Sends nothing more, and still listens.
    pub(crate) fn end(&mut self) {
        match &mut self.stream {
            Stream::Plain(socket) => socket.shutdown(Shutdown::Write).expect("end the stream"),
            Stream::Secured(stream) => {
                stream.conn.send_close_notify();
                stream.flush().expect("end the stream");
            }
        }
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("send");
    }

    /// Sends commands, if the node still listens.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends one command and takes its reply.
    pub(crate) fn ask(&mut self, words: &[&str]) -> OwnedFrame {
        self.send(&command(words));
        self.reply()
    }

    /// The next reply.
    pub(crate) fn reply(&mut self) -> OwnedFrame {
        self.try_reply().expect("a reply")
    }

    /// The next reply; an error if the connection ends first.
    pub(crate) fn try_reply(&mut self) -> io::Result<OwnedFrame> {
        loop {
            let found = decode(&self.buffer).expect("well-formed replies");
            if let Some((frame, taken)) = found {
                self.buffer.drain(..taken);
                return Ok(frame);
            }
            let mut bytes = [0; 64 << 10];
            match self.stream.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.buffer.extend_from_slice(&bytes[..count]),
            }
        }
    }

    /// One command and its reply as a number.
    pub(crate) fn integer(&mut self, words: &[&str]) -> i64 {
        match self.ask(words) {
            OwnedFrame::Integer(number) => number,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    /// One command and its reply as text; `None` for nil.
    pub(crate) fn text(&mut self, words: &[&str]) -> Option<String> {
        text(self.ask(words))
    }
}

fn socket(address: &str) -> TcpStream {
    let socket = TcpStream::connect(address).expect("connect");
    socket.set_read_timeout(Some(DEADLINE)).expect("a deadline");
    socket.set_nodelay(true).expect("no delay");
    socket
}

/// A reply as text; `None` for nil.
pub(crate) fn text(reply: OwnedFrame) -> Option<String> {
    match reply {
        OwnedFrame::BulkString(bytes) | OwnedFrame::SimpleString(bytes) => {
            Some(String::from_utf8(bytes).expect("text"))
        }
        OwnedFrame::Error(text) => Some(text),
        OwnedFrame::Null => None,
        other => panic!("{other:?}"),
    }
}

/// A command as it goes over the wire.
pub(crate) fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    bytes
}

//! A Redis client of a few lines: what is sent and what comes back, with nothing between.

use crate::process::{DEADLINE, Node};
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

/// A connection to a node's Redis port.
pub(crate) struct Redis {
    stream: TcpStream,
    /// What came and was not taken yet.
    buffer: Vec<u8>,
}

impl Redis {
    pub(crate) fn connect(node: &Node) -> Redis {
        let stream = TcpStream::connect(&node.resp).expect("connect");
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        stream.set_nodelay(true).expect("no delay");
        Redis {
            stream,
            buffer: Vec::new(),
        }
    }

    /// Another one that sends on this connection.
    pub(crate) fn split(&self) -> Redis {
        Redis {
            stream: self.stream.try_clone().expect("a second handle"),
            buffer: Vec::new(),
        }
    }

    /// Sends nothing more, and still listens.
    pub(crate) fn end(&mut self) {
        let ended = self.stream.shutdown(Shutdown::Write);
        ended.expect("end the stream");
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

//! The two protocols between clients and nodes. A client and a proxy need three things of them: the end of a
//! message, its idempotency key, and the outcome in an answer.

use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes of one read.
const READ_BYTES: usize = 16 * 1024;
/// Most header lines of a message.
const HEADERS_MAX: usize = 32;

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// HTTP/1.1. Each body has its length.
    Http,
    /// The Redis protocol, version 2, without pipelines.
    Resp,
}

/// The number of members that must have an operation before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Only the node that receives the request.
    Local,
    /// A majority.
    Quorum,
}

/// How long a node waits for a majority, in milliseconds. A client that has sent its request before waits
/// longer.
const QUORUM_WAIT_MS: u32 = 1_000;

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Node,
}

/// An add that must count once.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// Its idempotency key.
    pub(crate) key: String,
    /// Its counter, as a name.
    pub(crate) counter: String,
    pub(crate) by: i64,
}

/// The outcome of an operation, as an answer reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is made. `again` is whether an earlier request made it, where the protocol reports this.
    Made { again: Option<bool> },
    /// The client has to repeat the request, for this reason.
    Refused(String),
}

impl Wire {
    /// The request for an operation, with its key or without. A Redis client sets its level once for each
    /// connection: see [`Connection::open_at`].
    pub(crate) fn request(self, operation: &Operation, keyed: bool, level: Level) -> Vec<u8> {
        let Operation { key, counter, by } = operation;
        let by = by.to_string();
        match self {
            Wire::Http => {
                let path = format!("/v1/spaces/default/counters/{counter}/add");
                let mut headers = String::new();
                if keyed {
                    headers += &format!("idempotency-key: {key}\r\n");
                }
                if level == Level::Quorum {
                    headers += &format!(
                        "tallymesh-level: quorum\r\ntallymesh-wait-ms: {QUORUM_WAIT_MS}\r\n"
                    );
                }
                let body = format!("{{\"by\":\"{by}\"}}");
                http_request("POST", &path, &headers, &body)
            }
            Wire::Resp if keyed => command(&["ONCE", key, "INCRBY", counter, &by]),
            Wire::Resp => command(&["INCRBY", counter, &by]),
        }
    }

    /// The length of the first message of these bytes, if it is whole.
    fn length(self, bytes: &[u8], side: Side) -> Result<Option<usize>, String> {
        let length = match self {
            Wire::Http => http_length(bytes, side)?,
            Wire::Resp => resp_frame(bytes)?.map(|(_, length)| length),
        };
        Ok(length.filter(|length| *length <= bytes.len()))
    }

    /// The idempotency key of a whole request.
    pub(crate) fn key(self, request: &[u8]) -> Option<String> {
        match self {
            Wire::Http => {
                let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
                let mut head = httparse::Request::new(&mut headers);
                head.parse(request).ok()?;
                header(head.headers, "idempotency-key").map(str::to_owned)
            }
            Wire::Resp => match resp_frame(request).ok()?? {
                (OwnedFrame::Array(words), _) => match words.as_slice() {
                    [
                        OwnedFrame::BulkString(name),
                        OwnedFrame::BulkString(key),
                        ..,
                    ] if name == b"ONCE" => String::from_utf8(key.clone()).ok(),
                    _ => None,
                },
                _ => None,
            },
        }
    }

    /// The outcome of an operation in a whole answer.
    ///
    /// # Errors
    /// If a retry must never get this answer: the reason, as text.
    pub(crate) fn verdict(self, operation: &Operation, answer: &[u8]) -> Result<Verdict, String> {
        match self {
            Wire::Http => http_verdict(operation, answer),
            Wire::Resp => match resp_frame(answer)? {
                Some((OwnedFrame::Integer(_), _)) => Ok(Verdict::Made { again: None }),
                Some((OwnedFrame::Error(error), _)) if error.starts_with("LEVELNOTREACHED") => {
                    Ok(Verdict::Refused("level_not_reached".to_owned()))
                }
                Some((OwnedFrame::Error(error), _)) if error.starts_with("TRYAGAIN") => {
                    Ok(Verdict::Refused("begins_again".to_owned()))
                }
                answer => Err(format!("{}: {answer:?}", operation.key)),
            },
        }
    }
}

/// A connection that returns whole messages.
pub(crate) struct Connection {
    wire: Wire,
    stream: TcpStream,
    /// Bytes that were received and not used yet.
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(wire: Wire, stream: TcpStream) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        Ok(Connection {
            wire,
            stream,
            buffer: Vec::new(),
        })
    }

    pub(crate) async fn open(wire: Wire, address: SocketAddr) -> io::Result<Connection> {
        Connection::new(wire, TcpStream::connect(address).await?)
    }

    /// Opens a connection on which commands need this level. In the Redis protocol, the level is set once for
    /// all of them.
    pub(crate) async fn open_at(
        wire: Wire,
        address: SocketAddr,
        level: Level,
    ) -> io::Result<Connection> {
        let mut connection = Connection::open(wire, address).await?;
        if (wire, level) == (Wire::Resp, Level::Quorum) {
            let wait = QUORUM_WAIT_MS.to_string();
            let answer = connection
                .ask(&command(&["CLIENT", "LEVEL", "quorum", &wait]))
                .await?;
            if answer != b"+OK\r\n" {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(connection)
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// The next whole message of a side. `None` if the stream ends before it.
    pub(crate) async fn next(&mut self, from: Side) -> io::Result<Option<Vec<u8>>> {
        loop {
            let length = self.wire.length(&self.buffer, from);
            if let Some(length) = length.map_err(io::Error::other)? {
                let rest = self.buffer.split_off(length);
                return Ok(Some(std::mem::replace(&mut self.buffer, rest)));
            }
            self.buffer.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        self.send(request).await?;
        let answer = self.next(Side::Node).await?;
        answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// An HTTP request. Each further header has its end of line.
pub(crate) fn http_request(method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The status and the body of a whole HTTP answer.
pub(crate) fn http_answer(answer: &[u8]) -> Result<(u16, String), String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let parsed = head.parse(answer).map_err(|error| error.to_string())?;
    let (httparse::Status::Complete(length), Some(status)) = (parsed, head.code) else {
        return Err("half an answer".to_owned());
    };
    Ok((
        status,
        String::from_utf8_lossy(&answer[length..]).into_owned(),
    ))
}

fn http_verdict(operation: &Operation, answer: &[u8]) -> Result<Verdict, String> {
    let (status, body) = http_answer(answer)?;
    let wrong = || format!("{}: {status} {body}", operation.key);
    let json: serde_json::Value = serde_json::from_str(&body).map_err(|_| wrong())?;
    match status {
        200 if json["key"] == operation.counter.as_str() => {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut head = httparse::Response::new(&mut headers);
            head.parse(answer).map_err(|error| error.to_string())?;
            let again = header(head.headers, "idempotent-replayed").is_some();
            Ok(Verdict::Made { again: Some(again) })
        }
        503 => {
            let code = json["code"].as_str().unwrap_or_default();
            Ok(Verdict::Refused(code.to_owned()))
        }
        _ => Err(wrong()),
    }
}

fn http_length(bytes: &[u8], side: Side) -> Result<Option<usize>, String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let (parsed, headers) = match side {
        Side::Client => {
            let mut head = httparse::Request::new(&mut headers);
            (head.parse(bytes), head.headers)
        }
        Side::Node => {
            let mut head = httparse::Response::new(&mut headers);
            (head.parse(bytes), head.headers)
        }
    };
    let httparse::Status::Complete(head) = parsed.map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    if header(headers, "transfer-encoding").is_some() {
        return Err("a body in chunks, of which this proxy knows nothing".to_owned());
    }
    let body = header(headers, "content-length").map_or(Ok(0), str::parse);
    let body: usize = body.map_err(|_| "a length that is no number".to_owned())?;
    Ok(Some(head + body))
}

fn header<'a>(headers: &[httparse::Header<'a>], name: &str) -> Option<&'a str> {
    let header = headers
        .iter()
        .find(|it| it.name.eq_ignore_ascii_case(name))?;
    std::str::from_utf8(header.value).ok()
}

/// A command of the Redis protocol.
fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}

fn resp_frame(bytes: &[u8]) -> Result<Option<(OwnedFrame, usize)>, String> {
    decode(bytes).map_err(|error| error.to_string())
}

//! Clients that count, one request after the other, and what they see of the load.

use super::Load;
use super::hold::http;
use crate::process::Node;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// How long a client pauses between two requests.
const PAUSE: Duration = Duration::from_millis(50);
/// Requests on one connection; then it opens another.
const REQUESTS: usize = 60;
/// How long it waits for an answer, before it takes it for lost and connects again.
const PATIENCE: Duration = Duration::from_secs(10);
/// Every so many clients speak the Redis protocol.
const REDIS_EACH: usize = 5;

/// What clients saw.
#[derive(Default)]
pub(super) struct Metrics {
    /// How long each request took, but for the first ones of connections.
    pub(super) times: Vec<Duration>,
    /// How often each client got an answer on a new connection.
    pub(super) entered: Vec<usize>,
    pub(super) slowest_entry: Duration,
    /// Requests without an answer, or with a refusal.
    pub(super) failed: usize,
    /// What each client counted: acknowledged, and perhaps.
    pub(super) made: BTreeMap<usize, (i64, i64)>,
}

impl Metrics {
    pub(super) fn join(&mut self, other: Metrics) {
        self.times.extend(other.times);
        self.times.sort_unstable();
        self.entered.extend(other.entered);
        self.slowest_entry = self.slowest_entry.max(other.slowest_entry);
        self.failed += other.failed;
        self.made.extend(other.made);
    }

    /// The time that so many of a hundred requests took at most.
    pub(super) fn part(&self, percent: usize) -> Duration {
        let at = (self.times.len() * percent).div_ceil(100);
        self.times
            .get(at.saturating_sub(1))
            .copied()
            .unwrap_or_default()
    }
}

pub(super) struct Honest {
    number: usize,
    address: SocketAddr,
    /// What it says first on a connection, with the beginning of the answer.
    login: Option<String>,
    request: String,
}

impl Honest {
    pub(super) fn new(number: usize, node: &Node, ticket: &str) -> Honest {
        let redis = number % REDIS_EACH == REDIS_EACH - 1;
        let key = format!("honest-{number}");
        let request = match redis {
            true => format!("INCR {key}\r\n"),
            false => format!(
                "POST /v1/spaces/default/counters/{key}/add HTTP/1.1\r\nhost: localhost\r\n\
                 authorization: Bearer {ticket}\r\ncontent-length: 0\r\n\r\n"
            ),
        };
        Honest {
            number,
            address: match redis {
                true => node.resp.parse().expect("an address"),
                false => http(node),
            },
            login: redis.then(|| format!("AUTH {ticket}\r\n")),
            request,
        }
    }

    /// Counts until the load is over. What comes after `settled` is in the metrics of times.
    pub(super) fn work(&self, load: &Load, settled: Instant) -> Metrics {
        let mut metrics = Metrics::default();
        let (mut entered, mut made) = (0, (0, 0));
        let mut connection: Option<(TcpStream, usize)> = None;
        while !load.is_over() {
            let begun = Instant::now();
            let fresh = connection.is_none();
            let (mut stream, used) = match connection.take() {
                Some(it) => it,
                None => match self.connect() {
                    Ok(stream) => (stream, 0),
                    Err(error) => {
                        metrics.failed += usize::from(begun > settled);
                        load.tell(&load.failures, format!("on connecting: {error}"));
                        thread::sleep(PAUSE);
                        continue;
                    }
                },
            };
            let answered = ask(&mut stream, &self.request);
            let took = begun.elapsed();
            match &answered {
                Ok(()) => made.0 += 1,
                Err(error) => {
                    made.1 += 1;
                    load.tell(&load.failures, error.to_string());
                }
            }
            if begun > settled {
                metrics.failed += usize::from(answered.is_err());
                match (fresh, &answered) {
                    (true, Ok(())) => {
                        entered += 1;
                        metrics.slowest_entry = metrics.slowest_entry.max(took);
                    }
                    (false, Ok(())) => metrics.times.push(took),
                    _ => {}
                }
            }
            if answered.is_ok() && used + 1 < REQUESTS {
                connection = Some((stream, used + 1));
            }
            thread::sleep(PAUSE);
        }
        metrics.entered.push(entered);
        metrics.made.insert(self.number, made);
        metrics
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        if let Some(login) = &self.login {
            ask(&mut stream, login)?;
        }
        Ok(stream)
    }
}

/// Asks, and reads an answer that is no refusal: all of them fit one read's buffer.
fn ask(stream: &mut TcpStream, request: &str) -> io::Result<()> {
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !is_whole(&answer) {
        match stream.read(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => answer.extend_from_slice(&buffer[..read]),
        }
    }
    let good = [&b"HTTP/1.1 200"[..], b"+OK", b":"];
    match good.iter().any(|start| answer.starts_with(start)) {
        true => Ok(()),
        false => Err(io::Error::other(
            String::from_utf8_lossy(&answer).into_owned(),
        )),
    }
}

fn is_whole(answer: &[u8]) -> bool {
    if !answer.starts_with(b"HTTP") {
        return answer.ends_with(b"\r\n");
    }
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let head = head.to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|it| it.strip_prefix("content-length:"));
    let length = length.and_then(|it| it.trim().parse().ok()).unwrap_or(0);
    body.len() >= length
}

//! One client that writes, one write at a time, and how long each took.

use crate::random::Random;
use crate::resp_bench::servers::Server;
use crate::resp_client::{Client, counter};
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The counters that are written to, which both nodes hold.
pub(super) const KEYS: usize = 1_000;

/// Adds of one request.
const BULK: usize = 1_000;

/// A counter that both nodes hold.
pub(super) fn key(number: usize) -> String {
    counter(number % KEYS)
}

/// Counts once in each of them.
pub(super) fn make_keys(node: &Server<'_>) -> Result<()> {
    node.client()?.count_all(KEYS, 0)
}

/// How is written.
#[derive(Clone, Copy)]
pub(super) enum Way {
    Http,
    Redis,
    /// Many adds in one request over HTTP.
    Bulk,
    /// A write that is no plain add: `SET` over Redis.
    Set,
}

impl Way {
    pub(super) const ALL: [Way; 4] = [Way::Http, Way::Redis, Way::Bulk, Way::Set];

    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Http => "add, HTTP",
            Way::Redis => "`INCR`, Redis",
            Way::Bulk => "1,000 adds, HTTP",
            Way::Set => "`SET`, Redis",
        }
    }
}

/// Microseconds that half of the writes took at most, and 99 of 100.
#[derive(Clone, Copy)]
pub(super) struct Figure {
    pub(super) p50: f64,
    pub(super) p99: f64,
}

/// Writes to a node for so long.
pub(super) fn put(way: Way, node: &Server<'_>, time: Duration) -> Result<Figure> {
    let mut writer = Writer::to(way, node)?;
    let mut random = Random::new(1);
    let mut took = Vec::new();
    let end = Instant::now() + time;
    loop {
        let begun = Instant::now();
        if begun >= end && !took.is_empty() {
            break;
        }
        writer.write(&mut random)?;
        took.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    took.sort_by(f64::total_cmp);
    let at = |part: usize| took[(took.len() * part / 100).min(took.len() - 1)];
    Ok(Figure {
        p50: at(50),
        p99: at(99),
    })
}

/// A connection that stays open.
enum Writer {
    Http(Http),
    Bulk(Http),
    Redis(Client),
    Set(Client),
}

impl Writer {
    fn to(way: Way, node: &Server<'_>) -> Result<Writer> {
        Ok(match way {
            Way::Http => Writer::Http(Http::open(&node.base()?)?),
            Way::Bulk => Writer::Bulk(Http::open(&node.base()?)?),
            Way::Redis => Writer::Redis(node.client()?),
            Way::Set => Writer::Set(node.client()?),
        })
    }

    fn write(&mut self, random: &mut Random) -> Result<()> {
        let mut next = || key(random.below(KEYS));
        match self {
            Writer::Http(http) => {
                http.post(&format!("/v1/spaces/default/counters/{}/add", next()), "")
            }
            Writer::Bulk(http) => {
                let mut lines = String::new();
                for _ in 0..BULK {
                    // Writing to a string does not fail.
                    let _ = writeln!(lines, "{}", next());
                }
                http.post("/v1/spaces/default/add", &lines)
            }
            Writer::Redis(client) => taken(&client.ask(&["INCR", &next()])?),
            Writer::Set(client) => taken(&client.ask(&["SET", &next(), "7"])?),
        }
    }
}

fn taken(answer: &str) -> Result<()> {
    match answer.starts_with([':', '+']) {
        true => Ok(()),
        false => bail!("a write was answered with `{answer}`"),
    }
}

/// One connection over HTTP/1.1.
struct Http {
    stream: BufReader<TcpStream>,
    host: String,
    body: Vec<u8>,
}

impl Http {
    fn open(base: &str) -> Result<Http> {
        let host = base
            .strip_prefix("http://")
            .context("not an http address")?;
        let stream = TcpStream::connect(host)?;
        stream.set_nodelay(true)?;
        let (stream, host) = (BufReader::new(stream), host.to_owned());
        let body = Vec::new();
        Ok(Http { stream, host, body })
    }

    /// Sends a request, and takes all of its answer.
    fn post(&mut self, path: &str, body: &str) -> Result<()> {
        let (host, length) = (&self.host, body.len());
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        let mut first = String::new();
        self.stream.read_line(&mut first)?;
        let (mut line, mut length) = (String::new(), 0);
        while self.stream.read_line(&mut line)? > 2 {
            let field = line.split_once(':');
            if let Some((name, value)) = field
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse()?;
            }
            line.clear();
        }
        self.body.resize(length, 0);
        self.stream.read_exact(&mut self.body)?;
        match first.split(' ').nth(1) {
            Some("200") => Ok(()),
            _ => bail!(
                "a write was answered with `{}`: {}",
                first.trim(),
                String::from_utf8_lossy(&self.body)
            ),
        }
    }
}

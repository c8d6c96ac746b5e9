//! Links to a node: WebSockets of replicas that have sent their hello, and a thread that reads from them.

use crate::resp_bench::servers::Server;
use anyhow::{Context, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tallymesh_core::{Input, Link, Output, Replica, Space, SyncConfig, SyncMachine, WriterId};

/// How often the thread looks whether anything came on the links.
const LOOK: Duration = Duration::from_millis(20);
/// How often each link sends something: a node closes a socket from which nothing came for 30 seconds.
const SAY: Duration = Duration::from_secs(8);
/// The longest that a node may take until it has sent something on each of the links.
const GREETED: Duration = Duration::from_secs(120);

/// Lets this process open a socket for each link.
pub(super) fn raise_descriptors() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.maximum;
    let raised = Rlimit { current, ..limit };
    Ok(setrlimit(Resource::Nofile, raised)?)
}

/// A WebSocket (RFC 6455) to a node.
pub(super) struct Socket(BufReader<TcpStream>);

impl Socket {
    pub(super) fn open(base: &str) -> Result<Socket> {
        let host = base
            .strip_prefix("http://")
            .context("not an http address")?;
        let mut stream = TcpStream::connect(host)?;
        stream.set_nodelay(true)?;
        // The answer's key is not checked: it protects from caches, and there are none here.
        write!(
            stream,
            "GET /v1/spaces/default/sync HTTP/1.1\r\nhost: {host}\r\nconnection: upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGFsbHltZXNoLWJlbmNoLg==\r\n\r\n"
        )?;
        let mut socket = BufReader::new(stream);
        let mut first = String::new();
        socket.read_line(&mut first)?;
        if !first.contains(" 101 ") {
            bail!("a link was answered with `{}`", first.trim());
        }
        let mut line = String::new();
        while socket.read_line(&mut line)? > 2 {
            line.clear();
        }
        Ok(Socket(socket))
    }

    /// Sends a binary message.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.message(0x82, bytes)
    }

    /// Sends a sign that this end is alive.
    fn pong(&mut self) -> Result<()> {
        self.message(0x8a, &[])
    }

    fn message(&mut self, kind: u8, bytes: &[u8]) -> Result<()> {
        let mut frame = vec![kind];
        // A client masks its frames; here the mask is zero.
        match bytes.len() {
            length @ 0..=125 => frame.push(0x80 | length as u8),
            length @ 126..=0xffff => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&(length as u16).to_be_bytes());
            }
            length => {
                frame.push(0x80 | 127);
                frame.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(bytes);
        Ok(self.0.get_mut().write_all(&frame)?)
    }
}

/// Links whose peers read all that comes, and send no changes.
pub(super) struct Links {
    ended: Arc<AtomicBool>,
    taker: JoinHandle<Result<()>>,
}

impl Links {
    /// Opens links, and waits until the node has sent something on each of them.
    pub(super) fn open(node: &Server<'_>, count: usize) -> Result<Links> {
        let base = node.base()?;
        let mut sockets = Vec::new();
        for number in 0..count as u64 {
            let mut socket = Socket::open(&base)?;
            for frame in hello(number) {
                socket.send(&frame)?;
            }
            socket.0.get_ref().set_nonblocking(true)?;
            sockets.push(socket);
        }
        let ended = Arc::new(AtomicBool::new(false));
        let heard = Arc::new(AtomicUsize::new(0));
        let (end, hear) = (ended.clone(), heard.clone());
        let taker = thread::spawn(move || take(sockets, &end, &hear));
        let begun = Instant::now();
        while heard.load(Ordering::Relaxed) < count {
            if begun.elapsed() > GREETED || taker.is_finished() {
                bail!("a node did not send its hello on each of {count} links");
            }
            thread::sleep(LOOK);
        }
        Ok(Links { ended, taker })
    }

    /// Closes them; an error if the node had closed one.
    pub(super) fn close(self) -> Result<()> {
        self.ended.store(true, Ordering::Relaxed);
        match self.taker.join() {
            Ok(done) => done,
            Err(_) => bail!("the thread of the links panicked"),
        }
    }
}

/// The hello of a fresh replica.
fn hello(number: u64) -> Vec<Vec<u8>> {
    let mut nonce = [1; 16];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    let space = Space::default();
    let writer = WriterId::mint(&space, &[3; 32], &nonce);
    let mut replica = Replica::new(space, writer);
    let mut sync = SyncMachine::new(SyncConfig::default(), number);
    let (link, broadcast) = (Link(0), false);
    sync.handle(0, &mut replica, Input::Connected { link, broadcast });
    let mut frames = Vec::new();
    while let Some(output) = sync.poll() {
        if let Output::Send { bytes, .. } = output {
            frames.push(bytes.to_vec());
        }
    }
    frames
}

/// Reads from all sockets until `ended` is set. `heard` counts the sockets on which anything came.
fn take(mut sockets: Vec<Socket>, ended: &AtomicBool, heard: &AtomicUsize) -> Result<()> {
    let mut bytes = vec![0; 1 << 16];
    let mut is_heard = vec![false; sockets.len()];
    let mut said = Instant::now();
    while !ended.load(Ordering::Relaxed) {
        let says = said.elapsed() >= SAY;
        if says {
            said = Instant::now();
        }
        for (socket, is_heard) in sockets.iter_mut().zip(&mut is_heard) {
            if says {
                socket.pong()?;
            }
            // A little at a time: the next look reads the rest.
            match socket.0.read(&mut bytes) {
                Ok(0) => bail!("a node closed a link"),
                Ok(_) => {
                    if !std::mem::replace(is_heard, true) {
                        heard.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

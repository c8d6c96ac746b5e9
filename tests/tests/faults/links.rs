//! The links between nodes. For each direction in which one node may dial another, there is a port between
//! the two. Behind it, bytes are held up, late, or lost, with their connection or without anybody noticing.
//!
//! A node gets these ports and no other address, and the address book is off. So nothing else connects two
//! nodes.

use crate::mesh::NODES;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// Bytes of one read. `READS_MAX` is the number of reads that may be on their way.
const READ_BYTES: usize = 16 * 1024;
const READS_MAX: usize = 16;

/// The state of the way from one node to another.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    /// Whether no byte gets through. Bytes that are sent meanwhile wait, because TCP sends them again.
    pub(crate) cut: bool,
    /// For a slow way: its latency, and its bytes in a second.
    pub(crate) slow: Option<(Duration, u32)>,
    /// Number of times that the connections on it broke.
    pub(crate) broken: u64,
    /// Number of times that the connections on it went dead: they stay open, and carry nothing. Connections
    /// that are made later are sound.
    pub(crate) dead: u64,
}

/// All ways. They exist until this is dropped.
pub(crate) struct Links {
    /// By sender and receiver.
    ways: Vec<watch::Sender<Way>>,
    /// The address of each node.
    nodes: Vec<watch::Sender<Option<SocketAddr>>>,
    /// By the dialling node and the dialled node.
    ports: Vec<SocketAddr>,
    /// Ends with the links.
    _listeners: JoinSet<()>,
}

/// The state that a connection needs.
#[derive(Clone)]
struct Pair {
    there: watch::Receiver<Way>,
    back: watch::Receiver<Way>,
    node: watch::Receiver<Option<SocketAddr>>,
}

impl Links {
    pub(crate) async fn start() -> io::Result<Links> {
        let mut links = Links {
            ways: (0..NODES * NODES)
                .map(|_| watch::Sender::new(Way::default()))
                .collect(),
            nodes: (0..NODES).map(|_| watch::Sender::new(None)).collect(),
            ports: Vec::new(),
            _listeners: JoinSet::new(),
        };
        for from in 0..NODES {
            for to in 0..NODES {
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                links.ports.push(listener.local_addr()?);
                let pair = Pair {
                    there: links.ways[from * NODES + to].subscribe(),
                    back: links.ways[to * NODES + from].subscribe(),
                    node: links.nodes[to].subscribe(),
                };
                links._listeners.spawn(async move {
                    // They end with the listener.
                    let mut connections = JoinSet::new();
                    while let Ok((dialled, _)) = listener.accept().await {
                        let pair = pair.clone();
                        // Broken connections are the purpose of these links.
                        connections.spawn(async move { join(dialled, pair).await.ok() });
                        while connections.try_join_next().is_some() {}
                    }
                });
            }
        }
        Ok(links)
    }

    /// The address at which one node reaches another, for `--peer`.
    pub(crate) fn address(&self, from: usize, to: usize) -> String {
        let port = self.ports[from * NODES + to].port();
        format!("/ip4/127.0.0.1/tcp/{port}")
    }

    /// Sets the address of a node, or `None` if it does not run.
    pub(crate) fn route(&self, node: usize, address: Option<SocketAddr>) {
        self.nodes[node].send_replace(address);
    }

    /// Changes a way.
    pub(crate) fn change(&self, from: usize, to: usize, change: impl FnOnce(&mut Way)) {
        self.ways[from * NODES + to].send_modify(change);
    }

    /// Makes all ways healthy again. If `breaks`, the connections on ways that were cut break, else they go
    /// on.
    pub(crate) fn heal(&self, breaks: bool) {
        for way in &self.ways {
            way.send_modify(|way| {
                way.broken += u64::from(way.cut && breaks);
                (way.cut, way.slow) = (false, None);
            });
        }
    }
}

/// Connects an incoming connection to its node, until either breaks.
async fn join(dialled: TcpStream, pair: Pair) -> io::Result<()> {
    let Pair { there, back, node } = pair;
    // A node that dials gets no answer while a way between the two is cut in either direction.
    for way in [&there, &back] {
        is_open(&mut way.clone()).await;
    }
    let address = *node.borrow();
    let reached = TcpStream::connect(address.ok_or(io::ErrorKind::NotConnected)?).await?;
    for stream in [&dialled, &reached] {
        stream.set_nodelay(true)?;
    }
    let dead = [there.borrow().dead, back.borrow().dead];
    let (mut from_dialler, mut to_dialler) = dialled.into_split();
    let (mut from_reached, mut to_reached) = reached.into_split();
    // When one direction has ended, the other one has too.
    let ended = tokio::select! {
        ended = carry(&mut from_dialler, &mut to_reached, there.clone()) => ended,
        ended = carry(&mut from_reached, &mut to_dialler, back.clone()) => ended,
    };
    // The other end does not notice this either, as long as the way is cut.
    for way in [&there, &back] {
        is_open(&mut way.clone()).await;
    }
    // A dead connection does not carry its end either. Each side has to give it up by itself.
    if dead != [there.borrow().dead, back.borrow().dead] {
        tokio::join!(drain(&mut from_dialler), drain(&mut from_reached));
    }
    ended
}

/// Reads and drops everything until the end of the stream.
async fn drain(from: &mut OwnedReadHalf) {
    let mut bytes = Vec::with_capacity(READ_BYTES);
    while from.read_buf(&mut bytes).await.is_ok_and(|count| count > 0) {
        bytes.clear();
    }
}

/// Waits as long as a way is cut.
async fn is_open(way: &mut watch::Receiver<Way>) {
    // The links have the sender, and the connections end before them.
    let _ = way.wait_for(|way| !way.cut).await;
}

/// Carries bytes in one direction until the end of the stream, or until the way breaks.
async fn carry(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    way: watch::Receiver<Way>,
) -> io::Result<()> {
    let (reads, writes) = mpsc::channel(READS_MAX);
    let broken = way.borrow().broken;
    let breaks = {
        let mut way = way.clone();
        async move {
            let _ = way.wait_for(|way| way.broken != broken).await;
            Err(io::ErrorKind::ConnectionReset.into())
        }
    };
    let carried = async {
        tokio::try_join!(
            read(from, reads, way.clone()),
            write(to, writes, way.clone())
        )
    };
    tokio::select! {
        ended = carried => ended.map(|_| ()),
        ended = breaks => ended,
    }
}

/// Reads bytes, and notes the time at which they are to arrive.
async fn read(
    from: &mut OwnedReadHalf,
    reads: mpsc::Sender<(Instant, Vec<u8>)>,
    way: watch::Receiver<Way>,
) -> io::Result<()> {
    loop {
        let mut bytes = Vec::with_capacity(READ_BYTES);
        if from.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        let latency = way.borrow().slow.map_or(Duration::ZERO, |slow| slow.0);
        let sent = reads.send((Instant::now() + latency, bytes)).await;
        sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
    }
}

/// Writes bytes once they are to arrive and the way is open.
async fn write(
    to: &mut OwnedWriteHalf,
    mut writes: mpsc::Receiver<(Instant, Vec<u8>)>,
    mut way: watch::Receiver<Way>,
) -> io::Result<()> {
    let dead = way.borrow().dead;
    while let Some((at, bytes)) = writes.recv().await {
        sleep_until(at).await;
        let slow = way.borrow().slow;
        if let Some((_, rate)) = slow {
            let seconds = bytes.len() as f64 / f64::from(rate);
            sleep(Duration::from_secs_f64(seconds)).await;
        }
        is_open(&mut way).await;
        if way.borrow().dead == dead {
            to.write_all(&bytes).await?;
        }
    }
    Ok(())
}

//! The links between nodes: between each two stands a port for each direction in which one may dial the
//! other, and behind it bytes that are held up, late, or on their way no more.
//!
//! A node is told these ports and no other address, and the address book is off, so that nothing else
//! joins two nodes.

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

/// Bytes that are read at once, and how many reads may be on their way.
const READ_BYTES: usize = 16 * 1024;
const READS_MAX: usize = 16;

/// How a way from one node to another is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    /// Whether nothing gets through. What is sent meanwhile waits, as TCP sends it again.
    pub(crate) cut: bool,
    /// What it takes, and how many bytes get through in a second, if that is slow.
    pub(crate) slow: Option<(Duration, u32)>,
    /// Counts how often the connections on it broke.
    pub(crate) broken: u64,
}

/// All ways, as long as they are kept.
pub(crate) struct Links {
    /// By who sends, and who is to hear it.
    ways: Vec<watch::Sender<Way>>,
    /// Where each node is.
    nodes: Vec<watch::Sender<Option<SocketAddr>>>,
    /// By who dials whom.
    ports: Vec<SocketAddr>,
    /// Ends with the links.
    _listeners: JoinSet<()>,
}

/// What a connection needs to know.
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
                        // A connection that breaks is what a link is for.
                        connections.spawn(async move { join(dialled, pair).await.ok() });
                        while connections.try_join_next().is_some() {}
                    }
                });
            }
        }
        Ok(links)
    }

    /// Where one node reaches another, for `--peer`.
    pub(crate) fn address(&self, from: usize, to: usize) -> String {
        let port = self.ports[from * NODES + to].port();
        format!("/ip4/127.0.0.1/tcp/{port}")
    }

    /// Says where a node is from now on, or that it is nowhere.
    pub(crate) fn route(&self, node: usize, address: Option<SocketAddr>) {
        self.nodes[node].send_replace(address);
    }

    /// Changes a way.
    pub(crate) fn change(&self, from: usize, to: usize, change: impl FnOnce(&mut Way)) {
        self.ways[from * NODES + to].send_modify(change);
    }

    /// Makes all ways well again. Of those that were cut, connections go on or break.
    pub(crate) fn heal(&self, breaks: bool) {
        for way in &self.ways {
            way.send_modify(|way| {
                way.broken += u64::from(way.cut && breaks);
                (way.cut, way.slow) = (false, None);
            });
        }
    }
}

/// Joins a connection that came with one to the node that it is for, until either breaks.
async fn join(dialled: TcpStream, pair: Pair) -> io::Result<()> {
    let Pair { there, back, node } = pair;
    // Whoever dials hears nothing from a node that it can't reach, or that can't reach it.
    for way in [&there, &back] {
        is_open(&mut way.clone()).await;
    }
    let address = *node.borrow();
    let reached = TcpStream::connect(address.ok_or(io::ErrorKind::NotConnected)?).await?;
    for stream in [&dialled, &reached] {
        stream.set_nodelay(true)?;
    }
    let (mut from_dialler, mut to_dialler) = dialled.into_split();
    let (mut from_reached, mut to_reached) = reached.into_split();
    // Once one direction has ended, so has the other.
    let ended = tokio::select! {
        ended = carry(&mut from_dialler, &mut to_reached, there.clone()) => ended,
        ended = carry(&mut from_reached, &mut to_dialler, back.clone()) => ended,
    };
    // Nobody hears of the end either, as long as nothing gets through.
    for way in [&there, &back] {
        is_open(&mut way.clone()).await;
    }
    ended
}

/// Waits as long as a way is cut.
async fn is_open(way: &mut watch::Receiver<Way>) {
    // The sender is kept by the links, and they end first.
    let _ = way.wait_for(|way| !way.cut).await;
}

/// Carries bytes one way until there are no more, or the way breaks.
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

/// Reads, and notes when what came is to arrive.
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

/// Writes what was read once it is to arrive, and the way is open.
async fn write(
    to: &mut OwnedWriteHalf,
    mut writes: mpsc::Receiver<(Instant, Vec<u8>)>,
    mut way: watch::Receiver<Way>,
) -> io::Result<()> {
    while let Some((at, bytes)) = writes.recv().await {
        sleep_until(at).await;
        let slow = way.borrow().slow;
        if let Some((_, rate)) = slow {
            let seconds = bytes.len() as f64 / f64::from(rate);
            sleep(Duration::from_secs_f64(seconds)).await;
        }
        is_open(&mut way).await;
        to.write_all(&bytes).await?;
    }
    Ok(())
}

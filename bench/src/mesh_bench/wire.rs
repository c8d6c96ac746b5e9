//! A connection between two nodes that leads through here, so that all of its bytes are counted: what
//! TCP carries, with encryption and the multiplexer of streams.

use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Room for what is passed on at once.
const BUFFER_BYTES: usize = 64 << 10;

/// A place to dial that leads to a node. It takes one connection.
pub(super) struct Wire {
    /// What to dial.
    pub(super) address: String,
    bytes: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl Wire {
    /// A wire to the node that listens at this address, `/ip4/127.0.0.1/tcp/PORT/...`.
    pub(super) fn to(listen: &str) -> Result<Wire> {
        let port = listen.split('/').nth(4).map(str::parse::<u16>);
        let port = port.with_context(|| format!("no port in {listen}"))??;
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = format!("/ip4/127.0.0.1/tcp/{}", listener.local_addr()?.port());
        let bytes = Arc::new(AtomicU64::new(0));
        let ended = Arc::new(AtomicBool::new(false));
        let (counted, over) = (bytes.clone(), ended.clone());
        // It ends with the connection, and so with the nodes.
        thread::spawn(move || -> Result<()> {
            let (one, _) = listener.accept()?;
            let other = TcpStream::connect(("127.0.0.1", port))?;
            one.set_nodelay(true)?;
            other.set_nodelay(true)?;
            let (from, to) = (one.try_clone()?, other.try_clone()?);
            let back = counted.clone();
            thread::spawn(move || pass(&other, &one, &back));
            pass(&from, &to, &counted);
            over.store(true, Ordering::Relaxed);
            Ok(())
        });
        Ok(Wire {
            address,
            bytes,
            ended,
        })
    }

    /// Bytes that went over it so far, in both directions.
    pub(super) fn bytes(&self) -> f64 {
        self.bytes.load(Ordering::Relaxed) as f64
    }

    /// Whether the nodes gave the connection up, as they do if one of them gets no processor for 10 s.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, count: &AtomicU64) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        count.fetch_add(bytes as u64, Ordering::Relaxed);
        if to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

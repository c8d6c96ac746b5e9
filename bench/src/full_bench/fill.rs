//! Brings a node many writers, as a peer of full rights passes on what others made.

use super::links::Socket;
use crate::resp_bench::servers::Server;
use anyhow::{Result, bail};
use serde_json::Value;
use std::thread;
use std::time::{Duration, Instant};
use tallymesh_core::{
    Encode, Input, Link, Output, Replica, Space, SyncConfig, SyncMachine, VersionVector, WriterId,
};

/// Writers of one message, whose table has to fit a push.
const AT_ONCE: usize = 2_000;
/// The longest that a node may take to merge all.
const MERGED: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(100);

/// Lets a node merge so many writers, each of which counted once in one of its counters.
pub(super) fn bring_writers(node: &Server<'_>, writers: usize) -> Result<()> {
    let mut socket = Socket::open(&node.base()?)?;
    let space = Space::default();
    let writer = |number: usize| {
        let mut nonce = [2; 16];
        nonce[..8].copy_from_slice(&(number as u64).to_le_bytes());
        WriterId::mint(&space, &[4; 32], &nonce)
    };
    let link = Link(0);
    let mut replica = Replica::new(space.clone(), writer(writers));
    let mut sync = SyncMachine::new(SyncConfig::default(), 7);
    let broadcast = false;
    sync.handle(0, &mut replica, Input::Connected { link, broadcast });
    for frame in frames(&mut sync) {
        socket.send(&frame)?;
    }
    for first in (0..writers).step_by(AT_ONCE) {
        let mut many = Replica::new(space.clone(), writer(writers));
        for number in first..writers.min(first + AT_ONCE) {
            let mut one = Replica::new(space.clone(), writer(number));
            one.add(&super::load::key(number), 1)?;
            many.merge(&one.delta(&VersionVector::default()))?;
        }
        let message = many.delta(&VersionVector::default());
        socket.send(&push(&space, &message.encode()))?;
    }
    let begun = Instant::now();
    loop {
        let status: Value = serde_json::from_str(&node.http("/v1/status")?)?;
        let known = status["spaces"][0]["writers"].as_u64().unwrap_or(0);
        if known >= writers as u64 {
            return Ok(());
        }
        if begun.elapsed() > MERGED {
            bail!("a node merged {known} of {writers} writers");
        }
        thread::sleep(POLL);
    }
}

/// A push of a message, as docs/protocol.md has it.
fn push(space: &Space, message: &[u8]) -> Vec<u8> {
    const VERSION: u8 = 1;
    const PUSH: u8 = 6;
    let name = space.as_str();
    let mut frame = vec![b't', b'm', VERSION, PUSH, name.len() as u8];
    frame.extend_from_slice(name.as_bytes());
    frame.extend_from_slice(message);
    frame
}

fn frames(sync: &mut SyncMachine) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some(output) = sync.poll() {
        if let Output::Send { bytes, .. } = output {
            frames.push(bytes.to_vec());
        }
    }
    frames
}

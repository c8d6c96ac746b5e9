//! Connections that are opened again when the node closes them, and bring it nothing.

use super::Load;
use crate::process::Node;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How often all connections of a kind are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Connections of a kind that are opened between two looks, at each node: as quick as the strangers come again.
const AT_ONCE: usize = 400;
/// How long a connection may take to be opened, and a write to be taken.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a body is announced to be: as long as the node takes.
const BODY_BYTES: usize = 8 << 20;

fn open(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    Some(stream)
}

pub(super) fn http(node: &Node) -> SocketAddr {
    let address = node.url.replace("http://", "");
    address.parse().expect("an address")
}

/// Keeps so many connections open, which begin by saying this and then read what comes.
fn hold(load: &Load, open_now: &AtomicUsize, (address, says): (SocketAddr, &[u8]), count: usize) {
    let mut held: Vec<TcpStream> = Vec::new();
    let mut buffer = [0; 16 << 10];
    while !load.is_over() {
        let before = held.len();
        held.retain_mut(|stream| {
            loop {
                match stream.read(&mut buffer) {
                    Ok(0) => return false,
                    Ok(_) => {}
                    Err(error) => return error.kind() == ErrorKind::WouldBlock,
                }
            }
        });
        let closed = before - held.len();
        load.closed.fetch_add(closed, Ordering::Relaxed);
        open_now.fetch_sub(closed, Ordering::Relaxed);
        for _ in held.len()..count.min(held.len() + AT_ONCE) {
            let Some(mut stream) = open(address) else {
                break;
            };
            if stream.write_all(says).is_err() || stream.set_nonblocking(true).is_err() {
                continue;
            }
            held.push(stream);
            open_now.fetch_add(1, Ordering::Relaxed);
            if load.is_over() {
                return;
            }
        }
        thread::sleep(LOOK);
    }
}

/// Event streams of which nothing comes.
pub(super) fn streams(load: &Load, node: &Node, ticket: &str, count: usize) {
    let request = format!(
        "GET /v1/spaces/default/events?prefix=nothing HTTP/1.1\r\nhost: localhost\r\n\
         authorization: Bearer {ticket}\r\n\r\n"
    );
    hold(load, &load.streams, (http(node), request.as_bytes()), count);
}

/// Redis connections that say nothing.
pub(super) fn silent(load: &Load, node: &Node, count: usize) {
    let address = node.resp.parse().expect("an address");
    hold(load, &load.silent, (address, &[]), count);
}

/// A body that lacks its last byte.
pub(super) fn body(load: &Load, node: &Node, ticket: &str) {
    let head = format!(
        "POST /v1/spaces/default/read HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ticket}\r\n\
         content-type: application/json\r\ncontent-length: {BODY_BYTES}\r\n\r\n"
    );
    let part = [b' '; 64 << 10];
    while !load.is_over() {
        thread::sleep(LOOK);
        let Some(mut stream) = open(http(node)) else {
            continue;
        };
        let mut sent = stream.write_all(head.as_bytes());
        let mut left = BODY_BYTES - 1;
        while left > 0 && sent.is_ok() && !load.is_over() {
            let length = left.min(part.len());
            sent = stream.write_all(&part[..length]);
            left -= length;
        }
        load.bodies.fetch_add(1, Ordering::Relaxed);
        let mut buffer = [0; 4096];
        let _ = stream.set_read_timeout(Some(LOOK));
        while !load.is_over() {
            match stream.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(read) if read > 0 => {}
                _ => break,
            }
        }
        if !load.is_over() {
            load.bodies.fetch_sub(1, Ordering::Relaxed);
            load.closed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

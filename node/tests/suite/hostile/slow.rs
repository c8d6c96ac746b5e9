//! Peers that take their time, beside all that others do: whoever never gets on is cut off.

use super::Stage;
use super::attacker::By;
use super::doors::{connect, connect_p2p, has_ended};
use super::frames::{pull, space};
use super::raw::Said;
use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

/// How long between two bytes.
const EACH: Duration = Duration::from_secs(1);

/// A peer that takes its time, until the node has enough of it.
pub(super) struct Slow {
    pub(super) lie: &'static str,
    pub(super) door: &'static str,
    pub(super) by: &'static str,
    /// Whether the node has ended it.
    pub(super) is_over: Box<dyn FnMut() -> bool>,
}

/// One that the node has ended.
pub(super) struct Ended {
    pub(super) lie: &'static str,
    pub(super) door: &'static str,
    pub(super) by: &'static str,
    pub(super) after: Duration,
}

pub(super) fn begin(stage: &Stage) -> Vec<Slow> {
    let slow = |lie, door, by, is_over| Slow {
        lie,
        door,
        by,
        is_over,
    };
    let hello = b"\x13/multistream/1.0.0\n\x7f";
    let handshake = trickle(connect_p2p(&stage.mesh), hello, b'/');
    let head = b"GET /v1/spaces/default/sync HTTP/1.1\r\nhost: localhost\r\nx: ";
    let header = trickle(connect(&stage.mesh), head, b'x');
    let post = format!(
        "POST /v1/spaces/default/sync HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         content-length: 1000\r\n\r\n",
        stage.ticket
    );
    let body = trickle(connect(&stage.mesh), post.as_bytes(), 0);
    let mut page = stage.page(50);
    // A binary message of 1,000 bytes, masked with zeros.
    let frame = [0x82, 0x80 | 126, 3, 232, 0, 0, 0, 0];
    let socket = trickle(page.stream().try_clone().expect("a handle"), &frame, b't');
    let mut deaf = stage.page(51);
    let mut asked = 0;
    let stranger = stage.stranger();
    let peer = stage.peer(52);
    let stream = peer.begin(By::Sync, Said::Slowly(vec![200, 0, 0, 0], EACH));
    vec![
        slow(
            "a handshake, a byte a second",
            "libp2p",
            "stranger",
            handshake,
        ),
        slow(
            "it never shows who it is",
            "libp2p",
            "stranger",
            Box::new(move || !stranger.is_connected()),
        ),
        slow(
            "a frame, a byte a second",
            "libp2p",
            "member",
            // The peer is there as long as this is.
            Box::new(move || peer.is_connected() && stream.try_recv().is_ok()),
        ),
        slow(
            "a frame, a byte a second",
            "WebSocket",
            "with a member's ticket",
            socket,
        ),
        slow(
            "it asks, and reads nothing",
            "WebSocket",
            "with a member's ticket",
            Box::new(move || {
                asked += 1; // what was asked before is not answered again
                !deaf.send(&pull(&space("default"), asked))
            }),
        ),
        slow("a header, a byte a second", "HTTP", "stranger", header),
        slow(
            "a body, a byte a second",
            "POST",
            "with a member's ticket",
            body,
        ),
    ]
}

/// Says this, and then a byte a second for ever; tells whether the other end has enough.
fn trickle(mut stream: TcpStream, begun: &[u8], byte: u8) -> Box<dyn FnMut() -> bool> {
    stream.write_all(begun).expect("it is sent");
    let mut writer = stream.try_clone().expect("a handle");
    thread::spawn(move || {
        while writer.write_all(&[byte]).is_ok() {
            thread::sleep(EACH);
        }
    });
    Box::new(move || has_ended(&mut stream))
}

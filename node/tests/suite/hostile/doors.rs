//! Doors of HTTP: a page's socket, single requests, and bare connections.

use super::frames::{
    OTHER, Row as Entry, digest, hello, huge, long_key, message, pull, push, refusals, space,
};
use super::mesh::{Mesh, NODES};
use super::{Fate, Row, Stage, id};
use crate::process::{DEADLINE, Node};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Instant;
use tallymesh_core::wire::{Body, Frame};
use tallymesh_core::{Space, WriterId};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Error, Message, WebSocket};

/// The socket of a page, with no replica behind it.
pub(crate) struct Page(WebSocket<TcpStream>);

impl Page {
    /// Opens a socket of the space `default` with a ticket. A refused one is closed at once.
    pub(crate) fn open(mesh: &Mesh, ticket: &str) -> Page {
        Page::open_at(mesh.attacked(), ticket)
    }

    /// The same at this node.
    pub(crate) fn open_at(node: &Node, ticket: &str) -> Page {
        let url = node.url.replace("http:", "ws:");
        let url = format!("{url}/v1/spaces/default/sync");
        let mut request = url.into_client_request().expect("a request");
        if !ticket.is_empty() {
            let ticket = format!("Bearer {ticket}").parse().expect("a header");
            request.headers_mut().insert("authorization", ticket);
        }
        let config = WebSocketConfig::default()
            .max_message_size(None)
            .max_frame_size(None);
        let stream = connect_to(node);
        let opened = tungstenite::client::client_with_config(request, stream, Some(config));
        Page(opened.expect("a handshake").0)
    }

    /// Sends a frame; false if the socket is closed.
    pub(crate) fn send(&mut self, frame: &[u8]) -> bool {
        self.0.send(Message::Binary(frame.to_vec().into())).is_ok()
    }

    /// Waits until the node closes the socket: what it says to that, or nothing if it just ends.
    pub(crate) fn closed(&mut self) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            // Pings come as long as it is open.
            if Instant::now() > deadline {
                return "open".to_owned();
            }
            match self.0.read() {
                Ok(Message::Close(frame)) => {
                    let frame = frame.map(|it| format!("{} {}", u16::from(it.code), it.reason));
                    return frame.unwrap_or_default();
                }
                Ok(_) => {}
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {
                    return "open".to_owned();
                }
                Err(_) => return String::new(),
            }
        }
    }

    /// Waits until the node has read all that was sent: it answers a pull of this number.
    pub(crate) fn is_heard_out(&mut self, number: u32) {
        assert!(self.send(&pull(&Space::default(), number)));
        loop {
            if let Message::Binary(bytes) = self.0.read().expect("the socket stays open")
                && let Ok(frame) = Frame::decode(&bytes)
                && let Body::Delta(delta) = frame.body
                && delta.id == number
            {
                return;
            }
        }
    }

    /// The connection below.
    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        self.0.get_mut()
    }
}

/// A connection to the attacked node's HTTP.
pub(crate) fn connect(mesh: &Mesh) -> TcpStream {
    connect_to(mesh.attacked())
}

fn connect_to(node: &Node) -> TcpStream {
    let address = node.url.replace("http://", "");
    open(address.parse().expect("an address"))
}

/// A connection to where the attacked node listens for others, over TCP.
pub(crate) fn connect_p2p(mesh: &Mesh) -> TcpStream {
    let address = &mesh.attacked().listen[0];
    let port = address.split('/').nth(4).expect("a port");
    let port = port.parse().expect("a number");
    open(SocketAddr::from(([127, 0, 0, 1], port)))
}

fn open(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    stream.set_nodelay(true).expect("an option");
    stream
}

/// Whether the other end has closed a connection on which it says no more than this many bytes.
pub(crate) fn has_ended(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).expect("an option");
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

const SOCKET: &str = "WebSocket";
const POST: &str = "POST";
const SYNC: &str = "tallymesh_refusals_total{protocol=\"sync\"";
const HTTP: &str = "tallymesh_refusals_total{protocol=\"http\"";

pub(super) fn rows() -> Vec<Row> {
    let row = |lie, door, by, fate, figure, grows_mib, attack: fn(&Stage)| Row {
        lie,
        door,
        by,
        fate,
        figure,
        grows_mib,
        written: 0..NODES,
        attack,
    };
    const STRANGER: &str = "stranger";
    const PAGE: &str = "with a member's ticket";
    use Fate::{Borne, CutOff, PassedOver, Refused};
    vec![
        row(
            "no ticket, or one for another space",
            SOCKET,
            STRANGER,
            Refused,
            HTTP,
            32,
            no_ticket,
        ),
        row(
            "each frame that breaks a rule (refusals.json)",
            SOCKET,
            PAGE,
            CutOff,
            SYNC,
            32,
            malformed,
        ),
        row(
            "2^60 of each thing that is counted, keys over their limit",
            SOCKET,
            PAGE,
            CutOff,
            SYNC,
            32,
            huge_counts,
        ),
        row(
            "a message of 64 MiB",
            SOCKET,
            PAGE,
            CutOff,
            "",
            32,
            huge_message,
        ),
        row(
            "a frame of another space",
            SOCKET,
            PAGE,
            PassedOver,
            "tallymesh_frames_dropped_total",
            32,
            wrong_space,
        ),
        row("text instead of frames", SOCKET, PAGE, CutOff, "", 32, text),
        row(
            "a shard of a writer that nobody took in",
            SOCKET,
            PAGE,
            PassedOver,
            "",
            32,
            writer_unknown,
        ),
        row("10,000 small frames", SOCKET, PAGE, Borne, "", 32, flood),
        row(
            "50 sockets, each another writer",
            SOCKET,
            PAGE,
            Borne,
            "",
            64,
            sockets,
        ),
        row(
            "a frame of 4 GiB is announced, a body of 9 MiB",
            POST,
            PAGE,
            Refused,
            HTTP,
            32,
            huge_bodies,
        ),
        row("1,100 links", POST, PAGE, Refused, HTTP, 64, links),
    ]
}

fn no_ticket(stage: &Stage) {
    for (ticket, reason) in [
        ("", "4000 ticket_needed: "),
        (&*stage.elsewhere, "4000 beyond_role: "),
    ] {
        let closed = Page::open(&stage.mesh, ticket).closed();
        assert!(closed.starts_with(reason), "{closed}");
    }
}

fn malformed(stage: &Stage) {
    // A space that nobody has is none of this node's, whatever it is called.
    let refusals = refusals().into_iter().filter(|it| it.2 != "space_name");
    for (name, frame, code) in refusals {
        let mut page = stage.page(30);
        assert!(page.send(&frame), "{name}");
        let closed = page.closed();
        // What it says may be lost on the way, if more is sent to a socket that is closed.
        let told = closed.is_empty() || closed.starts_with(&format!("4000 {code}"));
        assert!(told, "{name}: {closed}");
    }
}

fn huge_counts(stage: &Stage) {
    let space = Space::default();
    let mut frames = huge(&space);
    frames.push(("bytes of a key: 513", long_key(&space, id(31), 513)));
    frames.push(("bytes of a key: 1 MiB", long_key(&space, id(31), 1 << 20)));
    for (what, frame) in frames {
        let mut page = stage.page(31);
        assert!(page.send(&frame), "{what}");
        let closed = page.closed();
        let codes = [
            "truncated",
            "too_large",
            "number",
            "key_length",
            "malformed",
        ];
        let refused = codes
            .iter()
            .any(|code| closed.starts_with(&format!("4000 {code}")));
        assert!(refused || closed.is_empty(), "{what}: {closed}");
    }
}

fn huge_message(stage: &Stage) {
    let mut page = stage.page(32);
    // It may be closed before all of it is written.
    let _ = page.send(&vec![0; 64 << 20]);
    page.closed();
}

fn wrong_space(stage: &Stage) {
    let mut page = stage.page(33);
    assert!(page.send(&pull(&space("shop"), 1)));
    page.is_heard_out(1);
}

fn text(stage: &Stage) {
    let mut page = stage.page(34);
    page.0.send(Message::text("hello")).expect("it is sent");
    let closed = page.closed();
    assert!(closed.is_empty() || closed.starts_with("1003"), "{closed}");
}

fn writer_unknown(stage: &Stage) {
    let mut page = stage.page(35);
    let row = Entry {
        writer: id(0x78),
        lo: 0,
        hi: 1,
    };
    let frame = push(&Space::default(), &message(&[row], "lie/page", 1));
    assert!(page.send(&frame));
    page.is_heard_out(1);
    stage.mesh.nobody_shows("lie/page");
}

fn flood(stage: &Stage) {
    let mut page = stage.page(36);
    for _ in 0..10_000 {
        assert!(page.send(&digest(&Space::default(), OTHER)));
    }
    page.is_heard_out(1);
}

fn sockets(stage: &Stage) {
    let mut pages = Vec::new();
    for number in 0..50u128 {
        let mut page = Page::open(&stage.mesh, &stage.ticket);
        let writer = WriterId::from_bytes((number << 8 | 37).to_be_bytes());
        assert!(page.send(&hello(&Space::default(), writer)));
        pages.push(page);
    }
    for page in &mut pages {
        page.is_heard_out(1);
    }
}

fn huge_bodies(stage: &Stage) {
    let (status, text) = post(stage, &[0xff; 12]).expect("an answer");
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("sync_frames"), "{text}");
    // The node may end the connection before all of it is sent.
    if let Ok((status, text)) = post(stage, &vec![0; 9 << 20]) {
        assert_eq!(status, 413, "{text}");
    }
}

/// One after the other on one connection, with no wait between: each begins a link.
fn links(stage: &Stage) {
    const LINKS: usize = 1_100;
    let request = format!(
        "POST /v1/spaces/default/sync HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         content-length: 0\r\n\r\n",
        stage.ticket
    );
    let mut stream = connect(&stage.mesh);
    let mut writer = stream.try_clone().expect("a handle");
    let asking = thread::spawn(move || writer.write_all(request.repeat(LINKS).as_bytes()));
    let (mut told, mut buffer) = (String::new(), [0; 1 << 16]);
    while told.matches("HTTP/1.1 ").count() < LINKS {
        let read = stream.read(&mut buffer).expect("it answers in time");
        assert!(read > 0, "it answers all");
        told += &String::from_utf8_lossy(&buffer[..read]);
    }
    asking.join().expect("it ends").expect("all is sent");
    assert!(told.contains("sync_sessions_full"), "all are let in");
}

/// Posts to the space's sync: the status, and what is said.
fn post(stage: &Stage, body: &[u8]) -> Result<(u16, String), ureq::Error> {
    let url = format!("{}/v1/spaces/default/sync", stage.mesh.attacked().url);
    let ticket = format!("Bearer {}", stage.ticket);
    let request = stage.agent.post(url).header("authorization", ticket);
    let mut answer = request.send(body)?;
    let text = answer.body_mut().read_to_vec()?;
    Ok((
        answer.status().as_u16(),
        String::from_utf8_lossy(&text).into_owned(),
    ))
}

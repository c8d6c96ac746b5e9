//! Clients that sync with a ticket of a lesser role than member, with the core's own machine at their
//! end: they prove their key first.

use crate::members::close;
use crate::process::{DEADLINE, Node, agent, eventually};
use crate::tickets::{ask, ticket};
use futures::{SinkExt, StreamExt};
use libp2p::identity::Keypair;
use serde_json::{Value, json};
use std::time::Duration;
use tallymesh_core::{Input, Link, Op, Output, Replica, Space, SyncConfig, SyncMachine, WriterId};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

const LINK: Link = Link(0);
const PATH: &str = "/v1/spaces/default/sync";

/// A member that asks for tickets, one of a role, and one that may all.
fn asking(role: &str) -> (Node, String, String) {
    let mut node = Node::start(&[]);
    close(&[&node]);
    node.add("likes", 5);
    let made = ticket(&node.run(&["invite", "--role", role], ""));
    let every = ["invite", "--role", "member", "--every-space"];
    let every = ticket(&node.run(&every, ""));
    node.terminate();
    node.start_again_with(vec!["--http-tickets".into()]);
    (node, made, every)
}

/// What a node shows of a counter, with a ticket.
fn value(node: &Node, ticket: &str, key: &str) -> Option<i64> {
    let path = format!("/v1/spaces/default/counters/{key}");
    let (_, answer) = ask(node, ticket, "GET", &path, "");
    answer["value"].as_str()?.parse().ok()
}

/// A replica whose owner has a key.
struct Guest {
    keys: Keypair,
    replica: Replica,
    sync: SyncMachine,
    started: Instant,
}

impl Guest {
    fn new() -> Guest {
        let keys = Keypair::generate_ed25519();
        let (space, nonce) = (Space::default(), [1; 16]);
        let writer = WriterId::mint(&space, &owner(&keys), &nonce);
        let mut guest = Guest {
            keys,
            replica: Replica::new(space, writer),
            sync: SyncMachine::new(SyncConfig::default(), 9),
            started: Instant::now(),
        };
        guest.input(Input::Own { writer, nonce });
        guest.input(Input::Connected {
            link: LINK,
            broadcast: false,
        });
        guest
    }

    fn input(&mut self, input: Input<'_>) {
        let now = u64::try_from(self.started.elapsed().as_millis()).expect("short");
        self.sync.handle(now, &mut self.replica, input);
    }

    fn heard(&mut self, bytes: &[u8]) {
        let link = LINK;
        self.input(Input::Frame { link, bytes });
    }

    /// The frames that it has to send.
    fn says(&mut self) -> Vec<Vec<u8>> {
        self.input(Input::Tick);
        let mut frames = Vec::new();
        while let Some(output) = self.sync.poll() {
            if let Output::Send { bytes, .. } = output {
                frames.push(bytes.to_vec());
            }
        }
        frames
    }

    fn apply(&mut self, key: &str, op: Op) {
        self.replica.apply(key, op).expect("applied");
        self.input(Input::Changed);
    }

    /// Its key, and the signature of a challenge, as hex digits.
    fn proof(&self, challenge: &str, node: &str) -> [String; 2] {
        let signed = [b"tallymesh-link-1".to_vec(), unhex(challenge), unhex(node)];
        let signature = self.keys.sign(&signed.concat()).expect("signed");
        [hex(&owner(&self.keys)), hex(&signature)]
    }
}

fn owner(keys: &Keypair) -> [u8; 32] {
    let public = keys.public().try_into_ed25519();
    public.expect("an Ed25519 key").to_bytes()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    let pairs = digits.map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("hex digits"))
        .collect()
}

async fn open(node: &Node, ticket: &str) -> Socket {
    let url = format!("{}{PATH}", node.url.replace("http:", "ws:"));
    let mut request = url.into_client_request().expect("a request");
    let bearer = format!("Bearer {ticket}").parse().expect("a header");
    request.headers_mut().insert("authorization", bearer);
    connect_async(request).await.expect("connect").0
}

/// The next message that is not a ping.
async fn next(socket: &mut Socket) -> Message {
    let until = Instant::now() + DEADLINE;
    loop {
        let message = timeout_at(until, socket.next()).await.expect("in time");
        match message.expect("open").expect("a message") {
            Message::Ping(_) | Message::Pong(_) => {}
            message => return message,
        }
    }
}

async fn challenge(socket: &mut Socket) -> Value {
    let Message::Text(text) = next(socket).await else {
        panic!("no text");
    };
    serde_json::from_str(&text).expect("JSON")
}

/// Proves its key.
async fn prove(guest: &Guest, socket: &mut Socket) {
    let asked = challenge(socket).await;
    let text = |name: &str| asked[name].as_str().expect("text").to_owned();
    let [owner, signature] = guest.proof(&text("challenge"), &text("node"));
    let answer = json!({"owner": owner, "signature": signature}).to_string();
    socket
        .send(Message::Text(answer.into()))
        .await
        .expect("send");
}

/// Why the socket is closed.
async fn closed(socket: &mut Socket) -> String {
    let until = Instant::now() + DEADLINE;
    loop {
        assert!(Instant::now() < until, "it stays open");
        match next(socket).await {
            Message::Close(Some(frame)) => {
                assert_eq!(u16::from(frame.code), 4000);
                return frame.reason.to_string();
            }
            Message::Close(None) => panic!("no reason"),
            _ => {}
        }
    }
}

/// Exchanges frames until `done`.
async fn run_until(guest: &mut Guest, socket: &mut Socket, done: impl Fn(&Replica) -> bool) {
    let until = Instant::now() + DEADLINE;
    while !done(&guest.replica) {
        assert!(Instant::now() < until, "it never got there");
        for frame in guest.says() {
            let sent = socket.send(Message::Binary(frame.into())).await;
            sent.expect("send");
        }
        let heard = timeout(Duration::from_millis(5), socket.next()).await;
        if let Ok(Some(Ok(Message::Binary(bytes)))) = heard {
            guest.heard(&bytes);
        }
    }
}

/// Says what it has to say until the node closes the socket; tells why it does.
async fn says_until_closed(guest: &mut Guest, socket: &mut Socket) -> String {
    let until = Instant::now() + DEADLINE;
    loop {
        assert!(Instant::now() < until, "it stays open");
        for frame in guest.says() {
            // The node may be about to close it.
            let _ = socket.send(Message::Binary(frame.into())).await;
        }
        match timeout(Duration::from_millis(5), socket.next()).await {
            Ok(Some(Ok(Message::Binary(bytes)))) => guest.heard(&bytes),
            Ok(Some(Ok(Message::Close(Some(frame))))) => return frame.reason.to_string(),
            Ok(None | Some(Err(_))) => panic!("it ended without a word"),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_a_writers_ticket_adds_and_cancels_nothing() {
    let (node, ticket, _) = asking("writer");
    let mut guest = Guest::new();
    guest.apply("likes", Op::Add(2));
    let mut socket = open(&node, &ticket).await;
    prove(&guest, &mut socket).await;
    run_until(&mut guest, &mut socket, |it| it.value("likes") == Some(7)).await;
    run_until(&mut guest, &mut socket, |_| {
        value(&node, &ticket, "likes") == Some(7)
    })
    .await;
    guest.apply("likes", Op::Delete);
    let reason = says_until_closed(&mut guest, &mut socket).await;
    assert!(reason.starts_with("beyond_role"), "{reason}");
    assert_eq!(value(&node, &ticket, "likes"), Some(7));
}

/// Opens a socket as a page does, which can give it no header but subprotocols.
async fn offer(node: &Node, offers: &str) -> (Socket, Option<String>) {
    let url = format!("{}{PATH}", node.url.replace("http:", "ws:"));
    let mut request = url.into_client_request().expect("a request");
    let offers = offers.parse().expect("a header");
    let name = "sec-websocket-protocol";
    request.headers_mut().insert(name, offers);
    let (socket, answer) = connect_async(request).await.expect("a socket");
    let taken = answer.headers().get(name);
    let taken = taken.map(|it| it.to_str().expect("text").to_owned());
    (socket, taken)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_shows_its_ticket_as_a_subprotocol() {
    let (node, ticket, _) = asking("writer");
    for (offers, code) in [
        ("tallymesh", "ticket_needed: "),
        ("tallymesh, tallymesh.ticket.x", "ticket: "),
        ("tallymesh, x.ticket", "ticket_needed: "),
    ] {
        let (mut socket, taken) = offer(&node, offers).await;
        assert_eq!(taken.as_deref(), Some("tallymesh"));
        let reason = closed(&mut socket).await;
        assert!(reason.starts_with(code), "{offers}: {reason}");
    }
    let offers = format!("tallymesh, tallymesh.ticket.{ticket}");
    let (mut socket, taken) = offer(&node, &offers).await;
    assert_eq!(taken.as_deref(), Some("tallymesh"));
    assert_eq!(challenge(&mut socket).await["role"], "writer");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_proves_no_key_gets_no_link() {
    let (node, ticket, every) = asking("editor");
    let guest = Guest::new();
    let other = Guest::new();
    for answer in 0..4 {
        let mut socket = open(&node, &ticket).await;
        let asked = challenge(&mut socket).await;
        let text = |name: &str| asked[name].as_str().expect("text").to_owned();
        let [owner, signature] = guest.proof(&text("challenge"), &text("node"));
        let message = match answer {
            0 => Message::Binary(vec![1, 2, 3].into()),
            1 => Message::Text("{}".into()),
            2 => {
                let [owner, _] = other.proof(&text("challenge"), &text("node"));
                let both = json!({"owner": owner, "signature": signature});
                Message::Text(both.to_string().into())
            }
            _ => {
                let [_, signature] = guest.proof(&"00".repeat(32), &text("node"));
                let both = json!({"owner": owner, "signature": signature});
                Message::Text(both.to_string().into())
            }
        };
        socket.send(message).await.expect("send");
        let reason = closed(&mut socket).await;
        assert!(reason.starts_with("owner_proof"), "{answer}: {reason}");
    }
    let (_, peers) = ask(&node, &every, "GET", "/v1/peers", "");
    assert_eq!(peers["peers"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_ends_with_its_ticket() {
    let (node, ticket, every) = asking("reader");
    let mut guest = Guest::new();
    let mut socket = open(&node, &ticket).await;
    prove(&guest, &mut socket).await;
    run_until(&mut guest, &mut socket, |it| it.value("likes") == Some(5)).await;
    let output = node.run(&["revoke", &ticket, "--ticket", &every], "");
    assert!(output.status.success(), "{output:?}");
    let reason = closed(&mut socket).await;
    assert!(reason.starts_with("ticket_revoked"), "{reason}");
}

/// Reads a stream of events until the node ends it.
fn events(node: &Node, ticket: &str) -> std::thread::JoinHandle<()> {
    let stream = agent()
        .get(format!("{}/v1/spaces/default/events", node.url))
        .header("authorization", format!("Bearer {ticket}"))
        .call()
        .expect("a stream");
    assert_eq!(stream.status(), 200);
    std::thread::spawn(move || {
        let mut reader = stream.into_body().into_reader();
        std::io::copy(&mut reader, &mut std::io::sink()).expect("an end in time");
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_is_open_ends_with_its_ticket_whatever_its_role() {
    let (node, member, every) = asking("member");
    for (ticket, reason) in [(member, "ticket_revoked"), (every.clone(), "ticket_issuer")] {
        let mut socket = open(&node, &ticket).await;
        let streams = [events(&node, &ticket), events(&node, &ticket)];
        post(&node, &ticket, &[], &[]).expect("a link");
        let links = |wanted: usize| {
            let rows = ask(&node, &every, "GET", "/v1/peers", "").1;
            (rows["peers"].as_array()?.len() == wanted).then_some(())
        };
        eventually("both links are there", || links(2));
        if reason == "ticket_revoked" {
            let output = node.run(&["revoke", &ticket, "--ticket", &every], "");
            assert!(output.status.success(), "{output:?}");
        } else {
            // The signer is no member any more.
            let force = json!({"members": ["11".repeat(32)]}).to_string();
            let forced = ask(
                &node,
                &every,
                "POST",
                "/v1/spaces/default/members/force",
                &force,
            );
            assert_eq!(forced.0, 200, "{}", forced.1);
        }
        let told = closed(&mut socket).await;
        assert!(told.starts_with(reason), "{told}");
        for stream in streams {
            stream.join().expect("it ends");
        }
        if reason == "ticket_revoked" {
            eventually("no link is left", || links(0));
        }
    }
}

/// One request: its answer's status, code or frames, and headers.
fn post(node: &Node, ticket: &str, headers: &[(&str, &str)], frames: &[Vec<u8>]) -> Posted {
    let mut body = Vec::new();
    for frame in frames {
        let length = u32::try_from(frame.len()).expect("short");
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(frame);
    }
    let mut request = agent()
        .post(format!("{}{PATH}?wait_ms=20", node.url))
        .header("authorization", format!("Bearer {ticket}"));
    for (name, text) in headers {
        request = request.header(*name, *text);
    }
    let mut response = request.send(&body).expect("an answer");
    let header = |name: &str| {
        let text = response.headers().get(name)?.to_str().ok()?;
        Some(text.to_owned())
    };
    let names = ["tallymesh-session", "tallymesh-challenge", "tallymesh-node"];
    let headers = names.map(|name| header(name).unwrap_or_default());
    let good = response.status() == 200;
    let bytes = response.body_mut().read_to_vec().expect("a body");
    if !good {
        let problem: Value = serde_json::from_slice(&bytes).expect("a problem");
        return Err(problem["code"].as_str().expect("a code").to_owned());
    }
    let mut frames = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some((length, more)) = rest.split_first_chunk() {
        let (frame, more) = more.split_at(u32::from_be_bytes(*length) as usize);
        frames.push(frame.to_vec());
        rest = more;
    }
    Ok((headers, frames))
}

type Posted = Result<([String; 3], Vec<Vec<u8>>), String>;

#[test]
fn a_client_without_a_socket_proves_its_key_too() {
    let (node, ticket, _) = asking("writer");
    let mut guest = Guest::new();
    guest.apply("likes", Op::Add(2));
    let first = guest.says();
    let wrong = post(&node, &ticket, &[], &first);
    assert_eq!(
        wrong.err(),
        Some("owner_proof".into()),
        "frames come too early"
    );
    let ([session, ..], _) = post(&node, &ticket, &[], &[]).expect("a link");
    let named = ("tallymesh-session", session.as_str());
    let wrong = post(&node, &ticket, &[named], &first);
    assert_eq!(wrong.err(), Some("owner_proof".into()), "nothing is proved");
    let wrong = post(&node, &ticket, &[named], &[]);
    assert_eq!(wrong.err(), Some("sync_session".into()), "it is over");
    let ([session, challenge, of_node], _) = post(&node, &ticket, &[], &[]).expect("a link");
    let named = ("tallymesh-session", session.as_str());
    let [owner, signature] = guest.proof(&challenge, &of_node);
    let proof = [
        named,
        ("tallymesh-owner", owner.as_str()),
        ("tallymesh-signature", signature.as_str()),
    ];
    let (_, frames) = post(&node, &ticket, &proof, &first).expect("proved");
    frames.iter().for_each(|frame| guest.heard(frame));
    eventually("both have what the other had", || {
        let (_, frames) = post(&node, &ticket, &[named], &guest.says()).expect("an answer");
        frames.iter().for_each(|frame| guest.heard(frame));
        let there = value(&node, &ticket, "likes");
        (there == Some(7) && guest.replica.value("likes") == Some(7)).then_some(())
    });
    guest.apply("likes", Op::Reset);
    let refused = eventually("it is refused", || {
        post(&node, &ticket, &[named], &guest.says()).err()
    });
    assert_eq!(refused, "beyond_role");
    assert_eq!(value(&node, &ticket, "likes"), Some(7));
}

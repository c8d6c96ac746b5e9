//! A reader that proves writers without end, and many keys that show one ticket.

use super::Load;
use super::hold::http;
use crate::hostile::attacker;
use crate::hostile::raw::{Raw, Said};
use crate::process::Node;
use crate::swarm::swarm;
use crate::tickets::ticket;
use futures::prelude::*;
use libp2p::identity::Keypair;
use libp2p::request_response::{self, Message, ProtocolSupport};
use libp2p::swarm::{NetworkBehaviour, Swarm, SwarmEvent};
use libp2p::{Multiaddr, PeerId, StreamProtocol, ping};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use tallymesh_core::wire::{Body, Digests, Frame, Hello};
use tallymesh_core::{Space, WriterId};
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

/// How long one key may take to show its ticket.
const PATIENCE: Duration = Duration::from_secs(10);
/// Keys that show theirs at the same time.
const AT_ONCE: usize = 32;
/// How long all keys together take to show theirs, if a run is that long.
const SHOW_TIME: Duration = Duration::from_secs(60);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &Value) -> Vec<u8> {
    let text = text.as_str().unwrap_or_default();
    let pairs = (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16));
    pairs.filter_map(Result::ok).collect()
}

/// A writer of an owner.
fn mint(owner: &[u8; 32], number: u64) -> (WriterId, [u8; 16]) {
    let mut nonce = [0; 16];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    (WriterId::mint(&Space::default(), owner, &nonce), nonce)
}

fn frame(body: Body) -> Vec<u8> {
    let space = Space::default();
    Frame { space, body }.encode()
}

fn hello(writer: WriterId) -> Hello {
    Hello {
        version_min: 1,
        version_max: 1,
        capabilities: 0,
        session: 7,
        agent: "reader".into(),
        nonce: [0; 16],
        proof: Vec::new(),
        digests: Digests {
            vector: [0xee; 16],
            contents: 0,
        },
        writer,
        clock: 0,
    }
}

/// Proves one writer after the other on a link, and opens another link whenever that is closed.
pub(super) fn prove(load: &Load, node: &Node, ticket: &str) {
    while !load.is_over() {
        // It ends as the node closes the link.
        let _ = link(load, node, ticket);
        // The pace of the load: no result depends on it.
        thread::sleep(Duration::from_millis(100));
    }
}

fn link(load: &Load, node: &Node, ticket: &str) -> Result<(), Box<dyn std::error::Error>> {
    let keys = Keypair::generate_ed25519();
    let owner = keys.public().try_into_ed25519()?.to_bytes();
    let stream = TcpStream::connect_timeout(&http(node), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let url = format!("ws://{}/v1/spaces/default/sync", http(node));
    let mut request = url.into_client_request()?;
    let headers = request.headers_mut();
    headers.insert("authorization", format!("Bearer {ticket}").parse()?);
    let (mut socket, _) = tungstenite::client::client(request, stream)
        .map_err(|error| std::io::Error::other(error.to_string()))?;
    let asked: Value = serde_json::from_str(socket.read()?.to_text()?)?;
    let signed = [
        b"tallymesh-link-1".to_vec(),
        unhex(&asked["challenge"]),
        unhex(&asked["node"]),
    ];
    let signature = keys.sign(&signed.concat())?;
    let proof = json!({ "owner": hex(&owner), "signature": hex(&signature) });
    socket.send(tungstenite::Message::text(proof.to_string()))?;
    let mint = |number| mint(&owner, number);
    let frame = |body| tungstenite::Message::binary(frame(body));
    socket.send(frame(Body::Hello(hello(mint(0).0))))?;
    // What the node says meanwhile is read by nobody: most of it fits the buffers of the system.
    let mut number = 0;
    while !load.is_over() {
        let (writer, nonce) = mint(number);
        socket.write(frame(Body::Writer(writer)))?;
        socket.write(frame(Body::Own { writer, nonce }))?;
        number += 1;
        if number.is_multiple_of(50) {
            socket.flush()?;
            load.proved.fetch_add(50, Ordering::Relaxed);
            // The pace of the load: some ten thousand writers a second.
            thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

/// Has so many keys show a ticket in four fifths of the time, and come again for a link, which those that
/// get one hold.
pub(super) fn show(load: &Load, node: &Node, ticket: &str, keys: usize, length: Duration) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let address: Multiaddr = node.listen[0].parse().expect("an address");
    // Each comes twice, and no quicker than the node lets addresses come.
    let each = (SHOW_TIME.min(length * 4 / 5) / keys as u32).max(Duration::from_millis(11));
    let begun = Instant::now();
    let turns = stream::iter(0..keys as u32).map(|number| {
        let address = address.clone();
        async move {
            tokio::time::sleep_until((begun + each * number).into()).await;
            if load.is_over() {
                return None;
            }
            let mut key = Key::new();
            let shown = tokio::time::timeout(PATIENCE, key.show(&address, ticket)).await;
            load.shown.fetch_add(1, Ordering::Relaxed);
            let (told, is_in) = match shown.unwrap_or_else(|_| Err("no answer in time".to_owned()))
            {
                Ok(answer) if answer.get("role").is_some() => ("let in".to_owned(), true),
                Ok(answer) => (answer["code"].as_str().unwrap_or("?").to_owned(), false),
                Err(why) => (why, false),
            };
            load.tell(&load.told, told);
            load.let_in.fetch_add(usize::from(is_in), Ordering::Relaxed);
            is_in.then_some(key)
        }
    });
    let turns = turns.buffer_unordered(AT_ONCE).filter_map(future::ready);
    let held = turns.for_each_concurrent(None, |mut key| {
        let address = address.clone();
        async move {
            let end = key.hold(load, &address).await;
            load.tell(&load.links_ended, end);
        }
    });
    runtime.block_on(held);
}

/// Has one honest peer after the other come with a ticket of its own role, and get a link.
pub(super) fn join(load: &Load, node: &Node, ticket: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let address: Multiaddr = node.listen[0].parse().expect("an address");
    while !load.is_over() {
        let begun = Instant::now();
        let mut key = Key::new();
        let comes = async {
            key.show(&address, ticket).await?;
            key.send_hello(&address).await
        };
        let joined = runtime.block_on(async { tokio::time::timeout(PATIENCE, comes).await });
        match joined.unwrap_or_else(|_| Err("no link in time".into())) {
            Ok(()) => {
                load.peers.fetch_add(1, Ordering::Relaxed);
                let slowest = load.slowest_peer.lock();
                let mut slowest = slowest.unwrap_or_else(PoisonError::into_inner);
                *slowest = begun.elapsed().max(*slowest);
            }
            Err(why) => load.tell(&load.peers_failed, why),
        }
        // The pace of the load: about one peer a second. No result depends on it.
        thread::sleep(Duration::from_secs(1));
    }
}

/// A key of its own, and what it says with it.
pub(super) struct Key {
    swarm: Swarm<Says>,
    owner: [u8; 32],
    node: Option<PeerId>,
}

#[derive(NetworkBehaviour)]
pub(super) struct Says {
    /// A node closes connections that do not answer it.
    ping: ping::Behaviour,
    joins: request_response::Behaviour<Raw>,
    frames: request_response::Behaviour<Raw>,
}

impl Key {
    pub(super) fn new() -> Key {
        let keys = Keypair::generate_ed25519();
        let owner = keys.public().try_into_ed25519().expect("a key").to_bytes();
        let of = |name| {
            let protocols = [(StreamProtocol::new(name), ProtocolSupport::Full)];
            request_response::Behaviour::<Raw>::new(protocols, Default::default())
        };
        let says = Says {
            ping: ping::Behaviour::default(),
            joins: of("/tallymesh/join/1"),
            frames: of("/tallymesh/sync/2"),
        };
        Key {
            swarm: swarm(keys, says),
            owner,
            node: None,
        }
    }

    async fn connect(&mut self, address: &Multiaddr) -> Result<PeerId, String> {
        self.swarm
            .dial(address.clone())
            .map_err(|error| error.to_string())?;
        loop {
            match self.swarm.select_next_some().await {
                SwarmEvent::ConnectionEstablished { peer_id, .. } => return Ok(peer_id),
                SwarmEvent::OutgoingConnectionError { .. } => return Err("no connection".into()),
                _ => {}
            }
        }
    }

    /// Shows a ticket: the answer, if there is one.
    pub(super) async fn show(
        &mut self,
        address: &Multiaddr,
        ticket: &str,
    ) -> Result<Value, String> {
        let node = self.connect(address).await?;
        self.node = Some(node);
        let question = json!({ "ticket": ticket }).to_string().into_bytes();
        let joins = &mut self.swarm.behaviour_mut().joins;
        joins.send_request(&node, Said::Bytes(question));
        loop {
            match self.swarm.select_next_some().await {
                SwarmEvent::Behaviour(SaysEvent::Joins(request_response::Event::Message {
                    message: Message::Response { response, .. },
                    ..
                })) => {
                    return serde_json::from_slice(&response).map_err(|error| error.to_string());
                }
                SwarmEvent::Behaviour(SaysEvent::Joins(
                    request_response::Event::OutboundFailure { error, .. },
                )) => return Err(error.to_string()),
                SwarmEvent::ConnectionClosed { .. } => return Err("closed".into()),
                _ => {}
            }
        }
    }

    /// Comes again once the node has closed the connection on which the ticket was shown, and sends its hello.
    pub(super) async fn send_hello(&mut self, address: &Multiaddr) -> Result<(), String> {
        let gone = async {
            while self.node.is_some_and(|it| self.swarm.is_connected(&it)) {
                self.swarm.select_next_some().await;
            }
        };
        tokio::time::timeout(PATIENCE, gone)
            .await
            .map_err(|_| "the first connection stays")?;
        let node = self.connect(address).await?;
        let (writer, nonce) = mint(&self.owner, 0);
        let hello = Hello {
            nonce,
            ..hello(writer)
        };
        let frame = frame(Body::Hello(hello));
        let frames = &mut self.swarm.behaviour_mut().frames;
        frames.send_request(&node, Said::Bytes(attacker::request(&[frame])));
        loop {
            match self.swarm.select_next_some().await {
                SwarmEvent::Behaviour(SaysEvent::Frames(request_response::Event::Message {
                    message: Message::Response { .. },
                    ..
                })) => return Ok(()),
                SwarmEvent::ConnectionClosed { .. } => return Err("no link".into()),
                event => self.take(event),
            }
        }
    }

    /// Takes what the node sends.
    fn take(&mut self, event: SwarmEvent<SaysEvent>) {
        if let SwarmEvent::Behaviour(SaysEvent::Frames(request_response::Event::Message {
            message: Message::Request { channel, .. },
            ..
        })) = event
        {
            let frames = &mut self.swarm.behaviour_mut().frames;
            let _ = frames.send_response(channel, Vec::new());
        }
    }

    /// Holds a link for as long as the node lets it: how that ended.
    async fn hold(&mut self, load: &Load, address: &Multiaddr) -> String {
        let linked = tokio::time::timeout(PATIENCE, self.send_hello(address)).await;
        if let Err(why) = linked.unwrap_or_else(|_| Err("no link in time".into())) {
            return why;
        }
        let links = load.links.fetch_add(1, Ordering::Relaxed) + 1;
        load.links_most.fetch_max(links, Ordering::Relaxed);
        let mut look = tokio::time::interval(Duration::from_secs(1));
        let end = loop {
            tokio::select! {
                event = self.swarm.select_next_some() => match event {
                    SwarmEvent::ConnectionClosed { .. } => break "closed",
                    event => self.take(event),
                },
                _ = look.tick() => if load.is_over() {
                    break "held until the end";
                },
            }
        };
        load.links.fetch_sub(1, Ordering::Relaxed);
        end.to_owned()
    }
}

/// A node that asks for tickets over libp2p and has room for 16 connections that come in; and a reader's and
/// a writer's ticket.
fn asking() -> (Node, Multiaddr, [String; 2]) {
    let mut node = Node::start(&[]);
    let invite = |role| ticket(&node.run(&["invite", "--role", role], ""));
    let tickets = ["reader", "writer"].map(invite);
    assert!(node.terminate().success());
    let closed = "--listen-tickets --connections 32 --connections-in 16 --connect-rate 1000/s";
    let arguments = closed.split_whitespace().map(str::to_owned);
    node.start_again_with(arguments.collect());
    let address = node.listen[0].parse().expect("an address");
    (node, address, tickets)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn each_key_that_shows_a_ticket_is_answered_and_guests_leave_room_for_others() {
    let (_node, address, [reader, writer]) = asking();
    let keys = (0..12).map(|_| async {
        let mut key = Key::new();
        let answer = key.show(&address, &reader).await.expect("an answer");
        assert_eq!(answer["role"], "reader", "{answer}");
        key
    });
    let keys = future::join_all(keys).await;
    let links = keys.into_iter().map(|mut key| async {
        let linked = key.send_hello(&address).await;
        (linked, key)
    });
    let links = future::join_all(links).await;
    let held = links.iter().filter(|(linked, _)| linked.is_ok());
    assert_eq!(held.count(), 8, "half of the places");
    // Others come, show nothing, and stay: more than there are places.
    let silent = (0..10).map(|_| async {
        let mut key = Key::new();
        key.connect(&address).await.expect("it comes in");
        key
    });
    let _silent = future::join_all(silent).await;
    let mut key = Key::new();
    let answer = key.show(&address, &writer).await.expect("an answer");
    assert_eq!(answer["role"], "writer", "{answer}");
    key.send_hello(&address).await.expect("a link");
}

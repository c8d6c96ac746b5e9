//! A reader that proves writers without end, and many keys that show one ticket.

use super::Load;
use super::hold::http;
use crate::hostile::raw::{Raw, Said};
use crate::process::Node;
use futures::prelude::*;
use libp2p::identity::Keypair;
use libp2p::request_response::{self, Message, ProtocolSupport};
use libp2p::swarm::SwarmEvent;
use libp2p::{Multiaddr, StreamProtocol, SwarmBuilder, noise, tcp, yamux};
use serde_json::{Value, json};
use std::net::TcpStream;
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
const AT_ONCE: usize = 8;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &Value) -> Vec<u8> {
    let text = text.as_str().unwrap_or_default();
    let pairs = (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16));
    pairs.filter_map(Result::ok).collect()
}

/// Proves one writer after the other on a link, and opens another link whenever that is closed.
pub(super) fn prove(load: &Load, node: &Node, ticket: &str) {
    while !load.is_over() {
        // It ends as the node closes the link.
        let _ = link(load, node, ticket);
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
    let space = Space::default();
    let mint = |number: u64| {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&number.to_le_bytes());
        let writer = WriterId::mint(&space, &owner, &nonce);
        (writer, nonce)
    };
    let frame = |body: Body| {
        let space = space.clone();
        tungstenite::Message::binary(Frame { space, body }.encode())
    };
    let hello = Hello {
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
        writer: mint(0).0,
        clock: 0,
    };
    socket.send(frame(Body::Hello(hello)))?;
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
            thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

/// Has so many keys show a ticket, in four fifths of the time.
pub(super) fn show(load: &Load, node: &Node, ticket: &str, keys: usize, length: Duration) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let address: Multiaddr = node.listen[0].parse().expect("an address");
    // No quicker than the node lets addresses come.
    let each = (length * 4 / 5 / keys as u32).max(Duration::from_millis(12));
    let begun = Instant::now();
    let turns = stream::iter(0..keys as u32).map(|number| {
        let address = address.clone();
        async move {
            tokio::time::sleep_until((begun + each * number).into()).await;
            if load.is_over() {
                return;
            }
            let answer = tokio::time::timeout(PATIENCE, show_one(address, ticket)).await;
            load.shown.fetch_add(1, Ordering::Relaxed);
            let told = match answer.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
                Ok(answer) if answer.get("role").is_some() => {
                    load.let_in.fetch_add(1, Ordering::Relaxed);
                    "let in".to_owned()
                }
                Ok(answer) => answer["code"].to_string(),
                Err(why) => why,
            };
            if let Ok(mut all) = load.told.lock() {
                *all.entry(told).or_default() += 1;
            }
        }
    });
    runtime.block_on(turns.buffer_unordered(AT_ONCE).for_each(|()| async {}));
}

/// A fresh key shows a ticket: the answer, if there is one.
async fn show_one(address: Multiaddr, ticket: &str) -> Result<Value, String> {
    let protocols = [(
        StreamProtocol::new("/tallymesh/join/1"),
        ProtocolSupport::Full,
    )];
    let joins = request_response::Behaviour::<Raw>::new(protocols, Default::default());
    let builder = SwarmBuilder::with_new_identity().with_tokio();
    let builder = builder.with_tcp(
        tcp::Config::default(),
        noise::Config::new,
        yamux::Config::default,
    );
    let builder = builder.map_err(|_| "no transport")?;
    let builder = builder.with_behaviour(|_| joins);
    let mut swarm = builder.map_err(|_| "no behaviour")?.build();
    swarm.dial(address).map_err(|error| error.to_string())?;
    loop {
        match swarm.select_next_some().await {
            SwarmEvent::ConnectionEstablished { peer_id, .. } => {
                let question = json!({ "ticket": ticket }).to_string().into_bytes();
                let joins = swarm.behaviour_mut();
                joins.send_request(&peer_id, Said::Bytes(question));
            }
            SwarmEvent::Behaviour(request_response::Event::Message {
                message: Message::Response { response, .. },
                ..
            }) => return serde_json::from_slice(&response).map_err(|error| error.to_string()),
            SwarmEvent::Behaviour(request_response::Event::OutboundFailure { error, .. }) => {
                return Err(error.to_string());
            }
            SwarmEvent::OutgoingConnectionError { .. } => return Err("no connection".to_owned()),
            _ => {}
        }
    }
}

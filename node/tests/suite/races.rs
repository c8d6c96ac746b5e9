//! Peers with several connections, of which some go: who dials two addresses at once keeps one, and a
//! process that was started again comes while the connections of the last one are there.

use crate::hostile::raw::{Raw, Said};
use crate::process::{DEADLINE, Node, eventually};
use futures::prelude::*;
use libp2p::core::Endpoint;
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::transport::{DialOpts, PortUse, Transport};
use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::request_response::{self, OutboundRequestId, ProtocolSupport};
use libp2p::swarm::{NetworkBehaviour, Swarm, SwarmEvent};
use libp2p::{Multiaddr, PeerId, StreamProtocol, SwarmBuilder, noise, ping, tcp, yamux};
use std::time::Duration;
use tallymesh_core::wire::{Body, Digests, Frame, Hello};
use tallymesh_core::{Space, WriterId};
use tokio::time::timeout;

#[derive(NetworkBehaviour)]
struct Behaviour {
    ping: ping::Behaviour,
    frames: request_response::Behaviour<Raw>,
}

/// A connection whose transport is all set up, and which nobody looks at.
async fn overtaken(keys: &Keypair, address: Multiaddr) -> (PeerId, StreamMuxerBox) {
    let mut transport = tcp::tokio::Transport::default()
        .upgrade(Version::V1)
        .authenticate(noise::Config::new(keys).expect("Noise"))
        .multiplex(yamux::Config::default())
        .boxed();
    let options = DialOpts {
        role: Endpoint::Dialer,
        port_use: PortUse::New,
    };
    let dialled = transport.dial(address, options).expect("it is TCP");
    dialled.await.expect("connected")
}

fn swarm(keys: Keypair) -> Swarm<Behaviour> {
    let protocol = StreamProtocol::new("/tallymesh/sync/2");
    let config = request_response::Config::default();
    let behaviour = Behaviour {
        ping: ping::Behaviour::default(),
        frames: request_response::Behaviour::new([(protocol, ProtocolSupport::Full)], config),
    };
    let builder = SwarmBuilder::with_existing_identity(keys).with_tokio();
    let builder = builder.with_tcp(
        tcp::Config::default(),
        noise::Config::new,
        yamux::Config::default,
    );
    builder
        .expect("TCP")
        .with_behaviour(|_| behaviour)
        .expect("behaviours")
        .with_swarm_config(|it| it.with_idle_connection_timeout(Duration::from_secs(3600)))
        .build()
}

/// The spaces in which a request has a hello.
fn hellos(request: &[u8]) -> Vec<Space> {
    let (mut rest, mut spaces) = (request, Vec::new());
    while let Some((length, after)) = rest.split_first_chunk() {
        let (frame, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        let frame = Frame::decode(frame).expect("a frame");
        if matches!(frame.body, Body::Hello(_)) {
            spaces.push(frame.space);
        }
        rest = after;
    }
    spaces
}

/// The hello of a process, of this session, in the default space.
fn hello(session: u64) -> Vec<u8> {
    let hello = Hello {
        version_min: 1,
        version_max: 1,
        capabilities: 0,
        session,
        agent: "racer".into(),
        nonce: [0; 16],
        proof: Vec::new(),
        digests: Digests {
            vector: [0; 16],
            contents: 0,
        },
        writer: WriterId::from_bytes([9; 16]),
        clock: 0,
    };
    let frame = Frame {
        space: Space::default(),
        body: Body::Hello(hello),
    };
    let frame = frame.encode();
    [&(frame.len() as u32).to_le_bytes()[..], &frame].concat()
}

/// What a peer hears.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// The node answers on its last connection, and so has it.
    Pong,
    /// The node sent its hello in these spaces.
    Hellos(Vec<Space>),
    /// A request arrived there.
    Arrived(OutboundRequestId),
    Else,
}

async fn hear(swarm: &mut Swarm<Behaviour>) -> Heard {
    use request_response::{Event, Message};
    let event = timeout(DEADLINE, swarm.select_next_some()).await;
    let SwarmEvent::Behaviour(event) = event.expect("the node says something") else {
        return Heard::Else;
    };
    match event {
        BehaviourEvent::Ping(event) if event.result.is_ok() => Heard::Pong,
        BehaviourEvent::Frames(Event::Message {
            message:
                Message::Request {
                    request: Said::Bytes(request),
                    channel,
                    ..
                },
            ..
        }) => {
            let frames = &mut swarm.behaviour_mut().frames;
            // It fails when the connection is gone.
            let _ = frames.send_response(channel, Vec::new());
            Heard::Hellos(hellos(&request))
        }
        BehaviourEvent::Frames(Event::Message {
            message: Message::Response { request_id, .. },
            ..
        }) => Heard::Arrived(request_id),
        _ => Heard::Else,
    }
}

async fn hears(swarm: &mut Swarm<Behaviour>, wanted: Heard) {
    while hear(swarm).await != wanted {}
}

/// Waits until the node has sent its hello, in its space and in the address book, which it does first.
async fn gets_hello(swarm: &mut Swarm<Behaviour>) {
    let (mut space, mut book) = (false, false);
    while !space || !book {
        if let Heard::Hellos(spaces) = hear(swarm).await {
            space |= spaces.contains(&Space::default());
            book |= spaces.iter().any(|it| it.as_str().starts_with('_'));
        }
    }
}

#[tokio::test]
async fn a_hello_on_a_connection_that_lost_the_race_goes_on_the_other() {
    let node = Node::start(&[]);
    let keys = Keypair::generate_ed25519();
    let peer = keys.public().to_peer_id().to_string();
    let address: Multiaddr = node.listen[0].parse().expect("an address");
    let first = overtaken(&keys, address.clone()).await;
    // The node has it, and no other: it sends its hello on it.
    eventually("linked", || {
        let rows = node.peers();
        let linked = rows.iter().any(|row| row["peer"] == peer.as_str());
        linked.then_some(())
    });
    let mut second = swarm(keys);
    second.dial(address).expect("dialled");
    hears(&mut second, Heard::Pong).await;
    drop(first);
    gets_hello(&mut second).await;
}

#[tokio::test]
async fn a_process_whose_last_start_went_without_a_word_gets_a_hello() {
    let node = Node::start(&[]);
    let keys = Keypair::generate_ed25519();
    let address: Multiaddr = node.listen[0].parse().expect("an address");
    let peer = node.peer_id.parse::<PeerId>().expect("a peer");
    let mut first = swarm(keys.clone());
    first.dial(address.clone()).expect("dialled");
    gets_hello(&mut first).await;
    let sent = first
        .behaviour_mut()
        .frames
        .send_request(&peer, Said::Bytes(hello(1)));
    hears(&mut first, Heard::Arrived(sent)).await;
    let mut second = swarm(keys);
    second.dial(address).expect("dialled");
    hears(&mut second, Heard::Pong).await;
    drop(first);
    let said = Said::Bytes(hello(2));
    second.behaviour_mut().frames.send_request(&peer, said);
    gets_hello(&mut second).await;
}

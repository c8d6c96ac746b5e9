//! A peer over libp2p that sends a hello, says what it is told to, and asks whatever it likes.

use crate::hostile::raw::{Raw, Said};
use crate::process::{DEADLINE, Node};
use futures::prelude::*;
use libp2p::identity::Keypair;
use libp2p::request_response::{self, OutboundRequestId, ProtocolSupport};
use libp2p::swarm::{NetworkBehaviour, Swarm, SwarmEvent};
use libp2p::{Multiaddr, PeerId, StreamProtocol, ping};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use tallymesh_core::wire::{AuditAnswer, AuditQuestion, AuditedPage, Body, Digests, Frame, Hello};
use tallymesh_core::{RESERVED, Space, WriterId};
use tokio::sync::mpsc;

#[derive(NetworkBehaviour)]
struct Behaviour {
    ping: ping::Behaviour,
    frames: request_response::Behaviour<Raw>,
    audits: request_response::Behaviour<Raw>,
    abouts: request_response::Behaviour<Raw>,
    joins: request_response::Behaviour<Raw>,
}

type Answered = Result<Vec<u8>, String>;

enum Order {
    /// Send a hello in the default space, with the digest of a vector.
    Hello([u8; 16], Sender<()>),
    /// Send so many frames at once.
    Flood(usize, Sender<()>),
    /// Answer this from now on, and tell when that holds.
    Answer(Vec<u8>, Sender<()>),
    /// Ask this, so many times at once.
    Ask(Vec<u8>, usize, Sender<Answered>),
    /// Show this ticket.
    Show(String, Sender<Answered>),
    /// Connect again.
    Again(Sender<()>),
    /// Send this frame.
    Say(Vec<u8>, Sender<()>),
}

/// A peer that merges nothing, and so is not healed either. Dropped, it goes away.
pub(crate) struct Liar {
    peer: PeerId,
    orders: mpsc::UnboundedSender<Order>,
    connected: Arc<AtomicBool>,
}

impl Liar {
    /// Connects to a node, and says nothing yet.
    pub(crate) fn start(node: &Node) -> Liar {
        Liar::meet(&node.listen[0], Vec::new())
    }

    /// Connects to a node at an address, and tells this about itself.
    pub(crate) fn meet(address: &str, about: Vec<u8>) -> Liar {
        let (orders, inbox) = mpsc::unbounded_channel();
        let (begun, peer) = channel();
        let address: Multiaddr = address.parse().expect("an address");
        let connected = Arc::new(AtomicBool::new(false));
        let is_connected = connected.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let swarm = swarm();
                let _ = begun.send(*swarm.local_peer_id());
                run(swarm, address, inbox, (about, &is_connected)).await;
            });
        });
        let peer = peer.recv_timeout(DEADLINE).expect("it starts");
        Liar {
            peer,
            orders,
            connected,
        }
    }

    pub(crate) fn peer_id(&self) -> String {
        self.peer.to_string()
    }

    /// Whether it has a connection, as far as it knows.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// Sends a hello in the default space, with the digest of a vector.
    pub(crate) fn send_hello(&self, digest: [u8; 16]) {
        let (done, told) = channel();
        self.order(Order::Hello(digest, done), &told);
    }

    /// Sends so many frames at once, and does not wait for answers.
    pub(crate) fn flood(&self, frames: usize) {
        let (done, told) = channel();
        self.order(Order::Flood(frames, done), &told);
    }

    /// Says this to whoever asks, from now on.
    pub(crate) fn answers(&self, answer: Vec<u8>) {
        let (done, told) = channel();
        self.order(Order::Answer(answer, done), &told);
    }

    /// Asks the node: the answer, or why none came.
    pub(crate) fn ask(&self, question: &[u8]) -> Answered {
        let (reply, answer) = channel();
        self.order(Order::Ask(question.to_vec(), 1, reply), &answer)
    }

    /// Asks the node several times at once.
    pub(crate) fn ask_at_once(&self, question: &[u8], times: usize) -> Vec<Vec<u8>> {
        let (reply, answers) = channel();
        let first = self.order(Order::Ask(question.to_vec(), times, reply), &answers);
        let rest = (1..times).map(|_| answers.recv_timeout(DEADLINE).expect("an answer"));
        let all = std::iter::once(first).chain(rest);
        all.map(|answer| answer.expect("an answer")).collect()
    }

    /// Shows the node a ticket: the answer, or why none came.
    pub(crate) fn show(&self, ticket: &str) -> Answered {
        let (reply, answer) = channel();
        self.order(Order::Show(ticket.to_owned(), reply), &answer)
    }

    /// Connects again.
    pub(crate) fn again(&self) {
        let (done, told) = channel();
        self.order(Order::Again(done), &told);
    }

    /// Sends a frame.
    pub(crate) fn say(&self, frame: Vec<u8>) {
        let (done, told) = channel();
        self.order(Order::Say(frame, done), &told);
    }

    fn order<T>(&self, order: Order, done: &Receiver<T>) -> T {
        assert!(self.orders.send(order).is_ok(), "it runs");
        done.recv_timeout(DEADLINE).expect("it answers")
    }
}

fn swarm() -> Swarm<Behaviour> {
    let of = |name| {
        let protocols = [(StreamProtocol::new(name), ProtocolSupport::Full)];
        request_response::Behaviour::new(protocols, request_response::Config::default())
    };
    let behaviour = Behaviour {
        ping: ping::Behaviour::default(),
        frames: of("/tallymesh/sync/2"),
        audits: of("/tallymesh/audit/1"),
        abouts: of("/tallymesh/about/1"),
        joins: of("/tallymesh/join/1"),
    };
    crate::swarm::swarm(Keypair::generate_ed25519(), behaviour)
}

/// Greets without a digest of the contents, so that none are compared.
fn hello(digest: [u8; 16]) -> Vec<u8> {
    let hello = Hello {
        version_min: 1,
        version_max: 1,
        capabilities: 0,
        session: 7,
        agent: "liar".into(),
        nonce: [0; 16],
        proof: Vec::new(),
        digests: Digests {
            vector: digest,
            contents: 0,
        },
        writer: WriterId::from_bytes([9; 16]),
        clock: 0,
    };
    let space = Space::default();
    let body = Body::Hello(hello);
    request(&Frame { space, body }.encode())
}

/// A request of one frame.
fn request(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_le_bytes()[..], frame].concat()
}

async fn run(
    mut swarm: Swarm<Behaviour>,
    address: Multiaddr,
    mut inbox: mpsc::UnboundedReceiver<Order>,
    (about, connected): (Vec<u8>, &AtomicBool),
) {
    swarm.dial(address.clone()).expect("dial the node");
    let mut node = None;
    let mut answer = Vec::new();
    let mut asked: HashMap<OutboundRequestId, Sender<Answered>> = HashMap::new();
    let mut joining: HashMap<OutboundRequestId, Sender<Answered>> = HashMap::new();
    loop {
        let event = tokio::select! {
            event = swarm.select_next_some() => event,
            order = inbox.recv(), if node.is_some() => {
                match (order, node) {
                    (Some(Order::Hello(digest, done)), Some(node)) => {
                        let frames = &mut swarm.behaviour_mut().frames;
                        frames.send_request(&node, Said::Bytes(hello(digest)));
                        let _ = done.send(());
                    }
                    (Some(Order::Flood(frames, done)), Some(node)) => {
                        for _ in 0..frames {
                            let frames = &mut swarm.behaviour_mut().frames;
                            frames.send_request(&node, Said::Bytes(hello([0; 16])));
                        }
                        let _ = done.send(());
                    }
                    (Some(Order::Answer(bytes, done)), _) => {
                        answer = bytes;
                        let _ = done.send(());
                    }
                    (Some(Order::Show(ticket, reply)), Some(node)) => {
                        let question = serde_json::json!({ "ticket": ticket }).to_string();
                        let question = Said::Bytes(question.into_bytes());
                        let joins = &mut swarm.behaviour_mut().joins;
                        joining.insert(joins.send_request(&node, question), reply);
                    }
                    (Some(Order::Again(done)), _) => {
                        swarm.dial(address.clone()).expect("dial the node");
                        let _ = done.send(());
                    }
                    (Some(Order::Say(frame, done)), Some(node)) => {
                        let frames = &mut swarm.behaviour_mut().frames;
                        frames.send_request(&node, Said::Bytes(request(&frame)));
                        let _ = done.send(());
                    }
                    (Some(Order::Ask(bytes, times, reply)), Some(node)) => {
                        for _ in 0..times {
                            let audits = &mut swarm.behaviour_mut().audits;
                            let said = Said::Bytes(bytes.clone());
                            asked.insert(audits.send_request(&node, said), reply.clone());
                        }
                    }
                    _ => return,
                }
                continue;
            }
        };
        let SwarmEvent::Behaviour(event) = event else {
            match event {
                SwarmEvent::ConnectionEstablished { peer_id, .. } => {
                    node = Some(peer_id);
                    connected.store(true, Ordering::Relaxed);
                }
                SwarmEvent::ConnectionClosed { .. } => connected.store(false, Ordering::Relaxed),
                _ => {}
            }
            continue;
        };
        use request_response::{Event, Message};
        match event {
            BehaviourEvent::Frames(Event::Message {
                message: Message::Request { channel, .. },
                ..
            }) => {
                let _ = swarm.behaviour_mut().frames.send_response(channel, vec![]);
            }
            BehaviourEvent::Abouts(Event::Message {
                message: Message::Request { channel, .. },
                ..
            }) => {
                let abouts = &mut swarm.behaviour_mut().abouts;
                let _ = abouts.send_response(channel, about.clone());
            }
            BehaviourEvent::Joins(Event::Message {
                message:
                    Message::Response {
                        request_id,
                        response,
                    },
                ..
            }) => {
                if let Some(reply) = joining.remove(&request_id) {
                    let _ = reply.send(Ok(response));
                }
            }
            BehaviourEvent::Audits(Event::Message { message, .. }) => match message {
                Message::Request {
                    channel, request, ..
                } => {
                    let told = answer_to(&request, &answer);
                    let audits = &mut swarm.behaviour_mut().audits;
                    let _ = audits.send_response(channel, told);
                }
                Message::Response {
                    request_id,
                    response,
                } => {
                    if let Some(reply) = asked.remove(&request_id) {
                        let _ = reply.send(Ok(response));
                    }
                }
            },
            BehaviourEvent::Joins(Event::OutboundFailure {
                request_id, error, ..
            }) => {
                if let Some(reply) = joining.remove(&request_id) {
                    let _ = reply.send(Err(error.to_string()));
                }
            }
            BehaviourEvent::Audits(Event::OutboundFailure {
                request_id, error, ..
            }) => {
                if let Some(reply) = asked.remove(&request_id) {
                    let _ = reply.send(Err(error.to_string()));
                }
            }
            _ => {}
        }
    }
}

/// What it answers to a question of an audit: what it was told to, of counters, and that there are no
/// budgets.
fn answer_to(question: &Said, answer: &[u8]) -> Vec<u8> {
    let Said::Bytes(question) = question else {
        return answer.to_vec();
    };
    let of_budgets =
        AuditQuestion::decode(question).is_ok_and(|it| it.prefix.starts_with(RESERVED));
    match AuditAnswer::decode(answer) {
        Ok(AuditAnswer::Page(page)) if of_budgets => {
            let counters = Vec::new();
            AuditAnswer::Page(AuditedPage { counters, ..page }).encode()
        }
        _ => answer.to_vec(),
    }
}

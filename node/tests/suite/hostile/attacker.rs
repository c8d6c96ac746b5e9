//! A peer over libp2p that says any bytes by any protocol of the project, and takes what it is sent, or
//! does not.

use super::raw::{Raw, Said};
use crate::process::{DEADLINE, eventually};
use futures::prelude::*;
use libp2p::gossipsub::{self, IdentTopic, MessageAuthenticity, MessageId, ValidationMode};
use libp2p::identity::Keypair;
use libp2p::request_response::{self, OutboundRequestId, ProtocolSupport, ResponseChannel};
use libp2p::swarm::{NetworkBehaviour, Swarm, SwarmEvent};
use libp2p::{Multiaddr, PeerId, StreamProtocol, ping};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Nothing of its own ends what it is about.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Room for the largest message that a node takes, and more.
const GOSSIP_BYTES_MAX: usize = 4 << 20;

/// A protocol of one request and one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum By {
    Sync,
    Audit,
    About,
    Join,
}

#[derive(NetworkBehaviour)]
struct Behaviour {
    ping: ping::Behaviour,
    gossip: gossipsub::Behaviour,
    frames: request_response::Behaviour<Raw>,
    audits: request_response::Behaviour<Raw>,
    abouts: request_response::Behaviour<Raw>,
    joins: request_response::Behaviour<Raw>,
}

type Answered = Result<Vec<u8>, String>;

enum Order {
    Say(By, Said, Sender<Answered>),
    Publish(String, Vec<u8>, Sender<bool>),
    /// Whether frames are taken from now on.
    Take(bool),
}

/// A peer that merges nothing. Dropped, it goes away.
pub(crate) struct Attacker {
    orders: mpsc::UnboundedSender<Order>,
    heard: Receiver<Vec<u8>>,
    connected: Arc<AtomicBool>,
}

impl Attacker {
    /// Connects to a node, under this key, and says nothing yet.
    pub(crate) fn meet(address: &str, key: &Keypair) -> Attacker {
        let (orders, inbox) = mpsc::unbounded_channel();
        let (frames, heard) = channel();
        let connected = Arc::new(AtomicBool::new(false));
        let (is_connected, key) = (connected.clone(), key.clone());
        let address: Multiaddr = address.parse().expect("an address");
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let peer = Peer {
                    swarm: swarm(key),
                    address,
                    node: None,
                    connected: is_connected,
                    heard: frames,
                    asked: HashMap::new(),
                    takes: true,
                    untaken: Vec::new(),
                };
                peer.run(inbox).await;
            });
        });
        let attacker = Attacker {
            orders,
            heard,
            connected,
        };
        eventually("it is let in", || attacker.is_connected().then_some(()));
        attacker
    }

    /// Whether it has a connection, as far as it knows.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// Waits until the node has cut it off.
    pub(crate) fn is_cut_off(&self) {
        eventually("it is cut off", || (!self.is_connected()).then_some(()));
    }

    /// Says something, and waits for what is answered, or why nothing is.
    pub(crate) fn say(&self, by: By, said: Said) -> Answered {
        let answer = self.begin(by, said);
        let answer = answer.recv_timeout(DEADLINE);
        answer.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Says something, and does not wait.
    pub(crate) fn begin(&self, by: By, said: Said) -> Receiver<Answered> {
        let (reply, answer) = channel();
        // It fails once the attacker is gone, and then nothing is answered.
        let _ = self.orders.send(Order::Say(by, said, reply));
        answer
    }

    /// Sends frames as one request, and waits until they are acknowledged, or are not.
    pub(crate) fn send(&self, frames: &[Vec<u8>]) -> Answered {
        self.say(By::Sync, Said::Bytes(request(frames)))
    }

    /// Gives a message to gossip, once the node wants the topic.
    pub(crate) fn publish(&self, topic: &str, message: &[u8]) {
        eventually("the node wants the topic", || {
            let (done, told) = channel();
            let order = Order::Publish(topic.to_owned(), message.to_vec(), done);
            let _ = self.orders.send(order);
            let is_published = told.recv_timeout(DEADLINE).unwrap_or(false);
            is_published.then_some(())
        });
    }

    /// Takes frames from now on, or leaves them unacknowledged.
    pub(crate) fn take(&self, takes: bool) {
        let _ = self.orders.send(Order::Take(takes));
    }

    /// The next frame that the node sent for which this finds something.
    pub(crate) fn hear<T>(&self, mut find: impl FnMut(&[u8]) -> Option<T>) -> T {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let frame = self.heard.recv_timeout(left);
            let frame = frame.expect("the node says it in time");
            if let Some(found) = find(&frame) {
                return found;
            }
        }
    }

    /// How many frames the node has sent that nobody looked at.
    pub(crate) fn heard(&self) -> usize {
        self.heard.try_iter().count()
    }
}

/// Frames as one request.
pub(crate) fn request(frames: &[Vec<u8>]) -> Vec<u8> {
    let each = frames.iter();
    let each = each.flat_map(|frame| [&(frame.len() as u32).to_le_bytes()[..], frame].concat());
    each.collect()
}

fn swarm(key: Keypair) -> Swarm<Behaviour> {
    let of = |name| {
        let protocols = [(StreamProtocol::new(name), ProtocolSupport::Full)];
        let config = request_response::Config::default().with_request_timeout(PATIENCE);
        request_response::Behaviour::new(protocols, config)
    };
    let gossip = gossipsub::ConfigBuilder::default()
        .validation_mode(ValidationMode::Anonymous)
        .max_transmit_size(GOSSIP_BYTES_MAX)
        .message_id_fn(|message| MessageId::from(&Sha256::digest(&message.data)[..]))
        .build()
        .expect("a configuration");
    let behaviour = Behaviour {
        ping: ping::Behaviour::default(),
        gossip: gossipsub::Behaviour::new(MessageAuthenticity::Anonymous, gossip).expect("gossip"),
        frames: of("/tallymesh/sync/2"),
        audits: of("/tallymesh/audit/1"),
        abouts: of("/tallymesh/about/1"),
        joins: of("/tallymesh/join/1"),
    };
    crate::swarm::swarm(key, behaviour)
}

struct Peer {
    swarm: Swarm<Behaviour>,
    address: Multiaddr,
    node: Option<PeerId>,
    connected: Arc<AtomicBool>,
    heard: Sender<Vec<u8>>,
    asked: HashMap<(By, OutboundRequestId), Sender<Answered>>,
    takes: bool,
    /// Requests that it leaves without an answer.
    untaken: Vec<ResponseChannel<Vec<u8>>>,
}

impl Peer {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Order>) {
        let mut retry = tokio::time::interval(Duration::from_millis(50));
        let mut dials = true;
        loop {
            tokio::select! {
                event = self.swarm.select_next_some() => self.event(event, &mut dials),
                order = inbox.recv() => match order {
                    Some(order) => self.order(order),
                    None => return,
                },
                _ = retry.tick(), if dials => {
                    dials = false;
                    self.swarm.dial(self.address.clone()).expect("dial the node");
                }
            }
        }
    }

    fn order(&mut self, order: Order) {
        match (order, self.node) {
            (Order::Say(by, said, reply), Some(node)) => {
                let behaviour = self.swarm.behaviour_mut();
                let protocol = match by {
                    By::Sync => &mut behaviour.frames,
                    By::Audit => &mut behaviour.audits,
                    By::About => &mut behaviour.abouts,
                    By::Join => &mut behaviour.joins,
                };
                let request = protocol.send_request(&node, said);
                self.asked.insert((by, request), reply);
            }
            (Order::Publish(topic, message, done), Some(_)) => {
                let gossip = &mut self.swarm.behaviour_mut().gossip;
                let published = gossip.publish(IdentTopic::new(topic), message);
                let _ = done.send(published.is_ok());
            }
            (Order::Take(takes), _) => {
                self.takes = takes;
            }
            // It is not connected, and the reply is dropped.
            (Order::Say(..) | Order::Publish(..), None) => {}
        }
    }

    fn event(&mut self, event: SwarmEvent<BehaviourEvent>, dials: &mut bool) {
        match event {
            SwarmEvent::ConnectionEstablished { peer_id, .. } => {
                self.node = Some(peer_id);
                self.connected.store(true, Ordering::Relaxed);
            }
            SwarmEvent::ConnectionClosed { .. } => {
                self.node = None;
                self.connected.store(false, Ordering::Relaxed);
            }
            // Its address may have come too often of late.
            SwarmEvent::OutgoingConnectionError { .. } => *dials = true,
            SwarmEvent::Behaviour(BehaviourEvent::Frames(event)) => self.exchange(By::Sync, event),
            SwarmEvent::Behaviour(BehaviourEvent::Audits(event)) => self.exchange(By::Audit, event),
            SwarmEvent::Behaviour(BehaviourEvent::Abouts(event)) => self.exchange(By::About, event),
            SwarmEvent::Behaviour(BehaviourEvent::Joins(event)) => self.exchange(By::Join, event),
            _ => {}
        }
    }

    fn exchange(&mut self, by: By, event: request_response::Event<Said, Vec<u8>>) {
        use request_response::{Event, Message};
        match event {
            Event::Message {
                message:
                    Message::Request {
                        request, channel, ..
                    },
                ..
            } if by == By::Sync => self.said_to(request, channel),
            Event::Message {
                message:
                    Message::Response {
                        request_id,
                        response,
                    },
                ..
            } => self.answered(by, request_id, Ok(response)),
            Event::OutboundFailure {
                request_id, error, ..
            } => self.answered(by, request_id, Err(error.to_string())),
            _ => {}
        }
    }

    fn answered(&mut self, by: By, request: OutboundRequestId, answer: Answered) {
        if let Some(reply) = self.asked.remove(&(by, request)) {
            // Nobody may wait for it.
            let _ = reply.send(answer);
        }
    }

    /// The node has sent frames.
    fn said_to(&mut self, request: Said, channel: ResponseChannel<Vec<u8>>) {
        if let Said::Bytes(bytes) = request {
            let mut rest = &bytes[..];
            while let Some((length, after)) = rest.split_first_chunk() {
                let length = u32::from_le_bytes(*length) as usize;
                let (frame, after) = after.split_at(length);
                let _ = self.heard.send(frame.to_vec());
                rest = after;
            }
        }
        match self.takes {
            true => {
                let frames = &mut self.swarm.behaviour_mut().frames;
                let _ = frames.send_response(channel, Vec::new());
            }
            false => self.untaken.push(channel),
        }
    }
}

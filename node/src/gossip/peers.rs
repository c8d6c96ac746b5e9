//! The peers that are connected, and the frames that wait for each.

use libp2p::request_response::OutboundRequestId;
use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, PeerId};
use std::collections::{HashMap, VecDeque};
use tallymesh_core::wire::{Body, Frame};
use tallymesh_core::{Link, Space};

/// Most bytes that wait for one peer. Frames beyond are dropped, and repaired by sync later.
const QUEUE_BYTES_MAX: usize = 8 << 20;

/// Most frames that wait for the older connections of their peer to be closed: the hellos of as many
/// spaces. What is lost here is repaired by sync.
const TWIN_FRAMES_MAX: usize = 64;

/// The space and the session of a hello.
fn greeting(frame: &[u8]) -> Option<(Space, u64)> {
    const TYPE_AT: usize = 3;
    const HELLO: u8 = 1;
    if frame.get(TYPE_AT) != Some(&HELLO) {
        return None;
    }
    let frame = Frame::decode(frame).ok()?;
    match frame.body {
        Body::Hello(hello) => Some((frame.space, hello.session)),
        _ => None,
    }
}

/// Connected peers by link and by name.
#[derive(Default)]
pub(super) struct Peers {
    by_id: HashMap<PeerId, Peer>,
    by_link: HashMap<Link, PeerId>,
}

/// One connected peer.
pub(super) struct Peer {
    pub(super) link: Link,
    /// Where it says that it listens.
    pub(super) listen: Vec<Multiaddr>,
    queue: VecDeque<Vec<u8>>,
    queued_bytes: usize,
    in_flight: Option<OutboundRequestId>,
    connections: Vec<ConnectionId>,
    /// The session of the process at the other end, in each space that it has greeted in.
    sessions: HashMap<Space, u64>,
    /// Another process with the same key, which is to take the link over.
    twin: Option<Twin>,
}

/// A process with the key of one that is connected: a copy of its folder, or its next start.
struct Twin {
    connection: ConnectionId,
    frames: Vec<Vec<u8>>,
}

/// What becomes of a frame.
pub(super) enum Fate {
    /// It goes to the driver.
    Deliver(Link, Vec<u8>),
    /// It waits, or is of no use: these connections are to be closed.
    Close(Vec<ConnectionId>),
}

impl Peers {
    /// A first connection to `peer` exists from now on.
    pub(super) fn insert(&mut self, peer: PeerId, link: Link) {
        self.by_link.insert(link, peer);
        let new = Peer {
            link,
            listen: Vec::new(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            in_flight: None,
            connections: Vec::new(),
            sessions: HashMap::new(),
            twin: None,
        };
        self.by_id.insert(peer, new);
    }

    /// The last connection to `peer` is gone: the link ends.
    pub(super) fn remove(&mut self, peer: &PeerId) -> Option<Link> {
        let gone = self.by_id.remove(peer)?;
        self.by_link.remove(&gone.link);
        Some(gone.link)
    }

    pub(super) fn link(&self, peer: &PeerId) -> Option<Link> {
        self.by_id.get(peer).map(|peer| peer.link)
    }

    pub(super) fn id(&self, link: Link) -> Option<PeerId> {
        self.by_link.get(&link).copied()
    }

    pub(super) fn ids(&self) -> Vec<PeerId> {
        self.by_id.keys().copied().collect()
    }

    pub(super) fn get_mut(&mut self, peer: &PeerId) -> Option<&mut Peer> {
        self.by_id.get_mut(peer)
    }
}

impl Peer {
    /// Whether it has greeted in this space.
    pub(super) fn has_greeted(&self, space: &Space) -> bool {
        self.sessions.contains_key(space)
    }

    /// One more connection exists.
    pub(super) fn opened(&mut self, connection: ConnectionId) {
        self.connections.push(connection);
    }

    /// A connection is gone, and others are left. If only that of another process with the same key
    /// is, gives that and the frames with which it takes over.
    pub(super) fn closed(
        &mut self,
        connection: ConnectionId,
    ) -> Option<(ConnectionId, Vec<Vec<u8>>)> {
        self.connections.retain(|open| *open != connection);
        self.twin.take_if(|twin| twin.connection == connection);
        let alone = |twin: &mut Twin| self.connections == [twin.connection];
        let twin = self.twin.take_if(alone)?;
        Some((twin.connection, twin.frames))
    }

    /// A frame came. One key has one link: where a second process greets under it, the older
    /// connections are closed, and what it sends waits until they are.
    pub(super) fn frame(&mut self, connection: ConnectionId, frame: Vec<u8>) -> Fate {
        if let Some(twin) = &mut self.twin {
            if twin.connection == connection && twin.frames.len() < TWIN_FRAMES_MAX {
                twin.frames.push(frame);
            }
            return Fate::Close(Vec::new());
        }
        if let Some((space, session)) = greeting(&frame) {
            let others = self.connections.iter().copied();
            let others: Vec<ConnectionId> = others.filter(|open| *open != connection).collect();
            let known = *self.sessions.entry(space).or_insert(session);
            if known != session && !others.is_empty() {
                let frames = vec![frame];
                self.twin = Some(Twin { connection, frames });
                return Fate::Close(others);
            }
        }
        Fate::Deliver(self.link, frame)
    }

    /// Queues a frame; false if the queue is full and the frame was dropped.
    pub(super) fn push(&mut self, frame: Vec<u8>) -> bool {
        if self.queued_bytes + frame.len() > QUEUE_BYTES_MAX {
            return false;
        }
        self.queued_bytes += frame.len();
        self.queue.push_back(frame);
        true
    }

    /// Sends the next frame with `send`, unless one is still on its way.
    pub(super) fn send_next(&mut self, send: impl FnOnce(Vec<u8>) -> OutboundRequestId) {
        if self.in_flight.is_some() {
            return;
        }
        if let Some(frame) = self.queue.pop_front() {
            self.queued_bytes -= frame.len();
            self.in_flight = Some(send(frame));
        }
    }

    /// A frame has arrived, or was given up. One of an earlier connection does not count.
    pub(super) fn done(&mut self, request: OutboundRequestId) {
        if self.in_flight == Some(request) {
            self.in_flight = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gossip::codec::{FrameCodec, PROTOCOL};
    use libp2p::request_response::{self, ProtocolSupport};

    #[test]
    fn frames_keep_their_order_one_at_a_time_within_a_bound() {
        // Only a behaviour can make the ids of requests.
        let mut frames: request_response::Behaviour<FrameCodec> = request_response::Behaviour::new(
            [(PROTOCOL, ProtocolSupport::Full)],
            request_response::Config::default(),
        );
        let mut peers = Peers::default();
        let id = PeerId::random();
        peers.insert(id, Link(7));
        assert_eq!(
            (peers.link(&id), peers.id(Link(7))),
            (Some(Link(7)), Some(id))
        );
        let peer = peers.get_mut(&id).expect("just inserted");
        let mut sent = Vec::new();
        let mut send_next = |peer: &mut Peer| {
            let before = sent.len();
            peer.send_next(|frame| {
                let request = frames.send_request(&id, Vec::new());
                sent.push((frame[0], request));
                request
            });
            sent.get(before).copied()
        };
        assert!(peer.push(vec![1]));
        assert!(peer.push(vec![2; QUEUE_BYTES_MAX - 1]));
        assert!(!peer.push(vec![3]), "the queue is full");
        let (first, one) = send_next(peer).expect("sent");
        assert_eq!(first, 1);
        assert_eq!(send_next(peer), None, "one is on its way");
        peer.done(one);
        assert!(peer.push(vec![4]), "there is room again");
        let (second, two) = send_next(peer).expect("sent");
        assert_eq!(second, 2);
        peer.done(one);
        assert_eq!(send_next(peer), None, "an old answer is not for this one");
        peer.done(two);
        assert_eq!(send_next(peer).expect("sent").0, 4);
        assert_eq!(peers.remove(&id), Some(Link(7)));
        assert_eq!(peers.id(Link(7)), None);
    }
}

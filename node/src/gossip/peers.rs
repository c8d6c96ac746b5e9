//! The peers that are connected, and the frames that wait for each.

use super::codec::{self, BATCH_BYTES_MAX, Framed, PREFIX_BYTES};
use super::rights::Right;
use crate::driver::OwnerKey;
use crate::handle::{Carried, Limits, SpaceId};
use crate::trust::Role;
use libp2p::request_response::{OutboundRequestId, ResponseChannel};
use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, PeerId};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tallymesh_core::wire::{Body, Frame};
use tallymesh_core::{Link, Space, frame_space};

/// Most bytes that wait for one peer. Frames beyond are dropped, and repaired by sync later.
const QUEUE_BYTES_MAX: usize = 8 << 20;

/// Most frames that wait for the older connections of their peer to be closed: the hellos of as many
/// spaces. What is lost here is repaired by sync.
const TWIN_FRAMES_MAX: usize = 64;

/// Most requests of one peer that wait until it may send more. One in flight is the rule; a second
/// process with the same key may have one too, and one may have been given up. Who sends more than
/// that does not wait for answers.
const HELD_FRAMES_MAX: usize = 4;

fn is_hello(frame: &[u8]) -> bool {
    const TYPE_AT: usize = 3;
    const HELLO: u8 = 1;
    frame.get(TYPE_AT) == Some(&HELLO)
}

/// The space and the session of a hello.
pub(super) fn greeting(frame: &[u8]) -> Option<(Space, u64)> {
    if !is_hello(frame) {
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
    /// Hellos, which there may be thousands of: each second frame is one, while there are others, too.
    hellos: VecDeque<Vec<u8>>,
    /// Whether the last frame was one.
    said_hello: bool,
    queued_bytes: usize,
    in_flight: Option<OutboundRequestId>,
    connections: Vec<ConnectionId>,
    /// The session of the process at the other end, in each open space that it has greeted in.
    sessions: HashMap<Space, u64>,
    /// Whether it has greeted in any space, open here or not.
    pub(super) greeted: bool,
    /// The address that it came from.
    pub(super) from: Option<IpAddr>,
    /// Since when it could have.
    pub(super) since: Instant,
    /// What it may do, since it came.
    pub(super) rights: Vec<Right>,
    /// Since when it has lost some of that, while it may still hear of it.
    pub(super) loses: Option<Instant>,
    /// When tickets are shown to it again, if the last time may have been too early.
    pub(super) shows: Shows,
    /// Until when its connections stay, so that the answer to a ticket reaches it.
    pub(super) reads_until: Option<Instant>,
    /// Whether pushes reach it only as frames, though this node would gossip with it.
    pub(super) unicast: bool,
    /// Whether its connections are being closed: what it still sends is of no use.
    pub(super) dropped: bool,
    /// Frames that wait until it may send more.
    held: VecDeque<Held>,
    /// Another process with the same key, which is to take the link over.
    twin: Option<Twin>,
}

/// The wait before tickets are shown again; it doubles up to its limit. Lower bothers a node that has
/// its reasons, higher makes joining slower after changes.
const SHOW_WAIT_MIN: Duration = Duration::from_millis(500);
const SHOW_WAIT_MAX: Duration = Duration::from_secs(300);

/// When tickets are shown to a peer again.
#[derive(Default)]
pub(super) struct Shows {
    next: Option<Instant>,
    wait: Duration,
}

impl Shows {
    /// The last time was in vain, and may have been too early.
    pub(super) fn again(&mut self, now: Instant) {
        if self.next.is_none() {
            self.wait = (self.wait * 2).clamp(SHOW_WAIT_MIN, SHOW_WAIT_MAX);
            self.next = Some(now + self.wait);
        }
    }

    /// Whether it is time now; then it is no more.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        self.next.take_if(|next| *next <= now).is_some()
    }
}

/// A process with the key of one that is connected: a copy of its folder, or its next start.
struct Twin {
    connection: ConnectionId,
    frames: Vec<Vec<u8>>,
}

/// Frames that wait, unacknowledged, so that their peer sends no more.
pub(super) struct Held {
    pub(super) connection: ConnectionId,
    pub(super) request: Framed,
    pub(super) channel: ResponseChannel<()>,
}

impl Held {
    /// How many frames and bytes it has. An empty one counts, too.
    pub(super) fn size(&self) -> (u64, usize) {
        let frames = codec::frames(&self.request.bytes).count() as u64;
        (frames.max(1), self.request.bytes.len())
    }
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
    pub(super) fn insert(&mut self, peer: PeerId, link: Link, now: Instant) {
        self.by_link.insert(link, peer);
        let new = Peer {
            link,
            listen: Vec::new(),
            queue: VecDeque::new(),
            hellos: VecDeque::new(),
            said_hello: false,
            queued_bytes: 0,
            in_flight: None,
            connections: Vec::new(),
            sessions: HashMap::new(),
            greeted: false,
            from: None,
            since: now,
            rights: Vec::new(),
            loses: None,
            shows: Shows::default(),
            reads_until: None,
            unicast: false,
            dropped: false,
            held: VecDeque::new(),
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

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&PeerId, &Peer)> {
        self.by_id.iter()
    }

    pub(super) fn get(&self, peer: &PeerId) -> Option<&Peer> {
        self.by_id.get(peer)
    }

    pub(super) fn get_mut(&mut self, peer: &PeerId) -> Option<&mut Peer> {
        self.by_id.get_mut(peer)
    }
}

impl Peer {
    /// The spaces in which it takes part, in their order, and what it is held to there; `owner` is its
    /// key.
    pub(super) fn spaces(&self, owner: Option<OwnerKey>) -> Vec<Carried> {
        let carried = |right: &Right| {
            let limits = match right.role.limit() {
                None => None,
                Some(role) => {
                    let owner = owner?;
                    Some(Limits { owner, role })
                }
            };
            let space = right.space;
            Some(Carried { space, limits })
        };
        self.rights.iter().filter_map(carried).collect()
    }

    /// Whether it takes part in a space.
    pub(super) fn takes_part(&self, space: SpaceId) -> bool {
        let found = self
            .rights
            .binary_search_by_key(&space, |right| right.space);
        found.is_ok()
    }

    /// Whether it takes part in no space.
    pub(super) fn is_stranger(&self) -> bool {
        self.rights.is_empty()
    }

    /// Whether it is trusted as a member in any space.
    pub(super) fn is_trusted(&self) -> bool {
        self.rights.iter().any(|right| right.role == Role::Member)
    }

    /// Whether it has greeted in this space.
    pub(super) fn has_greeted(&self, space: &Space) -> bool {
        self.sessions.contains_key(space)
    }

    /// Lets a frame wait; false if so many wait that it does not.
    pub(super) fn hold(&mut self, held: Held) -> bool {
        let room = self.held.len() < HELD_FRAMES_MAX;
        if room {
            self.held.push_back(held);
        }
        room
    }

    /// The request that waits longest.
    pub(super) fn next_held(&self) -> Option<&Held> {
        self.held.front()
    }

    /// The frame that waits longest.
    pub(super) fn take_held(&mut self) -> Option<Held> {
        self.held.pop_front()
    }

    /// One more connection exists. Those before may be on their way out, but this one is not.
    pub(super) fn opened(&mut self, connection: ConnectionId) {
        self.connections.push(connection);
        self.dropped = false;
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
    pub(super) fn frame(
        &mut self,
        connection: ConnectionId,
        frame: Vec<u8>,
        is_open: impl FnOnce(&Space) -> bool,
    ) -> Fate {
        if let Some(twin) = &mut self.twin {
            if twin.connection == connection && twin.frames.len() < TWIN_FRAMES_MAX {
                twin.frames.push(frame);
            }
            return Fate::Close(Vec::new());
        }
        let greeting = greeting(&frame);
        self.greeted |= greeting.is_some();
        // Of spaces that are not open here there are any number.
        if let Some((space, session)) = greeting.filter(|(space, _)| is_open(space)) {
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
        if is_hello(&frame) {
            self.hellos.push_back(frame);
            return true;
        }
        // Nothing is said in a space before the hello.
        let space = frame_space(&frame);
        let same = |hello: &Vec<u8>| frame_space(hello) == space;
        if let Some(hello) = self.hellos.iter().position(same) {
            self.queue.extend(self.hellos.remove(hello));
        }
        self.queue.push_back(frame);
        true
    }

    /// Sends the next frames with `send`, unless some are still on their way, and shows each to `count`.
    pub(super) fn send_next(
        &mut self,
        mut count: impl FnMut(&[u8]),
        send: impl FnOnce(Vec<u8>) -> OutboundRequestId,
    ) {
        if self.in_flight.is_some() {
            return;
        }
        let mut batch = Vec::new();
        while let Some(frame) = self.next_frame(BATCH_BYTES_MAX.saturating_sub(batch.len())) {
            count(&frame);
            codec::put(&mut batch, &frame);
        }
        if !batch.is_empty() {
            self.in_flight = Some(send(batch));
        }
    }

    /// Takes the next frame out of the queues, if it fits. One alone always does.
    fn next_frame(&mut self, room: usize) -> Option<Vec<u8>> {
        let hello = !self.said_hello && !self.hellos.is_empty() || self.queue.is_empty();
        let queue = match hello {
            true => &mut self.hellos,
            false => &mut self.queue,
        };
        let length = PREFIX_BYTES + queue.front()?.len();
        if length > room && room < BATCH_BYTES_MAX {
            return None;
        }
        let frame = queue.pop_front()?;
        self.said_hello = hello;
        self.queued_bytes -= frame.len();
        Some(frame)
    }

    /// What was sent has arrived, or was given up. That of an earlier connection does not count.
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
    use crate::gossip::figures::Figures;
    use libp2p::request_response::{self, ProtocolSupport};
    use prometheus_client::registry::Registry;
    use std::cell::Cell;
    use tallymesh_core::WriterId;
    use tallymesh_core::wire::{Digests, Hello};

    #[test]
    fn frames_keep_their_order_one_at_a_time_within_a_bound() {
        // Only a behaviour can make the ids of requests.
        let figures = Figures::register(&mut Registry::default());
        let mut frames = request_response::Behaviour::with_codec(
            FrameCodec::new(0, figures),
            [(PROTOCOL, ProtocolSupport::Full)],
            request_response::Config::default(),
        );
        let mut peers = Peers::default();
        let id = PeerId::random();
        peers.insert(id, Link(7), Instant::now());
        assert_eq!(
            (peers.link(&id), peers.id(Link(7))),
            (Some(Link(7)), Some(id))
        );
        let peer = peers.get_mut(&id).expect("just inserted");
        let mut sent = Vec::new();
        // The first byte of each frame that is sent, and the request.
        let mut send_next = |peer: &mut Peer| {
            let before = sent.len();
            let counted = Cell::new(0);
            peer.send_next(
                |_| counted.set(counted.get() + 1),
                |request| {
                    let firsts: Vec<u8> = codec::frames(&request).map(|it| it[0]).collect();
                    assert_eq!(firsts.len(), counted.get());
                    let request = frames.send_request(&id, Framed::default());
                    sent.push((firsts, request));
                    request
                },
            );
            sent.get(before).cloned()
        };
        assert!(peer.push(vec![1; 2]));
        assert!(peer.push(vec![2; QUEUE_BYTES_MAX - 2]));
        assert!(!peer.push(vec![3]), "the queue is full");
        let (first, one) = send_next(peer).expect("sent");
        assert_eq!(first, [1], "a large one goes alone");
        assert_eq!(send_next(peer), None, "one request is on its way");
        peer.done(one);
        for byte in [4, 5] {
            assert!(peer.push(vec![byte]), "there is room again");
        }
        let (second, two) = send_next(peer).expect("sent");
        assert_eq!(second, [2]);
        peer.done(one);
        assert_eq!(send_next(peer), None, "an old answer is not for this one");
        peer.done(two);
        let (third, three) = send_next(peer).expect("sent");
        assert_eq!(third, [4, 5], "small ones go together");
        peer.done(three);
        for bytes in [40_000, 25_000, BATCH_BYTES_MAX - PREFIX_BYTES] {
            assert!(peer.push(vec![6; bytes]));
        }
        for together in [2, 1] {
            let (frames, request) = send_next(peer).expect("sent");
            assert_eq!(frames.len(), together);
            peer.done(request);
        }
        assert_eq!(peers.remove(&id), Some(Link(7)));
        assert_eq!(peers.id(Link(7)), None);
    }

    #[test]
    fn hellos_come_before_anything_else_in_their_space_and_hold_up_no_other() {
        let frame = |name: &str, body: Body| {
            let space = Space::new(name).expect("a name");
            Frame { space, body }.encode()
        };
        let digests = Digests {
            vector: [0; 16],
            contents: 0,
        };
        let hello = |name| {
            let hello = Hello {
                version_min: 1,
                version_max: 1,
                capabilities: 0,
                session: 1,
                agent: "".into(),
                nonce: [0; 16],
                proof: Vec::new(),
                digests,
                writer: WriterId::from_bytes([1; 16]),
                clock: 0,
            };
            frame(name, Body::Hello(hello))
        };
        let digest = |name| frame(name, Body::Digest(digests));
        let figures = Figures::register(&mut Registry::default());
        let mut frames = request_response::Behaviour::with_codec(
            FrameCodec::new(0, figures),
            [(PROTOCOL, ProtocolSupport::Full)],
            request_response::Config::default(),
        );
        let mut peers = Peers::default();
        let id = PeerId::random();
        peers.insert(id, Link(7), Instant::now());
        let peer = peers.get_mut(&id).expect("just inserted");
        let queued = [
            hello("a"),
            hello("b"),
            hello("c"),
            digest("z"),
            digest("b"),
            digest("z"),
        ];
        for frame in &queued {
            assert!(peer.push(frame.clone()));
        }
        let mut sent = Vec::new();
        let count = |frame: &[u8]| sent.push(frame.to_vec());
        peer.send_next(count, |_| frames.send_request(&id, Framed::default()));
        let order = [0, 3, 2, 1, 4, 5].map(|at: usize| queued[at].clone());
        assert!(sent == order);
        assert_eq!(peer.queued_bytes, 0);
    }
}

//! The peers that are connected, and the frames that wait for each.

use super::codec::{self, BATCH_BYTES_MAX, Framed, InFlightFrames, PREFIX_BYTES};
use super::rights::Right;
use libp2p::request_response::{OutboundFailure, OutboundRequestId, ResponseChannel};
use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, PeerId};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tallymesh_core::wire::{Body, COPY, Frame};
use tallymesh_core::{Link, Space, frame_space};
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{Carried, PeerScope, RESERVED, Role, SpaceId};

/// Most bytes that wait for one peer. Frames beyond are dropped, and sync repairs the gap later.
const QUEUE_BYTES_MAX: usize = 8 << 20;

/// Most requests from one peer that wait until the peer may send more. Normally one is in flight. A
/// second process with the same key may have one, too, and one may have been dropped. A peer with
/// more requests does not wait for answers.
const HELD_FRAMES_MAX: usize = 4;

/// How often frames are sent again on the remaining connections. A peer has few connections, and
/// they are rarely lost one after the other. With a lower value, links begin again sooner.
const SENT_AGAIN_MAX: u32 = 8;

/// The offset of the type in a frame.
const TYPE_AT: usize = 3;

fn is_hello(frame: &[u8]) -> bool {
    const HELLO: u8 = 1;
    frame.get(TYPE_AT) == Some(&HELLO)
}

fn is_push(frame: &[u8]) -> bool {
    const PUSH: u8 = 6;
    frame.get(TYPE_AT) == Some(&PUSH)
}

/// The space and the session of a hello.
pub(super) fn hello_of(frame: &[u8]) -> Option<(Space, u64)> {
    if !is_hello(frame) {
        return None;
    }
    let frame = Frame::decode(frame).ok()?;
    match frame.body {
        Body::Hello(hello) => Some((frame.space, hello.session)),
        _ => None,
    }
}

/// Whether a hello is of a process on a copy of a data folder. `None` if the frame is no hello.
pub(super) fn is_of_copy(frame: &[u8]) -> Option<bool> {
    if !is_hello(frame) {
        return None;
    }
    match Frame::decode(frame).ok()?.body {
        Body::Hello(hello) => Some(hello.capabilities & COPY > 0),
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
    /// The addresses on which it listens, as it reports them.
    pub(super) listen: Vec<Multiaddr>,
    queue: VecDeque<Vec<u8>>,
    /// Hellos, which may be thousands. While there are other frames, every second frame is a hello.
    hellos: VecDeque<Vec<u8>>,
    /// Whether the last frame was a hello.
    said_hello: bool,
    queued_bytes: usize,
    /// The number of frames in the queue that are no pushes.
    urgent: usize,
    /// The time until which pushes alone wait for more.
    gathers_until: Instant,
    /// Whether its turn is scheduled for then.
    pub(super) gathers: bool,
    in_flight: Option<(OutboundRequestId, InFlightFrames)>,
    /// How many times in a row frames had to be sent again.
    sent_again: u32,
    connections: Vec<ConnectionId>,
    /// The remote addresses of its connections.
    remotes: HashMap<ConnectionId, Multiaddr>,
    /// The session of the process at the other end, and the connection of its hello. There is an
    /// entry for each open space in which it has sent one.
    sessions: HashMap<Space, (u64, ConnectionId)>,
    /// Whether it has sent a hello in any space, open here or not.
    pub(super) has_hello: bool,
    /// Its remote address.
    pub(super) from: Option<IpAddr>,
    /// When it connected, and so could begin to send hellos.
    pub(super) since: Instant,
    /// The rights that it has had since it connected.
    pub(super) rights: Vec<Right>,
    /// Since when it has lost some of them, while it may still receive that news.
    pub(super) loses: Option<Instant>,
    /// When tickets are shown to it again, if the last time may have been too early.
    pub(super) shows: Shows,
    /// The time until which its connections stay open, so that the answer to a ticket reaches it.
    pub(super) reads_until: Option<Instant>,
    /// Whether pushes reach it only as frames, although this node would gossip with it.
    pub(super) unicast: bool,
    /// Whether its connections are being closed, so that its further frames are ignored.
    pub(super) dropped: bool,
    /// Requests that wait until it may send more.
    pub(super) held: VecDeque<WaitingRequest>,
    /// Another process with the same key, which is about to take over the link.
    twin: Option<Twin>,
}

/// The wait before tickets are shown again. It doubles up to its limit. A lower value bothers a
/// node that refuses for a reason. A higher one makes joining slower after changes.
const SHOW_WAIT_MIN: Duration = Duration::from_millis(500);
const SHOW_WAIT_MAX: Duration = Duration::from_secs(300);

/// When tickets are shown to a peer again.
#[derive(Default)]
pub(super) struct Shows {
    next: Option<Instant>,
    wait: Duration,
}

impl Shows {
    /// Schedules another attempt, because the last one failed and may have been too early.
    pub(super) fn again(&mut self, now: Instant) {
        if self.next.is_none() {
            self.wait = (self.wait * 2).clamp(SHOW_WAIT_MIN, SHOW_WAIT_MAX);
            self.next = Some(now + self.wait);
        }
    }

    /// Whether an attempt is due. If so, it is no longer scheduled.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        self.next.take_if(|next| *next <= now).is_some()
    }
}

/// Another process with the key of a connected peer: a copy of its folder, or its next start.
pub(super) struct Twin {
    pub(super) connection: ConnectionId,
    /// The frames after its first hello.
    pub(super) frames: Vec<Vec<u8>>,
    /// Requests that arrived since, on any connection. They are not acknowledged. So their sender
    /// repeats the hellos of a connection that is closed.
    pub(super) held: Vec<WaitingRequest>,
}

/// A request that waits unacknowledged, so that its peer sends no more.
pub(super) struct WaitingRequest {
    pub(super) connection: ConnectionId,
    pub(super) request: Framed,
    pub(super) channel: ResponseChannel<()>,
}

impl WaitingRequest {
    /// Its number of frames and bytes. An empty request counts as one frame.
    pub(super) fn size(&self) -> (u64, usize) {
        let frames = codec::frames(&self.request.bytes).count() as u64;
        (frames.max(1), self.request.bytes.len())
    }
}

/// The result for a received frame.
pub(super) enum Fate {
    /// It goes to the driver.
    Deliver(Link, Vec<u8>),
    /// It waits, or is ignored; these connections are to be closed.
    Close(Vec<ConnectionId>),
    /// It is from another process with the same key, and the earlier connections are gone. The link
    /// begins again with this frame.
    Anew(Vec<u8>),
}

impl Peers {
    /// Adds a peer with its first connection.
    pub(super) fn insert(&mut self, peer: PeerId, link: Link, now: Instant) {
        self.by_link.insert(link, peer);
        let new = Peer {
            link,
            listen: Vec::new(),
            queue: VecDeque::new(),
            hellos: VecDeque::new(),
            said_hello: false,
            queued_bytes: 0,
            urgent: 0,
            gathers_until: now,
            gathers: false,
            in_flight: None,
            sent_again: 0,
            connections: Vec::new(),
            remotes: HashMap::new(),
            sessions: HashMap::new(),
            has_hello: false,
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

    /// Removes a peer after its last connection. Returns the link that ends.
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
    /// The spaces in which it takes part, in their order, with its peer scope there. `owner` is its
    /// key.
    pub(super) fn spaces(&self, owner: Option<OwnerKey>) -> Vec<Carried> {
        let carried = |right: &Right| {
            let limits = match right.role.limit() {
                None => None,
                Some(role) => {
                    let owner = owner?;
                    Some(PeerScope { owner, role })
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

    /// Whether it has sent its hello in this space.
    pub(super) fn has_hello_in(&self, space: &Space) -> bool {
        self.sessions.contains_key(space)
    }

    /// Whether it has sent its hello in any user space that is open here.
    pub(super) fn has_hello_here(&self) -> bool {
        let mut spaces = self.sessions.keys();
        spaces.any(|space| !space.as_str().starts_with(RESERVED))
    }

    /// Queues a request that has to wait. Returns false if too many wait.
    pub(super) fn hold(&mut self, held: WaitingRequest) -> bool {
        let room = self.held.len() < HELD_FRAMES_MAX;
        if room {
            self.held.push_back(held);
        }
        room
    }

    /// The request that has waited longest.
    pub(super) fn next_held(&self) -> Option<&WaitingRequest> {
        self.held.front()
    }

    /// Removes and returns the request that has waited longest.
    pub(super) fn take_held(&mut self) -> Option<WaitingRequest> {
        self.held.pop_front()
    }

    /// Queues a request until older connections are closed for another process. Returns the request
    /// if there is no such process.
    pub(super) fn hold_for_twin(&mut self, held: WaitingRequest) -> Option<WaitingRequest> {
        let Some(twin) = &mut self.twin else {
            return Some(held);
        };
        if twin.held.len() < HELD_FRAMES_MAX {
            twin.held.push(held);
        }
        None
    }

    /// The connections other than this one.
    pub(super) fn others(&self, connection: ConnectionId) -> Vec<ConnectionId> {
        let others = self.connections.iter().copied();
        others.filter(|open| *open != connection).collect()
    }

    /// Whether a connection is open.
    pub(super) fn has(&self, connection: ConnectionId) -> bool {
        self.connections.contains(&connection)
    }

    /// Notes the remote address of a connection.
    pub(super) fn note_remote(&mut self, connection: ConnectionId, address: Multiaddr) {
        self.remotes.insert(connection, address);
    }

    /// Removes and returns the remote address of a connection.
    pub(super) fn take_remote(&mut self, connection: ConnectionId) -> Option<Multiaddr> {
        self.remotes.remove(&connection)
    }

    /// Adds a connection. Earlier ones may be closing, but this one is not. Returns whether it has to close,
    /// because another process with the same key is about to take over. That process waits until all other
    /// connections are closed, so a later one would keep it from the link for ever. Its peer dials again.
    #[must_use]
    pub(super) fn opened(&mut self, connection: ConnectionId) -> bool {
        self.connections.push(connection);
        self.dropped = false;
        self.twin.is_some()
    }

    /// Removes a connection while others are left. If only the connection of another process with
    /// the same key is left, returns that process, which takes over.
    pub(super) fn closed(&mut self, connection: ConnectionId) -> Option<Twin> {
        self.connections.retain(|open| *open != connection);
        self.remotes.remove(&connection);
        self.twin.take_if(|twin| twin.connection == connection);
        let alone = |twin: &mut Twin| self.connections == [twin.connection];
        self.twin.take_if(alone)
    }

    /// Handles a received frame. One key has one link. If a second process sends a hello under it,
    /// the older connections are closed, and its frames wait until then. A repeated hello is
    /// ignored, because its sender can't tell whether it arrived. The book handles its own hellos.
    pub(super) fn frame(
        &mut self,
        connection: ConnectionId,
        frame: Vec<u8>,
        is_open: impl FnOnce(&Space) -> bool,
        is_book: impl FnOnce(&Space) -> bool,
    ) -> Fate {
        if let Some(twin) = &mut self.twin {
            if twin.connection == connection {
                twin.frames.push(frame);
            }
            return Fate::Close(Vec::new());
        }
        let hello = hello_of(&frame);
        self.has_hello |= hello.is_some();
        let hello = hello.map(|(space, session)| (is_book(&space), space, session));
        // There may be any number of spaces that are not open here.
        let known = |(is_book, space, _): &(bool, Space, u64)| *is_book || is_open(space);
        if let Some((is_book, space, session)) = hello.filter(known) {
            let others = self.connections.iter().copied();
            let others: Vec<ConnectionId> = others.filter(|open| *open != connection).collect();
            let is_again = |before| before == session && !is_book;
            match self.sessions.get(&space).copied() {
                Some((before, _)) if is_again(before) => {
                    return Fate::Close(Vec::new());
                }
                Some((before, _)) if before != session && !others.is_empty() => {
                    self.twin = Some(Twin {
                        connection,
                        frames: vec![frame],
                        held: Vec::new(),
                    });
                    return Fate::Close(others);
                }
                Some((before, on)) if before != session && on != connection => {
                    return Fate::Anew(frame);
                }
                _ => self.sessions.insert(space, (session, connection)),
            };
        }
        Fate::Deliver(self.link, frame)
    }

    /// Queues a frame. Returns false if the queue is full and the frame was dropped.
    pub(super) fn push(&mut self, frame: Vec<u8>) -> bool {
        if self.queued_bytes + frame.len() > QUEUE_BYTES_MAX {
            return false;
        }
        self.queued_bytes += frame.len();
        if is_hello(&frame) {
            self.hellos.push_back(frame);
            return true;
        }
        // In each space the hello is sent before other frames.
        let space = frame_space(&frame);
        let same = |hello: &Vec<u8>| frame_space(hello) == space;
        if let Some(hello) = self.hellos.iter().position(same) {
            self.queue.extend(self.hellos.remove(hello));
            self.urgent += 1;
        }
        self.urgent += usize::from(!is_push(&frame));
        self.queue.push_back(frame);
        true
    }

    /// Sends the next frames with `send`, unless some are still in flight, and passes each to
    /// `count`. After that, pushes alone wait for `gather`. Returns the end of that wait, if they
    /// wait now.
    pub(super) fn send_next(
        &mut self,
        (now, gather): (Instant, Duration),
        mut count: impl FnMut(&[u8]),
        send: impl FnOnce(Framed) -> OutboundRequestId,
    ) -> Option<Instant> {
        if self.in_flight.is_some() || self.hellos.is_empty() && self.queue.is_empty() {
            return None;
        }
        if self.hellos.is_empty() && self.urgent == 0 && now < self.gathers_until {
            return Some(self.gathers_until);
        }
        let mut batch = Vec::new();
        while let Some(frame) = self.next_frame(BATCH_BYTES_MAX.saturating_sub(batch.len())) {
            count(&frame);
            codec::put(&mut batch, &frame);
        }
        if !batch.is_empty() {
            let request = Framed::from(batch);
            let kept = request.in_flight();
            self.in_flight = Some((send(request), kept));
            self.gathers_until = now + gather;
        }
        None
    }

    /// Removes the next frame from the queues, if it fits. A frame that is alone always fits.
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
        self.urgent -= usize::from(!hello && !is_push(&frame));
        self.said_hello = hello;
        self.queued_bytes -= frame.len();
        Some(frame)
    }

    /// Records that a request has arrived. A request of an earlier link does not count.
    pub(super) fn done(&mut self, request: OutboundRequestId) {
        if self.in_flight.take_if(|it| it.0 == request).is_some() {
            self.sent_again = 0;
        }
    }

    /// Handles a request without an answer, while the peer has other connections. A peer that dials
    /// several addresses at once closes all connections but one, and each may have frames in
    /// flight. Frames that can't have arrived are sent again before all others. If frames may have
    /// arrived, only the hellos are sent again, and sync repairs the rest. Returns whether the link
    /// has to end, because no hello arrives.
    pub(super) fn failed(&mut self, request: OutboundRequestId, error: &OutboundFailure) -> bool {
        let Some((_, kept)) = self.in_flight.take_if(|it| it.0 == request) else {
            return false;
        };
        let may_have_arrived = kept.is_begun();
        let again = match error {
            // A slow peer may still accept the frames that it has.
            OutboundFailure::Timeout => !may_have_arrived,
            OutboundFailure::ConnectionClosed | OutboundFailure::Io(_) => true,
            OutboundFailure::UnsupportedProtocols | OutboundFailure::DialFailure => false,
        };
        if !again {
            return false;
        }
        let frames = kept.frames();
        let frames = frames.filter(|frame| !may_have_arrived || is_hello(frame));
        let frames: Vec<Vec<u8>> = frames.map(<[u8]>::to_vec).collect();
        if frames.is_empty() {
            return false;
        }
        self.sent_again += 1;
        if self.sent_again > SENT_AGAIN_MAX {
            self.sent_again = 0;
            return frames.iter().any(|frame| is_hello(frame));
        }
        for frame in frames.into_iter().rev() {
            self.queued_bytes += frame.len();
            self.urgent += usize::from(!is_push(&frame));
            self.queue.push_front(frame);
        }
        false
    }
}

#[cfg(test)]
mod tests;

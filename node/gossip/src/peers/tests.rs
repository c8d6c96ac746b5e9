use super::*;
use crate::codec::{FrameCodec, PROTOCOL};
use crate::connection_policy::Class;
use crate::frame_room::FrameRoom;
use crate::network_metrics::NetworkMetrics;
use futures::executor::block_on;
use libp2p::request_response::{self, Codec, ProtocolSupport};
use prometheus_client::registry::Registry;
use std::cell::Cell;
use std::sync::Arc;
use tallymesh_core::WriterId;
use tallymesh_core::wire::{Digests, Hello};

/// Only a behaviour can make the ids of requests.
fn behaviour() -> request_response::Behaviour<FrameCodec> {
    request_response::Behaviour::with_codec(
        codec(),
        [(PROTOCOL, ProtocolSupport::Full)],
        request_response::Config::default(),
    )
}

fn codec() -> FrameCodec {
    let room = FrameRoom::new(0, 0, Arc::new(|_| Class::Newcomer));
    FrameCodec::new(room, NetworkMetrics::register(&mut Registry::default()))
}

const DIGESTS: Digests = Digests {
    vector: [0; 16],
    contents: 0,
};

fn frame(name: &str, body: Body) -> Vec<u8> {
    let space = Space::new(name).expect("a name");
    Frame { space, body }.encode()
}

fn hello(name: &str, session: u64) -> Vec<u8> {
    let hello = Hello {
        version_min: 1,
        version_max: 1,
        capabilities: 0,
        session,
        agent: "".into(),
        nonce: [0; 16],
        proof: Vec::new(),
        digests: DIGESTS,
        writer: WriterId::from_bytes([1; 16]),
        clock: 0,
    };
    frame(name, Body::Hello(hello))
}

fn digest(name: &str) -> Vec<u8> {
    frame(name, Body::Digest(DIGESTS))
}

#[test]
fn frames_keep_their_order_one_at_a_time_within_a_bound() {
    let mut frames = behaviour();
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
            (Instant::now(), Duration::ZERO),
            |_| counted.set(counted.get() + 1),
            |request| {
                let firsts: Vec<u8> = codec::frames(&request.bytes).map(|it| it[0]).collect();
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
    let hello = |name| hello(name, 1);
    let mut frames = behaviour();
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
    peer.send_next((Instant::now(), Duration::ZERO), count, |_| {
        frames.send_request(&id, Framed::default())
    });
    let order = [0, 3, 2, 1, 4, 5].map(|at: usize| queued[at].clone());
    assert!(sent == order);
    assert_eq!(peer.queued_bytes, 0);
}

/// A connected peer, and the frames that it is sent.
struct Sending {
    frames: request_response::Behaviour<FrameCodec>,
    peers: Peers,
    id: PeerId,
}

impl Sending {
    fn new() -> Sending {
        let (mut peers, id) = (Peers::default(), PeerId::random());
        peers.insert(id, Link(7), Instant::now());
        let frames = behaviour();
        Sending { frames, peers, id }
    }

    fn peer(&mut self) -> &mut Peer {
        self.peers.get_mut(&self.id).expect("it was inserted")
    }

    fn push(&mut self, frames: &[Vec<u8>]) {
        for frame in frames {
            assert!(self.peer().push(frame.clone()));
        }
    }

    /// The next frames to send, `written` or not.
    fn next(&mut self, written: bool) -> (Vec<Vec<u8>>, OutboundRequestId) {
        let (id, mut sent) = (self.id, None);
        let Sending { frames, peers, .. } = self;
        let peer = peers.get_mut(&id).expect("it was inserted");
        peer.send_next(
            (Instant::now(), Duration::ZERO),
            |_| (),
            |request| {
                let request_id = frames.send_request(&id, Framed::default());
                let all = codec::frames(&request.bytes).map(<[u8]>::to_vec);
                sent = Some((all.collect(), request_id));
                if written {
                    let mut stream = Vec::new();
                    let write =
                        async { codec().write_request(&PROTOCOL, &mut stream, request).await };
                    block_on(write).expect("written");
                }
                request_id
            },
        );
        sent.expect("something was sent")
    }

    fn failed(&mut self, request: OutboundRequestId, error: &OutboundFailure) -> bool {
        self.peer().failed(request, error)
    }

    fn is_silent(&mut self) -> bool {
        let mut silent = true;
        let (id, frames) = (self.id, &mut self.frames);
        let peer = self.peers.get_mut(&id).expect("it was inserted");
        peer.send_next(
            (Instant::now(), Duration::ZERO),
            |_| silent = false,
            |_| frames.send_request(&id, Framed::default()),
        );
        silent
    }
}

#[test]
fn what_was_not_written_before_its_connection_went_is_sent_again_before_all_else() {
    let mut sending = Sending::new();
    let first = [hello("a", 1), digest("a"), hello("b", 1)];
    sending.push(&first);
    let queued = sending.peer().queued_bytes;
    let (sent, one) = sending.next(false);
    assert_eq!(sent.len(), 3);
    let later = [hello("c", 1), digest("b")];
    sending.push(&later);
    assert!(!sending.failed(one, &OutboundFailure::ConnectionClosed));
    let (again, two) = sending.next(false);
    // The new hello may be in between. But no frame is lost, and each space begins with its own
    // hello.
    let old: Vec<&Vec<u8>> = again.iter().filter(|it| !later.contains(it)).collect();
    assert_eq!(old, sent.iter().collect::<Vec<_>>());
    assert_eq!(again.len(), 5);
    let at = |frame: &Vec<u8>| again.iter().position(|it| it == frame);
    assert!(at(&first[2]) < at(&later[1]));
    assert_eq!(sending.peer().queued_bytes, 0);
    assert!(queued > 0);
    // The request of the lost connection no longer counts.
    assert!(!sending.failed(one, &OutboundFailure::ConnectionClosed));
    sending.peer().done(two);
    assert!(sending.is_silent());
}

#[test]
fn of_what_may_have_arrived_hellos_alone_are_sent_again() {
    let mut sending = Sending::new();
    sending.push(&[hello("a", 1), digest("a"), hello("b", 1)]);
    let (sent, one) = sending.next(true);
    let error = OutboundFailure::Io(std::io::Error::other("lost"));
    assert!(!sending.failed(one, &error));
    let (again, two) = sending.next(true);
    let hellos = sent.into_iter().filter(|frame| is_hello(frame));
    assert_eq!(again, hellos.collect::<Vec<_>>());
    assert_eq!(again.len(), 2);
    // A slow peer still has the frames.
    assert!(!sending.failed(two, &OutboundFailure::Timeout));
    assert!(sending.is_silent());
    sending.push(&[hello("c", 1)]);
    let (_, three) = sending.next(false);
    assert!(!sending.failed(three, &OutboundFailure::UnsupportedProtocols));
    assert!(sending.is_silent());
}

#[test]
fn a_link_on_which_no_hello_gets_through_is_given_up() {
    let mut sending = Sending::new();
    sending.push(&[hello("a", 1)]);
    for _ in 0..SENT_AGAIN_MAX {
        let (_, request) = sending.next(false);
        assert!(!sending.failed(request, &OutboundFailure::ConnectionClosed));
    }
    let (_, request) = sending.next(false);
    assert!(sending.failed(request, &OutboundFailure::ConnectionClosed));
    assert!(sending.is_silent());
}

#[test]
fn a_hello_again_is_passed_over_and_another_process_begins_the_link_anew() {
    let mut sending = Sending::new();
    let peer = sending.peer();
    let [one, two] = [1, 2].map(ConnectionId::new_unchecked);
    let frame = |peer: &mut Peer, connection, frame| {
        let is_book = |space: &Space| space.as_str() == "book";
        match peer.frame(connection, frame, |_| true, is_book) {
            Fate::Deliver(..) => "deliver".to_owned(),
            Fate::Close(connections) => format!("close {connections:?}"),
            Fate::Anew(_) => "anew".to_owned(),
        }
    };
    assert!(!peer.opened(one) && !peer.opened(two));
    for (name, again) in [("a", "close []"), ("book", "deliver")] {
        assert_eq!(frame(peer, one, hello(name, 1)), "deliver");
        for connection in [one, two] {
            assert_eq!(frame(peer, connection, hello(name, 1)), again);
        }
    }
    // The process at the other end ended without closing, and its next start has one connection.
    assert!(peer.closed(one).is_none());
    assert_eq!(frame(peer, two, hello("a", 2)), "anew");
    // On the connection of its hello, a process stays the same.
    assert_eq!(frame(peer, two, hello("book", 2)), "deliver");
}

#[test]
fn the_hellos_of_another_process_wait_until_the_older_connections_are_closed() {
    let mut sending = Sending::new();
    let peer = sending.peer();
    let [one, two, three] = [1, 2, 3].map(ConnectionId::new_unchecked);
    assert!(!peer.opened(one));
    let hear =
        |peer: &mut Peer, connection, frame| peer.frame(connection, frame, |_| true, |_| false);
    let first = hear(peer, one, hello("a", 1));
    assert!(matches!(first, Fate::Deliver(..)));
    assert!(!peer.opened(two));
    let names: Vec<String> = (0..100).map(|number| format!("s{number}")).collect();
    let others = names.iter().map(String::as_str);
    for name in std::iter::once("a").chain(others) {
        let fate = hear(peer, two, hello(name, 2));
        assert!(matches!(fate, Fate::Close(_)), "{name}");
    }
    assert!(peer.opened(three), "it would be waited for");
    assert!(peer.closed(three).is_none());
    let twin = peer.closed(one).expect("it takes over");
    assert_eq!((twin.connection, twin.frames.len()), (two, 101));
}

#[test]
fn pushes_alone_gather_after_a_request_and_other_frames_take_them_along() {
    const GATHER: Duration = Duration::from_millis(50);
    let [push, digest] = [6, 2].map(|kind| vec![b't', b'm', 1, kind]);
    let mut frames = behaviour();
    let mut peers = Peers::default();
    let id = PeerId::random();
    let begun = Instant::now();
    peers.insert(id, Link(7), begun);
    let peer = peers.get_mut(&id).expect("just inserted");
    // How many frames are sent at this time after the start, or how long they wait.
    let mut send = |peer: &mut Peer, after: Duration| {
        let (mut sent, mut request) = (0, None);
        let until = peer.send_next(
            (begun + after, GATHER),
            |_| sent += 1,
            |_| *request.insert(frames.send_request(&id, Framed::default())),
        );
        if let Some(request) = request {
            peer.done(request);
        }
        (sent, until.map(|until| until - begun))
    };
    let at = Duration::from_millis;
    assert_eq!(send(peer, at(0)), (0, None));
    assert!(peer.push(push.clone()));
    assert_eq!(send(peer, at(0)), (1, None));
    for _ in 0..2 {
        assert!(peer.push(push.clone()));
        assert_eq!(send(peer, at(10)), (0, Some(GATHER)));
    }
    assert_eq!(send(peer, at(50)), (2, None));
    assert!(peer.push(push.clone()));
    assert_eq!(send(peer, at(60)), (0, Some(at(100))));
    assert!(peer.push(digest));
    assert_eq!(send(peer, at(60)), (2, None));
    assert_eq!(peer.urgent, 0);
}

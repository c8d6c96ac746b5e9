//! Entry points for hostile bytes: the fuzz targets, the corpus and seeded noise all call these.
//!
//! Each panics if a promise is broken.

use crate::closed::{Delivery, deliveries};
use crate::random::Random;
use std::sync::OnceLock;
use tallymesh_core::wire::Frame;
use tallymesh_core::{
    Input, Link, Mark, Message, Millis, Op, Output, Replica, Space, Sync, SyncConfig,
    VersionVector, WriterId, frame_space,
};

/// Whatever decodes as a message means just these bytes, and can be merged and told on.
pub fn message(bytes: &[u8]) {
    let Ok(message) = Message::decode(bytes) else {
        return;
    };
    assert_eq!(message.encode(), bytes, "two encodings of one message");
    assert_eq!(Message::decode_stored(bytes).as_ref(), Ok(&message));
    let mut replica = Replica::new(Space::default(), WriterId::from_bytes([0xee; 16]));
    if replica.merge(&message).is_ok() {
        replica.add("mine", 1).expect("a local add after a merge");
        replayed(&replica);
    }
}

/// Whatever decodes as a record of a store means just these bytes, and an empty replica that takes it
/// stores as much again.
pub fn stored(bytes: &[u8]) {
    let Ok(message) = Message::decode_stored(bytes) else {
        return;
    };
    assert_eq!(message.encode_stored(), bytes, "two encodings of a record");
    let mut replica = Replica::new(Space::default(), WriterId::from_bytes([0xee; 16]));
    if replica.restore(&message).is_err() {
        return;
    }
    replica.add("mine", 1).expect("a local add after a restart");
    let again = replica.snapshot().encode_stored();
    let again = Message::decode_stored(&again).expect("a snapshot decodes");
    let mut other = Replica::new(Space::default(), WriterId::from_bytes([0xdd; 16]));
    other.restore(&again).expect("a snapshot is whole");
    assert_eq!(other.vector(), replica.vector());
}

/// What arrives in place of a message in a space with members is refused and changes nothing, or the
/// replica goes on with it: it takes part in retirement and collection, writes, and tells others.
pub fn merge(delivery: &Delivery, bytes: &[u8]) {
    let Ok(message) = Message::decode(bytes) else {
        return;
    };
    assert_eq!(message.encode(), bytes, "two encodings of one message");
    for live in [Some(delivery.live), None] {
        let mut replica = delivery.replica.clone();
        replica.set_time(0); // nothing expires
        let before = (replica.clock(), replica.canonical_bytes());
        let merged = replica.merge_live(&message, live, &mut |_| ());
        if merged.is_err() {
            assert_eq!(before, (replica.clock(), replica.canonical_bytes()));
            continue;
        }
        told(&replica);
        let _ = replica.fence_strays();
        let _ = replica.acknowledge();
        let _ = replica.absorb();
        let mut mark = Mark::default();
        let _ = replica.since(&mut mark);
        replica.collect(&mark);
        let _ = replica.add("mine", 1);
        let _ = replica.apply("mine", Op::Delete);
        let _ = replica.leave();
        told(&replica);
    }
}

/// A fresh replica that is told this one's state reads the same, of the same writers.
fn told(replica: &Replica) {
    let bytes = replica.canonical_bytes();
    let state = Message::decode_stored(&bytes).expect("canonical bytes decode");
    let mut other = Replica::new(Space::default(), WriterId::from_bytes([0xdd; 16]));
    other.merge(&state).expect("a full state merges");
    assert_eq!(other.vector(), replica.vector());
    assert_eq!(other.len(), replica.len());
    for (handle, key) in replica.counters() {
        assert_eq!(replica.value_at(handle), other.value(key));
    }
}

/// Brings a message to a replica of a fixed history: two bytes say to whom, the rest is the message.
pub fn delivery(script: &[u8]) {
    static HISTORY: OnceLock<Vec<Delivery>> = OnceLock::new();
    let history = HISTORY.get_or_init(|| deliveries(HISTORY_SEED).expect("the history plays"));
    if let [low, high, bytes @ ..] = script {
        let at = usize::from(u16::from_le_bytes([*low, *high]));
        merge(&history[at % history.len()], bytes);
    }
}

/// The history that [`delivery`] brings messages into.
pub const HISTORY_SEED: u64 = 208;

/// Whatever decodes as a frame means just these bytes.
pub fn frame(bytes: &[u8]) {
    let Ok(frame) = Frame::decode(bytes) else {
        return;
    };
    assert_eq!(frame.encode(), bytes, "two encodings of one frame");
    assert_eq!(frame_space(bytes), Ok(frame.space.as_str()));
}

/// A fresh replica that is told this one's state has the same state.
fn replayed(replica: &Replica) {
    let bytes = replica.canonical_bytes();
    let state = Message::decode_stored(&bytes).expect("canonical bytes decode");
    let mut other = Replica::new(Space::default(), WriterId::from_bytes([0xdd; 16]));
    other.merge(&state).expect("a full state merges");
    assert_eq!(other.canonical_bytes(), bytes);
    for (handle, key) in replica.counters() {
        assert_eq!(replica.value_at(handle), other.value(key));
    }
}

const PEERS: u32 = 2;

/// The replica and the machine under attack.
struct Victim {
    replica: Replica,
    sync: Sync,
    now: Millis,
    /// Since it had its present id.
    adds: u64,
    renewals: u64,
    links: [Option<Link>; PEERS as usize],
    next_link: u32,
}

impl Victim {
    fn input(&mut self, input: Input<'_>) {
        self.sync.handle(self.now, &mut self.replica, input);
        let mut count = 0;
        while let Some(output) = self.sync.poll() {
            count += 1;
            match output {
                Output::Send { bytes, .. } | Output::Broadcast { bytes } => {
                    let frame = Frame::decode(&bytes).expect("a frame of ours decodes");
                    assert_eq!(frame.encode(), bytes);
                }
                Output::Changed { handle } => {
                    assert!(self.replica.value_at(handle).is_some());
                }
                Output::Refused { close, .. } => {
                    // As the holder of the machine is told to.
                    if let Some(link) = close {
                        self.links.iter_mut().for_each(|open| {
                            open.take_if(|open| *open == link);
                        });
                        let link = Input::Disconnected { link };
                        self.sync.handle(self.now, &mut self.replica, link);
                    }
                }
                Output::Renew => {
                    let id = u128::from(self.next_link) << 64 | u128::from(self.renewals);
                    let writer = WriterId::from_bytes(id.to_be_bytes());
                    self.renewals += 1;
                    self.adds = 0;
                    let renew = Input::Renew { writer };
                    self.sync.handle(self.now, &mut self.replica, renew);
                    assert_eq!(self.replica.writer(), writer);
                }
                Output::Merged { .. } | Output::Returned(_) => {}
            }
        }
        assert!(count < 200_000, "one input made {count} outputs");
        assert_eq!(self.replica.clock(), self.adds, "a peer moved the clock");
    }

    fn connect(&mut self, peer: usize, broadcast: bool) {
        self.next_link += 1;
        let link = Link(self.next_link);
        if let Some(link) = self.links[peer].replace(link) {
            self.input(Input::Disconnected { link });
        }
        self.input(Input::Connected { link, broadcast });
    }

    fn frame(&mut self, peer: usize, bytes: &[u8]) {
        if let Some(link) = self.links[peer] {
            self.input(Input::Frame { link, bytes });
        }
    }

    fn tick(&mut self, after: Millis) {
        self.now += after;
        self.input(Input::Tick);
        let deadline = self.sync.next_deadline();
        assert!(deadline.is_none_or(|at| at > self.now), "a tick left work");
    }
}

/// Feeds the sync machine from hostile peers. The bytes are a script: a command, then what it
/// takes; see the commands below.
pub fn peer(script: &[u8]) {
    let config = SyncConfig {
        push_delay_ms: 1,
        ..SyncConfig::default()
    };
    let mut victim = Victim {
        replica: Replica::new(Space::default(), WriterId::from_bytes([0xee; 16])),
        sync: Sync::new(config, 7),
        now: 1,
        adds: 0,
        renewals: 0,
        links: [None; PEERS as usize],
        next_link: 0,
    };
    let mut rest = script;
    for _ in 0..256 {
        let Some((&command, after)) = rest.split_first() else {
            break;
        };
        rest = after;
        let peer = usize::from(command >> 7);
        match command & 0x7f {
            // A frame: two bytes of length, then the frame.
            0..=31 => {
                let bytes = sized(&mut rest);
                victim.frame(peer, bytes);
            }
            // A frame behind a proper head: its type, two bytes of length, the body.
            32..=63 => {
                let kind = command & 7;
                let mut bytes = b"tm\x01".to_vec();
                bytes.extend_from_slice(&[kind, 7]);
                bytes.extend_from_slice(b"default");
                bytes.extend_from_slice(sized(&mut rest));
                victim.frame(peer, &bytes);
            }
            64..=79 => {
                let from = victim.links[peer];
                let bytes = sized(&mut rest);
                victim.input(Input::Broadcast { from, bytes });
            }
            80..=95 => victim.connect(peer, command & 1 == 1),
            96..=103 => {
                if let Some(link) = victim.links[peer].take() {
                    victim.input(Input::Disconnected { link });
                }
            }
            104..=111 => victim.tick(1 << (command & 15)),
            _ => {
                let key = ["a", "b", "counter:00001"][usize::from(command) % 3];
                if victim.replica.add(key, i64::from(command)).is_ok() {
                    victim.adds += 1;
                }
                victim.input(Input::Changed);
            }
        }
    }
    replayed(&victim.replica);
    assert!(victim.replica.delta(&victim.replica.vector()).is_empty());
    assert_eq!(
        victim.replica.vector().get(&victim.replica.writer()),
        victim.adds
    );
    assert!(victim.replica.vector().covers(&VersionVector::default()));
}

/// As many bytes as the first two say, or what is left.
fn sized<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let (low, high) = match *rest {
        [low, high, ..] => (*low, *high),
        _ => return std::mem::take(rest),
    };
    let len = usize::from(u16::from_le_bytes([low, high]));
    let (head, tail) = rest[2..].split_at(len.min(rest.len() - 2));
    *rest = tail;
    head
}

/// Changes some bytes, as a fuzzer would.
pub fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..random.range(1, 4) {
        let at = random.index(bytes.len() + 1);
        match random.below(7) {
            0 => bytes.insert(at, random.next_u64() as u8),
            1 => bytes.truncate(bytes.len().saturating_sub(random.index(4))),
            2 => {
                let piece: Vec<u8> = bytes[at..].iter().copied().take(random.index(20)).collect();
                let to = random.index(bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
            _ if at == bytes.len() => {}
            3 => bytes[at] = random.next_u64() as u8,
            4 => bytes[at] ^= 1 << random.below(8),
            5 => bytes[at] = *random.pick(&[0, 1, 2, 0x7f, 0x80, 0xff]),
            _ => drop(bytes.remove(at)),
        }
    }
}

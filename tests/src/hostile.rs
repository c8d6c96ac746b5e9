//! Entry points for hostile bytes: the fuzz targets, the corpus and seeded noise all call these.
//!
//! Each panics if a promise is broken.

mod member;
mod victim;

pub use member::{answers_to, member, sessions};

use crate::closed::{Delivery, deliveries};
use crate::random::Random;
use std::sync::OnceLock;
use tallymesh_core::wire::{AuditAnswer, AuditQuestion, Frame};
use tallymesh_core::{
    Encode, Mark, Message, Op, Replica, Space, SyncConfig, SyncMachine, Token, VersionVector,
    WriterId, frame_space,
};
use victim::Victim;

/// Checks bytes that decode as a message: they are its only encoding, and a replica can merge it and send it
/// on.
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

/// Checks bytes that decode as a stored record. They are its only encoding, and an empty replica that
/// restores the record stores the same state again.
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

/// Brings hostile bytes in place of a message into a space with members. The replica rejects them and does
/// not change, or it goes on with them. Then it must still retire, collect, write, and send its state to
/// others.
pub fn merge(delivery: &Delivery, bytes: &[u8]) {
    let Ok(message) = Message::decode(bytes) else {
        return;
    };
    assert_eq!(message.encode(), bytes, "two encodings of one message");
    for live in [Some(delivery.live), None] {
        let mut replica = delivery.replica.clone();
        replica.set_time(0); // nothing expires
        let state = |replica: &Replica| {
            let known = (replica.clock(), replica.keyed().count());
            (known, replica.keyed().vector(), replica.canonical_bytes())
        };
        let before = state(&replica);
        let merged = replica.merge_with(&message, live, &mut |_| ());
        if merged.is_err() {
            assert_eq!(before, state(&replica));
            continue;
        }
        told(&replica);
        let _ = replica.keyed_mut().withdraw(&mut |_, _| ());
        told(&replica);
        let _ = replica.members_mut().fence_strays();
        let _ = replica.members_mut().acknowledge();
        let _ = replica.members_mut().retire();
        let mut mark = Mark::default();
        let _ = replica.since(&mut mark);
        replica.members_mut().collect(&mark);
        let _ = replica.add("mine", 1);
        let _ = replica.apply("mine", Op::Delete);
        let _ = replica.members_mut().leave();
        told(&replica);
    }
}

/// Checks that a fresh replica that merges this one's state reads the same, and has the same writers.
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

/// Brings a message to a replica of a fixed history. Two bytes choose the replica, and the rest is the
/// message.
pub fn delivery(script: &[u8]) {
    static HISTORY: OnceLock<Vec<Delivery>> = OnceLock::new();
    let history = HISTORY.get_or_init(|| deliveries(HISTORY_SEED).expect("the history plays"));
    if let [low, high, bytes @ ..] = script {
        let at = usize::from(u16::from_le_bytes([*low, *high]));
        merge(&history[at % history.len()], bytes);
    }
}

/// The history that [`delivery`] brings messages into.
pub const HISTORY_SEED: u64 = 2900;

/// Checks that bytes that decode as a frame are its only encoding.
pub fn frame(bytes: &[u8]) {
    let Ok(frame) = Frame::decode(bytes) else {
        return;
    };
    assert_eq!(frame.encode(), bytes, "two encodings of one frame");
    assert_eq!(frame_space(bytes), Ok(frame.space.as_str()));
}

/// Checks that bytes that decode as a question or an answer of an audit are its only encoding.
pub fn audit(bytes: &[u8]) {
    if let Ok(question) = AuditQuestion::decode(bytes) {
        assert_eq!(question.encode(), bytes, "two encodings of one question");
    }
    if let Ok(answer) = AuditAnswer::decode(bytes) {
        assert_eq!(answer.encode(), bytes, "two encodings of one answer");
    }
}

/// Checks that a text that parses as a token is the token's only text.
pub fn token(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    match text.parse::<Token>() {
        Ok(token) => assert_eq!(token.to_string(), text, "two texts of one token"),
        Err(error) => assert_eq!(error.code(), "token"),
    }
}

/// Checks that a fresh replica that restores this one's state has the same state.
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

/// Feeds the sync machine of an open space from hostile peers. The bytes are a script, as
/// `Victim::play` reads it.
pub fn peer(script: &[u8]) {
    let config = SyncConfig {
        push_delay_ms: 1,
        ..SyncConfig::default()
    };
    let replica = Replica::new(Space::default(), WriterId::from_bytes([0xee; 16]));
    let mut victim = Victim::new(replica, SyncMachine::new(config, 7), None);
    victim.play(script);
    replayed(&victim.replica);
    assert!(victim.replica.delta(&victim.replica.vector()).is_empty());
    assert!(victim.replica.vector().covers(&VersionVector::default()));
}

/// The next part of `rest`: its first two bytes are the size, and a size beyond the end is cut to the end.
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

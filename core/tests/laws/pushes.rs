//! Pushes of fresh changes: small, and yet never seen without what they build on.

use crate::support::{full, observer, replica, space};
use tallymesh_core::wire::{Body, Frame, Hello, VERSION};
use tallymesh_core::{
    Error, Input, Link, Message, Millis, Missing, Output, Replica, Sync, SyncConfig,
};
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// A machine with one greeted link, whose pushes are collected.
struct Pusher {
    replica: Replica,
    sync: Sync,
    now: Millis,
}

impl Pusher {
    fn new() -> Pusher {
        let mut pusher = Pusher {
            replica: replica(1),
            sync: Sync::new(SyncConfig::default(), 3),
            now: 0,
        };
        let link = Link(1);
        let hello = Body::Hello(Hello {
            version_min: VERSION,
            version_max: VERSION,
            capabilities: 0,
            session: 1,
            agent: String::new(),
            nonce: [0; 16],
            proof: Vec::new(),
            digest: pusher.replica.digest(),
        });
        let (space, body) = (space(), hello);
        let bytes = &Frame { space, body }.encode();
        let broadcast = false;
        for input in [
            Input::Connected { link, broadcast },
            Input::Frame { link, bytes },
        ] {
            pusher.sync.handle(0, &mut pusher.replica, input);
        }
        pusher
    }

    fn add(&mut self, key: &str) {
        self.replica.add(key, 1).unwrap();
    }

    /// The push of what was added since the last one.
    fn push(&mut self) -> Message {
        for input in [Input::Changed, Input::Tick] {
            self.sync.handle(self.now, &mut self.replica, input);
            self.now += 10;
        }
        let outputs = std::iter::from_fn(|| self.sync.poll());
        let body = |output| match output {
            Output::Send { bytes, .. } => Some(Frame::decode(&bytes).unwrap().body),
            _ => None,
        };
        let push = outputs.filter_map(body).find_map(|body| match body {
            Body::Push(message) => Some(message),
            _ => None,
        });
        push.unwrap()
    }
}

/// A receiver that has a transaction from elsewhere need not have what was merged after it, even
/// if the push of that transaction was made later.
#[test]
fn a_push_builds_on_what_was_merged_since_the_last_transaction() {
    let mut pusher = Pusher::new();
    let mut other = replica(2);
    other.add("cause", 1).unwrap();
    pusher.add("before");
    let early = full(&pusher.replica);
    pusher.replica.merge(&full(&other)).unwrap();
    let first = pusher.push();
    pusher.add("effect");
    let second = pusher.push();

    let mut receiver = observer();
    receiver.merge(&early).unwrap();
    let missing = Error::NotCovered(Box::new(Missing {
        writer: other.writer(),
        needed: 1,
        held: 0,
    }));
    assert_eq!(receiver.merge(&second), Err(missing));
    receiver.merge(&full(&other)).unwrap();
    receiver.merge(&second).unwrap();
    receiver.merge(&first).unwrap();
    assert_eq!(receiver.canonical_bytes(), pusher.replica.canonical_bytes());
}

/// A push costs what changed, not the number of writers that are known.
#[test]
fn a_push_names_only_what_is_new() {
    let mut pusher = Pusher::new();
    for number in 2..60 {
        let mut other = replica(number);
        other.add("k", 1).unwrap();
        pusher.replica.merge(&full(&other)).unwrap();
    }
    pusher.add("k");
    assert!(pusher.push().encode().len() > 58 * 16);
    pusher.add("k");
    let later = pusher.push().encode().len();
    assert!(later < 40, "{later} bytes");
}

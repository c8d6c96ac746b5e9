//! The sync machine over a link between two: long transfers, interleaved with writes, broken off
//! and taken up again.

use crate::support::{History, Random, cases, replica};
use std::collections::VecDeque;
use tallymesh_core::wire::{Body, Frame};
use tallymesh_core::{Input, Link, Millis, Output, Replica, SyncConfig, SyncMachine};
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

struct Peer {
    replica: Replica,
    sync: SyncMachine,
    inbox: VecDeque<Vec<u8>>,
    /// Frames that came on this link, to come once more.
    past: Vec<Vec<u8>>,
}

/// Two peers and a clock that jumps to the next deadline.
struct Pair {
    peers: [Peer; 2],
    link: Link,
    now: Millis,
    /// Deltas that were delivered, and how many of them completed a transfer.
    chunks: usize,
    commits: usize,
    first_chunks: usize,
}

impl Pair {
    fn new(random: &mut Random) -> Pair {
        let mut peer = |number| Peer {
            replica: replica(number),
            sync: SyncMachine::new(SyncConfig::default(), random.next()),
            inbox: VecDeque::new(),
            past: Vec::new(),
        };
        let peers = [peer(1), peer(2)];
        Pair {
            peers,
            link: Link(0),
            now: 1,
            chunks: 0,
            commits: 0,
            first_chunks: 0,
        }
    }

    fn input(&mut self, at: usize, input: Input<'_>) {
        let peer = &mut self.peers[at];
        peer.sync.handle(self.now, &mut peer.replica, input);
        while let Some(output) = self.peers[at].sync.poll() {
            match output {
                Output::Send { bytes, .. } => self.peers[1 - at].inbox.push_back(bytes.to_vec()),
                Output::Refused { error, .. } => panic!("{error}"),
                _ => {}
            }
        }
    }

    fn connect(&mut self) {
        self.link.0 += 1;
        for at in 0..2 {
            let link = self.link;
            let broadcast = false;
            self.input(at, Input::Connected { link, broadcast });
        }
    }

    fn disconnect(&mut self) {
        for at in 0..2 {
            self.input(at, Input::Disconnected { link: self.link });
            self.peers[at].inbox.clear();
            self.peers[at].past.clear();
        }
    }

    /// Delivers one frame to `at`; false if there is none.
    fn deliver(&mut self, at: usize) -> bool {
        let Some(bytes) = self.peers[at].inbox.pop_front() else {
            return false;
        };
        let frame = Frame::decode(&bytes).unwrap();
        if let Body::Delta(delta) = &frame.body {
            self.chunks += 1;
            self.first_chunks += usize::from(delta.chunk == 0 && !delta.last);
            self.commits += usize::from(delta.last);
        }
        let link = self.link;
        self.input(
            at,
            Input::Frame {
                link,
                bytes: &bytes,
            },
        );
        if !matches!(frame.body, Body::Hello(_)) {
            self.peers[at].past.push(bytes);
        }
        true
    }

    /// Delivers a frame that was delivered before.
    fn repeat(&mut self, at: usize, random: &mut Random) {
        if !self.peers[at].past.is_empty() {
            let bytes = random.pick(&self.peers[at].past).clone();
            let link = self.link;
            self.input(
                at,
                Input::Frame {
                    link,
                    bytes: &bytes,
                },
            );
        }
    }

    fn tick(&mut self, after: Millis) {
        self.now += after;
        for at in 0..2 {
            self.input(at, Input::Tick);
        }
    }

    fn settle(&mut self) {
        let end = self.now + 30_000;
        while self.now < end {
            while self.deliver(0) || self.deliver(1) {}
            self.tick(100);
        }
    }
}

/// Keys so long that some hundred shards fill a chunk.
fn long_key(at: usize) -> String {
    format!("{at:04}{}", "long".repeat(60))
}

#[test]
fn a_long_transfer_brings_all_that_is_said_of_writers() {
    cases(3, |random| {
        let mut pair = Pair::new(random);
        for at in 0..2_000 {
            pair.peers[0].replica.add(&long_key(at), 1).unwrap();
        }
        pair.peers[0]
            .replica
            .members_mut()
            .found(&[7; 32], &[1; 16], 1)
            .unwrap();
        pair.connect();
        pair.settle();
        assert!(pair.first_chunks > 0, "more than one chunk");
        let [from, to] = &pair.peers;
        assert_eq!(
            to.replica.members().configuration(),
            from.replica.members().configuration()
        );
        assert!(to.replica.members().configuration().is_some());
    });
}

#[test]
fn a_long_transfer_shows_nothing_until_it_is_whole() {
    cases(40, |random| {
        let mut pair = Pair::new(random);
        let mut history = History::default();
        let count = 1500 + random.below(500);
        for at in 0..count {
            history.add(&mut pair.peers[0].replica, &long_key(at), at as i64);
        }
        history.add(&mut pair.peers[1].replica, "mine", 1);
        pair.connect();
        let mut breaks = 0;
        let mut resumed = 0;
        for step in 0..400 {
            let at = step % 2;
            if random.chance(20) {
                pair.repeat(at, random);
            }
            if !pair.deliver(at) && pair.peers[1 - at].inbox.is_empty() {
                break;
            }
            // Writes overwrite what was sent already and what is yet to come, at both ends.
            for _ in 0..random.below(4) {
                let key = long_key(random.below(count));
                let writer = random.below(2);
                history.add(&mut pair.peers[writer].replica, &key, 7);
                pair.input(writer, Input::Changed);
            }
            if random.chance(20) {
                pair.tick(3);
            }
            if pair.chunks > 2 && pair.commits == 0 && breaks < 2 && random.chance(20) {
                breaks += 1;
                resumed += usize::from(pair.first_chunks > 0);
                pair.disconnect();
                pair.connect();
            }
            for peer in &pair.peers {
                history.check(&peer.replica);
            }
        }
        assert!(pair.chunks > 3, "{} chunks", pair.chunks);
        if resumed > 0 {
            assert_eq!(pair.first_chunks, 1, "a broken transfer began again");
        }
        pair.settle();
        let [a, b] = &pair.peers;
        history.check(&a.replica);
        assert_eq!(a.replica.vector().len(), 2);
        assert_eq!(a.replica.canonical_bytes(), b.replica.canonical_bytes());
    });
}

/// One chunk is lost, and the first one comes again late: the transfer goes on where it was.
#[test]
fn a_lost_or_late_chunk_does_not_begin_the_transfer_again() {
    cases(4, |random| {
        let mut pair = Pair::new(random);
        for at in 0..3000 {
            pair.peers[0].replica.add(&long_key(at), 1).unwrap();
        }
        pair.connect();
        while pair.chunks < 3 {
            pair.deliver(0);
            pair.deliver(1);
        }
        let is_first = |bytes: &Vec<u8>| match Frame::decode(bytes).unwrap().body {
            Body::Delta(delta) => delta.chunk == 0,
            _ => false,
        };
        let first = pair.peers[1].past.iter().find(|b| is_first(b)).cloned();
        let (link, bytes) = (pair.link, &first.unwrap());
        pair.input(1, Input::Frame { link, bytes });
        while pair.deliver(0) {}
        assert!(!pair.peers[1].inbox.is_empty());
        pair.peers[1].inbox.clear();
        pair.tick(1 + Millis::from(SyncConfig::default().pull_timeout_ms));
        pair.settle();
        assert_eq!(pair.peers[1].replica.len(), 3000);
        assert_eq!(pair.first_chunks, 1, "the transfer began again");
    });
}

/// Idle peers exchange digests only: as many bytes for a thousand counters as for one.
#[test]
fn idle_peers_exchange_digests() {
    for count in [1, 1000] {
        cases(1, |random| {
            let mut pair = Pair::new(random);
            for at in 0..count {
                let key = long_key(at);
                pair.peers[at % 2].replica.add(&key, 1).unwrap();
            }
            pair.connect();
            pair.settle();
            let sent = |pair: &Pair| {
                let links = pair.peers[0].sync.links().chain(pair.peers[1].sync.links());
                links.map(|status| status.bytes_out).sum::<u64>()
            };
            let before = sent(&pair);
            pair.settle();
            assert_eq!(pair.peers[0].replica.len(), count);
            assert_eq!(pair.peers[1].replica.len(), count);
            // Two ends, 30 s, at most a digest each 2.5 s, of 16 bytes, a name and a head.
            let idle = sent(&pair) - before;
            assert!(idle > 0 && idle <= 2 * 12 * 32, "{idle} bytes");
        });
    }
}

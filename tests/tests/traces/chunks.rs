//! Transactions while a large state is arriving in chunks, through the sync machine.

use crate::play::Play;
use std::collections::VecDeque;
use tallymesh_core::Op::Add;
use tallymesh_core::wire::{Body, Frame};
use tallymesh_core::{Input, Link, Output, SyncConfig, SyncMachine};

const LINK: Link = Link(1);
/// Counters with such long keys that they fill several chunks.
const COUNT: usize = 3_000;

/// Two replicas of a history with a link between them.
struct Wire {
    play: Play,
    machines: [SyncMachine; 2],
    /// Frames on their way to each replica.
    inboxes: [VecDeque<Vec<u8>>; 2],
    /// Chunks that replica 1 has received. `commits` counts those that completed a transfer.
    chunks: usize,
    commits: usize,
}

impl Wire {
    fn input(&mut self, at: usize, input: Input<'_>) {
        let machine = &mut self.machines[at];
        self.play
            .with(at, |replica| machine.handle(1, replica, input));
        while let Some(output) = machine.poll() {
            match output {
                Output::Send { bytes, .. } => self.inboxes[1 - at].push_back(bytes.to_vec()),
                Output::Refused { error, .. } => panic!("replica {at}: {error}"),
                _ => {}
            }
        }
    }

    /// Delivers a frame to each replica. Returns false if there is none.
    fn step(&mut self) -> bool {
        let mut any = false;
        for at in 0..2 {
            let Some(bytes) = self.inboxes[at].pop_front() else {
                continue;
            };
            any = true;
            let frame = Frame::decode(&bytes).expect("a frame of ours decodes");
            if let (1, Body::Delta(delta)) = (at, frame.body) {
                self.chunks += 1;
                self.commits += usize::from(delta.last);
            }
            let (link, bytes) = (LINK, bytes.as_slice());
            self.input(at, Input::Frame { link, bytes });
        }
        any
    }

    /// Moves an amount at replica 0, and notifies its machine.
    fn transfer(&mut self, from: usize, to: usize, amount: i64) {
        self.play
            .transact(0, &[(from, Add(-amount)), (to, Add(amount))]);
        self.input(0, Input::Changed);
    }
}

/// The oracle checks at every frame that each replica has a causal cut. A receiver that showed a chunk before
/// the transfer is complete would show half a transaction.
#[test]
fn no_chunk_shows_a_transaction_by_half() {
    let names: Vec<String> = (0..COUNT)
        .map(|at| format!("{at:04}{}", "long".repeat(60)))
        .collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut play = Play::new(2, &keys);
    let all: Vec<_> = (0..COUNT).map(|key| (key, Add(0))).collect();
    play.transact(0, &all);
    let machine = |seed| SyncMachine::new(SyncConfig::default(), seed);
    let mut wire = Wire {
        play,
        machines: [machine(1), machine(2)],
        inboxes: Default::default(),
        chunks: 0,
        commits: 0,
    };
    let (first, middle, last) = (0, COUNT / 2, COUNT - 1);
    wire.transfer(first, last, 5);
    for at in 0..2 {
        let (link, broadcast) = (LINK, false);
        wire.input(at, Input::Connected { link, broadcast });
    }
    let mut written = 0;
    while wire.step() {
        let (play, shown) = (&wire.play, wire.play.value_of(1, first));
        assert_eq!(shown.is_some(), wire.commits > 0, "before the last chunk");
        let sum = |key| play.value_of(1, key).unwrap_or(0);
        assert_eq!(sum(first) + sum(middle) + sum(last), 0);
        // Overwrites a part that was sent, a part that is still to be sent, or both.
        if wire.chunks > written && wire.commits == 0 {
            written = wire.chunks;
            match written % 3 {
                0 => wire.transfer(first, last, 7),
                1 => wire.transfer(last, first, 11),
                _ => wire.transfer(middle, first, 13),
            }
        }
    }
    assert!(wire.chunks > 4, "only {} chunks", wire.chunks);
    assert!(wire.commits > 0 && written > 3);
    let state = wire.play.state(0);
    wire.play.gets(1, &state);
    assert_eq!(wire.play.bytes(0), wire.play.bytes(1));
}

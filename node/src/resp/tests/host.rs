//! A host around real replicas.

use crate::resp::{Event, Facts, Handles, Host, Seen, Sizes, Written};
use tallymesh_core::{Asked, Handle, Replica, Space, WriterId};

/// The wall clock that tests begin at.
pub(crate) const NOW: u64 = 1_000_000;

/// A node without anything around it.
pub(crate) struct Node {
    pub(crate) replicas: Vec<Replica>,
    pub(crate) now: u64,
    pub(crate) random: u64,
    pub(crate) generation: u16,
    pub(crate) holders: usize,
    pub(crate) wrote: Vec<(usize, String, Event)>,
    /// How often it heard of a transaction that changed nothing.
    pub(crate) made: usize,
    /// What became of commands under keys.
    pub(crate) keyed: Vec<Asked>,
    pub(crate) asked: Vec<Written>,
}

impl Node {
    pub(crate) fn new() -> Node {
        let names = ["first", "second"];
        let replica = |(at, name): (usize, &str)| {
            let space = Space::new(name).expect("a good name");
            let writer = WriterId::mint(&space, &[7; 32], &[at as u8; 16]);
            let mut replica = Replica::new(space, writer);
            replica.set_time(NOW);
            replica
        };
        Node {
            replicas: names.into_iter().enumerate().map(replica).collect(),
            now: NOW,
            random: 1,
            generation: 0,
            holders: 0,
            wrote: Vec::new(),
            made: 0,
            keyed: Vec::new(),
            asked: Vec::new(),
        }
    }

    pub(crate) fn set_time(&mut self, now: u64) {
        self.now = now;
        for replica in &mut self.replicas {
            replica.set_time(now);
        }
    }

    /// Another replica of the first space, as its own writer.
    pub(crate) fn other(&self) -> Replica {
        let space = self.replicas[0].space().clone();
        let mut other = Replica::new(space.clone(), WriterId::mint(&space, &[8; 32], &[9; 16]));
        other.set_time(self.now);
        other
    }

    /// What has been told of changed counters since this was last asked.
    pub(crate) fn told(&mut self) -> Vec<String> {
        let told = std::mem::take(&mut self.wrote);
        let told = told
            .into_iter()
            .map(|(space, key, event)| format!("{space} {key} {}", event.name()));
        told.collect()
    }
}

impl Host for Node {
    fn spaces(&self) -> usize {
        self.replicas.len()
    }

    fn space_name(&self, space: usize) -> &str {
        self.replicas[space].space().as_str()
    }

    fn replica(&mut self, space: usize) -> &mut Replica {
        &mut self.replicas[space]
    }

    fn wrote(&mut self, space: usize, changed: Handle, event: Event) {
        let key = self.replicas[space].key(changed).expect("a known counter");
        self.wrote.push((space, key.to_owned(), event));
    }

    fn made(&mut self, _: usize) {
        self.made += 1;
    }

    fn asked(&mut self, _: usize, asked: Asked) {
        self.keyed.push(asked);
    }

    fn sizes(&self, space: usize) -> Sizes {
        let replica = &self.replicas[space];
        let expiring = replica
            .counters()
            .filter(|(counter, _)| replica.expiry_at(*counter).is_some());
        Sizes {
            counters: replica.len(),
            expiring: expiring.count(),
        }
    }

    fn handles(&self, space: usize) -> Handles {
        let numbers = self.replicas[space]
            .counters()
            .map(|(counter, _)| counter.as_u32() + 1);
        Handles {
            end: numbers.max().unwrap_or(0),
            generation: self.generation,
        }
    }

    fn unix_ms(&self) -> u64 {
        self.now
    }

    fn random(&mut self) -> u64 {
        random(&mut self.random)
    }

    fn holders(&mut self, writes: &[Written]) -> usize {
        self.asked = writes.to_vec();
        self.holders
    }

    fn facts(&self) -> Facts {
        Facts {
            version: "0.1.0".to_owned(),
            port: 6379,
            connections: 2,
            ..Facts::default()
        }
    }

    fn seen(&self, session: u64) -> Seen {
        Seen {
            peer: format!("127.0.0.1:{session}"),
            local: "127.0.0.1:6379".to_owned(),
            age_s: 3,
            idle_s: 0,
        }
    }

    fn others(&self, take: &mut dyn FnMut(u64, &str)) {
        take(3, "id=3 addr=127.0.0.1:3 flags=P\n");
    }
}

/// SplitMix64.
pub(crate) fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

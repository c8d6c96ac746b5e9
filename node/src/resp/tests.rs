//! A host around real replicas, and transcripts: what is sent, and what is answered to the byte.

mod clients;
mod commands;
mod connections;
mod framing;
mod model;
mod pubsub;
mod refusals;
mod scan;
mod transactions;

use super::*;
use std::sync::Arc;
use tallymesh_core::{Space, WriterId};

/// The wall clock that tests begin at.
const NOW: u64 = 1_000_000;

/// A node without anything around it.
struct Node {
    replicas: Vec<Replica>,
    now: u64,
    random: u64,
    generation: u16,
    holders: usize,
    wrote: Vec<(usize, String, Event)>,
    asked: Vec<Written>,
}

impl Node {
    fn new() -> Node {
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
            asked: Vec::new(),
        }
    }

    fn set_time(&mut self, now: u64) {
        self.now = now;
        for replica in &mut self.replicas {
            replica.set_time(now);
        }
    }

    /// Another replica of the first space, as its own writer.
    fn other(&self) -> Replica {
        let space = self.replicas[0].space().clone();
        let mut other = Replica::new(space.clone(), WriterId::mint(&space, &[8; 32], &[9; 16]));
        other.set_time(self.now);
        other
    }

    /// What has been told of changed counters since this was last asked.
    fn told(&mut self) -> Vec<String> {
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

/// How many seeds are to be run: `TALLYMESH_SEEDS`, or so many.
fn seeds(default: u64) -> u64 {
    let wanted = std::env::var("TALLYMESH_SEEDS").ok();
    wanted.map_or(default, |wanted| wanted.parse().expect("a number"))
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A session at a node.
struct Client {
    session: Session,
    node: Node,
}

impl Client {
    fn new(config: RespConfig) -> Client {
        Client {
            session: Session::new(7, Arc::new(config)),
            node: Node::new(),
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> (Vec<u8>, Flow) {
        let mut out = Vec::new();
        let flow = self.session.feed(bytes, &mut self.node, &mut out);
        (out, flow)
    }

    /// Sends one command, its arguments apart by blanks, and returns the reply as [`show`]n.
    fn send(&mut self, command: &str) -> String {
        show(&self.feed(&request(command)).0)
    }
}

/// A command as clients send it. `''` is an empty argument, `_` in an argument stays one.
fn request(command: &str) -> Vec<u8> {
    let args: Vec<&str> = command
        .split(' ')
        .map(|arg| if arg == "''" { "" } else { arg })
        .collect();
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend(format!("${}\r\n{arg}\r\n", arg.len()).bytes());
    }
    bytes
}

/// Bytes for people: `|` is the end of a line.
fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "|")
}

/// What is sent, what RESP2 answers, and what RESP3 answers if that is something else.
type Row = (&'static str, &'static str, &'static str);

/// Plays a transcript in both versions of the protocol.
fn play(config: &RespConfig, rows: &[Row]) {
    for resp3 in [false, true] {
        let mut client = Client::new(config.clone());
        client.session.resp3 = resp3;
        for (sent, two, three) in rows {
            let wanted = if resp3 && !three.is_empty() {
                three
            } else {
                two
            };
            let answer = client.send(sent);
            assert_eq!(&answer, wanted, "to {sent}, RESP3: {resp3}");
        }
    }
}

/// As [`play`], where both versions answer the same and nothing is configured.
fn play_same(rows: &[(&'static str, &'static str)]) {
    let rows: Vec<Row> = rows
        .iter()
        .map(|(sent, answer)| (*sent, *answer, ""))
        .collect();
    play(&RespConfig::default(), &rows);
}

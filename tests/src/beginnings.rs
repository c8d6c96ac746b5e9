//! How a space gets its members: replicas that have counted already, all linked and quick, of which
//! one founds and makes the others members, one right after the other.

use crate::random::Random;
use std::collections::VecDeque;
use tallymesh_core::wire::Frame;
use tallymesh_core::{
    Input, Link, Mark, Output, Owner, Replica, Space, Sync, SyncConfig, WriterId,
};

const NODES: usize = 3;
/// How soon and how often a node does its duties, in milliseconds.
const TEND_SOON_MS: u64 = 50;
const TEND_MS: u64 = 1_000;
/// How long a change of the members may take: two and a half intervals of the digests by which the last
/// hears of what it missed.
const DECIDED_MS: u64 = 12_500;
/// By then all show all.
const SETTLED_MS: u64 = 60_000;

struct Peer {
    replica: Replica,
    sync: Sync,
    mark: Mark,
    owner: Owner,
    nonce: [u8; 16],
    tended: u64,
    tend_due: u64,
}

/// What is under way from one to another, in order: when it arrives, and whether it is a broadcast.
type Way = VecDeque<(u64, bool, Vec<u8>)>;

struct World {
    random: Random,
    traced: bool,
    now: u64,
    slow: u64,
    peers: Vec<Peer>,
    /// By whence and whither; links first, then broadcasts.
    ways: Vec<Way>,
}

/// Plays one seed; tells how long it took until all were members.
///
/// # Errors
/// Says what went wrong.
pub fn run(seed: u64, traced: bool) -> Result<u64, String> {
    let mut random = Random::new(seed ^ 0xbe61);
    let slow = *random.pick(&[1, 3, 20]);
    let mut world = World {
        random,
        traced,
        now: 0,
        slow,
        peers: Vec::new(),
        ways: vec![Way::new(); 2 * NODES * NODES],
    };
    let played = world.play();
    played.map_err(|error| format!("seed {seed}: {error}"))
}

/// The link of two, which both know by one number.
fn link(a: usize, b: usize) -> Link {
    Link((a + b) as u32)
}

impl World {
    fn play(&mut self) -> Result<u64, String> {
        for at in 0..NODES {
            let (owner, nonce) = ([at as u8 + 1; 32], self.random.bytes());
            let writer = WriterId::mint(&Space::default(), &owner, &nonce);
            let config = SyncConfig {
                owner: Some(owner),
                ..SyncConfig::default()
            };
            self.peers.push(Peer {
                replica: Replica::new(Space::default(), writer),
                sync: Sync::new(config, self.random.next_u64()),
                mark: Mark::default(),
                owner,
                nonce,
                tended: 0,
                tend_due: 0,
            });
        }
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            for at in [a, b] {
                let (link, broadcast) = (link(a, b), true);
                self.handle(at, Input::Connected { link, broadcast });
            }
        }
        let mut sum = 0;
        for at in 0..NODES {
            if self.random.chance(500) {
                sum += 1 << at;
                let added = self.peers[at].replica.add("likes", 1 << at);
                added.map_err(|error| error.to_string())?;
                self.handle(at, Input::Changed);
            }
        }
        let wait = self.random.below(3 * self.slow + 2);
        self.pass(wait)?;
        let Peer {
            replica,
            owner,
            nonce,
            ..
        } = &mut self.peers[0];
        let founded = replica.found(owner, nonce, 1);
        founded.map_err(|error| error.to_string())?;
        self.handle(0, Input::Changed);
        let begun = self.now;
        for members in 2..=NODES {
            let owners: Vec<Owner> = self.peers[..members].iter().map(|it| it.owner).collect();
            let wait = self.random.below(3);
            self.pass(wait)?;
            while self.members(0) < members {
                // One that had to come back itself has lost what it proposed, and is asked again.
                if self.peers[0].replica.proposal().is_none() && self.peers[0].replica.is_member() {
                    let proposed = self.peers[0].replica.propose_members(&owners);
                    proposed.map_err(|error| error.to_string())?;
                    self.handle(0, Input::Changed);
                }
                self.pass(1)?;
                if self.now > begun + DECIDED_MS {
                    return Err(format!("{members} members are not decided"));
                }
            }
        }
        let took = self.now - begun;
        while !self.is_settled(sum) {
            self.pass(1)?;
            if self.now > begun + SETTLED_MS {
                let shown: Vec<_> = self
                    .peers
                    .iter()
                    .map(|it| it.replica.value("likes"))
                    .collect();
                return Err(format!("{shown:?} is shown of {sum}"));
            }
        }
        Ok(took)
    }

    fn members(&self, at: usize) -> usize {
        let members = self.peers[at].replica.configuration();
        members.map_or(0, |it| it.members.len())
    }

    fn is_settled(&self, sum: i128) -> bool {
        let shown = |it: &Peer| it.replica.value("likes").unwrap_or(0);
        let all = |at: usize| self.members(at) == NODES && shown(&self.peers[at]) == sum;
        (0..NODES).all(all)
    }

    /// Lets so many milliseconds pass.
    fn pass(&mut self, ms: u64) -> Result<(), String> {
        for _ in 0..ms {
            self.now += 1;
            for way in 0..self.ways.len() {
                while self.ways[way].front().is_some_and(|it| it.0 <= self.now) {
                    let (_, broadcast, bytes) = self.ways[way].pop_front().expect("it is there");
                    let (from, to) = (way / 2 / NODES, way / 2 % NODES);
                    let (link, bytes) = (link(from, to), bytes.as_slice());
                    let input = match broadcast {
                        true => Input::Broadcast {
                            from: Some(link),
                            bytes,
                        },
                        false => Input::Frame { link, bytes },
                    };
                    self.handle(to, input);
                    self.tend_soon(to);
                }
            }
            for at in 0..NODES {
                self.tend(at)?;
                let due = self.peers[at].sync.next_deadline();
                if due.is_some_and(|due| due <= self.now) {
                    self.handle(at, Input::Tick);
                }
            }
        }
        Ok(())
    }

    fn tend_soon(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        let soon = (peer.tended + TEND_SOON_MS).max(self.now);
        peer.tend_due = peer.tend_due.min(soon);
    }

    fn tend(&mut self, at: usize) -> Result<(), String> {
        self.take_part(at);
        let now = self.now;
        let peer = &mut self.peers[at];
        if peer.replica.configuration().is_none() || peer.tend_due > now {
            return Ok(());
        }
        (peer.tended, peer.tend_due) = (now, now + TEND_MS);
        let tended = peer.sync.tend(now, &mut peer.replica, &peer.mark);
        tended.map_err(|error| format!("{at} tends: {error}"))?;
        self.handle(at, Input::Changed);
        Ok(())
    }

    /// Announces a member's start, as a node does.
    fn take_part(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        let members = peer.replica.configuration();
        let named = members.is_some_and(|it| it.has(&peer.owner));
        if named && !peer.replica.is_announced() && peer.sync.has_caught_up(&peer.replica) {
            let announced = peer.replica.announce(&peer.owner, &peer.nonce, 1);
            announced.expect("it is a member");
            peer.tend_due = 0;
            self.handle(at, Input::Changed);
        }
    }

    /// Hands something in, makes durable what changed, and does what is to be done.
    fn handle(&mut self, at: usize, input: Input<'_>) {
        let peer = &mut self.peers[at];
        peer.sync.handle(self.now, &mut peer.replica, input);
        let _ = peer.replica.since(&mut peer.mark);
        while let Some(output) = self.peers[at].sync.poll() {
            match output {
                Output::Send { link, bytes } => self.send(at, link.0 as usize - at, false, bytes),
                Output::Broadcast { bytes } => {
                    for to in (0..NODES).filter(|to| *to != at) {
                        self.send(at, to, true, bytes.clone());
                    }
                }
                Output::Renew => {
                    let peer = &mut self.peers[at];
                    peer.nonce = self.random.bytes();
                    let writer = WriterId::mint(&Space::default(), &peer.owner, &peer.nonce);
                    self.trace(|| format!("{at} goes on as {writer}"));
                    self.handle(at, Input::Renew { writer });
                    self.take_part(at);
                }
                Output::Refused { close, error } => {
                    self.trace(|| format!("{at} refuses, closes {close:?}: {error}"));
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, from: usize, to: usize, broadcast: bool, bytes: Vec<u8>) {
        // A broadcast goes over others, too.
        let most = if broadcast { 3 * self.slow } else { self.slow };
        let late = self.random.below(most + 1);
        let way = &self.ways[2 * (from * NODES + to) + usize::from(broadcast)];
        let after = way.back().map_or(0, |it| it.0);
        let arrives = (self.now + late).max(after);
        self.trace(|| {
            let body = Frame::decode(&bytes).map(|frame| frame.body);
            format!("{from} to {to}, at {arrives}, broadcast {broadcast}: {body:?}")
        });
        let way = &mut self.ways[2 * (from * NODES + to) + usize::from(broadcast)];
        way.push_back((arrives, broadcast, bytes));
    }

    fn trace(&self, text: impl FnOnce() -> String) {
        if self.traced {
            eprintln!("{} {}", self.now, text());
        }
    }
}

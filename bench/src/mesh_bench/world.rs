//! A simulated mesh: each node is a replica with its sync machine, as in a real one. What stands between
//! them, that is links, gossip, processors and what libp2p adds to bytes, is modelled, by constants that
//! were measured.

use super::converge::{PAUSE_MS, PAUSE_SPREAD_MS, RATE, STEADY_KEYS};
use super::guest::{key, writer};
use super::overlay::Overlay;
use crate::random::Random;
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::ops::Sub;
use std::rc::Rc;
use tallymesh_core::{
    Input, Link, Millis, Output, Replica, Space, SyncConfig, SyncMachine, VersionVector,
};

/// A time in microseconds.
type Micros = u64;

const SECOND: Micros = 1_000_000;

/// What gossipsub tells those that it does not send a push: each second, to up to six of them, the
/// names of what came within three seconds. Bytes of such a message, and of each name.
const TOLD_TO: usize = 6;
const TELLINGS: u64 = 3;
const TELLING_BYTES: u64 = 36;
const NAME_BYTES: u64 = 22;

/// A round that takes longer shows a fault.
const ROUND_MAX: Micros = 120 * SECOND;

/// What stands between nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// How long a message is under way on a link: that of each link is between these.
    pub(super) way: (Micros, Micros),
    /// How many processors all nodes share; `None` if each has its own.
    pub(super) cores: Option<usize>,
    /// How long a processor works on a message that came.
    pub(super) work: Micros,
}

/// What was sent, by all nodes together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    /// Frames from node to node.
    pub(super) frames: u64,
    pub(super) frame_bytes: u64,
    /// Pushes, and how often they were sent.
    pub(super) pushes: u64,
    pub(super) push_bytes: u64,
    pub(super) copies: u64,
    pub(super) copy_bytes: u64,
    /// What gossip tells beside.
    pub(super) told_bytes: u64,
}

impl Sub for Sent {
    type Output = Sent;

    fn sub(self, before: Sent) -> Sent {
        Sent {
            frames: self.frames - before.frames,
            frame_bytes: self.frame_bytes - before.frame_bytes,
            pushes: self.pushes - before.pushes,
            push_bytes: self.push_bytes - before.push_bytes,
            copies: self.copies - before.copies,
            copy_bytes: self.copy_bytes - before.copy_bytes,
            told_bytes: self.told_bytes - before.told_bytes,
        }
    }
}

/// What came of changes that were timed, in milliseconds.
#[derive(Default)]
pub(super) struct Rounds {
    pub(super) changes: usize,
    pub(super) each: Vec<f64>,
    pub(super) last: Vec<f64>,
    pub(super) seconds: f64,
    pub(super) sent: Sent,
}

struct Node {
    replica: Replica,
    sync: SyncMachine,
    tick_at: Option<Millis>,
    /// Shards that it received in this round.
    heard: usize,
    /// Up to which second gossip has told something.
    telling: u64,
}

enum Message {
    Frame(Link, Rc<[u8]>),
    /// A push by its number, and who passed it on.
    Copy(usize, usize),
}

enum Event {
    Tick(usize),
    Arrived(usize, Message),
    /// A processor has come to it.
    Taken(usize, Message),
}

/// The mesh.
pub(super) struct World {
    place: Place,
    pub(super) overlay: Overlay,
    /// How long the way of a link is, by its number; both ends have one.
    ways: Vec<Micros>,
    /// The numbers of a node's links, in the order of the overlay.
    numbers: Vec<Vec<u32>>,
    /// The ends of each link.
    ends: Vec<[usize; 2]>,
    nodes: Vec<Node>,
    events: BTreeMap<(Micros, u64), Event>,
    next_event: u64,
    now: Micros,
    /// When each processor is free.
    free: Vec<Micros>,
    /// The pushes, and a bit for each node that had it.
    pushes: Vec<(Rc<[u8]>, Vec<u64>)>,
    sent: Sent,
    random: Random,
}

impl World {
    /// A mesh of so many nodes that have exchanged hellos, each of which has counted once.
    /// All hold that already: that they all count at once is no part of how they go on.
    pub(super) fn new(nodes: usize, place: Place, seed: u64) -> Result<World> {
        let mut random = Random::new(seed);
        let overlay = Overlay::new(nodes, &mut random);
        let mut world = World {
            place,
            ways: Vec::new(),
            numbers: vec![Vec::new(); nodes],
            ends: Vec::new(),
            nodes: Vec::new(),
            events: BTreeMap::new(),
            next_event: 0,
            now: SECOND,
            free: vec![0; place.cores.unwrap_or(nodes)],
            pushes: Vec::new(),
            sent: Sent::default(),
            overlay,
            random,
        };
        for number in 0..nodes {
            let seed = world.random.next();
            world.nodes.push(Node {
                replica: Replica::new(Space::default(), writer(number as u64)),
                sync: SyncMachine::new(SyncConfig::default(), seed),
                tick_at: None,
                heard: 0,
                telling: 0,
            });
        }
        world.count_once()?;
        world.link();
        world.play(world.now + 20 * SECOND);
        Ok(world)
    }

    /// Each node counts, before there are links, and has received the counts of all others.
    fn count_once(&mut self) -> Result<()> {
        let mut all = Replica::new(Space::default(), writer(self.nodes.len() as u64));
        let nothing = VersionVector::default();
        for (at, node) in self.nodes.iter_mut().enumerate() {
            node.replica.add(&format!("told:{at}"), 1)?;
            all.merge(&node.replica.delta(&nothing))?;
        }
        let state = all.delta(&nothing);
        for at in 0..self.nodes.len() {
            self.nodes[at].replica.merge(&state)?;
            self.input(at, Input::Changed);
        }
        // Who has no link tells nobody.
        self.play(self.now + SECOND);
        Ok(())
    }

    /// Opens all links.
    fn link(&mut self) {
        for node in 0..self.nodes.len() {
            for other in self.overlay.links[node].clone() {
                let known = (other < node).then(|| {
                    let at = self.overlay.links[other].iter().position(|it| *it == node);
                    self.numbers[other][at.unwrap_or_default()]
                });
                let number = known.unwrap_or_else(|| {
                    let (least, most) = self.place.way;
                    let way = least + self.random.next() % (most - least + 1);
                    self.ways.push(way);
                    self.ends.push([node, other]);
                    self.ends.len() as u32 - 1
                });
                self.numbers[node].push(number);
            }
        }
        for node in 0..self.nodes.len() {
            for link in self.numbers[node].clone() {
                let (link, broadcast) = (Link(link), true);
                self.input(node, Input::Connected { link, broadcast });
            }
        }
    }

    /// Lets so much time go by, and says what is sent in it.
    pub(super) fn idle(&mut self, seconds: u64) -> Sent {
        let before = self.sent;
        self.play(self.now + seconds * SECOND);
        self.sent - before
    }

    /// So many rounds: one node by chance counts, or all of them do at once.
    pub(super) fn rounds(&mut self, rounds: usize, all: bool) -> Result<Rounds> {
        let (begun, before) = (self.now, self.sent);
        let mut found = Rounds::default();
        for _ in 0..rounds {
            let pause = PAUSE_MS * 1_000 + self.random.below(PAUSE_SPREAD_MS * 1_000);
            self.play(self.now + pause as Micros);
            let writers: Vec<usize> = match all {
                true => (0..self.nodes.len()).collect(),
                false => vec![self.random.below(self.nodes.len())],
            };
            let times = self.round(&writers)?;
            found.changes += writers.len();
            found.last.push(times.iter().copied().fold(0.0, f64::max));
            found.each.extend(times);
        }
        found.seconds = (self.now - begun) as f64 / SECOND as f64;
        found.sent = self.sent - before;
        Ok(found)
    }

    /// These nodes count; milliseconds until each node had all that it lacked.
    fn round(&mut self, writers: &[usize]) -> Result<Vec<f64>> {
        let begun = self.now;
        for node in &mut self.nodes {
            node.heard = 0;
        }
        for &at in writers {
            self.nodes[at].replica.add(&format!("told:{at}"), 1)?;
            self.input(at, Input::Changed);
        }
        let mut lacks: Vec<usize> = vec![writers.len(); self.nodes.len()];
        writers.iter().for_each(|at| lacks[*at] -= 1);
        let lacking = lacks.iter().filter(|lacks| **lacks > 0).count();
        let mut times = Vec::with_capacity(lacking);
        while times.len() < lacking {
            let Some(at) = self.step() else {
                bail!("nothing is left to be done, and not all nodes have heard all");
            };
            if self.now > begun + ROUND_MAX {
                bail!("only {} of {lacking} nodes have heard all", times.len());
            }
            if lacks[at] > 0 && self.nodes[at].heard >= lacks[at] {
                lacks[at] = 0;
                times.push((self.now - begun) as f64 / 1e3);
            }
        }
        Ok(times)
    }

    /// Changes at [`RATE`] for so many seconds, each at a node by chance.
    pub(super) fn steady(&mut self, seconds: u64) -> Result<Sent> {
        let before = self.sent;
        for _ in 0..seconds * u64::from(RATE) {
            let at = self.random.below(self.nodes.len());
            let key = key(self.random.below(STEADY_KEYS));
            self.nodes[at].replica.add(&key, 1)?;
            self.input(at, Input::Changed);
            self.play(self.now + SECOND / u64::from(RATE));
        }
        Ok(self.sent - before)
    }

    fn at(&mut self, when: Micros, event: Event) {
        self.events.insert((when, self.next_event), event);
        self.next_event += 1;
    }

    fn play(&mut self, until: Micros) {
        while let Some((&(when, _), _)) = self.events.first_key_value()
            && when <= until
        {
            self.step();
        }
        self.now = until;
    }

    /// The next event, and at which node it was.
    fn step(&mut self) -> Option<usize> {
        let ((when, _), event) = self.events.pop_first()?;
        self.now = when;
        Some(match event {
            Event::Tick(at) => {
                if self.nodes[at]
                    .tick_at
                    .is_some_and(|due| due * 1_000 <= when)
                {
                    self.nodes[at].tick_at = None;
                    self.input(at, Input::Tick);
                }
                at
            }
            Event::Arrived(at, message) => {
                // The processor that is free first takes it.
                let mut core = at;
                if self.place.cores.is_some() {
                    let cores = 0..self.free.len();
                    core = cores.min_by_key(|core| self.free[*core]).unwrap_or(0);
                }
                let done = self.free[core].max(when) + self.place.work;
                self.free[core] = done;
                self.at(done, Event::Taken(at, message));
                at
            }
            Event::Taken(at, Message::Frame(link, bytes)) => {
                let bytes = &bytes;
                self.input(at, Input::Frame { link, bytes });
                at
            }
            Event::Taken(at, Message::Copy(push, from)) => {
                self.copy(at, push, from);
                at
            }
        })
    }

    /// A push came. What is new is passed on, and handed over.
    fn copy(&mut self, at: usize, push: usize, from: usize) {
        let (bytes, had) = &mut self.pushes[push];
        let (word, bit) = (&mut had[at / 64], 1 << (at % 64));
        if *word & bit > 0 {
            return;
        }
        *word |= bit;
        let bytes = bytes.clone();
        for other in self.overlay.gossip[at].clone() {
            if other != from {
                self.pass(at, other, push);
            }
        }
        self.tell(at);
        let from = self.link_to(at, from);
        self.input(
            at,
            Input::Broadcast {
                from,
                bytes: &bytes,
            },
        );
    }

    /// Gossip tells those that it sends no pushes what it has.
    fn tell(&mut self, at: usize) {
        let others = self.overlay.links[at].len() - self.overlay.gossip[at].len();
        let others = others.min(TOLD_TO) as u64;
        let second = self.now / SECOND;
        let node = &mut self.nodes[at];
        let messages = second + TELLINGS - node.telling.max(second);
        node.telling = second + TELLINGS;
        self.sent.told_bytes += others * (messages * TELLING_BYTES + TELLINGS * NAME_BYTES);
    }

    fn pass(&mut self, from: usize, to: usize, push: usize) {
        self.sent.copies += 1;
        self.sent.copy_bytes += self.pushes[push].0.len() as u64;
        if let Some(Link(link)) = self.link_to(from, to) {
            let arrives = self.now + self.ways[link as usize];
            self.at(arrives, Event::Arrived(to, Message::Copy(push, from)));
        }
    }

    fn link_to(&self, from: usize, to: usize) -> Option<Link> {
        let at = self.overlay.links[from].iter().position(|it| *it == to)?;
        Some(Link(self.numbers[from][at]))
    }

    /// Hands an input to a node, and does what comes of it.
    fn input(&mut self, at: usize, input: Input<'_>) {
        let node = &mut self.nodes[at];
        node.sync.handle(self.now / 1_000, &mut node.replica, input);
        while let Some(output) = self.nodes[at].sync.poll() {
            match output {
                Output::Send { link, bytes } => {
                    self.sent.frames += 1;
                    self.sent.frame_bytes += bytes.len() as u64;
                    let [one, other] = self.ends[link.0 as usize];
                    let to = if one == at { other } else { one };
                    let arrives = self.now + self.ways[link.0 as usize];
                    self.at(
                        arrives,
                        Event::Arrived(to, Message::Frame(link, bytes[..].into())),
                    );
                }
                Output::Broadcast { bytes } => self.publish(at, bytes.into()),
                Output::Merged { shards, .. } if shards > 0 => {
                    self.nodes[at].heard += shards;
                }
                _ => {}
            }
        }
        let node = &mut self.nodes[at];
        let due = node.sync.next_deadline();
        if let Some(due) = due.filter(|due| node.tick_at.is_none_or(|at| *due < at)) {
            node.tick_at = Some(due);
            self.at(self.now.max(due * 1_000), Event::Tick(at));
        }
    }

    /// Whoever makes a push sends it on all of its links.
    fn publish(&mut self, at: usize, bytes: Rc<[u8]>) {
        self.sent.pushes += 1;
        self.sent.push_bytes += bytes.len() as u64;
        let mut had = vec![0; self.nodes.len().div_ceil(64)];
        had[at / 64] = 1 << (at % 64);
        let push = self.pushes.len();
        self.pushes.push((bytes, had));
        for other in self.overlay.links[at].clone() {
            self.pass(at, other, push);
        }
        self.tell(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place {
        way: (1_000, 2_000),
        cores: None,
        work: 10,
    };

    fn world(nodes: usize) -> World {
        World::new(nodes, PLACE, 1).expect("a mesh")
    }

    #[test]
    fn what_idle_nodes_send_follows_their_links_alone() {
        for nodes in [3, 40] {
            let sent = world(nodes).idle(60);
            // Twelve digests a minute from each end of a link, give or take what chance does.
            let ends = world(nodes).overlay.degree() * nodes as f64;
            let each = sent.frames as f64 / ends;
            assert!((10.0..14.0).contains(&each), "{nodes}: {each}");
            assert_eq!(sent.frame_bytes, sent.frames * 36, "{nodes}");
            assert_eq!(sent.pushes, 0, "{nodes}");
        }
    }

    #[test]
    fn a_change_is_one_push_that_all_nodes_hear_of_once_at_least() {
        let mut world = world(30);
        let found = world.rounds(5, false).expect("rounds");
        assert_eq!((found.sent.pushes, found.each.len()), (5, 5 * 29));
        // Nobody receives it before the push waited for more and went over a link.
        let least = found.each.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(least >= 5.0, "{least}");
        assert!(found.sent.copies >= 5 * 29, "{}", found.sent.copies);
        let all = world.rounds(1, true).expect("a round");
        assert_eq!((all.changes, all.each.len()), (30, 30));
    }

    #[test]
    fn a_seed_gives_the_same_figures_again() {
        let run = || world(20).steady(5).expect("changes");
        let (one, two) = (run(), run());
        assert_eq!(format!("{one:?}"), format!("{two:?}"));
        assert_eq!(one.pushes, 5 * u64::from(RATE));
    }
}

//! The deterministic simulator: replicas with the core's sync machine on a network that breaks.
//!
//! A run has two phases. First everything breaks: frames are lost, repeated, reordered and delayed;
//! links close, are cut in one direction or both, and open again; replicas crash and lose what they
//! had not flushed; disks lose flushes that they acknowledged, go back to a backup, are empty or a
//! copy of another's; tabs come and go; wall clocks are wrong, and jump. After every step every read at the replica that changed is
//! compared with the [oracle](crate::oracle). Then all is healed and writing stops, and the
//! replicas must converge: equal bytes everywhere, the oracle's values, nothing lost that was
//! flushed, within [`bound`].
//!
//! Persist before publish is modelled as the sync machine's contract asks: outputs are taken only
//! after the replica was flushed, at once or some time later.
//!
//! A run follows from its seed alone.

mod net;
mod node;
mod profile;
mod write;

pub use profile::{Carrier, LONG_EVERY, Profile};

use crate::oracle::{Oracle, Seen};
use crate::random::Random;
use net::Net;
use node::Node;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tallymesh_core::wire::{Body, Frame};
use tallymesh_core::{Error, Input, Link, Millis, Output, Sync};

/// How long a transport takes to find out that a peer does not greet.
const HANDSHAKE_MS: Millis = 1_000;
/// Longest time from the end of the trouble until every replica runs, every dead link is closed
/// and every link is open.
const MEND_MS: Millis = 2 * HANDSHAKE_MS + 500;
/// Longest time that a frame is under way once the trouble is over.
const CALM_DELAY_MS: Millis = 20;
/// More events than any run needs: a run that reaches it goes round in circles.
const STEPS_MAX: u64 = 5_000_000;

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Events handled.
    pub steps: u64,
    /// Operations issued.
    pub ops: u64,
    /// Operations that crashes took back.
    pub lost_ops: u64,
    /// Transactions of several operations.
    pub transactions: u64,
    /// Transactions that did nothing, or had to be refused.
    pub idle_writes: u64,
    /// Expiries that a replica materialised.
    pub expiries: u64,
    /// Frames sent.
    pub frames: u64,
    /// Bytes of frames sent.
    pub bytes: u64,
    /// Chunks sent that did not complete a transfer.
    pub chunks: u64,
    /// Frames lost.
    pub drops: u64,
    /// Frames repeated.
    pub repeats: u64,
    /// Links closed.
    pub closes: u64,
    /// Links cut, in one direction or both.
    pub cuts: u64,
    /// Replicas crashed or gone.
    pub crashes: u64,
    /// Disks that were not what they had been.
    pub betrayals: u64,
    /// Frames that were very late.
    pub stragglers: u64,
    /// Virtual time from the end of the trouble to convergence.
    pub converged_ms: u64,
    /// What it was allowed to take.
    pub bound_ms: u64,
}

impl Figures {
    /// Adds another run's figures; of the times the longest stay.
    pub fn add(&mut self, other: &Figures) {
        self.steps += other.steps;
        self.ops += other.ops;
        self.lost_ops += other.lost_ops;
        self.transactions += other.transactions;
        self.idle_writes += other.idle_writes;
        self.expiries += other.expiries;
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.chunks += other.chunks;
        self.drops += other.drops;
        self.repeats += other.repeats;
        self.closes += other.closes;
        self.cuts += other.cuts;
        self.crashes += other.crashes;
        self.betrayals += other.betrayals;
        self.stragglers += other.stragglers;
        if other.converged_ms * self.bound_ms.max(1) >= self.converged_ms * other.bound_ms {
            self.converged_ms = other.converged_ms;
            self.bound_ms = other.bound_ms;
        }
    }
}

/// Runs a seed.
///
/// # Errors
/// What went wrong, with the seed and the profile.
pub fn run(seed: u64, trace: bool) -> Result<Figures, String> {
    let profile = Profile::of(seed, &mut Random::new(seed));
    let shape = format!(
        "{} durable, {} tabs, {}, {:?}, broadcast {}, {} keys",
        profile.durable,
        profile.tabs,
        profile.shape,
        profile.carrier,
        profile.broadcast,
        profile.keys.len()
    );
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut sim = Sim::new(profile, seed, trace);
        sim.run()
            .map_err(|error| format!("{} ms: {error}", sim.now))
    }));
    let failure = match outcome {
        Ok(Ok(figures)) => return Ok(figures),
        Ok(Err(failure)) => failure,
        Err(panic) => match panic.downcast_ref::<String>() {
            Some(text) => format!("panicked: {text}"),
            None => format!("panicked: {:?}", panic.downcast_ref::<&str>()),
        },
    };
    Err(format!("TALLYMESH_SEED={seed} ({shape})\n  {failure}\n"))
}

/// The longest time, in virtual milliseconds, from the end of the trouble to convergence.
///
/// First the network mends and whatever waits for a lost answer times out. Then, within one and a
/// half intervals, each link carries a digest in each direction, so whatever one end has is being
/// pulled by the other. What is pulled is announced at once, so from then on it spreads a hop in
/// the time of a push delay, a digest, and the pulls that the receiver has before it: one for each
/// of its links, of so many chunks, a round trip each. Late frames of the time of trouble come
/// before all of that.
pub fn bound(profile: &Profile) -> Millis {
    let sync = &profile.sync;
    let late = profile.delay_max + profile.flush_delay_max;
    let waits = MEND_MS.max(Millis::from(sync.pull_timeout_ms)) + late;
    let interval = Millis::from(sync.interval_ms) * 3 / 2;
    let state: usize = profile.keys.iter().map(|key| key.len() + 60).sum();
    let chunks = 2 + state / tallymesh_core::limits::CHUNK_BYTES_TARGET;
    let trip = 2 * (CALM_DELAY_MS + profile.flush_delay_max);
    let pulls = (profile.degree() * chunks) as Millis * trip;
    let hop = Millis::from(sync.push_delay_ms) + trip + pulls;
    waits + interval + (1 + profile.diameter()) as Millis * hop
}

/// What happens at a time.
enum Event {
    Write,
    /// Replicas with a disk look for expiries that have passed.
    Materialize,
    Fault,
    Start(usize),
    Tick(usize, u32),
    Flush(usize, u32),
    Frame {
        conn: u32,
        end: usize,
        bytes: Vec<u8>,
    },
    Gossip {
        to: usize,
        from: Option<Link>,
        bytes: Vec<u8>,
    },
    Open(usize),
    /// The end of a connection finds out that it is closed.
    Close {
        conn: u32,
        end: usize,
    },
    Handshake(u32),
    Mend(usize),
    Heal,
}

struct Sim {
    profile: Profile,
    random: Random,
    oracle: Oracle,
    nodes: Vec<Node>,
    net: Net,
    events: BTreeMap<(Millis, u64), Event>,
    next_event: u64,
    now: Millis,
    trouble: bool,
    /// When the trouble ends.
    heal_at: Millis,
    /// Operations that were acknowledged by a replica with a disk.
    acknowledged: Seen,
    figures: Figures,
    /// Only digests may be sent from now on.
    idle: bool,
    trace: bool,
}

impl Sim {
    fn new(profile: Profile, seed: u64, trace: bool) -> Sim {
        let mut random = Random::new(seed ^ 0x5eed_5eed_5eed_5eed);
        let nodes = (0..profile.replicas())
            .map(|at| Node::new(at < profile.durable, profile.skew(&mut random)));
        Sim {
            nodes: nodes.collect(),
            oracle: Oracle::new(profile.keys.clone()),
            net: Net::new(profile.edges.clone()),
            profile,
            random,
            events: BTreeMap::new(),
            next_event: 0,
            now: 1_000,
            trouble: true,
            heal_at: 0,
            acknowledged: Seen::default(),
            figures: Figures::default(),
            idle: false,
            trace,
        }
    }

    fn at(&mut self, when: Millis, event: Event) {
        self.events.insert((when, self.next_event), event);
        self.next_event += 1;
    }

    fn after(&mut self, least: Millis, most: Millis, event: Event) {
        let delay = self.random.range(least, most);
        self.at(self.now + delay, event);
    }

    fn run(&mut self) -> Result<Figures, String> {
        let start = self.now;
        self.heal_at = start + self.profile.trouble;
        for node in 0..self.nodes.len() {
            self.start(node)?;
        }
        for key in 0..self.profile.initial_writes {
            self.add(0, key)?;
        }
        self.after(0, 100, Event::Write);
        self.after(0, 2 * self.profile.materialize_every, Event::Materialize);
        self.after(0, 2 * self.profile.fault_every, Event::Fault);
        self.at(self.heal_at, Event::Heal);
        self.play(start + self.profile.trouble + 1, false)?;
        let healed = self.now;
        let expected = self.expected();
        let bound = bound(&self.profile);
        self.figures.bound_ms = bound;
        if !self.play(healed + bound, true)? {
            return Err(self.divergence(bound));
        }
        self.figures.converged_ms = self.now - healed;
        self.check_end(&expected)?;
        if self.random.chance(300) {
            // Late frames and pending pulls may still cause traffic; after that there is none.
            self.play(self.now + bound, false)?;
            self.idle = true;
            let interval = Millis::from(self.profile.sync.interval_ms);
            self.play(self.now + 3 * interval, false)?;
            self.check_end(&expected)?;
        }
        self.figures.ops = self.oracle.op_count() as u64;
        self.figures.lost_ops = self.oracle.lost_count() as u64;
        Ok(self.figures)
    }

    /// Plays until a time, or until the replicas have converged, and tells whether they have.
    fn play(&mut self, until: Millis, converge: bool) -> Result<bool, String> {
        let mut look_at = self.now;
        while let Some((&(when, _), _)) = self.events.first_key_value() {
            if converge && when >= look_at {
                if self.converged() {
                    return Ok(true);
                }
                look_at = when + 10;
            }
            if when > until {
                break;
            }
            let Some((_, event)) = self.events.pop_first() else {
                break;
            };
            self.now = when;
            self.figures.steps += 1;
            if self.figures.steps > STEPS_MAX {
                return Err(format!("no end after {STEPS_MAX} steps"));
            }
            self.step(event)?;
        }
        self.now = self.now.max(until);
        Ok(false)
    }

    fn step(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Write | Event::Materialize if !self.trouble => Ok(()),
            Event::Write => self.write(),
            Event::Materialize => self.materialize(),
            Event::Fault if !self.trouble => Ok(()),
            Event::Fault => {
                let every = self.profile.fault_every;
                self.after(0, 2 * every, Event::Fault);
                self.fault();
                Ok(())
            }
            Event::Start(node) => match self.nodes[node].alive {
                true => Ok(()),
                false => self.start(node),
            },
            Event::Tick(node, epoch) => {
                if self.lives(node, epoch) && self.nodes[node].tick_at == Some(self.now) {
                    self.nodes[node].tick_at = None;
                    return self.input(node, Input::Tick);
                }
                Ok(())
            }
            Event::Flush(node, epoch) => match self.lives(node, epoch) {
                true => self.flush(node),
                false => Ok(()),
            },
            Event::Frame { conn, end, bytes } => match self.net.receiver(conn, end) {
                Some(node) => {
                    let (link, bytes) = (Link(conn), &bytes);
                    self.input(node, Input::Frame { link, bytes })
                }
                None => Ok(()),
            },
            Event::Gossip { to, from, bytes } => match self.nodes[to].alive {
                true => {
                    let bytes = &bytes;
                    self.input(to, Input::Broadcast { from, bytes })
                }
                false => Ok(()),
            },
            Event::Open(edge) => self.open(edge),
            Event::Close { conn, end } => self.closed(conn, end),
            Event::Handshake(conn) => {
                self.time_out_handshake(conn);
                Ok(())
            }
            Event::Mend(edge) => {
                self.net.edges[edge].cut = [false; 2];
                Ok(())
            }
            Event::Heal => {
                self.heal();
                Ok(())
            }
        }
    }

    fn lives(&self, node: usize, epoch: u32) -> bool {
        self.nodes[node].alive && self.nodes[node].epoch == epoch
    }

    fn start(&mut self, node: usize) -> Result<(), String> {
        let nonce = self.random.bytes();
        let sync = Sync::new(self.profile.sync.clone(), self.random.next_u64());
        self.nodes[node].start(&self.oracle, self.now, &nonce, sync)?;
        self.note(|| format!("start {node}"));
        for edge in 0..self.net.edges.len() {
            if self.net.edges[edge].ends.contains(&node) {
                self.after(0, 50, Event::Open(edge));
            }
        }
        Ok(())
    }

    fn crash(&mut self, node: usize) {
        self.note(|| format!("crash {node}"));
        self.figures.crashes += 1;
        self.nodes[node].crash(&mut self.oracle);
        for conn in self.net.conns_of(node) {
            self.close(conn, Some(node));
        }
    }

    /// Hands an input to a replica, compares its reads, and sees to its flush and its next tick.
    fn input(&mut self, at: usize, input: Input<'_>) -> Result<(), String> {
        let node = &mut self.nodes[at];
        node.handle(&self.oracle, self.now, input)
            .map_err(|error| format!("replica {at}: {error}"))?;
        if self.profile.flush_delay_max == 0 {
            return self.flush(at);
        }
        if !node.flush_pending {
            node.flush_pending = true;
            let epoch = node.epoch;
            self.after(0, self.profile.flush_delay_max, Event::Flush(at, epoch));
        }
        Ok(())
    }

    fn flush(&mut self, at: usize) -> Result<(), String> {
        let node = &mut self.nodes[at];
        let outputs = node.flush(&self.oracle);
        let outputs = outputs.map_err(|error| format!("replica {at}: {error}"))?;
        if node.durable {
            self.acknowledged.union(node.flushed.seen());
        }
        if self.random.chance(2) {
            self.nodes[at].compact();
        }
        for output in outputs {
            match output {
                Output::Send { link, bytes } => {
                    self.watch(at, &bytes)?;
                    self.send(link.0, at, bytes);
                }
                Output::Broadcast { bytes } => {
                    self.watch(at, &bytes)?;
                    self.gossip(at, &bytes);
                }
                Output::Refused { close, error } => self.refused(at, close, &error)?,
                Output::Renew => return Err(format!("replica {at} is to renew its id")),
                Output::Changed { .. } | Output::Merged { .. } | Output::Returned(_) => {}
            }
        }
        let node = &mut self.nodes[at];
        if let Some(deadline) = node.sync.next_deadline() {
            let due = deadline.max(self.now + 1);
            if node.tick_at.is_none_or(|at| due < at) {
                node.tick_at = Some(due);
                let epoch = node.epoch;
                self.at(due, Event::Tick(at, epoch));
            }
        }
        Ok(())
    }

    /// Looks at a frame that is sent.
    fn watch(&mut self, from: usize, bytes: &[u8]) -> Result<(), String> {
        let frame = Frame::decode(bytes).map_err(|error| format!("{from} sent: {error}"))?;
        self.figures.frames += 1;
        self.figures.bytes += bytes.len() as u64;
        match &frame.body {
            Body::Delta(delta) if !delta.last => self.figures.chunks += 1,
            Body::Digest(_) => {}
            body if self.idle => return Err(format!("{from} is idle and sent {body:?}")),
            _ => {}
        }
        Ok(())
    }

    /// Datagrams may come before the hello or bring it twice; nothing else may be refused.
    fn refused(&mut self, at: usize, close: Option<Link>, error: &Error) -> Result<(), String> {
        let carrier = self.profile.carrier;
        match (error, close) {
            (Error::Handshake, Some(link)) if carrier == Carrier::Datagrams => {
                self.close(link.0, None);
                Ok(())
            }
            _ => Err(format!("replica {at} refused: {error}")),
        }
    }

    fn note(&self, text: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{:>8} {}", self.now, text());
        }
    }

    fn alive(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.alive)
    }

    fn converged(&self) -> bool {
        if self.nodes[..self.profile.durable].iter().any(|n| !n.alive) {
            return false;
        }
        let digests = || self.alive().map(|node| node.replica.digest());
        let flushed = self.alive().all(Node::is_flushed);
        flushed && digests().zip(digests().skip(1)).all(|(a, b)| a == b)
    }

    /// What must be everywhere in the end: all that was acknowledged, and all that anybody who
    /// lives sees.
    fn expected(&self) -> Seen {
        let mut seen = self.acknowledged.clone();
        for node in self.alive() {
            seen.union(node.view.seen());
        }
        seen
    }

    fn check_end(&self, expected: &Seen) -> Result<(), String> {
        let mut first: Option<&Node> = None;
        for node in self.alive() {
            let seen = node.view.seen();
            if let Some(op) = expected.first_missing_in(seen) {
                return Err(format!("operation {op} is lost"));
            }
            self.oracle.check(&node.view, &node.replica, node.wall)?;
            if node.replica.fault_count() > 0 {
                return Err(format!("a fault: {:?}", node.replica.faults()[0]));
            }
            let first = first.get_or_insert(node);
            if first.view.counters() != node.view.counters() {
                return Err("equal digests and different values".into());
            }
            if first.replica.canonical_bytes() != node.replica.canonical_bytes() {
                return Err("equal digests and different bytes".into());
            }
        }
        Ok(())
    }

    fn divergence(&self, bound: Millis) -> String {
        let mut text = format!("no convergence within {bound} ms:");
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, n)| n.alive) {
            let seen = node.view.seen().len();
            let digest = u32::from_le_bytes(std::array::from_fn(|i| node.replica.digest()[i]));
            let flush = if node.flush_pending { " unflushed" } else { "" };
            text += &format!("\n    replica {at} sees {seen} ({digest:08x}{flush})");
            for status in node.sync.links() {
                let pulls = if status.pulling { " pulling" } else { "" };
                let greeted = status.agent.is_some();
                text += &format!(", link {} greeted {greeted}{pulls}", status.link.0);
            }
        }
        text
    }
}

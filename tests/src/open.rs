//! Scenario: open spaces. Any number of replicas, with and without a disk, write every kind of operation, in
//! a [mesh](crate::sim) of any shape.
//!
//! After every step, every read at the replica that changed is compared with the [oracle](crate::oracle).
//! Once all is healed and the writes have stopped, the replicas must converge within [`bound`]. Then all have
//! equal bytes and the oracle's values, and no acknowledged operation is lost.

mod metrics;
mod profile;
mod shown;
mod write;

pub use metrics::Metrics;
pub use profile::{LONG_EVERY, Profile};

use crate::oracle::{Oracle, Seen, View};
use crate::random::Random;
use crate::sim::{self, Cause, MEND_MS, Mesh, Node, Scenario};
use shown::Shown;
use tallymesh_core::wire::{Body, Frame};
use tallymesh_core::{Input, Link, Millis, Output, WriterId};

/// Longest time of a frame on its way once the trouble is over, in milliseconds.
const CALM_DELAY_MS: Millis = 20;

/// The writes of replicas, and the views that they have.
pub struct Open {
    profile: Profile,
    oracle: Oracle,
    shown: Vec<Shown>,
    /// Operations that a replica with a disk has acknowledged.
    acknowledged: Seen,
    metrics: Metrics,
    /// Whether the writes have stopped.
    over: bool,
    /// Whether only digests may be sent.
    idle: bool,
}

/// A scheduled event of this scenario.
pub enum Event {
    /// A replica writes.
    Write,
    /// Replicas with a disk materialise the expiries that have passed.
    Materialize,
}

type World = Mesh<Open>;

/// Runs a seed.
///
/// # Errors
/// The failure, the seed and the profile, as text.
pub fn run(seed: u64, traced: bool) -> Result<Metrics, String> {
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
    let settings = profile.settings();
    let open = Open {
        oracle: Oracle::new(profile.keys.clone()),
        profile,
        shown: Vec::new(),
        acknowledged: Seen::default(),
        metrics: Metrics::default(),
        over: false,
        idle: false,
    };
    let mesh = Mesh::new(seed, traced, settings, open);
    let played = sim::run(seed, mesh, |mesh| {
        mesh.play_open()?;
        let counts = mesh.counts();
        let own = &mut mesh.own;
        own.metrics.ops = own.oracle.op_count() as u64;
        own.metrics.lost_ops = own.oracle.lost_count() as u64;
        own.metrics.mesh = counts;
        Ok(own.metrics)
    });
    played.map_err(|failure| format!("{failure}\n  ({shape})\n"))
}

/// The longest time, in virtual milliseconds, from the end of the trouble to convergence.
///
/// The bound is the sum of these times:
/// - The late frames of the time of trouble arrive. The network heals, and every wait for a lost answer times
///   out.
/// - Within one and a half intervals, each link carries a digest in each direction. Then each end pulls the
///   changes that the other has.
/// - The receiver announces pulled changes at once, so they spread hop by hop. One hop takes a push delay, a
///   digest, and the pulls that the receiver has before it. These are one pull for each of its links, with a
///   round trip for each chunk.
pub fn bound(profile: &Profile) -> Millis {
    let sync = &profile.sync;
    let late = profile.delay_max + profile.flush_delay_max;
    let waits = MEND_MS.max(Millis::from(sync.pull_timeout_ms)) + late;
    let interval = Millis::from(sync.interval_ms) * 3 / 2;
    let state: usize = profile.keys.iter().map(|key| key.len() + 60).sum();
    let chunks = 2 + state / tallymesh_core::bounds::CHUNK_BYTES_TARGET;
    let trip = 2 * (CALM_DELAY_MS + profile.flush_delay_max);
    let pulls = (profile.degree() * chunks) as Millis * trip;
    let hop = Millis::from(sync.push_delay_ms) + trip + pulls;
    waits + interval + (1 + profile.diameter()) as Millis * hop
}

impl Scenario for Open {
    type Event = Event;
    type Seen = View;
    const ANY_DISK: bool = true;

    fn event(mesh: &mut World, event: Event) -> Result<(), String> {
        match event {
            _ if mesh.own.over => Ok(()),
            Event::Write => mesh.write_some(),
            Event::Materialize => mesh.materialize_some(),
        }
    }

    fn before(mesh: &mut World, at: usize, _: Cause) {
        mesh.look_at_clock(at);
    }

    fn handled(mesh: &mut World, at: usize, _: Cause) -> Result<(), String> {
        let compared = mesh.compare(at);
        compared.map_err(|error| format!("replica {at}: {error}"))
    }

    fn written(mesh: &mut World, at: usize) -> Result<View, String> {
        let it = &mut mesh.own.shown[at];
        it.flushed = it.view.clone();
        if mesh.nodes[at].durable {
            mesh.own.acknowledged.union(it.flushed.seen());
        }
        Ok(it.view.clone())
    }

    fn writes_as(mesh: &mut World, at: usize, _: WriterId, _: [u8; 16]) -> Result<(), String> {
        match mesh.nodes[at].alive && mesh.counts.renewals > 0 {
            true => Err(format!("replica {at} is to renew its id")),
            false => Ok(()),
        }
    }

    fn begins(mesh: &mut World, at: usize) {
        mesh.own.shown.resize_with(mesh.nodes.len(), Shown::default);
        mesh.own.shown[at] = Shown::default();
        mesh.look_at_clock(at);
    }

    fn restored(mesh: &mut World, at: usize, _: &View) -> Result<(), String> {
        mesh.compare_restored(at)
    }

    fn started(mesh: &mut World, at: usize) -> Result<(), String> {
        mesh.begin_showing(at)
    }

    fn ended(mesh: &mut World, at: usize) {
        let (own, it) = (&mut mesh.own, &mesh.nodes[at]);
        let shown = &own.shown[at];
        own.oracle
            .lose(it.replica.writer(), &shown.view, &shown.flushed);
    }

    fn may_put_back(_: &mut World, _: usize) -> bool {
        true
    }

    /// An operation that is on no other disk was lost with this one, even if it was acknowledged. It may
    /// return, because another replica may still have it or receive it.
    fn put_back(mesh: &mut World, at: usize) {
        mesh.own.shown[at].flushed = mesh.nodes[at].disk.seen();
        let mut kept = Seen::default();
        for at in 0..mesh.own.profile.durable {
            kept.union(mesh.own.shown[at].flushed.seen());
        }
        mesh.own.acknowledged.intersect(&kept);
    }

    fn opens(mesh: &World, link: Link, at: usize, other: usize) -> Input<'static> {
        let both_durable = mesh.nodes[at].durable && mesh.nodes[other].durable;
        let broadcast = mesh.own.profile.broadcast && both_durable;
        Input::Connected { link, broadcast }
    }

    fn sends(mesh: &mut World, from: usize, bytes: &[u8]) -> Result<bool, String> {
        let frame = Frame::decode(bytes).map_err(|error| format!("{from} sent: {error}"))?;
        match &frame.body {
            Body::Delta(delta) if !delta.last => mesh.own.metrics.chunks += 1,
            Body::Digest(_) | Body::Position(_) => {}
            body if mesh.own.idle => return Err(format!("{from} is idle and sent {body:?}")),
            _ => {}
        }
        Ok(true)
    }

    fn output(mesh: &mut World, at: usize, output: &Output) -> Result<(), String> {
        mesh.tell_changed(at, output)
    }

    fn look(mesh: &mut World, at: usize) -> Result<(), String> {
        mesh.compare_shown(at)
    }
}

impl World {
    fn play_open(&mut self) -> Result<(), String> {
        for at in 0..self.own.profile.replicas() {
            self.add_node(None, [1; 32])?;
            self.nodes[at].durable = at < self.own.profile.durable;
        }
        for (a, b) in self.own.profile.edges.clone() {
            self.link(a, b);
        }
        for key in 0..self.own.profile.initial_writes {
            self.add(0, key)?;
        }
        self.after((0, 100), Event::Write);
        let every = self.own.profile.materialize_every;
        self.after((0, 2 * every), Event::Materialize);
        self.trouble();
        self.pass(self.own.profile.trouble)?;
        self.own.over = true;
        self.settings.delay_ms = (1, CALM_DELAY_MS);
        let (healed, bound) = (self.now, bound(&self.own.profile));
        let expected = self.expected();
        self.own.metrics.bound_ms = bound;
        if !self.until(bound, World::has_converged)? {
            return Err(format!("no convergence within {bound} ms: {}", self.tell()));
        }
        self.own.metrics.converged_ms = self.now - healed;
        self.check_end(&expected)?;
        if self.random.chance(300) {
            // Late frames and pending pulls may still cause traffic. After this there must be none.
            self.pass(bound)?;
            self.own.idle = true;
            let interval = Millis::from(self.own.profile.sync.interval_ms);
            self.pass(3 * interval)?;
            self.check_end(&expected)?;
        }
        Ok(())
    }

    fn has_converged(&self) -> bool {
        let durable = self.nodes[..self.own.profile.durable].iter();
        if durable.clone().any(|it| !it.alive) {
            return false;
        }
        let flushed = |at: usize| self.is_written(at) && self.own.shown[at].is_flushed();
        let digests = || self.living().map(|it| it.1.replica.digest());
        self.living().all(|it| flushed(it.0))
            && digests().zip(digests().skip(1)).all(|(a, b)| a == b)
    }

    /// The operations that all replicas must have in the end: the acknowledged ones, and those that any
    /// living replica sees.
    fn expected(&self) -> Seen {
        let mut seen = self.own.acknowledged.clone();
        for (at, _) in self.living() {
            seen.union(self.own.shown[at].view.seen());
        }
        seen
    }

    fn check_end(&self, expected: &Seen) -> Result<(), String> {
        let mut first: Option<(&Shown, &Node<View>)> = None;
        for (at, node) in self.living() {
            let shown = &self.own.shown[at];
            if let Some(op) = expected.first_missing_in(shown.view.seen()) {
                return Err(format!("operation {op} is lost"));
            }
            let oracle = &self.own.oracle;
            oracle.check(&shown.view, &node.replica, shown.wall)?;
            if node.replica.forks().fault_count() > 0 {
                return Err(format!("a fault: {:?}", node.replica.forks().faults()[0]));
            }
            let first = first.get_or_insert((shown, node));
            if first.0.view.counters() != shown.view.counters() {
                return Err("equal digests and different values".into());
            }
            if first.1.replica.canonical_bytes() != node.replica.canonical_bytes() {
                return Err("equal digests and different bytes".into());
            }
        }
        Ok(())
    }
}

//! One simulated mesh for all scenarios: replicas with the core's sync machine on a network that breaks.
//!
//! The mesh owns the replicas, their disks and wall clocks, the links, the frames under way, and all
//! that befalls them. A [`Scenario`] brings its clients, its oracle, and faults of its own.
//!
//! # Two phases
//! [`Mesh::trouble`] begins the first phase: everything breaks, by the same mix of [faults](fault) in
//! each scenario, while the oracle checks safety at each step. Then all is healed: no frame is lost any
//! more, cuts end, whoever is down starts. The scenario demands its end state within a budget of virtual
//! time.
//!
//! # Time
//! Time is virtual, and jumps to the next event. A run follows from its seed alone.
//!
//! # Persist before publish
//! After each input the mesh writes what changed to the replica's disk, at once or some time later
//! ([`Trouble::flush_ms`]). Outputs are taken only after that. A crash loses what was not written.

mod disk;
pub mod fault;
mod gossip;
mod net;
mod node;
mod play;
mod scenario;
mod settings;
mod tell;

pub use disk::Disk;
pub use fault::Faults;
pub use net::Cut;
pub use node::Node;
pub use play::run;
pub use scenario::{Cause, Scenario};
pub use settings::{Carrier, Settings, Trouble};

use crate::random::Random;
use crate::trace::Trace;
use net::Net;
use std::collections::BTreeMap;
use tallymesh_core::{Error, Link, Millis, Owner};

/// What wall clocks show at virtual time 0, less what they are ahead: no period begins there.
pub const EPOCH_MS: u64 = 1_800_000_000_123;
/// Longest time from the end of the trouble until every replica runs, every dead link is closed and every
/// link is open, in milliseconds.
pub const MEND_MS: Millis = 2 * net::HANDSHAKE_MS + 500;
/// More events than any run needs: a run that reaches it goes round in circles.
const STEPS_MAX: u64 = 20_000_000;

/// What happened in a mesh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events handled.
    pub steps: u64,
    /// Frames sent.
    pub frames: u64,
    /// Bytes of frames sent.
    pub bytes: u64,
    /// Frames lost.
    pub drops: u64,
    /// Frames repeated.
    pub repeats: u64,
    /// Frames that were very late.
    pub stragglers: u64,
    /// Links closed.
    pub closes: u64,
    /// Links cut, in one direction or both.
    pub cuts: u64,
    /// Processes that ended and began again.
    pub restarts: u64,
    /// Those of them that began from a disk that was not what it had been.
    pub old: u64,
    /// Wall clocks that jumped.
    pub jumps: u64,
    /// Replicas that went on under another writer.
    pub renewals: u64,
    /// The hash of all that replicas said, stored and read; of several runs the sum.
    pub trace: u64,
}

impl Counts {
    /// Adds another run's.
    pub fn add(&mut self, other: &Counts) {
        self.steps += other.steps;
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.drops += other.drops;
        self.repeats += other.repeats;
        self.stragglers += other.stragglers;
        self.closes += other.closes;
        self.cuts += other.cuts;
        self.restarts += other.restarts;
        self.old += other.old;
        self.jumps += other.jumps;
        self.renewals += other.renewals;
        self.trace = self.trace.wrapping_add(other.trace);
    }
}

/// What happens at a time.
enum Event<E> {
    /// The scenario's own.
    Own(E),
    /// The scenario looks after what waits at a replica.
    Look(usize),
    Fault,
    Heal,
    Start(usize),
    Tick(usize, u32),
    Tend(usize, u32),
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
}

/// The simulated mesh.
pub struct Mesh<S: Scenario> {
    /// The scenario.
    pub own: S,
    /// The one source of randomness.
    pub random: Random,
    /// Virtual time, in milliseconds.
    pub now: Millis,
    /// The replicas.
    pub nodes: Vec<Node<S::Seen>>,
    /// How the mesh is.
    pub settings: Settings,
    /// What happened, but for the hash.
    pub counts: Counts,
    /// Whether there is trouble.
    pub troubled: bool,
    /// When the trouble ends.
    heal_at: Millis,
    faults: Faults,
    net: Net,
    events: BTreeMap<(Millis, u64), Event<S::Event>>,
    next_event: u64,
    /// What is to happen once a replica's disk is written.
    promises: Vec<(usize, S::Event)>,
    traced: bool,
    trace: Trace,
}

/// The owner of this number.
pub fn owner(at: usize) -> Owner {
    [at as u8 + 1; 32]
}

/// An error of the core in a failure's text.
pub fn text(error: Error) -> String {
    error.to_string()
}

impl<S: Scenario> Mesh<S> {
    /// A mesh without replicas.
    pub fn new(seed: u64, traced: bool, settings: Settings, own: S) -> Mesh<S> {
        Mesh {
            own,
            random: Random::new(seed ^ 0x5eed_5eed_5eed_5eed),
            now: 1,
            nodes: Vec::new(),
            settings,
            counts: Counts::default(),
            troubled: false,
            heal_at: 0,
            faults: Faults::default(),
            net: Net::default(),
            events: BTreeMap::new(),
            next_event: 0,
            promises: Vec::new(),
            traced,
            trace: Trace::default(),
        }
    }

    /// Has an event of the scenario happen at a time.
    pub fn at(&mut self, when: Millis, event: S::Event) {
        self.schedule(when, Event::Own(event));
    }

    /// Has an event of the scenario happen so many milliseconds from now.
    pub fn after(&mut self, (least, most): (u64, u64), event: S::Event) {
        let wait = self.random.range(least, most);
        self.at(self.now + wait, event);
    }

    /// Has the scenario [look](Scenario::look) after a replica at a time, or before that. It is to say so anew at
    /// each look, as long as somebody waits.
    pub fn look_at(&mut self, when: Millis, at: usize) {
        let when = when.max(self.now);
        let node = &mut self.nodes[at];
        if node.look_at.is_none_or(|due| when < due) {
            node.look_at = Some(when);
            self.schedule(when, Event::Look(at));
        }
    }

    fn schedule(&mut self, when: Millis, event: Event<S::Event>) {
        self.events.insert((when, self.next_event), event);
        self.next_event += 1;
    }

    fn schedule_within(&mut self, least: Millis, most: Millis, event: Event<S::Event>) {
        let wait = self.random.range(least, most);
        self.schedule(self.now + wait, event);
    }

    /// What happened, with the hash of all that replicas said, stored and read, and can read now.
    pub fn counts(&mut self) -> Counts {
        for node in &self.nodes {
            self.trace.reads(&node.replica);
        }
        Counts {
            trace: self.trace.hash(),
            ..self.counts
        }
    }

    /// Tells what happens, if the run is traced.
    pub fn note(&self, text: impl FnOnce() -> String) {
        if self.traced {
            eprintln!("{:>8} {}", self.now, text());
        }
    }
}

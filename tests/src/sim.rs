//! One simulated mesh for all scenarios: replicas with the core's sync machine, on a network that breaks.
//!
//! The mesh owns the replicas, their disks and wall clocks, the links, the frames on their way, and all
//! faults. A [`Scenario`] brings its clients, its oracle, and faults of its own.
//!
//! # Two phases
//! [`Mesh::trouble`] begins the first phase. Everything breaks, by the same mix of [faults](fault) in each
//! scenario, while the oracle checks safety at each step. Then all is healed: no frame is lost any more, cuts
//! end, and stopped processes start. The scenario demands its end state within a budget of virtual time.
//!
//! # Time
//! Time is virtual, and jumps to the next event. A run follows from its seed alone.
//!
//! # Persist before publish
//! After each input the mesh writes the changes to the replica's disk, at once or some time later
//! ([`Trouble::flush_ms`]). It takes the outputs only after that. A crash loses the changes that were not
//! written.

mod disk;
pub mod fault;
mod gossip;
mod net;
mod node;
mod place;
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

/// The time of wall clocks at virtual time 0, without their skew, in milliseconds since 1970. No period
/// begins there.
pub const EPOCH_MS: u64 = 1_800_000_000_123;
/// Longest time from the end of the trouble until every replica runs, every dead link is closed and every
/// link is open, in milliseconds.
pub const MEND_MS: Millis = 2 * net::HANDSHAKE_MS + 500;
/// More events than any run needs. A run that reaches this number is in an endless loop.
const STEPS_MAX: u64 = 20_000_000;

/// Counts of events in a mesh.
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
    /// Frames that arrived very late.
    pub stragglers: u64,
    /// Links closed.
    pub closes: u64,
    /// Links cut, in one direction or both.
    pub cuts: u64,
    /// Processes that ended and began again.
    pub restarts: u64,
    /// Processes that started from a disk with other contents than at their end.
    pub old: u64,
    /// Starts that followed the one before in its place.
    pub in_place: u64,
    /// Wall clocks that jumped.
    pub jumps: u64,
    /// Replicas that went on under another writer.
    pub renewals: u64,
    /// The hash of all that replicas sent, stored and read. For several runs, the sum.
    pub trace: u64,
}

impl Counts {
    /// Adds the counts of another run.
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
        self.in_place += other.in_place;
        self.jumps += other.jumps;
        self.renewals += other.renewals;
        self.trace = self.trace.wrapping_add(other.trace);
    }
}

/// A scheduled event.
enum Event<E> {
    /// An event of the scenario.
    Own(E),
    /// The scenario serves the waiting clients of a replica.
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
    /// One end of a connection notices that it is closed.
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
    /// The settings of the mesh.
    pub settings: Settings,
    /// The counts so far, without the hash.
    pub counts: Counts,
    /// Whether there is trouble.
    pub troubled: bool,
    /// When the trouble ends.
    heal_at: Millis,
    faults: Faults,
    net: Net,
    events: BTreeMap<(Millis, u64), Event<S::Event>>,
    next_event: u64,
    /// Events that are due once a replica's disk is written, each with the replica.
    promises: Vec<(usize, S::Event)>,
    traced: bool,
    trace: Trace,
}

/// The owner of this number.
pub fn owner(at: usize) -> Owner {
    [at as u8 + 1; 32]
}

/// Converts an error of the core to the text of a failure.
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

    /// Schedules an event of the scenario at a time.
    pub fn at(&mut self, when: Millis, event: S::Event) {
        self.schedule(when, Event::Own(event));
    }

    /// Schedules an event of the scenario after a random delay in this range, in milliseconds.
    pub fn after(&mut self, (least, most): (u64, u64), event: S::Event) {
        let wait = self.random.range(least, most);
        self.at(self.now + wait, event);
    }

    /// Schedules a [look](Scenario::look) of the scenario at a replica, at this time or earlier. The scenario
    /// must schedule it again at each look, as long as a client waits.
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

    /// The counts, with the hash of all that replicas sent, stored and read, and can read now.
    pub fn counts(&mut self) -> Counts {
        for node in &self.nodes {
            self.trace.reads(&node.replica);
        }
        Counts {
            trace: self.trace.hash(),
            ..self.counts
        }
    }

    /// Prints an event, if the run is traced.
    pub fn note(&self, text: impl FnOnce() -> String) {
        if self.traced {
            eprintln!("{:>8} {}", self.now, text());
        }
    }
}

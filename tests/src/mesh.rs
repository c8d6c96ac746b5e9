//! Scenario: a space with three members, and guests that come, write, fall silent and return, in a
//! [mesh](crate::sim). There are only adds, so the sum at the end shows whether each counted once.

mod guests;
mod keyed;
mod limited;
mod metrics;
mod stores;

pub use metrics::Metrics;

use crate::random::Random;
use crate::sim::{self, Mesh, Scenario, Settings, Trouble, owner, text};
use keyed::{Keyed, KeyedAnswer};
use tallymesh_core::{Error, Input, Link, Op, Output, Owner, Returned, Role, WriterId};

const MEMBERS: usize = 3;
/// The counters that all add to.
const KEYS: [&str; 3] = ["a", "b", "c"];
/// Milliseconds between two actions.
const STEP_MS: u64 = 20;
/// Guest timeout: how long members wait for a silent guest, in milliseconds.
const LEASE_MS: u32 = 3_000;
/// Longest virtual time until all is in order, in milliseconds.
const SETTLED_MS: u64 = 60_000;

/// An add: its writer, its clock, and its amount.
type Made = (WriterId, u64, i128);

/// A replica's adds and identity, over all its processes.
struct Peer {
    made: Vec<Made>,
    /// The owner of its writers. For a guest with limited rights, this key also decides its role.
    key: Owner,
    role: Option<Role>,
    /// All its writers and their nonces, in runs with limited rights.
    own: Vec<(WriterId, [u8; 16])>,
}

/// The state of this scenario: all peers, and the sums of their adds.
pub struct Guests {
    peers: Vec<Peer>,
    metrics: Metrics,
    /// Sum of the acknowledged adds.
    expected: i128,
    /// Sum of all adds, including those that were lost before their acknowledgement.
    begun: i128,
    /// Sum of the acknowledged adds that may not count, because no replica can tell.
    unknown: i128,
    keyed: Option<Keyed>,
    /// Whether most guests have limited rights.
    limited: bool,
    /// Whether a start of a guest takes over the stores of two guests.
    tabs: bool,
    /// The guest whose disk the next start takes over, besides its own.
    left: Option<usize>,
    restored_at: u64,
    /// Whether the scenario has stopped making changes.
    over: bool,
}

/// A scheduled event of this scenario.
pub enum Event {
    /// One action of the scenario is due.
    Act,
    /// A client receives the acknowledgement of an add at this replica.
    Added(usize, Made),
    /// A client receives the acknowledgement of a keyed operation at this replica.
    Once(usize, KeyedAnswer),
}

type World = Mesh<Guests>;

/// The additional features of a run.
#[derive(Clone, Copy, Default)]
struct Kind {
    keyed: bool,
    limited: bool,
    tabs: bool,
}

/// A function that plays a seed, or returns the failure.
pub type Run = fn(u64, bool) -> Result<Metrics, String>;

/// All kinds of runs, under the names that [open faults](crate::open_faults) use.
pub const RUNS: [(&str, Run); 4] = [
    ("guests", run),
    ("tabs", run_tabs),
    ("keyed", run_keyed),
    ("limited", run_limited),
];

/// Plays one seed.
///
/// # Errors
/// The failure, as text.
pub fn run(seed: u64, traced: bool) -> Result<Metrics, String> {
    play(seed, traced, Kind::default())
}

/// Plays one seed in which guests start from the stores of two guests, as the tabs of a browser do. Every
/// other seed has limited rights.
///
/// # Errors
/// The failure, as text.
pub fn run_tabs(seed: u64, traced: bool) -> Result<Metrics, String> {
    let kind = Kind {
        limited: seed % 2 == 1,
        tabs: true,
        ..Kind::default()
    };
    play(seed, traced, kind)
}

/// Plays one seed with keyed operations at members. Clients repeat them, and links between members are cut.
///
/// # Errors
/// The failure, as text.
pub fn run_keyed(seed: u64, traced: bool) -> Result<Metrics, String> {
    let kind = Kind {
        keyed: true,
        ..Kind::default()
    };
    play(seed, traced, kind)
}

/// Plays one seed in which most guests have limited rights.
///
/// # Errors
/// The failure, as text.
pub fn run_limited(seed: u64, traced: bool) -> Result<Metrics, String> {
    let kind = Kind {
        limited: true,
        ..Kind::default()
    };
    play(seed, traced, kind)
}

fn play(seed: u64, traced: bool, kind: Kind) -> Result<Metrics, String> {
    let mut random = Random::new(seed ^ 0x3e5b);
    let lost = *random.pick(&[0, 50, 200]);
    let trouble = Trouble {
        ms: random.range(4_000, 30_000),
        lost,
        twice: lost / 4,
        flush_ms: *random.pick(&[0, 0, 20]),
        old: 1_000,
        ..Trouble::ALL
    };
    let mut settings = Settings::under(trouble);
    settings.sync.pull_timeout_ms = 400;
    settings.sync.guest_timeout_ms = LEASE_MS;
    settings.delay_ms = (1, 20 + lost / 2);
    settings.tend_ms = 500;
    settings.fault_ms = (100, 1_200);
    let guests = Guests {
        peers: Vec::new(),
        metrics: Metrics::default(),
        expected: 0,
        begun: 0,
        unknown: 0,
        keyed: kind.keyed.then(Keyed::default),
        limited: kind.limited,
        tabs: kind.tabs,
        left: None,
        restored_at: 0,
        over: false,
    };
    let mesh = Mesh::new(seed, traced, settings, guests);
    sim::run(seed, mesh, |mesh| {
        mesh.play_guests()?;
        mesh.own.metrics.mesh = mesh.counts();
        Ok(mesh.own.metrics)
    })
}

impl Scenario for Guests {
    type Event = Event;
    type Seen = ();

    fn event(mesh: &mut World, event: Event) -> Result<(), String> {
        match event {
            Event::Act => {
                mesh.at(mesh.now + STEP_MS, Event::Act);
                if !mesh.own.over {
                    mesh.act()?;
                    mesh.act_keyed()?;
                    mesh.link_own();
                    mesh.take_over()?;
                }
                mesh.look_for_lost();
                Ok(())
            }
            Event::Added(at, made) => {
                mesh.own.expected += made.2;
                mesh.own.peers[at].made.push(made);
                Ok(())
            }
            Event::Once(at, asked) => {
                mesh.note_once(at, asked);
                Ok(())
            }
        }
    }

    /// All amounts are positive, so no replica may show more than their sum.
    fn written(mesh: &mut World, at: usize) -> Result<(), String> {
        let (sum, most) = (mesh.sum(at), mesh.own.begun);
        match sum > most {
            true => Err(format!("{at} sees {sum} of {most}: {}", mesh.tell())),
            false => Ok(()),
        }
    }

    fn started(mesh: &mut World, at: usize) -> Result<(), String> {
        mesh.take_what_is_left(at)
    }

    fn writes_as(
        mesh: &mut World,
        at: usize,
        writer: WriterId,
        nonce: [u8; 16],
    ) -> Result<(), String> {
        mesh.prove(at, writer, nonce)
    }

    fn opens(mesh: &World, link: Link, at: usize, other: usize) -> Input<'static> {
        mesh.introduce(link, at, other)
    }

    /// A member may start from its backup if the others have all its changes, with their keys. A key that
    /// only this member has is lost with its disk.
    fn may_put_back(mesh: &mut World, at: usize) -> bool {
        let replica = &mesh.nodes[at].replica;
        let vector = replica.vector();
        let mut others = (0..MEMBERS).filter(|other| *other != at);
        let held = others.all(|at| {
            let other = &mesh.nodes[at];
            let held = other.replica.keyed().vector().covers(&vector);
            held && other.alive && mesh.is_written(at)
        });
        let long_ago = mesh.own.restored_at + 8_000 < mesh.now;
        let may = at < MEMBERS
            && held
            && replica.consistency().unconfirmed() == 0
            && long_ago
            && mesh.is_written(at);
        if may {
            mesh.own.restored_at = mesh.now;
        }
        may
    }

    /// Puts the disk of a member back whenever this is allowed, because it seldom is.
    fn fault(mesh: &mut World) -> Result<(), String> {
        let at = mesh.random.index(MEMBERS);
        mesh.strike_disk(at);
        Ok(())
    }

    fn output(mesh: &mut World, at: usize, output: &Output) -> Result<(), String> {
        if let Output::Returned(it) = output {
            mesh.note(|| format!("{at} returned {it:?}"));
            mesh.returned(at, it);
        }
        Ok(())
    }

    fn refused(_: &mut World, at: usize, error: &Error) -> Result<(), String> {
        match error.code() {
            "not_yours" | "beyond_role" => Err(format!("{at} refuses: {error}")),
            _ => Ok(()),
        }
    }
}

impl World {
    fn play_guests(&mut self) -> Result<(), String> {
        let owners: Vec<Owner> = (0..MEMBERS).map(owner).collect();
        for key in &owners {
            self.add_peer(Some(*key), *key, None)?;
        }
        for [a, b] in [[0, 1], [0, 2], [1, 2]] {
            self.link(a, b);
        }
        // Replicas may count before there are members, and while the first configuration is on its way.
        for _ in 0..self.random.below(40) {
            if self.random.chance(300) {
                self.write()?;
            }
            if self.random.chance(500) {
                self.pass(STEP_MS)?;
            }
        }
        let (time, nonce) = (self.wall(0), self.nodes[0].nonce);
        let first = &mut self.nodes[0].replica;
        first
            .members_mut()
            .found(&owners[0], &nonce, time)
            .map_err(text)?;
        first.members_mut().propose(&owners).map_err(text)?;
        self.changed(0)?;
        let established = |mesh: &World| {
            mesh.nodes
                .iter()
                .all(|it| it.replica.members().is_established())
        };
        if !self.until(SETTLED_MS, established)? {
            return Err(format!("they don't all become members: {}", self.tell()));
        }
        self.at(self.now, Event::Act);
        self.trouble();
        self.pass(self.settings.trouble.ms)?;
        self.finish()
    }

    fn add_peer(
        &mut self,
        owner: Option<Owner>,
        key: Owner,
        role: Option<Role>,
    ) -> Result<usize, String> {
        self.own.peers.push(Peer {
            made: Vec::new(),
            key,
            role,
            own: Vec::new(),
        });
        self.add_node(owner, key)
    }

    /// A peer replayed transactions that did not count, and reports the ones of which that is unknown.
    fn returned(&mut self, at: usize, it: &Returned) {
        let writer = self.nodes[at].replica.writer();
        if let Some((first, last)) = it.unknown {
            self.own.metrics.unknown += 1;
            // The report does not name the earlier writer.
            let made = self.own.peers[at].made.iter();
            let open = made.filter(|it| it.0 != writer && (first..=last).contains(&it.1));
            let open: Vec<i128> = open.map(|it| it.2).collect();
            self.own.unknown += open.iter().sum::<i128>();
            self.doubt_keyed(&open);
        }
        for again in &it.again {
            let adds = again.ops.iter().map(|it| match it.op {
                Op::Add(by) => i128::from(by),
                _ => 0,
            });
            let clock = again.clock.unwrap_or(0);
            let made = (writer, clock, adds.sum());
            self.own.peers[at].made.push(made);
        }
    }

    fn finish(&mut self) -> Result<(), String> {
        self.own.over = true;
        for at in MEMBERS..self.nodes.len() {
            if !self.nodes[at].is_gone() && self.linked_with(at).is_empty() {
                let member = self.random.index(MEMBERS);
                self.link(at, member);
            }
        }
        let until = self.now + SETTLED_MS;
        while self.now < until && self.settled().is_err() {
            self.pass(500)?;
        }
        let settled = self.settled();
        settled.map_err(|error| format!("{error}: {}", self.tell()))?;
        self.own.metrics.writers = self.nodes[0].replica.writers().count() as u64;
        Ok(())
    }

    fn sum(&self, at: usize) -> i128 {
        let replica = &self.nodes[at].replica;
        let values = KEYS.map(|key| replica.value(key).unwrap_or(0));
        values.iter().sum()
    }

    /// Whether all replicas have the right sum, and none has a writer that is gone.
    fn settled(&self) -> Result<(), String> {
        let living = self.living().count();
        for (at, node) in self.living() {
            let sum = self.sum(at);
            self.check_once(at)?;
            // A transaction whose fate is unknown may count or not, but at most once.
            let least = self.own.expected - self.own.unknown;
            let most = self.own.expected + self.lost();
            if sum > most || sum < least {
                return Err(format!("{at} has {sum}, not {least} to {most}"));
            }
            let known = node.replica.writers().count();
            if known > living {
                return Err(format!("{at} knows {known} writers"));
            }
        }
        Ok(())
    }
}

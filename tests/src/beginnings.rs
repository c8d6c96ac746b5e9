//! Scenario: how a space gets its members, in a [mesh](crate::sim).
//!
//! All replicas are linked and have counted already. One replica founds the space, and then makes the others
//! members, one right after the other.
//!
//! In a run without faults, the members must be decided within `DECIDED_MS`. Every fourth run has faults, and
//! its members must be decided after the faults have ended. Each number that was acknowledged to a client
//! counts once. In [`run_patient`] there are no faults, and each member must catch up by itself, also if several
//! become members at once.

use crate::random::Random;
use crate::sim::{self, Counts, Mesh, Scenario, Settings, Trouble, owner, text};
use tallymesh_core::{Error, Input, Link, Output, Owner, SyncConfig};

const NODES: usize = 3;
const KEY: &str = "likes";
/// Longest time for a change of the members, in milliseconds: two and a half digest intervals. By these
/// digests the last replica receives the changes that it has missed.
const DECIDED_MS: u64 = 12_500;
/// Virtual time, in milliseconds, by which all replicas show the same values.
const SETTLED_MS: u64 = 60_000;

/// Metrics of one run, or of several.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Milliseconds until all replicas were members, one value for each run without faults.
    pub took: Vec<u64>,
    /// Counts of the mesh.
    pub mesh: Counts,
}

impl Metrics {
    /// Adds the metrics of another run.
    pub fn add(&mut self, other: &Metrics) {
        self.took.extend(&other.took);
        self.mesh.add(&other.mesh);
    }
}

/// The sums that clients counted.
pub struct Beginnings {
    /// Sum of the acknowledged adds.
    told: i128,
    /// Sum of all adds, including those that were lost before their acknowledgement.
    begun: i128,
    /// Whether a replica has rejoined, and it is unknown which of its adds count.
    unknown: bool,
    /// Whether one request makes all other replicas members.
    at_once: bool,
}

type World = Mesh<Beginnings>;

/// Plays one seed without faults, in which no start is announced before it has caught up. In every second seed
/// the other replicas become members at once.
///
/// In [`run`] a start that waits for too long is announced in the end, so one that can never catch up is only
/// late there. Also, two members rarely begin at the same time there, so they rarely wait for each other.
///
/// # Errors
/// The failure, as text.
pub fn run_patient(seed: u64, traced: bool) -> Result<Metrics, String> {
    let mut random = Random::new(seed ^ 0xbe61);
    let slow = *random.pick(&[1, 3, 20]);
    let mut settings = settings(Trouble::NONE, slow);
    settings.late_ms = None;
    play(seed, traced, settings, slow, seed.is_multiple_of(2))
}

/// Plays one seed.
///
/// # Errors
/// The failure, as text.
pub fn run(seed: u64, traced: bool) -> Result<Metrics, String> {
    let mut random = Random::new(seed ^ 0xbe61);
    let trouble = match seed % 4 {
        3 => Trouble {
            ms: random.range(500, 8_000),
            ..Trouble::ALL
        },
        _ => Trouble::NONE,
    };
    let slow = *random.pick(&[1, 3, 20]);
    play(seed, traced, settings(trouble, slow), slow, false)
}

fn settings(trouble: Trouble, slow: u64) -> Settings {
    Settings {
        sync: SyncConfig::default(),
        delay_ms: (0, slow),
        tend_ms: 50,
        fault_ms: (50, 1_000),
        ..Settings::under(trouble)
    }
}

fn play(
    seed: u64,
    traced: bool,
    settings: Settings,
    slow: u64,
    at_once: bool,
) -> Result<Metrics, String> {
    let is_calm = settings.trouble == Trouble::NONE;
    let beginnings = Beginnings {
        told: 0,
        begun: 0,
        unknown: false,
        at_once,
    };
    let mesh = Mesh::new(seed, traced, settings, beginnings);
    sim::run(seed, mesh, |mesh| {
        let took = mesh.play_beginning(slow)?;
        Ok(Metrics {
            took: is_calm.then_some(took).into_iter().collect(),
            mesh: mesh.counts(),
        })
    })
}

impl Scenario for Beginnings {
    /// The amount of an add that is acknowledged to a client.
    type Event = i128;
    type Seen = ();

    fn event(mesh: &mut World, by: i128) -> Result<(), String> {
        mesh.own.told += by;
        Ok(())
    }

    fn written(mesh: &mut World, at: usize) -> Result<(), String> {
        match mesh.shown(at) > mesh.own.begun {
            true => Err(format!(
                "{at} shows {} of {}",
                mesh.shown(at),
                mesh.own.begun
            )),
            false => Ok(()),
        }
    }

    fn opens(_: &World, link: Link, _: usize, _: usize) -> Input<'static> {
        let broadcast = true;
        Input::Connected { link, broadcast }
    }

    /// A disk may be put back if the other replicas have everything that it had, and all have the
    /// configuration.
    fn may_put_back(mesh: &mut World, at: usize) -> bool {
        let vector = mesh.nodes[at].replica.vector();
        let holds = |it: &sim::Node<()>| {
            it.alive
                && it.replica.members().configuration().is_some()
                && it.replica.vector().covers(&vector)
        };
        let written = (0..NODES).all(|at| mesh.is_written(at));
        written && mesh.nodes.iter().all(holds) && mesh.may_lose(at)
    }

    fn output(mesh: &mut World, at: usize, output: &Output) -> Result<(), String> {
        if let Output::Returned(it) = output {
            mesh.note(|| format!("{at} returned {it:?}"));
            mesh.own.unknown |= it.unknown.is_some();
        }
        Ok(())
    }

    /// Replicas without the configuration reject messages, and their messages are rejected.
    fn refused(_: &mut World, _: usize, _: &Error) -> Result<(), String> {
        Ok(())
    }
}

impl World {
    fn play_beginning(&mut self, slow: u64) -> Result<u64, String> {
        self.add_members(NODES)?;
        self.pass(1)?;
        for at in 0..NODES {
            if self.random.chance(500) {
                let by = 1 << at;
                self.own.begun += i128::from(by);
                self.nodes[at].replica.add(KEY, by).map_err(text)?;
                self.when_written(at, i128::from(by));
                self.changed(at)?;
            }
        }
        let wait = self.random.below(3 * slow + 2);
        self.pass(wait)?;
        self.trouble();
        let ends = self.now + self.settings.trouble.ms;
        let begun = self.now;
        let steps = if self.own.at_once { NODES - 1 } else { 1 };
        for members in (1..=NODES).step_by(steps) {
            let wait = self.random.below(3);
            self.pass(wait)?;
            while self.members(0) < members {
                self.ask(members)?;
                self.pass(1)?;
                if self.now > ends + DECIDED_MS {
                    return Err(format!(
                        "{members} members are not decided: {}",
                        self.tell()
                    ));
                }
            }
        }
        let took = self.now - begun;
        let left = ends.saturating_sub(self.now);
        self.pass(left)?;
        match self.until(SETTLED_MS, World::is_settled)? {
            true => Ok(took),
            false => {
                let shown: Vec<i128> = (0..NODES).map(|at| self.shown(at)).collect();
                let of = self.own.begun;
                Err(format!("{shown:?} is shown of {of}: {}", self.tell()))
            }
        }
    }

    /// The operator requests this many members from the first node, until the node has them. The operator
    /// repeats a request that was lost before it was written.
    fn ask(&mut self, members: usize) -> Result<(), String> {
        let (time, nonce) = (self.wall(0), self.nodes[0].nonce);
        let owners: Vec<Owner> = (0..members).map(owner).collect();
        if !self.nodes[0].alive || !self.is_written(0) {
            return Ok(());
        }
        let first = &mut self.nodes[0].replica;
        if first.members().configuration().is_none() {
            first
                .members_mut()
                .found(&owners[0], &nonce, time)
                .map_err(text)?;
            return self.changed(0);
        }
        // A node that had to rejoin has lost its proposal, so the operator repeats the request.
        if members > 1 && first.members().proposal().is_none() && first.members().is_member() {
            return match first.members_mut().propose(&owners) {
                Ok(()) => self.changed(0),
                Err(error) if self.settings.trouble.ms == 0 => Err(text(error)),
                Err(_) => Ok(()),
            };
        }
        Ok(())
    }

    fn members(&self, at: usize) -> usize {
        let members = self.nodes[at].replica.members().configuration();
        members.map_or(0, |it| it.members.len())
    }

    fn shown(&self, at: usize) -> i128 {
        self.nodes[at].replica.value(KEY).unwrap_or(0)
    }

    fn is_settled(&self) -> bool {
        let (shown, own) = (self.shown(0), &self.own);
        let least = if own.unknown { 0 } else { own.told };
        let all = |at: usize| {
            self.nodes[at].alive && self.members(at) == NODES && self.shown(at) == shown
        };
        (least..=own.begun).contains(&shown) && (0..NODES).all(all)
    }
}

//! Scenario: readers beside members that may push seldom, in a [mesh](crate::sim). Members do not wait for readers,
//! and may collect what a reader has not seen. Guests add, and leave; members add, and reset.

use crate::sim::{self, Counts, Mesh, Node, Scenario, Settings, Trouble, owner, text};
use std::collections::{BTreeMap, BTreeSet};
use tallymesh_core::{Error, Input, Link, Millis, Op, Output, Role, WriterId};

/// Milliseconds between two actions.
const STEP_MS: Millis = 40;
/// How long members wait for a silent guest, in milliseconds.
const GUEST_TIMEOUT_MS: u32 = 3_000;
/// How soon idle guests give up their writers, in milliseconds.
const IDLE_MS: u32 = 400;
/// Most replicas.
const NODES_MAX: usize = 14;
/// Readers, which come after the members.
const READERS: usize = 2;
/// Longest virtual time from the end of the trouble until all is in order, in milliseconds.
const SETTLED_MS: Millis = 60_000;
/// Only added to, so it never shows more than was added.
const ADDED: &str = "added";
/// Also reset.
const RESET: &str = "reset";

/// Counts of events in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metrics {
    /// Counts of the mesh.
    pub mesh: Counts,
    /// Guests that left.
    pub left: u64,
    /// Resets by members.
    pub resets: u64,
    /// Fresh writers that replicas took, because they were idle or had to begin again.
    pub fresh: u64,
}

impl Metrics {
    /// Adds the metrics of another run.
    pub fn add(&mut self, other: &Metrics) {
        self.mesh.add(&other.mesh);
        self.left += other.left;
        self.resets += other.resets;
        self.fresh += other.fresh;
    }
}

/// The state of this scenario.
pub struct Readers {
    members: usize,
    /// Sum of the adds that are on a disk, and of all adds.
    added: [i128; 2],
    /// Whether a guest reported adds of which nobody knows whether they count.
    unknown: bool,
    /// The writers of each replica, with the nonces that prove them.
    own: BTreeMap<usize, Vec<(WriterId, [u8; 16])>>,
    /// The guests that have left.
    leaving: BTreeSet<usize>,
    metrics: Metrics,
    over: bool,
}

/// A scheduled event of this scenario.
pub enum Event {
    /// One action is due.
    Act,
    /// This amount is on the disk of its replica.
    Added(i128),
}

type World = Mesh<Readers>;

/// Plays one seed. In half of the seeds, members push seldom, and in every other dozen, guests that have not added for a
/// moment give up their writers.
///
/// # Errors
/// The failure, as text.
pub fn run(seed: u64, traced: bool) -> Result<Metrics, String> {
    let trouble = Trouble {
        flush_ms: 40,
        ..[Trouble::CUTS, Trouble::LOSSES][(seed % 2) as usize]
    };
    let mut settings = Settings::under(trouble);
    settings.sync.guest_timeout_ms = GUEST_TIMEOUT_MS;
    settings.sync.idle_ms = [IDLE_MS, 60_000][(seed / 12 % 2) as usize];
    settings.sync.push_delay_ms = [2_000, 5][(seed / 2 % 2) as usize];
    let readers = Readers {
        members: 1 + (seed / 4 % 3) as usize,
        added: [0; 2],
        unknown: false,
        own: BTreeMap::new(),
        leaving: BTreeSet::new(),
        metrics: Metrics::default(),
        over: false,
    };
    let mesh = Mesh::new(seed, traced, settings, readers);
    sim::run(seed, mesh, |mesh| {
        mesh.play_readers()?;
        mesh.own.metrics.mesh = mesh.counts();
        Ok(mesh.own.metrics)
    })
}

impl Scenario for Readers {
    type Event = Event;
    type Seen = ();

    fn event(mesh: &mut World, event: Event) -> Result<(), String> {
        match event {
            Event::Added(by) => mesh.own.added[0] += by,
            Event::Act if mesh.own.over => {}
            Event::Act => {
                mesh.at(mesh.now + STEP_MS, Event::Act);
                mesh.end_guests();
                mesh.act()?;
            }
        }
        Ok(())
    }

    fn written(mesh: &mut World, at: usize) -> Result<(), String> {
        let (values, most) = (mesh.values(at), mesh.own.added[1]);
        if values[0] > most {
            return Err(format!("{at} shows {values:?}, and {most} were added"));
        }
        Ok(())
    }

    fn writes_as(
        mesh: &mut World,
        at: usize,
        writer: WriterId,
        nonce: [u8; 16],
    ) -> Result<(), String> {
        let began = mesh.nodes[at].started == mesh.now;
        let own = mesh.own.own.entry(at).or_default();
        own.push((writer, nonce));
        mesh.own.metrics.fresh += u64::from(!began);
        let fresh = if began { 0 } else { own.len() - 1 };
        let fresh = own[fresh..].to_vec();
        for (writer, nonce) in fresh {
            mesh.input(at, Input::Own { writer, nonce })?;
        }
        Ok(())
    }

    fn opens(mesh: &World, link: Link, at: usize, other: usize) -> Input<'static> {
        let (owner, broadcast) = (mesh.nodes[other].key, false);
        let members = 0..mesh.own.members;
        match members.contains(&at) && !members.contains(&other) {
            true => Input::Limited {
                link,
                owner,
                role: mesh.role(other),
            },
            false => Input::Connected { link, broadcast },
        }
    }

    fn output(mesh: &mut World, _: usize, output: &Output) -> Result<(), String> {
        if let Output::Returned(it) = output {
            mesh.own.unknown |= it.unknown.is_some();
        }
        Ok(())
    }

    fn refused(_: &mut World, _: usize, _: &Error) -> Result<(), String> {
        Ok(())
    }
}

impl World {
    fn role(&self, at: usize) -> Role {
        match at < self.own.members + READERS {
            true => Role::Reader,
            false => Role::Writer,
        }
    }

    fn values(&self, at: usize) -> [i128; 2] {
        [ADDED, RESET].map(|key| self.nodes[at].replica.value(key).unwrap_or(0))
    }

    fn play_readers(&mut self) -> Result<(), String> {
        self.add_members(self.own.members)?;
        self.found(self.own.members)?;
        for _ in 0..READERS {
            self.come()?;
        }
        self.at(self.now, Event::Act);
        self.trouble();
        self.pass(self.settings.trouble.ms)?;
        self.own.over = true;
        match self.until(SETTLED_MS, |mesh| mesh.is_in_order())? {
            true => Ok(()),
            false => {
                let wrong = self.wrong().map(|at| (at, self.values(at)));
                let wrong: Vec<(usize, [i128; 2])> = wrong.collect();
                let (first, added) = (self.values(0), self.own.added);
                let tell = self.tell();
                Err(format!("{first:?} of {added:?}, others {wrong:?}: {tell}"))
            }
        }
    }

    /// A reader or a guest comes, with a link to each member.
    fn come(&mut self) -> Result<(), String> {
        let at = self.add_node(None, owner(self.nodes.len()))?;
        for member in 0..self.own.members {
            self.link(member, at);
        }
        Ok(())
    }

    fn act(&mut self) -> Result<(), String> {
        let at = self.random.index(self.nodes.len());
        let is_member = at < self.own.members;
        let reads = !is_member && self.role(at) == Role::Reader;
        if !self.nodes[at].alive || reads || self.own.leaving.contains(&at) {
            return Ok(());
        }
        match self.random.below(20) {
            0 if self.nodes.len() < NODES_MAX => self.come(),
            1 if is_member => self.reset(at),
            1 | 2 if !is_member => self.leave(at),
            3..9 => self.write(at),
            _ => Ok(()),
        }
    }

    fn write(&mut self, at: usize) -> Result<(), String> {
        let by = self.random.range(1, 100) as i64;
        let key = *self.random.pick(&[ADDED, RESET]);
        let replica = &mut self.nodes[at].replica;
        replica.add(key, by).map_err(text)?;
        let clock = replica.clock();
        self.note(|| format!("{at} adds {by} to {key} at {clock}"));
        if key == ADDED {
            self.own.added[1] += i128::from(by);
            self.when_written(at, Event::Added(i128::from(by)));
        }
        self.changed(at)
    }

    fn reset(&mut self, at: usize) -> Result<(), String> {
        self.own.metrics.resets += 1;
        let reset = self.nodes[at].replica.apply(RESET, Op::Reset);
        reset.map_err(text)?;
        self.changed(at)
    }

    /// A guest leaves, if a member has all its transactions. Its process ends once all members have the last one.
    fn leave(&mut self, at: usize) -> Result<(), String> {
        let replica = &mut self.nodes[at].replica;
        let is_safe = replica.consistency().unconfirmed() == 0;
        if replica.members().sponsor().is_some() && is_safe && self.own.leaving.insert(at) {
            self.own.metrics.left += 1;
            replica.members_mut().leave().map_err(text)?;
            self.note(|| format!("{at} leaves"));
            self.changed(at)?;
        }
        Ok(())
    }

    /// Ends the processes of guests that have left, and of which all members know it.
    fn end_guests(&mut self) {
        for at in self.own.leaving.clone() {
            let guest = &self.nodes[at].replica;
            let knows = |member: &Node<()>| {
                member.alive && member.replica.vector().get(&guest.writer()) == guest.clock()
            };
            if self.nodes[..self.own.members].iter().all(knows) && self.nodes[at].alive {
                self.remove(at);
            }
        }
    }

    /// The replicas that do not show what the first member shows. A guest that has left merges nothing any more.
    fn wrong(&self) -> impl Iterator<Item = usize> {
        let others = self.living().map(|it| it.0);
        let others = others.filter(|at| !self.own.leaving.contains(at));
        others.filter(|at| self.values(*at) != self.values(0))
    }

    /// Whether all replicas show the same, and each add that was acknowledged counts once.
    fn is_in_order(&self) -> bool {
        let [least, most] = self.own.added;
        let least = if self.own.unknown { 0 } else { least };
        (least..=most).contains(&self.values(0)[0]) && self.wrong().next().is_none()
    }
}

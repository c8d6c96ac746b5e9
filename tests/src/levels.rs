//! Scenario: levels of consistency, in a [mesh](crate::sim). Members and other nodes write, read, and ask for
//! how far a write is stored. Meanwhile members are added and removed, sometimes two at a time.
//!
//! Each write is a counter of its own, so a read shows which writes it sees.

mod metrics;

pub use metrics::Metrics;

use crate::random::Random;
use crate::sim::{self, Mesh, Scenario, Settings, Trouble, owner, text};
use std::collections::{BTreeMap, BTreeSet};
use tallymesh_core::{Configuration, Error, Input, Level, Owner, Question, Token, WriterId};

/// Nodes that may be members.
const NODES: usize = 5;
/// Milliseconds between two actions.
const STEP_MS: u64 = 10;
/// Longest wait for a level, in milliseconds.
const PATIENCE_MS: u64 = 3_000;

/// A waiting write or read.
struct Wait {
    at: usize,
    question: Question,
    level: Level,
    /// The write's number.
    write: Option<usize>,
    /// Number of writes that had reached their level when the read began.
    expected: usize,
    /// The configuration of the replica when the wait began: era and number.
    began: (u64, u64),
    until: u64,
}

/// A client with a token. It moves from replica to replica.
#[derive(Clone, Default)]
pub struct Session {
    token: Token,
    /// The writes that it made or read.
    seen: BTreeSet<usize>,
}

/// The waiting writes and reads, and the results of all of them.
pub struct Levels {
    waits: Vec<Wait>,
    writes: usize,
    /// The writes that reached their level, in order.
    reached: Vec<usize>,
    sessions: Vec<Session>,
    decided: BTreeMap<(u64, u64), Configuration>,
    metrics: Metrics,
    /// Whether the scenario has stopped making changes.
    over: bool,
}

/// A scheduled event of this scenario.
pub enum Event {
    /// One action of the scenario is due.
    Act,
    /// A session receives the acknowledgement of its write.
    Wrote(usize, Session),
}

type World = Mesh<Levels>;

/// Plays one seed.
///
/// # Errors
/// The failure, as text.
pub fn run(seed: u64, traced: bool) -> Result<Metrics, String> {
    let mut random = Random::new(seed ^ 0x1e7e1);
    let lost = *random.pick(&[0, 50, 200]);
    let trouble = Trouble {
        ms: random.range(1_000, 9_000),
        lost,
        twice: lost / 4,
        flush_ms: *random.pick(&[0, 0, 20]),
        old: *random.pick(&[0, 0, 500]),
        ..Trouble::ALL
    };
    let mut settings = Settings::under(trouble);
    settings.sync.pull_timeout_ms = 400;
    settings.sync.guest_timeout_ms = 3_000;
    settings.delay_ms = (1, 20);
    settings.tend_ms = 300;
    settings.fault_ms = (50, 1_000);
    let levels = Levels {
        waits: Vec::new(),
        writes: 0,
        reached: Vec::new(),
        sessions: vec![Session::default(); 3],
        decided: BTreeMap::new(),
        metrics: Metrics::default(),
        over: false,
    };
    let mesh = Mesh::new(seed, traced, settings, levels);
    sim::run(seed, mesh, |mesh| {
        mesh.play_levels()?;
        mesh.own.metrics.configurations = mesh.own.decided.len() as u64;
        mesh.own.metrics.mesh = mesh.counts();
        Ok(mesh.own.metrics)
    })
}

fn key(write: usize) -> String {
    format!("w{write}")
}

impl Scenario for Levels {
    type Event = Event;
    type Seen = ();

    fn event(mesh: &mut World, event: Event) -> Result<(), String> {
        match event {
            Event::Act if mesh.own.over => Ok(()),
            Event::Act => {
                mesh.at(mesh.now + STEP_MS, Event::Act);
                mesh.act()
            }
            Event::Wrote(session, is) => {
                mesh.own.sessions[session] = is;
                Ok(())
            }
        }
    }

    /// Ends each wait at a replica that has reached its level or has timed out.
    fn look(mesh: &mut World, at: usize) -> Result<(), String> {
        mesh.check_decided(at)?;
        mesh.end_waits(at)
    }

    /// Members whose disks were put back may have to rejoin, and then drop their acknowledgements. So the
    /// check requires nothing of the writes that reached their level before.
    fn writes_as(mesh: &mut World, _: usize, _: WriterId, _: [u8; 16]) -> Result<(), String> {
        if mesh.counts.old > 0 {
            mesh.own.reached.clear();
            mesh.own.sessions.fill(Session::default());
            mesh.own.waits.iter_mut().for_each(|it| it.expected = 0);
        }
        Ok(())
    }

    fn ended(mesh: &mut World, at: usize) {
        mesh.own.waits.retain(|wait| wait.at != at);
    }

    /// Several nodes restart at once, as after a power cut of a machine room.
    fn fault(mesh: &mut World) -> Result<(), String> {
        if mesh.random.chance(150) {
            let (at, most) = (mesh.random.index(NODES), mesh.random.range(2, 3) as usize);
            for next in 0..most {
                mesh.restart((at + next) % NODES, (0, 50));
            }
        }
        Ok(())
    }

    /// A mesh of one has no witness: an older copy of its only member's disk decides again what was decided.
    fn may_put_back(mesh: &mut World, at: usize) -> bool {
        let mut decided = mesh.own.decided.values();
        let was_alone = decided.any(|it| it.members == [owner(at)]);
        !was_alone && mesh.may_lose(at)
    }

    /// Replicas that are not members, or no longer, reject messages, and their messages are rejected.
    fn refused(_: &mut World, _: usize, _: &Error) -> Result<(), String> {
        Ok(())
    }
}

impl World {
    fn play_levels(&mut self) -> Result<(), String> {
        self.add_members(NODES)?;
        self.pass(1)?;
        let (time, nonce) = (self.wall(0), self.nodes[0].nonce);
        let owners: Vec<Owner> = (0..NODES).map(owner).collect();
        let members = self.random.range(1, 4) as usize;
        let first = &mut self.nodes[0].replica;
        first
            .members_mut()
            .found(&owners[0], &nonce, time)
            .map_err(text)?;
        first
            .members_mut()
            .propose(&owners[..members])
            .map_err(text)?;
        self.changed(0)?;
        let wait = self.random.range(0, 3_000);
        self.pass(wait)?;
        self.at(self.now, Event::Act);
        // No copy of a disk is older than this.
        let present = self.number(0);
        self.own
            .decided
            .retain(|number, _| Some(*number) >= present);
        self.trouble();
        self.pass(self.settings.trouble.ms)?;
        // The scenario waits for all open writes and reads.
        self.heal();
        self.own.over = true;
        self.pass(PATIENCE_MS)
    }

    fn act(&mut self) -> Result<(), String> {
        let at = self.random.index(NODES);
        if !self.nodes[at].alive || !self.is_written(at) {
            return Ok(());
        }
        match self.random.below(60) {
            0..9 => self.write_at(at),
            9..18 => self.read_at(at),
            18..26 => self.visit(at),
            26 if self.random.chance(600) => self.propose(at),
            _ => Ok(()),
        }
    }

    fn level(&mut self) -> Level {
        let levels = [Level::Quorum, Level::Quorum, Level::All];
        *self.random.pick(&levels)
    }

    fn number(&self, at: usize) -> Option<(u64, u64)> {
        let present = self.nodes[at].replica.members().configuration();
        present.map(|it| (it.era, it.number))
    }

    /// A replica writes. Returns the number of the write.
    fn add(&mut self, at: usize) -> Option<usize> {
        // A rejoining replica may put it aside for a while. Then no client gets an acknowledgement.
        let write = self.own.writes;
        self.nodes[at].replica.add(&key(write), 1).ok()?;
        self.own.writes += 1;
        self.own.metrics.writes += 1;
        Some(write)
    }

    fn write_at(&mut self, at: usize) -> Result<(), String> {
        let (Some(began), level) = (self.number(at), self.level()) else {
            return Ok(());
        };
        let Some(write) = self.add(at) else {
            return Ok(());
        };
        let node = &mut self.nodes[at];
        let upto = node.replica.consistency().written();
        self.note(|| format!("{at} writes {write} at {level:?} under {began:?}: {upto:?}"));
        let node = &mut self.nodes[at];
        let question = node
            .sync
            .ask_for_write(self.now, &node.replica, level, upto);
        self.wait(Wait {
            at,
            question,
            level,
            write: Some(write),
            expected: 0,
            began,
            until: self.now + PATIENCE_MS,
        });
        self.changed(at)
    }

    fn read_at(&mut self, at: usize) -> Result<(), String> {
        let (Some(began), level) = (self.number(at), self.level()) else {
            return Ok(());
        };
        self.note(|| format!("{at} reads at {level:?} under {began:?}"));
        let node = &mut self.nodes[at];
        let question = node.sync.ask_for_read(self.now, &node.replica, level);
        self.own.metrics.reads += 1;
        self.wait(Wait {
            at,
            question,
            level,
            write: None,
            expected: self.own.reached.len(),
            began,
            until: self.now + PATIENCE_MS,
        });
        self.input(at, Input::Tick)
    }

    fn wait(&mut self, wait: Wait) {
        self.look_at(wait.until, wait.at);
        self.own.waits.push(wait);
    }

    /// Checks that all configurations of one number are the same.
    fn check_decided(&mut self, at: usize) -> Result<(), String> {
        let Some(present) = self.nodes[at].replica.members().configuration() else {
            return Ok(());
        };
        let decided = self.own.decided.entry((present.era, present.number));
        let known = decided.or_insert_with(|| present.clone());
        match known == present {
            true => Ok(()),
            false => Err(format!("{at} has {present:?}, others {known:?}")),
        }
    }

    fn end_waits(&mut self, at: usize) -> Result<(), String> {
        let mut index = 0;
        while let Some(wait) = self.own.waits.get(index) {
            let node = &self.nodes[at];
            let reach = || node.sync.reach(&node.replica, wait.question);
            let done = wait.at == at && reach().is_some_and(|it| it.is_reached());
            if wait.at != at || !done && wait.until > self.now {
                if wait.at == at {
                    self.look_at(wait.until, at);
                }
                index += 1;
                continue;
            }
            let wait = self.own.waits.remove(index);
            self.nodes[at].sync.end_question(wait.question);
            if done {
                self.done(&wait)?;
            }
        }
        Ok(())
    }

    fn done(&mut self, wait: &Wait) -> Result<(), String> {
        let (at, present) = (wait.at, self.number(wait.at));
        let level = wait.level;
        self.own.metrics.moved += u64::from(present != Some(wait.began));
        if let Some(write) = wait.write {
            self.own.metrics.reached += 1;
            self.own.reached.push(write);
            self.note(|| format!("write {write} of {at} reached {level:?} under {present:?}"));
            return Ok(());
        }
        self.own.metrics.read += 1;
        self.note(|| format!("{at} has read at {level:?} under {present:?}"));
        let mut expected = self.own.reached[..wait.expected].iter();
        match expected.find(|write| !self.sees(at, **write)) {
            Some(write) => Err(format!(
                "a read of {at} at {level:?} misses write {write}, which all have as {:?}: {}",
                self.values(*write),
                self.tell()
            )),
            None => Ok(()),
        }
    }

    fn sees(&self, at: usize, write: usize) -> bool {
        self.nodes[at].replica.value(&key(write)) == Some(1)
    }

    /// A session reads at a replica that covers its token, and perhaps writes.
    fn visit(&mut self, at: usize) -> Result<(), String> {
        let session = self.random.index(self.own.sessions.len());
        let it = &self.own.sessions[session];
        let replica = &self.nodes[at].replica;
        if replica.consistency().holds(it.token.vector()) {
            self.own.metrics.sessions += 1;
            let mut seen = it.seen.iter();
            if let Some(write) = seen.find(|write| !self.sees(at, **write)) {
                return Err(format!(
                    "session {session} went back at {at}: it misses write {write} with {:?}: {}",
                    it.token.vector(),
                    self.tell()
                ));
            }
            if let Ok(token) = replica.consistency().token(&it.token) {
                let seen = (0..self.own.writes).filter(|it| replica.value(&key(*it)).is_some());
                let seen: BTreeSet<usize> = seen.collect();
                self.note(|| format!("session {session} reads at {at}: {token:?}"));
                self.own.sessions[session] = Session { token, seen };
            }
        }
        match self.random.chance(400) {
            true => self.write_in(session, at),
            false => Ok(()),
        }
    }

    /// A session writes.
    fn write_in(&mut self, session: usize, at: usize) -> Result<(), String> {
        let Session { token, mut seen } = self.own.sessions[session].clone();
        if self.nodes[at]
            .replica
            .consistency()
            .room_in_token(&token)
            .is_err()
        {
            return Ok(());
        }
        let Some(write) = self.add(at) else {
            return Ok(());
        };
        let token = self.nodes[at].replica.consistency().token(&token);
        let token = token.map_err(|error| format!("there was room: {error}"))?;
        self.note(|| format!("session {session} writes {write} at {at}: {token:?}"));
        seen.insert(write);
        self.when_written(at, Event::Wrote(session, Session { token, seen }));
        self.changed(at)
    }

    /// A member proposes one member more or less, as a node does, or several. Others may propose at the same
    /// time.
    fn propose(&mut self, at: usize) -> Result<(), String> {
        let present = self.nodes[at].replica.members().configuration();
        let before = present.map_or(vec![], |it| it.members.clone());
        let mut owners = before.clone();
        let other = owner(self.random.index(NODES));
        if self.random.chance(500) {
            owners = (0..NODES).map(owner).collect();
            owners.retain(|_| self.random.chance(500));
            // A change that replaces most members at once may lose changes that only those had.
            let stay = before.iter().filter(|it| owners.contains(it)).count();
            if 2 * stay <= before.len() || 2 * stay <= owners.len() {
                return Ok(());
            }
        } else if let Some(at) = owners.iter().position(|it| *it == other) {
            owners.remove(at);
        } else {
            owners.push(other);
        }
        let replica = &mut self.nodes[at].replica;
        if owners.is_empty() || replica.members_mut().propose(&owners).is_err() {
            return Ok(());
        }
        let named: Vec<u8> = owners.iter().map(|owner| owner[0]).collect();
        self.note(|| format!("{at} proposes {named:?}"));
        self.changed(at)
    }

    fn values(&self, write: usize) -> Vec<Option<i128>> {
        let nodes = self.nodes.iter();
        nodes.map(|it| it.replica.value(&key(write))).collect()
    }
}

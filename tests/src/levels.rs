//! Levels of consistency over the sync machine: members and guests that write, read and ask how far
//! that is held, while members are added and taken out, two at a time if it comes so, over links that
//! lose, repeat and reorder, through partitions and restarts.
//!
//! Each write is a counter of its own, so that a read tells which of them it sees.

use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use tallymesh_core::{
    Configuration, Input, Level, Link, Mark, Message, Output, Owner, Question, Replica, Space,
    Sync, SyncConfig, Token, VersionVector, WriterId,
};

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Writes made.
    pub writes: u64,
    /// Of them, those that reached the level that was asked for.
    pub reached: u64,
    /// Reads at a level that were asked for.
    pub reads: u64,
    /// Of them, those that reached it.
    pub read: u64,
    /// Of them, those that began under another configuration than they ended under.
    pub moved: u64,
    /// Reads with a token that could be given at once.
    pub sessions: u64,
    /// Configurations that were decided.
    pub configurations: u64,
    /// Processes that ended and began again.
    pub restarts: u64,
    /// Replicas that went on under another writer.
    pub renewals: u64,
}

impl Figures {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Figures) {
        self.writes += other.writes;
        self.reached += other.reached;
        self.reads += other.reads;
        self.read += other.read;
        self.moved += other.moved;
        self.sessions += other.sessions;
        self.configurations += other.configurations;
        self.restarts += other.restarts;
        self.renewals += other.renewals;
    }
}

/// A write or a read that waits.
struct Wait {
    at: usize,
    question: Question,
    level: Level,
    /// The write's number.
    write: Option<usize>,
    /// How many writes had reached their level when the read began.
    expected: usize,
    /// The configuration that was known then.
    began: (u64, u64),
    until: u64,
}

struct Peer {
    replica: Replica,
    sync: Sync,
    mark: Mark,
    /// What its store keeps.
    log: Vec<Vec<u8>>,
    owner: Owner,
    started: u64,
}

/// A client that goes from replica to replica with a token.
#[derive(Default)]
struct Session {
    token: Token,
    /// The writes that it made or read.
    seen: BTreeSet<usize>,
}

/// A frame under way: when it arrives, from whom, to whom, on which link.
type Flight = (u64, [usize; 2], Link, Vec<u8>);

struct World {
    random: Random,
    traced: bool,
    now: u64,
    peers: Vec<Peer>,
    links: BTreeMap<Link, [usize; 2]>,
    flights: Vec<Flight>,
    next_link: u32,
    loss: u64,
    /// Who is on which side of a partition.
    sides: Vec<bool>,
    waits: Vec<Wait>,
    writes: usize,
    /// The writes that reached their level, in order.
    reached: Vec<usize>,
    sessions: Vec<Session>,
    decided: BTreeMap<(u64, u64), Configuration>,
    figures: Figures,
}

const STEP_MS: u64 = 10;
/// Nodes that may be members.
const NODES: usize = 5;
/// How long is waited for a level, in milliseconds.
const PATIENCE_MS: u64 = 3_000;

/// Plays one seed.
///
/// # Errors
/// Says what went wrong.
pub fn run(seed: u64, traced: bool) -> Result<Figures, String> {
    let mut random = Random::new(seed ^ 0x1e7e1);
    let loss = *random.pick(&[0, 50, 200]);
    let mut world = World {
        random,
        traced,
        now: 0,
        peers: Vec::new(),
        links: BTreeMap::new(),
        flights: Vec::new(),
        next_link: 0,
        loss,
        sides: vec![false; NODES],
        waits: Vec::new(),
        writes: 0,
        reached: Vec::new(),
        sessions: (0..3).map(|_| Session::default()).collect(),
        decided: BTreeMap::new(),
        figures: Figures::default(),
    };
    let played = world.play();
    played.map_err(|error| format!("seed {seed}: {error}"))?;
    world.figures.configurations = world.decided.len() as u64;
    Ok(world.figures)
}

fn key(write: usize) -> String {
    format!("w{write}")
}

impl World {
    fn play(&mut self) -> Result<(), String> {
        let owners: Vec<Owner> = (1..=NODES as u8).map(|at| [at; 32]).collect();
        for owner in &owners {
            self.start(*owner);
        }
        let nonce = self.random.bytes();
        let writer = WriterId::mint(&Space::default(), &owners[0], &nonce);
        self.peers[0].replica = Replica::new(Space::default(), writer);
        for a in 0..NODES {
            for b in a + 1..NODES {
                self.connect(a, b);
            }
        }
        let first = &mut self.peers[0].replica;
        let founded = first.found(&owners[0], &nonce, 1);
        founded.map_err(|error| error.to_string())?;
        let members = self.random.range(1, 4) as usize;
        let proposed = self.peers[0].replica.propose_members(&owners[..members]);
        proposed.map_err(|error| error.to_string())?;
        self.handle(0, Input::Changed);
        for _ in 0..self.random.range(0, 300) {
            self.step()?;
        }
        for _ in 0..self.random.range(100, 900) {
            self.event()?;
            self.step()?;
        }
        // What is left is waited for.
        self.sides.fill(false);
        self.loss = 0;
        for _ in 0..PATIENCE_MS / STEP_MS {
            self.step()?;
        }
        Ok(())
    }

    fn start(&mut self, owner: Owner) -> usize {
        let nonce = self.random.bytes();
        let writer = WriterId::mint(&Space::default(), &owner, &nonce);
        let config = SyncConfig {
            interval_ms: 500,
            pull_timeout_ms: 400,
            lease_ms: 3_000,
            owner: Some(owner),
            ..SyncConfig::default()
        };
        self.peers.push(Peer {
            replica: Replica::new(Space::default(), writer),
            sync: Sync::new(config, self.random.next_u64()),
            mark: Mark::default(),
            log: Vec::new(),
            owner,
            started: self.now,
        });
        self.peers.len() - 1
    }

    fn connect(&mut self, a: usize, b: usize) {
        let link = Link(self.next_link);
        self.next_link += 1;
        self.links.insert(link, [a, b]);
        for at in [a, b] {
            let broadcast = false;
            self.handle(at, Input::Connected { link, broadcast });
        }
    }

    /// Hands something in, makes durable what changed, and does what is to be done.
    fn handle(&mut self, at: usize, input: Input<'_>) {
        self.take_part(at);
        let peer = &mut self.peers[at];
        peer.sync.handle(self.now, &mut peer.replica, input);
        self.keep(at);
        while let Some(output) = self.peers[at].sync.poll() {
            match output {
                Output::Send { link, bytes } => self.send(at, link, bytes),
                Output::Renew => {
                    self.figures.renewals += 1;
                    let nonce: [u8; 16] = self.random.bytes();
                    let peer = &mut self.peers[at];
                    let writer = WriterId::mint(&Space::default(), &peer.owner, &nonce);
                    peer.sync
                        .handle(self.now, &mut peer.replica, Input::Renew { writer });
                    self.keep(at);
                    self.trace(|| format!("{at} goes on as {writer}"));
                }
                Output::Refused { close, error } => {
                    self.trace(|| format!("{at} refuses, closes {close:?}: {error}"));
                }
                _ => {}
            }
        }
    }

    fn trace(&self, text: impl FnOnce() -> String) {
        if self.traced {
            eprintln!("{} {}", self.now, text());
        }
    }

    /// Stores what is new.
    fn keep(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        if let Some(message) = peer.replica.since(&mut peer.mark) {
            if message.is_whole() {
                peer.log.clear();
            }
            peer.log.push(message.encode_stored());
        }
    }

    fn send(&mut self, from: usize, link: Link, bytes: Vec<u8>) {
        let Some(ends) = self.links.get(&link) else {
            return;
        };
        let to = ends[usize::from(ends[0] == from)];
        let hello = bytes[3] == 1;
        for _ in 0..1 + u64::from(self.random.chance(self.loss / 4)) {
            // The first frames of a link are not lost: a connection is made or it is not.
            if hello || !self.random.chance(self.loss) {
                let late = match hello {
                    true => 0,
                    false => 1 + self.random.below(2 + self.loss / 2),
                };
                let flight = (self.now + late, [from, to], link, bytes.clone());
                self.flights.push(flight);
            }
        }
    }

    fn step(&mut self) -> Result<(), String> {
        self.now += STEP_MS;
        let mut due: Vec<Flight> = self.flights.extract_if(.., |it| it.0 <= self.now).collect();
        due.sort_by_key(|it| it.0);
        for (_, [from, to], link, bytes) in due {
            let parted = self.sides[from] != self.sides[to] && bytes[3] != 1;
            if self.links.contains_key(&link) && !parted {
                let bytes = &bytes;
                self.handle(to, Input::Frame { link, bytes });
                self.look(to)?;
            }
        }
        for at in 0..NODES {
            self.handle(at, Input::Tick);
            self.look(at)?;
            if (self.now + 70 * at as u64) % 300 < STEP_MS {
                self.tend(at)?;
                self.look(at)?;
            }
        }
        Ok(())
    }

    fn tend(&mut self, at: usize) -> Result<(), String> {
        let peer = &mut self.peers[at];
        let tended = peer.sync.tend(self.now, &mut peer.replica, &peer.mark);
        tended.map_err(|error| format!("{at} tends: {error}"))?;
        self.handle(at, Input::Changed);
        Ok(())
    }

    /// Announces a member's start, as a node does.
    fn take_part(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        if peer.replica.is_announced() {
            return;
        }
        let late = peer.started + 5_000 <= self.now;
        if !late && !peer.sync.has_caught_up(&peer.replica) {
            return;
        }
        let members = peer.replica.configuration();
        if members.is_some_and(|members| members.has(&peer.owner)) {
            let announced = peer.replica.announce(&peer.owner, &[0; 16], self.now);
            announced.expect("it is a member");
            peer.sync
                .handle(self.now, &mut peer.replica, Input::Changed);
            self.keep(at);
        }
    }

    fn event(&mut self) -> Result<(), String> {
        let at = self.random.index(NODES);
        match self.random.below(60) {
            0..9 => self.write(at),
            9..18 => self.read(at),
            18..26 => self.visit(at)?,
            26 if self.random.chance(600) => self.propose(at),
            27 if self.random.chance(300) => {
                // Sometimes a majority at once, as when a machine room goes dark.
                let most = *self.random.pick(&[1, 1, 2, 3]);
                (0..most).for_each(|next| self.restart((at + next) % NODES));
            }
            28 if self.random.chance(400) => {
                let side = self.random.next_u64();
                self.sides = (0..NODES).map(|at| side >> at & 1 == 1).collect();
                self.trace(|| format!("sides {:?}", self.sides));
            }
            29 | 30 => self.sides.fill(false),
            _ => {}
        }
        Ok(())
    }

    fn level(&mut self) -> Level {
        *self
            .random
            .pick(&[Level::Quorum, Level::Quorum, Level::All])
    }

    fn number(&self, at: usize) -> Option<(u64, u64)> {
        let present = self.peers[at].replica.configuration();
        present.map(|it| (it.era, it.number))
    }

    /// Somebody writes; the number of the write.
    fn add(&mut self, at: usize) -> Option<usize> {
        // Who comes back may put it aside for a while: nobody is told that it was done.
        let write = self.writes;
        self.peers[at].replica.add(&key(write), 1).ok()?;
        self.writes += 1;
        self.figures.writes += 1;
        Some(write)
    }

    fn write(&mut self, at: usize) {
        let (Some(began), level) = (self.number(at), self.level()) else {
            return;
        };
        let Some(write) = self.add(at) else {
            return;
        };
        let peer = &mut self.peers[at];
        let upto = peer.replica.written();
        let question = peer
            .sync
            .ask_for_write(self.now, &peer.replica, level, upto);
        self.trace(|| {
            let upto = self.peers[at].replica.written();
            format!("{at} writes {write} at {level:?} under {began:?}: {upto:?}")
        });
        self.waits.push(Wait {
            at,
            question,
            level,
            write: Some(write),
            expected: 0,
            began,
            until: self.now + PATIENCE_MS,
        });
        self.handle(at, Input::Changed);
    }

    fn read(&mut self, at: usize) {
        let (Some(began), level) = (self.number(at), self.level()) else {
            return;
        };
        let peer = &mut self.peers[at];
        let question = peer.sync.ask_for_read(self.now, &peer.replica, level);
        self.figures.reads += 1;
        self.trace(|| format!("{at} reads at {level:?} under {began:?}"));
        self.waits.push(Wait {
            at,
            question,
            level,
            write: None,
            expected: self.reached.len(),
            began,
            until: self.now + PATIENCE_MS,
        });
        self.handle(at, Input::Tick);
    }

    /// Ends what waits at a replica and has come far enough, or waited for long enough.
    fn look(&mut self, at: usize) -> Result<(), String> {
        if let Some(present) = self.peers[at].replica.configuration() {
            let number = (present.era, present.number);
            let known = self
                .decided
                .entry(number)
                .or_insert_with(|| present.clone());
            if known != present {
                return Err(format!("{at} has {present:?}, others {known:?}"));
            }
        }
        let mut index = 0;
        while let Some(wait) = self.waits.get(index) {
            if wait.at != at {
                index += 1;
                continue;
            }
            let peer = &mut self.peers[at];
            let reach = peer.sync.reach(&peer.replica, wait.question);
            let done = reach.is_some_and(|it| it.is_reached());
            if !done && wait.until > self.now {
                index += 1;
                continue;
            }
            let wait = self.waits.remove(index);
            self.peers[at].sync.end_question(wait.question);
            if done {
                self.done(&wait)?;
            }
        }
        Ok(())
    }

    fn done(&mut self, wait: &Wait) -> Result<(), String> {
        let (at, present) = (wait.at, self.number(wait.at));
        let level = wait.level;
        self.figures.moved += u64::from(present != Some(wait.began));
        if let Some(write) = wait.write {
            self.figures.reached += 1;
            self.reached.push(write);
            self.trace(|| format!("write {write} of {at} reached {level:?} under {present:?}"));
            return Ok(());
        }
        self.figures.read += 1;
        self.trace(|| format!("{at} has read at {level:?} under {present:?}"));
        let replica = &self.peers[at].replica;
        let missed = self.reached[..wait.expected]
            .iter()
            .find(|write| replica.value(&key(**write)) != Some(1));
        match missed {
            Some(write) => Err(format!(
                "{} a read of {at} at {level:?} misses write {write}, which all have as {:?}: {}",
                self.now,
                self.values(*write),
                self.tell()
            )),
            None => Ok(()),
        }
    }

    /// A session reads at a replica if its token is covered there, and perhaps writes.
    fn visit(&mut self, at: usize) -> Result<(), String> {
        let session = self.random.index(self.sessions.len());
        let replica = &self.peers[at].replica;
        let it = &self.sessions[session];
        if replica.holds(it.token.vector()) {
            self.figures.sessions += 1;
            let missed = it
                .seen
                .iter()
                .find(|write| replica.value(&key(**write)) != Some(1));
            if let Some(write) = missed {
                return Err(format!(
                    "{} session {session} went back at {at}: it misses write {write} with {:?}: {}",
                    self.now,
                    it.token.vector(),
                    self.tell()
                ));
            }
            let seen = (0..self.writes).filter(|write| replica.value(&key(*write)).is_some());
            let seen: BTreeSet<usize> = seen.collect();
            if let Ok(token) = replica.token(&it.token) {
                self.trace(|| {
                    format!("session {session} reads at {at}: {token:?} {}", self.tell())
                });
                self.sessions[session] = Session { token, seen };
            }
        }
        if self.random.chance(400) {
            let token = self.sessions[session].token.clone();
            if self.peers[at].replica.room_in_token(&token).is_err() {
                return Ok(());
            }
            if let Some(write) = self.add(at) {
                let token = self.peers[at].replica.token(&token);
                let token = token.map_err(|error| format!("there was room: {error}"))?;
                self.trace(|| format!("session {session} writes {write} at {at}: {token:?}"));
                self.sessions[session].token = token;
                self.sessions[session].seen.insert(write);
                self.handle(at, Input::Changed);
            }
        }
        Ok(())
    }

    /// Somebody proposes one member more or less, as a node does, or several. Others may do so at
    /// the same time.
    fn propose(&mut self, at: usize) {
        let replica = &self.peers[at].replica;
        let mut owners = replica
            .configuration()
            .map_or(vec![], |it| it.members.clone());
        let owner = self.peers[self.random.index(NODES)].owner;
        let before = owners.clone();
        if self.random.chance(500) {
            owners = self.peers.iter().map(|peer| peer.owner).collect();
            owners.retain(|_| self.random.chance(500));
            // Who replaces most members at once may lose what only those held.
            let stay = before.iter().filter(|it| owners.contains(it)).count();
            if 2 * stay <= before.len() || 2 * stay <= owners.len() {
                return;
            }
        } else if let Some(at) = owners.iter().position(|it| *it == owner) {
            owners.remove(at);
        } else {
            owners.push(owner);
        }
        if owners.is_empty() || self.peers[at].replica.propose_members(&owners).is_err() {
            return;
        }
        let named: Vec<u8> = owners.iter().map(|owner| owner[0]).collect();
        self.trace(|| format!("{at} proposes {named:?}"));
        self.handle(at, Input::Changed);
    }

    /// A process is ended, and another begins from what it had stored.
    fn restart(&mut self, at: usize) {
        self.figures.restarts += 1;
        self.waits.retain(|wait| wait.at != at);
        let links = self.links.iter().filter(|it| it.1.contains(&at));
        let links: Vec<(Link, [usize; 2])> = links.map(|it| (*it.0, *it.1)).collect();
        for (link, ends) in &links {
            self.links.remove(link);
            let other = ends[usize::from(ends[0] == at)];
            self.handle(other, Input::Disconnected { link: *link });
        }
        let log = core::mem::take(&mut self.peers[at].log);
        let fresh = self.start(self.peers[at].owner);
        let mut fresh = self.peers.swap_remove(fresh);
        for record in &log {
            let message = Message::decode_stored(record).expect("a record of ours decodes");
            fresh
                .replica
                .restore(&message)
                .expect("all before it was kept");
        }
        fresh.replica.since(&mut fresh.mark);
        fresh.log = log;
        self.trace(|| format!("{at} begins again as {}", fresh.replica.writer()));
        self.peers[at] = fresh;
        for (_, ends) in links {
            self.connect(ends[0], ends[1]);
        }
    }

    fn values(&self, write: usize) -> Vec<Option<i128>> {
        let peers = self.peers.iter();
        peers.map(|peer| peer.replica.value(&key(write))).collect()
    }

    fn tell(&self) -> String {
        let mut text = String::new();
        for (at, peer) in self.peers.iter().enumerate() {
            let replica = &peer.replica;
            let vector: VersionVector = replica.vector();
            let held = vector
                .iter()
                .map(|(writer, clock)| format!("{}@{clock}", &writer.to_string()[..4]));
            let held: Vec<String> = held.collect();
            let present = replica.configuration();
            let owners = present.map(|it| it.members.iter().map(|it| it[0]).collect::<Vec<u8>>());
            text += &format!(
                "\n{at} {} member {} of {:?} {owners:?}: {held:?}",
                &replica.writer().to_string()[..4],
                replica.is_member(),
                self.number(at),
            );
        }
        text
    }
}
